//! The list of our servers, with what the journal knows of them.

use serde::Serialize;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{ListServers, Server};

use crate::cleanup::CleanupSpecification;
use crate::identifier::{GroupName, OperationId};
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState};
use crate::lifecycle::Lifecycle;
use crate::{Error, tags};

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
    /// The operation that created it, by its tag. None for what carries the tag of an operation that made another one,
    /// as the journal tells: a copy of the tags, or a double.
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

impl Lifecycle {
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
                let mut operation = tags::operation_of(&server.tags);
                if let Some(id) = &operation {
                    let made = shared.journal.servers_made(id)?;
                    if !made.is_empty() && !made.contains(&server.id) {
                        operation = None;
                    }
                }
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
