package fleeting

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"go.uber.org/goleak"
)

// A simulated Scaleway, as a process of its own.
type simulator struct {
	t   testing.TB
	url string
}

func startSimulator(t testing.TB, arguments ...string) *simulator {
	t.Helper()
	url, end, err := runSimulator(program(t, "WINDLASS_SIMULATOR"), arguments...)
	require.NoError(t, err)
	t.Cleanup(end)
	return &simulator{t: t, url: url}
}

func runSimulator(binary string, arguments ...string) (url string, end func(), err error) {
	command := exec.Command(binary, append([]string{"--listen", "127.0.0.1:0"}, arguments...)...)
	command.Stderr = os.Stderr
	endsWithUs(command)
	output, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		end()
		return "", nil, err
	}
	return strings.TrimSpace(line), end, nil
}

// Has a process killed when this one ends without its cleanups, after a panic or a timeout for example. The plugins
// need no such help: they leave when their host is gone.
func endsWithUs(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Without the default's limit of 30 seconds for a connection.
var client = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}

// Makes a call. For goroutines beside a test, which must not end it; the test itself uses call.
func (s *simulator) try(ctx context.Context, method, path string, body, answer any) error {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, reader)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Auth-Token", secretKey)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: %w: %s", method, path, err, text)
	}
	return nil
}

func (s *simulator) call(method, path string, body, answer any) {
	s.t.Helper()
	require.NoError(s.t, s.try(s.t.Context(), method, path, body, answer))
}

type address struct {
	Address string `json:"address"`
	Family  string `json:"family"`
}

type server struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Zone      string    `json:"zone"`
	State     string    `json:"state"`
	Tags      []string  `json:"tags"`
	PublicIPs []address `json:"public_ips"`
}

type thing struct {
	ID   string   `json:"id"`
	Tags []string `json:"tags"`
}

type resources struct {
	Servers     []server `json:"servers"`
	IPs         []thing  `json:"ips"`
	Volumes     []thing  `json:"volumes"`
	PrivateNICs []thing  `json:"private_nics"`
	SSHKeys     []thing  `json:"ssh_keys"`
}

func (s *simulator) resources() resources {
	s.t.Helper()
	var all resources
	s.call("GET", "/_simulator/resources", nil, &all)
	return all
}

func (r resources) count() int {
	return len(r.Servers) + len(r.IPs) + len(r.Volumes) + len(r.PrivateNICs) + len(r.SSHKeys)
}

func (s *simulator) servers() []server { return s.resources().Servers }

// Whether nothing exists.
func (s *simulator) empty() bool { return s.resources().count() == 0 }

type request struct {
	Sequence int     `json:"sequence"`
	At       float64 `json:"at_ms"`
	Method   string  `json:"method"`
	Path     string  `json:"path"`
	// 0 until the cloud has done what was asked.
	Status int `json:"status"`
	// The fault that the request met.
	Fault string `json:"fault"`
}

func (s *simulator) requests() []request {
	s.t.Helper()
	var answer struct {
		Requests []request `json:"requests"`
	}
	var raw json.RawMessage
	s.call("GET", "/_simulator/requests", nil, &raw)
	if json.Unmarshal(raw, &answer) != nil || answer.Requests == nil {
		var list []request
		require.NoError(s.t, json.Unmarshal(raw, &list))
		return list
	}
	return answer.Requests
}

func (s *simulator) forgetRequests() { s.call("DELETE", "/_simulator/requests", nil, nil) }

type fault struct {
	// Empty: any.
	Method string `json:"method,omitempty"`
	Path   string `json:"path"`
	Nth    int    `json:"nth,omitempty"`
	Kind   string `json:"kind"`
	Effect string `json:"effect"`
}

func (s *simulator) fault(f fault) { s.call("POST", "/_simulator/faults", f, nil) }

// How many requests have met a fault.
func (s *simulator) faultsApplied() int {
	s.t.Helper()
	var faults []struct {
		Applied int `json:"applied"`
	}
	s.call("GET", "/_simulator/faults", nil, &faults)
	applied := 0
	for _, fault := range faults {
		applied += fault.Applied
	}
	return applied
}

// Whether the cloud has done what was asked of it and keeps the answer back, because of a fault.
func (s *simulator) holdsAnAnswer() bool {
	s.t.Helper()
	for _, request := range s.requests() {
		if strings.HasPrefix(request.Fault, "delay:") && request.Status != 0 {
			return true
		}
	}
	return false
}

func (s *simulator) forgetFaults() { s.call("DELETE", "/_simulator/faults", nil, nil) }

// What an owner does behind our back.
func (s *simulator) force(id, state string) {
	s.call("POST", fmt.Sprintf("/_simulator/servers/%s/state", id), map[string]string{"state": state}, nil)
}

const secretKey = "11111111-2222-4333-8444-555555555555"
const project = "22222222-2222-4333-8444-555555555555"

// The configuration of a group on this simulator.
func (s *simulator) config(t testing.TB, changes map[string]any) map[string]any {
	config := map[string]any{
		"name":                 "ci",
		"secret_key":           secretKey,
		"project":              project,
		"endpoint":             s.url,
		"zone":                 "fr-par-1",
		"server_type":          []string{"DEV1-S"},
		"image":                "ubuntu_noble",
		"public_ipv6_disabled": true,
		"state_dir":            t.TempDir(),
	}
	for key, value := range changes {
		config[key] = value
	}
	if name, ok := config["name"].(string); ok && changes["state_dir"] == nil {
		giveCompiledPolicies(t, filepath.Join(config["state_dir"].(string), "fleeting", name))
	}
	return config
}

// The folder of a group that has been started once: its policies are compiled. Each first start would compile them
// anew, which takes more than most tests here.
var compiled = sync.OnceValues(func() (string, error) {
	state, err := os.MkdirTemp("", "windlass-fleeting-go-")
	if err != nil {
		return "", err
	}
	compiledState.Store(state)
	url, end, err := runSimulator(os.Getenv("WINDLASS_SIMULATOR"))
	if err != nil {
		return state, err
	}
	defer end()
	config, err := json.Marshal(map[string]any{
		"name": "ci", "secret_key": secretKey, "project": project, "endpoint": url, "zone": "fr-par-1",
		"server_type": "DEV1-S", "image": "ubuntu_noble", "state_dir": state,
	})
	if err != nil {
		return state, err
	}
	log := hclog.NewNullLogger()
	process, err := fleeting.RunPlugin(os.Getenv("WINDLASS_FLEETING_PLUGIN"), config, fleeting.WithPluginLogger(log))
	if err != nil {
		return state, err
	}
	defer process.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err = process.InstanceGroup().Init(ctx, log, provider.Settings{})
	return state, err
})

func giveCompiledPolicies(t testing.TB, folder string) {
	t.Helper()
	if os.Getenv("WINDLASS_FLEETING_PLUGIN") == "" {
		return
	}
	state, err := compiled()
	require.NoError(t, err)
	group := filepath.Join(state, "fleeting", "ci")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "cache"), 0o700))
	files, err := filepath.Glob(filepath.Join(group, "cache", "*"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(group, "cache.key")) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		below, err := filepath.Rel(group, file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, below), content, 0o600))
	}
}

// The folder above, once it is there.
var compiledState atomic.Value

func TestMain(m *testing.M) {
	code := m.Run()
	if state, ok := compiledState.Load().(string); ok {
		_ = os.RemoveAll(state)
	}
	if code == 0 {
		if err := goroutinesLeft(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// What still runs when all tests have ended. Fleeting's loop looks whether it was shut down once in its update
// interval, which is a minute in fleeting's own test; nothing else may take any time.
func goroutinesLeft() (err error) {
	// Each look tries again for about half a second.
	for range 5 * 60 {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

// Runs work on a goroutine of its own and waits for it when the test ends, before what the test started earlier is
// ended. The work ends when its context does. It may call t.Error, but nothing that ends the test.
func beside(t testing.TB, work func(ctx context.Context)) {
	var running sync.WaitGroup
	// The test's context ends before its cleanups begin.
	t.Cleanup(running.Wait)
	running.Go(func() { work(t.Context()) })
}

func encoded(t testing.TB, config map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(config)
	require.NoError(t, err)
	return text
}

// Far more than anything here takes, also on a busy machine: what has not come by then never will.
const waitLimit = 5 * time.Minute

const pollInterval = 50 * time.Millisecond

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	eventuallyEvery(t, pollInterval, what, condition)
}

// Looks so often as fits into the limit, whatever the clock says meanwhile: a machine may stand still for minutes.
func eventuallyEvery(t testing.TB, interval time.Duration, what string, condition func() bool) {
	t.Helper()
	for range waitLimit / interval {
		if condition() {
			return
		}
		time.Sleep(interval)
	}
	t.Fatalf("not within %v: %s", waitLimit, what)
}

// A bound on time, only where WINDLASS_MEASURE says that the machine is quiet and the binaries are optimised.
func budget(limit time.Duration) time.Duration {
	if os.Getenv("WINDLASS_MEASURE") == "" {
		return waitLimit
	}
	return limit
}
