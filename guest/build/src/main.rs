//! Builds policies of the cargo workspace in the current folder into components.

use std::path::PathBuf;
use std::process::ExitCode;

use windlass_guest_build::Build;

const USAGE: &str = "usage: windlass-guest-build --out DIR PACKAGE...

Builds packages of the cargo workspace in the current folder for wasm32-unknown-unknown and writes
one component for each, DIR/PACKAGE.wasm. cargo's own files go to target/guests.";

fn main() -> ExitCode {
    let mut out = None;
    let mut packages = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            "--out" => out = arguments.next().map(PathBuf::from),
            flag if flag.starts_with('-') => {
                eprintln!("unknown option {flag}\n{USAGE}");
                return ExitCode::from(2);
            }
            package => packages.push(package.to_owned()),
        }
    }
    let (Some(out), false) = (out, packages.is_empty()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let workspace = match std::env::current_dir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("windlass-guest-build: the current folder: {error}");
            return ExitCode::FAILURE;
        }
    };
    let target_dir = workspace.join("target/guests");
    let build =
        packages.iter().fold(Build::new(workspace, target_dir, out), |build, package| build.package(package, package));
    match build.run() {
        Ok(artifacts) => {
            for artifact in artifacts {
                println!("{} ({} bytes)", artifact.path.display(), artifact.size);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("windlass-guest-build: {error}");
            ExitCode::FAILURE
        }
    }
}
