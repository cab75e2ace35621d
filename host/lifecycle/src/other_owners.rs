//! What a command says where it finds nothing of ours: whether its state directory can know anything, and whose servers
//! there are beside ours.
//!
//! A lost or mistyped state directory has a new owner, which owns nothing, while the servers run on under the old one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use crate::identifier::OwnerName;
use crate::journal::{Journal, OperationFilter, OperationState};
use crate::state_directory::StateDirectory;
use crate::{Error, tags};

/// Owners that a message names.
const MAX_NAMED: usize = 5;

/// Why there may be more than what is ours. [`OtherOwners::words`] says it to people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OtherOwners {
    /// The state directory.
    pub directory: PathBuf,
    /// The owner in force. `None`: the state directory has none yet, and the next change makes one.
    pub owner: Option<OwnerName>,
    /// Whether the journal has no operation: nothing was created with this state directory, or all of it is forgotten.
    pub is_new: bool,
    /// Creations and claims of machines in the journal that other owners began, and nobody undid or released, counted
    /// by owner.
    pub machines: BTreeMap<String, usize>,
    /// Servers of other owners at Scaleway, counted by owner. `None`: Scaleway was not asked.
    pub servers: Option<(Zone, BTreeMap<String, usize>)>,
}

impl OtherOwners {
    /// Where there is no state directory yet, and so no owner but the one that the configuration names.
    #[must_use]
    pub fn without_state(directory: PathBuf, configured: Option<&OwnerName>) -> Self {
        Self { directory, owner: configured.cloned(), is_new: true, machines: BTreeMap::new(), servers: None }
    }

    /// What the state directory shows. `configured`: the owner that the configuration names. Changes nothing.
    ///
    /// # Errors
    /// When the state directory or its journal cannot be read.
    pub fn of(state: &StateDirectory, configured: Option<&OwnerName>) -> Result<Self, Error> {
        let owner = configured.cloned().map_or_else(|| state.stored_owner(), |owner| Ok(Some(owner)))?;
        let journal = match Journal::read_only(state) {
            Ok(journal) => Some(journal),
            Err(Error::JournalAbsent { .. }) => None,
            Err(error) => return Err(error),
        };
        let read = |filter: OperationFilter| {
            journal.as_ref().map_or_else(|| Ok(Vec::new()), |journal| journal.operations(&filter))
        };
        let is_new = read(OperationFilter { limit: Some(1), ..OperationFilter::default() })?.is_empty();
        let standing = read(OperationFilter {
            states: vec![OperationState::Open, OperationState::Done, OperationState::Left, OperationState::Unverified],
            not_ended: true,
            ..OperationFilter::default()
        })?;
        let mut found = Self { is_new, ..Self::without_state(state.path().to_owned(), owner.as_ref()) };
        for operation in standing.into_iter().filter(|operation| operation.kind.acquires()) {
            if owner.as_ref().is_some_and(|owner| *owner.as_str() != operation.owner) {
                *found.machines.entry(operation.owner).or_default() += 1;
            }
        }
        Ok(found)
    }

    /// Looks which other owners have servers in a zone, in the client's default project where it has one.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed.
    pub async fn look(&mut self, client: &Client, zone: &Zone) -> Result<(), Error> {
        let project = client.settings().project_id();
        // Scaleway's filter takes whole tags only, so the owners are found on our side.
        let request = ListServers { project: project.map(str::to_owned), ..ListServers::default() };
        let listed = client.instance(zone).list_servers(&request).await;
        let listed = listed.map_err(|error| Error::scaleway("looking for servers of other owners", error))?;
        let mut servers = BTreeMap::new();
        let of_project = |server: &Server| project.is_none_or(|project| server.project == project);
        for owner in listed.iter().filter(|server| of_project(server)).filter_map(|it| tags::owner_of(&it.tags)) {
            if self.owner.as_ref() != Some(&owner) {
                *servers.entry(owner.to_string()).or_default() += 1;
            }
        }
        self.servers = Some((zone.clone(), servers));
        Ok(())
    }

    /// What to say beside "nothing", one sentence each; empty where "nothing" is the whole truth.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.is_new {
            let owner = self.owner.as_ref().map_or_else(|| "a new one".to_owned(), ToString::to_string);
            words.push(format!(
                "no state was found in {}: nothing is recorded there, and the owner is {owner}. If you created \
                 servers before, name their state directory with --state-dir, WINDLASS_STATE_DIR or state_dir in the \
                 configuration",
                self.directory.display()
            ));
        }
        if let Some(owner) = &self.owner
            && let Some(other) = self.machines.keys().next()
        {
            words.push(format!(
                "the journal in {} has machines of {}, and the owner is {owner}. To work with them, set owner = \
                 {other:?} in the configuration",
                self.directory.display(),
                named(&self.machines)
            ));
        }
        if let Some((zone, servers)) = &self.servers
            && !servers.is_empty()
        {
            let count: usize = servers.values().sum();
            let (are, belong) = if count == 1 { ("server", "belongs") } else { ("servers", "belong") };
            words.push(format!(
                "{count} {are} {belong} to other owners in {zone}: {}. To work with them, use the state directory that created them, or \
                 set `owner` in the configuration",
                named(servers)
            ));
        }
        words
    }
}

/// Some of the owners, those with the most servers first.
fn named(owners: &BTreeMap<String, usize>) -> String {
    let mut sorted: Vec<(&String, &usize)> = owners.iter().collect();
    sorted.sort_by_key(|(owner, count)| (std::cmp::Reverse(*count), *owner));
    let mut named: Vec<String> =
        sorted.iter().take(MAX_NAMED).map(|(owner, count)| format!("owner {owner} ({count})")).collect();
    if owners.len() > MAX_NAMED {
        named.push(format!("{} more owners", owners.len() - MAX_NAMED));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_named_by_the_number_of_their_servers() {
        let owners = ["a", "b", "c", "d", "e", "f"].map(|owner| (owner.to_owned(), if owner == "c" { 9 } else { 1 }));
        let words = named(&owners.into());
        assert_eq!(words, "owner c (9), owner a (1), owner b (1), owner d (1), owner e (1), 1 more owners");
    }
}
