//! A command on each node, over ssh.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::Mutex;
use russh::client;
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{ChannelMsg, Disconnect, Sig};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::files::{Readers, read_secret};
use super::output::{CAPTURED_BYTES_OF_NODE, Captured, Tail};
use super::{HookInput, HookNode, HookOutput, HookProblem, NodeFailure, NodeOutput, SshHook};

const LONGEST_KEY: u64 = 16 * 1024;
/// How long a connection, its key exchange and the login may take, within the hook's time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection on which nothing is heard is asked for a sign of life this often, and lost after three that didn't
/// come: a node that went away would hold the hook until its time limit.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A private key. Shows itself to nobody.
#[derive(Clone)]
pub(super) struct Identity(Arc<PrivateKey>);

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity({})", self.0.public_key().fingerprint(HashAlg::Sha256))
    }
}

impl Identity {
    pub(super) fn of(ssh: &SshHook) -> Result<Self, HookProblem> {
        let wrong = |problem: String| HookProblem::Key(format!("{}: {problem}", ssh.key_file.display()));
        let content = read_secret(&ssh.key_file, LONGEST_KEY, Readers::OwnerOnly).map_err(wrong)?;
        let content = String::from_utf8(content).map_err(|_| wrong("it is no text".to_owned()))?;
        // The error's own words may quote nothing of the file: only its kind is told.
        let key = russh::keys::decode_secret_key(&content, None).map_err(|error| {
            wrong(match error {
                russh::keys::Error::KeyIsEncrypted => {
                    "it has a passphrase: make one without for hooks (ssh-keygen -t ed25519 -N '')".to_owned()
                }
                _ => "it is no private key of a kind that can be used: make one with ssh-keygen -t ed25519".to_owned(),
            })
        })?;
        if key.is_encrypted() {
            return Err(wrong(
                "it has a passphrase: make one without for hooks (ssh-keygen -t ed25519 -N '')".to_owned(),
            ));
        }
        if key.algorithm().is_rsa() {
            return Err(wrong(
                "it is an RSA key, which is not supported: make one with ssh-keygen -t ed25519".to_owned(),
            ));
        }
        Ok(Self(Arc::new(key)))
    }
}

/// Whether this is a public key as OpenSSH writes it.
pub(super) fn check_public_key(text: &str) -> Result<(), String> {
    PublicKey::from_openssh(text).map(drop).map_err(|error| error.to_string())
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
    let identity = Identity::of(ssh)?;
    let given = Arc::new(given_keys(ssh)?);
    let mut visits = Vec::with_capacity(input.nodes.len());
    for (position, node) in input.nodes.iter().enumerate() {
        let visit = Visit { ssh, input, node, identity: identity.clone(), given: given.clone() };
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

fn given_keys(ssh: &SshHook) -> Result<Vec<PublicKey>, HookProblem> {
    let parse = |key: &String| {
        PublicKey::from_openssh(key).map_err(|error| HookProblem::Key(format!("ssh.host_keys: {error}")))
    };
    ssh.host_keys.iter().map(parse).collect()
}

/// One node's turn.
struct Visit<'h> {
    ssh: &'h SshHook,
    input: &'h HookInput,
    node: &'h HookNode,
    identity: Identity,
    given: Arc<Vec<PublicKey>>,
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
        let shown = Arc::new(Mutex::new(Shown::Nothing));
        let result = tokio::time::timeout_at(deadline, self.visit(&shown, &mut progress))
            .await
            .unwrap_or(Err(HookProblem::TimedOut(limit)));
        let host_key = match &*shown.lock() {
            Shown::Right(key) => Some(key.clone()),
            Shown::Nothing | Shown::Wrong { .. } => None,
        };
        let output = NodeOutput {
            node: self.node.name.clone(),
            succeeded: result.is_ok(),
            stdout: progress.stdout.finish(),
            stderr: progress.stderr.finish(),
            host_key,
        };
        (output, result)
    }

    async fn visit(&self, shown: &Arc<Mutex<Shown>>, progress: &mut Progress) -> Result<(), HookProblem> {
        let address = self.node.ssh_address(self.ssh).ok_or(HookProblem::NoAddress)?;
        let session =
            tokio::time::timeout(CONNECT_TIMEOUT, self.log_in(address, shown)).await.unwrap_or_else(|_| {
                Err(HookProblem::Connection(format!("{address} did not answer within {CONNECT_TIMEOUT:?}")))
            })?;
        let ended = self.command(&session, progress).await;
        // The work is done or lost by now; a farewell that doesn't arrive changes nothing.
        let _ = session.disconnect(Disconnect::ByApplication, "", "en").await;
        ended
    }

    async fn log_in(
        &self,
        address: IpAddr,
        shown: &Arc<Mutex<Shown>>,
    ) -> Result<client::Handle<HostCheck>, HookProblem> {
        let lost = |error: russh::Error| match &*shown.lock() {
            Shown::Wrong { shown, expected } => {
                HookProblem::HostKey { shown: shown.clone(), expected: expected.clone() }
            }
            _ => HookProblem::Connection(format!("{address} port {}: {error}", self.ssh.port)),
        };
        let check = HostCheck { expected: self.expected_keys()?, shown: shown.clone() };
        let config = client::Config {
            keepalive_interval: Some(KEEPALIVE),
            keepalive_max: 3,
            nodelay: true,
            ..client::Config::default()
        };
        let mut session = client::connect(Arc::new(config), (address, self.ssh.port), check).await.map_err(lost)?;
        let key = PrivateKeyWithHashAlg::new(self.identity.0.clone(), None);
        let login = session.authenticate_publickey(&self.ssh.user, key).await.map_err(lost)?;
        if login.success() { Ok(session) } else { Err(HookProblem::LoginRefused { user: self.ssh.user.clone() }) }
    }

    /// The keys of which the node must show one; none: whichever it shows first.
    fn expected_keys(&self) -> Result<Vec<PublicKey>, HookProblem> {
        if !self.given.is_empty() {
            return Ok(self.given.to_vec());
        }
        match &self.node.ssh_host_key {
            None => Ok(Vec::new()),
            // A stored key that cannot be read must not count as none.
            Some(stored) => PublicKey::from_openssh(stored)
                .map(|key| vec![key])
                .map_err(|error| HookProblem::Key(format!("the stored host key of {}: {error}", self.node.name))),
        }
    }

    async fn command(&self, session: &client::Handle<HostCheck>, progress: &mut Progress) -> Result<(), HookProblem> {
        let lost = |error: russh::Error| HookProblem::Connection(error.to_string());
        let channel = session.channel_open_session().await.map_err(lost)?;
        let (mut reader, writer) = channel.split();
        writer.exec(true, self.ssh.command.as_bytes()).await.map_err(lost)?;
        // Whoever gives up waiting asks the node to end the command. OpenSSH does since 7.9; what doesn't end goes on
        // there.
        let mut ask = AskToEnd(Some(writer));
        let input = self.input.json_for(self.node);
        let write = async {
            if let Some(writer) = &ask.0 {
                // A command that doesn't read its input is free to.
                if writer.data(input.as_slice()).await.is_ok() {
                    let _ = writer.eof().await;
                }
            }
            std::future::pending::<()>().await
        };
        let ended = {
            tokio::pin!(write);
            loop {
                let message = tokio::select! {
                    message = reader.wait() => message,
                    () = &mut write => continue,
                };
                match message {
                    Some(ChannelMsg::Data { data }) => progress.stdout.push(&data),
                    Some(ChannelMsg::ExtendedData { data, .. }) => progress.stderr.push(&data),
                    Some(ChannelMsg::Failure) => {
                        break Err(HookProblem::NotStarted("the node refuses to run commands".to_owned()));
                    }
                    Some(ChannelMsg::ExitStatus { exit_status: 0 }) => break Ok(()),
                    Some(ChannelMsg::ExitStatus { exit_status }) => {
                        break Err(HookProblem::ExitCode(i32::try_from(exit_status).unwrap_or(i32::MAX)));
                    }
                    Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                        break Err(HookProblem::Signal(format!("{signal_name:?}")));
                    }
                    Some(_) => {}
                    None => break Err(HookProblem::Connection("it was lost before the command ended".to_owned())),
                }
            }
        };
        ask.0 = None;
        // RFC 4254, section 6.10 lets the exit status come before the last output.
        let rest = async {
            while let Some(message) = reader.wait().await {
                match message {
                    ChannelMsg::Data { data } => progress.stdout.push(&data),
                    ChannelMsg::ExtendedData { data, .. } => progress.stderr.push(&data),
                    ChannelMsg::Close => break,
                    _ => {}
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(500), rest).await;
        ended
    }
}

/// Sends SIGTERM to the command when its turn is given up.
struct AskToEnd(Option<russh::ChannelWriteHalf<client::Msg>>);

impl Drop for AskToEnd {
    fn drop(&mut self) {
        if let (Some(writer), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let _ = writer.signal(Sig::TERM).await;
            });
        }
    }
}

/// The host key that a node showed.
#[derive(Debug)]
enum Shown {
    Nothing,
    Right(String),
    Wrong { shown: String, expected: String },
}

/// Looks at the host key before anything of ours is sent.
struct HostCheck {
    expected: Vec<PublicKey>,
    shown: Arc<Mutex<Shown>>,
}

impl client::Handler for HostCheck {
    type Error = russh::Error;

    async fn check_server_key(&mut self, server: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let key = server.public_key();
        // Comments don't count: only the key itself.
        let right =
            self.expected.is_empty() || self.expected.iter().any(|expected| expected.key_data() == key.key_data());
        let fingerprint = |key: &PublicKey| key.fingerprint(HashAlg::Sha256).to_string();
        *self.shown.lock() = if right {
            Shown::Right(PublicKey::new(key.key_data().clone(), "").to_openssh().unwrap_or_default())
        } else {
            let expected = self.expected.iter().map(fingerprint).collect::<Vec<_>>().join(" or ");
            Shown::Wrong { shown: fingerprint(&key), expected }
        };
        Ok(right)
    }
}
