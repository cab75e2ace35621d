//! Policies that the host's objects bring, beside the configured ones: the operator's, which every question passes, and
//! those of tenants, which decide about their own machines only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::chain::{ChainLink, Generation, Shadow};
use crate::configuration::Mode;
use crate::decision::PolicyIdentity;
use crate::policy::LoadedPolicy;
use crate::slots::SlotName;
use crate::source::Source;

/// A policy that an object brings.
#[derive(Clone)]
pub enum ScopedPolicy {
    /// One that can be asked.
    Loaded(Arc<LoadedPolicy>, Mode),
    /// One that cannot be loaded. It counts as failed in each decision, so that what it forbids is not done only because
    /// it is broken.
    Refused {
        /// What it is called in records.
        identity: PolicyIdentity,
        /// Why.
        why: Arc<str>,
    },
}

impl ScopedPolicy {
    fn slot(&self) -> SlotName {
        match self {
            Self::Loaded(policy, _) => policy.identity.slot,
            Self::Refused { identity, .. } => identity.slot,
        }
    }
}

/// The policies that objects bring. A question passes the configured policies first, then these in their order, and at
/// last a configured built-in default, or the one that ends every chain.
#[derive(Clone, Default)]
pub struct ScopedPolicies {
    /// The operator's that are asked before a tenant's: no tenant overrules them. Each is paired with the tenants that it
    /// applies to; none means all.
    pub before: Vec<(Vec<String>, ScopedPolicy)>,
    /// Each tenant's own.
    pub of_tenants: BTreeMap<String, Vec<ScopedPolicy>>,
    /// The operator's that are asked after a tenant's.
    pub after: Vec<(Vec<String>, ScopedPolicy)>,
}

impl ScopedPolicies {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.of_tenants.is_empty() && self.after.is_empty()
    }

    /// Those that a tenant's questions pass. The operator's own questions pass those that are for all.
    fn of(&self, tenant: Option<&str>) -> impl Iterator<Item = &ScopedPolicy> {
        let is_for = move |tenants: &[String]| {
            tenants.is_empty() || tenant.is_some_and(|tenant| tenants.iter().any(|name| name == tenant))
        };
        let own = tenant.and_then(|tenant| self.of_tenants.get(tenant));
        let before = self.before.iter().filter(move |(tenants, _)| is_for(tenants)).map(|(_, policy)| policy);
        let after = self.after.iter().filter(move |(tenants, _)| is_for(tenants)).map(|(_, policy)| policy);
        before.chain(own.into_iter().flatten()).chain(after)
    }

    /// All that can be asked.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&Arc<LoadedPolicy>, Mode)> {
        let operators = self.before.iter().chain(&self.after).map(|(_, policy)| policy);
        operators.chain(self.of_tenants.values().flatten()).filter_map(|policy| match policy {
            ScopedPolicy::Loaded(policy, mode) => Some((policy, *mode)),
            ScopedPolicy::Refused { .. } => None,
        })
    }
}

/// The chains that follow from a host's configuration and its objects' policies, made when they are first asked for.
#[derive(Default)]
pub(crate) struct Scopes(Mutex<State>);

#[derive(Default)]
struct State {
    /// How often they were put in place.
    version: u64,
    policies: ScopedPolicies,
    /// By tenant, with the configuration from which they were made.
    made: HashMap<Option<String>, (Arc<Generation>, Arc<Generation>)>,
}

impl Scopes {
    pub(crate) fn set(&self, policies: ScopedPolicies) {
        let mut state = self.0.lock();
        *state = State { version: state.version + 1, policies, made: HashMap::new() };
    }

    pub(crate) fn version(&self) -> u64 {
        self.0.lock().version
    }

    pub(crate) fn policies(&self) -> ScopedPolicies {
        self.0.lock().policies.clone()
    }

    /// What a tenant's questions pass, under this configuration.
    pub(crate) fn generation(&self, configured: Arc<Generation>, tenant: Option<&str>) -> Arc<Generation> {
        let mut state = self.0.lock();
        if state.policies.is_empty() {
            return configured;
        }
        // A tenant without policies of its own may still pass some that are not for all.
        let key = tenant.map(str::to_owned);
        if let Some((of, made)) = state.made.get(&key)
            && Arc::ptr_eq(of, &configured)
        {
            return Arc::clone(made);
        }
        // Those of another configuration would keep its policies in memory.
        state.made.retain(|_, (of, _)| Arc::ptr_eq(of, &configured));
        let made = Arc::new(with(&configured, state.policies.of(tenant)));
        state.made.insert(key, (configured, Arc::clone(&made)));
        made
    }
}

/// The configured chains with these policies before the built-in default that ends each.
fn with<'p>(configured: &Generation, scoped: impl Iterator<Item = &'p ScopedPolicy>) -> Generation {
    let mut generation = configured.clone();
    let is_built_in =
        |link: &ChainLink| matches!(link, ChainLink::Policy(policy) if policy.link.source == Source::BuiltIn);
    let mut ends = SlotName::ALL.map(|slot| {
        let chain = configured.chain(slot);
        chain.iter().position(is_built_in).unwrap_or(chain.len())
    });
    for policy in scoped {
        let index = policy.slot().index();
        let end = &mut ends[index];
        let link = match policy {
            ScopedPolicy::Loaded(policy, Mode::Shadow) => {
                generation.shadows[index].push(Shadow { before: *end, policy: Arc::clone(policy) });
                continue;
            }
            ScopedPolicy::Loaded(policy, Mode::Decide) => ChainLink::Policy(Arc::clone(policy)),
            ScopedPolicy::Refused { identity, why } => ChainLink::Unavailable(identity.clone().into(), Arc::clone(why)),
        };
        // Those that stand behind it move on by one.
        for shadow in generation.shadows[index].iter_mut().filter(|shadow| shadow.before > *end) {
            shadow.before += 1;
        }
        generation.chains[index].insert(*end, link);
        *end += 1;
    }
    generation
}
