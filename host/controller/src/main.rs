//! `windlass-controller`: the process around the library.

use std::process::ExitCode;

use clap::Parser;
use windlass_controller::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Crds) => {
            print!("{}", windlass_controller::definitions_yaml());
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("windlass-controller: only `crds` is there yet");
            ExitCode::from(2)
        }
    }
}
