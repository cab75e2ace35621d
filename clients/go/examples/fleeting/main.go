// Command fleeting is a small GitLab Runner plugin whose judgements are made by policies that can be replaced while it
// runs: policies.go is all that it takes. Its cloud is a list in memory.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	windlass "github.com/windlass-dev/windlass/clients/go"
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

func main() {
	plugin.Main(&group{}, plugin.VersionInfo{Name: "fleeting-plugin-example"})
}

// group is an autoscaling group. The runner reads its exported fields from plugin_config.
type group struct {
	PolicySocket string `json:"policy_socket"`

	policies *windlass.Client
	mutex    sync.Mutex
	machines []*machine
}

type machine struct {
	id      string
	running bool
	hasRun  bool
	since   time.Time
}

func (g *group) Init(context.Context, hclog.Logger, provider.Settings) (provider.ProviderInfo, error) {
	g.policies = windlass.New(g.PolicySocket, windlass.Options{})
	return provider.ProviderInfo{ID: "example", MaxSize: 10, Version: "1.0.0"}, nil
}

func (g *group) Increase(_ context.Context, n int) (int, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for range n {
		id := fmt.Sprintf("machine-%d", len(g.machines)+1)
		g.machines = append(g.machines, &machine{id: id, running: true, hasRun: true, since: time.Now()})
	}
	return n, nil
}

func (g *group) Decrease(_ context.Context, instances []string) ([]string, error) {
	for _, id := range instances {
		g.delete(id)
	}
	return instances, nil
}

// list is what the cloud says.
func (g *group) list() []machine {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	listed := make([]machine, 0, len(g.machines))
	for _, machine := range g.machines {
		listed = append(listed, *machine)
	}
	return listed
}

// stop is what happens to a machine behind our back.
func (g *group) stop(id string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, machine := range g.machines {
		if machine.id == id {
			machine.running, machine.since = false, time.Now()
		}
	}
}

func (g *group) delete(id string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for place, machine := range g.machines {
		if machine.id == id {
			g.machines = append(g.machines[:place], g.machines[place+1:]...)
			return
		}
	}
}

func (g *group) ConnectInfo(_ context.Context, instance string) (provider.ConnectInfo, error) {
	return provider.ConnectInfo{ID: instance}, nil
}

func (g *group) Heartbeat(context.Context, string) error { return nil }

func (g *group) Suspend(context.Context, []string) ([]string, error) { return nil, nil }

func (g *group) Resume(context.Context, []string) ([]string, error) { return nil, nil }

func (g *group) Shutdown(context.Context) error {
	g.policies.Close()
	return nil
}
