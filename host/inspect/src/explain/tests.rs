use serde_json::json;
use windlass_policy::slots::types::FailureClass;
use windlass_policy::slots::{Placement, Provisioning, Reasons, Release, Retry, Rollback, Slot, StateMapping};

use super::*;

/// A record of this question and answer, which the policy `team` decided after another had deferred.
fn record<S: Slot>(question: &S::Question, answer: &S::Answer) -> DecisionRecord {
    record_with(S::NAME, json!(question), json!(answer), answer.reason())
}

fn record_with(slot: SlotName, question: Value, answer: Value, reason: Option<&str>) -> DecisionRecord {
    let policy = |name: &str| {
        json!({
            "slot": slot, "name": name, "version": "1.2.0",
            "component": windlass_policy::Digest::of(name.as_bytes()),
            "settings": windlass_policy::Digest::of(b"{}"),
        })
    };
    serde_json::from_value(json!({
        "id": "01a1fe109d20-e0bab29f-00000002",
        "at-ms": 1_767_225_600_000_u64,
        "slot": slot,
        "question": question,
        "answer": answer,
        "reason": reason,
        "decided-by": { "policy": policy("team") },
        "asked": [
            { "policy": policy("first"), "outcome": "deferred", "duration-ns": 1_000_000, "fuel": 30 },
            { "policy": policy("team"), "outcome": "decided", "duration-ns": 2_000_000, "fuel": 12 },
        ],
        "duration-ns": 4_000_000,
    }))
    .expect("a record")
}

fn plain(record: &DecisionRecord) -> String {
    anstream::adapter::strip_str(&explanation(record)).to_string()
}

#[track_caller]
fn says(record: &DecisionRecord, all: &[&str]) {
    let text = plain(record);
    for words in all {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}

#[test]
fn a_retry_says_which_step_failed_and_when_it_is_tried_again() {
    let answer = retry::Answer { verdict: retry::Verdict::Wait(1_500), reason: Some("backs off".to_owned()) };
    let record = record::<Retry>(&Retry::example(), &answer);
    says(
        &record,
        &[
            "whether the step power-on of create-server is tried again, and when (in fr-par-1, group example, DEV1-S)",
            "attempt 1 failed after",
            "before the deadline",
            "try again after 1.5 s",
            "because: backs off",
            "1. first 1.2.0",
            "deferred to the next  (",
            "2. team 1.2.0",
            "it followed team 1.2.0",
            ", 42 fuel",
        ],
    );
}

#[test]
fn a_rollback_says_what_is_there_and_what_becomes_of_it_in_which_order() {
    let question = Rollback::example();
    let count = u32::try_from(question.resources.len()).expect("few");
    let step = |resource| rollback::Step {
        resource,
        action: rollback::Action::Delete,
        after: if resource == 0 { Vec::new() } else { vec![resource - 1] },
    };
    let plan = rollback::Verdict::Plan((0..count).map(step).collect());
    let text = plain(&record::<Rollback>(&question, &rollback::Answer { verdict: plan, reason: None }));
    for resource in &question.resources {
        let lines = text.lines().filter(|line| line.contains(&resource_words(resource)));
        assert_eq!(lines.count(), 2, "asked and answered about {}: {text}", resource.id);
    }
    assert!(text.contains("2. delete ") && text.contains(", after step 1\n"), "{text}");
    assert!(text.contains("what becomes of"), "{text}");
}

#[test]
fn a_state_mapping_says_of_each_server_what_is_reported_and_what_is_removed() {
    let question = StateMapping::example();
    let reaped =
        state_mapping::Mapping { report: state_mapping::Report::Deleting, action: state_mapping::Action::Reap };
    let one =
        state_mapping::Answer { verdict: state_mapping::Verdict::Mapped(reaped), reason: Some("too old".to_owned()) };
    let answers = vec![one; question.servers.len()];
    let text = plain(&record::<StateMapping>(&question, &answers));
    let reported = text.matches("reported as deleting, and removed – too old\n").count();
    assert_eq!(reported, question.servers.len(), "{text}");
    assert!(text.contains("what an autoscaler is told about"), "{text}");
}

#[test]
fn many_servers_are_told_up_to_a_bound() {
    let mut question = StateMapping::example();
    question.servers = vec![question.servers[0]; 10_000];
    let text = plain(&record::<StateMapping>(&question, &StateMapping::keep(&question)));
    assert!(text.contains("... and 9980 more; `--raw` has them all"), "{text}");
    assert!(text.lines().count() < 50, "{text}");
}

#[test]
fn a_release_says_which_machine_why_and_what_becomes_of_it() {
    let mut question = Release::example();
    question.refusal = Some(release::Refusal {
        action: release::Action::Terminate,
        failure: Failure { class: FailureClass::PreconditionFailed, ..Failure::example() },
        not_before: Some(1_767_312_000_000),
    });
    let pool = release::PoolReturn { operating_system: Some("macos-15".to_owned()) };
    let answer = release::Answer { verdict: release::Verdict::ReturnToPool(pool), reason: None };
    says(
        &record::<Release>(&question, &answer),
        &[
            "what becomes of the apple-silicon-server",
            &question.machine.id,
            "terminate was refused: ",
            "; accepted from 2026-01-02 00:00:00Z on",
            "return it to its pool, reinstalled, with macos-15",
        ],
    );
}

#[test]
fn a_provisioning_says_what_failed_and_which_nodes_go() {
    let question = Provisioning::example();
    let recovery = provisioning::Recovery { state: provisioning::ClusterState::Error, delete: vec![0] };
    let answer = provisioning::Answer { verdict: provisioning::Verdict::Recover(recovery), reason: None };
    let node = format!("- node {}: ", question.nodes[0].name);
    let gone = format!("delete 1 node; the cluster is then error\n  - {}\n", question.nodes[0].name);
    says(&record::<Provisioning>(&question, &answer), &["how cluster", "failed at the stage", &node, &gone]);
}

#[test]
fn a_placement_says_the_places_and_how_many_servers_each_gets() {
    let assigned = placement::Assignment { count: 3, places: vec![2, 3] };
    let answer = placement::Answer { verdict: placement::Verdict::Place(vec![assigned]), reason: None };
    says(
        &record::<Placement>(&Placement::example(), &answer),
        &[
            "where 3 servers of group example are created",
            "- DEV1-S in fr-par-1: 4 there, 0.008976 EUR an hour, failed 1 time: resource is out of stock",
            "left alone until 2026-01-01 00:01:00Z",
            "3 servers of DEV1-S in fr-par-2, else DEV1-M in fr-par-2",
        ],
    );
}

#[test]
fn what_failed_is_told_with_what_the_host_did_instead() {
    let mut record = record::<Retry>(&Retry::example(), &Retry::keep(&Retry::example()));
    let failures = [(FailureKind::Brake, "the brake held first back"), (FailureKind::Trap, "team failed (trap)")];
    for (asked, (kind, _)) in record.asked.iter_mut().zip(failures) {
        asked.outcome = Outcome::Fallback { kind, reason: "it\u{7} broke".to_owned() };
    }
    record.decided_by = DecidedBy::Keep;
    says(&record, &[failures[0].1, failures[1].1, "no policy decided", "failed (brake): it\u{fffd} broke"]);
}

#[test]
fn a_question_that_was_not_kept_or_is_of_another_version_is_said_so() {
    let lost = record_with(SlotName::Retry, Value::Null, Value::Null, None);
    says(&lost, &["the question was too large to be kept", "the answer was too large to be kept"]);
    let newer = record_with(SlotName::Retry, json!({ "later": true }), json!(Retry::keep(&Retry::example())), None);
    says(&newer, &["the question is of another version of the contract", "cannot be explained without the question"]);
}

#[test]
fn nothing_of_a_record_steers_the_terminal() {
    let steering = "\u{1b}]0;owned\u{7}\u{1b}[2J";
    for slot in SlotName::ALL {
        let (mut question, mut answer) = windlass_policy::with_slot!(slot, S => {
            let question = S::example();
            (json!(question), json!(S::keep(&question)))
        });
        poison(&mut question, steering);
        poison(&mut answer, steering);
        let mut record = record_with(slot, question, answer, Some(steering));
        std::sync::Arc::make_mut(&mut record.asked[0].policy).name = steering.into();
        let text = plain(&record);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{slot}: {text:?}");
        assert!(!explanation(&record).contains("\u{1b}]"), "{slot}");
        assert!(text.contains('\u{fffd}'), "{slot}: {text}");
    }
}

/// Puts the text behind each that may be any text.
fn poison(value: &mut Value, text: &str) {
    match value {
        Value::String(own)
            if (own.contains(['-', ' ', '.', '/']) || own.starts_with(char::is_uppercase))
                && !is_word_of_the_contract(own) =>
        {
            own.push_str(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, text)),
        Value::Object(fields) => fields.values_mut().for_each(|field| poison(field, text)),
        _ => {}
    }
}

/// Words of enumerations would make the document unreadable, and stand in no record for this reason.
fn is_word_of_the_contract(text: &str) -> bool {
    const WIT: [&str; 7] = [
        include_str!("../../../../wit/policy/types.wit"),
        include_str!("../../../../wit/policy/state-mapping.wit"),
        include_str!("../../../../wit/policy/retry.wit"),
        include_str!("../../../../wit/policy/rollback.wit"),
        include_str!("../../../../wit/policy/release.wit"),
        include_str!("../../../../wit/policy/provisioning.wit"),
        include_str!("../../../../wit/policy/placement.wit"),
    ];
    WIT.iter().any(|wit| wit.lines().any(|line| line.trim().trim_end_matches(',') == text))
        || ["retry", "server", "other"].contains(&text)
}

#[test]
fn in_a_batch_each_policy_that_decided_is_named_with_what_it_decided() {
    let mut question = StateMapping::example();
    question.servers = vec![question.servers[0]; 3];
    let answer = |report, action| state_mapping::Answer {
        verdict: state_mapping::Verdict::Mapped(state_mapping::Mapping { report, action }),
        reason: None,
    };
    let running = answer(state_mapping::Report::Running, state_mapping::Action::None);
    let reaped = answer(state_mapping::Report::Deleting, state_mapping::Action::Reap);
    let mut record = json!(record::<StateMapping>(&question, &vec![running.clone(), reaped, running]));
    record["asked"][0]["outcome"] = json!({ "decided-part": { "deferred": 1 } });
    record["asked"][1]["items"] = json!([1]);
    let whole: DecisionRecord = serde_json::from_value(record.clone()).unwrap();
    let lines: Vec<String> = plain(&whole).lines().map(str::to_owned).collect();
    for (position, decider) in ["first 1.2.0", "team 1.2.0", "first 1.2.0"].into_iter().enumerate() {
        let server = format!("server {position},");
        let line = lines.iter().find(|line| line.contains(&server)).unwrap();
        assert!(line.contains(&format!("decided by {decider}")), "{line}");
    }
    let brief = Brief::of(&serde_json::from_value(record).unwrap());
    assert_eq!(brief.verdict, "1 deleting, 2 running, 1 removed");
    assert!(brief.subject.starts_with("3 servers of group "), "{}", brief.subject);
    assert!(brief.deciders[0].starts_with("first") && brief.deciders[1].starts_with("team"), "{:?}", brief.deciders);
}

#[test]
fn each_rule_that_decided_is_named_with_the_servers_about_which_it_did() {
    let mut question = StateMapping::example();
    question.servers = vec![question.servers[0]; 40];
    let mapping =
        state_mapping::Mapping { report: state_mapping::Report::Running, action: state_mapping::Action::None };
    let answer = state_mapping::Answer { verdict: state_mapping::Verdict::Mapped(mapping), reason: None };
    let mut record = json!(record::<StateMapping>(&question, &vec![answer; 40]));
    record["asked"].as_array_mut().unwrap().truncate(1);
    record["asked"][0]["outcome"] = json!("decided");
    record["decided-by"] = json!({ "policy": record["asked"][0]["policy"] });
    record["asked"][0]["rules"] =
        json!([{ "rule": "one\u{1b}", "items": [1] }, { "rule": "rest", "items": (2..40).collect::<Vec<u32>>() }]);
    let words = plain(&serde_json::from_value(record.clone()).unwrap());
    for expected in [
        "decided, by one\u{fffd}, rest",
        "one\u{fffd}: server 1\n",
        "rest: servers 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 and 18 more\n",
        ", by rest\n",
    ] {
        assert!(words.contains(expected), "{expected:?} is not in {words}");
    }
    let brief = Brief::of(&serde_json::from_value(record).unwrap());
    assert!(brief.deciders[0].ends_with(": one\u{1b}, rest"), "{:?}", brief.deciders);
}
