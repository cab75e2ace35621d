//! Between the contract's types and their messages, made of the contract in wit/ by `just bindings`.

use windlass_policy::slots::{placement, provisioning, release, retry, rollback, state_mapping, types};

use crate::wire::{enumeration, growing_enumeration, record, variant};

growing_enumeration!(types::FailureClass = FailureClass {
    InvalidArguments,
    AuthenticationDenied,
    PermissionDenied,
    QuotaExceeded,
    NotFound,
    Expired,
    Conflict,
    PreconditionFailed,
    TransientState,
    Locked,
    RateLimited,
    OutOfStock,
    ServerError,
    Gateway,
    Timeout,
    Connection,
    MalformedAnswer,
    DeadlineExceeded,
    Cancelled,
    Interrupted,
    HookFailed,
    HookTimedOut,
    Other,
});
record!(types::Failure = Failure {
    class: given,
    message: given,
    method: given,
    path: given,
    status: given,
    error_type: given,
    resource: given,
    ambiguous: given,
});
growing_enumeration!(types::ResourceKind = ResourceKind {
    Server,
    Ip,
    BlockVolume,
    LocalVolume,
    PrivateNic,
    AppleSiliconServer,
    Other,
});
record!(types::Money = Money {
    currency: given,
    micros: given,
});
growing_enumeration!(types::Program = Program {
    CommandLine,
    RunnerPlugin,
    Controller,
    Other,
});
growing_enumeration!(types::Requester = Requester {
    User,
    Runner,
    Plugin,
    Policy,
    Shutdown,
    Sweep,
    Reclaim,
    Object,
    Cluster,
    Other,
});
record!(types::Object = Object {
    kind: given,
    namespace: given,
    name: given,
});
record!(types::Label = Label {
    name: given,
    value: given,
});
record!(types::Subject = Subject {
    program: given,
    owner: given,
    project: given,
    group: given,
    cluster: given,
    object: given,
    labels: given,
    requester: given,
    why: given,
});
growing_enumeration!(state_mapping::ServerState = StateMappingServerState {
    Starting,
    Running,
    Stopping,
    Stopped,
    StoppedInPlace,
    Locked,
    Other,
});
growing_enumeration!(state_mapping::StateDetail = StateMappingStateDetail {
    None,
    AllocatingNode,
    ProvisioningNode,
    Starting,
    BootingKernel,
    Booted,
    Ready,
    Stopping,
    StoppingInPlace,
    StoppedInPlace,
    Terminating,
    Rebooting,
    Other,
});
growing_enumeration!(state_mapping::Operation = StateMappingOperation {
    None,
    Create,
    Cleanup,
    Suspend,
    Resume,
    Other,
});
record!(state_mapping::Server = StateMappingServer {
    state: given,
    detail: given,
    age: given,
    state_age: given,
    has_run: given,
    unused_for: given,
    in_flight: given,
    suspended: given,
    server_type: given,
    watched_tags: given,
});
record!(state_mapping::Question = StateMappingQuestion {
    now: given,
    zone: given,
    subject: required,
    server_types: given,
    watched_tags: given,
    servers: given,
});
enumeration!(state_mapping::Report = StateMappingReport {
    None,
    Creating,
    Running,
    Deleting,
    Deleted,
    Timeout,
    Suspending,
    Suspended,
    Resuming,
});
enumeration!(state_mapping::Action = StateMappingAction {
    None,
    Reap,
});
record!(state_mapping::Mapping = StateMappingMapping {
    report: given,
    action: given,
});
variant!(state_mapping::Verdict = StateMappingVerdict, state_mapping_verdict {
    Defer,
    Mapped(_),
});
record!(state_mapping::Answer = StateMappingAnswer {
    verdict: required,
    reason: given,
});
record!(retry::Question = RetryQuestion {
    now: given,
    random: given,
    operation: given,
    step: given,
    undoing: given,
    attempt: given,
    elapsed: given,
    time_left: given,
    failure: required,
    zone: given,
    subject: required,
    server_type: given,
});
variant!(retry::Verdict = RetryVerdict, retry_verdict {
    Defer,
    GiveUp,
    Wait(_),
});
record!(retry::Answer = RetryAnswer {
    verdict: required,
    reason: given,
});
growing_enumeration!(rollback::Evidence = RollbackEvidence {
    Journal,
    TagSearch,
    Attachment,
    Other,
});
record!(rollback::Resource = RollbackResource {
    kind: given,
    id: given,
    name: given,
    state: given,
    attached_to: given,
    owned: given,
    evidence: given,
});
record!(rollback::Question = RollbackQuestion {
    now: given,
    random: given,
    operation: given,
    subject: required,
    cause: given,
    failed_step: given,
    resources: given,
});
enumeration!(rollback::Action = RollbackAction {
    Delete,
    Detach,
    PowerOff,
    Keep,
});
record!(rollback::Step = RollbackStep {
    resource: given,
    action: given,
    after: given,
});
variant!(rollback::Verdict = RollbackVerdict, rollback_verdict {
    Defer,
    Plan[RollbackVerdictPlan],
});
record!(rollback::Answer = RollbackAnswer {
    verdict: required,
    reason: given,
});
growing_enumeration!(release::MachineKind = ReleaseMachineKind {
    Instance,
    AppleSiliconServer,
    Other,
});
growing_enumeration!(release::Trigger = ReleaseTrigger {
    Released,
    BootstrapFailed,
    Reclaim,
    Other,
});
growing_enumeration!(release::Requested = ReleaseRequested {
    ReturnToPool,
    Terminate,
    Keep,
    Other,
});
record!(release::Activity = ReleaseActivity {
    last_used: given,
    connections: given,
    node_ready: given,
    node_ready_since: given,
});
record!(release::Machine = ReleaseMachine {
    kind: given,
    id: given,
    name: given,
    zone: given,
    machine_type: given,
    status: given,
    operating_system: given,
    pool_prefix: given,
    adopted: given,
    created_at: given,
    deletable_at: given,
    deletion_scheduled: given,
    bootstrap_failures: given,
    rebooted: given,
    price_per_hour: given,
    activity: required,
});
growing_enumeration!(release::Action = ReleaseAction {
    ReturnToPool,
    Terminate,
    ScheduleDeletion,
    Reboot,
    Other,
});
record!(release::Refusal = ReleaseRefusal {
    action: given,
    failure: required,
    not_before: given,
});
record!(release::Question = ReleaseQuestion {
    now: given,
    random: given,
    trigger: given,
    subject: required,
    machine: required,
    requested: given,
    refusal: given,
    attempt: given,
});
record!(release::PoolReturn = ReleasePoolReturn {
    operating_system: given,
});
variant!(release::Verdict = ReleaseVerdict, release_verdict {
    Defer,
    ReturnToPool(_),
    Terminate,
    ScheduleDeletion,
    Keep,
    RetryAfter(_),
    Reboot,
});
record!(release::Answer = ReleaseAnswer {
    verdict: required,
    reason: given,
});
growing_enumeration!(provisioning::Operation = ProvisioningOperation {
    Create,
    Scale,
    Terminate,
    Other,
});
growing_enumeration!(provisioning::Stage = ProvisioningStage {
    Validate,
    Servers,
    Wait,
    Prepare,
    Decommission,
    Resize,
    Configure,
    Start,
    Other,
});
growing_enumeration!(provisioning::NodeRole = ProvisioningNodeRole {
    Staying,
    Leaving,
    Made,
    Other,
});
record!(provisioning::Node = ProvisioningNode {
    name: given,
    group: given,
    role: given,
    exists: given,
    decommissioned: given,
    configured: given,
});
record!(provisioning::Group = ProvisioningGroup {
    name: given,
    before: given,
    wanted: given,
});
record!(provisioning::Question = ProvisioningQuestion {
    now: given,
    random: given,
    subject: required,
    operation: given,
    stage: given,
    cause: required,
    groups: given,
    nodes: given,
});
enumeration!(provisioning::ClusterState = ProvisioningClusterState {
    Active,
    Error,
});
record!(provisioning::Recovery = ProvisioningRecovery {
    state: given,
    delete: given,
});
variant!(provisioning::Verdict = ProvisioningVerdict, provisioning_verdict {
    Defer,
    Recover(_),
});
record!(provisioning::Answer = ProvisioningAnswer {
    verdict: required,
    reason: given,
});
record!(placement::Place = PlacementPlace {
    zone: given,
    server_type: given,
    servers: given,
    creating: given,
    failures: given,
    last_failure: given,
    failed_at: given,
    backoff_until: given,
    price_per_hour: given,
});
record!(placement::Question = PlacementQuestion {
    now: given,
    random: given,
    operation: given,
    subject: required,
    wanted: given,
    places: given,
});
record!(placement::Assignment = PlacementAssignment {
    count: given,
    places: given,
});
variant!(placement::Verdict = PlacementVerdict, placement_verdict {
    Defer,
    Place[PlacementVerdictPlace],
});
record!(placement::Answer = PlacementAnswer {
    verdict: required,
    reason: given,
});
