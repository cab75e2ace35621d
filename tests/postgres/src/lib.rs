//! A real PostgreSQL server for a test, in a temporary folder, that listens on a socket there.
//!
//! Where there is none (Debian: `postgresql`), tests say so and pass; with `WINDLASS_POSTGRES_REQUIRED` they fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that unwraps fails with the error")]
#![allow(clippy::missing_panics_doc, reason = "tests fail by panics")]

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user and group as whom the server runs where the tests are root's: it refuses to be root.
const POSTGRES: &str = "postgres";

/// A server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    folder: TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts one. `None`, and a word about it, where there is no PostgreSQL.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("WINDLASS_POSTGRES_REQUIRED").is_none(), "there is no PostgreSQL");
            eprintln!("SKIPPED: there is no PostgreSQL: apt-get install postgresql");
            return None;
        };
        let user = is_root().then(|| user_named(POSTGRES).expect("the package makes the user postgres"));
        let folder = tempfile::Builder::new().prefix("windlass-pg").tempdir_in("/tmp").unwrap();
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let mut server = Self { programs, user, folder, child: None };
        let data = server.data();
        let made = server.command("initdb").args(["-A", "trust", "-U", "windlass", "-N", "-D"]).arg(&data).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        Some(server)
    }

    /// The folder with its socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server again, after [`Server::kill`].
    pub fn run(&mut self) {
        let folder = self.folder.path().to_owned();
        let start = || {
            let mut command = self.command("postgres");
            command.arg("-D").arg(self.data()).arg("-k").arg(&folder).args(["-c", "listen_addresses="]);
            command.args(["-c", "max_connections=200", "-c", "shared_buffers=16MB"]);
            let log = std::fs::File::create(folder.join("log")).unwrap();
            command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
        };
        let (mut child, started) = (start(), Instant::now());
        while !self.psql("select 1").status.success() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
            // It ends at once while a process of the one that was killed still has its memory.
            if child.try_wait().unwrap().is_some() {
                child = start();
            }
        }
        self.child = Some(child);
    }

    /// Kills every process of the server, as a loss of power does but for what the kernel has.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let postmaster = child.id().to_string();
        // It starts nothing more, and its processes do not see it end.
        let kill = |signal: &str, process: &str| Command::new("kill").args([signal, process]).status();
        let _ = kill("-STOP", &postmaster);
        let children = Command::new("pgrep").args(["-P", &postmaster]).output().unwrap();
        for process in String::from_utf8_lossy(&children.stdout).lines().chain([postmaster.as_str()]) {
            let _ = kill("-KILL", process);
        }
        let _ = child.wait();
    }

    /// The URL of a schema of its own.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        format!("postgres://windlass@/postgres?host={}&schema={schema}", self.folder.path().display())
    }

    /// Runs a statement as an administrator. Gives what it prints.
    pub fn execute(&self, statement: &str) -> String {
        let output = self.psql(statement);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Has the rows of all processes expire in a schema, as if nobody had renewed them for an hour in which the server
    /// could be reached.
    pub fn expire(&self, schema: &str) {
        self.execute(&format!("update {schema}.holders set expires_at = now() - interval '1 minute'"));
        self.execute(&format!(
            "create or replace function {schema}.serves_since() returns timestamptz language sql stable as \
             $$select now() - interval '1 hour'$$",
        ));
    }

    fn psql(&self, statement: &str) -> Output {
        let mut command = self.command("psql");
        command.args(["-X", "-A", "-t", "-U", "windlass", "-d", "postgres", "-c", statement]);
        command.arg("-h").arg(self.folder.path()).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|version| version.path().join("bin"));
    let number = |path: &Path| path.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    versions.filter(|path| path.join("postgres").is_file()).max_by_key(|path| number(path))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout.starts_with(b"0")
}

fn user_named(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
