package fleeting

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// A program given by an environment variable; the test is skipped, visibly, when it is not.
func program(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("SKIPPED: %s names no program", variable)
	}
	absolute, err := filepath.Abs(path)
	require.NoError(t, err)
	return absolute
}

// What is written while others read it.
type lockedBuffer struct {
	lock  sync.Mutex
	bytes bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.bytes.Write(p)
}

func (b *lockedBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.bytes.String()
}

// The host's log, kept to be looked at.
func keptLog() (hclog.Logger, *lockedBuffer) {
	buffer := new(lockedBuffer)
	return hclog.New(&hclog.LoggerOptions{Name: "host", Level: hclog.Trace, Output: buffer, JSONFormat: true}), buffer
}

// A loop whose updates follow one another quickly: a second of it is half a minute of a runner's. Not more quickly, since each
// update is a listing, and the client's own limit of calls a second is for creations, too.
var quick = []fleeting.Option{
	fleeting.WithUpdateInterval(150 * time.Millisecond),
	fleeting.WithUpdateIntervalWhenExpecting(100 * time.Millisecond),
	fleeting.WithDeletionRetryInterval(500 * time.Millisecond),
}

// For many groups at the same time.
var calm = []fleeting.Option{
	fleeting.WithUpdateInterval(500 * time.Millisecond),
	fleeting.WithUpdateIntervalWhenExpecting(250 * time.Millisecond),
	fleeting.WithDeletionRetryInterval(time.Second),
}

func TestTheRealProvisionerScalesAGroupUpAndDown(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	runner, err := fleeting.RunPlugin(binary, []byte(`{"max_size": 8}`))
	require.NoError(t, err)
	defer runner.Kill()

	options := append([]fleeting.Option{
		fleeting.WithMaxSize(5),
		fleeting.WithInstanceGroupSettings(provider.Settings{ConnectorConfig: provider.ConnectorConfig{
			Username: "someone", Password: "word", Key: nil, UseStaticCredentials: true, ProtocolPort: 2222,
		}}),
	}, quick...)
	provisioner, err := fleeting.Init(context.Background(), nil, runner.InstanceGroup(), options...)
	require.NoError(t, err)
	defer provisioner.Shutdown(context.Background())

	provisioner.Request(5)
	require.Eventually(t, func() bool { return provisioner.Capacity().Running == 5 }, 10*time.Second, 10*time.Millisecond)
	require.Zero(t, provisioner.Capacity().Pending)

	for _, instance := range provisioner.Instances() {
		require.Equal(t, fleeting.CauseRequested, instance.Cause())
		info, err := instance.ConnectInfo(context.Background())
		require.NoError(t, err)
		require.Equal(t, "someone", info.Username)
		require.Equal(t, "word", info.Password)
		require.Equal(t, 2222, info.ProtocolPort)
		require.Equal(t, "192.0.2.1", info.ExternalAddr)
		require.Equal(t, "10.0.0.1", info.InternalAddr)
		require.NotNil(t, info.Expires)
		require.NoError(t, instance.Heartbeat(context.Background()))
		instance.Delete()
	}
	require.Eventually(t, func() bool { return len(provisioner.Instances()) == 0 }, 10*time.Second, 10*time.Millisecond)
}

func TestAPartialSuspensionIsUnderstood(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	runner, err := fleeting.RunPlugin(binary, []byte(`{}`))
	require.NoError(t, err)
	defer runner.Kill()
	group := runner.InstanceGroup()
	_, err = group.Init(context.Background(), hclog.NewNullLogger(), provider.Settings{})
	require.NoError(t, err)
	_, err = group.Increase(context.Background(), 3)
	require.NoError(t, err)

	succeeded, err := group.Suspend(context.Background(), []string{"memory-1", "memory-2", "memory-3"})
	require.ErrorContains(t, err, "not possible for memory-2")
	require.Equal(t, []string{"memory-1", "memory-3"}, succeeded)

	states := map[string]provider.State{}
	require.NoError(t, group.Update(context.Background(), func(id string, state provider.State) { states[id] = state }))
	require.Equal(t, map[string]provider.State{
		"memory-1": provider.StateSuspending, "memory-2": provider.StateCreating, "memory-3": provider.StateSuspending,
	}, states)
}

func TestAnErrorOfTheGroupIsAnAnswerAndNotABrokenTransport(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	runner, err := fleeting.RunPlugin(binary, []byte(`{"broken": "the cloud is closed"}`))
	require.NoError(t, err)
	defer runner.Kill()
	_, err = fleeting.Init(context.Background(), nil, runner.InstanceGroup(), quick...)
	require.ErrorContains(t, err, "the cloud is closed")
	require.NotContains(t, err.Error(), "Unimplemented")
	require.NotContains(t, err.Error(), "connection refused")
}

func TestAConfigurationThatIsNoJSONIsRefusedInWords(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	runner, err := fleeting.RunPlugin(binary, []byte(`{`))
	require.NoError(t, err)
	defer runner.Kill()
	_, err = runner.InstanceGroup().Init(context.Background(), hclog.NewNullLogger(), provider.Settings{})
	require.ErrorContains(t, err, "plugin_config")
}

// Fleeting's handshake, for HashiCorp's library alone.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  0,
	MagicCookieKey:   "FLEETING_INSTANCE_GROUP_PLUGIN",
	MagicCookieValue: "4c6410b1-cb78-4962-8c76-ab936d0ea908",
}

func TestHashiCorpsLibraryFindsHealthBrokerStdioAndController(t *testing.T) {
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	log, lines := keptLog()
	var stdout bytes.Buffer
	command := exec.Command(binary)
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]plugin.PluginSet{0: {}},
		Cmd:              command,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           log,
		SyncStdout:       &stdout,
	})
	rpc, err := client.Client()
	require.NoError(t, err)
	require.NoError(t, rpc.Ping())
	pid := command.Process.Pid

	begun := time.Now()
	client.Kill()
	require.Less(t, time.Since(begun), 2*time.Second)
	require.True(t, client.Exited())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.Zero(t, command.ProcessState.ExitCode(), "the plugin left by itself")
	require.NotContains(t, lines.String(), "stdio service not available")
	require.NotContains(t, lines.String(), "failed to exit gracefully")
	require.Empty(t, stdout.String())
}

func TestLogLinesReachTheHostWithTheirLevelAndFields(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	log, lines := keptLog()
	runner, err := fleeting.RunPlugin(binary, []byte(`{"max_size": 77}`), fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	_, err = runner.InstanceGroup().Init(context.Background(), log, provider.Settings{})
	require.NoError(t, err)
	runner.Kill()
	for scanner := bufio.NewScanner(strings.NewReader(lines.String())); scanner.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		if line["@message"] == "a group in memory" {
			require.Equal(t, "info", line["@level"])
			require.Equal(t, float64(77), line["max_size"])
			return
		}
	}
	t.Fatal("the plugin's line is not in the host's log")
}

// Starts the program as a host would and reads its first line.
func start(t *testing.T, binary string, environment ...string) (*exec.Cmd, string) {
	t.Helper()
	command := exec.Command(binary)
	command.Env = append(os.Environ(), environment...)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return command, strings.TrimSpace(line)
}

var cookie = handshake.MagicCookieKey + "=" + handshake.MagicCookieValue

func TestTheSocketIsPrivateAndGoesWithTheProcess(t *testing.T) {
	command, line := start(t, program(t, "WINDLASS_GROUP_IN_MEMORY"), cookie)
	parts := strings.Split(line, "|")
	require.Equal(t, []string{"1", "0", "unix", parts[3], "grpc", ""}, parts)
	info, err := os.Stat(filepath.Dir(parts[3]))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, command.Process.Signal(syscall.SIGINT))
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, command.Process.Signal(syscall.Signal(0)), "SIGINT is ignored")

	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, command.Wait())
	_, err = os.Stat(filepath.Dir(parts[3]))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAPluginWhoseHostWasKilledLeaves(t *testing.T) {
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	// The shell is the host: it starts the plugin, says its process id, and is killed.
	host := exec.Command("sh", "-c", `"$0" >/dev/null 2>&1 & echo $!; wait`, binary)
	host.Env = append(os.Environ(), cookie)
	output, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	var pid int
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(line)), &pid))
	// Long enough for the plugin to have looked who its parent is.
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	require.Eventually(t, func() bool {
		// Where nobody reaps it, the process stays as a zombie.
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(line) + "/stat")
		return errors.Is(err, os.ErrNotExist) || strings.Contains(string(state), ") Z ")
	}, 5*time.Second, 50*time.Millisecond)
}

func TestAProgramStartedByHandSaysWhatItIs(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	for _, refused := range []struct {
		environment []string
		words       string
	}{
		{nil, "does not run by itself"},
		{[]string{handshake.MagicCookieKey + "=other"}, "has a value that this plugin does not know"},
		{[]string{cookie, "PLUGIN_CLIENT_CERT=x"}, "mutual TLS"},
	} {
		command := exec.Command(binary)
		command.Env = append(os.Environ(), refused.environment...)
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		var exit *exec.ExitError
		require.ErrorAs(t, command.Run(), &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, stderr.String(), refused.words)
		require.Empty(t, stdout.String())
	}
}
