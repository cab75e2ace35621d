package fleeting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/integration"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"golang.org/x/crypto/ssh"
)

type wipe struct {
	Name string `json:"name"`
}

// A Mac, with what the simulator knows of its life.
type mac struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	IP                string `json:"ip"`
	Status            string `json:"status"`
	DeletionScheduled bool   `json:"deletion_scheduled"`
	Password          string `json:"sudo_password"`
	Simulator         struct {
		Reinstalls int    `json:"reinstalls"`
		Wiped      []wipe `json:"wiped"`
	} `json:"simulator"`
}

type macs struct {
	Here []mac `json:"apple_silicon_servers"`
	Gone []mac `json:"gone_apple_silicon_servers"`
}

func (s *simulator) macs() macs {
	s.t.Helper()
	var all macs
	s.call("GET", "/_simulator/resources", nil, &all)
	return all
}

func (m macs) inPool(prefix string) int {
	count := 0
	for _, mac := range m.Here {
		if strings.HasPrefix(mac.Name, prefix) {
			count++
		}
	}
	return count
}

func (m macs) wipes() int {
	count := 0
	for _, mac := range m.Here {
		count += mac.Simulator.Reinstalls
	}
	return count
}

// No host was destroyed, and none was wiped under the name of a claim.
func (m macs) requireNothingLost(t testing.TB, hosts int, claims string) {
	t.Helper()
	require.Len(t, m.Here, hosts)
	require.Empty(t, m.Gone)
	for _, mac := range m.Here {
		for _, wipe := range mac.Simulator.Wiped {
			require.False(t, strings.HasPrefix(wipe.Name, claims), "%s was wiped while it was claimed", wipe.Name)
		}
	}
}

// The configuration of a group of Macs that come from the pool `pool-`.
func (s *simulator) macConfig(t testing.TB, changes map[string]any) map[string]any {
	all := map[string]any{"name": "macs", "kind": "apple-silicon", "server_type": "M4-S", "pool_prefix": "pool-"}
	for key, value := range changes {
		all[key] = value
	}
	config := s.config(t, all)
	for _, key := range []string{"image", "public_ipv6_disabled"} {
		delete(config, key)
	}
	for key, value := range config {
		if value == nil {
			delete(config, key)
		}
	}
	return config
}

// The whole way through the real loop: a group scales up from a pool and down again; all hosts are in the pool then,
// wiped once they were released, and none is deleted.
func TestAGroupOfMacsScalesUpFromItsPoolAndDownAgain(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "60", "--apple-silicon-pool", "prefix=pool-,count=3,type=M4-S")
	runner := startRunner(t, cloud.macConfig(t, nil), fleeting.WithMaxSize(3))
	runner.Request(3)
	runner.settle(t, 3)
	require.Equal(t, 0, cloud.macs().inPool("pool-"))
	for _, instance := range runner.Instances() {
		require.True(t, strings.HasPrefix(instance.ID(), "macs-"), "ids are readable: %s", instance.ID())
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		require.Equal(t, "m1", info.Username)
		require.Equal(t, "darwin", info.OS)
		require.Equal(t, "arm64", info.Arch)
		require.NotEmpty(t, info.Password)
		require.Equal(t, info.ExternalAddr, info.InternalAddr)
		require.NoError(t, instance.Heartbeat(t.Context()))
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "all are in the pool again", func() bool { return cloud.macs().inPool("pool-") == 3 })
	all := cloud.macs()
	all.requireNothingLost(t, 3, "macs-")
	for _, mac := range all.Here {
		require.Equal(t, 1, mac.Simulator.Reinstalls)
	}
}

// GitLab's own test of a plugin, over ssh with the host's password, on Macs.
func TestFleetingsOwnIntegrationTestPassesOnMacs(t *testing.T) {
	t.Parallel()
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	cloud := startSimulator(t, "--time-scale", "60", "--loopback-addresses",
		"--apple-silicon-pool", "prefix=pool-,count=3,type=M4-S")
	connector := overSSH(t)
	answerByPassword(t, cloud, connector.ProtocolPort)
	integration.TestProvisioning(t, binary, integration.Config{
		PluginConfig:    cloud.macConfig(t, map[string]any{"max_size": 3}),
		ConnectorConfig: connector,
		MaxInstances:    3,
		UseExternalAddr: true,
	})
	eventually(t, "all are in the pool again", func() bool { return cloud.macs().inPool("pool-") == 3 })
	cloud.macs().requireNothingLost(t, 3, "macs-")
}

// Hosts that are ordered cannot be deleted in their first day. That is put to the policy once and ends in a scheduled
// deletion, in each shape of the refusal; the runner's capacity is back at once.
func TestTheBillingFloorNeverHoldsCapacityNorIsItTriedForever(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"in-words", "without-details", "status-alone"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			cloud := startSimulator(t, "--time-scale", "60", "--apple-silicon-refusal", shape)
			metrics := servedMetrics(t)
			config := cloud.macConfig(t, metrics.configured(map[string]any{"pool_prefix": nil, "max_size": 2}))
			runner := startRunner(t, config, fleeting.WithMaxSize(2))
			runner.Request(1)
			runner.settle(t, 1)
			runner.Instances()[0].Delete()
			runner.settle(t, 0)
			eventually(t, "its release has ended", func() bool { return metrics.show(removed(1)) })
			all := cloud.macs().Here
			require.Len(t, all, 1)
			require.True(t, all[0].DeletionScheduled)
			// Nothing is under way then that could try it again, but for what a look at the hosts begins.
			runner.group.seesUpdates(t, 20)
			deletes := 0
			for _, request := range cloud.requests() {
				if request.Method == "DELETE" {
					deletes++
				}
			}
			require.LessOrEqual(t, deletes, 1)
			cloud.call("POST", "/_simulator/clock", map[string]any{"advance_ms": 25 * 3600 * 1000}, nil)
			require.Empty(t, cloud.macs().Here, "a day later it is gone")
		})
	}
}

// An empty pool is a pause, and demand is met as soon as a host is there.
func TestAnEmptyPoolIsWaitedForWithoutAHotLoop(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "60", "--apple-silicon-pool", "prefix=pool-,count=1,type=M4-S")
	runner := startRunner(t, cloud.macConfig(t, nil), fleeting.WithMaxSize(2))
	runner.Request(1)
	runner.settle(t, 1)
	// After each claim that fails the group pauses, from ten seconds on and longer each time.
	before := runner.group.increases.Load()
	runner.group.seesUpdates(t, 40, func() { runner.demand(2) })
	require.LessOrEqual(t, runner.group.increases.Load()-before, int64(8), "claims that were begun")
	cloud.call("POST", "/_simulator/apple-silicon", map[string]any{"prefix": "pool-", "count": 1, "type": "M4-S"}, nil)
	eventually(t, "the new host serves", func() bool {
		runner.demand(2)
		return runner.Capacity().Running == 2
	})
	cloud.macs().requireNothingLost(t, 2, "macs-")
}

// A Mac that is deleted, renamed, wiped or broken behind our back is replaced, and what is not ours is left alone.
func TestMacsThatAreLostAreReplaced(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"deleted", "renamed", "reinstalling", "error", "locked"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			cloud := startSimulator(t, "--time-scale", "60", "--apple-silicon-pool", "prefix=pool-,count=3,type=M4-S")
			runner := startRunner(t, cloud.macConfig(t, nil), fleeting.WithMaxSize(2))
			runner.Request(2)
			runner.settle(t, 2)
			var victim mac
			for _, mac := range cloud.macs().Here {
				if runner.knows(mac.Name) {
					victim = mac
				}
			}
			if change == "renamed" {
				path := fmt.Sprintf("/_simulator/servers/%s/name", victim.ID)
				cloud.call("POST", path, map[string]string{"name": "somebody-elses"}, nil)
			} else {
				cloud.force(victim.ID, change)
			}
			eventually(t, "the runner has forgotten it", func() bool { return !runner.knows(victim.Name) })
			eventually(t, "it is replaced", func() bool {
				runner.demand(2)
				return runner.Capacity().settled(2)
			})
		})
	}
}

// SIGKILL when the cloud has done so many calls since the work began: after each call of a claim, and of a release. The
// next plugin process shows the hosts that carry a claim and ends what was open; then every one can be given back.
func TestMacsSurviveThePluginsDeath(t *testing.T) {
	t.Parallel()
	for work, last := range map[string]int{"increase": 9, "decrease": 11} {
		for calls := 0; calls <= last; calls++ {
			t.Run(fmt.Sprintf("%s killed after %d calls", work, calls), func(t *testing.T) {
				t.Parallel()
				cloud := startSimulator(t, "--time-scale", "60", "--latency-ms", "10", "--apple-silicon-pool",
					"prefix=pool-,count=2,type=M4-S")
				metrics := servedMetrics(t)
				config := cloud.macConfig(t, metrics.configured(nil))
				group, _ := startGroup(t, config)
				_, err := group.Increase(t.Context(), 1)
				require.NoError(t, err)
				eventually(t, "one is claimed", func() bool { return metrics.show(created(1)) })
				var ids []string
				eventually(t, "one runs", func() bool {
					ids = nil
					require.NoError(t, group.Update(t.Context(), func(id string, state provider.State) {
						if state == provider.StateRunning {
							ids = append(ids, id)
						}
					}))
					return len(ids) == 1
				})
				killAfter(t, cloud, config, calls, func() {
					if work == "increase" {
						_, err = group.Increase(t.Context(), 1)
					} else {
						_, err = group.Decrease(t.Context(), ids)
					}
					require.NoError(t, err)
				}, func() bool { return metrics.show(created(2)) || metrics.show(removed(1)) })

				runner := startRunner(t, config, fleeting.WithMaxSize(2))
				eventually(t, "each host is known, or in the pool", func() bool {
					return runner.Capacity().Running+cloud.macs().inPool("pool-") == 2
				})
				if work == "increase" {
					require.True(t, runner.knows(ids[0]), "%s was lost", ids[0])
					require.Zero(t, cloud.macs().wipes(), "and is not wiped")
				}
				for _, instance := range runner.Instances() {
					instance.Delete()
				}
				eventually(t, "all are in the pool", func() bool { return cloud.macs().inPool("pool-") == 2 })
				cloud.macs().requireNothingLost(t, 2, "macs-")
				if work == "decrease" {
					// Once; but who died before the wipe was answered cannot know of it when it has ended before the next look.
					require.Contains(t, []int{1, 2}, cloud.macs().wipes(), "wiped before it is in the pool")
				}
			})
		}
	}
}

// Lets each Mac answer ssh at its address, by the password that it has now.
func answerByPassword(t *testing.T, cloud *simulator, port int) {
	there := cloud.macs().Here
	beside(t, func(ctx context.Context) {
		err := serveMachines(ctx, port, func(all *machines) error {
			for _, machine := range there {
				if err := all.listen(machine.IP, letsInByPassword(ctx, cloud, machine.ID)); err != nil {
					return err
				}
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("the Macs no longer answer by ssh: %v", err)
		}
	})
}

func letsInByPassword(ctx context.Context, cloud *simulator, id string) *ssh.ServerConfig {
	return &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			var now mac
			if err := cloud.try(ctx, "GET", "/apple-silicon/v1alpha1/zones/fr-par-1/servers/"+id, nil, &now); err != nil {
				return nil, err
			}
			if string(password) != now.Password {
				return nil, errors.New("another password")
			}
			return nil, nil
		},
	}
}
