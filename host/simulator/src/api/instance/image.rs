//! `/images`: the catalogue's and those made by `backup`.

use serde_json::json;

use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, part_of};
use crate::call::Call;
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{World, sorted};

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let public = world.public_images.in_zone(zone).iter().map(|public| public.image.clone());
    let own = world.images.values().filter(|image| image.zone == zone).cloned();
    let chosen = public.chain(own).filter(|image| {
        part_of(call.parameter("name"), &image.name)
            && fits(call.parameter("arch"), &image.arch)
            && fits(call.parameter("project"), &image.project)
            && call.parameter("public").is_none_or(|public| (public == "true") == image.public)
    });
    let images = sorted(chosen, true, |image| image.created);
    paging::instance_list(call, "images", images.iter().map(|image| world.show_image(image)).collect())
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    let image = world.image(zone, id).ok_or_else(|| Refusal::not_found("instance_image", id))?;
    Ok(Answer::ok(&json!({"image": world.show_image(&image)})))
}

// Assumption: the fields are the SDK's, and what is absent stays; no change of an image was recorded.
pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let image = world.image(zone, id).ok_or_else(|| Refusal::not_found("instance_image", id))?;
    if image.public {
        // Assumption: a public image is somebody else's.
        return Err(Refusal::permissions_denied("write", "compute_images"));
    }
    let fields = call.fields()?;
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let modified = world.stamp();
    if let Some(image) = world.images.get_mut(id) {
        image.name = name.unwrap_or_else(|| image.name.clone());
        image.tags = tags.unwrap_or_else(|| image.tags.clone());
        image.modified = modified;
    }
    get(world, zone, id)
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    let image = world.image(zone, id).ok_or_else(|| Refusal::not_found("instance_image", id))?;
    if image.public {
        // Assumption: a public image is somebody else's.
        return Err(Refusal::permissions_denied("delete", "compute_images"));
    }
    world.images.remove(id);
    Ok(Answer::no_content())
}
