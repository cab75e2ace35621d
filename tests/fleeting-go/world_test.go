package fleeting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// A simulated Scaleway with the plugin over it, as a process of its own that has no time but what it is told
// (tests/world, runner-world): one line of JSON for each request, one for each answer.
type worldProcess struct {
	requests io.WriteCloser
	answers  *bufio.Reader
}

func startWorld(t testing.TB) *worldProcess {
	t.Helper()
	binary := program(t, "WINDLASS_RUNNER_WORLD")
	// Compiling takes a development build longer than a day.
	arguments := []string{"--cache", filepath.Join(filepath.Dir(binary), "runner-world-policies")}
	if filter := os.Getenv("WINDLASS_DAYS_LOG"); filter != "" {
		arguments = append(arguments, "--log", filter)
	}
	command := exec.Command(binary, arguments...)
	command.Stderr = os.Stderr
	requests, err := command.StdinPipe()
	require.NoError(t, err)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = requests.Close()
		_ = command.Wait()
	})
	return &worldProcess{requests: requests, answers: bufio.NewReader(output)}
}

func (p *worldProcess) exchange(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.requests.Write(append(line, '\n')); err != nil {
		return err
	}
	line, err = p.answers.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

// How the runner and its group are configured. Times are milliseconds.
type setting struct {
	UpdateInterval              int64 `json:"update_interval"`
	UpdateIntervalWhenExpecting int64 `json:"update_interval_when_expecting"`
	DeletionRetryInterval       int64 `json:"deletion_retry_interval"`
	MaxInstances                int   `json:"max_instances"`
	CapacityPerInstance         int   `json:"capacity_per_instance"`
	MaxUseCount                 int   `json:"max_use_count"`
	IdleTime                    int64 `json:"idle_time"`
	FailureThreshold            int   `json:"failure_threshold"`
	StateStorage                bool  `json:"state_storage"`
	DeleteInstancesOnShutdown   bool  `json:"delete_instances_on_shutdown"`
}

// What happens at its time: to the runner, or (of the kind "world") to Scaleway.
type timedEvent struct {
	At   int64 `json:"at"`
	What struct {
		Kind   string `json:"kind"`
		Count  int    `json:"count"`
		Length int64  `json:"length"`
		Down   int64  `json:"down"`
	} `json:"what"`
	Words string `json:"words"`
}

type schedule struct {
	Setting setting      `json:"setting"`
	Events  []timedEvent `json:"events"`
	Words   string       `json:"words"`
}

// What a day ended with.
type ending struct {
	Digest string `json:"digest"`
	Calls  int    `json:"calls"`
	Given  int    `json:"given"`
}

type worldAnswer struct {
	Now  int64 `json:"now"`
	Done []struct {
		ID     uint64          `json:"id"`
		Answer json.RawMessage `json:"answer"`
		Error  *string         `json:"error"`
	} `json:"done"`
	Lives    bool     `json:"lives"`
	Problems []string `json:"problems"`
	Ending   *ending  `json:"ending"`
}

type reply struct {
	answer json.RawMessage
	err    error
}

// A day of the world, as a test's bubble sees it. While a request is under way, the bubble's time stands still, since
// who reads from a pipe is not durably blocked; between two, nobody reads.
type world struct {
	process *worldProcess
	begun   time.Time
	lock    sync.Mutex
	next    uint64
	waiting map[uint64]chan reply
	// Whether somebody lets time pass there while calls are under way.
	pumping bool
	lives   bool
	// What broke a law.
	problems []string
	ending   *ending
	failed   error
}

func beginDay(process *worldProcess, seed int64) (*world, schedule, error) {
	var day schedule
	err := process.exchange(map[string]int64{"day": seed}, &day)
	return &world{process: process, begun: time.Now(), waiting: map[uint64]chan reply{}}, day, err
}

// Makes a request, with the lock held.
func (w *world) exchange(ask any) worldAnswer {
	var answer worldAnswer
	request := map[string]any{"at": time.Since(w.begun).Milliseconds(), "ask": ask}
	if w.failed != nil {
		return answer
	}
	if err := w.process.exchange(request, &answer); err != nil {
		w.failed = fmt.Errorf("the world has ended: %w", err)
		for id, waits := range w.waiting {
			waits <- reply{err: w.failed}
			delete(w.waiting, id)
		}
		return answer
	}
	for _, done := range answer.Done {
		if waits, ok := w.waiting[done.ID]; ok {
			delete(w.waiting, done.ID)
			var err error
			if done.Error != nil {
				err = errors.New(*done.Error)
			}
			waits <- reply{done.Answer, err}
		}
	}
	for _, problem := range answer.Problems {
		w.problems = append(w.problems, fmt.Sprintf("%v: %s", clock(answer.Now), problem))
	}
	w.lives = answer.Lives
	if answer.Ending != nil {
		w.ending = answer.Ending
	}
	return answer
}

// A time of the day.
type clock int64

func (c clock) String() string {
	return fmt.Sprintf("%02d:%02d:%02d", c/3_600_000, c/60_000%60, c/1_000%60)
}

// Makes a request and waits for as long as that took in the world. Answers the problems that it told of.
func (w *world) ask(ask any) []string {
	w.lock.Lock()
	before := len(w.problems)
	answer := w.exchange(ask)
	told := slices.Clone(w.problems[before:])
	w.lock.Unlock()
	if later := time.Duration(answer.Now)*time.Millisecond - time.Since(w.begun); later > 0 {
		time.Sleep(later)
	}
	return told
}

// Asks what is to be asked until it is true: what is told of is no violation yet.
func (w *world) askInPassing(ask any) []string {
	told := w.ask(ask)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.problems = slices.DeleteFunc(w.problems, func(problem string) bool { return slices.Contains(told, problem) })
	return told
}

func (w *world) broken() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.failed != nil {
		return append(slices.Clone(w.problems), w.failed.Error())
	}
	return slices.Clone(w.problems)
}

// How far time passes there at once while a call is under way: what ends meanwhile ends so much later here.
// No multiple of it is one of the loop's own intervals, so that no two things happen at the same instant.
const pumpInterval = 97*time.Millisecond + 313*time.Microsecond

// Those who are woken at the same instant go on one after the other, in an order that no scheduler chooses.
func oneAfterTheOther(number uint64) { time.Sleep(time.Duration(number%997+1) * time.Microsecond) }

func (w *world) call(ctx context.Context, method string, count int, instances []string) (json.RawMessage, error) {
	w.lock.Lock()
	w.next++
	id := w.next
	waits := make(chan reply, 1)
	w.waiting[id] = waits
	if instances == nil {
		instances = []string{}
	}
	w.exchange(map[string]any{"begin": map[string]any{"id": id, "method": method, "count": count, "instances": instances}})
	if len(w.waiting) > 0 && !w.pumping {
		w.pumping = true
		go w.pump()
	}
	w.lock.Unlock()
	select {
	case ended := <-waits:
		oneAfterTheOther(id)
		return ended.answer, ended.err
	case <-ctx.Done():
		w.lock.Lock()
		defer w.lock.Unlock()
		if _, ok := w.waiting[id]; ok {
			delete(w.waiting, id)
			w.exchange(map[string]any{"cancel": id})
		}
		return nil, ctx.Err()
	}
}

func (w *world) pump() {
	for {
		time.Sleep(pumpInterval)
		w.lock.Lock()
		if len(w.waiting) == 0 {
			w.pumping = false
			w.lock.Unlock()
			return
		}
		w.exchange("step")
		w.lock.Unlock()
	}
}

// The plugin of one start of the runner. What is cut off is a plugin whose runner has ended: nothing of it arrives.
type worldGroup struct {
	world  *world
	lock   sync.Mutex
	isGone bool
}

var errGone = errors.New("the runner has ended")

func (g *worldGroup) cutOff() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.isGone = true
}

func (g *worldGroup) call(ctx context.Context, method string, count int, instances ...string) (json.RawMessage, error) {
	g.lock.Lock()
	gone := g.isGone
	g.lock.Unlock()
	if gone {
		return nil, errGone
	}
	return g.world.call(ctx, method, count, instances)
}

func (g *worldGroup) Init(ctx context.Context, _ hclog.Logger, _ provider.Settings) (provider.ProviderInfo, error) {
	_, err := g.call(ctx, "init", 0)
	return provider.ProviderInfo{ID: "days", MaxSize: 1_000}, err
}

func (g *worldGroup) Update(ctx context.Context, update func(string, provider.State)) error {
	answer, err := g.call(ctx, "update", 0)
	if err != nil {
		return err
	}
	var reports [][2]string
	if err := json.Unmarshal(answer, &reports); err != nil {
		return err
	}
	for _, report := range reports {
		update(report[0], provider.State(report[1]))
	}
	return nil
}

func (g *worldGroup) Increase(ctx context.Context, count int) (int, error) {
	answer, err := g.call(ctx, "increase", count)
	accepted := 0
	if err == nil {
		err = json.Unmarshal(answer, &accepted)
	}
	return accepted, err
}

// In an order of its own, since the loop's is that of a map.
func (g *worldGroup) Decrease(ctx context.Context, instances []string) ([]string, error) {
	instances = slices.Sorted(slices.Values(instances))
	answer, err := g.call(ctx, "decrease", 0, instances...)
	var accepted []string
	if err == nil {
		err = json.Unmarshal(answer, &accepted)
	}
	return accepted, err
}

func (g *worldGroup) ConnectInfo(ctx context.Context, instance string) (provider.ConnectInfo, error) {
	answer, err := g.call(ctx, "connect-info", 0, instance)
	info := provider.ConnectInfo{ID: instance}
	if err == nil {
		err = json.Unmarshal(answer, &info.ExternalAddr)
	}
	return info, err
}

func (g *worldGroup) Heartbeat(ctx context.Context, instance string) error {
	_, err := g.call(ctx, "heartbeat", 0, instance)
	return err
}

func (g *worldGroup) Suspend(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

func (g *worldGroup) Resume(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

func (g *worldGroup) Shutdown(ctx context.Context) error {
	_, err := g.call(ctx, "shutdown", 0)
	return err
}
