//! Shares of the processor. A policy that computes long is asked apart from the threads that everybody shares, and only
//! so often at once as its slot's share allows, or its tenant's: whoever asks another policy does not wait for it.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::decision::PolicyIdentity;
use crate::slots::SlotName;

/// From here on a policy is slow: the others can bear to wait for less.
pub(crate) const SLOW: Duration = Duration::from_millis(5);

/// How many slow decisions are computed at once.
pub(crate) struct Shares {
    /// Of each slot, by policies that no tenant brought.
    slots: [Semaphore; SlotName::ALL.len()],
    /// Of all tenants together. It is fair, and each tenant waits for it once at most.
    tenants: Semaphore,
    /// One of each tenant.
    of_tenants: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// Room for one slow decision, for as long as it is held.
pub(crate) struct Share<'s> {
    _of_tenant: Option<OwnedSemaphorePermit>,
    /// Absent only if the semaphore was closed, which never happens.
    _room: Option<SemaphorePermit<'s>>,
}

impl Shares {
    /// Half of the processors for each slot and for all tenants together, but one at least.
    pub(crate) fn new() -> Shares {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let half = (processors / 2).max(1);
        Shares {
            slots: std::array::from_fn(|_| Semaphore::new(half)),
            tenants: Semaphore::new(half),
            of_tenants: Mutex::default(),
        }
    }

    /// Waits for room to ask this policy.
    pub(crate) async fn take(&self, policy: &PolicyIdentity) -> Share<'_> {
        let tenant = policy.origin.as_ref().and_then(|origin| origin.tenant.as_ref());
        let Some(tenant) = tenant else {
            let room = self.slots[policy.slot.index()].acquire().await;
            return Share { _of_tenant: None, _room: room.ok() };
        };
        let own = self.of_tenant(tenant).acquire_owned().await;
        Share { _of_tenant: own.ok(), _room: self.tenants.acquire().await.ok() }
    }

    fn of_tenant(&self, tenant: &Arc<str>) -> Arc<Semaphore> {
        let mut shares = self.of_tenants.lock();
        // Those that nobody holds or waits for are made again when they are needed.
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        Arc::clone(shares.entry(Arc::clone(tenant)).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}
