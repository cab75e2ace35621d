//! Whose machine a question is about: as the journal, the labels of who asks, and the tags at Scaleway say.

use serde_json::{Value, json};
use windlass_lifecycle::{Asking, Control, RequestedBy, Requester, Target};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::types::Label;
use windlass_policy::{DecisionFilter, Host, Link, Policies};
use windlass_simulator::{FaultKind, FaultRule};

use crate::support::{World, host_in, run};

/// What the last question to a slot was about.
fn last_of(host: &Host, slot: SlotName) -> Value {
    host.flush_decisions();
    let log = host.decisions().unwrap();
    let mut filter = DecisionFilter::default();
    (filter.slot, filter.limit) = (Some(slot), 1);
    let last = log.list(&filter).unwrap().decisions.remove(0);
    log.show(&last.id.to_string()).unwrap().question
}

fn object() -> Requester {
    let text = str::to_owned;
    let (kind, namespace, name) = (text("InstanceMachine"), text("team-a"), text("builder"));
    Requester::Object { kind, namespace, name, uid: text("uid") }
}

#[test]
fn every_question_tells_whose_machine_it_is_and_who_asks() {
    run(async {
        let world = World::new(8).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let defers = b"slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"defer\"\n".to_vec();
        let rules = Link::contents(std::path::Path::new("it.rules.toml"), defers);
        let policies = Policies::built_in().with_labels(["team", "cost", "debug"]).with(SlotName::Release, rules);
        host.configure(&policies).unwrap();
        let lifecycle = world.start_under(host.clone());
        let mut specification = world.everything();
        specification.tags =
            ["team=of-the-tag", "cost=17", "debug", "secret=none-of-their-business"].map(Into::into).into();
        let asks = RequestedBy::new(object(), "it is wanted").labelled(vec![Label::new("team", "build")]);
        specification.requested_by = asks;
        let labels = json!([
            {"name": "team", "value": "build"}, {"name": "cost", "value": "17"}, {"name": "debug", "value": ""},
        ]);
        let object = json!({"kind": "InstanceMachine", "namespace": "team-a", "name": "builder"});

        // While it is made, of the object that asks.
        world.simulator.add_fault(FaultRule::new("POST", "/**/action", FaultKind::InternalServerError).nth(1)).unwrap();
        let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
        let subject = last_of(&host, SlotName::Retry)["subject"].take();
        assert_eq!(subject["object"], object);
        assert_eq!(subject["labels"], labels);
        assert_eq!((&subject["group"], &subject["owner"]), (&json!("ci"), &json!(lifecycle.owner().to_string())));
        assert_eq!((&subject["requester"], &subject["why"]), (&json!("object"), &json!("it is wanted")));
        assert_eq!((&subject["project"], &subject["cluster"]), (&Value::Null, &Value::Null), "no default is known");

        // Whoever removes it: whose it is, the journal knows.
        let target = Target::Operation(created.operation.clone());
        let by = RequestedBy::new(Requester::User { command: "server delete".to_owned() }, "");
        lifecycle.release(target.released_by(by, Asking::default()), &Control::new()).await.unwrap();
        for slot in [SlotName::Release, SlotName::Rollback] {
            let question = last_of(&host, slot);
            let subject = &question["subject"];
            assert_eq!((&subject["object"], &subject["labels"]), (&object, &labels), "{slot}");
            assert_eq!((&subject["requester"], &subject["why"]), (&json!("user"), &Value::Null), "{slot}");
        }
        assert!(last_of(&host, SlotName::Release)["subject"]["project"].is_string(), "the server says it");
        let machine = last_of(&host, SlotName::Release)["machine"].take();
        assert_eq!(machine["price-per-hour"]["currency"], "EUR", "{machine}");
        assert_eq!(machine["activity"]["last-used"], Value::Null);
    });
}

#[test]
fn a_label_that_was_taken_from_the_object_does_not_come_back() {
    run(async {
        let world = World::new(8).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        host.configure(&Policies::built_in().with_labels(["keep-until", "team"])).unwrap();
        let lifecycle = world.start_under(host.clone());
        let mut specification = world.everything();
        specification.tags = ["team=build".to_owned()].into();
        let marked = vec![Label::new("keep-until", "2026-12-01")];
        specification.requested_by = RequestedBy::new(object(), "").labelled(marked);
        let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();

        let target = Target::Operation(created.operation);
        let by_the_object = RequestedBy::new(object(), "it is deleted");
        lifecycle.release(target.released_by(by_the_object, Asking::default()), &Control::new()).await.unwrap();
        let subject = last_of(&host, SlotName::Release)["subject"].take();
        assert_eq!(subject["object"]["name"], "builder");
        assert_eq!(subject["labels"], json!([{"name": "team", "value": "build"}]));
    });
}
