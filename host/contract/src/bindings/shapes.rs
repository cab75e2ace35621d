//! The shapes of questions and answers, made of the contract in wit/ by `just bindings`.

use crate::shape::{Shape, SlotShapes};

pub const FAILURE_CLASS: Shape = Shape::Enum(&[
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
]);

pub const FAILURE: Shape = Shape::Record(&[
    ("class", FAILURE_CLASS),
    ("message", Shape::Text),
    ("method", Shape::Option(&Shape::Text)),
    ("path", Shape::Option(&Shape::Text)),
    ("status", Shape::Option(&Shape::Number { bits: 16 })),
    ("error-type", Shape::Option(&Shape::Text)),
    ("resource", Shape::Option(&Shape::Text)),
    ("ambiguous", Shape::Bool),
]);

pub const RESOURCE_KIND: Shape = Shape::Enum(&[
    "server",
    "ip",
    "block-volume",
    "local-volume",
    "private-nic",
    "apple-silicon-server",
    "other",
]);

pub const MONEY: Shape = Shape::Record(&[
    ("currency", Shape::Text),
    ("micros", Shape::Number { bits: 64 }),
]);

pub const PROGRAM: Shape = Shape::Enum(&[
    "command-line",
    "runner-plugin",
    "controller",
    "other",
]);

pub const REQUESTER: Shape = Shape::Enum(&[
    "user",
    "runner",
    "plugin",
    "policy",
    "shutdown",
    "sweep",
    "reclaim",
    "object",
    "cluster",
    "other",
]);

pub const OBJECT: Shape = Shape::Record(&[
    ("kind", Shape::Text),
    ("namespace", Shape::Text),
    ("name", Shape::Text),
]);

pub const LABEL: Shape = Shape::Record(&[
    ("name", Shape::Text),
    ("value", Shape::Text),
]);

pub const SUBJECT: Shape = Shape::Record(&[
    ("program", PROGRAM),
    ("owner", Shape::Text),
    ("project", Shape::Option(&Shape::Text)),
    ("group", Shape::Option(&Shape::Text)),
    ("cluster", Shape::Option(&Shape::Text)),
    ("object", Shape::Option(&OBJECT)),
    ("labels", Shape::List(&LABEL)),
    ("requester", Shape::Option(&REQUESTER)),
    ("why", Shape::Option(&Shape::Text)),
]);

pub const STATE_MAPPING_SERVER_STATE: Shape = Shape::Enum(&[
    "starting",
    "running",
    "stopping",
    "stopped",
    "stopped-in-place",
    "locked",
    "other",
]);

pub const STATE_MAPPING_STATE_DETAIL: Shape = Shape::Enum(&[
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
]);

pub const STATE_MAPPING_OPERATION: Shape = Shape::Enum(&[
    "none",
    "create",
    "cleanup",
    "suspend",
    "resume",
    "other",
]);

pub const STATE_MAPPING_SERVER: Shape = Shape::Record(&[
    ("state", STATE_MAPPING_SERVER_STATE),
    ("detail", STATE_MAPPING_STATE_DETAIL),
    ("age", Shape::Number { bits: 64 }),
    ("state-age", Shape::Number { bits: 64 }),
    ("has-run", Shape::Bool),
    ("unused-for", Shape::Option(&Shape::Number { bits: 64 })),
    ("in-flight", STATE_MAPPING_OPERATION),
    ("suspended", Shape::Bool),
    ("server-type", Shape::Number { bits: 32 }),
    ("watched-tags", Shape::Number { bits: 64 }),
]);

pub const STATE_MAPPING_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("zone", Shape::Text),
    ("subject", SUBJECT),
    ("server-types", Shape::List(&Shape::Text)),
    ("watched-tags", Shape::List(&Shape::Text)),
    ("servers", Shape::List(&STATE_MAPPING_SERVER)),
]);

pub const STATE_MAPPING_REPORT: Shape = Shape::Enum(&[
    "none",
    "creating",
    "running",
    "deleting",
    "deleted",
    "timeout",
    "suspending",
    "suspended",
    "resuming",
]);

pub const STATE_MAPPING_ACTION: Shape = Shape::Enum(&[
    "none",
    "reap",
]);

pub const STATE_MAPPING_MAPPING: Shape = Shape::Record(&[
    ("report", STATE_MAPPING_REPORT),
    ("action", STATE_MAPPING_ACTION),
]);

pub const STATE_MAPPING_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("mapped", Some(STATE_MAPPING_MAPPING)),
]);

pub const STATE_MAPPING_ANSWER: Shape = Shape::Record(&[
    ("verdict", STATE_MAPPING_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const STATE_MAPPING: SlotShapes = SlotShapes { question: STATE_MAPPING_QUESTION, answer: Shape::List(&STATE_MAPPING_ANSWER) };

pub const RETRY_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("random", Shape::Number { bits: 64 }),
    ("operation", Shape::Text),
    ("step", Shape::Text),
    ("undoing", Shape::Bool),
    ("attempt", Shape::Number { bits: 32 }),
    ("elapsed", Shape::Number { bits: 64 }),
    ("time-left", Shape::Option(&Shape::Number { bits: 64 })),
    ("failure", FAILURE),
    ("zone", Shape::Text),
    ("subject", SUBJECT),
    ("server-type", Shape::Option(&Shape::Text)),
]);

pub const RETRY_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("give-up", None),
    ("wait", Some(Shape::Number { bits: 64 })),
]);

pub const RETRY_ANSWER: Shape = Shape::Record(&[
    ("verdict", RETRY_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const RETRY: SlotShapes = SlotShapes { question: RETRY_QUESTION, answer: RETRY_ANSWER };

pub const ROLLBACK_EVIDENCE: Shape = Shape::Enum(&[
    "journal",
    "tag-search",
    "attachment",
    "other",
]);

pub const ROLLBACK_RESOURCE: Shape = Shape::Record(&[
    ("kind", RESOURCE_KIND),
    ("id", Shape::Text),
    ("name", Shape::Text),
    ("state", Shape::Option(&Shape::Text)),
    ("attached-to", Shape::Option(&Shape::Number { bits: 32 })),
    ("owned", Shape::Bool),
    ("evidence", ROLLBACK_EVIDENCE),
]);

pub const ROLLBACK_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("random", Shape::Number { bits: 64 }),
    ("operation", Shape::Text),
    ("subject", SUBJECT),
    ("cause", Shape::Option(&FAILURE)),
    ("failed-step", Shape::Option(&Shape::Text)),
    ("resources", Shape::List(&ROLLBACK_RESOURCE)),
]);

pub const ROLLBACK_ACTION: Shape = Shape::Enum(&[
    "delete",
    "detach",
    "power-off",
    "keep",
]);

pub const ROLLBACK_STEP: Shape = Shape::Record(&[
    ("resource", Shape::Number { bits: 32 }),
    ("action", ROLLBACK_ACTION),
    ("after", Shape::List(&Shape::Number { bits: 32 })),
]);

pub const ROLLBACK_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("plan", Some(Shape::List(&ROLLBACK_STEP))),
]);

pub const ROLLBACK_ANSWER: Shape = Shape::Record(&[
    ("verdict", ROLLBACK_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const ROLLBACK: SlotShapes = SlotShapes { question: ROLLBACK_QUESTION, answer: ROLLBACK_ANSWER };

pub const RELEASE_MACHINE_KIND: Shape = Shape::Enum(&[
    "instance",
    "apple-silicon-server",
    "other",
]);

pub const RELEASE_TRIGGER: Shape = Shape::Enum(&[
    "released",
    "bootstrap-failed",
    "reclaim",
    "other",
]);

pub const RELEASE_REQUESTED: Shape = Shape::Enum(&[
    "return-to-pool",
    "terminate",
    "keep",
    "other",
]);

pub const RELEASE_ACTIVITY: Shape = Shape::Record(&[
    ("last-used", Shape::Option(&Shape::Number { bits: 64 })),
    ("connections", Shape::Option(&Shape::Number { bits: 32 })),
    ("node-ready", Shape::Option(&Shape::Bool)),
    ("node-ready-since", Shape::Option(&Shape::Number { bits: 64 })),
]);

pub const RELEASE_MACHINE: Shape = Shape::Record(&[
    ("kind", RELEASE_MACHINE_KIND),
    ("id", Shape::Text),
    ("name", Shape::Text),
    ("zone", Shape::Text),
    ("machine-type", Shape::Text),
    ("status", Shape::Text),
    ("operating-system", Shape::Option(&Shape::Text)),
    ("pool-prefix", Shape::Option(&Shape::Text)),
    ("adopted", Shape::Bool),
    ("created-at", Shape::Number { bits: 64 }),
    ("deletable-at", Shape::Option(&Shape::Number { bits: 64 })),
    ("deletion-scheduled", Shape::Bool),
    ("bootstrap-failures", Shape::Number { bits: 32 }),
    ("rebooted", Shape::Bool),
    ("price-per-hour", Shape::Option(&MONEY)),
    ("activity", RELEASE_ACTIVITY),
]);

pub const RELEASE_ACTION: Shape = Shape::Enum(&[
    "return-to-pool",
    "terminate",
    "schedule-deletion",
    "reboot",
    "other",
]);

pub const RELEASE_REFUSAL: Shape = Shape::Record(&[
    ("action", RELEASE_ACTION),
    ("failure", FAILURE),
    ("not-before", Shape::Option(&Shape::Number { bits: 64 })),
]);

pub const RELEASE_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("random", Shape::Number { bits: 64 }),
    ("trigger", RELEASE_TRIGGER),
    ("subject", SUBJECT),
    ("machine", RELEASE_MACHINE),
    ("requested", Shape::Option(&RELEASE_REQUESTED)),
    ("refusal", Shape::Option(&RELEASE_REFUSAL)),
    ("attempt", Shape::Number { bits: 32 }),
]);

pub const RELEASE_POOL_RETURN: Shape = Shape::Record(&[
    ("operating-system", Shape::Option(&Shape::Text)),
]);

pub const RELEASE_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("return-to-pool", Some(RELEASE_POOL_RETURN)),
    ("terminate", None),
    ("schedule-deletion", None),
    ("keep", None),
    ("retry-after", Some(Shape::Number { bits: 64 })),
    ("reboot", None),
]);

pub const RELEASE_ANSWER: Shape = Shape::Record(&[
    ("verdict", RELEASE_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const RELEASE: SlotShapes = SlotShapes { question: RELEASE_QUESTION, answer: RELEASE_ANSWER };

pub const PROVISIONING_OPERATION: Shape = Shape::Enum(&[
    "create",
    "scale",
    "terminate",
    "other",
]);

pub const PROVISIONING_STAGE: Shape = Shape::Enum(&[
    "validate",
    "servers",
    "wait",
    "prepare",
    "decommission",
    "resize",
    "configure",
    "start",
    "other",
]);

pub const PROVISIONING_NODE_ROLE: Shape = Shape::Enum(&[
    "staying",
    "leaving",
    "made",
    "other",
]);

pub const PROVISIONING_NODE: Shape = Shape::Record(&[
    ("name", Shape::Text),
    ("group", Shape::Text),
    ("role", PROVISIONING_NODE_ROLE),
    ("exists", Shape::Bool),
    ("decommissioned", Shape::Bool),
    ("configured", Shape::Bool),
]);

pub const PROVISIONING_GROUP: Shape = Shape::Record(&[
    ("name", Shape::Text),
    ("before", Shape::Number { bits: 32 }),
    ("wanted", Shape::Number { bits: 32 }),
]);

pub const PROVISIONING_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("random", Shape::Number { bits: 64 }),
    ("subject", SUBJECT),
    ("operation", PROVISIONING_OPERATION),
    ("stage", PROVISIONING_STAGE),
    ("cause", FAILURE),
    ("groups", Shape::List(&PROVISIONING_GROUP)),
    ("nodes", Shape::List(&PROVISIONING_NODE)),
]);

pub const PROVISIONING_CLUSTER_STATE: Shape = Shape::Enum(&[
    "active",
    "error",
]);

pub const PROVISIONING_RECOVERY: Shape = Shape::Record(&[
    ("state", PROVISIONING_CLUSTER_STATE),
    ("delete", Shape::List(&Shape::Number { bits: 32 })),
]);

pub const PROVISIONING_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("recover", Some(PROVISIONING_RECOVERY)),
]);

pub const PROVISIONING_ANSWER: Shape = Shape::Record(&[
    ("verdict", PROVISIONING_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const PROVISIONING: SlotShapes = SlotShapes { question: PROVISIONING_QUESTION, answer: PROVISIONING_ANSWER };

pub const PLACEMENT_PLACE: Shape = Shape::Record(&[
    ("zone", Shape::Text),
    ("server-type", Shape::Text),
    ("servers", Shape::Number { bits: 32 }),
    ("creating", Shape::Number { bits: 32 }),
    ("failures", Shape::Number { bits: 32 }),
    ("last-failure", Shape::Option(&FAILURE)),
    ("failed-at", Shape::Option(&Shape::Number { bits: 64 })),
    ("backoff-until", Shape::Option(&Shape::Number { bits: 64 })),
    ("price-per-hour", Shape::Option(&MONEY)),
]);

pub const PLACEMENT_QUESTION: Shape = Shape::Record(&[
    ("now", Shape::Number { bits: 64 }),
    ("random", Shape::Number { bits: 64 }),
    ("operation", Shape::Text),
    ("subject", SUBJECT),
    ("wanted", Shape::Number { bits: 32 }),
    ("places", Shape::List(&PLACEMENT_PLACE)),
]);

pub const PLACEMENT_ASSIGNMENT: Shape = Shape::Record(&[
    ("count", Shape::Number { bits: 32 }),
    ("places", Shape::List(&Shape::Number { bits: 32 })),
]);

pub const PLACEMENT_VERDICT: Shape = Shape::Variant(&[
    ("defer", None),
    ("place", Some(Shape::List(&PLACEMENT_ASSIGNMENT))),
]);

pub const PLACEMENT_ANSWER: Shape = Shape::Record(&[
    ("verdict", PLACEMENT_VERDICT),
    ("reason", Shape::Option(&Shape::Text)),
]);

pub const PLACEMENT: SlotShapes = SlotShapes { question: PLACEMENT_QUESTION, answer: PLACEMENT_ANSWER };

/// By the names of the slots.
pub(crate) const SLOTS: [(&str, SlotShapes); 6] = [
    ("state-mapping", STATE_MAPPING),
    ("retry", RETRY),
    ("rollback", ROLLBACK),
    ("release", RELEASE),
    ("provisioning", PROVISIONING),
    ("placement", PLACEMENT),
];
