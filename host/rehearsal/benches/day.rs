//! How long a rehearsal of a Monday with up to 500 servers takes: the first with one arm on one core, the second with an
//! arm for each of two. An argument says of how many hours, instead of 24: `cargo bench --bench day -- 1`.

#![allow(clippy::unwrap_used, reason = "a benchmark that unwraps ends with the error")]

use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_fleeting::{Arm, ProcessEnvironment, Rehearser, Scenario};
use windlass_rehearsal::{NamedArm, Rehearsal};

/// From 9:00 on. 1,300 jobs come in the busiest hour, and 500 of them run at a time.
const MONDAY: &str = "hours = 24\nstarts_at = '2026-08-03T09:00:00'\n[[demand]]\npattern = 'office-hours'\njobs_per_hour = 1_000\njob_minutes = 23\n";

/// A group that keeps ten servers idle, and uses each for so many jobs.
fn arm(folder: &TempDir, name: &str, max_use_count: u32) -> NamedArm {
    let file = folder.path().join(format!("{name}.toml"));
    let text = format!(
        "concurrent = 500\n[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\nmax_instances = 500\n\
         max_use_count = {max_use_count}\n[runners.autoscaler.plugin_config]\nname = 'ci'\nimage = 'ubuntu_noble'\n\
         zone = 'fr-par-1'\nserver_type = 'DEV1-S'\n[[runners.autoscaler.policy]]\nidle_count = 10\n\
         idle_time = '20m'\n"
    );
    std::fs::write(&file, text).unwrap();
    NamedArm { name: name.to_owned(), arm: Arm::read(file.to_str().unwrap(), None).unwrap() }
}

fn rehearse(scenario: &Scenario, arms: &[NamedArm], rehearser: &Rehearser) -> (Duration, Rehearsal) {
    let began = Instant::now();
    let rehearsal = Rehearsal::run(scenario, arms, &[1], &[], rehearser, &|| {}).unwrap();
    (began.elapsed(), rehearsal)
}

fn main() {
    let folder = TempDir::new().unwrap();
    let mut scenario = Scenario::parse(MONDAY).unwrap();
    scenario.hours = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(scenario.hours);
    let rehearser = Rehearser::new(ProcessEnvironment::default(), None).unwrap();
    let hour = Scenario { hours: 1, ..scenario.clone() };
    // Compiles the policies.
    rehearse(&hour, &[arm(&folder, "first", 1)], &rehearser);
    println!(
        "a Monday of up to 500 servers            s on one core  s for two arms  servers created  calls of the API"
    );
    for (name, max_use_count) in [("reused", 0), ("one-job-each", 1)] {
        let arms = [arm(&folder, name, max_use_count), arm(&folder, &format!("{name}-again"), max_use_count)];
        let (alone, rehearsal) = rehearse(&scenario, &arms[..1], &rehearser);
        let (both, _) = rehearse(&scenario, &arms, &rehearser);
        let outcome = &rehearsal.arms[0].outcomes[0];
        assert!(outcome.is_good(), "{name}: {:?}", outcome.totals);
        let (totals, most) = (&outcome.totals, outcome.hours.iter().map(|hour| hour.instances).max().unwrap());
        println!(
            "{name:<14} {most:>3} at once, {:>6} jobs {:>13.1} {:>15.1} {:>16} {:>17}",
            totals.jobs,
            alone.as_secs_f64(),
            both.as_secs_f64(),
            totals.creations,
            totals.api_calls
        );
    }
}
