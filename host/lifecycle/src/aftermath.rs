//! What an error proves about what is left. Every error is listed here, so that a new one does not compile until it is
//! decided what it leaves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::identifier::OperationId;
use crate::journal::step::Step;
use crate::journal::{Entry, Journal, Phase, ResourceName};
use crate::report::{LeftResource, Report};
use crate::run::Run;

/// Why what is kept is there.
const KEPT: &str = "a policy keeps it";

/// What is left after an error, as far as it is proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aftermath {
    /// The request or the set-up is wrong. Nothing was begun.
    Refused,
    /// Nothing is left: a look proved it, or nothing that changes anything was sent.
    Clean,
    /// The operation is open in the journal, and the next start finishes or undoes it.
    Open,
    /// Something is left, or may be. The resources are those that are known, which may be none.
    Left(Vec<LeftResource>),
}

impl Error {
    /// What is left after this error.
    #[must_use]
    pub fn aftermath(&self) -> Aftermath {
        match self {
            Self::Name { .. }
            | Self::Specification { .. }
            | Self::StateDirectory { .. }
            | Self::StateDirectoryIsUrl { .. }
            | Self::JournalAbsent { .. }
            | Self::JournalOpen { .. }
            | Self::JournalNewer { .. }
            | Self::OperationUnknown { .. }
            | Self::OperationRunning { .. }
            | Self::OperationExists { .. }
            | Self::OperationEnded { .. }
            | Self::CleanupUnderWay { .. }
            | Self::HostBusy { .. }
            | Self::NotCancellable { .. }
            | Self::HistoryMoved { .. }
            | Self::NotOurs { .. }
            | Self::Protected { .. }
            | Self::Policy(_)
            | Self::Registries(_)
            | Self::MachineLimit { .. }
            | Self::MachineName { .. } => Aftermath::Refused,
            // An operation that had begun ends with `Unrecorded` instead.
            Self::JournalWrite { .. }
            | Self::OperationTaken { .. }
            | Self::JournalClosed
            | Self::Migration { .. }
            | Self::Downgrade { .. }
            | Self::JournalTooLong { .. }
            | Self::JournalRead { .. }
            | Self::JournalRow { .. } => Aftermath::Refused,
            Self::RecoveryRunning { .. }
            | Self::MachinesLocked { .. }
            | Self::NotBegun
            | Self::NotPlaced { .. }
            | Self::NoEligibleMachine { .. }
            | Self::Scaleway { .. } => Aftermath::Clean,
            Self::Failed(failed) => failed.report.aftermath(),
            Self::LeftOpen { .. } | Self::PartEnded { .. } | Self::PolicyLost { .. } => Aftermath::Open,
            Self::OrderUnverified { .. } => Aftermath::Left(Vec::new()),
            Self::Unrecorded { begun: false, .. } => Aftermath::Open,
            Self::Unrecorded { operation, left, .. } => {
                let why = format!("operation {operation} stopped here, because the journal could not be written");
                Aftermath::Left(
                    left.iter().map(|name| LeftResource { resource: name.clone(), why: why.clone() }).collect(),
                )
            }
        }
    }

    /// Whether it says that the journal cannot be used.
    fn is_of_the_journal(&self) -> bool {
        matches!(
            self,
            Self::JournalWrite { .. }
                | Self::OperationTaken { .. }
                | Self::JournalClosed
                | Self::JournalTooLong { .. }
                | Self::JournalRead { .. }
                | Self::JournalRow { .. }
        )
    }
}

impl Report {
    /// What is left after an undo or a removal, what a policy keeps of it included.
    #[must_use]
    pub fn aftermath(&self) -> Aftermath {
        if self.is_clean() && self.look_at.is_none() && self.server_not_ours().is_none() && self.kept.is_empty() {
            return Aftermath::Clean;
        }
        let kept = self.kept.iter().map(|name| LeftResource { resource: name.clone(), why: KEPT.to_owned() });
        let why = "it exists and no longer carries our owner tag, or its server does not; it was left alone";
        let not_ours = self.not_ours.iter().map(|name| LeftResource { resource: name.clone(), why: why.to_owned() });
        Aftermath::Left(self.left.iter().cloned().chain(kept).chain(not_ours).collect())
    }
}

/// What an operation has made, and not removed again, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// Whether a step was begun that has an effect.
    begun: bool,
    there: Vec<ResourceName>,
    removed: Vec<ResourceName>,
}

impl Effects {
    /// Takes in an entry. An outcome counts although it could not be written: it has happened.
    pub(crate) fn take(&mut self, step: &str, phase: Phase, resource: Option<&ResourceName>, data: &Value) {
        match phase {
            Phase::Intent => self.begun = true,
            Phase::Outcome => {
                let Some(resource) = resource else { return };
                self.there.retain(|known| known.id != resource.id);
                match Step::removes(step) {
                    true => self.removed.push(resource.clone()),
                    false => self.there.push(resource.clone()),
                }
                // What came into being with a server.
                let with_it = data.get("volumes").cloned().unwrap_or_default();
                self.there.extend(serde_json::from_value::<Vec<ResourceName>>(with_it).unwrap_or_default());
            }
            Phase::Failure | Phase::Note => {}
        }
    }

    pub(crate) fn made_nothing(&self) -> bool {
        self.there.is_empty() && self.removed.is_empty()
    }

    pub(crate) fn there(&self) -> &[ResourceName] {
        &self.there
    }

    pub(crate) fn removed(&self) -> &[ResourceName] {
        &self.removed
    }

    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut effects = Self::default();
        entries.iter().for_each(|entry| effects.take(&entry.step, entry.phase, entry.resource.as_ref(), &entry.data));
        effects
    }
}

impl Journal {
    /// What an operation has made, and not removed again, as far as the journal says.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn made_by(&self, operation: &OperationId) -> Result<Vec<ResourceName>, Error> {
        Ok(Effects::of(&self.entries(operation)?).there)
    }
}

impl Run {
    /// The error of an operation that stops because the journal cannot be used, with what it has made. Others stay as
    /// they are.
    pub(crate) fn unrecorded(&self, error: Error) -> Error {
        if !error.is_of_the_journal() {
            return error;
        }
        // What an earlier process did is in the journal, if that can still be read.
        let entries = self.shared.journal.entries(&self.id).unwrap_or_default();
        let (before, now) = (Effects::of(&entries), self.effects());
        let removed_now = |name: &ResourceName| now.removed.iter().any(|removed| removed.id == name.id);
        let mut left = match self.kind.acquires() {
            true => [now.there, before.there].concat(),
            false => self.shared.may_exist(&self.id).unwrap_or_default(),
        };
        left.retain(|name| !removed_now(name));
        left.sort_unstable();
        left.dedup();
        Error::Unrecorded {
            operation: self.id.clone(),
            left,
            begun: before.begun || now.begun,
            source: Box::new(error),
        }
    }
}
