//! A real PostgreSQL server for a test, in a temporary folder, that listens on a socket there.
//!
//! Where there is none (Debian: `postgresql`), tests say so and pass; with `WINDLASS_POSTGRES_REQUIRED` they fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that unwraps fails with the error")]
#![allow(clippy::missing_panics_doc, reason = "tests fail by panics")]

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user and group as whom the server runs where the tests are root's: it refuses to be root.
const POSTGRES: &str = "postgres";
/// The folders of a standby's data and socket.
const STANDBY: &str = "standby";
const STANDBY_SOCKET: &str = "standby-socket";

/// A server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    folder: TempDir,
    /// The folder of its data, in `folder`.
    data: &'static str,
    /// Of its socket's name, and on the network if it listens there.
    port: u16,
    /// Its settings.
    settings: Vec<String>,
    child: Option<Child>,
}

/// A server that follows another one, in the folder of that one.
#[derive(Debug)]
pub struct Standby {
    child: Child,
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one. `None`, and a word about it, where there is no PostgreSQL.
    pub fn start() -> Option<Self> {
        let mut server = Self::made()?;
        server.run();
        Some(server)
    }

    /// Starts one that also listens, with TLS, at `localhost` and 127.0.0.2. The certificate and its key are PEM.
    pub fn start_with_tls(certificate: &str, key: &str) -> Option<Self> {
        let mut server = Self::made()?;
        server.port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        server.settings = vec!["listen_addresses=localhost,127.0.0.2".to_owned(), "ssl=on".to_owned()];
        for (name, pem) in [("cert", certificate), ("key", key)] {
            let path = server.folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            server.give(&path);
            server.settings.push(format!("ssl_{name}_file={}", path.display()));
        }
        server.run();
        Some(server)
    }

    /// One that does not run yet.
    fn made() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("WINDLASS_POSTGRES_REQUIRED").is_none(), "there is no PostgreSQL");
            eprintln!("SKIPPED: there is no PostgreSQL: apt-get install postgresql");
            return None;
        };
        let user = is_root().then(|| user_named(POSTGRES).expect("the package makes the user postgres"));
        let folder = tempfile::Builder::new().prefix("windlass-pg").tempdir_in("/tmp").unwrap();
        let settings = vec!["listen_addresses=".to_owned()];
        let server = Self { programs, user, folder, data: "data", port: 5432, settings, child: None };
        server.give(server.folder());
        let made = server.command("initdb").args(["-A", "trust", "-U", "windlass", "-N", "-D", "data"]).output();
        succeeded(&made.unwrap());
        Some(server)
    }

    /// Makes the server's user the owner.
    fn give(&self, path: &Path) {
        if let Some((user, group)) = self.user {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// The folder with its socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, program: &str) -> Command {
        self.as_user(Command::new(self.programs.join(program)))
    }

    /// A program as the user of the server.
    fn as_user(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server again, after [`Server::kill`].
    pub fn run(&mut self) {
        self.child = Some(self.serve(self.data, "."));
    }

    /// A server with its data and its socket in these folders, once it answers.
    fn serve(&self, data: &str, socket: &str) -> Child {
        let (log, socket) = (self.folder.path().join("log"), self.folder.path().join(socket));
        let start = || {
            let mut command = self.command("postgres");
            command.args(["-D", data, "-p", &self.port.to_string(), "-k"]).arg(&socket);
            command.args(["-c", "max_connections=200", "-c", "shared_buffers=16MB"]);
            command.args(self.settings.iter().flat_map(|setting| ["-c", setting.as_str()]));
            command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap()
        };
        let (mut child, started) = (start(), Instant::now());
        while !self.psql_at(&socket, "select 1").status.success() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
            // It ends at once while a process of the one that was killed still has its memory.
            if child.try_wait().unwrap().is_some() {
                child = start();
            }
        }
        child
    }

    /// A standby that has what the server has, and follows it. If it is `synchronous`, no commit is acknowledged that it
    /// lacks.
    #[must_use]
    pub fn follow(&self, synchronous: bool) -> Standby {
        let mut copy = self.command("pg_basebackup");
        copy.args(["-U", "windlass", "-D", STANDBY, "-R", "-c", "fast", "-h"]).arg(self.folder.path());
        succeeded(&copy.output().unwrap());
        let socket = self.folder.path().join(STANDBY_SOCKET);
        std::fs::create_dir(&socket).unwrap();
        self.give(&socket);
        let standby = Standby { child: self.serve(STANDBY, STANDBY_SOCKET) };
        if synchronous {
            self.execute("alter system set synchronous_standby_names = '*'");
            self.execute("select pg_reload_conf()");
        }
        let state = if synchronous { "sync" } else { "async" };
        self.until(&format!("select count(*) from pg_stat_replication where sync_state = '{state}'"), "1");
        standby
    }

    /// Waits until the standby has every commit.
    pub fn caught_up(&self, _: &Standby) {
        self.until("select bool_and(replay_lsn >= pg_current_wal_lsn()) from pg_stat_replication", "t");
    }

    /// From now on the standby gets nothing more.
    pub fn cut_off(&self, _: &Standby) {
        let socket = self.folder.path().join(STANDBY_SOCKET);
        for statement in ["alter system set primary_conninfo = ''", "select pg_reload_conf()"] {
            succeeded(&self.psql_at(&socket, statement));
        }
        self.until("select count(*) from pg_stat_replication", "0");
    }

    /// Kills the server. The standby takes its place and its socket.
    pub fn fail_over(&mut self, standby: Standby) {
        self.kill();
        let socket = self.folder.path().join(STANDBY_SOCKET);
        succeeded(&self.psql_at(&socket, "select pg_promote()"));
        succeeded(&self.command("pg_ctl").args(["stop", "-m", "fast", "-w", "-D", STANDBY]).output().unwrap());
        drop(standby);
        self.data = STANDBY;
        self.run();
    }

    /// Waits until a query answers so.
    pub fn until(&self, query: &str, answer: &str) {
        let started = Instant::now();
        while self.execute(query) != answer {
            assert!(started.elapsed() < Duration::from_secs(60), "it never came to that: {query} = {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lets no file of the server grow beyond so many bytes, as a full disk does; `None`: as far as there is room.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or_else(|| "--fsize=unlimited".to_owned(), |bytes| format!("--fsize={bytes}:unlimited"));
        for process in self.processes() {
            // A process may have ended meanwhile.
            let _ = self.as_user(Command::new("prlimit")).args(["--pid", &process, &limit]).output();
        }
    }

    /// The server's own process, and those that it has started.
    fn processes(&self) -> Vec<String> {
        let Some(child) = &self.child else { return Vec::new() };
        let postmaster = child.id().to_string();
        let children = Command::new("pgrep").args(["-P", &postmaster]).output().unwrap();
        let children = String::from_utf8_lossy(&children.stdout).lines().map(str::to_owned).collect();
        [vec![postmaster], children].concat()
    }

    /// Sends a signal, such as `-STOP`, to one of its processes.
    pub fn signal(&self, signal: &str, process: &str) {
        succeeded(&Command::new("kill").args([signal, process]).output().unwrap());
    }

    /// Kills every process of the server, as a loss of power does but for what the kernel has.
    pub fn kill(&mut self) {
        let Some(child) = &self.child else { return };
        // It starts nothing more, and its processes do not see it end.
        let kill = |signal: &str, process: &str| Command::new("kill").args([signal, process]).status();
        let _ = kill("-STOP", &child.id().to_string());
        for process in self.processes().iter().rev() {
            let _ = kill("-KILL", process);
        }
        let _ = self.child.take().map(|mut child| child.wait());
    }

    /// The URL of a schema of its own.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        format!("{}&host={}", self.url_at("localhost", schema), self.folder.path().display())
    }

    /// The same over the network, by this name of the server.
    #[must_use]
    pub fn url_at(&self, host: &str, schema: &str) -> String {
        format!("postgres://windlass@{host}:{}/postgres?schema={schema}", self.port)
    }

    /// Runs a statement as an administrator. Gives what it prints.
    pub fn execute(&self, statement: &str) -> String {
        let output = self.psql(statement);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a statement that must fail, as an administrator. Gives why it does.
    pub fn refused(&self, statement: &str) -> String {
        let output = self.psql(statement);
        assert!(!output.status.success(), "{statement} was not refused");
        String::from_utf8(output.stderr).unwrap()
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
        self.psql_at(self.folder.path(), statement)
    }

    fn psql_at(&self, socket: &Path, statement: &str) -> Output {
        let mut command = self.command("psql");
        command.args(["-X", "-A", "-t", "-U", "windlass", "-d", "postgres", "-c", statement]);
        command.args(["-p", &self.port.to_string(), "-h"]).arg(socket).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
