//! IAM API v1alpha1: ssh keys, which runner plugins create and delete, and the quotas of the organization.

use serde_json::{Value, json};

use super::endpoint::{Outcome, fits, method, part_of, within};
use crate::answer::Answer;
use crate::call::Call;
use crate::paging;
use crate::refusal::{BadArgument, Reason, Refusal};
use crate::world::{SshKey, World, sorted};

pub(super) fn route(world: &mut World, call: &Call, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["quota"]) => quota(world, call),
        ("GET", ["ssh-keys"]) => list(world, call),
        ("POST", ["ssh-keys"]) => create(world, call),
        ("GET", ["ssh-keys", id]) => get(world, id),
        ("PATCH", ["ssh-keys", id]) => update(world, call, id),
        ("DELETE", ["ssh-keys", id]) => delete(world, id),
        _ => Err(Refusal::unknown_path()),
    }
}

// Assumption: the resource's name in a 404 was not recorded.
fn find<'a>(world: &'a World, id: &str) -> Result<&'a SshKey, Refusal> {
    world.ssh_keys.get(id).ok_or_else(|| Refusal::not_found("ssh_key", id))
}

fn answer(world: &World, id: &str) -> Value {
    world.ssh_keys.get(id).map(|key| world.show_ssh_key(key)).into()
}

fn list(world: &World, call: &Call) -> Outcome {
    let keys = world.ssh_keys.values().filter(|key| {
        world.lists(&key.id, key.created)
            && fits(call.parameter("project_id"), &key.project)
            && fits(call.parameter("organization_id"), &key.organization)
            && part_of(call.parameter("name"), &key.name)
            && call.parameter("disabled").is_none_or(|wanted| (wanted == "true") == key.disabled)
    });
    let newest_first = call.parameter("order_by").is_some_and(|order| order == "created_at_desc");
    let keys = sorted(keys, newest_first, |key| key.created);
    paging::newer_list(call, "ssh_keys", keys.into_iter().map(|key| world.show_ssh_key(key)).collect())
}

fn create(world: &mut World, call: &Call) -> Outcome {
    let fields = call.fields()?;
    let public_key = fields.required_text("public_key")?;
    let mut parts = public_key.split_whitespace();
    let (Some(kind), Some(_)) = (parts.next(), parts.next()) else {
        let help = "public key is not in the OpenSSH format";
        return Err(Refusal::invalid_arguments(&[BadArgument::new("public_key", Reason::Format, help)]));
    };
    let comment = parts.next().unwrap_or_default().to_owned();
    let kind = kind.to_owned();
    let bits = if kind == "ssh-rsa" { 4096 } else { 256 };
    let name = fields.text("name")?.unwrap_or_default();
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    within(world.options.quotas.ssh_keys, "IamSshKeys", world.ssh_keys.len())?;
    let id = world.random.id();
    let created = world.stamp();
    // Shaped as ssh-keygen prints one; the digest is drawn, not computed: nothing here uses it.
    let digest: String = world
        .random
        .id()
        .replace('-', "")
        .as_bytes()
        .chunks(2)
        .map(|pair| String::from_utf8_lossy(pair).into_owned())
        .collect::<Vec<_>>()
        .join(":");
    let key = SshKey {
        id: id.clone(),
        name,
        public_key,
        fingerprint: format!("{bits} MD5:{digest} {comment} ({kind})"),
        organization: world.organization_of(&project),
        project,
        disabled: false,
        created,
        updated: created,
    };
    world.ssh_keys.insert(id.clone(), key);
    Ok(Answer::ok(&answer(world, &id)))
}

fn get(world: &World, id: &str) -> Outcome {
    find(world, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

fn update(world: &mut World, call: &Call, id: &str) -> Outcome {
    find(world, id)?;
    let fields = call.fields()?;
    let (name, disabled) = (fields.text("name")?, fields.flag("disabled")?);
    let stamp = world.stamp();
    if let Some(key) = world.ssh_keys.get_mut(id) {
        key.updated = stamp;
        key.name = name.unwrap_or_else(|| key.name.clone());
        key.disabled = disabled.unwrap_or(key.disabled);
    }
    Ok(Answer::ok(&answer(world, id)))
}

fn delete(world: &mut World, id: &str) -> Outcome {
    find(world, id)?;
    world.ssh_keys.remove(id);
    Ok(Answer::no_content())
}

/// Shapes from the SDK. What was not limited by an option is unlimited.
// Assumption: the names are those of refusals, of which only `IamSshKeys` was recorded; all limits are global; another
// organization's quotas are an empty list.
fn quota(world: &World, call: &Call) -> Outcome {
    let Some(organization) = call.parameter("organization_id") else {
        return Err(Refusal::invalid_arguments(&[BadArgument::missing("organization_id")]));
    };
    let ours = organization == world.organization_of(&world.options.default_project);
    let quotas = world.options.quotas;
    let all = [
        ("ComputeServers", "servers", quotas.servers),
        ("ComputeIps", "addresses", quotas.ips),
        ("ComputeVolumes", "volumes", quotas.volumes),
        ("SbsVolumes", "volumes", quotas.block_volumes),
        ("AppleSiliconServers", "servers", quotas.apple_silicon_servers),
        ("IamSshKeys", "keys", quotas.ssh_keys),
    ];
    let shown = all.into_iter().filter(|_| ours).map(|(name, unit, limit)| {
        let value = limit.map_or_else(|| json!({"unlimited": true}), |limit| json!({"limit": limit}));
        let mut place = value.clone();
        place["global"] = true.into();
        let mut quotum = value;
        quotum["name"] = name.into();
        quotum["pretty_name"] = name.into();
        quotum["unit"] = unit.into();
        quotum["description"] = "".into();
        quotum["locality_type"] = "global".into();
        quotum["limits"] = json!([place]);
        quotum
    });
    paging::newer_list(call, "quota", shown.collect())
}
