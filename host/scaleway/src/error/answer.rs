use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::ErrorClass;
use super::not_before::not_before;

/// How much of a body an error keeps.
pub(crate) const ERROR_BODY_BYTES: usize = 8 * 1024;
/// How much of Scaleway's words an error's own words repeat.
const MESSAGE_BYTES: usize = 1024;
/// How many details of one body are read.
const DETAILS: usize = 64;
/// How much of any other text of a body is kept.
const WORD_BYTES: usize = 256;

/// A refusal or failure that Scaleway (or a gateway before it) put into words.
///
/// # How it is classified
/// By the body's `type` first and by the HTTP status after that: the same type comes with different statuses
/// (`precondition_failed` with 400 and 412), and `out_of_stock` hides behind a 503 (recorded). Both shapes of body are
/// understood: today's (`type`, `message`, `details`, `resource`, `help_message`) and the Instance API's older one
/// (`unknown_resource`, `invalid_request_error` with `fields`). Where a body has no `type`:
/// - 429 is a rate limit, unless its words speak of a quota (recorded on Elastic Metal);
/// - 404 means *not found* only for a missing user-data key, which Scaleway answers with an empty body (recorded);
/// - 5xx with words that it is "not supported" is a wrong request (recorded on Elastic Metal under 503);
/// - any other 5xx is the gateway's (502, 503, 504) or the server's.
///
/// *Not found* and *expired* are said by their recorded types alone. Any other 404 or 410 comes from something that is
/// not the API (a proxy, a wrong `api_url`, a gateway's problem document whose `type` is `about:blank` or an address),
/// or has a type of tomorrow. It proves nothing about the resource: it is [`ErrorClass::Other`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    pub method: String,
    /// Path of the call, without its query.
    pub path: String,
    pub status: u16,
    /// What kind of failure it is.
    pub class: ErrorClass,
    /// The body's `type`, word for word.
    pub error_type: Option<String>,
    /// Scaleway's words; empty when it used none.
    pub message: String,
    /// The kind of resource it speaks of: `instance_server`.
    pub resource: Option<String>,
    /// The resource's id, or what stands for it (an image's label).
    pub resource_id: Option<String>,
    /// What exactly is wrong: arguments, quotas, missing permissions.
    pub details: Vec<ErrorDetail>,
    /// Scaleway's advice (`help_message`).
    pub help: Option<String>,
    /// Which precondition failed: `resource_still_in_use`, `resource_not_usable`, `protected_resource`, ...
    pub precondition: Option<String>,
    /// The transient state the resource is in.
    pub current_state: Option<String>,
    /// Why authentication was denied: `not_found`, `invalid_argument`, `expired`.
    pub reason: Option<String>,
    /// How long the answer asks to wait before the next call (`Retry-After`), a day at most.
    pub retry_after: Option<Duration>,
    /// Scaleway's id of the request, to quote to its support.
    pub request_id: Option<String>,
    /// The body, verbatim, at most 8 KiB.
    pub body: String,
}

/// One entry of a body's `details`, or one of its older `fields`. What a detail does not speak of is absent.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ErrorDetail {
    /// The argument that is wrong.
    pub argument_name: Option<String>,
    /// `required`, `format`, `constraint`, `unknown`.
    pub reason: Option<String>,
    /// Words about it.
    pub help_message: Option<String>,
    /// The resource whose quota is used up, or to which access is missing.
    pub resource: Option<String>,
    /// The access that is missing: `read`, `write`, ...
    pub action: Option<String>,
    pub quota: Option<i64>,
    /// How much of the quota is used.
    pub current: Option<i64>,
}

/// What is known about an answer that is no success, before it is understood.
pub(crate) struct ReceivedAnswer<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: &'a [u8],
}

impl ApiError {
    /// Understands an answer. Never fails: what cannot be understood is kept verbatim and classified by its status.
    pub(crate) fn understand(answer: ReceivedAnswer<'_>) -> ApiError {
        let parsed: Option<Value> = serde_json::from_slice(answer.body).ok();
        let object = parsed.as_ref().and_then(Value::as_object);
        let empty = Map::new();
        let object = object.unwrap_or(&empty);

        let mut error = ApiError {
            method: answer.method.to_owned(),
            path: answer.path.to_owned(),
            status: answer.status,
            class: ErrorClass::Other,
            error_type: word(object, "type"),
            message: text(object, "message", MESSAGE_BYTES).unwrap_or_default(),
            resource: word(object, "resource"),
            resource_id: word(object, "resource_id"),
            details: details(object),
            help: text(object, "help_message", MESSAGE_BYTES),
            precondition: word(object, "precondition"),
            current_state: word(object, "current_state"),
            reason: word(object, "reason"),
            retry_after: answer.retry_after,
            request_id: answer.request_id,
            body: bounded_text(answer.body, ERROR_BODY_BYTES),
        };
        error.class = error.class_by_type().unwrap_or_else(|| error.class_by_status(answer.body));
        error.read_legacy_not_found();
        error
    }

    /// The class that the body's `type` alone (with its words, in the older shape) decides.
    fn class_by_type(&self) -> Option<ErrorClass> {
        Some(match self.error_type.as_deref()? {
            "invalid_arguments" => ErrorClass::InvalidArguments,
            // The older shape has one type for three things; only its words tell them apart (the SDK does the same
            // for quotas). "server should be running" is today's `precondition_failed` in older words.
            "invalid_request_error" if speaks_of_quota(&self.message) => ErrorClass::QuotaExceeded,
            "invalid_request_error" if speaks_of_state(&self.message) => ErrorClass::PreconditionFailed,
            "invalid_request_error" => ErrorClass::InvalidArguments,
            "denied_authentication" => ErrorClass::AuthenticationDenied,
            "permissions_denied" | "authorization_required" => ErrorClass::PermissionDenied,
            "quotas_exceeded" => ErrorClass::QuotaExceeded,
            "not_found" | "unknown_resource" => ErrorClass::NotFound,
            // The SDK knows `resource_expired`, the API says `expired` (recorded).
            "expired" | "resource_expired" => ErrorClass::Expired,
            "already_exists" | "conflict" => ErrorClass::Conflict,
            "precondition_failed" => ErrorClass::PreconditionFailed,
            "transient_state" => ErrorClass::TransientState,
            "locked" => ErrorClass::Locked,
            "too_many_requests" => ErrorClass::RateLimited,
            "out_of_stock" => ErrorClass::OutOfStock,
            "server_error" | "internal_server_error" => ErrorClass::ServerError,
            // A type of tomorrow: the status decides, the type is kept.
            _ => return None,
        })
    }

    fn class_by_status(&self, body: &[u8]) -> ErrorClass {
        match self.status {
            // Redirects are not followed: the token would go to wherever they point.
            300..=399 => ErrorClass::Other,
            400 | 405 | 406 | 411 | 413 | 414 | 415 | 422 => ErrorClass::InvalidArguments,
            401 => ErrorClass::AuthenticationDenied,
            403 | 429 if speaks_of_quota(&self.message) => ErrorClass::QuotaExceeded,
            403 => ErrorClass::PermissionDenied,
            404 if body.is_empty() && is_user_data_path(&self.path) => ErrorClass::NotFound,
            408 => ErrorClass::Timeout,
            409 => ErrorClass::Conflict,
            412 => ErrorClass::PreconditionFailed,
            423 => ErrorClass::Locked,
            429 => ErrorClass::RateLimited,
            501 => ErrorClass::Other,
            500..=599 if self.message.to_ascii_lowercase().contains("not supported") => ErrorClass::InvalidArguments,
            502..=504 => ErrorClass::Gateway,
            500..=599 => ErrorClass::ServerError,
            _ => ErrorClass::Other,
        }
    }

    /// `unknown_resource` names the resource only in its words, in four known forms (SDK):
    /// `"<id>" not found`, `Security group "<id>" not found`, `Volume '<id>' not found`, `Ip '<id>' not found `.
    fn read_legacy_not_found(&mut self) {
        if self.error_type.as_deref() != Some("unknown_resource") {
            return;
        }
        let Some(words) = self.message.trim().strip_suffix("not found") else { return };
        let words = words.trim();
        let Some(quote) = words.chars().last().filter(|quote| matches!(quote, '"' | '\'')) else { return };
        let Some((kind, id)) = words[..words.len() - 1].split_once(quote) else { return };
        if self.resource_id.is_none() && !id.is_empty() {
            self.resource_id = Some(id.to_owned());
        }
        let kind = kind.trim().to_ascii_lowercase().replace(' ', "_");
        if self.resource.is_none() && !kind.is_empty() {
            self.resource = Some(format!("instance_{kind}"));
        }
    }

    /// Whether the call may have taken effect all the same; see [`Error::is_ambiguous`](super::Error::is_ambiguous).
    /// Reading calls are decided there.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self.class {
            ErrorClass::ServerError | ErrorClass::Gateway | ErrorClass::Timeout => true,
            // 5xx that nothing settles: an unknown type, or a body that is not Scaleway's.
            ErrorClass::Other => self.status >= 500 && self.status != 501,
            _ => false,
        }
    }
}

impl ApiError {
    /// Whether a body's `type` is a word as Scaleway's are, known or not. A problem document has an address there, or
    /// `about:blank`.
    #[must_use]
    pub fn is_own_type(word: &str) -> bool {
        !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    }

    fn has_own_type(&self) -> bool {
        self.error_type.as_deref().is_some_and(Self::is_own_type)
    }

    /// Whether this is Scaleway's own refusal, which had no effect; see
    /// [`Error::is_refusal`](super::Error::is_refusal).
    pub(super) fn is_refusal(&self) -> bool {
        let own_words = (400..500).contains(&self.status) && self.has_own_type();
        self.class == ErrorClass::RateLimited || (own_words && !self.is_ambiguous())
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// Until when Scaleway refuses this, where its words tell: an Apple silicon server "cannot be deleted before
    /// 2025-04-12 13:24:33.836482 +0000 UTC" (recorded). Words are the weaker source, and one of the two shapes of this
    /// refusal has none: where the server can be read, ask its
    /// [`deletable_at`](crate::types::apple_silicon::Server::deletable_at).
    pub fn not_before(&self) -> Option<jiff::Timestamp> {
        [self.help.as_deref(), Some(self.message.as_str())].into_iter().flatten().find_map(not_before)
    }

    /// `permissions_denied` on one Apple silicon server: what stands for "not found" in that API.
    fn is_denied_apple_server(&self) -> bool {
        let segments: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        self.class == ErrorClass::PermissionDenied
            && self.error_type.as_deref() == Some("permissions_denied")
            && matches!(segments[..], ["apple-silicon", _, "zones", _, "servers", _, ..])
            && self.details.iter().any(|detail| detail.resource.as_deref() == Some("server"))
    }

    pub(super) fn is_gone_or_not_ours(&self) -> bool {
        matches!(self.class, ErrorClass::NotFound | ErrorClass::Expired) || self.is_denied_apple_server()
    }
}

impl ApiError {
    /// What Scaleway said, in one line: its message with the resource, the details and the advice that came with it,
    /// and without method, path and status. Empty when it said nothing.
    pub fn words(&self) -> String {
        Words(self).to_string().trim().to_owned()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.method, self.path, self.status)?;
        match &self.error_type {
            Some(error_type) => write!(formatter, " {error_type}")?,
            None => write!(formatter, " ({})", self.class)?,
        }
        let words = self.words();
        if !words.is_empty() {
            write!(formatter, ": {words}")?;
        }
        match (self.class, self.reason.as_deref()) {
            (ErrorClass::AuthenticationDenied, reason) => {
                let reason = reason.unwrap_or("unknown reason");
                write!(formatter, " ({reason}); check SCW_SECRET_KEY or the profile's secret_key")?;
            }
            (ErrorClass::Other, _) if self.status == 404 && !self.has_own_type() => {
                formatter.write_str("; nothing at this address answers like Scaleway's API, check api_url")?;
            }
            (ErrorClass::Other, _) if (300..400).contains(&self.status) => {
                formatter.write_str("; redirects are not followed, check api_url")?;
            }
            _ => {}
        }
        if let Some(wait) = self.retry_after.filter(|wait| !wait.is_zero()) {
            write!(formatter, "; asks to wait {} s", wait.as_secs())?;
        }
        if let Some(request_id) = &self.request_id {
            write!(formatter, " [request {request_id}]")?;
        }
        Ok(())
    }
}

/// Scaleway's own words about a refusal.
struct Words<'a>(&'a ApiError);

impl fmt::Display for Words<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        formatter.write_str(error.message.trim())?;
        if let Some(resource) = &error.resource {
            write!(formatter, " ({resource}")?;
            if let Some(id) = &error.resource_id {
                write!(formatter, " {id}")?;
            }
            formatter.write_str(")")?;
        }
        for (index, detail) in error.details.iter().take(8).enumerate() {
            formatter.write_str(if index == 0 { ": " } else { "; " })?;
            write!(formatter, "{detail}")?;
        }
        if let Some(state) = &error.current_state {
            write!(formatter, ", state {state}")?;
        }
        if let Some(help) = &error.help {
            write!(formatter, ": {help}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if let Some(argument) = &self.argument_name {
            parts.push(argument.clone());
        }
        if let Some(action) = &self.action {
            parts.push(action.clone());
        }
        if let Some(resource) = &self.resource {
            parts.push(resource.clone());
        }
        if let (Some(current), Some(quota)) = (self.current, self.quota) {
            parts.push(format!("{current} of {quota} used"));
        }
        match (&self.help_message, &self.reason) {
            (Some(help), _) => parts.push(help.clone()),
            (None, Some(reason)) => parts.push(reason.clone()),
            (None, None) => {}
        }
        formatter.write_str(&parts.join(" "))
    }
}

/// `GET .../servers/{id}/user_data/{key}` and nothing else.
fn is_user_data_path(path: &str) -> bool {
    path.rsplit('/').nth(1) == Some("user_data")
}

fn speaks_of_quota(message: &str) -> bool {
    message.to_ascii_lowercase().contains("quota")
}

/// `server should be running`, `server should be stopped`, `All instances must be powered off to change ...`.
fn speaks_of_state(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["should be running", "should be stopped", "must be powered off", "must be stopped"]
        .iter()
        .any(|words| message.contains(words))
}

/// Reads `details`, and the older `fields` as the same thing. What has an unexpected shape is skipped here; the
/// verbatim body still shows it.
fn details(object: &Map<String, Value>) -> Vec<ErrorDetail> {
    let today = object.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut details: Vec<ErrorDetail> = today
        .iter()
        .filter_map(Value::as_object)
        .take(DETAILS)
        .map(|detail| ErrorDetail {
            argument_name: word(detail, "argument_name"),
            reason: word(detail, "reason"),
            help_message: text(detail, "help_message", MESSAGE_BYTES),
            resource: word(detail, "resource"),
            action: word(detail, "action"),
            quota: detail.get("quota").and_then(Value::as_i64),
            current: detail.get("current").and_then(Value::as_i64),
        })
        .collect();
    for (name, messages) in object.get("fields").and_then(Value::as_object).into_iter().flatten().take(DETAILS) {
        let help_message = match messages {
            Value::String(message) => message.clone(),
            Value::Array(messages) => messages.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            _ => continue,
        };
        details.push(ErrorDetail {
            argument_name: Some(truncated(name, WORD_BYTES)),
            help_message: Some(truncated(&help_message, MESSAGE_BYTES)),
            ..ErrorDetail::default()
        });
    }
    details
}

fn word(object: &Map<String, Value>, key: &str) -> Option<String> {
    text(object, key, WORD_BYTES)
}

fn text(object: &Map<String, Value>, key: &str, limit: usize) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(|text| truncated(text, limit))
}

/// At most `limit` bytes of `text`, cut between characters.
fn truncated(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

/// At most `limit` bytes of a body as text; bytes that are no UTF-8 become U+FFFD.
pub(crate) fn bounded_text(body: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(limit)]);
    truncated(&text, limit)
}
