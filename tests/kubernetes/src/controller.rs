use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::control_plane::free_port;
use crate::process::Process;
use crate::wait::LIMIT;
use crate::{ControlPlane, Kind, MachineOptions, User, compiled, eventually};

/// The Lease of our manifests is the only one that their rights reach; so scenes do without, except those about
/// leaders.
pub(crate) const LEASE_NAMESPACE: &str = "windlass-system";

/// How a controller is started. The default: alone, with the built-in policies, quick to try again.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// The name of its folder of state within the scene: two with the same share a volume, one with a new name lost
    /// its.
    pub state: String,
    /// Its configuration: the key `policies`.
    pub configuration: Option<Value>,
    /// Whether it works only while it holds the Lease, by this name.
    pub lease: Option<String>,
    /// Further arguments, which win over those that are set here.
    pub arguments: Vec<String>,
    /// Environment variables beside those that all have.
    pub environment: Vec<(String, String)>,
    /// As whom it asks the API server.
    pub user: User,
    /// Whether it watches all namespaces instead of the scene's: for a control plane where there is nobody else.
    pub all_namespaces: bool,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            state: "state".to_owned(),
            configuration: None,
            lease: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            user: User::Controller,
            all_namespaces: false,
        }
    }
}

impl ControllerOptions {
    /// With this configuration.
    #[must_use]
    pub fn configured(configuration: Value) -> Self {
        Self { configuration: Some(configuration), ..Self::default() }
    }

    /// With an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a further argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }
}

/// A running `windlass-controller`.
#[derive(Debug)]
pub struct Controller {
    process: Process,
    health: u16,
    metrics: u16,
    program: PathBuf,
    state: PathBuf,
}

impl Controller {
    /// Starts one that watches `namespace` and asks the Scaleway at `scaleway`; its files are in `folder`.
    pub(crate) async fn start(
        plane: &ControlPlane,
        namespace: &str,
        scaleway: &str,
        folder: &Path,
        options: &ControllerOptions,
    ) -> Result<Self> {
        let (health, metrics) = (free_port()?, free_port()?);
        let state = folder.join(&options.state);
        std::fs::create_dir_all(&state)?;
        compiled::lend(&state)?;
        let mut command = Command::new(plane.programs().controller());
        command
            // Nothing of the person who runs the tests may get in: credentials least of all.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "RUST_BACKTRACE"))
            .env("HOME", folder)
            .env("RUST_LOG", "info")
            .env("SCW_API_URL", scaleway)
            .env("SCW_ACCESS_KEY", "SCWXXXXXXXXXXXXXXXXX")
            .env("SCW_SECRET_KEY", "11111111-1111-4111-8111-111111111111")
            .env("SCW_DEFAULT_PROJECT_ID", "7d0e3a4c-0000-4000-8000-000000000001")
            .env("SCW_DEFAULT_ZONE", "fr-par-1")
            .envs(options.environment.iter().cloned());
        let mut arguments = vec![
            format!("--kubeconfig={}", plane.kubeconfig_file(options.user).display()),
            format!("--state-dir={}", state.display()),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
            // Where nothing tells it to go on, it looks again soon: the simulated time runs fast.
            "--retry-interval=500ms".to_owned(),
            "--listing-interval=1s".to_owned(),
            "--shutdown-grace=5s".to_owned(),
            // Most tests are about what becomes of a host, and not about who may ask for it.
            "--allow-terminate".to_owned(),
        ];
        if !options.all_namespaces {
            arguments.push(format!("--namespace={namespace}"));
        }
        match &options.lease {
            // It is alone, so nobody else can want the same host.
            None => arguments.extend(["--leader-elect=false", "--claim-settle=100ms"].map(str::to_owned)),
            Some(lease) => arguments.extend([
                format!("--leader-elect-name={lease}"),
                // For as long as by default: a shorter one is lost on a busy machine.
                format!("--leader-elect-namespace={LEASE_NAMESPACE}"),
            ]),
        }
        if let Some(configuration) = &options.configuration {
            let file = configuration_file(folder, &options.state);
            std::fs::write(&file, serde_json::to_string_pretty(configuration)?)?;
            arguments.push(format!("--config={}", file.display()));
        }
        if !options.arguments.iter().any(|argument| argument.starts_with("--pool")) {
            arguments.push(format!("--pool={}", MachineOptions::POOL));
        }
        let name = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
        let further: Vec<String> = options.arguments.iter().map(|argument| name(argument)).collect();
        arguments.retain(|argument| !further.contains(&name(argument)));
        command.args(arguments).args(&options.arguments);
        let log = folder.join(format!("controller-{}.log", options.state));
        Ok(Self {
            process: Process::start("windlass-controller", &mut command, &log)?,
            health,
            metrics,
            program: plane.programs().controller().to_owned(),
            state,
        })
    }

    /// What one of its commands that look prints on stdout, as run inside its pod.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn look(&self, arguments: &[&str]) -> Result<String> {
        let state = format!("--state-dir={}", self.state.display());
        let ran = Command::new(&self.program).env_clear().args(arguments).arg(state).output()?;
        ensure!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        Ok(String::from_utf8(ran.stdout)?)
    }

    /// Waits until `/healthz` answers: it runs. (It is ready only when it may work, which a follower may not.)
    ///
    /// # Errors
    /// When it ends instead; with its last words.
    pub async fn healthy(&mut self) -> Result<()> {
        let port = self.health;
        let answers = eventually("the controller is healthy", || async move { get(port, "/healthz").await.map(drop) });
        tokio::select! {
            answered = answers => answered.with_context(|| self.last_words()),
            ended = has_ended(&mut self.process) => bail!("it ended with {}; its last \
                words:\n{}", ended?, self.last_words()),
        }
    }

    /// What it says at `/metrics`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        get(self.metrics, "/metrics").await
    }

    /// How often it has looked at an object of this kind.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn reconciles(&self, kind: Kind) -> Result<u64> {
        let kind = format!("kind=\"{kind:?}\"");
        let metrics = self.metrics().await?;
        let lines =
            metrics.lines().filter(|line| line.starts_with("windlass_reconciles_total{") && line.contains(&kind));
        lines.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
    }

    /// How many files and connections it has open.
    ///
    /// # Errors
    /// When it has ended.
    pub fn open_files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.process.id()))?.count())
    }

    /// Whether it holds the Lease, or needs none, and works.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.metrics().await?.lines().any(|line| line == "windlass_leader 1"))
    }

    /// What it says at `/readyz`; an error for any answer but 200.
    ///
    /// # Errors
    /// When it is not ready.
    pub async fn ready(&self) -> Result<String> {
        get(self.health, "/readyz").await
    }

    /// The memory that it keeps, in bytes (its resident set).
    ///
    /// # Errors
    /// When it is gone.
    pub fn resident_bytes(&self) -> Result<u64> {
        Ok(self.kernel_says("VmRSS:")? * 1024)
    }

    /// Its threads.
    ///
    /// # Errors
    /// When it is gone.
    pub fn threads(&self) -> Result<u64> {
        self.kernel_says("Threads:")
    }

    fn kernel_says(&self, field: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with(field)).context("no such field")?;
        Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
    }

    /// The processor time that it has used.
    ///
    /// # Errors
    /// When it is gone.
    pub fn processor_time(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // After the name, which stands in parentheses and may hold anything: utime and stime are fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |place: usize| fields.get(place).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        // USER_HZ is 100 on every Linux.
        Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM, and the end.
    ///
    /// # Errors
    /// When it does not end within its grace.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.signal("TERM")?;
        self.process.wait()
    }

    /// Stops it from running without ending it, like a node that hangs; [`Controller::thaw`] undoes it.
    ///
    /// # Errors
    /// When it is gone.
    pub fn freeze(&self) -> Result<()> {
        self.process.signal("STOP")
    }

    /// Lets it run on after [`Controller::freeze`].
    ///
    /// # Errors
    /// When it is gone.
    pub fn thaw(&self) -> Result<()> {
        self.process.signal("CONT")
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// When it does not end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.process.wait()
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.ended()
    }

    /// The end of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// Its whole log, with that of those before it in the same folder.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.written()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // Policies that were loaded after its start. What cannot be kept is compiled again.
        let _ = compiled::keep(&self.state);
    }
}

/// Where the configuration of a controller with this folder of state is written.
pub(crate) fn configuration_file(folder: &Path, state: &str) -> PathBuf {
    folder.join(format!("{state}.json"))
}

pub(crate) async fn has_ended(process: &mut Process) -> Result<ExitStatus> {
    loop {
        if let Some(status) = process.ended()? {
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One plain HTTP GET on this machine.
pub(crate) async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await??;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{}: {body}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}
