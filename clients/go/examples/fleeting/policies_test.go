package main

import (
	"bufio"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// Rules that keep whatever is stopped, for as long as somebody looks into it.
const keepStopped = `slot = "state-mapping"
[[rules]]
name = "somebody looks into it"
when = "server.state == 'stopped'"
answer = { mapped = { report = "creating", action = "none" } }
`

// Rules that leave everything to the built-in default, which reaps what has stopped after it ran.
const nothing = `slot = "state-mapping"
[[rules]]
name = "never"
when = "server.state == 'locked'"
answer = "defer"
`

// serve starts a real policy server with these rules.
func serve(t *testing.T, folder, rules string) *exec.Cmd {
	t.Helper()
	program := os.Getenv("WINDLASS_COMMAND_LINE")
	if program == "" {
		t.Skip("WINDLASS_COMMAND_LINE names no program: just test-clients-go")
	}
	write(t, filepath.Join(folder, "states.rules.toml"), rules)
	write(t, filepath.Join(folder, "config.toml"), "[policies.state-mapping]\npath = \""+folder+"/states.rules.toml\"\n")
	server := exec.Command(program, "--quiet", "--config", folder+"/config.toml", "--state-dir", folder+"/state",
		"policy", "serve", "--listen", "unix:"+folder+"/policy.sock")
	server.Env = append(os.Environ(), "HOME="+folder, "SCW_CONFIG_PATH="+folder+"/none")
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	return server
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// reports is what the runner is told.
func reports(t *testing.T, group *group) map[string]provider.State {
	t.Helper()
	told := map[string]provider.State{}
	if err := group.Update(context.Background(), func(id string, state provider.State) { told[id] = state }); err != nil {
		t.Fatal(err)
	}
	return told
}

func TestPoliciesAreReplacedUnderAPluginThatRuns(t *testing.T) {
	folder, err := os.MkdirTemp("", "windlass-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	group := &group{PolicySocket: filepath.Join(folder, "policy.sock")}
	if _, err := group.Init(context.Background(), hclog.NewNullLogger(), provider.Settings{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Shutdown(context.Background()) })
	if _, err := group.Increase(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	group.stop("machine-2")
	expect := func(when string, want map[string]provider.State) {
		t.Helper()
		var told map[string]provider.State
		for range 6000 {
			if told = reports(t, group); maps.Equal(told, want) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s: %v, and never %v", when, told, want)
	}
	ownDefault := map[string]provider.State{"machine-1": provider.StateRunning}
	expect("no server yet", ownDefault)
	server := serve(t, folder, keepStopped)
	expect("the rules keep it", map[string]provider.State{"machine-1": provider.StateRunning,
		"machine-2": provider.StateCreating})
	server.Process.Kill()
	server.Wait()
	expect("the server was killed", ownDefault)
	serve(t, folder, keepStopped)
	expect("another server", map[string]provider.State{"machine-1": provider.StateRunning,
		"machine-2": provider.StateCreating})
	write(t, filepath.Join(folder, "states.rules.toml"), nothing)
	// Reaped once, and gone from then on.
	expect("other rules", map[string]provider.State{"machine-1": provider.StateRunning})
	if left := group.list(); len(left) != 1 {
		t.Errorf("%v", left)
	}
}
