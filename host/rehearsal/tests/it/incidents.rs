//! What incidents do to an outcome, and what comparisons say of it.

use windlass_rehearsal::{FIGURES, Rehearsal};

use crate::support::{configuration, listed, rehearse, scenario};

/// A figure of the first arm.
fn figure(rehearsal: &Rehearsal, name: &str) -> f64 {
    assert!(FIGURES.iter().any(|figure| figure.name == name), "{name}");
    rehearsal.arms[0].figures.iter().find(|spread| spread.figure == name).unwrap().mean
}

fn alone(hours: u32, jobs_per_hour: u32, more: &str) -> Rehearsal {
    rehearse(&scenario(hours, jobs_per_hour, more), &[("a", configuration())], &[1], &[])
}

#[test]
fn boots_take_as_long_as_the_scenario_says_and_longer_while_they_are_slow() {
    let boot = "[[offer]]\ntype = 'DEV1-S'\nboot_seconds = [50, 60]\n";
    let slow = "[[incident]]\nkind = 'slow-boots'\nat = '20m'\nlasts = '20m'\nfactor = 4.0\n";
    let none = configuration().with_idle("idle_count = 0");
    let worst = |jobs: &[(u32, u32)]| {
        let scenario = listed(1, jobs, &format!("{boot}{slow}"));
        figure(&rehearse(&scenario, &[("a", none.clone())], &[1], &[]), "wait_worst")
    };
    let (before, during) = (worst(&[(5, 5)]), worst(&[(25, 5)]));
    assert!((50.0..75.0).contains(&before) && (200.0..260.0).contains(&during), "{before} {during}");
}

#[test]
fn boots_that_fail_are_failed_creations_and_nothing_of_them_is_left() {
    let failing = "[[incident]]\nkind = 'failing-boots'\nat = '0s'\nlasts = '1h'\nshare = 0.5\n";
    let rehearsal = alone(1, 12, failing);
    assert!(figure(&rehearsal, "failures") > 0.0, "{:?}", rehearsal.arms[0].outcomes[0].failures);
    assert_eq!((figure(&rehearsal, "left"), figure(&rehearsal, "unfinished")), (0.0, 0.0));
}

#[test]
fn servers_that_are_stopped_lose_their_jobs_and_are_reaped() {
    let stopped = "[[incident]]\nkind = 'servers-stopped'\nat = '10m'\nshare = 1.0\n";
    let scenario = listed(1, &[(1, 20), (2, 20)], stopped);
    let rehearsal = rehearse(&scenario, &[("a", configuration())], &[1], &[]);
    // The idle one as well.
    assert_eq!((figure(&rehearsal, "lost"), figure(&rehearsal, "reaps")), (2.0, 3.0));
    assert_eq!((figure(&rehearsal, "finished"), figure(&rehearsal, "left")), (0.0, 0.0));
}

#[test]
fn reclaimed_servers_lose_their_jobs_and_nothing_of_them_is_left() {
    let reclaim =
        |share: f64| format!("[[incident]]\nkind = 'spot-reclaim'\nat = '10m'\nlasts = '30m'\nshare = {share}\n");
    let jobs = [(1, 40), (2, 40), (45, 10)];
    let lost = |share: f64| {
        let scenario = listed(1, &jobs, &reclaim(share));
        let rehearsal = rehearse(&scenario, &[("a", configuration())], &[1], &[]);
        assert_eq!(figure(&rehearsal, "left"), 0.0);
        assert_eq!(figure(&rehearsal, "lost") + figure(&rehearsal, "finished"), 3.0);
        figure(&rehearsal, "lost")
    };
    // The job that comes when it is over keeps its server.
    assert_eq!((lost(1.0), lost(0.0)), (2.0, 0.0));
    let some = alone(2, 20, "[[incident]]\nkind = 'spot-reclaim'\nat = '0s'\nlasts = '2h'\nshare = 0.5\n");
    let (lost, jobs) = (figure(&some, "lost"), figure(&some, "jobs"));
    assert!(lost > 0.0 && lost < jobs / 4.0, "each job takes a twelfth of an hour: {lost} of {jobs}");
}

#[test]
fn jobs_wait_longer_while_calls_are_limited_and_none_is_lost() {
    let wait = |more: &str| {
        let none = configuration().with_idle("idle_count = 0");
        let rehearsal = rehearse(&listed(1, &[(1, 2), (1, 2), (2, 2)], more), &[("a", none)], &[1], &[]);
        assert_eq!((figure(&rehearsal, "finished"), figure(&rehearsal, "left")), (3.0, 0.0));
        figure(&rehearsal, "wait_worst")
    };
    let limited = "[[incident]]\nkind = 'rate-limited'\nat = '0s'\nlasts = '30m'\ncalls_per_second = 2\n";
    let (free, limited) = (wait(""), wait(limited));
    assert!(limited > free, "{free} {limited}");
}

#[test]
fn jobs_go_on_with_idle_instances_while_the_api_is_down() {
    let down = "[[incident]]\nkind = 'api-down'\nat = '20m'\nlasts = '15m'\n";
    let kept = configuration().with_autoscaler("max_instances = 5").with_idle("idle_count = 4\nidle_time = '1h'");
    let rehearsal = rehearse(&scenario(1, 12, down), &[("a", kept)], &[1], &[]);
    assert!(figure(&rehearsal, "wait_worst") < 60.0, "{:?}", rehearsal.arms[0].figures);
    assert_eq!((figure(&rehearsal, "lost"), figure(&rehearsal, "left")), (0.0, 0.0));
    let notes = rehearsal.arms[0].notes();
    assert!(notes.iter().any(|note| note.contains("failed calls of update")), "{notes:?}");
}

#[test]
fn the_same_seed_is_the_same_outcome_and_arms_are_compared_seed_by_seed() {
    let day =
        scenario(1, 12, "[[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-1'\nat = '10m'\nlasts = '30m'\n");
    let both = configuration().with_plugin("zone = ['fr-par-1', 'fr-par-2']\nserver_type = 'DEV1-S'");
    let run = |seeds: &[u64]| rehearse(&day, &[("one", configuration()), ("two", both.clone())], seeds, &[]);
    let first = run(&[1, 2]);
    for (arm, again) in first.arms.iter().zip(run(&[2]).arms) {
        assert_eq!(format!("{:?}", arm.outcomes[1]), format!("{:?}", again.outcomes[0]));
    }
    let waiting = first.differences.iter().find(|difference| difference.figure == "wait_p95").unwrap();
    assert!(waiting.mean < -300.0 && waiting.arm == "two", "{waiting:?}");
    let jobs = first.differences.iter().find(|difference| difference.figure == "jobs").unwrap();
    let interval = jobs.interval.unwrap();
    assert_eq!((jobs.mean, interval.low, interval.high), (0.0, 0.0, 0.0), "both have the same jobs");
    let [parting] = first.partings.as_slice() else { panic!("{:?}", first.partings) };
    let (of_first, of_other) = (parting.first.as_ref().unwrap(), parting.other.as_ref().unwrap());
    assert_eq!((of_first.zone.as_str(), of_other.zone.as_str()), ("fr-par-1", "fr-par-2"));
    assert!(parting.at >= first.starts_at + 600_000, "they do the same until there is no stock: {parting:?}");
}

#[test]
fn the_page_needs_nothing_but_itself_and_has_each_arms_plots() {
    let rehearsal = rehearse(
        &scenario(1, 6, "[[incident]]\nkind = 'api-down'\nat = '10m'\nlasts = '1m'\n"),
        &[("<b>", configuration()), ("second", configuration())],
        &[1],
        &["cost > 0"],
    );
    let page = rehearsal.page();
    assert_eq!(page.matches("<svg").count(), 8, "four plots of each arm");
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "names are escaped");
    assert!(page.contains("violated") && page.contains("class=\"incident\""), "{page}");
    for outside in ["http://", "https://", "<script", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_was_observed_stands_beside_the_first_arm_with_its_error() {
    let observed = "[observed]\njobs = 4.0\nlost = 0.0\n";
    let scenario = listed(1, &[(1, 2), (20, 2)], observed);
    let rehearsal = rehearse(&scenario, &[("today", configuration()), ("next", configuration())], &[1], &[]);
    let (arm, calibration) = rehearsal.calibrated().unwrap();
    let words: Vec<String> = calibration.iter().map(windlass_rehearsal::Calibrated::words).collect();
    assert_eq!(arm, "today");
    assert_eq!(words, ["jobs: 4 observed, 2 rehearsed (-50 %)", "lost: 0 observed, 0 rehearsed"]);
    let page = rehearsal.page();
    assert!(page.contains("Calibration") && page.contains(&words[0]), "{page}");
}
