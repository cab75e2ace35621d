package fleeting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

func TestEveryMistakeOfAConfigurationIsReportedAtOnceThroughTheWire(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	_, err := tryRunner(t, cloud.config(t, map[string]any{"server_typ": "X", "volume_size": 3, "image": ""}))
	require.ErrorContains(t, err, "did you mean `server_type`?")
	require.ErrorContains(t, err, "volume_size: expected gigabytes, as a whole number from 10")
	require.ErrorContains(t, err, "image: say what boots")
}

func TestInitAsksScalewayWhetherWhatIsNamedExists(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	_, err := tryRunner(t, cloud.config(t, map[string]any{
		"server_type":    []string{"DEV1-S", "DEV1-Z"},
		"image":          "ubuntu_nobel",
		"security_group": "44444444-2222-4333-8444-555555555555",
	}))
	require.ErrorContains(t, err, "DEV1-Z does not exist in fr-par-1")
	require.ErrorContains(t, err, "there is no image with the label ubuntu_nobel; did you mean ubuntu_noble?")
	require.ErrorContains(t, err, "security_group: there is no security group 44444444")
	require.Empty(t, cloud.servers())
}

func TestAGroupThatHoldsFewerThanTheRunnerWantsIsRefused(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	_, err := tryRunner(t, cloud.config(t, map[string]any{"max_size": 3}), fleeting.WithMaxSize(4))
	require.ErrorIs(t, err, fleeting.ErrMaxSizeExceedsInstanceGroupMax)
}

// No stock in any type: the creation is undone, and for a while nothing is tried at all.
func TestThereIsNoHotLoopOfFailingCreations(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	cloud.fault(fault{Method: "POST", Path: "/instance/v1/zones/*/servers", Kind: "out-of-stock", Effect: "before"})
	metrics := servedMetrics(t)
	config := cloud.config(t, metrics.configured(map[string]any{"server_type": []string{"DEV1-S", "DEV1-M"}}))
	runner := startRunner(t, config, fleeting.WithMaxSize(1))
	// After each failure the group pauses, from ten seconds on and longer each time.
	runner.group.seesUpdates(t, 60, func() { runner.demand(1) })
	begun := int(runner.group.increases.Load())
	require.LessOrEqual(t, begun, 8, "creations that were begun")
	tried := 0
	for _, request := range cloud.requests() {
		if request.Method == "POST" && strings.HasSuffix(request.Path, "/servers") {
			tried++
		}
	}
	require.GreaterOrEqual(t, tried, 2, "both types")
	require.LessOrEqual(t, tried, 2*begun, "each type once in each creation")
	paused := `windlass_fleeting_paused_until_timestamp_seconds{zone="fr-par-1",type="DEV1-S",class="out-of-stock"} `
	// The first creation may still be on its way when the updates have been seen: it is paused once that is undone.
	eventually(t, "the pause is told, by a time of this century", func() bool {
		return strings.Contains(metrics.text(), paused+"1")
	})
	eventually(t, "the address is gone", cloud.empty)
	cloud.forgetFaults()
	eventually(t, "the demand is met after the pause", func() bool {
		runner.demand(1)
		return runner.Capacity().settled(1)
	})
	// A server is told as running before its creation has ended.
	eventually(t, "the reason is gone", func() bool { return metrics.show(paused + "0") })
}

// A server that hangs on its way up is given up after create_timeout, and its capacity comes back.
func TestAServerThatNeverStartsIsUndone(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "0")
	runner := startRunner(t, cloud.config(t, map[string]any{"create_timeout": "20s"}), fleeting.WithMaxSize(1))
	runner.Request(1)
	eventually(t, "it is seen", func() bool { return len(cloud.servers()) == 1 })
	eventually(t, "it is being undone", func() bool {
		// Simulated time stands still, so the removal of a server that is starting cannot end before it was seen.
		return runner.Capacity().Deleting == 1
	})
	eventually(t, "nothing is left", func() bool {
		cloud.call("POST", "/_simulator/clock", map[string]int{"advance_ms": 60_000}, nil)
		return cloud.empty() && len(runner.Instances()) == 0
	})
	require.Zero(t, runner.Capacity().Pending)
}

// 100 instances demanded at once, at 50 ms for each call: Increase and Decrease answer at once all the same.
func TestAHundredInstancesAtOnce(t *testing.T) {
	besideOthers(t)
	cloud := startSimulator(t, "--latency-ms", "50", "--time-scale", "5")
	config := cloud.config(t, map[string]any{"max_parallel_creates": 100, "max_size": 100})
	group, _ := startGroup(t, config)
	ctx := t.Context()

	begun := time.Now()
	succeeded, err := group.Increase(ctx, 100)
	increase := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, 100, succeeded)

	running := []string{}
	eventuallyEvery(t, 500*time.Millisecond, "a hundred run", func() bool {
		running = nil
		states := 0
		require.NoError(t, group.Update(ctx, func(id string, state provider.State) {
			states++
			if state == provider.StateRunning {
				running = append(running, id)
			}
		}))
		require.Equal(t, 100, states, "each is told from the first update on")
		return len(running) == 100
	})
	created := time.Since(begun)
	begun = time.Now()
	accepted, err := group.Decrease(ctx, running)
	decrease := time.Since(begun)
	require.NoError(t, err)
	require.Len(t, accepted, 100)
	again, err := group.Decrease(ctx, running)
	require.NoError(t, err)
	require.Len(t, again, 100, "asked again, it is the same removal")
	eventually(t, "everything is gone", cloud.empty)
	calls := map[string]int{}
	for _, request := range cloud.requests() {
		if request.Method != "GET" {
			calls[request.Method]++
		}
	}
	fmt.Printf("100 instances at 50 ms: Increase %v, Decrease %v, running after %v, changing calls %v\n", increase,
		decrease, created, calls)
	require.Less(t, increase, budget(50*time.Millisecond))
	require.Less(t, decrease, budget(50*time.Millisecond))
}

func TestAPolicyThatCannotBeLoadedIsRefusedInItsWords(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	for _, refused := range []struct {
		policies map[string]any
		words    string
	}{
		{map[string]any{"rety": map[string]any{}}, "policies: unknown key `rety`; did you mean `retry`?"},
		{map[string]any{"retry": map[string]any{"path": "/nonexistent/retry.wasm"}}, "/nonexistent/retry.wasm"},
		{map[string]any{"retry": map[string]any{"path": "/etc/hostname"}}, "/etc/hostname"},
	} {
		_, err := tryRunner(t, cloud.config(t, map[string]any{"policies": refused.policies}))
		require.ErrorContains(t, err, refused.words)
		t.Log(err)
	}
	require.Empty(t, cloud.servers())
}

// Settings reach a built-in policy: with a deadline of a millisecond, the state mapping reaps every server that starts.
func TestSettingsOfAPolicyDecide(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "1")
	settings := map[string]any{"state-mapping": map[string]any{"settings": map[string]any{"deadline-ms": 1}}}
	runner := startRunner(t, cloud.config(t, map[string]any{"policies": settings}), fleeting.WithMaxSize(1))
	runner.Request(1)
	// Not whether it is there: it may be gone before anybody looks.
	eventually(t, "it is made", func() bool {
		for _, request := range cloud.requests() {
			if request.Method == "POST" && strings.HasSuffix(request.Path, "/servers") && request.Status == 201 {
				return true
			}
		}
		return false
	})
	eventually(t, "it is undone before it runs", func() bool {
		return cloud.empty() && len(runner.Instances()) == 0
	})
}
