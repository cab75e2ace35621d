use proptest::prelude::*;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, retry_question};

use retry::{Question, Verdict};

use crate::{DefaultRetry, backoff};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

fn decide(question: Question) -> Verdict {
    DefaultRetry::default().decide(question).verdict
}

fn wait_of(verdict: &Verdict) -> Option<u64> {
    match verdict {
        Verdict::Wait(wait) => Some(*wait),
        _ => None,
    }
}

/// The shortest and the longest wait that any random word gives.
fn range(question: &Question) -> Option<(u64, u64)> {
    let at = |random| wait_of(&decide(Question { random, ..question.clone() }));
    Some((at(0)?, at(u64::MAX)?))
}

#[test]
fn what_cannot_succeed_is_never_repeated() {
    use FailureClass as Class;
    for class in [
        Class::InvalidArguments,
        Class::AuthenticationDenied,
        Class::PermissionDenied,
        Class::QuotaExceeded,
        Class::OutOfStock,
        Class::NotFound,
        Class::Conflict,
        Class::Cancelled,
    ] {
        assert_eq!(decide(retry_question(class)), Verdict::GiveUp, "{class}");
    }
}

#[test]
fn out_of_stock_is_not_taken_for_the_outage_whose_status_it_wears() {
    let mut question = retry_question(FailureClass::OutOfStock);
    question.failure.status = Some(503);
    assert_eq!(decide(question), Verdict::GiveUp);
}

#[test]
fn a_lost_answer_is_tried_again() {
    for class in [FailureClass::Timeout, FailureClass::Connection, FailureClass::Gateway, FailureClass::MalformedAnswer]
    {
        let mut question = retry_question(class);
        question.failure.ambiguous = true;
        assert!(wait_of(&decide(question)).is_some(), "{class}");
    }
}

#[test]
fn a_resource_on_its_way_is_asked_again_within_seconds_as_often_as_the_budget_allows() {
    let on_its_way = retry_question(FailureClass::TransientState);
    assert_eq!(range(&on_its_way), Some((1_000, 1_500)));
    let late = Question { attempt: 100, elapsed: 150_000, ..on_its_way };
    assert_eq!(range(&late), Some((1_000, 1_500)));
}

#[test]
fn a_locked_resource_is_never_waited_for() {
    for undoing in [false, true] {
        let seen = Question { undoing, ..retry_question(FailureClass::Locked) };
        assert_eq!(decide(seen), Verdict::GiveUp);
    }
}

#[test]
fn an_answer_of_locked_is_tried_again_a_few_times() {
    let at = |attempt| {
        let mut refused = Question { undoing: true, attempt, ..retry_question(FailureClass::Locked) };
        refused.failure.status = Some(423);
        wait_of(&decide(refused)).is_some()
    };
    assert!(at(1) && at(4) && !at(5));
}

#[test]
fn a_rate_limit_is_never_answered_at_once() {
    assert_eq!(range(&retry_question(FailureClass::RateLimited)), Some((1_000, 2_000)));
    let fourth = Question { attempt: 4, ..retry_question(FailureClass::RateLimited) };
    assert_eq!(range(&fourth), Some((8_000, 16_000)));
}

#[test]
fn the_billing_floor_is_left_to_the_release_slot() {
    let floor = Question { operation: "release-machine".into(), ..retry_question(FailureClass::PreconditionFailed) };
    assert_eq!(decide(floor), Verdict::GiveUp);
    let volume_in_use = Question { step: "delete-volume".into(), ..retry_question(FailureClass::PreconditionFailed) };
    assert!(wait_of(&decide(volume_in_use)).is_some());
}

#[test]
fn a_conflict_of_a_removal_is_asked_again_and_one_of_a_name_is_final() {
    let conflict = |undoing, error_type: Option<&str>| {
        let mut question = Question { undoing, ..retry_question(FailureClass::Conflict) };
        question.failure.error_type = error_type.map(str::to_owned);
        wait_of(&decide(question)).is_some()
    };
    for error_type in [None, Some("conflict"), Some("about:blank")] {
        assert!(conflict(true, error_type), "{error_type:?}");
        assert!(!conflict(false, error_type), "{error_type:?}");
    }
    assert!(!conflict(true, Some("already_exists")));
}

#[test]
fn undoing_is_given_up_later_than_doing() {
    let ninth =
        |undoing| Question { undoing, attempt: 9, elapsed: 200_000, ..retry_question(FailureClass::ServerError) };
    assert_eq!(decide(ninth(false)), Verdict::GiveUp);
    assert!(wait_of(&decide(ninth(true))).is_some());
}

#[test]
fn the_words_of_a_step_decide_nothing() {
    let ninth = |operation: &str, step: &str| Question {
        operation: operation.into(),
        step: step.into(),
        attempt: 9,
        elapsed: 200_000,
        ..retry_question(FailureClass::ServerError)
    };
    for (operation, step) in [("cleanup-server", "list-servers"), ("create-server", "delete-ip")] {
        assert_eq!(decide(ninth(operation, step)), Verdict::GiveUp, "{operation} {step}");
    }
}

#[test]
fn the_budget_is_kept_to_the_millisecond() {
    let at = |elapsed| decide(Question { elapsed, random: 0, ..retry_question(FailureClass::TransientState) });
    assert_eq!(at(179_000), Verdict::Wait(1_000));
    assert_eq!(at(179_001), Verdict::GiveUp);
}

#[test]
fn the_last_attempt_is_the_last_one() {
    let at = |attempt| wait_of(&decide(Question { attempt, ..retry_question(FailureClass::Gateway) })).is_some();
    assert!(at(7) && !at(8));
}

#[test]
fn an_unknown_refusal_is_final_and_an_unknown_failure_is_not() {
    let with_status = |status, ambiguous| {
        let mut question = retry_question(FailureClass::Other);
        question.failure.status = status;
        question.failure.ambiguous = ambiguous;
        wait_of(&decide(question)).is_some()
    };
    assert!(!with_status(Some(418), false));
    assert!(with_status(Some(418), true));
    assert!(with_status(Some(520), false));
    assert!(with_status(None, false));
}

#[test]
fn contradictory_settings_are_refused_with_their_keys() {
    let error = testing::configure::<DefaultRetry>(r#"{"base-ms": 60000}"#).err();
    assert_eq!(error.as_deref(), Some("`base-ms` (60000) is above `cap-ms` (30000)"));
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    let rows: Vec<Vec<String>> = FailureClass::ALL
        .iter()
        .map(|class| {
            let row = |question: Question| match range(&Question { attempt: 1, ..question.clone() }) {
                None => "give up".to_owned(),
                Some((shortest, longest)) => {
                    let last = (1..1_000).find(|attempt| {
                        decide(Question { attempt: *attempt, random: 0, ..question.clone() }) == Verdict::GiveUp
                    });
                    let third = range(&Question { attempt: 3, ..question });
                    let (low, high) = third.unwrap_or_default();
                    let until = last.map_or_else(|| "the budget ends".to_owned(), |last| format!("attempt {last}"));
                    format!("{shortest}–{longest} ms, third time {low}–{high} ms, until {until}")
                }
            };
            let doing = row(retry_question(*class));
            let undoing = row(Question { undoing: true, ..retry_question(*class) });
            let why = DefaultRetry::default().decide(retry_question(*class)).reason.unwrap_or_default();
            vec![format!("`{class}`"), doing, undoing, why]
        })
        .collect();
    testing::readme::assert_table(README, "decisions", &["failure", "doing", "undoing", "why"], &rows);
    testing::readme::assert_settings::<DefaultRetry>(README);
}

fn any_class() -> impl Strategy<Value = FailureClass> {
    proptest::sample::select(FailureClass::ALL)
}

#[test]
fn the_bound_doubles_until_the_cap_whatever_the_numbers() {
    for (base, cap, attempt, bound) in [
        (3, 100, 0, 3),
        (3, 100, 1, 3),
        (3, 100, 2, 6),
        (3, 100, 7, 100),
        (0, 10, 100, 0),
        (1, u64::MAX, 64, 1 << 63),
        (1, u64::MAX, 65, u64::MAX),
        (3, u64::MAX, 64, u64::MAX),
    ] {
        assert_eq!(backoff::bound(base, cap, attempt), bound, "{base} {cap} {attempt}");
    }
}

proptest! {
    #[test]
    fn no_wait_is_above_its_cap_or_its_budget(
        class in any_class(), random: u64, attempt in 1u32.., elapsed: u64,
        base in 0u64..=1 << 40, above in 0u64..=1 << 40, budget: u64, undo_budget: u64, transient in 0u64..=1 << 40,
        undoing: bool,
    ) {
        let cap = base + above;
        let policy = DefaultRetry {
            base_ms: base, cap_ms: cap, rate_limit_base_ms: base, rate_limit_cap_ms: cap, attempts: u32::MAX,
            undo_attempts: u32::MAX, precondition_attempts: u32::MAX,
            budget_ms: budget, undo_budget_ms: undo_budget, transient_ms: transient,
        };
        let question = Question { random, attempt, elapsed, undoing, ..retry_question(class) };
        let answer = policy.decide(question);
        prop_assert_ne!(&answer.verdict, &Verdict::Defer);
        if let Verdict::Wait(wait) = answer.verdict {
            prop_assert!(wait <= cap.max(transient + backoff::SHORT_JITTER_MS));
            let allowed = if undoing { undo_budget } else { budget };
            prop_assert!(elapsed.checked_add(wait).is_some_and(|then| then <= allowed));
            prop_assert!(answer.reason.is_none(), "an ordinary wait costs no string");
        } else {
            prop_assert!(answer.reason.is_some(), "giving up says why");
        }
    }

    #[test]
    fn a_step_that_always_fails_ends_within_its_budget_and_its_attempts(
        class in any_class(), seed: u64, call_ms in 0u64..60_000,
    ) {
        let policy = DefaultRetry::default();
        let (mut elapsed, mut attempt, mut random) = (call_ms, 1, seed);
        loop {
            let question = Question { random, attempt, elapsed, ..retry_question(class) };
            let Verdict::Wait(wait) = policy.decide(question).verdict else { break };
            prop_assert!(elapsed + wait <= policy.budget_ms);
            elapsed += wait + call_ms;
            attempt += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            prop_assert!(attempt <= 1 + (policy.budget_ms / policy.transient_ms) as u32);
        }
    }

    #[test]
    fn jitter_fills_its_range_and_never_leaves_it(
        base in 1u64..1 << 40,
        cap in 1u64..,
        attempt in 1u32..,
        random: u64,
    ) {
        let bound = backoff::bound(base, cap, attempt);
        prop_assert!(bound <= cap);
        prop_assert!(backoff::full_jitter(base, cap, attempt, random) <= bound);
        prop_assert_eq!(backoff::full_jitter(base, cap, attempt, 0), 0);
        prop_assert_eq!(backoff::full_jitter(base, cap, attempt, u64::MAX), bound);
        let equal = backoff::equal_jitter(base, cap, attempt, random);
        prop_assert!((bound / 2..=bound).contains(&equal));
    }

    #[test]
    fn the_bound_never_shrinks_from_one_attempt_to_the_next(base: u64, cap: u64, attempt in 1u32..u32::MAX) {
        prop_assert!(backoff::bound(base, cap, attempt) <= backoff::bound(base, cap, attempt + 1));
    }
}
