//! Marketplace API v2: which image a label means in a zone.

use serde_json::{Value, json};

use super::endpoint::{Outcome, fits, method};
use crate::answer::Answer;
use crate::call::Call;
use crate::catalogue::{LABELS, LocalImage, ZONES};
use crate::paging;
use crate::refusal::{BadArgument, Refusal};
use crate::world::World;

pub(super) fn route(world: &World, call: &Call, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["images"]) => images(world, call),
        ("GET", ["local-images"]) => local_images(world, call),
        ("GET", ["local-images", id]) => local_image(world, id),
        _ => Err(Refusal::unknown_path()),
    }
}

fn show(image: &LocalImage) -> Value {
    json!({
        "id": image.id,
        "arch": image.arch,
        "zone": image.zone,
        "compatible_commercial_types": image.compatible,
        "label": image.label,
        "type": image.kind,
    })
}

/// The SDK's fields; no recording has them (assumption: marketplace-images).
fn images(world: &World, call: &Call) -> Outcome {
    let images = world.public_images.offers().map(|(id, label, name)| {
        json!({ "id": id, "label": label, "name": name, "description": name, "categories": ["distribution"] })
    });
    paging::newer_list(call, "images", images.collect())
}

fn local_images(world: &World, call: &Call) -> Outcome {
    let Some(label) = call.parameter("image_label") else {
        // By version or image id [SDK]; not simulated, labels are what our callers use.
        return Err(Refusal::invalid_arguments(&[BadArgument::missing("image_label")]));
    };
    if !LABELS.contains(&label) {
        // Recorded: the label stands where the id would.
        return Err(Refusal::not_found("MarketplaceImage", label));
    }
    let zones = ZONES.into_iter().filter(|zone| fits(call.parameter("zone"), zone));
    let images = zones
        .flat_map(|zone| world.public_images.in_zone(zone))
        .map(|public| &public.local)
        .filter(|image| image.label == label)
        .filter(|image| fits(call.parameter("type"), image.kind))
        .filter(|image| fits(call.parameter("arch"), image.arch));
    paging::newer_list(call, "local_images", images.map(show).collect())
}

fn local_image(world: &World, id: &str) -> Outcome {
    let mut images = ZONES.into_iter().flat_map(|zone| world.public_images.in_zone(zone)).map(|public| &public.local);
    let found = images.find(|image| image.id == id);
    found.map(|image| Answer::ok(&show(image))).ok_or_else(|| Refusal::not_found("MarketplaceLocalImage", id))
}
