//! Long results on a terminal, in the reader's pager.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use anstream::AutoStream;

/// The exit code of a shell that did not find the command.
const NOT_FOUND: i32 = 127;

/// Shows a text in a pager if it does not fit onto the screen of a person. Returns whether it was shown.
///
/// `WINDLASS_PAGER` names the pager, else `PAGER`; the default is `less`. An empty value and `cat` switch it off.
pub(crate) fn paged(text: &str) -> bool {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let rows = terminal_size::terminal_size_of(&stdout).map(|(_, terminal_size::Height(rows))| usize::from(rows));
    let is_long = rows.is_some_and(|rows| text.lines().count() >= rows);
    if !is_long || !stdin.is_terminal() {
        return false;
    }
    let set = std::env::var("WINDLASS_PAGER").or_else(|_| std::env::var("PAGER")).ok();
    let Some(mut pager) = start(set.as_deref()) else { return false };
    // The reader's Ctrl-C is for the pager: if this process ended by it, both the pager and the shell would read keys.
    let _interrupts = tokio::runtime::Handle::try_current()
        .ok()
        .map(|_| tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()));
    if let Some(stdin) = pager.stdin.take() {
        // The reader may leave before the end.
        let stdin = File::from(OwnedFd::from(stdin));
        let _ = AutoStream::new(stdin, AutoStream::choice(&stdout)).write_all(text.as_bytes());
    }
    pager.wait().is_ok_and(|status| status.code() != Some(NOT_FOUND))
}

fn start(set: Option<&str>) -> Option<Child> {
    let mut command = match set.map(str::trim) {
        None => Command::new("less"),
        Some("" | "cat") => return None,
        Some(set) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", set]);
            shell
        }
    };
    // A pager can start other programs. None of them needs credentials.
    for (name, _) in std::env::vars_os() {
        let is_ours = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if ["SCW_", "WINDLASS_", "PG"].iter().any(is_ours) {
            command.env_remove(name);
        }
    }
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    command.stdin(Stdio::piped()).spawn().ok()
}
