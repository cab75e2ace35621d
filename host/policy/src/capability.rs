//! What a floor above can offer to policies: host functions behind a grant.
//!
//! This crate knows no capability but the log. A floor above implements [`Capability`] for each WIT interface that it
//! offers; arguments and answers cross as JSON in the contract's own spelling (records are objects with kebab-case
//! keys, a variant case without payload is a string, one with payload an object with one key, `option` is a value or
//! null, `result` is `{"ok": ...}` or `{"err": ...}`, see [`wit_result`]).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

/// A WIT interface of host functions that policies can be granted.
pub trait Capability: Send + Sync + 'static {
    /// The interface without its version: `windlass:scaleway/look-ups`. It is also the name of the grant.
    fn interface(&self) -> &str;

    /// The version of the interface: `0.1.0`.
    fn version(&self) -> &str;

    /// The WIT package that has the interface, as text. What a component imports must have the types that stand there.
    fn wit(&self) -> &str;

    /// The functions of the interface, as WIT names them. A component can import only these.
    fn functions(&self) -> &[&str];

    /// A grant line that an operator could add, as an example in errors: `windlass:scaleway/look-ups`.
    fn example_grant(&self) -> String {
        self.interface().to_owned()
    }

    /// Accepts the grants that one policy has for this interface: for each grant line what stands after the interface's
    /// name, trimmed (so at least one element, perhaps empty).
    ///
    /// # Errors
    /// A sentence that says what is wrong with the arguments and what was expected.
    fn accept_grants(&self, arguments: &[String]) -> Result<Arc<dyn GrantedCapability>, String>;

    /// What the guest gets when a call isn't made, because the decision has used up its calls, bytes or time. Default:
    /// `{"err": {"limit-reached": why}}`.
    fn refusal(&self, function: &str, why: &str) -> Value {
        let _ = function;
        json!({ "err": { "limit-reached": why } })
    }
}

/// What one policy was granted.
pub(crate) type Granted = Vec<(Arc<dyn Capability>, Arc<dyn GrantedCapability>)>;

/// A capability as one policy was granted it.
#[async_trait]
pub trait GrantedCapability: Send + Sync + 'static {
    /// Makes one call. The host has checked number, bytes and time before, drops the future at the deadline, and
    /// records arguments and answer with the decision (after redaction, see [`Redaction`](crate::Redaction)).
    ///
    /// # Errors
    /// Only what is a defect on the host's side: it fails the decision of this policy. What the guest should hear is an
    /// answer, `{"err": ...}`.
    async fn call(&self, context: CallContext, function: &str, arguments: Vec<Value>)
    -> Result<Value, CapabilityError>;
}

/// The circumstances of a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// How long the call may take. The host drops it then.
    pub time_left: Duration,
    /// How many bytes of JSON the answer may have.
    pub bytes_left: u64,
}

/// A defect on the host's side of a call.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CapabilityError {
    message: String,
}

impl CapabilityError {
    /// With words for people. They reach the decision log: no secrets.
    pub fn new(message: impl Into<String>) -> CapabilityError {
        CapabilityError { message: message.into() }
    }
}

impl From<serde_json::Error> for CapabilityError {
    fn from(error: serde_json::Error) -> CapabilityError {
        CapabilityError::new(error.to_string())
    }
}

/// A WIT `result` as JSON.
///
/// # Errors
/// The value can't be written as JSON.
pub fn wit_result<T: Serialize, E: Serialize>(result: Result<T, E>) -> Result<Value, CapabilityError> {
    Ok(match result {
        Ok(value) => json!({ "ok": serde_json::to_value(value)? }),
        Err(error) => json!({ "err": serde_json::to_value(error)? }),
    })
}
