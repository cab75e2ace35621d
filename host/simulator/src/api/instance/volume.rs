//! `/volumes` and `/snapshots`: local storage. Block Storage volumes are not seen here (recorded: 404).

use serde_json::{Value, json};

use super::checks::{owner, precondition};
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, part_of, within};
use crate::api::tag_filter::TagFilter;
use crate::call::Call;
use crate::paging;
use crate::refusal::{BadArgument, Reason, Refusal};
use crate::world::{Event, Snapshot, Volume, World, sorted};

fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a Volume, Refusal> {
    world.volumes.get(id).filter(|volume| volume.zone == zone).ok_or_else(|| Refusal::not_found("instance_volume", id))
}

fn answer(world: &World, id: &str) -> Value {
    json!({"volume": world.volumes.get(id).map(|volume| world.show_volume(volume))})
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let volumes = world.volumes.values().filter(|volume| {
        volume.zone == zone
            && world.lists(&volume.id, volume.created)
            && fits(call.parameter("project"), &volume.project)
            && fits(call.parameter("organization"), &volume.organization)
            && fits(call.parameter("volume_type"), &volume.volume_type)
            && part_of(call.parameter("name"), &volume.name)
            && tags.fits(&volume.tags)
    });
    let volumes = sorted(volumes, true, |volume| volume.created);
    paging::instance_list(call, "volumes", volumes.into_iter().map(|volume| world.show_volume(volume)).collect())
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let (project, organization) = owner(world, &fields)?;
    let volume_type = fields.text("volume_type")?.unwrap_or_else(|| "l_ssd".to_owned());
    if !matches!(volume_type.as_str(), "l_ssd" | "scratch") {
        // b_ssd is gone (migrated to Block Storage).
        return Err(Refusal::invalid("volume_type"));
    }
    let base = fields.text("base_snapshot")?;
    let base_size = match &base {
        None => None,
        Some(id) => Some(find_snapshot(world, zone, id)?.size),
    };
    let size = fields.number("size")?.or(base_size);
    let name = fields.text("name")?.filter(|name| !name.is_empty());
    let mut missing = Vec::new();
    if name.is_none() {
        missing.push(BadArgument::missing("name"));
    }
    if size.is_none() {
        missing.push(BadArgument::missing("size"));
    }
    let (Some(name), Some(size)) = (name, size) else { return Err(Refusal::invalid_arguments(&missing)) };
    if size == 0 || size % 512 != 0 {
        return Err(Refusal::invalid_argument("size", Reason::Constraint, "size must be a multiple of 512"));
    }
    let tags = fields.texts("tags")?.unwrap_or_default();
    within(world.options.quotas.volumes, "ComputeVolumes", world.volumes.len())?;
    let id = world.random.id();
    let created = world.stamp();
    let volume = Volume {
        id: id.clone(),
        zone: zone.to_owned(),
        name,
        volume_type,
        size,
        organization,
        project,
        server: None,
        tags,
        created,
        modified: created,
    };
    world.volumes.insert(id.clone(), volume);
    Ok(Answer::created(&call.path, &id, &answer(world, &id)))
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let current = find(world, zone, id)?.size;
    let fields = call.fields()?;
    let (name, tags, size) = (fields.text("name")?, fields.texts("tags")?, fields.number("size")?);
    if size.is_some_and(|size| size < current) {
        // Assumption: shrinking was not recorded.
        return Err(Refusal::invalid_argument("size", Reason::Constraint, "a volume cannot be made smaller"));
    }
    let stamp = world.stamp();
    if let Some(volume) = world.volumes.get_mut(id) {
        volume.modified = stamp;
        volume.name = name.unwrap_or_else(|| volume.name.clone());
        volume.tags = tags.unwrap_or_else(|| volume.tags.clone());
        volume.size = size.unwrap_or(volume.size);
    }
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    if find(world, zone, id)?.server.is_some() {
        // Assumption: no recording deletes an attached volume; the precondition's name is real.
        return Err(precondition(world, "resource_still_in_use", "volume is attached to a server"));
    }
    world.volumes.remove(id);
    Ok(Answer::no_content())
}

fn find_snapshot<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a Snapshot, Refusal> {
    world
        .snapshots
        .get(id)
        .filter(|snapshot| snapshot.zone == zone)
        .ok_or_else(|| Refusal::not_found("instance_snapshot", id))
}

pub(super) fn list_snapshots(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let snapshots = world.snapshots.values().filter(|snapshot| {
        snapshot.zone == zone
            && world.lists(&snapshot.id, snapshot.created)
            && fits(call.parameter("project"), &snapshot.project)
            && part_of(call.parameter("name"), &snapshot.name)
            && tags.fits(&snapshot.tags)
    });
    let snapshots = sorted(snapshots, true, |snapshot| snapshot.created);
    let views = snapshots.into_iter().map(|snapshot| world.show_snapshot(snapshot)).collect();
    paging::instance_list(call, "snapshots", views)
}

pub(super) fn create_snapshot(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let volume = fields.required_text("volume_id")?;
    find(world, zone, &volume)?;
    let name = fields.text("name")?.unwrap_or_else(|| "snapshot".to_owned());
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = world.random.id();
    add_snapshot(world, &id, zone, &volume, &name, tags);
    let view = world.snapshots.get(&id).map(|snapshot| world.show_snapshot(snapshot));
    Ok(Answer::created(&call.path, &id, &json!({"snapshot": view})))
}

/// Takes a snapshot of a local volume; it is ready after a while.
pub(super) fn add_snapshot(world: &mut World, id: &str, zone: &str, volume: &str, name: &str, tags: Vec<String>) {
    let created = world.stamp();
    let Some(volume) = world.volumes.get(volume) else { return };
    let snapshot = Snapshot {
        id: id.to_owned(),
        zone: zone.to_owned(),
        name: name.to_owned(),
        volume_type: volume.volume_type.clone(),
        size: volume.size,
        organization: volume.organization.clone(),
        project: volume.project.clone(),
        base_volume: Some((volume.id.clone(), volume.name.clone())),
        tags,
        created,
        ready: false,
    };
    world.snapshots.insert(id.to_owned(), snapshot);
    let delay = world.options.durations.snapshot;
    world.after(delay, Event::SnapshotReady { id: id.to_owned() });
}

pub(super) fn get_snapshot(world: &World, zone: &str, id: &str) -> Outcome {
    let snapshot = find_snapshot(world, zone, id)?;
    Ok(Answer::ok(&json!({"snapshot": world.show_snapshot(snapshot)})))
}

pub(super) fn delete_snapshot(world: &mut World, zone: &str, id: &str) -> Outcome {
    find_snapshot(world, zone, id)?;
    world.snapshots.remove(id);
    Ok(Answer::no_content())
}
