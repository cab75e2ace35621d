//! A console on a real address: who may look there, and that nobody who looks holds up the process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use windlass_console::{Beside, Endpoint, Error, ServeOptions};
use windlass_lifecycle::StateDirectory;
use windlass_test_pages::{Authority, Identity, Viewer};

const TOKEN: &str = "correct-horse-battery";

/// Files of an operator's, and what is in them.
struct Operator {
    folder: TempDir,
    /// Of the console.
    authority: Authority,
    /// Of clients.
    clients: Authority,
}

impl Operator {
    fn new() -> Self {
        let operator = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new("consoles"),
            clients: Authority::new("clients"),
        };
        operator.write_certificate(&operator.authority.server());
        operator.write("ca", &operator.clients.certificate);
        operator.write("token", &format!("{TOKEN}\n"));
        operator
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whole or not at all, as whoever renews certificates does.
    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path("new"), content).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn write_certificate(&self, identity: &Identity) {
        self.write("certificate", &identity.certificate);
        self.write("key", &identity.key);
    }

    fn options(&self, token: bool, clients: bool) -> ServeOptions {
        let mut options = ServeOptions::new("0.0.0.0:0".parse().unwrap());
        options.token_file = token.then(|| self.path("token"));
        options.look_again = Duration::from_millis(10);
        let clients = clients.then(|| self.path("ca"));
        options.with_tls(Some(self.path("certificate")), Some(self.path("key")), clients).unwrap()
    }

    fn serve(&self, options: ServeOptions) -> Beside {
        beside(Endpoint::bind(options).unwrap(), self.folder.path())
    }
}

fn beside(endpoint: Endpoint, folder: &Path) -> Beside {
    let console = endpoint.console(state(folder));
    endpoint.serve_beside(console).unwrap()
}

fn state(folder: &Path) -> StateDirectory {
    StateDirectory::open(&folder.join("state")).unwrap()
}

/// Waits for what comes by itself.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within a minute");
}

#[test]
fn who_brings_no_certificate_of_the_clients_authority_is_refused_at_the_handshake() {
    let operator = Operator::new();
    let console = operator.serve(operator.options(false, true));
    let url = console.url();
    assert!(url.starts_with("https://"), "{url}");
    let viewer = |own: Option<&Identity>| Viewer::of(url).trusting(&operator.authority, own);
    let own = operator.clients.client();
    assert_eq!(viewer(Some(&own)).status("/").unwrap(), 200);
    let strangers = Authority::new("strangers");
    let refused = [
        ("none", None),
        ("another authority's", Some(strangers.client())),
        ("the console's own authority's", Some(operator.authority.client())),
        ("one that has expired", Some(operator.clients.expired_client())),
        ("a server's", Some(operator.clients.server())),
    ];
    for (what, own) in refused {
        // No answer at all: not even a refusal in HTTP.
        assert!(viewer(own.as_ref()).get("/").is_err(), "{what}");
    }
    // And it is no key to other sites' doors.
    assert_eq!(viewer(Some(&own)).asking("evil.example").status("/").unwrap(), 421);
    assert_eq!(viewer(Some(&own)).with("origin", "https://evil.example").status("/").unwrap(), 403);
    // Who speaks no TLS is told nothing.
    assert!(Viewer::of(url).get("/").is_err());
}

#[test]
fn a_token_or_a_certificate_is_enough_where_both_are_taken_and_a_wrong_certificate_is_refused_at_the_handshake() {
    let operator = Operator::new();
    let console = operator.serve(operator.options(true, true));
    let viewer = |own: Option<&Identity>| Viewer::of(console.url()).trusting(&operator.authority, own);
    assert_eq!(viewer(None).status("/").unwrap(), 401);
    assert_eq!(viewer(None).token("correct-horse-batterx").status("/").unwrap(), 401);
    assert_eq!(viewer(None).token(TOKEN).status("/").unwrap(), 200);
    assert_eq!(viewer(Some(&operator.clients.client())).status("/").unwrap(), 200);
    for own in [Authority::new("strangers").client(), operator.clients.expired_client()] {
        assert!(viewer(Some(&own)).token(TOKEN).get("/").is_err());
    }
}

#[test]
fn certificates_authorities_and_tokens_that_are_replaced_count_from_then_on_and_what_is_defective_does_not() {
    let operator = Operator::new();
    let console = operator.serve(operator.options(true, true));
    let first = operator.clients.client();
    let viewer = |authority: &Authority, own: Option<&Identity>| Viewer::of(console.url()).trusting(authority, own);
    assert_eq!(viewer(&operator.authority, Some(&first)).status("/").unwrap(), 200);

    // Half of a renewal: the key is another's, and the console goes on with what it has.
    let (authority, clients) = (Authority::new("new consoles"), Authority::new("new clients"));
    let renewed = authority.server();
    operator.write("token", "short\n");
    operator.write("ca", "no certificate\n");
    operator.write("certificate", &renewed.certificate);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(viewer(&operator.authority, None).token(TOKEN).status("/").unwrap(), 200);
    assert_eq!(viewer(&operator.authority, Some(&first)).status("/").unwrap(), 200);

    operator.write_certificate(&renewed);
    operator.write("ca", &clients.certificate);
    operator.write("token", "another-battery-staple\n");
    until("the new certificate", || viewer(&authority, Some(&clients.client())).status("/").is_ok_and(|is| is == 200));
    assert!(viewer(&authority, Some(&first)).get("/").is_err());
    until("the new token", || {
        let with = |token| viewer(&authority, None).token(token).status("/").unwrap();
        with("another-battery-staple") == 200 && with(TOKEN) == 401
    });
}

#[test]
fn nothing_is_served_beyond_this_machine_unless_somebody_is_kept_out() {
    let operator = Operator::new();
    let open = |address: &str| Endpoint::bind(ServeOptions::new(address.parse().unwrap()));
    assert!(matches!(open("0.0.0.0:0"), Err(Error::Unguarded { .. })));
    assert!(matches!(Endpoint::bind(operator.options(false, false)), Err(Error::Unguarded { .. })));
    assert!(open("127.0.0.1:0").is_ok());
    let half = |certificate: bool, key: bool| {
        let path = |is: bool| is.then(|| operator.path("certificate"));
        ServeOptions::new("127.0.0.1:0".parse().unwrap()).with_tls(path(certificate), path(key), path(true))
    };
    assert!(matches!(half(true, false), Err(Error::HalfTls)) && matches!(half(false, false), Err(Error::HalfTls)));
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_nothing_of_it_is_told() {
    let operator = Operator::new();
    let refused = |what: &str| {
        let error = Endpoint::bind(operator.options(true, true)).map(|endpoint| endpoint.url()).unwrap_err();
        let words = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(words.contains(what) && !words.contains("hunter2"), "{what}: {words}");
    };
    operator.write("ca", "hunter2");
    refused("ca: it holds no certificate");
    operator.write("ca", "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n");
    refused("ca: it holds something that is no certificate");
    operator.write("ca", &operator.clients.certificate);
    operator.write("key", "-----BEGIN PRIVATE KEY-----\nhunter2!\n-----END PRIVATE KEY-----\n");
    refused("key: it holds no private key");
    operator.write("key", &operator.authority.server().key);
    refused("certificate: ");
    std::fs::remove_file(operator.path("key")).unwrap();
    refused("the key of the certificate cannot be read");
    operator.write("key", &"x".repeat(300 << 10));
    refused("larger than 262144 bytes");
    operator.write("token", "hunter2\n");
    refused("too short");
}

#[test]
fn an_end_is_not_held_up_by_who_still_looks() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::bind(ServeOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let console = beside(endpoint, folder.path());
    let viewer = Viewer::of(console.url());
    let mut following = viewer.open("/changes").unwrap();
    assert!(following.line().unwrap().is_some());
    let address = console.url().strip_prefix("http://").unwrap().to_owned();
    let idle = std::net::TcpStream::connect(&address).unwrap();
    drop(console);
    // The stream of events comes to its end by itself, and nobody is answered any more.
    while following.line().unwrap_or(None).is_some() {}
    until("nobody listens", || std::net::TcpStream::connect(&address).is_err());
    drop(idle);
}

#[test]
fn who_follows_is_told_of_what_came_between_when_they_come_back_and_there_are_so_many_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::bind(ServeOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let console = beside(endpoint, folder.path());
    let viewer = Viewer::of(console.url());
    let first = |viewer: &Viewer| {
        let mut following = viewer.open("/changes").unwrap();
        let mut lines = Vec::new();
        loop {
            let line = following.line().unwrap().unwrap();
            if line.trim().is_empty() {
                return (lines, following);
            }
            // What is sent in chunks has their lengths between.
            if line.contains(": ") {
                lines.push(line.trim().to_owned());
            }
        }
    };
    let (now, _kept) = first(&viewer);
    let id = now.iter().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    assert!(!now.iter().any(|line| line.starts_with("event")), "{now:?}");
    let (same, _same) = first(&viewer.clone().with("last-event-id", &id));
    assert!(!same.iter().any(|line| line.starts_with("event")), "{same:?}");
    let (missed, _missed) = first(&viewer.clone().with("last-event-id", "of-an-hour-ago"));
    assert!(missed.contains(&"event: changed".to_owned()), "{missed:?}");

    let following: Vec<_> = (0..29).map(|_| viewer.open("/changes").unwrap()).collect();
    assert_eq!(viewer.status("/changes").unwrap(), 503);
    assert_eq!(viewer.status("/").unwrap(), 200);
    drop(following);
    until("there is place again", || viewer.open("/changes").unwrap().head.starts_with("HTTP/1.1 200"));
}
