//! Cleaning one server up, with everything that belongs to it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_policy::PinnedPolicies;
use windlass_scaleway::Zone;

use crate::Error;
use crate::control::{Control, Happening};
use crate::identifier::{GroupName, OperationId};
use crate::inventory::{Made, Scope};
use crate::journal::{OperationKind, OperationState, ResourceKind, ResourceName};
use crate::lifecycle::{Active, Lifecycle, Shared, creation_scope, left_open, parse_zone, state_after};
use crate::run::{Run, Stop};
use crate::specification::ServerSpecification;
use crate::undo::{Report, undo};

/// What a cleanup did.
#[derive(Clone, Debug, Serialize)]
pub struct CleanedUp {
    /// The operation that did it.
    pub operation: OperationId,
    /// What was removed, kept and left.
    pub report: Report,
}

/// What to clean up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server that this operation created, with everything that belongs to it.
    Operation(OperationId),
    /// A server by its id, whether or not the journal knows it. It must carry our owner tag.
    Server {
        /// The zone.
        zone: Zone,
        /// Scaleway's id.
        id: String,
    },
    /// Everything that carries this operation's tag and our owner tag, whether or not the journal knows the operation: for who
    /// has lost the journal. Volumes that Scaleway made with a server are found on that server only.
    Tagged {
        /// The zone.
        zone: Zone,
        /// The operation.
        operation: OperationId,
    },
}

/// What a cleanup's row in the journal says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CleanupSpecification {
    pub(crate) creation: Option<OperationId>,
    pub(crate) server: Option<String>,
    /// What carries this operation's tag, which the journal does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tagged: Option<OperationId>,
}

/// A cleanup that is in the journal and has not begun to do anything.
#[derive(Debug)]
pub struct PendingCleanup {
    shared: Arc<Shared>,
    active: Active,
    id: OperationId,
    group: GroupName,
    zone: Zone,
    specification: CleanupSpecification,
    policies: PinnedPolicies,
}

impl Lifecycle {
    /// Opens a cleanup in the journal and calls nobody.
    ///
    /// # Errors
    /// [`Error::CleanupUnderWay`] when one for the same server is open, [`Error::OperationRunning`] when the server is still being
    /// created, [`Error::OperationUnknown`] for an operation that the journal does not know.
    pub async fn begin_cleanup(&self, target: &Target) -> Result<PendingCleanup, Error> {
        let shared = &self.shared;
        let mut tagged = None;
        let (creation, server, zone) = match target {
            Target::Tagged { zone, operation } => match shared.journal.operation(operation) {
                Ok(creation) => (Some(creation), None, Some(zone.clone())),
                Err(Error::OperationUnknown { .. }) => {
                    let server = self.find_created(zone, operation).await?.map(|server| server.id);
                    tagged = Some(operation.clone());
                    (None, server, Some(zone.clone()))
                }
                Err(error) => return Err(error),
            },
            Target::Operation(id) => {
                let creation = shared.journal.operation(id)?;
                (Some(creation), None, None)
            }
            Target::Server { zone, id } => {
                let creation = shared
                    .journal
                    .operations_of_resource(id)?
                    .into_iter()
                    .find(|operation| operation.kind == OperationKind::CreateServer);
                (creation, Some(id.clone()), Some(zone.clone()))
            }
        };
        if let Some(creation) = &creation
            && creation.state == OperationState::Open
        {
            return Err(Error::OperationRunning { operation: creation.id.clone() });
        }
        let specification =
            CleanupSpecification { creation: creation.as_ref().map(|creation| creation.id.clone()), server, tagged };
        let named = specification.creation.as_ref().or(specification.tagged.as_ref());
        let open = shared.journal.open_cleanup(named, specification.server.as_deref())?;
        if let Some(operation) = open {
            return Err(Error::CleanupUnderWay { operation });
        }
        let zone = match (zone, &creation) {
            (Some(zone), _) => zone,
            (None, Some(creation)) => parse_zone(&creation.zone)?,
            (None, None) => unreachable!("an operation that is unknown was refused above"),
        };
        let group: GroupName = match &creation {
            Some(creation) => creation.group.parse()?,
            None => "cleanup".parse()?,
        };
        let policies = shared.policies.pin();
        let row = json!(specification);
        let (id, active) = shared.begin(OperationKind::CleanupServer, &group, &zone, row, &policies).await?;
        Ok(PendingCleanup { shared: Arc::clone(shared), active, id, group, zone, specification, policies })
    }

    /// Removes a server with everything that belongs to it, as the rollback slot plans it. What is gone already counts as
    /// done; unknown ids are gone.
    ///
    /// # Errors
    /// As [`Lifecycle::begin_cleanup`]; [`Error::NotOurs`]; [`Error::LeftOpen`] after [`Control::leave`]. That something is left is no
    /// error: the report says so.
    pub async fn cleanup(&self, target: &Target, control: &Control) -> Result<CleanedUp, Error> {
        self.begin_cleanup(target).await?.run(control).await
    }
}

impl PendingCleanup {
    /// The operation's id.
    #[must_use]
    pub fn id(&self) -> &OperationId {
        &self.id
    }

    /// Does it. See [`Lifecycle::cleanup`].
    ///
    /// # Errors
    /// As there.
    pub async fn run(self, control: &Control) -> Result<CleanedUp, Error> {
        let span = tracing::info_span!("cleanup-server", operation = %self.id, zone = %self.zone);
        let run = Run::new(
            Arc::clone(&self.shared),
            self.id.clone(),
            OperationKind::CleanupServer,
            self.group.clone(),
            self.zone.clone(),
            self.policies.clone(),
            control.clone(),
            None,
        );
        clean_up(&run, &self.active, &self.specification).instrument(span).await
    }
}

/// Carries a cleanup out, also one that another process began.
pub(crate) async fn clean_up(
    run: &Run,
    active: &Active,
    specification: &CleanupSpecification,
) -> Result<CleanedUp, Error> {
    let shared = &run.shared;
    run.event(Happening::Opened);
    let mut scope = match &specification.creation {
        Some(creation) => {
            let row = shared.journal.operation(creation)?;
            let created: ServerSpecification =
                serde_json::from_value(row.specification).map_err(|error| Error::JournalRow {
                    table: "operations",
                    row: creation.to_string(),
                    column: "specification".to_owned(),
                    problem: error.to_string(),
                })?;
            creation_scope(shared, creation, &created)?
        }
        None => Scope { operation: specification.tagged.clone(), ..Scope::default() },
    };
    // An earlier process may have looked already, and cut volumes from their server since.
    let own = Made::from_entries(&shared.journal.entries(&run.id)?, &scope.existing);
    scope.made.absorb(own);
    if specification.creation.is_none()
        && let Some(id) = &specification.server
    {
        let name =
            ResourceName { kind: ResourceKind::Server, id: id.clone(), zone: run.zone.to_string(), server: None };
        let instance = shared.client.instance(&run.zone);
        match run.look_one("get-server", || instance.get_server(id)).await {
            Ok(None) => {}
            Ok(Some(server)) => {
                if !crate::tags::carries_owner(&server.tags, &shared.owner) {
                    shared.close(run, active, OperationState::Undone, None, None, Vec::new()).await?;
                    return Err(Error::NotOurs { resource: name, owner: shared.owner.to_string() });
                }
                scope.operation = crate::tags::operation_of(&server.tags);
            }
            Err(Stop::Failed(failed)) => {
                let report = Report {
                    unverified: Some(format!("{}: {}", failed.step, crate::failure::words(&failed.failure))),
                    ..Report::default()
                };
                shared.close(run, active, OperationState::Left, Some(&failed), Some(&report), Vec::new()).await?;
                return Ok(CleanedUp { operation: run.id.clone(), report });
            }
            Err(stop) => return Err(left_open(run, active, stop)),
        }
        scope.names.push(name);
    }
    let report = match undo(run, &mut scope, None).await {
        Ok(report) => report,
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    let state = state_after(&report, OperationState::Done);
    let ends = match &specification.creation {
        Some(creation) if report.is_clean() => vec![creation.clone()],
        _ => Vec::new(),
    };
    shared.close(run, active, state, None, Some(&report), ends).await?;
    Ok(CleanedUp { operation: run.id.clone(), report })
}
