//! Whether the organization may have so many servers, asked before anything is spent.
//!
//! It can only be asked with an organization in the credentials and a key that may read IAM; otherwise nothing is
//! asked, and Scaleway refuses in the servers' stage. What it uses already is counted in the zone, with the eyes of the
//! key: others may see more, so a quota that passes here can still be exceeded, and one that fails here would certainly
//! have been.

use std::collections::{BTreeMap, BTreeSet};

use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::iam::Quotum;
use windlass_scaleway::types::instance::ListServers;
use windlass_scaleway::{Client, ErrorClass, Zone};

use crate::failure;
use crate::name::NodeGroupName;
use crate::specification::{ClusterSpecification, NodeGroup};

/// How many servers come and go in each group.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// How many it is to get.
    pub(crate) made: BTreeMap<NodeGroupName, u64>,
    /// How many leave it meanwhile, or are there already and counted by Scaleway.
    pub(crate) given_back: BTreeMap<NodeGroupName, u64>,
}

impl Demand {
    fn made(&self, group: &NodeGroupName) -> u64 {
        self.made.get(group).copied().unwrap_or_default()
    }

    /// What the groups give back that could have been servers of this type; of any type, where none is named.
    fn given_back(&self, specification: &ClusterSpecification, server_type: Option<&String>) -> u64 {
        let could_be = |group: &NodeGroup| server_type.is_none_or(|wanted| group.types.contains(wanted));
        let groups = specification.groups.iter().filter(|(_, group)| could_be(group));
        groups.filter_map(|(name, _)| self.given_back.get(name)).sum()
    }
}

/// What a quota counts.
#[derive(Debug, PartialEq, Eq)]
enum Counted {
    /// Every server.
    Servers,
    /// The servers of one type.
    Type(String),
}

/// What is left of a quota.
#[derive(Debug)]
struct Room {
    counted: Counted,
    /// Scaleway's name for the quota.
    name: String,
    limit: u64,
    used: u64,
}

/// Fails when a quota is certain to be exceeded.
pub(crate) async fn check(
    client: &Client,
    specification: &ClusterSpecification,
    demand: &Demand,
) -> Result<(), Failure> {
    let Some(organization) = client.settings().organization_id() else { return Ok(()) };
    let quotas = match client.iam().list_quota(organization).await {
        Ok(quotas) => quotas,
        Err(error) if matches!(error.class(), ErrorClass::PermissionDenied | ErrorClass::NotFound) => {
            tracing::info!(cluster = %specification.name, "quotas are not asked: the key may not read them");
            return Ok(());
        }
        Err(error) => return Err(windlass_lifecycle::failure_of(&error)),
    };
    let mut rooms = Vec::new();
    for (counted, quotum, limit) in wanted(&quotas, specification) {
        let commercial_type = match &counted {
            Counted::Servers => None,
            Counted::Type(name) => Some(name.clone()),
        };
        let list =
            ListServers { organization: Some(organization.to_owned()), commercial_type, ..ListServers::default() };
        let counting = client.instance(&specification.zone).count_servers(&list).await;
        let used = counting.map_err(|error| windlass_lifecycle::failure_of(&error))?;
        let server_type = list.commercial_type.as_ref();
        let used = used.saturating_sub(demand.given_back(specification, server_type));
        rooms.push(Room { counted, name: quotum.name.clone(), limit, used });
    }
    exceeded(&rooms, specification, demand).map_or(Ok(()), Err)
}

/// The quotas that limit what the specification names, and how far.
fn wanted<'a>(quotas: &'a [Quotum], specification: &ClusterSpecification) -> Vec<(Counted, &'a Quotum, u64)> {
    let zone: &Zone = &specification.zone;
    let types = specification.groups.values().flat_map(|group| &group.types);
    let types: BTreeSet<&String> = types.collect();
    let found = quotas.iter().filter_map(|quotum| {
        let limit = quotum.limit_in(zone)?;
        let name = plain(&quotum.name);
        let counted = if ["servers", "computeservers", "instanceservers", "cpservers"].contains(&name.as_str()) {
            Counted::Servers
        } else {
            let server_type = types.iter().find(|server_type| {
                let server_type = plain(server_type);
                ["serverstype", "servers", "servertype"]
                    .iter()
                    .any(|kind| name.ends_with(&format!("{kind}{server_type}")))
            })?;
            Counted::Type((*server_type).clone())
        };
        Some((counted, quotum, limit))
    });
    found.collect()
}

/// A name as it is compared: `cp_servers_type_DEV1_S` and `CpServersTypeDev1S` are the same.
// Quotas of servers are taken to be named by "servers", and by the type where they count one. Scaleway documents no
// names, and only `IamSshKeys` was recorded (assumption: quota-names). A name that is not understood limits nothing
// here.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The first quota that the demand exceeds: that of all servers, or, for a group, those of each type it could take.
fn exceeded(rooms: &[Room], specification: &ClusterSpecification, demand: &Demand) -> Option<Failure> {
    let refused = |place: String, needed: u64, room: &Room| {
        let words = format!(
            "{place}: {needed} more servers would be {} under the quota {} of {}; ask Scaleway for more, or delete \
             some",
            room.used.saturating_add(needed),
            room.name,
            room.limit
        );
        failure::of_class(FailureClass::QuotaExceeded, words)
    };
    let all: u64 = demand.made.values().sum();
    let full = |needed: u64, room: &&Room| room.used.saturating_add(needed) > room.limit;
    if let Some(room) = rooms.iter().find(|room| room.counted == Counted::Servers && all > 0 && full(all, room)) {
        return Some(refused("groups".to_owned(), all, room));
    }
    for (name, group) in &specification.groups {
        let own = demand.made(name);
        if own == 0 {
            continue;
        }
        // Others that can take nothing else count with it.
        let needed = |server_type: &String| {
            let others = specification
                .groups
                .iter()
                .filter(|(other, group)| *other != name && group.types == std::slice::from_ref(server_type));
            own + others.map(|(other, _)| demand.made(other)).sum::<u64>()
        };
        let of_type = |server_type: &String| {
            let needed = needed(server_type);
            let counts_it = |room: &&Room| matches!(&room.counted, Counted::Type(counted) if counted == server_type);
            Some((needed, rooms.iter().find(|room| counts_it(room) && full(needed, room))?))
        };
        let refusals: Vec<_> = group.types.iter().map(of_type).collect();
        if let Some(Some((needed, room))) = refusals.first().filter(|_| refusals.iter().all(Option::is_some)) {
            return Some(refused(format!("groups.{name}.types"), *needed, room));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specification(groups: &[(&str, &[&str])]) -> ClusterSpecification {
        let mut specification = ClusterSpecification::new("farm".parse().unwrap(), "fr-par-1".parse().unwrap());
        for (name, types) in groups {
            let mut group = NodeGroup::new(1, types[0], "ubuntu_noble");
            group.types = types.iter().map(|&name| name.to_owned()).collect();
            specification.groups.insert(name.parse().unwrap(), group);
        }
        specification
    }

    fn demand(groups: &[(&str, u64)]) -> Demand {
        let made = groups.iter().map(|(name, count)| (name.parse().unwrap(), *count)).collect();
        Demand { made, given_back: BTreeMap::new() }
    }

    fn room(counted: Counted, limit: u64, used: u64) -> Room {
        Room { counted, name: "quota".to_owned(), limit, used }
    }

    fn of_type(name: &str) -> Counted {
        Counted::Type(name.to_owned())
    }

    #[test]
    fn quotas_of_servers_are_known_by_name_and_those_of_other_things_are_left_alone() {
        let farm = specification(&[("web", &["DEV1-S", "PRO2-XS"])]);
        let quotas: Vec<Quotum> = serde_json::from_str(
            r#"[{"name": "ComputeServers", "limits": [{"global": true, "limit": 20}]},
                {"name": "cp_servers_type_DEV1_S", "limits": [{"zone": "fr-par-1", "limit": 3}]},
                {"name": "cp_servers_type_PRO2_XS", "limits": [{"zone": "nl-ams-1", "limit": 3}]},
                {"name": "cp_servers_type_GPU_DEV1_S", "limits": [{"global": true, "limit": 0}]},
                {"name": "AppleSiliconServers", "limits": [{"global": true, "limit": 0}]},
                {"name": "IamSshKeys", "limits": [{"global": true, "limit": 50}]}]"#,
        )
        .unwrap();
        let found = wanted(&quotas, &farm);
        let found: Vec<_> = found.into_iter().map(|(counted, _, limit)| (counted, limit)).collect();
        assert_eq!(found, [(Counted::Servers, 20), (of_type("DEV1-S"), 3)]);
    }

    #[test]
    fn what_leaves_meanwhile_makes_room_where_it_could_have_been() {
        let farm = specification(&[("db", &["GP1-S"]), ("web", &["DEV1-S", "PRO2-XS"])]);
        let given_back = [("db", 4), ("web", 2)].map(|(name, count)| (name.parse().unwrap(), count)).into();
        let demand = Demand { made: BTreeMap::new(), given_back };
        let back = |server_type: &str| demand.given_back(&farm, Some(&server_type.to_owned()));
        assert_eq!((demand.given_back(&farm, None), back("DEV1-S"), back("GP1-S"), back("COPARM1")), (6, 2, 4, 0));
    }

    #[test]
    fn only_what_is_certain_to_exceed_a_quota_is_refused() {
        let farm = specification(&[("db", &["DEV1-S"]), ("web", &["DEV1-S", "PRO2-XS"])]);
        let both = demand(&[("db", 2), ("web", 3)]);
        let fails = |rooms: &[Room], demand: &Demand| exceeded(rooms, &farm, demand).map(|failed| failed.message);
        assert_eq!(fails(&[room(Counted::Servers, 10, 5)], &both), None);
        let words = fails(&[room(Counted::Servers, 10, 6)], &both).unwrap();
        assert!(words.starts_with("groups: 5 more servers would be 11 under the quota quota of 10"), "{words}");
        // `web` has another type to take, `db` has none.
        assert_eq!(fails(&[room(of_type("DEV1-S"), 4, 2)], &both), None);
        let words = fails(&[room(of_type("DEV1-S"), 3, 2)], &both).unwrap();
        assert!(words.starts_with("groups.db.types: 2 more servers would be 4"), "{words}");
        // With neither type it fails, and those that can take nothing else than its first count with it.
        let words = fails(&[room(of_type("DEV1-S"), 4, 0), room(of_type("PRO2-XS"), 2, 0)], &both).unwrap();
        assert!(words.starts_with("groups.web.types: 5 more servers would be 5"), "{words}");
        // What does not grow is not held up by a quota that is full.
        assert_eq!(fails(&[room(Counted::Servers, 0, 9)], &demand(&[("db", 0)])), None);
        assert_eq!(fails(&[room(of_type("DEV1-S"), 0, 9)], &demand(&[])), None);
    }
}
