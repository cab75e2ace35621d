use serde_json::json;
use windlass_policy::slots::{Provisioning, Release, Retry, Rollback, StateMapping};

use super::*;

fn parse(text: &str, slot: SlotName) -> Expression {
    Expression::parse(text, slot).unwrap_or_else(|error| panic!("{error}"))
}

fn problem(text: &str, slot: SlotName) -> String {
    match Expression::parse(text, slot) {
        Err(ExpressionError::Invalid { problem, .. }) => problem,
        other => panic!("{text}: {other:?}"),
    }
}

/// Whether it is true of the example and this answer.
fn of_example<S: ProvedSlot>(text: &str, answer: Json) -> Result<bool, ExpressionError> {
    let question = serde_json::to_value(S::example()).unwrap();
    parse(text, S::NAME).holds(&question, &answer)
}

fn is_true<S: ProvedSlot>(text: &str, answer: &Json) -> bool {
    of_example::<S>(text, answer.clone()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn fields_cases_numbers_and_payloads_are_reached_by_the_contracts_names() {
    let wait = json!({ "verdict": { "wait": 1500 }, "reason": "a reason" });
    for text in [
        "verdict == 'wait'",
        "answer.verdict != 'give-up'",
        "answer.wait == 1500",
        "answer.wait <= 30 * 1000 && answer.wait > 0",
        "question.failure.class == 'server-error'",
        "question.failure.class in ['gateway', 'server-error']",
        "question.failure.error_type == null && !has(question.failure.error_type)",
        "has(question.time_left) && question.time_left != null",
        "question.failure.status >= 500 && question.failure.status / 100 == 5",
        "question.failure.message.startsWith('internal')",
        "size(question.operation) > 3 && question.step.contains('on')",
        "answer.reason.endsWith('reason') ? true : false",
        "string(question.attempt) == '1'",
    ] {
        assert!(is_true::<Retry>(text, &wait), "{text}");
    }
    let give_up = json!({ "verdict": "give-up", "reason": null });
    for text in ["answer.wait == null", "!has(answer.wait)", "answer.reason == null", "answer.wait != 0"] {
        assert!(is_true::<Retry>(text, &give_up), "{text}");
    }
}

#[test]
fn below_what_is_absent_everything_is_absent() {
    let answer = json!({ "verdict": "terminate", "reason": null });
    assert!(is_true::<Release>("question.refusal == null", &answer));
    assert!(is_true::<Release>("question.refusal.failure.class != 'not-found'", &answer));
    assert!(is_true::<Release>("!has(question.refusal.not_before)", &answer));
    assert!(is_true::<Release>("answer.return_to_pool.operating_system == null", &answer));
    let back = json!({ "verdict": { "return-to-pool": { "operating-system": "new" } }, "reason": null });
    assert!(is_true::<Release>("answer.return_to_pool.operating_system == 'new'", &back));
    assert!(is_true::<Release>("has(answer.return_to_pool)", &back));
}

#[test]
fn lists_are_gone_through_by_the_macros() {
    let plan = json!({ "verdict": { "plan": [
        { "resource": 0, "action": "delete", "after": [] },
        { "resource": 1, "action": "delete", "after": [0] },
    ] }, "reason": null });
    for text in [
        "answer.plan.all(s, s.action == 'delete')",
        "answer.plan.exists(s, question.resources[s.resource].kind == 'ip' && 0 in s.after)",
        "answer.plan.filter(s, s.action == 'keep').size() == 0",
        "answer.plan.map(s, s.resource) == [0, 1]",
        "question.resources.exists_one(r, r.kind == 'server')",
        "question.resources.all(r, r.kind == 'server' || has(r.attached_to))",
    ] {
        assert!(is_true::<Rollback>(text, &plan), "{text}");
    }
    let recover = json!({ "verdict": { "recover": { "state": "error", "delete": [1] } }, "reason": null });
    let text = "answer.recover.delete.all(n, question.nodes[n].role == 'leaving')";
    assert!(is_true::<Provisioning>(text, &recover));
}

#[test]
fn in_a_batch_the_condition_is_about_each_server() {
    let mapped =
        |report: &str| json!({ "verdict": { "mapped": { "report": report, "action": "none" } }, "reason": null });
    let answers: Vec<Json> =
        ["running", "creating", "none", "creating", "deleting", "none"].iter().map(|word| mapped(word)).collect();
    let answers = Json::Array(answers);
    assert!(is_true::<StateMapping>("verdict == 'mapped' && question.zone == 'fr-par-1'", &answers));
    assert!(is_true::<StateMapping>("server.state != 'running' || answer.mapped.report == 'running'", &answers));
    assert!(!is_true::<StateMapping>("answer.mapped.report == 'running'", &answers));
}

#[test]
fn the_largest_numbers_compare() {
    let mut question = Retry::example();
    question.random = u64::MAX;
    let question = serde_json::to_value(question).unwrap();
    let answer = json!({ "verdict": "give-up", "reason": null });
    for text in ["question.random > 9000000000000000000", "question.random == 18446744073709551615u"] {
        assert!(parse(text, SlotName::Retry).holds(&question, &answer).unwrap(), "{text}");
    }
}

#[test]
fn a_misspelt_word_is_refused_with_the_nearest() {
    for (text, expected) in [
        ("question.failur.class == 'other'", "`question` has no field `failur`; did you mean `failure`?"),
        ("question.failure.clas == 'other'", "`question.failure` has no field `clas`; did you mean `class`?"),
        ("question.failure.class == 'out_of_stock'", "there is no case 'out_of_stock'; did you mean `out-of-stock`?"),
        ("'timeuot' == question.failure.class", "there is no case 'timeuot'; did you mean `timeout`?"),
        ("question.failure.class in ['gatway']", "there is no case 'gatway'; did you mean `gateway`?"),
        ("verdict == 'giveup'", "there is no case 'giveup'; did you mean `give-up`?"),
        ("verdct == 'wait'", "there is no `verdct`; did you mean `verdict`?"),
        ("answer.wiat > 0", "`answer` has no field `wiat`; did you mean `wait`?"),
        ("server.state == 'running'", "there is no `server`; there are `question`, `answer`, `verdict`"),
        ("question.step.startWith('a')", "there is no function `startWith`; did you mean `startsWith`?"),
    ] {
        assert_eq!(problem(text, SlotName::Retry), expected, "{text}");
    }
    let text = "answer.plan.exists(s, s.acton == 'keep')";
    assert_eq!(problem(text, SlotName::Rollback), "an item has no field `acton`; did you mean `action`?");
    let text = "answer.plan.exists(s, s.action == 'kept')";
    assert_eq!(problem(text, SlotName::Rollback), "there is no case 'kept'; did you mean `keep`?");
}

#[test]
fn what_can_never_be_true_or_false_is_refused() {
    for (text, expected) in [
        ("question.attempt", "expected true or false, got a number"),
        ("question.attempt == 'one'", "a number is never equal to a text"),
        ("question.failure.class.nearly == 'x'", "`question.failure.class` is a text, which has no field `nearly`"),
        ("question.undoing > 1", "true or false cannot be compared with a number"),
        ("question.attempt && question.undoing", "`&&`, `||`, `!` and `?` need true or false, got a number"),
        ("question.attempt == 1 &&", ""),
    ] {
        let problem = problem(text, SlotName::Retry);
        assert!(problem.starts_with(expected), "{text}: {problem}");
    }
}

#[test]
fn an_order_with_what_is_absent_is_undecided_and_says_what_to_do() {
    let error = of_example::<Retry>("answer.wait > 1", json!({ "verdict": "give-up", "reason": null })).unwrap_err();
    assert!(error.to_string().contains("ask `has(...)` first"), "{error}");
    let guarded = "!has(answer.wait) || answer.wait > 1";
    assert!(is_true::<Retry>(guarded, &json!({ "verdict": "give-up", "reason": null })));
}

#[test]
fn json_that_is_no_question_of_the_slot_is_refused() {
    let expression = parse("verdict == 'defer'", SlotName::Retry);
    let error = expression.holds(&json!({ "attempt": 1 }), &json!({ "verdict": "defer", "reason": null })).unwrap_err();
    assert!(matches!(error, ExpressionError::WrongJson { what: "question", .. }), "{error}");
}
