//! A command on each node, over ssh.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_ssh::{Destination, HostKey, Identity, Input, Login, Session, ShownHostKey, Stream};

use super::failure::{HookProblem, NodeFailure};
use super::files::{Readers, read_secret};
use super::hook::SshHook;
use super::input::{HookInput, HookNode};
use super::output::{CAPTURED_BYTES_OF_NODE, Captured, HookOutput, NodeOutput, Tail};

const MAX_KEY_LEN: u64 = 16 * 1024;

/// The private key of a hook.
pub(super) fn identity(ssh: &SshHook) -> Result<Identity, HookProblem> {
    let wrong = |problem: String| HookProblem::Key(format!("{}: {problem}", ssh.key_file.display()));
    let content = read_secret(&ssh.key_file, MAX_KEY_LEN, Readers::OwnerOnly).map_err(wrong)?;
    let content = String::from_utf8(content).map_err(|_| wrong("it is no text".to_owned()))?;
    Identity::from_openssh(&content).map_err(|error| wrong(error.to_string()))
}

/// Runs the command on all nodes, `parallel` at a time. A node that fails doesn't stop the others: half of them done
/// and half of them not even tried helps nobody.
pub(super) async fn run(
    ssh: &SshHook,
    input: &HookInput,
    limit: Duration,
    stop: &CancellationToken,
    output: &mut HookOutput,
) -> Result<(), HookProblem> {
    let deadline = Instant::now() + limit;
    let login = Login::Key(identity(ssh)?);
    let given = Arc::new(given_keys(ssh)?);
    let mut visits = Vec::with_capacity(input.nodes.len());
    for (position, node) in input.nodes.iter().enumerate() {
        let visit = Visit { ssh, input, node, login: login.clone(), given: given.clone() };
        visits.push(async move { (position, visit.until(deadline, limit).await) });
    }
    let mut going = futures::stream::iter(visits).buffer_unordered(ssh.parallel as usize);
    let (of, mut results) = (input.nodes.len(), BTreeMap::new());
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = going.next() => match next {
                Some((position, ended)) => drop(results.insert(position, ended)),
                None => break,
            }
        }
    }
    // Dropped, a turn asks its command to end.
    drop(going);
    let mut failed = Vec::new();
    for (position, node) in input.nodes.iter().enumerate() {
        let (node, result) = results.remove(&position).unwrap_or_else(|| {
            let nothing = NodeOutput {
                node: node.name.clone(),
                succeeded: false,
                stdout: Captured::default(),
                stderr: Captured::default(),
                host_key: None,
            };
            (nothing, Err(HookProblem::CalledOff))
        });
        if let Err(problem) = result {
            failed.push(NodeFailure { node: node.node.clone(), problem });
        }
        output.nodes.push(node);
    }
    if failed.is_empty() { Ok(()) } else { Err(HookProblem::Nodes { failed, of }) }
}

fn given_keys(ssh: &SshHook) -> Result<Vec<HostKey>, HookProblem> {
    let parse = |key: &String| key.parse().map_err(|error: String| HookProblem::Key(format!("ssh.host_keys: {error}")));
    ssh.host_keys.iter().map(parse).collect()
}

/// One node's turn.
struct Visit<'h> {
    ssh: &'h SshHook,
    input: &'h HookInput,
    node: &'h HookNode,
    login: Login,
    given: Arc<Vec<HostKey>>,
}

/// What is known of a turn while it goes on, so that a time-out keeps it.
struct Progress {
    stdout: Tail,
    stderr: Tail,
}

impl Visit<'_> {
    async fn until(self, deadline: Instant, limit: Duration) -> (NodeOutput, Result<(), HookProblem>) {
        let mut progress =
            Progress { stdout: Tail::new(CAPTURED_BYTES_OF_NODE), stderr: Tail::new(CAPTURED_BYTES_OF_NODE) };
        let shown = ShownHostKey::default();
        let result = tokio::time::timeout_at(deadline, self.visit(&shown, &mut progress))
            .await
            .unwrap_or(Err(HookProblem::TimedOut(limit)));
        let output = NodeOutput {
            node: self.node.name.clone(),
            succeeded: result.is_ok(),
            stdout: progress.stdout.finish(),
            stderr: progress.stderr.finish(),
            host_key: shown.accepted().map(|key| key.to_string()),
        };
        (output, result)
    }

    async fn visit(&self, shown: &ShownHostKey, progress: &mut Progress) -> Result<(), HookProblem> {
        let address = self.node.ssh_address(self.ssh).ok_or(HookProblem::NoAddress)?;
        let destination = Destination { address, port: self.ssh.port, user: self.ssh.user.clone() };
        let session = Session::open(&destination, &self.login, self.expected_keys()?, shown).await.map_err(problem)?;
        let input = self.input.json_for(self.node);
        let ended = session
            .run(&self.ssh.command, Input::Bytes(&input), |stream, bytes| match stream {
                Stream::Stdout => progress.stdout.push(bytes),
                Stream::Stderr => progress.stderr.push(bytes),
            })
            .await;
        // The work is done or lost by now.
        session.close().await;
        ended.map_err(|error| match error {
            windlass_ssh::Error::Connection(words) => HookProblem::ConnectionLost(words),
            other => problem(other),
        })
    }

    /// The keys of which the node must show one; none: whichever it shows first.
    fn expected_keys(&self) -> Result<Vec<HostKey>, HookProblem> {
        if !self.given.is_empty() {
            return Ok(self.given.to_vec());
        }
        match &self.node.ssh_host_key {
            None => Ok(Vec::new()),
            // A stored key that cannot be read must not count as none.
            Some(stored) => stored.parse().map(|key| vec![key]).map_err(|error: String| {
                HookProblem::Key(format!("the stored host key of {}: {error}", self.node.name))
            }),
        }
    }
}

/// What a failure over ssh is to a hook.
fn problem(error: windlass_ssh::Error) -> HookProblem {
    use windlass_ssh::Error;
    match error {
        Error::Connection(words) => HookProblem::Connection(words),
        Error::HostKey { shown, expected } => HookProblem::HostKey { shown, expected },
        Error::LoginRefused { user } => HookProblem::LoginRefused { user },
        Error::CommandRefused => HookProblem::NotStarted("the node refuses to run commands".to_owned()),
        Error::ExitCode(code) => HookProblem::ExitCode(code),
        Error::Signal(signal) => HookProblem::Signal(signal),
        other => HookProblem::NotStarted(other.to_string()),
    }
}
