//! `/security_groups` and their rules.

use serde_json::{Value, json};

use super::checks::owner;
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, part_of};
use crate::api::tag_filter::TagFilter;
use crate::call::{Call, Fields};
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{Rule, SecurityGroup, World, sorted};

pub(super) fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a SecurityGroup, Refusal> {
    world
        .security_groups
        .get(id)
        .filter(|group| group.zone == zone)
        .ok_or_else(|| Refusal::not_found("instance_security_group", id))
}

fn answer(world: &World, id: &str) -> Value {
    json!({"security_group": world.security_groups.get(id).map(|group| world.show_security_group(group))})
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let groups = world.security_groups.values().filter(|group| {
        group.zone == zone
            && world.lists(&group.id, group.created)
            && fits(call.parameter("project"), &group.project)
            && fits(call.parameter("organization"), &group.organization)
            && part_of(call.parameter("name"), &group.name)
            && call.parameter("project_default").is_none_or(|wanted| (wanted == "true") == group.project_default)
            && tags.fits(&group.tags)
    });
    let groups = sorted(groups, true, |group| group.created);
    let views = groups.into_iter().map(|group| world.show_security_group(group)).collect();
    paging::instance_list(call, "security_groups", views)
}

fn policy(fields: &Fields, name: &str) -> Result<Option<String>, Refusal> {
    match fields.text(name)? {
        Some(policy) if policy != "accept" && policy != "drop" => Err(Refusal::invalid(name)),
        policy => Ok(policy),
    }
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let (project, organization) = owner(world, &fields)?;
    let name = fields.required_text("name")?;
    let inbound = policy(&fields, "inbound_default_policy")?;
    let outbound = policy(&fields, "outbound_default_policy")?;
    let (stateful, enable, default) =
        (fields.flag("stateful")?, fields.flag("enable_default_security")?, fields.flag("project_default")?);
    let (description, tags) = (fields.text("description")?, fields.texts("tags")?.unwrap_or_default());
    let id = world.random.id();
    let created = world.stamp();
    let project_default = default.unwrap_or(false);
    if project_default {
        let of_project = |group: &SecurityGroup| group.zone == zone && group.project == project;
        world.security_groups.change_where(of_project, |group| group.project_default = false);
    }
    let group = SecurityGroup {
        id: id.clone(),
        zone: zone.to_owned(),
        name,
        description,
        organization,
        project,
        stateful: stateful.unwrap_or(true),
        inbound_default_policy: inbound.unwrap_or_else(|| "accept".to_owned()),
        outbound_default_policy: outbound.unwrap_or_else(|| "accept".to_owned()),
        project_default,
        enable_default_security: enable.unwrap_or(true),
        tags,
        created,
        modified: created,
        rules: Vec::new(),
    };
    world.security_groups.insert(id.clone(), group);
    Ok(Answer::created(&call.path, &id, &answer(world, &id)))
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    let fields = call.fields()?;
    let inbound = policy(&fields, "inbound_default_policy")?;
    let outbound = policy(&fields, "outbound_default_policy")?;
    let (name, description, tags) = (fields.text("name")?, fields.text("description")?, fields.texts("tags")?);
    let (stateful, enable) = (fields.flag("stateful")?, fields.flag("enable_default_security")?);
    let stamp = world.stamp();
    if let Some(group) = world.security_groups.get_mut(id) {
        group.modified = stamp;
        group.name = name.unwrap_or_else(|| group.name.clone());
        group.description = description.or_else(|| group.description.clone());
        group.tags = tags.unwrap_or_else(|| group.tags.clone());
        group.stateful = stateful.unwrap_or(group.stateful);
        group.enable_default_security = enable.unwrap_or(group.enable_default_security);
        group.inbound_default_policy = inbound.unwrap_or_else(|| group.inbound_default_policy.clone());
        group.outbound_default_policy = outbound.unwrap_or_else(|| group.outbound_default_policy.clone());
    }
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    if world.servers.values().any(|server| server.security_group == id) {
        // The SDK's own test body.
        return Err(Refusal::conflict("Group is in use. You cannot delete it."));
    }
    world.security_groups.remove(id);
    Ok(Answer::no_content())
}

fn show_rule(group: &SecurityGroup, rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "protocol": rule.protocol,
        "direction": rule.direction,
        "action": rule.action,
        "ip_range": rule.ip_range,
        "dest_port_from": rule.dest_port_from,
        "dest_port_to": rule.dest_port_to,
        "position": rule.position,
        "editable": rule.editable,
        "zone": group.zone,
    })
}

pub(super) fn list_rules(world: &World, call: &Call, zone: &str, id: &str) -> Outcome {
    let group = find(world, zone, id)?;
    paging::instance_list(call, "rules", group.rules.iter().map(|rule| show_rule(group, rule)).collect())
}

pub(super) fn create_rule(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let position = find(world, zone, id)?.rules.len() as u64 + 1;
    let fields = call.fields()?;
    let word = |name: &str, known: &[&str], default: &str| match fields.text(name)? {
        None => Ok(default.to_owned()),
        Some(word) if known.contains(&word.as_str()) => Ok(word),
        Some(_) => Err(Refusal::invalid(name)),
    };
    let rule = Rule {
        id: world.random.id(),
        protocol: word("protocol", &["TCP", "UDP", "ICMP", "ANY"], "TCP")?,
        direction: word("direction", &["inbound", "outbound"], "inbound")?,
        action: word("action", &["accept", "drop"], "accept")?,
        ip_range: fields.text("ip_range")?.unwrap_or_else(|| "0.0.0.0/0".to_owned()),
        dest_port_from: fields.number("dest_port_from")?,
        dest_port_to: fields.number("dest_port_to")?,
        position: fields.number("position")?.unwrap_or(position),
        editable: true,
    };
    let group = world.security_groups.get_mut(id).ok_or_else(|| Refusal::not_found("instance_security_group", id))?;
    let view = show_rule(group, &rule);
    let path = call.path.clone();
    let rule_id = rule.id.clone();
    group.rules.push(rule);
    Ok(Answer::created(&path, &rule_id, &json!({"rule": view})))
}

pub(super) fn get_rule(world: &World, zone: &str, id: &str, rule: &str) -> Outcome {
    let group = find(world, zone, id)?;
    let found = group.rules.iter().find(|candidate| candidate.id == rule);
    let found = found.ok_or_else(|| Refusal::not_found("instance_security_group_rule", rule))?;
    Ok(Answer::ok(&json!({"rule": show_rule(group, found)})))
}

pub(super) fn delete_rule(world: &mut World, zone: &str, id: &str, rule: &str) -> Outcome {
    get_rule(world, zone, id, rule)?;
    if let Some(group) = world.security_groups.get_mut(id) {
        group.rules.retain(|candidate| candidate.id != rule);
    }
    Ok(Answer::no_content())
}
