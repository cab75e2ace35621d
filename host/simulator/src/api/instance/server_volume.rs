//! The volumes of servers: chosen at creation, attached and detached later.

use std::collections::{BTreeMap, BTreeSet};

use super::checks::precondition;
use super::server::{self, WantedVolumes};
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, within};
use crate::call::{Call, Fields};
use crate::catalogue::ServerType;
use crate::refusal::{Reason, Refusal};
use crate::world::{
    AttachedVolume, BlockStatus, BlockVolume, Image, Reference, ReferenceStatus, RootVolume, Volume, VolumeKind, World,
};

/// A volume that a new server is to have.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// One that exists.
    Existing(AttachedVolume),
    /// A new one in Block Storage, the root from the image or empty.
    Block { size: u64, name: Option<String>, boot: bool, from_image: bool },
    /// A new one of the Instance API.
    Local { volume_type: String, size: u64, name: Option<String>, boot: bool, from_image: bool },
}

/// Reads the volumes of a creation. Volume 0 is the root; without one it is taken from the image.
pub(super) fn wanted(
    world: &World,
    zone: &str,
    fields: &Fields,
    image: Option<&Image>,
    kind: &ServerType,
) -> Result<WantedVolumes, Refusal> {
    let mut templates = server::numbered(fields)?.unwrap_or_default();
    if image.is_some() {
        templates.entry(0).or_insert_with(Fields::empty);
    }
    let mut wanted = WantedVolumes::new();
    for (number, template) in templates {
        let root = number == 0 && image.is_some();
        wanted.insert(number, choose(world, zone, &template, root.then_some(image).flatten())?);
    }
    each_once(
        world,
        wanted.values().filter_map(|volume| match volume {
            Wanted::Existing(volume) => Some(volume.id.as_str()),
            _ => None,
        }),
    )?;
    let local: u64 = wanted
        .values()
        .map(|volume| match volume {
            Wanted::Local { volume_type, size, .. } if volume_type == "l_ssd" => *size,
            _ => 0,
        })
        .sum();
    if local > kind.local_storage {
        // Assumption: the words of this refusal were not recorded; the limit is the type's `volumes_constraint`.
        let help = format!("{} takes at most {} bytes of l_ssd, {local} were asked for", kind.name, kind.local_storage);
        return Err(Refusal::invalid_argument("volumes", Reason::Constraint, help));
    }
    let scratch = wanted.values().filter_map(|volume| match volume {
        Wanted::Local { volume_type, size, .. } if volume_type == "scratch" => Some(*size),
        _ => None,
    });
    let (largest, most) = kind.scratch;
    if scratch.clone().count() as u64 > most || scratch.clone().sum::<u64>() > largest {
        // Assumption: as for l_ssd; the limits are the type's `scratch_storage_max_...`.
        let help = format!("{} takes at most {most} volumes of scratch storage, of {largest} bytes in all", kind.name);
        return Err(Refusal::invalid_argument("volumes", Reason::Constraint, help));
    }
    Ok(wanted)
}

fn choose(world: &World, zone: &str, template: &Fields, image: Option<&Image>) -> Result<Wanted, Refusal> {
    let boot = template.flag("boot")?.unwrap_or(false);
    let name = template.text("name")?;
    if let Some(id) = template.text("id")? {
        let kind = attachable(world, zone, &id)?;
        return Ok(Wanted::Existing(AttachedVolume { id, kind, boot }));
    }
    let (image_type, image_size) = match image.map(|image| &image.root) {
        Some(RootVolume::Local { size, .. }) => ("l_ssd", *size),
        Some(RootVolume::Block { size, .. }) => ("sbs_volume", *size),
        None => ("l_ssd", 0),
    };
    let volume_type = template.text("volume_type")?.unwrap_or_else(|| image_type.to_owned());
    // Scaleway's Python SDK writes a size that was not given as 0.
    let size = template.number("size")?.filter(|size| *size > 0).unwrap_or(image_size);
    if size == 0 {
        return Err(Refusal::invalid_argument("size", Reason::Required, "required key not provided"));
    }
    if size % 512 != 0 {
        // The SDK's words for sizes: multiples of 512.
        return Err(Refusal::invalid_argument("size", Reason::Constraint, "size must be a multiple of 512"));
    }
    let from_image = image.is_some();
    match volume_type.as_str() {
        "sbs_volume" | "sbs_snapshot" => Ok(Wanted::Block { size, name, boot, from_image }),
        "l_ssd" | "scratch" => Ok(Wanted::Local { volume_type, size, name, boot, from_image }),
        _ => Err(Refusal::invalid("volume_type")),
    }
}

/// Whether a volume exists and no server has it.
fn attachable(world: &World, zone: &str, id: &str) -> Result<VolumeKind, Refusal> {
    let (kind, in_use) = kind_of(world, zone, id)?;
    if in_use {
        // Assumption: the refusal was not recorded; the precondition's name is real.
        return Err(precondition(world, "resource_still_in_use", "volume is already attached to a server"));
    }
    Ok(kind)
}

fn kind_of(world: &World, zone: &str, id: &str) -> Result<(VolumeKind, bool), Refusal> {
    if let Some(volume) = world.volumes.get(id).filter(|volume| volume.zone == zone) {
        return Ok((VolumeKind::Local, volume.server.is_some()));
    }
    if let Some(volume) = world.block_volumes.get(id).filter(|volume| volume.zone == zone) {
        return Ok((VolumeKind::Block, !volume.references.is_empty()));
    }
    Err(Refusal::not_found("instance_volume", id))
}

pub(super) fn within_quotas(world: &World, wanted: &WantedVolumes) -> Result<(), Refusal> {
    let quotas = world.options.quotas;
    let mut local = world.volumes.len();
    let mut block = world.block_volumes.len();
    for volume in wanted.values() {
        match volume {
            Wanted::Existing(_) => {}
            Wanted::Block { .. } => {
                within(quotas.block_volumes, "SbsVolumes", block)?;
                block += 1;
            }
            Wanted::Local { .. } => {
                within(quotas.volumes, "ComputeVolumes", local)?;
                local += 1;
            }
        }
    }
    Ok(())
}

/// Makes or takes a volume and attaches it to a new server.
pub(super) fn provide(world: &mut World, server: &str, number: u32, wanted: Wanted, image: Option<&Image>) {
    let Some((zone, project, organization)) = world
        .servers
        .get(server)
        .map(|server| (server.zone.clone(), server.project.clone(), server.organization.clone()))
    else {
        return;
    };
    let image_name = image.map_or("volume", |image| image.name.as_str()).to_owned();
    let attached = match wanted {
        Wanted::Existing(volume) => volume,
        Wanted::Block { size, name, boot, from_image } => {
            let id = world.random.id();
            let created = world.stamp();
            let parent_snapshot = match image.filter(|_| from_image).map(|image| &image.root) {
                Some(RootVolume::Block { snapshot, .. }) => Some(snapshot.clone()),
                _ => None,
            };
            let volume = BlockVolume {
                id: id.clone(),
                zone,
                name: name.unwrap_or_else(|| format!("{image_name}_sbs_volume_{number}")),
                size,
                iops: 5_000,
                project,
                created,
                updated: created,
                references: Vec::new(),
                parent_snapshot,
                // Recorded: a root volume is in use and attached at once.
                status: BlockStatus::Available,
                updating: None,
                tags: Vec::new(),
                last_detached: None,
            };
            world.block_volumes.insert(id.clone(), volume);
            AttachedVolume { id, kind: VolumeKind::Block, boot }
        }
        Wanted::Local { volume_type, size, name, boot, from_image } => {
            let id = world.random.id();
            let created = world.stamp();
            let name = name.unwrap_or_else(|| if from_image { image_name } else { format!("vol-{}", &id[..8]) });
            let volume = Volume {
                id: id.clone(),
                zone,
                name,
                volume_type,
                size,
                organization,
                project,
                server: None,
                tags: Vec::new(),
                created,
                modified: created,
            };
            world.volumes.insert(id.clone(), volume);
            AttachedVolume { id, kind: VolumeKind::Local, boot }
        }
    };
    put_on(world, server, number, attached);
}

fn put_on(world: &mut World, server: &str, number: u32, volume: AttachedVolume) {
    let stamp = world.stamp();
    match volume.kind {
        VolumeKind::Local => {
            if let Some(entry) = world.volumes.get_mut(&volume.id) {
                entry.server = Some(server.to_owned());
                entry.modified = stamp;
            }
        }
        VolumeKind::Block => {
            let reference = Reference {
                id: world.random.id(),
                server: server.to_owned(),
                created: stamp,
                status: ReferenceStatus::Attached,
            };
            if let Some(entry) = world.block_volumes.get_mut(&volume.id) {
                entry.references.push(reference);
                entry.updated = stamp;
            }
        }
    }
    if let Some(server) = world.servers.get_mut(server) {
        server.volumes.insert(number, volume);
        server.modified = stamp;
    }
}

fn take_off(world: &mut World, server: &str, number: u32) {
    let stamp = world.stamp();
    let Some(volume) = world.servers.get_mut(server).and_then(|server| {
        server.modified = stamp;
        server.volumes.remove(&number)
    }) else {
        return;
    };
    match volume.kind {
        VolumeKind::Local => {
            if let Some(entry) = world.volumes.get_mut(&volume.id) {
                entry.server = None;
                entry.modified = stamp;
            }
        }
        VolumeKind::Block => world.begin_block_detach(&volume.id, server),
    }
}

pub(super) fn attach(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let number = server::find(world, zone, id)?.volumes.keys().next_back().map_or(0, |last| last + 1);
    let fields = call.fields()?;
    let volume = fields.required_text("volume_id")?;
    let boot = fields.flag("boot")?.unwrap_or(false);
    let kind = attachable(world, zone, &volume)?;
    put_on(world, id, number, AttachedVolume { id: volume, kind, boot });
    Ok(Answer::ok(&server::answer(world, id)))
}

pub(super) fn detach(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    let volume = call.fields()?.required_text("volume_id")?;
    let Some(number) = server.volumes.iter().find(|(_, attached)| attached.id == volume).map(|(number, _)| *number)
    else {
        // Recorded, with these words.
        let help = format!("Volume {volume} is not attached to this server");
        return Err(Refusal::invalid_argument("volume_id", Reason::Constraint, help));
    };
    take_off(world, id, number);
    Ok(Answer::ok(&server::answer(world, id)))
}

/// Reads the volumes of a PATCH: the whole set that the server is to have. Names in it change nothing (recorded).
pub(super) fn wanted_set(
    world: &World,
    zone: &str,
    server: &str,
    fields: &Fields,
) -> Result<Option<BTreeMap<u32, AttachedVolume>>, Refusal> {
    let Some(templates) = server::numbered(fields)? else { return Ok(None) };
    let mut set = BTreeMap::new();
    for (number, template) in templates {
        let Some(id) = template.text("id")? else {
            return Err(Refusal::invalid_argument(
                &format!("volumes.{number}.id"),
                Reason::Required,
                "required key not provided",
            ));
        };
        let (kind, in_use) = kind_of(world, zone, &id)?;
        let ours =
            world.servers.get(server).is_some_and(|server| server.volumes.values().any(|volume| volume.id == id));
        if in_use && !ours {
            return Err(precondition(world, "resource_still_in_use", "volume is already attached to a server"));
        }
        let boot = template.flag("boot")?.unwrap_or(false);
        set.insert(number, AttachedVolume { id, kind, boot });
    }
    each_once(world, set.values().map(|volume| volume.id.as_str()))?;
    Ok(Some(set))
}

/// A volume has one place on one server.
fn each_once<'a>(world: &World, ids: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            // Assumption: as for a volume of another server.
            return Err(precondition(world, "resource_still_in_use", "volume is already attached to a server"));
        }
    }
    Ok(())
}

pub(super) fn replace(world: &mut World, server: &str, wanted: BTreeMap<u32, AttachedVolume>) {
    let current = world.servers.get(server).map(|server| server.volumes.clone()).unwrap_or_default();
    for (number, volume) in &current {
        if !wanted.values().any(|wanted| wanted.id == volume.id) {
            take_off(world, server, *number);
        }
    }
    for (number, volume) in &wanted {
        if !current.values().any(|current| current.id == volume.id) {
            put_on(world, server, *number, volume.clone());
        }
    }
    if let Some(server) = world.servers.get_mut(server) {
        server.volumes = wanted;
    }
}
