//! A group whose world nobody has described is recorded as a real one would be, and rehearsed as it was configured: the
//! rehearsal agrees with what happened.

use serde_json::json;
use windlass_fleeting::{Outcome, Scenario};
use windlass_rehearsal::{
    Calibrated, ClusterArm, Figure, NamedArm, Rehearsal, recorded_cluster, recorded_from, with_jobs,
};

use crate::clusters::{HOOKS, farm};
use crate::macs::macs;
use crate::support::{Configuration, REHEARSER, configuration, listed, with_arms};

/// The jobs of an hour: when each comes and how long it runs, in seconds.
fn jobs() -> Vec<(u64, u64)> {
    (0..40).map(|number| (number * 85 + number * 37 % 60, 60 + number * 53 % 180)).collect()
}

/// What the one who rehearses does not know: how long servers boot in each zone, how many fail, and when there is no
/// stock.
const HIDDEN: &str = "hours = 1\nstarts_at = '2026-08-03T09:00:00'\ntime_zone = 'UTC'\n\
    [[offer]]\nzone = 'fr-par-1'\nboot_seconds = [40, 52]\nfailed_boots = 0.05\n\
    [[offer]]\nzone = 'fr-par-2'\nboot_seconds = [45, 60]\n\
    [[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-1'\nat = '20m'\nlasts = '15m'\n";
/// When it begins, in milliseconds since 1970.
const START: u64 = 1_785_747_600_000;
const HOUR: u64 = 3_600_000;

/// The runner asks less often than it would by default, and the test takes less time.
const CALM: &str = "max_instances = 20\nmax_use_count = 1\nupdate_interval_when_expecting = '5s'";

/// The jobs as GitLab's API has them. How long they waited is not in it.
fn gitlab(jobs: &[(u64, u64)]) -> String {
    let job = |(comes, length): &(u64, u64)| {
        let at = 1_785_747_600 + comes;
        let clock = (at / 3_600 % 24, at / 60 % 60, at % 60);
        let started = format!("2026-08-03T{:02}:{:02}:{:02}Z", clock.0, clock.1, clock.2);
        json!({"started_at": started, "duration": length})
    };
    serde_json::Value::from_iter(jobs.iter().map(job)).to_string()
}

/// What happened, and the rehearsal of what was recorded of it.
fn recorded_and_rehearsed(
    configuration: Configuration,
    jobs: &[(u64, u64)],
    hidden: &str,
    hours: u64,
    know: impl Fn(&mut Scenario),
) -> (Outcome, Scenario, Rehearsal) {
    let listed = jobs.iter().map(|(a, b)| [a, b]).collect::<Vec<_>>();
    let hidden = Scenario::parse(&format!("{hidden}[[demand]]\njobs = {listed:?}\n")).unwrap();
    with_arms(&[("in-force", configuration)], |arms, rehearser| {
        let read = |journal: &_| recorded_from(journal, None, START, START + hours * HOUR).unwrap().unwrap();
        let (happened, recorded) = rehearser.rehearse_and_read(&hidden, &arms[0].arm, 77, read).unwrap();
        let mut scenario = with_jobs(recorded, &gitlab(jobs), None).unwrap().scenario;
        let (waited, totals) = (happened.totals.waited, &happened.totals);
        assert_eq!(Scenario::parse(&scenario.to_toml().unwrap()).unwrap(), scenario);
        know(&mut scenario);
        // GitLab knows how long jobs waited, and the bill what servers cost.
        for (figure, value) in [
            ("wait_p50", waited.p50_ms as f64 / 1_000.0),
            ("wait_p95", waited.p95_ms as f64 / 1_000.0),
            ("cost", totals.cost),
        ] {
            scenario.observed.insert(figure.to_owned(), value);
        }
        let rehearsal = Rehearsal::run(&scenario, arms, &[1, 2], &[], rehearser, &|| {}).unwrap();
        (happened, scenario, rehearsal)
    })
}

/// Whether the rehearsal agrees with these figures of what was observed. What it says of all.
fn within_5_percent(rehearsal: &Rehearsal, scenario: &Scenario, figures: &[&str]) -> Vec<String> {
    let (_, calibration) = rehearsal.calibrated().unwrap();
    let told: Vec<String> = calibration.iter().map(Calibrated::words).collect();
    for figure in figures {
        let error = calibration.iter().find(|it| it.figure == *figure).unwrap().error.unwrap();
        assert!(error.abs() < 0.05, "{figure}: {told:#?}\n{}", scenario.to_toml().unwrap());
    }
    println!("{told:#?}");
    told
}

#[test]
fn the_rehearsal_of_a_recorded_time_is_within_5_percent() {
    let both = configuration().with_plugin("zone = ['fr-par-1', 'fr-par-2']\nserver_type = 'DEV1-S'");
    let configuration = both.with_idle("idle_count = 0").with_autoscaler(CALM);
    let (happened, scenario, rehearsal) = recorded_and_rehearsed(configuration, &jobs(), HIDDEN, 1, |_| {});
    let told = within_5_percent(&rehearsal, &scenario, &["wait_p50", "wait_p95", "cost", "server_hours"]);
    assert!(happened.totals.failures > 1, "the hidden world has failures: {:?}", happened.failures);
    assert!(scenario.incidents.iter().any(|it| it.zone.as_deref() == Some("fr-par-1")), "{:?}", scenario.incidents);
    let page = rehearsal.page();
    assert!(rehearsal.simplified.iter().chain(&told).all(|words| page.contains(words)), "{page}");
}

#[test]
fn recorded_boots_take_as_long_as_they_did() {
    let jobs = [(1, 2), (6, 2), (11, 2), (16, 2)];
    let hidden = listed(1, &jobs, "[[offer]]\nboot_seconds = [40, 40]\n");
    let start = 1_785_754_800_000;
    let recorded = with_arms(&[("in-force", configuration().with_idle("idle_count = 0"))], |arms, rehearser| {
        let read = |journal: &_| recorded_from(journal, None, start, start + 3_600_000).unwrap().unwrap();
        rehearser.rehearse_and_read(&hidden, &arms[0].arm, 1, read).unwrap().1
    });
    let (shortest, longest) = recorded.offers[0].boot_seconds.unwrap();
    assert!(shortest >= 40 && longest <= 41, "and the poll that sees it: {}", recorded.to_toml().unwrap());
}

/// A pool whose size nobody knows, and wipes that take their time.
const HIDDEN_MACS: &str = "hours = 2\nstarts_at = '2026-08-03T09:00:00'\ntime_zone = 'UTC'\n\
    [[pool]]\nhosts = 4\n[[offer]]\ntype = 'M4-S'\nhourly_price = 0.1\nreinstall_seconds = [560, 640]\n";

#[test]
fn the_rehearsal_of_recorded_macs_is_within_5_percent() {
    // In each hour more come at once than there are hosts.
    let job = |number: u64| (number / 10 * 3_600 + number % 10 * 5, 400 + number * 53 % 100);
    let price = |scenario: &mut Scenario| scenario.offers.iter_mut().for_each(|it| it.hourly_price = Some(0.1));
    let jobs: Vec<(u64, u64)> = (0..20).map(job).collect();
    let calm = macs(5).with_autoscaler(&format!("{CALM}\ninstance_acquire_timeout = '3h'").replace("= 20", "= 5"));
    let (_, scenario, rehearsal) = recorded_and_rehearsed(calm, &jobs, HIDDEN_MACS, 2, price);
    assert_eq!(scenario.pools.iter().map(|pool| pool.hosts).collect::<Vec<_>>(), [4]);
    within_5_percent(&rehearsal, &scenario, &["wait_p50", "wait_p95", "cost", "server_hours"]);
}

/// What the one who rehearses a cluster does not know.
const HIDDEN_CLUSTER: &str = "starts_at = '2026-08-03T09:00:00'\ntime_zone = 'UTC'\n\
    [cluster]\nrepair_every = '10m'\n\
    [cluster.decommission]\nhook_seconds = [28, 34]\n\
    [cluster.configure]\nhook_seconds = [90, 130]\n[[offer]]\nboot_seconds = [40, 52]\n";

fn observed_farm() -> ClusterArm {
    farm("['DEV1-S']", &format!("{HOOKS}[hooks.start]\nprogram = {{ command = './none.sh' }}\n"))
}

/// What happened to a cluster that was scaled every 20 minutes, and what was recorded of it.
fn recorded_of_cluster(hours: u64, more: &str) -> (windlass_rehearsal::Outcome, Scenario) {
    let scale =
        |number: u64| format!("[[scale]]\nat = '{}m'\ngroups = {{ web = {} }}\n", 20 * number, 2 + number * 5 % 7);
    let scales: String = (1..3 * hours).map(scale).collect();
    let hidden = Scenario::parse_for_clusters(&format!("hours = {hours}\n{HIDDEN_CLUSTER}{more}{scales}")).unwrap();
    let name = "farm".parse().unwrap();
    let end = START + hours * HOUR;
    let read = async |journal: &_| recorded_cluster(journal, &name, START, end).await.unwrap().unwrap();
    let (happened, scenario) = observed_farm().rehearse_and_read(&hidden, 77, &REHEARSER, read).unwrap();
    for (figure, observed) in &scenario.observed {
        let real = Figure::named(figure).unwrap().of(&happened);
        assert!((real - observed).abs() <= 0.01 * real, "{figure} was {real}: {}", scenario.to_toml().unwrap());
    }
    assert_eq!(Scenario::parse_for_clusters(&scenario.to_toml().unwrap()).unwrap(), scenario);
    assert_eq!(scenario.scales.len(), hidden.scales.len() + 2, "and its creation from nothing");
    (happened, scenario)
}

#[test]
fn the_rehearsal_of_a_recorded_cluster_is_within_5_percent() {
    let shortage = "[[incident]]\nkind = 'zone-out-of-stock'\ntype = 'DEV1-S'\nat = '2h30m'\nlasts = '40m'\n";
    let (happened, mut scenario) = recorded_of_cluster(8, shortage);
    scenario.observed.insert("cost".to_owned(), happened.totals.cost);
    let [incident] = scenario.incidents.as_slice() else { panic!("{:?}", scenario.incidents) };
    assert_eq!((incident.at.0.as_secs() / 60, incident.server_type.as_deref()), (160, Some("DEV1-S")));
    let arms = [NamedArm { name: "in-force".to_owned(), arm: observed_farm() }];
    let rehearsal = Rehearsal::run(&scenario, &arms, &[1, 2], &[], &REHEARSER, &|| {}).unwrap();
    within_5_percent(&rehearsal, &scenario, &["ready_p50", "ready_p95", "cost", "server_hours"]);
}

#[test]
fn failures_of_a_cluster_are_recorded_as_shares_by_stage_and_place() {
    let failing = "failed_boots = 0.1\n[cluster.start]\nfailed_hooks = 0.4\n";
    let (happened, scenario) = recorded_of_cluster(5, failing);
    let conduct = scenario.cluster.as_ref().unwrap();
    let told = || format!("{:?}\n{}", happened.cluster, scenario.to_toml().unwrap());
    let share = conduct.start.as_ref().and_then(|hook| hook.failed_hooks).unwrap_or_default();
    assert!((0.15..0.65).contains(&share), "{}", told());
    let (shortest, longest) = conduct.configure.as_ref().and_then(|hook| hook.hook_seconds).unwrap();
    assert!((86..=134).contains(&shortest) && (86..=134).contains(&longest), "{}", told());
    assert!(scenario.offers[0].failed_boots.is_some_and(|share| share < 0.3), "{}", told());
    assert!(conduct.repair_every.is_some_and(|every| (590..=620).contains(&every.0.as_secs())), "{}", told());
}
