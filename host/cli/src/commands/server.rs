//! `windlass server`: servers created, listed, shown and deleted, each as an operation that is whole or undone.
//!
//! What is to be deleted is shown and confirmed first; a cluster's servers are left to the cluster's own commands.

use std::path::Path;

use futures::StreamExt;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_cluster::{ClusterState, ClusterStore, Node, StoreError};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::{Listing, with_notes};
use windlass_inspect::output::{fields, table};
use windlass_lifecycle::{
    AccountProblem, AddressKind, Aftermath, Asking, CloudInit, Control, CreatedServer, Error, ExtraVolume, GroupName,
    ImageChoice, Journal, KnownServer, Left, Machine, MachineReader, Operation, OperationId, OwnerName, ReleaseOutcome,
    Released, RememberedServer, Removal, Report, RequestedBy, ResourceKind, ResourceName, RootVolume,
    ServerSpecification, Target, VolumeKind,
};
use windlass_policy::slots::release::Requested;
use windlass_scaleway::Zone;

use super::lifecycle::{left_open_words, lifecycle_failure, noted, take_up, undone_line, unverified};
use crate::arguments::{self, CreateServer, DeleteServers, ListServers, ServerCommand, ShowServer};
use crate::configuration::VolumeType;
use crate::confirmation::{Confirmation, DRY_RUN, Planned, rows};
use crate::context::{Context, Look, Work, cluster_store};
use crate::files::{read_bounded, read_stdin};
use crate::interrupt;
use crate::progress::Progress;
use windlass_inspect::words::{counted, failure_words};

/// More than Scaleway takes; the exact bound is checked with the specification.
const MAX_CLOUD_INIT_BYTES: u64 = 1 << 20;
/// Deletions at the same time where nothing else is said.
const PARALLEL_DELETIONS: usize = 16;

pub(crate) async fn run(context: &Context, command: ServerCommand) -> Result<(), Failure> {
    match command {
        ServerCommand::Create(arguments) => create(context, *arguments).await,
        ServerCommand::List(arguments) => list(context, &arguments).await,
        ServerCommand::Show(arguments) => show(context, &arguments).await,
        ServerCommand::Delete(arguments) => delete(context, &arguments).await,
    }
}

/// A server in documents.
#[derive(Serialize)]
struct Created {
    operation: String,
    id: String,
    name: String,
    zone: String,
    server_type: String,
    state: String,
    addresses: Vec<String>,
}

impl From<&CreatedServer> for Created {
    fn from(created: &CreatedServer) -> Self {
        let server = &created.server;
        Created {
            operation: created.operation.to_string(),
            id: server.id.clone(),
            name: server.name.clone(),
            zone: server.zone.clone(),
            server_type: server.commercial_type.clone(),
            state: server.state.as_str().to_owned(),
            addresses: server.public_ips.iter().map(|ip| ip.address.clone()).collect(),
        }
    }
}

/// A server that could not be created, in documents.
#[derive(Serialize)]
struct NotCreated {
    operation: Option<String>,
    message: String,
    step: Option<String>,
    cause: Value,
    report: Option<Report>,
    reasons: Vec<String>,
}

impl From<&Error> for NotCreated {
    fn from(error: &Error) -> Self {
        let mut document = NotCreated {
            operation: None,
            message: error.to_string(),
            step: None,
            cause: Value::Null,
            report: None,
            reasons: Vec::new(),
        };
        match error {
            Error::Failed(failed) => {
                document.operation = Some(failed.operation.to_string());
                document.step = Some(failed.step.clone());
                document.cause = serde_json::to_value(&failed.cause).unwrap_or_default();
                document.report = Some(failed.report.clone());
                document.reasons.clone_from(&failed.reasons);
            }
            Error::LeftOpen { operation } | Error::Unrecorded { operation, .. } => {
                document.operation = Some(operation.to_string());
            }
            _ => {}
        }
        document
    }
}

async fn create(context: &Context, arguments: CreateServer) -> Result<(), Failure> {
    let count = arguments.count as usize;
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen_before(&control, context.output, interrupt::CREATING)?;
    let work = context.work(arguments.project.as_deref(), arguments.parallel)?;
    let specification = specification(context, &work, &arguments)?;
    refuse(specification.problems(count))?;
    // Everything that costs nothing comes before the first address.
    let problems = work.lifecycle.account_problems(&specification, count);
    let problems = interrupt::unless_cancelled(&control, problems).await?;
    refuse(problems.into_iter().filter(AccountProblem::is_certain))?;

    interrupted.begins();
    let progress = Progress::follow(events, count, context.output, context.verbose());
    let beside = take_up(context, &work, &control, true).await?;
    let results = work.lifecycle.create_servers(&specification, count, &control).await;
    beside.end().await;
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    progress.end().await;

    let created: Vec<Created> = results.iter().filter_map(|result| result.as_ref().ok()).map(Created::from).collect();
    let failed: Vec<&Error> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let document = json!({
        "servers": created,
        "failures": failed.iter().map(|error| NotCreated::from(*error)).collect::<Vec<_>>(),
    });
    if failed.is_empty() {
        context.output.result(&document, || {
            table(
                &["server", "name", "type", "zone", "state", "addresses", "operation"],
                created.iter().map(|server| {
                    vec![
                        server.id.clone(),
                        server.name.clone(),
                        server.server_type.clone(),
                        server.zone.clone(),
                        server.state.clone(),
                        server.addresses.join(" "),
                        server.operation.clone(),
                    ]
                }),
            )
        });
        return Ok(());
    }
    Err(creation_failure(&work, &failed, &created, count, was_interrupted).with_partial(document))
}

/// Refuses what is known beforehand to fail, with all of its mistakes.
fn refuse(problems: impl IntoIterator<Item = impl ToString>) -> Result<(), Failure> {
    // A deadline is named as its option.
    let words = |problem: String| problem.replace("deadline_milliseconds: ", "--wait: ");
    let mut problems: Vec<String> = problems.into_iter().map(|problem| words(problem.to_string())).collect();
    match problems.len() {
        0 => Ok(()),
        1 => Err(Failure::usage(problems.remove(0))),
        count => {
            let mut failure = Failure::usage(format!("{count} mistakes in what is asked for; nothing was touched"));
            failure.causes = problems;
            Err(failure)
        }
    }
}

/// What an operation that is left open has made.
fn made_by(work: &Work, operation: &OperationId) -> Vec<Leftover> {
    let made = work.lifecycle.journal().made_by(operation).unwrap_or_default();
    made.into_iter()
        .map(|resource| Left { resource, why: format!("operation {operation} is left open") }.into())
        .collect()
}

fn creation_failure(work: &Work, failed: &[&Error], created: &[Created], count: usize, interrupted: bool) -> Failure {
    let message = format!("{} of {} could not be created", failed.len(), counted(count, "server"));
    let mut failure = Failure::new(Exit::Left, message);
    let mut left_open = Vec::new();
    let mut first_operation = None;
    for error in failed {
        match error {
            Error::Failed(failed) => {
                first_operation.get_or_insert_with(|| failed.operation.to_string());
                let cause = failure_words(&failed.cause);
                failure.causes.push(format!("{} at {}: {cause}", failed.operation, failed.step));
                let words = match failed.report.left.is_empty() {
                    true => Some(failed.undone()),
                    false => failed.report.words_beside_left(),
                };
                failure.undone.extend(words.map(|words| format!("{}: {words}", failed.operation)));
                failure
                    .left
                    .extend(failed.report.look_at.map(|at| unverified(&failed.operation, work.zone.as_str(), at)));
                if let Some(why) = &failed.report.unverified {
                    failure.left.push(Leftover {
                        kind: "unknown".to_owned(),
                        id: failed.operation.to_string(),
                        zone: work.zone.to_string(),
                        reason: why.clone(),
                    });
                }
            }
            Error::LeftOpen { operation } => {
                left_open.push(operation.to_string());
                failure.left.extend(made_by(work, operation));
            }
            Error::Unrecorded { operation, source, .. } => {
                left_open.push(operation.to_string());
                failure = failure.because(format!("{operation} stopped: {source}"));
            }
            Error::NotBegun => {}
            other => failure = failure.caused_by(*other),
        }
    }
    // Nothing and a part are told apart by the exit code, too.
    let exist = created.iter().map(|server| Leftover {
        kind: "server".to_owned(),
        id: server.id.clone(),
        zone: server.zone.clone(),
        reason: format!("it was created, as was asked for, and runs ({})", server.operation),
    });
    for operation in &left_open {
        failure.undone.push(format!("{operation}: left open in the journal, for the next start"));
    }
    failure = failure.ended(failed.iter().map(|error| error.aftermath()), exist.collect(), interrupted);
    failure.remedy = match (failure.exit, first_operation) {
        (Exit::Left | Exit::Interrupted, _) if !left_open.is_empty() || failure.left.len() > created.len() => {
            Some("windlass operation resume".to_owned())
        }
        (Exit::Interrupted, _) => None,
        (_, Some(operation)) => Some(format!("windlass operation show {operation}")),
        (_, None) => None,
    };
    failure
}

/// Options first, then the configuration's `[server]`, then the defaults that `docs/operating.md` names.
fn specification(context: &Context, work: &Work, arguments: &CreateServer) -> Result<ServerSpecification, Failure> {
    let defaults = &context.configuration.server;
    let types = match arguments.server_types.as_slice() {
        [] => defaults.server_types.clone().unwrap_or_default(),
        types => types.to_vec(),
    };
    let Some(first_type) = types.first().filter(|first| !first.is_empty()) else {
        return Err(Failure::usage("no server type is named")
            .remedy("add --type DEV1-S, or `type` in [server] of the configuration"));
    };
    let Some(image) = arguments.image.as_ref().or(defaults.image.as_ref()) else {
        return Err(Failure::usage("no image is named")
            .remedy("add --image ubuntu_noble, or `image` in [server] of the configuration"));
    };
    let Some(group) = arguments.group.as_ref().or(defaults.group.as_ref()) else {
        return Err(
            Failure::usage("no group is named").remedy("add --group ci, or `group` in [server] of the configuration")
        );
    };
    let mut specification =
        ServerSpecification::new(group.clone(), work.zone.clone(), first_type, ImageChoice::parse(image));
    specification.types = types;
    specification.name = arguments.name.clone();
    let ipv4 = arguments.ipv4.or(defaults.ipv4).unwrap_or(1);
    let ipv6 = arguments.ipv6.or(defaults.ipv6).unwrap_or(0);
    specification.addresses = std::iter::repeat_n(AddressKind::Ipv4, ipv4 as usize)
        .chain(std::iter::repeat_n(AddressKind::Ipv6, ipv6 as usize))
        .collect();
    specification.root_volume = RootVolume {
        kind: volume_kind(arguments.volume_type.or(defaults.volume_type).unwrap_or(VolumeType::Block)),
        size: arguments.volume_size.or(defaults.volume_size).map(|size| size.0),
        operations_per_second: None,
    };
    specification.volumes = arguments.extra_volumes.iter().map(extra_volume).collect();
    specification.private_networks = match arguments.private_networks.as_slice() {
        [] => defaults.private_networks.clone().unwrap_or_default(),
        networks => networks.to_vec(),
    };
    specification.security_group = arguments.security_group.clone().or_else(|| defaults.security_group.clone());
    specification.placement_group = arguments.placement_group.clone().or_else(|| defaults.placement_group.clone());
    specification.tags = defaults.tags.iter().flatten().chain(&arguments.tags).cloned().collect();
    specification.cloud_init = arguments.cloud_init.as_deref().map(cloud_init).transpose()?;
    specification.project = arguments.project.clone();
    if let Some(wait) = arguments.wait.or(defaults.wait) {
        specification.deadline_milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    }
    Ok(specification)
}

fn volume_kind(kind: VolumeType) -> VolumeKind {
    match kind {
        VolumeType::Block => VolumeKind::Block,
        VolumeType::Local => VolumeKind::Local,
        VolumeType::Scratch => VolumeKind::Scratch,
    }
}

fn extra_volume(volume: &arguments::ExtraVolume) -> ExtraVolume {
    match volume {
        arguments::ExtraVolume::New(kind, size) => {
            ExtraVolume::New { kind: volume_kind(*kind), size: size.0, operations_per_second: None }
        }
        arguments::ExtraVolume::Existing(id) => ExtraVolume::Existing { id: id.clone() },
    }
}

fn cloud_init(path: &Path) -> Result<CloudInit, Failure> {
    const WHAT: &str = "the cloud-init file";
    let content = match path.to_str() {
        Some("-") => read_stdin(WHAT, MAX_CLOUD_INIT_BYTES)?,
        _ => read_bounded(path, WHAT, MAX_CLOUD_INIT_BYTES)?,
    };
    Ok(CloudInit::new(content))
}

/// Document of `server list`.
#[derive(Serialize)]
struct Servers {
    servers: Vec<Machine>,
    /// What is said where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

fn group_name(text: Option<&String>) -> Result<Option<GroupName>, Failure> {
    text.map(|group| group.parse()).transpose().map_err(|error: Error| Failure::usage(error.to_string()))
}

async fn machines(reader: MachineReader<'_>, zone: &Zone, group: Option<&GroupName>) -> Result<Vec<Machine>, Failure> {
    let listed = reader.list(std::slice::from_ref(zone), group).await;
    listed.map_err(|error| match &error {
        Error::Scaleway { source, .. } if source.is_not_found() => {
            Failure::usage(format!("zone: Scaleway offers no servers in a zone {zone} ({source})"))
        }
        _ => lifecycle_failure("the servers cannot be listed", &error),
    })
}

async fn list(context: &Context, arguments: &ListServers) -> Result<(), Failure> {
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
    let notes = if servers.is_empty() { context.other_owners(&look.state, true).await } else { Vec::new() };
    let listing = Servers { servers, notes };
    let nothing = match &look.owner {
        Some(owner) => format!("no servers of {owner} in {}", look.zone),
        None => format!("no servers in {}", look.zone),
    };
    let servers = Listing::new(&listing.servers, nothing, |machine: &Machine| machine.id.clone())
        .notes(&listing.notes)
        .column("server", |machine| machine.id.clone())
        .column("name", |machine| machine.name.clone())
        .column("group", |machine| machine.group.clone().unwrap_or_default())
        .column("type", |machine| machine.server_type.clone())
        .column("state", |machine| machine.state.clone())
        .wide("detail", |machine| machine.state_detail.clone())
        .wide("zone", |machine| machine.zone.clone())
        .wide("created", |machine| machine.created_at.clone())
        .column("addresses", |machine| machine.addresses.join(" "))
        .column("doing", doing)
        .column("operation", |machine| machine.operation.as_ref().map(ToString::to_string).unwrap_or_default())
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

/// The id of a text that may hold the zone as well, as Terraform prints ids.
fn local_id<'t>(zone: &Zone, text: &'t str) -> Result<&'t str, Failure> {
    zone.local_id(text)
        .map_err(|elsewhere| Failure::usage(elsewhere.to_string()).remedy("name its zone: --zone, or SCW_DEFAULT_ZONE"))
}

/// The one server that a text names: by its id, else by its operation, else by its name where only one has it, else by
/// an address that it has. Where none is listed so, the server that the journal knows by the text is read by its id: a list may leave it out, or show
/// it under another name, or not be readable.
///
/// An id comes first, whatever others are called, so that a server can always be told from its namesakes.
async fn find(
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

fn is_made_by(machine: &Machine, operation: &str) -> bool {
    machine.operation.as_ref().is_some_and(|id| id.as_str() == operation)
}

fn has_address(machine: &Machine, text: &str) -> bool {
    machine.addresses.iter().any(|address| address == text)
}

fn known_servers(journal: &Journal, text: &str) -> Result<Vec<KnownServer>, Failure> {
    journal.known_servers(text).map_err(|error| lifecycle_failure("the journal cannot be read", &error))
}

fn no_such_server(zone: &Zone, owner: Option<&OwnerName>, text: &str) -> Failure {
    let mut failure = Failure::unknown(format!("there is no server '{text}' of ours in {zone}"));
    if let Some(owner) = owner {
        failure = failure.because(format!("ours are those that carry the tag windlass-owner={owner}"));
    }
    failure.remedy("windlass server list")
}

/// Document of `server show`.
#[derive(Serialize)]
struct Shown<'m> {
    server: &'m Machine,
    volumes: Vec<Value>,
    private_nics: Vec<Value>,
    operations: Vec<Operation>,
}

async fn show(context: &Context, arguments: &ShowServer) -> Result<(), Failure> {
    let look = match context.look() {
        Ok(look) => look,
        Err(failure) => return show_without_key(context, &arguments.server, failure),
    };
    let text = local_id(&look.zone, &arguments.server)?;
    let Some(reader) = look.machines() else { return Err(no_such_server(&look.zone, None, text)) };
    let machines = machines(reader, &look.zone, None).await;
    let Some(machine) = find(reader, &look.zone, &machines, text).await? else {
        return show_gone(context, &look, text, machines.err());
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
fn show_gone(context: &Context, look: &Look, text: &str, unlisted: Option<Failure>) -> Result<(), Failure> {
    let zone = &look.zone;
    let known = look.journal.as_ref().map(|journal| known_servers(journal, text)).transpose()?.unwrap_or_default();
    if known.iter().any(|server| server.removal().is_some()) {
        context.inspector(&look.state).gone_servers(&known);
        return Ok(());
    }
    let Some(creation) = known.iter().find_map(|server| server.created_by.as_ref()) else {
        return Err(unlisted.unwrap_or_else(|| no_such_server(zone, look.owner.as_ref(), text)));
    };
    let elsewhere = made_elsewhere(zone, look.owner.as_ref(), creation, text, "show");
    Err(elsewhere.unwrap_or_else(|| {
        not_in(zone, text)
            .because(format!("operation {} created it, and no operation in the journal removed it", creation.id))
            .because("somebody else deleted it, or removed its tags")
            .remedy("windlass sweep --dry-run")
    }))
}

fn not_in(zone: &Zone, text: &str) -> Failure {
    Failure::usage(format!("there is no server '{text}' in {zone}"))
}

/// Why a server is not found that this creation made: it is another owner's, or in another zone.
fn made_elsewhere(
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

/// What a deletion is about.
struct Subject {
    /// The id of the server, or of the operation where only that is known.
    id: String,
    name: String,
    zone: String,
    /// The operation that created it.
    operation: Option<OperationId>,
    what: Deletion,
    planned: Vec<Planned>,
    protected: bool,
}

/// What is to be done about it.
enum Deletion {
    Cleanup(Target),
    /// Nothing: the journal knows that all of it is gone.
    Gone {
        removed_by: Option<OperationId>,
    },
}

impl Subject {
    fn of_machine(work: &Work, machine: &Machine, group: Option<&GroupName>) -> Self {
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

    /// Of a server that is not listed: what the journal knows to have been made with it.
    fn of_remembered(server: RememberedServer, zone: &Zone) -> Self {
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

    /// Of an operation that only tags speak of.
    fn of_unknown(operation: OperationId, zone: &Zone, group: &GroupName) -> Self {
        Self {
            id: operation.to_string(),
            name: operation.to_string(),
            zone: zone.to_string(),
            what: Deletion::Cleanup(Target::Tagged { zone: zone.clone(), operation: operation.clone() }),
            planned: vec![Planned {
                kind: "operation".to_owned(),
                id: operation.to_string(),
                name: String::new(),
                state: "unknown".to_owned(),
                why: format!("addresses or volumes of group {group} carry its tag"),
            }],
            operation: Some(operation),
            protected: false,
        }
    }
}

async fn delete(context: &Context, arguments: &DeleteServers) -> Result<(), Failure> {
    let confirmation =
        (!arguments.dry_run).then(|| Confirmation::source(arguments.yes, "server delete", DRY_RUN)).transpose()?;
    let group = group_name(arguments.group.as_ref())?;
    let work = context.work(None, arguments.parallel)?;
    let machines = machines(work.lifecycle.machine_reader(), &work.zone, group.as_ref()).await;
    let Subjects { mut subjects, stays, unseen } = match &group {
        Some(group) => of_group(&work, machines, group).await?,
        None => Subjects { subjects: named(&work, &machines, &arguments.servers).await?, ..Subjects::default() },
    };
    let nodes = cluster_nodes(&cluster_store(&work.state, &work.lifecycle)?).await?;
    refuse_cluster_nodes(&subjects, &nodes)?;
    refuse_protected(&subjects)?;
    let planned: Vec<Planned> = subjects.iter_mut().flat_map(|subject| std::mem::take(&mut subject.planned)).collect();
    for words in &stays {
        context.output.say(&format!("note: {words}"));
    }
    if let Some(first) = unseen.first().filter(|_| subjects.is_empty() || confirmation.is_none()) {
        return Err(first.clone().with_partial(json!({ "planned": planned })));
    }
    for list in &unseen {
        context.output.say(&format!("note: there may be more of the group: {}", list.message));
    }
    let notes = if subjects.is_empty() { context.other_owners(&work.state, true).await } else { Vec::new() };
    let Some(confirmation) = confirmation else {
        context.output.result(&noted(json!({ "planned": planned }), &notes), || match planned.as_slice() {
            [] => with_notes("no servers to delete\n", &notes),
            planned => rows(planned),
        });
        return Ok(());
    };
    let cleanups = subjects.iter().filter(|subject| matches!(subject.what, Deletion::Cleanup(_))).count();
    if cleanups > 0 {
        let open = left_open_words(&work)?;
        let question = format!(
            "{open}What was made with a server goes with it; what was attached later is detached and stays. Delete {}?",
            counted(cleanups, "server")
        );
        confirmation.ask(&planned, &question).await?;
    }
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen(&control, context.output, interrupt::REMOVING)?;
    let progress = Progress::follow(events, 0, context.output, context.verbose());
    // What is left of these very servers is removed with them: a second removal beside it would be refused.
    let interrupted_ones = take_up(context, &work, &control, false).await?;
    let parallel = context.parallel(arguments.parallel).unwrap_or(PARALLEL_DELETIONS);
    let results: Vec<(&Subject, Option<Result<Released, Error>>)> = futures::stream::iter(&subjects)
        .map(|subject| {
            let (lifecycle, control) = (&work.lifecycle, &control);
            async move {
                let called_off = control.cancelled().is_cancelled() || control.left().is_cancelled();
                match &subject.what {
                    Deletion::Cleanup(_) if called_off => (subject, Some(Err(Error::NotBegun))),
                    Deletion::Cleanup(target) => {
                        let asking = Asking { requested: Some(Requested::Terminate), ..Asking::default() };
                        let mut request = target.clone().released_by(RequestedBy::user("server delete"), asking);
                        if arguments.force {
                            request.removal = Removal::Force;
                        }
                        (subject, Some(lifecycle.release(request, control).await))
                    }
                    Deletion::Gone { .. } => (subject, None),
                }
            }
        })
        .buffer_unordered(parallel)
        .collect()
        .await;
    interrupted_ones.end().await;
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    progress.end().await;
    deleted(context, &work, &results, &unseen, &notes, was_interrupted)
}

/// What the arguments name, each once: a server that is there, else what the journal knows by that text.
async fn named(
    work: &Work,
    machines: &Result<Vec<Machine>, Failure>,
    texts: &[String],
) -> Result<Vec<Subject>, Failure> {
    let mut subjects: Vec<Subject> = Vec::new();
    for text in texts {
        let text = local_id(&work.zone, text)?;
        let subject = match find(work.lifecycle.machine_reader(), &work.zone, machines, text).await {
            Ok(Some(machine)) => {
                refuse_former_name(&machine, text)?;
                Subject::of_machine(work, &machine, None)
            }
            Ok(None) => remembered(work, machines, text)?,
            Err(failure) if failure.exit == Exit::Usage => return Err(failure),
            // What cannot be read is still to go: its removal tries, and tells what is left.
            Err(failure) => remembered(work, machines, text).map_err(|_| failure)?,
        };
        if !subjects.iter().any(|known| known.id == subject.id) {
            subjects.push(subject);
        }
    }
    Ok(subjects)
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
    // Of those of one name, only what is not gone can be meant; where all is gone, the newest tells so.
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
            Err(elsewhere.or_else(unlisted).unwrap_or_else(|| no_such_server(&work.zone, owner, text)))
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
struct Subjects {
    subjects: Vec<Subject>,
    /// What of a group stays, and why.
    stays: Vec<String>,
    /// Lists that could not be read, so that there may be more of the group.
    unseen: Vec<Failure>,
}

/// The servers of a group, and what is left of those that are not listed any more. What was kept on purpose stays, and
/// so does a server that no operation of ours made: its tags may be copied.
async fn of_group(work: &Work, listed: Result<Vec<Machine>, Failure>, group: &GroupName) -> Result<Subjects, Failure> {
    let unreadable = |error: &Error| lifecycle_failure("what is left of the group cannot be looked up", error);
    let (machines, mut unseen) = match listed {
        Ok(machines) => (machines, Vec::new()),
        Err(failure) => (Vec::new(), vec![failure]),
    };
    let (copies, mut machines): (Vec<_>, Vec<_>) = machines.into_iter().partition(|machine| machine.copy_of.is_some());
    let mut stays: Vec<String> = copies.iter().map(copy_words).collect();
    let remembered = work.lifecycle.remembered_of_group(&work.zone, group);
    let mut remembered = remembered.map_err(|error| unreadable(&error))?;
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
    for operation in unknown {
        if !subjects.iter().any(|subject| subject.operation.as_ref() == Some(&operation)) {
            subjects.push(Subject::of_unknown(operation, &work.zone, group));
        }
    }
    Ok(Subjects { subjects, stays, unseen })
}

fn copy_words(machine: &Machine) -> String {
    let operation = machine.copy_of.as_ref().map(ToString::to_string).unwrap_or_default();
    format!(
        "left alone: server {} ({}): it carries the tags of operation {operation}, which made another one; to remove \
         it: windlass server delete {}",
        machine.id, machine.name, machine.id
    )
}

fn kept_words(server: &RememberedServer) -> String {
    let kept: Vec<String> = server.kept.iter().map(ToString::to_string).collect();
    format!("kept on purpose: {}; to remove it: windlass server delete {}", kept.join(", "), server.operation)
}

/// A protected server is somebody's word that it is to stay.
fn refuse_protected(subjects: &[Subject]) -> Result<(), Failure> {
    let protected: Vec<&Subject> = subjects.iter().filter(|subject| subject.protected).collect();
    let Some(first) = protected.first() else { return Ok(()) };
    let mut failure = Failure::usage(format!(
        "{} of {} {} protected; nothing was touched",
        protected.len(),
        counted(subjects.len(), "server"),
        if protected.len() == 1 { "is" } else { "are" }
    ));
    failure.causes =
        protected.iter().map(|subject| format!("{} ({}) is protected", subject.id, subject.name)).collect();
    Err(failure.remedy(format!(
        "to delete it, remove the protection first: scw instance server update {} zone={} protected=false",
        first.id, first.zone
    )))
}

/// The nodes of all clusters of this state directory, each with its cluster's name.
async fn cluster_nodes(store: &impl ClusterStore) -> Result<Vec<(String, Node)>, Failure> {
    let unreadable = |error: StoreError| {
        Failure::usage("whether a server belongs to a cluster cannot be read; nothing was touched").caused_by(&error)
    };
    let mut nodes = Vec::new();
    for cluster in store.clusters().await.map_err(unreadable)? {
        // The nodes of an abandoned cluster may be deleted one by one.
        if cluster.cluster.state == ClusterState::Abandoned {
            continue;
        }
        let name = &cluster.cluster.name;
        // A cluster that has gone meanwhile has no nodes.
        let stored = store.cluster(name).await.map_err(unreadable)?;
        nodes.extend(stored.into_iter().flat_map(|stored| stored.nodes).map(|node| (name.to_string(), node)));
    }
    Ok(nodes)
}

/// A cluster's nodes leave it by the cluster's own commands: its hooks are run then, and it knows that they are gone.
fn refuse_cluster_nodes(targets: &[Subject], nodes: &[(String, Node)]) -> Result<(), Failure> {
    let is_node = |machine: &Subject, node: &Node| {
        node.exists()
            && (node.server.as_ref() == Some(&machine.id)
                || (node.creation.is_some() && node.creation == machine.operation))
    };
    let members: Vec<(&Subject, &str, &Node)> = targets
        .iter()
        .filter_map(|machine| {
            let (cluster, node) = nodes.iter().find(|(_, node)| is_node(machine, node))?;
            Some((machine, cluster.as_str(), node))
        })
        .collect();
    let Some((_, first, node)) = members.first() else { return Ok(()) };
    let whole = nodes.iter().filter(|(cluster, node)| cluster == first && node.exists()).count();
    let of_first = members.iter().filter(|(_, cluster, _)| cluster == first).count();
    let mut failure = Failure::usage(format!(
        "{} of {} {} to a cluster, whose hooks would not be run; nothing was touched",
        members.len(),
        counted(targets.len(), "server"),
        if members.len() == 1 { "belongs" } else { "belong" }
    ));
    failure.causes = members
        .iter()
        .map(|(machine, cluster, node)| format!("{} is {} of {cluster}", machine.id, node.name))
        .collect();
    Err(failure.remedy(if of_first == whole {
        format!("windlass cluster terminate {first}")
    } else {
        format!("windlass cluster scale {first} --remove {}, or windlass cluster terminate {first}", node.name)
    }))
}

/// A server that would go, and what is attached to it: goes with it, as far as it was `made` with it.
fn planned(machine: &Machine, group: Option<&GroupName>, made: Option<&[ResourceName]>) -> Vec<Planned> {
    let why = group.map_or_else(|| "named".to_owned(), |group| format!("of group {group}"));
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

fn deleted(
    context: &Context,
    work: &Work,
    results: &[(&Subject, Option<Result<Released, Error>>)],
    unseen: &[Failure],
    notes: &[String],
    was_interrupted: bool,
) -> Result<(), Failure> {
    let document = json!({ "servers": results.iter().map(|(subject, result)| match result {
        Some(Ok(released)) => json!({ "id": subject.id, "name": subject.name, "operation": released.operation,
            "report": released.report, "outcome": json!(released.outcome)["outcome"] }),
        Some(Err(error)) => json!({ "id": subject.id, "name": subject.name, "problem": error.to_string() }),
        None => json!({ "id": subject.id, "name": subject.name, "gone": gone_words(subject) }),
    }).collect::<Vec<_>>() });
    let mut failure = Failure::new(Exit::Left, String::new());
    let mut aftermaths = Vec::new();
    let (mut not_deleted, mut kept, mut not_begun) = (0, Vec::new(), Vec::new());
    let (mut not_ours, mut looked_again) = (0, 0);
    for (subject, result) in results {
        let still_there = |reason: String| Leftover {
            kind: "server".to_owned(),
            id: subject.id.clone(),
            zone: subject.zone.clone(),
            reason,
        };
        match result {
            None => {}
            Some(Ok(released)) if released.outcome == ReleaseOutcome::Kept => {
                not_deleted += 1;
                kept.push(subject.id.as_str());
                aftermaths.push(Aftermath::Left(Vec::new()));
                failure.left.push(still_there(released.words()));
            }
            Some(Ok(released)) => {
                let report = released.report.clone().unwrap_or_default();
                let aftermath = report.aftermath();
                if aftermath != Aftermath::Clean {
                    not_deleted += 1;
                    let operation = released.operation.as_ref().map(ToString::to_string).unwrap_or_default();
                    failure.undone.extend(undone_line(&operation, &report));
                    aftermaths.push(aftermath);
                    not_ours += usize::from(report.is_clean() && report.server_not_ours().is_some());
                    looked_again += usize::from(report.is_clean() && report.look_at.is_some());
                    let creation = subject.operation.as_ref().zip(report.look_at);
                    failure.left.extend(creation.map(|(id, at)| unverified(id, &subject.zone, at)));
                }
            }
            Some(Err(Error::NotBegun)) => {
                not_deleted += 1;
                not_begun.push(subject.id.as_str());
                aftermaths.push(Aftermath::Clean);
                failure.left.push(still_there("its deletion was not begun".to_owned()));
            }
            Some(Err(error)) => {
                not_deleted += 1;
                // It was to go and is there.
                aftermaths.push(match error.aftermath() {
                    Aftermath::Open => Aftermath::Open,
                    _ => Aftermath::Left(Vec::new()),
                });
                match still_to_go(work, error) {
                    Some(left) => failure.left.extend(left),
                    None => failure.left.push(still_there(error.to_string())),
                }
            }
        }
    }
    for list in unseen {
        aftermaths.push(Aftermath::Left(Vec::new()));
        failure.causes.push(list.message.clone());
        failure.causes.extend(list.causes.iter().cloned());
    }
    if not_deleted > 0 || !unseen.is_empty() {
        let (servers, are) = (counted(results.len(), "server"), if not_deleted == 1 { "is" } else { "are" });
        failure.message = match not_deleted {
            0 => "what the journal names was deleted; whether more of the group is there could not be seen".to_owned(),
            _ => format!("{not_deleted} of {servers} {are} not deleted completely"),
        };
        let running = results.iter().find_map(|(_, result)| match result {
            Some(Err(Error::OperationRunning { operation })) => {
                Some(format!("windlass operation cancel {operation}, then delete again"))
            }
            Some(Err(Error::CleanupUnderWay { operation })) => Some(format!("windlass operation watch {operation}")),
            _ => None,
        });
        failure.remedy = Some(match running {
            Some(remedy) => remedy,
            None if not_deleted == 0 => "remove the causes, then delete again".to_owned(),
            None if kept.len() == not_deleted => {
                format!("to delete what the release policy keeps: windlass server delete --force {}", kept.join(" "))
            }
            None if not_ours == not_deleted => {
                format!("to delete it, set its tag windlass-owner={} again", work.lifecycle.owner())
            }
            None if looked_again == not_deleted => "later, and again: windlass operation resume".to_owned(),
            None if not_begun.len() == not_deleted => {
                format!("to delete the rest: windlass server delete {}", not_begun.join(" "))
            }
            None => "remove the causes, then: windlass operation resume".to_owned(),
        });
        return Err(failure.ended(aftermaths, Vec::new(), was_interrupted).with_partial(document));
    }
    context.output.result(&noted(document, notes), || {
        if results.is_empty() {
            return with_notes("no servers to delete\n", notes);
        }
        results
            .iter()
            .map(|(subject, result)| {
                let words = match result {
                    Some(Ok(released)) => released.words(),
                    _ => gone_words(subject),
                };
                format!("{}  {}: {words}\n", subject.id, subject.name)
            })
            .collect()
    });
    Ok(())
}

/// What an operation that has not ended has still to remove, or has made so far, as the journal says. `None` where the
/// error is about no such operation, or the journal names nothing.
fn still_to_go(work: &Work, error: &Error) -> Option<Vec<Leftover>> {
    let (Error::LeftOpen { operation } | Error::OperationRunning { operation } | Error::CleanupUnderWay { operation }) =
        error
    else {
        return None;
    };
    let names = work.lifecycle.may_exist(operation).ok().filter(|names| !names.is_empty())?;
    Some(names.into_iter().map(|resource| Left { resource, why: error.to_string() }.into()).collect())
}

/// That something was gone before the command, and whose doing that is.
fn gone_words(subject: &Subject) -> String {
    match &subject.what {
        Deletion::Gone { removed_by: Some(operation) } => format!("is gone already: {operation} removed it"),
        _ => "is gone already".to_owned(),
    }
}
