package fleeting

import (
	"context"
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
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Off})
	process, err := fleeting.RunPlugin(program(t, "WINDLASS_FLEETING_PLUGIN"), encoded(t, config), fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	t.Cleanup(process.Kill)
	_, err = process.InstanceGroup().Init(context.Background(), log, provider.Settings{})
	require.NoError(t, err)
	return process.InstanceGroup(), process.Kill
}

// SIGKILL as soon as the cloud has seen so many calls since the work began: after each call of a creation, of a removal, and of
// updates with a reap, in turn. The next plugin process takes over: nothing leaks, nothing that runs is lost, and the runner can go on.
func TestAKilledPluginLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// A creation without waits makes so many calls; removals go on until nothing is left.
	for work, last := range map[string]int{"increase": 9, "decrease": 12, "update": 12} {
		for calls := 0; calls <= last; calls++ {
			t.Run(fmt.Sprintf("%s killed after %d calls", work, calls), func(t *testing.T) {
				t.Parallel()
				cloud := startSimulator(t, "--time-scale", "20", "--latency-ms", "10")
				config := cloud.config(t, nil)
				group, _ := startGroup(t, config)
				update := func() map[string]provider.State {
					states := map[string]provider.State{}
					require.NoError(t, group.Update(context.Background(), func(id string, state provider.State) { states[id] = state }))
					return states
				}
				// One that runs and must not be lost.
				_, err := group.Increase(context.Background(), 1)
				require.NoError(t, err)
				var survivor string
				eventually(t, 60*time.Second, "one runs", func() bool {
					for id, state := range update() {
						survivor = id
						if state == provider.StateRunning {
							return true
						}
					}
					return false
				})
				cloud.forgetRequests()
				if work == "increase" {
					_, err = group.Increase(context.Background(), 2)
					require.NoError(t, err)
				} else {
					_, err = group.Increase(context.Background(), 1)
					require.NoError(t, err)
					var doomed []string
					eventually(t, 60*time.Second, "another runs", func() bool {
						doomed = nil
						for id, state := range update() {
							if id != survivor && state == provider.StateRunning {
								doomed = append(doomed, id)
							}
						}
						return len(doomed) == 1
					})
					if work == "decrease" {
						cloud.forgetRequests()
						_, err = group.Decrease(context.Background(), doomed)
						require.NoError(t, err)
					} else {
						for _, server := range cloud.servers() {
							if server.Name == doomed[0] {
								cloud.force(server.ID, "stopped")
							}
						}
						cloud.forgetRequests()
						// One after the other, as the loop does, until the plugin is dead: the first one reaps.
						go func() {
							for group.Update(context.Background(), func(string, provider.State) {}) == nil {
							}
						}()
					}
				}
				eventually(t, 30*time.Second, "so many calls", func() bool { return len(cloud.requests()) >= calls })
				for _, pid := range pluginsOf(t, config["state_dir"].(string)) {
					require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				}
				eventually(t, 5*time.Second, "it is dead", func() bool { return len(pluginsOf(t, config["state_dir"].(string))) == 0 })

				runner := startRunner(t, config, fleeting.WithMaxSize(5))
				eventually(t, 90*time.Second, "the successor knows what runs", func() bool {
					c := runner.Capacity()
					return c.Running >= 1 && c.Creating == 0 && c.Deleting == 0
				})
				known := map[string]bool{}
				for _, instance := range runner.Instances() {
					known[instance.ID()] = true
				}
				require.True(t, known[survivor], "%s was lost", survivor)
				eventually(t, 60*time.Second, "the cloud holds what the runner knows and nothing else", func() bool {
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
				eventually(t, 60*time.Second, "everything is gone", cloud.empty)
			})
		}
	}
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
		info, err := instance.ConnectInfo(context.Background())
		require.NoError(t, err)
		before[instance.ID()] = info.Key
	}
	first.kill()
	require.Len(t, cloud.servers(), 2, "a shutdown leaves instances alone")

	second := startRunner(t, config, fleeting.WithMaxSize(2))
	require.Equal(t, 2, second.Capacity().Running, "they are shown at once")
	for _, instance := range second.Instances() {
		require.Equal(t, fleeting.CausePreexisted, instance.Cause())
		info, err := instance.ConnectInfo(context.Background())
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

func TestThePluginLeavesWithinTwoSecondsInTheMiddleOfItsWork(t *testing.T) {
	cloud := startSimulator(t, "--latency-ms", "200")
	config := cloud.config(t, nil)
	group, kill := startGroup(t, config)
	_, err := group.Increase(context.Background(), 20)
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond)
	pids := pluginsOf(t, config["state_dir"].(string))
	require.Len(t, pids, 1)
	begun := time.Now()
	kill()
	require.Less(t, time.Since(begun), 2*time.Second)
	require.ErrorIs(t, syscall.Kill(pids[0], 0), syscall.ESRCH)

	runner := startRunner(t, config, fleeting.WithMaxSize(20))
	eventually(t, 120*time.Second, "nothing is left of what was in flight, or it runs", func() bool {
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
