use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn resource(kind: ResourceKind, attached_to: Option<u32>, owned: bool) -> Resource {
    Resource {
        kind,
        id: "id".into(),
        name: String::new(),
        state: None,
        attached_to,
        owned,
        evidence: Evidence::Journal,
    }
}

fn question(resources: Vec<Resource>) -> Question {
    Question { resources, ..Rollback::example() }
}

fn plan(steps: &[(u32, Action, &[u32])]) -> Answer {
    Answer {
        verdict: Verdict::Plan(
            steps.iter().map(|&(resource, action, after)| Step { resource, action, after: after.to_vec() }).collect(),
        ),
        reason: None,
    }
}

/// What the host accepts.
fn accepted(question: &Question, answer: &Answer) -> bool {
    Rollback::check(question, answer).is_ok()
}

#[test]
fn a_volume_is_deleted_only_after_it_has_left_its_server() {
    let question =
        question(vec![resource(ResourceKind::Server, None, true), resource(ResourceKind::BlockVolume, Some(0), true)]);
    use Action::{Delete, Detach, Keep};
    for (steps, good) in [
        (plan(&[(0, Delete, &[]), (1, Delete, &[0])]), true),
        (plan(&[(0, Delete, &[]), (1, Delete, &[])]), false),
        (plan(&[(0, Keep, &[]), (1, Delete, &[0])]), false),
        (plan(&[(0, Keep, &[]), (1, Detach, &[]), (1, Delete, &[1])]), true),
        (plan(&[(0, Delete, &[]), (1, Detach, &[0]), (1, Delete, &[1])]), true),
        (plan(&[(0, Delete, &[]), (1, Keep, &[])]), true),
        (plan(&[(0, Delete, &[])]), false),
        (plan(&[(0, Delete, &[1]), (1, Delete, &[0])]), false),
        (plan(&[(0, Delete, &[]), (1, Delete, &[0, 0])]), false),
    ] {
        assert_eq!(accepted(&question, &steps), good, "{steps:?}");
    }
}

#[test]
fn a_step_of_another_resource_or_of_another_kind_releases_no_volume() {
    use Action::{Delete, Detach, PowerOff};
    let [server, volume, other] = [ResourceKind::Server, ResourceKind::BlockVolume, ResourceKind::BlockVolume];
    let resources = [resource(server, None, true), resource(volume, Some(0), true), resource(other, Some(0), true)];
    for steps in [
        plan(&[(0, PowerOff, &[]), (2, Detach, &[0]), (1, Delete, &[0, 1])]),
        plan(&[(1, PowerOff, &[]), (1, Delete, &[0])]),
    ] {
        let Verdict::Plan(steps) = &steps.verdict else { unreachable!("it was made as a plan") };
        let refusal = check_order(&resources, steps).unwrap_err();
        assert!(refusal.contains("deletes BlockVolume id without waiting"), "{refusal}");
        assert!(refusal.contains("left its server Server id"), "{refusal}");
    }
}

fn any_resource(count: u32) -> impl Strategy<Value = Resource> {
    (
        prop::sample::select(vec![
            ResourceKind::Server,
            ResourceKind::Ip,
            ResourceKind::BlockVolume,
            ResourceKind::LocalVolume,
            ResourceKind::PrivateNic,
        ]),
        prop::option::of(0..count),
        any::<bool>(),
    )
        .prop_map(|(kind, attached, owned)| resource(kind, attached, owned))
}

fn any_action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![Action::Delete, Action::Detach, Action::PowerOff, Action::Keep])
}

/// Plans that are nearly right, since a plan at random is nearly never accepted: one step for each resource, waiting
/// for earlier ones, and then a few changes.
fn nearly_right() -> impl Strategy<Value = (Question, Answer)> {
    (1u32..8)
        .prop_flat_map(|count| {
            (
                prop::collection::vec(any_resource(count), count as usize),
                prop::collection::vec((any_action(), prop::collection::vec(0..count, 0..3)), count as usize),
                prop::collection::vec((0..count + 1, any_action(), prop::collection::vec(0..count + 2, 0..3)), 0..2),
                any::<bool>(),
            )
        })
        .prop_map(|(resources, base, extra, ordered)| {
            let mut steps: Vec<Step> = base
                .into_iter()
                .zip(0u32..)
                .map(|((action, after), position)| Step {
                    resource: position,
                    action: if matches!(action, Action::Delete) && !resources[position as usize].owned {
                        Action::Keep
                    } else {
                        action
                    },
                    after: after.into_iter().filter(|&earlier| !ordered || earlier < position).collect(),
                })
                .collect();
            steps.extend(extra.into_iter().map(|(resource, action, after)| Step { resource, action, after }));
            (question(resources), Answer { verdict: Verdict::Plan(steps), reason: None })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn every_accepted_plan_has_an_order_covers_every_resource_and_deletes_only_ours(
        (question, answer) in nearly_right()
    ) {
        let Verdict::Plan(steps) = &answer.verdict else { unreachable!("the strategy makes plans") };
        if accepted(&question, &answer) {
            // An order exists: taking steps whose predecessors are done empties the plan.
            let mut done = BTreeSet::new();
            while done.len() < steps.len() {
                let next = (0..steps.len()).find(|i| {
                    !done.contains(i) && steps[*i].after.iter().all(|after| done.contains(&(*after as usize)))
                });
                prop_assert!(next.is_some(), "accepted with a circle");
                done.extend(next);
            }
            for (index, resource) in question.resources.iter().enumerate() {
                let actions: Vec<Action> = steps
                    .iter()
                    .filter(|step| step.resource as usize == index)
                    .map(|step| step.action)
                    .collect();
                let deleted = actions.contains(&Action::Delete);
                let kept = actions.contains(&Action::Keep);
                prop_assert!(!(deleted && kept));
                prop_assert!(!deleted || resource.owned);
                let with_its_server = resource.kind == ResourceKind::PrivateNic
                    && resource.attached_to.is_some_and(|server| {
                        steps.iter().any(|s| s.resource == server && s.action == Action::Delete)
                    });
                prop_assert!(!resource.owned || deleted || kept || with_its_server, "forgotten");
            }
        }
    }

    #[test]
    fn no_answer_whatever_breaks_the_check((question, answer) in nearly_right()) {
        let Verdict::Plan(steps) = &answer.verdict else { unreachable!("the strategy makes plans") };
        let _ = check_order(&question.resources, steps);
    }
}

#[test]
fn the_property_is_not_empty() {
    // A property about accepted plans proves something only when plans are accepted.
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = nearly_right();
    let accepted_plans = (0..4_000)
        .filter(|_| {
            let (question, answer) = strategy.new_tree(&mut runner).expect("a plan").current();
            accepted(&question, &answer)
        })
        .count();
    assert!(accepted_plans > 100, "only {accepted_plans} of 4000 plans were accepted");
}
