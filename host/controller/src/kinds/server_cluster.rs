//! `ServerCluster`: groups of Instance servers, created, scaled and terminated as one thing.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{Condition, CredentialsReference};
use super::instance_machine::{PublicIp, Volume};
use super::rules::{ZONE, dns_label, unchanged};

/// Groups of Instance servers on Scaleway that are created, scaled and terminated together.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "ServerCluster",
    plural = "serverclusters",
    namespaced,
    status = "ServerClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "windlass",
    shortname = "scl",
    doc = "Groups of Instance servers on Scaleway that are created, scaled and terminated as one thing.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.runningNodes"),
    printcolumn(name = "Operation", type_ = "integer", json_path = ".status.operation.number"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zone", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = dns_label(
        32,
        "the name must have at most 32 lower-case letters, digits and dashes: with the group's name and a number it is \
         the servers' name",
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = unchanged(
        "", &[], &["credentialsRef"],
        "credentialsRef cannot be changed: to use another key of the same project, change the Secret; for another \
         project, make a new cluster",
    ),
    validation = unchanged(
        "", &["zone"], &["project"],
        "zone and project cannot be changed: make a new cluster",
    ),
    validation = Rule::new("self.groups.size() == oldSelf.groups.size() && self.groups.all(group, \
                        oldSelf.groups.exists(old, old.name == group.name))")
        .message("groups cannot be added or removed: set a group's count to 0, or make a new cluster"),
    validation = Rule::new("self.groups.map(group, group.count).sum() <= 1000")
        .message("a cluster has at most 1000 nodes: its record must fit into one object")
)]
pub struct ServerClusterSpec {
    /// The zone of the cluster.
    #[schemars(length(min = 1, max = 32), regex(pattern = ZONE))]
    pub zone: String,
    /// The Secret in the object's namespace with Scaleway's credentials: the keys `SCW_SECRET_KEY`,
    /// `SCW_DEFAULT_PROJECT_ID` and `SCW_ACCESS_KEY`. Absent: the namespace's own, where the operator lets there be
    /// one, else the controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsReference>,
    /// The ID of the project. Absent: the credentials' default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub project: Option<String>,
    /// The node groups. Changed counts scale the cluster, several groups at once.
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]),
    )]
    pub groups: Vec<ServerClusterGroup>,
    /// Names of nodes to remove first when their group shrinks. After them, the newest nodes are removed. Names of
    /// nodes that no longer exist are ignored: names are never reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub remove: Option<Vec<String>>,
    /// The hooks at three points of the cluster's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<ServerClusterHooks>,
    /// The time limit for one server to run, in seconds. Absent: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 86400))]
    pub server_deadline_seconds: Option<u32>,
    /// The time limit of each of the stages `wait` and `prepare`, in seconds. Absent: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub wait_deadline_seconds: Option<u32>,
}

/// A group of identical nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.dynamicIPRequired) && self.dynamicIPRequired && has(self.publicIPs) && \
                        self.publicIPs.size() > 0)")
        .message("dynamicIPRequired and publicIPs exclude each other: Scaleway gives a dynamic address only to a \
                  server without a flexible one"),
    validation = unchanged(
        "", &["types", "image"], &["rootVolume", "additionalVolumes"],
        "types, image and volumes of a group cannot be changed, since its nodes are alike: only the count, and the \
         cloud-init of new nodes",
    ),
    validation = unchanged(
        "", &[], &["publicIPs", "dynamicIPRequired", "privateNetworks"],
        "addresses and networks of a group cannot be changed, since its nodes are alike: only the count, and the \
         cloud-init of new nodes",
    ),
    validation = unchanged(
        "", &[], &["securityGroup", "placementGroup", "tags"],
        "security group, placement group and tags of a group cannot be changed, since its nodes are alike: only the \
         count, and the cloud-init of new nodes",
    )
)]
pub struct ServerClusterGroup {
    /// The name of the group. It is part of its nodes' names: `<cluster>-<group>-<number>`.
    #[schemars(length(min = 1, max = 22), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The number of nodes.
    #[schemars(range(max = 1000))]
    pub count: u32,
    /// Commercial types in order of preference. If one is out of stock, the next is tried.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$")))]
    pub types: Vec<String>,
    /// A label of the marketplace (`ubuntu_noble`) or the id of an image in the zone.
    #[schemars(length(min = 1, max = 128))]
    pub image: String,
    /// The root volume. Absent: as large as the image, on Block Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<Volume>,
    /// Additional volumes, created for each node and deleted with it. `sizeGB` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    #[x_kube(
        validation = Rule::new("self.all(volume, has(volume.sizeGB))")
            .message("an additional volume needs sizeGB")
    )]
    pub additional_volumes: Option<Vec<Volume>>,
    /// Flexible IP addresses of each node. Absent: one IPv4 address. Empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "publicIPs")]
    #[schemars(length(max = 4))]
    pub public_ips: Option<Vec<PublicIp>>,
    /// Whether Scaleway assigns each node a dynamic IP address at power-on.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "dynamicIPRequired")]
    pub dynamic_ip_required: Option<bool>,
    /// The IDs of the private networks to join, optionally with the region (`fr-par/UUID`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    pub private_networks: Option<Vec<String>>,
    /// The ID of a security group. Absent: the project's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub security_group: Option<String>,
    /// The ID of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub placement_group: Option<String>,
    /// Additional tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), inner(length(min = 1, max = 512)))]
    #[x_kube(
        validation = Rule::new("self.all(tag, !tag.contains(',') && !tag.startsWith('windlass-'))")
            .message("a tag must not hold a comma or begin with `windlass-`, which is reserved")
    )]
    pub tags: Option<Vec<String>>,
    /// The cloud-init for a node's first boot. Read again for each new node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInitSource>,
}

/// The source of the cloud-init.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.inline) != has(self.secretName)")
        .message("cloudInit is either inline or in the Secret secretName")
)]
pub struct CloudInitSource {
    /// The text. Do not put secrets here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32768))]
    pub inline: Option<String>,
    /// A Secret in the same namespace; its key `value` holds the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// The hooks. A stage without a hook does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerClusterHooks {
    /// Runs before nodes are removed, to move their work and data elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decommission: Option<ServerClusterHook>,
    /// Runs once nodes are running, to configure them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<ServerClusterHook>,
    /// Runs once nodes are configured, to put them into service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ServerClusterHook>,
}

/// One hook: a Job or a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.job) != has(self.webhook)")
        .message("a hook needs either a job or a webhook; for ssh or a program, use a job whose image has it")
)]
pub struct ServerClusterHook {
    /// A Job, run once for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobHook>,
    /// One signed HTTP request for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<SignedWebhook>,
    /// The time limit of one run for all nodes, in seconds. Absent: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub time_limit_seconds: Option<u32>,
}

/// A Job of one pod with one container. The file that `WINDLASS_INPUT` names lists the nodes. Exit code 0 means done,
/// 75 asks for a retry, and anything else is a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobHook {
    /// The container's image.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Its command. Absent: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 16384)))]
    pub command: Option<Vec<String>>,
    /// Its arguments. Absent: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 16384)))]
    pub args: Option<Vec<String>>,
    /// Its environment variables. Do not put secrets here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    pub env: Option<BTreeMap<String, String>>,
    /// Names of Secrets in the same namespace whose keys become environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    pub env_from_secrets: Option<Vec<String>>,
    /// The ServiceAccount of the pod. Absent: no token is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Names of the Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 253)))]
    pub image_pull_secrets: Option<Vec<String>>,
    /// The user ID of the process, not root. Absent: the image's user, which must not be root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2147483647_i64))]
    pub run_as_user: Option<i64>,
}

/// A signed HTTP POST. A response of 2xx means done, and anything else is a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.url.startsWith('https://') || (self.url.startsWith('http://') && has(self.plainHTTP) \
                            && self.plainHTTP)")
        .message("the url must begin with https://, or plainHTTP must be true")
)]
pub struct SignedWebhook {
    /// The URL.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// A Secret in the same namespace. Its key `secret` signs the request.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Allows `http`: anyone on the network path can read names and addresses of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "plainHTTP")]
    pub plain_http: Option<bool>,
}

/// Data whose form the API server does not check.
fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The observed state of a cluster. The fields up to `history` are the record of its operations, and the only copy of
/// the state of its nodes. The current operation writes them, conditional on the object's resource version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerClusterStatus {
    /// `creating`, `active`, `scaling`, `terminating` or `error`; absent if nothing was begun, or nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub state: Option<String>,
    /// Why the cluster is in this state, from its newest operation. Empty if all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub reasons: Vec<String>,
    /// The first resources that should be gone and are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub left: Vec<String>,
    /// Whether it has been active since its creation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub established: bool,
    /// The current step and its progress: `create servers 37/100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub progress: Option<String>,
    /// The number of running nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_nodes: Option<u32>,
    /// The groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<GroupStatus>,
    /// The nodes, by group and number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3000), extend("x-kubernetes-list-type" = "atomic"))]
    pub nodes: Vec<NodeStatus>,
    /// The current (`open`) or last operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<ClusterOperationStatus>,
    /// The latest events, oldest first. Nodes without problems are only counted, in the operation's steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub events: Vec<EventStatus>,
    /// The operations that have ended, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastOperation>,
    /// Guards the record against outdated writers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordStatus>,
    /// The project in which it was created. Credentials of another project are refused.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "projectID")]
    #[schemars(length(max = 64))]
    pub project_id: Option<String>,
    /// The last attempt to act upon the specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptStatus>,
    /// The conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// The state of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// The number of its nodes; during an operation, the number wanted.
    pub count: u32,
    /// The highest node number used so far.
    pub last_number: u32,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// `<cluster>-<group>-<number>`, also the server's name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its number in the group, never reused.
    pub number: u32,
    /// `staying`, `leaving` or `made`.
    pub role: String,
    /// `planned`, `creating`, `running`, `removing`, `removed` or `left`.
    pub state: String,
    /// The operation that creates or created its server. It is also the value of the server's operation tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation: Option<String>,
    /// Scaleway's ID of its server.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverID")]
    pub server_id: Option<String>,
    /// The server's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// Public addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Addresses in private networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_addresses: Vec<String>,
    /// Whether the decommission hook started for it and its outcome is unknown. Then the node is not put into service
    /// again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decommission_began: bool,
    /// Whether the decommission hook succeeded for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decommissioned: bool,
    /// Whether the configure hook started for it. From then on it may hold data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configure_began: bool,
    /// Whether the configure hook succeeded for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured: bool,
    /// Whether the start hook succeeded for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// Whether its server no longer had Windlass's owner tag when it was last seen. Then no hook runs for it, and it
    /// leaves the cluster without being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_ours: bool,
    /// Why it failed, or what of it is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An operation on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperationStatus {
    /// The cluster's nth operation, from 1.
    pub number: u64,
    /// `create`, `scale` or `terminate`.
    pub kind: String,
    /// `open`, `done`, `recovered`, `failed` or `cancelled`.
    pub state: String,
    /// The current or last stage.
    pub stage: String,
    /// The controller that runs it, or ran it, as the Lease names it.
    pub runner: String,
    /// The number of nodes of each group, before and wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<CountsStatus>,
    /// Whether a termination skips the decommission hook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Its steps so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// What happened and why, in words for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// How its failure is handled. It is stored before it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub recovery: Option<Value>,
    /// The policies that decide for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub policies: Option<Value>,
    /// When it began (RFC 3339).
    pub began_at: String,
    /// When it ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// The number of a group's nodes before an operation, and the number wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountsStatus {
    /// The group.
    pub group: String,
    /// Before.
    pub before: u32,
    /// Wanted.
    pub wanted: u32,
}

/// A step of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// The stage.
    pub stage: String,
    /// What is done to each node.
    pub step: String,
    /// The number of nodes.
    pub total: u32,
    /// The number of nodes that are done.
    pub done: u32,
    /// The number of nodes that failed.
    pub failed: u32,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventStatus {
    /// Increases with each event.
    pub sequence: u64,
    /// The cluster's nth operation.
    pub operation: u64,
    /// When (RFC 3339).
    pub at: String,
    /// What happened.
    #[schemars(schema_with = "anything")]
    pub what: Value,
}

/// An operation that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastOperation {
    /// The cluster's nth operation.
    pub number: u64,
    /// `create`, `scale` or `terminate`.
    pub kind: String,
    /// `done`, `recovered`, `failed` or `cancelled`.
    pub state: String,
    /// The stage in which it ended.
    pub stage: String,
    /// The class of what failed: `hook-failed`, `interrupted`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What happened and why, in words for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// When it began (RFC 3339).
    pub began_at: String,
    /// When it ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// Guards the record against outdated writers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordStatus {
    /// The number that a writer must present. It changes with each operation that begins or is taken over.
    pub fence: u64,
    /// The number of writes.
    pub writes: u64,
    /// The sequence number of the last event.
    pub events: u64,
    /// Whether the current operation is to be cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// Whether the cluster is to be deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// When the cluster was created (RFC 3339).
    pub created_at: String,
    /// When it changed last (RFC 3339).
    pub updated_at: String,
}

/// The last attempt to act upon the specification. It is repeated only if the specification or the annotation
/// `windlass.dev/retry` changes, or the operation was interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStatus {
    /// The object's generation.
    pub generation: i64,
    /// The annotation's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// The number of its operation.
    pub operation: u64,
    /// Why no operation began: the specification cannot be fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl ServerClusterStatus {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}
