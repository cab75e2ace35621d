//! How a run writes the steps of servers and its notes: as types.

use crate::journal::note::Note;
use crate::journal::step::{Create, Step};
use crate::journal::{Phase, ResourceName};
use crate::run::Run;
use crate::stop::Stop;

impl Run {
    /// Journals that a step of a creation is about to have an effect.
    pub(crate) async fn begin(&self, create: Create, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (word, data) = Step::Create(create).parts();
        self.intend(&word, resource, data).await
    }

    /// Journals that it took place.
    pub(crate) async fn done(&self, create: Create, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (word, data) = Step::Create(create).parts();
        self.conclude(&word, resource, data).await
    }

    /// Journals a note.
    pub(crate) async fn note(&self, note: Note, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (word, data) = note.parts();
        self.write(&word, Phase::Note, resource, data).await
    }
}
