//! What a deletion is about: the servers that ids, names and a group stand for, by Scaleway's list and the journal.

use std::collections::BTreeSet;

use windlass_inspect::failure::{Exit, Failure};
use windlass_lifecycle::{
    Error, GroupName, Machine, OperationId, RememberedServer, ResourceKind, ResourceName, Target,
};
use windlass_scaleway::Zone;

use super::find::{find, has_address, is_made_by, known_servers, local_id, made_elsewhere, no_such_server};
use crate::commands::lifecycle::lifecycle_failure;
use crate::confirmation::Planned;
use crate::context::Work;

/// What a deletion is about.
pub(super) struct Subject {
    /// The id of the server, or of the operation where only that is known.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) zone: String,
    /// The operation that created it.
    pub(super) operation: Option<OperationId>,
    pub(super) what: Deletion,
    pub(super) planned: Vec<Planned>,
    pub(super) protected: bool,
}

/// What is to be done about it.
pub(super) enum Deletion {
    Cleanup(Target),
    /// Nothing: the journal knows that all of it is gone.
    Gone {
        removed_by: Option<OperationId>,
    },
}

impl Subject {
    pub(super) fn of_machine(work: &Work, machine: &Machine, group: Option<&GroupName>) -> Self {
        let zone = &work.zone;
        // Only a creation that the journal knows tells what was made with its server.
        let creation = machine.operation.as_ref().filter(|_| machine.operation_state.is_some());
        let made = creation.and_then(|creation| work.lifecycle.journal().made_by(creation).ok());
        Self {
            id: machine.id.clone(),
            name: machine.name.clone(),
            zone: machine.zone.clone(),
            operation: machine.operation.clone(),
            what: Deletion::Cleanup(Target::Server { zone: zone.clone(), id: machine.id.clone() }),
            planned: planned(machine, group, made.as_deref()),
            protected: machine.server.protected,
        }
    }

    /// What the journal knows to have been made with a server that is not listed.
    pub(super) fn of_remembered(server: RememberedServer, zone: &Zone) -> Self {
        let why = format!("made with {}, which is not listed", server.name);
        let planned = |resource: &ResourceName| Planned {
            kind: resource.kind.to_string(),
            id: resource.id.clone(),
            name: String::new(),
            state: "unknown".to_owned(),
            why: why.clone(),
        };
        let parts = server.resources.iter().filter(|it| it.kind != ResourceKind::PrivateNic);
        Self {
            planned: parts.map(planned).collect(),
            id: server.server.unwrap_or_else(|| server.operation.to_string()),
            name: server.name,
            zone: zone.to_string(),
            what: match server.gone {
                true => Deletion::Gone { removed_by: server.removed_by },
                false => Deletion::Cleanup(Target::Operation(server.operation.clone())),
            },
            operation: Some(server.operation),
            protected: false,
        }
    }
}

/// What the arguments name, each once. All that name nothing are told together.
pub(super) async fn named(
    work: &Work,
    machines: &Result<Vec<Machine>, Failure>,
    texts: &[String],
) -> Result<Vec<Subject>, Failure> {
    let mut subjects: Vec<Subject> = Vec::new();
    let mut unknown: Vec<Failure> = Vec::new();
    for text in texts {
        match named_by(work, machines, text).await {
            Ok(subject) if subjects.iter().any(|known| known.id == subject.id) => {}
            Ok(subject) => subjects.push(subject),
            Err(failure) if failure.is_unknown => unknown.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    match unknown.as_slice() {
        [] => Ok(subjects),
        [one] => Err(one.clone()),
        several => {
            let mut all = Failure::unknown(format!("{} servers do not exist; nothing was touched", several.len()));
            all.causes = several.iter().map(|failure| failure.message.clone()).collect();
            for cause in several.iter().flat_map(|failure| failure.causes.iter()) {
                if !all.causes.contains(cause) {
                    all.causes.push(cause.clone());
                }
            }
            all.remedy = several.iter().find_map(|failure| failure.remedy.clone());
            Err(all)
        }
    }
}

/// What one text names: a server that is there, else what the journal knows by it.
async fn named_by(work: &Work, machines: &Result<Vec<Machine>, Failure>, text: &str) -> Result<Subject, Failure> {
    let text = local_id(&work.zone, text)?;
    match find(work.lifecycle.machine_reader(), &work.zone, machines, text).await {
        // Only its id selects a server that merely carries our tags. The name may be that of a server which is gone.
        Ok(Some(machine)) if machine.id != text && !is_made_by_operation(work, &machine)? => {
            remembered(work, machines, text).map_err(|_| only_tagged(&machine, text))
        }
        Ok(Some(machine)) => {
            refuse_former_name(&machine, text)?;
            Ok(Subject::of_machine(work, &machine, None))
        }
        Ok(None) => remembered(work, machines, text),
        Err(failure) if failure.exit == Exit::Usage || failure.is_unknown => Err(failure),
        // What cannot be read is still to go: its removal tries, and tells what is left.
        Err(failure) => remembered(work, machines, text).map_err(|_| failure),
    }
}

/// Whether an operation created the server: by its tag or, if somebody removed that, by the journal.
fn is_made_by_operation(work: &Work, machine: &Machine) -> Result<bool, Failure> {
    Ok(machine.operation.is_some() || is_known_here(work, machine)?)
}

/// Whether this journal knows the operation that created the server.
fn is_known_here(work: &Work, machine: &Machine) -> Result<bool, Failure> {
    let is_known = || known_servers(work.lifecycle.journal(), &machine.id).map(|known| !known.is_empty());
    Ok(machine.operation_state.is_some() || (machine.copy_of.is_none() && is_known()?))
}

fn only_tagged(machine: &Machine, text: &str) -> Failure {
    Failure::usage(format!("'{text}' names a server that Windlass did not create; nothing was touched"))
        .because(tagged_words(machine))
        .remedy(format!("windlass server delete {}", machine.id))
}

/// A server is deleted by the name or address that it has, not by one that it had.
fn refuse_former_name(machine: &Machine, text: &str) -> Result<(), Failure> {
    if machine.id == text || machine.name == text || is_made_by(machine, text) || has_address(machine, text) {
        return Ok(());
    }
    Err(Failure::usage(format!("no server has the name or address '{text}' any more"))
        .because(format!("{} was created with that name or address, and is called '{}' now", machine.id, machine.name))
        .remedy(format!("windlass server delete {}", machine.id)))
}

/// What the journal knows by a text that names no server that is there. What it does not know may be on the list that
/// failed.
fn remembered(work: &Work, machines: &Result<Vec<Machine>, Failure>, text: &str) -> Result<Subject, Failure> {
    let known = work.lifecycle.remembered(&work.zone, text);
    let mut known = known.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    // Of several with one name, those that are gone are not meant. If all are gone, the newest is reported as gone.
    if known.iter().any(|server| !server.gone) {
        known.retain(|server| !server.gone);
    } else {
        known.truncate(1);
    }
    match known.len() {
        0 => {
            let owner = Some(work.lifecycle.owner());
            let known = known_servers(work.lifecycle.journal(), text)?;
            let mut creations = known.iter().filter(|server| server.removed_by.is_none());
            let creation = creations.find_map(|server| server.created_by.as_ref());
            let elsewhere = creation.and_then(|one| made_elsewhere(&work.zone, owner, one, text, "delete"));
            let unlisted = || machines.as_ref().err().cloned();
            let listed = machines.as_deref().unwrap_or_default();
            let unknown = || no_such_server(Some(work.lifecycle.journal()), &work.zone, owner, listed, text);
            Err(elsewhere.or_else(unlisted).unwrap_or_else(unknown))
        }
        1 => Ok(Subject::of_remembered(known.remove(0), &work.zone)),
        several => {
            let mut failure = Failure::usage(format!("{several} servers that are not listed were called '{text}'"))
                .remedy("name the one that you mean by its operation");
            failure.causes = known.iter().map(|server| server.operation.to_string()).collect();
            Err(failure)
        }
    }
}

/// What the arguments name.
#[derive(Default)]
pub(super) struct Subjects {
    pub(super) subjects: Vec<Subject>,
    /// What of a group stays, and why.
    pub(super) stays: Vec<String>,
    /// Lists that could not be read, so that there may be more of the group.
    pub(super) unseen: Vec<Failure>,
}

/// The servers of a group, and what is left of those that are not listed any more. What was kept on purpose stays, and
/// so does a server that no operation of this journal made: its tags may be copied, or it is another state directory's.
pub(super) async fn of_group(
    work: &Work,
    listed: Result<Vec<Machine>, Failure>,
    group: &GroupName,
) -> Result<Subjects, Failure> {
    let unreadable = |error: &Error| lifecycle_failure("what is left of the group cannot be looked up", error);
    let (listed, mut unseen) = match listed {
        Ok(machines) => (machines, Vec::new()),
        Err(failure) => (Vec::new(), vec![failure]),
    };
    let remembered = work.lifecycle.remembered_of_group(&work.zone, group);
    let mut remembered = remembered.map_err(|error| unreadable(&error))?;
    let (mut machines, mut stays) = (Vec::new(), Vec::new());
    let mut left_alone = BTreeSet::new();
    for machine in listed {
        if is_known_here(work, &machine)? {
            machines.push(machine);
        } else {
            left_alone.extend(machine.operation.clone());
            let words = tagged_words(&machine);
            stays.push(format!("left alone: {words}; to remove it: windlass server delete {}", machine.id));
        }
    }
    if !unseen.is_empty() {
        let reader = work.lifecycle.machine_reader();
        for id in remembered.iter().filter_map(|server| server.server.as_ref()) {
            // What cannot be read is still to go: its removal tries, and tells what is left.
            machines.extend(reader.read(&work.zone, id).await.ok().flatten());
        }
    }
    let is_shown = |server: &RememberedServer| {
        machines.iter().any(|machine| {
            machine.operation.as_ref() == Some(&server.operation) || server.server.as_ref() == Some(&machine.id)
        })
    };
    remembered.retain(|server| !is_shown(server));
    let (kept, remembered): (Vec<_>, Vec<_>) = remembered.into_iter().partition(|server| !server.kept.is_empty());
    stays.extend(kept.iter().map(kept_words));
    let mut subjects: Vec<Subject> =
        machines.iter().map(|machine| Subject::of_machine(work, machine, Some(group))).collect();
    subjects.extend(remembered.into_iter().map(|server| Subject::of_remembered(server, &work.zone)));
    let (unknown, errors) = work.lifecycle.unknown_of_group(&work.zone, group).await;
    unseen.extend(errors.iter().map(unreadable));
    for operation in unknown.difference(&left_alone) {
        stays.push(format!(
            "left alone: addresses or volumes of operation {operation}, which this journal does not know; see windlass \
             sweep --dry-run"
        ));
    }
    Ok(Subjects { subjects, stays, unseen })
}

/// Describes a server that carries our tags although no operation of this journal created it.
fn tagged_words(machine: &Machine) -> String {
    let why = match (&machine.copy_of, &machine.operation) {
        (Some(operation), _) => format!("it carries the tags of operation {operation}, which made another one"),
        (None, Some(operation)) => format!("this journal does not know operation {operation}, whose tag it carries"),
        (None, None) => "it carries the group's tag and no operation's".to_owned(),
    };
    format!("server {} ({}): {why}", machine.id, machine.name)
}

fn kept_words(server: &RememberedServer) -> String {
    let kept: Vec<String> = server.kept.iter().map(ToString::to_string).collect();
    format!("kept on purpose: {}; to remove it: windlass server delete {}", kept.join(", "), server.operation)
}

/// A server that would go, and what is attached to it: goes with it, as far as it was `made` with it.
fn planned(machine: &Machine, group: Option<&GroupName>, made: Option<&[ResourceName]>) -> Vec<Planned> {
    let mut why = group.map_or_else(|| "named".to_owned(), |group| format!("of group {group}"));
    if machine.copy_of.is_some() {
        why.push_str(", only by its tags");
    } else if machine.operation.is_some() && machine.operation_state.is_none() {
        why.push_str(", made by an operation that this journal does not know");
    }
    let on = || format!("attached to {}", machine.name);
    let part = |id: &str| match made {
        Some(made) if !made.iter().any(|resource| resource.id == id) => {
            format!("attached to {}, not made with it: is detached and stays", machine.name)
        }
        _ => on(),
    };
    let one = |kind: ResourceKind, id: &str, name: &str, state: &str, why: String| Planned {
        kind: kind.to_string(),
        id: id.to_owned(),
        name: name.to_owned(),
        state: state.to_owned(),
        why,
    };
    let server = &machine.server;
    let mut planned = vec![one(ResourceKind::Server, &machine.id, &machine.name, &machine.state, why)];
    planned.extend(
        server
            .public_ips
            .iter()
            .filter(|ip| !ip.dynamic)
            .map(|ip| one(ResourceKind::Ip, &ip.id, &ip.address, ip.state.as_str(), part(&ip.id))),
    );
    planned.extend(server.volumes.values().map(|volume| {
        let kind = ResourceKind::of_volume(&volume.volume_type);
        one(kind, &volume.id, &volume.name, volume.state.as_str(), part(&volume.id))
    }));
    planned.extend(
        server.private_nics.iter().map(|nic| one(ResourceKind::PrivateNic, &nic.id, "", nic.state.as_str(), on())),
    );
    planned
}
