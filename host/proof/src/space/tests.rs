use std::collections::HashSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use windlass_contract::Shape;
use windlass_policy::slots::{Placement, Provisioning, Release, Retry, Rollback, StateMapping};

use super::*;
use crate::slot::shapes;

fn within(slot: SlotName) -> Space {
    Space::within(slot, &[]).unwrap()
}

/// Every place of a question.
fn all_places(shape: &Shape, path: &str, places: &mut Vec<String>) {
    match shape {
        Shape::Record(fields) => {
            for (name, shape) in *fields {
                let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
                places.push(path.clone());
                all_places(shape, &path, places);
            }
        }
        Shape::Option(inner) => all_places(inner, path, places),
        Shape::List(item) => all_places(item, &format!("{path}[]"), places),
        Shape::Number { .. } | Shape::Text | Shape::Bool | Shape::Enum(_) | Shape::Variant(_) => {}
    }
}

#[test]
fn every_row_of_the_tables_names_a_place_of_the_question() {
    for slot in SlotName::ALL {
        let mut places = Vec::new();
        all_places(&shapes(slot).question, "", &mut places);
        for path in bounds::named(slot) {
            assert!(places.iter().any(|place| place == path), "{slot}: {path} is no place of the question");
        }
    }
}

/// Checks that a question of choices is the one whose fields have the names that the contract gives them.
fn is_made_by_name<S: Slot>() {
    for space in [Space::within(S::NAME, &[]).unwrap(), Space::beyond(S::NAME, &[]).unwrap()] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut choices = Vec::new();
        for _ in 0..200 {
            space.draw(&mut random, &[], false, &mut choices);
            let question: S::Question = space.question(&choices);
            let json = serde_json::to_value(&question).unwrap();
            let by_name = json_of(&space.root, &shapes(S::NAME).question, &mut choices.iter());
            assert_eq!(json, by_name, "{}", S::NAME);
        }
    }
}

/// The same question by way of the contract's names.
fn json_of(node: &Node, shape: &Shape, choices: &mut std::slice::Iter<'_, u32>) -> Json {
    let mut choice = || *choices.next().unwrap() as usize;
    match (&node.kind, shape) {
        (Kind::Bool, _) => (choice() == 1).into(),
        (Kind::FixedBool(value), _) => (*value).into(),
        (Kind::Number(values), _) => values[choice()].into(),
        (Kind::Text(values), _) => values[choice()].clone().into(),
        (Kind::Case(chosen), Shape::Enum(cases)) => cases[chosen[choice()] as usize].into(),
        (Kind::FixedCase(case), Shape::Enum(cases)) => cases[*case as usize].into(),
        (Kind::Absent, _) => Json::Null,
        (Kind::Present(inner), Shape::Option(shape)) => json_of(inner, shape, choices),
        (Kind::Option(inner), Shape::Option(shape)) => match choice() {
            0 => Json::Null,
            _ => json_of(inner, shape, choices),
        },
        (Kind::List(items), Shape::List(item)) => {
            let length = choice();
            items[..length].iter().map(|node| json_of(node, item, choices)).collect()
        }
        (Kind::FixedList(items), Shape::List(item)) => items.iter().map(|node| json_of(node, item, choices)).collect(),
        (Kind::Record(nodes), Shape::Record(fields)) => {
            let field =
                |(node, (name, shape)): (&Node, &(&str, Shape))| ((*name).into(), json_of(node, shape, choices));
            Json::Object(nodes.iter().zip(*fields).map(field).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_is_made_in_the_contracts_own_order() {
    is_made_by_name::<StateMapping>();
    is_made_by_name::<Retry>();
    is_made_by_name::<Rollback>();
    is_made_by_name::<Release>();
    is_made_by_name::<Provisioning>();
    is_made_by_name::<Placement>();
}

#[test]
fn the_release_slot_has_some_nine_million_questions() {
    assert_eq!(within(SlotName::Release).size(), 4 * 3 * 5 * 3 * 2 * 3 * 2 * 3 * 2 * (1 + 5 * 23 * 3) * 2);
}

#[test]
fn a_bound_that_cannot_be_used_is_refused_with_the_nearest_that_can() {
    let unknown = Space::within(SlotName::Retry, &[("atempt".into(), Values::Numbers(vec![1]))]).unwrap_err();
    assert!(unknown.to_string().ends_with("no `atempt`; did you mean `attempt`?"), "{unknown}");
    let class = Space::within(SlotName::Retry, &[("failure.clas".into(), Values::Example)]).unwrap_err();
    assert!(class.to_string().contains("did you mean `failure.class`?"), "{class}");
    let group = Space::within(SlotName::Provisioning, &[("groups[].name".into(), Values::Example)]).unwrap_err();
    assert!(group.to_string().contains("`groups` has no items to vary; add `--bound groups=1`"), "{group}");
    let object = Space::within(SlotName::Retry, &[("subject.object.kind".into(), Values::Example)]).unwrap_err();
    assert!(object.to_string().contains("`subject.object` is absent; add `--bound subject.object=all`"), "{object}");
    let text = Space::within(SlotName::Retry, &[("attempt".into(), Values::Texts(vec!["x".into()]))]).unwrap_err();
    assert!(text.to_string().contains("it is a number"), "{text}");
    let large = Space::within(SlotName::Retry, &[("attempt".into(), Values::Numbers(vec![1 << 40]))]).unwrap_err();
    assert!(large.to_string().contains("4294967295"), "{large}");
    let refused = |own: &[(&str, Values)]| {
        let own: Vec<_> = own.iter().map(|(path, values)| ((*path).to_owned(), values.clone())).collect();
        Space::within(SlotName::Release, &own).unwrap_err().to_string()
    };
    let items = |most: u64| ("subject.labels", Values::Numbers(vec![most]));
    for (own, problem) in [
        (vec![items(65)], "65 items are more than 64"),
        (vec![items(u64::MAX)], "more than 64"),
        (vec![items(1), items(2)], "it is bounded twice"),
        (
            vec![("subject.requester", Values::Texts(vec!["usr".into()]))],
            "usr is none of its values; did you mean `user`?",
        ),
        (vec![("machine.adopted", Values::Numbers(vec![2]))], "it is `true` or `false`"),
        (vec![("machine.adopted", Values::Absent)], "it is not optional"),
        (vec![("attempt", Values::All)], "too many values"),
        (
            vec![("subject.labels", Values::List(vec![serde_json::json!({"key": "a"})]))],
            "item 0: `key`: there is no such field",
        ),
        (
            vec![("subject.labels", Values::List(vec![serde_json::json!({"name": 1})]))],
            "item 0: `name`: 1 is not a text",
        ),
        (vec![("machine", Values::Numbers(vec![2]))], "one by one"),
    ] {
        assert!(refused(&own).contains(problem), "{}", refused(&own));
    }
}

#[test]
fn an_item_of_a_list_has_each_value_that_some_item_of_the_example_has() {
    let own = [("servers".to_owned(), Values::Items(2)), ("servers[].state".to_owned(), Values::Example)];
    let spaces = [within(SlotName::Placement), Space::within(SlotName::StateMapping, &own).unwrap()];
    let values = |path: &str| {
        let mut bounds = spaces.iter().flat_map(Space::bounds);
        bounds.find(|bound| bound.path == path).map_or("all", |bound| bound.values.as_str())
    };
    for (path, printed) in [
        ("places", "up to 2 items"),
        ("places[].server-type", "\"DEV1-S\", \"DEV1-M\""),
        ("places[].last-failure", "all"),
        ("places[].last-failure.class", "out-of-stock"),
        ("places[].failed-at", "1767225540000"),
        ("places[].price-per-hour.currency", "\"EUR\""),
        ("servers[].state", "running, stopped, starting, stopping, other"),
        ("server-types", r#"["DEV1-S","DEV1-M"]"#),
    ] {
        assert_eq!(values(path), printed, "{path}");
    }
    // With more items there are more positions to point to.
    let own = [("resources".to_owned(), Values::Items(3))];
    let bounds = Space::within(SlotName::Rollback, &own).unwrap().bounds().to_vec();
    let of = |path: &str| bounds.iter().find(|bound| bound.path == path).unwrap().values.clone();
    assert_eq!(of("resources[].attached-to"), "absent, 0, 1, 2");
    assert_eq!(of("resources[].id").matches(',').count(), 2, "{}", of("resources[].id"));
}

#[test]
fn chosen_cases_of_an_enum_are_all_that_is_asked_about() {
    let chosen = "absent, sweep, user".parse().unwrap();
    let space = Space::within(SlotName::Release, &[("subject.requester".to_owned(), chosen)]).unwrap();
    assert!(space.bounds().iter().any(|it| it.path == "subject.requester" && it.values == "absent, sweep, user"));
    let (mut seen, mut choices) = (HashSet::new(), Vec::new());
    for number in 0..space.size().min(2_000_000) {
        space.enumerate(number, &mut choices);
        if number % 997 == 0 {
            let question: windlass_policy::slots::release::Question = space.question(&choices);
            seen.insert(question.subject.requester.map(|requester| format!("{requester:?}")));
        }
    }
    assert_eq!(seen, HashSet::from([None, Some("Sweep".to_owned()), Some("User".to_owned())]));
}

#[test]
fn what_is_full_has_everything_that_can_be_there() {
    let full = within(SlotName::Release).full();
    assert!(full["refusal"]["failure"]["class"].is_string(), "{full}");
    assert!(full["requested"].is_string());
}

#[test]
fn the_bounds_that_are_printed_are_read_as_the_same_bounds() {
    for slot in SlotName::ALL {
        for space_of in [Space::within, Space::beyond] {
            let space = space_of(slot, &[]).unwrap();
            let read = |bound: &Bound| {
                let values = bound.values.parse().unwrap_or_else(|problem| panic!("{bound:?}: {problem}"));
                (bound.path.clone(), values)
            };
            let printed: Vec<_> = space.bounds().iter().map(read).collect();
            let alone = printed.iter().map(std::slice::from_ref);
            for own in alone.chain([&printed[..]]) {
                let again = space_of(slot, own).unwrap_or_else(|error| panic!("{slot}: {error}"));
                for (path, _) in own {
                    let of = |space: &Space| space.bounds().iter().find(|bound| bound.path == *path).cloned();
                    assert_eq!(of(&again), of(&space), "{slot}");
                }
                if own.len() == printed.len() {
                    assert_eq!((again.bounds(), again.size()), (space.bounds(), space.size()), "{slot}");
                }
            }
        }
    }
}

#[test]
fn bounds_are_read_as_people_write_them() {
    let texts = |texts: &[&str]| Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    for (written, read) in [
        ("1,2, 3", Values::Numbers(vec![1, 2, 3])),
        ("absent", Values::Absent),
        ("absent, present", Values::All),
        ("absent,0", Values::OrAbsent(Box::new(Values::Numbers(vec![0])))),
        ("a, b", texts(&["a", "b"])),
        ("\"a, \\\"b\\\"\", \"\", 3", texts(&["a, \"b\"", "", "3"])),
        ("\"example\"", texts(&["example"])),
        ("up to 1 item", Values::Items(1)),
        ("up to 12 items", Values::Items(12)),
        ("[]", Values::List(Vec::new())),
        ("each its own: \"a\", b", Values::EachItsOwn(vec!["a".into(), "b".into()])),
    ] {
        assert_eq!(written.parse(), Ok(read), "{written}");
    }
    for (written, problem) in [
        ("", "no values"),
        ("absent,", "no values"),
        ("\"a", "EOF"),
        ("\"a\" b", "a comma is missing before b"),
        ("[1", "no JSON list"),
    ] {
        let error = written.parse::<Values>().unwrap_err();
        assert!(error.contains(problem), "{written}: {error}");
    }
}
