//! `windlass server create`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::Listing;
use windlass_inspect::words::counted;
use windlass_lifecycle::{
    AccountProblem, AddressKind, CloudInit, Control, CreatedServer, Error, ExtraVolume, ImageChoice, LeftResource,
    OperationId, Report, RequestedBy, ResourceKind, RootVolume, ServerSpecification, SpecificationProblem, VolumeKind,
};

use crate::arguments::{self, CreateServer};
use crate::commands::lifecycle::{take_up, unverified};
use crate::configuration::VolumeType;
use crate::context::{Context, Work};
use crate::files::read_bounded;
use crate::interrupt;
use crate::progress::Progress;

/// More than Scaleway takes; the exact bound is checked with the specification.
const MAX_CLOUD_INIT_BYTES: u64 = 1 << 20;

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

pub(super) async fn create(context: &Context, arguments: CreateServer) -> Result<(), Failure> {
    let count = arguments.count as usize;
    // Before a signal is listened for: it ends the wait for a pipe that nobody writes to.
    let cloud_init = arguments.cloud_init.as_deref().map(cloud_init).transpose();
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen_before(&control, context.output, interrupt::CREATING)?;
    let work = context.work(arguments.project.as_deref(), arguments.parallel)?;
    let specification = specification(context, &work, &arguments, cloud_init)?;
    // Everything that costs nothing comes before the first address.
    let mistakes = specification.problems(count);
    let problems = work.lifecycle.account_problems(&specification, count);
    let problems = interrupt::unless_cancelled(&control, problems).await?;
    let is_known = |field| mistakes.iter().any(|mistake| mistake.field == field);
    let missing = problems.iter().filter(|problem| problem.is_certain() && !is_known(problem.field));
    let mistake = |mistake: &SpecificationProblem| {
        SpecificationProblem { field: option_of(mistake.field), ..mistake.clone() }.to_string()
    };
    let absent =
        |problem: &AccountProblem| AccountProblem { field: option_of(problem.field), ..problem.clone() }.to_string();
    refuse(mistakes.iter().map(mistake).chain(missing.map(absent)))?;
    if let Some(doubt) = specification.cloud_init.as_ref().and_then(CloudInit::doubt) {
        context.output.say(&format!("note: the cloud-init file: {doubt}"));
    }

    interrupted.begins();
    let progress = Progress::follow(events, count, context.output, context.verbose());
    let beside = take_up(context, &work, &control, true).await?;
    let results = work.lifecycle.create_servers(&specification, count, &control).await;
    let left_beside = beside.end().await;
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
        // Its names are those of the operations, too.
        let servers = Listing::new(&created, "no servers", |server: &Created| server.id.clone())
            .column("server", |server| server.id.clone())
            .spare(3)
            .column("name", |server| server.name.clone())
            .column("type", |server| server.server_type.clone())
            .spare(1)
            .column("zone", |server| server.zone.clone())
            .spare(2)
            .column("state", |server| server.state.clone())
            .column("addresses", |server| server.addresses.join(" "))
            .list()
            .wide("operation", |server| server.operation.clone());
        context.output.listing(&document, &servers);
        return Ok(());
    }
    let failure = creation_failure(&work, &failed, &created, count, was_interrupted).with_left_beside(left_beside);
    Err(failure.with_partial(document))
}

/// The option that a field of the specification is given by.
fn option_of(field: &'static str) -> &'static str {
    match field {
        "types" => "--type",
        "image" => "--image",
        "name" => "--name",
        "zone" => "--zone",
        "count" => "--count",
        "project" => "--project",
        "root_volume" => "--volume-size",
        "volumes" => "--extra-volume",
        "private_networks" => "--private-network",
        "security_group" => "--security-group",
        "placement_group" => "--placement-group",
        "cloud_init" => "--cloud-init",
        "tags" => "--tag",
        "deadline_milliseconds" => "--wait",
        other => other,
    }
}

/// Refuses what is known beforehand to fail, with all of its mistakes.
fn refuse(mistakes: impl Iterator<Item = String>) -> Result<(), Failure> {
    let failures: Vec<Failure> = mistakes.map(Failure::usage).collect();
    if failures.is_empty() { Ok(()) } else { Err(refused(failures)) }
}

/// One failure of several mistakes. Of one mistake, its own.
fn refused(mut failures: Vec<Failure>) -> Failure {
    if failures.len() == 1 {
        return failures.remove(0);
    }
    let mut failure = Failure::usage(format!("{} mistakes in what is asked for; nothing was touched", failures.len()));
    let words = |one: &Failure| {
        let parts = std::iter::once(&one.message).chain(&one.causes).chain(&one.remedy).map(String::as_str);
        parts.collect::<Vec<_>>().join("; ")
    };
    failure.causes = failures.iter().map(words).collect();
    failure
}

/// What an operation that is left open has made.
fn made_by(work: &Work, operation: &OperationId) -> Vec<Leftover> {
    let made = work.lifecycle.journal().made_by(operation).unwrap_or_default();
    made.into_iter()
        .map(|resource| LeftResource { resource, why: format!("operation {operation} is left open") }.into())
        .collect()
}

fn creation_failure(work: &Work, failed: &[&Error], created: &[Created], count: usize, interrupted: bool) -> Failure {
    let message = format!("{} of {} could not be created", failed.len(), counted(count, "server"));
    let mut failure = Failure::new(Exit::Left, message);
    let (mut left_open, mut kept) = (Vec::new(), Vec::new());
    let mut first_operation = None;
    for error in failed {
        match error {
            Error::Failed(failed) => {
                kept.extend(failed.report.kept.iter());
                first_operation.get_or_insert_with(|| failed.operation.to_string());
                let cause = failed.cause.words();
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
    // The exit code also says whether some servers were created or none.
    let exist = created.iter().map(|server| Leftover {
        kind: "server".to_owned(),
        id: server.id.clone(),
        zone: server.zone.clone(),
        reason: format!("it was created, as was asked for, and runs ({})", server.operation),
    });
    for operation in &left_open {
        failure.causes.push(format!("{operation}: left open in the journal, for the next start"));
    }
    failure = failure.ended(failed.iter().map(|error| error.aftermath()), exist.collect(), interrupted);
    failure.remedy = match (failure.exit, first_operation) {
        (Exit::Left | Exit::Interrupted, _)
            if !left_open.is_empty() || failure.left.len() > created.len() + kept.len() =>
        {
            Some("windlass operation resume".to_owned())
        }
        (Exit::Left | Exit::Interrupted, _) if !kept.is_empty() => {
            let servers = kept.iter().filter(|name| name.kind == ResourceKind::Server);
            let servers: String = servers.map(|name| format!(" {}", name.id)).collect();
            (!servers.is_empty())
                .then(|| format!("to delete what the rollback policy keeps: windlass server delete --force{servers}"))
        }
        (Exit::Interrupted, _) => None,
        (_, Some(operation)) => Some(format!("windlass operation show {operation}")),
        (_, None) => None,
    };
    failure
}

/// Options first, then the configuration's `[server]`, then the defaults that `docs/operating.md` names.
fn specification(
    context: &Context,
    work: &Work,
    arguments: &CreateServer,
    cloud_init: Result<Option<CloudInit>, Failure>,
) -> Result<ServerSpecification, Failure> {
    let defaults = &context.configuration.server;
    let types = match arguments.server_types.as_slice() {
        [] => defaults.server_types.clone().unwrap_or_default(),
        types => types.to_vec(),
    };
    let first_type = types.first().filter(|first| !first.is_empty());
    let image = arguments.image.as_ref().or(defaults.image.as_ref());
    let group = arguments.group.as_ref().or(defaults.group.as_ref());
    let (Some(first_type), Some(image), Some(group), Ok(cloud_init)) = (first_type, image, group, &cloud_init) else {
        let missing = [
            first_type.is_none().then(|| not_named("server type", "--type DEV1-S", "type")),
            image.is_none().then(|| not_named("image", "--image ubuntu_noble", "image")),
            group.is_none().then(|| not_named("group", "--group ci", "group")),
            cloud_init.err(),
        ];
        return Err(refused(missing.into_iter().flatten().collect()));
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
    specification.requested_by = RequestedBy::user("server create");
    specification.cloud_init = cloud_init.clone();
    specification.project = arguments.project.clone();
    if let Some(wait) = arguments.wait.or(defaults.wait) {
        specification.deadline_milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    }
    Ok(specification)
}

fn not_named(what: &str, option: &str, key: &str) -> Failure {
    Failure::usage(format!("no {what} is named"))
        .remedy(format!("add {option}, or `{key}` in [server] of the configuration"))
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
    Ok(CloudInit::new(read_bounded(path, WHAT, MAX_CLOUD_INIT_BYTES)?))
}
