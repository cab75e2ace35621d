//! `windlass server list` and `windlass server show`.

use serde::Serialize;
use serde_json::Value;
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_inspect::output::fields;
use windlass_lifecycle::{Machine, Operation};

use super::find::{
    find, group_name, known_servers, local_id, machines, made_elsewhere, no_such_server, not_in, other_group,
};
use crate::arguments::{ListServers, ShowServer};
use crate::commands::lifecycle::lifecycle_failure;
use crate::context::{Context, Look};

/// Document of `server list`.
#[derive(Serialize)]
struct Servers {
    servers: Vec<Machine>,
    /// What is said where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(super) async fn list(context: &Context, arguments: &ListServers) -> Result<(), Failure> {
    let group = group_name(arguments.group.as_ref())?;
    let look = context.look()?;
    let servers = match look.machines() {
        Some(reader) => machines(reader, &look.zone, group.as_ref()).await?,
        // Scaleway is asked all the same: it may not answer.
        None => {
            let work = context.work(None, None)?;
            machines(work.lifecycle.machine_reader(), &work.zone, group.as_ref()).await?
        }
    };
    let mut notes = Vec::new();
    if servers.is_empty() {
        notes.extend(other_group(look.journal.as_ref(), group.as_ref()));
        notes.extend(context.other_owners(&look.state, true).await);
    }
    let listing = Servers { servers, notes };
    let of_group = group.as_ref().map(|group| format!(" in group {group}")).unwrap_or_default();
    let of_owner = look.owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
    let nothing = format!("no servers{of_owner}{of_group} in {}", look.zone);
    let servers = Listing::new(&listing.servers, nothing, |machine: &Machine| machine.id.clone())
        .notes(&listing.notes)
        .column("server", |machine| machine.id.clone())
        .spare(4)
        .column("name", |machine| machine.name.clone())
        .column("group", |machine| machine.group.clone().unwrap_or_default())
        .spare(2)
        .column("type", |machine| machine.server_type.clone())
        .spare(0)
        .column("state", |machine| machine.state.clone())
        .wide("detail", |machine| machine.state_detail.clone())
        .wide("zone", |machine| machine.zone.clone())
        .wide("created", |machine| machine.created_at.clone())
        .column("addresses", |machine| machine.addresses.join(" "))
        .list()
        .column("doing", doing)
        .spare(1)
        .column("operation", |machine| machine.operation.as_ref().map(ToString::to_string).unwrap_or_default())
        .spare(3)
        .wide("host", |machine| machine.host.clone().unwrap_or_default());
    context.output.listing(&listing, &servers);
    Ok(())
}

fn doing(machine: &Machine) -> String {
    match (&machine.in_flight, &machine.copy_of) {
        (Some(kind), _) => kind.to_string(),
        (None, _) if machine.kept => "kept".to_owned(),
        (None, _) if machine.abandoned => "abandoned".to_owned(),
        (None, Some(operation)) => format!("not ours: copied tags of {operation}"),
        (None, None) => String::new(),
    }
}

/// Document of `server show`.
#[derive(Serialize)]
struct Shown<'m> {
    server: &'m Machine,
    volumes: Vec<Value>,
    private_nics: Vec<Value>,
    operations: Vec<Operation>,
}

pub(super) async fn show(context: &Context, arguments: &ShowServer) -> Result<(), Failure> {
    let look = match context.look() {
        Ok(look) => look,
        Err(failure) => return show_without_key(context, &arguments.server, failure),
    };
    let text = local_id(&look.zone, &arguments.server)?;
    let Some(reader) = look.machines() else { return Err(no_such_server(None, &look.zone, None, &[], text)) };
    let machines = machines(reader, &look.zone, None).await;
    let Some(machine) = find(reader, &look.zone, &machines, text).await? else {
        return show_gone(context, &look, text, machines);
    };
    let machine = &machine;
    let operations = look.journal.as_ref().map(|journal| journal.operations_of_resource(&machine.id)).transpose();
    let operations = operations.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    let operations = operations.unwrap_or_default();
    let shown = Shown {
        server: machine,
        volumes: machine
            .server
            .volumes
            .values()
            .map(|volume| serde_json::to_value(volume).unwrap_or_default())
            .collect(),
        private_nics: machine
            .server
            .private_nics
            .iter()
            .map(|nic| serde_json::to_value(nic).unwrap_or_default())
            .collect(),
        operations,
    };
    context.output.result(&shown, || {
        let ids = |values: &[Value]| {
            let ids: Vec<&str> = values.iter().filter_map(|value| value["id"].as_str()).collect();
            if ids.is_empty() { "none".to_owned() } else { ids.join("\n") }
        };
        let operations: Vec<String> = shown
            .operations
            .iter()
            .map(|operation| format!("{} {} {}", operation.id, operation.kind, operation.state))
            .collect();
        fields(&[
            ("server", machine.id.clone()),
            ("name", machine.name.clone()),
            ("group", machine.group.clone().unwrap_or_else(|| "none".to_owned())),
            ("type", machine.server_type.clone()),
            ("zone", machine.zone.clone()),
            ("state", format!("{} {}", machine.state, machine.state_detail)),
            ("doing", doing(machine)),
            ("created", machine.created_at.clone()),
            ("addresses", machine.addresses.join("\n")),
            ("volumes", ids(&shown.volumes)),
            ("private NICs", ids(&shown.private_nics)),
            ("operations", operations.join("\n")),
        ])
    });
    Ok(())
}

/// Shows a server that is gone, from the journal alone: nobody has to be asked about it.
fn show_without_key(context: &Context, text: &str, failure: Failure) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let Some(journal) = inspector.journal()? else { return Err(failure) };
    let known = known_servers(&journal, text)?;
    if known.iter().all(|server| server.removal().is_none()) {
        return Err(failure);
    }
    inspector.gone_servers(&known);
    context.output.say(&format!("note: {}, so this is what the journal says", failure.message));
    Ok(())
}

/// Shows a server that is gone, from the journal. What the journal does not know may be on the list that failed.
fn show_gone(context: &Context, look: &Look, text: &str, listed: Result<Vec<Machine>, Failure>) -> Result<(), Failure> {
    let zone = &look.zone;
    let known = look.journal.as_ref().map(|journal| known_servers(journal, text)).transpose()?.unwrap_or_default();
    if known.iter().any(|server| server.removal().is_some()) {
        context.inspector(&look.state).gone_servers(&known);
        return Ok(());
    }
    let Some(creation) = known.iter().find_map(|server| server.created_by.as_ref()) else {
        let unknown =
            |listed: Vec<Machine>| no_such_server(look.journal.as_ref(), zone, look.owner.as_ref(), &listed, text);
        return Err(listed.map_or_else(|unlisted| unlisted, unknown));
    };
    let elsewhere = made_elsewhere(zone, look.owner.as_ref(), creation, text, "show");
    Err(elsewhere.unwrap_or_else(|| {
        not_in(zone, text)
            .because(format!("operation {} created it, and no operation in the journal removed it", creation.id))
            .because("somebody else deleted it, or removed its tags")
            .remedy("windlass sweep --dry-run")
    }))
}
