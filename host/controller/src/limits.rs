//! What the operator lets each namespace use of the operator's own account: zones, types, and how many machines.
//!
//! What there is counts by the journal and by what Scaleway shows, not by objects: a server that was kept when its
//! object went counts until it is gone, and so does a host that was ordered, whichever pool it is in by now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use windlass_lifecycle::{Lifecycle, Operation, OperationFilter, OperationKind, OperationState, Requester};
use windlass_policy::{Mistake, mistakes_of};
use windlass_scaleway::Zone;

use crate::Error;
use crate::arguments::{NAMESPACE, is_namespace};
use crate::catalogue::{Catalogue, Product, Types};
use crate::configuration::in_yaml;
use crate::server_fields::operation_of;

/// What one namespace may use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Limit {
    /// The namespaces that it is about, each for itself. None: every one of which no earlier limit is.
    namespaces: Vec<String>,
    /// The zones of machines. None: every one.
    zones: Vec<String>,
    /// The types of machines; a `*` at the end stands for the rest of the name. None: every one.
    types: Vec<String>,
    /// Instance servers at most, those of clusters among them.
    servers: Option<u32>,
    /// Macs at most.
    macs: Option<u32>,
    /// Macs at most that were ordered for the namespace and are still there.
    orders: Option<u32>,
    /// What the servers may cost at most in an hour, in euros, without volumes and addresses. What has no price does not
    /// pass.
    cost_per_hour: Option<f64>,
    /// What an hour of a type costs, in euros, where Scaleway's catalogue has no price.
    prices: BTreeMap<String, f64>,
}

/// The operator's limits, and what is about to be used of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    limits: Arc<Vec<Limit>>,
    /// One admission at a time, of servers and of Macs, until what was admitted stands in the journal or among the
    /// reservations.
    turns: [Arc<tokio::sync::Mutex<()>>; 2],
    /// By namespace: servers and their price in millionths of a euro that a cluster is about to make.
    reserved: Arc<Mutex<BTreeMap<String, (u32, u64)>>>,
}

/// What was admitted. As long as it is held, it counts.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    turn: Option<tokio::sync::OwnedMutexGuard<()>>,
    /// What is reserved, for which namespace, where it does not stand in the journal yet.
    wanted: Option<(Limits, String, (u32, u64))>,
    is_reserved: bool,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some((limits, namespace, (servers, cost))) = self.wanted.take().filter(|_| self.is_reserved)
            && let Some(reserved) = limits.reserved.lock().get_mut(&namespace)
        {
            *reserved = (reserved.0.saturating_sub(servers), reserved.1.saturating_sub(cost));
        }
    }
}

/// Servers that are wanted: of each type so many.
pub(crate) struct Wanted<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) zone: &'a Zone,
    /// Each server's types in the order in which they are tried; the dearest counts.
    pub(crate) servers: Vec<&'a [String]>,
}

impl Limit {
    /// Reads the list of limits, or tells all mistakes in it, each with its place.
    pub(crate) fn read_all(value: &Value) -> Result<Vec<Self>, Vec<String>> {
        let Value::Array(items) = value else {
            let wrong = Vec::<Self>::deserialize(value).err();
            return Err(wrong.into_iter().map(|wrong| format!("limits: {}", in_yaml(&wrong.to_string()))).collect());
        };
        let (mut limits, mut wrong) = (Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let mut place = |words: String| wrong.push(format!("limits[{index}]: {words}"));
            match Self::deserialize(item) {
                Ok(limit) => {
                    limit.mistakes().into_iter().for_each(|mistake| place(mistake.words));
                    limits.push(limit);
                }
                Err(first) => {
                    let checked = |limit: Self| match limit.mistakes() {
                        none if none.is_empty() => Ok(()),
                        mistakes => Err(mistakes),
                    };
                    let all = mistakes_of(item, checked);
                    if all.is_empty() {
                        place(in_yaml(&first.to_string()));
                    }
                    all.into_iter().for_each(|mistake| place(mistake.words));
                }
            }
        }
        if wrong.is_empty() { Ok(limits) } else { Err(wrong) }
    }

    /// Names that can be nobody's: such a limit would silently hold for nothing, or allow nothing.
    fn mistakes(&self) -> Vec<Mistake> {
        let namespaces = self.namespaces.iter().enumerate().filter(|(_, name)| !is_namespace(name));
        let namespaces = namespaces.map(|(index, name)| {
            Mistake::new("namespaces", format!("`namespaces[{index}]`: {name:?} is not a namespace: {NAMESPACE}"))
        });
        let zones = self.zones.iter().enumerate().filter_map(|(index, name)| {
            let wrong = name.parse::<Zone>().err()?;
            Some(Mistake::new("zones", format!("`zones[{index}]`: {wrong}")))
        });
        namespaces.chain(zones).collect()
    }

    /// Why a machine may not be there, or not be of any of these types.
    fn refusal(&self, zone: &str, types: &[String]) -> Option<String> {
        if !self.zones.is_empty() && !self.zones.iter().any(|allowed| allowed == zone) {
            return Some(format!("the operator allows this namespace the zones {}", self.zones.join(", ")));
        }
        let allowed = |name: &String| {
            self.types.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => allowed == name,
            })
        };
        let refused = types.iter().find(|name| !self.types.is_empty() && !allowed(name))?;
        Some(format!("the operator allows this namespace the types {}, and not {refused}", self.types.join(", ")))
    }

    /// The price of the dearest of these types, in millionths of a euro; else why it cannot be told. An unknown price is
    /// not 0: with it, any number of servers would pass.
    fn price(&self, zone: &Zone, known: &Types, types: &[String]) -> Result<u64, String> {
        let price = |name: &String| {
            let listed = known.get(name).and_then(|known| known.price);
            let configured = || windlass_lifecycle::euros(*self.prices.get(name)?).map(|price| price.micros);
            listed.or_else(configured).ok_or_else(|| {
                format!(
                    "Scaleway's catalogue of {zone} has no price for the type {name}, and servers of unknown price do \
                     not pass the operator's limit `costPerHour`: use another type, or have the operator set the price \
                     in the limit's `prices`"
                )
            })
        };
        let prices = types.iter().map(price).collect::<Result<Vec<_>, _>>()?;
        prices.into_iter().max().ok_or_else(|| {
            "the type of a server that is being created is unknown, so the operator's limit `costPerHour` cannot be \
             checked until its creation has ended"
                .to_owned()
        })
    }
}

impl Limits {
    pub(crate) fn new(limits: Vec<Limit>) -> Self {
        Self { limits: Arc::new(limits), ..Self::default() }
    }

    fn of(&self, namespace: &str) -> Option<&Limit> {
        let about = |limit: &&Limit| limit.namespaces.is_empty() || limit.namespaces.iter().any(|it| it == namespace);
        self.limits.iter().find(about)
    }

    /// Refuses a machine where it may not be, or of types of which it may not be.
    pub(crate) fn check(&self, namespace: &str, zone: &str, types: &[String]) -> Result<(), String> {
        self.of(namespace).and_then(|limit| limit.refusal(zone, types)).map_or(Ok(()), Err)
    }

    /// Admits servers that are about to be made; else why not.
    pub(crate) async fn admit_servers(
        &self,
        lifecycle: &Lifecycle,
        scaleway: &windlass_scaleway::Client,
        catalogue: &Catalogue,
        wanted: &Wanted<'_>,
    ) -> Result<Result<Admitted, String>, Error> {
        let Some(limit) = self.of(wanted.namespace).filter(|it| it.servers.is_some() || it.cost_per_hour.is_some())
        else {
            return Ok(Ok(Admitted::default()));
        };
        let turn = Arc::clone(&self.turns[0]).lock_owned().await;
        let mut types_there: Vec<(Zone, Vec<String>)> = Vec::new();
        let made = of_namespace(lifecycle, &[OperationKind::CreateServer], wanted.namespace)?;
        let zones: BTreeSet<Zone> = made.iter().filter_map(|creation| creation.zone.parse().ok()).collect();
        let ids: BTreeSet<&str> = made.iter().map(|creation| creation.id.as_str()).collect();
        let mut listed = BTreeSet::new();
        for zone in zones {
            for server in &lifecycle.servers(&zone).await?.machines {
                if let Some(operation) = operation_of(server).filter(|operation| ids.contains(operation)) {
                    listed.insert(operation.to_owned());
                    types_there.push((zone.clone(), vec![server.commercial_type.clone()]));
                }
            }
        }
        for creation in made
            .iter()
            .filter(|creation| creation.state == OperationState::Open && !listed.contains(creation.id.as_str()))
        {
            let types = serde_json::from_value(creation.specification["types"].clone()).unwrap_or_default();
            types_there.extend(creation.zone.parse().ok().map(|zone| (zone, types)));
        }
        let (reserved, reserved_cost) = self.reserved.lock().get(wanted.namespace).copied().unwrap_or_default();
        let there = count(types_there.len()).saturating_add(reserved);
        let more = count(wanted.servers.len());
        if let Some(most) = limit.servers
            && there.saturating_add(more) > most
        {
            return Ok(Err(format!(
                "the namespace has {there} servers, with those that are being created or were kept, and the operator \
                 allows {most}"
            )));
        }
        let mut cost = 0;
        if let Some(most) = limit.cost_per_hour {
            let price = async |zone: &Zone, types: &[String]| -> Result<Result<u64, String>, Error> {
                let known = catalogue.types(scaleway, Product::Instance, zone).await;
                let known = known.map_err(|error| Error::Client(Box::new(error)))?;
                Ok(limit.price(zone, &known, types))
            };
            let mut present = reserved_cost;
            for (zone, types) in &types_there {
                match price(zone, types).await? {
                    Ok(price) => present += price,
                    Err(problem) => return Ok(Err(format!("the namespace has servers: {problem}"))),
                }
            }
            for types in &wanted.servers {
                match price(wanted.zone, types).await? {
                    Ok(price) => cost += price,
                    Err(problem) => return Ok(Err(problem)),
                }
            }
            let euros = |micros: u64| micros as f64 / 1e6;
            if euros(present + cost) > most {
                return Ok(Err(format!(
                    "the namespace's servers cost {:.4} euros an hour, these would add {:.4}, and the operator allows \
                     {most}",
                    euros(present),
                    euros(cost)
                )));
            }
        }
        Ok(Ok(Admitted {
            turn: Some(turn),
            wanted: Some((self.clone(), wanted.namespace.to_owned(), (more, cost))),
            is_reserved: false,
        }))
    }

    /// Admits a Mac, and says how many hosts may be ordered for the namespace beside those that were; else why not.
    pub(crate) async fn admit_mac(
        &self,
        lifecycle: &Lifecycle,
        namespace: &str,
        claim: &str,
    ) -> Result<Result<(Admitted, Option<u32>), String>, Error> {
        let Some(limit) = self.of(namespace).filter(|limit| limit.macs.is_some() || limit.orders.is_some()) else {
            return Ok(Ok((Admitted::default(), None)));
        };
        let turn = Arc::clone(&self.turns[1]).lock_owned().await;
        let kinds = [OperationKind::AdoptMachine, OperationKind::OrderMachine];
        let all = of_namespace(lifecycle, &kinds, namespace)?;
        // A claim that is found again is no second one.
        let holds = |operation: &&Operation| {
            operation.ended_by.is_none()
                && operation.specification["claim"] != claim
                && matches!(
                    operation.state,
                    OperationState::Open | OperationState::Done | OperationState::Unverified | OperationState::Kept
                )
        };
        let macs = count(all.iter().filter(holds).count());
        if let Some(most) = limit.macs
            && macs >= most
        {
            return Ok(Err(format!("the namespace has {macs} Macs, and the operator allows {most}")));
        }
        let admitted = Admitted { turn: Some(turn), wanted: None, is_reserved: false };
        let Some(most) = limit.orders else { return Ok(Ok((admitted, None))) };
        let mut ordered = 0;
        for order in all.iter().filter(|operation| operation.kind == OperationKind::OrderMachine) {
            let is_there = match order.state {
                OperationState::Open | OperationState::Unverified => true,
                _ => is_there(lifecycle, order).await?,
            };
            ordered += u32::from(is_there);
        }
        Ok(Ok((admitted, Some(most.saturating_sub(ordered)))))
    }
}

impl Admitted {
    /// Lets others be admitted: what was admitted is reserved until this is dropped.
    pub(crate) fn reserve(mut self) -> Self {
        if let Some((limits, namespace, (servers, cost))) = &self.wanted {
            let mut reserved = limits.reserved.lock();
            let known = reserved.entry(namespace.clone()).or_default();
            *known = (known.0.saturating_add(*servers), known.1.saturating_add(*cost));
        }
        self.is_reserved = true;
        self.turn = None;
        self
    }
}

/// Whether a host that was ordered is still there, by any name.
async fn is_there(lifecycle: &Lifecycle, order: &Operation) -> Result<bool, Error> {
    let Ok(zone) = order.zone.parse::<Zone>() else { return Ok(false) };
    let entries = lifecycle.journal().entries(&order.id)?;
    let hosts = lifecycle.hosts(&zone).await?;
    Ok(entries.iter().filter_map(|entry| entry.resource.as_ref()).any(|resource| hosts.get(&resource.id).is_some()))
}

/// The operations of these kinds that objects of a namespace have asked for.
fn of_namespace(lifecycle: &Lifecycle, kinds: &[OperationKind], namespace: &str) -> Result<Vec<Operation>, Error> {
    let mut found = Vec::new();
    for kind in kinds {
        let mut filter = OperationFilter::default();
        filter.kind = Some(*kind);
        found.extend(lifecycle.journal().operations(&filter)?);
    }
    found.retain(|operation| {
        operation.requested_by().is_some_and(|by| match (&by.requester, &by.object) {
            (Requester::Object { namespace: of, .. }, _) => of == namespace,
            (_, Some(object)) => object.namespace == namespace,
            _ => false,
        })
    });
    Ok(found)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::Type;

    #[test]
    fn the_first_limit_of_a_namespace_counts_and_names_what_it_allows() {
        let limits = json!([
            {"namespaces": ["team-a"], "zones": ["fr-par-1"], "types": ["DEV1-*", "M4-S"]},
            {"zones": ["nl-ams-1"]},
        ]);
        let limits = Limits::new(serde_json::from_value(limits).unwrap());
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let refused = |namespace, zone, names: &[&str]| limits.check(namespace, zone, &types(names)).err();
        assert_eq!(refused("team-a", "fr-par-1", &["DEV1-S", "DEV1-M"]), None);
        assert!(refused("team-a", "nl-ams-1", &["DEV1-S"]).unwrap().contains("fr-par-1"));
        assert!(refused("team-a", "fr-par-1", &["DEV1-S", "PRO2-L"]).unwrap().contains("and not PRO2-L"));
        assert_eq!(refused("team-b", "nl-ams-1", &["PRO2-L"]), None);
        assert!(refused("team-b", "fr-par-1", &["PRO2-L"]).is_some());
        assert_eq!(Limits::default().check("team-a", "pl-waw-1", &types(&["GPU"])), Ok(()));
        assert!(serde_json::from_value::<Limit>(json!({"server": 1})).is_err(), "a typo is no limit");
    }

    #[test]
    fn a_type_without_a_price_passes_no_cost_limit_unless_the_operator_names_its_price() {
        let zone: Zone = "fr-par-1".parse().unwrap();
        let priced = |price| Type { price, ..Type::default() };
        let known = [("DEV1-S", priced(Some(8_800))), ("DEV1-M", priced(Some(19_800))), ("NEW-S", priced(None))];
        let known: Types = Arc::new(known.map(|(name, kind)| (name.to_owned(), kind)).into());
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let price = |limit: &Limit, names: &[&str]| limit.price(&zone, &known, &types(names));
        let mut limit = Limit { cost_per_hour: Some(1.0), ..Limit::default() };
        assert_eq!(price(&limit, &["DEV1-S", "DEV1-M"]), Ok(19_800), "the dearest counts");
        for unknown in [&["NEW-S"][..], &["DEV1-S", "NEW-S"], &["GONE-S"]] {
            let refused = price(&limit, unknown).unwrap_err();
            let named = unknown[unknown.len() - 1];
            assert!(refused.contains(named) && refused.contains("`prices`"), "{refused}");
        }
        assert!(price(&limit, &[]).is_err(), "a creation of which nothing is known");
        limit.prices = BTreeMap::from([("NEW-S".to_owned(), 0.5), ("DEV1-S".to_owned(), 9.0)]);
        assert_eq!(price(&limit, &["NEW-S"]), Ok(500_000));
        assert_eq!(price(&limit, &["DEV1-S"]), Ok(8_800), "the catalogue's own price counts");
        limit.prices.insert("NEW-S".to_owned(), -1.0);
        assert!(price(&limit, &["NEW-S"]).is_err());
    }
}
