package fleeting

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// So long may it take until capacity is truth, from when nothing fails any more: pauses and waits between tries have
// their bounds, fifteen minutes the longest.
const settleLimit = 45 * time.Minute

// So long may it take until nothing is left and nobody does anything any more, from when nothing is wanted.
const restLimit = 12 * time.Hour

// A day's result.
type dayResult struct {
	broken     []string
	ending     ending
	day        schedule
	settled    time.Duration // the longest that it took
	done, lost int
	rested     time.Duration
}

// Lives the day of a seed, in a test's bubble.
func liveADay(process *worldProcess, seed int64) (result dayResult) {
	world, day, err := beginDay(process, seed)
	result.day = day
	if err != nil {
		result.broken = []string{err.Error()}
		return result
	}
	s := &scaler{world: world, setting: day.Setting, slots: map[string]*slot{}}
	downs := time.Minute
	for number, event := range day.Events {
		s.runUntil(world.begun.Add(ms(event.At)))
		switch event.What.Kind {
		case "jobs":
			s.lock.Lock()
			for range event.What.Count {
				s.waiting = append(s.waiting, job{length: ms(event.What.Length)})
			}
			s.lock.Unlock()
		case "idle":
			s.idle = event.What.Count
		case "drain":
			s.drain(ms(event.What.Down))
		case "quiet":
			result.settled = max(result.settled, s.becomesTruth(event.What.Count))
		default:
			if event.What.Kind == "kill" {
				downs = ms(event.What.Down)
			}
			world.ask(map[string]any{"event": number})
			if !world.lives {
				s.ended(downs)
			}
		}
		if len(world.broken()) > 0 {
			break
		}
	}
	if len(world.broken()) == 0 {
		s.becomesTruth(0)
		result.rested = s.comesToRest()
	}
	world.ask("over")
	s.ended(0)
	// Loops that were shut down notice it when they wake.
	time.Sleep(5 * time.Minute)
	result.broken = world.broken()
	if world.ending != nil {
		result.ending = *world.ending
	}
	result.done, result.lost = s.done, s.lost
	return result
}

// Nothing fails any more, no job runs, and so many instances are wanted: soon the runner has them, nothing else holds
// its capacity, and it is what there is at Scaleway. Answers how long it took.
func (s *scaler) becomesTruth(count int) time.Duration {
	s.world.ask("calm")
	s.idle, s.impatient = count, true
	defer func() { s.impatient = count == 0 }()
	began := time.Now()
	told := []string{}
	for time.Since(began) < settleLimit && len(s.world.broken()) == 0 {
		s.endJobs()
		s.runUntil(time.Now().Add(20 * time.Second))
		if s.settled(count) {
			if told = s.world.askInPassing(map[string]any{"believes": s.belief()}); len(told) == 0 {
				return time.Since(began)
			}
		}
	}
	s.violation("after %v in which nothing failed and %d instances were wanted, %s; %s", settleLimit, count, s.words(),
		strings.Join(told, "; "))
	return time.Since(began)
}

// Nothing is wanted: in the end nothing is left, and no operation is open. Answers how long it took.
func (s *scaler) comesToRest() time.Duration {
	began := time.Now()
	for len(s.world.broken()) == 0 {
		s.runUntil(time.Now().Add(30 * time.Minute))
		if s.provisioner == nil {
			s.violation("%s", s.words())
			break
		}
		ends := map[string]any{"ends": s.belief()}
		if time.Since(began) >= restLimit {
			s.world.ask(ends)
			break
		}
		if len(s.world.askInPassing(ends)) == 0 {
			break
		}
	}
	return time.Since(began)
}

func (s *scaler) violation(format string, arguments ...any) {
	s.world.lock.Lock()
	defer s.world.lock.Unlock()
	at := clock(time.Since(s.world.begun).Milliseconds())
	s.world.problems = append(s.world.problems, fmt.Sprintf("%v: ", at)+fmt.Sprintf(format, arguments...))
}

func number(t testing.TB, variable string, otherwise int64) int64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: expected a whole number", variable, text)
	}
	return value
}

// GitLab's own loop over a day of simulated time, with the demand, the failures, the users, the kills and the swaps of
// policies that a seed draws: no job loses its instance, capacity becomes truth whenever things are quiet, and nothing
// is left in the end. WINDLASS_DAYS says how many seeds, WINDLASS_DAYS_FROM from which on.
func TestADayOfGitLabsOwnLoopEndsWithCapacityTrueAndNothingLeft(t *testing.T) {
	from, count := number(t, "WINDLASS_DAYS_FROM", 1), number(t, "WINDLASS_DAYS", 1)
	workers := number(t, "WINDLASS_DAYS_PROCESSES", 2)
	var next, calls, given, jobs, lost, settled, rested atomic.Int64
	begun := time.Now()
	var all sync.WaitGroup
	for range min(workers, count) {
		process := startWorld(t)
		all.Go(func() {
			for {
				seed := from + next.Add(1) - 1
				if seed >= from+count {
					return
				}
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					var result dayResult
					wall := time.Now()
					synctest.Test(t, func(*testing.T) { result = liveADay(process, seed) })
					lived.Store(seed, result.ending)
					calls.Add(int64(result.ending.Calls))
					given.Add(int64(result.ending.Given))
					jobs.Add(int64(result.done))
					lost.Add(int64(result.lost))
					atMost(&settled, int64(result.settled))
					atMost(&rested, int64(result.rested))
					t.Logf("%.1f s, %+v, %d jobs done, %d lost, settled within %v, rested after %v", time.Since(wall).Seconds(),
						result.ending, result.done, result.lost, result.settled, result.rested)
					if len(result.broken) > 0 {
						t.Error(result.told(seed))
					}
				})
			}
		})
	}
	all.Wait()
	fmt.Printf("%d days from seed %d in %.0f s: %d calls, %d instances ran, %d jobs done, %d begun again; "+
		"settled within %v, at rest within %v\n",
		count, from, time.Since(begun).Seconds(), calls.Load(), given.Load(), jobs.Load(), lost.Load(),
		time.Duration(settled.Load()), time.Duration(rested.Load()))
}

func atMost(most *atomic.Int64, value int64) {
	for {
		known := most.Load()
		if value <= known || most.CompareAndSwap(known, value) {
			return
		}
	}
}

// What broke, and the day up to then.
func (r dayResult) told(seed int64) string {
	var words strings.Builder
	fmt.Fprintf(&words, "seed %d breaks a law (again: just days 1 %d):\n", seed, seed)
	for _, broken := range r.broken {
		fmt.Fprintf(&words, "  => %s\n", broken)
	}
	fmt.Fprintf(&words, "The day, with %s:\n", r.day.Words)
	for _, event := range r.day.Events {
		fmt.Fprintf(&words, "  %s\n", event.Words)
	}
	return words.String()
}

// How the days ended that were lived in this run, by seed.
var lived sync.Map

// What a seed says happens, happens the same way each time: else a violation could not be looked into. The first time is
// that of the test above, where it has run. Only whoever searches needs it.
func TestADayIsAlwaysTheSame(t *testing.T) {
	if os.Getenv("WINDLASS_DAYS") == "" {
		t.Skip("runs with `just days`")
	}
	process, seed := startWorld(t), number(t, "WINDLASS_DAYS_FROM", 1)
	again := func() (end ending) {
		synctest.Test(t, func(*testing.T) { end = liveADay(process, seed).ending })
		return end
	}
	first, found := lived.Load(seed)
	if !found {
		first = again()
	}
	if second := again(); first != second || second.Calls < 100 {
		t.Errorf("seed %d: %+v and %+v", seed, first, second)
	}
}
