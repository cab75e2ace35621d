//! `windlass completions SHELL`.

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions};
use crate::output::print;

pub(crate) fn run(completions: &Completions) {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "windlass", &mut script);
    print(&String::from_utf8_lossy(&script));
}
