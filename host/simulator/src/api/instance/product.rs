//! `/products`: what can be bought.

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::endpoint::Outcome;
use crate::call::Call;
use crate::catalogue;
use crate::paging;
use crate::world::World;

pub(super) fn servers(world: &World, call: &Call, zone: &str) -> Outcome {
    let view = |kind: &catalogue::ServerType| kind.view(world.hourly_price(zone, kind));
    let types = catalogue::server_types(zone).iter().map(|kind| (kind.name.clone(), view(kind))).collect();
    paging::instance_map(call, "servers", types)
}

// Assumption: paged as the list of types is; no recording exists.
pub(super) fn availability(world: &World, call: &Call, zone: &str) -> Outcome {
    let types = catalogue::server_types(zone)
        .iter()
        .map(|kind| {
            let stock = world.availability(zone, &kind.name);
            (kind.name.clone(), json!({"availability": stock.as_str()}))
        })
        .collect();
    paging::instance_map(call, "servers", types)
}

pub(super) fn volumes() -> Outcome {
    let kind = |name: &str, largest: u64, snapshot: bool| {
        json!({
            "display_name": name,
            "capabilities": {"snapshot": snapshot},
            "constraints": {"min": 1_000_000_000_u64, "max": largest},
        })
    };
    let mut volumes = Map::<String, Value>::new();
    volumes.insert("l_ssd".to_owned(), kind("Local SSD", 800_000_000_000, true));
    volumes.insert("scratch".to_owned(), kind("Scratch", 24_000_000_000_000, false));
    Ok(Answer::ok(&json!({"volumes": volumes})))
}
