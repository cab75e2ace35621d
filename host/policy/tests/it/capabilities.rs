//! Granted host functions: counted, bounded, recorded, played back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{
    CallContext, Capability, CapabilityError, DecisionRecord, FailureKind, GrantedCapability, Host, Link, Policies,
    ReplayAgainst, wit_result,
};

use crate::guests::{ANSWER, ATTEMPT, Guest};
use crate::support::{State, any};

/// How the capability behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Doubles,
    NeverAnswers,
    IsBroken,
    AnswersNonsense,
}

struct Numbers {
    mood: Mood,
    calls: Arc<AtomicU32>,
}

impl Capability for Numbers {
    fn interface(&self) -> &str {
        "test:guest/numbers"
    }
    fn version(&self) -> &str {
        "0.1.0"
    }
    fn functions(&self) -> &[&str] {
        &["double"]
    }
    fn example_grant(&self) -> String {
        "test:guest/numbers small".into()
    }
    fn accept_grants(&self, arguments: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        match arguments {
            [size] if size == "small" => Ok(Arc::new(Granted { mood: self.mood, calls: self.calls.clone() })),
            other => Err(format!("expected `small`, found {other:?}")),
        }
    }
}

struct Granted {
    mood: Mood,
    calls: Arc<AtomicU32>,
}

#[async_trait::async_trait]
impl GrantedCapability for Granted {
    async fn call(&self, _: CallContext, function: &str, arguments: Vec<Value>) -> Result<Value, CapabilityError> {
        assert_eq!(function, "double");
        self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match self.mood {
            Mood::Doubles => wit_result::<_, ()>(Ok(arguments[0].as_u64().unwrap_or_default() * 2)),
            Mood::NeverAnswers => std::future::pending().await,
            Mood::IsBroken => Err(CapabilityError::new("the wire is cut")),
            Mood::AnswersNonsense => Ok(json!({"ok": "many"})),
        }
    }
}

/// Calls `double` with the question's attempt, so many times over, and waits for what came out. A refusal counts
/// 1,000,000.
pub(crate) fn doubling(times: u32) -> Guest {
    let mut guest = Guest::new(
        SlotName::Retry,
        format!(
            "(local.set $at (i32.load (i32.add (local.get $question) (i32.const {ATTEMPT})))) (local.set $i (i32.const {times})) \
             (loop $more (call $double (local.get $at) (i32.const 600)) \
               (if (i32.load8_u (i32.const 600)) (then (local.set $at (i32.const 1000000))) \
                 (else (local.set $at (i32.load (i32.const 604))))) \
               (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $more (local.get $i))) \
             (i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (i64.extend_i32_u (local.get $at))) \
             (i32.const {ANSWER})"
        ),
    );
    guest.imports = r#"(import "test:guest/numbers@0.1.0" "double" (func $double (param i32 i32)))"#;
    guest.world = "import numbers;";
    guest
}

struct Set {
    host: Host,
    calls: Arc<AtomicU32>,
    _state: State,
}

fn set(mood: Mood, link: impl FnOnce(Link) -> Link, times: u32) -> Set {
    let state = State::new();
    let calls = Arc::new(AtomicU32::new(0));
    let host = Host::new(state.options().with_capability(Arc::new(Numbers { mood, calls: calls.clone() }))).unwrap();
    let link = link(Link::bytes(doubling(times).versioned()).with_grant("test:guest/numbers small"));
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 0, "the dry run calls nothing");
    Set { host, calls, _state: state }
}

/// Simulated time: a second of waiting takes none.
fn simulated<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

impl Set {
    fn ask(&self) -> (windlass_policy::Decision<Retry>, DecisionRecord) {
        let decision = simulated(self.host.pin().decide::<Retry>(Retry::example(), any));
        let record = self.host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
        (decision, record)
    }
}

#[test]
fn an_ungranted_import_is_refused_with_the_line_to_add() {
    let state = State::new();
    let numbers = Numbers { mood: Mood::Doubles, calls: Arc::default() };
    let host = Host::new(state.options().with_capability(Arc::new(numbers))).unwrap();
    let configure = |link| host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err().to_string();
    let error = configure(Link::bytes(doubling(1).versioned()));
    assert!(error.contains("it imports `test:guest/numbers@0.1.0`, which it was not granted"), "{error}");
    assert!(error.contains("[policies.retry]:\n    grants = [\"test:guest/numbers small\"]"), "{error}");
    // With the very line it works; with other arguments the capability says what it expects.
    let error = configure(Link::bytes(doubling(1).versioned()).with_grant("test:guest/numbers huge"));
    assert!(error.contains("grants: `test:guest/numbers huge`: expected `small`"), "{error}");
}

#[test]
fn calls_are_recorded_and_a_replay_plays_them_back() {
    let set = set(Mood::Doubles, |link| link, 3);
    let (decision, record) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(8));
    let calls = &record.asked[0].host_calls;
    assert_eq!(calls.len(), 3);
    assert_eq!((&calls[2].arguments, &calls[2].answer), (&vec![json!(4)], &json!({"ok": 8})));

    let replay = simulated(set.host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same, "{replay:?}");
    assert_eq!(set.calls.load(Ordering::Relaxed), 3, "the replay called nothing");

    // Against a policy that asks something else: the record has no such call.
    let other = set
        .host
        .load(SlotName::Retry, &Link::bytes(doubling(4).versioned()).with_grant("test:guest/numbers small"))
        .unwrap();
    let replay = simulated(set.host.replay(&record, &ReplayAgainst::Policy(other))).unwrap();
    assert!(!replay.same);
    assert_eq!(replay.differences, ["verdict.wait: recorded 8, replayed 1000000"]);
}

#[test]
fn a_policy_that_spends_all_its_calls_hears_so_and_goes_on() {
    let set = set(Mood::Doubles, |link| link.with_limit("host_calls", 2), 3);
    let (decision, record) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1_000_000));
    assert_eq!(set.calls.load(Ordering::Relaxed), 2);
    let refused: Vec<bool> = record.asked[0].host_calls.iter().map(|call| call.refused).collect();
    assert_eq!(refused, [false, false, true]);
    assert!(record.asked[0].host_calls[2].answer.to_string().contains("host_calls"));
}

#[test]
fn a_policy_that_goes_on_calling_after_that_is_stopped() {
    let state = State::new();
    let numbers = Numbers { mood: Mood::Doubles, calls: Arc::default() };
    let host = Host::new(state.options().with_capability(Arc::new(numbers))).unwrap();
    let link = Link::bytes(doubling(1_000_000).versioned()).with_grant("test:guest/numbers small");
    // The dry run makes no call, so every one is refused.
    let error = host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err();
    assert!(error.to_string().contains("goes on calling after its calls were used up"), "{error}");
}

#[test]
fn a_call_that_never_ends_is_dropped_at_its_deadline() {
    let set = set(Mood::NeverAnswers, |link| link.with_limit("host_call_time_ms", 2_000), 1);
    let (decision, record) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1_000_000));
    assert!(record.asked[0].host_calls[0].answer.to_string().contains("host_call_time_ms"));
}

#[test]
fn a_call_whose_bytes_are_used_up_is_refused() {
    let set = set(Mood::Doubles, |link| link.with_limit("host_call_bytes", 3), 1);
    let (decision, _) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1_000_000));
}

#[test]
fn a_broken_capability_fails_the_policy_and_not_the_decision() {
    for (mood, words) in [
        (Mood::IsBroken, "the wire is cut"),
        (Mood::AnswersNonsense, "its answer does not fit: at ok: expected a whole number"),
    ] {
        let set = set(mood, |link| link, 1);
        let (decision, _) = set.ask();
        assert_eq!(decision.fallbacks[0].kind, FailureKind::HostCall);
        assert!(decision.fallbacks[0].reason.contains(words), "{}", decision.fallbacks[0]);
        assert!(matches!(decision.answer.verdict, retry::Verdict::Wait(_)));
    }
}

#[test]
fn secrets_in_recorded_calls_are_taken_out_before_they_are_written() {
    let state = State::new();
    let mut options = state.options().with_capability(Arc::new(Numbers { mood: Mood::Doubles, calls: Arc::default() }));
    options.decision_log.redaction = windlass_policy::Redaction::default().with_word("ok");
    let host = Host::new(options).unwrap();
    let link = Link::bytes(doubling(1).versioned()).with_grant("test:guest/numbers small");
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let decision = simulated(host.pin().decide::<Retry>(Retry::example(), any));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(2), "the guest itself gets the answer");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert_eq!(record.asked[0].host_calls[0].answer, json!({"ok": "[redacted]"}));
}
