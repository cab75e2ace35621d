//! A group whose world nobody has described is recorded as a real one would be, and rehearsed as it was configured: the
//! rehearsal agrees with what happened.

use serde_json::json;
use windlass_fleeting::{Outcome, Scenario};
use windlass_rehearsal::{Rehearsal, recorded_from, with_jobs};

use crate::support::{Configuration, configuration, listed, with_arms};

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
/// When it begins and ends, in milliseconds since 1970.
const TIME: (u64, u64) = (1_785_747_600_000, 1_785_747_600_000 + 3_600_000);

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
fn recorded_and_rehearsed(configuration: Configuration) -> (Outcome, Scenario, Rehearsal) {
    let jobs = jobs();
    let hidden = Scenario::parse(&format!(
        "{HIDDEN}[[demand]]\njobs = {:?}\n",
        jobs.iter().map(|(a, b)| [a, b]).collect::<Vec<_>>()
    ))
    .unwrap();
    with_arms(&[("in-force", configuration)], |arms, rehearser| {
        let read = |journal: &_| recorded_from(journal, None, TIME.0, TIME.1).unwrap().unwrap();
        let (happened, recorded) = rehearser.rehearse_and_read(&hidden, &arms[0].arm, 77, read).unwrap();
        let mut scenario = with_jobs(recorded, &gitlab(&jobs), None).unwrap().scenario;
        let (waited, totals) = (happened.totals.waited, &happened.totals);
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

#[test]
fn the_rehearsal_of_a_recorded_time_is_within_5_percent() {
    let both = configuration().with_plugin("zone = ['fr-par-1', 'fr-par-2']\nserver_type = 'DEV1-S'");
    let configuration = both.with_idle("idle_count = 0").with_autoscaler(CALM);
    let (happened, scenario, rehearsal) = recorded_and_rehearsed(configuration);
    let (_, calibration) = rehearsal.calibrated().unwrap();
    let told: Vec<String> = calibration.iter().map(windlass_rehearsal::Calibrated::words).collect();
    for figure in ["wait_p50", "wait_p95", "cost", "server_hours"] {
        let error = calibration.iter().find(|it| it.figure == figure).unwrap().error.unwrap();
        assert!(error.abs() < 0.05, "{figure}: {told:#?}\n{:?}\n{}", happened.totals, scenario.to_toml().unwrap());
    }
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
    assert_eq!(
        recorded.offers[0].boot_seconds,
        Some((40, 41)),
        "and the poll that sees it: {}",
        recorded.to_toml().unwrap()
    );
}
