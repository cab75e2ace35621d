//! `windlass:policy/types`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

/// A duration in milliseconds.
pub type Milliseconds = u64;

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
pub type Timestamp = u64;

/// What kind of failure it is. Scaleway's answers are classified by the `type` in the body first and by the
/// HTTP status after that, because the same type comes with different statuses and `out_of_stock` hides behind
/// a 503 that looks like an outage.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The request is wrong and will stay wrong (`invalid_arguments`, `invalid_request_error`).
    #[component(name = "invalid-arguments")]
    InvalidArguments,
    /// The credentials are unknown, expired or malformed (`denied_authentication`).
    #[component(name = "authentication-denied")]
    AuthenticationDenied,
    /// The credentials are good but not for this (`permissions_denied`, `authorization_required`).
    #[component(name = "permission-denied")]
    PermissionDenied,
    /// The organization may not have more of these (`quotas_exceeded`).
    #[component(name = "quota-exceeded")]
    QuotaExceeded,
    /// There is no such resource (`not_found`, `unknown_resource`).
    #[component(name = "not-found")]
    NotFound,
    /// There was one, and it is gone (`expired`, `resource_expired`).
    #[component(name = "expired")]
    Expired,
    /// Something with this name or in this role exists (`already_exists`, `conflict`).
    #[component(name = "conflict")]
    Conflict,
    /// The resource is in a state that forbids this (`precondition_failed`).
    #[component(name = "precondition-failed")]
    PreconditionFailed,
    /// The resource is on its way from one state to another (`transient_state`).
    #[component(name = "transient-state")]
    TransientState,
    /// The resource is locked (`locked`).
    #[component(name = "locked")]
    Locked,
    /// Too many requests: HTTP 429 with an empty body.
    #[component(name = "rate-limited")]
    RateLimited,
    /// The type is not available in this zone now (`out_of_stock`).
    #[component(name = "out-of-stock")]
    OutOfStock,
    /// Scaleway failed inside (5xx without a more telling type).
    #[component(name = "server-error")]
    ServerError,
    /// A gateway before Scaleway failed or gave up waiting (502, 503, 504).
    #[component(name = "gateway")]
    Gateway,
    /// No answer within the deadline of the call.
    #[component(name = "timeout")]
    Timeout,
    /// The connection could not be made or was lost.
    #[component(name = "connection")]
    Connection,
    /// An answer came that cannot be understood.
    #[component(name = "malformed-answer")]
    MalformedAnswer,
    /// The operation's own deadline passed: a server that never became running, for example.
    #[component(name = "deadline-exceeded")]
    DeadlineExceeded,
    /// Somebody called the operation off.
    #[component(name = "cancelled")]
    Cancelled,
    /// The process that ran the operation died; its successor found the journal open.
    #[component(name = "interrupted")]
    Interrupted,
    /// A user's hook ended with a failure (provisioning only).
    #[component(name = "hook-failed")]
    HookFailed,
    /// A user's hook did not end in time (provisioning only).
    #[component(name = "hook-timed-out")]
    HookTimedOut,
    /// None of the above.
    #[component(name = "other")]
    Other,
}

/// One failure, as the host understood it. Carries no credentials and no request body.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Failure {
    pub class: FailureClass,
    /// Words for people: Scaleway's own message where there is one. At most 1 KiB.
    pub message: String,
    /// The HTTP method of the call, when one was made.
    pub method: Option<String>,
    /// The path of the call without its query, when one was made.
    pub path: Option<String>,
    /// The HTTP status, when an answer came.
    pub status: Option<u16>,
    /// The `type` of Scaleway's body, word for word, when there was one.
    #[component(name = "error-type")]
    pub error_type: Option<String>,
    /// The resource the answer speaks of, as Scaleway names it (`instance_server`), when it does.
    pub resource: Option<String>,
    /// True when the call may have taken effect although it failed: its answer was lost or is not to be believed.
    /// The host looks such an effect up by its tag before it repeats the call, whatever a policy says.
    pub ambiguous: bool,
}

/// The kinds of resources that an operation makes.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// An Instance server.
    #[component(name = "server")]
    Server,
    /// A flexible public IP address.
    #[component(name = "ip")]
    Ip,
    /// A volume of Block Storage (`sbs_volume`): outlives its server.
    #[component(name = "block-volume")]
    BlockVolume,
    /// A local volume (`l_ssd`, `scratch`): goes when its server is terminated, stays when it is deleted.
    #[component(name = "local-volume")]
    LocalVolume,
    /// A network interface in a private network: goes with its server.
    #[component(name = "private-nic")]
    PrivateNic,
    /// A Mac mini.
    #[component(name = "apple-silicon-server")]
    AppleSiliconServer,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Money {
    /// ISO 4217: `EUR`.
    pub currency: String,
    /// Millionths of the currency's unit.
    pub micros: u64,
}

/// The programs that ask.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    #[component(name = "command-line")]
    CommandLine,
    #[component(name = "runner-plugin")]
    RunnerPlugin,
    #[component(name = "controller")]
    Controller,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// Who wants it.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Requester {
    /// Somebody at the command line.
    #[component(name = "user")]
    User,
    /// GitLab Runner.
    #[component(name = "runner")]
    Runner,
    /// The runner plugin itself: the machine vanished, or its creation was cancelled.
    #[component(name = "plugin")]
    Plugin,
    /// A state-mapping policy.
    #[component(name = "policy")]
    Policy,
    /// A host that shuts down.
    #[component(name = "shutdown")]
    Shutdown,
    /// A sweep.
    #[component(name = "sweep")]
    Sweep,
    /// The clean-up of claimed hosts whose claimant is gone.
    #[component(name = "reclaim")]
    Reclaim,
    /// A Kubernetes object.
    #[component(name = "object")]
    Object,
    /// An operation on a cluster of servers.
    #[component(name = "cluster")]
    Cluster,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// A Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Object {
    /// `InstanceMachine`, `AppleSiliconMachine`, `ServerCluster`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A label or an annotation of a Kubernetes object, or a tag of a server: `team=build` has the name `team` and the
/// value `build`, and a tag without `=` is a name with an empty value.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Label {
    pub name: String,
    /// At most 256 bytes: a longer one is cut.
    pub value: String,
}

/// Whose machines a question is about, and who asks.
///
/// All of it is as the operator, the journal and Scaleway's tags say. A tenant can write labels, and choose the names
/// of groups, clusters and objects.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Subject {
    pub program: Program,
    /// The owner: the value of the tag that all resources of one installation carry.
    pub owner: String,
    /// The id of Scaleway's project. Absent where it is the default of the API key.
    pub project: Option<String>,
    /// The group of servers. Absent where it is not about servers of one group.
    pub group: Option<String>,
    /// The cluster of servers. Absent where it is about none.
    pub cluster: Option<String>,
    /// The Kubernetes object for which the machine was made or claimed. Absent where there is none.
    pub object: Option<Object>,
    /// What the operator lets through (`labels` in the configuration of policies), in the operator's order. At most
    /// 64.
    pub labels: Vec<Label>,
    /// Who asks for the operation. Absent where it was not recorded.
    pub requester: Option<Requester>,
    /// Why, for people. Absent where no reason was given.
    pub why: Option<String>,
}
