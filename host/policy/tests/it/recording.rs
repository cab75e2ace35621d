//! The decision log: bounded, robust, shared.

use std::fs;
use std::io::Write;

use windlass_policy::slots::{Release, Retry, Rollback, Slot, SlotName, StateMapping, retry};
use windlass_policy::{
    DecisionFilter, DecisionLogOptions, DecisionReader, FailureKind, Host, Link, LinkRecord, Outcome, Policies,
    ReplayAgainst,
};

use crate::chains::too_large;
use crate::guests::{ANSWER, ATTEMPT, Guest};
use crate::support::{State, run};

fn host(state: &State, change: impl FnOnce(&mut DecisionLogOptions)) -> Host {
    let mut options = state.options();
    change(&mut options.decision_log);
    Host::new(options).unwrap()
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
            last = Some(run(host.pin().decide::<Retry>(Retry::example())).id);
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
fn the_log_stays_within_its_bytes_while_every_slot_writes() {
    let state = State::new();
    let host = host(&state, |log| (log.segment_bytes, log.total_bytes) = (64 << 10, 240 << 10));
    for round in 0..60 {
        for _ in 0..3 {
            run(host.pin().decide::<Retry>(Retry::example()));
            run(host.pin().decide::<Release>(Release::example()));
            run(host.pin().decide::<Rollback>(Rollback::example()));
            run(host.pin().decide::<StateMapping>(StateMapping::example()));
        }
        host.flush_decisions();
        let total: u64 = segments(&state).iter().map(|(_, bytes)| bytes).sum();
        assert!(total <= 256 << 10, "{total} bytes after round {round}");
    }
    assert!(host.status().dropped_records > 0);
}

#[test]
fn a_slot_that_fills_the_log_leaves_the_records_of_others() {
    let state = State::new();
    let bounds = |log: &mut DecisionLogOptions| (log.segment_bytes, log.total_bytes) = (8 << 10, 96 << 10);
    let quiet = host(&state, bounds);
    let rare = [
        run(quiet.pin().decide::<Release>(Release::example())).id,
        run(quiet.pin().decide::<Rollback>(Rollback::example())).id,
    ];
    // Nobody has its segments open any more.
    drop(quiet);
    let busy = host(&state, bounds);
    for _ in 0..500 {
        run(busy.pin().decide::<Retry>(Retry::example()));
        busy.flush_decisions();
    }
    assert!(busy.status().dropped_records > 0);
    let list = busy.decisions().unwrap().list(&DecisionFilter::default()).unwrap();
    assert!(rare.iter().all(|id| list.decisions.iter().any(|decision| decision.id == *id)));
}

#[test]
fn a_host_never_removes_what_another_has_open_and_tells_what_it_removes() {
    let state = State::new();
    let bounds = |log: &mut DecisionLogOptions| (log.segment_bytes, log.total_bytes) = (8 << 10, 96 << 10);
    let (quiet, busy) = (host(&state, bounds), host(&state, bounds));
    let ask = |host: &Host| {
        let decision = run(host.pin().decide::<Retry>(Retry::example()));
        host.flush_decisions();
        decision.id
    };
    let mut kept = vec![ask(&quiet)];
    let asked: u64 = 100;
    for _ in 0..asked {
        ask(&busy);
    }
    kept.push(ask(&quiet));
    let list = busy.decisions().unwrap().list(&DecisionFilter::default()).unwrap();
    let listed: Vec<_> = list.decisions.iter().map(|decision| decision.id).collect();
    assert!(kept.iter().all(|id| listed.contains(id)), "what the quiet host decided is there");
    let dropped = busy.status().dropped_records;
    assert!(dropped > 0);
    assert_eq!(listed.len() as u64 + dropped, asked + 2, "each decision is listed or counted");
    assert_eq!((quiet.status().dropped_records, busy.status().lost_records), (0, 0));
    drop(quiet);
    // Its host is gone, so it is one of the old ones.
    for _ in 0..asked {
        ask(&busy);
    }
    let list = busy.decisions().unwrap().list(&DecisionFilter::default()).unwrap();
    assert!(list.decisions.iter().all(|decision| !kept.contains(&decision.id)));
}

#[test]
fn records_that_cannot_be_written_are_counted() {
    let state = State::new();
    // Each record has a segment of its own, for which there is no folder any more.
    let host = host(&state, |log| log.segment_bytes = 1);
    fs::remove_dir_all(state.folder.path().join("decisions")).unwrap();
    for _ in 0..2 {
        run(host.pin().decide::<Retry>(Retry::example()));
        host.flush_decisions();
    }
    assert_eq!(host.status().lost_records, 2);
}

#[test]
fn a_torn_line_is_skipped_and_counted() {
    let state = State::new();
    let first = host(&state, |_| ());
    let decision = run(first.pin().decide::<Retry>(Retry::example()));
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
    let decision = run(host.pin().decide::<StateMapping>(question));
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
        assert!(run(host.pin().decide::<Retry>(Retry::example())).fallbacks.is_empty());
    }
    assert_eq!(host.status().lost_records, 3);
}

#[test]
fn what_is_left_is_written_when_the_host_goes() {
    let state = State::new();
    let host = state.host();
    let pin = host.pin();
    let ids: Vec<_> = (0..50).map(|_| run(pin.decide::<Retry>(Retry::example())).id).collect();
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
    let first = run(one.pin().decide::<Retry>(Retry::example()));
    let second = run(other.pin().decide::<StateMapping>(StateMapping::example()));
    let third = run(one.pin().decide::<Retry>(too_large()));
    one.flush_decisions();
    let log = other.decisions().unwrap();
    let ids = |change: fn(&mut DecisionFilter)| -> Vec<_> {
        let mut filter = DecisionFilter::default();
        change(&mut filter);
        log.list(&filter).unwrap().decisions.iter().map(|decision| decision.id).collect()
    };
    let mut all = vec![first.id, second.id, third.id];
    all.sort();
    all.reverse();
    assert_eq!(ids(|_| {}), all);
    assert_eq!(ids(|filter| filter.slot = Some(SlotName::StateMapping)), [second.id]);
    assert_eq!(ids(|filter| filter.only_fallbacks = true), [third.id]);
    assert_eq!(ids(|filter| filter.policy = Some("nobody".into())), []);
    assert_eq!(ids(|filter| filter.limit = 1).len(), 1);
    assert!(log.show("00000000").unwrap_err().to_string().contains("no such decision"));
    assert!(log.show("").is_err());
}

#[test]
fn a_decision_replays_as_it_was() {
    let state = State::new();
    let host = state.host();
    let one = run(host.pin().decide::<StateMapping>(StateMapping::example()));
    let other = run(host.pin().decide::<Retry>(Retry::example()));
    let log = host.decisions().unwrap();
    for id in [one.id, other.id] {
        let mut record = log.show(&id.to_string()).unwrap();
        let replay = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
        assert!(replay.same, "{replay:?}");
        assert_eq!(replay.decided_by, record.decided_by);
        // Were the record another one, the replay would say so.
        record.answer = serde_json::json!({"verdict": "give-up", "reason": null});
        assert!(!run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap().same);
    }
}

/// Answers that 5 ms are to be waited. Spins for some hundred milliseconds before, unless the question is the example,
/// whose `attempt` is 1.
fn slow() -> Guest {
    Guest::new(
        SlotName::Retry,
        format!(
            "(if (i32.ne (i32.load (i32.add (local.get $question) (i32.const {ATTEMPT}))) (i32.const 1)) (then \
               (local.set $i (i32.const 400000000)) \
               (loop $more (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $more (local.get $i))))) \
             (i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (i64.const 5)) (i32.const \
             {ANSWER})"
        ),
    )
}

#[test]
fn what_the_clock_did_is_not_put_down_to_a_policy() {
    let state = State::new();
    let within = |time_ms| {
        let mut options = state.options();
        options.limits.small.time_ms = time_ms;
        Host::new(options).unwrap()
    };
    let host = within(60_000);
    let link = Link::bytes(slow().component());
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let question = retry::Question { attempt: 2, ..Retry::example() };
    let decision = run(host.pin().decide::<Retry>(question));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(5));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();

    // It ran out of time then, on a busier machine, and the default decided.
    let other = run(state.host().pin().decide::<Retry>(Retry::example()));
    let mut ended = host.decisions().unwrap().show(&other.id.to_string()).unwrap();
    let reason = "it ran longer than `time_ms` allows".to_owned();
    let outcome = Outcome::Fallback { kind: FailureKind::TimeLimit, reason };
    ended.asked.insert(0, LinkRecord { outcome, ..record.asked[0].clone() });
    let replay = run(host.replay(&ended, &ReplayAgainst::TheSame)).unwrap();
    assert!(replay.same, "{replay:?}");

    // It runs out of time now.
    let replay = run(within(50).replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(!replay.same, "{replay:?}");
    assert!(replay.inconclusive[0].contains("failed in the replay for a reason that did not occur then"), "{replay:?}");
}

#[test]
fn a_policy_that_is_not_pure_is_found_out() {
    let state = State::new();
    let host = state.host();
    let decision = run(host.pin().decide::<Retry>(Retry::example()));
    let mut record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    record.answer = serde_json::json!({"verdict": "give-up", "reason": null});
    let replay = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(!replay.same && replay.inconclusive.is_empty(), "{replay:?}");
}
