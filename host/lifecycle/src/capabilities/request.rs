//! `windlass:scaleway/request`: one generic request, restricted to the methods and paths that were granted.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_policy::{CallContext, Capability, CapabilityError, GrantedCapability, wit_result};
use windlass_scaleway::Client;

use super::grant::{RequestGrant, RequestPath, changes_nothing, known_method};
use super::redaction::redact;

const INTERFACE: &str = "windlass:scaleway/request";
const WIT: &str = include_str!("../../wit/request.wit");
const FUNCTIONS: [&str; 1] = ["send"];

/// User data is a server's cloud-init, which carries its secrets: no grant opens it.
const NEVER: &str = "user_data";

/// The longest message of a failure, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// The capability. Its grants carry methods and a path pattern.
pub(super) struct GenericRequest {
    client: Client,
}

impl GenericRequest {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Capability for GenericRequest {
    fn interface(&self) -> &str {
        INTERFACE
    }

    fn version(&self) -> &str {
        super::version::VERSION
    }

    fn wit(&self) -> &str {
        WIT
    }

    fn functions(&self) -> &[&str] {
        &FUNCTIONS
    }

    fn example_grant(&self) -> String {
        format!("{INTERFACE} GET /instance/v1/zones/*/products/**")
    }

    fn accept_grants(&self, arguments: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        let grants = arguments
            .iter()
            .map(|arguments| arguments.parse())
            .collect::<Result<Vec<RequestGrant>, _>>()
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(Granted { client: self.client.clone(), grants }))
    }
}

struct Granted {
    client: Client,
    grants: Vec<RequestGrant>,
}

/// `http-request` of the contract.
#[derive(Debug, Deserialize)]
struct HttpRequest {
    method: String,
    path: String,
    body: Option<String>,
}

/// `http-response` of the contract.
#[derive(Debug, Serialize)]
struct HttpResponse {
    status: u16,
    body: String,
}

/// `request-error` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum RequestError {
    NotGranted(String),
    LimitReached(String),
    Failed(String),
}

#[async_trait]
impl GrantedCapability for Granted {
    async fn call(
        &self,
        context: CallContext,
        function: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, CapabilityError> {
        if function != FUNCTIONS[0] {
            return Err(CapabilityError::new(format!("{INTERFACE} has no function {function:?}")));
        }
        let (request,): (HttpRequest,) = serde_json::from_value(Value::Array(arguments))?;
        wit_result(self.send(request, context.bytes_left).await)
    }
}

impl Granted {
    async fn send(&self, request: HttpRequest, bytes_left: u64) -> Result<HttpResponse, RequestError> {
        self.check(&request)?;
        let body = request.body.map(Into::into);
        let answer =
            self.client.send_raw(&request.method, &request.path, body).await.map_err(|error| {
                RequestError::Failed(error.to_string().chars().take(MAX_MESSAGE_CHARACTERS).collect())
            })?;
        let body = readable(&answer.body)?;
        if body.len() as u64 > bytes_left {
            return Err(RequestError::LimitReached(format!(
                "the answer has {} bytes, {bytes_left} are left for this decision",
                body.len()
            )));
        }
        Ok(HttpResponse { status: answer.status, body })
    }

    fn check(&self, request: &HttpRequest) -> Result<(), RequestError> {
        let not_granted = |why: String| Err(RequestError::NotGranted(why));
        let Some(method) = known_method(&request.method) else {
            return not_granted(format!("{:?} is no HTTP method that can be granted", request.method));
        };
        let path = match RequestPath::parse(&request.path) {
            Ok(path) => path,
            Err(error) => return not_granted(error.to_string()),
        };
        if path.has_segment(NEVER) {
            return not_granted(format!("{NEVER} carries secrets and is never given to a policy"));
        }
        if !changes_nothing(method, &path) {
            return not_granted(format!("{method} {} changes something, which only the host does", request.path));
        }
        if self.grants.iter().any(|grant| grant.permits(method, &path)) {
            return Ok(());
        }
        let path = request.path.split('?').next().unwrap_or_default();
        not_granted(format!("add to the policy's grants: \"{INTERFACE} {method} {path}\""))
    }
}

/// The body without its secrets. What is not JSON cannot be searched for secrets and is not handed on.
fn readable(body: &[u8]) -> Result<String, RequestError> {
    if body.is_empty() {
        return Ok(String::new());
    }
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| RequestError::Failed(format!("the answer is no JSON ({error}) and can't be handed on")))?;
    redact(&mut value);
    Ok(value.to_string())
}
