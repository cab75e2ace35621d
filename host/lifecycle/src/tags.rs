//! The tags that prove ownership, and the type that carries the proof.
//!
//! Each resource that an operation makes carries three tags: `windlass-owner=<owner>`, `windlass-group=<group>`,
//! `windlass-operation=<operation id>`; one that was kept on purpose also `windlass-kept`. Tags are compared on our side
//! after every read: Scaleway's filters only narrow what is fetched.

use windlass_scaleway::types::block::BlockVolume;
use windlass_scaleway::types::instance::{Ip, PrivateNic, Server, Volume};

use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::inventory::Made;

/// What each of our tags begins with.
pub(crate) const PREFIX: &str = "windlass-";
const OWNER: &str = "windlass-owner=";
const GROUP: &str = "windlass-group=";
const OPERATION: &str = "windlass-operation=";
/// Marks a resource that a rollback left on purpose. The sweep leaves it alone.
pub(crate) const KEPT: &str = "windlass-kept";

pub(crate) fn is_ours(tag: &str) -> bool {
    tag.starts_with(PREFIX)
}

pub(crate) fn owner_tag(owner: &OwnerName) -> String {
    format!("{OWNER}{owner}")
}

pub(crate) fn group_tag(group: &GroupName) -> String {
    format!("{GROUP}{group}")
}

pub(crate) fn operation_tag(operation: &OperationId) -> String {
    format!("{OPERATION}{operation}")
}

/// The three tags of a resource.
pub(crate) fn all(owner: &OwnerName, group: &GroupName, operation: &OperationId) -> Vec<String> {
    vec![owner_tag(owner), group_tag(group), operation_tag(operation)]
}

/// Whether two tags say something about the same thing (`windlass-owner=a`, `windlass-owner=b`).
pub(crate) fn same_key(one: &str, other: &str) -> bool {
    one.split('=').next() == other.split('=').next()
}

fn value<'a>(tags: &'a [String], prefix: &str) -> Option<&'a str> {
    tags.iter().find_map(|tag| tag.strip_prefix(prefix))
}

/// The operation that a resource says it belongs to.
pub(crate) fn operation_of(tags: &[String]) -> Option<OperationId> {
    value(tags, OPERATION).and_then(|id| OperationId::parse(id).ok())
}

/// The group that a resource says it belongs to.
pub(crate) fn group_of(tags: &[String]) -> Option<&str> {
    value(tags, GROUP)
}

pub(crate) fn is_kept(tags: &[String]) -> bool {
    tags.iter().any(|tag| tag == KEPT)
}

/// A resource of Scaleway that carries tags.
pub(crate) trait Tagged {
    fn tags(&self) -> &[String];
}

macro_rules! tagged {
    ($($type:ty),*) => {$(
        impl Tagged for $type {
            fn tags(&self) -> &[String] {
                &self.tags
            }
        }
    )*};
}
tagged!(Server, Ip, Volume, BlockVolume, PrivateNic);

/// Whether the resource carries this owner's tag, and no other owner's.
pub(crate) fn carries_owner(tags: &[String], owner: &OwnerName) -> bool {
    let mut owners = tags.iter().filter_map(|tag| tag.strip_prefix(OWNER));
    owners.next() == Some(owner.as_str()) && owners.all(|other| other == owner.as_str())
}

fn names_an_owner(tags: &[String]) -> bool {
    value(tags, OWNER).is_some()
}

/// A resource that is proven to be ours, as it was just read from Scaleway. Only what is `Owned` can be changed or
/// deleted; a bare id cannot.
#[derive(Clone, Debug)]
pub(crate) struct Owned<T>(T);

impl<T: Tagged> Owned<T> {
    /// The proof by tag. `resource` must have been read from Scaleway, not remembered.
    pub(crate) fn by_tag(resource: T, owner: &OwnerName) -> Option<Self> {
        carries_owner(resource.tags(), owner).then_some(Self(resource))
    }
}

impl<T> Owned<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

macro_rules! owned_volume {
    ($($type:ty),*) => {$(
        impl Owned<$type> {
            /// The proof for a volume that Scaleway made together with a server: it cannot be tagged at birth, so until
            /// it is, the journal proves it (an answered creation, or a look at the server that named this id).
            pub(crate) fn by_journal(volume: $type, made: &Made) -> Option<Self> {
                (made.volume(&volume.id) && !names_an_owner(&volume.tags)).then_some(Self(volume))
            }
        }
    )*};
}
owned_volume!(BlockVolume, Volume);

impl Owned<PrivateNic> {
    /// A private NIC is part of its server: it cannot exist without it.
    pub(crate) fn by_server(nic: PrivateNic, server: &Owned<Server>) -> Option<Self> {
        (nic.server_id == server.get().id).then_some(Self(nic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerName {
        name.parse().unwrap()
    }

    fn ip(tags: &[&str]) -> Ip {
        Ip { tags: tags.iter().map(|&t| t.to_owned()).collect(), ..Ip::default() }
    }

    #[test]
    fn only_the_exact_owner_tag_proves_ownership() {
        let team = owner("team");
        assert!(Owned::by_tag(ip(&["x", "windlass-owner=team"]), &team).is_some());
        for tags in [
            &["windlass-owner=team-b"][..],
            &["windlass-owner="],
            &["windlass-group=team"],
            &["xwindlass-owner=team"],
            &["windlass-owner=team", "windlass-owner=other"],
            &["windlass-owner=other", "windlass-owner=team"],
            &[],
        ] {
            assert!(Owned::by_tag(ip(tags), &team).is_none(), "{tags:?}");
        }
    }

    #[test]
    fn the_journal_does_not_prove_what_carries_another_owners_tag() {
        let made = Made::of_volumes(["a"]);
        let volume = |id: &str, tags: &[&str]| BlockVolume {
            id: id.into(),
            tags: tags.iter().map(|&t| t.to_owned()).collect(),
            ..BlockVolume::default()
        };
        assert!(Owned::<BlockVolume>::by_journal(volume("a", &[]), &made).is_some());
        assert!(Owned::<BlockVolume>::by_journal(volume("b", &[]), &made).is_none());
        assert!(Owned::<BlockVolume>::by_journal(volume("a", &["windlass-owner=other"]), &made).is_none());
    }
}
