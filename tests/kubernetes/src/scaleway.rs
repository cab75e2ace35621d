use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::sync::oneshot;
use windlass_simulator::{AppleSiliconPool, Effect, FaultKind, FaultRule, Options, Simulator};

use crate::{MachineOptions, eventually};

/// Longer than any test runs.
const HELD: Duration = Duration::from_secs(24 * 60 * 60);

/// At which point of a request something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It has left the caller, and nothing was done.
    Before,
    /// It was done, and the answer is not yet there.
    After,
}

/// A simulated Scaleway on a port and a thread of its own, so that nothing that a test does stops it.
#[derive(Debug)]
pub struct Scaleway {
    simulator: Simulator,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// An Apple silicon host, as the simulator knows it: with its whole past.
#[derive(Debug, Clone)]
pub struct Host {
    /// Scaleway's id.
    pub id: String,
    /// Its name now.
    pub name: String,
    /// `ready`, `reinstalling`, ...
    pub status: String,
    /// Every name it had, in order, the present one last.
    pub names: Vec<String>,
    /// The names under which it was wiped, in order.
    pub wiped_as: Vec<String>,
    /// How often it was rebooted.
    pub reboots: u64,
    /// Whether its deletion is scheduled.
    pub deletion_scheduled: bool,
    /// Who deleted it: `delete`, `schedule` or `control`; `None` for one that is there.
    pub deleted_by: Option<String>,
}

impl Host {
    fn of(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().map(|entry| text(&entry["name"])).collect()
        };
        Self {
            id: text(&value["id"]),
            name: text(&value["name"]),
            status: text(&value["status"]),
            names: names(&value["simulator"]["names"]),
            wiped_as: names(&value["simulator"]["wiped"]),
            reboots: value["simulator"]["reboots"].as_u64().unwrap_or_default(),
            deletion_scheduled: value["deletion_scheduled"].as_bool().unwrap_or_default(),
            deleted_by: value["deleted_by"].as_str().map(str::to_owned),
        }
    }

    /// Whether it is in the pool by its name.
    #[must_use]
    pub fn in_pool(&self) -> bool {
        self.name.starts_with(MachineOptions::POOL)
    }
}

impl Scaleway {
    /// Starts one. Simulated time runs with `options.time_scale`.
    ///
    /// # Errors
    /// When there is no port or no thread.
    pub fn start(options: Options) -> Result<Self> {
        let simulator = Simulator::new(options);
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = simulator.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("scaleway".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    never = served.serve(listener) => match never {},
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { simulator, url, stop: Some(stop), thread: Some(thread) })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The simulator itself: faults, clock, stock.
    #[must_use]
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// Adds `count` hosts, ready, to the pool of every scene, made at simulated `ages` ago (just now, where there are
    /// none).
    ///
    /// # Errors
    /// For no hosts.
    pub fn add_hosts(&self, count: usize, ages: impl IntoIterator<Item = Duration>) -> Result<Vec<String>> {
        let pool = AppleSiliconPool::new(MachineOptions::POOL, count, MachineOptions::TYPE)?.with_ages(ages);
        Ok(self.simulator.add_apple_silicon_pool(&pool))
    }

    /// Adds a host, ready, of this project to the pool of every scene.
    ///
    /// # Errors
    /// For a pool that cannot be.
    pub fn add_host_of_project(&self, project: &str) -> Result<Vec<String>> {
        let pool = AppleSiliconPool::new(MachineOptions::POOL, 1, MachineOptions::TYPE)?.in_project(project);
        Ok(self.simulator.add_apple_silicon_pool(&pool))
    }

    /// Makes a private network in `fr-par`, and gives its id.
    ///
    /// # Errors
    /// When it is refused.
    pub fn add_network(&self) -> Result<String> {
        let url = format!("{}/vpc/v2/regions/fr-par/private-networks", self.url());
        let token = "X-Auth-Token: 11111111-1111-4111-8111-111111111111";
        let (kind, body) = ("Content-Type: application/json", r#"{"name":"test","tags":[],"subnets":[]}"#);
        let arguments = ["-sf", "--max-time", "300", "-H", token, "-H", kind, "-d", body, &url];
        let answer = std::process::Command::new("curl").args(arguments).output().context("run curl")?;
        ensure!(answer.status.success(), "{answer:?}");
        let network: Value = serde_json::from_slice(&answer.stdout)?;
        Ok(network["id"].as_str().context("a network without an id")?.to_owned())
    }

    /// Gives an instance these tags in the place of those that it has, as a colleague does in the console.
    ///
    /// # Errors
    /// When it is refused.
    pub fn set_tags(&self, server: &str, tags: &[String]) -> Result<()> {
        let url = format!("{}/instance/v1/zones/fr-par-1/servers/{server}", self.url());
        let token = "X-Auth-Token: 11111111-1111-4111-8111-111111111111";
        let (kind, body) = ("Content-Type: application/json", serde_json::json!({"tags": tags}).to_string());
        let arguments = ["-sf", "--max-time", "300", "-X", "PATCH", "-H", token, "-H", kind, "-d", &body, &url];
        let answer = std::process::Command::new("curl").args(arguments).output().context("run curl")?;
        ensure!(answer.status.success(), "{answer:?}");
        Ok(())
    }

    /// The hosts that there are, oldest first.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        self.simulator.resources().apple_silicon_servers.iter().map(Host::of).collect()
    }

    /// The hosts that are no more.
    #[must_use]
    pub fn gone_hosts(&self) -> Vec<Host> {
        self.simulator.resources().gone_apple_silicon_servers.iter().map(Host::of).collect()
    }

    /// The instances that there are, whole.
    #[must_use]
    pub fn instances(&self) -> Vec<Value> {
        self.simulator.resources().servers
    }

    /// The cloud-init of an instance, as Scaleway would hand it to it.
    ///
    /// # Errors
    /// When it has none.
    pub fn cloud_init(&self, server: &str) -> Result<String> {
        let url = format!("{}/instance/v1/zones/fr-par-1/servers/{server}/user_data/cloud-init", self.url());
        let answer = std::process::Command::new("curl")
            .args(["-sf", "--max-time", "300", "-H", "X-Auth-Token: 11111111-1111-4111-8111-111111111111", &url])
            .output()
            .context("run curl")?;
        ensure!(answer.status.success(), "no cloud-init at {server}");
        Ok(String::from_utf8(answer.stdout)?)
    }

    /// The calls since the log was cleared, as `METHOD path`, with ids left as they are.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.simulator.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    /// The calls that change something.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("GET ")).collect()
    }

    /// Makes every call that matches fail so, for the `nth` alone when that is given.
    ///
    /// # Errors
    /// For a rule that could never meet a request.
    pub fn fail(&self, method: &str, path: &str, nth: Option<u64>, kind: FaultKind, effect: Effect) -> Result<()> {
        let rule = FaultRule { method: Some(method.to_owned()), path: path.to_owned(), nth, kind, effect };
        Ok(self.simulator.add_fault(rule)?)
    }

    /// Lets the `nth` matching request from now on hang at `moment`, until the caller goes away.
    ///
    /// # Errors
    /// For a rule that could never meet a request.
    pub fn hold(&self, method: &str, path: &str, nth: u64, moment: Moment) -> Result<()> {
        let effect = match moment {
            Moment::Before => Effect::Before,
            Moment::After => Effect::After,
        };
        self.fail(method, path, Some(nth), FaultKind::Delay(HELD), effect)
    }

    /// Lets every such request hang, until [`Scaleway::calm`]; and waits until so many hang that have done what they ask
    /// for, once `begin` has caused them.
    ///
    /// # Errors
    /// That of `begin`; when fewer come.
    pub async fn hold_all(
        &self,
        method: &str,
        path: &str,
        count: usize,
        begin: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        self.fail(method, path, None, FaultKind::Delay(HELD), Effect::After)?;
        begin.await?;
        let word = FaultKind::Delay(HELD).to_string();
        eventually("requests hang", || async {
            let requests = self.simulator.requests();
            let held = requests.iter().filter(|it| it.fault.as_ref() == Some(&word) && it.status.is_some()).count();
            ensure!(held >= count, "{held} of {count}");
            Ok(())
        })
        .await
    }

    /// Waits until a request hangs because of [`Scaleway::hold`], and done what it asked for where that is meant.
    ///
    /// # Errors
    /// When none comes.
    pub async fn held(&self) -> Result<()> {
        eventually("a request hangs", || async {
            let held = FaultKind::Delay(HELD);
            let rules = self.simulator.faults();
            let rule = rules.iter().find(|fault| fault.rule.kind == held && fault.applied > 0);
            let effect = rule.with_context(|| format!("none yet; so far: {:#?}", self.changes()))?.rule.effect;
            // The newest is the one that this rule met: those of rules before it stand in the log, too.
            let word = held.to_string();
            let requests = self.simulator.requests();
            let newest = requests.iter().rfind(|request| request.fault.as_ref() == Some(&word));
            let status = newest.context("the log of requests was cleared")?.status;
            // What was asked for is done as soon as the request has a status.
            ensure!(effect == Effect::Before || status.is_some(), "it is not done yet");
            Ok(())
        })
        .await
    }

    /// Waits until a request has met any fault.
    ///
    /// # Errors
    /// When none does.
    pub async fn held_up(&self) -> Result<()> {
        eventually("a request meets a fault", || async {
            ensure!(self.simulator.faults().iter().any(|fault| fault.applied > 0), "none yet");
            Ok(())
        })
        .await
    }

    /// Ends all faults. What hangs, is attached to.
    pub fn calm(&self) {
        self.simulator.clear_faults();
    }

    /// Moves simulated time on.
    pub fn advance(&self, by: Duration) {
        self.simulator.advance(by);
    }

    /// The host with this id.
    ///
    /// # Errors
    /// When it is gone.
    pub fn host(&self, id: &str) -> Result<Host> {
        self.hosts().into_iter().find(|host| host.id == id).with_context(|| format!("host {id} is gone"))
    }
}

impl Drop for Scaleway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
