package fleeting

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
)

var zones = []string{"fr-par-1", "fr-par-2", "fr-par-3"}

// A configuration of three zones, over which the placement policy spreads instances.
func (s *simulator) configOfZones(t testing.TB, changes map[string]any) map[string]any {
	t.Helper()
	config := s.config(t, map[string]any{
		"zone":     zones,
		"policies": map[string]any{"placement": map[string]any{"settings": map[string]any{"spread": "zones"}}},
	})
	for key, value := range changes {
		config[key] = value
	}
	return config
}

// How many servers there are in each zone.
func (s *simulator) byZone() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, server := range s.servers() {
		counts[server.Zone]++
	}
	return counts
}

func (s *simulator) outOfStock(zone string) {
	s.fault(fault{
		Method: "POST", Path: fmt.Sprintf("/instance/v1/zones/%s/servers", zone), Kind: "out-of-stock", Effect: "before",
	})
}

func TestAZoneWithoutStockGivesWayToTheNextAndServesAgainWhenItHasSome(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	cloud.outOfStock(zones[0])
	runner := startRunner(t, cloud.config(t, map[string]any{"zone": zones}), fleeting.WithMaxSize(2))
	eventually(t, "the demand is met", func() bool {
		runner.demand(2)
		return runner.Capacity().settled(2)
	})
	require.Equal(t, map[string]int{zones[1]: 2}, cloud.byZone())

	cloud.forgetFaults()
	eventually(t, "the first zone is used again", func() bool {
		runner.demand(2)
		if !runner.Capacity().settled(2) {
			return false
		}
		if cloud.byZone()[zones[0]] > 0 {
			return true
		}
		runner.Instances()[0].Delete()
		return false
	})
	runner.settle(t, 2)
	for _, instance := range runner.Instances() {
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

func TestAPolicySpreadsInstancesOverZones(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.configOfZones(t, nil), fleeting.WithMaxSize(6))
	runner.Request(2)
	runner.settle(t, 2)
	require.Equal(t, map[string]int{zones[0]: 1, zones[1]: 1}, cloud.byZone())
	runner.Request(4)
	runner.settle(t, 6)
	require.Equal(t, map[string]int{zones[0]: 2, zones[1]: 2, zones[2]: 2}, cloud.byZone())
	for _, instance := range runner.Instances() {
		info, err := instance.ConnectInfo(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, info.ExternalAddr)
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

// For how long what was seen last is told is said by a test of the group with its own time.
func TestAnOutageOfOneZoneTouchesNoInstanceAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	runner := startRunner(t, cloud.configOfZones(t, nil), fleeting.WithMaxSize(6))
	runner.Request(3)
	runner.settle(t, 3)
	before := map[string]bool{}
	for _, instance := range runner.Instances() {
		before[instance.ID()] = true
	}
	cloud.fault(fault{Path: "/instance/v1/zones/fr-par-2/**", Kind: "internal-server-error", Effect: "before"})
	cloud.forgetRequests()
	heartbeats := func() {
		for _, instance := range runner.Instances() {
			require.NoError(t, instance.Heartbeat(t.Context()))
		}
	}
	runner.group.seesUpdates(t, 30, heartbeats)
	require.Len(t, runner.Instances(), 3)
	for _, request := range cloud.requests() {
		require.Equal(t, "GET", request.Method, "%s %s", request.Method, request.Path)
	}
	runner.Request(2)
	runner.settle(t, 5)
	require.Equal(t, map[string]int{zones[0]: 2, zones[1]: 1, zones[2]: 2}, cloud.byZone())
	for id := range before {
		require.True(t, runner.knows(id))
	}
	cloud.forgetFaults()
	for _, instance := range runner.Instances() {
		instance.Delete()
	}
	runner.settle(t, 0)
	eventually(t, "everything is gone", cloud.empty)
}

func TestInstancesOfAllZonesOutliveAPluginAndAreTakenOverFromALostState(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t, "--time-scale", "20")
	config := cloud.configOfZones(t, nil)
	first := startRunner(t, config, fleeting.WithMaxSize(3))
	first.Request(3)
	first.settle(t, 3)
	ids := []string{}
	for _, instance := range first.Instances() {
		ids = append(ids, instance.ID())
	}
	first.kill()
	second := startRunner(t, config, fleeting.WithMaxSize(3))
	for _, id := range ids {
		require.True(t, second.knows(id), "shown at once")
	}
	second.kill()

	_, err := tryRunner(t, cloud.configOfZones(t, nil))
	require.ErrorContains(t, err, "does not know these servers of the group ci in fr-par-1, fr-par-2, fr-par-3")
	for _, id := range ids {
		require.ErrorContains(t, err, id)
	}
	third := startRunner(t, cloud.configOfZones(t, map[string]any{"adopt": true, "delete_on_shutdown": true}))
	for _, id := range ids {
		require.True(t, third.knows(id))
	}
	third.kill()
	require.True(t, cloud.empty(), "%+v", cloud.resources())
}

func TestWhatIsConfiguredForOneZoneOnlyIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	cloud := startSimulator(t)
	var made struct {
		SecurityGroup thing `json:"security_group"`
	}
	body := map[string]any{"name": "runners", "project": project}
	cloud.call("POST", "/instance/v1/zones/fr-par-2/security_groups", body, &made)
	config := cloud.config(t, map[string]any{"zone": zones, "security_group": made.SecurityGroup.ID})
	_, err := tryRunner(t, config)
	for _, zone := range []string{zones[0], zones[2]} {
		require.ErrorContains(t, err, fmt.Sprintf("security_group: there is no security group %s in %s", made.SecurityGroup.ID, zone))
	}
	require.NotContains(t, err.Error(), "in fr-par-2")
}
