//! A contract 0.2 that only the tests know: its `retry` has a field more, a class of failures more, a verdict more, and
//! another function. Beside its own policies this host speaks with those of 0.1, which were built before.

use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{Adapter, OlderSlot};
use crate::brake::Brake;
use crate::cache::Cache;
use crate::capability::{CallContext, Capability, CapabilityError, GrantedCapability};
use crate::chain::{ChainLink, Deciding, Generation, PinnedPolicies};
use crate::configuration::Link;
use crate::decision::{DecidedBy, DecisionIds};
use crate::decision_log::{DecisionLog, DecisionReader};
use crate::engine::Engines;
use crate::error::Refusal;
use crate::limits::Limits;
use crate::load::Loader;
use crate::policy::LoadedPolicy;
use crate::shadow::Shadows;
use crate::slots::types::{Failure, FailureClass};
use crate::slots::{
    CONTRACT_VERSION, CONTRACT_VERSIONS, Deferred, Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName,
    StateMapping, retry, sealed,
};

/// Policies for `retry` that were built for 0.1.0, and are never built again. In both: wait 100,000 ms times the place
/// of the failure's class in its enum, and one for each attempt; the second has `test:guest/numbers` double the
/// attempt, and writes its name to the log.
const FROZEN: &[u8] = include_bytes!("../../tests/frozen/retry-0.1.0.wasm");
const FROZEN_WITH_IMPORTS: &[u8] = include_bytes!("../../tests/frozen/retry-0.1.0-with-imports.wasm");

/// The classes of 0.2: those of 0.1 and one more.
macro_rules! classes {
    ($($case:ident $name:literal)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
        #[component(enum)]
        #[repr(u8)]
        enum NextClass {
            $( #[component(name = $name)] $case, )+
            #[component(name = "preempted")]
            Preempted,
            #[component(name = "other")]
            Other,
        }

        impl NextClass {
            fn down(self) -> FailureClass {
                match self {
                    $( NextClass::$case => FailureClass::$case, )+
                    NextClass::Preempted | NextClass::Other => FailureClass::Other,
                }
            }
        }

        const CLASSES: &str = concat!($( $name, ", ", )+ "preempted, other");
    };
}

classes! {
    InvalidArguments "invalid-arguments"
    AuthenticationDenied "authentication-denied"
    PermissionDenied "permission-denied"
    QuotaExceeded "quota-exceeded"
    NotFound "not-found"
    Expired "expired"
    Conflict "conflict"
    PreconditionFailed "precondition-failed"
    TransientState "transient-state"
    Locked "locked"
    RateLimited "rate-limited"
    OutOfStock "out-of-stock"
    ServerError "server-error"
    Gateway "gateway"
    Timeout "timeout"
    Connection "connection"
    MalformedAnswer "malformed-answer"
    DeadlineExceeded "deadline-exceeded"
    Cancelled "cancelled"
    Interrupted "interrupted"
    HookFailed "hook-failed"
    HookTimedOut "hook-timed-out"
}

#[derive(Clone, Debug, PartialEq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
struct NextQuestion {
    now: u64,
    random: u64,
    operation: String,
    step: String,
    undoing: bool,
    attempt: u32,
    elapsed: u64,
    #[component(name = "time-left")]
    time_left: Option<u64>,
    class: NextClass,
    message: String,
    zone: String,
    /// New: how many attempts other servers of the group have left.
    budget: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
enum NextVerdict {
    #[component(name = "defer")]
    Defer,
    #[component(name = "give-up")]
    GiveUp,
    #[component(name = "wait")]
    Wait(u64),
    /// New.
    #[component(name = "wait-until")]
    WaitUntil(u64),
}

type NextAnswer = crate::slots::Answer<NextVerdict>;

#[derive(Clone, Copy, Debug)]
struct NextRetry;

impl sealed::Sealed for NextRetry {}

impl Slot for NextRetry {
    const NAME: SlotName = SlotName::Retry;
    const VERSION: &'static str = "0.2.0";
    const FUNCTION: &'static str = "judge";
    type Question = NextQuestion;
    type Answer = NextAnswer;

    fn older() -> &'static [Adapter<NextRetry>] {
        const { &[Adapter::of::<RetryOfFirstContract>()] }
    }

    fn deferred(answer: &NextAnswer) -> Deferred {
        Deferred::whole(answer.verdict == NextVerdict::Defer)
    }

    fn check(_: &NextQuestion, _: &NextAnswer) -> Result<(), String> {
        Ok(())
    }

    fn keep(_: &NextQuestion) -> NextAnswer {
        NextAnswer { verdict: NextVerdict::GiveUp, reason: None }
    }

    fn example() -> NextQuestion {
        NextQuestion {
            now: 0,
            random: 2,
            operation: "create-server".into(),
            step: "power-on".into(),
            undoing: false,
            attempt: 1,
            elapsed: 0,
            time_left: None,
            class: NextClass::ServerError,
            message: "internal error".into(),
            zone: "fr-par-1".into(),
            budget: 3,
        }
    }
}

/// What a maintainer writes for each slot when 0.2 comes.
struct RetryOfFirstContract;

impl OlderSlot<NextRetry> for RetryOfFirstContract {
    const VERSION: &'static str = "0.1.0";
    const FUNCTION: &'static str = "decide";
    type Question = retry::Question;
    type Answer = retry::Answer;

    fn question(question: &NextQuestion) -> retry::Question {
        retry::Question {
            now: question.now,
            random: question.random,
            operation: question.operation.clone(),
            step: question.step.clone(),
            undoing: question.undoing,
            attempt: question.attempt,
            elapsed: question.elapsed,
            time_left: question.time_left,
            failure: Failure {
                class: question.class.down(),
                message: question.message.clone(),
                method: None,
                path: None,
                status: None,
                error_type: None,
                resource: None,
                ambiguous: false,
            },
            zone: question.zone.clone(),
            group: None,
            server_type: None,
        }
    }

    fn answer(answer: retry::Answer) -> NextAnswer {
        let verdict = match answer.verdict {
            retry::Verdict::Defer => NextVerdict::Defer,
            retry::Verdict::GiveUp => NextVerdict::GiveUp,
            retry::Verdict::Wait(milliseconds) => NextVerdict::Wait(milliseconds),
        };
        NextAnswer { verdict, reason: answer.reason }
    }
}

/// A policy of 0.2: out of a budget of nothing it waits until the instant 7, and says so in the log; the rest it
/// defers.
fn newer_component() -> Vec<u8> {
    let wit = format!(
        "package windlass:policy@0.2.0;
         interface log {{ enum level {{ debug, info, warn, error }} write: func(level: level, message: string); }}
         interface policy {{
             record description {{ name: string, version: string, summary: string, settings-schema: string }}
             describe: func() -> description;
             configure: func(settings: string) -> result<_, string>;
         }}
         interface retry {{
             enum failure-class {{ {CLASSES} }}
             record question {{
                 now: u64, random: u64, operation: string, step: string, undoing: bool, attempt: u32, elapsed: u64,
                 time-left: option<u64>, class: failure-class, message: string, zone: string, budget: u32,
             }}
             variant verdict {{ defer, give-up, wait(u64), wait-until(u64) }}
             record answer {{ verdict: verdict, reason: option<string> }}
             judge: func(question: question) -> answer;
         }}
         world newer {{ import log; export policy; export retry; }}"
    );
    // The budget is the last field of the question. The description lies at 16, the answer at 96, texts from 1024.
    let module = r#"(module
        (import "windlass:policy/log@0.2.0" "write" (func $log (param i32 i32 i32)))
        (memory (export "memory") 1)
        (global $top (mut i32) (i32.const 8192))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
            (global.set $top (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
        (func (export "windlass:policy/policy@0.2.0#describe") (result i32) (i32.const 16))
        (func (export "windlass:policy/policy@0.2.0#configure") (param i32 i32) (result i32) (i32.const 64))
        (func (export "windlass:policy/retry@0.2.0#judge") (param $question i32) (result i32)
            (if (i32.eqz (i32.load (i32.add (local.get $question) (i32.const BUDGET)))) (then
                (call $log (i32.const 1) (i32.const 1024) (i32.const 5))
                (i32.store8 (i32.const 96) (i32.const 3)) (i64.store (i32.const 104) (i64.const 7))))
            (i32.const 96))
        (data (i32.const 16) "\00\04\00\00\05\00\00\00\05\04\00\00\05\00\00\00\00\04\00\00\00\00\00\00\0a\04\00\00\02\00\00\00")
        (data (i32.const 1024) "newer1.0.0{}"))"#;
    let module = module.replace("BUDGET", "84");
    let mut core = wat::parse_str(module).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("next.wit", &wit).unwrap();
    let world = resolve.select_world(&[package], Some("newer")).unwrap();
    wit_component::embed_component_metadata(&mut core, &resolve, world, wit_component::StringEncoding::UTF8).unwrap();
    wit_component::ComponentEncoder::default().validate(true).module(&core).unwrap().encode().unwrap()
}

/// A capability in two versions: in 0.1 it doubles, in 0.2 it triples and has another type.
struct Numbers(&'static str);

impl Capability for Numbers {
    fn interface(&self) -> &str {
        "test:guest/numbers"
    }
    fn version(&self) -> &str {
        self.0
    }
    fn wit(&self) -> &str {
        match self.0 {
            "0.1.0" => {
                "package test:guest@0.1.0;
                 interface numbers {
                     variant trouble { not-found, limit-reached(string) }
                     double: func(n: u32) -> result<u32, trouble>;
                 }"
            }
            _ => "package test:guest@0.2.0; interface numbers { double: func(n: u64) -> u64; }",
        }
    }
    fn functions(&self) -> &[&str] {
        &["double"]
    }
    fn accept_grants(&self, _: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        Ok(Arc::new(Granted(self.0)))
    }
}

struct Granted(&'static str);

#[async_trait::async_trait]
impl GrantedCapability for Granted {
    async fn call(&self, _: CallContext, _: &str, arguments: Vec<Value>) -> Result<Value, CapabilityError> {
        let number = arguments[0].as_u64().unwrap_or_default();
        Ok(if self.0 == "0.1.0" { json!({"ok": number * 2}) } else { json!(number * 3) })
    }
}

struct Set {
    _folder: tempfile::TempDir,
    state: Dir,
    loader: Loader,
}

impl Set {
    fn new() -> Set {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let loader = Loader {
            engines: Engines::new().unwrap(),
            cache: Cache::open(&state).unwrap(),
            capabilities: vec![Arc::new(Numbers("0.2.0")), Arc::new(Numbers("0.1.0"))],
            suspend_after: 5,
            compiler: None,
        };
        Set { _folder: folder, state, loader }
    }

    fn load<S: Slot>(&self, component: &[u8]) -> Result<Arc<LoadedPolicy>, Refusal> {
        let link = Link::bytes(component).with_grant("test:guest/numbers");
        self.loader.load_for::<S>(&link, component.into(), Limits::default()).map(Arc::new)
    }

    fn pin(&self, policies: &[&Arc<LoadedPolicy>]) -> PinnedPolicies {
        let mut generation = Generation::default();
        let links = policies.iter().map(|policy| ChainLink::Policy(Arc::clone(policy)));
        generation.chains[SlotName::Retry.index()].extend(links);
        let log = Arc::new(DecisionLog::open(&self.state, 1, Default::default()).unwrap());
        let deciding = Deciding {
            shadows: Shadows::new(Default::default(), log.clone(), Arc::default()),
            log,
            ids: DecisionIds::new(1),
            waiting: Semaphore::new(1),
            status: Arc::default(),
            brake: Brake::default(),
        };
        PinnedPolicies { generation: Arc::new(generation), deciding: Arc::new(deciding) }
    }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn verdict(pin: &PinnedPolicies, question: NextQuestion) -> (NextVerdict, String) {
    let decision = run(pin.decide::<NextRetry>(question, |_, _| Ok(())));
    assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
    match decision.decided_by {
        DecidedBy::Policy(policy) => (decision.answer.verdict, policy.name.to_string()),
        DecidedBy::Keep => panic!("nobody decided"),
    }
}

/// What the frozen policies answer.
fn wait(class: FailureClass, attempts: u64) -> NextVerdict {
    NextVerdict::Wait(100_000 * class as u64 + attempts)
}

#[test]
fn a_policy_of_an_older_contract_decides_beside_one_of_the_newest() {
    let set = Set::new();
    let (newer, frozen) = (newer_component(), FROZEN);
    let (newer, frozen) = (set.load::<NextRetry>(&newer).unwrap(), set.load::<NextRetry>(frozen).unwrap());
    assert_eq!((newer.contract_version(), frozen.contract_version()), ("0.2.0", "0.1.0"));
    let pin = set.pin(&[&newer, &frozen]);

    // Only the newer one has a name for the budget, a function of the new name, and the new verdict.
    let spent = NextQuestion { budget: 0, ..NextRetry::example() };
    assert_eq!(verdict(&pin, spent), (NextVerdict::WaitUntil(7), "newer".to_owned()));
    // What it defers is asked of the older one in its words, and answered in the newer ones.
    let third = NextQuestion { attempt: 3, ..NextRetry::example() };
    assert_eq!(verdict(&pin, third), (wait(FailureClass::ServerError, 3), "frozen-guest".to_owned()));
    // A case that is new is `other` to it.
    let preempted = NextQuestion { class: NextClass::Preempted, ..NextRetry::example() };
    assert_eq!(verdict(&pin, preempted).0, wait(FailureClass::Other, 1));
}

#[test]
fn imports_are_those_of_the_policys_own_version() {
    let set = Set::new();
    let (newer, frozen) = (newer_component(), FROZEN_WITH_IMPORTS);
    let (newer, frozen) = (set.load::<NextRetry>(&newer).unwrap(), set.load::<NextRetry>(frozen).unwrap());
    let pin = set.pin(&[&newer, &frozen]);
    let third = NextQuestion { attempt: 3, ..NextRetry::example() };
    let spent = NextQuestion { budget: 0, ..NextRetry::example() };
    // Doubled, as its version of the capability does, and not tripled.
    assert_eq!(verdict(&pin, third).0, wait(FailureClass::ServerError, 6));
    assert_eq!(verdict(&pin, spent).1, "newer");
    pin.deciding.log.flush();
    let log = DecisionReader::open(&set.state).unwrap().list(&Default::default()).unwrap();
    let lines = log.decisions.iter().flat_map(|decision| &decision.asked).flat_map(|asked| &asked.log);
    assert_eq!(lines.map(|line| line.message.as_str()).collect::<Vec<_>>(), ["newer", "frozen-guest"]);
}

#[test]
fn a_host_of_the_older_contract_takes_the_same_policies_and_refuses_newer_ones() {
    let set = Set::new();
    for frozen in [FROZEN, FROZEN_WITH_IMPORTS] {
        assert_eq!(set.load::<Retry>(frozen).unwrap().contract_version(), CONTRACT_VERSION);
    }
    let refusal = set.load::<Retry>(&newer_component()).unwrap_err().to_string();
    assert!(refusal.contains("`windlass:policy/policy@0.1.0`") && refusal.contains("@0.2.0"), "{refusal}");
}

#[test]
fn a_policy_of_an_older_contract_with_other_types_is_refused_with_its_version() {
    let set = Set::new();
    let refusal = set.load::<NextRetry>(windlass_test_guests::OTHER_TYPES.bytes).unwrap_err().to_string();
    assert!(refusal.contains("windlass:policy/retry#decide") && refusal.contains("policy@0.1.0"), "{refusal}");
}

#[test]
fn every_slot_has_an_adapter_for_every_version_that_the_host_speaks() {
    fn speaks<S: Slot>() {
        assert_eq!(super::versions::<S>(), CONTRACT_VERSIONS, "{}", S::NAME);
    }
    speaks::<StateMapping>();
    speaks::<Retry>();
    speaks::<Rollback>();
    speaks::<Release>();
    speaks::<Provisioning>();
    speaks::<Placement>();
}
