//! The kinds of the group `infrastructure.windlass.dev`, as Rust types from which the definitions are generated.
//!
//! Field names are those of Cluster API's contracts (both versions' fields are there) and, for what a machine is to be,
//! Scaleway's.

mod apple_silicon_machine;
mod common;
mod external_cluster;
mod instance_machine;
mod policy;
mod remediation;
mod rules;
mod server_cluster;

pub use apple_silicon_machine::{
    AppleSiliconMachine, AppleSiliconMachineResource, AppleSiliconMachineSpec, AppleSiliconMachineTemplate,
    AppleSiliconMachineTemplateSpec, LocalReference, Order, Setup, Teardown,
};
pub(crate) use common::REPLACEMENT_DUE;
pub use common::{
    BootstrapStatus, Condition, ConditionStatus, CredentialsReference, Initialization, MachineAddress, MachineStatus,
    OperationStatus, Phase, PolicyInUse, RemediationStatus, ResourceInUse, SetupState, SetupStatus, TemplateMetadata,
    TemplateNodeInfo, TemplateStatus,
};
pub use external_cluster::{
    ClusterInitialization, ControlPlaneEndpoint, ExternalCluster, ExternalClusterResource, ExternalClusterSpec,
    ExternalClusterStatus, ExternalClusterTemplate, ExternalClusterTemplateSpec, FailureDomain,
};
pub use instance_machine::{
    Bootstrap, InstanceMachine, InstanceMachineResource, InstanceMachineSpec, InstanceMachineTemplate,
    InstanceMachineTemplateSpec, PublicIp, Volume, VolumeType,
};
pub use policy::{
    ClusterPolicy, ClusterPolicySpec, ConfigMapKey, Policy, PolicyAudit, PolicyDifference, PolicyFailures,
    PolicyInForce, PolicyMode, PolicyOnFailure, PolicyPosition, PolicySlot, PolicySource, PolicySpec, PolicyStatus,
};
pub use remediation::{
    MachineRemediation, MachineRemediationResource, MachineRemediationSpec, MachineRemediationStatus,
    MachineRemediationTemplate, MachineRemediationTemplateSpec,
};
pub use server_cluster::{
    AttemptStatus, CloudInitSource, ClusterOperationStatus, CountsStatus, EventStatus, GroupStatus, JobHook,
    NodeStatus, PastOperation, RecordStatus, ServerCluster, ServerClusterGroup, ServerClusterHook, ServerClusterHooks,
    ServerClusterSpec, ServerClusterStatus, SignedWebhook, StepStatus,
};

/// The group of all kinds.
pub const GROUP: &str = "infrastructure.windlass.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// Set by people or by whoever bootstraps a machine; read by the controller.
pub mod annotations {
    /// What the owner requests to become of a machine that is deleted: `pool`, `terminate` or `keep`. An input of the
    /// release slot: a policy may refuse it.
    pub const RELEASE_POLICY: &str = "windlass.dev/release-policy";
    /// The same under the name that another controller of Mac minis used. [`RELEASE_POLICY`] wins where both are there.
    pub const TUIST_RELEASE_POLICY: &str = "tuist.dev/release-policy";
    /// How often whoever bootstraps the machine has failed since the machine was handed over: a number that only grows.
    /// Each growth asks the release slot (trigger `bootstrap-failed`).
    pub const BOOTSTRAP_FAILURES: &str = "windlass.dev/bootstrap-failures";
    /// Set by the controller before anything is called: the name that claims a host of the pool. It survives a move
    /// between clusters.
    pub const CLAIM: &str = "windlass.dev/claim";
    /// Set by the controller before anything is called: the operation that creates the instance, also the value of its
    /// operation tag.
    pub const OPERATION: &str = "windlass.dev/operation";
    /// Set by the controller: whether the host was taken from the `pool` or `ordered`. An input of the release slot.
    pub const ORIGIN: &str = "windlass.dev/origin";
    /// On a cluster of servers: the number of the operation under way that is to be called off.
    pub const CANCEL: &str = "windlass.dev/cancel";
    /// Set by the controller: the host that was set up by `spec.setup`, which is not set up again after a move between
    /// clusters.
    pub const SET_UP: &str = "windlass.dev/set-up";
    /// On a cluster of servers: a new value lets what failed be begun anew. On a Mac: a new value has it set up again.
    pub const RETRY: &str = "windlass.dev/retry";
    /// On a cluster of servers that is deleted: `true` lets its nodes go without the decommission hook.
    pub const FORCE: &str = "windlass.dev/force";
    /// On an object that is deleted: its machine, or the nodes of its cluster, are left alone and go on costing money. No
    /// policy is asked, and Scaleway is called only to look. The value says why.
    pub const ABANDON: &str = "windlass.dev/abandon";
    /// Cluster API's, on the infrastructure of a Cluster: somebody else looks after it, so nothing is done.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// Cluster API's: any value pauses the object, deletion included.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// `clusterctl move` sets it, in the place of all other annotations, on an object that it has moved and deletes now.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
}

/// Cluster API's.
pub mod labels {
    /// The cluster that an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Which of several controllers works on the object: the one whose `--watch-filter` is the value.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// `clusterctl move` takes along what has it, also where no Cluster owns it.
    pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
}

/// Held while something at Scaleway belongs to the object.
pub const FINALIZER: &str = "infrastructure.windlass.dev/machine";

/// Types of the conditions.
pub mod conditions {
    /// The summary, mirrored by Cluster API into the Machine's `InfrastructureReady`.
    pub const READY: &str = "Ready";
    /// Of an external cluster: its control plane, which Cluster API cannot look at, is held to be available.
    pub const AVAILABLE: &str = "Available";
    /// Whether a host or a server is there for this object.
    pub const PROVISIONED: &str = "Provisioned";
    /// Whether nothing is done because of a pause.
    pub const PAUSED: &str = "Paused";
    /// Whether a Mac is set up: by `spec.setup`, or set by whoever else bootstraps it.
    pub const BOOTSTRAPPED: &str = "Bootstrapped";
    /// Of a cluster of servers: whether an operation is under way.
    pub const PROGRESSING: &str = "Progressing";
    /// Whether an object is being deleted, and what that waits for.
    pub const DELETING: &str = "Deleting";
    /// How the release of a deleted object goes.
    pub const RELEASED: &str = "Released";
    /// Of a remediation: whether the release policy's verdict on an unhealthy machine is carried out.
    pub const JUDGED: &str = "Judged";
    /// Of a template: whether what a machine of it has is known from Scaleway's catalogue.
    pub const CAPACITY_KNOWN: &str = "CapacityKnown";
    /// Of a policy: whether what is there now is in force.
    pub const LOADED: &str = "Loaded";
    /// Those that the controller always sets; [`BOOTSTRAPPED`] as well where it sets a Mac up.
    pub(crate) const OURS: [&str; 10] =
        [READY, AVAILABLE, PROVISIONED, PAUSED, PROGRESSING, DELETING, RELEASED, JUDGED, CAPACITY_KNOWN, LOADED];
}
