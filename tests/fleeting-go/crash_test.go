package fleeting

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The plugin processes that work in this state directory: each holds the group's lock file open.
func pluginsOf(t *testing.T, state string) []int {
	t.Helper()
	var found []int
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		files, err := os.ReadDir("/proc/" + entry.Name() + "/fd")
		if err != nil {
			continue
		}
		for _, file := range files {
			target, _ := os.Readlink("/proc/" + entry.Name() + "/fd/" + file.Name())
			if strings.HasPrefix(target, state) && strings.HasSuffix(target, "/lock") {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// A plugin without the loop, to be killed at a chosen moment.
func startGroup(t *testing.T, config map[string]any) (provider.InstanceGroup, func()) {
	t.Helper()
	log := hclog.NewNullLogger()
	process, err := fleeting.RunPlugin(program(t, "WINDLASS_FLEETING_PLUGIN"), encoded(t, config),
		fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	t.Cleanup(process.Kill)
	_, err = process.InstanceGroup().Init(t.Context(), log, provider.Settings{})
	require.NoError(t, err)
	return process.InstanceGroup(), process.Kill
}

// SIGKILL when the cloud has done so many calls since the work began: after each call of a creation, of a removal, and
// of updates with a reap, in turn. The next plugin process takes over: nothing leaks, nothing that runs is lost, and
// the runner can go on.
func TestAKilledPluginLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// A creation without waits makes so many calls; removals go on until nothing is left.
	for work, last := range map[string]int{"increase": 9, "decrease": 12, "update": 12} {
		for calls := 0; calls <= last; calls++ {
			t.Run(fmt.Sprintf("%s killed after %d calls", work, calls), func(t *testing.T) {
				t.Parallel()
				cloud := startSimulator(t, "--time-scale", "20", "--latency-ms", "10")
				metrics := servedMetrics(t)
				config := cloud.config(t, metrics.configured(nil))
				group, _ := startGroup(t, config)
				update := func() map[string]provider.State {
					states := map[string]provider.State{}
					require.NoError(t, group.Update(t.Context(), func(id string, state provider.State) { states[id] = state }))
					return states
				}
				// One that runs and must not be lost.
				_, err := group.Increase(t.Context(), 1)
				require.NoError(t, err)
				var survivor string
				eventually(t, "one runs", func() bool {
					for id, state := range update() {
						survivor = id
						if state == provider.StateRunning {
							return true
						}
					}
					return false
				})
				var doomed []string
				if work != "increase" {
					_, err = group.Increase(t.Context(), 1)
					require.NoError(t, err)
					eventually(t, "another runs", func() bool {
						doomed = nil
						for id, state := range update() {
							if id != survivor && state == provider.StateRunning {
								doomed = append(doomed, id)
							}
						}
						return len(doomed) == 1
					})
				}
				begin, ended := func() {
					_, err := group.Increase(t.Context(), 2)
					require.NoError(t, err)
				}, func() bool { return metrics.show(created(3)) }
				switch work {
				case "decrease":
					begin, ended = func() {
						_, err := group.Decrease(t.Context(), doomed)
						require.NoError(t, err)
					}, func() bool { return metrics.show(removed(1)) }
				case "update":
					for _, server := range cloud.servers() {
						if server.Name == doomed[0] {
							cloud.force(server.ID, "stopped")
						}
					}
					begin, ended = func() {
						// One after the other, as the loop does, until the plugin is dead: the first one reaps.
						beside(t, func(ctx context.Context) {
							for group.Update(ctx, func(string, provider.State) {}) == nil {
							}
						})
					}, func() bool { return metrics.show(removed(1)) }
				}
				killAfter(t, cloud, config, calls, begin, ended)

				runner := startRunner(t, config, fleeting.WithMaxSize(5))
				eventually(t, "the successor knows what runs", func() bool {
					c := runner.Capacity()
					return c.Running >= 1 && c.Creating == 0 && c.Deleting == 0
				})
				known := map[string]bool{}
				for _, instance := range runner.Instances() {
					known[instance.ID()] = true
				}
				require.True(t, known[survivor], "%s was lost", survivor)
				eventually(t, "the cloud holds what the runner knows and nothing else", func() bool {
					all, count := cloud.resources(), runner.Capacity().Running
					return len(all.Servers) == count && len(all.IPs) == count && len(all.Volumes) == count
				})
				if work != "increase" {
					require.Equal(t, 1, runner.Capacity().Running)
				}
				// And it works: the rest goes as it should.
				for _, instance := range runner.Instances() {
					instance.Delete()
				}
				eventually(t, "everything is gone", cloud.empty)
			})
		}
	}
}

// Begins the work of a plugin and kills it, while the answer to the call with this number is under way (for 0: at
// once), or at rest, where the work has ended with fewer.
func killAfter(t *testing.T, cloud *simulator, config map[string]any, calls int, begin func(), ended func() bool) {
	t.Helper()
	cloud.forgetRequests()
	if calls > 0 {
		cloud.fault(fault{Path: "/**", Nth: calls, Kind: "delay:3600000", Effect: "after"})
	}
	begin()
	eventually(t, fmt.Sprintf("%d calls, or the work's end", calls), func() bool {
		return calls == 0 || cloud.holdsAnAnswer() || ended()
	})
	t.Logf("killed while an answer is under way: %t", cloud.holdsAnAnswer())
	state := config["state_dir"].(string)
	for _, pid := range pluginsOf(t, state) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	eventually(t, "it is dead", func() bool { return len(pluginsOf(t, state)) == 0 })
	cloud.forgetFaults()
}

func TestASecondPluginWithTheSameGroupIsRefused(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	config := cloud.config(t, nil)
	startGroup(t, config)
	_, err := tryRunner(t, config)
	require.ErrorContains(t, err, "another plugin process has the group ci")
	require.ErrorContains(t, err, "registered anew")
	// Another name is another group.
	other := cloud.config(t, map[string]any{"state_dir": config["state_dir"], "name": "other"})
	startRunner(t, other)
}

// A restarted runner is shown the survivors, and can reach them with the key that its predecessor made.
func TestARestartedPluginReachesTheMachinesOfItsPredecessor(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20", "--loopback-addresses")
	config := cloud.config(t, nil)
	first := startRunner(t, config, fleeting.WithMaxSize(2))
	first.Request(2)
	first.settle(t, 2)
	before := map[string][]byte{}
	for _, instance := range first.Instances() {
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		before[instance.ID()] = info.Key
	}
	first.kill()
	require.Len(t, cloud.servers(), 2, "a shutdown leaves instances alone")

	second := startRunner(t, config, fleeting.WithMaxSize(2))
	require.Equal(t, 2, second.Capacity().Running, "they are shown at once")
	for _, instance := range second.Instances() {
		require.Equal(t, fleeting.CausePreexisted, instance.Cause())
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, info.Key)
		require.Equal(t, before[instance.ID()], info.Key)
	}
}

func TestDeleteOnShutdownRemovesEverything(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "60")
	runner := startRunner(t, cloud.config(t, map[string]any{"delete_on_shutdown": true}), fleeting.WithMaxSize(2))
	runner.Request(2)
	runner.settle(t, 2)
	runner.kill()
	require.True(t, cloud.empty())
}

// GitLab's own key: the runner asks for all removals, waits until they are accepted, and ends the plugin.
func TestRemovalsThatTheRunnerAskedForEndBeforeThePluginDoes(t *testing.T) {
	t.Parallel()
	// Scaleway takes its time to remove a server, as it really does.
	cloud := startSimulator(t, "--time-scale", "4")
	runner := startRunner(
		t, cloud.config(t, nil), fleeting.WithMaxSize(3), fleeting.WithShutdownDeletionInterval(50*time.Millisecond),
	)
	runner.Request(3)
	runner.settle(t, 3)
	for _, instance := range runner.Instances() {
		instance.Delete()
	}
	runner.kill()
	require.True(t, cloud.empty(), "%+v", cloud.resources())
}

// A burst of failures is one failure: were each of the eight counted, the demand would wait for a quarter of an hour.
func TestABurstOfFailuresIsOneFailure(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	metrics := servedMetrics(t)
	cloud.fault(fault{Method: "POST", Path: "/instance/v1/zones/*/servers", Kind: "out-of-stock", Effect: "before"})
	runner := startRunner(t, cloud.config(t, metrics.configured(nil)), fleeting.WithMaxSize(8))
	runner.Request(8)
	eventually(t, "all eight have failed", func() bool {
		return metrics.show(`windlass_fleeting_creations_total{outcome="failed"} 8`)
	})
	cloud.forgetFaults()
	eventually(t, "the demand is met after a pause", func() bool {
		runner.demand(8)
		return runner.Capacity().settled(8)
	})
}

// What heartbeats are answered from in a long outage is told by a test of the group with its own time.
func TestAnOutageOfTheAPIFailsNoHeartbeat(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(2))
	runner.Request(2)
	runner.settle(t, 2)
	cloud.fault(fault{Method: "GET", Path: "/**", Kind: "internal-server-error", Effect: "before"})
	// At the pace of this loop that is longer than a look is taken for fresh.
	eventually(t, "the group has asked in vain for long", func() bool {
		for _, instance := range runner.Instances() {
			require.NoError(t, instance.Heartbeat(t.Context()))
		}
		return cloud.faultsApplied() >= 150
	})
}

func TestAnInstanceWithAPublicAddressIsReachedWhileIPAMIsNot(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.wholeConfig(t), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	cloud.fault(fault{Method: "GET", Path: "/ipam/**", Kind: "permission-denied", Effect: "before"})
	info, err := runner.Instances()[0].ConnectInfo(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, info.ExternalAddr)
	require.Equal(t, info.ExternalAddr, info.InternalAddr)
}

// A state directory is lost: the next plugin sees what is there, says so, and takes it over when it is told.
func TestALostStateDirectoryIsNoticedAndTakenOverOnPurpose(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	lost := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	lost.Request(1)
	lost.settle(t, 1)
	id := lost.Instances()[0].ID()
	lost.kill()
	host, err := os.Hostname()
	require.NoError(t, err)

	config := cloud.config(t, nil)
	_, err = tryRunner(t, config)
	require.ErrorContains(t, err, "does not know these servers of the group ")
	require.ErrorContains(t, err, ": "+id+" (made on "+host)
	require.ErrorContains(t, err, "adopt = true")
	config["adopt"] = false
	left := startRunner(t, config)
	require.Empty(t, left.Instances())
	left.kill()
	require.Len(t, cloud.servers(), 1)

	config = cloud.config(t, map[string]any{"adopt": true})
	runner := startRunner(t, config, fleeting.WithMaxSize(1))
	require.True(t, runner.knows(id))
	runner.Instances()[0].Delete()
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

// The same by the command, from the runner's own configuration: then the group starts without a key that says so.
func TestACommandTakesOverWhatALostStateDirectoryKnew(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	lost := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	lost.Request(1)
	lost.settle(t, 1)
	id := lost.Instances()[0].ID()
	lost.kill()

	config := cloud.config(t, nil)
	var text strings.Builder
	fmt.Fprint(&text, "[[runners]]\n[runners.autoscaler]\nplugin = \"fleeting-plugin-scaleway\"\n")
	fmt.Fprint(&text, "[runners.autoscaler.plugin_config]\n")
	for key, value := range config {
		written, err := json.Marshal(value)
		require.NoError(t, err)
		fmt.Fprintf(&text, "%s = %s\n", key, written)
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	adopt := func(arguments ...string) (string, error) {
		command := exec.Command(program(t, "WINDLASS_FLEETING_PLUGIN"), append([]string{"adopt"}, arguments...)...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	for _, wrong := range []struct {
		arguments []string
		words     string
	}{
		{[]string{"--config", file + "x"}, "cannot read"},
		{[]string{"--config"}, "--config needs a file"},
		{[]string{"--all"}, "adopt has no option --all"},
		{[]string{"other", "--config", file}, "there is not one group"},
	} {
		output, err := adopt(wrong.arguments...)
		require.Error(t, err, output)
		require.Contains(t, output, wrong.words)
	}
	output, err := adopt("ci", "--config", file)
	require.NoError(t, err, output)
	require.Equal(t, "taken over: "+id+"\n", output)
	runner := startRunner(t, config, fleeting.WithMaxSize(1))
	require.True(t, runner.knows(id))
	output, err = adopt("--config", file)
	require.Error(t, err)
	require.Contains(t, output, "another plugin process has the group ci")
	runner.Instances()[0].Delete()
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

// Two hosts under one name and owner, each with a runner that removes what it does not know to be its own.
func TestTwoHostsOfOneOwnerLeaveEachOthersServersAlone(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	hosts := []*runner{}
	for range 2 {
		hosts = append(hosts, startRunner(t, cloud.config(t, map[string]any{"owner": "team"}), fleeting.WithMaxSize(1)))
	}
	for _, host := range hosts {
		host.Request(1)
		host.settle(t, 1)
	}
	for number, host := range hosts {
		host.group.seesUpdates(t, 10)
		other := hosts[1-number].Instances()[0].ID()
		require.False(t, host.knows(other))
		require.Empty(t, host.group.told(other))
	}
	require.Len(t, cloud.servers(), 2)
	_, err := tryRunner(t, cloud.config(t, map[string]any{"owner": "team"}))
	require.ErrorContains(t, err, "If the host that made them still works, this group needs a `name` of its own")
}

// Asked by go-plugin's own call and not through the host's library, which would kill it after two seconds: a busy
// machine may take longer.
func TestThePluginLeavesByItselfInTheMiddleOfItsWork(t *testing.T) {
	cloud := startSimulator(t, "--latency-ms", "200")
	config := cloud.config(t, nil)
	sockets, err := os.MkdirTemp("", "s-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	t.Setenv("TMPDIR", sockets)
	group, _ := startGroup(t, config)
	_, err = group.Increase(t.Context(), 20)
	require.NoError(t, err)
	// Servers take their time to start, as they really do: nothing is done before long.
	eventually(t, "servers are being made", func() bool { return len(cloud.servers()) > 0 })
	pids := pluginsOf(t, config["state_dir"].(string))
	require.Len(t, pids, 1)
	found, err := filepath.Glob(filepath.Join(sockets, "fleeting-plugin-*", "socket"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	connection, err := grpc.NewClient("unix:"+found[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	begun := time.Now()
	nothing := new(emptypb.Empty)
	require.NoError(t, connection.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", nothing, nothing))
	eventually(t, "it has left", func() bool { return len(pluginsOf(t, config["state_dir"].(string))) == 0 })
	require.Less(t, time.Since(begun), budget(2*time.Second))

	runner := startRunner(t, config, fleeting.WithMaxSize(20))
	eventually(t, "nothing is left of what was in flight, or it runs", func() bool {
		c, all := runner.Capacity(), cloud.resources()
		return c.Creating == 0 && c.Deleting == 0 && len(all.Servers) == c.Running && len(all.IPs) == c.Running
	})
}

func TestTheBinarySaysWhatItIs(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	for _, argument := range []string{"version", "-version"} {
		output, err := exec.Command(binary, argument).Output()
		require.NoError(t, err)
		for _, key := range []string{"Name:", "Version:", "Git revision:", "Git ref:", "GO version:", "Built:", "OS/Arch:"} {
			require.Contains(t, string(output), key)
		}
	}
	plugins := t.TempDir()
	command := exec.Command(binary, "bootstrap", "registry.example.test/windlass/scaleway:latest")
	command.Env = append(os.Environ(), "FLEETING_PLUGIN_PATH="+plugins)
	output, err := command.Output()
	require.NoError(t, err)
	folder := strings.TrimSpace(string(output))
	require.True(t, strings.HasPrefix(folder, plugins+"/registry.example.test/windlass/scaleway/"), folder)
	require.FileExists(t, folder+"/"+binary[strings.LastIndex(binary, "/")+1:])
	output, err = exec.Command(binary, "bootstrap").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "bootstrap needs the path of the plugin")
}
