//! Whether the organization may have so many servers, asked before anything is spent.
//!
//! It can only be asked with an organization in the credentials and a key that may read IAM; otherwise nothing is
//! asked, and Scaleway refuses a server. What it uses already is counted in the zone, with the eyes of the key: others
//! may see more, so a quota that passes here can still be exceeded, and one that fails here would certainly have been.

use std::collections::BTreeSet;

use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::iam::Quotum;
use windlass_scaleway::types::instance::ListServers;
use windlass_scaleway::{Client, ErrorClass, Zone};

use crate::failure::{of_class, of_error};

/// Servers that come and go together, and can be of the same types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaDemand {
    /// The types that each of them can be of.
    pub types: Vec<String>,
    /// How many are to come.
    pub made: u64,
    /// How many leave meanwhile, or are there already and counted by Scaleway.
    pub given_back: u64,
}

/// Why they cannot come.
#[derive(Clone, Debug)]
pub struct QuotaRefusal {
    /// The position of the demand that cannot be met; `None`: all of them together.
    pub demand: Option<usize>,
    /// That a quota would be exceeded, or could not be asked.
    pub failure: Failure,
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

/// Refuses when a quota is certain to be exceeded.
///
/// # Errors
/// [`QuotaRefusal`], also where Scaleway does not answer.
pub async fn check_quotas(client: &Client, zone: &Zone, demands: &[QuotaDemand]) -> Result<(), QuotaRefusal> {
    let unknown = |error: windlass_scaleway::Error| QuotaRefusal { demand: None, failure: of_error(&error) };
    let Some(organization) = client.settings().organization_id() else { return Ok(()) };
    let quotas = match client.iam().list_quota(organization).await {
        Ok(quotas) => quotas,
        Err(error) if matches!(error.class(), ErrorClass::PermissionDenied | ErrorClass::NotFound) => {
            tracing::info!("quotas are not checked: the key may not read them");
            return Ok(());
        }
        Err(error) => return Err(unknown(error)),
    };
    let mut rooms = Vec::new();
    for (counted, quotum, limit) in wanted(&quotas, zone, demands) {
        let commercial_type = match &counted {
            Counted::Servers => None,
            Counted::Type(name) => Some(name.clone()),
        };
        let list =
            ListServers { organization: Some(organization.to_owned()), commercial_type, ..ListServers::default() };
        let used = client.instance(zone).count_servers(&list).await.map_err(unknown)?;
        let used = used.saturating_sub(given_back(demands, list.commercial_type.as_ref()));
        rooms.push(Room { counted, name: quotum.name.clone(), limit, used });
    }
    exceeded(&rooms, demands).map_or(Ok(()), Err)
}

/// What is given back that could have been servers of this type; of any type, where none is named.
fn given_back(demands: &[QuotaDemand], server_type: Option<&String>) -> u64 {
    let could_be = |demand: &&QuotaDemand| server_type.is_none_or(|wanted| demand.types.contains(wanted));
    demands.iter().filter(could_be).map(|demand| demand.given_back).sum()
}

/// The quotas that limit what is asked for, and how far.
fn wanted<'a>(quotas: &'a [Quotum], zone: &Zone, demands: &[QuotaDemand]) -> Vec<(Counted, &'a Quotum, u64)> {
    let types: BTreeSet<&String> = demands.iter().flat_map(|demand| &demand.types).collect();
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

/// The first quota that the demands exceed: that of all servers, or those of each type that one of them could take.
fn exceeded(rooms: &[Room], demands: &[QuotaDemand]) -> Option<QuotaRefusal> {
    let refused = |demand: Option<usize>, needed: u64, room: &Room| {
        let words = format!(
            "{needed} more servers would make {}, and the quota {} allows {}; ask Scaleway for more, or delete some",
            room.used.saturating_add(needed),
            room.name,
            room.limit
        );
        QuotaRefusal { demand, failure: of_class(FailureClass::QuotaExceeded, words) }
    };
    let all: u64 = demands.iter().map(|demand| demand.made).sum();
    let full = |needed: u64, room: &&Room| room.used.saturating_add(needed) > room.limit;
    if let Some(room) = rooms.iter().find(|room| room.counted == Counted::Servers && all > 0 && full(all, room)) {
        return Some(refused(None, all, room));
    }
    for (position, demand) in demands.iter().enumerate().filter(|(_, demand)| demand.made > 0) {
        // Others that can take nothing else count with it.
        let needed = |server_type: &String| {
            let others = demands
                .iter()
                .enumerate()
                .filter(|(other, demand)| *other != position && demand.types == std::slice::from_ref(server_type));
            demand.made + others.map(|(_, other)| other.made).sum::<u64>()
        };
        let of_type = |server_type: &String| {
            let needed = needed(server_type);
            let counts_it = |room: &&Room| matches!(&room.counted, Counted::Type(counted) if counted == server_type);
            Some((needed, rooms.iter().find(|room| counts_it(room) && full(needed, room))?))
        };
        let refusals: Vec<_> = demand.types.iter().map(of_type).collect();
        if let Some(Some((needed, room))) = refusals.first().filter(|_| refusals.iter().all(Option::is_some)) {
            return Some(refused(Some(position), *needed, room));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `db` and `web` want: types, and how many come.
    fn demands(all: &[(&[&str], u64)]) -> Vec<QuotaDemand> {
        let demand = |(types, made): &(&[&str], u64)| QuotaDemand {
            types: types.iter().map(|&name| name.to_owned()).collect(),
            made: *made,
            given_back: 0,
        };
        all.iter().map(demand).collect()
    }

    fn room(counted: Counted, limit: u64, used: u64) -> Room {
        Room { counted, name: "quota".to_owned(), limit, used }
    }

    fn of_type(name: &str) -> Counted {
        Counted::Type(name.to_owned())
    }

    #[test]
    fn quotas_of_servers_are_known_by_name_and_those_of_other_things_are_left_alone() {
        let quotas: Vec<Quotum> = serde_json::from_str(
            r#"[{"name": "ComputeServers", "limits": [{"global": true, "limit": 20}]},
                {"name": "cp_servers_type_DEV1_S", "limits": [{"zone": "fr-par-1", "limit": 3}]},
                {"name": "cp_servers_type_PRO2_XS", "limits": [{"zone": "nl-ams-1", "limit": 3}]},
                {"name": "cp_servers_type_GPU_DEV1_S", "limits": [{"global": true, "limit": 0}]},
                {"name": "AppleSiliconServers", "limits": [{"global": true, "limit": 0}]},
                {"name": "IamSshKeys", "limits": [{"global": true, "limit": 50}]}]"#,
        )
        .unwrap();
        let found = wanted(&quotas, &"fr-par-1".parse().unwrap(), &demands(&[(&["DEV1-S", "PRO2-XS"], 1)]));
        let found: Vec<_> = found.into_iter().map(|(counted, _, limit)| (counted, limit)).collect();
        assert_eq!(found, [(Counted::Servers, 20), (of_type("DEV1-S"), 3)]);
    }

    #[test]
    fn what_leaves_meanwhile_makes_room_where_it_could_have_been() {
        let mut both = demands(&[(&["GP1-S"], 0), (&["DEV1-S", "PRO2-XS"], 0)]);
        (both[0].given_back, both[1].given_back) = (4, 2);
        let back = |server_type: &str| given_back(&both, Some(&server_type.to_owned()));
        assert_eq!((given_back(&both, None), back("DEV1-S"), back("GP1-S"), back("COPARM1")), (6, 2, 4, 0));
    }

    #[test]
    fn only_what_is_certain_to_exceed_a_quota_is_refused() {
        let wants = |db: u64, web: u64| demands(&[(&["DEV1-S"], db), (&["DEV1-S", "PRO2-XS"], web)]);
        let fails = |rooms: &[Room], db: u64, web: u64| {
            exceeded(rooms, &wants(db, web)).map(|refusal| (refusal.demand, refusal.failure.message))
        };
        assert_eq!(fails(&[room(Counted::Servers, 10, 5)], 2, 3), None);
        let (demand, words) = fails(&[room(Counted::Servers, 10, 6)], 2, 3).unwrap();
        assert!(
            demand.is_none() && words.starts_with("5 more servers would make 11, and the quota quota allows 10"),
            "{words}"
        );
        // `web` has another type to take, `db` has none.
        assert_eq!(fails(&[room(of_type("DEV1-S"), 4, 2)], 2, 3), None);
        let (demand, words) = fails(&[room(of_type("DEV1-S"), 3, 2)], 2, 3).unwrap();
        assert!(demand == Some(0) && words.starts_with("2 more servers would make 4"), "{words}");
        // With neither type it fails, and those that can take nothing else than its first count with it.
        let (demand, words) = fails(&[room(of_type("DEV1-S"), 4, 0), room(of_type("PRO2-XS"), 2, 0)], 2, 3).unwrap();
        assert!(demand == Some(1) && words.starts_with("5 more servers would make 5"), "{words}");
        // What does not grow is not held up by a quota that is full.
        assert_eq!(fails(&[room(Counted::Servers, 0, 9)], 0, 0), None);
        assert_eq!(fails(&[room(of_type("DEV1-S"), 0, 9)], 0, 0), None);
    }
}
