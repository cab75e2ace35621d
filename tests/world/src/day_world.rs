//! The world of a day: a plugin over a simulated Scaleway, whose loop is GitLab's own, in another process with a clock
//! of its own. That clock leads: each request says what time it is there, and time passes here until then. Calls of
//! the plugin are begun by one request and end in the answer to a later one, so many can be under way.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use windlass_fleeting::ScalewayGroup;
use windlass_fleeting::protocol::{InstanceGroup, Report, Update};
use windlass_policy::slots::SlotName;
use windlass_policy::{Host, Link, Policies};
use windlass_simulator::{Availability, ForcedState};

use crate::day::{Day, DayEvent, Swap};
use crate::laws;
use crate::runner::{self, GroupShape};
use crate::story::{Cast, RUNNER, What};
use crate::users::operation_of;
use crate::world::{World, policy_host};

/// For so long after the last look that said so, a heartbeat must not call healthy what is healthy sick.
const HEALTHY_FOR: Duration = Duration::from_secs(15 * 60);
/// How long after a policy that denied everything its words are remembered: longer than two updates.
const DENIAL: Duration = Duration::from_secs(180);
/// How long a plugin that was asked to leave may take (go-plugin kills it after two seconds).
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);
/// Removals at a shutdown have ended by then, where nothing fails.
const CALM: Duration = Duration::from_secs(20 * 60);

/// What the runner's side asks, and what time it is there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Simulated milliseconds since the day's begin.
    pub at: u64,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// A call of the plugin begins.
    Begin(Call),
    /// Time passes.
    Step,
    /// A call is given up.
    Cancel(u64),
    /// The event of the day with this number happens.
    Event(usize),
    /// Faults and shortages end, and nothing more is to be lost.
    Calm,
    /// An instance is gone whose removal nobody asked for, and a job ran on it.
    Lost(String),
    /// The runner has shut its group down in order; the plugin's process leaves.
    Left,
    /// What the runner believes when it has what it wants.
    Believes(Belief),
    /// As `Believes`, when it wants nothing and all has come to rest.
    Ends(Belief),
    /// The day is over.
    Over,
}

/// A call of the plugin.
#[derive(Debug, Deserialize)]
pub struct Call {
    id: u64,
    method: Method,
    #[serde(default)]
    count: u32,
    #[serde(default)]
    instances: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    Init,
    Update,
    Increase,
    Decrease,
    ConnectInfo,
    Heartbeat,
    Shutdown,
}

/// What the runner believes of its group.
#[derive(Debug, Deserialize)]
pub struct Belief {
    running: Vec<String>,
    others: BTreeMap<String, String>,
    pending: usize,
}

/// What is answered.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    /// What time it is here, in simulated milliseconds since the day's begin: later than asked where it took time.
    pub now: u64,
    /// The calls that have ended.
    pub done: Vec<Done>,
    /// Whether the plugin lives.
    pub lives: bool,
    /// The laws that are broken, in words.
    pub problems: Vec<String>,
    /// At the day's end: a digest of all calls, how many, and of how many instances the runner was told that they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Value>,
}

/// A call that has ended.
#[derive(Debug, Serialize)]
pub struct Done {
    id: u64,
    answer: Option<Value>,
    error: Option<String>,
}

/// How a call ended.
enum Ended {
    Started(Result<ScalewayGroup, String>),
    Updated(Result<Update, String>),
    Increased(Result<u32, String>),
    Decreased(Vec<String>),
    Beaten { instance: String, health: Result<(), String> },
    Other(Result<Value, String>),
}

/// See the module.
pub struct DayWorld {
    world: World,
    day: Day,
    policies: Arc<Host>,
    /// The policies in force, and until when the words of one that denies everything may be remembered.
    swaps: Vec<Swap>,
    denied: Option<Instant>,
    calls: JoinSet<(u64, Ended)>,
    under_way: BTreeMap<u64, AbortHandle>,
    /// Servers that Scaleway has locked.
    locked: Vec<String>,
    /// Server types that are gone from stock.
    gone: Vec<String>,
    /// When the runner was last told how its instances are.
    reported: Option<Instant>,
    /// Since when nothing has happened that a removal might meet.
    calm_since: Instant,
    problems: Vec<String>,
}

impl DayWorld {
    /// The day of a seed, at its begin. To be made and used under tokio's paused time.
    pub async fn new(day: Day) -> Self {
        let policies = Arc::new(policy_host());
        let cast = Cast { clusters: false, runner: true };
        let world = World::of(day.seed, cast, false, Arc::clone(&policies)).await;
        Self {
            world,
            day,
            policies,
            swaps: Vec::new(),
            denied: None,
            calls: JoinSet::new(),
            under_way: BTreeMap::new(),
            locked: Vec::new(),
            gone: Vec::new(),
            reported: None,
            calm_since: Instant::now(),
            problems: Vec::new(),
        }
    }

    /// Answers a request.
    pub async fn answer(&mut self, request: Request) -> Answer {
        let until = Duration::from_millis(request.at);
        let mut done = Vec::new();
        self.let_pass(until.saturating_sub(self.world.age()), &mut done).await;
        let mut ending = None;
        match request.ask {
            Ask::Begin(call) => self.begin(call, &mut done).await,
            Ask::Step => {}
            Ask::Over => {
                self.calls_are_gone(&mut done).await;
                self.world.kill(RUNNER).await;
            }
            Ask::Cancel(id) => {
                if let Some(call) = self.under_way.remove(&id) {
                    call.abort();
                }
            }
            Ask::Event(number) => {
                if let Some(event) = self.day.events.get(number).map(|event| event.what.clone()) {
                    self.happen(event, &mut done).await;
                }
            }
            Ask::Calm => self.calm().await,
            Ask::Lost(instance) => self.lost(&instance),
            Ask::Left => self.left(&mut done).await,
            Ask::Believes(belief) => self.compare(&belief),
            Ask::Ends(belief) => {
                self.compare(&belief);
                self.problems.extend(laws::violations(&self.world));
                self.problems.extend(self.what_is_left());
                let (digest, calls) = self.world.digest();
                let given = self.world.runner.lock().given.len();
                ending = Some(json!({"digest": format!("{digest:016x}"), "calls": calls, "given": given}));
            }
        }
        self.let_pass(Duration::ZERO, &mut done).await;
        self.problems.append(&mut self.world.problems);
        Answer {
            now: u64::try_from(self.world.age().as_millis()).unwrap_or(u64::MAX),
            done,
            lives: self.world.group().is_some(),
            problems: std::mem::take(&mut self.problems),
            ending,
        }
    }

    /// Lets time pass here, and takes the calls in that end meanwhile.
    async fn let_pass(&mut self, time: Duration, done: &mut Vec<Done>) {
        let lived = self.world.group().is_some();
        self.world.let_pass(time).await;
        // What ends without waiting for anything ends now.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        self.world.let_pass(Duration::ZERO).await;
        if lived && self.world.group().is_none() {
            self.calls_are_gone(done).await;
        }
        while let Some(ended) = self.calls.try_join_next() {
            match ended {
                Ok((id, ended)) => {
                    if self.under_way.remove(&id).is_some() {
                        let (answer, error) = match self.ended(ended) {
                            Ok(answer) => (Some(answer), None),
                            Err(error) => (None, Some(error)),
                        };
                        done.push(Done { id, answer, error });
                    }
                }
                Err(error) if error.is_panic() => self.problems.push(format!("a call of the plugin panicked: {error}")),
                Err(_) => {}
            }
        }
    }

    /// The plugin's process is gone, and with it every call.
    async fn calls_are_gone(&mut self, done: &mut Vec<Done>) {
        self.calls.shutdown().await;
        for id in std::mem::take(&mut self.under_way).into_keys() {
            done.push(Done { id, answer: None, error: Some("the plugin has ended".to_owned()) });
        }
    }

    async fn begin(&mut self, call: Call, done: &mut Vec<Done>) {
        let id = call.id;
        let mut gone = |why: &str| done.push(Done { id, answer: None, error: Some(why.to_owned()) });
        if let Method::Init = call.method {
            self.calls.shutdown().await;
            self.under_way.clear();
            let host = policy_host();
            if let Err(error) = host.configure(&policies_of(&self.swaps, self.day.setting.spread)) {
                self.problems.push(format!("policies are refused: {error}"));
            }
            self.policies = Arc::new(host);
            let Some((folder, dependencies)) = self.world.prepare_group(Arc::clone(&self.policies)).await else {
                return gone("its disk cannot be read");
            };
            let setting = &self.day.setting;
            let shape = GroupShape {
                zones: setting.zone.iter().filter_map(|zone| zone.parse().ok()).collect(),
                types: setting.server_type.clone(),
                max_size: setting.max_size,
                delete_on_shutdown: setting.delete_on_shutdown,
            };
            self.reported = None;
            let start = async move {
                let started = runner::start(folder, &shape, dependencies).await;
                (id, Ended::Started(started.map_err(|error| error.to_string())))
            };
            self.under_way.insert(id, self.calls.spawn(start));
            return;
        }
        let Some(group) = self.world.group() else { return gone("the plugin has ended") };
        // Whatever becomes of the call: from here on the instances may go.
        let mut runner = self.world.runner.lock();
        match call.method {
            Method::Decrease => runner.unwanted.extend(call.instances.iter().cloned()),
            Method::Shutdown if self.day.setting.delete_on_shutdown => {
                let all = runner.given.clone();
                runner.unwanted.extend(all);
            }
            _ => {}
        }
        drop(runner);
        let one = call.instances.first().cloned().unwrap_or_default();
        let carried = async move {
            let ended = match call.method {
                Method::Init => Ended::Other(Err("it is initialised".to_owned())),
                Method::Update => Ended::Updated(group.update().await.map_err(|failure| failure.0)),
                Method::Increase => Ended::Increased(group.increase(call.count).await.map_err(|failure| failure.0)),
                Method::Decrease => match group.decrease(call.instances).await {
                    Ok(accepted) => Ended::Decreased(accepted),
                    Err(failure) => Ended::Other(Err(failure.0)),
                },
                Method::ConnectInfo => {
                    let info = group.connect_info(one).await;
                    Ended::Other(info.map(|info| json!(info.external_address)).map_err(|failure| failure.0))
                }
                Method::Heartbeat => {
                    let health = group.heartbeat(one.clone()).await.map_err(|failure| failure.0);
                    Ended::Beaten { instance: one, health }
                }
                Method::Shutdown => {
                    Ended::Other(group.shutdown().await.map(|()| Value::Null).map_err(|failure| failure.0))
                }
            };
            (id, ended)
        };
        self.under_way.insert(id, self.calls.spawn(carried));
    }

    /// Takes in how a call ended, and says what is answered.
    fn ended(&mut self, ended: Ended) -> Result<Value, String> {
        match ended {
            Ended::Started(started) => {
                self.world.seat_group(Arc::new(started?));
                Ok(Value::Null)
            }
            Ended::Updated(update) => {
                let update = update?;
                let words = |report: &Report| json!([report.instance, report.state.to_string()]);
                let reports: Vec<Value> = update.reports.iter().map(words).collect();
                self.reported = Some(Instant::now());
                self.world.runner.lock().take(&update.reports);
                if let Some(delivered) = update.delivered {
                    delivered();
                }
                Ok(json!(reports))
            }
            Ended::Increased(accepted) => {
                let accepted = accepted?;
                self.world.runner.lock().provisioner.increased(accepted as usize);
                Ok(json!(accepted))
            }
            Ended::Decreased(accepted) => Ok(json!(accepted)),
            Ended::Beaten { instance, health } => {
                if let Err(why) = &health
                    && self.is_healthy(&instance)
                {
                    self.problems.push(format!("instance {instance} is healthy, and a heartbeat says: {why}"));
                }
                health.map(|()| Value::Null)
            }
            Ended::Other(answer) => answer,
        }
    }

    /// Whether the runner was told not long ago that an instance runs, and it does, and nobody had a hand in it.
    fn is_healthy(&self, instance: &str) -> bool {
        let runner = self.world.runner.lock();
        self.reported.is_some_and(|reported| reported.elapsed() < HEALTHY_FOR)
            && runner.believes_running(instance)
            && !runner.unwanted.contains(instance)
            && !self.world.users.touched.contains(instance)
            && !self.is_denied()
            && self.servers_of(instance).iter().any(|server| server["state"] == "running" && self.was_listed(server))
    }

    /// Whether the zone of a server could be listed not long ago. While one zone is out, updates repeat what was seen
    /// there last.
    fn was_listed(&self, server: &Value) -> bool {
        let path = format!("/instance/v1/zones/{}/servers", server["zone"].as_str().unwrap_or_default());
        let healthy_since = self.world.age().saturating_sub(HEALTHY_FOR).as_millis();
        let requests = self.world.simulator.requests();
        requests.iter().rev().take_while(|request| u128::from(request.at_ms) >= healthy_since).any(|request| {
            request.method == "GET" && request.path == path && request.status == Some(200) && request.fault.is_none()
        })
    }

    /// Whether a policy says, or said a moment ago, that everything is gone.
    fn is_denied(&self) -> bool {
        self.swaps.contains(&Swap::DenyAll) || self.denied.is_some_and(|denied| denied.elapsed() < DENIAL)
    }

    fn servers_of(&self, instance: &str) -> Vec<Value> {
        let mut servers = self.world.simulator.resources().servers;
        servers.retain(|server| {
            let id = server["id"].as_str().unwrap_or_default();
            operation_of(server) == Some(instance) && !self.world.users.theirs.contains_key(id)
        });
        servers
    }

    /// No job loses its instance but by a user, by Scaleway, by the runner's own word or a policy's.
    fn lost(&mut self, instance: &str) {
        let asked = self.world.runner.lock().unwanted.contains(instance);
        if !asked && !self.world.users.touched.contains(instance) && !self.is_denied() {
            let states: Vec<Value> =
                self.servers_of(instance).into_iter().map(|mut server| server["state"].take()).collect();
            self.problems.push(format!("a job has lost instance {instance}, whose servers are {states:?}"));
        }
    }

    /// The plugin's process has been asked to leave after a shutdown, and ends.
    async fn left(&mut self, done: &mut Vec<Done>) {
        // Where the power was lost meanwhile, nothing was promised.
        let lives = self.world.group();
        if let Some(group) = &lives {
            group.leave(LEAVE_PATIENCE).await;
        }
        self.calls_are_gone(done).await;
        self.world.kill(RUNNER).await;
        let calm = lives.is_some()
            && self.world.simulator.faults().is_empty()
            && self.calm_since.elapsed() > CALM
            && self.gone.is_empty()
            && self.locked.is_empty();
        if self.day.setting.delete_on_shutdown && calm {
            let left = self.what_is_left();
            self.problems.extend(left.into_iter().map(|words| format!("after a shutdown that removes all, {words}")));
        }
    }

    async fn happen(&mut self, event: DayEvent, done: &mut Vec<Done>) {
        self.calm_since = Instant::now();
        match event {
            DayEvent::Kill { power: None, .. } => {
                self.calls_are_gone(done).await;
                self.world.kill(RUNNER).await;
            }
            DayEvent::Kill { power: Some((at, took_effect)), .. } => {
                self.world.disk_of(RUNNER).lose_power_at(at, took_effect);
            }
            DayEvent::World(what) => self.world.happen(&what).await,
            DayEvent::Stock { server_type, available } => self.stock(server_type, available),
            DayEvent::Lock { server } => {
                if let Some(server) = self.world.users.server_of_ours(server) {
                    self.world.users.touch(&server);
                    let id = server["id"].as_str().unwrap_or_default();
                    if self.world.simulator.set_server_state(id, ForcedState::Locked).is_ok() {
                        self.locked.push(id.to_owned());
                    }
                }
            }
            DayEvent::Unlock => self.unlock(),
            DayEvent::Policies(swaps) => self.swap(swaps),
            DayEvent::Jobs { .. } | DayEvent::Idle { .. } | DayEvent::Drain { .. } | DayEvent::Quiet { .. } => {}
        }
    }

    fn stock(&mut self, server_type: String, available: bool) {
        self.gone.retain(|gone| *gone != server_type);
        let availability = if available { Availability::Available } else { Availability::Shortage };
        self.world.simulator.set_stock(server_type.clone(), availability);
        if !available {
            self.gone.push(server_type);
        }
    }

    fn unlock(&mut self) {
        for id in std::mem::take(&mut self.locked) {
            // It may be gone.
            let _ = self.world.simulator.set_server_state(&id, ForcedState::Running);
        }
    }

    fn swap(&mut self, swaps: Vec<Swap>) {
        if self.swaps.contains(&Swap::DenyAll) {
            self.denied = Some(Instant::now());
        }
        if let Err(error) = self.policies.configure(&policies_of(&swaps, self.day.setting.spread)) {
            self.problems.push(format!("policies are refused: {error}"));
        }
        self.swaps = swaps;
    }

    async fn calm(&mut self) {
        self.world.happen(&What::FaultsEnd).await;
        self.world.disk_of(RUNNER).keep_power();
        for server_type in self.gone.clone() {
            self.stock(server_type, true);
        }
        self.unlock();
        if self.swaps.contains(&Swap::DenyAll) {
            self.swap(Vec::new());
        }
    }

    /// Holds what the runner believes against what there is.
    fn compare(&mut self, belief: &Belief) {
        {
            let mut runner = self.world.runner.lock();
            runner.demand = belief.running.len();
            let reported: Vec<&str> = runner.instances().into_iter().collect();
            let mut believed: Vec<&str> =
                belief.running.iter().chain(belief.others.keys()).map(String::as_str).collect();
            believed.sort_unstable();
            if reported != believed {
                self.problems.push(format!("the runner knows {believed:?} and was told of {reported:?}"));
            }
            let pending = runner.provisioner.pending();
            if pending != belief.pending {
                self.problems
                    .push(format!("the runner waits for {}, not {pending} that were accepted", belief.pending));
            }
        }
        if !belief.others.is_empty() {
            self.problems.push(format!("the runner's capacity is held by {:?}", belief.others));
        }
        self.problems.extend(laws::others_are_untouched(&self.world));
        self.problems.extend(laws::the_runner_has_what_it_wants(&self.world));
    }

    /// What of the group is left at Scaleway, in words.
    fn what_is_left(&self) -> Vec<String> {
        let resources = self.world.simulator.resources();
        let owner = format!("windlass-owner={}", runner::GROUP_OWNER);
        let lists = [("server", &resources.servers), ("address", &resources.ips), ("volume", &resources.volumes)];
        let mut left = Vec::new();
        for (kind, list) in lists {
            for value in list {
                let id = value["id"].as_str().unwrap_or_default();
                let ours = value["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == owner.as_str()));
                if ours && !self.world.users.theirs.contains_key(id) {
                    let operation = operation_of(value).unwrap_or_default();
                    left.push(format!("{kind} {id} ({operation}) is left: {}", value["state"]));
                }
            }
        }
        left
    }
}

/// The configuration in which these policies come first in their slots, and instances are spread over the zones or not.
fn policies_of(swaps: &[Swap], spread: bool) -> Policies {
    let swapped = swaps.iter().fold(Policies::built_in(), |policies, swap| {
        let name = format!("{swap:?}.rules.toml");
        policies.with(swap.slot(), Link::contents(Path::new(&name), swap.rules().into_bytes()))
    });
    if spread { swapped.with_default_setting(SlotName::Placement, "spread", json!("zones")) } else { swapped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_a_day_is_taken() {
        let host = policy_host();
        for swap in Swap::all() {
            host.configure(&policies_of(&[swap], true)).unwrap();
        }
    }
}
