//! Asks the slot `retry` about its example of a failure: the policy in the file that is named, or the built-in default.

use std::path::Path;

use windlass::lifecycle::StateDirectory;
use windlass::policy::slots::{Retry, Slot, SlotName};
use windlass::policy::{Compiler, Host, HostOptions, Link, Policies};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let state = StateDirectory::open(Path::new("state"))?; // compiled policies, and the record of decisions
    let mut options = HostOptions::new(state.handle().try_clone()?);
    options.compiler = Some(Compiler::this_process()); // for files that you trust as your own code
    let host = Host::new(options)?;
    if let Some(file) = std::env::args().nth(1) {
        host.configure(&Policies::built_in().with(SlotName::Retry, Link::file(file)))?;
    }
    let decision = host.pin().decide::<Retry>(Retry::example()).await;
    let reason = decision.reason.as_deref().unwrap_or("no reason was given");
    println!("{:?}, decided by {}: {reason}", decision.answer.verdict, decision.decided_by);
    Ok(())
}
