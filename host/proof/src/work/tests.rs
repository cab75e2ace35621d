//! What is asked is what the printed bounds say: their product, made here in a straightforward way of nothing but their
//! words and the contract, without what no host can ask.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value as Json};
use windlass_contract::Shape;
use windlass_policy::slots::{Placement, Provisioning, Release, Retry, Rollback, SlotName, StateMapping};

use super::*;
use crate::slot::shapes;
use crate::space::{Bound, Values};

/// The values of a place, as its printed bounds say.
enum Printed {
    These(Vec<Json>),
    Record(Vec<(&'static str, Printed)>),
    Optional(Box<Printed>),
    /// Lists of every length up to that of the list.
    UpTo(Vec<Printed>),
}

impl Printed {
    fn of(shape: &Shape, path: &str, position: usize, bounds: &[Bound]) -> Printed {
        let words = bounds.iter().find(|bound| bound.path == path).map(|bound| bound.values.as_str());
        let Shape::Option(inner) = shape else { return Printed::there(shape, path, words, position, bounds) };
        let there = |words| Printed::there(inner, path, words, position, bounds);
        match words {
            Some("absent") => Printed::These(vec![Json::Null]),
            Some("present") => there(None),
            Some(words) => match words.strip_prefix("absent, ") {
                Some(words) => Printed::Optional(Box::new(there(Some(words)))),
                None => there(Some(words)),
            },
            None => Printed::Optional(Box::new(there(None))),
        }
    }

    fn there(shape: &Shape, path: &str, words: Option<&str>, position: usize, bounds: &[Bound]) -> Printed {
        let json = |words: &str| -> Vec<Json> {
            serde_json::from_str(&format!("[{words}]")).unwrap_or_else(|error| panic!("{path} = {words}: {error}"))
        };
        match (shape, words) {
            (Shape::Record(fields), None) => {
                let field = |(name, shape): &(&'static str, Shape)| {
                    let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
                    (*name, Printed::of(shape, &path, position, bounds))
                };
                Printed::Record(fields.iter().map(field).collect())
            }
            (Shape::List(item), Some(words)) => match words.strip_prefix("up to ") {
                Some(words) => {
                    let most: usize = words.split(' ').next().unwrap().parse().unwrap();
                    let path = format!("{path}[]");
                    Printed::UpTo((0..most).map(|position| Printed::of(item, &path, position, bounds)).collect())
                }
                None => Printed::These(json(words)),
            },
            (Shape::Bool, None) => Printed::These(vec![false.into(), true.into()]),
            (Shape::Enum(cases), None) => Printed::These(cases.iter().map(|case| (*case).into()).collect()),
            (Shape::Enum(_), Some(words)) => Printed::These(words.split(", ").map(Json::from).collect()),
            (Shape::Bool | Shape::Number { .. } | Shape::Text, Some(words)) => {
                Printed::These(match words.strip_prefix("each its own: ") {
                    Some(words) => vec![json(words)[position].clone()],
                    None => json(words),
                })
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Printed::These(values) => values.len() as u64,
            Printed::Record(fields) => fields.iter().map(|(_, field)| field.count()).product(),
            Printed::Optional(inner) => 1 + inner.count(),
            Printed::UpTo(items) => {
                (0..=items.len()).map(|length| items[..length].iter().map(Printed::count).product::<u64>()).sum()
            }
        }
    }

    fn all(&self) -> Vec<Json> {
        match self {
            Printed::These(values) => values.clone(),
            Printed::Record(fields) => {
                let mut records = vec![Map::new()];
                for (name, field) in fields {
                    let values = field.all();
                    let with = |record: &Map<String, Json>, value: &Json| {
                        let mut record = record.clone();
                        record.insert((*name).to_owned(), value.clone());
                        record
                    };
                    records = records.iter().flat_map(|it| values.iter().map(|value| with(it, value))).collect();
                }
                records.into_iter().map(Json::Object).collect()
            }
            Printed::Optional(inner) => std::iter::once(Json::Null).chain(inner.all()).collect(),
            Printed::UpTo(items) => {
                let mut lists = vec![Vec::new()];
                let mut longest = lists.clone();
                for item in items {
                    let values = item.all();
                    let with = |list: &Vec<Json>, value: &Json| [&list[..], std::slice::from_ref(value)].concat();
                    longest = longest.iter().flat_map(|it| values.iter().map(|value| with(it, value))).collect();
                    lists.extend(longest.clone());
                }
                lists.into_iter().map(Json::Array).collect()
            }
        }
    }
}

fn printed(slot: SlotName, space: &Space) -> Printed {
    Printed::of(&shapes(slot).question, "", 0, space.bounds())
}

/// Whether a host can ask this, as the contract says it.
fn can_be_asked(slot: SlotName, question: &Json) -> bool {
    let list = |name: &str| question[name].as_array().unwrap().clone();
    let are_different = |keys: Vec<String>| keys.iter().collect::<BTreeSet<_>>().len() == keys.len();
    match slot {
        SlotName::StateMapping => {
            let (types, tags) = (list("server-types").len() as u64, list("watched-tags").len());
            list("servers").iter().all(|server| {
                server["server-type"].as_u64().unwrap() < types
                    && (tags..64).all(|tag| server["watched-tags"].as_u64().unwrap() & (1 << tag) == 0)
            })
        }
        SlotName::Rollback => {
            let resources = list("resources");
            let is_server = |of: &Json| of["kind"].as_str().unwrap().ends_with("server");
            question["cause"].is_null() == question["failed-step"].is_null()
                && resources.iter().all(|it| match it["attached-to"].as_u64() {
                    None => true,
                    Some(position) => !is_server(it) && resources.get(position as usize).is_some_and(is_server),
                })
        }
        SlotName::Placement => {
            are_different(list("places").iter().map(|it| format!("{} {}", it["zone"], it["server-type"])).collect())
        }
        SlotName::Retry | SlotName::Release | SlotName::Provisioning => true,
    }
}

#[derive(Default)]
struct Questions(Vec<(u64, Json)>);

impl Tally for Questions {
    fn empty(&self) -> Questions {
        Questions::default()
    }

    fn merge(&mut self, other: Questions) {
        self.0.extend(other.0);
    }
}

/// What is really asked, and how much that is said to be.
fn asked<S: ProvedSlot>(plan: &Plan<'_>) -> (Vec<(u64, Json)>, Asked) {
    let look = |number, question: &S::Question, questions: &mut Questions| {
        questions.0.push((number, serde_json::to_value(question).unwrap()));
        Ok::<(), ()>(())
    };
    let threads = NonZeroUsize::new(2).unwrap();
    let progress = Progress::default();
    let (questions, asked) =
        run::<S, _, _>(plan, threads, &progress, &AtomicBool::new(false), Questions::default(), look).unwrap();
    assert_eq!(progress.now(), (plan.size(), plan.size()));
    (questions.0, asked)
}

fn texts(texts: &[&str]) -> Values {
    Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
}

fn number(number: u64) -> Values {
    Values::Numbers(vec![number])
}

fn or_absent(values: Values) -> Values {
    Values::OrAbsent(Box::new(values))
}

fn owned(own: Vec<(&str, Values)>) -> Vec<(String, Values)> {
    own.into_iter().map(|(path, values)| (path.to_owned(), values)).collect()
}

fn asks_what_it_prints<S: ProvedSlot>(own: Vec<(&str, Values)>) {
    let space = Space::within(S::NAME, &owned(own)).unwrap();
    let all = printed(S::NAME, &space).all();
    assert_eq!(space.size(), all.len() as u64, "{}: {:#?}", S::NAME, space.bounds());
    assert!((100..20_000).contains(&all.len()), "{}: {}", S::NAME, all.len());
    let possible: BTreeSet<String> =
        all.iter().filter(|question| can_be_asked(S::NAME, question)).map(Json::to_string).collect();
    let plan = Plan::new::<S>(&space, &space, u64::MAX, 0, 0, &Progress::default());
    let (questions, asked) = asked::<S>(&plan);
    let said = PartAsked { questions: possible.len() as u64, impossible: (all.len() - possible.len()) as u64 };
    assert_eq!(asked, Asked { within: said, ..Asked::default() }, "{}", S::NAME);
    let texts: BTreeSet<String> = questions.iter().map(|(_, question)| question.to_string()).collect();
    assert_eq!(texts.len(), questions.len(), "{}: a question is asked twice", S::NAME);
    let difference: Vec<_> = texts.symmetric_difference(&possible).take(3).collect();
    assert!(difference.is_empty(), "{}: asked and not printed, or printed and not asked: {difference:#?}", S::NAME);
}

#[test]
fn what_is_asked_is_the_product_of_the_printed_bounds() {
    asks_what_it_prints::<Retry>(vec![
        ("random", number(0)),
        ("elapsed", number(7)),
        ("failure.class", texts(&["timeout", "out-of-stock"])),
        ("subject.object", Values::All),
        ("subject.requester", or_absent(texts(&["sweep", "user", "sweep"]))),
        ("failure.error-type", or_absent(texts(&["a, b", "\"\u{fc}"]))),
    ]);
    asks_what_it_prints::<Release>(vec![
        ("trigger", Values::Example),
        ("machine.kind", Values::Example),
        ("machine.bootstrap-failures", number(0)),
        ("machine.rebooted", Values::Example),
        ("machine.activity.node-ready", Values::All),
        ("refusal.action", texts(&["reboot"])),
        ("refusal.failure.class", Values::Example),
        ("subject.labels", number(1)),
        ("subject.labels[].name", texts(&["a", "b"])),
    ]);
    asks_what_it_prints::<Provisioning>(vec![
        ("operation", Values::Example),
        ("stage", Values::Example),
        ("cause.class", Values::Example),
        ("nodes[].decommissioned", Values::Example),
        ("groups", number(1)),
        ("groups[].wanted", Values::Numbers(vec![0, 3])),
    ]);
}

#[test]
fn every_item_of_a_list_has_the_printed_values() {
    asks_what_it_prints::<Placement>(vec![
        ("wanted", number(2)),
        ("places[].servers", number(0)),
        ("places[].failures", Values::Example),
        ("places[].backoff-until", Values::Example),
        ("places[].price-per-hour", Values::Example),
    ]);
    asks_what_it_prints::<Rollback>(vec![
        ("cause.class", Values::Example),
        ("operation", Values::Example),
        ("resources[].kind", texts(&["server", "ip", "block-volume"])),
        ("resources[].evidence", Values::Example),
    ]);
    asks_what_it_prints::<Rollback>(vec![
        ("cause.class", Values::Example),
        ("operation", Values::Example),
        ("resources", number(3)),
        ("resources[].kind", texts(&["server", "ip"])),
        ("resources[].evidence", Values::Example),
        ("resources[].owned", Values::Example),
        ("resources[].state", texts(&["stopped"])),
    ]);
    asks_what_it_prints::<Provisioning>(vec![
        ("operation", Values::Example),
        ("stage", Values::Example),
        ("cause.class", Values::Example),
        ("nodes", number(3)),
        ("nodes[].decommissioned", Values::Example),
    ]);
    asks_what_it_prints::<StateMapping>(vec![
        ("servers", number(2)),
        ("servers[].state", texts(&["running", "stopped"])),
        ("servers[].detail", texts(&["none", "booted"])),
        ("servers[].age", number(0)),
        ("servers[].state-age", number(0)),
        ("servers[].in-flight", texts(&["none"])),
        ("servers[].suspended", Values::Example),
        ("servers[].has-run", Values::Example),
        ("servers[].watched-tags", Values::Numbers(vec![0, 1, 2])),
        ("servers[].unused-for", Values::Example),
    ]);
}

#[test]
fn there_are_as_many_combinations_as_the_printed_bounds_have() {
    for slot in SlotName::ALL {
        let space = Space::within(slot, &[]).unwrap();
        assert_eq!(space.size(), printed(slot, &space).count(), "{slot}: {:#?}", space.bounds());
    }
}

/// Bounds every place with the example's values that has none of its own.
fn example_for_the_rest(shape: &Shape, example: &Json, path: &str, own: &mut Vec<(String, Values)>) {
    let is_bounded = own.iter().any(|(known, _)| known == path);
    match shape {
        Shape::Record(fields) => {
            for (name, shape) in *fields {
                let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
                example_for_the_rest(shape, &example[*name], &path, own);
            }
        }
        Shape::List(item) if is_bounded => example_for_the_rest(item, &example[0], &format!("{path}[]"), own),
        Shape::Option(Shape::Record(fields)) if !example.is_null() => {
            own.push((path.to_owned(), Values::Example));
            example_for_the_rest(&Shape::Record(fields), example, path, own);
        }
        _ if is_bounded => {}
        _ => own.push((path.to_owned(), Values::Example)),
    }
}

/// What is so in a question: the values of its places, what is there, how long its lists are.
fn facts(json: &Json, path: &str, found: &mut Vec<String>) {
    match json {
        Json::Object(fields) => {
            found.push(format!("{path} is there"));
            fields.iter().for_each(|(name, value)| facts(value, &format!("{path}.{name}"), found));
        }
        Json::Array(items) => {
            found.push(format!("{path} has {}", items.len()));
            items.iter().enumerate().for_each(|(position, item)| facts(item, &format!("{path}[{position}]"), found));
        }
        value => found.push(format!("{path} = {value}")),
    }
}

/// The numbers of facts, so that pairs of them are quickly compared.
#[derive(Default)]
struct Facts(BTreeMap<String, usize>);

impl Facts {
    fn of(&mut self, question: &Json) -> Vec<usize> {
        let mut found = Vec::new();
        facts(question, "", &mut found);
        let count = self.0.len();
        found.into_iter().enumerate().map(|(next, fact)| *self.0.entry(fact).or_insert(count + next)).collect()
    }

    /// Every two facts that come together in one of the questions.
    fn pairs<'q>(&mut self, questions: impl Iterator<Item = &'q Json>) -> HashSet<(usize, usize)> {
        let mut pairs = HashSet::new();
        for question in questions {
            let mut found = self.of(question);
            found.sort_unstable();
            pairs.extend(found.iter().enumerate().flat_map(|(at, one)| found[..at].iter().map(|other| (*other, *one))));
        }
        pairs
    }

    fn name(&self, number: usize) -> &str {
        self.0.iter().find(|(_, known)| **known == number).map_or("", |(name, _)| name)
    }
}

fn asks_every_pair<S: ProvedSlot>(own: Vec<(&str, Values)>) {
    let mut own = owned(own);
    example_for_the_rest(&shapes(S::NAME).question, &S::NAME.example_question(), "", &mut own);
    let space = Space::beyond(S::NAME, &own).unwrap();
    let all = printed(S::NAME, &space).all();
    assert!((100..20_000).contains(&all.len()), "{}: {}", S::NAME, all.len());
    let possible: Vec<&Json> = all.iter().filter(|question| can_be_asked(S::NAME, question)).collect();
    let plan = Plan::new::<S>(&space, &space, 0, 1, 0, &Progress::default());
    let (questions, asked) = asked::<S>(&plan);
    assert_eq!(asked.pairs.questions + 1, questions.len() as u64);
    let texts: BTreeSet<String> = possible.iter().map(|question| question.to_string()).collect();
    assert!(questions.iter().all(|(_, question)| texts.contains(&question.to_string())));
    let mut facts = Facts::default();
    let (wanted, had) = (facts.pairs(possible.into_iter()), facts.pairs(questions.iter().map(|(_, it)| it)));
    let missing: Vec<_> =
        wanted.difference(&had).take(5).map(|(one, other)| (facts.name(*one), facts.name(*other))).collect();
    assert!(missing.is_empty(), "{}: {missing:#?}", S::NAME);
}

#[test]
fn every_two_values_that_a_host_can_ask_together_are_asked() {
    asks_every_pair::<Rollback>(vec![
        ("resources", Values::Items(3)),
        ("resources[].id", texts(&["an id"])),
        ("resources[].name", texts(&["a name"])),
        ("resources[].kind", texts(&["server", "ip"])),
        ("resources[].attached-to", or_absent(Values::Numbers(vec![0, 1, 2]))),
    ]);
    asks_every_pair::<Placement>(vec![
        ("places", Values::Items(2)),
        ("places[].zone", texts(&["fr-par-1", "fr-par-2"])),
        ("places[].server-type", texts(&["DEV1-S", "DEV1-M"])),
        ("places[].servers", number(1)),
        ("places[].creating", number(0)),
        ("places[].failures", number(1)),
    ]);
    asks_every_pair::<Release>(vec![
        ("requested", or_absent(texts(&["keep", "terminate"]))),
        ("machine.adopted", Values::All),
        ("machine.kind", texts(&["instance", "other"])),
        ("trigger", texts(&["released", "reclaim"])),
        ("attempt", Values::Numbers(vec![1, 2, 3])),
        ("machine.price-per-hour", Values::All),
        ("machine.price-per-hour.micros", Values::Numbers(vec![1, 2])),
    ]);
}

/// Draws questions with these bounds, and says how long the longest list of each part is.
fn draws<S: ProvedSlot>(own: Vec<(&str, Values)>, pairs: usize) -> [usize; 3] {
    let own = owned(own);
    let (within, beyond) = (Space::within(S::NAME, &own).unwrap(), Space::beyond(S::NAME, &own).unwrap());
    let mut plan = Plan::new::<S>(&within, &beyond, 700, 1, 1, &Progress::default());
    let every = plan.pairs.len().checked_div(pairs).unwrap_or(usize::MAX).max(1);
    plan.pairs = std::mem::take(&mut plan.pairs).into_iter().step_by(every).take(pairs).collect();
    let plan = Plan { random: 300, impossible_pairs: 0, ..plan };
    let (questions, asked) = asked::<S>(&plan);
    assert!(questions.iter().all(|(_, question)| can_be_asked(S::NAME, question)), "{}", S::NAME);
    let of = |questions| PartAsked { questions, impossible: 0 };
    assert_eq!((asked.within, asked.random), (of(700), of(300)), "{}", S::NAME);
    assert!(asked.pairs.questions >= pairs as u64 * 9 / 10, "{}: {asked:?}", S::NAME);
    assert_eq!(questions.len() as u64, asked.all());
    let mut longest = [0; 3];
    // A question is found again by its number.
    for (number, question) in questions {
        let length = question[S::ITEMS].as_array().map_or(0, Vec::len);
        let part = plan.part(number) as usize;
        longest[part] = longest[part].max(length);
        let again = plan.question::<S>(number, &mut Vec::new()).unwrap();
        assert_eq!(serde_json::to_value(again).unwrap(), question, "{}", S::NAME);
    }
    longest
}

#[test]
fn what_no_host_can_ask_is_drawn_again_until_there_are_as_many_as_were_wanted() {
    draws::<Rollback>(Vec::new(), 0);
    draws::<StateMapping>(Vec::new(), 0);
    draws::<Placement>(Vec::new(), 0);
}

#[test]
fn lists_of_32_items_are_asked_in_every_part() {
    let many: Vec<String> = (0..12).map(|number| format!("v{number}")).collect();
    let longest = [
        draws::<Rollback>(
            vec![("resources", number(32)), ("resources[].attached-to", or_absent(Values::Numbers(vec![0, 7, 31])))],
            500,
        ),
        draws::<StateMapping>(
            vec![("servers", number(32)), ("servers[].watched-tags", Values::Numbers(vec![0, 1, 1 << 40]))],
            500,
        ),
        draws::<Placement>(
            vec![
                ("places", number(32)),
                ("places[].zone", Values::Texts(many.clone())),
                ("places[].server-type", Values::Texts(many)),
            ],
            500,
        ),
    ];
    assert_eq!(longest, [[32; 3]; 3]);
}

#[test]
fn of_too_many_pairs_a_part_is_tried_and_the_rest_is_counted() {
    let space = Space::beyond(SlotName::Rollback, &owned(vec![("resources", number(32))])).unwrap();
    let pairs = space.pairs(&mut ChaCha8Rng::seed_from_u64(0), &mut |_| true);
    assert!((200_000..=260_000).contains(&pairs.tried.len()) && pairs.untried > 1_000_000, "{}", pairs.untried);
    let few = Space::beyond(SlotName::Rollback, &[]).unwrap();
    assert_eq!(few.pairs(&mut ChaCha8Rng::seed_from_u64(0), &mut |_| true).untried, 0);
}
