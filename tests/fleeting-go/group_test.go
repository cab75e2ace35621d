package fleeting

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/integration"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"golang.org/x/crypto/ssh"
)

// A runner's side of a group: the real provisioner over the plugin's process.
type runner struct {
	*fleeting.Provisioner
	kill func()
}

func startRunner(t testing.TB, config map[string]any, options ...fleeting.Option) *runner {
	t.Helper()
	started, err := tryRunner(t, config, options...)
	require.NoError(t, err)
	return started
}

func tryRunner(t testing.TB, config map[string]any, options ...fleeting.Option) (*runner, error) {
	t.Helper()
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	log := hclog.New(&hclog.LoggerOptions{Name: t.Name(), Level: hclog.Warn})
	process, err := fleeting.RunPlugin(binary, encoded(t, config), fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	all := append(append([]fleeting.Option{}, quick...), options...)
	provisioner, err := fleeting.Init(context.Background(), log, process.InstanceGroup(), all...)
	if err != nil {
		process.Kill()
		return nil, err
	}
	ended := false
	kill := func() {
		if !ended {
			ended = true
			provisioner.Shutdown(context.Background())
			process.Kill()
		}
	}
	t.Cleanup(kill)
	return &runner{Provisioner: provisioner, kill: kill}, nil
}

type capacity struct{ fleeting.Capacity }

func (r *runner) Capacity() capacity { return capacity{r.Provisioner.Capacity()} }

func (c capacity) settled(running int) bool {
	return c.Running == running && c.Creating == 0 && c.Deleting == 0 && c.Requested == 0
}

// Demands as many as are missing, as a runner's scaler does with each of its rounds.
func (r *runner) demand(count int) {
	c := r.Capacity()
	if missing := count - c.Running - c.Creating - c.Requested; missing > 0 {
		r.Request(missing)
	}
}

func (r *runner) settle(t testing.TB, count int) {
	t.Helper()
	eventually(t, 60*time.Second, fmt.Sprintf("%d running and nothing else", count), func() bool {
		return r.Capacity().settled(count)
	})
}

func TestServersComeAndGoAndNothingIsLeft(t *testing.T) {
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(3))
	runner.Request(3)
	runner.settle(t, 3)
	servers := cloud.servers()
	require.Len(t, servers, 3)
	for _, instance := range runner.Instances() {
		require.True(t, strings.HasPrefix(instance.ID(), "ci-"), "ids are readable: %s", instance.ID())
		info, err := instance.ConnectInfo(context.Background())
		require.NoError(t, err)
		require.Equal(t, "root", info.Username)
		require.Equal(t, "linux", info.OS)
		require.Equal(t, "amd64", info.Arch)
		require.NotEmpty(t, info.ExternalAddr)
		require.NotEmpty(t, info.InternalAddr)
		require.NoError(t, instance.Heartbeat(context.Background()))
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, 30*time.Second, "everything is gone", cloud.empty)
}

// The failure that started it all: a server that ran is stopped behind our back. Told as "deleting", nobody would ever
// delete it, and it would hold its capacity for ever.
func TestADeadlockedAutoscalerIsImpossible(t *testing.T) {
	for _, state := range []string{"stopped", "stopped in place"} {
		t.Run(state, func(t *testing.T) {
			cloud := startSimulator(t, "--time-scale", "20")
			runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(2))
			runner.Request(2)
			runner.settle(t, 2)
			victim := cloud.servers()[0]
			cloud.force(victim.ID, state)
			// The runner wants a replacement as soon as it has room for one.
			runner.Request(1)
			eventually(t, 30*time.Second, "the stopped server is gone", func() bool {
				for _, server := range cloud.servers() {
					if server.ID == victim.ID {
						return false
					}
				}
				return true
			})
			runner.settle(t, 2)
			eventually(t, 30*time.Second, "two servers and what belongs to them", func() bool {
				all := cloud.resources()
				return len(all.Servers) == 2 && len(all.IPs) == 2 && len(all.Volumes) == 2
			})
		})
	}
}

func TestAServerThatSomebodyDeletedGivesItsCapacityBackAndLeavesNothing(t *testing.T) {
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	victim := cloud.servers()[0]
	cloud.force(victim.ID, "deleted")
	runner.Request(1)
	eventually(t, 30*time.Second, "another server runs", func() bool {
		servers := cloud.servers()
		return len(servers) == 1 && servers[0].ID != victim.ID && servers[0].State == "running"
	})
	runner.settle(t, 1)
	eventually(t, 30*time.Second, "the address and volume of the first are gone", func() bool {
		all := cloud.resources()
		return len(all.IPs) == 1 && len(all.Volumes) == 1
	})
}

func TestALockedServerDoesNotHoldItsCapacity(t *testing.T) {
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	locked := cloud.servers()[0]
	cloud.force(locked.ID, "locked")
	runner.Request(1)
	eventually(t, 30*time.Second, "another server runs", func() bool {
		for _, server := range cloud.servers() {
			if server.ID != locked.ID && server.State == "running" {
				return true
			}
		}
		return false
	})
	runner.settle(t, 1)
}

func TestALostAnswerToACreationMakesNoSecondServer(t *testing.T) {
	cloud := startSimulator(t, "--time-scale", "20")
	cloud.fault(fault{Method: "POST", Path: "/instance/v1/zones/*/servers", Nth: 1, Kind: "dropped-connection", Effect: "after"})
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	all := cloud.resources()
	require.Len(t, all.Servers, 1)
	require.Len(t, all.IPs, 1)
}

// Each fault at each call of a creation, through the real loop: at the end the demand is met, nothing is pending or
// deleting, and the cloud holds only what the runner knows.
func TestPendingNeverSticks(t *testing.T) {
	calls := []struct{ name, method, path string }{
		{"create-ip", "POST", "/instance/v1/zones/*/ips"},
		{"create-server", "POST", "/instance/v1/zones/*/servers"},
		{"tag-volume", "PATCH", "/block/v1/zones/*/volumes/*"},
		{"power-on", "POST", "/instance/v1/zones/*/servers/*/action"},
		{"list", "GET", "/instance/v1/zones/*/servers"},
		{"look", "GET", "/instance/v1/zones/*/servers/*"},
	}
	kinds := []string{
		"internal-server-error", "gateway-timeout", "gateway-unavailable", "rate-limited", "out-of-stock", "quota-exceeded",
		"transient-state", "locked", "precondition-failed", "permission-denied", "not-found", "dropped-connection",
		"malformed-body",
	}
	for _, call := range calls {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			cloud := startSimulator(t, "--time-scale", "60")
			runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(2))
			for _, kind := range kinds {
				for _, effect := range []string{"before", "after"} {
					if call.method == "GET" && effect == "after" {
						continue // a look has no effect
					}
					cloud.forgetFaults()
					cloud.fault(fault{Method: call.method, Path: call.path, Nth: 1, Kind: kind, Effect: effect})
					// A hopeless failure brings a pause of ten seconds, and a policy's patience may come before it.
					eventually(t, 120*time.Second, call.name+" "+kind+" "+effect+": the demand is met", func() bool {
						runner.demand(2)
						return runner.Capacity().settled(2)
					})
					eventually(t, 60*time.Second, call.name+" "+kind+" "+effect+": the cloud holds what the runner knows", func() bool {
						all := cloud.resources()
						return len(all.Servers) == 2 && len(all.IPs) == 2 && len(all.Volumes) == 2
					})
					runner.Instances()[0].Delete()
					eventually(t, 60*time.Second, call.name+" "+kind+" "+effect+": one is removed", func() bool {
						return runner.Capacity().settled(1) && len(cloud.servers()) == 1
					})
				}
			}
		})
	}
}

// An ssh server on each running server's own address, which lets in only the keys that this server was given.
func answerBySSH(t *testing.T, cloud *simulator, port int) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		listening := map[string]net.Listener{}
		for {
			select {
			case <-stop:
				for _, listener := range listening {
					_ = listener.Close()
				}
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, server := range cloud.servers() {
				if server.State != "running" || len(server.PublicIPs) == 0 || listening[server.ID] != nil {
					continue
				}
				listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", server.PublicIPs[0].Address, port))
				if err != nil {
					continue
				}
				listening[server.ID] = listener
				go serveSSH(listener, authorizedKeys(server.Tags))
			}
		}
	}()
}

// As cloud-init's datasource for Scaleway reads them.
func authorizedKeys(tags []string) map[string]bool {
	keys := map[string]bool{}
	for _, tag := range tags {
		if line, ok := strings.CutPrefix(tag, "AUTHORIZED_KEY="); ok {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(strings.ReplaceAll(line, "_", " ")))
			if err == nil {
				keys[string(key.Marshal())] = true
			}
		}
	}
	return keys
}

func TestFleetingsOwnIntegrationTestPasses(t *testing.T) {
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	cloud := startSimulator(t, "--time-scale", "20", "--loopback-addresses")
	answerBySSH(t, cloud, 2222)
	integration.TestProvisioning(t, binary, integration.Config{
		PluginConfig:    cloud.config(t, map[string]any{"max_size": 3}),
		ConnectorConfig: provider.ConnectorConfig{Timeout: 30 * time.Second, ProtocolPort: 2222},
		MaxInstances:    3,
		UseExternalAddr: true,
	})
	eventually(t, 30*time.Second, "everything is gone", cloud.empty)
}
