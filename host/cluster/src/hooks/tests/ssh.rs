//! Commands over ssh against a real server, which runs them in a shell.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::ssh_key::{Cipher, Kdf, LineEnding};
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{self, Auth, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, Sig};
use tokio::io::AsyncWriteExt as _;

use super::*;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(seed: u8) -> String {
    PublicKey::new(key(seed).public_key().key_data().clone(), "").to_openssh().unwrap()
}

const USERS_KEY: u8 = 7;

/// Some nodes, all on one port.
#[derive(Clone)]
struct Nodes {
    port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    logins: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    signals: Mutex<Vec<(IpAddr, String)>>,
}

/// One connection.
struct Connection {
    node: IpAddr,
    seen: Arc<Seen>,
    input: BTreeMap<ChannelId, tokio::process::ChildStdin>,
}

impl Nodes {
    /// Nodes 1 to `count`, whose host keys are `hosts_key + index`.
    async fn serve(count: u8, hosts_key: u8) -> Self {
        let seen = Arc::new(Seen::default());
        let first = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        for index in 2..=count {
            listeners.push(tokio::net::TcpListener::bind((format!("127.0.0.{index}"), port)).await.unwrap());
        }
        for (index, listener) in (1..).zip(listeners) {
            let config = Arc::new(server::Config {
                keys: vec![key(hosts_key + index)],
                auth_rejection_time: Duration::ZERO,
                auth_rejection_time_initial: Some(Duration::ZERO),
                ..server::Config::default()
            });
            let seen = seen.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let node = stream.local_addr().unwrap().ip();
                    let connection = Connection { node, seen: seen.clone(), input: BTreeMap::new() };
                    let config = config.clone();
                    tokio::spawn(async move {
                        if let Ok(session) = server::run_stream(config, stream, connection).await {
                            let _ = session.await;
                        }
                    });
                }
            });
        }
        Self { port, seen }
    }
}

impl server::Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, offered: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        self.seen.logins.fetch_add(1, Ordering::SeqCst);
        let known = offered.public_key.key_data() == key(USERS_KEY).public_key().key_data();
        Ok(if user == "operator" && known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: server::ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(&mut self, id: ChannelId, command: &[u8], session: &mut Session) -> Result<(), Self::Error> {
        let command = String::from_utf8(command.to_vec()).unwrap();
        if command == "reboot" {
            session.channel_success(id)?;
            return Err(russh::Error::Disconnect);
        }
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", &command])
            .env("NODE", self.node.to_string())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.input.insert(id, child.stdin.take().unwrap());
        session.channel_success(id)?;
        let handle = session.handle();
        let seen = self.seen.clone();
        let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_running.fetch_max(running, Ordering::SeqCst);
        tokio::spawn(async move {
            let output = child.wait_with_output().await.unwrap();
            seen.running.fetch_sub(1, Ordering::SeqCst);
            // The status first, as the standard allows and some servers do.
            let _ = handle.exit_status_request(id, u32::try_from(output.status.code().unwrap_or(255)).unwrap()).await;
            let _ = handle.data(id, output.stdout).await;
            let _ = handle.extended_data(id, 1, output.stderr).await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }

    async fn data(&mut self, id: ChannelId, data: &[u8], _session: &mut Session) -> Result<(), Self::Error> {
        if let Some(stdin) = self.input.get_mut(&id) {
            let _ = stdin.write_all(data).await;
        }
        Ok(())
    }

    async fn channel_eof(&mut self, id: ChannelId, _session: &mut Session) -> Result<(), Self::Error> {
        self.input.remove(&id);
        Ok(())
    }

    async fn signal(&mut self, _id: ChannelId, signal: Sig, _session: &mut Session) -> Result<(), Self::Error> {
        self.seen.signals.lock().push((self.node, format!("{signal:?}")));
        Ok(())
    }
}

/// The user with a key file.
struct User {
    folder: tempfile::TempDir,
    nodes: Nodes,
}

impl User {
    async fn of(nodes: Nodes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pem = key(USERS_KEY).to_openssh(LineEnding::LF).unwrap();
        let file = private_file(folder.path(), "key", pem.as_bytes());
        assert!(file.exists());
        Self { folder, nodes }
    }

    fn ssh(&self, command: &str) -> SshHook {
        SshHook {
            user: "operator".into(),
            port: self.nodes.port,
            ..SshHook::new(command, self.folder.path().join("key"))
        }
    }

    async fn run(&self, ssh: SshHook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        HookRunner.run(&hook(HookAction::Ssh(ssh)), input).await
    }
}

fn problems(failure: &HookFailure) -> Vec<(&str, &HookProblem)> {
    let HookProblem::Nodes { failed, .. } = &failure.problem else { panic!("{failure}") };
    failed.iter().map(|failure| (failure.node.as_str(), &failure.problem)).collect()
}

#[tokio::test]
async fn the_command_runs_on_each_node_and_reads_which_one_it_is_on() {
    let user = User::of(Nodes::serve(3, 100).await).await;
    let output = user.run(user.ssh("cat; echo $NODE >&2"), &input(3)).await.unwrap();
    assert_eq!(output.succeeded(), ["farm-workers-1", "farm-workers-2", "farm-workers-3"]);
    for (index, node) in (1..).zip(&output.nodes) {
        let read: serde_json::Value = serde_json::from_str(&node.stdout.text).unwrap();
        assert_eq!(read["node"]["index"], index);
        assert_eq!(read["nodes"].as_array().unwrap().len(), 3);
        assert_eq!(node.stderr.text, format!("127.0.0.{index}\n"));
    }
}

#[tokio::test]
async fn a_command_is_told_the_span_of_its_hook_in_what_it_reads_and_nothing_where_there_is_none() {
    let user = User::of(Nodes::serve(2, 100).await).await;
    let input = input(2);
    let (ran, reported) = windlass_telemetry::collector::in_a_hook(user.run(user.ssh("cat"), &input)).await;
    let read = |output: &HookOutput| -> Vec<serde_json::Value> {
        output.nodes.iter().map(|node| serde_json::from_str(&node.stdout.text).unwrap()).collect()
    };
    let traced = read(&ran.unwrap());
    assert_eq!(
        traced.iter().map(|read| read["traceparent"].as_str()).collect::<Vec<_>>(),
        [Some(reported.as_str()); 2]
    );
    let untraced = read(&user.run(user.ssh("cat"), &input).await.unwrap());
    assert!(untraced.iter().all(|read| read.get("traceparent").is_none()), "{untraced:?}");
}

#[tokio::test]
async fn a_command_that_fails_on_one_node_fails_the_hook_and_the_others_are_done_all_the_same() {
    let user = User::of(Nodes::serve(3, 100).await).await;
    let fails_on_two = user.ssh("test $NODE != 127.0.0.2 || { echo 'no disk' >&2; exit 9; }");
    let failure = user.run(fails_on_two, &input(3)).await.unwrap_err();
    assert_eq!(problems(&failure), [("farm-workers-2", &HookProblem::ExitCode(9))]);
    assert_eq!(failure.output.succeeded(), ["farm-workers-1", "farm-workers-3"]);
    assert!(failure.to_string().ends_with("it said: no disk"), "{failure}");
    // The next attempt is about that node alone.
    let next = input(3).next_attempt(&failure.output.succeeded());
    let output = user.run(user.ssh("true"), &next).await.unwrap();
    assert_eq!(output.succeeded(), ["farm-workers-2"]);
}

#[tokio::test]
async fn no_more_nodes_are_worked_on_at_once_than_was_said() {
    let user = User::of(Nodes::serve(6, 100).await).await;
    // Each waits until a second one has begun, so that two are seen at once also where logging in takes its time.
    let begun = tempfile::tempdir().unwrap();
    let begun = begun.path().display();
    let command = format!("touch {begun}/$NODE; until [ $(ls {begun} | wc -l) -ge 2 ]; do sleep 0.02; done; sleep 0.2");
    let ssh = SshHook { parallel: 2, ..user.ssh(&command) };
    user.run(ssh, &input(6)).await.unwrap();
    assert_eq!(user.nodes.seen.most_running.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_host_key_seen_first_is_told_and_another_one_is_refused_before_logging_in() {
    let user = User::of(Nodes::serve(1, 100).await).await;
    let mut input = input(1);
    let output = user.run(user.ssh("true"), &input).await.unwrap();
    assert_eq!(output.nodes[0].host_key, Some(public(101)));

    input.nodes[0].ssh_host_key = output.nodes[0].host_key.clone();
    user.run(user.ssh("true"), &input).await.unwrap();
    assert_eq!(user.nodes.seen.logins.load(Ordering::SeqCst), 2);

    // Somebody else answers at the node's address.
    input.nodes[0].ssh_host_key = Some(public(55));
    let failure = user.run(user.ssh("true"), &input).await.unwrap_err();
    assert!(matches!(problems(&failure)[0].1, HookProblem::HostKey { .. }), "{failure}");
    assert_eq!(failure.output.nodes[0].host_key, None);
    assert_eq!(user.nodes.seen.logins.load(Ordering::SeqCst), 2, "the key was offered to a stranger");
    // It doesn't pass by itself: nobody tries a stranger again.
    assert_eq!(failure.for_retry().class, windlass_policy::slots::types::FailureClass::HookFailed);

    // A stored key that cannot be read is not the same as none.
    input.nodes[0].ssh_host_key = Some("rubbish".into());
    let failure = user.run(user.ssh("true"), &input).await.unwrap_err();
    assert!(matches!(problems(&failure)[0].1, HookProblem::Key(_)), "{failure}");
}

#[tokio::test]
async fn host_keys_that_were_given_count_more_than_a_first_use() {
    let user = User::of(Nodes::serve(2, 100).await).await;
    let ssh = SshHook { host_keys: vec![format!("{} of the image", public(101))], ..user.ssh("true") };
    let failure = user.run(ssh, &input(2)).await.unwrap_err();
    assert_eq!(failure.output.succeeded(), ["farm-workers-1"]);
    assert!(matches!(problems(&failure)[..], [("farm-workers-2", HookProblem::HostKey { .. })]), "{failure}");
}

#[tokio::test]
async fn a_node_that_lets_nobody_in_is_no_lost_connection_and_a_closed_port_is() {
    let user = User::of(Nodes::serve(1, 100).await).await;
    let stranger = SshHook { user: "root".into(), ..user.ssh("true") };
    let failure = user.run(stranger, &input(1)).await.unwrap_err();
    assert_eq!(problems(&failure), [("farm-workers-1", &HookProblem::LoginRefused { user: "root".into() })]);

    // Node 2 has no server: its sshd isn't up yet.
    let failure = user.run(user.ssh("true"), &input(2)).await.unwrap_err();
    let (node, problem) = problems(&failure)[0];
    assert!(node == "farm-workers-2" && matches!(problem, HookProblem::Connection(_)), "{failure}");
    assert_eq!(failure.for_retry().class, windlass_policy::slots::types::FailureClass::Connection);
}

#[tokio::test]
async fn a_connection_that_is_lost_under_the_command_leaves_its_end_unknown() {
    let user = User::of(Nodes::serve(1, 100).await).await;
    let failure = user.run(user.ssh("reboot"), &input(1)).await.unwrap_err();
    assert!(matches!(problems(&failure)[..], [(_, HookProblem::ConnectionLost(_))]), "{failure}");
    assert!(!failure.problem.is_end_known(), "{failure}");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_asked_to_end_and_the_nodes_that_were_done_stay_done() {
    let user = User::of(Nodes::serve(2, 100).await).await;
    let ssh = user.ssh("test $NODE = 127.0.0.1 || exec sleep 3600");
    let time_limit = Duration::from_secs(15);
    let hook = Hook { action: HookAction::Ssh(ssh), time_limit };
    let failure = HookRunner.run(&hook, &input(2)).await.unwrap_err();
    assert_eq!(failure.output.succeeded(), ["farm-workers-1"]);
    assert_eq!(problems(&failure), [("farm-workers-2", &HookProblem::TimedOut(time_limit))]);
    let second: IpAddr = "127.0.0.2".parse().unwrap();
    until(|| user.nodes.seen.signals.lock().contains(&(second, "TERM".to_owned()))).await;
}

#[tokio::test]
async fn the_address_is_chosen_as_the_hook_says() {
    let mut node = node(3);
    let ssh = |address| SshHook { address, ..SshHook::new("true", "key") };
    let chosen = |node: &HookNode, address| node.ssh_address(&ssh(address)).map(|address| address.to_string());
    assert_eq!(chosen(&node, SshAddress::Any).as_deref(), Some("127.0.0.3"));
    assert_eq!(chosen(&node, SshAddress::Private).as_deref(), Some("10.0.0.7"));
    node.public_addresses.clear();
    assert_eq!(chosen(&node, SshAddress::Any).as_deref(), Some("10.0.0.7"));
    assert_eq!(chosen(&node, SshAddress::Public), None);

    let user = User::of(Nodes::serve(1, 100).await).await;
    let mut input = input(1);
    input.nodes[0].public_addresses.clear();
    let failure = user.run(SshHook { address: SshAddress::Public, ..user.ssh("true") }, &input).await.unwrap_err();
    assert_eq!(problems(&failure), [("farm-workers-1", &HookProblem::NoAddress)]);
    let plan =
        HookRunner.plan(&hook(HookAction::Ssh(SshHook { address: SshAddress::Public, ..user.ssh("true") })), &input);
    let PlannedRun::Ssh { nodes, .. } = plan.run else { panic!() };
    assert_eq!(nodes, [("farm-workers-1".to_owned(), "has no such address".to_owned())]);
}

#[tokio::test]
async fn a_key_that_cannot_be_used_is_refused_with_the_remedy_and_never_quoted() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: &Path| {
        let hook = hook(HookAction::Ssh(SshHook::new("true", file)));
        hook.preflight().unwrap_err().to_string()
    };
    let good = private_file(folder.path(), "good", key(USERS_KEY).to_openssh(LineEnding::LF).unwrap().as_bytes());
    let identity = crate::hooks::ssh::identity(&SshHook::new("true", &good)).unwrap();
    assert!(format!("{identity:?}").starts_with("Identity(SHA256:"), "{identity:?}");
    std::fs::set_permissions(&good, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(&good).contains("mode 640): chmod 600"));

    let locked = key(USERS_KEY)
        .encrypt_with(Cipher::Aes256Ctr, Kdf::Bcrypt { salt: vec![1; 16], rounds: 1 }, 1, "word")
        .unwrap();
    let locked = private_file(folder.path(), "locked", locked.to_openssh(LineEnding::LF).unwrap().as_bytes());
    assert!(refused(&locked).contains("it has a passphrase"), "{}", refused(&locked));

    let rubbish = private_file(folder.path(), "rubbish", "hush-hush");
    let words = refused(&rubbish);
    assert!(words.contains("ssh-keygen -t ed25519") && !words.contains("hush"), "{words}");
    assert!(refused(&folder.path().join("nowhere")).contains("No such file"));
    assert!(refused(folder.path()).contains("no regular file"));
}
