use rand::SeedableRng;
use rand::rngs::StdRng;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::*;
use crate::log::Changed;
use crate::state_directory::JOURNAL_FILE;

fn state() -> (tempfile::TempDir, StateDirectory) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    (folder, state)
}

fn id(seed: u64) -> OperationId {
    OperationId::new(&"ci".parse().unwrap(), 1_790_000_000_000, &mut StdRng::seed_from_u64(seed))
}

fn new(id: &OperationId, at: u64) -> Operation {
    Operation {
        id: id.clone(),
        kind: OperationKind::CreateServer,
        group: "ci".into(),
        zone: "fr-par-1".into(),
        owner: "team".into(),
        specification: json!({"types": ["DEV1-S"]}),
        policies: json!([]),
        runner: "one".into(),
        host: None,
        state: OperationState::Open,
        cause: None,
        reasons: vec![],
        report: None,
        ended_by: None,
        look_at: None,
        created_at: at,
        updated_at: at,
        ended_at: None,
    }
}

fn entry(step: &str, phase: Phase) -> Entry {
    Entry {
        sequence: 0,
        step: step.into(),
        phase,
        resource: Some(ResourceName {
            kind: ResourceKind::Ip,
            id: "an-ip".into(),
            zone: "fr-par-1".into(),
            server: None,
        }),
        data: json!({"attempt": 1}),
        at: 7,
    }
}

fn closing(id: &OperationId, state: OperationState) -> Closing {
    Closing {
        operation: id.clone(),
        state,
        cause: Some(json!({"class": "server-error"})),
        reasons: vec!["because".into()],
        report: None,
        ends: vec![],
        look_at: None,
        at: 9,
    }
}

#[tokio::test]
async fn what_was_written_is_read_back_by_another_opener_under_both_durabilities() {
    for durability in [Durability::Full, Durability::Process] {
        let (_folder, state) = state();
        let journal = Journal::open(&state, durability).unwrap();
        let id = id(1);
        journal.begin(new(&id, 5)).await.unwrap();
        journal.append(&id, entry("create-ip", Phase::Intent)).await.unwrap();
        journal.append(&id, entry("create-ip", Phase::Outcome)).await.unwrap();
        let other = Journal::read_only(&state).unwrap();
        let open =
            other.operations(&OperationFilter { states: vec![OperationState::Open], ..Default::default() }).unwrap();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].specification, json!({"types": ["DEV1-S"]}));
        let entries = other.entries(&id).unwrap();
        assert_eq!(
            entries.iter().map(|e| (e.sequence, e.phase)).collect::<Vec<_>>(),
            [(1, Phase::Intent), (2, Phase::Outcome)]
        );
        assert_eq!(other.operations_of_resource("an-ip").unwrap()[0].id, id);
        journal.close(closing(&id, OperationState::Undone)).await.unwrap();
        let closed = other.operation(&id).unwrap();
        assert_eq!(closed.state, OperationState::Undone);
        assert_eq!(closed.reasons, ["because"]);
        assert!(matches!(other.begin(new(&id, 5)).await, Err(Error::JournalClosed)));
    }
}

#[tokio::test]
async fn what_listings_remember_follows_what_this_process_and_others_write() {
    for durability in [Durability::Full, Durability::Process] {
        let (_folder, state) = state();
        let journal = Journal::open(&state, durability).unwrap();
        let id = id(1);
        journal.begin(new(&id, 5)).await.unwrap();
        let look = || {
            let mut facts = journal.facts().unwrap();
            let kept = facts.is_kept("a-server").unwrap();
            let creation = facts.creation(&id).unwrap();
            (creation.made.clone(), creation.standing.map(|it| (it.state, it.is_left_alone)), kept)
        };
        let of_server = |step: &str, phase: Phase| {
            let mut entry = entry(step, phase);
            entry.resource.as_mut().unwrap().kind = ResourceKind::Server;
            entry.resource.as_mut().unwrap().id = "a-server".into();
            entry
        };
        assert_eq!(look(), (vec![], Some((OperationState::Open, false)), false));
        journal.append(&id, of_server("create-server", Phase::Outcome)).await.unwrap();
        let made = vec!["a-server".to_owned()];
        assert_eq!(look(), (made.clone(), Some((OperationState::Open, false)), false));
        journal.close(closing(&id, OperationState::Done)).await.unwrap();
        assert_eq!(look(), (made.clone(), Some((OperationState::Done, false)), false));
        let other = Journal::open(&state, Durability::Process).unwrap();
        other.begin(new(&super::tests::id(2), 5)).await.unwrap();
        other.append(&super::tests::id(2), of_server(KEPT, Phase::Note)).await.unwrap();
        assert_eq!(look(), (made.clone(), Some((OperationState::Done, false)), true));
        let abandoned = Change::of(OPERATION, id.as_str(), Target::Existing).set([("state", json!("abandoned"))]);
        other.log.append(vec![abandoned]).await.unwrap();
        assert_eq!(look(), (made, Some((OperationState::Abandoned, true)), true));
    }
}

#[tokio::test]
async fn what_is_remembered_of_removals_follows_what_this_process_and_others_write() {
    for durability in [Durability::Full, Durability::Process] {
        let (_folder, state) = state();
        let journal = Journal::open(&state, durability).unwrap();
        let [creation, cleanup, given_up] = [1, 2, 3].map(id);
        let look = || {
            let removals = journal.removals().unwrap();
            (removals.removes("a-server", None), removals.removes("", Some(&creation)), removals.has_abandoned("an-ip"))
        };
        assert_eq!(look(), (false, false, false));
        journal.begin(new(&creation, 5)).await.unwrap();
        assert_eq!(look(), (false, false, false));
        let of_cleanup = |id: &OperationId, specification| Operation {
            kind: OperationKind::CleanupServer,
            specification,
            ..new(id, 5)
        };
        let specification = json!({"creation": creation, "server": "a-server"});
        journal.begin(of_cleanup(&cleanup, specification)).await.unwrap();
        assert_eq!(look(), (true, true, false));
        journal.append(&cleanup, entry("delete-ip", Phase::Outcome)).await.unwrap();
        assert_eq!(look(), (true, true, false));
        journal.close(closing(&cleanup, OperationState::Done)).await.unwrap();
        assert_eq!(look(), (false, false, false));
        journal.begin(new(&given_up, 5)).await.unwrap();
        let notes = vec![entry(note::ABANDONED, Phase::Note)];
        let closing = closing(&given_up, OperationState::Abandoned);
        assert!(journal.abandon(None, "one", closing, notes).await.unwrap());
        assert_eq!(look(), (false, false, true));
        let ended = Change::of(OPERATION, given_up.as_str(), Target::Existing).set([("ended_by", json!(cleanup))]);
        journal.log.append(vec![ended]).await.unwrap();
        assert_eq!(look(), (false, false, false));
        let other = Journal::open(&state, Durability::Process).unwrap();
        other.begin(of_cleanup(&id(4), json!({"server": "a-server"}))).await.unwrap();
        assert_eq!(look(), (true, false, false));
    }
}

#[tokio::test]
async fn a_log_that_writes_inline_knows_what_it_wrote_and_that_others_wrote() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let id = id(1);
    journal.begin(new(&id, 5)).await.unwrap();
    let (mark, changed) = journal.log.changed_since(None);
    assert_eq!(changed, Changed::Unknown);
    let (none, one) = (BTreeSet::new, || BTreeSet::from([id.to_string()]));
    let streams = |written, appended| Changed::Streams { written, appended };
    assert_eq!(journal.log.changed_since(Some(mark)), (mark, streams(none(), none())));
    journal.append(&id, entry("create-ip", Phase::Intent)).await.unwrap();
    let (mark, changed) = journal.log.changed_since(Some(mark));
    assert_eq!(changed, streams(none(), one()));
    journal.close(closing(&id, OperationState::Undone)).await.unwrap();
    let (mark, changed) = journal.log.changed_since(Some(mark));
    assert_eq!(changed, streams(one(), none()));
    let other = Journal::open(&state, Durability::Process).unwrap();
    other.begin(new(&super::tests::id(2), 5)).await.unwrap();
    let (mark, changed) = journal.log.changed_since(Some(mark));
    assert_eq!(changed, Changed::Unknown);
    journal.log.forget(operations_where(vec![Condition::is("id", id.as_str())])).await.unwrap();
    assert_eq!(journal.log.changed_since(Some(mark)).1, Changed::Unknown);
    let threaded = Journal::open(&state, Durability::Full).unwrap();
    let (mark, _) = threaded.log.changed_since(None);
    assert_eq!(threaded.log.changed_since(Some(mark)).1, Changed::Unknown);
}

#[tokio::test]
async fn a_write_that_fails_takes_no_other_of_its_batch_with_it() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Full).unwrap();
    let id = id(1);
    journal.begin(new(&id, 5)).await.unwrap();
    let stranger = super::tests::id(2);
    let mut writes = Vec::new();
    for number in 0..300 {
        let of = if number % 10 == 3 { &stranger } else { &id };
        writes.push(journal.append(of, entry("create-ip", Phase::Note)));
    }
    let results = futures::future::join_all(writes).await;
    assert_eq!(results.iter().filter(|r| r.is_err()).count(), 30);
    assert!(matches!(results[3], Err(Error::OperationUnknown { .. })));
    let entries = journal.entries(&id).unwrap();
    assert_eq!(entries.len(), 270);
    assert!(entries.iter().zip(1..).all(|(e, n)| e.sequence == n));
}

#[tokio::test]
async fn one_cleanup_of_a_creation_or_of_a_server_is_open_at_a_time() {
    let (_folder, state) = state();
    // Committed by a thread, as outside of tests, so that those who begin at once do.
    let journal = Journal::open(&state, Durability::Full).unwrap();
    let cleanup =
        |number, specification| Operation { kind: OperationKind::CleanupServer, specification, ..new(&id(number), 5) };
    let begin = async |number: u64, specification: Value| match journal.begin(cleanup(number, specification)).await {
        Ok(()) => None,
        Err(Error::CleanupUnderWay { operation }) => Some(operation),
        Err(error) => panic!("{error}"),
    };
    let of_creation = || json!({"creation": id(7), "server": null});
    assert_eq!(tokio::join!(begin(1, of_creation()), begin(2, of_creation())), (None, Some(id(1))));
    assert_eq!(begin(3, json!({"creation": null, "server": "a-server"})).await, None);
    // A creation that names itself is no cleanup.
    journal.begin(Operation { specification: json!({"creation": id(8)}), ..new(&id(4), 5) }).await.unwrap();
    assert_eq!(begin(5, json!({"creation": id(8), "server": "a-server"})).await, Some(id(3)));
    assert_eq!(begin(5, json!({"creation": null, "server": null, "tagged": id(7)})).await, Some(id(1)));
    assert_eq!(begin(5, json!({"creation": id(8), "server": null})).await, None);
    assert_eq!(begin(6, json!({"creation": null, "server": null})).await, None, "nothing named is nothing found");
    journal.close(closing(&id(1), OperationState::Done)).await.unwrap();
    assert_eq!(begin(9, of_creation()).await, None);
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    journal.begin(new(&id(1), 5)).await.unwrap();
    assert!(matches!(journal.begin(new(&id(1), 5)).await, Err(Error::OperationExists { .. })));
}

#[tokio::test]
async fn only_one_takes_an_operation_over() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    journal.begin(new(&id(1), 5)).await.unwrap();
    let operation = journal.operation(&id(1)).unwrap();
    assert!(journal.claim(&operation, "two", 6).await.unwrap());
    assert!(!journal.claim(&operation, "three", 6).await.unwrap());
    assert_eq!(journal.operation(&id(1)).unwrap().runner, "two");
}

#[tokio::test]
async fn a_runner_that_was_overtaken_writes_no_more() {
    let (_folder, state) = state();
    let [one, two] = [1, 2].map(|_| Journal::open(&state, Durability::Process).unwrap());
    let id = id(1);
    one.begin(new(&id, 5)).await.unwrap();
    one.append(&id, entry("create-ip", Phase::Intent)).await.unwrap();
    assert!(two.claim(&two.operation(&id).unwrap(), "two", 6).await.unwrap());
    let late = one.append(&id, entry("create-ip", Phase::Outcome)).await;
    assert!(matches!(late, Err(Error::OperationTaken { .. })), "{late:?}");
    let late = one.close(closing(&id, OperationState::Done)).await;
    assert!(matches!(late, Err(Error::OperationTaken { .. })), "{late:?}");
    two.append(&id, entry("create-ip", Phase::Outcome)).await.unwrap();
    assert!(two.close(closing(&id, OperationState::Done)).await.unwrap());
    assert_eq!(one.entries(&id).unwrap().len(), 2);
}

#[tokio::test]
async fn an_unverified_operation_says_when_it_is_looked_at_and_is_taken_over_like_one_that_is_left() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let id = id(1);
    journal.begin(new(&id, 5)).await.unwrap();
    journal.close(Closing { look_at: Some(600_009), ..closing(&id, OperationState::Unverified) }).await.unwrap();
    let operation = journal.operation(&id).unwrap();
    assert_eq!((operation.state, operation.look_at), (OperationState::Unverified, Some(600_009)));
    assert_eq!(journal.prune(u64::MAX).await.unwrap(), 0, "it explains what may still come");
    assert!(journal.claim(&operation, "two", 10).await.unwrap());
    assert_eq!(journal.operation(&id).unwrap().state, OperationState::Open);
    journal.close(closing(&id, OperationState::Undone)).await.unwrap();
    assert_eq!(journal.operation(&id).unwrap().look_at, None);
}

#[tokio::test]
async fn a_journal_of_a_newer_version_is_refused_untouched() {
    let (folder, state) = state();
    drop(Journal::open(&state, Durability::Process).unwrap());
    let path = folder.path().join(JOURNAL_FILE);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    for error in [Journal::open(&state, Durability::Full).unwrap_err(), Journal::read_only(&state).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("version 99") && text.contains("untouched"), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn creations_whose_servers_were_removed_are_not_listed_where_only_the_living_are_asked_for() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    for number in 1..=3 {
        journal.begin(new(&id(number), number)).await.unwrap();
        journal.close(closing(&id(number), OperationState::Done)).await.unwrap();
    }
    journal.begin(Operation { kind: OperationKind::CleanupServer, ..new(&id(4), 9) }).await.unwrap();
    journal.close(Closing { ends: vec![id(2)], ..closing(&id(4), OperationState::Done) }).await.unwrap();
    let filter =
        OperationFilter { kind: Some(OperationKind::CreateServer), not_ended: true, ..OperationFilter::default() };
    let living: Vec<_> = journal.operations(&filter).unwrap().into_iter().map(|operation| operation.id).collect();
    assert_eq!(living, [id(3), id(1)]);
}

#[tokio::test]
async fn a_listing_without_a_limit_leaves_out_nothing() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    for number in 1..=1_001 {
        journal.begin(new(&id(number), number)).await.unwrap();
    }
    let all = journal.operations(&OperationFilter::default()).unwrap();
    assert_eq!((all.len(), &all.last().unwrap().id), (1_001, &id(1)));
    let newest = journal.operations(&OperationFilter { limit: Some(2), ..OperationFilter::default() }).unwrap();
    assert_eq!(newest.len(), 2);
}

#[tokio::test]
async fn an_empty_file_is_a_journal_that_is_still_to_be_made() {
    let (folder, state) = state();
    std::fs::write(folder.path().join(JOURNAL_FILE), "").unwrap();
    assert!(matches!(Journal::read_only(&state), Err(Error::JournalAbsent { .. })));
    let journal = Journal::open(&state, Durability::Process).unwrap();
    journal.begin(new(&id(1), 5)).await.unwrap();
    assert_eq!(Journal::read_only(&state).unwrap().operations(&OperationFilter::default()).unwrap().len(), 1);
}

#[test]
fn who_looks_while_a_journal_is_being_made_finds_none_or_all_of_it() {
    for _ in 0..100 {
        let (_folder, state) = state();
        std::thread::scope(|threads| {
            threads.spawn(|| drop(Journal::open(&state, Durability::Process).unwrap()));
            loop {
                match Journal::read_only(&state) {
                    Ok(_) => break,
                    Err(Error::JournalAbsent { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_refused_with_its_path() {
    let (folder, state) = state();
    std::fs::write(folder.path().join(JOURNAL_FILE), "not a database at all, but long enough").unwrap();
    let error = Journal::open(&state, Durability::Full).unwrap_err().to_string();
    assert!(error.contains(JOURNAL_FILE), "{error}");
}

#[tokio::test]
async fn a_link_in_place_of_the_journal_is_not_followed() {
    let (folder, state) = state();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("other.sqlite");
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, folder.path().join(JOURNAL_FILE)).unwrap();
    Journal::open(&state, Durability::Full).unwrap_err();
    assert_eq!(std::fs::read(&target).unwrap(), b"");
}

#[tokio::test]
async fn a_corrupt_row_is_an_error_that_names_it() {
    let (folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let id = id(1);
    journal.begin(new(&id, 5)).await.unwrap();
    journal.append(&id, entry("create-ip", Phase::Intent)).await.unwrap();
    let connection = Connection::open(folder.path().join(JOURNAL_FILE)).unwrap();
    for (corrupt, part) in [
        ("'$.phase', 'later'", "later"),
        ("'$.phase', 'intent', '$.at', -1", "-1"),
        ("'$.at', 1, '$.resource.kind', null", "null"),
    ] {
        connection.execute(&format!("update entries set document = json_set(document, {corrupt})"), []).unwrap();
        let error = journal.entries(&id).unwrap_err().to_string();
        assert!(error.contains(&format!("{id}/1")) && error.contains(part), "{error}");
    }
    for (corrupt, part) in [
        ("json_set(document, '$.state', 'odd')", "odd"),
        ("json_set(document, '$.state', 'open', '$.reasons', json('[1]'))", "a string"),
        ("json_set(document, '$.reasons', json('[]'), '$.id', hex(zeroblob(3000000)))", "bytes, more than 4194304"),
    ] {
        connection.execute(&format!("update streams set document = {corrupt} where family = 'operation'"), []).unwrap();
        let error = journal.operations(&OperationFilter::default()).unwrap_err().to_string();
        assert!(error.contains(id.as_str()) && error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn pruning_keeps_what_explains_a_living_server() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    for (seed, closed) in [
        (1, Some(OperationState::Done)),
        (2, Some(OperationState::Undone)),
        (3, None),
        (4, Some(OperationState::Done)),
        (5, Some(OperationState::Left)),
    ] {
        journal.begin(new(&id(seed), 5)).await.unwrap();
        if let Some(state) = closed {
            journal.close(closing(&id(seed), state)).await.unwrap();
        }
    }
    let mut cleanup = new(&id(6), 8);
    cleanup.kind = OperationKind::CleanupServer;
    journal.begin(cleanup).await.unwrap();
    journal.close(Closing { ends: vec![id(4)], ..closing(&id(6), OperationState::Done) }).await.unwrap();
    assert_eq!(journal.prune(9).await.unwrap(), 0, "nothing is old enough");
    assert_eq!(journal.prune(10).await.unwrap(), 3);
    let mut rest: Vec<_> = journal.operations(&OperationFilter::default()).unwrap().into_iter().map(|o| o.id).collect();
    rest.sort();
    let mut expected = vec![id(1), id(3), id(5)];
    expected.sort();
    assert_eq!(rest, expected);
}

#[tokio::test(start_paused = true)]
async fn a_prune_of_many_operations_lets_another_process_write_in_between() {
    const STEP: i64 = PRUNED_AT_ONCE as i64;
    const OLD: i64 = 3 * STEP + 1;
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let connection = Connection::open(state.path().join(JOURNAL_FILE)).unwrap();
    connection
        .execute_batch(&format!(
            "with recursive number(n) as (select 1 union all select n + 1 from number where n < {OLD})
             insert into streams (family, id, fence, document)
             select 'operation', 'old-' || n, 0, json_object('state', 'undone', 'created_at', 5, 'updated_at', 5)
             from number;
             insert into entries (family, id, document) select family, id, '{{}}' from streams;"
        ))
        .unwrap();
    let old = || -> rusqlite::Result<i64> {
        connection.query_row("select count(*) from streams where document ->> '$.created_at' = 5", [], |row| row.get(0))
    };
    let other = Journal::open(&state, Durability::Process).unwrap();
    let mut left = Vec::new();
    let writes = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for seed in 1..=3 {
            other.begin(new(&id(seed), 20)).await.unwrap();
            left.push(old().unwrap());
            tokio::time::sleep(PRUNE_PAUSE).await;
        }
    };
    let (pruned, ()) = tokio::join!(journal.prune(10), writes);
    assert_eq!(pruned.unwrap() as i64, OLD);
    assert_eq!(left, [OLD - STEP, OLD - 2 * STEP, OLD - 3 * STEP]);
    let entries: i64 = connection.query_row("select count(*) from entries", [], |row| row.get(0)).unwrap();
    assert_eq!((old().unwrap(), entries), (0, 0));
}

/// Whether an operation still says something about what exists: what a prune has to keep.
fn explains(kind: OperationKind, state: OperationState, ended: bool, kept: bool) -> bool {
    use OperationState::{Abandoned, Done, Kept, Left, Open, Undone, Unverified};
    let explains_machine = match kind {
        OperationKind::CreateServer | OperationKind::AdoptMachine | OperationKind::OrderMachine => !ended,
        OperationKind::CleanupServer | OperationKind::Sweep | OperationKind::ReleaseMachine => false,
    };
    match state {
        Open | Left | Unverified => true,
        Done => explains_machine || kept,
        Undone => kept,
        Abandoned | Kept => !ended || kept,
    }
}

#[tokio::test]
async fn pruning_forgets_no_operation_that_explains_something() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let (mut seed, mut expected) = (0, Vec::new());
    let ender = id(10_000);
    let mut ends = Vec::new();
    for kind in OperationKind::ALL {
        for state in OperationState::ALL {
            for (ended, kept) in [(false, false), (true, false), (false, true), (true, true)] {
                seed += 1;
                let id = id(seed);
                journal.begin(Operation { kind: *kind, ..new(&id, 5) }).await.unwrap();
                if kept {
                    let data = json!({});
                    journal.append(&id, Entry { data, ..entry(note::KEPT, Phase::Note) }).await.unwrap();
                }
                if *state != OperationState::Open {
                    journal.close(closing(&id, *state)).await.unwrap();
                }
                ends.extend(ended.then(|| id.clone()));
                if explains(*kind, *state, ended, kept) {
                    expected.push(id);
                }
            }
        }
    }
    journal.begin(Operation { kind: OperationKind::Sweep, ..new(&ender, 5) }).await.unwrap();
    journal.close(Closing { ends, ..closing(&ender, OperationState::Done) }).await.unwrap();
    journal.prune(10).await.unwrap();
    let rest = journal.operations(&OperationFilter::default()).unwrap();
    let mut rest: Vec<_> = rest.into_iter().map(|operation| operation.id).collect();
    rest.sort();
    expected.sort();
    assert_eq!(rest, expected);
    assert!(journal.is_kept("an-ip").unwrap(), "a kept address stays kept");
}

#[tokio::test]
async fn a_note_for_an_open_operation_is_not_written_once_it_has_ended() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Full).unwrap();
    let id = id(1);
    let note = || entry("cancelled", Phase::Note);
    assert!(matches!(journal.append_while_open(&id, note()).await, Err(Error::OperationUnknown { .. })));
    journal.begin(new(&id, 5)).await.unwrap();
    assert!(journal.append_while_open(&id, note()).await.unwrap());
    journal.close(closing(&id, OperationState::Undone)).await.unwrap();
    assert!(!journal.append_while_open(&id, note()).await.unwrap());
    assert_eq!(journal.entries(&id).unwrap().len(), 1);
}

#[tokio::test]
async fn operations_are_counted_by_the_spans_in_which_they_began_and_ended() {
    let (_folder, state) = state();
    let journal = Journal::open(&state, Durability::Process).unwrap();
    let close = |number, state, at, ends: &[u64]| {
        let ends = ends.iter().map(|ended| id(*ended)).collect();
        journal.close(Closing { at, ends, ..closing(&id(number), state) })
    };
    // One ended before everything that is asked for, and its server is still there.
    for (number, at) in [(1, 10), (2, 205), (3, 209), (4, 210), (5, 290)] {
        journal.begin(new(&id(number), at)).await.unwrap();
    }
    for (number, state, at) in [
        (1, OperationState::Done, 20),
        (2, OperationState::Done, 215),
        (3, OperationState::Done, 219),
        (4, OperationState::Undone, 230),
    ] {
        close(number, state, at, &[]).await.unwrap();
    }
    journal.begin(Operation { kind: OperationKind::CleanupServer, ..new(&id(6), 240) }).await.unwrap();
    close(6, OperationState::Done, 255, &[2]).await.unwrap();
    let Course { open, mut ended, standing, removed } = journal.course(200, 10).unwrap();
    let reported = |counts: &[OperationCount]| -> Vec<_> {
        counts.iter().map(|one| (one.kind.as_str(), one.began, one.ended, one.count)).collect()
    };
    assert_eq!(reported(&open), [("create-server", 29, None, 1)]);
    assert_eq!(reported(&standing), [("create-server", 1, None, 1), ("create-server", 20, None, 1)]);
    assert_eq!(reported(&removed), [("create-server", 20, Some(25), 1)]);
    ended.sort_by_key(|one| one.ended);
    assert_eq!(
        reported(&ended),
        [("create-server", 20, Some(21), 2), ("create-server", 21, Some(23), 1), ("cleanup-server", 24, Some(25), 1)]
    );
    assert_eq!((ended[0].zone.as_str(), &*ended[0].types), ("fr-par-1", &["DEV1-S".to_owned()][..]));
}
