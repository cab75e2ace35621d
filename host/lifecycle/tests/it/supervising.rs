//! The supervisor: what a crash, a late effect or a journal that cannot be written leaves is ended while the process
//! lives.

use std::time::Duration;

use parking_lot::Mutex;
use windlass_lifecycle::{
    Aftermath, Clock, Control, Durability, Error, Lifecycle, Operation, OperationFilter, OperationState, Options, Part,
    Supervisor, SupervisorOptions, SweepRequest, Target,
};
use windlass_scaleway::Client;
use windlass_simulator::{FaultKind, FaultRule};

use crate::late::{Fate, Late};
use crate::support::{HOUR, NOW, World, host, owner, real_time, run, settings, zone};

const MINUTE: Duration = Duration::from_secs(60);

/// A world, a way to it on which requests can be late, and one clock for all processes.
struct Slow {
    world: World,
    late: Late,
    client: Client,
    clock: Clock,
    starts: std::cell::Cell<u64>,
}

impl Slow {
    async fn new(seed: u64) -> Self {
        let world = World::new(seed).await;
        let late = Late::over(world.simulator.transport());
        let client = Client::with_transport(settings(), std::sync::Arc::new(late.clone())).unwrap();
        Self { world, late, client, clock: Clock::simulated(NOW), starts: std::cell::Cell::new(0) }
    }

    fn start(&self) -> Lifecycle {
        self.starts.set(self.starts.get() + 1);
        let mut options = Options::new(self.client.clone(), host(), self.world.state());
        options.owner = Some(owner());
        options.durability = Durability::Process;
        options.clock = self.clock.clone();
        options.seed = Some(self.starts.get());
        Lifecycle::open(options).unwrap()
    }
}

fn supervisor(lifecycle: &Lifecycle) -> Supervisor {
    Supervisor::new(lifecycle.clone(), SupervisorOptions::default())
}

/// Runs the supervisor of this process for so long.
async fn supervise(lifecycle: &Lifecycle, how_long: Duration) {
    let (supervisor, control) = (supervisor(lifecycle), Control::new());
    let end = async {
        tokio::time::sleep(how_long).await;
        control.leave();
    };
    tokio::join!(supervisor.run(&control, |_| {}), end);
}

fn only(lifecycle: &Lifecycle) -> Operation {
    let mut operations = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
    assert_eq!(operations.len(), 1, "{operations:?}");
    operations.remove(0)
}

#[test]
fn what_arrives_after_a_crash_is_found_by_a_second_look() {
    for (method, ending) in [("POST", "/ips"), ("POST", "/servers"), ("POST", "/volumes")] {
        run(async {
            let slow = Slow::new(71).await;
            // Later than any look at once.
            slow.late.next(1, method, ending, Fate::Hangs(MINUTE * 3));
            let dying = slow.start();
            let control = Control::new();
            let mut wanted = slow.world.everything();
            if ending == "/servers" {
                // What it was to be made of would be gone when it arrives.
                (wanted.addresses, wanted.volumes) = (Vec::new(), Vec::new());
            }
            let creating = dying.create_server(wanted, &control);
            let died = tokio::time::timeout(Duration::from_secs(20), creating).await;
            assert!(died.is_err(), "{ending}: it died in the middle of the call");
            drop(dying);
            let next = slow.start();
            let resumed = next.resume(&Control::new()).await.unwrap();
            assert_eq!(resumed.operations[0].state, OperationState::Unverified, "{ending}: {resumed:?}");
            assert_eq!(resumed.unverified.len(), 1, "{ending}");
            let look_at = only(&next).look_at.unwrap();
            assert!((NOW + 600_000..NOW + 640_000).contains(&look_at), "{ending}: {look_at}");
            slow.world.assert_empty(ending);
            // Asked again too early, it stays as it is.
            assert!(next.resume(&Control::new()).await.unwrap().operations.is_empty(), "{ending}");
            tokio::time::sleep(MINUTE * 4).await;
            assert!(!slow.world.resources().is_empty(), "{ending}: it has arrived");
            supervise(&next, MINUTE * 7).await;
            slow.world.assert_empty(ending);
            let operation = only(&next);
            assert_eq!((operation.state, operation.look_at), (OperationState::Undone, None), "{ending}");
        });
    }
}

#[test]
fn the_next_start_gives_a_call_of_a_dead_process_the_time_to_settle_before_it_looks() {
    run(async {
        let slow = Slow::new(76).await;
        slow.late.next(1, "POST", "/ips", Fate::Hangs(Duration::from_millis(1_500)));
        let dying = slow.start();
        let control = Control::new();
        let sent = async {
            while !slow.late.is_spent() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ended = dying.create_server(slow.world.everything(), &control) => panic!("{ended:?}"),
            () = sent => {}
        }
        drop(dying);
        let next = slow.start();
        let resumed = next.resume(&Control::new()).await.unwrap();
        let removed = resumed.operations[0].report.as_ref().map(|report| report.removed.len());
        assert_eq!(removed, Some(1), "it has arrived, and was seen: {resumed:?}");
        slow.world.assert_empty("after the first look");
    });
}

#[test]
fn a_second_look_comes_when_it_is_due_and_not_with_the_next_round() {
    run(async {
        let slow = Slow::new(77).await;
        let lifecycle = slow.start();
        slow.late.next(usize::MAX, "POST", "/ips", Fate::Lost(MINUTE * 5));
        lifecycle.create_server(slow.world.everything(), &Control::new()).await.unwrap_err();
        let (control, began) = (Control::new(), tokio::time::Instant::now());
        let day = Duration::from_secs(24 * 3_600);
        let mut options = SupervisorOptions::default();
        options.resume_interval = day;
        let supervisor = Supervisor::new(lifecycle.clone(), options);
        supervisor
            .run(&control, |_| {
                if only(&lifecycle).state == OperationState::Undone || began.elapsed() > day {
                    control.leave();
                }
            })
            .await;
        assert!((MINUTE * 5..MINUTE * 12).contains(&began.elapsed()), "{:?}", began.elapsed());
        slow.world.assert_empty("after the second look");
    });
}

#[test]
fn a_creation_that_is_given_up_while_a_call_may_still_arrive_is_unverified_until_it_was_looked_at_again() {
    run(async {
        let slow = Slow::new(72).await;
        let lifecycle = slow.start();
        slow.late.next(usize::MAX, "POST", "/ips", Fate::Lost(MINUTE * 5));
        let error = lifecycle.create_server(slow.world.everything(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.state, OperationState::Unverified, "{failure}");
        let look_at = failure.report.look_at.unwrap();
        assert!(
            failure.to_string().contains("may still take effect: Windlass looks for its effect again at"),
            "{failure}"
        );
        assert_eq!(only(&lifecycle).look_at, Some(look_at));
        supervise(&lifecycle, MINUTE * 12).await;
        slow.world.assert_empty("after the second look");
        assert_eq!(only(&lifecycle).state, OperationState::Undone);
    });
}

#[test]
fn a_creation_whose_calls_were_all_answered_is_not_looked_at_twice() {
    run(async {
        let slow = Slow::new(73).await;
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
        slow.world.simulator.add_fault(refused.nth(1)).unwrap();
        let lifecycle = slow.start();
        let error = lifecycle.create_server(slow.world.everything(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.state, failure.report.look_at), (OperationState::Undone, None), "{failure}");
    });
}

/// Makes every write of the journal fail once it holds so many entries, until it is dropped.
struct FullDisk(std::path::PathBuf);

impl FullDisk {
    const TRIGGERS: [&str; 2] = ["before insert on entries", "before update on streams"];

    fn after(world: &World, entries: usize) -> Self {
        let path = world.folder.path().join("journal.sqlite");
        let full = Self(path);
        for (number, event) in Self::TRIGGERS.iter().enumerate() {
            full.execute(&format!(
                "create trigger full_{number} {event} when (select count(*) from entries) >= {entries}
                 begin select raise(abort, 'database or disk is full'); end"
            ));
        }
        full
    }

    fn execute(&self, sql: &str) {
        rusqlite::Connection::open(&self.0).unwrap().execute_batch(sql).unwrap();
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        for number in 0..Self::TRIGGERS.len() {
            self.execute(&format!("drop trigger full_{number}"));
        }
    }
}

/// What exists is named by the error: the journal cannot be written, and somebody has to know.
fn assert_names_everything(world: &World, error: &Error, case: &str) {
    let named = match error.aftermath() {
        Aftermath::Left(left) => left.into_iter().map(|left| left.resource.id).collect(),
        Aftermath::Refused | Aftermath::Open => Vec::new(),
        Aftermath::Clean => panic!("{case}: nobody proved that nothing is left: {error}"),
    };
    let resources = world.resources();
    let there = resources.servers.iter().chain(&resources.ips).chain(&resources.volumes);
    for id in there.filter_map(|resource| resource["id"].as_str()) {
        assert!(named.iter().any(|known| known == id), "{case}: {id} is there and not named by: {error}");
    }
}

#[test]
fn a_journal_that_cannot_be_written_for_a_while_ends_in_a_machine_that_goes_on() {
    let (mut finished, mut undone) = (0, 0);
    for entries in 0..60 {
        let case = format!("full after {entries} entries");
        let written = run(async {
            let world = World::new(74).await;
            let lifecycle = world.start();
            let supervisor = supervisor(&lifecycle);
            let control = Control::new();
            let story = async {
                let full = FullDisk::after(&world, entries);
                let created = lifecycle.create_server(world.everything(), &Control::new()).await;
                let broke_off = match &created {
                    Ok(_) => false,
                    // Not even the operation could be written.
                    Err(error @ Error::JournalWrite { .. }) => {
                        assert_eq!((error.aftermath(), world.resources().count()), (Aftermath::Refused, 0), "{case}");
                        true
                    }
                    Err(error) => {
                        assert_names_everything(&world, error, &case);
                        true
                    }
                };
                // The supervisor cannot write either, and lives on.
                tokio::time::sleep(MINUTE * 10).await;
                drop(full);
                tokio::time::sleep(MINUTE * 15).await;
                control.leave();
                broke_off
            };
            let ((), broke_off) = tokio::join!(supervisor.run(&control, |_| {}), story);
            world.assert_closed(&lifecycle, &case);
            let operations = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
            let operation = operations.last().unwrap();
            match operation.state {
                OperationState::Done => {
                    finished += 1;
                    world.assert_complete(&case).await;
                    // And it can be worked with.
                    let target = Target::Operation(operation.id.clone());
                    let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
                    assert!(cleaned.report.is_clean(), "{case}");
                }
                OperationState::Undone => undone += 1,
                other => panic!("{case}: {other}"),
            }
            world.assert_empty(&case);
            broke_off
        });
        if !written {
            assert!(finished > 1 && undone > 10, "{finished} finished, {undone} undone");
            return;
        }
    }
    panic!("a creation writes fewer entries");
}

#[test]
fn a_round_does_what_it_is_told_to_and_nothing_else() {
    run(async {
        let world = World::new(75).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        // Nothing explains its rest.
        let server = created.server.id.clone();
        let force = windlass_simulator::ForcedState::Deleted;
        world.simulator.set_server_state(&server, force).unwrap();
        let there = world.resources().count();
        assert!(there > 0);
        let control = Control::new();
        world.simulator.clear_requests();
        let off = supervisor(&lifecycle).round(&Part::ALL, &control).await;
        assert!(off.sweep.is_none() && off.problems.is_empty() && off.pruned == Some(0), "{off:?}");
        assert_eq!(world.simulator.requests().len(), 0, "a sweep that is not asked for calls nobody");
        let sweeping = |dry_run| {
            let mut sweep = SweepRequest::new(vec![zone()]);
            sweep.dry_run = dry_run;
            let mut options = SupervisorOptions::default();
            options.sweep = Some(sweep);
            Supervisor::new(lifecycle.clone(), options)
        };
        let reported = sweeping(true).round(&Part::ALL, &control).await;
        assert_eq!(reported.sweep.unwrap().unexplained.len(), there, "reported");
        assert_eq!(world.resources().count(), there, "and left alone");
        let removed = sweeping(false).round(&Part::ALL, &control).await;
        assert!(removed.sweep.unwrap().is_clean());
        world.assert_empty("swept");
    });
}

#[test]
fn old_operations_are_forgotten_after_thirty_days() {
    run(async {
        let world = World::new(76).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        let count = || lifecycle.journal().operations(&OperationFilter::default()).unwrap().len();
        tokio::time::sleep(HOUR * 24 * 29).await;
        supervise(&lifecycle, HOUR).await;
        assert_eq!(count(), 2);
        supervise(&lifecycle, HOUR * 49).await;
        assert_eq!(count(), 0);
    });
}

#[test]
fn a_supervisor_ends_at_once_when_it_is_told_to_and_bounds_what_hangs() {
    run(async {
        let world = World::new(77).await;
        let dying = world.start();
        let created = dying.create_server(world.everything(), &Control::new()).await.unwrap();
        let pending = dying.begin_cleanup(&Target::Operation(created.operation)).await.unwrap();
        drop((pending, dying));
        let hangs = FaultRule::new("GET", "/**", FaultKind::Delay(Duration::from_secs(3_600)));
        world.simulator.add_fault(hangs).unwrap();
        let next = world.start();
        // It hangs in the resume, for as long as one part may take.
        let limit = Duration::from_secs(90);
        let mut options = SupervisorOptions::default();
        options.part_limit = limit;
        let began = tokio::time::Instant::now();
        let round = Supervisor::new(next.clone(), options).round(&Part::ALL, &Control::new()).await;
        assert!(began.elapsed() <= limit + Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(round.pruned, Some(0), "the next part is done all the same: {round:?}");
        // And while it hangs it is told to end.
        let (supervisor, control) = (supervisor(&next), Control::new());
        let rounds = Mutex::new(0);
        let messages = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            control.leave();
            tokio::time::Instant::now()
        };
        let run = async {
            supervisor.run(&control, |_| *rounds.lock() += 1).await;
            tokio::time::Instant::now()
        };
        let (ended, messages) = tokio::join!(run, messages);
        assert!(ended - messages <= Duration::from_secs(6), "{:?}", ended - messages);
        world.simulator.clear_faults();
        supervise(&next, MINUTE * 5).await;
        world.assert_empty("the next round went on with it");
        world.assert_closed(&next, "the next round went on with it");
    });
}

#[test]
fn one_round_runs_at_a_time_and_two_processes_do_not_work_on_one_operation() {
    run(async {
        let world = World::new(78).await;
        let dying = world.start();
        let created = dying.create_server(world.everything(), &Control::new()).await.unwrap();
        drop(dying.begin_cleanup(&Target::Operation(created.operation)).await.unwrap());
        drop(dying);
        let (one, other) = (world.start(), world.start());
        let (first, control) = (supervisor(&one), Control::new());
        let (twin, second) = (first.clone(), supervisor(&other));
        let parts = [Part::Resume];
        let (a, b, c) =
            tokio::join!(first.round(&parts, &control), twin.round(&parts, &control), second.round(&parts, &control));
        let ended: usize = [a, b, c].iter().flat_map(|round| &round.resumed).map(|it| it.operations.len()).sum();
        assert_eq!(ended, 1, "taken up once");
        world.assert_empty("cleaned up");
    });
}

#[test]
fn what_a_process_leaves_that_lived_a_moment_ago_is_soon_ended() {
    run(async {
        let world = World::new(80).await;
        let (dying, other) = (world.start(), world.start());
        let created = dying.create_server(world.everything(), &Control::new()).await.unwrap();
        let pending = dying.begin_cleanup(&Target::Operation(created.operation)).await.unwrap();
        let (supervisor, control) = (supervisor(&other), Control::new());
        let round = supervisor.round(&[Part::Resume], &control).await;
        assert_eq!(round.resumed.unwrap().busy, [pending.id().clone()]);
        drop((pending, dying));
        let end = async {
            tokio::time::sleep(Duration::from_secs(40)).await;
            control.leave();
        };
        tokio::join!(supervisor.run(&control, |_| {}), end);
        world.assert_empty("long before the next round");
    });
}

#[test]
fn an_operation_that_is_being_written_down_is_not_taken_for_one_that_a_dead_process_left() {
    real_time(async {
        let world = World::new(79).await;
        let mut options = Options::new(world.client.clone(), host(), world.state());
        options.owner = Some(owner());
        options.durability = Durability::Full;
        let lifecycle = Lifecycle::open(options).unwrap();
        // Its commit waits until its caller does.
        let other = rusqlite::Connection::open(world.folder.path().join("journal.sqlite")).unwrap();
        other.execute_batch("begin immediate").unwrap();
        let mut begin = Box::pin(lifecycle.begin_create(world.everything()));
        assert!(futures::poll!(&mut begin).is_pending());
        other.execute_batch("commit").unwrap();
        while lifecycle.journal().operations(&OperationFilter::default()).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // It is in the journal now, and its caller has not heard of it yet.
        let resumed = lifecycle.resume(&Control::new()).await.unwrap();
        let pending = begin.await.unwrap();
        assert_eq!(resumed.busy, [pending.id().clone()]);
        assert!(resumed.operations.is_empty(), "{resumed:?}");
        assert_eq!(lifecycle.journal().operation(pending.id()).unwrap().state, OperationState::Open);
    });
}

/// A server that Scaleway has locked, and a removal of it that has left it.
async fn locked_and_left(slow: &Slow, lifecycle: &Lifecycle) {
    let created = lifecycle.create_server(slow.world.everything(), &Control::new()).await.unwrap();
    slow.world.simulator.set_server_state(&created.server.id, "locked".parse().unwrap()).unwrap();
    let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
    assert!(!cleaned.report.is_clean());
}

#[test]
fn a_left_over_is_tried_again_at_a_pace_of_its_own() {
    run(async {
        let slow = Slow::new(78).await;
        let first = slow.start();
        locked_and_left(&slow, &first).await;
        slow.world.simulator.clear_requests();
        supervise(&first, MINUTE * 60).await;
        let in_an_hour = slow.world.simulator.requests().len();
        assert!((50..500).contains(&in_an_hour), "{in_an_hour} calls: some eight tries");
        drop(first);
        // Its successors know of them, so that restarts hurry nothing.
        slow.world.simulator.clear_requests();
        for _ in 0..60 {
            supervise(&slow.start(), MINUTE).await;
        }
        let in_another = slow.world.simulator.requests().len();
        assert!((1..150).contains(&in_another), "{in_another} calls: one or two tries");
    });
}

#[test]
fn what_is_left_is_tried_at_once_when_a_person_asks() {
    run(async {
        let slow = Slow::new(79).await;
        let lifecycle = slow.start();
        locked_and_left(&slow, &lifecycle).await;
        let waiting = lifecycle.resume_due(&Control::new()).await.unwrap();
        assert!(waiting.operations.is_empty() && waiting.waiting.len() == 1, "{waiting:?}");
        assert!(lifecycle.resume_interrupted(&Control::new()).await.unwrap().operations.is_empty());
        let round = supervisor(&lifecycle).round(&[Part::Resume], &Control::new()).await;
        assert_eq!(round.resumed.unwrap().operations[0].state, OperationState::Left);
    });
}

#[test]
fn one_pass_tries_a_bounded_number_of_left_overs() {
    run(async {
        let slow = Slow::new(80).await;
        let lifecycle = slow.start();
        for _ in 0..20 {
            locked_and_left(&slow, &lifecycle).await;
        }
        tokio::time::sleep(MINUTE).await;
        let pass = lifecycle.resume_due(&Control::new()).await.unwrap();
        assert_eq!((pass.operations.len(), pass.waiting.len()), (16, 20), "{pass:?}");
        let next = lifecycle.resume_due(&Control::new()).await.unwrap();
        assert_eq!(next.operations.len(), 4, "those that the first pass had no place for: {next:?}");
    });
}
