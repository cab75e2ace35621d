//! Finds what a text names. Only ids are looked for in the whole journal, which has indexes of them; names, addresses
//! and words are looked for in what is newest, so that a search costs no more on a large journal.

use std::net::IpAddr;

use serde_json::Value;
use windlass_inspect::explain::Brief;
use windlass_inspect::words::why_words;
use windlass_lifecycle::{Operation, OperationFilter, OperationId, OperationKind, OperationState};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionFilter, DecisionId, DecisionSummary};

use super::{MAX_SERVERS, RECENT_BYTES, Source};
use crate::Error;

/// Nobody looks for more characters.
const MAX_CHARACTERS: usize = 200;

/// What a text names.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The text, without the spaces around it. Empty: nothing is looked for.
    pub(crate) text: String,
    /// The newest first.
    pub(crate) operations: Vec<Operation>,
    /// The decision with this id.
    pub(crate) decision: Option<(DecisionId, SlotName)>,
    /// The newest first.
    pub(crate) decisions: Vec<DecisionSummary>,
    #[cfg(feature = "clusters")]
    pub(crate) clusters: Vec<windlass_cluster::StoredCluster>,
    /// Policies of running hosts, with their slots.
    pub(crate) policies: Vec<(SlotName, String)>,
}

impl Search {
    /// The newest operations that are looked through for names and words.
    pub(crate) const OPERATIONS: u32 = 2_000;
    /// The newest decisions that are looked through.
    pub(crate) const DECISIONS: usize = 200;
    /// Operations and decisions that are shown.
    pub(crate) const MAX_SHOWN: usize = 30;

    /// Whether there is nothing of this name.
    pub(crate) fn is_empty(&self) -> bool {
        #[cfg(feature = "clusters")]
        let no_cluster = self.clusters.is_empty();
        #[cfg(not(feature = "clusters"))]
        let no_cluster = true;
        no_cluster
            && self.operations.is_empty()
            && self.decisions.is_empty()
            && self.decision.is_none()
            && self.policies.is_empty()
    }
}

impl Source {
    pub(crate) async fn search(&self, text: &str) -> Result<Search, Error> {
        let text: String = text.trim().chars().take(MAX_CHARACTERS).collect();
        if text.is_empty() {
            return Ok(Search::default());
        }
        let wanted = text.to_lowercase();
        let has = |word: &str| word.to_lowercase().contains(&wanted);
        #[cfg(feature = "clusters")]
        let clusters = {
            let mut clusters = self.all_clusters().await?;
            clusters.retain(|stored| {
                let of_node = |node: &windlass_cluster::Node| {
                    has(&node.name) || node.addresses.iter().any(|address| address.to_string() == text)
                };
                has(&stored.cluster.name.to_string()) || stored.nodes.iter().any(of_node)
            });
            clusters
        };
        let mut policies: Vec<(SlotName, String)> = self
            .hosts()?
            .into_iter()
            .flat_map(|host| host.running.status.links)
            .filter(|link| has(&link.policy.name))
            .map(|link| (link.slot, link.policy.name.to_string()))
            .collect();
        policies.sort_unstable();
        policies.dedup();
        Ok(Search {
            operations: self.operations_named(&text, &has)?,
            decision: self.decision_named(&text)?,
            decisions: self.decisions_named(&has)?,
            #[cfg(feature = "clusters")]
            clusters,
            policies,
            text,
        })
    }

    fn operations_named(&self, text: &str, has: &impl Fn(&str) -> bool) -> Result<Vec<Operation>, Error> {
        let Some(journal) = self.journal()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        if let Ok(id) = OperationId::parse(text) {
            found.extend(journal.operation(&id).ok());
        }
        found.extend(journal.operations_of_resource(text).map_err(Error::Journal)?);
        if text.parse::<IpAddr>().is_ok() {
            found.extend(self.with_address(text)?);
        }
        let mut filter = OperationFilter::default();
        filter.limit = Some(Search::OPERATIONS);
        let newest = self.list(&filter)?;
        found.extend(newest.into_iter().filter(|operation| {
            has(operation.id.as_str())
                || has(&operation.group)
                || has(&operation.zone)
                || operation.reasons.iter().any(|reason| has(reason))
                || has(&why_words(operation))
                || any_text(&operation.specification, has)
        }));
        found.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        found.dedup_by(|one, other| one.id == other.id);
        found.truncate(Search::MAX_SHOWN);
        Ok(found)
    }

    /// The creations of servers that are there and have this address.
    fn with_address(&self, address: &str) -> Result<Vec<Operation>, Error> {
        let Some(journal) = self.journal()? else { return Ok(Vec::new()) };
        let mut filter = OperationFilter::default();
        (filter.kind, filter.states) =
            (Some(OperationKind::CreateServer), vec![OperationState::Done, OperationState::Open]);
        (filter.not_ended, filter.limit) = (true, Some(MAX_SERVERS));
        let mut found = Vec::new();
        for operation in self.list(&filter)? {
            let entries = journal.entries(&operation.id).map_err(Error::Journal)?;
            if entries.iter().any(|entry| entry.data.get("address").and_then(Value::as_str) == Some(address)) {
                found.push(operation);
            }
        }
        Ok(found)
    }

    fn decision_named(&self, text: &str) -> Result<Option<(DecisionId, SlotName)>, Error> {
        if text.parse::<DecisionId>().is_err() {
            return Ok(None);
        }
        Ok(self.decision_log()?.show(text).ok().map(|record| (record.id, record.slot)))
    }

    fn decisions_named(&self, has: &impl Fn(&str) -> bool) -> Result<Vec<DecisionSummary>, Error> {
        let mut filter = DecisionFilter::default();
        (filter.limit, filter.most_bytes) = (Search::DECISIONS, Some(RECENT_BYTES));
        let mut found = self.decisions(&filter, None)?.decisions;
        found.retain(|decision| {
            let Brief { subject, verdict, deciders } = Brief::of(decision);
            has(&decision.id.to_string())
                || has(&subject)
                || has(&verdict)
                || deciders.iter().any(|decider| has(decider))
                || decision.reason.as_deref().is_some_and(has)
                || any_text(&decision.question, has)
        });
        found.truncate(Search::MAX_SHOWN);
        Ok(found)
    }
}

/// Whether a text of this value does.
fn any_text(value: &Value, does: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => does(text),
        Value::Array(values) => values.iter().any(|value| any_text(value, does)),
        Value::Object(fields) => fields.values().any(|value| any_text(value, does)),
        _ => false,
    }
}
