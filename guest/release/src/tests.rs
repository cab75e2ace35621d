use proptest::prelude::*;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, NOW, failure, machine, release_question};

use release::{Action, Answer, Machine, MachineKind, PoolReturn, Question, Refusal, Requested, Trigger, Verdict};

use crate::DefaultRelease;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const HOUR_MS: u64 = 3_600_000;

fn decide(question: Question) -> Verdict {
    DefaultRelease::default().decide(question).verdict
}

fn instance() -> Machine {
    machine(MachineKind::Instance)
}

/// In a pool and free to go.
fn mac() -> Machine {
    machine(MachineKind::AppleSiliconServer)
}

/// Ordered for its owner, in no pool, and under its billing floor.
fn ordered_mac() -> Machine {
    Machine { pool_prefix: None, adopted: false, deletable_at: Some(NOW + 5 * HOUR_MS), ..mac() }
}

fn refused(action: Action, class: FailureClass, question: Question) -> Question {
    Question { refusal: Some(Refusal { action, failure: failure(class), not_before: None }), attempt: 2, ..question }
}

fn failed(times: u32, machine: Machine) -> Question {
    let machine = Machine { bootstrap_failures: times, ..machine };
    Question { trigger: Trigger::BootstrapFailed, ..release_question(machine) }
}

const TO_POOL: Verdict = Verdict::ReturnToPool(PoolReturn { operating_system: None });

#[test]
fn an_instance_is_terminated() {
    assert_eq!(decide(release_question(instance())), Verdict::Terminate);
}

#[test]
fn a_pool_host_returns_to_its_pool() {
    assert_eq!(decide(release_question(mac())), TO_POOL);
    let reclaimed = Question { trigger: Trigger::Reclaim, ..release_question(mac()) };
    assert_eq!(decide(reclaimed), TO_POOL);
}

#[test]
fn a_host_under_its_billing_floor_is_scheduled_without_a_refused_call() {
    assert_eq!(decide(release_question(ordered_mac())), Verdict::ScheduleDeletion);
}

#[test]
fn a_refused_termination_is_met_by_scheduling() {
    let question = Question { requested: Some(Requested::Terminate), ..release_question(mac()) };
    assert_eq!(decide(question.clone()), Verdict::Terminate);
    assert_eq!(
        decide(refused(Action::Terminate, FailureClass::PreconditionFailed, question)),
        Verdict::ScheduleDeletion
    );
}

#[test]
fn a_deletion_that_is_scheduled_is_not_scheduled_again() {
    let scheduled = Machine { deletion_scheduled: true, ..ordered_mac() };
    assert_eq!(decide(release_question(scheduled.clone())), Verdict::Keep);
    let refused_again = refused(Action::Terminate, FailureClass::PreconditionFailed, release_question(scheduled));
    assert_eq!(decide(refused_again), Verdict::Keep);
}

#[test]
fn requests_are_honoured_where_they_can_be() {
    let asked = |requested, machine| decide(Question { requested: Some(requested), ..release_question(machine) });
    assert_eq!(asked(Requested::Keep, mac()), Verdict::Keep);
    assert_eq!(asked(Requested::Terminate, mac()), Verdict::Terminate);
    assert_eq!(asked(Requested::Terminate, ordered_mac()), Verdict::ScheduleDeletion);
    assert_eq!(asked(Requested::ReturnToPool, mac()), TO_POOL);
    assert_eq!(asked(Requested::ReturnToPool, ordered_mac()), Verdict::Keep);
}

#[test]
fn in_doubt_a_host_is_kept() {
    let lost_its_pool = Machine { adopted: true, ..ordered_mac() };
    assert_eq!(decide(release_question(lost_its_pool)), Verdict::Keep);
    let nobodys = Question { trigger: Trigger::Reclaim, ..release_question(ordered_mac()) };
    assert_eq!(decide(nobodys), Verdict::Keep);
    let empty_prefix = Machine { pool_prefix: Some(String::new()), adopted: true, ..mac() };
    assert_eq!(decide(release_question(empty_prefix)), Verdict::Keep);
}

#[test]
fn a_host_that_cannot_be_set_up_is_rebooted_once_and_given_up_in_the_end() {
    assert_eq!(decide(failed(2, mac())), Verdict::Keep);
    assert_eq!(decide(failed(3, mac())), Verdict::Reboot);
    assert_eq!(decide(failed(4, Machine { rebooted: true, ..mac() })), Verdict::Keep);
    assert_eq!(decide(failed(8, Machine { rebooted: true, ..mac() })), TO_POOL);
    assert_eq!(decide(failed(8, instance())), Verdict::Terminate);
}

#[test]
fn the_thresholds_are_settings() {
    let policy: DefaultRelease =
        testing::configure(r#"{"reboot-after-failures": 0, "give-up-after-failures": 2}"#).unwrap_or_default();
    assert_eq!(policy.decide(failed(1, mac())).verdict, Verdict::Keep);
    assert_eq!(policy.decide(failed(2, mac())).verdict, TO_POOL);
    assert!(testing::configure::<DefaultRelease>(r#"{"give-up-after-failures": 3}"#).is_err());
    assert!(testing::configure::<DefaultRelease>(r#"{"retry-base-ms": 0}"#).is_err());
}

#[test]
fn a_refused_reboot_is_followed_by_what_comes_after_it() {
    assert_eq!(decide(refused(Action::Reboot, FailureClass::Conflict, failed(3, mac()))), TO_POOL);
}

#[test]
fn an_operating_system_that_was_withdrawn_is_replaced_by_the_one_there_is_and_then_left_to_people() {
    let policy: DefaultRelease = testing::configure(r#"{"pool-operating-system": "macos-26"}"#).unwrap_or_default();
    let first = policy.decide(release_question(mac())).verdict;
    assert_eq!(first, Verdict::ReturnToPool(PoolReturn { operating_system: Some("macos-26".into()) }));
    let second = refused(Action::ReturnToPool, FailureClass::InvalidArguments, release_question(mac()));
    assert_eq!(policy.decide(second.clone()).verdict, TO_POOL);
    assert_eq!(policy.decide(Question { attempt: 3, ..second }).verdict, Verdict::Keep);
}

#[test]
fn a_pool_machine_is_reinstalled_with_its_own_system_or_with_that_of_its_type() {
    for (setting, wanted) in [("", None), ("host", None), ("type-default", Some("type-default"))] {
        let policy = DefaultRelease { pool_operating_system: setting.into(), ..DefaultRelease::default() };
        let expected = Verdict::ReturnToPool(PoolReturn { operating_system: wanted.map(str::to_owned) });
        assert_eq!(policy.decide(release_question(mac())).verdict, expected, "{setting:?}");
    }
}

#[test]
fn a_refusal_that_may_pass_is_waited_for() {
    for class in [
        FailureClass::RateLimited,
        FailureClass::TransientState,
        FailureClass::Gateway,
        // A quota forbids more of something: no removal needs it for long.
        FailureClass::QuotaExceeded,
        FailureClass::PermissionDenied,
        FailureClass::AuthenticationDenied,
    ] {
        let verdict = decide(refused(Action::ReturnToPool, class, release_question(mac())));
        assert!(matches!(verdict, Verdict::RetryAfter(_)), "{class}: {verdict:?}");
    }
}

#[test]
fn scaleways_own_date_decides_the_wait_within_the_cap() {
    let question = |not_before| Question {
        refusal: Some(Refusal {
            action: Action::ScheduleDeletion,
            failure: failure(FailureClass::PreconditionFailed),
            not_before: Some(not_before),
        }),
        ..release_question(ordered_mac())
    };
    assert_eq!(decide(question(NOW + 60_000)), Verdict::RetryAfter(60_000));
    assert_eq!(decide(question(NOW + 5 * HOUR_MS)), Verdict::RetryAfter(900_000));
}

#[test]
fn without_a_date_to_come_the_wait_doubles_and_is_drawn_from_its_upper_half() {
    let wait = |attempt, random, not_before| {
        let question = refused(Action::ReturnToPool, FailureClass::Gateway, release_question(mac()));
        let refusal = question.refusal.clone().map(|refusal| Refusal { not_before, ..refusal });
        decide(Question { attempt, random, refusal, ..question })
    };
    for not_before in [None, Some(NOW), Some(NOW - 1)] {
        assert_eq!(wait(1, 0, not_before), Verdict::RetryAfter(7_500));
        assert_eq!(wait(1, 7_500, not_before), Verdict::RetryAfter(15_000));
        assert_eq!(wait(1, 7_501, not_before), Verdict::RetryAfter(7_500));
        assert_eq!(wait(3, 12_345, not_before), Verdict::RetryAfter(42_345));
    }
}

#[test]
fn at_its_deletable_at_a_host_can_be_deleted() {
    let at = |deletable_at| release_question(Machine { deletable_at: Some(deletable_at), ..ordered_mac() });
    assert_eq!(decide(at(NOW)), Verdict::Terminate);
    assert_eq!(decide(at(NOW + 1)), Verdict::ScheduleDeletion);
}

#[test]
fn what_has_no_word_in_this_contract_keeps_the_machine() {
    for machine in [instance(), mac(), ordered_mac()] {
        let released = release_question(machine.clone());
        for question in [
            Question { trigger: Trigger::Other, ..released.clone() },
            Question { requested: Some(Requested::Other), ..released.clone() },
            release_question(Machine { kind: MachineKind::Other, ..machine }),
        ] {
            assert_eq!(decide(question.clone()), Verdict::Keep, "{question:?}");
            let again = refused(Action::Terminate, FailureClass::PreconditionFailed, question.clone());
            assert_eq!(decide(again), Verdict::Keep, "{question:?}");
        }
        for class in FailureClass::ALL {
            let verdict = decide(refused(Action::Other, *class, released.clone()));
            assert!(matches!(verdict, Verdict::Keep | Verdict::RetryAfter(_)), "{class}: {verdict:?}");
        }
    }
}

#[test]
fn a_machine_that_is_gone_needs_nothing_more() {
    let answer = DefaultRelease::default().decide(refused(
        Action::Terminate,
        FailureClass::NotFound,
        release_question(instance()),
    ));
    assert_eq!(answer, Answer::keep().because("it is gone"));
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    let word = |question: Question| match decide(question) {
        Verdict::Defer => "defer".to_owned(),
        Verdict::ReturnToPool(_) => "return to pool".into(),
        Verdict::Terminate => "terminate".into(),
        Verdict::ScheduleDeletion => "schedule deletion".into(),
        Verdict::Keep => "keep".into(),
        Verdict::RetryAfter(_) => "retry later".into(),
        Verdict::Reboot => "reboot".into(),
    };
    let lost = || Machine { adopted: true, deletable_at: None, ..ordered_mac() };
    let free = || Machine { deletable_at: None, ..ordered_mac() };
    let machines: [(&str, Machine); 5] = [
        ("an instance", instance()),
        ("a Mac mini of a pool", mac()),
        ("one that was ordered for its owner", free()),
        ("the same, under its billing floor", ordered_mac()),
        ("one from a pool that is not known any more", lost()),
    ];
    let rows: Vec<Vec<String>> = machines
        .iter()
        .map(|(name, machine)| {
            let asked = || release_question(machine.clone());
            let requested = |requested| word(Question { requested: Some(requested), ..asked() });
            let terminate = Question { requested: Some(Requested::Terminate), ..asked() };
            vec![
                (*name).to_owned(),
                word(asked()),
                word(Question { trigger: Trigger::Reclaim, ..asked() }),
                requested(Requested::ReturnToPool),
                requested(Requested::Terminate),
                requested(Requested::Keep),
                word(refused(Action::Terminate, FailureClass::PreconditionFailed, terminate)),
            ]
        })
        .collect();
    let header = [
        "the machine",
        "released",
        "reclaimed",
        "requested: return to pool",
        "requested: terminate",
        "requested: keep",
        "terminate refused (412)",
    ];
    testing::readme::assert_table(README, "decisions", &header, &rows);

    let rows: Vec<Vec<String>> = [1, 2, 3, 4, 7, 8]
        .iter()
        .map(|times| {
            let cell = |rebooted| word(failed(*times, Machine { rebooted, ..mac() }));
            vec![times.to_string(), cell(false), cell(true)]
        })
        .collect();
    testing::readme::assert_table(README, "recovery", &["failed set-ups", "not rebooted yet", "rebooted"], &rows);
    testing::readme::assert_settings::<DefaultRelease>(README);
}

fn any_question() -> impl Strategy<Value = Question> {
    let machine = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0u32..12, any::<bool>(), any::<u64>())
        .prop_map(|(apple, pool, adopted, scheduled, failures, rebooted, deletable_at)| Machine {
            pool_prefix: pool.then(|| "pool-".into()),
            adopted,
            deletion_scheduled: scheduled,
            bootstrap_failures: failures,
            rebooted,
            deletable_at: Some(deletable_at),
            ..if apple { mac() } else { instance() }
        });
    let actions = [Action::ReturnToPool, Action::Terminate, Action::ScheduleDeletion, Action::Reboot, Action::Other];
    let refusal =
        (proptest::sample::select(actions.to_vec()), proptest::sample::select(FailureClass::ALL), any::<Option<u64>>())
            .prop_map(|(action, class, not_before)| Refusal { action, failure: failure(class), not_before });
    let triggers = vec![Trigger::Released, Trigger::BootstrapFailed, Trigger::Reclaim, Trigger::Other];
    let requests = vec![Requested::ReturnToPool, Requested::Terminate, Requested::Keep, Requested::Other];
    (
        machine,
        proptest::option::of(refusal),
        proptest::sample::select(triggers),
        proptest::option::of(proptest::sample::select(requests)),
        1u32..,
        any::<u64>(),
    )
        .prop_map(|(machine, refusal, trigger, requested, attempt, random)| Question {
            refusal,
            trigger,
            requested,
            attempt,
            random,
            ..release_question(machine)
        })
}

proptest! {
    #[test]
    fn no_host_is_destroyed_against_a_request_or_in_doubt(question in any_question()) {
        let answer = DefaultRelease::default().decide(question.clone());
        prop_assert_ne!(&answer.verdict, &Verdict::Defer);
        let machine = &question.machine;
        let ends = matches!(answer.verdict, Verdict::Terminate | Verdict::ScheduleDeletion);
        if ends && machine.kind == MachineKind::AppleSiliconServer {
            prop_assert!(question.requested != Some(Requested::Keep));
            let by_request = question.requested == Some(Requested::Terminate);
            let refused = question.refusal.is_some();
            prop_assert!(by_request || refused || (machine.pool_prefix.is_none() && !machine.adopted));
        }
        if let Verdict::ReturnToPool(_) = answer.verdict {
            prop_assert!(machine.pool_prefix.is_some());
        }
    }

    #[test]
    fn every_wait_is_within_its_bounds(question in any_question()) {
        let policy = DefaultRelease::default();
        if let Verdict::RetryAfter(wait) = policy.decide(question).verdict {
            prop_assert!((policy.retry_base_ms / 2..=policy.retry_cap_ms).contains(&wait));
        }
    }
}
