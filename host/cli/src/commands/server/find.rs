//! Which server a text names, and why none is found.

use std::collections::BTreeSet;

use windlass_inspect::failure::Failure;
use windlass_lifecycle::{
    Error, GroupName, Journal, KnownServer, Machine, MachineReader, Operation, OperationFilter, OwnerName,
};
use windlass_scaleway::Zone;

use crate::commands::lifecycle::{lifecycle_failure, no_servers_in};

pub(super) fn group_name(text: Option<&String>) -> Result<Option<GroupName>, Failure> {
    text.map(|group| group.parse()).transpose().map_err(|error: Error| Failure::usage(error.to_string()))
}

/// Operations in which the groups of this state directory are looked for.
const MAX_OPERATIONS: u32 = 10_000;

/// What is said where a group has no servers, of which the journal knows nothing but one of almost its name.
pub(super) fn other_group(journal: Option<&Journal>, group: Option<&GroupName>) -> Option<String> {
    let (journal, group) = (journal?, group?.as_str());
    let mut filter = OperationFilter::default();
    filter.limit = Some(MAX_OPERATIONS);
    let operations = journal.operations(&filter).ok()?;
    let groups: BTreeSet<&str> = operations.iter().map(|operation| operation.group.as_str()).collect();
    let near = windlass_policy::nearest(group, groups.iter().copied()).filter(|_| !groups.contains(group))?;
    Some(format!("no server was ever created in a group {group} with this state directory; did you mean {near}?"))
}

pub(super) async fn machines(
    reader: MachineReader<'_>,
    zone: &Zone,
    group: Option<&GroupName>,
) -> Result<Vec<Machine>, Failure> {
    let listed = reader.list(std::slice::from_ref(zone), group).await;
    listed.map_err(|error| match &error {
        Error::Scaleway { source, .. } if source.is_not_found() => no_servers_in(zone),
        _ => lifecycle_failure("the servers cannot be listed", &error),
    })
}

/// The id of a text that may hold the zone as well, as Terraform prints ids.
pub(super) fn local_id<'t>(zone: &Zone, text: &'t str) -> Result<&'t str, Failure> {
    zone.local_id(text)
        .map_err(|elsewhere| Failure::usage(elsewhere.to_string()).remedy("name its zone: --zone, or SCW_DEFAULT_ZONE"))
}

/// The one server that a text names: by its id, else by its operation, else by its name where only one has it, else by
/// an address that it has. Where none is listed so, the server that the journal knows by the text is read by its id: a
/// list may leave it out, or show it under another name, or not be readable.
///
/// An id comes first, whatever others are called, so that a server can always be distinguished from others of its name.
pub(super) async fn find(
    reader: MachineReader<'_>,
    zone: &Zone,
    listed: &Result<Vec<Machine>, Failure>,
    text: &str,
) -> Result<Option<Machine>, Failure> {
    let machines = listed.as_deref().unwrap_or_default();
    let by: [fn(&Machine, &str) -> bool; 4] = [
        |machine, text| machine.id == text,
        |machine, text| is_made_by(machine, text),
        |machine, text| machine.name == text,
        has_address,
    ];
    let named = by.map(|is_named| machines.iter().filter(|machine| is_named(machine, text)).cloned().collect());
    let mut found: Vec<Machine> = named.into_iter().find(|found: &Vec<_>| !found.is_empty()).unwrap_or_default();
    if let (true, Some(journal)) = (found.is_empty(), reader.journal) {
        let mut known = known_servers(journal, text)?;
        let is_here = |creation: &Operation| creation.zone == zone.as_str();
        known.retain(|server| server.removed_by.is_none() && server.created_by.as_ref().is_none_or(is_here));
        for id in known.into_iter().filter_map(|server| server.id) {
            let machine = reader.read(zone, &id).await;
            found.extend(machine.map_err(|error| lifecycle_failure("the server cannot be read", &error))?);
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        several => {
            let mut failure = Failure::usage(format!("{several} servers are called '{text}'"))
                .remedy("name the one that you mean by its id");
            failure.causes = found
                .iter()
                .map(|machine| {
                    let group = machine.group.as_deref().unwrap_or("none");
                    format!("{} (group {group}, {}, created {})", machine.id, machine.state, machine.created_at)
                })
                .collect();
            Err(failure)
        }
    }
}

pub(super) fn is_made_by(machine: &Machine, operation: &str) -> bool {
    machine.operation.as_ref().is_some_and(|id| id.as_str() == operation)
}

pub(super) fn has_address(machine: &Machine, text: &str) -> bool {
    machine.addresses.iter().any(|address| address == text)
}

pub(super) fn known_servers(journal: &Journal, text: &str) -> Result<Vec<KnownServer>, Failure> {
    journal.known_servers(text).map_err(|error| lifecycle_failure("the journal cannot be read", &error))
}

pub(super) fn no_such_server(
    journal: Option<&Journal>,
    zone: &Zone,
    owner: Option<&OwnerName>,
    listed: &[Machine],
    text: &str,
) -> Failure {
    let of_machine = journal.and_then(|journal| journal.operations_of_machine(text).ok()).unwrap_or_default();
    if let Some(Operation { id, kind, state, .. }) = of_machine.first() {
        return Failure::unknown(format!("'{text}' is a Mac, and this command is for servers"))
            .because(format!("the newest operation on it is {id} ({kind}, {state})"))
            .remedy(format!("windlass operation show {text}"));
    }
    if text.is_empty() {
        return Failure::usage("the server's name is empty").remedy("windlass server list");
    }
    let near = windlass_policy::nearest(text, listed.iter().map(|machine| machine.name.as_str()));
    let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    let mut failure = Failure::unknown(format!("there is no server '{text}' of ours in {zone}{near}"));
    if let Some(owner) = owner {
        failure = failure.because(format!("ours are those that carry the tag windlass-owner={owner}"));
    }
    let of_group = text.parse().is_ok_and(|group: GroupName| {
        let mut filter = OperationFilter::default();
        (filter.group, filter.limit) = (Some(String::from(group)), Some(1));
        journal.and_then(|journal| journal.operations(&filter).ok()).is_some_and(|found| !found.is_empty())
    });
    match of_group {
        true => failure.because(format!("'{text}' is a group")).remedy(format!("name the group: --group {text}")),
        false => failure.remedy("windlass server list"),
    }
}

pub(super) fn not_in(zone: &Zone, text: &str) -> Failure {
    Failure::unknown(format!("there is no server '{text}' in {zone}"))
}

/// Why a server is not found that this creation made: it is another owner's, or in another zone.
pub(super) fn made_elsewhere(
    zone: &Zone,
    owner: Option<&OwnerName>,
    creation: &Operation,
    text: &str,
    command: &str,
) -> Option<Failure> {
    let id = &creation.id;
    if let Some(owner) = owner.filter(|owner| owner.as_str() != creation.owner) {
        let failure = not_in(zone, text)
            .because(format!("operation {id} created it for owner {}; the owner is {owner}", creation.owner))
            .remedy(format!("set owner = {:?} in the configuration", creation.owner));
        return Some(failure);
    }
    (creation.zone != zone.as_str()).then(|| {
        not_in(zone, text)
            .because(format!("operation {id} created it in {}", creation.zone))
            .remedy(format!("windlass --zone {} server {command} {text}", creation.zone))
    })
}
