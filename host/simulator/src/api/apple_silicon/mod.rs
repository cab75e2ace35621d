//! Apple silicon API v1alpha1: physical hosts with a billing floor.

mod catalogue;
mod server;

use serde_json::json;

use crate::answer::Answer;
use crate::api::endpoint::{Outcome, method};
use crate::call::Call;
use crate::refusal::Refusal;
use crate::world::World;

pub(super) fn route(world: &mut World, call: &Call, zone: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["servers"]) => server::list(world, call, zone),
        ("POST", ["servers"]) => server::create(world, call, zone),
        ("GET", ["servers", id]) => server::get(world, zone, id),
        ("PATCH", ["servers", id]) => server::update(world, call, zone, id),
        ("DELETE", ["servers", id]) => server::delete(world, zone, id),
        ("POST", ["servers", id, "reboot"]) => server::reboot(world, zone, id),
        ("POST", ["servers", id, "reinstall"]) => server::reinstall(world, call, zone, id),
        ("GET", ["os"]) => catalogue::list_os(world, call),
        ("GET", ["os", id]) => catalogue::get_os(world, id),
        ("GET", ["server-types"]) => catalogue::list_types(world),
        ("GET", ["server-type", name]) => catalogue::get_type(world, name),
        // Private networks of Apple silicon servers are not simulated: there are none (recorded as an empty list).
        ("GET", ["server-private-networks"]) => {
            Ok(Answer::ok(&json!({"server_private_networks": [], "total_count": 0})))
        }
        _ => Err(Refusal::unknown_path()),
    }
}
