//! `windlass policy serve`, as somebody at a terminal meets it. What goes over its socket is tested in host/serve and
//! clients.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

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
}

#[test]
fn it_says_where_it_listens_serves_until_it_is_told_to_end_and_leaves_nothing() {
    let served = Served::new();
    let serving = Running::start(&mut served.world.command(&["policy", "serve", "--listen", &served.listen()]));
    assert_eq!(serving.first_line(), served.listen());
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
fn after_a_kill_the_next_one_takes_its_place() {
    let served = Served::new();
    let serving = Running::start(&mut served.world.command(&["policy", "serve", "--listen", &served.listen()]));
    serving.first_line();
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
fn peers_that_mean_harm_harm_nobody_else() {
    let options = Options { program: BINARY.into(), seed: 31, time: Duration::from_secs(8), is_timed: false };
    let report = peers::run(&options).unwrap();
    assert!(report.broken.is_empty(), "{:#?}\n{report}", report.broken);
    assert!(report.harms.len() > 8, "{report}");
}

#[test]
fn policies_that_mean_harm_harm_no_other_policy() {
    let options = Options { program: BINARY.into(), seed: 31, time: Duration::from_secs(12), is_timed: false };
    let report = policies::run(&options).unwrap();
    assert!(report.broken.is_empty(), "{:#?}\n{report}", report.broken);
    assert!(report.harms.len() > 4, "{report}");
}
