//! The sweep, and the list of our servers: what Scaleway holds of ours against what the journal explains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_scaleway::Zone;
use windlass_scaleway::types::block::ListBlockVolumes;
use windlass_scaleway::types::instance::{ListIps, ListServers, ListVolumes, Server, ServerState};

use crate::cleanup::{CleanedUp, CleanupSpecification};
use crate::control::{Control, Happening};
use crate::identifier::{GroupName, OperationId};
use crate::inventory::{Made, Scope};
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::lifecycle::{Lifecycle, Shared, left_open, state_after};
use crate::run::Run;
use crate::specification::ServerSpecification;
use crate::tags;
use crate::undo::undo;
use crate::{Error, metric_names};

/// Resources in one operation of a sweep at most: the rollback slot plans them together.
const BATCH: usize = 100;

/// Where and how to sweep.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The zones to look in.
    pub zones: Vec<Zone>,
    /// Look and report only.
    pub dry_run: bool,
    /// What an operation that this journal does not know made within this time is left alone: another process with the
    /// same owner may be at work on it. The time stands in the operation's id.
    pub grace: Duration,
    /// Also remove servers that run, and what hangs on them, when no journal entry explains them. Otherwise they are
    /// reported only: after the loss of a journal a running server is more likely in use than lost.
    pub running_too: bool,
}

impl SweepRequest {
    /// These zones, an hour of grace, running servers spared.
    #[must_use]
    pub fn new(zones: Vec<Zone>) -> Self {
        Self { zones, dry_run: false, grace: Duration::from_secs(3_600), running_too: false }
    }
}

/// What a sweep saw and did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sweep {
    /// Ours, and explained by nothing.
    pub unexplained: Vec<Unexplained>,
    /// Marked as kept on purpose: left alone.
    pub kept: Vec<ResourceName>,
    /// Ours and explained.
    pub explained: usize,
    /// The operations that removed the unexplained, with their reports. Empty in a dry run.
    pub cleanups: Vec<CleanedUp>,
}

impl Sweep {
    /// Whether nothing that is to be removed is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let gone: BTreeSet<&ResourceName> = self
            .cleanups
            .iter()
            .flat_map(|cleanup| cleanup.report.removed.iter().chain(&cleanup.report.kept))
            .collect();
        self.cleanups.iter().all(|cleanup| cleanup.report.is_clean())
            && self
                .unexplained
                .iter()
                .all(|unexplained| unexplained.spared.is_some() || gone.contains(&unexplained.resource))
    }
}

/// A resource of ours that nothing explains.
#[derive(Clone, Debug, Serialize)]
pub struct Unexplained {
    /// The resource.
    pub resource: ResourceName,
    /// Its name or address.
    pub label: String,
    /// Scaleway's state of it.
    pub state: String,
    /// The operation that its tag names.
    pub operation: Option<OperationId>,
    /// Why nothing explains it.
    pub why: String,
    /// Why it is not removed all the same, where it is not.
    pub spared: Option<String>,
}

/// What a sweep's row in the journal says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SweepSpecification {
    resources: Vec<ResourceName>,
    /// Ids of volumes that the journal proves to be ours.
    volumes: Vec<ResourceName>,
}

impl SweepSpecification {
    pub(crate) fn scope(&self) -> Scope {
        Scope { names: self.resources.clone(), made: Made::of(&self.volumes), ..Scope::default() }
    }
}

/// A server of ours, with what the journal knows of it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The server, as Scaleway shows it now. Its tags may hold public keys.
    #[serde(skip)]
    pub server: Server,
    /// Scaleway's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its group, by its tag.
    pub group: Option<String>,
    /// The zone.
    pub zone: String,
    /// Scaleway's type of it.
    pub server_type: String,
    /// Scaleway's state.
    pub state: String,
    /// Scaleway's detail of the state.
    pub state_detail: String,
    /// Its public addresses.
    pub addresses: Vec<String>,
    /// The operation that created it, by its tag.
    pub operation: Option<OperationId>,
    /// Where that operation stands; absent when this journal does not know it.
    pub operation_state: Option<OperationState>,
    /// What is being done to it now.
    pub in_flight: Option<OperationKind>,
    /// Marked as kept on purpose.
    pub kept: bool,
    /// When Scaleway created it, RFC 3339.
    pub created_at: String,
}

/// One resource of a listing.
struct Listed {
    name: ResourceName,
    label: String,
    state: String,
    tags: Vec<String>,
    attached_to: Option<String>,
}

async fn list_zone(shared: &Shared, zone: &Zone) -> Result<(Vec<Listed>, BTreeMap<String, Server>), Error> {
    let owner = tags::owner_tag(&shared.owner);
    let wanted = vec![owner];
    let instance = shared.client.instance(zone);
    let block = shared.client.block(zone);
    let servers = ListServers { tags: wanted.clone(), ..ListServers::default() };
    let ips = ListIps { tags: wanted.clone(), ..ListIps::default() };
    let local = ListVolumes { tags: wanted.clone(), ..ListVolumes::default() };
    let blocks = ListBlockVolumes { tags: wanted, ..ListBlockVolumes::default() };
    let (servers, ips, local, blocks) = futures::try_join!(
        instance.list_servers(&servers),
        instance.list_ips(&ips),
        instance.list_volumes(&local),
        block.list_volumes(&blocks),
    )
    .map_err(|error| Error::scaleway("listing what is ours", error))?;
    let name = |kind, id: &str| ResourceName { kind, id: id.to_owned(), zone: zone.to_string(), server: None };
    let ours = |tags: &[String]| tags::carries_owner(tags, &shared.owner);
    let mut listed = Vec::new();
    let mut by_id = BTreeMap::new();
    for server in servers.into_iter().filter(|server| ours(&server.tags)) {
        listed.push(Listed {
            name: name(ResourceKind::Server, &server.id),
            label: server.name.clone(),
            state: server.state.as_str().to_owned(),
            tags: server.tags.clone(),
            attached_to: None,
        });
        by_id.insert(server.id.clone(), server);
    }
    for ip in ips.into_iter().filter(|ip| ours(&ip.tags)) {
        listed.push(Listed {
            name: name(ResourceKind::Ip, &ip.id),
            label: ip.address.or(ip.prefix).unwrap_or_default(),
            state: ip.state.as_str().to_owned(),
            tags: ip.tags,
            attached_to: ip.server.map(|server| server.id),
        });
    }
    for volume in blocks.into_iter().filter(|volume| ours(&volume.tags)) {
        listed.push(Listed {
            name: name(ResourceKind::BlockVolume, &volume.id),
            label: volume.name,
            state: volume.status.as_str().to_owned(),
            tags: volume.tags,
            attached_to: volume.references.into_iter().next().map(|r| r.product_resource_id),
        });
    }
    for volume in local.into_iter().filter(|volume| ours(&volume.tags)) {
        listed.push(Listed {
            name: name(ResourceKind::LocalVolume, &volume.id),
            label: volume.name,
            state: volume.state.as_str().to_owned(),
            tags: volume.tags,
            attached_to: volume.server.map(|server| server.id),
        });
    }
    Ok((listed, by_id))
}

/// How a resource stands to the journal.
enum Standing {
    Explained,
    Kept,
    Unexplained { why: String, spared: Option<String> },
}

/// What the journal knows of one operation.
struct Known {
    operation: Operation,
    made: Made,
}

struct Judge<'a> {
    shared: &'a Shared,
    request: &'a SweepRequest,
    servers: BTreeMap<String, Server>,
    known: BTreeMap<OperationId, Option<Known>>,
    /// When the listing began. What an operation changed since then the listing may show in part only.
    listed_from: u64,
}

impl Judge<'_> {
    /// Reads what the journal knows of an operation, once.
    fn learn(&mut self, id: &OperationId) -> Result<(), Error> {
        if self.known.contains_key(id) {
            return Ok(());
        }
        let known = match self.shared.journal.operation(id) {
            Ok(operation) => {
                let existing: BTreeSet<String> =
                    serde_json::from_value::<ServerSpecification>(operation.specification.clone())
                        .map(|specification| specification.existing_volumes().map(str::to_owned).collect())
                        .unwrap_or_default();
                let made = Made::from_entries(&self.shared.journal.entries(id)?, &existing);
                Some(Known { operation, made })
            }
            Err(Error::OperationUnknown { .. }) => None,
            Err(error) => return Err(error),
        };
        self.known.insert(id.clone(), known);
        Ok(())
    }

    fn judge(&mut self, resource: &Listed) -> Result<Standing, Error> {
        if tags::is_kept(&resource.tags) {
            return Ok(Standing::Kept);
        }
        let Some(id) = tags::operation_of(&resource.tags) else {
            return Ok(Standing::Unexplained {
                why: "it carries our owner tag and names no operation".to_owned(),
                spared: Some("no operation of ours makes such a resource; remove it by hand".to_owned()),
            });
        };
        self.learn(&id)?;
        let Some(Some(known)) = self.known.get(&id) else {
            return Ok(self.unknown(resource, &id));
        };
        let unexplained = |why: String| Standing::Unexplained { why, spared: None };
        let operation = &known.operation;
        // One that ended while the lists were read, each at its own moment: its address may have been listed, and its
        // server not yet. The next sweep judges it.
        if operation.updated_at > self.listed_from {
            return Ok(Standing::Explained);
        }
        Ok(match operation.state {
            OperationState::Open => Standing::Explained,
            OperationState::Kept => {
                let kept = operation
                    .report
                    .as_ref()
                    .and_then(|report| serde_json::from_value::<crate::Report>(report.clone()).ok())
                    .is_some_and(|report| report.kept.iter().any(|kept| kept.id == resource.name.id));
                if kept { Standing::Kept } else { unexplained(format!("operation {id} ended and did not keep it")) }
            }
            OperationState::Undone | OperationState::Left | OperationState::Unverified => {
                unexplained(format!("operation {id} failed and should have removed it"))
            }
            OperationState::Done if operation.ended_by.is_some() => {
                unexplained(format!("operation {id} made it, and its server was cleaned up"))
            }
            OperationState::Done => {
                let server = known.made.servers().find(|server| self.servers.contains_key(*server));
                let belongs = known.made.knows(&resource.name.id)
                    || resource.attached_to.as_deref().is_some_and(|to| Some(to) == server);
                match server {
                    Some(_) if belongs => Standing::Explained,
                    Some(_) => unexplained(format!("operation {id} made another one in its place")),
                    None => unexplained(format!("the server of operation {id} is gone")),
                }
            }
        })
    }

    fn unknown(&self, resource: &Listed, id: &OperationId) -> Standing {
        let age = self.shared.clock.now().saturating_sub(id.made_at());
        if age < u64::try_from(self.request.grace.as_millis()).unwrap_or(u64::MAX) {
            return Standing::Explained;
        }
        let runs = |id: &str| {
            self.servers
                .get(id)
                .is_some_and(|server| matches!(server.state, ServerState::Running | ServerState::Starting))
        };
        let in_use = runs(&resource.name.id) || resource.attached_to.as_deref().is_some_and(runs);
        Standing::Unexplained {
            why: format!("this journal does not know operation {id}"),
            spared: (in_use && !self.request.running_too)
                .then(|| "its server runs, and the journal that made it may only be lost".to_owned()),
        }
    }
}

impl Made {
    fn of(volumes: &[ResourceName]) -> Self {
        let mut made = Self::default();
        for volume in volumes {
            made.prove_volume(volume);
        }
        made
    }
}

impl Lifecycle {
    /// Looks for what carries our owner tag and is explained by no live operation and no live machine, and removes it,
    /// each batch as an operation of its own.
    ///
    /// # What explains a resource
    /// An open operation of this journal; a finished create whose server exists, for what that create made and what hangs on
    /// its server; the mark `windlass-kept`; or an operation that this journal does not know and that is younger than the
    /// request's grace.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when a zone cannot be listed, and the journal's errors. That something could not be removed is no
    /// error: the reports say so.
    pub async fn sweep(&self, request: &SweepRequest, control: &Control) -> Result<Sweep, Error> {
        let mut sweep = Sweep::default();
        for zone in &request.zones {
            let listed_from = self.shared.clock.now();
            let (listed, servers) = list_zone(&self.shared, zone).await?;
            let mut judge = Judge { shared: &self.shared, request, servers, known: BTreeMap::new(), listed_from };
            let mut remove = Vec::new();
            for resource in &listed {
                match judge.judge(resource)? {
                    Standing::Explained => sweep.explained += 1,
                    Standing::Kept => sweep.kept.push(resource.name.clone()),
                    Standing::Unexplained { why, spared } => {
                        if spared.is_none() {
                            remove.push(resource.name.clone());
                        }
                        sweep.unexplained.push(Unexplained {
                            resource: resource.name.clone(),
                            label: resource.label.clone(),
                            state: resource.state.clone(),
                            operation: tags::operation_of(&resource.tags),
                            why,
                            spared,
                        });
                    }
                }
            }
            metrics::counter!(metric_names::LEAKS_FOUND).increment(remove.len() as u64);
            if request.dry_run {
                continue;
            }
            // Volumes that lost their tags' race are proven by the journals of the operations that are swept.
            let volumes: Vec<ResourceName> = judge
                .known
                .values()
                .flatten()
                .flat_map(|known| known.made.known())
                .filter(|name| matches!(name.kind, ResourceKind::BlockVolume | ResourceKind::LocalVolume))
                .cloned()
                .collect();
            for batch in remove.chunks(BATCH) {
                sweep.cleanups.push(self.sweep_batch(zone, batch, &volumes, control).await?);
            }
        }
        Ok(sweep)
    }

    async fn sweep_batch(
        &self,
        zone: &Zone,
        resources: &[ResourceName],
        volumes: &[ResourceName],
        control: &Control,
    ) -> Result<CleanedUp, Error> {
        let shared = &self.shared;
        let specification = SweepSpecification { resources: resources.to_vec(), volumes: volumes.to_vec() };
        let group: GroupName = "sweep".parse()?;
        let policies = shared.policies.pin();
        let (id, active) = shared.begin(OperationKind::Sweep, &group, zone, json!(specification), &policies).await?;
        let span = tracing::info_span!("sweep", operation = %id, zone = %zone);
        let run = Run::new(
            Arc::clone(shared),
            id.clone(),
            OperationKind::Sweep,
            group,
            zone.clone(),
            policies,
            control.clone(),
            None,
        );
        async move {
            run.event(Happening::Opened);
            let report = match undo(&run, &mut specification.scope(), None).await {
                Ok(report) => report,
                Err(stop) => return Err(left_open(&run, &active, stop)),
            };
            let state = state_after(&report, OperationState::Done);
            shared.close(&run, &active, state, None, Some(&report), Vec::new()).await?;
            Ok(CleanedUp { operation: id, report })
        }
        .instrument(span)
        .await
    }

    /// Our servers in these zones, with what the journal knows of them.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when a zone cannot be listed, and the journal's errors.
    pub async fn machines(&self, zones: &[Zone], group: Option<&GroupName>) -> Result<Vec<Machine>, Error> {
        let shared = &self.shared;
        let mut wanted = vec![tags::owner_tag(&shared.owner)];
        wanted.extend(group.map(tags::group_tag));
        let open: Vec<Operation> = shared.journal.operations(&OperationFilter {
            states: vec![OperationState::Open],
            limit: Some(10_000),
            ..OperationFilter::default()
        })?;
        let cleaning = |server: &str, creation: Option<&OperationId>| {
            open.iter().any(|operation| {
                operation.kind == OperationKind::CleanupServer
                    && serde_json::from_value::<CleanupSpecification>(operation.specification.clone()).is_ok_and(
                        |target| {
                            target.server.as_deref() == Some(server)
                                || (target.creation.is_some() && target.creation.as_ref() == creation)
                        },
                    )
            })
        };
        let mut machines = Vec::new();
        for zone in zones {
            let request = ListServers { tags: wanted.clone(), ..ListServers::default() };
            let servers = shared
                .client
                .instance(zone)
                .list_servers(&request)
                .await
                .map_err(|error| Error::scaleway("listing our servers", error))?;
            for server in servers {
                if !server.has_all_tags(&wanted) || !tags::carries_owner(&server.tags, &shared.owner) {
                    continue;
                }
                let operation = tags::operation_of(&server.tags);
                let row = operation.as_ref().and_then(|id| shared.journal.operation(id).ok());
                let in_flight = if cleaning(&server.id, operation.as_ref()) {
                    Some(OperationKind::CleanupServer)
                } else if row.as_ref().is_some_and(|row| row.state == OperationState::Open) {
                    Some(OperationKind::CreateServer)
                } else {
                    None
                };
                machines.push(Machine {
                    id: server.id.clone(),
                    name: server.name.clone(),
                    group: tags::group_of(&server.tags).map(str::to_owned),
                    zone: zone.to_string(),
                    server_type: server.commercial_type.clone(),
                    state: server.state.as_str().to_owned(),
                    state_detail: server.state_detail.clone(),
                    addresses: server.public_ips.iter().map(|ip| ip.address.clone()).collect(),
                    operation_state: row.map(|row| row.state),
                    operation,
                    in_flight,
                    kept: tags::is_kept(&server.tags),
                    created_at: server.creation_date.clone(),
                    server,
                });
            }
        }
        Ok(machines)
    }
}
