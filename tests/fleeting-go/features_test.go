package fleeting

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

func TestSuspendedInstancesAreResumedAndNeverTakenForDead(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "30")
	runner := startRunner(t, cloud.config(t, map[string]any{"suspend": true}), fleeting.WithMaxSize(1))
	require.True(t, runner.HasCapability(provider.CapabilitySuspendResume))
	runner.Request(1)
	runner.settle(t, 1)
	id := runner.Instances()[0].ID()
	succeeded, err := runner.Suspend(t.Context(), []string{id})
	require.NoError(t, err)
	require.Equal(t, []string{id}, succeeded)
	eventually(t, "it is suspended", func() bool { return runner.Capacity().Suspended == 1 })
	require.Equal(t, "stopped in place", cloud.servers()[0].State)
	require.NoError(t, runner.ResumeAndWait(t.Context(), []string{id}))
	require.Equal(t, "running", cloud.servers()[0].State)
	require.Len(t, cloud.servers(), 1)
}

func TestWithoutTheSwitchSuspensionIsNotAnnounced(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	runner := startRunner(t, cloud.config(t, nil))
	require.False(t, runner.HasCapability(provider.CapabilitySuspendResume))
}

func TestAnInstanceInAPrivateNetworkHasAnInternalAddress(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	var network struct {
		ID string `json:"id"`
	}
	cloud.call("POST", "/vpc/v2/regions/fr-par/private-networks", map[string]any{"name": "n", "project_id": project},
		&network)
	config := cloud.config(t, map[string]any{"private_networks": []string{network.ID}})
	runner := startRunner(t, config, fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	info, err := runner.Instances()[0].ConnectInfo(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, info.ExternalAddr)
	require.NotEqual(t, info.ExternalAddr, info.InternalAddr)
	require.True(t, net.ParseIP(info.InternalAddr).IsPrivate(), info.InternalAddr)
	runner.Instances()[0].Delete()
	runner.settle(t, 0)

	unknown := cloud.config(t, map[string]any{"private_networks": []string{"99999999-2222-4333-8444-555555555555"}})
	_, err = tryRunner(t, unknown)
	require.ErrorContains(t, err, "private_networks: there is no private network 99999999")
}

// Addresses that people have reserved outlive the instances that they serve; volumes that were made for these do not.
func TestInstancesHandTheAddressesOfAPoolRound(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	pool := map[string]bool{}
	for range 2 {
		var answer struct {
			IP address `json:"ip"`
		}
		body := map[string]any{"project": project, "tags": []string{"ci-egress"}}
		cloud.call("POST", "/instance/v1/zones/fr-par-1/ips", body, &answer)
		pool[answer.IP.Address] = true
	}
	config := cloud.config(t, map[string]any{
		"reserved_ip_tag": "ci-egress", "public_ipv6_disabled": true,
		"extra_volumes": []map[string]any{{"size": 20, "type": "sbs_volume", "iops": 5000}},
	})
	runner := startRunner(t, config, fleeting.WithMaxSize(2))
	addresses := func() map[string]bool {
		found := map[string]bool{}
		for _, instance := range runner.Instances() {
			info, err := instance.ConnectInfo(t.Context())
			require.NoError(t, err)
			found[info.ExternalAddr] = true
		}
		return found
	}
	runner.Request(2)
	runner.settle(t, 2)
	require.Equal(t, pool, addresses())
	require.Len(t, cloud.resources().Volumes, 4, "each has a root volume and one beside it")
	runner.Instances()[0].Delete()
	runner.settle(t, 1)
	eventually(t, "its address is free", func() bool { return len(cloud.servers()) == 1 })
	runner.Request(1)
	runner.settle(t, 2)
	require.Equal(t, pool, addresses())
	for _, instance := range runner.Instances() {
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "only the pool is left", func() bool {
		left := cloud.resources()
		return len(left.IPs) == 2 && left.count() == 2
	})
}

func TestAHeartbeatFailsForAServerThatStopped(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	instance := runner.Instances()[0]
	require.NoError(t, instance.Heartbeat(t.Context()))
	cloud.force(cloud.servers()[0].ID, "stopped")
	eventually(t, "the next look finds it", func() bool {
		err := instance.Heartbeat(t.Context())
		return err != nil && strings.Contains(err.Error(), "unhealthy")
	})
}

// The names that the documents and the dashboard use are those that are served.
func TestMetricsAreServedUnderTheNamesOfTheDashboard(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	metrics := servedMetrics(t)
	runner := startRunner(t, cloud.config(t, metrics.configured(nil)), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	eventually(t, "its creation has ended", func() bool { return metrics.show(created(1)) })
	text := metrics.text()
	for _, name := range []string{
		`windlass_fleeting_instances{state="running"} 1`, created(1),
		"windlass_fleeting_left 0", "windlass_fleeting_update_seconds_bucket", "windlass_operations_total{",
		"windlass_operation_seconds_bucket{", "windlass_operations_in_flight{", "windlass_scaleway_calls_total{",
		"windlass_scaleway_call_seconds_bucket{", "windlass_policy_decision_seconds_bucket{",
		`windlass_fleeting_servers{zone="fr-par-1",type="DEV1-S"} 1`,
		`windlass_fleeting_cost_euros_per_hour{zone="fr-par-1",type="DEV1-S"} 0.`,
		`windlass_policy_info{slot="retry",position="0",policy="windlass-guest-retry",`,
		`windlass_policy_brakes_total{slot="state-mapping",policy="windlass-guest-state-mapping"} 0`,
	} {
		require.Contains(t, text, name)
	}
	require.NotContains(t, text, secretKey)

	// What is there only after an event, or after the first round beside the operations.
	later := regexp.MustCompile(
		`failures_total|shadows_total|dropped_total|paused_until|supervisor|unverified|unexplained`)
	for _, file := range []string{"docs/grafana/gitlab-runner.json", "deploy/gitlab-runner/alerts.yaml"} {
		content, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`windlass_[a-z_]+`).FindAllString(string(content), -1) {
			if !later.MatchString(name) {
				require.Contains(t, text, name, "%s of %s is served", name, file)
			}
		}
	}
}

// The runner's log must never hold what opens an account or a machine.
func TestNoSecretReachesTheRunnersLog(t *testing.T) {
	cloud := startSimulator(t, "--time-scale", "20")
	log, lines := keptLog()
	t.Setenv("WINDLASS_LOG", "trace")
	config := cloud.config(t, map[string]any{"cloud_init": "#cloud-config\npassword: hunter2\n"})
	process, err := fleeting.RunPlugin(program(t, "WINDLASS_FLEETING_PLUGIN"), encoded(t, config),
		fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	defer process.Kill()
	provisioner, err := fleeting.Init(t.Context(), log, process.InstanceGroup(), quick...)
	require.NoError(t, err)
	defer provisioner.Shutdown(t.Context())
	provisioner.Request(1)
	eventually(t, "one runs", func() bool { return provisioner.Capacity().Running == 1 })
	info, err := provisioner.Instances()[0].ConnectInfo(t.Context())
	require.NoError(t, err)
	provisioner.Shutdown(t.Context())
	process.Kill()
	text := lines.String()
	require.Contains(t, text, `"@level":"trace"`, "the plugin's finest lines are there")
	for _, secret := range []string{secretKey, "hunter2", string(info.Key), strings.Split(string(info.Key), "\n")[2]} {
		require.NotContains(t, text, secret)
	}
	require.NotContains(t, fmt.Sprint(text), "PRIVATE KEY")
}

// What cannot be removed costs money, but no capacity; and it is tried again until it is gone.
func TestWhatCannotBeRemovedGivesItsCapacityBackAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	metrics := servedMetrics(t)
	runner := startRunner(t, cloud.config(t, metrics.configured(nil)), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	cloud.fault(fault{Method: "DELETE", Path: "/instance/v1/zones/*/ips/*", Kind: "permission-denied", Effect: "before"})
	runner.Instances()[0].Delete()
	runner.settle(t, 0)
	require.Len(t, cloud.resources().IPs, 1)
	eventually(t, "the metrics show it", func() bool { return metrics.show("windlass_fleeting_left 1") })
	runner.Request(1)
	runner.settle(t, 1)
	cloud.forgetFaults()
	eventually(t, "only what belongs to the second is there", func() bool {
		all := cloud.resources()
		return len(all.IPs) == 1 && len(all.Servers) == 1 && len(all.Volumes) == 1
	})
}

// Over a whole life with failures: who is told as deleting is really being removed, and so is gone at some time, from
// the answers of Update and from the cloud.
func TestDeletingIsNeverToldWithoutACleanup(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	group, _ := startGroup(t, cloud.config(t, nil))
	ctx := t.Context()
	_, err := group.Increase(ctx, 2)
	require.NoError(t, err)
	look := func() map[string]provider.State {
		states := map[string]provider.State{}
		require.NoError(t, group.Update(ctx, func(id string, state provider.State) { states[id] = state }))
		return states
	}
	eventually(t, "two run", func() bool {
		running := 0
		for _, state := range look() {
			if state == provider.StateRunning {
				running++
			}
		}
		return running == 2
	})
	servers := cloud.servers()
	cloud.force(servers[0].ID, "stopped")
	cloud.force(servers[1].ID, "stopped in place")
	require.Len(t, look(), 2)
	eventually(t, "both are forgotten", func() bool { return len(look()) == 0 })
	require.True(t, cloud.empty())
}

// A policy's file is replaced while the plugin runs: the next update is judged by the new one. A file that is no policy
// changes nothing.
func TestAPolicyThatIsReplacedJudgesFromThenOnAndABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	policies := os.Getenv("WINDLASS_POLICIES")
	if policies == "" {
		t.Skip("SKIPPED: WINDLASS_POLICIES names no folder")
	}
	file := filepath.Join(t.TempDir(), "state-mapping.wasm")
	put := func(content []byte) {
		require.NoError(t, os.WriteFile(file+".new", content, 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	policy := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(policies, name+".wasm"))
		require.NoError(t, err)
		return content
	}
	put(policy("windlass-guest-state-mapping"))
	cloud := startSimulator(t, "--time-scale", "20")
	log, lines := keptLog()
	config := cloud.config(t, map[string]any{
		"policies": map[string]any{"state-mapping": map[string]any{"path": file}},
	})
	runner, err := tryRunnerWithLog(t, log, config, fleeting.WithMaxSize(3))
	require.NoError(t, err)
	logged := func(words string, times int) {
		t.Helper()
		eventually(t, words, func() bool { return strings.Count(lines.String(), words) >= times })
	}
	runner.Request(3)
	runner.settle(t, 3)
	servers := cloud.servers()
	stays := func(victim server) {
		t.Helper()
		told := len(runner.group.told(victim.Name))
		eventually(t, "ten more updates", func() bool { return len(runner.group.told(victim.Name)) >= told+10 })
		for _, state := range runner.group.told(victim.Name)[told+1:] {
			require.Equal(t, provider.StateCreating, state, "within its time of grace")
		}
	}

	// The first policy reaps what has stopped.
	cloud.force(servers[0].ID, "stopped")
	runner.settle(t, 2)

	// The second leaves it alone for ten minutes.
	put(policy("grace-for-stopped"))
	logged("a policy was replaced", 1)
	cloud.force(servers[1].ID, "stopped")
	stays(servers[1])

	put([]byte("this is no policy"))
	logged("a policy can't be replaced; the last good one stays", 1)
	stays(servers[1])
	require.Len(t, cloud.servers(), 2)

	put(policy("windlass-guest-state-mapping"))
	logged("a policy was replaced", 2)
	runner.settle(t, 1)
	eventually(t, "one server and what belongs to it", func() bool {
		all := cloud.resources()
		return len(all.Servers) == 1 && len(all.IPs) == 1 && len(all.Volumes) == 1
	})
}
