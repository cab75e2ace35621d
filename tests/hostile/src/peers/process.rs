//! A peer in a process of its own. It harms until it reads a line from stdin, then writes what it has done to stdout as
//! a line of JSON, and keeps its connections open until its stdin ends.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::peers::harm;

/// The variable of the environment that has the orders, as JSON.
const ORDERS: &str = "WINDLASS_HOSTILE_PEER";

/// What a peer is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub(crate) socket: PathBuf,
    pub(crate) seed: u64,
    pub(crate) number: u64,
}

impl Orders {
    /// Those of this process. None: it isn't a peer.
    ///
    /// # Errors
    /// They are not what [`crate::peers::run`] writes.
    pub fn of_this_process() -> anyhow::Result<Option<Orders>> {
        let Ok(orders) = std::env::var(ORDERS) else { return Ok(None) };
        Ok(Some(serde_json::from_str(&orders).context(ORDERS)?))
    }
}

/// Does harm as this process's stdin says.
///
/// # Errors
/// stdout is closed.
pub fn attack(orders: &Orders) -> anyhow::Result<()> {
    let mut peer = harm::Peer::new(&orders.socket, orders.seed, orders.number);
    let stop = AtomicBool::new(false);
    let mut stdin = std::io::stdin();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = stdin.lock().read_line(&mut String::new());
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            peer.harm();
        }
    });
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", serde_json::to_string(peer.done())?)?;
    stdout.flush()?;
    let _ = stdin.read(&mut [0]);
    Ok(())
}

/// The process.
pub(crate) struct Peer {
    process: Child,
}

impl Peer {
    pub(crate) fn start(mut command: Command, orders: &Orders) -> anyhow::Result<Peer> {
        command.env(ORDERS, serde_json::to_string(orders)?).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Peer { process: command.spawn().with_context(|| format!("start {command:?}"))? })
    }

    /// It harms no more. Returns what it has done, and how often.
    pub(crate) fn stop(&mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        self.process.stdin.as_mut().context("its stdin")?.write_all(b"\n").context("a peer has ended")?;
        // A test program writes lines of its own.
        let lines = BufReader::new(self.process.stdout.take().context("its stdout")?).lines();
        let done = lines.map_while(Result::ok).find(|line| line.starts_with('{'));
        Ok(serde_json::from_str(&done.context("a peer has ended without a word")?)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
