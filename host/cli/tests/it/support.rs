//! The real binary, a simulator of its own for each test, and HTTP by hand for the simulator's controls.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_windlass");

/// A command without any of the caller's settings.
pub fn bare(home: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("HOME", home).stdin(Stdio::null());
    command
}

/// What a command left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The one JSON document on stdout.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Ran {
        assert!(self.stderr.contains(words), "no {words:?} in stderr: {}", self.stderr);
        self
    }
}

/// A home directory, a simulator, and commands that talk to it.
pub struct World {
    pub home: tempfile::TempDir,
    simulator: Child,
    pub url: String,
}

/// The retry policy gives up soon, so that failures do not take minutes.
pub const IMPATIENT: &str =
    "[policies.retry]\nsettings = { attempts = 2, undo-attempts = 2, base-ms = 1, cap-ms = 1, transient-ms = 1 }\n";

impl World {
    pub fn new(time_scale: &str) -> World {
        let home = tempfile::tempdir().expect("a directory");
        let mut simulator = bare(home.path())
            .args(["simulator", "--listen", "127.0.0.1:0", "--seed", "1", "--quiet", "--time-scale", time_scale])
            .stdout(Stdio::piped())
            .spawn()
            .expect("spawned");
        let mut first = String::new();
        BufReader::new(simulator.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
        World { home, simulator, url: first.trim_end().to_owned() }
    }

    pub fn configure(&self, text: &str) {
        let folder = self.home.path().join(".config/windlass");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("config.toml"), text).expect("written");
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(self.home.path());
        command
            .args(arguments)
            .env("SCW_API_URL", &self.url)
            .env("SCW_SECRET_KEY", "11111111-1111-1111-1111-111111111111")
            .env("SCW_DEFAULT_ZONE", "fr-par-1")
            .env("SCW_DEFAULT_PROJECT_ID", "22222222-2222-2222-2222-222222222222");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("ran"))
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--output", "json"]].concat()).expect(0).json()
    }

    pub fn create(&self, count: &str) -> Ran {
        self.run(&[
            "server",
            "create",
            "--group",
            "ci",
            "--count",
            count,
            "--type",
            "DEV1-S",
            "--image",
            "ubuntu_noble",
            "--output",
            "json",
        ])
    }

    /// One of the simulator's controls.
    pub fn control(&self, method: &str, path: &str, body: &str) -> Value {
        let host = self.url.strip_prefix("http://").expect("a URL");
        let mut stream = TcpStream::connect(host).expect("connected");
        write!(
            stream,
            "{method} /_simulator/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap_or(Value::Null)
    }

    pub fn fault(&self, method: &str, path: &str, kind: &str) {
        let rule = serde_json::json!({ "method": method, "path": path, "kind": kind });
        self.control("POST", "faults", &rule.to_string());
    }

    /// How many resources of all kinds exist.
    pub fn resources(&self) -> usize {
        let resources = self.control("GET", "resources", "");
        let lists = resources.as_object().expect("an object").values();
        lists.map(|list| list.as_array().expect("a list").len()).sum()
    }

    /// Waits (the test's own patience is the test runner's) until the simulator holds something that fits.
    pub fn until(&self, fits: impl Fn(&Value) -> bool) {
        while !fits(&self.control("GET", "resources", "")) {
            std::thread::yield_now();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.simulator.kill();
        let _ = self.simulator.wait();
    }
}

/// Sends a signal to a child that we started.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().expect("ran");
    assert!(status.success());
}
