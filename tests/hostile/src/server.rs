//! A real `windlass policy serve`, in a folder of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long the rules wait after the failure of a gateway, in milliseconds.
pub(crate) const WAIT_MS: u64 = 1234;
/// How the file of rules is called.
pub(crate) const RULES: &str = "good.rules.toml";

pub(crate) struct Server {
    program: PathBuf,
    folder: tempfile::TempDir,
    socket: PathBuf,
    process: Child,
}

impl Server {
    /// Starts one, with more of a configuration than the good peer's policy, and waits until it listens.
    pub(crate) fn start(program: &Path, more: &str) -> anyhow::Result<Server> {
        let program = &std::path::absolute(program)?;
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("hostile").tempdir_in("/tmp")?;
        let rules = format!(
            "slot = \"retry\"\n[[rules]]\nname = \"wait\"\nwhen = \"failure.class == 'gateway'\"\n\
             answer = {{ wait = {WAIT_MS} }}\n"
        );
        std::fs::write(folder.path().join(RULES), rules)?;
        let configuration = format!("[[policies.retry]]\npath = \"{RULES}\"\n{more}");
        std::fs::write(folder.path().join("config.toml"), configuration)?;
        let socket = folder.path().join("policy.sock");
        let process = serve(program, folder.path(), &socket)?;
        let mut server = Server { program: program.into(), folder, socket, process };
        server.listens()?;
        Ok(server)
    }

    /// Starts it once more, where it has ended.
    pub(crate) fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = serve(&self.program, self.folder.path(), &self.socket)?;
        self.listens()
    }

    fn listens(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        BufReader::new(self.process.stdout.take().context("its stdout")?).read_line(&mut line)?;
        ensure!(line.starts_with("unix:"), "it does not listen: {line}{}", self.log()?);
        Ok(())
    }

    /// Where its configuration and its policies are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of the decision log.
    pub(crate) fn decisions(&self) -> PathBuf {
        self.folder.path().join("state/decisions")
    }

    /// The most memory that it ever had, in bytes.
    pub(crate) fn peak_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).context("it has ended")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
    }

    /// `windlass policy status`, which is to name the rules.
    pub(crate) fn status(&self) -> anyhow::Result<()> {
        let output = windlass(&self.program, self.folder.path()).args(["policy", "status"]).output()?;
        let reported = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && reported.contains(RULES),
            "{reported}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Sends SIGTERM, and returns how long it took to end.
    pub(crate) fn end(&mut self, most: Duration) -> anyhow::Result<Duration> {
        let process = Pid::from_child(&self.process);
        let began = Instant::now();
        kill_process(process, Signal::TERM)?;
        while began.elapsed() < most {
            if let Some(status) = self.process.try_wait()? {
                ensure!(status.success(), "it ended with {status}: {}", self.log()?);
                return Ok(began.elapsed());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("it has not ended within {most:?}")
    }

    /// How many lines it has written to stderr.
    pub(crate) fn lines(&self) -> anyhow::Result<usize> {
        Ok(self.log()?.lines().count())
    }

    fn log(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.folder.path().join("log"))?).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(program: &Path, folder: &Path, socket: &Path) -> anyhow::Result<Child> {
    let mut command = windlass(program, folder);
    command.args(["policy", "serve", "--listen"]).arg(format!("unix:{}", socket.display()));
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
    started.with_context(|| format!("start {}", program.display()))
}

fn windlass(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", folder).current_dir(folder);
    command.args(["--config", "config.toml", "--state-dir", "state"]);
    command
}
