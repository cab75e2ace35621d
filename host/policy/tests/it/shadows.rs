//! Shadows: asked and recorded, and never deciding.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::slots::{Retry, Slot, SlotName, StateMapping, retry, state_mapping};
use windlass_policy::{
    Agreement, Compiler, Decision, DecisionFilter, DecisionReader, DecisionRecord, FailureKind, Host, HostOptions,
    Link, Mode, Outcome, Policies, ReplayAgainst, ShadowFilter,
};

use crate::chains::{every_other, second_attempt, trapping};
use crate::guests::Guest;
use crate::support::{State, eventually, run};

fn waiting(ms: u64) -> Link {
    Link::bytes(Guest::waiting(ms).component())
}

fn with(slot: SlotName, links: impl IntoIterator<Item = Link>) -> Policies {
    links.into_iter().fold(Policies::built_in(), |policies, link| policies.with(slot, link))
}

fn ask(host: &Host, question: retry::Question) -> (Decision<Retry>, DecisionRecord) {
    let decision = run(host.pin().decide::<Retry>(question));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    (decision, record)
}

#[test]
fn a_shadow_is_asked_and_recorded_and_never_decides() {
    let state = State::new();
    let host = state.host();
    let pinned_without = host.pin().identities();
    host.configure(&with(SlotName::Retry, [waiting(7).as_shadow(), waiting(1234)])).unwrap();
    let (decision, record) = ask(&host, Retry::example());
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1234));
    assert_eq!(record.asked.len(), 1, "{:?}", record.asked);
    let [shadow] = &record.shadows[..] else { panic!("{:?}", record.shadows) };
    assert_eq!((shadow.agreement, &shadow.asked.outcome), (Agreement::Differed, &Outcome::Decided));
    assert_eq!(shadow.answer.as_ref().unwrap()["verdict"]["wait"], 7);

    // An operation that begins now does not hold on to it, nor does the state folder.
    assert_eq!(host.pin().identities().len(), pinned_without.len() + 1);
    let identity = &shadow.asked.policy;
    assert!(!host.pin().identities().contains(identity));
    assert!(!state.folder.path().join(format!("policies/{}.wasm", identity.component)).exists());

    let links = host.status().links;
    let modes: Vec<_> = links.iter().filter(|link| link.slot == SlotName::Retry).map(|link| link.mode).collect();
    assert_eq!(modes, [Mode::Shadow, Mode::Decide, Mode::Decide]);
}

#[test]
fn a_shadow_that_answers_the_same_or_defers_agrees_whatever_its_reason() {
    let state = State::new();
    let host = state.host();
    let deferring = Link::bytes(Guest::deferring(SlotName::Retry).component());
    let reasoning = Guest::new(
        SlotName::Retry,
        "(i32.store8 (i32.const 96) (i32.const 2)) (i64.store (i32.const 104) (i64.const 1234)) \
         (i32.store8 (i32.const 112) (i32.const 1)) (i32.store (i32.const 116) (i32.const 1024)) \
         (i32.store (i32.const 120) (i32.const 4)) (i32.const 96)",
    );
    let reasoning = Link::bytes(reasoning.component());
    let shadows = [waiting(1234), deferring, reasoning].map(Link::as_shadow);
    host.configure(&with(SlotName::Retry, shadows.into_iter().chain([waiting(1234)]))).unwrap();
    let (_, record) = ask(&host, Retry::example());
    let agreements: Vec<_> = record.shadows.iter().map(|shadow| (shadow.agreement, shadow.answer.is_some())).collect();
    assert_eq!(agreements, [(Agreement::Agreed, false); 3]);
}

#[test]
fn a_shadow_is_asked_what_was_open_in_its_place_and_behind_a_whole_answer_not_at_all() {
    let state = State::new();
    let host = state.host();
    let decides = || Link::bytes(every_other().component());
    let policies = with(SlotName::StateMapping, [decides().as_shadow(), decides(), decides().as_shadow()]);
    let policies = policies.with(SlotName::Retry, waiting(1)).with(SlotName::Retry, waiting(2).as_shadow());
    host.configure(&policies).unwrap();
    let mut question = StateMapping::example();
    // Stopped servers, which the default would reap and the guest calls running.
    question.servers = vec![question.servers[2]; 5];
    let decision = run(host.pin().decide::<StateMapping>(question));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    // The one that decides takes 0, 2, 4, the default 1 and 3. The first shadow would have done the same.
    let [same, other] = &record.shadows[..] else { panic!("{:?}", record.shadows) };
    assert_eq!((same.agreement, &same.asked.items), (Agreement::Agreed, &None));
    assert_eq!(same.asked.outcome, Outcome::DecidedPart { deferred: 2 });
    // The second is asked about 1 and 3, and takes 1 from the default.
    assert_eq!((other.agreement, &other.asked.items), (Agreement::Differed, &Some(vec![1, 3])));
    let answers: Vec<state_mapping::Answer> = serde_json::from_value(other.answer.clone().unwrap()).unwrap();
    let report = |answer: &state_mapping::Answer| match answer.verdict {
        state_mapping::Verdict::Mapped(mapping) => mapping.report,
        state_mapping::Verdict::Defer => panic!("what it deferred is as it was decided"),
    };
    assert_eq!(report(&answers[0]), state_mapping::Report::Running);
    assert_eq!(answers[1].verdict, decision.answer[3].verdict);

    let (_, record) = ask(&host, Retry::example());
    assert_eq!(record.shadows, [], "all was decided before its place");

    // One kind of difference, in one item, with the decision as its example.
    let report = host.decisions().unwrap().shadows(&ShadowFilter::default()).unwrap();
    assert_eq!((report.shadows.len(), report.unreadable), (1, 0), "the same policy twice: {report:?}");
    let shadow = &report.shadows[0];
    assert_eq!((shadow.agreed, shadow.differed, shadow.failed), (1, 1, 0));
    let [difference] = &shadow.differences[..] else { panic!("{shadow:?}") };
    assert_eq!((difference.count, difference.example), (1, decision.id));
    assert_eq!(difference.shadow, "mapped (action none, report running)");
    assert!(difference.decided.contains("action reap"), "{difference:?}");
}

#[test]
fn the_report_filters_by_slot_name_and_time_and_tells_failures_with_an_example() {
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(trapping().component()).as_shadow();
    host.configure(&with(SlotName::Retry, [link, waiting(5).as_shadow(), waiting(5)])).unwrap();
    let (first, _) = ask(&host, Retry::example());
    let (second, _) = ask(&host, second_attempt());
    let log = host.decisions().unwrap();
    let report = |filter: ShadowFilter| log.shadows(&filter).unwrap().shadows;
    let all = report(ShadowFilter::default());
    let [one, other] = &all[..] else { panic!("{all:?}") };
    let (trapping, agreeing) = if one.failed > 0 { (one, other) } else { (other, one) };
    // Asked about the first attempt it defers.
    assert_eq!((trapping.agreed, trapping.failed, agreeing.agreed), (1, 1, 2));
    let [failure] = &trapping.failures[..] else { panic!("{trapping:?}") };
    assert_eq!((failure.kind, failure.count, failure.example), (FailureKind::Trap, 1, second.id));
    assert!(failure.reason.contains("unreachable"), "{failure:?}");

    let in_slot = |slot| report(ShadowFilter { slot: Some(slot), ..ShadowFilter::default() }).len();
    assert_eq!((in_slot(SlotName::Retry), in_slot(SlotName::Rollback)), (2, 0));
    let of = |name: &str| report(ShadowFilter { policy: Some(name.into()), ..ShadowFilter::default() }).len();
    assert_eq!((of("test-guest"), of("other")), (2, 0));
    let since = |since_ms| report(ShadowFilter { since_ms, ..ShadowFilter::default() }).len();
    assert_eq!((since(first.id.at_ms()), since(second.id.at_ms() + 1)), (2, 0));
}

#[test]
fn a_shadow_that_keeps_failing_suspends_itself_and_not_the_same_policy_where_it_decides() {
    let state = State::new();
    let mut options = state.options();
    options.suspend_after = 3;
    let host = Host::new(options).unwrap();
    let link = || Link::bytes(trapping().component());
    host.configure(&with(SlotName::Retry, [link().as_shadow(), link()])).unwrap();
    let shadow_of = |question| ask(&host, question).1.shadows.remove(0);
    // Where it decides it fails twice, and then does well.
    for _ in 0..2 {
        assert_eq!(shadow_of(second_attempt()).agreement, Agreement::Failed);
    }
    assert_eq!(shadow_of(Retry::example()).agreement, Agreement::Agreed);
    host.configure(&with(SlotName::Retry, [link().as_shadow(), waiting(5)])).unwrap();
    for _ in 0..3 {
        assert_eq!(shadow_of(second_attempt()).agreement, Agreement::Failed);
    }
    let suspended = shadow_of(Retry::example());
    assert_eq!(suspended.agreement, Agreement::NotAsked);
    assert!(matches!(suspended.asked.outcome, Outcome::Fallback { kind: FailureKind::Suspended, .. }), "{suspended:?}");
    assert!(host.status().links.iter().any(|link| link.suspended && link.mode == Mode::Shadow));

    host.configure(&with(SlotName::Retry, [link().as_shadow(), link()])).unwrap();
    let (decision, record) = ask(&host, Retry::example());
    assert_eq!(record.shadows[0].agreement, Agreement::NotAsked, "unchanged, it stays suspended");
    assert_eq!(decision.fallbacks, [], "where it decides, it is asked");
}

#[test]
fn what_waits_is_recorded_when_the_host_goes_and_replays_ask_no_shadow() {
    let state = State::new();
    let host = state.host();
    host.configure(&with(SlotName::Retry, [waiting(7).as_shadow(), waiting(8)])).unwrap();
    let ids: Vec<_> = (0..20).map(|_| run(host.pin().decide::<Retry>(Retry::example())).id).collect();
    drop(host);
    let host = state.host();
    let log = host.decisions().unwrap();
    for id in ids {
        let record = log.show(&id.to_string()).unwrap();
        assert_eq!(record.shadows.len(), 1, "{record:?}");
        let replay = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
        assert!(replay.same && replay.asked.len() == 1, "{replay:?}");
    }
}

/// Where the process below has its state folder.
const KILLED_IN: &str = "WINDLASS_TEST_KILLED_IN";
const DECISIONS: usize = 200;

#[test]
#[ignore = "the process that another test kills"]
fn the_process_that_is_killed() {
    let folder = std::env::var(KILLED_IN).unwrap();
    let folder = Dir::open_ambient_dir(folder, ambient_authority()).unwrap();
    let mut options = HostOptions::new(folder);
    options.shadows.share_percent = 1;
    options.compiler = Some(Compiler::this_process());
    let host = Host::new(options).unwrap();
    host.configure(&with(SlotName::Retry, [waiting(7).as_shadow(), waiting(8)])).unwrap();
    (0..DECISIONS).for_each(|_| drop(run(host.pin().decide::<Retry>(Retry::example()))));
    println!("decided");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_host_that_is_killed_loses_no_decision_whose_shadows_were_not_asked() {
    let state = State::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "shadows::the_process_that_is_killed", "--nocapture"])
        .env(KILLED_IN, state.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.map_while(Result::ok).any(|line| line.contains("decided")));
    let decided =
        || DecisionReader::open(&state.dir()).unwrap().list(&DecisionFilter::default()).unwrap().decisions.len();
    eventually("each decision is on disk", || decided() == DECISIONS);
    let report = DecisionReader::open(&state.dir()).unwrap().shadows(&ShadowFilter::default()).unwrap();
    let asked: u64 = report.shadows.iter().map(|shadow| shadow.agreed + shadow.differed + shadow.not_asked).sum();
    assert!(asked < DECISIONS as u64, "all {asked} shadows were asked: this shows nothing");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(decided(), DECISIONS);
}
