//! `/servers/{id}/user_data`: raw texts that the machine reads when it boots.

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::server;
use crate::answer::Answer;
use crate::api::endpoint::Outcome;
use crate::behaviour::Behaviour;
use crate::call::Call;
use crate::world::World;

pub(super) fn list(world: &World, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    let keys: Vec<&String> = server.user_data.keys().collect();
    Ok(Answer::ok(&json!({"user_data": keys})))
}

pub(super) fn get(world: &World, zone: &str, id: &str, key: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    Ok(match server.user_data.get(key) {
        Some(text) => Answer::text(StatusCode::OK, text.clone()),
        // Recorded: 404 with an empty body and text/plain.
        None => Answer::text(StatusCode::NOT_FOUND, Bytes::new()),
    })
}

pub(super) fn set(world: &mut World, call: &Call, zone: &str, id: &str, key: &str) -> Outcome {
    server::find(world, zone, id)?;
    if let Some(server) = world.servers.get_mut(id) {
        server.user_data.insert(key.to_owned(), call.body.clone());
    }
    Ok(match world.behaviours.stands(&Behaviour::UserDataBody) {
        true => Answer::ok(&json!({"key": key})),
        false => Answer::text(StatusCode::NO_CONTENT, Bytes::new()),
    })
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str, key: &str) -> Outcome {
    server::find(world, zone, id)?;
    let removed = world.servers.get_mut(id).and_then(|server| server.user_data.remove(key));
    Ok(match removed {
        // Recorded with a JSON content type, unlike PATCH.
        Some(_) => Answer::no_content(),
        // Assumption: as for GET.
        None => Answer::text(StatusCode::NOT_FOUND, Bytes::new()),
    })
}
