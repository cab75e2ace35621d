//! What a policy is doing, seen from outside: in the host's log, in its metrics, and in the file that tells its status.

use std::fs;
use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use serde_json::json;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;
use windlass_policy::slots::{Retry, Slot, SlotName, StateMapping, retry};
use windlass_policy::{Brake, Host, Link, LinkStatus, Policies, RunningHost, running_hosts};
use windlass_test_guests as guests;

use crate::guests::{ANSWER, Guest, IMPORT_LOG};
use crate::support::{State, eventually, run};

/// Runs this and returns what the host's log has heard meanwhile, in this thread.
fn heard(most_verbose: Level, act: impl FnOnce()) -> String {
    heard_with(FmtSpan::NONE, most_verbose, act)
}

/// The same, with these lines about spans.
fn heard_with(spans: FmtSpan, most_verbose: Level, act: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let heard = Heard::default();
    let writer = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(most_verbose)
        .with_span_events(spans)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let text = heard.0.lock();
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes `guest` at these levels (0 debug, 1 info, 2 warn, 3 error), then defers.
fn writing(levels: &[u32]) -> Guest {
    let lines: String =
        levels.iter().map(|level| format!("(call $log (i32.const {level}) (i32.const 1029) (i32.const 5)) ")).collect();
    let mut guest = Guest::new(SlotName::Retry, format!("{lines} (i32.const {ANSWER})"));
    guest.imports = IMPORT_LOG;
    guest
}

fn host_with(state: &State, guest: &Guest) -> Host {
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()))).unwrap();
    host
}

#[test]
fn what_a_policy_writes_reaches_the_hosts_log_at_its_level_with_slot_and_policy() {
    let state = State::new();
    let host = host_with(&state, &writing(&[0, 1, 2, 3]));
    let decide = || drop(run(host.pin().decide::<Retry>(Retry::example())));
    let text = heard(Level::DEBUG, decide);
    for level in ["DEBUG", "INFO", "WARN", "ERROR"] {
        let line = text.lines().find(|line| line.contains(&format!("{level} windlass_policy::policy_log")));
        let line = line.unwrap_or_else(|| panic!("no {level}: {text}"));
        assert!(line.contains("guest slot=retry policy=test-guest 1.2.3"), "{line}");
    }
    let text = heard(Level::WARN, decide);
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_policy_that_writes_without_end_does_not_fill_the_hosts_log() {
    let state = State::new();
    let host = host_with(&state, &writing(&[2; 30]));
    let text = heard(Level::WARN, || {
        for _ in 0..20 {
            run(host.pin().decide::<Retry>(Retry::example()));
        }
    });
    let lines = text.lines().count();
    // A busy machine may take more than one minute for it.
    assert!((100..600).contains(&lines), "{lines} lines");
    let list = host.decisions().unwrap().list(&Default::default()).unwrap();
    assert!(list.decisions.iter().all(|decision| decision.asked[0].log.len() == 30), "the decision log has them all");
}

#[test]
fn compiled_policies_that_cannot_be_stored_are_one_warning() {
    let state = State::new();
    let host = state.host();
    fs::remove_dir_all(state.folder.path().join("cache")).unwrap();
    let text = heard(Level::WARN, || {
        for levels in [&[0][..], &[1], &[2]] {
            let guest = writing(levels);
            let policies = Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()));
            host.configure(&policies).unwrap();
        }
    });
    assert_eq!(text.matches("cannot store").count(), 1, "{text}");
}

#[test]
fn a_replay_writes_nothing_to_the_hosts_log() {
    let state = State::new();
    let host = host_with(&state, &writing(&[3]));
    let decision = run(host.pin().decide::<Retry>(Retry::example()));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let text = heard(Level::DEBUG, || {
        run(host.replay(&record, &windlass_policy::ReplayAgainst::TheSame)).unwrap();
    });
    assert!(!text.contains("policy_log"), "{text}");
}

/// Collects the counters that are incremented in this thread.
#[derive(Default)]
struct Counters(Arc<Mutex<Vec<String>>>);

struct Counted(Arc<Mutex<Vec<String>>>, String);

impl CounterFn for Counted {
    fn increment(&self, _: u64) {
        self.0.lock().push(self.1.clone());
    }
    fn absolute(&self, _: u64) {}
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: String = key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
        Counter::from_arc(Arc::new(Counted(self.0.clone(), format!("{}{labels}", key.name()))))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_failure_is_counted_with_its_slot_and_its_policy() {
    let state = State::new();
    let host = host_trapping(&state, 5);
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, || fail(&host));
    assert_eq!(*counters.0.lock(), ["windlass_policy_failures_total slot=retry policy=windlass-hostile-guest"]);
}

#[test]
fn a_braked_answer_is_counted_as_such_and_as_a_failure() {
    let state = State::new();
    let mut options = state.options();
    options.brake = Brake { servers: 0, share: 0.0 };
    let host = Host::new(options).unwrap();
    let reaping = Guest::new(
        SlotName::StateMapping,
        "(i32.store (i32.const 96) (i32.const 128)) (i32.store (i32.const 100) (local.get $count)) \
         (i32.store (i32.const 128) (i32.const 0x10001)) (i32.const 96)",
    );
    host.configure(&Policies::built_in().with(SlotName::StateMapping, Link::bytes(reaping.component()))).unwrap();
    let counters = Counters::default();
    let mut question = StateMapping::example();
    question.servers.truncate(1);
    metrics::with_local_recorder(&counters, || run(host.pin().decide::<StateMapping>(question)));
    let counted = ["windlass_policy_brakes_total", "windlass_policy_failures_total"];
    assert_eq!(*counters.0.lock(), counted.map(|name| format!("{name} slot=state-mapping policy=test-guest")));
}

#[test]
fn a_batch_is_traced_with_the_policy_that_removes_something_of_it() {
    let state = State::new();
    let host = state.host();
    let rules = "slot = 'state-mapping'\n[[rules]]\nname = 'stopped'\nwhen = \"server.state == 'stopped'\"\n\
        answer = { mapped = { report = 'deleting', action = 'reap' } }\n";
    let link = Link::contents("the.rules.toml".as_ref(), rules.as_bytes());
    host.configure(&Policies::built_in().with(SlotName::StateMapping, link)).unwrap();
    let decide = || drop(run(host.pin().decide::<StateMapping>(StateMapping::example())));
    let log = heard_with(FmtSpan::CLOSE, Level::TRACE, decide);
    // The default decides about all servers that are not stopped, and removes none.
    assert!(log.contains("removes=2") && log.contains("policy=\"the.rules.toml ("), "{log}");
}

/// A host whose retry policy traps in decisions whose random word is odd.
fn host_trapping(state: &State, suspend_after: u32) -> Host {
    let mut options = state.options();
    options.suspend_after = suspend_after;
    let host = Host::new(options).unwrap();
    let settings = json!({ "behaviour": "trap", "during": "odd-decisions" });
    let link = Link::bytes(guests::HOSTILE.bytes).with_settings(settings);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    host
}

fn fail(host: &Host) {
    let question = retry::Question { random: 1, ..Retry::example() };
    assert_eq!(run(host.pin().decide::<Retry>(question)).fallbacks.len(), 1);
}

/// The only host that runs there.
fn running(state: &State) -> Option<RunningHost> {
    let mut hosts = running_hosts(&state.dir()).unwrap();
    assert!(hosts.len() <= 1, "{hosts:?}");
    hosts.pop()
}

/// What the only host there says of the first link of its retry policies.
fn reported(state: &State, says: impl Fn(&LinkStatus) -> bool) -> bool {
    running(state).is_some_and(|host| host.status.links.iter().find(|it| it.slot == SlotName::Retry).is_some_and(&says))
}

#[test]
fn a_failing_and_a_suspended_policy_are_seen_from_outside_while_the_host_runs() {
    let state = State::new();
    let host = host_trapping(&state, 3);
    eventually("it is configured", || reported(&state, |link| &*link.policy.name == "windlass-hostile-guest"));
    fail(&host);
    eventually("it fails", || {
        reported(&state, |link| {
            link.failures_in_a_row == 1
                && !link.suspended
                && link.last_failure.as_ref().is_some_and(|why| why.contains("unreachable"))
        })
    });
    run(host.pin().decide::<Retry>(Retry::example()));
    eventually("it decides again", || reported(&state, |link| link.failures_in_a_row == 0));
    (0..3).for_each(|_| fail(&host));
    eventually("it is suspended", || reported(&state, |link| link.suspended));

    let seen = running(&state).unwrap();
    assert_eq!((seen.process, seen.status), (std::process::id(), host.status()));
    assert!(!seen.program.is_empty() && seen.started_at_ms > 0);
    drop(host);
    assert_eq!(running(&state), None);
    assert_eq!(fs::read_dir(state.folder.path().join("hosts")).unwrap().count(), 0);
}

#[test]
fn the_last_swap_and_what_refused_it_are_seen_from_outside() {
    let state = State::new();
    let files = tempfile::tempdir().unwrap();
    let write = |bytes: &[u8]| fs::write(files.path().join("retry.wasm"), bytes).unwrap();
    write(&Guest::waiting(1).component());
    let mut options = state.options();
    options.policy_folder = files.path().into();
    let host = Host::new(options).unwrap();
    let policies = Policies::built_in().with(SlotName::Retry, Link::file("retry.wasm"));
    host.configure(&policies).unwrap();
    let loaded_at_ms = host.status().links.iter().find(|it| it.slot == SlotName::Retry).unwrap().loaded_at_ms;

    write(b"nonsense");
    assert_eq!(host.reload().errors.len(), 1);
    eventually("it is refused", || {
        reported(&state, |link| {
            link.error.as_ref().is_some_and(|why| why.contains("it is text"))
                && link.refused_at_ms.is_some_and(|at_ms| at_ms >= loaded_at_ms)
                && link.loaded_at_ms == loaded_at_ms
        })
    });
    write(&Guest::waiting(2).component());
    assert_eq!(host.reload().swapped.len(), 1);
    eventually("it is swapped", || reported(&state, |link| link.error.is_none() && link.refused_at_ms.is_none()));

    // What is configured anew and unchanged was not put in place anew.
    let before = host.status();
    host.configure(&policies).unwrap();
    assert_eq!(host.status(), before);
}

#[test]
fn the_default_that_ends_a_chain_is_there_since_the_host_is() {
    let state = State::new();
    let host = state.host();
    eventually("it says so", || running(&state).is_some());
    let seen = running(&state).unwrap();
    assert_eq!(seen.status.links.len(), SlotName::ALL.len());
    assert!(seen.status.links.iter().all(|link| link.loaded_at_ms > 0 && link.loaded_at_ms <= seen.started_at_ms));
    drop(host);
}
