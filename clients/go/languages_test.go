package windlass_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	windlass "github.com/windlass-dev/windlass/clients/go"
	"github.com/windlass-dev/windlass/clients/go/policyv1"
)

// TestSwapsBetweenLanguagesLoseNoDecision replaces the retry policy by one in another language, again and again, while
// eight callers ask: every question is decided, at the first asking, by a policy that was in force during it, and every
// decision is recorded. `just swaps 7200` builds the policies and lets it run for two hours.
func TestSwapsBetweenLanguagesLoseNoDecision(t *testing.T) {
	folder := os.Getenv("WINDLASS_LANGUAGES")
	if folder == "" {
		t.Skip("WINDLASS_LANGUAGES names no folder of policies: just swaps")
	}
	duration, err := time.ParseDuration(os.Getenv("WINDLASS_SWAPS_FOR"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	server := newServer(t, "1")
	client := newClient(t, server.socket, windlass.Options{Timeout: time.Minute, Connections: 8})

	// The policies in the order in which they are put in force; what decides has to be one that was during the question.
	var inForce, decided atomic.Int64
	var mutex sync.Mutex
	policies := []string{deciding(t, client)}
	between := func(from, to int64, policy string) bool {
		mutex.Lock()
		defer mutex.Unlock()
		for number := from; number <= to && number < int64(len(policies)); number++ {
			if policies[number] == policy {
				return true
			}
		}
		return false
	}

	stop := make(chan struct{})
	slowest := make([]time.Duration, 8)
	var group sync.WaitGroup
	for caller := range slowest {
		group.Go(func() {
			ticks := time.NewTicker(20 * time.Millisecond)
			defer ticks.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticks.C:
				}
				from, began := inForce.Load(), time.Now()
				decision := client.Retry(context.Background(), outOfStock(), giveUp)
				slowest[caller] = max(slowest[caller], time.Since(began))
				decided.Add(1)
				// A swap may have been put in force, and not yet been seen to be.
				if decision.Err != nil || len(decision.Fallbacks) > 0 || decision.ID == "" ||
					!between(from, inForce.Load()+1, identity(decision.DecidedBy)) {
					t.Errorf("after swap %d: %+v", from, decision)
					return
				}
			}
		})
	}

	end := time.Now().Add(duration)
	for number := 0; time.Now().Before(end) && !t.Failed(); number++ {
		path := files[number%len(files)]
		policy := identityOf(t, path)
		mutex.Lock()
		policies = append(policies, policy)
		mutex.Unlock()
		if strings.HasSuffix(path, ".wasm") {
			// The server notices a changed file by itself; between two components the configuration stays as it is.
			replace(t, filepath.Join(server.folder, "live.wasm"), path)
			path = filepath.Join(server.folder, "live.wasm")
		}
		server.write("config.toml", "[policies.retry]\npath = \""+path+"\"\n")
		server.signal(syscall.SIGHUP)
		// Compiling an interpreter takes a busy machine minutes, once.
		for waited := 0; waited < 600 && deciding(t, client) != policy; waited++ {
			time.Sleep(100 * time.Millisecond)
		}
		eventually(t, "the policy that was put in place decides", func() bool { return deciding(t, client) == policy })
		inForce.Add(1)
		if number%10 == 9 {
			// One that is none changes nothing.
			server.write("config.toml", "[policies.retry]\npath = \""+filepath.Join(server.folder, "config.toml")+"\"\n")
			server.signal(syscall.SIGHUP)
		}
		time.Sleep(min(5*time.Second, time.Until(end)))
		if found := deciding(t, client); found != policy {
			t.Errorf("%s decides instead of %s", found, policy)
		}
	}
	close(stop)
	group.Wait()

	status, err := client.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	counters := status.GetCounters()
	if int64(counters.GetDecisions()) < decided.Load() || counters.GetFallbacks() != 0 || counters.GetLostRecords() != 0 {
		t.Errorf("%d decided: %v", decided.Load(), counters)
	}
	slowestOfAll := time.Duration(0)
	for _, one := range slowest {
		slowestOfAll = max(slowestOfAll, one)
	}
	t.Logf("%d swaps among %d policies, %d decisions, the slowest in %s", inForce.Load(), len(files), decided.Load(),
		slowestOfAll)
}

// outOfStock is a question that each of the policies decides.
func outOfStock() *policyv1.RetryQuestion {
	question := gatewayFailed()
	question.Failure.Class = policyv1.FailureClass_FAILURE_CLASS_OUT_OF_STOCK
	return question
}

// deciding says which policy decides now.
func deciding(t *testing.T, client *windlass.Client) string {
	t.Helper()
	decision := client.Retry(context.Background(), outOfStock(), giveUp)
	if decision.Err != nil {
		t.Fatal(decision.Err)
	}
	return identity(decision.DecidedBy)
}

// identity is the component's digest. Rules are settings of one component that is built in.
func identity(policy *policyv1.Policy) string {
	if strings.HasSuffix(policy.GetName(), rules) {
		return rules
	}
	return policy.GetComponent()
}

const rules = ".rules.toml"

func identityOf(t *testing.T, path string) string {
	t.Helper()
	if !strings.HasSuffix(path, ".wasm") {
		return rules
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(bytes)
	return hex.EncodeToString(digest[:])
}

// replace puts a copy of a file in place of another.
func replace(t *testing.T, path, with string) {
	t.Helper()
	bytes, err := os.ReadFile(with)
	if err == nil {
		err = os.WriteFile(path+".new", bytes, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}
