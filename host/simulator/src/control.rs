//! The controls over HTTP, beside the API paths.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::apple_silicon::AppleSiliconPool;
use crate::behaviour::Behaviour;
use crate::control_error::ControlError;
use crate::fault::FaultRule;
use crate::forced_state::ForcedState;
use crate::options::Availability;
use crate::resources::Resources;
use crate::simulator::{Dropped, Simulator};

impl Simulator {
    /// The APIs and the controls as an axum router.
    ///
    /// Behind another server than [`Simulator::serve`] a dropped connection shows as an answer whose body breaks off.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/_simulator/resources", get(resources))
            .route("/_simulator/changes", get(changes))
            .route("/_simulator/requests", get(requests).delete(clear_requests))
            .route("/_simulator/faults", get(faults).post(add_faults).delete(clear_faults))
            .route("/_simulator/behaviours", get(behaviours).post(set_behaviours).delete(clear_behaviours))
            .route("/_simulator/servers/{id}/state", post(set_state))
            .route("/_simulator/servers/{id}/name", post(set_name))
            .route("/_simulator/apple-silicon", post(add_pool))
            .route("/_simulator/stock", post(set_stock))
            .route("/_simulator/clock", get(clock).post(advance))
            .route("/_simulator", get(unknown_control))
            .route("/_simulator/{*rest}", get(unknown_control).post(unknown_control).delete(unknown_control))
            .method_not_allowed_fallback(unknown_control)
            .fallback(api)
            .with_state(self.clone())
    }
}

async fn api(State(simulator): State<Simulator>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, simulator.body_bytes()).collect().await {
        Ok(body) => Some(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => None,
        Err(_) => return dropped(),
    };
    match simulator.call(parts, body).await {
        Ok(response) => response.map(Body::from),
        Err(Dropped) => dropped(),
    }
}

/// What stands for no answer: the mark for our own server and transport, a breaking body for any other.
fn dropped() -> Response {
    let broken =
        futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("connection dropped on request")) });
    let mut response = Response::new(Body::from_stream(broken));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response.extensions_mut().insert(Dropped);
    response
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn bad(message: impl Into<String>) -> Response {
    answer(StatusCode::BAD_REQUEST, &json!({"message": message.into()}))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Response>> {
    serde_json::from_slice(body).map_err(|error| Box::new(bad(error.to_string())))
}

async fn unknown_control() -> Response {
    let message = "no such control; there are GET /_simulator/resources and /_simulator/changes, GET and DELETE \
                   /_simulator/requests, GET, POST and DELETE /_simulator/faults and /_simulator/behaviours, \
                   POST /_simulator/servers/{id}/state and .../name, \
                   POST /_simulator/apple-silicon, POST /_simulator/stock, \
                   GET and POST /_simulator/clock";
    answer(StatusCode::NOT_FOUND, &json!({"message": message}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourcesQuery {
    /// Only what does not carry this tag.
    others: Option<String>,
}

async fn resources(
    State(simulator): State<Simulator>,
    query: Result<Query<ResourcesQuery>, QueryRejection>,
) -> Response {
    match chosen(&simulator, query) {
        Ok(resources) => answer(StatusCode::OK, &json!(resources)),
        Err(rejection) => bad(rejection.body_text()),
    }
}

async fn changes(State(simulator): State<Simulator>, query: Result<Query<ResourcesQuery>, QueryRejection>) -> Response {
    match chosen(&simulator, query) {
        Ok(resources) => answer(StatusCode::OK, &json!(resources.changes)),
        Err(rejection) => bad(rejection.body_text()),
    }
}

fn chosen(
    simulator: &Simulator,
    query: Result<Query<ResourcesQuery>, QueryRejection>,
) -> Result<Resources, QueryRejection> {
    let all = simulator.resources();
    Ok(match query?.0.others {
        None => all,
        Some(tag) => all.others(&tag),
    })
}

async fn requests(State(simulator): State<Simulator>) -> Response {
    answer(StatusCode::OK, &json!(simulator.requests()))
}

async fn clear_requests(State(simulator): State<Simulator>) -> StatusCode {
    simulator.clear_requests();
    StatusCode::NO_CONTENT
}

async fn faults(State(simulator): State<Simulator>) -> Response {
    answer(StatusCode::OK, &json!(simulator.faults()))
}

/// One rule, or a list of them, which is added whole or not at all.
async fn add_faults(State(simulator): State<Simulator>, body: Bytes) -> Response {
    let rules = match parse::<Value>(&body) {
        Ok(Value::Array(rules)) => rules,
        Ok(rule) => vec![rule],
        Err(response) => return *response,
    };
    let mut checked = Vec::new();
    for rule in rules {
        match serde_json::from_value::<FaultRule>(rule) {
            Ok(rule) => match rule.problem() {
                None => checked.push(rule),
                Some(problem) => return bad(problem),
            },
            Err(error) => return bad(error.to_string()),
        }
    }
    for rule in checked {
        if let Err(error) = simulator.add_fault(rule) {
            return bad(error.to_string());
        }
    }
    answer(StatusCode::CREATED, &json!(simulator.faults()))
}

async fn clear_faults(State(simulator): State<Simulator>) -> StatusCode {
    simulator.clear_faults();
    StatusCode::NO_CONTENT
}

async fn behaviours(State(simulator): State<Simulator>) -> Response {
    answer(StatusCode::OK, &json!(simulator.behaviours()))
}

/// One behaviour as text, or a list of them, of which none is set when one of them is wrong.
async fn set_behaviours(State(simulator): State<Simulator>, body: Bytes) -> Response {
    let texts = match parse::<Value>(&body) {
        Ok(Value::Array(texts)) => texts,
        Ok(text) => vec![text],
        Err(response) => return *response,
    };
    let wanted: Vec<Behaviour> = match texts.into_iter().map(serde_json::from_value).collect() {
        Ok(wanted) => wanted,
        Err(error) => return bad(error.to_string()),
    };
    for behaviour in wanted {
        if let Err(error) = simulator.set_behaviour(behaviour) {
            return bad(error.to_string());
        }
    }
    answer(StatusCode::CREATED, &json!(simulator.behaviours()))
}

async fn clear_behaviours(State(simulator): State<Simulator>) -> StatusCode {
    simulator.clear_behaviours();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateRequest {
    state: String,
}

async fn set_state(State(simulator): State<Simulator>, Path(id): Path<String>, body: Bytes) -> Response {
    let state = match parse::<StateRequest>(&body) {
        Ok(request) => match request.state.parse::<ForcedState>() {
            Ok(state) => state,
            Err(error) => return bad(error.to_string()),
        },
        Err(response) => return *response,
    };
    match simulator.set_server_state(&id, state) {
        Ok(()) => answer(StatusCode::OK, &json!({"id": id, "state": state.to_string()})),
        Err(error @ ControlError::UnknownServer(_)) => {
            answer(StatusCode::NOT_FOUND, &json!({"message": error.to_string()}))
        }
        Err(error) => bad(error.to_string()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameRequest {
    name: String,
}

async fn set_name(State(simulator): State<Simulator>, Path(id): Path<String>, body: Bytes) -> Response {
    let name = match parse::<NameRequest>(&body) {
        Ok(request) => request.name,
        Err(response) => return *response,
    };
    match simulator.rename_server(&id, name.clone()) {
        Ok(()) => answer(StatusCode::OK, &json!({"id": id, "name": name})),
        Err(error) => answer(StatusCode::NOT_FOUND, &json!({"message": error.to_string()})),
    }
}

async fn add_pool(State(simulator): State<Simulator>, body: Bytes) -> Response {
    match parse::<AppleSiliconPool>(&body) {
        Ok(pool) => answer(StatusCode::CREATED, &json!({"ids": simulator.add_apple_silicon_pool(&pool)})),
        Err(response) => *response,
    }
}

/// What is left of a type: of an Instance's in words, of Apple silicon also as a number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StockRequest {
    server_type: String,
    availability: Option<Availability>,
    left: Option<u32>,
}

async fn set_stock(State(simulator): State<Simulator>, body: Bytes) -> Response {
    let request = match parse::<StockRequest>(&body) {
        Ok(request) => request,
        Err(response) => return *response,
    };
    if request.availability.is_none() && request.left.is_none() {
        return bad("nothing to set; give `availability` (available, scarce or shortage), `left` (a number) or both");
    }
    if let Some(availability) = request.availability {
        simulator.set_stock(request.server_type.clone(), availability);
    }
    if request.left.is_some() {
        simulator.set_apple_silicon_stock(request.server_type, request.left);
    }
    StatusCode::NO_CONTENT.into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockRequest {
    advance_ms: u64,
}

async fn clock(State(simulator): State<Simulator>) -> Response {
    let now = simulator.now();
    answer(StatusCode::OK, &json!({"now_ms": u64::try_from(now.as_millis()).unwrap_or(u64::MAX)}))
}

async fn advance(State(simulator): State<Simulator>, body: Bytes) -> Response {
    match parse::<ClockRequest>(&body) {
        Ok(request) => {
            simulator.advance(Duration::from_millis(request.advance_ms));
            clock(State(simulator)).await
        }
        Err(response) => *response,
    }
}
