//! Product catalog API v2alpha1: what Scaleway's own tools read prices from (`scw instance server-type list`).
//!
//! Assumption: shapes are the SDK's, nothing was recorded. Instances alone are in it; what is asked for of any other
//! product is an empty list.

use serde_json::Value;

use super::endpoint::{Outcome, fits, method};
use crate::call::Call;
use crate::catalogue::{ZONES, server_types};
use crate::paging;
use crate::refusal::Refusal;
use crate::world::World;

const PRODUCTS: [&str; 8] = [
    "unknown_product_type",
    "instance",
    "apple_silicon",
    "elastic_metal",
    "dedibox",
    "block_storage",
    "object_storage",
    "managed_inference",
];
/// What every simulated product is.
const STATUS: &str = "general_availability";

pub(super) fn route(world: &World, call: &Call, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["public-catalog", "products"]) => products(world, call),
        _ => Err(Refusal::unknown_path()),
    }
}

fn products(world: &World, call: &Call) -> Outcome {
    let kinds = call.repeated("product_types");
    if kinds.iter().any(|kind| !PRODUCTS.contains(kind)) {
        return Err(Refusal::invalid("product_types"));
    }
    let statuses = call.repeated("status");
    let wanted = (kinds.is_empty() || kinds.contains(&"instance"))
        && (statuses.is_empty() || statuses.contains(&STATUS))
        // Instances are the products of a zone.
        && ["global", "region", "datacenter"].iter().all(|place| call.parameter(place).is_none());
    let zones = ZONES.into_iter().filter(|zone| wanted && fits(call.parameter("zone"), zone));
    let kinds = zones.flat_map(|zone| server_types(zone).iter().map(move |kind| (zone, kind))).collect();
    paging::catalogue_list_of(call, "products", kinds, |(zone, kind)| -> Value {
        kind.product(zone, world.hourly_price(zone, kind))
    })
}
