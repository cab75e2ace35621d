//! What every log must keep. Each law is given an empty one; `other` is the same, as another process opens it.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_lifecycle::log::{Change, Condition, Fence, Key, Log, Query, Tally, Target, Write};

const FAMILY: &str = "thing";

fn of(id: &str, target: Target) -> Change {
    Change::of(FAMILY, id, target)
}

fn put(id: &str, document: Value) -> Change {
    Change { write: Write::Put(document), ..of(id, Target::Any) }
}

fn matching(all: Vec<Condition>) -> Query {
    Query { families: &[FAMILY], all, ..Query::default() }
}

fn ids(log: &dyn Log, query: &Query) -> Vec<String> {
    log.streams(query).unwrap().into_iter().map(|stream| stream.id).collect()
}

fn document(log: &dyn Log, id: &str) -> Option<Value> {
    log.streams(&matching(vec![Condition::is("id", id)])).unwrap().pop().map(|stream| stream.document)
}

async fn written(log: &dyn Log, changes: Vec<Change>) -> Option<Fence> {
    log.append(changes).await.unwrap()
}

/// Runs every law on a new log each time.
pub async fn all(new: impl Fn() -> [Arc<dyn Log>; 2]) {
    let [log, other] = new();
    what_is_written_is_read_by_another_process(&*log, &*other).await;
    where_one_condition_does_not_hold_nothing_is_written(&*new()[0]).await;
    a_stream_is_made_only_where_it_may_be(&*new()[0]).await;
    let [log, other] = new();
    who_was_overtaken_writes_no_more_and_no_fence_comes_again(&*log, &*other).await;
    let [log, other] = new();
    of_two_that_write_together_under_one_condition_one_does(&*log, &*other).await;
    what_a_condition_says_holds_of_what_is_found(&*new()[0]).await;
    streams_come_in_the_order_that_is_asked_for_page_by_page(&*new()[0]).await;
    entries_come_in_the_order_of_writing_from_where_one_has_read(&*new()[0]).await;
    streams_are_counted_by_the_values_and_the_spans_that_are_asked_for(&*new()[0]).await;
    what_is_forgotten_is_gone_with_its_entries(&*new()[0]).await;
    let [log, other] = new();
    a_process_lives_as_long_as_it_says_and_a_lock_is_held_once(&*log, &*other);
}

async fn what_is_written_is_read_by_another_process(log: &dyn Log, other: &dyn Log) {
    let entries = vec![json!({"step": "one"}), json!({"step": "two"})];
    let change = Change { entries, ..of("a", Target::New).set([("state", json!("open")), ("data", json!({"x": 1}))]) };
    assert!(written(log, vec![change]).await.is_some());
    assert_eq!(document(other, "a"), Some(json!({"state": "open", "data": {"x": 1}})));
    let steps: Vec<Value> = other.entries(&matching(vec![])).unwrap().into_iter().map(|one| one.document).collect();
    assert_eq!(steps, [json!({"step": "one"}), json!({"step": "two"})]);
    // A field changes as a whole, and the others stay.
    written(other, vec![of("a", Target::Existing).set([("data", json!({"y": null}))])]).await.unwrap();
    assert_eq!(document(log, "a"), Some(json!({"state": "open", "data": {"y": null}})));
    written(other, vec![put("a", json!({"new": true}))]).await.unwrap();
    assert_eq!(document(log, "a"), Some(json!({"new": true})));
    assert!(log.append_at_once(&[put("b", json!({}))]).unwrap().is_some());
    assert_eq!(document(other, "b"), Some(json!({})));
}

async fn where_one_condition_does_not_hold_nothing_is_written(log: &dyn Log) {
    written(log, vec![put("a", json!({"state": "open"}))]).await.unwrap();
    let refused = |change: Change| vec![put("first", json!({})), put("a", json!({"state": "over"})), change];
    let open = || Condition::is("state", "open");
    for change in [
        of("a", Target::New),
        of("none", Target::Existing),
        Change { given: vec![Condition::is("state", "open")], ..of("a", Target::Existing) },
        Change { fence: Some(Fence(77)), ..of("a", Target::Existing) },
        Change { unless: Some(matching(vec![open().not()])), ..of("b", Target::Any) },
    ] {
        assert_eq!(written(log, refused(change.clone())).await, None, "{change:?}");
        assert_eq!(log.append_at_once(&refused(change)).unwrap(), None);
        assert_eq!(ids(log, &matching(vec![])), ["a"]);
        assert_eq!(document(log, "a"), Some(json!({"state": "open"})));
    }
    // What holds then, is written.
    let change =
        Change { given: vec![open()], unless: Some(matching(vec![open().not()])), ..of("a", Target::Existing) };
    assert!(written(log, vec![change]).await.is_some());
}

async fn a_stream_is_made_only_where_it_may_be(log: &dyn Log) {
    let one = |target| vec![of("a", target).set([("by", json!(format!("{target:?}")))])];
    assert!(written(log, one(Target::IfExisting)).await.is_some(), "it does nothing");
    assert_eq!(document(log, "a"), None);
    assert_eq!(written(log, one(Target::Existing)).await, None);
    assert!(written(log, one(Target::New)).await.is_some());
    assert_eq!(written(log, one(Target::New)).await, None);
    for target in [Target::Any, Target::Existing, Target::IfExisting] {
        assert!(written(log, one(target)).await.is_some());
        assert_eq!(document(log, "a"), Some(json!({"by": format!("{target:?}")})));
    }
}

async fn who_was_overtaken_writes_no_more_and_no_fence_comes_again(log: &dyn Log, other: &dyn Log) {
    let take = |target| Change { takes: true, ..of("a", target) };
    let old = written(log, vec![take(Target::New)]).await.unwrap();
    let under = |fence| vec![Change { fence: Some(fence), entries: vec![json!({})], ..of("a", Target::Existing) }];
    assert!(written(log, under(old)).await.is_some());
    let new = written(other, vec![Change { fence: Some(old), ..take(Target::Existing) }]).await.unwrap();
    assert_eq!(written(log, under(old)).await, None);
    assert_eq!(written(log, vec![Change { fence: Some(old), ..take(Target::Existing) }]).await, None);
    assert!(written(other, under(new)).await.is_some());
    assert_eq!(log.entries(&matching(vec![])).unwrap().len(), 2);
    // Also to a stream that comes again.
    let removed = Change { write: Write::Remove, ..of("a", Target::Existing) };
    written(log, vec![removed]).await.unwrap();
    let last = written(log, vec![take(Target::New)]).await.unwrap();
    assert!(last != old && last != new);
    assert_eq!(log.streams(&matching(vec![])).unwrap()[0].fence, last);
}

async fn of_two_that_write_together_under_one_condition_one_does(log: &dyn Log, other: &dyn Log) {
    let no_other = || Some(matching(vec![Condition::is("state", "open")]));
    let open = |id| vec![Change { unless: no_other(), ..of(id, Target::New).set([("state", json!("open"))]) }];
    let (one, two) = futures::future::join(log.append(open("a")), other.append(open("b"))).await;
    assert_eq!([one.unwrap(), two.unwrap()].iter().flatten().count(), 1);
    assert_eq!(log.count(&matching(vec![])).unwrap(), 1);
}

async fn what_a_condition_says_holds_of_what_is_found(log: &dyn Log) {
    let entry = json!({"step": "kept", "resource": {"id": "an-ip"}});
    let with_entry =
        Change { entries: vec![entry.clone()], ..put("a/1", json!({"state": "open", "n": 1, "deep": {"x": "y"}})) };
    let mut all = vec![with_entry];
    all.push(put("a/2", json!({"state": "done", "n": 2, "is": true, "deep": null})));
    all.push(put("b", json!({"state": "left", "n": 3, "is": false})));
    all.push(Change::of("stranger", "a/1", Target::New).set([("state", json!("open"))]));
    written(log, all).await.unwrap();
    let is = |field, value: &str| Condition::is(field, value);
    for (condition, found) in [
        (is("id", "b"), vec!["b"]),
        (is("state", "open"), vec!["a/1"]),
        (Condition::is("n", 2), vec!["a/2"]),
        (Condition::is("is", true), vec!["a/2"]),
        (Condition::is("is", false), vec!["b"]),
        (is("deep.x", "y"), vec!["a/1"]),
        (is("absent", "y"), vec![]),
        (is("absent", "y").not(), vec!["a/1", "a/2", "b"]),
        (Condition::one_of("state", &["open", "left"]), vec!["a/1", "b"]),
        (Condition::one_of::<&str>("state", &[]), vec![]),
        (Condition::Known("deep"), vec!["a/1"]),
        (Condition::Known("is").not(), vec!["a/1"]),
        (Condition::Below("n", 3), vec!["a/1", "a/2"]),
        (Condition::From("n", 2), vec!["a/2", "b"]),
        (Condition::From("absent", 0), vec![]),
        (Condition::Under("a/".into()), vec!["a/1", "a/2"]),
        (Condition::Has(vec![is("step", "kept"), is("resource.id", "an-ip")]), vec!["a/1"]),
        (Condition::Has(vec![is("step", "kept"), is("resource.id", "other")]), vec![]),
        (Condition::Has(vec![is("step", "kept")]).not(), vec!["a/2", "b"]),
        (Condition::Any(vec![is("id", "b"), is("state", "done")]), vec!["a/2", "b"]),
        (Condition::Any(vec![]), vec![]),
        (Condition::All(vec![Condition::Under("a".into()), Condition::Known("is")]), vec!["a/2"]),
        (Condition::All(vec![]), vec!["a/1", "a/2", "b"]),
    ] {
        let query = matching(vec![condition]);
        assert_eq!(ids(log, &query), found, "{query:?}");
        assert_eq!(log.count(&query).unwrap(), found.len() as u64, "{query:?}");
    }
    let found = log.entries(&matching(vec![is("resource.id", "an-ip"), is("id", "a/1")])).unwrap();
    assert_eq!(found.iter().map(|found| &found.document).collect::<Vec<_>>(), [&entry]);
    let both = Query { families: &[FAMILY, "stranger"], all: vec![is("state", "open")], ..Query::default() };
    assert_eq!(ids(log, &both), ["a/1", "a/1"]);
}

async fn streams_come_in_the_order_that_is_asked_for_page_by_page(log: &dyn Log) {
    for (id, at) in [("late", 30), ("first", 10), ("second", 20), ("twin", 20)] {
        written(log, vec![put(id, json!({"created_at": at}))]).await.unwrap();
    }
    written(log, vec![of("first", Target::Existing).set([("state", json!("done"))])]).await.unwrap();
    assert_eq!(ids(log, &matching(vec![])), ["late", "first", "second", "twin"]);
    let newest = Query { newest_first: true, ..matching(vec![]) };
    assert_eq!(ids(log, &newest), ["twin", "second", "first", "late"]);
    let by_age = Query { by: Some("created_at"), ..newest };
    assert_eq!(ids(log, &by_age), ["late", "twin", "second", "first"]);
    let oldest = Query { newest_first: false, ..by_age.clone() };
    assert_eq!(ids(log, &oldest), ["first", "second", "twin", "late"]);
    let after = Query { beyond: Some("first".into()), ..matching(vec![]) };
    assert_eq!(ids(log, &after), ["second", "twin"], "in the order of writing");
    let page = |beyond: Option<&str>| Query { beyond: beyond.map(str::to_owned), limit: Some(2), ..by_age.clone() };
    assert_eq!(ids(log, &page(None)), ["late", "twin"]);
    assert_eq!(ids(log, &page(Some("twin"))), ["second", "first"]);
    assert_eq!(ids(log, &page(Some("first"))), [""; 0]);
}

async fn entries_come_in_the_order_of_writing_from_where_one_has_read(log: &dyn Log) {
    for (id, step) in [("a", 1), ("b", 2), ("a", 3), ("a", 4)] {
        written(log, vec![Change { entries: vec![json!({"step": step})], ..of(id, Target::Any) }]).await.unwrap();
    }
    let read = |query: &Query| log.entries(query).unwrap();
    let steps =
        |query: &Query| read(query).iter().map(|entry| entry.document["step"].as_u64().unwrap()).collect::<Vec<_>>();
    let of_a = matching(vec![Condition::is("id", "a")]);
    assert_eq!(steps(&of_a), [1, 3, 4]);
    assert_eq!(steps(&Query { newest_first: true, limit: Some(1), ..of_a.clone() }), [4]);
    let known = read(&of_a)[0].number;
    assert_eq!(steps(&matching(vec![Condition::is("id", "a"), Condition::After(known)])), [3, 4]);
}

async fn streams_are_counted_by_the_values_and_the_spans_that_are_asked_for(log: &dyn Log) {
    for (id, state, at, types) in
        [("a", "done", 10, 1), ("b", "done", 19, 1), ("c", "done", 20, 1), ("d", "left", 20, 2)]
    {
        let types: Vec<&str> = ["one", "two"].into_iter().take(types).collect();
        written(log, vec![put(id, json!({"state": state, "at": at, "of": {"types": types}}))]).await.unwrap();
    }
    written(log, vec![put("e", json!({}))]).await.unwrap();
    let tally = |all: Vec<Condition>, by: &[Key]| {
        let mut found = log.tally(&matching(all), by).unwrap();
        found.sort_by_key(|tally| tally.values.iter().map(Value::to_string).collect::<Vec<_>>());
        found
    };
    let of = |values: &[Value], count| Tally { values: values.to_vec(), count };
    let one = json!(r#"["one"]"#);
    let two = json!(r#"["one","two"]"#);
    assert_eq!(
        tally(vec![Condition::From("at", 1)], &[Key::Span("at", 10), Key::Field("state"), Key::Field("of.types")]),
        [
            of(&[json!(1), json!("done"), one.clone()], 2),
            of(&[json!(2), json!("done"), one], 1),
            of(&[json!(2), json!("left"), two], 1),
        ]
    );
    let by_state = tally(vec![], &[Key::Field("state")]);
    assert_eq!(by_state, [of(&[json!("done")], 3), of(&[json!("left")], 1), of(&[Value::Null], 1)]);
}

async fn what_is_forgotten_is_gone_with_its_entries(log: &dyn Log) {
    for (id, state) in [("a", "done"), ("b", "open"), ("c", "done"), ("d", "done")] {
        let change = of(id, Target::New).set([("state", json!(state))]);
        written(log, vec![Change { entries: vec![json!({"of": id})], ..change }]).await.unwrap();
    }
    let done = matching(vec![Condition::is("state", "done")]);
    assert_eq!(log.forget(Query { limit: Some(2), ..done.clone() }).await.unwrap(), 2);
    assert_eq!(ids(log, &matching(vec![])), ["b", "d"]);
    assert_eq!(log.forget(done).await.unwrap(), 1);
    let left: Vec<Value> = log.entries(&matching(vec![])).unwrap().into_iter().map(|one| one.document).collect();
    assert_eq!(left, [json!({"of": "b"})]);
}

fn a_process_lives_as_long_as_it_says_and_a_lock_is_held_once(log: &dyn Log, other: &dyn Log) {
    let alive = log.register("1-abc").unwrap();
    assert!(other.lives("1-abc") && !other.lives("2-def") && !other.lives("../1-abc"));
    drop(alive);
    assert!(!other.lives("1-abc"));
    let held = log.lock("machines.lock").unwrap();
    assert!(held.is_some() && other.lock("machines.lock").unwrap().is_none());
    assert!(other.lock("recovery.lock").unwrap().is_some());
    drop(held);
    assert!(other.lock("machines.lock").unwrap().is_some());
}
