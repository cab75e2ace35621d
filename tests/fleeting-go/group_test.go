package fleeting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	group *watchedGroup
	kill  func()
}

// The plugin as the loop sees it; it notes what it tells.
type watchedGroup struct {
	provider.InstanceGroup
	lock    sync.Mutex
	states  map[string][]provider.State
	permits atomic.Pointer[permits]
	// Updates that were made, and demands of which the plugin took something on.
	updates, increases atomic.Int64
}

// What an update waits for before it begins and before it ends.
type permits struct{ begin, end chan struct{} }

func (g *watchedGroup) Update(ctx context.Context, update func(string, provider.State)) error {
	if wait := g.permits.Load(); wait != nil {
		<-wait.begin
		defer func() { <-wait.end }()
	}
	defer g.updates.Add(1)
	return g.InstanceGroup.Update(ctx, func(id string, state provider.State) {
		g.lock.Lock()
		g.states[id] = append(g.states[id], state)
		g.lock.Unlock()
		update(id, state)
	})
}

func (g *watchedGroup) Increase(ctx context.Context, count int) (int, error) {
	accepted, err := g.InstanceGroup.Increase(ctx, count)
	if accepted > 0 {
		g.increases.Add(1)
	}
	return accepted, err
}

// Waits until so many more updates were made; meanwhile is done in between.
func (g *watchedGroup) seesUpdates(t testing.TB, count int64, meanwhile ...func()) {
	t.Helper()
	until := g.updates.Load() + count
	eventually(t, fmt.Sprintf("%d more updates", count), func() bool {
		for _, do := range meanwhile {
			do()
		}
		return g.updates.Load() >= until
	})
}

// From now on each update waits for a step; the function that is answered ends that.
func (g *watchedGroup) stepping(t testing.TB) (step func(), release func()) {
	g.permits.Store(&permits{begin: make(chan struct{}), end: make(chan struct{})})
	one := g.permits.Load()
	step = func() {
		t.Helper()
		for _, channel := range []chan struct{}{one.begin, one.end} {
			eventually(t, "the loop makes an update", func() bool {
				select {
				case channel <- struct{}{}:
					return true
				default:
					return false
				}
			})
		}
	}
	release = sync.OnceFunc(func() {
		g.permits.Store(nil)
		close(one.begin)
		close(one.end)
	})
	t.Cleanup(release)
	return step, release
}

// All that was told of an instance, in order.
func (g *watchedGroup) told(id string) []provider.State {
	g.lock.Lock()
	defer g.lock.Unlock()
	return append([]provider.State{}, g.states[id]...)
}

// Whether the runner still counts this instance.
func (r *runner) knows(id string) bool {
	for _, instance := range r.Instances() {
		if instance.ID() == id {
			return true
		}
	}
	return false
}

func startRunner(t testing.TB, config map[string]any, options ...fleeting.Option) *runner {
	t.Helper()
	started, err := tryRunner(t, config, options...)
	require.NoError(t, err)
	return started
}

func tryRunner(t testing.TB, config map[string]any, options ...fleeting.Option) (*runner, error) {
	t.Helper()
	log := hclog.New(&hclog.LoggerOptions{Name: t.Name(), Level: hclog.Warn})
	return tryRunnerWithLog(t, log, config, options...)
}

func tryRunnerWithLog(
	t testing.TB, log hclog.Logger, config map[string]any, options ...fleeting.Option,
) (*runner, error) {
	t.Helper()
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	process, err := fleeting.RunPlugin(binary, encoded(t, config), fleeting.WithPluginLogger(log))
	require.NoError(t, err)
	all := append(append([]fleeting.Option{}, quick...), options...)
	group := &watchedGroup{InstanceGroup: process.InstanceGroup(), states: map[string][]provider.State{}}
	provisioner, err := fleeting.Init(t.Context(), log, group, all...)
	if err != nil {
		process.Kill()
		return nil, err
	}
	kill := sync.OnceFunc(func() {
		// The test's own context is over when its cleanups run.
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		defer process.Kill()
		provisioner.Shutdown(ctx)
	})
	t.Cleanup(kill)
	return &runner{Provisioner: provisioner, group: group, kill: kill}, nil
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
	eventually(t, fmt.Sprintf("%d running and nothing else", count), func() bool {
		return r.Capacity().settled(count)
	})
}

func TestServersComeAndGoAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(3))
	runner.Request(3)
	runner.settle(t, 3)
	servers := cloud.servers()
	require.Len(t, servers, 3)
	for _, instance := range runner.Instances() {
		require.True(t, strings.HasPrefix(instance.ID(), "ci-"), "ids are readable: %s", instance.ID())
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		require.Equal(t, "root", info.Username)
		require.Equal(t, "linux", info.OS)
		require.Equal(t, "amd64", info.Arch)
		require.NotEmpty(t, info.ExternalAddr)
		require.NotEmpty(t, info.InternalAddr)
		require.NoError(t, instance.Heartbeat(t.Context()))
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

// The failure that started it all: a server that ran is stopped behind our back. Told as "deleting", nobody would ever
// delete it, and it would hold its capacity for ever. The same for one that is deleted, or locked by Scaleway.
func TestADeadlockedAutoscalerIsImpossible(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"stopped", "stopped in place", "deleted", "locked"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			cloud := startSimulator(t, "--time-scale", "60")
			metrics := servedMetrics(t)
			runner := startRunner(t, cloud.config(t, metrics.configured(nil)), fleeting.WithMaxSize(2))
			runner.Request(2)
			runner.settle(t, 2)
			victim := cloud.servers()[0] // which has its instance's id as its name
			require.True(t, runner.knows(victim.Name))
			step, release := runner.group.stepping(t)
			step()
			cloud.force(victim.ID, state)
			// The runner wants a replacement as soon as it has room for one.
			runner.Request(1)

			step() // the first update that can see it
			if state != "locked" {
				eventually(t, "its removal has ended", func() bool { return metrics.show(removed(1)) })
				all := cloud.resources()
				require.Len(t, all.Servers, 1)
				require.Len(t, all.IPs, 1)
				require.Len(t, all.Volumes, 1)
				step() // the second
			}
			eventually(t, "its capacity is back after one or two updates", func() bool {
				return !runner.knows(victim.Name) && runner.Capacity().Pending == 1
			})
			release()
			runner.settle(t, 2)
			told := runner.group.told(victim.Name)
			if state == "locked" {
				require.NotContains(t, told, provider.StateDeleting, "nobody can remove it, so nobody claims to")
				require.Len(t, cloud.servers(), 3)
				cloud.force(victim.ID, "running")
				eventually(t, "unlocked, it is there again", func() bool { return runner.knows(victim.Name) })
			} else {
				require.Contains(t, told, provider.StateDeleting)
				require.Len(t, cloud.servers(), 2)
			}
		})
	}
}

func TestALostAnswerToACreationMakesNoSecondServer(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	cloud.fault(fault{Method: "POST", Path: "/instance/v1/zones/*/servers", Nth: 1, Kind: "dropped-connection",
		Effect: "after"})
	runner := startRunner(t, cloud.config(t, nil), fleeting.WithMaxSize(1))
	runner.Request(1)
	runner.settle(t, 1)
	all := cloud.resources()
	require.Len(t, all.Servers, 1)
	require.Len(t, all.IPs, 1)
}

// An ssh server on each running server's own address, which lets in only the keys that this server was given.
func answerBySSH(t *testing.T, cloud *simulator, port int) {
	beside(t, func(ctx context.Context) {
		err := serveMachines(ctx, port, func(all *machines) error {
			listening := map[string]bool{}
			for ; ctx.Err() == nil; time.Sleep(pollInterval) {
				var now resources
				if err := cloud.try(ctx, "GET", "/_simulator/resources", nil, &now); err != nil {
					return err
				}
				for _, server := range now.Servers {
					if server.State != "running" || len(server.PublicIPs) == 0 || listening[server.ID] {
						continue
					}
					if err := all.listen(server.PublicIPs[0].Address, letsIn(authorizedKeys(server.Tags))); err != nil {
						return err
					}
					listening[server.ID] = true
				}
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("the machines no longer answer by ssh: %v", err)
		}
	})
}

func letsIn(keys map[string]bool) *ssh.ServerConfig {
	return &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if keys[string(key.Marshal())] {
				return nil, nil
			}
			return nil, errors.New("this server was not given the key")
		},
	}
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
	t.Parallel()
	binary := program(t, "WINDLASS_FLEETING_PLUGIN")
	cloud := startSimulator(t, "--time-scale", "20", "--loopback-addresses")
	connector := overSSH(t)
	answerBySSH(t, cloud, connector.ProtocolPort)
	integration.TestProvisioning(t, binary, integration.Config{
		PluginConfig:    cloud.config(t, map[string]any{"max_size": 3}),
		ConnectorConfig: connector,
		MaxInstances:    3,
		UseExternalAddr: true,
	})
	eventually(t, "everything is gone", cloud.empty)
}
