package fleeting

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// What stands above GitLab's provisioner in a runner, as its documentation and source tell of it: it gives jobs to
// instances, asks for more and deletes what is idle or worn. (GitLab's own, taskscaler, is not to be had as a module.)
type scaler struct {
	world   *world
	setting setting

	// The runner's process; nothing while it does not run.
	provisioner *fleeting.Provisioner
	group       *worldGroup
	startAt     time.Time
	// The jobs that wait, and those that run.
	waiting []job
	slots   map[string]*slot
	idle    int
	// Whether what is idle goes at once.
	impatient bool
	// Guards what goroutines beside the loop write: slots and waiting.
	lock sync.Mutex
	// Failed starts in a row.
	failedStarts int
	// Numbers the goroutines beside the loop.
	beside uint64
	done   int
	lost   int
}

type job struct {
	length time.Duration
	ends   time.Time
}

// An instance as the scaler knows it.
type slot struct {
	ready, preparing bool
	jobs             []job
	// Jobs whose heartbeat is under way.
	acquiring int
	uses      int
	failures  int
	idleSince time.Time
	deleted   bool
	// What the state storage says of it after a restart: whether it was known, and had a job.
	restored, acquired bool
}

func (s *slot) busy() int { return len(s.jobs) + s.acquiring }

// How often the runner looks whether something is to be done; beside the seconds on which GitLab's loop wakes.
const scalerInterval, scalerOffset = 2 * time.Second, 537 * time.Millisecond

func ms(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }

// Starts the runner's process. A failure is tried again, as an operator or systemd would.
func (s *scaler) start() {
	group := &worldGroup{world: s.world}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	provisioner, err := fleeting.Init(
		ctx, hclog.NewNullLogger(), group,
		fleeting.WithMaxSize(s.setting.MaxInstances),
		fleeting.WithUpdateInterval(ms(s.setting.UpdateInterval)),
		fleeting.WithUpdateIntervalWhenExpecting(ms(s.setting.UpdateIntervalWhenExpecting)),
		fleeting.WithDeletionRetryInterval(ms(s.setting.DeletionRetryInterval)),
	)
	if err != nil {
		group.cutOff()
		s.failedStarts++
		s.startAt = time.Now().Add(30 * time.Second)
		return
	}
	s.failedStarts = 0
	s.group, s.provisioner = group, provisioner
}

// The runner's process has ended, however: what it knew is gone, but for the state storage.
func (s *scaler) ended(down time.Duration) {
	if s.provisioner == nil {
		return
	}
	s.group.cutOff()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.provisioner.Shutdown(ctx)
	s.provisioner = nil
	s.startAt = time.Now().Add(down)
	s.lock.Lock()
	defer s.lock.Unlock()
	known := map[string]*slot{}
	for id, old := range s.slots {
		if s.setting.StateStorage && !old.deleted {
			known[id] = &slot{uses: old.uses, restored: true, acquired: old.busy() > 0, idleSince: time.Now()}
		}
	}
	s.slots = known
}

// Lets time pass, in which the runner does its work.
func (s *scaler) runUntil(until time.Time) {
	for {
		next := time.Now().Truncate(scalerInterval).Add(scalerOffset)
		if !next.After(time.Now()) {
			next = next.Add(scalerInterval)
		}
		if next.After(until) {
			time.Sleep(time.Until(until))
			return
		}
		time.Sleep(time.Until(next))
		s.tick()
	}
}

func (s *scaler) tick() {
	s.world.lock.Lock()
	lives := s.world.lives
	s.world.lock.Unlock()
	if s.provisioner != nil && !lives {
		// Somebody kills the runner's process, too: its plugin is gone for good.
		s.ended(time.Minute)
	}
	if s.provisioner == nil {
		if time.Now().Before(s.startAt) {
			return
		}
		if s.start(); s.provisioner == nil {
			return
		}
	}
	instances := s.provisioner.Instances()
	slices.SortFunc(instances, func(a, b fleeting.Instance) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, id := range s.take(instances) {
		s.world.ask(map[string]any{"lost": id})
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.finishJobs(instances)
	s.assignJobs(instances)
	s.scale(instances)
}

// Takes in what there is. Answers the instances that have gone under their jobs without being asked to.
func (s *scaler) take(instances []fleeting.Instance) (lost []string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	there := map[string]bool{}
	for _, instance := range instances {
		id := instance.ID()
		switch instance.State() {
		case provider.StateDeleting, provider.StateDeleted, provider.StateTimeout:
			continue
		}
		there[id] = true
		known := s.slots[id]
		if known == nil {
			known = &slot{idleSince: time.Now()}
			s.slots[id] = known
			// Nobody knows what ran on it.
			if instance.Cause() == fleeting.CausePreexisted {
				s.delete(instance, known)
			}
		} else if known.acquired {
			s.delete(instance, known)
		}
		if instance.State() == provider.StateRunning && !known.ready && !known.preparing && !known.deleted {
			known.preparing = true
			s.beside++
			go s.prepare(instance, known, s.beside)
		}
	}
	for _, id := range slices.Sorted(mapKeys(s.slots)) {
		if there[id] {
			continue
		}
		gone := s.slots[id]
		if len(gone.jobs) > 0 {
			s.lost += len(gone.jobs)
			s.waiting = append(s.waiting, gone.jobs...)
			if !gone.deleted {
				lost = append(lost, id)
			}
		}
		delete(s.slots, id)
	}
	return lost
}

func mapKeys[V any](all map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range all {
			if !yield(key) {
				return
			}
		}
	}
}

func (s *scaler) delete(instance fleeting.Instance, known *slot) {
	known.deleted = true
	instance.Delete()
}

// What the runner does before an instance gets its first job.
func (s *scaler) prepare(instance fleeting.Instance, known *slot, number uint64) {
	oneAfterTheOther(number)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err := instance.ConnectInfo(ctx)
	s.lock.Lock()
	defer s.lock.Unlock()
	known.preparing = false
	if err != nil {
		s.delete(instance, known)
		return
	}
	known.ready, known.idleSince = true, time.Now()
}

func (s *scaler) finishJobs(instances []fleeting.Instance) {
	for _, instance := range instances {
		known := s.slots[instance.ID()]
		if known == nil {
			continue
		}
		before := len(known.jobs)
		known.jobs = slices.DeleteFunc(known.jobs, func(it job) bool { return !it.ends.After(time.Now()) })
		if ended := before - len(known.jobs); ended > 0 {
			s.done += ended
			known.idleSince = time.Now()
		}
		if s.worn(known) && known.busy() == 0 && !known.deleted {
			s.delete(instance, known)
		}
	}
}

func (s *scaler) worn(known *slot) bool {
	return s.setting.MaxUseCount > 0 && known.uses >= s.setting.MaxUseCount
}

func (s *scaler) assignJobs(instances []fleeting.Instance) {
	for _, instance := range instances {
		known := s.slots[instance.ID()]
		for known != nil && known.ready && !known.deleted && !s.worn(known) && len(s.waiting) > 0 &&
			known.busy() < s.setting.CapacityPerInstance {
			next := s.waiting[0]
			s.waiting = s.waiting[1:]
			known.acquiring++
			known.uses++
			s.beside++
			go s.acquire(instance, known, next, s.beside)
			// One at a time: what its heartbeat says holds for the next.
			break
		}
	}
}

func (s *scaler) acquire(instance fleeting.Instance, known *slot, next job, number uint64) {
	oneAfterTheOther(number)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := instance.Heartbeat(ctx)
	s.lock.Lock()
	defer s.lock.Unlock()
	known.acquiring--
	if err == nil && s.slots[instance.ID()] == known {
		known.failures = 0
		next.ends = time.Now().Add(next.length)
		known.jobs = append(known.jobs, next)
		return
	}
	known.uses--
	known.failures++
	known.idleSince = time.Now()
	s.waiting = append(s.waiting, next)
	if known.failures >= s.setting.FailureThreshold && !known.deleted {
		s.delete(instance, known)
	}
}

// Asks for what is missing, and deletes what has been idle for long.
func (s *scaler) scale(instances []fleeting.Instance) {
	slots, idle := len(s.waiting), []fleeting.Instance{}
	usable := 0
	for _, instance := range instances {
		known := s.slots[instance.ID()]
		if known == nil || known.deleted {
			continue
		}
		slots += known.busy()
		if !s.worn(known) {
			usable++
		}
		if known.ready && known.busy() == 0 {
			idle = append(idle, instance)
		}
	}
	wanted := min((slots+s.setting.CapacityPerInstance-1)/s.setting.CapacityPerInstance+s.idle, s.setting.MaxInstances)
	if missing := wanted - usable - s.provisioner.Capacity().Requested; missing > 0 {
		s.provisioner.Request(missing)
		return
	}
	for surplus := usable - wanted; surplus > 0 && len(idle) > 0; idle = idle[1:] {
		known := s.slots[idle[0].ID()]
		if s.impatient || time.Since(known.idleSince) >= ms(s.setting.IdleTime) {
			s.delete(idle[0], known)
			surplus--
		}
	}
}

// Stops giving jobs out; those that run end at once.
func (s *scaler) endJobs() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waiting = nil
	for _, known := range s.slots {
		known.jobs = nil
	}
}

// Shuts the runner down in order.
func (s *scaler) drain(down time.Duration) {
	if s.provisioner == nil {
		return
	}
	s.endJobs()
	if s.setting.DeleteInstancesOnShutdown {
		for _, instance := range s.provisioner.Instances() {
			instance.Delete()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s.provisioner.Shutdown(ctx)
	s.world.ask("left")
	s.ended(down)
}

// Whether the runner has so many instances, all of which run, and waits for none. What it would ask for if it had room
// for more does not count: that is never withdrawn.
func (s *scaler) settled(count int) bool {
	if s.provisioner == nil {
		return false
	}
	c := s.provisioner.Capacity()
	full := len(s.provisioner.Instances()) == c.Max
	return c.Running == count && len(s.provisioner.Instances()) == count && c.Pending == 0 && (c.Requested == 0 || full)
}

// What the runner believes, as the world holds it against what there is.
func (s *scaler) belief() map[string]any {
	running, others := []string{}, map[string]string{}
	for _, instance := range s.provisioner.Instances() {
		if instance.State() == provider.StateRunning {
			running = append(running, instance.ID())
		} else {
			others[instance.ID()] = string(instance.State())
		}
	}
	slices.Sort(running)
	return map[string]any{"running": running, "others": others, "pending": s.provisioner.Capacity().Pending}
}

func (s *scaler) words() string {
	if s.provisioner == nil {
		return fmt.Sprintf("the runner does not run, after %d failed starts", s.failedStarts)
	}
	return fmt.Sprintf("the runner has %+v", s.provisioner.Capacity())
}
