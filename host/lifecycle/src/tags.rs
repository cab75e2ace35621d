//! The tags of what is ours. They say what a resource claims to be; what proves it, see [`crate::ownership`].
//!
//! Each resource that an operation makes carries three tags: `windlass-owner=<owner>`, `windlass-group=<group>`,
//! `windlass-operation=<operation id>`; one that was kept on purpose also `windlass-kept`. A server carries
//! `windlass-history=<history id>` as well, by which a state directory that was set back is noticed, and
//! `windlass-host=<host name>` where its maker says so, for people. Tags are compared on our side after every read:
//! Scaleway's filters only narrow what is fetched.

use windlass_scaleway::types::block::BlockVolume;
use windlass_scaleway::types::instance::{Ip, PrivateNic, Server, Volume};

use crate::identifier::{GroupName, OperationId, OwnerName};

/// What each of our tags begins with.
pub(crate) const PREFIX: &str = "windlass-";
const OWNER: &str = "windlass-owner=";
const GROUP: &str = "windlass-group=";
const OPERATION: &str = "windlass-operation=";
const HOST: &str = "windlass-host=";
const HISTORY: &str = "windlass-history=";
/// Marks a resource that a rollback left on purpose. The sweep leaves it alone.
pub(crate) const KEPT: &str = "windlass-kept";

pub(crate) fn is_ours(tag: &str) -> bool {
    tag.starts_with(PREFIX)
}

impl OwnerName {
    /// The tag by which its resources are known, and searched for.
    #[must_use]
    pub fn tag(&self) -> String {
        owner_tag(self)
    }

    /// Whether a server carries this owner's tag, and no other owner's: who takes it off has taken the server over.
    #[must_use]
    pub fn owns(&self, server: &Server) -> bool {
        carries_owner(&server.tags, self)
    }
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

pub(crate) fn host_tag(host: &str) -> String {
    format!("{HOST}{host}")
}

pub(crate) fn history_tag(history: &str) -> String {
    format!("{HISTORY}{history}")
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

/// The owner that a resource says it belongs to.
pub(crate) fn owner_of(tags: &[String]) -> Option<OwnerName> {
    value(tags, OWNER).and_then(|owner| owner.parse().ok())
}

/// The host on which a server says it was made.
pub(crate) fn host_of(tags: &[String]) -> Option<&str> {
    value(tags, HOST)
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

/// Whether the resource carries the owner tag of somebody else, whatever else it carries.
pub(crate) fn names_another_owner(tags: &[String], owner: &OwnerName) -> bool {
    tags.iter().filter_map(|tag| tag.strip_prefix(OWNER)).any(|other| other != owner.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerName {
        name.parse().unwrap()
    }

    fn tags(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|&tag| tag.to_owned()).collect()
    }

    #[test]
    fn the_three_tags_are_what_other_versions_and_people_search_for() {
        let id = OperationId::parse("ci-0nqrsxtrgyns").unwrap();
        let all = all(&owner("team"), &"ci".parse().unwrap(), &id);
        assert_eq!(all, ["windlass-owner=team", "windlass-group=ci", "windlass-operation=ci-0nqrsxtrgyns"]);
        assert!(all.iter().all(|tag| is_ours(tag)) && !is_ours("owner=team"));
        assert_eq!(operation_of(&all), Some(id));
        assert_eq!(group_of(&all), Some("ci"));
        assert_eq!((operation_of(&tags(&["a"])), group_of(&tags(&["a"]))), (None, None));
    }

    #[test]
    fn an_owner_is_claimed_by_one_whole_tag_and_denied_by_any_other() {
        for (found, ours, anothers) in [
            (&["windlass-owner=team"][..], true, false),
            (&["windlass-owner=team", "windlass-owner=team"], true, false),
            (&["windlass-owner=team", "windlass-owner=other"], false, true),
            (&["windlass-owner=other", "windlass-owner=team"], false, true),
            (&["windlass-owner=team-b"], false, true),
            (&["team", "windlass-group=team"], false, false),
            (&[], false, false),
        ] {
            assert_eq!(carries_owner(&tags(found), &owner("team")), ours, "{found:?}");
            assert_eq!(names_another_owner(&tags(found), &owner("team")), anothers, "{found:?}");
        }
    }

    #[test]
    fn tags_of_one_key_say_something_about_the_same_thing() {
        assert!(same_key("windlass-owner=a", "windlass-owner=b") && same_key("web", "web"));
        assert!(!same_key("windlass-owner=a", "windlass-group=a"));
    }

    #[test]
    fn what_is_kept_carries_that_very_tag() {
        assert!(is_kept(&tags(&["a", "windlass-kept"])));
        assert!(!is_kept(&tags(&["windlass-kept-not", "kept"])));
    }
}
