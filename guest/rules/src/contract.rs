//! The contract as rules see it: which fields a question has, what they are, and how to get at each in the SDK's types.
//! A test holds the tables equal to the WIT.
//!
//! Two things differ, since a position says nothing to a rule about one server: `server.server_type` is the type's
//! name, and `server.watched_tags` the tags themselves.

use windlass_guest_sdk::types::Failure;
use windlass_guest_sdk::{placement, provisioning, release, retry, rollback, state_mapping};

use Shape::{Bool, Cases, List, Number, Optional, Text};

/// What a field is.
#[derive(Debug)]
pub(crate) enum Shape {
    Bool,
    Number,
    Text,
    /// One of these words.
    Cases(&'static [&'static str]),
    /// Null where it is absent.
    Optional(&'static Shape),
    List(&'static Shape),
    Record(&'static Record),
}

/// The fields of a record, by the contract's names, with dashes.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) fields: &'static [(&'static str, Shape)],
}

/// A value of the question, not yet one of CEL's.
pub(crate) enum Item<'q> {
    Null,
    Bool(bool),
    Number(u64),
    Text(&'q str),
    Record(&'q dyn Node),
    List(Vec<Item<'q>>),
}

/// A record of the question.
pub(crate) trait Node: Send + Sync {
    /// Its fields.
    fn record(&self) -> &'static Record;

    /// The field at this position of [`Record::fields`].
    fn field(&self, position: usize) -> Item<'_>;
}

/// A record's table, and the same fields' values in the order of the table.
macro_rules! record {
    ($name:ident, $type:ty, |$this:ident| { $($field:literal: $shape:expr => $value:expr,)+ }) => {
        pub(crate) static $name: Record = Record { fields: &[$(($field, $shape)),+] };

        impl Node for $type {
            fn record(&self) -> &'static Record {
                &$name
            }

            fn field(&self, position: usize) -> Item<'_> {
                const VALUES: &[fn(&$type) -> Item<'_>] = &[$(|$this| $value),+];
                VALUES.get(position).map_or(Item::Null, |value| value(self))
            }
        }
    };
}

fn number(number: impl Into<u64>) -> Item<'static> {
    Item::Number(number.into())
}

/// CEL's whole numbers have a sign: a random word gives its lower 63 bits.
const fn random(word: u64) -> Item<'static> {
    Item::Number(word & (u64::MAX >> 1))
}

fn optional<'q, T>(value: Option<T>, item: impl FnOnce(T) -> Item<'q>) -> Item<'q> {
    value.map_or(Item::Null, item)
}

fn text(text: &Option<String>) -> Item<'_> {
    optional(text.as_deref(), Item::Text)
}

fn texts(texts: &[String]) -> Item<'_> {
    Item::List(texts.iter().map(|text| Item::Text(text)).collect())
}

fn records<N: Node>(records: &[N]) -> Item<'_> {
    Item::List(records.iter().map(|record| Item::Record(record)).collect())
}

static FAILURE_CLASS: &[&str] = &[
    "invalid-arguments",
    "authentication-denied",
    "permission-denied",
    "quota-exceeded",
    "not-found",
    "expired",
    "conflict",
    "precondition-failed",
    "transient-state",
    "locked",
    "rate-limited",
    "out-of-stock",
    "server-error",
    "gateway",
    "timeout",
    "connection",
    "malformed-answer",
    "deadline-exceeded",
    "cancelled",
    "interrupted",
    "hook-failed",
    "hook-timed-out",
    "other",
];

static RESOURCE_KIND: &[&str] =
    &["server", "ip", "block-volume", "local-volume", "private-nic", "apple-silicon-server", "other"];

record!(FAILURE, Failure, |it| {
    "class": Cases(FAILURE_CLASS) => Item::Text(FAILURE_CLASS[it.class as usize]),
    "message": Text => Item::Text(&it.message),
    "method": Optional(&Text) => text(&it.method),
    "path": Optional(&Text) => text(&it.path),
    "status": Optional(&Number) => optional(it.status, number),
    "error-type": Optional(&Text) => text(&it.error_type),
    "resource": Optional(&Text) => text(&it.resource),
    "ambiguous": Bool => Item::Bool(it.ambiguous),
});

record!(RETRY, retry::Question, |it| {
    "now": Number => number(it.now),
    "random": Number => random(it.random),
    "operation": Text => Item::Text(&it.operation),
    "step": Text => Item::Text(&it.step),
    "undoing": Bool => Item::Bool(it.undoing),
    "attempt": Number => number(it.attempt),
    "elapsed": Number => number(it.elapsed),
    "time-left": Optional(&Number) => optional(it.time_left, number),
    "failure": Shape::Record(&FAILURE) => Item::Record(&it.failure),
    "zone": Text => Item::Text(&it.zone),
    "group": Optional(&Text) => text(&it.group),
    "server-type": Optional(&Text) => text(&it.server_type),
});

static SERVER_STATE: &[&str] = &["starting", "running", "stopping", "stopped", "stopped-in-place", "locked", "other"];

static STATE_DETAIL: &[&str] = &[
    "none",
    "allocating-node",
    "provisioning-node",
    "starting",
    "booting-kernel",
    "booted",
    "ready",
    "stopping",
    "stopping-in-place",
    "stopped-in-place",
    "terminating",
    "rebooting",
    "other",
];

static SERVER_OPERATION: &[&str] = &["none", "create", "cleanup", "suspend", "resume", "other"];

// The listing without its servers: a rule is about one of them.
record!(LISTING, state_mapping::Question, |it| {
    "now": Number => number(it.now),
    "zone": Text => Item::Text(&it.zone),
    "group": Optional(&Text) => text(&it.group),
    "server-types": List(&Text) => texts(&it.server_types),
    "watched-tags": List(&Text) => texts(&it.watched_tags),
});

/// A server of a listing.
pub(crate) struct ListedServer<'q> {
    pub(crate) server: &'q state_mapping::Server,
    pub(crate) listing: &'q state_mapping::Question,
}

pub(crate) static SERVER: Record = Record {
    fields: &[
        ("state", Cases(SERVER_STATE)),
        ("detail", Cases(STATE_DETAIL)),
        ("age", Number),
        ("state-age", Number),
        ("has-run", Bool),
        ("in-flight", Cases(SERVER_OPERATION)),
        ("suspended", Bool),
        ("server-type", Text),
        ("watched-tags", List(&Text)),
    ],
};

impl Node for ListedServer<'_> {
    fn record(&self) -> &'static Record {
        &SERVER
    }

    fn field(&self, position: usize) -> Item<'_> {
        let Self { server, listing } = self;
        match SERVER.fields[position].0 {
            "state" => Item::Text(SERVER_STATE[server.state as usize]),
            "detail" => Item::Text(STATE_DETAIL[server.detail as usize]),
            "age" => number(server.age),
            "state-age" => number(server.state_age),
            "has-run" => Item::Bool(server.has_run),
            "in-flight" => Item::Text(SERVER_OPERATION[server.in_flight as usize]),
            "suspended" => Item::Bool(server.suspended),
            "server-type" => Item::Text(listing.type_of(server).unwrap_or_default()),
            "watched-tags" => {
                let carried = (0..u64::BITS).zip(&listing.watched_tags);
                let carried = carried.filter(|(bit, _)| (server.watched_tags >> bit) & 1 == 1);
                Item::List(carried.map(|(_, tag)| Item::Text(tag)).collect())
            }
            _ => Item::Null,
        }
    }
}

static EVIDENCE: &[&str] = &["journal", "tag-search", "attachment", "other"];

record!(RESOURCE, rollback::Resource, |it| {
    "kind": Cases(RESOURCE_KIND) => Item::Text(RESOURCE_KIND[it.kind as usize]),
    "id": Text => Item::Text(&it.id),
    "name": Text => Item::Text(&it.name),
    "state": Optional(&Text) => text(&it.state),
    "attached-to": Optional(&Number) => optional(it.attached_to, number),
    "owned": Bool => Item::Bool(it.owned),
    "evidence": Cases(EVIDENCE) => Item::Text(EVIDENCE[it.evidence as usize]),
});

record!(ROLLBACK, rollback::Question, |it| {
    "now": Number => number(it.now),
    "random": Number => random(it.random),
    "operation": Text => Item::Text(&it.operation),
    "group": Text => Item::Text(&it.group),
    "cause": Optional(&Shape::Record(&FAILURE)) => optional(it.cause.as_ref(), |cause| Item::Record(cause)),
    "failed-step": Optional(&Text) => text(&it.failed_step),
    "resources": List(&Shape::Record(&RESOURCE)) => records(&it.resources),
});

static MACHINE_KIND: &[&str] = &["instance", "apple-silicon-server", "other"];
static TRIGGER: &[&str] = &["released", "bootstrap-failed", "reclaim", "other"];
static REQUESTED: &[&str] = &["return-to-pool", "terminate", "keep", "other"];
static RELEASE_ACTION: &[&str] = &["return-to-pool", "terminate", "schedule-deletion", "reboot", "other"];

record!(MACHINE, release::Machine, |it| {
    "kind": Cases(MACHINE_KIND) => Item::Text(MACHINE_KIND[it.kind as usize]),
    "id": Text => Item::Text(&it.id),
    "name": Text => Item::Text(&it.name),
    "zone": Text => Item::Text(&it.zone),
    "machine-type": Text => Item::Text(&it.machine_type),
    "status": Text => Item::Text(&it.status),
    "operating-system": Optional(&Text) => text(&it.operating_system),
    "pool-prefix": Optional(&Text) => text(&it.pool_prefix),
    "adopted": Bool => Item::Bool(it.adopted),
    "created-at": Number => number(it.created_at),
    "deletable-at": Optional(&Number) => optional(it.deletable_at, number),
    "deletion-scheduled": Bool => Item::Bool(it.deletion_scheduled),
    "bootstrap-failures": Number => number(it.bootstrap_failures),
    "rebooted": Bool => Item::Bool(it.rebooted),
});

record!(REFUSAL, release::Refusal, |it| {
    "action": Cases(RELEASE_ACTION) => Item::Text(RELEASE_ACTION[it.action as usize]),
    "failure": Shape::Record(&FAILURE) => Item::Record(&it.failure),
    "not-before": Optional(&Number) => optional(it.not_before, number),
});

record!(RELEASE, release::Question, |it| {
    "now": Number => number(it.now),
    "random": Number => random(it.random),
    "trigger": Cases(TRIGGER) => Item::Text(TRIGGER[it.trigger as usize]),
    "machine": Shape::Record(&MACHINE) => Item::Record(&it.machine),
    "requested": Optional(&Cases(REQUESTED)) =>
        optional(it.requested, |requested| Item::Text(REQUESTED[requested as usize])),
    "refusal": Optional(&Shape::Record(&REFUSAL)) => optional(it.refusal.as_ref(), |refusal| Item::Record(refusal)),
    "attempt": Number => number(it.attempt),
});

static CLUSTER_OPERATION: &[&str] = &["create", "scale", "terminate", "other"];
static STAGE: &[&str] =
    &["validate", "servers", "wait", "prepare", "decommission", "resize", "configure", "start", "other"];
static NODE_ROLE: &[&str] = &["staying", "leaving", "made", "other"];

record!(NODE, provisioning::Node, |it| {
    "name": Text => Item::Text(&it.name),
    "group": Text => Item::Text(&it.group),
    "role": Cases(NODE_ROLE) => Item::Text(NODE_ROLE[it.role as usize]),
    "exists": Bool => Item::Bool(it.exists),
    "decommissioned": Bool => Item::Bool(it.decommissioned),
    "configured": Bool => Item::Bool(it.configured),
});

record!(GROUP, provisioning::Group, |it| {
    "name": Text => Item::Text(&it.name),
    "before": Number => number(it.before),
    "wanted": Number => number(it.wanted),
});

record!(PROVISIONING, provisioning::Question, |it| {
    "now": Number => number(it.now),
    "random": Number => random(it.random),
    "cluster": Text => Item::Text(&it.cluster),
    "operation": Cases(CLUSTER_OPERATION) => Item::Text(CLUSTER_OPERATION[it.operation as usize]),
    "stage": Cases(STAGE) => Item::Text(STAGE[it.stage as usize]),
    "cause": Shape::Record(&FAILURE) => Item::Record(&it.cause),
    "groups": List(&Shape::Record(&GROUP)) => records(&it.groups),
    "nodes": List(&Shape::Record(&NODE)) => records(&it.nodes),
});

record!(MONEY, placement::Money, |it| {
    "currency": Text => Item::Text(&it.currency),
    "micros": Number => number(it.micros),
});

record!(PLACE, placement::Place, |it| {
    "zone": Text => Item::Text(&it.zone),
    "server-type": Text => Item::Text(&it.server_type),
    "servers": Number => number(it.servers),
    "creating": Number => number(it.creating),
    "failures": Number => number(it.failures),
    "last-failure": Optional(&Shape::Record(&FAILURE)) =>
        optional(it.last_failure.as_ref(), |failure| Item::Record(failure)),
    "failed-at": Optional(&Number) => optional(it.failed_at, number),
    "backoff-until": Optional(&Number) => optional(it.backoff_until, number),
    "price-per-hour": Optional(&Shape::Record(&MONEY)) =>
        optional(it.price_per_hour.as_ref(), |price| Item::Record(price)),
});

record!(PLACEMENT, placement::Question, |it| {
    "now": Number => number(it.now),
    "random": Number => random(it.random),
    "operation": Text => Item::Text(&it.operation),
    "group": Optional(&Text) => text(&it.group),
    "wanted": Number => number(it.wanted),
    "places": List(&Shape::Record(&PLACE)) => records(&it.places),
});

/// A slot's question as its rules see it.
pub(crate) struct Scope {
    pub(crate) question: &'static Record,
    /// The variable beside the question's fields, where a rule is about one item of it.
    pub(crate) item: Option<(&'static str, &'static Record)>,
}

pub(crate) static RETRY_SCOPE: Scope = Scope { question: &RETRY, item: None };
pub(crate) static STATE_MAPPING_SCOPE: Scope = Scope { question: &LISTING, item: Some(("server", &SERVER)) };
pub(crate) static ROLLBACK_SCOPE: Scope = Scope { question: &ROLLBACK, item: Some(("resource", &RESOURCE)) };
pub(crate) static RELEASE_SCOPE: Scope = Scope { question: &RELEASE, item: None };
pub(crate) static PROVISIONING_SCOPE: Scope = Scope { question: &PROVISIONING, item: None };
pub(crate) static PLACEMENT_SCOPE: Scope = Scope { question: &PLACEMENT, item: Some(("place", &PLACE)) };
/// Of the condition in an answer that chooses nodes.
pub(crate) static NODE_SCOPE: Scope = Scope { question: &PROVISIONING, item: Some(("node", &NODE)) };

/// The cases of each slot's verdict.
pub(crate) static RETRY_VERDICTS: &[&str] = &["defer", "give-up", "wait"];
pub(crate) static STATE_MAPPING_VERDICTS: &[&str] = &["defer", "mapped"];
pub(crate) static RELEASE_VERDICTS: &[&str] =
    &["defer", "return-to-pool", "terminate", "schedule-deletion", "keep", "retry-after", "reboot"];
pub(crate) static PROVISIONING_VERDICTS: &[&str] = &["defer", "recover"];

#[cfg(test)]
mod tests;
