package fleeting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
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
	return startGroupWithLog(t, hclog.NewNullLogger(), config)
}

func startGroupWithLog(t *testing.T, log hclog.Logger, config map[string]any) (provider.InstanceGroup, func()) {
	t.Helper()
	process, err := fleeting.RunPlugin(program(t, "WINDLASS_FLEETING_PLUGIN"), encoded(t, config), fleeting.WithPluginLogger(log))
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

// Told to end by SIGTERM, which takes the same way as the host's request: the host would kill it after two seconds, and
// a busy machine may take longer.
func TestThePluginLeavesByItselfInTheMiddleOfItsWork(t *testing.T) {
	besideOthers(t)
	cloud := startSimulator(t, "--latency-ms", "200")
	config := cloud.config(t, nil)
	log, lines := keptLog()
	group, _ := startGroupWithLog(t, log, config)
	_, err := group.Increase(t.Context(), 20)
	require.NoError(t, err)
	// Servers take their time to start, as they really do: nothing is done before long.
	eventually(t, "servers are being made", func() bool { return len(cloud.servers()) > 0 })
	pids := pluginsOf(t, config["state_dir"].(string))
	require.Len(t, pids, 1)
	begun := time.Now()
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGTERM))
	eventually(t, "it has left", func() bool { return errors.Is(syscall.Kill(pids[0], 0), syscall.ESRCH) })
	require.Less(t, time.Since(begun), budget(2*time.Second))
	require.Contains(t, lines.String(), "leaving: SIGTERM")

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
	require.Contains(t, string(output), "bootstrap requires plugin repository path")
}
