//! Questions with sensible contents, to be changed with `..`: `Question { attempt: 3, ..retry_question(class) }`.

use crate::types::{Failure, FailureClass, Program, Requester, ResourceKind, Subject, Timestamp};
use crate::{placement, provisioning, release, retry, rollback, state_mapping};

/// The instant of all these questions: 2026-01-01T00:00:00Z.
pub const NOW: Timestamp = 1_767_225_600_000;

/// A failure of that class. No call of Scaleway's: fill in what matters.
#[must_use]
pub fn failure(class: FailureClass) -> Failure {
    Failure {
        class,
        message: format!("a failure of class {class}"),
        method: None,
        path: None,
        status: None,
        error_type: None,
        resource: None,
        ambiguous: false,
    }
}

/// Servers of the group `runners` of a runner plugin; nobody is known to ask.
#[must_use]
pub fn subject() -> Subject {
    Subject {
        program: Program::RunnerPlugin,
        owner: "windlass".into(),
        project: None,
        group: Some("runners".into()),
        cluster: None,
        object: None,
        labels: Vec::new(),
        requester: None,
        why: None,
    }
}

/// The first attempt to create a DEV1-S in fr-par-1 has just failed.
#[must_use]
pub fn retry_question(class: FailureClass) -> retry::Question {
    retry::Question {
        now: NOW,
        random: 0x9e37_79b9_7f4a_7c15,
        operation: "create-server".into(),
        step: "create-server".into(),
        undoing: false,
        attempt: 1,
        elapsed: 0,
        time_left: Some(600_000),
        failure: failure(class),
        zone: "fr-par-1".into(),
        subject: subject(),
        server_type: Some("DEV1-S".into()),
    }
}

/// A server that was made an hour ago and has run, with nothing in flight: the first type of its listing, no watched
/// tag.
#[must_use]
pub const fn server(state: state_mapping::ServerState) -> state_mapping::Server {
    state_mapping::Server {
        state,
        detail: state_mapping::StateDetail::None,
        age: 3_600_000,
        state_age: 60_000,
        has_run: true,
        unused_for: None,
        in_flight: state_mapping::Operation::None,
        suspended: false,
        server_type: 0,
        watched_tags: 0,
    }
}

/// A listing of these servers, all of one type; no tag is watched.
#[must_use]
pub fn state_mapping_question(servers: impl Into<Vec<state_mapping::Server>>) -> state_mapping::Question {
    state_mapping::Question {
        now: NOW,
        zone: "fr-par-1".into(),
        subject: subject(),
        server_types: vec!["DEV1-S".into()],
        watched_tags: Vec::new(),
        servers: servers.into(),
    }
}

/// A resource of ours that the journal knows, attached to nothing.
#[must_use]
pub fn resource(kind: ResourceKind, id: &str) -> rollback::Resource {
    rollback::Resource {
        kind,
        id: id.into(),
        name: format!("windlass-{id}"),
        state: None,
        attached_to: None,
        owned: true,
        evidence: rollback::Evidence::Journal,
    }
}

/// The power-on of a new server answered 500, and these resources exist.
#[must_use]
pub fn rollback_question(resources: impl Into<Vec<rollback::Resource>>) -> rollback::Question {
    rollback::Question {
        now: NOW,
        random: 0x9e37_79b9_7f4a_7c15,
        operation: "create-server".into(),
        subject: subject(),
        cause: Some(failure(FailureClass::ServerError)),
        failed_step: Some("power-on".into()),
        resources: resources.into(),
    }
}

/// A running instance, or a Mac mini of a pool that can be deleted.
#[must_use]
pub fn machine(kind: release::MachineKind) -> release::Machine {
    let apple = kind == release::MachineKind::AppleSiliconServer;
    release::Machine {
        kind,
        id: "8a6e3f8e-0000-4000-8000-000000000001".into(),
        name: if apple { "fleet-7f3a" } else { "runner-7f3a" }.into(),
        zone: if apple { "fr-par-3" } else { "fr-par-1" }.into(),
        machine_type: if apple { "M4-S" } else { "DEV1-S" }.into(),
        status: if apple { "ready" } else { "running" }.into(),
        operating_system: apple.then(|| "macos-tahoe-26.0".into()),
        pool_prefix: apple.then(|| "pool-".into()),
        adopted: apple,
        created_at: NOW - 48 * 3_600_000,
        deletable_at: apple.then_some(NOW - 24 * 3_600_000),
        deletion_scheduled: false,
        bootstrap_failures: 0,
        rebooted: false,
        price_per_hour: None,
        activity: release::Activity { last_used: None, connections: None, node_ready: None, node_ready_since: None },
    }
}

/// The owner of that machine has released it and asked for nothing special; asked for the first time.
#[must_use]
pub fn release_question(machine: release::Machine) -> release::Question {
    release::Question {
        now: NOW,
        random: 0x9e37_79b9_7f4a_7c15,
        trigger: release::Trigger::Released,
        subject: Subject { requester: Some(Requester::Runner), ..subject() },
        machine,
        requested: None,
        refusal: None,
        attempt: 1,
    }
}

/// The creation of a cluster without nodes has failed at the stage `servers`.
#[must_use]
pub fn provisioning_question(class: FailureClass) -> provisioning::Question {
    provisioning::Question {
        now: NOW,
        random: 0x9e37_79b9_7f4a_7c15,
        subject: Subject { group: None, cluster: Some("batch".into()), ..subject() },
        operation: provisioning::Operation::Create,
        stage: provisioning::Stage::Servers,
        cause: failure(class),
        groups: Vec::new(),
        nodes: Vec::new(),
    }
}

/// A server type in a zone in which the group has no server and nothing has failed; its price is not known.
#[must_use]
pub fn place(zone: &str, server_type: &str) -> placement::Place {
    placement::Place {
        zone: zone.into(),
        server_type: server_type.into(),
        servers: 0,
        creating: 0,
        failures: 0,
        last_failure: None,
        failed_at: None,
        backoff_until: None,
        price_per_hour: None,
    }
}

/// So many servers are wanted, and can be created in these places.
#[must_use]
pub fn placement_question(wanted: u32, places: impl Into<Vec<placement::Place>>) -> placement::Question {
    placement::Question {
        now: NOW,
        random: 0x9e37_79b9_7f4a_7c15,
        operation: "create-server".into(),
        subject: subject(),
        wanted,
        places: places.into(),
    }
}
