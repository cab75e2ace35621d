use super::*;
use crate::shapes;

static RETRY: Scope = Scope::of(shapes::RETRY_QUESTION);
static STATE_MAPPING: Scope = Scope {
    hidden: &["servers"],
    instead: &[("server-type", Shape::Text), ("watched-tags", Shape::List(&Shape::Text))],
    ..Scope::of(shapes::STATE_MAPPING_QUESTION).about("server", shapes::STATE_MAPPING_SERVER)
};
static ROLLBACK: Scope = Scope::of(shapes::ROLLBACK_QUESTION).about("resource", shapes::ROLLBACK_RESOURCE);
static RELEASE: Scope = Scope::of(shapes::RELEASE_QUESTION);
static PROVISIONING: Scope = Scope::of(shapes::PROVISIONING_QUESTION);
static NODE: Scope = Scope::of(shapes::PROVISIONING_QUESTION).about("node", shapes::PROVISIONING_NODE);

fn problem(text: &str, scope: &Scope) -> String {
    Reader::default().condition(text, scope).err().unwrap_or_default()
}

#[test]
fn what_is_well_said_passes() {
    for (text, scope) in [
        ("failure.class == 'out-of-stock' && attempt < 5", &RETRY),
        ("failure.class in ['gateway', 'timeout'] || failure.ambiguous", &RETRY),
        ("question.failure.class != 'other'", &RETRY),
        ("subject.group == 'runners' && server_type != null && server_type.startsWith('GP1')", &RETRY),
        ("has(failure.status) && failure.status >= 500 && failure.status / 100 == 5", &RETRY),
        ("time_left == null || time_left > 60000u", &RETRY),
        ("!(time_left == null) && time_left > 1", &RETRY),
        ("time_left != null ? time_left > elapsed : true", &RETRY),
        ("has(question.time_left) && time_left > 1", &RETRY),
        ("size(failure.message) > 3 && failure.message.contains('kernel')", &RETRY),
        ("string(attempt) == '1' && int('3') % 2 == 1 && -attempt < 0", &RETRY),
        ("server.state == 'stopped' && !('debug' in server.watched_tags)", &STATE_MAPPING),
        ("server.server_type in ['DEV1-S'] && zone == 'fr-par-1'", &STATE_MAPPING),
        ("cause == null || cause.class == 'other'", &ROLLBACK),
        ("cause.class == 'other' && cause.message.contains('panic')", &ROLLBACK),
        ("resources.exists(r, r.kind == 'server' && r.state != null && r.state == 'locked')", &ROLLBACK),
        ("resources.exists(r, has(r.attached_to) && r.attached_to > 0)", &ROLLBACK),
        ("resources.filter(r, r.kind == 'ip').size() > 1", &ROLLBACK),
        ("resources.map(r, r.name) == ['a'] && resources.exists_one(r, r.owned)", &ROLLBACK),
        ("resource.kind == 'block-volume' && resources[0].kind == 'server'", &ROLLBACK),
        ("has(refusal.not_before) && refusal.not_before > now && refusal.failure.class == 'locked'", &RELEASE),
        ("machine.kind == 'apple-silicon-server' && requested == 'keep'", &RELEASE),
        ("nodes.all(n, n.role == 'made') && groups[0].wanted > groups[0].before", &PROVISIONING),
        ("node.role == 'made' && stage == 'servers'", &NODE),
    ] {
        assert_eq!(problem(text, scope), "", "{text}");
    }
}

#[test]
fn a_misspelt_word_is_refused_with_the_nearest() {
    for (text, scope, expected) in [
        ("failur.class == 'other'", &RETRY, "there is no `failur`; did you mean `failure`?"),
        ("failure.clas == 'other'", &RETRY, "`failure` has no field `clas`; did you mean `class`?"),
        ("failure.class == 'out_of_stock'", &RETRY, "there is no case 'out_of_stock'; did you mean `out-of-stock`?"),
        ("'timeuot' == failure.class", &RETRY, "there is no case 'timeuot'; did you mean `timeout`?"),
        ("failure.class in ['gatway']", &RETRY, "there is no case 'gatway'; did you mean `gateway`?"),
        ("question.atempt > 1", &RETRY, "`question` has no field `atempt`; did you mean `attempt`?"),
        ("step.startWith('a')", &RETRY, "there is no function `startWith`; did you mean `startsWith`?"),
        ("server.stat == 'stopped'", &STATE_MAPPING, "`server` has no field `stat`; did you mean `state`?"),
        ("servr.state == 'stopped'", &STATE_MAPPING, "there is no `servr`; did you mean `server`?"),
        ("resources.exists(r, r.knd == 'ip')", &ROLLBACK, "an item has no field `knd`; did you mean `kind`?"),
        ("resources.exists(r, r.kind == 'disk')", &ROLLBACK, "there is no case 'disk'; there are `server`, `ip`"),
    ] {
        assert!(problem(text, scope).starts_with(expected), "{text}: {}", problem(text, scope));
    }
}

#[test]
fn what_may_be_absent_has_to_be_asked_for_first() {
    for (text, expected) in [
        ("time_left > 1", "`time_left` may be absent: ask first, as in `time_left != null && ...`"),
        ("failure.status >= 500", "`failure.status` may be absent: ask first, as in `has(failure.status) && ...`"),
        ("has(failure.status) || failure.status >= 500", "`failure.status` may be absent"),
        ("failure.status >= 500 && has(failure.status)", "`failure.status` may be absent"),
        ("subject.group.startsWith('a')", "`subject.group` may be absent"),
        ("time_left == null ? time_left > 1 : true", "`time_left` may be absent"),
    ] {
        assert!(problem(text, &RETRY).starts_with(expected), "{text}: {}", problem(text, &RETRY));
    }
    let below = problem("refusal.failure.status > 1", &RELEASE);
    assert!(below.starts_with("`refusal.failure.status` may be absent"), "{below}");
    let item = problem("resources.exists(r, r.attached_to > 0)", &ROLLBACK);
    assert!(item.starts_with("`r.attached_to` may be absent"), "{item}");
}

#[test]
fn what_could_never_be_decided_is_refused() {
    for (text, expected) in [
        ("attempt", "expected true or false, got a number"),
        ("attempt == 'one'", "a number is never equal to a text"),
        ("undoing > 1", "true or false cannot be compared with a number"),
        ("attempt && undoing", "`&&`, `||`, `!` and `?` need true or false, got a number"),
        ("attempt < 1.5", "only whole numbers are supported"),
        ("failure == failure", "records cannot be compared"),
        ("step.matches('a+')", "there is no function `matches`"),
        ("{'a': 1}.a == 1", "maps are not supported"),
        ("has(time_left)", "`has` asks about a field"),
        ("attempt ==", "it is not CEL"),
        ("", "it is not CEL"),
    ] {
        assert!(problem(text, &RETRY).starts_with(expected), "{text}: {}", problem(text, &RETRY));
    }
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    for opened in ["(1 + ", "string(", "[", "true ? true : ", "-1 - "] {
        let closed = match opened.trim_end_matches("1 + ").chars().last() {
            Some('(') => ")",
            Some('[') => "]",
            _ => "",
        };
        let nested = format!("{}attempt{}", opened.repeat(200), closed.repeat(200));
        assert_eq!(problem(&nested, &RETRY), too_deep(20), "{opened}");
    }
    let brackets = format!("{}attempt == 1{}", "(".repeat(200), ")".repeat(200));
    assert_eq!(problem(&brackets, &RETRY), "", "brackets around brackets say nothing");
    let sum = format!("attempt{} == 1", " + 1".repeat(200));
    assert_eq!(problem(&sum, &RETRY), too_deep(20));
    let long = format!("attempt == 1{}", " ".repeat(4096));
    assert!(problem(&long, &RETRY).contains("bytes"));
}

#[test]
fn the_same_path_is_one_variable() {
    let mut reader = Reader::default();
    for text in ["attempt > 1 && attempt < 5", "question.attempt == 3", "failure.status != null"] {
        reader.condition(text, &RETRY).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(reader.variables.len(), 2, "{:?}", reader.variables);
}

/// What can be nested, and the most times.
const NESTED: [(&str, &str, &str, usize); 7] = [
    ("(1 + ", "attempt", " == 1", 17),
    ("!(true && ", "undoing", "", 9),
    ("(undoing ? false : ", "true", "", 18),
    ("[", "attempt", " == []", 17),
    ("[1].exists(x, ", "true", "", 8),
    ("string(", "attempt", " == '1'", 17),
    ("-(1 - ", "attempt", " == 1", 8),
];

/// host/policy/tests/it/rules.rs evaluates conditions as deep as these, with the stack that a decision has.
#[test]
fn a_condition_can_be_nested_so_deep() {
    for (open, inner, rest, most) in NESTED {
        let close = match open.trim_start_matches("[1]").chars().next() {
            Some('[') => "]",
            _ => ")",
        };
        let problem = |times: usize| {
            let text = format!("{}{inner}{}{rest} && attempt == 99", open.repeat(times), close.repeat(times));
            problem(&text, &RETRY)
        };
        assert_eq!(problem(most), "", "{open}");
        assert_eq!(problem(most + 1), too_deep(20), "{open}");
    }
}

#[test]
fn what_is_written_as_in_other_languages_is_told_as_it_is_written_here() {
    for (text, scope, expected) in [
        ("undoing and attempt > 1", &RETRY, "it is not CEL: for `and`, write `&&`"),
        ("undoing OR attempt > 1", &RETRY, "it is not CEL: for `or`, write `||`"),
        ("not undoing", &RETRY, "it is not CEL: for `not`, write `!`"),
        ("attempt = 1", &RETRY, "it is not CEL: for `=`, write `==`"),
        ("attempt <> 1", &RETRY, "it is not CEL: for `<>`, write `!=`"),
        ("attempt == 1 'and'", &RETRY, "it is not CEL: "),
        ("step == \"it's 'and'\" 1", &RETRY, "it is not CEL: "),
        (r"step == 'it\'s \'and\'' 1", &RETRY, "it is not CEL: "),
        ("step == \"it's\" and undoing", &RETRY, "it is not CEL: for `and`, write `&&`"),
        (
            "subject.labels['team'] == 'build'",
            &RETRY,
            "`subject.labels` is a list, whose items have positions and no names: ask `subject.labels.exists(l, l.name == \
             'team' && l.value == ...)`",
        ),
        ("subject.labels.exists(l, l['name'] == 'team')", &RETRY, "a field stands after a dot: `l.name`"),
        ("failure['error-type'] == 'x'", &RETRY, "a field stands after a dot: `failure.error_type`"),
        ("failure[attempt] == 'x'", &RETRY, "a field stands after a dot: `failure.class`"),
        (
            "subject.labels.team == 'x'",
            &RETRY,
            "`subject.labels` is a list, which has no field `team`; use `.exists(...)`",
        ),
        ("nodes['a'].exists", &PROVISIONING, "`nodes` is a list, whose items have positions, as in `nodes[0]`"),
        ("nodes[true].exists", &PROVISIONING, "the position of an item must be a number, not true or false"),
    ] {
        let reported = problem(text, scope);
        assert!(reported.starts_with(expected), "{text}: {reported}");
        assert!(expected.contains("`&&`") || !reported.contains("`&&`"), "{text}: {reported}");
    }
}

#[test]
fn every_mistake_is_told_once_and_none_that_another_one_makes() {
    for (text, expected) in [
        ("atempt > 1 && undoin || failure.clas == 'x'", &["`attempt`", "`undoing`", "`class`"][..]),
        ("atempt + elapse > 1", &["`attempt`", "`elapsed`"]),
        ("atempt == elapse", &["`attempt`", "`elapsed`"]),
        ("failure.class in ['gatway', 'timeuot']", &["`gateway`", "`timeout`"]),
        ("[atempt, elapse] == []", &["`attempt`", "`elapsed`"]),
        ("stepp.startsWth(zon)", &["`startsWith`", "`step`", "`zone`"]),
        ("undoin ? atempt > 1 : elapse > 1", &["`undoing`", "`attempt`", "`elapsed`"]),
        ("atempt - elapse > 1", &["`attempt`", "`elapsed`"]),
        ("subject.labels[atempt] == subject.label[0]", &["`attempt`", "`labels`"]),
        // Nobody knows what the first part was to ask.
        ("has(failur.status) && failure.status >= 500", &["`failure`"]),
        ("!has(failur.status) || failure.status >= 500", &["`failure`"]),
        ("has(failur.status) ? failure.status >= 500 : time_left > 1", &["`failure`"]),
        ("has(failure.status) && undoin && failure.status >= 500 && atempt > 1", &["`undoing`", "`attempt`"]),
        ("atempt > 1 && atempt < 5", &["`attempt`"]),
        ("time_left > 1 && time_left < 5", &["`time_left`"]),
        ("failure.class == 'a\nb'", &["'a\\nb'"]),
    ] {
        let reported = problem(text, &RETRY);
        let lines: Vec<&str> = reported.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{text}: {reported}");
        assert!(lines.iter().zip(expected).all(|(line, word)| line.contains(word)), "{text}: {reported}");
    }
    let many: Vec<String> = (0..100).map(|n| format!("a{n} > 1")).collect();
    assert_eq!(problem(&many.join(" && "), &RETRY).lines().count(), MAX_REPORTED);
}

#[test]
fn what_is_too_deep_on_one_side_makes_the_other_no_deeper() {
    let nested = |times: usize| format!("{}atempt{} == 1", "(1 + ".repeat(times), ")".repeat(times));
    let reported = problem(&format!("{} && {}", nested(18), nested(17)), &RETRY);
    let lines: Vec<&str> = reported.lines().collect();
    assert!(lines.len() == 2 && lines[0] == too_deep(20) && lines[1].contains("`attempt`"), "{reported}");
}
