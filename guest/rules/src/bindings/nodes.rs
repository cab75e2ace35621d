//! How rules find the values of a question, made of the contract in wit/ by `just bindings`.

use windlass_guest_sdk::{placement, provisioning, release, retry, rollback, state_mapping, types};

use crate::contract::{cases, record};

cases!(types::Program, PROGRAM);
record!(types::Object, OBJECT, {
    kind,
    namespace,
    name,
});
record!(types::Label, LABEL, {
    name,
    value,
});
cases!(types::Requester, REQUESTER);
record!(types::Subject, SUBJECT, {
    program,
    owner,
    project,
    group,
    cluster,
    object,
    labels,
    requester,
    why,
});
cases!(state_mapping::ServerState, STATE_MAPPING_SERVER_STATE);
cases!(state_mapping::StateDetail, STATE_MAPPING_STATE_DETAIL);
cases!(state_mapping::Operation, STATE_MAPPING_OPERATION);
record!(state_mapping::Server, STATE_MAPPING_SERVER, {
    state,
    detail,
    age,
    state_age,
    has_run,
    unused_for,
    in_flight,
    suspended,
    server_type,
    watched_tags,
});
record!(state_mapping::Question, STATE_MAPPING_QUESTION, {
    now,
    zone,
    subject,
    server_types,
    watched_tags,
    servers,
});
cases!(types::FailureClass, FAILURE_CLASS);
record!(types::Failure, FAILURE, {
    class,
    message,
    method,
    path,
    status,
    error_type,
    resource,
    ambiguous,
});
record!(retry::Question, RETRY_QUESTION, {
    now,
    random,
    operation,
    step,
    undoing,
    attempt,
    elapsed,
    time_left,
    failure,
    zone,
    subject,
    server_type,
});
cases!(types::ResourceKind, RESOURCE_KIND);
cases!(rollback::Evidence, ROLLBACK_EVIDENCE);
record!(rollback::Resource, ROLLBACK_RESOURCE, {
    kind,
    id,
    name,
    state,
    attached_to,
    owned,
    evidence,
});
record!(rollback::Question, ROLLBACK_QUESTION, {
    now,
    random,
    operation,
    subject,
    cause,
    failed_step,
    resources,
});
cases!(release::Trigger, RELEASE_TRIGGER);
cases!(release::MachineKind, RELEASE_MACHINE_KIND);
record!(types::Money, MONEY, {
    currency,
    micros,
});
record!(release::Activity, RELEASE_ACTIVITY, {
    last_used,
    connections,
    node_ready,
    node_ready_since,
});
record!(release::Machine, RELEASE_MACHINE, {
    kind,
    id,
    name,
    zone,
    machine_type,
    status,
    operating_system,
    pool_prefix,
    adopted,
    created_at,
    deletable_at,
    deletion_scheduled,
    bootstrap_failures,
    rebooted,
    price_per_hour,
    activity,
});
cases!(release::Requested, RELEASE_REQUESTED);
cases!(release::Action, RELEASE_ACTION);
record!(release::Refusal, RELEASE_REFUSAL, {
    action,
    failure,
    not_before,
});
record!(release::Question, RELEASE_QUESTION, {
    now,
    random,
    trigger,
    subject,
    machine,
    requested,
    refusal,
    attempt,
});
cases!(provisioning::Operation, PROVISIONING_OPERATION);
cases!(provisioning::Stage, PROVISIONING_STAGE);
record!(provisioning::Group, PROVISIONING_GROUP, {
    name,
    before,
    wanted,
});
cases!(provisioning::NodeRole, PROVISIONING_NODE_ROLE);
record!(provisioning::Node, PROVISIONING_NODE, {
    name,
    group,
    role,
    exists,
    decommissioned,
    configured,
});
record!(provisioning::Question, PROVISIONING_QUESTION, {
    now,
    random,
    subject,
    operation,
    stage,
    cause,
    groups,
    nodes,
});
record!(placement::Place, PLACEMENT_PLACE, {
    zone,
    server_type,
    servers,
    creating,
    failures,
    last_failure,
    failed_at,
    backoff_until,
    price_per_hour,
});
record!(placement::Question, PLACEMENT_QUESTION, {
    now,
    random,
    operation,
    subject,
    wanted,
    places,
});
