//! Configurations and policies that answer well one by one, and go wrong in a scenario. For each there is a law that it
//! violates, and that a better one keeps.

use windlass_fleeting::Scenario;

use crate::support::{Configuration, configuration, listed, rehearse, scenario};

/// The better one keeps the law, and the bad one violates it.
#[track_caller]
fn catches(scenario: &Scenario, law: &str, better: Configuration, bad: Configuration) {
    let rehearsal = rehearse(scenario, &[("better", better), ("bad", bad)], &[1], &[law]);
    let violators: Vec<&str> = rehearsal.laws[0].violations.iter().map(|violation| violation.arm.as_str()).collect();
    let figures = |arm: usize| {
        let all = rehearsal.arms[arm].figures.iter();
        all.map(|spread| format!("{} {:.2}", spread.figure, spread.mean)).collect::<Vec<_>>().join(", ")
    };
    let reported = || format!("{law}: {violators:?}\nbetter: {}\nbad: {}", figures(0), figures(1));
    assert_eq!(violators, ["bad"], "{}", reported());
}

const STOCK: &str = "[[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-1'\nat = '10m'\nlasts = '40m'\n";
const SLOW: &str = "[[offer]]\nboot_seconds = [120, 120]\n";

#[test]
fn one_zone_only_is_caught_by_a_law_about_waiting() {
    let both = configuration().with_plugin("zone = ['fr-par-1', 'fr-par-2']\nserver_type = 'DEV1-S'");
    catches(&scenario(1, 12, STOCK), "wait_p95 > 300", both, configuration());
}

#[test]
fn nothing_idle_before_slow_boots_is_caught_by_a_law_about_half_of_the_jobs() {
    let none = configuration().with_idle("idle_count = 0");
    let some = configuration().with_idle("idle_count = 3\nidle_time = '20m'");
    catches(&scenario(1, 10, SLOW), "wait_p50 > 60", some, none);
}

#[test]
fn too_much_idle_is_caught_by_a_law_about_the_idle_share() {
    let much = configuration().with_idle("idle_count = 5\nidle_time = '1h'").with_autoscaler("max_instances = 8");
    let little = configuration().with_idle("idle_count = 0\nidle_time = '3m'").with_autoscaler("max_instances = 8");
    catches(&scenario(1, 12, ""), "idle_share > 0.7", little, much);
}

#[test]
fn a_policy_that_reaps_at_lunch_is_caught_by_a_law_about_lost_jobs() {
    let lunch = "[[rules]]\nwhen = \"now / 3600000 % 24 == 12 && server.state == 'running'\"\n\
        answer = { mapped = { report = 'deleting', action = 'reap' } }\nreason = 'everybody is at lunch'";
    let reaps = configuration().with_rules("state-mapping", lunch);
    catches(&listed(1, &[(50, 20)], ""), "lost > 0", configuration(), reaps);
}

#[test]
fn a_maximum_age_below_a_jobs_length_is_caught_by_a_law_about_reaps() {
    let young = "[[rules]]\nwhen = \"server.state == 'running' && server.age > 240000\"\n\
        answer = { mapped = { report = 'deleting', action = 'reap' } }\nreason = 'it is too old'";
    let aged = configuration().with_rules("state-mapping", young);
    catches(&scenario(1, 8, ""), "reaps > 0.2 * jobs", configuration(), aged);
}

#[test]
fn a_retry_policy_that_gives_up_at_once_is_caught_by_a_law_about_failures() {
    let hasty = "[[rules]]\nwhen = \"true\"\nanswer = 'give-up'";
    let usual = configuration().with_idle("idle_count = 0");
    let gives_up = usual.clone().with_rules("retry", hasty);
    let short = "[[incident]]\nkind = 'api-down'\nat = '10m4s'\nlasts = '10s'\n";
    catches(&listed(1, &[(10, 5)], short), "failures > 0", usual, gives_up);
}

#[test]
fn a_placement_policy_that_prefers_the_dear_type_is_caught_by_a_law_about_the_first_arms_cost() {
    let types = configuration().with_plugin("zone = 'fr-par-1'\nserver_type = ['DEV1-S', 'DEV1-L']");
    let dear = "[[rules]]\nwhen = \"place.server_type == 'DEV1-L'\"\nanswer = 'first'";
    let prefers = types.clone().with_rules("placement", dear);
    catches(&scenario(1, 10, ""), "cost > 1.5 * first.cost", types, prefers);
}

#[test]
fn a_placement_policy_that_skips_every_place_is_caught_by_a_law_about_the_servers() {
    let nowhere = "[[rules]]\nwhen = \"place.servers >= 1\"\nanswer = 'skip'";
    let skips = configuration().with_rules("placement", nowhere);
    catches(&scenario(1, 20, ""), "wait_p95 > 120", configuration(), skips);
}

#[test]
fn a_release_policy_that_keeps_everything_is_caught_by_a_law_about_what_is_left() {
    let keeps = configuration().with_rules("release", "[[rules]]\nwhen = \"true\"\nanswer = 'keep'");
    catches(&scenario(1, 6, ""), "left > 0", configuration(), keeps);
}

#[test]
fn too_few_instances_are_caught_by_a_law_about_waiting() {
    let few = configuration().with_autoscaler("max_instances = 1\nmax_use_count = 1");
    catches(&scenario(1, 20, ""), "wait_p95 > 300", configuration(), few);
}

#[test]
fn a_policy_that_fails_is_caught_by_a_law_about_policy_failures() {
    let fails = "[[rules]]\nwhen = \"int(subject.owner) > 7\"\nanswer = 'keep'";
    catches(&scenario(1, 6, ""), "policy_failures > 0", configuration(), configuration().with_rules("release", fails));
}

#[test]
fn a_policy_that_reaps_everything_at_one_look_is_caught_by_a_law_about_the_brake() {
    let idle = configuration().with_idle("idle_count = 8\nidle_time = '1h'").with_autoscaler("max_instances = 12");
    let all = "[[rules]]\nwhen = \"now / 600000 % 6 == 3 && server.state == 'running'\"\n\
        answer = { mapped = { report = 'deleting', action = 'reap' } }";
    catches(&scenario(1, 6, ""), "brakes > 0", idle.clone(), idle.with_rules("state-mapping", all));
}
