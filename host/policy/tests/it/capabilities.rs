//! Granted host functions: counted, bounded, recorded, played back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{
    Agreement, CallContext, Capability, CapabilityError, DecisionRecord, FailureKind, GrantedCapability, Host, Link,
    Policies, ReplayAgainst, wit_result,
};

use crate::guests::{ANSWER, ATTEMPT, Guest, NUMBERS_WIT};
use crate::support::State;

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
    fn wit(&self) -> &str {
        NUMBERS_WIT
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
            "(local.set $at (i32.load (i32.add (local.get $question) (i32.const {ATTEMPT})))) (local.set $i (i32.const \
             {times})) (loop $more (call $double (local.get $at) (i32.const 600)) \
               (if (i32.load8_u (i32.const 600)) (then (local.set $at (i32.const 1000000))) \
                 (else (local.set $at (i32.load (i32.const 604))))) \
               (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $more (local.get $i))) \
             (i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (i64.extend_i32_u (local.get \
             $at))) (i32.const {ANSWER})"
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
        let decision = simulated(self.host.pin().decide::<Retry>(Retry::example()));
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
fn look_ups_about_another_account_are_made_with_its_own_capabilities() {
    let set = set(Mood::Doubles, |link| link, 1);
    let theirs = Arc::new(AtomicU32::new(0));
    let numbers = Numbers { mood: Mood::Doubles, calls: theirs.clone() };
    let calls = || (set.calls.load(Ordering::Relaxed), theirs.load(Ordering::Relaxed));
    let verdict = |host: &Host| simulated(host.pin().decide::<Retry>(Retry::example())).answer.verdict;
    let own = verdict(&set.host);
    assert_eq!(calls(), (1, 0));
    let account = set.host.with_capabilities(vec![Arc::new(numbers)]);
    assert_eq!(verdict(&account), own);
    assert_eq!(calls(), (1, 1));
    // Without such a capability nobody is asked: never with another's credentials.
    let without = set.host.with_capabilities(Vec::new());
    assert_eq!(verdict(&without), retry::Verdict::Wait(1_000_000));
    assert_eq!(calls(), (1, 1));
    let pinned = account.pinned(&account.pin().identities());
    drop(simulated(pinned.decide::<Retry>(Retry::example())));
    assert_eq!(calls(), (1, 2), "an operation's policies, too");
}

#[test]
fn calls_are_recorded_and_a_replay_plays_them_back() {
    let set = set(Mood::Doubles, |link| link, 3);
    let (decision, record) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(8));
    let calls = &record.asked[0].host_calls;
    assert_eq!(calls.len(), 3);
    assert_eq!((calls[2].arguments.value(), calls[2].answer.value()), (json!([4]), json!({"ok": 8})));

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
fn a_shadow_is_answered_what_those_were_answered_that_decide_and_looks_up_nothing_itself() {
    let set = set(Mood::Doubles, |link| link, 3);
    let link = |times| Link::bytes(doubling(times).versioned()).with_grant("test:guest/numbers small");
    let waiting = Link::bytes(Guest::waiting(1).component());
    // The same calls, fewer of them, more of them, and none.
    let shadows = [link(3), link(2), link(4), waiting].map(Link::as_shadow);
    let add = |policies: Policies, link| policies.with(SlotName::Retry, link);
    set.host.configure(&shadows.into_iter().chain([link(3)]).fold(Policies::built_in(), add)).unwrap();
    let (decision, record) = set.ask();
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(8));
    assert_eq!(set.calls.load(Ordering::Relaxed), 3, "only those of the policy that decides");
    let agreements: Vec<_> = record.shadows.iter().map(|shadow| shadow.agreement).collect();
    assert_eq!(agreements, [Agreement::Agreed, Agreement::Differed, Agreement::NotComparable, Agreement::Differed]);
    let calls: Vec<_> = record.shadows.iter().map(|shadow| shadow.asked.host_calls.len()).collect();
    assert_eq!(calls, [3, 2, 4, 0]);
    assert_eq!(record.shadows[2].answer, None);
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
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(2), "the guest itself gets the answer");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let call = &record.asked[0].host_calls[0];
    assert_eq!((call.answer.value(), call.redacted), (json!({"ok": "[redacted]"}), true));

    // What the policy was given is not on record, so that it decides otherwise now is not held against it.
    let replay = simulated(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(!replay.same, "{replay:?}");
    assert!(replay.inconclusive[0].contains("`double`") && replay.inconclusive[0].contains("redacted"), "{replay:?}");
}

#[test]
fn an_import_with_other_types_than_the_capability_has_is_refused_when_it_is_loaded() {
    let state = State::new();
    let numbers = Numbers { mood: Mood::Doubles, calls: Arc::default() };
    let host = Host::new(state.options().with_capability(Arc::new(numbers))).unwrap();
    for (function, core, problem) in [
        ("double: func(n: u64) -> result<u32, trouble>;", "i64 i32", "`double`, parameter `n`: expected u32"),
        ("double: func(n: u32) -> result<string, trouble>;", "i32 i32", "`double`, result, `ok`: expected u32"),
        ("double: func(n: u32) -> result<u32>;", "i32 i32", "`double`, result, `err`: expected the variant `trouble`"),
        ("double: func() -> result<u32, trouble>;", "i32", "`double` takes 1 parameters, not 0"),
        ("double: func(n: u32);", "i32", "`double`, result: expected a result"),
        (
            "variant other { not-found, limit-reached(u32) } double: func(n: u32) -> result<u32, other>;",
            "i32 i32",
            "`double`, result, `err`, case `limit-reached`: expected string",
        ),
        ("treble: func(n: u32) -> u32;", "i32) (result i32", "there is no function `treble`"),
    ] {
        let name = if function.starts_with("treble") { "treble" } else { "double" };
        let imports = format!(r#"(import "test:guest/numbers@0.1.0" "{name}" (func (param {core})))"#);
        let interfaces =
            format!("interface numbers {{ variant trouble {{ not-found, limit-reached(string) }} {function} }}");
        let guest = Guest {
            imports: imports.leak(),
            interfaces: interfaces.leak(),
            world: "import numbers;",
            ..Guest::deferring(SlotName::Retry)
        };
        let link = Link::bytes(guest.versioned()).with_grant("test:guest/numbers small");
        let error = host.load(SlotName::Retry, &link).unwrap_err().to_string();
        let words = format!("imports `test:guest/numbers@0.1.0` with other types than this host's: {problem}");
        assert!(error.contains(&words), "{function}: {error}");
    }
}

/// Two interfaces of `windlass:scaleway`, as Scaleway would answer.
struct Scaleway {
    interface: &'static str,
    wit: &'static str,
    function: &'static str,
    answer: Value,
}

const LOOK_UPS: &str = "windlass:scaleway/look-ups";
const REQUEST: &str = "windlass:scaleway/request";

fn look_ups() -> Arc<dyn Capability> {
    let wit = include_str!("../../../../wit/scaleway/look-ups.wit");
    Arc::new(Scaleway { interface: LOOK_UPS, wit, function: "server-types", answer: json!({"ok": []}) })
}

fn request(body: &str) -> Arc<dyn Capability> {
    let wit = include_str!("../../../../wit/scaleway/request.wit");
    let answer = json!({"ok": {"status": 200, "body": body}});
    Arc::new(Scaleway { interface: REQUEST, wit, function: "send", answer })
}

impl Capability for Scaleway {
    fn interface(&self) -> &str {
        self.interface
    }
    fn version(&self) -> &str {
        "0.1.0"
    }
    fn wit(&self) -> &str {
        self.wit
    }
    fn functions(&self) -> &[&str] {
        std::slice::from_ref(&self.function)
    }
    fn accept_grants(&self, _: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        Ok(Arc::new(Scaleway { answer: self.answer.clone(), ..*self }))
    }
}

#[async_trait::async_trait]
impl GrantedCapability for Scaleway {
    async fn call(&self, _: CallContext, _: &str, _: Vec<Value>) -> Result<Value, CapabilityError> {
        Ok(self.answer.clone())
    }
}

/// A host whose retry policy is the spender with these settings.
fn spending(state: &State, settings: Value, capabilities: [Arc<dyn Capability>; 2]) -> Host {
    let [one, other] = capabilities;
    let host = Host::new(state.options().with_capability(one).with_capability(other)).unwrap();
    let link = Link::bytes(windlass_test_guests::SPENDER.bytes).with_settings(settings);
    let link = link.with_grant(LOOK_UPS).with_grant(REQUEST);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    host
}

#[test]
fn of_refused_calls_about_megabytes_a_record_keeps_a_kilobyte_each() {
    const MAX_REFUSALS: usize = 24;
    let state = State::new();
    let settings = json!({"look-ups": MAX_REFUSALS, "zone-bytes": (1 << 20) - 4096, "stubborn": true});
    let host = spending(&state, settings, [look_ups(), request("")]);
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let calls = &record.asked[0].host_calls;
    assert_eq!(calls.len(), MAX_REFUSALS);
    for call in calls {
        assert!(call.refused && call.shortened, "{call:?}");
        assert!(call.arguments.as_str().len() <= 1024, "{} bytes", call.arguments.as_str().len());
        assert!(call.arguments.to_string().contains("(1044480 bytes)"), "{call:?}");
        assert!(call.answer.to_string().contains("host_call_bytes"), "{call:?}");
    }
    // The same guest makes the same calls, by whose beginnings they are known.
    let replay = simulated(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same, "{replay:?}");
}

#[test]
fn a_call_with_a_body_of_json_is_found_in_its_record_however_it_is_spaced() {
    let state = State::new();
    let settings = json!({"requests": 1, "method": "POST", "body": "{ \"b\" : 1,\n \"token\" : \"hunter2\" }"});
    // Nothing secret is in the answer, so the guest is given it again as it was.
    let host = spending(&state, settings, [look_ups(), request("{ \"b\": 1,  \"a\": 2 }")]);
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.reason.as_deref(), Some("200 { \"b\": 1,  \"a\": 2 }"));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert!(!serde_json::to_string(&record).unwrap().contains("hunter2"));
    let replay = simulated(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same, "{replay:?}");
}

#[test]
fn what_a_policy_is_given_on_purpose_is_on_record_as_it_was_given() {
    let state = State::new();
    let body = r#"{"admin_password_encryption_ssh_key_id":"11111111","sudo_password":"[redacted by windlass]"}"#;
    let host = spending(&state, json!({"requests": 1}), [look_ups(), request(body)]);
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.reason, Some(format!("200 {body}")));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let replay = simulated(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same && replay.inconclusive.is_empty(), "{replay:?}");
}

/// The capability, granted to whoever asks for it, with these answers.
struct Answering<F>(Arc<F>);

/// Lends what this says about each call's arguments.
pub(crate) fn answering<F, Answer>(answer: F) -> Arc<dyn Capability>
where
    F: Fn(Vec<Value>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Value, CapabilityError>> + Send + 'static,
{
    Arc::new(Answering(Arc::new(answer)))
}

impl<F, Answer> Capability for Answering<F>
where
    F: Fn(Vec<Value>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Value, CapabilityError>> + Send + 'static,
{
    fn interface(&self) -> &str {
        "test:guest/numbers"
    }
    fn version(&self) -> &str {
        "0.1.0"
    }
    fn wit(&self) -> &str {
        NUMBERS_WIT
    }
    fn functions(&self) -> &[&str] {
        &["double"]
    }
    fn accept_grants(&self, _: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        Ok(Arc::new(Answering(self.0.clone())))
    }
}

#[async_trait::async_trait]
impl<F, Answer> GrantedCapability for Answering<F>
where
    F: Fn(Vec<Value>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Value, CapabilityError>> + Send + 'static,
{
    async fn call(&self, _: CallContext, _: &str, arguments: Vec<Value>) -> Result<Value, CapabilityError> {
        (self.0)(arguments).await
    }
}

#[test]
fn each_link_of_a_chain_is_played_back_its_own_calls() {
    // Asks, and decides only when the answer is 2.
    let mut guest = Guest::new(
        SlotName::Retry,
        format!(
            "(call $double (i32.const 1) (i32.const 600)) \
             (if (i32.eq (i32.load (i32.const 604)) (i32.const 2)) (then \
               (i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (i64.const 22)))) \
             (i32.const {ANSWER})"
        ),
    );
    guest.imports = r#"(import "test:guest/numbers@0.1.0" "double" (func $double (param i32 i32)))"#;
    guest.world = "import numbers;";
    let state = State::new();
    let calls = AtomicU32::new(0);
    let number = move |_| {
        let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
        async move { wit_result::<_, ()>(Ok(number)) }
    };
    let host = Host::new(state.options().with_capability(answering(number))).unwrap();
    let link = Link::bytes(guest.versioned()).with_grant("test:guest/numbers");
    let policies = Policies::built_in().with(SlotName::Retry, link.clone()).with(SlotName::Retry, link);
    host.configure(&policies).unwrap();
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(22), "the second of two equal links decides");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let replay = simulated(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same, "{replay:?}");
}

#[test]
fn a_capabilitys_words_reach_a_failure_in_one_line_and_short() {
    let loud = |_| async {
        let name = format!("\u{1b}[31m\u{202e}{}", "x".repeat(100_000));
        Ok(json!({ "err": Value::Object([(name, json!(1))].into_iter().collect()) }))
    };
    let state = State::new();
    let host = Host::new(state.options().with_capability(answering(loud))).unwrap();
    let link = Link::bytes(doubling(1).versioned()).with_grant("test:guest/numbers");
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let decision = simulated(host.pin().decide::<Retry>(Retry::example()));
    let reason = &decision.fallbacks[0].reason;
    assert!(reason.contains("there is no case `") && reason.len() < 300, "{reason}");
    assert!(!reason.contains(['\u{1b}', '\u{202e}']), "{reason:?}");
}
