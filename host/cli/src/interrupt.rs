//! Ctrl-C and SIGTERM during work that has effects: the first undoes what is in flight, the second leaves it to the
//! next start. Either way the journal knows.

use std::process;

use tokio_util::sync::CancellationToken;

use crate::failure::Exit;
use crate::output::Output;

/// Listens from now on. The token is cancelled by the first signal; the second ends the process.
pub(crate) fn listen(output: Output) -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let mut terminations = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::spawn(async move {
        let mut signals = 0;
        loop {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
            }
            signals += 1;
            if signals == 1 {
                output.say("interrupted: undoing what is in flight; once more leaves it to the next start");
                cancelled.cancel();
            } else {
                output.say(
                    "interrupted again: left as it is; the journal knows, and `windlass operation resume` finishes it",
                );
                process::exit(Exit::Interrupted as i32);
            }
        }
    });
    Ok(token)
}
