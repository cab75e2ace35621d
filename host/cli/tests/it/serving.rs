//! `windlass policy serve`, as somebody at a terminal meets it. What goes over its socket is tested in host/serve and
//! clients.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use prost::Message as _;
use windlass_serve::proto::{self, question, request};
use windlass_test_guests::HOSTILE;
use windlass_test_hostile::{Options, peers, policies};

use crate::support::{BINARY, Running, World};

struct Served {
    world: World,
    _folder: tempfile::TempDir,
    socket: PathBuf,
}

impl Served {
    /// A socket's path is short.
    fn new() -> Served {
        let folder = tempfile::Builder::new().prefix("serving").tempdir_in("/tmp").unwrap();
        Served { world: World::without_state("100"), socket: folder.path().join("policy.sock"), _folder: folder }
    }

    fn listen(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    fn start(&self) -> Running {
        let serving = Running::start(&mut self.world.command(&["policy", "serve", "--listen", &self.listen()]));
        assert_eq!(serving.first_line(), self.listen());
        serving
    }

    /// Asks, and expects an answer.
    fn ask(&self, call: request::Call) {
        let message = proto::Request { id: 1, call: Some(call) }.encode_to_vec();
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        stream.write_all(&[&u32::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat()).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut response = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut response).unwrap();
        let response = proto::Response::decode(&response[..]).unwrap().result.unwrap();
        assert!(!matches!(response, proto::response::Result::Error(_)), "{response:?}");
    }
}

/// Puts a pipe in the place of the configuration: reading it takes until somebody has written it.
fn slow_configuration(served: &Served) -> PathBuf {
    let path = served.world.home.path().join(".config/windlass/config.toml");
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn while_the_configuration_is_read_again_it_answers_and_ends() {
    let served = Served::new();
    served.world.configure("");
    let serving = served.start();
    let pipe = slow_configuration(&served);
    serving.signal("HUP");
    // A pipe is opened when somebody else opens its other end: the server reads.
    let mut configuration = File::options().write(true).open(&pipe).unwrap();
    served.ask(request::Call::Status(()));
    for _ in 0..3 {
        serving.signal("HUP");
    }
    served.ask(request::Call::Status(()));
    writeln!(configuration, "owner = 'team'").unwrap();
    drop(configuration);
    serving.until_it_says("the configuration was read again");
    // The signals during the reading cause one more.
    let _configuration = File::options().write(true).open(&pipe).unwrap();
    serving.signal("TERM");
    serving.end().expect(0);
}

#[test]
fn a_server_that_still_loads_its_policies_ends_at_once() {
    let served = Served::new();
    // A registry that takes the connection and never answers.
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = format!("oci://{}/team/keep:1.0.0", registry.local_addr().unwrap());
    served.world.configure(&format!("[[policies.retry]]\npath = '{policy}'\n"));
    let arguments = ["policy", "serve", "--listen", &served.listen()];
    let serving = Running::start(&mut served.world.command(&arguments));
    let _asked = registry.accept().unwrap();
    serving.signal("TERM");
    // 2 once the registry's time is over, if the fetch is waited for.
    serving.end().expect(0);
    assert!(!served.socket.exists(), "what was begun is undone");
}

#[test]
fn it_says_where_it_listens_serves_until_it_is_told_to_end_and_leaves_nothing() {
    let served = Served::new();
    let serving = served.start();
    UnixStream::connect(&served.socket).unwrap();
    let second = served.world.run(&["policy", "serve", "--listen", &served.listen()]).expect(2);
    assert!(second.stderr.contains("another program listens"), "{}", second.stderr);
    let hosts = served.world.run(&["policy", "status"]).expect(0).stdout;
    assert!(hosts.contains("retry"), "{hosts}");
    serving.signal("TERM");
    serving.end().expect(0);
    assert!(!served.socket.exists());
}

#[test]
fn it_ends_without_asking_a_shadow_about_all_decisions_that_wait_for_it() {
    let served = Served::new();
    let file = served.world.write("hostile.wasm", HOSTILE.bytes);
    served.world.configure(&format!(
        "[[policies.retry]]\npath = '{}'\nmode = 'shadow'\nlimits = {{ time_ms = 2000 }}\n\
         settings = {{ behaviour = 'loop', during = 'odd-decisions' }}\n",
        file.display()
    ));
    let serving = served.start();
    let question = proto::RetryQuestion {
        random: 1,
        operation: "create-server".into(),
        attempt: 1,
        subject: Some(proto::Subject { program: proto::Program::Other.into(), ..Default::default() }),
        failure: Some(proto::Failure { class: proto::FailureClass::Gateway.into(), ..Default::default() }),
        ..Default::default()
    };
    let question = proto::Question { slot: Some(question::Slot::Retry(question)) };
    served.ask(request::Call::Decide(proto::Decide { questions: vec![question; 100], ..Default::default() }));
    serving.signal("TERM");
    serving.end().expect(0);
    let report = served.world.json(&["policy", "shadow"]);
    let shadow = &report["shadows"][0];
    // Were they all asked, it would be suspended after the fifth failure.
    assert!(shadow["failed"].as_u64().unwrap() < 5 && shadow["not_asked"].as_u64().unwrap() > 10, "{report}");
}

#[test]
fn after_a_kill_the_next_one_takes_its_place() {
    let served = Served::new();
    let serving = served.start();
    serving.signal("KILL");
    serving.end();
    assert!(served.socket.exists());
    let json = ["-o", "json", "policy", "serve", "--listen", &served.listen()];
    let serving = Running::start(&mut served.world.command(&json));
    let line: serde_json::Value = serde_json::from_str(&serving.first_line()).unwrap();
    assert_eq!(line["listen"], served.listen());
    serving.signal("INT");
    serving.end().expect(0);
}

#[test]
fn what_cannot_be_served_is_told_before_anything_is_done() {
    let served = Served::new();
    for (listen, words) in [
        ("127.0.0.1:80", "only Unix sockets are served"),
        ("unix:", "a path has to follow"),
        ("unix:/missing/policy.sock", "cannot listen on /missing/policy.sock"),
    ] {
        let refused = served.world.run(&["policy", "serve", "--listen", listen]).expect(2);
        assert!(refused.stderr.contains(words), "{listen}: {}", refused.stderr);
    }
    served.world.configure("[policies.retry]\npath = \"missing.wasm\"\n");
    let refused = served.world.run(&["policy", "serve", "--listen", &served.listen()]).expect(2);
    assert!(refused.stderr.contains("a configured policy cannot be used"), "{}", refused.stderr);
    assert!(!served.socket.exists(), "what was begun is undone");
}

#[test]
#[ignore = "a process of another test"]
fn a_peer_that_means_harm() {
    if let Some(orders) = peers::Orders::of_this_process().unwrap() {
        peers::attack(&orders).unwrap();
    }
}

#[test]
fn peers_that_mean_harm_harm_nobody_else() {
    let options = Options { program: BINARY.into(), seed: 31, time: Duration::from_secs(8), is_timed: false };
    let peer = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serving::a_peer_that_means_harm", "--ignored", "--nocapture"]);
        command
    };
    let report = peers::run(&options, peer).unwrap();
    assert!(report.broken.is_empty(), "{:#?}\n{report}", report.broken);
    assert!(report.harms.len() > 8, "{report}");
}

#[test]
fn policies_that_mean_harm_harm_no_other_policy() {
    let options = Options { program: BINARY.into(), seed: 31, time: Duration::from_secs(12), is_timed: false };
    let report = policies::run(&options).unwrap();
    assert!(report.broken.is_empty(), "{:#?}\n{report}", report.broken);
    assert!(report.harms.len() > 1, "{report}");
}
