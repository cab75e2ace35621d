//! What the journal and tags still know of servers that no listing shows any more.

use std::collections::BTreeSet;

use windlass_scaleway::Zone;
use windlass_scaleway::types::block::ListBlockVolumes;
use windlass_scaleway::types::instance::{ListIps, ListVolumes};

use crate::identifier::{GroupName, OperationId};
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState, ResourceName};
use crate::lifecycle::{Lifecycle, claims_of_creation};
use crate::report::Report;
use crate::specification::ServerSpecification;
use crate::undo::kept_by;
use crate::{Error, tags};

/// A server that this journal has created, or tried to.
#[derive(Clone, Debug)]
pub struct RememberedServer {
    /// The operation that created it.
    pub operation: OperationId,
    /// What its creation called it.
    pub name: String,
    /// Scaleway's id of it, where its creation was answered.
    pub server: Option<String>,
    /// Everything that the journal knows to have been made with it, and does not know to be gone.
    pub resources: Vec<ResourceName>,
    /// What of it a rollback or a cleanup kept on purpose.
    pub kept: Vec<ResourceName>,
    /// Whether the journal knows all of it to be gone: its rollback or its cleanup looked at the end, and nothing was
    /// left or kept.
    pub gone: bool,
    /// The cleanup that removed it, where one did.
    pub removed_by: Option<OperationId>,
}

impl Lifecycle {
    /// The servers of a zone that this journal knows by this text, the newest first: the id of a server, the operation
    /// that created it, or else its name. The names of servers are no keys, so there may be several.
    ///
    /// # Errors
    /// The journal's.
    pub fn remembered(&self, zone: &Zone, text: &str) -> Result<Vec<RememberedServer>, Error> {
        let shared = &self.shared;
        let by_id = match OperationId::parse(text).ok().map(|id| shared.journal.operation(&id)) {
            Some(Ok(operation)) => vec![operation],
            Some(Err(Error::OperationUnknown { .. })) | None => shared.journal.operations_of_resource(text)?,
            Some(Err(error)) => return Err(error),
        };
        let is_creation = |operation: &Operation| operation.kind == OperationKind::CreateServer;
        let by_id: Vec<Operation> = by_id.into_iter().filter(is_creation).collect();
        let (candidates, by_name) = match by_id.is_empty() {
            false => (by_id, false),
            true => (shared.journal.creations_named(text)?, true),
        };
        let mut found = Vec::new();
        for operation in candidates {
            if operation.zone != zone.as_str() || operation.owner != shared.owner.as_str() {
                continue;
            }
            if by_name && called(&operation)?.1 != text {
                continue;
            }
            found.push(self.recall(operation)?);
        }
        Ok(found)
    }

    /// The servers of a group in a zone that this journal does not know to be gone, without those that are being made.
    ///
    /// # Errors
    /// The journal's.
    pub fn remembered_of_group(&self, zone: &Zone, group: &GroupName) -> Result<Vec<RememberedServer>, Error> {
        let shared = &self.shared;
        let creations = shared.journal.operations(&OperationFilter {
            kind: Some(OperationKind::CreateServer),
            group: Some(group.to_string()),
            states: vec![OperationState::Done, OperationState::Kept, OperationState::Left, OperationState::Unverified],
            ..OperationFilter::default()
        })?;
        let mut found = Vec::new();
        for operation in creations {
            if operation.zone == zone.as_str() && operation.owner == shared.owner.as_str() {
                let server = self.recall(operation)?;
                if !server.gone {
                    found.push(server);
                }
            }
        }
        Ok(found)
    }

    fn recall(&self, operation: Operation) -> Result<RememberedServer, Error> {
        let shared = &self.shared;
        let (specification, name) = called(&operation)?;
        let entries = shared.journal.entries(&operation.id)?;
        let mut claims = claims_of_creation(shared, &operation.id, &specification, &entries)?;
        let mut kept: BTreeSet<ResourceName> = kept_by(&entries).cloned().collect();
        let ended_by = operation.ended_by.as_ref().map(|id| shared.journal.operation(id)).transpose()?;
        if let Some(cleanup) = &ended_by {
            let entries = shared.journal.entries(&cleanup.id)?;
            claims.learn(&entries)?;
            kept = kept_by(&entries).cloned().collect();
        }
        let report = Report::of(&operation);
        let gone = match &ended_by {
            // What its lost call may have made is looked for again.
            _ if operation.state == OperationState::Unverified => false,
            Some(cleanup) => matches!(cleanup.state, OperationState::Done | OperationState::Undone),
            None => operation.state == OperationState::Undone && report.is_none_or(|it| it.server_not_ours().is_none()),
        };
        Ok(RememberedServer {
            server: claims.servers().next().map(str::to_owned),
            resources: if gone { Vec::new() } else { claims.known().cloned().collect() },
            kept: if gone { Vec::new() } else { kept.into_iter().collect() },
            operation: operation.id,
            name,
            gone,
            removed_by: operation.ended_by,
        })
    }

    /// The operations whose tags addresses and volumes of a group carry in a zone, and that this journal does not know;
    /// with what could not be listed, so that there may be more.
    pub async fn unknown_of_group(&self, zone: &Zone, group: &GroupName) -> (BTreeSet<OperationId>, Vec<Error>) {
        let shared = &self.shared;
        let wanted = vec![tags::owner_tag(&shared.owner), tags::group_tag(group)];
        let instance = shared.client.instance(zone);
        let block = shared.client.block(zone);
        let ips = ListIps { tags: wanted.clone(), ..ListIps::default() };
        let local = ListVolumes { tags: wanted.clone(), ..ListVolumes::default() };
        // Block Storage matches any of the tags.
        let blocks = ListBlockVolumes { tags: wanted[1..].to_vec(), ..ListBlockVolumes::default() };
        let (ips, local, blocks) =
            futures::join!(instance.list_ips(&ips), instance.list_volumes(&local), block.list_volumes(&blocks));
        let lists = [
            ips.map(|ips| ips.into_iter().map(|it| it.tags).collect::<Vec<_>>()),
            local.map(|volumes| volumes.into_iter().map(|it| it.tags).collect()),
            blocks.map(|volumes| volumes.into_iter().map(|it| it.tags).collect()),
        ];
        let (mut unknown, mut unseen, mut carried_tags) = (BTreeSet::new(), Vec::new(), Vec::new());
        for list in lists {
            match list {
                Ok(tags) => carried_tags.extend(tags),
                Err(error) => unseen.push(Error::scaleway("listing what is left of the group", error)),
            }
        }
        for carried in carried_tags {
            let ours = wanted.iter().all(|tag| carried.contains(tag)) && tags::carries_owner(&carried, &shared.owner);
            let Some(operation) = tags::operation_of(&carried).filter(|_| ours && !tags::is_kept(&carried)) else {
                continue;
            };
            if matches!(shared.journal.operation(&operation), Err(Error::OperationUnknown { .. })) {
                unknown.insert(operation);
            }
        }
        (unknown, unseen)
    }
}

/// What a creation was asked for, and what it calls its server.
fn called(operation: &Operation) -> Result<(ServerSpecification, String), Error> {
    let specification: ServerSpecification = serde_json::from_value(operation.specification.clone())
        .map_err(|error| Error::journal_row("operations", operation.id.as_str(), "specification", error))?;
    let name = specification.server_name(&operation.id).to_owned();
    Ok((specification, name))
}
