//! `AppleSiliconMachine`: a Mac mini, claimed from a pool or ordered.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{CredentialsReference, MachineStatus, TemplateMetadata, TemplateStatus};
use super::rules::{ZONE, dns_label, unchanged};

/// A Mac mini on Scaleway: claimed from a pool by a name prefix or, where that is allowed, ordered.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "AppleSiliconMachine",
    plural = "applesiliconmachines",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "cluster-api",
    category = "windlass",
    shortname = "asm",
    doc = "A Mac mini on Scaleway: claimed from a pool by a name prefix or, where that is allowed, ordered.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Bootstrapped", type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Bootstrapped\")].status"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".status.failureDomain"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.serverID", priority = 1),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = dns_label(
        63,
        "the name must be a DNS label: lower-case letters, digits and dashes, at most 63, since the host carries it",
    ),
    validation = unchanged(
        "spec.", &[], &["credentialsRef"],
        "credentialsRef cannot be changed: to use another key of the same project, change the Secret; for another \
         project, make a new machine",
    ),
    validation = unchanged(
        "spec.", &["type"], &[],
        "type cannot be changed: make a new machine",
    ),
    validation = unchanged(
        "spec.", &[], &["zone"],
        "zone cannot be changed: make a new machine",
    ),
    validation = unchanged(
        "spec.", &[], &["operatingSystem"],
        "operatingSystem cannot be changed: make a new machine",
    ),
    validation = unchanged(
        "spec.", &[], &["poolPrefix"],
        "poolPrefix cannot be changed: the host goes back to the pool that it came from",
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.order) || !self.order.allowed || has(self.order.limit)")
        .message("order.allowed needs order.limit: a host is paid for at least a day")
)]
pub struct AppleSiliconMachineSpec {
    /// `scaleway-apple-silicon://<zone>/<id>`. Set by the controller; set it yourself to take over a host that carries
    /// this object's claim already.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "providerID")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = r"^scaleway-apple-silicon://(fr-par|it-mil|nl-ams|pl-waw)-[1-9]/[a-zA-Z0-9-]+$")
    )]
    pub provider_id: Option<String>,
    /// The Secret in the object's namespace with Scaleway's credentials: the keys `SCW_SECRET_KEY`,
    /// `SCW_DEFAULT_PROJECT_ID` and `SCW_ACCESS_KEY`. Absent: the namespace's own, where the operator lets there be
    /// one, else the controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsReference>,
    /// The zone. Absent: the Machine's failure domain, else the controller's default zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = ZONE))]
    pub zone: Option<String>,
    /// Scaleway's server type, for example `M4-S`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub machine_type: String,
    /// The operating system of the host: a family (`Sequoia`), which stays valid when Scaleway retires an image, or the
    /// exact name of an image (`macos-sequoia-15.6`). Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub operating_system: Option<String>,
    /// The prefix of the names of the pool's hosts. It ends with a dash. Absent: the controller's default. One of the
    /// two is required: without a pool, a host could only be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 27), regex(pattern = r"^[a-z0-9][a-z0-9.-]*-$"))]
    pub pool_prefix: Option<String>,
    /// What happens when the pool has no host. Absent: wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// How to set up a host after it is claimed. Absent: Windlass does not set it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
}

/// A script that sets up a host over ssh. The condition `Bootstrapped` is `True` once the script has succeeded on the
/// host. It may run more than once, but never twice at the same time on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setup {
    /// A ConfigMap in this namespace. Each key becomes a file in the folder in which the script runs.
    pub config_map_ref: LocalReference,
    /// The key of the script. It is made executable. If its first line names no interpreter, bash runs it.
    #[serde(default = "setup_script")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub script: String,
    /// A Secret in this namespace. Each key is a file in the folder `$WINDLASS_SECRETS` while a script runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A Secret in this namespace with the private key for the login, under `ssh-privatekey` as in the type
    /// `kubernetes.io/ssh-auth`. Absent: the login uses the password that Scaleway's API returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_secret_ref: Option<LocalReference>,
    /// The user to log in as. Absent: the user that Scaleway's API returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[a-zA-Z_][-._a-zA-Z0-9]*$"))]
    pub user: Option<String>,
    /// The port of the host's sshd.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The accepted host keys, as lines of OpenSSH `.pub` files. Absent: the first key that the host presents is
    /// accepted and pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 4096)))]
    pub host_keys: Vec<String>,
    /// The time limit of one run, including the connection.
    #[serde(default = "setup_time_limit")]
    #[schemars(range(min = 10, max = 86400))]
    pub time_limit_seconds: u32,
    /// What runs on the host before it is released. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<Teardown>,
}

/// A script that undoes the set-up. The host is released even if the script fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Teardown {
    /// The key of the script in the set-up's ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub script: String,
    /// The time limit of one run, including the connection.
    #[serde(default = "teardown_time_limit")]
    #[schemars(range(min = 10, max = 3600))]
    pub time_limit_seconds: u32,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

fn setup_script() -> String {
    "setup.sh".to_owned()
}

const fn ssh_port() -> u16 {
    22
}

const fn setup_time_limit() -> u32 {
    1800
}

const fn teardown_time_limit() -> u32 {
    300
}

/// Whether new hosts may be ordered. Each is billed for at least 24 hours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Whether a host is ordered if the pool has none. Also requires the controller's `--allow-orders`.
    #[serde(default)]
    pub allowed: bool,
    /// The maximum number of hosts in this zone, free and claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// A machine of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct AppleSiliconMachineResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The machine.
    pub spec: AppleSiliconMachineSpec,
}

/// The template from which Cluster API creates `AppleSiliconMachine` objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "AppleSiliconMachineTemplate",
    plural = "applesiliconmachinetemplates",
    namespaced,
    status = "TemplateStatus",
    derive = "PartialEq",
    category = "cluster-api",
    category = "windlass",
    shortname = "asmt",
    doc = "The template from which Cluster API creates AppleSiliconMachines.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.template.spec.type"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.template.spec.poolPrefix"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.capacity.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.capacity.memory"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.template.spec.providerID)")
        .message("a template cannot name one host: leave providerID out")
)]
pub struct AppleSiliconMachineTemplateSpec {
    /// The template.
    pub template: AppleSiliconMachineResource,
}
