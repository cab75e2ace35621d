//! Block Storage API v1: volumes that outlive their servers.

use http::StatusCode;
use serde_json::{Value, json};

use super::endpoint::{Outcome, fits, method, part_of, within};
use super::tag_filter::TagFilter;
use crate::answer::Answer;
use crate::call::Call;
use crate::paging;
use crate::refusal::{BadArgument, Reason, Refusal};
use crate::world::{BlockSnapshot, BlockStatus, BlockUpdate, BlockVolume, Event, World, sorted};

pub(super) fn route(world: &mut World, call: &Call, zone: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["volume-types"]) => volume_types(call),
        ("GET", ["volumes"]) => list(world, call, zone),
        ("POST", ["volumes"]) => create(world, call, zone),
        ("GET", ["volumes", id]) => get(world, zone, id),
        ("PATCH", ["volumes", id]) => update(world, call, zone, id),
        ("DELETE", ["volumes", id]) => delete(world, zone, id),
        ("GET", ["snapshots"]) => list_snapshots(world, call, zone),
        ("POST", ["snapshots"]) => create_snapshot(world, call, zone),
        ("GET", ["snapshots", id]) => get_snapshot(world, zone, id),
        ("DELETE", ["snapshots", id]) => delete_snapshot(world, zone, id),
        _ => Err(Refusal::unknown_path()),
    }
}

fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a BlockVolume, Refusal> {
    world.block_volumes.get(id).filter(|volume| volume.zone == zone).ok_or_else(|| Refusal::not_found("volume", id))
}

fn answer(world: &World, id: &str) -> Value {
    world.block_volumes.get(id).map(|volume| world.show_block_volume(volume)).into()
}

// Assumption: names and fields are the SDK's, prices are invented.
fn volume_types(call: &Call) -> Outcome {
    let kind = |name: &str, iops: u64| {
        json!({
            "type": name,
            "pricing": {"currency_code": "EUR", "units": 0, "nanos": 118_000},
            "snapshot_pricing": {"currency_code": "EUR", "units": 0, "nanos": 44_000},
            "specs": {"perf_iops": iops, "class": "sbs"},
        })
    };
    paging::newer_list(call, "volume_types", vec![kind("sbs_5k", 5_000), kind("sbs_15k", 15_000)])
}

fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::any(world, call);
    let ids = call.repeated("volume_ids");
    let volumes = world.block_volumes.values().filter(|volume| {
        volume.zone == zone
            && world.lists(&volume.id, volume.created)
            && fits(call.parameter("project_id"), &volume.project)
            && call.parameter("organization_id").is_none_or(|wanted| wanted == world.organization_of(&volume.project))
            && part_of(call.parameter("name"), &volume.name)
            && call
                .parameter("product_resource_id")
                .is_none_or(|server| volume.references.iter().any(|reference| reference.server == server))
            && (ids.is_empty() || ids.contains(&volume.id.as_str()))
            && tags.fits(&volume.tags)
    });
    let newest_first = match call.parameter("order_by") {
        None | Some("created_at_asc" | "name_asc") => false,
        Some("created_at_desc" | "name_desc") => true,
        Some(_) => return Err(Refusal::invalid("order_by")),
    };
    let by_name = call.parameter("order_by").is_some_and(|order| order.starts_with("name"));
    let volumes = sorted(volumes, newest_first, |volume| {
        (if by_name { volume.name.clone() } else { String::new() }, volume.created)
    });
    paging::newer_list_of(call, "volumes", volumes, |volume| world.show_block_volume(volume))
}

/// 200, not 201, and no `Location` (recorded).
fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    let iops = match fields.number("perf_iops")?.unwrap_or(5_000) {
        iops @ (5_000 | 15_000) => iops,
        _ => return Err(Refusal::invalid("perf_iops")),
    };
    let (size, parent) = match (fields.object("from_empty")?, fields.object("from_snapshot")?) {
        (Some(empty), None) => (empty.number("size")?, None),
        (None, Some(from)) => {
            let id = from.required_text("snapshot_id")?;
            let least = find_snapshot(world, zone, &id)?.size;
            let size = from.number("size")?.unwrap_or(least);
            if size < least {
                // Recorded: 412 resource_not_usable. The help text was not kept.
                let help = "volume size must not be smaller than the snapshot's";
                return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "resource_not_usable", help));
            }
            (Some(size), Some(id))
        }
        _ => {
            return Err(Refusal::invalid_arguments(&[BadArgument::new(
                "from_empty",
                Reason::Required,
                "one of from_empty and from_snapshot is required",
            )]));
        }
    };
    let Some(size) = size.filter(|size| *size > 0) else {
        return Err(Refusal::invalid_arguments(&[BadArgument::missing("size")]));
    };
    let tags = fields.texts("tags")?.unwrap_or_default();
    let name = fields.text("name")?;
    within(world.options.quotas.block_volumes, "SbsVolumes", world.block_volumes.len())?;
    let id = world.random.id();
    let created = world.stamp();
    let volume = BlockVolume {
        id: id.clone(),
        zone: zone.to_owned(),
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("volume-{}", &id[..8])),
        size,
        iops,
        project,
        created,
        updated: created,
        references: Vec::new(),
        parent_snapshot: parent,
        status: BlockStatus::Creating,
        updating: None,
        tags,
        last_detached: None,
    };
    world.block_volumes.insert(id.clone(), volume);
    let delay = world.options.durations.block_create;
    world.after(delay, Event::BlockVolumeReady { id: id.clone() });
    Ok(Answer::ok(&answer(world, &id)))
}

fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

/// Name and tags change at once, size and speed after a while in `updating` (recorded); what is as it was, not at all.
// Assumption: one change of size or speed in the middle of another is taken, and all are over when the first one is.
fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let volume = find(world, zone, id)?;
    let current = volume.updating.unwrap_or(BlockUpdate { size: volume.size, iops: volume.iops });
    let fields = call.fields()?;
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let (size, iops) = (fields.number("size")?, fields.number("perf_iops")?);
    if size.is_some_and(|size| size < current.size) {
        return Err(Refusal::invalid_argument("size", Reason::Constraint, "a volume cannot be made smaller"));
    }
    if iops.is_some_and(|iops| iops != 5_000 && iops != 15_000) {
        return Err(Refusal::invalid("perf_iops"));
    }
    let wanted = BlockUpdate { size: size.unwrap_or(current.size), iops: iops.unwrap_or(current.iops) };
    let stamp = world.stamp();
    if let Some(volume) = world.block_volumes.get_mut(id) {
        volume.updated = stamp;
        volume.name = name.unwrap_or_else(|| volume.name.clone());
        volume.tags = tags.unwrap_or_else(|| volume.tags.clone());
        if wanted != current {
            volume.updating = Some(wanted);
            let delay = world.options.durations.block_update;
            world.after(delay, Event::BlockVolumeUpdated { id: id.to_owned() });
        }
    }
    Ok(Answer::ok(&answer(world, id)))
}

fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    if !find(world, zone, id)?.references.is_empty() {
        // Assumption: deleting a volume in use was not recorded; status and precondition are those of other products.
        let help = "Volume is currently in use, deletion is not permitted.";
        return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "resource_still_in_use", help));
    }
    world.block_volumes.remove(id);
    Ok(Answer::no_content())
}

fn find_snapshot<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a BlockSnapshot, Refusal> {
    world
        .block_snapshots
        .get(id)
        .filter(|snapshot| snapshot.zone == zone)
        .ok_or_else(|| Refusal::not_found("snapshot", id))
}

fn list_snapshots(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::any(world, call);
    let snapshots = world.block_snapshots.values().filter(|snapshot| {
        snapshot.zone == zone
            && world.lists(&snapshot.id, snapshot.created)
            && fits(call.parameter("project_id"), &snapshot.project)
            && part_of(call.parameter("name"), &snapshot.name)
            && call.parameter("volume_id").is_none_or(|volume| snapshot.parent_volume.as_deref() == Some(volume))
            && tags.fits(&snapshot.tags)
    });
    let snapshots = sorted(snapshots, false, |snapshot| snapshot.created);
    let views = snapshots.into_iter().map(|snapshot| world.show_block_snapshot(snapshot)).collect();
    paging::newer_list(call, "snapshots", views)
}

fn create_snapshot(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let volume = fields.required_text("volume_id")?;
    let owner = find(world, zone, &volume)?.project.clone();
    let project = fields.text("project_id")?.unwrap_or(owner);
    let name = fields.text("name")?.unwrap_or_else(|| "snapshot".to_owned());
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = world.random.id();
    add_snapshot(world, &id, zone, Some(volume), &name, &project, tags);
    Ok(Answer::ok(&world.block_snapshots.get(&id).map(|snapshot| world.show_block_snapshot(snapshot)).into()))
}

/// Takes a snapshot of a Block Storage volume; it is ready after a while.
pub(super) fn add_snapshot(
    world: &mut World,
    id: &str,
    zone: &str,
    parent: Option<String>,
    name: &str,
    project: &str,
    tags: Vec<String>,
) {
    let created = world.stamp();
    let size = parent.as_ref().and_then(|id| world.block_volumes.get(id)).map_or(0, |volume| volume.size);
    let snapshot = BlockSnapshot {
        id: id.to_owned(),
        zone: zone.to_owned(),
        name: name.to_owned(),
        size,
        project: project.to_owned(),
        parent_volume: parent,
        tags,
        created,
        ready: false,
    };
    world.block_snapshots.insert(id.to_owned(), snapshot);
    let delay = world.options.durations.snapshot;
    world.after(delay, Event::SnapshotReady { id: id.to_owned() });
}

fn get_snapshot(world: &World, zone: &str, id: &str) -> Outcome {
    let snapshot = find_snapshot(world, zone, id)?;
    Ok(Answer::ok(&world.show_block_snapshot(snapshot)))
}

fn delete_snapshot(world: &mut World, zone: &str, id: &str) -> Outcome {
    find_snapshot(world, zone, id)?;
    if world.block_volumes.values().any(|volume| volume.parent_snapshot.as_deref() == Some(id)) {
        // Recorded, with these words.
        let help = "Snapshot is currently in use, deletion is not permitted.";
        return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "protected_resource", help));
    }
    world.block_snapshots.remove(id);
    Ok(Answer::no_content())
}
