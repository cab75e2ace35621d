//! `windlass completions SHELL`.

use clap::CommandFactory;
use clap_complete::env::Shells;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::print;

use crate::arguments::{Arguments, Completions};
use crate::completion;

pub(crate) fn run(completions: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    if completions.names {
        let shell = completions.shell.to_string();
        let shells = Shells::builtins();
        let writer = shells.completer(&shell).ok_or_else(|| Failure::usage(format!("{shell} cannot ask for names")))?;
        writer
            .write_registration(completion::VARIABLE, "windlass", "windlass", "windlass", &mut script)
            .map_err(|error| Failure::undone("the script cannot be made").because(error.to_string()))?;
    } else {
        clap_complete::generate(completions.shell, &mut Arguments::command(), "windlass", &mut script);
    }
    print(&String::from_utf8_lossy(&script));
    Ok(())
}
