//! One list for everybody: hundreds of machines that are looked after cost one call per zone and interval.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_concurrency::Flight;
use windlass_scaleway::types::apple_silicon::Server as Host;
use windlass_scaleway::types::instance::Server;
use windlass_scaleway::{Client, Zone};

use crate::Error;
use crate::clock::Clock;

/// How long it is remembered beside whom a machine was listed that is listed no more: time for a person to give a key
/// its rights back.
const REMEMBERED: Duration = Duration::from_secs(3_600);
/// Machines that are listed no more and remembered, at most.
const MAX_REMEMBERED: usize = 1_000;

pub(crate) trait Listed: Clone + Send + Sync + 'static {
    fn id(&self) -> &str;

    /// Whether it is to go by itself, so that nothing follows from its absence.
    fn is_leaving(&self) -> bool;
}

impl Listed for Host {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_leaving(&self) -> bool {
        self.deletion_scheduled
    }
}

impl Listed for Server {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_leaving(&self) -> bool {
        false
    }
}

/// Everything of one sort in one zone, as it was at one moment. The passwords are not in it.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// When it was begun, in milliseconds since 1970. What happened since may be missing, except for our own renames.
    pub taken_at: u64,
    /// In Scaleway's order: the oldest first.
    pub machines: Vec<T>,
}

#[expect(private_bounds, reason = "the two that exist are named by the methods that answer listings")]
impl<T: Listed> Listing<T> {
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&T> {
        self.machines.iter().find(|machine| machine.id() == id)
    }
}

struct Kept<T> {
    began: Instant,
    listing: Arc<Listing<T>>,
}

/// A machine that is listed no more: who was listed beside it when it was seen last, and was to stay.
#[derive(Clone, Debug)]
struct Departed {
    others: Arc<BTreeSet<String>>,
    at: Instant,
}

/// The outcome of a listing, as all who waited for it get it.
type Outcome<T> = Result<Arc<Listing<T>>, Arc<windlass_scaleway::Error>>;

/// A change of our own to one machine.
enum Change<T> {
    Replaced(T),
    Gone(String),
}

impl<T: Listed> Change<T> {
    fn apply(&self, machines: &mut Vec<T>) {
        match self {
            Self::Replaced(machine) => match machines.iter_mut().find(|known| known.id() == machine.id()) {
                Some(known) => *known = machine.clone(),
                None => machines.push(machine.clone()),
            },
            Self::Gone(id) => machines.retain(|machine| machine.id() != id),
        }
    }
}

/// What is known of one zone.
struct Slot<T> {
    latest: Mutex<Option<Kept<T>>>,
    /// Our own changes since the latest listing: one that is under way may not show them.
    changes: Mutex<Vec<(Instant, Change<T>)>>,
    departed: Mutex<BTreeMap<String, Departed>>,
    flight: Flight<Outcome<T>>,
}

/// The latest listings of all zones.
pub(crate) struct Listings<T> {
    began: Instant,
    zones: Mutex<BTreeMap<Zone, Arc<Slot<T>>>>,
}

impl<T> Default for Listings<T> {
    fn default() -> Self {
        Self { began: Instant::now(), zones: Mutex::default() }
    }
}

/// Those of a listing that are to stay.
fn staying<T: Listed>(machines: &[T]) -> BTreeSet<String> {
    machines.iter().filter(|machine| !machine.is_leaving()).map(|machine| machine.id().to_owned()).collect()
}

impl<T: Listed> Slot<T> {
    fn new() -> Self {
        Self {
            latest: Mutex::default(),
            changes: Mutex::default(),
            departed: Mutex::default(),
            flight: Flight::default(),
        }
    }

    fn at_most(&self, age: Duration) -> Option<Arc<Listing<T>>> {
        let latest = self.latest.lock();
        latest.as_ref().filter(|kept| kept.began + age >= Instant::now()).map(|kept| Arc::clone(&kept.listing))
    }

    /// Takes over what a call of ours has just changed, so that the next look at the same listing sees it.
    fn change(&self, change: Change<T>) {
        let mut latest = self.latest.lock();
        if let Some(kept) = latest.as_mut() {
            change.apply(&mut Arc::make_mut(&mut kept.listing).machines);
        }
        let mut changes = self.changes.lock();
        if changes.len() >= MAX_REMEMBERED {
            changes.remove(0);
        }
        changes.push((Instant::now(), change));
    }

    /// Takes a listing over, and remembers of each machine that has left the list who was listed beside it.
    fn keep(&self, began: Instant, taken_at: u64, mut machines: Vec<T>) -> Arc<Listing<T>> {
        let mut latest = self.latest.lock();
        for (_, change) in self.changes.lock().drain(..).filter(|(at, _)| *at >= began) {
            change.apply(&mut machines);
        }
        let listing = Arc::new(Listing { taken_at, machines });
        let before = latest.replace(Kept { began, listing: Arc::clone(&listing) });
        let listed: BTreeSet<&str> = listing.machines.iter().map(Listed::id).collect();
        let mut departed = self.departed.lock();
        departed.retain(|id, known| !listed.contains(id.as_str()) && known.at + REMEMBERED > began);
        let Some(before) = before else { return Arc::clone(&listing) };
        let gone: Vec<&T> = before.listing.machines.iter().filter(|machine| !listed.contains(machine.id())).collect();
        let others = Arc::new(if gone.is_empty() { BTreeSet::new() } else { staying(&before.listing.machines) });
        for machine in gone {
            if departed.len() < MAX_REMEMBERED {
                departed.insert(machine.id().to_owned(), Departed { others: Arc::clone(&others), at: began });
            }
        }
        drop(departed);
        Arc::clone(&listing)
    }
}

impl<T: Listed> Listings<T> {
    fn slot(&self, zone: &Zone) -> Arc<Slot<T>> {
        Arc::clone(self.zones.lock().entry(zone.clone()).or_insert_with(|| Arc::new(Slot::new())))
    }

    /// A listing that was begun at most `age` ago; asks for a new one where there is none, and always without an age.
    /// All who ask meanwhile share the answer, also a failure.
    pub(super) async fn at_most<F, Fut>(
        &self,
        client: &Client,
        clock: &Clock,
        zone: &Zone,
        age: Option<Duration>,
        list: F,
    ) -> Result<Arc<Listing<T>>, Error>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<Vec<T>, windlass_scaleway::Error>> + Send + 'static,
    {
        let slot = self.slot(zone);
        let wanted = Instant::now();
        if let Some(listing) = age.and_then(|age| slot.at_most(age)) {
            return Ok(listing);
        }
        let start = || {
            let (slot, clock, listing) = (Arc::clone(&slot), clock.clone(), list(client.clone()));
            async move {
                let (began, taken_at) = (Instant::now(), clock.now());
                Ok(slot.keep(began, taken_at, listing.await?))
            }
        };
        let outcome: Outcome<T> = match age {
            Some(_) => slot.flight.join(start).await,
            // It must have begun after this was asked for.
            None => slot.flight.join_since(Some(wanted), start).await,
        };
        outcome.map_err(|error| Error::scaleway("listing the machines of a zone", error))
    }

    /// Those that were listed beside a machine when it was listed last, and were to stay. None: this process has not
    /// seen it listed within the last hour.
    pub(crate) fn others(&self, zone: &Zone, id: &str) -> Option<Arc<BTreeSet<String>>> {
        let slot = self.slot(zone);
        let latest = slot.latest.lock().as_ref().map(|kept| Arc::clone(&kept.listing));
        match latest.filter(|listing| listing.get(id).is_some()) {
            Some(listing) => Some(Arc::new(staying(&listing.machines))),
            None => {
                let departed = slot.departed.lock();
                let known = departed.get(id).filter(|known| known.at.elapsed() < REMEMBERED);
                known.map(|known| Arc::clone(&known.others))
            }
        }
    }

    /// Whether this process has not run for as long as it remembers what it saw: one before it may have seen more.
    pub(crate) fn is_young(&self) -> bool {
        self.began.elapsed() < REMEMBERED
    }

    /// Takes over what a call of ours has just changed, so that the next look at the same listing sees it.
    pub(crate) fn replace(&self, zone: &Zone, machine: &T) {
        self.slot(zone).change(Change::Replaced(machine.clone()));
    }

    /// A machine is gone by our own doing: nothing follows from its absence.
    pub(crate) fn forget(&self, zone: &Zone, id: &str) {
        let slot = self.slot(zone);
        for known in slot.departed.lock().values_mut() {
            Arc::make_mut(&mut known.others).remove(id);
        }
        slot.change(Change::Gone(id.to_owned()));
    }
}
