//! Policies that objects bring: whose questions pass which, and what a tenant's may not decide.

use std::path::Path;
use std::sync::Arc;

use windlass_policy::slots::types::Failure;
use windlass_policy::slots::{OnFailure, Release, Retry, Slot, SlotName, release, retry};
use windlass_policy::{
    Asker, DecidedBy, DecisionFilter, Digest, FailureKind, Host, Link, LoadedPolicy, Mode, Outcome, PinnedPolicies,
    Policies, PolicyIdentity, PolicyOrigin, ScopedPolicies, ScopedPolicy,
};

use crate::support::{State, run};

fn origin(tenant: Option<&str>, name: &str) -> PolicyOrigin {
    PolicyOrigin { tenant: tenant.map(Into::into), name: name.into(), on_failure: None }
}

/// Rules of `retry` that wait so long, once a question's attempt is at least this.
fn waits(host: &Host, tenant: Option<&str>, attempt: u32, ms: u64) -> Arc<LoadedPolicy> {
    let rules = format!("slot = \"retry\"\n[[rules]]\nwhen = \"attempt >= {attempt}\"\nanswer = {{ wait = {ms} }}\n");
    loaded(host, SlotName::Retry, tenant, &rules)
}

fn loaded(host: &Host, slot: SlotName, tenant: Option<&str>, rules: &str) -> Arc<LoadedPolicy> {
    let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes());
    host.load_scoped(slot, &link, Vec::new(), origin(tenant, "the"), None).unwrap()
}

fn deciding(policy: Arc<LoadedPolicy>) -> ScopedPolicy {
    ScopedPolicy::Loaded(policy, Mode::Decide)
}

/// How long is waited at this attempt. The failure is one that the default never repeats.
fn waited(host: &Host, tenant: Option<&str>, attempt: u32) -> Option<u64> {
    let failure = Failure { class: windlass_policy::slots::types::FailureClass::NotFound, ..Failure::example() };
    let question = retry::Question { attempt, failure, ..Retry::example() };
    match run(host.pin_of(tenant).decide::<Retry>(question)).answer.verdict {
        retry::Verdict::Wait(ms) => Some(ms),
        _ => None,
    }
}

#[test]
fn a_question_passes_the_operator_s_its_tenant_s_and_no_other_s() {
    let state = State::new();
    let host = state.host();
    let configured = "slot = \"retry\"\n[[rules]]\nwhen = \"attempt >= 9\"\nanswer = { wait = 1 }\n";
    let configured = Link::contents(Path::new("the.rules.toml"), configured.as_bytes());
    // A configured default at the end decides everything, so it stays the end.
    host.configure(&Policies::built_in().with(SlotName::Retry, configured).with(SlotName::Retry, Link::default()))
        .unwrap();
    let mut scoped = ScopedPolicies::default();
    scoped.before.push((Vec::new(), deciding(waits(&host, None, 7, 2))));
    scoped.before.push((vec!["b".to_owned()], deciding(waits(&host, None, 6, 3))));
    scoped.of_tenants.insert("a".to_owned(), vec![deciding(waits(&host, Some("a"), 4, 4))]);
    scoped.of_tenants.insert("b".to_owned(), vec![deciding(waits(&host, Some("b"), 5, 5))]);
    scoped.after.push((Vec::new(), deciding(waits(&host, None, 2, 6))));
    host.set_scoped(scoped);
    let of = |tenant, attempts: [u32; 6]| attempts.map(|attempt| waited(&host, tenant, attempt));
    let attempts = [9, 7, 6, 5, 4, 1];
    assert_eq!(of(Some("a"), attempts), [Some(1), Some(2), Some(4), Some(4), Some(4), None]);
    assert_eq!(of(Some("b"), attempts), [Some(1), Some(2), Some(3), Some(5), Some(6), None]);
    assert_eq!(of(Some("c"), attempts), [Some(1), Some(2), Some(6), Some(6), Some(6), None]);
    assert_eq!(of(None, attempts), of(Some("c"), attempts), "the operator's own");
    // Another configuration counts at once, also for tenants.
    host.configure(&Policies::built_in()).unwrap();
    assert_eq!(waited(&host, Some("a"), 9), Some(2));
    host.set_scoped(ScopedPolicies::default());
    assert_eq!(waited(&host, Some("a"), 9), None);
}

/// A host out of a pool, and its tenant's rules, which answer so.
fn pooled(host: &Host, answer: &str) -> (release::Question, DecidedBy, Vec<FailureKind>) {
    let rules = format!("slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = {answer}\n");
    let mut scoped = ScopedPolicies::default();
    let policy = loaded(host, SlotName::Release, Some("a"), &rules);
    scoped.of_tenants.insert("a".to_owned(), vec![deciding(Arc::clone(&policy))]);
    host.set_scoped(scoped);
    let question = Release::example();
    let decision = run(host.pin_of(Some("a")).decide::<Release>(question.clone()));
    for _ in 0..6 {
        run(host.pin_of(Some("a")).decide::<Release>(question.clone()));
    }
    assert!(!policy.is_suspended(), "what is not its to decide is no failure");
    (question, decision.decided_by, decision.fallbacks.iter().map(|fallback| fallback.kind).collect())
}

#[test]
fn a_tenant_s_policy_takes_no_host_out_of_its_pool() {
    let state = State::new();
    let host = state.host();
    let is_its = |decided: &DecidedBy| matches!(decided, DecidedBy::Policy(identity) if identity.is_from_tenant());
    for answer in ["\"terminate\"", "\"schedule-deletion\"", "\"keep\""] {
        let (question, decided, failures) = pooled(&host, answer);
        assert!(question.machine.adopted && question.machine.pool_prefix.is_some());
        assert!(!is_its(&decided) && decided != DecidedBy::Keep, "{answer}: {decided}");
        assert_eq!(failures, [FailureKind::NotAllowed], "{answer}");
    }
    for answer in ["{ return-to-pool = {} }", "{ retry-after = 1000 }", "\"reboot\""] {
        let (_, decided, failures) = pooled(&host, answer);
        assert!(is_its(&decided) && failures.is_empty(), "{answer}: {decided}");
        assert!(decided.to_string().ends_with(" of a/the"), "{decided}");
    }
    // A machine of its own is the tenant's.
    let mut question = Release::example();
    question.machine.adopted = false;
    let rules = "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n";
    let mut scoped = ScopedPolicies::default();
    let policy = deciding(loaded(&host, SlotName::Release, Some("a"), rules));
    scoped.of_tenants.insert("a".to_owned(), vec![policy]);
    host.set_scoped(scoped);
    let decision = run(host.pin_of(Some("a")).decide::<Release>(question));
    assert!(is_its(&decision.decided_by), "{decision:?}");
}

#[test]
fn what_cannot_be_loaded_fails_in_each_decision() {
    let state = State::new();
    let host = state.host();
    let refused = |on_failure| {
        let some = waits(&host, None, 1, 1);
        let origin = Some(PolicyOrigin { on_failure, ..origin(None, "broken") });
        let identity = PolicyIdentity { origin, settings: Digest::of(b""), ..some.identity().clone() };
        let mut scoped = ScopedPolicies::default();
        scoped.before.push((Vec::new(), ScopedPolicy::Refused { identity, why: "no such key".into() }));
        host.set_scoped(scoped);
        let pinned = host.pin_of(Some("a"));
        let decision = run(pinned.decide::<Retry>(Retry::example()));
        assert_eq!(decision.fallbacks[0].kind, FailureKind::Unavailable);
        assert!(decision.fallbacks[0].to_string().contains("of broken failed: no such key"), "{decision:?}");
        // An operation that goes on later, in whatever process, is told the same.
        let later = run(host.pinned(&pinned.identities()).decide::<Retry>(Retry::example()));
        assert_eq!(later.decided_by, decision.decided_by);
        decision.decided_by
    };
    assert!(matches!(refused(None), DecidedBy::Policy(_)));
    assert_eq!(refused(Some(OnFailure::Keep)), DecidedBy::Keep);
}

#[test]
fn no_tenant_s_questions_suspend_the_operator_s_policy() {
    let state = State::new();
    let host = state.host();
    let rules = "slot = \"retry\"\n[[rules]]\nwhen = \"1 / (attempt - 99) > 7\"\nanswer = \"give-up\"\n";
    let question = || retry::Question { attempt: 99, ..Retry::example() };
    for (tenant, is_suspended) in [(None, false), (Some("a"), true)] {
        let policy = loaded(&host, SlotName::Retry, tenant, rules);
        let mut scoped = ScopedPolicies::default();
        scoped.before.push((Vec::new(), deciding(Arc::clone(&policy))));
        host.set_scoped(scoped);
        (0..9).for_each(|_| drop(run(host.pin_of(Some("a")).decide::<Retry>(question()))));
        assert_eq!(policy.is_suspended(), is_suspended, "{tenant:?}");
    }
}

#[test]
fn what_the_controller_is_configured_with_is_never_suspended() {
    let rules = "slot = \"retry\"\n[[rules]]\nwhen = \"1 / (attempt - 99) > 7\"\nanswer = \"give-up\"\n";
    let question = || retry::Question { attempt: 99, ..Retry::example() };
    for (asker, is_suspended) in [(Asker::Controller, false), (Asker::CommandLine, true)] {
        let state = State::new();
        let mut options = state.options();
        options.asker = Some(asker);
        let host = Host::new(options).unwrap();
        let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes());
        host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
        (0..9).for_each(|_| drop(run(host.pin_of(Some("a")).decide::<Retry>(question()))));
        let status = host.status();
        let link = status.links.iter().find(|link| link.slot == SlotName::Retry && link.position == 0);
        assert_eq!(link.unwrap().suspended, is_suspended, "{asker}");
    }
}

#[test]
fn an_operation_keeps_its_tenant_s_policy_over_a_restart() {
    let state = State::new();
    let host = state.host();
    let mut scoped = ScopedPolicies::default();
    scoped.of_tenants.insert("a".to_owned(), vec![deciding(waits(&host, Some("a"), 1, 77))]);
    host.set_scoped(scoped);
    let pinned = host.pin_of(Some("a")).identities();
    host.set_scoped(ScopedPolicies::default());
    drop(host);
    let host = state.host();
    let decision = run(host.pinned(&pinned).decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(77), "{decision:?}");
    let DecidedBy::Policy(identity) = &decision.decided_by else { panic!("{decision:?}") };
    assert_eq!(identity.origin, Some(origin(Some("a"), "the")));
}

#[test]
fn a_tenant_s_shadow_is_asked_about_its_own_questions_and_decides_nothing() {
    let state = State::new();
    let host = state.host();
    let mut scoped = ScopedPolicies::default();
    let shadow = ScopedPolicy::Loaded(waits(&host, Some("a"), 1, 7), Mode::Shadow);
    scoped.of_tenants.insert("a".to_owned(), vec![shadow, deciding(waits(&host, Some("a"), 1, 8))]);
    host.set_scoped(scoped);
    let shadows = |tenant| {
        let decision = run(host.pin_of(tenant).decide::<Retry>(Retry::example()));
        host.flush_decisions();
        let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
        (decision.answer.verdict, record.shadows.len(), record.asked[0].outcome.clone())
    };
    assert_eq!(shadows(Some("a")), (retry::Verdict::Wait(8), 1, Outcome::Decided));
    assert_eq!(shadows(Some("b")).1, 0);
}

#[test]
fn what_a_shadow_would_decide_is_tried_in_its_place_and_leaves_no_trace() {
    let state = State::new();
    let host = state.host();
    let mut scoped = ScopedPolicies::default();
    let fails = "slot = \"retry\"\n[[rules]]\nwhen = \"failure.class == 'not-found' && 1 / (attempt - attempt) > 0\"\nanswer = { wait = 1 }\n";
    let broken = loaded(&host, SlotName::Retry, Some("a"), fails);
    let shadow = waits(&host, Some("a"), 2, 7);
    let before = deciding(waits(&host, None, 9, 9));
    scoped.before.push((Vec::new(), before));
    let own = vec![
        ScopedPolicy::Loaded(Arc::clone(&shadow), Mode::Shadow),
        ScopedPolicy::Loaded(Arc::clone(&broken), Mode::Shadow),
        deciding(waits(&host, Some("a"), 1, 8)),
    ];
    scoped.of_tenants.insert("a".to_owned(), own);
    host.set_scoped(scoped);
    let today = host.pin_of(Some("a"));
    let tried = |pinned: &PinnedPolicies, attempt| {
        let failure = Failure { class: windlass_policy::slots::types::FailureClass::NotFound, ..Failure::example() };
        let question = retry::Question { attempt, failure, ..Retry::example() };
        run(pinned.try_decide::<Retry>(question))
    };
    let waits_of = |pinned: &PinnedPolicies| [9, 2, 1].map(|attempt| tried(pinned, attempt).answer.verdict);
    let wait = retry::Verdict::Wait;
    assert_eq!(today.shadows(SlotName::Retry), [shadow.identity().clone(), broken.identity().clone()]);
    assert_eq!(waits_of(&today), [wait(9), wait(8), wait(8)]);
    let then = today.with_shadow(shadow.identity()).unwrap();
    assert_eq!(waits_of(&then), [wait(9), wait(7), wait(8)]);
    let then = today.with_shadow(broken.identity()).unwrap();
    for _ in 0..9 {
        let decision = tried(&then, 1);
        assert_eq!((decision.answer.verdict, decision.fallbacks.len()), (wait(8), 1), "{:?}", decision.fallbacks);
    }
    assert!(!broken.is_suspended() && broken.failures_in_a_row() == 0 && shadow.decisions() == 0);
    assert!(host.decisions().unwrap().list(&DecisionFilter::default()).unwrap().decisions.is_empty());
    assert!(host.pin_of(Some("b")).with_shadow(shadow.identity()).is_none());
}
