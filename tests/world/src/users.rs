//! What users of the account do beside us, and what of theirs must still be there in the end.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_scaleway::Client;
use windlass_simulator::{ForcedState, Simulator};

use crate::account::ZONE;
use crate::story::User;

/// Something that belongs to somebody else.
#[derive(Clone, Debug)]
pub(crate) struct Theirs {
    /// `servers`, `ips` or `volumes`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) tags: Value,
}

/// How a user has made something of ours their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// They took our tags off it.
    Untagged,
    /// They attached it to a server of their own.
    Moved,
    /// They protected it.
    Protected,
    /// It is attached to a server with this mark of theirs.
    WithServer,
}

/// Something of ours that a user has made their own, or forbidden to change.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) kind: &'static str,
    pub(crate) mark: Mark,
    /// When it was done.
    pub(crate) since: Duration,
    /// The server that it was attached to.
    pub(crate) holder: Option<String>,
    pub(crate) operation: Option<String>,
}

/// The operation that a resource's tag names.
pub(crate) fn operation_of(value: &Value) -> Option<&str> {
    let tags = value["tags"].as_array()?.iter().filter_map(Value::as_str);
    tags.into_iter().find_map(|tag| tag.strip_prefix("windlass-operation="))
}

/// The servers that an address or a volume is attached to.
pub(crate) fn holders_of(value: &Value) -> impl Iterator<Item = &str> {
    let references = value["references"].as_array().into_iter().flatten();
    let ids = references.map(|reference| &reference["product_resource_id"]).chain([&value["server"]["id"]]);
    ids.filter_map(Value::as_str)
}

/// The zone that a server is in.
fn zone_of(server: &Value) -> &str {
    server["zone"].as_str().unwrap_or(ZONE)
}

/// The users of the account. They call the API as everybody does, and their calls never fail.
pub(crate) struct Users {
    client: Client,
    simulator: Simulator,
    origin: Instant,
    made: u32,
    /// By id.
    pub(crate) theirs: BTreeMap<String, Theirs>,
    /// Servers of ours that a user deleted.
    pub(crate) terminated: Vec<String>,
    /// Operations whose servers a user stopped or deleted, or tried to.
    pub(crate) touched: BTreeSet<String>,
    /// Servers that a user stopped.
    stopped: BTreeSet<String>,
    /// What they took of ours, by id.
    pub(crate) taken: BTreeMap<String, Taken>,
    /// Servers of ours that a user took something off, or deleted what was on them.
    pub(crate) parted: BTreeSet<String>,
}

/// Whether a resource carries an owner tag, whosever.
pub(crate) fn is_tagged(value: &Value) -> bool {
    value["tags"]
        .as_array()
        .is_some_and(|tags| tags.iter().filter_map(Value::as_str).any(|tag| tag.starts_with("windlass-owner=")))
}

impl Users {
    pub(crate) fn new(client: Client, simulator: Simulator, origin: Instant) -> Self {
        Self {
            client,
            simulator,
            origin,
            made: 0,
            theirs: BTreeMap::new(),
            terminated: Vec::new(),
            touched: BTreeSet::new(),
            stopped: BTreeSet::new(),
            taken: BTreeMap::new(),
            parted: BTreeSet::new(),
        }
    }

    /// The call's answer; null where it was refused, as a user's call may be.
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map(|body| body.to_string().into());
        match self.client.send_raw(method, path, body).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                serde_json::from_slice(&answer.body).unwrap_or(Value::Null)
            }
            _ => Value::Null,
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("of-a-user-{}", self.made)
    }

    fn own(&mut self, kind: &'static str, value: &Value) -> Option<String> {
        let id = value["id"].as_str()?.to_owned();
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        self.theirs.insert(id.clone(), Theirs { kind, name, tags: value["tags"].clone() });
        Some(id)
    }

    /// A server of ours that exists now.
    pub(crate) fn server_of_ours(&self, chosen: usize) -> Option<Value> {
        let servers = self.simulator.resources().servers;
        let ours: Vec<&Value> = servers
            .iter()
            .filter(|server| is_tagged(server) && !self.theirs.contains_key(server["id"].as_str().unwrap_or_default()))
            .collect();
        (!ours.is_empty()).then(|| ours[chosen % ours.len()].clone())
    }

    /// Whether it was accepted.
    async fn action(&self, server: &Value, action: &str) -> bool {
        let id = server["id"].as_str().unwrap_or_default();
        let path = format!("/instance/v1/zones/{}/servers/{id}/action", zone_of(server));
        !self.call("POST", &path, Some(json!({ "action": action }))).await.is_null()
    }

    pub(crate) fn touch(&mut self, server: &Value) {
        self.touched.extend(operation_of(server).map(str::to_owned));
    }

    /// A volume of a user's own.
    pub(crate) async fn make_volume(&mut self, zone: &str) -> Option<String> {
        let name = self.name();
        let body =
            json!({ "name": name, "from_empty": { "size": 10_000_000_000_u64 }, "project_id": PROJECT, "tags": [] });
        let volume = self.call("POST", &format!("/block/v1/zones/{zone}/volumes"), Some(body)).await;
        self.own("volumes", &volume)
    }

    async fn make_server(&mut self, zone: &str, tags: Value, started: bool) {
        let name = self.name();
        let body = json!({
            "name": name, "commercial_type": "DEV1-S", "project": PROJECT, "tags": tags, "dynamic_ip_required": false,
            "volumes": { "0": { "volume_type": "l_ssd", "size": 20_000_000_000_u64, "boot": true } },
        });
        let answer = self.call("POST", &format!("/instance/v1/zones/{zone}/servers"), Some(body)).await;
        let server = &answer["server"];
        if self.own("servers", server).is_some() {
            for volume in server["volumes"].as_object().into_iter().flat_map(serde_json::Map::values) {
                self.own("volumes", volume);
            }
            if started {
                self.action(server, "poweron").await;
            }
        }
    }

    /// A server of ours that was handed over: users don't see one before it runs.
    fn server_in_use(&self, chosen: usize) -> Option<Value> {
        let server = self.server_of_ours(chosen)?;
        let is_in_use = match server["state"].as_str()? {
            "running" | "stopped in place" => true,
            "stopped" => self.stopped.contains(server["id"].as_str()?),
            _ => false,
        };
        is_in_use.then_some(server)
    }

    /// The addresses and volumes on a server, as they are now: their kinds, paths and values.
    fn parts_of(&self, server: &str) -> Vec<(&'static str, String, Value)> {
        let resources = self.simulator.resources();
        let holds = |value: &&Value| holders_of(value).any(|holder| holder == server);
        let ips = resources.ips.iter().filter(holds).map(|ip| ("ips", "instance", ip));
        let volumes = resources.volumes.iter().filter(holds).map(|volume| {
            let is_local = volume.get("volume_type").is_some();
            ("volumes", if is_local { "instance" } else { "block" }, volume)
        });
        ips.chain(volumes)
            .filter(|(_, _, value)| !self.theirs.contains_key(value["id"].as_str().unwrap_or_default()))
            .map(|(kind, api, value)| {
                let id = value["id"].as_str().unwrap_or_default();
                (kind, format!("/{api}/v1/zones/{}/{kind}/{id}", zone_of(value)), value.clone())
            })
            .collect()
    }

    fn take(&mut self, kind: &'static str, value: &Value, mark: Mark, holder: Option<&str>) {
        let Some(id) = value["id"].as_str() else { return };
        let taken = Taken {
            kind,
            mark,
            since: self.origin.elapsed(),
            holder: holder.map(str::to_owned),
            operation: operation_of(value).map(str::to_owned),
        };
        match self.taken.get(id) {
            // The stronger mark stays.
            Some(known) if mark == Mark::WithServer && known.mark != Mark::WithServer => {}
            _ => drop(self.taken.insert(id.to_owned(), taken)),
        }
    }

    fn take_parts(&mut self, server: &str) {
        for (kind, _, value) in self.parts_of(server) {
            self.take(kind, &value, Mark::WithServer, Some(server));
        }
    }

    /// Changes a server, and keeps what is on it.
    async fn take_server(&mut self, chosen: usize, change: Value, mark: Mark) {
        let Some(server) = self.server_in_use(chosen) else { return };
        let id = server["id"].as_str().unwrap_or_default();
        let path = format!("/instance/v1/zones/{}/servers/{id}", zone_of(&server));
        if !self.call("PATCH", &path, Some(change)).await.is_null() {
            self.touch(&server);
            self.take("servers", &server, mark, None);
            self.take_parts(id);
        }
    }

    /// Takes our tags off one of the parts of a server that are tagged.
    async fn take_part(&mut self, chosen: usize, wanted: &str) {
        let Some(server) = self.server_in_use(chosen) else { return };
        let holder = server["id"].as_str().unwrap_or_default();
        let mut parts = self.parts_of(holder);
        parts.retain(|(kind, _, value)| *kind == wanted && is_tagged(value));
        let Some((kind, path, value)) = parts.into_iter().nth(chosen % 2) else { return };
        if !self.call("PATCH", &path, Some(json!({ "tags": ["role=web"] }))).await.is_null() {
            self.touch(&server);
            self.take(kind, &value, Mark::Untagged, Some(holder));
        }
    }

    async fn move_volume(&mut self, chosen: usize) {
        let Some(server) = self.server_in_use(chosen) else { return };
        let (holder, zone) = (server["id"].as_str().unwrap_or_default(), zone_of(&server));
        let mut parts = self.parts_of(holder);
        parts.retain(|(kind, _, value)| *kind == "volumes" && is_tagged(value));
        let Some((kind, _, value)) = parts.into_iter().nth(chosen % 2) else { return };
        let before: BTreeSet<String> = self.theirs.keys().cloned().collect();
        self.make_server(zone, json!([]), false).await;
        let made = self.theirs.iter().find(|(id, theirs)| theirs.kind == "servers" && !before.contains(*id));
        let Some(own) = made.map(|(id, _)| id.clone()) else { return };
        let path = |server: &str, verb: &str| format!("/instance/v1/zones/{zone}/servers/{server}/{verb}-volume");
        self.parted.insert(holder.to_owned());
        self.touch(&server);
        self.call("POST", &path(holder, "detach"), Some(json!({ "volume_id": value["id"] }))).await;
        // Block Storage takes a moment.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let volume_type = value.get("volume_type").cloned().unwrap_or_else(|| "sbs_volume".into());
        let attach = json!({ "volume_id": value["id"], "volume_type": volume_type });
        if !self.call("POST", &path(&own, "attach"), Some(attach)).await.is_null() {
            self.take(kind, &value, Mark::Moved, None);
        }
    }

    /// Takes the protection off all servers. What was protected is no longer theirs.
    pub(crate) async fn unprotect(&mut self) {
        let mut protected: BTreeSet<String> = BTreeSet::new();
        for (id, taken) in &self.taken {
            if taken.mark == Mark::Protected {
                let path = format!("/instance/v1/zones/{ZONE}/servers/{id}");
                self.call("PATCH", &path, Some(json!({ "protected": false }))).await;
                protected.insert(id.clone());
            }
        }
        self.taken.retain(|id, taken| {
            let with_it = taken.mark == Mark::WithServer
                && taken.holder.as_ref().is_some_and(|holder| protected.contains(holder));
            !protected.contains(id) && !with_it
        });
    }

    /// Whether something of ours is protected.
    pub(crate) fn protect_something(&self) -> bool {
        self.taken.values().any(|taken| taken.mark == Mark::Protected)
    }

    /// Whether a user has made this their own, so that nothing of ours may change it.
    pub(crate) fn have(&self, id: &str) -> bool {
        self.theirs.contains_key(id) || self.taken.get(id).is_some_and(|taken| taken.mark != Mark::Protected)
    }

    /// What is told of the world when a user does this.
    pub(crate) async fn act(&mut self, user: User) {
        match user {
            User::MakeServer => self.make_server(ZONE, json!([]), true).await,
            User::CloneServer { server: chosen } => {
                if let Some(server) = self.server_of_ours(chosen) {
                    // Some are started at once, others later.
                    self.make_server(zone_of(&server), server["tags"].clone(), chosen % 4 != 3).await;
                }
            }
            User::AttachVolume { server } => {
                let Some(server) = self.server_of_ours(server) else { return };
                if let Some(volume) = self.make_volume(zone_of(&server)).await {
                    let id = server["id"].as_str().unwrap_or_default();
                    let path = format!("/instance/v1/zones/{}/servers/{id}/attach-volume", zone_of(&server));
                    // It takes a moment until a new volume can be attached.
                    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                    self.call("POST", &path, Some(json!({ "volume_id": volume, "volume_type": "sbs_volume" }))).await;
                }
            }
            User::AttachAddress { server } => {
                let Some(server) = self.server_of_ours(server) else { return };
                let body =
                    json!({ "type": "routed_ipv4", "project": PROJECT, "tags": ["of-a-user"], "server": server["id"] });
                let path = format!("/instance/v1/zones/{}/ips", zone_of(&server));
                let answer = self.call("POST", &path, Some(body)).await;
                self.own("ips", &answer["ip"]);
            }
            User::StopInPlace { server } => {
                if let Some(server) = self.server_of_ours(server) {
                    self.touch(&server);
                    self.action(&server, "stop_in_place").await;
                }
            }
            User::PowerOff { server } => {
                if let Some(server) = self.server_of_ours(server) {
                    self.touch(&server);
                    if self.action(&server, "poweroff").await {
                        self.stopped.extend(server["id"].as_str().map(str::to_owned));
                    }
                }
            }
            User::Rename { server } => {
                let Some(server) = self.server_of_ours(server) else { return };
                // What was not handed over and has a new name is somebody's: nothing of ours removes it.
                if server["state"] == "stopped" {
                    return;
                }
                let name = self.name();
                let id = server["id"].as_str().unwrap_or_default();
                let path = format!("/instance/v1/zones/{}/servers/{id}", zone_of(&server));
                self.call("PATCH", &path, Some(json!({ "name": name }))).await;
            }
            User::Terminate { server } => {
                let Some(server) = self.server_of_ours(server) else { return };
                // Only what was handed over: users don't see a server before it runs.
                if server["state"] == "running" {
                    self.touch(&server);
                    if self.action(&server, "terminate").await {
                        self.terminated.extend(server["id"].as_str().map(str::to_owned));
                    }
                }
            }
            User::Delete { server } => {
                let Some(server) = self.server_in_use(server).filter(|server| server["protected"] == false) else {
                    return;
                };
                let id = server["id"].as_str().unwrap_or_default();
                if self.simulator.set_server_state(id, ForcedState::Deleted).is_ok() {
                    self.touch(&server);
                    self.terminated.push(id.to_owned());
                }
            }
            User::TakeServer { server } => {
                self.take_server(server, json!({ "tags": ["role=web"] }), Mark::Untagged).await;
            }
            User::TakeAddress { server } => self.take_part(server, "ips").await,
            User::TakeVolume { server } => self.take_part(server, "volumes").await,
            User::MoveVolume { server } => self.move_volume(server).await,
            User::Protect { server } => self.take_server(server, json!({ "protected": true }), Mark::Protected).await,
        }
    }
}

/// The simulator's default project.
const PROJECT: &str = "7d0e3a4c-0000-4000-8000-000000000001";
