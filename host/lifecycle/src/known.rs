//! What the journal knows of servers, also of those that are gone.

use serde::Serialize;

use crate::Error;
use crate::identifier::OperationId;
use crate::journal::{Journal, Operation, OperationKind, OperationState, ResourceKind};
use crate::report::Report;
use crate::shared::Shared;

/// A server as the journal knows it, which may be gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownServer {
    /// Scaleway's id. `None`: no answer to its creation is in the journal.
    pub id: Option<String>,
    /// The operation that created it, or tried to. `None`: this journal has no such operation.
    pub created_by: Option<Operation>,
    /// The operation that removed it: a cleanup, a sweep, or the creation that failed and was undone.
    pub removed_by: Option<Operation>,
    /// The operation that is to remove it, or what belongs to it, and has not ended.
    pub removing: Option<Operation>,
}

impl KnownServer {
    /// The removal that has not ended, or the one that removed it.
    #[must_use]
    pub fn removal(&self) -> Option<&Operation> {
        self.removing.as_ref().or(self.removed_by.as_ref())
    }

    /// The name it was created with.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.created_by.as_ref().map(Operation::server_name)
    }
}

impl Journal {
    /// The servers that a text names by Scaleway's id, by the operation that created them, by their name, or by an
    /// address that was made with them; the newest first. Servers that are gone are among them.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn known_servers(&self, text: &str) -> Result<Vec<KnownServer>, Error> {
        let by_id = self.known_server(text)?;
        if by_id.created_by.is_some() || by_id.removed_by.is_some() {
            return Ok(vec![by_id]);
        }
        let mut known = Vec::new();
        for creation in self.creations_named(text)? {
            let made = self.servers_made(&creation.id)?;
            // What was made twice after a lost answer is removed by the creation itself.
            known.push(match made.last() {
                Some(id) => self.known_server(id)?,
                None => KnownServer {
                    id: None,
                    removed_by: removal(&creation, None),
                    removing: unfinished_removal(&creation),
                    created_by: Some(creation),
                },
            });
        }
        Ok(known)
    }

    /// What the journal knows of the server with this id.
    fn known_server(&self, id: &str) -> Result<KnownServer, Error> {
        let operations = self.operations_of_resource(id)?;
        let removed_by = operations.iter().find_map(|operation| removal(operation, Some(id)));
        let removing = operations.iter().find_map(unfinished_removal);
        let created_by = operations.into_iter().find(|operation| operation.kind == OperationKind::CreateServer);
        let ended_by = created_by.as_ref().and_then(|creation| creation.ended_by.as_ref());
        let removed_by = match (removed_by, ended_by) {
            (None, Some(ended_by)) => self.operation(ended_by).ok(),
            (removed_by, _) => removed_by,
        };
        Ok(KnownServer { id: Some(id.to_owned()), created_by, removed_by, removing })
    }
}

/// The operation, where it removed the server, or removed all that it had made itself.
fn removal(operation: &Operation, server: Option<&str>) -> Option<Operation> {
    let report = Report::of(operation);
    let is_removal = match server {
        Some(id) => report?.removed.iter().any(|name| name.kind == ResourceKind::Server && name.id == id),
        None => matches!(operation.state, OperationState::Undone | OperationState::Unverified),
    };
    is_removal.then(|| operation.clone())
}

/// The operation, where it removes something and has not ended: a removal, or the undo of a creation.
fn unfinished_removal(operation: &Operation) -> Option<Operation> {
    let removes = match operation.kind {
        OperationKind::CleanupServer | OperationKind::Sweep => !operation.state.has_ended(),
        _ => operation.state == OperationState::Left,
    };
    removes.then(|| operation.clone())
}

impl Shared {
    /// The creations that an operation ends: those of the servers that its report says are gone.
    pub(crate) fn creations_ended(&self, by: &OperationId, report: &Report) -> Vec<OperationId> {
        let removed = report.removed.iter().filter(|name| name.kind == ResourceKind::Server).map(|name| &name.id);
        let creation = |server| match crate::cleanup::creation_of(self, server) {
            Ok(creation) => creation,
            Err(error) => {
                tracing::warn!(server, %error, "the creation of a server that is gone cannot be read");
                None
            }
        };
        let mut ended: Vec<OperationId> = removed
            .filter_map(|server| creation(server))
            .filter(|creation| creation.id != *by && creation.ended_by.is_none())
            .map(|creation| creation.id)
            .collect();
        ended.sort_unstable();
        ended.dedup();
        ended
    }
}
