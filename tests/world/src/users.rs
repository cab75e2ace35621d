//! What users of the account do beside us, and what of theirs must still be there in the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_scaleway::Client;
use windlass_simulator::Simulator;

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

/// The operation that a resource's tag names.
pub(crate) fn operation_of(value: &Value) -> Option<&str> {
    let tags = value["tags"].as_array()?.iter().filter_map(Value::as_str);
    tags.into_iter().find_map(|tag| tag.strip_prefix("windlass-operation="))
}

/// The zone that a server is in.
fn zone_of(server: &Value) -> &str {
    server["zone"].as_str().unwrap_or(ZONE)
}

/// The users of the account. They call the API as everybody does, and their calls never fail.
pub(crate) struct Users {
    client: Client,
    simulator: Simulator,
    made: u32,
    /// By id.
    pub(crate) theirs: BTreeMap<String, Theirs>,
    /// Servers of ours that a user deleted.
    pub(crate) terminated: Vec<String>,
    /// Operations whose servers a user stopped or deleted, or tried to.
    pub(crate) touched: BTreeSet<String>,
}

/// Whether a resource carries an owner tag, whosever.
pub(crate) fn is_tagged(value: &Value) -> bool {
    value["tags"]
        .as_array()
        .is_some_and(|tags| tags.iter().filter_map(Value::as_str).any(|tag| tag.starts_with("windlass-owner=")))
}

impl Users {
    pub(crate) fn new(client: Client, simulator: Simulator) -> Self {
        Self { client, simulator, made: 0, theirs: BTreeMap::new(), terminated: Vec::new(), touched: BTreeSet::new() }
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

    async fn action(&self, server: &Value, action: &str) {
        let id = server["id"].as_str().unwrap_or_default();
        let path = format!("/instance/v1/zones/{}/servers/{id}/action", zone_of(server));
        self.call("POST", &path, Some(json!({ "action": action }))).await;
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
                    self.action(&server, "poweroff").await;
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
                    self.action(&server, "terminate").await;
                    self.terminated.extend(server["id"].as_str().map(str::to_owned));
                }
            }
        }
    }
}

/// The simulator's default project.
const PROJECT: &str = "7d0e3a4c-0000-4000-8000-000000000001";
