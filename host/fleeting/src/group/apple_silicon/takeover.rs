//! Whose the hosts of a group are: their names say it, and the journal of who claimed them.

use sha2::{Digest as _, Sha256};
use windlass_lifecycle::{Lifecycle, Operation, StateDirectory};

use crate::configuration::Common;
use crate::group::error::StartError;
use crate::group::ids::Ids;

/// Hexadecimal digits of the owner's mark in names.
const MARK_BYTES: usize = 3;
/// The list of our claims that hosts still carry.
pub(super) const LIST: &str = "claimed";
/// Hexadecimal digits of the rest of a name.
const UNIQUE_DIGITS: usize = 12;

/// What the names of the group's hosts begin with.
pub(super) fn claims_of(configuration: &Common, lifecycle: &Lifecycle) -> String {
    let mark = hex::encode(&Sha256::digest(lifecycle.owner().as_str().as_bytes())[..MARK_BYTES]);
    format!("{}-{mark}-", configuration.group)
}

/// Whose the hosts are that carry the group's name: those that our journal claimed are ours. What carries our mark and
/// was claimed by another state directory somebody with our owner works on, or worked on and lost his; what carries
/// another mark is another owner's. Which of the two it is only people can tell. Answers the names of those that were
/// taken over.
///
/// # Errors
/// [`StartError::StrangeHosts`] where nothing is configured, or where hosts of another owner are to be taken over.
pub(super) fn settle(
    configuration: &Common,
    lifecycle: &Lifecycle,
    state: &StateDirectory,
    known: &Ids,
    names: &[String],
) -> Result<Vec<String>, StartError> {
    let claims = &claims_of(configuration, lifecycle);
    let (mut unknown, mut others) = (Vec::new(), Vec::new());
    for name in names {
        if name.starts_with(claims.as_str()) {
            if is_claim(name, claims) && !known.holds(name) && !was_claimed(lifecycle, name)? {
                unknown.push(name.as_str());
            }
        } else if is_of_another_owner(name, configuration.group.as_str()) {
            others.push(name.as_str());
        }
    }
    let strange = |others: bool, found: &[&str]| StartError::StrangeHosts {
        group: configuration.group.to_string(),
        zone: configuration.first_zone().to_string(),
        state: state.location(),
        remedy: if others { OF_ANOTHER_OWNER } else { OF_OUR_OWNER },
        found: found.join(", "),
    };
    match configuration.adopt {
        _ if unknown.is_empty() && others.is_empty() => Ok(Vec::new()),
        Some(false) => {
            let found = [unknown, others].concat();
            tracing::info!(hosts = ?found, "left alone, as `adopt = false` says");
            Ok(Vec::new())
        }
        _ if !others.is_empty() => Err(strange(true, &others)),
        None => Err(strange(false, &unknown)),
        Some(true) => {
            tracing::warn!(hosts = ?unknown, "taking over, as `adopt` says");
            known.remember(unknown.iter().copied())?;
            Ok(unknown.into_iter().map(str::to_owned).collect())
        }
    }
}

/// What helps where hosts carry our owner's mark.
const OF_OUR_OWNER: &str = "If another host with the same `owner` works on them, this group needs a `name` of its own, \
    or adopt = false, which leaves them alone. If their state_dir was lost, adopt = true takes them over";
/// What helps where they carry another's.
const OF_ANOTHER_OWNER: &str = "Their names have the mark of another `owner` or state_dir. If that is still in use, \
    give this group its own `name`, or set adopt = false to leave them alone. If it is lost, reinstall the hosts and \
    rename them with the prefix of a pool; set `owner` in plugin_config to prevent this";

/// The part of a name that no two claims share.
fn is_unique_part(text: &str) -> bool {
    text.len() == UNIQUE_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_claim(name: &str, claims: &str) -> bool {
    name.strip_prefix(claims).is_some_and(is_unique_part)
}

/// Whether a name is a claim of this group under some mark.
fn is_of_another_owner(name: &str, group: &str) -> bool {
    let rest = name.strip_prefix(group).and_then(|rest| rest.strip_prefix('-'));
    let Some((mark, unique)) = rest.and_then(|rest| rest.split_once('-')) else { return false };
    mark.len() == 2 * MARK_BYTES && mark.bytes().all(|b| b.is_ascii_hexdigit()) && is_unique_part(unique)
}

/// Whether our journal says that a host was to get this name: also one whose order was not answered.
pub(super) fn was_claimed(lifecycle: &Lifecycle, claim: &str) -> Result<bool, windlass_lifecycle::Error> {
    let claimed_it = |operation: &Operation| operation.kind.acquires() && operation.owner == lifecycle.owner().as_str();
    Ok(lifecycle.journal().operations_of_machine(claim)?.iter().any(claimed_it))
}
