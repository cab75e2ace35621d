//! The decision log: bounded, robust, shared.

use std::fs;
use std::io::Write;

use windlass_policy::slots::{Retry, Slot, SlotName, StateMapping};
use windlass_policy::{DecisionFilter, DecisionLogOptions, DecisionReader, Host, HostOptions, ReplayAgainst};

use crate::support::{State, any, run};

fn host(state: &State, change: impl FnOnce(&mut DecisionLogOptions)) -> Host {
    let mut options = state.options();
    change(&mut options.decision_log);
    Host::new(HostOptions { ..options }).unwrap()
}

fn segments(state: &State) -> Vec<(std::path::PathBuf, u64)> {
    let folder = fs::read_dir(state.folder.path().join("decisions")).unwrap();
    let mut segments: Vec<_> =
        folder.map(|entry| entry.unwrap()).map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect();
    segments.sort();
    segments
}

#[test]
fn the_log_never_grows_beyond_its_bounds_and_keeps_the_newest() {
    let state = State::new();
    let host = host(&state, |log| (log.segment_bytes, log.total_bytes) = (8 << 10, 40 << 10));
    let mut last = None;
    for _ in 0..60 {
        for _ in 0..5 {
            last = Some(run(host.pin().decide::<Retry>(Retry::example(), any)).id);
        }
        host.flush_decisions();
        let total: u64 = segments(&state).iter().map(|(_, bytes)| bytes).sum();
        assert!(total <= 48 << 10, "{total}");
    }
    assert!(segments(&state).len() > 1);
    let list = host.decisions().unwrap().list(&DecisionFilter::default()).unwrap();
    assert_eq!((list.decisions[0].id, list.unreadable), (last.unwrap(), 0));
    assert!(list.decisions.len() < 300, "the oldest are gone");
}

#[test]
fn a_torn_line_is_skipped_and_counted() {
    let state = State::new();
    let first = host(&state, |_| ());
    let decision = run(first.pin().decide::<Retry>(Retry::example(), any));
    drop(first);
    let (segment, _) = segments(&state).remove(0);
    let mut file = fs::OpenOptions::new().append(true).open(segment).unwrap();
    file.write_all(b"{\"id\":\"019b2f3c4d5e-9f8a7b6c-0000002a\",\"slot\":\"ret").unwrap();
    file.write_all(b"\nnonsense \xff\xfe").unwrap();
    let list = DecisionReader::open(&state.dir()).unwrap().list(&DecisionFilter::default()).unwrap();
    assert_eq!(list.unreadable, 2);
    assert_eq!(list.decisions.iter().map(|it| it.id).collect::<Vec<_>>(), [decision.id]);
}

#[test]
fn a_record_that_is_too_long_loses_its_question_and_can_not_be_replayed() {
    let state = State::new();
    let host = host(&state, |log| log.record_bytes = 4 << 10);
    let mut question = StateMapping::example();
    question.servers = question.servers.iter().copied().cycle().take(1_000).collect();
    let decision = run(host.pin().decide::<StateMapping>(question, any));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert!(record.question.is_null() && record.answer.is_null());
    let error = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap_err();
    assert!(error.to_string().contains("too large to be recorded"), "{error}");
}

#[test]
fn what_the_disk_does_not_take_is_counted_and_holds_up_nobody() {
    let state = State::new();
    let host = host(&state, |log| log.queue_records = 0);
    for _ in 0..3 {
        assert!(run(host.pin().decide::<Retry>(Retry::example(), any)).fallbacks.is_empty());
    }
    assert_eq!(host.status().lost_records, 3);
}

#[test]
fn what_is_left_is_written_when_the_host_goes() {
    let state = State::new();
    let host = state.host();
    let pin = host.pin();
    let ids: Vec<_> = (0..50).map(|_| run(pin.decide::<Retry>(Retry::example(), any)).id).collect();
    drop((host, pin));
    let list = DecisionReader::open(&state.dir()).unwrap().list(&DecisionFilter::default()).unwrap();
    let mut found: Vec<_> = list.decisions.iter().map(|decision| decision.id).collect();
    found.reverse();
    assert_eq!(found, ids);
}

#[test]
fn hosts_that_share_a_state_folder_share_the_log_and_filters_find_their_way() {
    let state = State::new();
    let (one, other) = (state.host(), state.host());
    let first = run(one.pin().decide::<Retry>(Retry::example(), any));
    let second = run(other.pin().decide::<StateMapping>(StateMapping::example(), any));
    let third = run(one.pin().decide::<Retry>(Retry::example(), |_, _| Err("no".into())));
    one.flush_decisions();
    let log = other.decisions().unwrap();
    let ids = |filter: DecisionFilter| -> Vec<_> {
        log.list(&filter).unwrap().decisions.iter().map(|decision| decision.id).collect()
    };
    let mut all = vec![first.id, second.id, third.id];
    all.sort();
    all.reverse();
    assert_eq!(ids(DecisionFilter::default()), all);
    assert_eq!(ids(DecisionFilter { slot: Some(SlotName::StateMapping), ..Default::default() }), [second.id]);
    assert_eq!(ids(DecisionFilter { only_fallbacks: true, ..Default::default() }), [third.id]);
    assert_eq!(ids(DecisionFilter { policy: Some("nobody".into()), ..Default::default() }), []);
    assert_eq!(ids(DecisionFilter { limit: 1, ..Default::default() }).len(), 1);
    assert!(log.show("00000000").unwrap_err().to_string().contains("no such decision"));
    assert!(log.show("").is_err());
}

#[test]
fn a_decision_replays_as_it_was_also_where_the_caller_refused_an_answer() {
    let state = State::new();
    let host = state.host();
    let plain = run(host.pin().decide::<StateMapping>(StateMapping::example(), any));
    let refused = run(host.pin().decide::<Retry>(Retry::example(), |_, _| Err("no".into())));
    let log = host.decisions().unwrap();
    for id in [plain.id, refused.id] {
        let mut record = log.show(&id.to_string()).unwrap();
        let replay = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
        assert!(replay.same, "{replay:?}");
        assert_eq!(replay.decided_by, record.decided_by);
        // Were the record another one, the replay would say so.
        record.answer = serde_json::json!({"verdict": "give-up", "reason": null});
        assert!(!run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap().same);
    }
}

#[test]
fn a_question_given_as_json_is_decided_and_a_wrong_one_is_told_where() {
    let state = State::new();
    let pin = state.host().pin();
    let question = serde_json::to_value(Retry::example()).unwrap();
    let record = run(pin.decide_json(SlotName::Retry, question.clone())).unwrap();
    assert!(record.answer["verdict"]["wait"].is_u64(), "{}", record.answer);
    let mut wrong = question;
    wrong["failure"]["class"] = "gatway".into();
    let error = run(pin.decide_json(SlotName::Retry, wrong)).unwrap_err().to_string();
    assert!(
        error.contains("does not fit the slot retry") && error.contains("gatway") && error.contains("gateway"),
        "{error}"
    );
}
