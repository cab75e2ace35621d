//! `/placement_groups` of API v1 and `/placement-groups` of v2alpha1: the same groups in two views.

use serde_json::{Value, json};

use super::checks::owner;
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, part_of};
use crate::api::tag_filter::TagFilter;
use crate::call::{Call, Fields};
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{PlacementGroup, Server, World, sorted};

pub(super) fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a PlacementGroup, Refusal> {
    world
        .placement_groups
        .get(id)
        .filter(|group| group.zone == zone)
        .ok_or_else(|| Refusal::not_found("instance_placement_group", id))
}

fn word(fields: &Fields, name: &str, known: [&str; 2]) -> Result<Option<String>, Refusal> {
    match fields.text(name)? {
        Some(word) if !known.contains(&word.as_str()) => Err(Refusal::invalid(name)),
        word => Ok(word),
    }
}

fn policy_mode(fields: &Fields) -> Result<Option<String>, Refusal> {
    word(fields, "policy_mode", ["optional", "enforced"])
}

fn policy_type(fields: &Fields) -> Result<Option<String>, Refusal> {
    word(fields, "policy_type", ["max_availability", "low_latency"])
}

fn add(world: &mut World, zone: &str, fields: &Fields, project: String) -> Result<String, Refusal> {
    let name = fields.required_text("name")?;
    let (mode, kind) = (policy_mode(fields)?, policy_type(fields)?);
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = world.random.id();
    let created = world.stamp();
    let group = PlacementGroup {
        id: id.clone(),
        zone: zone.to_owned(),
        name,
        organization: world.organization_of(&project),
        project,
        policy_mode: mode.unwrap_or_else(|| "optional".to_owned()),
        policy_type: kind.unwrap_or_else(|| "max_availability".to_owned()),
        tags,
        created,
        updated: created,
    };
    world.placement_groups.insert(id.clone(), group);
    Ok(id)
}

fn change(world: &mut World, zone: &str, id: &str, fields: &Fields) -> Result<(), Refusal> {
    find(world, zone, id)?;
    let mode = policy_mode(fields)?;
    // Recorded: Terraform sends `unknown_policy_type` for what it does not want to change.
    let unknown = fields.text("policy_type")?.is_some_and(|kind| kind == "unknown_policy_type");
    let kind = if unknown { None } else { policy_type(fields)? };
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let stamp = world.stamp();
    if let Some(group) = world.placement_groups.get_mut(id) {
        group.updated = stamp;
        group.name = name.unwrap_or_else(|| group.name.clone());
        group.tags = tags.unwrap_or_else(|| group.tags.clone());
        group.policy_mode = mode.unwrap_or_else(|| group.policy_mode.clone());
        group.policy_type = kind.unwrap_or_else(|| group.policy_type.clone());
    }
    Ok(())
}

fn answer(world: &World, id: &str) -> Value {
    json!({"placement_group": world.placement_groups.get(id).map(|group| world.show_placement_group(group))})
}

fn answer_v2(world: &World, id: &str) -> Value {
    world.placement_groups.get(id).map(|group| world.show_placement_group_v2(group)).into()
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let groups = world.placement_groups.values().filter(|group| {
        group.zone == zone
            && world.lists(&group.id, group.created)
            && fits(call.parameter("project"), &group.project)
            && fits(call.parameter("organization"), &group.organization)
            && part_of(call.parameter("name"), &group.name)
            && tags.fits(&group.tags)
    });
    let groups = sorted(groups, true, |group| group.created);
    let views = groups.into_iter().map(|group| world.show_placement_group(group)).collect();
    paging::instance_list(call, "placement_groups", views)
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let (project, _) = owner(world, &fields)?;
    let id = add(world, zone, &fields, project)?;
    Ok(Answer::created(&call.path, &id, &answer(world, &id)))
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    change(world, zone, id, &call.fields()?)?;
    Ok(Answer::ok(&answer(world, id)))
}

// Assumption: a group with servers can be deleted; they lose it. No recording shows the attempt.
pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    world.placement_groups.remove(id);
    let has_it = |server: &Server| server.placement_group.as_deref() == Some(id);
    world.servers.change_where(has_it, |server| server.placement_group = None);
    Ok(Answer::no_content())
}

pub(super) fn servers(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    let servers: Vec<Value> = world
        .servers
        .values()
        .filter(|server| server.placement_group.as_deref() == Some(id))
        .map(|server| json!({"id": server.id, "name": server.name, "policy_respected": true}))
        .collect();
    Ok(Answer::ok(&json!({"servers": servers})))
}

pub(super) fn list_v2(world: &World, call: &Call, zone: &str) -> Outcome {
    let groups = world.placement_groups.values().filter(|group| {
        group.zone == zone
            && world.lists(&group.id, group.created)
            && fits(call.parameter("project_id"), &group.project)
    });
    let groups = sorted(groups, false, |group| group.created);
    let views = groups.into_iter().map(|group| world.show_placement_group_v2(group)).collect();
    paging::newer_list(call, "placement_groups", views)
}

pub(super) fn create_v2(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    let id = add(world, zone, &fields, project)?;
    Ok(Answer::ok(&answer_v2(world, &id)))
}

pub(super) fn get_v2(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer_v2(world, id)))
}

pub(super) fn update_v2(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    change(world, zone, id, &call.fields()?)?;
    Ok(Answer::ok(&answer_v2(world, id)))
}
