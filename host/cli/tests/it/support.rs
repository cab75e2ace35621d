//! The real binary, a simulator of its own for each test, and HTTP by hand for the simulator's controls.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::pty::OpenptFlags;
use serde_json::Value;

/// Far more than anything here takes, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(10);

pub const BINARY: &str = env!("CARGO_BIN_EXE_windlass");

/// A command without any of the caller's settings.
pub fn bare(home: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("HOME", home).stdin(Stdio::null());
    command
}

/// Writes a file that may be run, and leaves the mode of one that is there. A child writes it: a child of another thread
/// would inherit a handle of this process, and while it has that, the file cannot be run (`ETXTBSY`).
pub fn write_runnable(path: &Path, text: &str) {
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\""]).arg(path).arg(text);
    assert!(write.status().expect("ran").success(), "{} is not written", path.display());
}

/// What a command needs in order to run the caller's cargo, without a network, whatever its home is.
pub fn cargo_environment() -> Vec<(String, String)> {
    let home = std::env::home_dir().expect("a home");
    let usual = [("CARGO_HOME", home.join(".cargo")), ("RUSTUP_HOME", home.join(".rustup"))];
    let folder = |(name, usual): (&str, std::path::PathBuf)| {
        (name.to_owned(), std::env::var(name).unwrap_or_else(|_| usual.display().to_string()))
    };
    let binaries = Path::new(BINARY).parent().expect("a folder").display();
    let path = format!("{binaries}:{}", std::env::var("PATH").expect("a path"));
    let more = [("PATH".to_owned(), path), ("CARGO_NET_OFFLINE".to_owned(), "true".to_owned())];
    usual.into_iter().map(folder).chain(more).collect()
}

/// Says that a test needs what this machine lacks. Past what `cargo test` keeps of tests that pass, since nobody would
/// see it there, and on a line of its own, where `tests/run` finds it.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(format!("\nSKIPPED: {why}\n").as_bytes());
}

/// Asks until there is an answer, so often as fits into the limit, whatever the clock says: a machine may stand still
/// for minutes.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LIMIT.div_duration_f64(PAUSE) as u64 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("not within {LIMIT:?}: {what}");
}

/// A process that runs beside the test, and never outlives it.
pub struct Running {
    child: Child,
    stdout: Heard,
    stderr: Heard,
}

/// Where somebody types.
pub struct Keyboard(File);

impl Keyboard {
    pub fn types(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("typed");
    }
}

const TERMINAL: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY);

fn terminal() -> OwnedFd {
    let screen = rustix::pty::openpt(TERMINAL).expect("a terminal");
    rustix::pty::grantpt(&screen).expect("granted");
    rustix::pty::unlockpt(&screen).expect("unlocked");
    screen
}

/// The end that a process has.
fn end_of(screen: &OwnedFd) -> OwnedFd {
    rustix::pty::ioctl_tiocgptpeer(screen, TERMINAL).expect("its other end")
}

/// What a process has written so far.
struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Heard {
    fn from(mut pipe: impl Read + Send + 'static) -> Heard {
        let text = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                heard.lock().expect("no reader panics").extend_from_slice(&part[..count]);
            }
        });
        Heard { text, reader }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawned");
        let stdout = Heard::from(child.stdout.take().expect("piped"));
        let stderr = Heard::from(child.stderr.take().expect("piped"));
        Running { child, stdout, stderr }
    }

    /// Starts it at a terminal, which is its stdin and its stderr, and gives what types there. Its stdout is a pipe.
    ///
    /// By value: a command keeps its ends of the terminal open, which would then never end.
    pub fn at_terminal(mut command: Command) -> (Running, Keyboard) {
        let screen = terminal();
        let end = || end_of(&screen);
        let mut child = command.stdin(end()).stderr(end()).stdout(Stdio::piped()).spawn().expect("spawned");
        drop(command);
        let stdout = Heard::from(child.stdout.take().expect("piped"));
        let keyboard = Keyboard(File::from(screen.try_clone().expect("a second handle")));
        (Running { child, stdout, stderr: Heard::from(File::from(screen)) }, keyboard)
    }

    /// Starts it with a terminal of so many columns as its stdout.
    pub fn on_screen(command: Command, columns: usize) -> Running {
        Self::on(&terminal(), command, columns)
    }

    /// The same with a person there: the terminal is its stdin as well.
    pub fn with_reader(mut command: Command, columns: usize) -> Running {
        let screen = terminal();
        command.stdin(end_of(&screen));
        Self::on(&screen, command, columns)
    }

    fn on(screen: &OwnedFd, mut command: Command, columns: usize) -> Running {
        let end = end_of(screen);
        let columns = columns.to_string();
        // Lines end as they were written.
        let set = Command::new("stty").args(["rows", "24", "cols", &columns, "-onlcr"]).stdin(end_of(screen)).status();
        assert!(set.expect("stty").success());
        let mut child = command.stdout(end).stderr(Stdio::piped()).spawn().expect("spawned");
        drop(command);
        let stderr = Heard::from(child.stderr.take().expect("piped"));
        Running { child, stdout: Heard::from(File::from(screen.try_clone().expect("a second handle"))), stderr }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("ran");
        assert!(status.success());
    }

    /// Waits until it has said these words on stderr.
    #[track_caller]
    pub fn until_it_says(&self, words: &str) {
        eventually(words, || self.stderr.so_far().contains(words).then_some(()));
    }

    /// The first line on stdout, once it is there.
    #[track_caller]
    pub fn first_line(&self) -> String {
        eventually("its first line", || self.stdout.so_far().split_once('\n').map(|(line, _)| line.to_owned()))
    }

    /// What it has said on stderr so far.
    pub fn said(&self) -> String {
        self.stderr.so_far()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let code = eventually("the command ends", || self.child.try_wait().expect("it is our child")).code();
        eventually("its output ends", || {
            (self.stdout.reader.is_finished() && self.stderr.reader.is_finished()).then_some(())
        });
        Ran { code: code.unwrap_or(-1), stdout: self.stdout.so_far(), stderr: self.stderr.so_far() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub fn of(command: &mut Command) -> Ran {
        Running::start(command).end()
    }

    /// The one document on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        let document = self.file();
        crate::documents::check(&document);
        document
    }

    /// A file's content on stdout, which has no envelope.
    #[track_caller]
    pub fn file(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stdout.contains('\u{fffd}'), "a control character was replaced: {}", self.stdout);
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
    _simulator: Running,
    pub url: String,
}

/// The retry policy gives up soon, so that failures do not take minutes.
pub const IMPATIENT: &str =
    "[policies.retry]\nsettings = { attempts = 2, undo-attempts = 2, base-ms = 1, cap-ms = 1, transient-ms = 1 }\n";

/// A home in which the default policies have been compiled, once for all tests, and what tests have compiled besides.
static COMPILED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a directory");
    Ran::of(bare(home.path()).args(["policy", "list"])).expect(0);
    home
});

/// Where the commands keep their state by default.
pub const STATE: &str = ".local/state/windlass";

/// A new home, where nobody has to wait for the default policies.
pub fn new_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    windlass_test_guests::lend_compiled(&COMPILED.path().join(STATE), &home.path().join(STATE)).expect("copied");
    home
}

impl World {
    pub fn new(time_scale: &str) -> World {
        World::at(new_home(), time_scale)
    }

    /// One whose user has never run anything: there is no state directory yet.
    pub fn without_state(time_scale: &str) -> World {
        World::at(tempfile::tempdir().expect("a directory"), time_scale)
    }

    fn at(home: tempfile::TempDir, time_scale: &str) -> World {
        let simulator = Running::start(bare(home.path()).args([
            "simulator",
            "--listen",
            "127.0.0.1:0",
            "--seed",
            "1",
            "--quiet",
            "--time-scale",
            time_scale,
        ]));
        let url = eventually("the simulator says its URL", || {
            simulator.stdout.so_far().split_once('\n').map(|(line, _)| line.to_owned())
        });
        World { home, _simulator: simulator, url }
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

    /// Writes a program, or replaces it.
    pub fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        write_runnable(&path, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
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
        Ran::of(&mut self.command(arguments))
    }

    #[track_caller]
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
        self.call(method, &format!("/_simulator/{path}"), body)
    }

    /// A call as Scaleway takes it, by somebody else than the program.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let host = self.url.strip_prefix("http://").expect("a URL");
        let mut stream = TcpStream::connect(host).expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             X-Auth-Token: 11111111-1111-1111-1111-111111111111\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
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

    /// Waits until the simulator holds something that fits.
    #[track_caller]
    pub fn until(&self, fits: impl Fn(&Value) -> bool) {
        eventually("the simulator holds it", || fits(&self.control("GET", "resources", "")).then_some(()));
    }
}

/// Hooks are processes of their own group, and outlive a windlass that was killed: whatever still runs in the test's
/// folder is ended.
impl Drop for World {
    fn drop(&mut self) {
        // Where there is no state directory, or one that cannot be read, there is nothing to give back.
        let _ = windlass_test_guests::return_compiled(&self.home.path().join(STATE), &COMPILED.path().join(STATE));
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        for process in processes.flatten() {
            let here =
                std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.home.path()));
            if here {
                let _ = Command::new("kill").arg("-KILL").arg(process.file_name()).status();
            }
        }
    }
}
