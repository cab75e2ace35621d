use windlass_guest_sdk::testing::{
    configure, failure, machine, place, placement_question, provisioning_question, release_question, resource,
    retry_question, rollback_question, server, state_mapping_question,
};

use rollback::{Action, Resource};

use super::*;

fn rules(json: &str) -> Rules {
    configure(json).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(json: &str) -> String {
    configure::<Rules>(json).err().unwrap_or_default()
}

#[test]
fn the_first_rule_that_applies_answers() {
    let rules = rules(
        r#"{"slot": "retry", "rules": [
            {"when": "failure.class == 'out-of-stock' && attempt > 3", "answer": "give-up", "reason": "no stock"},
            {"when": "failure.class == 'out-of-stock'", "answer": {"wait": "= 2000 * attempt"}},
            {"when": "failure.class == 'out-of-stock'", "answer": {"wait": 1}}
        ]}"#,
    );
    let question = |attempt| retry::Question { attempt, ..retry_question(FailureClass::OutOfStock) };
    assert_eq!(Retry::decide(&rules, question(4)), retry::Answer::give_up().because("no stock"));
    assert_eq!(Retry::decide(&rules, question(3)), retry::Answer::wait(6000));
}

#[test]
fn where_no_rule_applies_and_in_other_slots_the_next_policy_decides() {
    let rules = rules(r#"{"slot": "retry", "rules": [{"when": "attempt > 3", "answer": "give-up"}]}"#);
    assert_eq!(Retry::decide(&rules, retry_question(FailureClass::Gateway)), retry::Answer::defer());
    let machine = machine(release::MachineKind::Instance);
    assert_eq!(Release::decide(&rules, release_question(machine)), release::Answer::defer());
    assert_eq!(Rollback::decide(&rules, rollback_question([])), rollback::Answer::defer());
    let none = configure::<Rules>("{}").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Retry::decide(&none, retry_question(FailureClass::Gateway)), retry::Answer::defer());
}

#[test]
fn each_server_of_a_listing_is_judged_for_itself() {
    let rules = rules(
        r#"{"slot": "state-mapping", "rules": [
            {"when": "server.state == 'stopped' && 'debug' in server.watched_tags",
             "answer": {"mapped": {"report": "running", "action": "none"}}, "reason": "under inspection"}
        ]}"#,
    );
    let stopped = server(state_mapping::ServerState::Stopped);
    let listing = state_mapping::Question {
        watched_tags: vec!["debug".into()],
        ..state_mapping_question([stopped, state_mapping::Server { watched_tags: 1, ..stopped }])
    };
    let reported = state_mapping::Answer::report(state_mapping::Report::Running).because("under inspection");
    assert_eq!(rules.decide_all(&listing), [state_mapping::Answer::defer(), reported]);
}

/// A server with an address and two volumes.
fn created() -> rollback::Question {
    let on_server = |kind, id| Resource { attached_to: Some(0), ..resource(kind, id) };
    rollback::Question {
        cause: Some(failure(FailureClass::Other)),
        ..rollback_question([
            resource(ResourceKind::Server, "server"),
            on_server(ResourceKind::Ip, "ip"),
            on_server(ResourceKind::BlockVolume, "data"),
            on_server(ResourceKind::BlockVolume, "scratch"),
        ])
    }
}

/// The plan in words: `delete 1 after 0`.
fn plan(answer: rollback::Answer) -> Vec<String> {
    let rollback::Verdict::Plan(steps) = answer.verdict else { panic!("{answer:?}") };
    steps
        .iter()
        .map(|step| {
            let action = match step.action {
                Action::Delete => "delete",
                Action::Detach => "detach",
                Action::PowerOff => "power off",
                Action::Keep => "keep",
            };
            let after: Vec<String> = step.after.iter().map(u32::to_string).collect();
            match after.is_empty() {
                true => format!("{action} {}", step.resource),
                false => format!("{action} {} after {}", step.resource, after.join(", ")),
            }
        })
        .collect()
}

#[test]
fn what_rules_keep_of_a_rollback_stays_and_the_rest_goes_in_order() {
    let keep = r#"{"slot": "rollback", "rules": [
        {"when": "resource.name.endsWith('scratch')", "answer": "delete"},
        {"when": "cause.class == 'other' && resource.kind == 'block-volume'", "answer": "keep", "reason": "to look at"}
    ]}"#;
    let answer = Rollback::decide(&rules(keep), created());
    assert_eq!(answer.reason.as_deref(), Some("to look at"));
    assert_eq!(plan(answer), ["delete 0", "delete 1 after 0", "keep 2", "delete 3 after 0"]);

    let other = rollback::Question { cause: None, ..created() };
    let of_scratch = Rollback::decide(&rules(keep), other);
    assert_eq!(plan(of_scratch), ["delete 0", "delete 1 after 0", "delete 2 after 0", "delete 3 after 0"]);
}

#[test]
fn with_a_server_that_is_kept_stays_what_is_attached_to_it() {
    let keep = r#"{"slot": "rollback", "rules": [
        {"when": "resource.kind == 'ip'", "answer": "delete"},
        {"when": "resource.kind == 'server'", "answer": "keep"}
    ]}"#;
    let answer = Rollback::decide(&rules(keep), created());
    assert_eq!(plan(answer), ["keep 0", "detach 1", "delete 1 after 1", "keep 2", "keep 3"]);
}

#[test]
fn no_rule_can_delete_what_the_default_never_deletes() {
    let delete = r#"{"slot": "rollback", "rules": [{"when": "true", "answer": "delete"}]}"#;
    let mut question = created();
    question.resources[0].owned = false;
    question.resources[1].kind = ResourceKind::AppleSiliconServer;
    let plan = plan(Rollback::decide(&rules(delete), question));
    assert_eq!(plan[..2], ["keep 0", "keep 1"]);
}

#[test]
fn a_machine_is_released_with_what_the_question_says() {
    let rules = rules(
        r#"{"slot": "release", "rules": [
            {"when": "has(refusal.not_before)", "answer": {"retry-after": "= refusal.not_before - now"}},
            {"when": "machine.pool_prefix != null",
             "answer": {"return-to-pool": {
                 "operating-system": "= machine.operating_system == null ? 'x' : machine.operating_system"}}}
        ]}"#,
    );
    let question = release_question(machine(release::MachineKind::AppleSiliconServer));
    let answer = Release::decide(&rules, question.clone());
    assert_eq!(answer, release::Answer::return_to_pool(Some("macos-tahoe-26.0".into())));

    let refusal = |not_before| release::Refusal {
        action: release::Action::Terminate,
        failure: failure(FailureClass::PreconditionFailed),
        not_before: Some(not_before),
    };
    let later = release::Question { refusal: Some(refusal(question.now + 500)), ..question.clone() };
    assert_eq!(Release::decide(&rules, later), release::Answer::retry_after(500));
    // Below zero counts as zero.
    let past = release::Question { refusal: Some(refusal(question.now - 500)), ..question };
    assert_eq!(Release::decide(&rules, past), release::Answer::retry_after(0));
}

#[test]
fn a_recovery_deletes_the_existing_nodes_that_a_condition_chooses() {
    let rules = rules(
        r#"{"slot": "provisioning", "rules": [
            {"when": "stage == 'servers'", "answer": {"recover": {"state": "error", "delete": "= node.role == 'made'"}}}
        ]}"#,
    );
    let node = |role, exists| provisioning::Node {
        name: "n".into(),
        group: "g".into(),
        role,
        exists,
        decommissioned: false,
        configured: false,
    };
    let question = provisioning::Question {
        nodes: vec![
            node(provisioning::NodeRole::Staying, true),
            node(provisioning::NodeRole::Made, true),
            node(provisioning::NodeRole::Made, false),
        ],
        ..provisioning_question(FailureClass::OutOfStock)
    };
    let expected = provisioning::Answer::recover(provisioning::ClusterState::Error, vec![1]);
    assert_eq!(Provisioning::decide(&rules, question), expected);
}

#[test]
fn rules_say_which_places_come_first_and_last_and_which_not_at_all() {
    let of = |rule: &str| {
        let rules = rules(&format!(r#"{{"slot": "placement", "rules": [{rule}]}}"#));
        let mut places = [("a", "S"), ("a", "M"), ("b", "S"), ("b", "M")].map(|(zone, of)| place(zone, of));
        places[1].servers = 9;
        places[3].backoff_until = Some(u64::MAX);
        Placement::decide(&rules, placement_question(5, places))
    };
    let placed =
        |places: &[u32]| placement::Answer::place(vec![placement::Assignment { count: 5, places: places.to_vec() }]);
    let first = r#"{"when": "place.zone == 'b'", "answer": "first", "reason": "b is nearer"}"#;
    assert_eq!(of(first), placed(&[2]).because("b is nearer"), "what backs off is not tried");
    assert_eq!(of(r#"{"when": "place.server_type == 'S'", "answer": "last"}"#), placed(&[1, 0]));
    assert_eq!(of(r#"{"when": "place.zone == 'a' && place.servers == 0", "answer": "skip"}"#), placed(&[1]));
    assert_eq!(of(r#"{"when": "place.zone == 'a'", "answer": "skip"}"#), placed(&[2]));
    assert_eq!(of(r#"{"when": "wanted == 5", "answer": "skip"}"#), placement::Answer::place(Vec::new()));
    assert_eq!(of(r#"{"when": "wanted == 6", "answer": "skip"}"#), placement::Answer::defer());
    let passed_on = format!(r#"{{"when": "true", "answer": "defer"}}, {first}"#);
    assert_eq!(of(&passed_on), placement::Answer::defer());
}

#[test]
fn a_random_word_can_be_calculated_with_whatever_it_is() {
    let rules = rules(r#"{"slot": "retry", "rules": [{"when": "true", "answer": {"wait": "= random % 500"}}]}"#);
    for random in [0, u64::MAX, 1 << 63, 0x9e37_79b9_7f4a_7c15] {
        let question = retry::Question { random, ..retry_question(FailureClass::Gateway) };
        let expected = (random & (u64::MAX >> 1)) % 500;
        assert_eq!(Retry::decide(&rules, question), retry::Answer::wait(expected));
    }
}

#[test]
#[should_panic(expected = "rule 1 (`half`): `when` cannot be evaluated: Division by zero")]
fn a_rule_that_cannot_be_evaluated_fails_with_its_name() {
    let rules = rules(
        r#"{"slot": "retry", "rules": [{"name": "half", "when": "10 / (attempt - 1) > 1", "answer": "give-up"}]}"#,
    );
    Retry::decide(&rules, retry_question(FailureClass::Gateway));
}

/// Which rule answered about which items, in the decision that was just made.
fn applied(rules: &Rules) -> Vec<(u32, Vec<u32>)> {
    rules::Policy::applied(rules).into_iter().map(|applied| (applied.rule, applied.items)).collect()
}

#[test]
fn it_tells_which_rule_answered_about_which_item() {
    let of_retry = rules(
        r#"{"slot": "retry", "rules": [
            {"when": "attempt > 5", "answer": "give-up"}, {"when": "attempt > 3", "answer": "defer"}
        ]}"#,
    );
    for (attempt, expected) in [(6, vec![(0, vec![])]), (4, vec![(1, vec![])]), (1, vec![])] {
        Retry::decide(&of_retry, retry::Question { attempt, ..retry_question(FailureClass::Gateway) });
        assert_eq!(applied(&of_retry), expected, "{attempt}");
    }

    let of_listing = rules(
        r#"{"slot": "state-mapping", "rules": [
            {"when": "server.state == 'stopped'", "answer": {"mapped": {"report": "none", "action": "reap"}}},
            {"when": "server.state == 'running'", "answer": "defer"}
        ]}"#,
    );
    let states = ["running", "stopped", "locked", "stopped"].map(|state| match state {
        "running" => state_mapping::ServerState::Running,
        "stopped" => state_mapping::ServerState::Stopped,
        _ => state_mapping::ServerState::Locked,
    });
    of_listing.decide_all(&state_mapping_question(states.map(server)));
    assert_eq!(applied(&of_listing), [(0, vec![1, 3]), (1, vec![0])]);

    let of_rollback = rules(
        r#"{"slot": "rollback", "rules": [
            {"when": "resource.name.endsWith('data')", "answer": "keep"},
            {"when": "resource.kind == 'block-volume'", "answer": "delete"}
        ]}"#,
    );
    Rollback::decide(&of_rollback, created());
    assert_eq!(applied(&of_rollback), [(0, vec![2]), (1, vec![3])]);

    let of_places = rules(r#"{"slot": "placement", "rules": [{"when": "place.zone == 'b'", "answer": "first"}]}"#);
    Placement::decide(&of_places, placement_question(5, [("a", "S"), ("b", "S")].map(|(zone, of)| place(zone, of))));
    assert_eq!(applied(&of_places), [(0, vec![1])]);
}

#[test]
fn a_rule_that_can_never_answer_is_remarked_upon() {
    let remarks = |rules: &[&str]| {
        let rules: Vec<String> =
            rules.iter().map(|when| format!(r#"{{"name": "n", "when": "{when}", "answer": "give-up"}}"#)).collect();
        let json = format!(r#"{{"slot": "retry", "rules": [{}]}}"#, rules.join(", "));
        rules::Policy::remarks(&configure::<Rules>(&json).unwrap_or_else(|error| panic!("{error}")))
    };
    assert_eq!(remarks(&["attempt < 3", "attempt < 5", "true"]), Vec::<String>::new());
    let never = "rules[1].when: it is never true, so the rule never answers: correct its condition, or remove it";
    assert_eq!(remarks(&["attempt < 5", "attempt < 3 && attempt > 3"]), [never]);
    let behind = |at: usize, before: usize| {
        format!(
            "rules[{at}].when: rule {before} (`n`) answers first whenever it is true, so the rule never answers: put \
             it before rule {before} (`n`), or remove it"
        )
    };
    assert_eq!(remarks(&["undoing", "attempt < 5", "attempt < 3"]), [behind(2, 2)]);
    assert_eq!(remarks(&["attempt < 5", "true", "undoing", "attempt < 5"]), [behind(2, 2), behind(3, 1)]);
}

#[test]
fn many_long_rules_are_compared_within_bounds() {
    let clauses: Vec<String> = (0..90).map(|n| format!("(attempt % {} == 0 || undoing)", n + 2)).collect();
    let when = clauses.join(" && ");
    let rules: Vec<String> =
        (0..MAX_RULES).map(|n| format!(r#"{{"when": "{when} && elapsed != {n}", "answer": "give-up"}}"#)).collect();
    let json = format!(r#"{{"slot": "retry", "rules": [{}]}}"#, rules.join(", "));
    assert!(configure::<Rules>(&json).is_ok());
}

/// Conditions of a few parts, made by a generator that always gives the same.
fn conditions() -> impl Iterator<Item = String> {
    const ATOMS: [&str; 21] = [
        "undoing",
        "undoing == false",
        "undoing in [true]",
        "attempt < 2",
        "attempt >= 1",
        "1 == attempt",
        "attempt in [0, 2]",
        "attempt - 1 < 0",
        "has(failure.status)",
        "has(failure.status) in [false]",
        "has(failure.status) != null",
        "has(failure.status) == undoing",
        "failure.status == 404",
        "failure.status in [404, 500]",
        "failure.status == null",
        "failure.class == 'gateway'",
        "failure.class in ['gateway', 'other']",
        "subject.group != 'a'",
        "subject.group in ['a', 'b']",
        "has(failure.status) && failure.status > 404",
        "(undoing ? attempt : 1) == 1",
    ];
    let mut state = 31_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % below
    };
    (0..3_000).map(move |_| {
        (0..2 + random(3)).fold("true".to_owned(), |condition, _| {
            let atom = ATOMS[random(ATOMS.len())];
            let atom = if random(2) == 0 { format!("!({atom})") } else { format!("({atom})") };
            match random(6) {
                0 => format!("({condition} || {atom})"),
                1 => format!("({condition} ? {atom} : undoing)"),
                _ => format!("({condition} && {atom})"),
            }
        })
    })
}

/// Questions with every combination of the values that [`conditions`] speaks about, and of one other.
fn small_questions() -> Vec<retry::Question> {
    let mut questions = vec![retry_question(FailureClass::Gateway)];
    let mut vary = |change: &dyn Fn(&mut retry::Question, usize), values: usize| {
        questions = std::mem::take(&mut questions)
            .into_iter()
            .flat_map(|question| {
                (0..values).map(move |value| {
                    let mut question = question.clone();
                    change(&mut question, value);
                    question
                })
            })
            .collect();
    };
    vary(&|question, value| question.undoing = value == 0, 2);
    vary(&|question, value| question.attempt = [0, 1, 2, 3][value], 4);
    vary(&|question, value| question.failure.status = [None, Some(404), Some(500), Some(1)][value], 4);
    let classes = [FailureClass::Gateway, FailureClass::Other, FailureClass::Timeout];
    vary(&|question, value| question.failure.class = classes[value], 3);
    vary(&|question, value| question.subject.group = [None, Some("a"), Some("b"), Some("c")][value].map(Into::into), 4);
    questions
}

#[test]
fn what_is_said_to_be_impossible_is_true_of_no_question() {
    let questions = small_questions();
    let mut impossible = 0;
    for condition in conditions() {
        let mut reader = Reader::default();
        let (ast, _) =
            reader.condition(&condition, &contract::RETRY_SCOPE).unwrap_or_else(|problem| panic!("{problem}"));
        if reader.are_possible(&[(&ast, true)], &mut REMARK_STEPS_EACH.clone()) {
            continue;
        }
        impossible += 1;
        let (evaluator, when) = (Evaluator::new(reader.variables), Expression { ast });
        for question in &questions {
            let is_true = evaluator.about(Subject::question(question), |context| when.is_true(context));
            assert_eq!(is_true, Ok(false), "{condition}: {question:?}");
        }
    }
    assert!(impossible > 200, "{impossible}");
}

#[test]
fn an_answer_is_refused_with_the_nearest_word() {
    for (slot, answer, expected) in [
        ("retry", r#""giveup""#, "there is no answer `giveup`; did you mean `give-up`?"),
        ("retry", r#"{"wiat": 1}"#, "there is no answer `wiat`; did you mean `wait`?"),
        ("retry", r#"{"wait": "soon"}"#, "invalid type: string \"soon\", expected u64"),
        ("retry", r#"{"wait": "= undoing"}"#, "`wait`: expected a number, got true or false"),
        ("retry", r#"{"wait": "= atempt"}"#, "`wait`: there is no `atempt`; did you mean `attempt`?"),
        (
            "retry",
            r#"{"wait": 1, "give-up": 1}"#,
            "expected one of defer, give-up, wait, alone or as the key of a table",
        ),
        (
            "state-mapping",
            r#"{"mapped": {"report": "runing", "action": "none"}}"#,
            "there is no `runing`; did you mean `running`?",
        ),
        (
            "state-mapping",
            r#"{"mapped": {"reprot": "running", "action": "none"}}"#,
            "there is no key `reprot`; did you mean `report`?",
        ),
        ("retry", r#""wait""#, "`wait` needs a number of milliseconds: write { wait = 60000 }"),
        ("retry", r#"{"give-up": 1}"#, "`give-up` is an answer by itself: write \"give-up\""),
        ("release", r#""retry-after""#, "`retry-after` needs a number of milliseconds: write { retry-after = "),
        ("release", r#""return-to-pool""#, "`return-to-pool` needs more than its name: write { return-to-pool = {} }"),
        (
            "provisioning",
            r#""recover""#,
            "`recover` needs more than its name: write { recover = { state = ..., delete = ",
        ),
        ("rollback", r#"{"keep": true}"#, "`keep` is an answer by itself"),
        ("rollback", r#""kep""#, "there is no answer `kep`; did you mean `keep`?"),
        ("provisioning", r#"{"recover": {"state": "error", "delete": "= nodes"}}"#, "`delete`: expected true or false"),
    ] {
        let json = format!(r#"{{"slot": "{slot}", "rules": [{{"when": "true", "answer": {answer}}}]}}"#);
        let words = refusal(&json);
        assert!(words.starts_with(&format!("rules[0].answer: {expected}")), "{answer}: {words}");
    }
}

#[test]
fn a_problem_begins_with_its_place() {
    let json =
        r#"{"slot": "retry", "rules": [{"when": "true", "answer": "defer"}, {"when": "tru", "answer": "defer"}]}"#;
    assert!(refusal(json).starts_with("rules[1].when: there is no `tru`"), "{}", refusal(json));
    assert_eq!(refusal(r#"{"rules": [{"when": "true", "answer": "defer"}]}"#), "slot: it is missing");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let json = r#"{"slot": "retry", "rules": [
        {"when": "atempt > 1 || undoin", "answer": {"wait": "= attemp"}},
        {"when": "true", "answer": "giveup"},
        {"when": "undoing", "answer": "give-up"},
        {"when": "time_left != null", "answer": {"wait": "= time_left + elapse"}},
        {"when": "time_lef != null", "answer": {"wait": "= time_left + atempt - elapse"}}
    ]}"#;
    let told = refusal(json);
    let places: Vec<&str> = told.lines().map(|line| line.split_once(": ").map_or(line, |(place, _)| place)).collect();
    let (when, answer) = (|at| format!("rules[{at}].when"), |at| format!("rules[{at}].answer"));
    let expected = [when(0), when(0), answer(0), answer(1), answer(3), when(4), answer(4), answer(4)];
    assert_eq!(places, expected, "{told}");
    assert!(told.lines().all(|line| line.contains("did you mean")), "{told}");
    let of_answers = told.lines().filter(|line| line.contains(".answer") && !line.starts_with("rules[1]"));
    assert!(of_answers.clone().count() == 4 && of_answers.clone().all(|line| line.contains("`wait`: ")), "{told}");
    let both = refusal(
        r#"{"slot": "provisioning", "rules": [
            {"when": "true", "answer": {"recover": {"state": "eror", "delete": "= node.exist"}}}
        ]}"#,
    );
    assert!(both.lines().count() == 2 && both.contains("`exists`") && both.contains("`error`"), "{both}");
}

#[test]
fn the_schema_of_the_settings_is_json() {
    let schema = windlass_guest_sdk::testing::settings_schema::<Rules>();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(schema["properties"]["rules"]["maxItems"], MAX_RULES);
}
