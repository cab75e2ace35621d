//! A PostgreSQL server in a temporary folder, that listens on a socket there.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_postgres::PostgresState;

/// The user and group as whom the server runs where the tests are root's: it refuses to be root.
const POSTGRES: &str = "postgres";

pub(crate) struct Server {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    folder: TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts one. `None`, and a word about it, where there is no PostgreSQL.
    pub(crate) fn start() -> Option<Self> {
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
    pub(crate) fn run(&mut self) {
        let folder = self.folder.path().to_owned();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&folder).args(["-c", "listen_addresses="]);
        command.args(["-c", "max_connections=200", "-c", "shared_buffers=16MB"]);
        let log = std::fs::File::create(folder.join("log")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let (state, started) = (self.state("postgres"), Instant::now());
        while windlass_lifecycle::log::SharedLog::hosts(&state).is_err() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills every process of the server, as a loss of power does but for what the kernel has.
    pub(crate) fn kill(&mut self) {
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

    /// State in a schema of its own.
    pub(crate) fn state(&self, schema: &str) -> PostgresState {
        self.state_of(schema, "here")
    }

    /// As another machine sees it.
    pub(crate) fn state_of(&self, schema: &str, host: &str) -> PostgresState {
        PostgresState::parse(&self.url(schema), &BTreeMap::new(), host).unwrap()
    }

    pub(crate) fn url(&self, schema: &str) -> String {
        format!("postgres://windlass@/postgres?host={}&schema={schema}", self.folder.path().display())
    }

    /// Runs a statement as an administrator.
    pub(crate) fn execute(&self, statement: &str) -> String {
        let mut command = self.command("psql");
        command.args(["-X", "-A", "-t", "-U", "windlass", "-d", "postgres", "-c", statement]);
        let output = command.arg("-h").arg(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
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
