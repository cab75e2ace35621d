//! Clusters in scenarios, each with the real engine over the simulator.

use tempfile::TempDir;
use windlass_cluster::{ClusterSpecification, Format};
use windlass_fleeting::{RehearsalError, Scenario};
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, Policies};
use windlass_rehearsal::{ClusterArm, Law, NamedArm, Rehearsal, RehearsalFailure};

use crate::support::REHEARSER;

const BOOT: &str = "[[offer]]\nboot_seconds = [20, 40]\n";
pub(crate) const HOOKS: &str = "[hooks.configure]\nprogram = { command = './none.sh' }\n[hooks.decommission]\nprogram = { command = './none.sh' }\n";

/// Two servers of these types, and more.
pub(crate) fn farm(types: &str, more: &str) -> ClusterArm {
    under(Policies::built_in(), types, more)
}

fn under(policies: Policies, types: &str, more: &str) -> ClusterArm {
    let text = format!(
        "name = 'farm'\nzone = 'fr-par-1'\n[groups.web]\ncount = 2\ntypes = {types}\nimage = 'ubuntu_noble'\n{more}"
    );
    ClusterArm::new(ClusterSpecification::parse(&text, Format::Toml).unwrap(), policies)
}

fn try_rehearse(more: &str, arms: &[(&str, ClusterArm)], law: &str) -> Result<Rehearsal, RehearsalFailure> {
    let scenario = format!("hours = 2\nstarts_at = '2026-08-03T09:00:00'\ntime_zone = 'UTC'\n{BOOT}{more}");
    let scenario = Scenario::parse_for_clusters(&scenario).unwrap();
    let arms: Vec<_> = arms.iter().map(|(name, arm)| NamedArm { name: (*name).to_owned(), arm: arm.clone() }).collect();
    Rehearsal::run(&scenario, &arms, &[1], &[Law::never(law).unwrap()], &REHEARSER, &|| {})
}

fn rehearse(more: &str, arms: &[(&str, ClusterArm)], law: &str) -> Rehearsal {
    try_rehearse(more, arms, law).unwrap()
}

fn violators(rehearsal: &Rehearsal) -> Vec<&str> {
    rehearsal.laws[0].violations.iter().map(|violation| violation.arm.as_str()).collect()
}

fn figure(rehearsal: &Rehearsal, arm: usize, name: &str) -> f64 {
    rehearsal.arms[arm].figures.iter().find(|spread| spread.figure == name).unwrap().mean
}

const SCALE: &str = "[[scale]]\nat = '1h'\ngroups = { web = 3 }\n";
const NO_STOCK: &str = "[[incident]]\nkind = 'zone-out-of-stock'\ntype = 'DEV1-S'\nat = '50m'\nlasts = '30m'\n";

#[test]
fn a_cluster_is_created_scaled_and_terminated_and_its_servers_are_counted() {
    let rehearsal = rehearse(SCALE, &[("farm", farm("['DEV1-S']", ""))], "left > 0 || not_ready > 0");
    let of = |name| figure(&rehearsal, 0, name);
    assert!(rehearsal.is_good(), "{:#?}", rehearsal.arms[0].outcomes);
    assert_eq!((of("creations"), of("operations"), of("failed_operations"), of("replaced")), (3.0, 3.0, 0.0, 0.0));
    assert!(
        (20.0..120.0).contains(&of("ready_create")) && of("ready_worst") < 120.0,
        "{:?}",
        rehearsal.arms[0].figures
    );
    // Two for two hours and one for one.
    assert!((5.0..5.1).contains(&of("server_hours")), "{}", of("server_hours"));
    assert_eq!((of("most_servers"), of("removals")), (3.0, 3.0));
    assert!(of("cost") > 0.0 && of("api_calls") > 0.0);
    assert!(rehearsal.arms[0].figures.iter().all(|spread| spread.figure != "wait_p95"), "a cluster has no jobs");
    let page = windlass_rehearsal::shown(&rehearsal.to_saved().unwrap()).unwrap().into_string();
    assert!(
        page.contains("scale to web = 3")
            && page.contains("creation ready")
            && !page.contains("Jobs that")
            && !page.contains("being created"),
        "{page}"
    );
    let again = rehearse(SCALE, &[("farm", farm("['DEV1-S']", ""))], "left > 0");
    assert_eq!(format!("{:?}", rehearsal.arms[0].outcomes), format!("{:?}", again.arms[0].outcomes));
}

#[test]
fn one_type_only_is_caught_by_a_law_about_scalings_that_are_never_ready() {
    let arms = [("two", farm("['DEV1-S', 'PLAY2-PICO']", "")), ("one", farm("['DEV1-S']", ""))];
    let rehearsal = rehearse(&format!("{SCALE}{NO_STOCK}"), &arms, "not_ready > 0");
    assert_eq!(violators(&rehearsal), ["one"], "{:#?}", rehearsal.arms);
    assert_eq!((figure(&rehearsal, 0, "creations"), figure(&rehearsal, 1, "creations")), (3.0, 2.0));
    let failed = &rehearsal.arms[1].outcomes[0].cluster.as_ref().unwrap().failed_operations;
    assert!(failed[0].name.contains("out-of-stock"), "{failed:?}");
    assert_eq!((figure(&rehearsal, 0, "left"), figure(&rehearsal, 1, "left")), (0.0, 0.0));
    // It waits until the end.
    assert!((3_590.0..3_610.0).contains(&figure(&rehearsal, 1, "ready_worst")), "{:?}", rehearsal.arms[1].figures);
}

#[test]
fn a_retry_policy_that_waits_for_stock_is_ready_when_the_shortage_is_over() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("patient.rules.toml");
    let rules = "slot = 'retry'\n[[rules]]\nwhen = \"failure.class == 'out-of-stock'\"\nanswer = { wait = 60000 }\n";
    std::fs::write(&file, rules).unwrap();
    let patient = under(Policies::built_in().with(SlotName::Retry, Link::file(file)), "['DEV1-S']", "");
    let arms = [("patient", patient), ("usual", farm("['DEV1-S']", ""))];
    let rehearsal = rehearse(&format!("{SCALE}{NO_STOCK}"), &arms, "not_ready > 0");
    assert_eq!(violators(&rehearsal), ["usual"], "{:#?}", rehearsal.arms);
    assert!((1_200.0..1_400.0).contains(&figure(&rehearsal, 0, "ready_worst")), "{:?}", rehearsal.arms[0].figures);
}

#[test]
fn servers_that_stop_or_go_are_replaced_where_the_scenario_says_that_somebody_repairs() {
    let stopped = "[[incident]]\nkind = 'servers-stopped'\nat = '30m'\nshare = 1.0\n";
    let reclaimed = "[[incident]]\nkind = 'spot-reclaim'\nat = '32m'\nlasts = '1m'\nshare = 1.0\n";
    let repair = "[cluster]\nrepair_every = '10m'\n";
    let run = |more: &str| rehearse(more, &[("farm", farm("['DEV1-S']", ""))], "left > 0");
    let (repaired, left_alone) = (run(&format!("{repair}{stopped}")), run(stopped));
    let of =
        |rehearsal: &Rehearsal| ["creations", "repairs", "replaced", "left"].map(|name| figure(rehearsal, 0, name));
    assert_eq!((of(&repaired), of(&left_alone)), ([4.0, 1.0, 2.0, 0.0], [2.0, 0.0, 0.0, 0.0]));
    assert_eq!(of(&run(&format!("{repair}{reclaimed}"))), [4.0, 1.0, 2.0, 0.0]);
}

#[test]
fn hooks_take_their_time_and_fail_at_the_rate_of_the_scenario_and_nothing_is_left() {
    let run = |conduct: &str| {
        rehearse(&format!("[cluster]\n{conduct}\n"), &[("farm", farm("['DEV1-S']", HOOKS))], "left > 0")
    };
    let slow = run("hook_seconds = [300, 300]");
    assert!((320.0..420.0).contains(&figure(&slow, 0, "ready_create")), "{:?}", slow.arms[0].figures);
    let failing = run("failed_hooks = 1.0");
    let failed = &failing.arms[0].outcomes[0].cluster.as_ref().unwrap().failed_operations;
    assert!(failed.iter().any(|counted| counted.name.starts_with("create at configure: ")), "{failed:?}");
    assert_eq!((figure(&failing, 0, "not_ready"), figure(&failing, 0, "left")), (1.0, 0.0));
}

#[test]
fn what_is_wrong_with_an_arm_and_a_scenario_is_told_at_once_with_its_place() {
    let more = "[[scale]]\nat = '1h'\ngroups = { wbe = 3 }\n[[scale]]\nat = '1h'\ngroups = { web = 20000 }\n";
    let failure = try_rehearse(more, &[("farm", farm("['DEV1-SS']", ""))], "left > 0").unwrap_err();
    let RehearsalFailure::Arm { arm, source } = failure else { panic!("{failure}") };
    let RehearsalError::Wrong(found) = *source else { panic!("{source}") };
    assert_eq!(arm, "farm");
    for words in [
        "scale[0].groups.wbe: the cluster has no such group; did you mean `web`?",
        "scale[1].groups: 20000 nodes are more than",
        "groups.web.types: fr-par-1 has no server type DEV1-SS; did you mean DEV1-S?",
    ] {
        assert!(found.problems.iter().any(|problem| problem.starts_with(words)), "{words}: {:#?}", found.problems);
    }
    assert_eq!(found.problems.len(), 3, "{:#?}", found.problems);
}
