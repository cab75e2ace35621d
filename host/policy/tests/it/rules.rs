//! Files of rules where policies go: what they decide, what refuses them, how they are replaced, limited and replayed.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_policy::slots::{
    Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping, placement, provisioning, release,
    retry, rollback, state_mapping, types,
};
use windlass_policy::{
    DecidedBy, Decision, Error, FailureKind, Host, HostOptions, Link, LinkRecord, Mode, Policies, Refusal, Replay,
    ReplayAgainst, RulesFile,
};

use crate::support::{State, run};

/// A host whose policies are files in a folder.
struct Ruled {
    state: State,
    files: tempfile::TempDir,
    host: Host,
}

impl Ruled {
    /// These rules for a slot.
    fn new(slot: SlotName, rules: &str) -> Ruled {
        let ruled = Ruled::without();
        ruled.write(rules);
        ruled.host.configure(&Policies::built_in().with(slot, Link::file("the.rules.toml"))).unwrap();
        ruled
    }

    fn without() -> Ruled {
        let state = State::new();
        let files = tempfile::tempdir().unwrap();
        let host = Host::new(options(&state, files.path())).unwrap();
        Ruled { state, files, host }
    }

    fn write(&self, rules: &str) {
        fs::write(self.files.path().join("the.rules.toml"), rules).unwrap();
    }

    fn decide<S: Slot>(&self, question: S::Question) -> Decision<S> {
        run(self.host.pin().decide::<S>(question))
    }
}

fn options(state: &State, folder: &Path) -> HostOptions {
    let mut options = state.options();
    options.policy_folder = folder.into();
    options
}

/// One rule for `retry`, which waits so long.
fn waiting(when: &str, ms: u64) -> String {
    format!("slot = \"retry\"\n[[rules]]\nname = \"patience\"\nwhen = \"\"\"{when}\"\"\"\nanswer = {{ wait = {ms} }}\n")
}

fn refusal(slot: SlotName, rules: &str) -> String {
    let state = State::new();
    state.host().load(slot, &Link::contents(Path::new("the.rules.toml"), rules.as_bytes())).unwrap_err().to_string()
}

fn is_decided_by_rules<S: Slot>(decision: &Decision<S>) -> bool {
    match &decision.decided_by {
        DecidedBy::Policy(identity) => identity.are_rules(),
        DecidedBy::Keep => false,
    }
}

#[test]
fn a_file_of_rules_decides_where_a_policy_goes_and_the_default_where_no_rule_applies() {
    let ruled = Ruled::new(SlotName::Retry, &waiting("failure.class == 'server-error' && attempt < 3", 1234));
    let first = ruled.decide::<Retry>(Retry::example());
    assert_eq!(first.answer.verdict, retry::Verdict::Wait(1234));
    assert!(is_decided_by_rules(&first) && first.fallbacks.is_empty(), "{first:?}");
    let third = ruled.decide::<Retry>(retry::Question { attempt: 3, ..Retry::example() });
    assert!(!is_decided_by_rules(&third) && third.fallbacks.is_empty(), "{third:?}");
    let link = ruled.host.status().links.into_iter().find(|link| link.slot == SlotName::Retry).unwrap();
    assert!(link.source.ends_with("the.rules.toml"), "{link:?}");
}

#[test]
fn rules_are_identified_by_what_they_say_and_not_by_how_it_is_written() {
    let ruled = Ruled::new(SlotName::Retry, &waiting("attempt < 3", 1));
    let identity = || ruled.host.pin().chain(SlotName::Retry)[0].clone();
    let before = identity();
    ruled.write(&format!("# The same.\n\n{}", waiting("attempt < 3", 1)));
    assert!(ruled.host.reload().swapped.is_empty());
    assert_eq!(identity(), before);
    ruled.write(&waiting("attempt < 4", 1));
    assert_eq!(ruled.host.reload().swapped.len(), 1);
    assert_eq!(identity().component, before.component);
    assert_ne!(identity().settings, before.settings);
}

#[test]
fn changed_rules_are_swapped_in_and_wrong_ones_change_nothing() {
    let ruled = Ruled::new(SlotName::Retry, &waiting("true", 1));
    ruled.write(&waiting("failure.clas == 'other'", 2));
    let reload = ruled.host.reload();
    let error = reload.errors[0].to_string();
    let expected = "line 4, rule 1 (`patience`): `when`: `failure` has no field `clas`; did you mean `class`?";
    assert!(error.contains(expected), "{error}");
    assert_eq!(ruled.decide::<Retry>(Retry::example()).answer.verdict, retry::Verdict::Wait(1));
    ruled.write(&waiting("failure.class != 'other'", 2));
    assert_eq!(ruled.host.reload().swapped.len(), 1);
    assert_eq!(ruled.decide::<Retry>(Retry::example()).answer.verdict, retry::Verdict::Wait(2));
}

#[test]
fn an_operation_ends_under_the_rules_with_which_it_began_also_in_another_process() {
    let ruled = Ruled::new(SlotName::Retry, &waiting("true", 1));
    let began = ruled.host.pin().identities();
    ruled.write(&waiting("true", 2));
    drop(ruled.host);
    let host = Host::new(options(&ruled.state, ruled.files.path())).unwrap();
    let decision = run(host.pinned(&began).decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1));
}

#[test]
fn a_decision_by_rules_can_be_replayed() {
    let ruled = Ruled::new(SlotName::Retry, &waiting("true", 7));
    let decision = ruled.decide::<Retry>(Retry::example());
    let record = ruled.host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let replayed = run(ruled.host.replay(&record, &ReplayAgainst::TheSame));
    assert!(matches!(replayed, Ok(Replay { same: true, .. })), "{replayed:?}");
}

/// The rules on a decision's record: of each policy that was asked, the names, and the items about which they answered.
fn on_record<S: Slot>(ruled: &Ruled, decision: &Decision<S>) -> Vec<Vec<(String, Vec<u32>)>> {
    let record = ruled.host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let rules = |link: &LinkRecord| link.rules.iter().map(|it| (it.rule.to_string(), it.items.clone())).collect();
    record.asked.iter().map(rules).collect()
}

#[test]
fn the_record_of_a_decision_names_the_rule_that_answered() {
    let rules = "slot = \"retry\"\n\
        [[rules]]\nname = \"patience\"\nwhen = \"attempt == 1\"\nanswer = { wait = 5 }\n\
        [[rules]]\nwhen = \"attempt == 2\"\nanswer = \"defer\"\n";
    let ruled = Ruled::new(SlotName::Retry, rules);
    for (attempt, name) in [(1, Some("patience")), (2, Some("rule 2")), (3, None)] {
        let decision = ruled.decide::<Retry>(retry::Question { attempt, ..Retry::example() });
        let rules: Vec<(String, Vec<u32>)> = name.map(|name: &str| (name.to_owned(), vec![])).into_iter().collect();
        assert_eq!(on_record(&ruled, &decision)[0], rules, "{attempt}");
        assert!(on_record(&ruled, &decision).iter().skip(1).all(Vec::is_empty), "no other policy has any");
    }
}

#[test]
fn the_record_names_the_rule_of_each_server_also_where_another_policy_decided_some_before() {
    let rule = |name: &str, state: &str| {
        format!(
            "[[rules]]\nname = \"{name}\"\nwhen = \"server.state == '{state}'\"\n\
             answer = {{ mapped = {{ report = \"none\", action = \"none\" }} }}\n"
        )
    };
    let ruled = Ruled::without();
    let file = |name: &str, rules: &[String]| {
        fs::write(ruled.files.path().join(name), format!("slot = \"state-mapping\"\n{}", rules.concat())).unwrap();
    };
    file("first.rules.toml", &[rule("locked", "locked"), rule("stopped", "stopped")]);
    file("second.rules.toml", &[rule("starting", "starting"), rule("others", "other")]);
    let both = ["first.rules.toml", "second.rules.toml"]
        .into_iter()
        .fold(Policies::built_in(), |policies, file| policies.with(SlotName::StateMapping, Link::file(file)));
    ruled.host.configure(&both).unwrap();
    // Running, stopped, stopped, starting, stopping, other.
    let decision = ruled.decide::<StateMapping>(StateMapping::example());
    let expected = [
        vec![("stopped".to_owned(), vec![1, 2])],
        vec![("starting".to_owned(), vec![3]), ("others".to_owned(), vec![5])],
        vec![],
    ];
    assert_eq!(on_record(&ruled, &decision), expected);
}

#[test]
fn a_shadow_made_of_rules_names_the_rule_that_would_have_answered() {
    let ruled = Ruled::without();
    ruled.write(&waiting("attempt == 1", 5));
    let link = Link { mode: Mode::Shadow, ..Link::file("the.rules.toml") };
    ruled.host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let decision = ruled.decide::<Retry>(Retry::example());
    let record = ruled.host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert_eq!(&*record.shadows[0].asked.rules[0].rule, "patience");
}

#[test]
fn rules_that_never_answer_and_failed_examples_are_told_and_refuse_nothing() {
    let load = |rules: &str| {
        let state = State::new();
        let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes());
        state.host().load(SlotName::Retry, &link).unwrap()
    };
    let [one, other] = ["attempt < 9", "attempt < 3"].map(|when| waiting(when, 1));
    let rules = format!("{one}{}", other.replace("slot = \"retry\"\n", "").replace("patience", "haste"));
    let remark = "line 8, rule 2 (`haste`): `when`: rule 1 (`patience`) answers first whenever it is true";
    let policy = load(&rules);
    assert!(policy.remarks().len() == 1 && policy.remarks()[0].starts_with(remark), "{:?}", policy.remarks());
    let divides = load(&waiting("10 / (attempt - 1) > 1", 1));
    let failed = divides.failed_example().unwrap_or_default();
    assert!(failed.starts_with("rule 1 (`patience`): `when` cannot be evaluated: Division by zero"), "{failed}");
    let fine = load(&waiting("attempt < 3", 1));
    assert!(fine.remarks().is_empty() && fine.failed_example().is_none());
}

#[test]
fn all_that_is_wrong_with_a_file_of_rules_is_told_at_once() {
    let rules = "slot = \"retry\"\nslots = 1\n\
        [[rules]]\nwhen = \"atempt > 1 || undoin\"\nanswer = \"giveup\"\n\
        [[rules]]\nwhen = \"undoing and attempt > 1\"\nreasn = \"x\"\nanswer = \"wait\"\n\
        [[rules]]\nwhen = \"true\"\nanswer = \"give-up\"\n";
    let state = State::new();
    let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes());
    let Err(Error::Refused { refusal: Refusal::Rules(problems), .. }) = state.host().load(SlotName::Retry, &link)
    else {
        panic!("it is loaded")
    };
    let expected = [
        "line 2: unknown key `slots`; did you mean `slot`?",
        "line 4, rule 1: `when`: there is no `atempt`; did you mean `attempt`?",
        "line 4, rule 1: `when`: there is no `undoin`; did you mean `undoing`?",
        "line 5, rule 1: `answer`: there is no answer `giveup`; did you mean `give-up`?",
        "line 7, rule 2: `when`: it is not CEL: for `and`, write `&&`",
        "line 8: rule 2: unknown key `reasn`; did you mean `reason`?",
        "line 9, rule 2: `answer`: `wait` needs a number of milliseconds: write { wait = 60000 }",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn what_is_wrong_with_rules_is_told_when_they_are_loaded() {
    for (rules, expected) in [
        (
            waiting("failure.class == 'out_of_stock'", 1),
            "line 4, rule 1 (`patience`): `when`: there is no case 'out_of_stock'",
        ),
        (waiting("time_left > 1", 1), "`when`: `time_left` may be absent: ask first"),
        (
            "slot = \"retry\"\n[[rules]]\nwhen = \"true\"\nanswer = \"giveup\"".into(),
            "line 4, rule 1: `answer`: there is no answer `giveup`",
        ),
        (
            "slot = \"retry\"\n[[rules]]\nwhn = \"true\"".into(),
            "line 3: rule 1: unknown key `whn`; did you mean `when`?",
        ),
        ("slot = \"retry\"".into(), "it has no rule"),
        (
            "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"".into(),
            "line 1: they are rules for the slot `release`, not for `retry`",
        ),
        ("slot = ".into(), "line 1: it is not TOML"),
    ] {
        let error = refusal(SlotName::Retry, &rules);
        assert!(error.contains(expected), "{error}");
    }
    let link = Link::contents(Path::new("the.rules.toml"), waiting("true", 1).into_bytes());
    let link = link.with_settings(serde_json::json!({ "wait": 1 }));
    let state = State::new();
    let error = state.host().load(SlotName::Retry, &link).unwrap_err().to_string();
    assert!(error.contains("a file of rules takes no settings"), "{error}");
}

#[test]
fn no_rules_are_compiled_where_none_are_used() {
    let state = State::cold();
    drop(state.host());
    let compiled = || fs::read_dir(state.folder.path().join("cache")).unwrap().count();
    let before = compiled();
    let host = state.host();
    // The component that reads rules is compiled once; what it makes of a file, for each file.
    for (wait, entries) in [(1, 2), (2, 3), (3, 4), (1, 4)] {
        let rules = waiting("true", wait).into_bytes();
        host.load(SlotName::Retry, &Link::contents(Path::new("a.rules.toml"), rules)).unwrap();
        assert_eq!(compiled(), before + entries, "{wait}");
    }
}

/// Rules that behave with the example and do harm with a larger question.
fn fails<S: Slot>(rules: &str, question: S::Question, limit: (&str, u64), kind: FailureKind, words: &str) {
    let state = State::new();
    let host = state.host();
    let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes()).with_limit(limit.0, limit.1);
    host.configure(&Policies::built_in().with(S::NAME, link)).unwrap();
    let decision = run(host.pin().decide::<S>(question));
    let fallback = decision.fallbacks.first().unwrap_or_else(|| panic!("it did not fail: {:?}", decision.answer));
    assert_eq!(fallback.kind, kind, "{fallback}");
    assert!(fallback.reason.contains(words), "{fallback}");
    assert!(!is_decided_by_rules(&decision));
}

fn many_nodes() -> provisioning::Question {
    let question = Provisioning::example();
    let nodes = question.nodes.iter().cycle().take(2_000).cloned().collect();
    provisioning::Question { nodes, ..question }
}

/// Goes over all nodes for each node for each node.
const CUBIC: &str = r#"
slot = "provisioning"
[[rules]]
when = "size(nodes) > 100 && nodes.all(a, nodes.all(b, nodes.all(c, a.name != 'x' || b.name == c.name)))"
answer = { recover = { state = "error", delete = [] } }
"#;

#[test]
fn rules_that_take_too_long_are_stopped_at_their_limit() {
    fails::<Provisioning>(CUBIC, many_nodes(), ("time_ms", 50), FailureKind::TimeLimit, "50 ms");
    fails::<Provisioning>(CUBIC, many_nodes(), ("fuel", 50_000_000), FailureKind::FuelLimit, "50000000");
}

#[test]
fn rules_that_make_lists_of_lists_are_stopped_at_their_memory_limit() {
    let rules = r#"
slot = "provisioning"
[[rules]]
when = "size(nodes) > 100 && size(nodes.map(a, nodes.map(b, nodes.map(c, c.name + b.name)))) == 1"
answer = { recover = { state = "error", delete = [] } }
"#;
    fails::<Provisioning>(rules, many_nodes(), ("time_ms", 60_000), FailureKind::MemoryLimit, "memory_bytes");
}

#[test]
fn a_rule_that_cannot_be_evaluated_fails_with_its_name_and_the_default_decides() {
    let rules = waiting("1000 / (attempt - 2) > 1", 1);
    let question = retry::Question { attempt: 2, ..Retry::example() };
    let words = "rule 1 (`patience`): `when` cannot be evaluated: Division by zero";
    fails::<Retry>(&rules, question, ("time_ms", 500), FailureKind::RuleFailed, words);
}

#[test]
fn ten_rules_judge_ten_thousand_servers_within_the_limits() {
    let rule = |age: u64| {
        format!(
            "[[rules]]\nwhen = \"server.state == 'locked' && server.age < {age} || server.server_type == 'GP1-XS'\"\n\
             answer = {{ mapped = {{ report = \"none\", action = \"none\" }} }}\n"
        )
    };
    let rules: String = (1..=10).map(rule).collect();
    let ruled = Ruled::new(SlotName::StateMapping, &format!("slot = \"state-mapping\"\n{rules}"));
    let mut question = StateMapping::example();
    question.servers = question.servers.iter().copied().cycle().take(10_000).collect();
    let decision = ruled.decide::<StateMapping>(question);
    assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
}

/// What can be nested, and the most times that the check lets it be (guest/rules/src/check/tests.rs).
const DEEPEST: [(&str, &str, &str, usize); 7] = [
    ("(1 + ", "attempt", " == 1", 17),
    ("!(true && ", "undoing", "", 9),
    ("(undoing ? false : ", "true", "", 18),
    ("[", "attempt", " == []", 17),
    ("[1].exists(x, ", "true", "", 8),
    ("string(", "attempt", " == '1'", 17),
    ("-(1 - ", "attempt", " == 1", 8),
];

#[test]
fn the_deepest_condition_that_is_accepted_has_enough_stack() {
    let rules = DEEPEST.map(|(open, inner, rest, times)| {
        let close = match open.trim_start_matches("[1]").chars().next() {
            Some('[') => "]",
            _ => ")",
        };
        let when = format!("{}{inner}{}{rest} && attempt == 99", open.repeat(times), close.repeat(times));
        format!("[[rules]]\nwhen = \"{when}\"\nanswer = \"give-up\"\n")
    });
    // The dry run evaluates all of them.
    let ruled = Ruled::new(SlotName::Retry, &format!("slot = \"retry\"\n{}", rules.concat()));
    assert!(ruled.decide::<Retry>(Retry::example()).fallbacks.is_empty());
}

#[test]
fn a_condition_that_is_nested_too_deep_is_refused_in_words() {
    for (open, inner, close, times) in [
        ("(1 + ", "attempt", ")", 30),
        ("(1 + ", "attempt", ")", 150),
        ("true ? true : ", "true", "", 150),
        ("[1].exists(x, ", "true", ")", 150),
    ] {
        let when = format!("{}{inner}{}", open.repeat(times), close.repeat(times));
        let error = refusal(SlotName::Retry, &waiting(&when, 1));
        assert!(error.contains("nested more than 20 deep"), "{open} {times}: {error}");
    }
}

fn example(name: &str) -> Ruled {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/examples").join(name);
    let text = fs::read_to_string(path).unwrap();
    Ruled::new(RulesFile::read(text.as_bytes()).unwrap().slot(), &text)
}

fn failure(class: types::FailureClass) -> types::Failure {
    types::Failure { class, ..types::Failure::example() }
}

#[test]
fn the_example_for_retry_waits_for_stock() {
    let ruled = example("wait-for-stock.rules.toml");
    let question = |class, elapsed| retry::Question { failure: failure(class), elapsed, ..Retry::example() };
    let waits = ruled.decide::<Retry>(question(types::FailureClass::OutOfStock, 0));
    assert_eq!(waits.answer.verdict, retry::Verdict::Wait(55_000 + 0x5eed0 % 10_000));
    assert_eq!(waits.reason.as_deref(), Some("stock may come back"));
    let gives_up = ruled.decide::<Retry>(question(types::FailureClass::OutOfStock, 1_800_000));
    assert_eq!(gives_up.answer.verdict, retry::Verdict::GiveUp);
    assert!(!is_decided_by_rules(&ruled.decide::<Retry>(question(types::FailureClass::Gateway, 0))));
}

#[test]
fn the_example_for_state_mapping_leaves_servers_alone_that_somebody_looks_into() {
    let ruled = example("keep-debugged-servers.rules.toml");
    let mut question = StateMapping::example();
    question.servers.retain(|server| server.state == state_mapping::ServerState::Stopped && server.has_run);
    let server = question.servers[0];
    let old = state_mapping::Server { state_age: 600_000, watched_tags: 0, ..server };
    question.servers = vec![server, state_mapping::Server { watched_tags: 0, ..server }, old];
    let decision = ruled.decide::<StateMapping>(question);
    let report = |at: usize| match decision.answer[at].verdict {
        state_mapping::Verdict::Mapped(mapping) => (mapping.report, mapping.action),
        state_mapping::Verdict::Defer => panic!("a decision defers nothing"),
    };
    assert_eq!(report(0), (state_mapping::Report::Creating, state_mapping::Action::None));
    assert_eq!(report(1), (state_mapping::Report::None, state_mapping::Action::None));
    assert_eq!(report(2).1, state_mapping::Action::Reap, "the default's");
}

#[test]
fn the_example_for_rollback_keeps_the_volumes_of_an_unknown_failure() {
    let ruled = example("keep-volumes.rules.toml");
    let question = rollback::Question { cause: Some(failure(types::FailureClass::Other)), ..Rollback::example() };
    let decision = ruled.decide::<Rollback>(question);
    let rollback::Verdict::Plan(steps) = &decision.answer.verdict else { panic!("{decision:?}") };
    let actions: Vec<_> = steps.iter().map(|step| (step.resource, step.action)).collect();
    use rollback::Action::{Delete, Keep};
    assert_eq!(actions, [(0, Delete), (1, Delete), (2, Keep), (3, Keep), (4, Delete)]);
    assert!(is_decided_by_rules(&decision) && decision.fallbacks.is_empty(), "{decision:?}");
    assert!(!is_decided_by_rules(&ruled.decide::<Rollback>(Rollback::example())));
    let no_longer_wanted = rollback::Question { cause: None, failed_step: None, ..Rollback::example() };
    assert!(!is_decided_by_rules(&ruled.decide::<Rollback>(no_longer_wanted)));
}

#[test]
fn the_example_for_release_reboots_returns_and_schedules() {
    let ruled = example("reuse-machines.rules.toml");
    let system = Some("macos-tahoe-26.0".into());
    let returned = ruled.decide::<Release>(Release::example()).answer.verdict;
    assert_eq!(returned, release::Verdict::ReturnToPool(release::PoolReturn { operating_system: system }));
    let refused = release::Question {
        refusal: Some(release::Refusal {
            action: release::Action::Terminate,
            failure: failure(types::FailureClass::PreconditionFailed),
            not_before: Some(1),
        }),
        ..Release::example()
    };
    assert_eq!(ruled.decide::<Release>(refused).answer.verdict, release::Verdict::ScheduleDeletion);
    let mut failed = Release::example();
    failed.trigger = release::Trigger::BootstrapFailed;
    failed.machine.bootstrap_failures = 1;
    assert_eq!(ruled.decide::<Release>(failed).answer.verdict, release::Verdict::Reboot);
}

#[test]
fn the_example_for_provisioning_keeps_nodes_and_chooses_them() {
    let ruled = example("keep-nodes-after-a-failed-hook.rules.toml");
    let question = |class| provisioning::Question {
        operation: provisioning::Operation::Create,
        cause: failure(class),
        ..Provisioning::example()
    };
    let deleted = |decision: Decision<Provisioning>| match decision.answer.verdict {
        provisioning::Verdict::Recover(recovery) => recovery.delete,
        provisioning::Verdict::Defer => panic!("a decision defers nothing"),
    };
    assert!(deleted(ruled.decide(question(types::FailureClass::HookFailed))).is_empty());
    let mut short = question(types::FailureClass::OutOfStock);
    short.nodes.iter_mut().for_each(|node| node.role = provisioning::NodeRole::Made);
    let made = |node: &provisioning::Node| node.exists && node.role == provisioning::NodeRole::Made && !node.configured;
    let expected: Vec<u32> =
        (0..).zip(&short.nodes).filter(|(_, node)| made(node)).map(|(position, _)| position).collect();
    assert!(!expected.is_empty() && expected.len() < short.nodes.len(), "{expected:?}");
    assert_eq!(deleted(ruled.decide(short)), expected);
}

#[test]
fn the_example_for_placement_prefers_small_types_at_night_and_heeds_quota_and_a_limit() {
    let ruled = example("small-types-at-night.rules.toml");
    // Nothing backs off, and the small type is the second one.
    let at = |hour: u64, change: fn(&mut placement::Place)| {
        let mut question = Placement::example();
        question.now += hour * 3_600_000;
        question.places.iter_mut().for_each(|place| place.backoff_until = None);
        question.places.swap(0, 1);
        question.places.iter_mut().for_each(change);
        let decision = ruled.decide::<Placement>(question);
        let placement::Verdict::Place(assignments) = &decision.answer.verdict else { panic!("{decision:?}") };
        let places = assignments.iter().flat_map(|assignment| assignment.places.clone()).collect::<Vec<_>>();
        (is_decided_by_rules(&decision), places)
    };
    let nothing = |_: &mut placement::Place| {};
    assert_eq!(at(19, nothing), (false, vec![0, 1]), "by day no rule applies");
    assert_eq!(at(20, nothing), (true, vec![1, 0]));
    let quota = |place: &mut placement::Place| {
        if place.zone == "fr-par-1" {
            place.last_failure = Some(failure(types::FailureClass::QuotaExceeded));
        }
    };
    assert_eq!(at(12, quota), (true, vec![2, 3]));
    let limit = |place: &mut placement::Place| place.servers = 20;
    assert_eq!(at(12, limit), (true, vec![0, 1]));
    let everywhere_else = |place: &mut placement::Place| {
        place.servers = 20;
        place.backoff_until = (place.zone == "fr-par-1").then_some(u64::MAX);
    };
    assert_eq!(at(12, everywhere_else), (true, vec![]));
}

/// The blocks of a page that are files of rules.
fn files_of(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.to_owned()).filter(|block| block.contains("slot = ")).collect()
}

#[test]
fn every_file_on_the_page_about_rules_and_every_example_can_be_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/rules.md")).unwrap();
    let mut files = files_of(&page);
    assert!(files.len() >= 6, "a page for each slot");
    let examples: Vec<PathBuf> =
        fs::read_dir(root.join("guest/examples")).unwrap().map(|it| it.unwrap().path()).collect();
    files
        .extend(examples.iter().filter(|path| RulesFile::is_named(path)).map(|path| fs::read_to_string(path).unwrap()));
    let state = State::new();
    let host = state.host();
    let mut slots = std::collections::BTreeSet::new();
    for text in files {
        let slot = RulesFile::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error:?}\n{text}")).slot();
        slots.insert(slot);
        let link = Link::contents(Path::new("the.rules.toml"), text.as_bytes());
        let policy = host.load(slot, &link).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((policy.remarks(), policy.failed_example()), (&[][..], None), "{text}");
    }
    assert_eq!(slots.len(), SlotName::ALL.len());
}
