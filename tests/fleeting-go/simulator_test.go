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
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// A simulated Scaleway, as a process of its own.
type simulator struct {
	t   testing.TB
	url string
}

func startSimulator(t testing.TB, arguments ...string) *simulator {
	t.Helper()
	binary := program(t, "WINDLASS_SIMULATOR")
	command := exec.Command(binary, append([]string{"--listen", "127.0.0.1:0"}, arguments...)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return &simulator{t: t, url: strings.TrimSpace(line)}
}

func (s *simulator) call(method, path string, body, answer any) {
	s.t.Helper()
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(s.t, err)
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, s.url+path, reader)
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Auth-Token", secretKey)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Less(s.t, response.StatusCode, 300, "%s %s: %s", method, path, text)
	if answer != nil {
		require.NoError(s.t, json.Unmarshal(text, answer), "%s", text)
	}
}

type address struct {
	Address string `json:"address"`
	Family  string `json:"family"`
}

type server struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
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
	Status   int     `json:"status"`
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

// Whether nobody has called for a second: no operation is under way.
func (s *simulator) quiet() bool {
	before := len(s.requests())
	time.Sleep(time.Second)
	return len(s.requests()) == before
}

func (s *simulator) forgetRequests() { s.call("DELETE", "/_simulator/requests", nil, nil) }

type fault struct {
	Method string `json:"method"`
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

// The folder of a group that has been started once: its policies are compiled. Each first start would compile them anew,
// which takes more than most tests here.
var compiled = sync.OnceValues(func() (string, error) {
	state, err := os.MkdirTemp("", "windlass-fleeting-go-")
	if err != nil {
		return "", err
	}
	compiledState.Store(state)
	command := exec.Command(os.Getenv("WINDLASS_SIMULATOR"), "--listen", "127.0.0.1:0")
	output, err := command.StdoutPipe()
	if err != nil {
		return state, err
	}
	if err := command.Start(); err != nil {
		return state, err
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return state, err
	}
	config, err := json.Marshal(map[string]any{
		"name": "ci", "secret_key": secretKey, "project": project, "endpoint": strings.TrimSpace(line), "zone": "fr-par-1",
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
	_, err = process.InstanceGroup().Init(context.Background(), log, provider.Settings{})
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
	os.Exit(code)
}

func encoded(t testing.TB, config map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(config)
	require.NoError(t, err)
	return text
}

func eventually(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A bound on time, only where WINDLASS_MEASURE says that the machine is quiet and the binaries are optimised.
func budget(limit time.Duration) time.Duration {
	if os.Getenv("WINDLASS_MEASURE") == "" {
		return time.Minute
	}
	return limit
}
