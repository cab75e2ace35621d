//! The console and reports, as somebody at a terminal meets them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use windlass_test_pages::{Authority, Secrets, Viewer};

use crate::support::{Running, World, bare};

/// What a page is, asked for by hand under this name.
pub(crate) fn page(url: &str, path: &str, headers: &str) -> String {
    let address = url.trim().strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_console_shows_what_was_done_until_it_is_told_to_end() {
    let world = World::new("100");
    world.run(&["server", "create", "--group", "web", "--type", "DEV1-S", "--image", "ubuntu_noble"]).expect(0);
    let console = Running::start(&mut world.command(&["console", "--listen", "127.0.0.1:0"]));
    let url = console.first_line();
    let now = page(&url, "/", "host: localhost\r\n");
    assert!(now.starts_with("HTTP/1.1 200") && now.contains("/operations?group=web"), "{now}");
    assert!(page(&url, "/", "host: evil.example\r\n").starts_with("HTTP/1.1 421"));
    console.signal("TERM");
    console.end().expect(0);
}

#[test]
fn the_console_shows_a_rehearsal_that_was_saved() {
    let world = World::new("100");
    crate::rehearsing::write(world.home.path());
    world.write("small.toml", format!("title = '<b> & co'\n{}", crate::rehearsing::SCENARIO).as_bytes());
    let rehearse = |more: &[&str]| {
        let mut command = world.command(&[&["rehearse", "small.toml", "--arm", "one=one.json"], more].concat());
        crate::support::Ran::of(command.current_dir(world.home.path())).expect(0)
    };
    rehearse(&["--save"]).says("windlass console");
    rehearse(&[]);
    let console = Running::start(&mut world.command(&["console", "--listen", "127.0.0.1:0"]));
    let url = console.first_line();
    let get = |path: &str| page(&url, path, "host: localhost\r\n");
    let list = get("/rehearsals");
    assert_eq!(list.matches("href=\"/rehearsals/").count(), 1, "{list}");
    let (_, rest) = list.split_once("href=\"/rehearsals/").unwrap();
    let name = rest.split_once('"').unwrap().0;
    assert!(name.ends_with("Z-b-co"), "{name}");
    let shown = get(&format!("/rehearsals/{name}"));
    assert!(shown.starts_with("HTTP/1.1 200") && shown.matches("<svg").count() == 4, "{shown}");
    assert!(shown.contains("&lt;b&gt; &amp; co") && shown.contains("zone-out-of-stock"), "{shown}");
    // The console's policy for content lets no page have a style of its own.
    assert!(!shown.contains("<style") && !shown.contains("style="), "{shown}");
    assert!(shown.contains("× create"), "what was done in an hour is saved, too: {shown}");
    for path in ["/rehearsals/none", "/rehearsals/..%2Fowner", "/rehearsals/%2e%2e"] {
        assert!(!get(path).starts_with("HTTP/1.1 200"), "{path}");
    }
}

#[test]
fn others_need_the_token() {
    let world = World::new("100");
    let refused = world.run(&["console", "--listen", "0.0.0.0:0"]).expect(2);
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
    for wrong in ["http://ops.example:80", "ops.example:80", "*.example", ""] {
        let ran = world.run(&["console", "--listen", "127.0.0.1:0", "--allow-host", wrong]).expect(2);
        ran.says(&format!("{wrong:?}")).says("--allow-host").says("for example ops.example");
    }
    let token = world.home.path().join("token");
    std::fs::write(&token, "short\n").unwrap();
    let token = token.to_str().unwrap();
    let short = world.run(&["console", "--listen", "0.0.0.0:0", "--token-file", token]).expect(2);
    assert!(short.stderr.contains("too short"), "{}", short.stderr);
    std::fs::write(token, "correct-horse-battery\nanother line\n").unwrap();
    let console = Running::start(&mut world.command(&["console", "--listen", "127.0.0.1:0", "--token-file", token]));
    let url = console.first_line();
    assert!(page(&url, "/", "host: localhost\r\n").starts_with("HTTP/1.1 401"));
    let bearer = "host: localhost\r\nauthorization: Bearer correct-horse-battery\r\n";
    assert!(page(&url, "/", bearer).starts_with("HTTP/1.1 200"));
}

#[test]
fn clients_certificates_are_as_good_as_a_token() {
    let world = World::new("100");
    let (consoles, clients) = (Authority::new("consoles"), Authority::new("clients"));
    let server = consoles.server();
    let file = |name: &str, content: &str| world.write(name, content.as_bytes()).display().to_string();
    let (certificate, key) = (file("tls.crt", &server.certificate), file("tls.key", &server.key));
    let authority = file("clients.crt", &clients.certificate);
    let listen = ["console", "--listen", "0.0.0.0:0", "--tls-certificate", &certificate];
    // TLS alone keeps nobody out, and half of it is none.
    world.run(&[&listen[..], &["--tls-key", &key]].concat()).expect(2).says("so set a token");
    world.run(&[&listen[..], &["--client-ca", &authority]].concat()).expect(2).says("--tls-key");
    let wrong = world.run(&[&listen[..], &["--tls-key", &authority, "--client-ca", &authority]].concat()).expect(2);
    assert!(wrong.stderr.contains("clients.crt: it holds no private key"), "{}", wrong.stderr);

    let console =
        Running::start(&mut world.command(&[&listen[..], &["--tls-key", &key, "--client-ca", &authority]].concat()));
    let url = console.first_line();
    assert!(url.starts_with("https://"), "{url}");
    let viewer = |own: &windlass_test_pages::Identity| Viewer::of(&url).trusting(&consoles, Some(own));
    assert_eq!(viewer(&clients.client()).status("/").unwrap(), 200);
    assert_eq!(viewer(&clients.client()).asking("evil.example").status("/").unwrap(), 421);
    assert!(viewer(&clients.expired_client()).get("/").is_err());
    assert!(Viewer::of(&url).trusting(&consoles, None).get("/").is_err());
    console.signal("TERM");
    console.end().expect(0);
}

/// Whoever answers a webhook's calls, so often as they come: with a failure first, which is kept.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 64 << 10];
            let _ = stream.read(&mut request);
            let status = if number == 0 { "503 Service Unavailable" } else { "200 OK" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone");
        }
    });
    format!("http://{address}")
}

#[test]
fn no_page_and_no_report_shows_a_secret_of_servers_clusters_hooks_or_the_console() {
    const CLOUD_INIT: &str = "#cloud-config\nchpasswd: {list: \"root:pass&word<of>first\\\"boot\"}\n";
    const WEBHOOK: &str = "whsec_c2lnbnMgd2hhdCBpcyBzZW50IHRvIHRoZSBob29r";
    const PATH: &str = "services-T0000000-B0000000-XXXXXXXXXXXXXXXXXXXXXXXX";
    const PASSED: &str = "hvs.a-token-of-the-vault-that-is-passed-on";
    const TOKEN: &str = "a token of the operator's: 0123456789";
    let world = World::new("100");
    world.configure(crate::support::IMPATIENT);
    let cloud_init = world.write("first-boot.yaml", CLOUD_INIT.as_bytes()).display().to_string();
    let secret = world.write("webhook-secret", WEBHOOK.as_bytes());
    std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let create = ["server", "create", "--group", "web", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    let create = [&create[..], &["--cloud-init", &cloud_init]].concat();
    world.run(&create).expect(0);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.run(&create).expect(1);
    world.control("DELETE", "faults", "");
    let specification = format!(
        "name = 'farm'\nzone = 'fr-par-1'\n[groups.web]\ncount = 1\ntypes = ['DEV1-S']\nimage = 'ubuntu_noble'\n\
         cloud_init_file = 'first-boot.yaml'\n[hooks.configure.webhook]\nurl = '{}/{PATH}'\n\
         secret_file = 'webhook-secret'\n[hooks.start.program]\ncommand = '/bin/true'\n\
         pass_environment = ['VAULT_TOKEN']\n",
        receiver()
    );
    let file = world.write("farm.toml", specification.as_bytes()).display().to_string();
    crate::support::Ran::of(world.command(&["cluster", "create", &file]).env("VAULT_TOKEN", PASSED)).expect(0);

    let token = world.write("token", TOKEN.as_bytes()).display().to_string();
    let console = Running::start(&mut world.command(&["console", "--listen", "127.0.0.1:0", "--token-file", &token]));
    let pages = Viewer::of(&console.first_line()).token(TOKEN).crawl().unwrap();
    let secrets = Secrets::new([
        ("the API key", "11111111-1111-1111-1111-111111111111"),
        ("the first boot", CLOUD_INIT),
        ("the webhook's secret", WEBHOOK),
        ("the webhook's path", PATH),
        ("what is passed on", PASSED),
        ("the token", TOKEN),
    ]);
    for part in ["/clusters/farm", "/policies"] {
        assert!(pages.contains_key(part), "{part} in {:?}", pages.keys());
    }
    assert!(pages.keys().filter(|path| path.starts_with("/operations/")).count() >= 3, "{:?}", pages.keys());
    for (path, page) in &pages {
        assert_eq!(secrets.shown_by(page), [""; 0], "{path}: {page}");
    }
    assert_eq!(secrets.shown_by(&console.said()), [""; 0], "{}", console.said());
    for format in ["html", "markdown"] {
        let report = world.run(&["report", "--since", "1h", "--format", format]).expect(0).stdout;
        assert_eq!(secrets.shown_by(&report), [""; 0], "{report}");
    }
}

#[test]
fn a_report_is_one_file_and_replaces_none() {
    let world = World::new("100");
    world.run(&["server", "create", "--group", "web", "--type", "DEV1-S", "--image", "ubuntu_noble"]).expect(0);
    let id = world.run(&["operation", "list", "--output", "name"]).expect(0).stdout.trim().to_owned();
    let file = world.home.path().join("report.html");
    let path = file.to_str().unwrap();
    world.run(&["report", "--operation", &id, "--out", path]).expect(0);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains(&id) && written.contains("power-on"), "{written}");
    let again = world.run(&["report", "--since", "1h", "--out", path]).expect(2);
    assert!(again.stderr.contains("not there yet"), "{}", again.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    let unknown = world.run(&["report", "--operation", "ci-000000000000"]).expect(1);
    assert!(unknown.stderr.contains("windlass operation list"), "{}", unknown.stderr);
    assert!(world.run(&["report", "--since", "1h", "--format", "markdown"]).expect(0).stdout.starts_with("# Since"));
}

#[test]
fn the_demo_can_be_looked_at_until_it_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let demo = Running::start(bare(home.path()).args(["demo", "--pace", "10", "--console"]));
    demo.until_it_says("The console stays open");
    let said = demo.said();
    let url = said.lines().find_map(|line| line.strip_prefix("Look at it: ")).unwrap();
    let operations = page(url, "/operations", "host: localhost\r\n");
    assert!(operations.contains("create-server") && operations.contains("undone"), "{operations}");
    demo.signal("INT");
    let ran = demo.end().expect(0);
    assert!(ran.stdout.contains("0 resources left"), "{}", ran.stdout);
}
