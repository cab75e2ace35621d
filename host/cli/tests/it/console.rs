//! The console and reports, as somebody at a terminal meets them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::{Running, World, bare};

/// What a page is, asked for by hand under this name.
fn page(url: &str, path: &str, headers: &str) -> String {
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
    assert!(now.starts_with("HTTP/1.1 200") && now.contains("web: 1"), "{now}");
    assert!(page(&url, "/", "host: evil.example\r\n").starts_with("HTTP/1.1 421"));
    console.signal("TERM");
    console.end().expect(0);
}

#[test]
fn others_need_the_token() {
    let world = World::new("100");
    let refused = world.run(&["console", "--listen", "0.0.0.0:0"]).expect(2);
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
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
    let unknown = world.run(&["report", "--operation", "ci-000000000000"]).expect(2);
    assert!(unknown.stderr.contains("windlass operation list"), "{}", unknown.stderr);
    assert!(world.run(&["report", "--since", "1h", "--format", "markdown"]).expect(0).stdout.starts_with("# Since"));
}

#[test]
fn the_demo_can_be_looked_at_until_it_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let demo = Running::start(bare(home.path()).args(["demo", "--pace", "10", "--console"]));
    demo.until_it_says("It can be looked at");
    let said = demo.said();
    let url = said.lines().find_map(|line| line.strip_prefix("Look at it: ")).unwrap();
    let operations = page(url, "/operations", "host: localhost\r\n");
    assert!(operations.contains("create-server") && operations.contains("undone"), "{operations}");
    demo.signal("INT");
    let ran = demo.end().expect(0);
    assert!(ran.stdout.contains("0 resources left"), "{}", ran.stdout);
}
