//! Every refusal, with the body Scaleway really sends where one was recorded.

use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::apple_silicon::FloorRefusal;
use crate::clock::{Instant, go_date};
use crate::options::RefusalStatus;

/// What an endpoint answers instead of doing what was asked.
#[derive(Debug, Clone)]
pub(crate) struct Refusal(Answer);

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}

/// What is wrong with an argument, in the API's words.
#[derive(Debug, Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Reason {
    Required,
    Format,
    Constraint,
}

impl Reason {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One argument that was not accepted.
#[derive(Debug, Clone)]
pub(crate) struct BadArgument {
    pub(crate) name: String,
    pub(crate) reason: Reason,
    pub(crate) help: String,
}

impl BadArgument {
    pub(crate) fn new(name: impl Into<String>, reason: Reason, help: impl Into<String>) -> Self {
        Self { name: name.into(), reason, help: help.into() }
    }

    /// The recorded words for a missing key.
    pub(crate) fn missing(name: &str) -> Self {
        Self::new(name, Reason::Required, "required key not provided")
    }

    /// The recorded words for a value outside of what is allowed.
    pub(crate) fn invalid(name: &str) -> Self {
        Self::new(name, Reason::Constraint, "not a valid value")
    }
}

impl Refusal {
    fn new(status: StatusCode, body: Value) -> Self {
        Self(Answer::json(status, &body))
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.0.status == StatusCode::NOT_FOUND
    }

    /// Recorded 21,121 times: 404 `not_found`.
    pub(crate) fn not_found(resource: &str, id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            json!({"message": "resource is not found", "resource": resource, "resource_id": id, "type": "not_found"}),
        )
    }

    /// Recorded: 400 `invalid_arguments`, all bad arguments at once.
    pub(crate) fn invalid_arguments(arguments: &[BadArgument]) -> Self {
        let details: Vec<Value> = arguments
            .iter()
            .map(|argument| {
                json!({
                    "argument_name": argument.name,
                    "reason": argument.reason.as_str(),
                    "help_message": argument.help,
                })
            })
            .collect();
        Self::new(
            StatusCode::BAD_REQUEST,
            json!({"type": "invalid_arguments", "message": "invalid argument(s)", "details": details}),
        )
    }

    pub(crate) fn invalid_argument(name: &str, reason: Reason, help: impl Into<String>) -> Self {
        Self::invalid_arguments(&[BadArgument::new(name, reason, help)])
    }

    pub(crate) fn invalid(name: &str) -> Self {
        Self::invalid_arguments(&[BadArgument::invalid(name)])
    }

    /// A precondition of the Instance API: both recorded shapes exist, the options choose.
    pub(crate) fn instance_precondition(status: RefusalStatus, precondition: &str, help: &str) -> Self {
        match status {
            RefusalStatus::BadRequest => Self::precondition(StatusCode::BAD_REQUEST, precondition, help),
            RefusalStatus::PreconditionFailed => {
                Self::new(StatusCode::PRECONDITION_FAILED, json!({"message": help, "type": "precondition_failed"}))
            }
        }
    }

    /// Recorded: 412 (and once 400) `precondition_failed` in its standard shape.
    pub(crate) fn precondition(status: StatusCode, precondition: &str, help: &str) -> Self {
        Self::new(
            status,
            json!({
                "help_message": help,
                "message": "precondition is not respected",
                "precondition": precondition,
                "type": "precondition_failed",
            }),
        )
    }

    /// SDK: both `precondition` and `help_message` may be absent from a refused precondition.
    pub(crate) fn precondition_without_details() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            json!({"message": "precondition is not respected", "type": "precondition_failed"}),
        )
    }

    /// Too early to delete a host.
    pub(crate) fn too_early(how: FloorRefusal, deletable: Instant) -> Self {
        match how {
            // Recorded, with these words.
            FloorRefusal::InWords => {
                let help = format!("this server cannot be deleted before {}", go_date(deletable));
                Self::precondition(StatusCode::PRECONDITION_FAILED, "unknown_precondition", &help)
            }
            FloorRefusal::WithoutDetails => Self::precondition_without_details(),
            FloorRefusal::StatusAlone => Self::precondition_by_status(),
        }
    }

    /// SDK: an answer without a type is a `ResponseError`, which only its status tells apart.
    pub(crate) fn precondition_by_status() -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, json!({"message": "precondition failed"}))
    }

    /// Recorded for IAM: 403 `quotas_exceeded`.
    pub(crate) fn quota(resource: &str, quota: usize, current: usize) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            json!({
                "details": [{"current": current, "quota": quota, "resource": resource}],
                "message": "quota(s) exceeded for this resource",
                "type": "quotas_exceeded",
            }),
        )
    }

    /// Recorded for Apple silicon and bare metal: 503 `out_of_stock`.
    pub(crate) fn out_of_stock(resource: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"message": "resource is out of stock", "resource": resource, "type": "out_of_stock"}),
        )
    }

    /// Recorded on other products: 409 `transient_state`. The Instance API's resource name and states are assumed.
    pub(crate) fn transient_state(resource: &str, id: &str, state: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            json!({
                "current_state": state,
                "message": "resource is in a transient state",
                "resource": resource,
                "resource_id": id,
                "type": "transient_state",
            }),
        )
    }

    // Assumption: no cassette of any product holds a `locked` answer. The type is the SDK's, the status and the message
    // follow the pattern of the others.
    pub(crate) fn locked(resource: &str, id: &str) -> Self {
        Self::new(
            StatusCode::LOCKED,
            json!({"message": "resource is locked", "resource": resource, "resource_id": id, "type": "locked"}),
        )
    }

    /// Recorded: 403 `permissions_denied`.
    pub(crate) fn permissions_denied(action: &str, resource: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            json!({
                "details": [{"action": action, "resource": resource}],
                "message": "insufficient permissions",
                "type": "permissions_denied",
            }),
        )
    }

    /// Recorded: 401 `denied_authentication` with `not_found` (66 times) or `invalid_argument` (6 times).
    pub(crate) fn denied_authentication(reason: &str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            json!({
                "message": "authentication is denied",
                "method": "api_key",
                "reason": reason,
                "type": "denied_authentication",
            }),
        )
    }

    /// Recorded 2025-10-15, the current shape.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            json!({"message": "Internal error", "type": "internal_server_error"}),
        )
    }

    /// Recorded from the gateway, with its two usual messages; no `type`.
    pub(crate) fn gateway(status: StatusCode, message: &str) -> Self {
        Self::new(status, json!({"message": message}))
    }

    /// Recorded 296 times: 429, empty, without content type and without `Retry-After`.
    pub(crate) fn rate_limited() -> Self {
        let answer = Answer {
            status: StatusCode::TOO_MANY_REQUESTS,
            content_type: None,
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        Self(answer.header("x-envoy-ratelimited", "true"))
    }

    /// Recorded 2024 on: 409 `conflict`, untyped in the SDK (SDK test).
    pub(crate) fn conflict(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, json!({"message": message, "type": "conflict"}))
    }

    // Assumption: what the gateway answers for a path that no product serves was not recorded.
    pub(crate) fn unknown_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, json!({"message": "path not found", "type": "not_found"}))
    }

    // Assumption, as above.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            json!({"message": format!("request body is larger than {limit} bytes"), "type": "invalid_arguments"}),
        )
    }
}
