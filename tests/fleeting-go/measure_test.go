package fleeting

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"golang.org/x/sync/errgroup"
)

// Servers that other people have in the zone, and ours, made behind the plugin's back with the tags that make them
// ours.
func (s *simulator) populate(foreign, ours int, owner, group string) {
	var images struct {
		Images []struct {
			ID   string `json:"id"`
			Arch string `json:"arch"`
		} `json:"local_images"`
	}
	s.call("GET", "/marketplace/v2/local-images?image_label=ubuntu_noble&zone=fr-par-1&type=instance_sbs", nil, &images)
	image := ""
	for _, candidate := range images.Images {
		if candidate.Arch == "x86_64" {
			image = candidate.ID
		}
	}
	digits := "0123456789abcdefghjkmnpqrstvwxyz"
	workers, ctx := errgroup.WithContext(s.t.Context())
	workers.SetLimit(8)
	for number := range foreign + ours {
		workers.Go(func() error {
			body := map[string]any{
				"name": fmt.Sprintf("server-%d", number), "commercial_type": "DEV1-S", "image": image,
				"project": project, "tags": []string{"theirs"}, "dynamic_ip_required": false, "volumes": map[string]any{},
			}
			var answer struct {
				Server server `json:"server"`
			}
			if number < ours {
				unique := []byte("000000")
				for place, rest := 5, number; place >= 0; place, rest = place-1, rest/32 {
					unique[place] = digits[rest%32]
				}
				operation := group + "-0nqrvw" + string(unique)
				body["tags"] = []string{
					"windlass-owner=" + owner + "-" + group, "windlass-group=" + group, "windlass-operation=" + operation,
				}
			}
			if err := s.try(ctx, "POST", "/instance/v1/zones/fr-par-1/servers", body, &answer); err != nil || number >= ours {
				return err
			}
			path := fmt.Sprintf("/_simulator/servers/%s/state", answer.Server.ID)
			return s.try(ctx, "POST", path, map[string]string{"state": "running"}, nil)
		})
	}
	require.NoError(s.t, workers.Wait())
}

// WINDLASS_OURS instances among WINDLASS_SERVERS servers in the zone.
func TestServersOfOthersCostAnUpdateNothing(t *testing.T) {
	besideOthers(t)
	ours, servers := int(number(t, "WINDLASS_OURS", 500)), int(number(t, "WINDLASS_SERVERS", 10_000))
	cloud := startSimulator(t)
	cloud.populate(servers-ours, ours, "team", "ci")
	// A first start: what compiling leaves behind counts.
	config := cloud.config(t, map[string]any{"owner": "team", "adopt": true, "state_dir": t.TempDir()})
	begun := time.Now()
	group, _ := startGroup(t, config)
	started := time.Since(begun)
	update := func() int {
		running := 0
		require.NoError(t, group.Update(t.Context(), func(_ string, state provider.State) {
			if state == provider.StateRunning {
				running++
			}
		}))
		return running
	}
	require.Equal(t, ours, update(), "ours, and none of theirs")
	pid := pluginsOf(t, config["state_dir"].(string))[0]
	cloud.forgetRequests()
	used := processor(t, pid)
	var took []time.Duration
	for range 10 {
		begun := time.Now()
		require.Equal(t, ours, update())
		took = append(took, time.Since(begun))
	}
	used = processor(t, pid) - used
	calls := len(cloud.requests())
	// The time of an update is the simulator's, too, which searches all servers for each page.
	fmt.Printf("%d instances among %d servers: first Init %v; Update p50 %v, of which the plugin's processor %v; "+
		"%d calls each; resident %v\n", ours, servers, started.Round(time.Millisecond),
		median(took).Round(time.Millisecond), used/10, calls/10, resident(pid))
	require.LessOrEqual(t, calls, 10*((ours+99)/100+3),
		"a page of a hundred each, three more to see the end of the list, and nothing for each server")
}

// Beside other tests, unless figures are wanted.
func besideOthers(t *testing.T) {
	if os.Getenv("WINDLASS_MEASURE") == "" {
		t.Parallel()
	}
}

func median(durations []time.Duration) time.Duration {
	sort.Slice(durations, func(a, b int) bool { return durations[a] < durations[b] })
	return durations[len(durations)/2]
}

// Resident memory: all of it, and what is the process's own (the rest are pages of its program).
type memory struct{ all, own float64 }

func (m memory) String() string { return fmt.Sprintf("%.1f MB (%.1f own)", m.all, m.own) }

func resident(pid int) memory {
	var found memory
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(status), "\n") {
		for key, place := range map[string]*float64{"VmRSS:": &found.all, "RssAnon:": &found.own} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				var kilobytes float64
				_, _ = fmt.Sscanf(strings.TrimSpace(rest), "%f", &kilobytes)
				*place = kilobytes / 1024
			}
		}
	}
	return found
}

// The processor's time that a process has used, in steps of 10 ms.
func processor(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	// After the name in brackets, which may hold anything, user and system time are the 12th and 13th field.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	require.Greater(t, len(fields), 12)
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// Starts a plugin as a host would, and measures how long its line takes and what it then holds.
func handshakeOf(t *testing.T, binary string) (time.Duration, memory) {
	command := exec.Command(binary)
	command.Env = append(os.Environ(), cookie)
	endsWithUs(command)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	begun := time.Now()
	require.NoError(t, command.Start())
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	_, err = bufio.NewReader(output).ReadString('\n')
	took := time.Since(begun)
	require.NoError(t, err)
	return took, resident(command.Process.Pid)
}

// The figures, side by side with other plugins whose binaries WINDLASS_REFERENCE_PLUGINS names (separated by colons).
func TestMeasure(t *testing.T) {
	if os.Getenv("WINDLASS_MEASURE") == "" {
		t.Skip("SKIPPED: WINDLASS_MEASURE is not set")
	}
	binaries := []string{program(t, "WINDLASS_FLEETING_PLUGIN")}
	for _, other := range filepath.SplitList(os.Getenv("WINDLASS_REFERENCE_PLUGINS")) {
		binaries = append(binaries, other)
	}
	fmt.Printf("%-32s %14s  %s\n", "plugin", "handshake p50", "resident at the handshake")
	for _, binary := range binaries {
		var took []time.Duration
		var held memory
		for range 30 {
			duration, now := handshakeOf(t, binary)
			took, held = append(took, duration), now
		}
		fmt.Printf("%-32s %14v  %v\n", filepath.Base(binary), median(took).Round(10*time.Microsecond), held)
	}

	cloud := startSimulator(t, "--latency-ms", "50", "--time-scale", "1")
	config := cloud.config(t, map[string]any{"volume_size": 10, "public_ipv6_disabled": false, "state_dir": t.TempDir()})
	state := config["state_dir"].(string)
	begun := time.Now()
	_, kill := startGroup(t, config)
	fmt.Printf("first Init, policies compiled: %v, resident %v\n", time.Since(begun).Round(time.Millisecond),
		resident(pluginsOf(t, state)[0]))
	kill()
	begun = time.Now()
	group, _ := startGroup(t, config)
	fmt.Printf("next Init, policies from the cache: %v, resident %v\n", time.Since(begun).Round(time.Millisecond),
		resident(pluginsOf(t, state)[0]))
	for _, count := range []int{1, 10} {
		cloud.forgetRequests()
		begun := time.Now()
		_, err := group.Increase(t.Context(), count)
		require.NoError(t, err)
		running := []string{}
		eventuallyEvery(t, 500*time.Millisecond, "they run", func() bool {
			running = nil
			require.NoError(t, group.Update(t.Context(), func(id string, state provider.State) {
				if state == provider.StateRunning {
					running = append(running, id)
				}
			}))
			return len(running) == count
		})
		created := time.Since(begun)
		polls, changes := split(cloud.requests())
		cloud.forgetRequests()
		_, err = group.Decrease(t.Context(), running)
		require.NoError(t, err)
		eventually(t, "they are gone", cloud.empty)
		removalPolls, removals := split(cloud.requests())
		fmt.Printf("%d instances (1 volume, 2 addresses): running after %v; calls for each: "+
			"%.1f to create (and %.1f looks), %.1f to remove (and %.1f looks)\n",
			count, created.Round(10*time.Millisecond), per(changes, count), per(polls, count), per(removals,
				count), per(removalPolls, count))
	}
}

func split(requests []request) (looks, changes int) {
	for _, request := range requests {
		if request.Method == "GET" {
			looks++
		} else {
			changes++
		}
	}
	return looks, changes
}

func per(calls, count int) float64 { return float64(calls) / float64(count) }
