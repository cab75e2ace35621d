//! Whose the servers of a group are. A group belongs to one journal, on which one host works at a time: what it does
//! not know somebody else made under the same name, on a host that may still work, or a state directory that is lost.
//! Which of the two it is only people can tell, so Init asks them, and names the host that the servers' tags name.

use std::collections::BTreeSet;

use windlass_lifecycle::{Error, GroupMember, Lifecycle, OwnerName, StateDirectory};

use crate::configuration::Configuration;
use crate::group::claim::owner_of_group;
use crate::group::error::StartError;
use crate::group::ids::Ids;

/// The list of instances that were taken over.
pub(super) const LIST: &str = "adopted";
/// Servers that a message names.
const MAX_NAMED: usize = 5;

/// The owner under which the group works; none: the state directory's own. Where a fresh state directory stands beside
/// servers of another owner, they are taken over by becoming that owner, or left alone, as is configured.
///
/// # Errors
/// [`StartError::Strangers`] where nothing is configured, or where they are of several owners.
pub(super) fn owner(
    configuration: &Configuration,
    state: &StateDirectory,
    members: &[GroupMember],
) -> Result<Option<OwnerName>, StartError> {
    if let Some(owner) = &configuration.common.owner {
        return Ok(Some(owner_of_group(owner, &configuration.common.group)?));
    }
    if !state.is_fresh() || members.is_empty() {
        return Ok(None);
    }
    let owners: BTreeSet<&OwnerName> = members.iter().map(|member| &member.owner).collect();
    match (configuration.common.adopt, owners.into_iter().collect::<Vec<_>>().as_slice()) {
        (Some(false), _) => tell_that_they_stay(members.iter()),
        (Some(true), [owner]) => state.take_owner(owner)?,
        (None | Some(true), _) => return Err(strangers(configuration, state, members.iter().collect())),
    }
    Ok(None)
}

/// Takes over the servers of our owner that the journal does not know, or leaves them alone, as is configured. Answers
/// the ids of those that were taken over.
///
/// # Errors
/// [`StartError::Strangers`] where nothing is configured.
pub(super) fn settle(
    configuration: &Configuration,
    lifecycle: &Lifecycle,
    state: &StateDirectory,
    adopted: &Ids,
    members: &[GroupMember],
) -> Result<Vec<String>, StartError> {
    let mut unknown = Vec::new();
    for member in members.iter().filter(|member| member.owner == *lifecycle.owner()) {
        match lifecycle.journal().operation(&member.operation) {
            Ok(_) => {}
            Err(Error::OperationUnknown { .. }) if adopted.holds(member.operation.as_str()) => {}
            Err(Error::OperationUnknown { .. }) => unknown.push(member),
            Err(error) => return Err(error.into()),
        }
    }
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    match configuration.common.adopt {
        None => Err(strangers(configuration, state, unknown)),
        Some(false) => {
            tell_that_they_stay(unknown.into_iter());
            Ok(Vec::new())
        }
        Some(true) => {
            tracing::warn!("taking over, as `adopt` says: {}", named(&unknown));
            adopted.remember(unknown.iter().map(|member| member.operation.as_str()))?;
            Ok(unknown.into_iter().map(|member| member.operation.to_string()).collect())
        }
    }
}

fn tell_that_they_stay<'a>(members: impl Iterator<Item = &'a GroupMember>) {
    let members: Vec<&GroupMember> = members.collect();
    tracing::info!("left alone, as `adopt = false` says: {}", named(&members));
}

fn strangers(configuration: &Configuration, state: &StateDirectory, members: Vec<&GroupMember>) -> StartError {
    let zones: BTreeSet<&str> = members.iter().map(|member| member.zone.as_str()).collect();
    StartError::Strangers {
        group: configuration.common.group.to_string(),
        zones: zones.into_iter().collect::<Vec<_>>().join(", "),
        state: state.location(),
        found: named(&members),
    }
}

/// Some of them, with their hosts and owners.
fn named(members: &[&GroupMember]) -> String {
    let mut named: Vec<String> = members
        .iter()
        .take(MAX_NAMED)
        .map(|member| {
            let host = member.host.as_deref().unwrap_or("a host that does not say its name");
            format!("{} (made on {host}, owner {})", member.operation, member.owner)
        })
        .collect();
    if members.len() > MAX_NAMED {
        named.push(format!("{} more", members.len() - MAX_NAMED));
    }
    named.join(", ")
}
