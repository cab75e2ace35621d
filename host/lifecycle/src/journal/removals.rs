//! Which servers open cleanups remove, and what was abandoned. Each listing of servers needs all of it, so it is
//! remembered for as long as the log knows what changed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize as _;

use super::{
    Condition, Journal, Operation, OperationFilter, OperationKind, OperationState, operations_where, read_operation,
};
use crate::Error;
use crate::cleanup::CleanupSpecification;
use crate::identifier::OperationId;
use crate::log::Changed;

/// Read once for a whole listing: in mass removals there are many open cleanups.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// What open cleanups remove: servers, and what creations made.
    servers: HashSet<String>,
    creations: HashSet<OperationId>,
    abandoned: HashSet<String>,
}

impl Removals {
    /// Whether an open cleanup removes this server, or what this creation made.
    pub(crate) fn removes(&self, server: &str, creation: Option<&OperationId>) -> bool {
        self.servers.contains(server) || creation.is_some_and(|creation| self.creations.contains(creation))
    }

    /// Whether this resource was abandoned, and no other operation has removed it.
    pub(crate) fn has_abandoned(&self, id: &str) -> bool {
        self.abandoned.contains(id)
    }
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct RememberedRemovals {
    mark: Option<u64>,
    /// The open cleanups, by the id of the operation.
    cleanups: HashMap<String, CleanupSpecification>,
    /// The operations that were abandoned and that no other one has ended.
    left_alone: HashSet<String>,
    removals: Arc<Removals>,
}

impl RememberedRemovals {
    /// Takes in an open cleanup. One whose target cannot be read hides nothing: its end is seen all the same.
    fn take_in(&mut self, cleanup: &Operation) {
        if let Ok(target) = CleanupSpecification::deserialize(&cleanup.specification) {
            self.cleanups.insert(cleanup.id.to_string(), target);
        }
    }

    fn gather(&mut self, abandoned: HashSet<String>) {
        self.removals = Arc::new(Removals {
            servers: self.cleanups.values().filter_map(|target| target.server.clone()).collect(),
            creations: self.cleanups.values().filter_map(|target| target.creation.clone()).collect(),
            abandoned,
        });
    }
}

impl Journal {
    /// Answers for one listing.
    pub(crate) fn removals(&self) -> Result<Arc<Removals>, Error> {
        let mut remembered = self.remembered_removals.lock();
        let (mark, changed) = self.log.changed_since(remembered.mark.take());
        match changed {
            Changed::Streams { written, appended } => self.update_removals(&mut remembered, &written, &appended)?,
            Changed::Unknown => *remembered = self.read_removals()?,
        }
        remembered.mark = Some(mark);
        Ok(Arc::clone(&remembered.removals))
    }

    fn read_removals(&self) -> Result<RememberedRemovals, Error> {
        let mut remembered = RememberedRemovals::default();
        let cleanups = self.operations(&OperationFilter {
            states: vec![OperationState::Open],
            kind: Some(OperationKind::CleanupServer),
            ..OperationFilter::default()
        })?;
        cleanups.iter().for_each(|cleanup| remembered.take_in(cleanup));
        let abandoned = self.read_abandoned(&mut remembered)?;
        remembered.gather(abandoned);
        Ok(remembered)
    }

    fn read_abandoned(&self, remembered: &mut RememberedRemovals) -> Result<HashSet<String>, Error> {
        let left_alone: Vec<String> = self.left_alone(None)?.into_iter().map(|stream| stream.id).collect();
        remembered.left_alone = left_alone.iter().cloned().collect();
        self.abandoned_with(left_alone)
    }

    /// Brings what is remembered up to date with these streams, which were written, or appended to.
    fn update_removals(
        &self,
        remembered: &mut RememberedRemovals,
        written: &BTreeSet<String>,
        appended: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let mut abandoned_changed = written.iter().chain(appended).any(|id| remembered.left_alone.contains(id));
        let mut cleanups_changed = false;
        if !written.is_empty() {
            for id in written {
                cleanups_changed |= remembered.cleanups.remove(id).is_some();
            }
            let open_cleanup = Condition::All(vec![
                Condition::is("kind", OperationKind::CleanupServer.as_str()),
                Condition::is("state", OperationState::Open.as_str()),
            ]);
            let abandoned = Condition::is("state", OperationState::Abandoned.as_str());
            let ids = Condition::one_of("id", &written.iter().collect::<Vec<_>>());
            let relevant = vec![ids, Condition::Any(vec![open_cleanup, abandoned])];
            for stream in self.log.streams(&operations_where(relevant))? {
                if stream.document["state"] == OperationState::Abandoned.as_str() {
                    abandoned_changed = true;
                } else {
                    remembered.take_in(&read_operation(stream)?);
                    cleanups_changed = true;
                }
            }
        }
        if abandoned_changed {
            let abandoned = self.read_abandoned(remembered)?;
            remembered.gather(abandoned);
        } else if cleanups_changed {
            let abandoned = remembered.removals.abandoned.clone();
            remembered.gather(abandoned);
        }
        Ok(())
    }
}
