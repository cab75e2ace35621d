package fleeting

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// A loop whose updates follow one another quickly: a second of it is half a minute of a runner's. Not more quickly,
// since each update is a listing, and the client's own limit of calls a second is for creations, too.
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
	provisioner, err := fleeting.Init(t.Context(), nil, runner.InstanceGroup(), options...)
	require.NoError(t, err)
	defer provisioner.Shutdown(t.Context())

	provisioner.Request(5)
	eventually(t, "five run", func() bool { return provisioner.Capacity().Running == 5 })
	require.Zero(t, provisioner.Capacity().Pending)

	for _, instance := range provisioner.Instances() {
		require.Equal(t, fleeting.CauseRequested, instance.Cause())
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		require.Equal(t, "someone", info.Username)
		require.Equal(t, "word", info.Password)
		require.Equal(t, 2222, info.ProtocolPort)
		require.Equal(t, "192.0.2.1", info.ExternalAddr)
		require.Equal(t, "10.0.0.1", info.InternalAddr)
		require.NotNil(t, info.Expires)
		require.NoError(t, instance.Heartbeat(t.Context()))
		instance.Delete()
	}
	eventually(t, "all are gone", func() bool { return len(provisioner.Instances()) == 0 })
}

func TestAPartialSuspensionIsUnderstood(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	runner, err := fleeting.RunPlugin(binary, []byte(`{}`))
	require.NoError(t, err)
	defer runner.Kill()
	group := runner.InstanceGroup()
	_, err = group.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
	require.NoError(t, err)
	_, err = group.Increase(t.Context(), 3)
	require.NoError(t, err)

	succeeded, err := group.Suspend(t.Context(), []string{"memory-1", "memory-2", "memory-3"})
	require.ErrorContains(t, err, "not possible for memory-2")
	require.Equal(t, []string{"memory-1", "memory-3"}, succeeded)

	states := map[string]provider.State{}
	require.NoError(t, group.Update(t.Context(), func(id string, state provider.State) { states[id] = state }))
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
	_, err = fleeting.Init(t.Context(), nil, runner.InstanceGroup(), quick...)
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
	_, err = runner.InstanceGroup().Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
	require.ErrorContains(t, err, "plugin_config")
}

// Fleeting's handshake, for HashiCorp's library alone.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  0,
	MagicCookieKey:   "FLEETING_INSTANCE_GROUP_PLUGIN",
	MagicCookieValue: "4c6410b1-cb78-4962-8c76-ab936d0ea908",
}

func TestHashiCorpsLibraryFindsHealthBrokerStdioAndController(t *testing.T) {
	besideOthers(t)
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
	defer client.Kill()
	rpc, err := client.Client()
	require.NoError(t, err)
	require.NoError(t, rpc.Ping())
	pid := command.Process.Pid

	// What Kill begins with: it would kill the plugin after two seconds, which a busy machine may take.
	begun := time.Now()
	require.NoError(t, rpc.Close())
	eventually(t, "the plugin has left", client.Exited)
	require.Less(t, time.Since(begun), budget(2*time.Second))
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.Zero(t, command.ProcessState.ExitCode(), "the plugin left by itself")
	require.NotContains(t, lines.String(), "stdio service not available")
	require.Empty(t, stdout.String())
}

func TestLogLinesReachTheHostWithTheirLevelAndFields(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	log, lines := keptLog()
	runner, err := fleeting.RunPlugin(binary, []byte(`{"max_size": 77}`), fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	_, err = runner.InstanceGroup().Init(t.Context(), log, provider.Settings{})
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

// Starts a plugin as a host would and reads its first line.
func start(t *testing.T, binary string, environment ...string) (command *exec.Cmd, line string) {
	t.Helper()
	command = exec.Command(binary)
	command.Env = append(os.Environ(), environment...)
	endsWithUs(command)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return command, strings.TrimSpace(line)
}

var cookie = handshake.MagicCookieKey + "=" + handshake.MagicCookieValue

// As a service manager stops a host: every process of the group gets the signal, and the host may go on for hours.
func TestSignalsToTheWholeGroupDoNotEndThePluginWhileItsHostLives(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"WINDLASS_GROUP_IN_MEMORY", "WINDLASS_FLEETING_PLUGIN"} {
		log, lines := keptLog()
		command := exec.Command(program(t, variable))
		command.Env = append(os.Environ(), "WINDLASS_LOG=debug")
		// A group of its own, so that the signals do not reach this host.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		client := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig:  handshake,
			VersionedPlugins: map[int]plugin.PluginSet{0: {}},
			Cmd:              command,
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
			Logger:           log,
		})
		t.Cleanup(client.Kill)
		address, err := client.Start()
		require.NoError(t, err)
		folder := filepath.Dir(address.String())
		info, err := os.Stat(folder)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "the socket is private")
		rpc, err := client.Client()
		require.NoError(t, err)
		for name, signal := range map[string]syscall.Signal{
			"SIGTERM": syscall.SIGTERM, "SIGQUIT": syscall.SIGQUIT, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP,
		} {
			require.NoError(t, syscall.Kill(-command.Process.Pid, signal))
			eventually(t, name+" is heard", func() bool {
				require.False(t, client.Exited(), "%s ended the plugin", name)
				return strings.Contains(lines.String(), name+" ignored")
			})
			require.NoError(t, rpc.Ping())
		}
		// And it still does what it is told.
		require.NoError(t, rpc.Close())
		eventually(t, "the plugin has left", client.Exited)
		require.Zero(t, command.ProcessState.ExitCode(), "by itself")
		_, err = os.Stat(folder)
		require.ErrorIs(t, err, os.ErrNotExist, "the socket goes with the process")
	}
}

func TestThePluginSaysInOneLineWhereItListens(t *testing.T) {
	t.Parallel()
	_, line := start(t, program(t, "WINDLASS_GROUP_IN_MEMORY"), cookie)
	parts := strings.Split(line, "|")
	require.Equal(t, []string{"1", "0", "unix", parts[3], "grpc", ""}, parts)
}

// What the standard library says of a panic is no line of the host's form, and would be shown at its finest level.
func TestADefectOfThePluginIsLoggedAsAnError(t *testing.T) {
	t.Parallel()
	log, lines := keptLog()
	runner, err := fleeting.RunPlugin(
		program(t, "WINDLASS_GROUP_IN_MEMORY"), []byte(`{"defect": "out of cheese"}`), fleeting.WithPluginLogger(log),
	)
	require.NoError(t, err)
	defer runner.Kill()
	_, err = runner.InstanceGroup().Init(t.Context(), log, provider.Settings{})
	require.NoError(t, err)
	require.Error(t, runner.InstanceGroup().Update(t.Context(), func(string, provider.State) {}))
	eventually(t, "the defect is logged", func() bool {
		for _, text := range strings.Split(lines.String(), "\n") {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["@level"] == "error" &&
				strings.Contains(fmt.Sprint(line["@message"]), "out of cheese") {
				return true
			}
		}
		return false
	})
}

func TestAPluginWhoseHostWasKilledLeaves(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_GROUP_IN_MEMORY")
	// The shell is the host: it starts the plugin, says its process id, and is killed.
	host := exec.Command("sh", "-c", `"$0" 2>/dev/null & echo "pid $!"; wait`, binary)
	host.Env = append(os.Environ(), cookie)
	endsWithUs(host)
	output, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	// The plugin's line says that it has looked who its parent is. Either may come first.
	pid, lines := 0, bufio.NewReader(output)
	for range 2 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if _, err := fmt.Sscanf(line, "pid %d", &pid); err == nil {
			t.Cleanup(func() {
				if t.Failed() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
		}
	}
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	eventually(t, "the plugin has left", func() bool {
		// Where nobody reaps it, the process stays as a zombie.
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return errors.Is(err, os.ErrNotExist) || strings.Contains(string(state), ") Z ")
	})
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
