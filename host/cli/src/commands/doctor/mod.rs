//! `windlass doctor`: whether everything is there that Windlass needs. Reads only: nothing changes at Scaleway, nothing
//! is spent, and no file stays behind.

mod check;
mod local;
mod remote;

use crate::arguments::Global;
use crate::context::Context;
use check::Check;
pub(crate) use check::Examination;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{Output, print};

pub(crate) async fn run(global: Global) -> Result<(), Failure> {
    let output = global.output();
    let checks = match Context::load(global) {
        Ok(context) => return ended(output, examine(&context).await),
        Err(failure) => unread(&failure),
    };
    ended(output, Examination { checks })
}

/// All checks, under a configuration that could be read.
pub(crate) async fn examine(context: &Context) -> Examination {
    // One after the other: loading policies takes this thread, and answers are timed.
    let mut checks = local::examine(context).await;
    checks.extend(remote::examine(context).await);
    Examination { checks }
}

fn ended(output: Output, examination: Examination) -> Result<(), Failure> {
    let failed = examination.failed();
    if failed.is_empty() {
        output.result(&examination, || examination.rendered());
        return Ok(());
    }
    if !output.is_document() {
        print(&examination.rendered());
    }
    let count = if failed.len() == 1 { "a check".to_owned() } else { format!("{} checks", failed.len()) };
    Err(Failure::new(Exit::Undone, format!("{count} failed: {}", failed.join(", ")))
        .with_partial(serde_json::to_value(&examination).unwrap_or_default()))
}

/// Every other command stops at a configuration that cannot be read, and where to look next stands in it.
fn unread(failure: &Failure) -> Vec<Check> {
    let others = local::CHECKS.into_iter().chain(remote::CHECKS).filter(|check| *check != local::CONFIGURATION);
    let others = others.map(|check| Check::skipped(check, "the configuration comes first"));
    std::iter::once(Check::of_failure(local::CONFIGURATION, failure)).chain(others).collect()
}
