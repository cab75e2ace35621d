//! A simulated zone of Macs, and what must be true of it whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_lifecycle::{
    ClaimName, Clock, Control, Durability, Lifecycle, OperationFilter, OperationState, Options, Pool, PoolPrefix,
    ReleaseRequest, RequestedBy, StateDirectory,
};
use windlass_policy::Host;
use windlass_scaleway::Client;
use windlass_simulator::{AppleSiliconPool, RequestRecord, Simulator};

use crate::late::Late;
use crate::support::{host, owner, settings, zone};

/// 2026-08-01T00:00:00Z, where the simulator's time begins.
pub(crate) const EPOCH: u64 = 1_785_542_400_000;
pub(crate) const PREFIX: &str = "ci-pool-";
pub(crate) const TYPE: &str = "M4-S";
const RETURNING: &str = "windlass-returning-";
const PENDING: &str = "windlass-claim-pending-";

/// Macs and processes that manage them.
pub(crate) struct Macs {
    pub(crate) simulator: Simulator,
    pub(crate) client: Client,
    /// The way to the simulator, on which requests can be late.
    pub(crate) late: Late,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Clock,
    seed: u64,
    starts: std::cell::Cell<u64>,
}

impl Macs {
    /// A pool of `count` ready hosts, just made.
    pub(crate) fn new(count: usize) -> Self {
        Self::with(windlass_simulator::Options::default(), count, [])
    }

    pub(crate) fn with(
        options: windlass_simulator::Options,
        count: usize,
        ages: impl IntoIterator<Item = Duration>,
    ) -> Self {
        let seed = options.seed;
        let simulator = Simulator::new(options);
        if count > 0 {
            simulator.add_apple_silicon_pool(&AppleSiliconPool::new(PREFIX, count, TYPE).unwrap().with_ages(ages));
        }
        let late = Late::over(simulator.transport());
        let client = Client::with_transport(settings(), Arc::new(late.clone())).unwrap();
        Self {
            simulator,
            client,
            late,
            folder: tempfile::tempdir().unwrap(),
            clock: Clock::simulated(EPOCH),
            seed,
            starts: std::cell::Cell::new(0),
        }
    }

    pub(crate) fn options(&self, policies: Arc<Host>, folder: &std::path::Path) -> Options {
        self.starts.set(self.starts.get() + 1);
        let mut options = Options::new(self.client.clone(), policies, StateDirectory::open(folder).unwrap());
        options.owner = Some(owner());
        options.durability = Durability::Process;
        options.clock = self.clock.clone();
        options.seed = Some(self.seed ^ (self.starts.get() << 32));
        options.limits.machine_interval = Duration::ZERO;
        options
    }

    /// A process start on the common state directory.
    pub(crate) fn start(&self) -> Lifecycle {
        self.start_under(host())
    }

    pub(crate) fn start_under(&self, policies: Arc<Host>) -> Lifecycle {
        Lifecycle::open(self.options(policies, self.folder.path())).unwrap()
    }

    /// One on a state directory of its own.
    pub(crate) fn start_in(&self, folder: &std::path::Path) -> Lifecycle {
        Lifecycle::open(self.options(host(), folder)).unwrap()
    }

    pub(crate) fn hosts(&self) -> Vec<Value> {
        self.simulator.resources().apple_silicon_servers
    }

    pub(crate) fn gone(&self) -> Vec<Value> {
        self.simulator.resources().gone_apple_silicon_servers
    }

    pub(crate) fn host(&self, id: &str) -> Value {
        self.hosts().into_iter().find(|host| host["id"] == id).unwrap_or_else(|| panic!("no host {id}"))
    }

    pub(crate) fn name(&self, id: &str) -> String {
        self.host(id)["name"].as_str().unwrap().to_owned()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<String> {
        let named = |host: &Value| (host["name"] == name).then(|| host["id"].as_str().unwrap().to_owned());
        self.hosts().iter().filter_map(named).collect()
    }

    pub(crate) fn in_pool(&self) -> usize {
        self.hosts().iter().filter(|host| host["name"].as_str().unwrap().starts_with(PREFIX)).count()
    }

    /// Calls since the log was cleared that change something.
    pub(crate) fn changes(&self) -> Vec<RequestRecord> {
        self.simulator.requests().into_iter().filter(|request| request.method != "GET").collect()
    }

    /// What must always be true: each host stands in the pool or carries exactly one of these claims, each claim has at
    /// most one host, and no host was ever wiped under a claim's or a pool's name.
    pub(crate) fn assert_sound(&self, claims: &[&ClaimName], case: &str) {
        let claims: BTreeSet<&str> = claims.iter().map(|claim| claim.as_str()).collect();
        let mut holders: BTreeMap<String, usize> = BTreeMap::new();
        for host in self.hosts() {
            let name = host["name"].as_str().unwrap();
            assert!(!name.starts_with(PENDING), "{case}: a host is between the phases of a claim: {name}");
            assert!(!name.starts_with(RETURNING), "{case}: a host is lost on its way into the pool: {name}");
            if claims.contains(name) {
                *holders.entry(name.to_owned()).or_default() += 1;
            } else {
                assert!(name.starts_with(PREFIX), "{case}: a host that is nobody's: {name}");
            }
        }
        assert!(holders.values().all(|count| *count == 1), "{case}: a claim with several hosts: {holders:?}");
        self.assert_wiped_only_on_the_way(case);
    }

    pub(crate) fn assert_wiped_only_on_the_way(&self, case: &str) {
        for host in self.hosts().iter().chain(&self.gone()) {
            for wipe in host["simulator"]["wiped"].as_array().unwrap() {
                let name = wipe["name"].as_str().unwrap();
                assert!(name.starts_with(RETURNING), "{case}: wiped in use, as {name}: {}", host["simulator"]);
            }
        }
    }

    pub(crate) fn assert_closed(&self, lifecycle: &Lifecycle, case: &str) {
        let mut filter = OperationFilter::default();
        filter.states = vec![OperationState::Open, OperationState::Left];
        let open = lifecycle.journal().operations(&filter).unwrap();
        assert!(open.is_empty(), "{case}: the journal is open: {open:?}");
        assert!(lifecycle.in_flight().is_empty(), "{case}");
    }
}

pub(crate) fn prefix() -> PoolPrefix {
    PREFIX.parse().unwrap()
}

pub(crate) fn pool() -> Pool {
    Pool { zone: zone(), prefix: prefix(), machine_type: TYPE.into(), operating_system: None }
}

pub(crate) fn claim(name: &str) -> ClaimName {
    format!("ci-mac-{name}").parse().unwrap()
}

/// Claims a host and gives its id.
pub(crate) async fn adopt(lifecycle: &Lifecycle, claim: &ClaimName) -> String {
    lifecycle.adopt_machine(&pool(), claim, &RequestedBy::default(), &Control::new()).await.unwrap().server.id
}

pub(crate) fn release_of(host: &str, claim: &ClaimName) -> ReleaseRequest {
    ReleaseRequest::new(zone(), host, claim.clone(), Some(prefix()))
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);
