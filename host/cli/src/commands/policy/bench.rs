//! `windlass policy bench`: what a decision costs, beside the built-in default.

use std::time::Duration;

use serde::Serialize;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::table;
use windlass_policy::Link;
use windlass_policy::slots::SlotName;
use windlass_proof::bench::{Cost, Measured, bench};

use crate::arguments::BenchPolicy;
use crate::context::Context;
use crate::policy_file::{BUILT_IN, link_or_default, load, only_slot, trial_host};
use crate::units::{Size, human_duration};

/// So much fuel that no decision ends for want of it: time ends it first.
const FUEL: u64 = u64::MAX >> 1;

/// Document of `policy bench`.
#[derive(Serialize)]
struct Benched {
    slot: SlotName,
    decisions: u32,
    policy: Cost,
    default: Cost,
    /// How many times as long as the default's decision half of the policy's take.
    ratio: f64,
}

pub(super) fn run(context: &Context, arguments: &BenchPolicy) -> Result<(), Failure> {
    let file = &arguments.load.file;
    let slot = only_slot(arguments.slot, [file.as_path()])?;
    let host = trial_host(context)?;
    let link = link_or_default(context, slot, &arguments.load)?;
    let policy = load(&host, slot, &link, file)?;
    let with_fuel = load(&host, slot, &link.with_limit("fuel", FUEL), file)?;
    let default = load(&host, slot, &Link::default(), BUILT_IN.as_ref())?;
    let default_with_fuel = load(&host, slot, &Link::default().with_limit("fuel", FUEL), BUILT_IN.as_ref())?;
    let [policy, default] = bench(
        Measured { plain: &policy, with_fuel: &with_fuel },
        Measured { plain: &default, with_fuel: &default_with_fuel },
        arguments.decisions as usize,
    )
    .map_err(|error| Failure::usage(error.to_string()))?;
    let ratio = policy.p50_ns as f64 / default.p50_ns.max(1) as f64;
    let benched = Benched { slot, decisions: arguments.decisions, policy, default, ratio };
    context.output.result(&benched, || {
        let row = |name: &str, cost: &Cost| {
            let time = |nanoseconds| human_duration(Duration::from_nanos(nanoseconds));
            vec![
                name.to_owned(),
                time(cost.p50_ns),
                time(cost.p99_ns),
                cost.fuel_p50.to_string(),
                cost.fuel_most.to_string(),
                Size(cost.memory_bytes).to_string(),
                cost.failures.to_string(),
            ]
        };
        let rows = [row(&benched.policy.policy.name, &benched.policy), row("the default", &benched.default)];
        let mut text = table(&["policy", "p50", "p99", "fuel p50", "fuel most", "memory", "failed"], rows);
        text.push_str(&format!(
            "\n{} decisions of {} each, in turns: {:.2} times the default's p50\n",
            benched.decisions, benched.slot, benched.ratio
        ));
        text
    });
    Ok(())
}
