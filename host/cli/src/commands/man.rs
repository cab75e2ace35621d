//! `windlass man`: a manual page for each command.

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clap_mangen::Man;
use serde::Serialize;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::Output;
use windlass_inspect::text::printable;

use crate::arguments::{self, Arguments};

/// Document of `man`.
#[derive(Serialize)]
struct Written {
    files: Vec<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &arguments::Man) -> Result<(), Failure> {
    let folder = &arguments.out;
    let failed = |error: std::io::Error| {
        Failure::usage("the manual pages cannot be written")
            .at(folder.display().to_string())
            .because(match error.kind() {
                // Said of a file where the folder would be.
                std::io::ErrorKind::AlreadyExists => "it is a file, and a folder is needed".to_owned(),
                _ => error.to_string(),
            })
            .remedy("name a folder that you may write with --out")
    };
    Dir::create_ambient_dir_all(folder, ambient_authority()).map_err(failed)?;
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
    // Named as `man` finds them: windlass-cluster-create.1.
    let mut command = Arguments::documented().disable_help_subcommand(true);
    command.build();
    let mut written = Written { files: Vec::new() };
    write(&command, &dir, folder, &mut written.files).map_err(failed)?;
    output.result(&written, || {
        written.files.iter().map(|file| format!("{}\n", printable(&file.display().to_string()))).collect()
    });
    Ok(())
}

/// The page of a command, after those of its subcommands.
fn write(command: &clap::Command, dir: &Dir, folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, dir, folder, files)?;
    }
    let page = Man::new(command.clone()).source(concat!("windlass ", env!("CARGO_PKG_VERSION"))).manual("Windlass");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let name = page.get_filename();
    dir.write(&name, text)?;
    files.push(folder.join(name));
    Ok(())
}
