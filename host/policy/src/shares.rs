//! Shares of the processor. A policy that computes long is asked apart from the threads that everybody shares, and only
//! so often at once as its slot's share allows, or its tenant's: whoever asks another policy does not wait for it.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::decision::PolicyIdentity;
use crate::slots::SlotName;

/// From here on a policy is slow. Well beyond a tick of the engine, from which on it is the processor's time that
/// counts: a policy that had to wait for the processor is not slow.
pub(crate) const SLOW: Duration = Duration::from_millis(15);
/// How long a policy stays slow after it was, in milliseconds: one that is slow now and then is apart all the time.
pub(crate) const STAYS_SLOW_MS: u64 = 10_000;

/// How many slow decisions are computed at once.
pub(crate) struct Shares {
    /// One for each slot, for policies that no tenant brought.
    slots: [Arc<Semaphore>; SlotName::ALL.len()],
    /// One for all tenants together. It is fair, and each tenant waits for it once at most.
    tenants: Arc<Semaphore>,
    /// One for each tenant.
    of_tenants: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// Room for one slow decision, for as long as it is held.
pub(crate) struct Share {
    _of_tenant: Option<OwnedSemaphorePermit>,
    /// Absent only if the semaphore was closed, which never happens.
    _room: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Half of the processors for each slot and for all tenants together, but one at least.
    pub(crate) fn new() -> Shares {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let half = (processors / 2).max(1);
        Shares {
            slots: std::array::from_fn(|_| Arc::new(Semaphore::new(half))),
            tenants: Arc::new(Semaphore::new(half)),
            of_tenants: Mutex::default(),
        }
    }

    /// Waits for room to ask this policy.
    pub(crate) async fn take(&self, policy: &PolicyIdentity) -> Share {
        let tenant = policy.origin.as_ref().and_then(|origin| origin.tenant.as_ref());
        let Some(tenant) = tenant else {
            let room = Arc::clone(&self.slots[policy.slot.index()]).acquire_owned().await;
            return Share { _of_tenant: None, _room: room.ok() };
        };
        let own = self.of_tenant(tenant).acquire_owned().await;
        let room = Arc::clone(&self.tenants).acquire_owned().await;
        Share { _of_tenant: own.ok(), _room: room.ok() }
    }

    fn of_tenant(&self, tenant: &Arc<str>) -> Arc<Semaphore> {
        let mut shares = self.of_tenants.lock();
        // Those that nobody holds or waits for are made again when they are needed.
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        Arc::clone(shares.entry(Arc::clone(tenant)).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::decision::PolicyOrigin;
    use crate::digest::Digest;

    fn policy(slot: SlotName, tenant: Option<&str>) -> PolicyIdentity {
        PolicyIdentity {
            slot,
            name: "a".into(),
            version: "1.0.0".into(),
            component: Digest::of(b"a"),
            settings: Digest::of(b"b"),
            configuration: None,
            origin: tenant.map(|tenant| PolicyOrigin {
                tenant: Some(tenant.into()),
                name: "b".into(),
                on_failure: None,
            }),
        }
    }

    #[test]
    fn a_tenant_has_one_share_and_waits_before_those_who_have_none_do() {
        let shares = Shares { tenants: Arc::new(Semaphore::new(2)), ..Shares::new() };
        let take = |tenant| {
            let policy = policy(SlotName::Release, Some(tenant));
            let shares = &shares;
            async move { shares.take(&policy).await }.boxed_local()
        };
        let first = take("a").now_or_never().unwrap();
        assert!(take("a").now_or_never().is_none(), "it has its share already");
        let other = take("b").now_or_never().unwrap();
        assert!(take("c").now_or_never().is_none(), "tenants have no more together");
        // What no tenant brought has the share of its slot.
        assert!(shares.take(&policy(SlotName::Release, None)).now_or_never().is_some());
        drop(other);
        assert!(take("c").now_or_never().is_some());
        drop(first);
        assert!(take("a").now_or_never().is_some());
        assert_eq!(shares.of_tenants.lock().len(), 1, "shares that nobody holds are forgotten");
    }
}
