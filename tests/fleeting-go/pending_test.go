package fleeting

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
)

// Groups that work through the cells at the same time, where there are many, each with a simulator of its own: nearly all of a cell is
// waiting (for a look, for a policy's patience, for a pause).
const matrixGroups = 32

// Looks of one part of a series.
const looksInARow = 3

// A creation takes between seven and some twenty looks: how many depends on how busy the machine is.
const leastLooks = 4

// Every kind of fault that the simulator knows, delays aside.
var faultKinds = []string{
	"internal-server-error", "gateway-timeout", "gateway-unavailable", "rate-limited", "out-of-stock", "quota-exceeded",
	"transient-state", "locked", "precondition-failed", "permission-denied", "not-found", "dropped-connection",
	"malformed-body",
}

// What a creation changes, by kind of call. How often each is called is found out and not written down.
var creationCalls = []struct {
	method, path string
	// The least number of such calls in a creation.
	least int
}{
	{"POST", "/instance/v1/zones/*/ips", 2},
	{"POST", "/instance/v1/zones/*/servers", 1},
	{"PATCH", "/block/v1/zones/*/volumes/*", 1},
	{"POST", "/instance/v1/zones/*/servers/*/private_nics", 1},
	{"PATCH", "/instance/v1/zones/*/servers/*/user_data/*", 1},
	{"POST", "/instance/v1/zones/*/servers/*/action", 1},
}

// One kind of fault at one kind of call, at the first, the second, ... such call of a creation. A series whose last is
// 0 ends where there was no such call any more.
type series struct {
	fault
	last int
}

func (s series) String() string {
	return fmt.Sprintf("%s %s, matching call %d, %s %s its effect", s.Method, s.Path, s.Nth, s.Kind, s.Effect)
}

// A group with everything that a creation can have: two addresses, a Block Storage volume, a private network,
// cloud-init.
func (s *simulator) wholeConfig(t testing.TB) map[string]any {
	var network struct {
		ID string `json:"id"`
	}
	s.call("POST", "/vpc/v2/regions/fr-par/private-networks", map[string]any{"name": "n", "project_id": project}, &network)
	return s.config(t, map[string]any{
		"public_ipv6_disabled": false,
		"volume_size":          10,
		"private_networks":     []string{network.ID},
		"cloud_init":           "#cloud-config\n",
	})
}

// Removes the one instance, and sees it gone with everything.
func (r *runner) removeOne(t testing.TB, cloud *simulator, what string) {
	t.Helper()
	r.Instances()[0].Delete()
	eventually(t, what+": it is removed with everything", func() bool {
		return r.Capacity().settled(0) && cloud.empty()
	})
}

// Works one cell through the real loop: at the end the demand is met, nothing is pending or deleting, and the cloud
// holds exactly what the runner knows. Answers whether there was a call to fail.
func (s series) workOne(t *testing.T, cloud *simulator, runner *runner) bool {
	cloud.forgetFaults()
	cloud.fault(s.fault)
	// A hopeless failure brings a pause of ten seconds, and a policy's patience may come before it.
	eventually(t, s.String()+": the demand is met", func() bool {
		runner.demand(1)
		return runner.Capacity().settled(1)
	})
	applied := cloud.faultsApplied() > 0
	cloud.forgetFaults()
	eventually(t, s.String()+": the cloud holds what the runner knows", func() bool {
		all := cloud.resources()
		return len(all.Servers) == 1 && len(all.IPs) == 2 && len(all.Volumes) == 1 && len(all.PrivateNICs) == 1
	})
	require.Zero(t, runner.Capacity().Pending, s.String())
	runner.removeOne(t, cloud, s.String())
	return applied
}

// How many looks there are from the demand for an instance until it is there, the loop's own listings included.
func looksOfACreation(t *testing.T) int {
	cloud := startSimulator(t, "--time-scale", "60")
	runner := startRunner(t, cloud.wholeConfig(t), append(calm, fleeting.WithMaxSize(1))...)
	cloud.forgetRequests()
	runner.Request(1)
	runner.settle(t, 1)
	looks, _ := split(cloud.requests())
	runner.removeOne(t, cloud, "without a fault")
	runner.kill()
	return looks
}

// Each fault at EACH call of a creation, before and after its effect, and at each look that is taken meanwhile, through
// the real loop: nothing stays pending, nothing leaks. Every seventh of these, at other calls for each kind of fault;
// all of them where WINDLASS_EVERY_CASE is set, as `just search` sets it.
func TestPendingNeverSticks(t *testing.T) {
	t.Parallel()
	program(t, "WINDLASS_FLEETING_PLUGIN")
	var all []series
	looks := looksOfACreation(t)
	step := 7
	if os.Getenv("WINDLASS_EVERY_CASE") != "" {
		step = 1
	}
	for number, kind := range faultKinds {
		add := func(one series) {
			if number++; number%step == 0 {
				all = append(all, one)
			}
		}
		for _, call := range creationCalls {
			for _, effect := range []string{"before", "after"} {
				if kind == "rate-limited" && effect == "after" {
					continue // What was refused unseen has no effect (docs/assumptions.md, refusals-have-no-effect).
				}
				add(series{fault{call.method, call.path, 1, kind, effect}, 0})
			}
		}
		// A look has no effect, so it fails before it.
		for first := 1; first <= looks; first += looksInARow {
			add(series{fault{"GET", "/**", first, kind, "before"}, min(first+looksInARow-1, looks)})
		}
	}
	queue := make(chan series, len(all))
	for _, one := range all {
		queue <- one
	}
	close(queue)
	var lock sync.Mutex
	cells, reached := 0, map[string]int{}
	begun := time.Now()
	t.Run("groups", func(t *testing.T) {
		for group := range min(matrixGroups, (len(all)+3)/4) {
			t.Run(fmt.Sprint(group), func(t *testing.T) {
				t.Parallel()
				cloud := startSimulator(t, "--time-scale", "60", "--seed", fmt.Sprint(group))
				runner := startRunner(t, cloud.wholeConfig(t), append(calm, fleeting.WithMaxSize(1))...)
				// A cell that fails ends its group; the others work through the rest.
				for one := range queue {
					for ; one.last == 0 || one.Nth <= one.last; one.Nth++ {
						applied := one.workOne(t, cloud, runner)
						if !applied && one.last == 0 {
							break
						}
						if applied {
							lock.Lock()
							cells++
							call := one.Method + " " + one.Path
							reached[call] = max(reached[call], one.Nth)
							lock.Unlock()
						}
					}
				}
			})
		}
	})
	fmt.Printf("faults: %d cells, %d looks of a creation, in %v\n", cells, looks, time.Since(begun).Round(time.Second))
	for _, call := range creationCalls {
		require.GreaterOrEqual(t, reached[call.method+" "+call.path], call.least, "calls of %s %s that were failed",
			call.method, call.path)
	}
	require.GreaterOrEqual(t, reached["GET /**"], leastLooks, "looks that were failed")
}
