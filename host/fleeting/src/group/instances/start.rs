//! What an earlier process left, in the journal and on Scaleway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use windlass_lifecycle::{
    GroupMember, Lifecycle, Operation, OperationFilter, OperationId, OperationKind, OperationState,
    Phase as EntryPhase, RequestedBy, Requester, ResourceKind, StateDirectory, members_of_group,
};
use windlass_scaleway::{Client, InvalidLocation, Zone};

use super::Instances;
use crate::configuration::{Configuration, ConfigurationErrors};
use crate::connect::{Family, KeyPair};
use crate::group::book::Book;
use crate::group::closed::says_closed;
use crate::group::entry::{Entry, Event, Phase};
use crate::group::error::StartError;
use crate::group::fleet::Fleet;
use crate::group::places::Place;
use crate::group::start::problem;
use crate::protocol::ConnectorConfig;

pub(super) fn key_of(connector: &ConnectorConfig, state: &StateDirectory) -> Result<Option<KeyPair>, StartError> {
    let key = if connector.use_static_credentials || !connector.key.is_empty() {
        (!connector.key.is_empty()).then(|| KeyPair::configured(connector.key.clone()))
    } else {
        Some(KeyPair::of_group(state.handle())?)
    };
    if key.as_ref().is_some_and(|key| key.tag().is_none()) {
        tracing::warn!(
            "the configured key is not an unencrypted OpenSSH key, so servers do not get its public part: add that \
             to the project's SSH keys"
        );
    }
    Ok(key)
}

/// All servers with the group's tag, of any owner, in each of its zones. If the state is new, every zone must answer,
/// since it is decided only once whether the group is alone. Later, a zone that does not answer affects no other: the
/// group leaves servers there alone that the journal does not know.
pub(super) async fn members(
    client: &Client,
    configuration: &Configuration,
    state: &StateDirectory,
) -> Result<Vec<GroupMember>, StartError> {
    let of_zones =
        configuration.common.zones.iter().map(|zone| members_of_group(client, zone, &configuration.common.group));
    let mut members = Vec::new();
    let mut silent = Vec::new();
    for (zone, answer) in configuration.common.zones.iter().zip(join_all(of_zones).await) {
        match answer {
            Ok(of_zone) => members.extend(of_zone),
            Err(error) => silent.push((zone, error)),
        }
    }
    // A closed zone cannot answer; what it shows one day is left alone.
    let must_answer = |error: &windlass_lifecycle::Error| state.is_fresh() && !says_closed(error);
    let all_silent = silent.len() == configuration.common.zones.len();
    if let Some(position) = silent.iter().position(|(_, error)| all_silent || must_answer(error)) {
        return Err(silent.swap_remove(position).1.into());
    }
    for (zone, error) in silent {
        tracing::warn!(
            %zone,
            error = &error as &dyn std::error::Error,
            "cannot check for servers of another host; if there are any, they are left alone"
        );
    }
    Ok(members)
}

/// An instance is reached by ssh, with a key that cloud-init lets in, which a Windows image does not have. With
/// credentials of their own, people know what they do.
pub(super) fn refuse_windows(connector: &ConnectorConfig, family: Family) -> Result<(), ConfigurationErrors> {
    if family.operating_system != "windows" || connector.use_static_credentials {
        return Ok(());
    }
    let words = "it is a Windows image, which does not let the group's key in by ssh. Name a Linux image; or one of \
                 your own with an SSH server, and set use_static_credentials with its account in connector_config";
    Err(ConfigurationErrors::of(vec![problem("image", words)]))
}

/// What the journal says there is: open operations, and machines that should exist. The latter are listed by Scaleway
/// as well; those that are not have lost their server while nobody looked.
pub(super) fn book_of_journal(
    lifecycle: &Lifecycle,
    configuration: &Configuration,
) -> Result<(Book, Vec<(OperationId, Place)>), windlass_lifecycle::Error> {
    let mut book = Book::default();
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open, OperationState::Left];
    let unfinished = lifecycle.journal().operations(&filter)?;
    // Nobody here takes up what another owner's process left.
    let ours = |operation: &Operation| operation.owner == lifecycle.owner().as_str();
    // Oldest first, so that a removal comes after the creation it ends.
    for operation in unfinished.into_iter().rev().filter(ours) {
        let left = operation.state == OperationState::Left;
        let by = Some(operation.id.clone());
        let place = place_of(&operation)?;
        match operation.kind {
            OperationKind::CreateServer => {
                let phase = if left { Phase::Left { by } } else { Phase::Creating { unwanted: false } };
                book.insert(Entry::found(operation.id, place, phase));
            }
            OperationKind::CleanupServer => {
                let Some(creation) = creation_of(&operation) else { continue };
                let phase = if left { Phase::Left { by } } else { Phase::Removing { by } };
                // The creation's own row, which came first, may have said of which type.
                let place = book.get(creation.as_str()).map_or(place, |entry| entry.place.clone());
                book.insert(Entry::found(creation, place, phase));
            }
            // Nothing of theirs is an instance of the group.
            OperationKind::Sweep
            | OperationKind::AdoptMachine
            | OperationKind::OrderMachine
            | OperationKind::ReleaseMachine => {}
        }
    }
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Done];
    filter.group = Some(configuration.common.group.to_string());
    filter.kind = Some(OperationKind::CreateServer);
    filter.not_ended = true;
    let done = lifecycle.journal().operations(&filter)?;
    let candidates = done
        .into_iter()
        .filter(|operation| ours(operation) && book.get(operation.id.as_str()).is_none())
        .map(|operation| Ok((operation.id.clone(), place_of(&operation)?)))
        .collect::<Result<_, windlass_lifecycle::Error>>()?;
    Ok((book, candidates))
}

/// Where an operation's server is. Of which type a creation made it is seen when it is listed; here it is the first
/// that was to be tried.
fn place_of(operation: &Operation) -> Result<Place, windlass_lifecycle::Error> {
    let unreadable = |error: InvalidLocation| windlass_lifecycle::Error::Specification {
        field: "zone",
        problem: format!("of operation {} in the journal: {error}", operation.id),
    };
    let zone = operation.zone.parse().map_err(unreadable)?;
    let server_type = operation.specification["types"][0].as_str().unwrap_or_default().to_owned();
    Ok(Place { zone, server_type })
}

/// The creation whose server a cleanup removes.
fn creation_of(cleanup: &Operation) -> Option<OperationId> {
    OperationId::parse(cleanup.specification.get("creation")?.as_str()?).ok()
}

impl Fleet<Instances> {
    /// Whether the server of a creation that ended well is proven gone: that a list leaves it out is no proof.
    async fn is_gone(&self, creation: &OperationId, zone: &Zone) -> bool {
        let entries = match self.lifecycle.journal().entries(creation) {
            Ok(entries) => entries,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(instance = %creation, error, "it cannot be read");
                return false;
            }
        };
        let server = entries.into_iter().filter(|entry| entry.phase == EntryPhase::Outcome).find_map(|entry| {
            entry.resource.filter(|resource| resource.kind == ResourceKind::Server).map(|resource| resource.id)
        });
        let Some(server) = server else { return false };
        // What belonged to a kept server stays with whoever wanted it kept.
        if self.lifecycle.journal().is_kept(&server).unwrap_or(true) {
            return false;
        }
        match self.read_server(zone, &server).await {
            Ok(found) => found.is_none(),
            Err(error) => {
                tracing::warn!(
                    instance = %creation,
                    error = &error as &dyn std::error::Error,
                    "it was not listed and cannot be read; if it is gone, the sweep removes what is left of it"
                );
                false
            }
        }
    }

    /// Removes the rest of instances whose servers vanished while no process of ours was there to see it.
    pub(super) async fn clean_up_vanished(self: &Arc<Self>, candidates: Vec<(OperationId, Place)>) {
        let zones: BTreeSet<&Zone> = candidates.iter().map(|(_, place)| &place.zone).collect();
        let listed = join_all(zones.into_iter().map(|zone| async move { (zone.clone(), self.list(zone).await) })).await;
        let mut machines = BTreeMap::new();
        for (zone, listed) in listed {
            match listed {
                Ok(listed) => drop(machines.insert(zone, listed)),
                Err(failure) => tracing::warn!(
                    %zone,
                    "cannot check whether instances are gone; the sweep removes what is left of them: {failure}"
                ),
            }
        }
        for (operation, place) in candidates {
            let Some(machines) = machines.get(&place.zone) else { continue };
            let listed = machines.iter().any(|machine| machine.operation.as_ref() == Some(&operation));
            if listed || !self.is_gone(&operation, &place.zone).await {
                continue;
            }
            let id = operation.to_string();
            let known = self.book.lock().get(&id).is_some();
            if !known {
                self.book.lock().insert(Entry::found(operation, place, Phase::Idle { suspended: false }));
                let why = "its server vanished while the plugin was not running";
                let requested_by = RequestedBy::new(Requester::Plugin, why);
                if let Err(error) = self.begin_removal(&id, &requested_by).await {
                    tracing::warn!(
                        instance = id,
                        error = &error as &dyn std::error::Error,
                        "what is left of it could not be removed"
                    );
                    self.apply(&id, &Event::Ended);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::family;

    #[test]
    fn a_windows_image_is_refused_unless_people_bring_credentials_of_their_own() {
        let connector = ConnectorConfig::default();
        let refused = refuse_windows(&connector, family("windows_server_2022")).unwrap_err().to_string();
        assert!(refused.contains("image") && refused.contains("use_static_credentials"), "{refused}");
        assert!(refuse_windows(&connector, family("ubuntu_noble")).is_ok());
        let own = ConnectorConfig { use_static_credentials: true, ..connector };
        assert!(refuse_windows(&own, family("windows_server_2022")).is_ok());
    }
}
