//! A day of a runner, as data: drawn from a seed. What happens to Scaleway and to the plugin this crate carries out
//! ([`DayWorld`](crate::DayWorld)), what the runner does itself, GitLab's own loop.

use std::fmt;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_policy::slots::SlotName;
use windlass_simulator::{Effect, FaultKind};

use crate::story::{What, fault, oddity, user};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// Around each quiet time nothing else happens for so long.
const QUIET: u64 = 75 * MINUTE;
/// The server types of the group, in the order in which they are tried.
const TYPES: [&str; 2] = ["DEV1-S", "DEV1-M"];
/// The zones of the group in the operator's order, and the paths of everything in each, of its servers.
const ZONES: [(&str, &str, &str); 3] = [
    ("fr-par-1", "/*/v1/zones/fr-par-1/**", "/instance/v1/zones/fr-par-1/servers"),
    ("fr-par-2", "/*/v1/zones/fr-par-2/**", "/instance/v1/zones/fr-par-2/servers"),
    ("nl-ams-1", "/*/v1/zones/nl-ams-1/**", "/instance/v1/zones/nl-ams-1/servers"),
];
/// What a zone's API answers while it is out.
const OUTAGES: [FaultKind; 6] = [
    FaultKind::InternalServerError,
    FaultKind::GatewayTimeout,
    FaultKind::GatewayUnavailable,
    FaultKind::RateLimited,
    FaultKind::DroppedConnection,
    FaultKind::MalformedBody,
];

/// A day, from its first event to its last. What follows is the same for all: faults end, no job comes any more, and
/// all goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// Decides ids, jitter, latencies and what a disk keeps.
    pub seed: u64,
    /// How the runner and its group are configured.
    pub setting: Setting,
    /// What happens, in order.
    pub events: Vec<Timed>,
}

/// How the runner and its group are configured, in the words of `config.toml`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Milliseconds.
    pub update_interval: u64,
    /// Milliseconds.
    pub update_interval_when_expecting: u64,
    /// Milliseconds.
    pub deletion_retry_interval: u64,
    /// The most instances that the runner asks for.
    pub max_instances: u32,
    /// The most instances of the group.
    pub max_size: u32,
    /// Jobs that run on an instance at a time.
    pub capacity_per_instance: u32,
    /// Jobs that an instance is used for; 0: any number.
    pub max_use_count: u32,
    /// How long an instance that is too many stays idle, in milliseconds.
    pub idle_time: u64,
    /// Heartbeats that may fail in a row.
    pub failure_threshold: u32,
    /// Whether the runner knows after a restart what it had.
    pub state_storage: bool,
    /// Whether the runner asks for the removal of all instances when it shuts down.
    pub delete_instances_on_shutdown: bool,
    /// Whether the plugin removes all instances when the runner shuts down.
    pub delete_on_shutdown: bool,
    /// The server types of the group.
    pub server_type: Vec<String>,
    /// The zones of the group.
    pub zone: Vec<String>,
    /// Whether the instances are spread over the zones.
    pub spread: bool,
}

/// Something that happens at its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Simulated milliseconds since the day's begin.
    pub at: u64,
    /// What.
    pub what: DayEvent,
}

/// What can happen in a day.
#[derive(Clone, Debug, PartialEq)]
pub enum DayEvent {
    /// So many jobs come, each of so many milliseconds.
    Jobs {
        /// How many.
        count: u32,
        /// How long each takes.
        length: u64,
    },
    /// So many instances are to be idle from here on.
    Idle {
        /// How many.
        count: u32,
    },
    /// The runner is shut down in order, and started again so many milliseconds later.
    Drain {
        /// How long it is down.
        down: u64,
    },
    /// The plugin and its runner end at once; or the power is lost, at one of the next writes.
    Kill {
        /// At which sync from now the power is lost, and whether that took effect. Absent: the processes are killed.
        power: Option<(u64, bool)>,
        /// How many milliseconds until the runner is started again.
        down: u64,
    },
    /// Faults and shortages end, no job runs or comes, and so many instances are to be idle: capacity has to become
    /// truth.
    Quiet {
        /// How many.
        count: u32,
    },
    /// Something happens to Scaleway.
    World(What),
    /// A server type is gone from stock, or back.
    Stock {
        /// Which.
        server_type: String,
        /// Whether it is to be had.
        available: bool,
    },
    /// Scaleway locks a server of ours.
    Lock {
        /// Which of them.
        server: usize,
    },
    /// Scaleway unlocks what it has locked.
    Unlock,
    /// The policies of these slots are those from here on, the others the built-in defaults.
    Policies(Vec<Swap>),
}

/// A policy that takes its slot's first place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Waits about a minute for stock.
    WaitForStock,
    /// Never tries anything again.
    GiveUp,
    /// Waits as long as an hour.
    WaitLong,
    /// Fails in each decision of the slot `retry`.
    FailToRetry,
    /// Leaves stopped servers alone for ten minutes.
    Grace,
    /// Fails in each decision of the slot `state-mapping`.
    FailToMap,
    /// Says that everything is gone, and has nothing removed.
    DenyAll,
    /// Fails in each decision of the slot `rollback`.
    FailToUndo,
    /// Creates nothing in the first zone.
    AvoidFirstZone,
    /// Fails in each decision of the slot `placement`.
    FailToPlace,
}

impl Swap {
    /// Those that a group in one zone meets.
    const OF_ONE_ZONE: [Self; 8] = [
        Self::WaitForStock,
        Self::GiveUp,
        Self::WaitLong,
        Self::FailToRetry,
        Self::Grace,
        Self::FailToMap,
        Self::DenyAll,
        Self::FailToUndo,
    ];
    /// Those that only a group in several zones meets.
    #[cfg(test)]
    const OF_ZONES: [Self; 2] = [Self::AvoidFirstZone, Self::FailToPlace];

    /// All of them.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::OF_ONE_ZONE.into_iter().chain(Self::OF_ZONES)
    }

    /// Its slot.
    #[must_use]
    pub fn slot(self) -> SlotName {
        match self {
            Self::WaitForStock | Self::GiveUp | Self::WaitLong | Self::FailToRetry => SlotName::Retry,
            Self::Grace | Self::FailToMap | Self::DenyAll => SlotName::StateMapping,
            Self::FailToUndo => SlotName::Rollback,
            Self::AvoidFirstZone | Self::FailToPlace => SlotName::Placement,
        }
    }

    /// Its rules.
    #[must_use]
    pub fn rules(self) -> String {
        let rule = |when: &str, answer: &str| {
            format!("slot = \"{}\"\n[[rules]]\nwhen = \"\"\"{when}\"\"\"\nanswer = {answer}\n", self.slot())
        };
        match self {
            Self::WaitForStock => include_str!("../../../guest/examples/wait-for-stock.rules.toml").to_owned(),
            Self::GiveUp => rule("attempt > 0", "\"give-up\""),
            Self::WaitLong => rule("attempt > 1", "{ wait = 3600000 }"),
            Self::FailToRetry => rule("subject.group == 'runners' && 1 / (attempt - attempt) > 0", "\"give-up\""),
            Self::Grace => include_str!("../../../guest/examples/keep-debugged-servers.rules.toml").to_owned(),
            Self::FailToMap => rule(
                "subject.group == 'runners' && 1 / (server.age - server.age) > 0",
                "{ mapped = { report = \"deleted\", action = \"reap\" } }",
            ),
            Self::DenyAll => rule("server.age >= 0", "{ mapped = { report = \"deleted\", action = \"none\" } }"),
            Self::FailToUndo => rule("subject.group == 'runners' && 1 / (size(subject.group) - 7) > 0", "\"keep\""),
            Self::AvoidFirstZone => rule("place.zone == 'fr-par-1'", "\"skip\""),
            Self::FailToPlace => {
                rule("subject.group == 'runners' && 1 / (place.servers - place.servers) > 0", "\"skip\"")
            }
        }
    }
}

impl Day {
    /// The day of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let setting = Setting::draw(&mut random, &mut of_zones(seed ^ u64::MAX));
        let mut events = Vec::new();
        let quiet = [random.random_range(6..9) * HOUR, random.random_range(14..18) * HOUR];
        for at in quiet {
            let count = random.random_range(1..=setting.max_instances.min(4));
            events.push(Timed { at, what: DayEvent::Quiet { count } });
        }
        let is_quiet = |at: u64| quiet.iter().any(|quiet| (quiet - 1..quiet + QUIET).contains(&at));
        let mut add = |at: u64, what: DayEvent| {
            if at < 24 * HOUR && !is_quiet(at) {
                events.push(Timed { at, what });
            }
        };
        // Few jobs at night, many by day.
        for hour in 0..23 {
            let most = if (8..18).contains(&hour) { 8 } else { 2 };
            for _ in 0..random.random_range(0..=most) {
                let burst = random.random_bool(0.1);
                let count = if burst { setting.max_instances * 2 } else { random.random_range(1..4) };
                let length = random.random_range(20_000..40 * MINUTE);
                add(hour * HOUR + random.random_range(0..HOUR), DayEvent::Jobs { count, length });
            }
        }
        for (hour, most) in [(0, 1), (5, 3), (10, 4), (19, 1)] {
            let count = random.random_range(0..=most);
            add(hour * HOUR + random.random_range(0..HOUR), DayEvent::Idle { count });
        }
        for _ in 0..random.random_range(10..50) {
            let at = random.random_range(0..24 * HOUR);
            disturb(&mut random, at, &mut add);
        }
        let mut random = of_zones(seed);
        for _ in 0..if setting.zone.len() > 1 { random.random_range(4..20) } else { 0 } {
            let at = random.random_range(0..24 * HOUR);
            disturb_a_zone(&mut random, &setting.zone, at, &mut add);
        }
        events.sort_by_key(|event| event.at);
        Self { seed, setting, events }
    }

    /// As it crosses to the runner's side, which knows nothing of what happens to Scaleway.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let events = self.events.iter().map(|event| {
            let what = match &event.what {
                DayEvent::Jobs { count, length } => json!({"kind": "jobs", "count": count, "length": length}),
                DayEvent::Idle { count } => json!({"kind": "idle", "count": count}),
                DayEvent::Drain { down } => json!({"kind": "drain", "down": down}),
                DayEvent::Kill { down, .. } => json!({"kind": "kill", "down": down}),
                DayEvent::Quiet { count } => json!({"kind": "quiet", "count": count}),
                _ => json!({"kind": "world"}),
            };
            json!({"at": event.at, "what": what, "words": event.to_string()})
        });
        json!({"setting": self.setting, "events": events.collect::<Vec<_>>(), "words": format!("{:?}", self.setting)})
    }
}

impl Setting {
    fn draw(random: &mut ChaCha8Rng, of_zones: &mut ChaCha8Rng) -> Self {
        let seconds = |random: &mut ChaCha8Rng, choice: &[u64]| choice.choose(random).map_or(1_000, |it| it * 1_000);
        let max_instances = random.random_range(2..=8);
        Self {
            update_interval: seconds(random, &[60, 60, 30]),
            update_interval_when_expecting: seconds(random, &[2, 5, 5, 10]),
            deletion_retry_interval: seconds(random, &[60, 60, 20]),
            max_instances,
            max_size: max_instances + random.random_range(0..3),
            capacity_per_instance: *[1, 1, 1, 2].choose(random).unwrap_or(&1),
            max_use_count: *[0, 1, 1, 3, 10].choose(random).unwrap_or(&1),
            idle_time: seconds(random, &[60, 600, 1_200]),
            failure_threshold: 3,
            state_storage: random.random_bool(0.5),
            delete_instances_on_shutdown: random.random_bool(0.5),
            delete_on_shutdown: random.random_bool(0.3),
            server_type: TYPES[..random.random_range(1..=2)].iter().map(|name| (*name).to_owned()).collect(),
            zone: ZONES[..of_zones.random_range(1..=3)].iter().map(|(name, ..)| (*name).to_owned()).collect(),
            spread: of_zones.random_bool(0.5),
        }
    }
}

/// What is drawn of zones is drawn apart, so that a day in one zone is not changed by it.
fn of_zones(seed: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(1);
    random
}

/// One zone of several is out, or has nothing left, or a policy judges the zones.
fn disturb_a_zone(random: &mut ChaCha8Rng, zones: &[String], at: u64, add: &mut impl FnMut(u64, DayEvent)) {
    let (_, everything, servers) = ZONES[random.random_range(0..zones.len())];
    let fault = |method, path, kind, effect| DayEvent::World(What::Fault { method, path, nth: None, kind, effect });
    match random.random_range(0..8) {
        0 => add(at, DayEvent::Policies(vec![Swap::AvoidFirstZone])),
        1 => add(at, DayEvent::Policies(vec![Swap::FailToPlace])),
        2 => add(at, fault("POST", servers, FaultKind::OutOfStock, Effect::Before)),
        3 => add(at, fault("POST", servers, FaultKind::QuotaExceeded, Effect::Before)),
        _ => {
            let kind = *OUTAGES.choose(random).unwrap_or(&FaultKind::InternalServerError);
            let method = *["*", "*", "GET", "POST", "DELETE"].choose(random).unwrap_or(&"*");
            add(at, fault(method, everything, kind, Effect::Before));
        }
    }
    add(at + random.random_range(MINUTE..2 * HOUR), DayEvent::World(What::FaultsEnd));
}

/// One disturbance, and its end where it lasts.
fn disturb(random: &mut ChaCha8Rng, at: u64, add: &mut impl FnMut(u64, DayEvent)) {
    let lasting = |random: &mut ChaCha8Rng| random.random_range(MINUTE..HOUR);
    let failing = |method, path, kind, effect| What::Fault { method, path, nth: None, kind, effect };
    let servers = "/instance/v1/zones/*/servers";
    match random.random_range(0..100) {
        // The API is down, or is not reached.
        0..14 => {
            let kind = *OUTAGES.choose(random).unwrap_or(&FaultKind::InternalServerError);
            let after = random.random_bool(0.3) && kind != FaultKind::RateLimited;
            let effect = if after { Effect::After } else { Effect::Before };
            let method = *["*", "*", "GET", "POST", "DELETE"].choose(random).unwrap_or(&"*");
            add(at, DayEvent::World(failing(method, "/**", kind, effect)));
            add(at + lasting(random), DayEvent::World(What::FaultsEnd));
        }
        // It is slow.
        14..20 => {
            let delay = FaultKind::Delay(Duration::from_millis(random.random_range(1_000..45_000)));
            add(at, DayEvent::World(failing("*", "/**", delay, Effect::After)));
            add(at + lasting(random), DayEvent::World(What::FaultsEnd));
        }
        20..26 => {
            add(at, DayEvent::World(failing("POST", servers, FaultKind::QuotaExceeded, Effect::Before)));
            add(at + lasting(random), DayEvent::World(What::FaultsEnd));
        }
        26..38 => {
            let which = TYPES.choose(random).copied().unwrap_or(TYPES[0]).to_owned();
            let both = random.random_bool(0.5);
            let until = at + random.random_range(MINUTE..3 * HOUR);
            for name in TYPES.iter().filter(|name| both || **name == which) {
                let server_type = (*name).to_owned();
                add(at, DayEvent::Stock { server_type: server_type.clone(), available: false });
                add(until, DayEvent::Stock { server_type, available: true });
            }
        }
        // Single calls fail, effects are late, lists leave something out.
        38..56 => {
            add(at, DayEvent::World(fault(random)));
            add(at + lasting(random), DayEvent::World(What::FaultsEnd));
        }
        56..60 => {
            add(at, DayEvent::World(What::Behave { as_if: oddity(random) }));
            add(at + lasting(random), DayEvent::World(What::FaultsEnd));
        }
        60..74 => add(at, DayEvent::World(What::User(user(random)))),
        74..78 => {
            add(at, DayEvent::Lock { server: random.random_range(0..8) });
            add(at + lasting(random), DayEvent::Unlock);
        }
        78..86 => {
            let power = random.random_bool(0.6).then(|| (random.random_range(1..30), random.random_bool(0.5)));
            add(at, DayEvent::Kill { power, down: random.random_range(1_000..20 * MINUTE) });
        }
        86..91 => add(at, DayEvent::Drain { down: random.random_range(1_000..20 * MINUTE) }),
        _ => {
            let mut swaps: Vec<Swap> = Vec::new();
            for _ in 0..random.random_range(0..3) {
                let swap = *Swap::OF_ONE_ZONE.choose(random).unwrap_or(&Swap::Grace);
                if swaps.iter().all(|other| other.slot() != swap.slot()) {
                    swaps.push(swap);
                }
            }
            // What denies everything makes a runner forget all: not for long, and never in a quiet time.
            let for_long = !swaps.contains(&Swap::DenyAll);
            add(at, DayEvent::Policies(swaps));
            if !for_long {
                add(at + lasting(random), DayEvent::Policies(Vec::new()));
            }
        }
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at / 1_000;
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        write!(formatter, "{hours:02}:{minutes:02}:{:02}.{:03} {:?}", seconds % 60, self.at % 1_000, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_day_and_another_seed_another_one() {
        for seed in 0..50 {
            assert_eq!(Day::of_seed(seed), Day::of_seed(seed));
            assert_ne!(Day::of_seed(seed).events, Day::of_seed(seed + 1).events);
        }
    }

    #[test]
    fn nothing_happens_in_a_quiet_time() {
        for seed in 0..200 {
            let events = Day::of_seed(seed).events;
            for quiet in events.iter().filter(|event| matches!(event.what, DayEvent::Quiet { .. })) {
                let within = quiet.at..quiet.at + QUIET;
                assert_eq!(events.iter().filter(|event| within.contains(&event.at)).count(), 1, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_first_hundred_days_hold_every_disturbance_and_every_policy() {
        let mut reported = String::new();
        for seed in 0..100 {
            Day::of_seed(seed).events.iter().for_each(|event| reported.push_str(&format!("{event}\n")));
        }
        for word in [
            "Jobs",
            "Idle",
            "Drain",
            "Kill { power: None",
            "Kill { power: Some",
            "Quiet",
            "Stock",
            "Lock",
            "Unlock",
            "GatewayTimeout",
            "DroppedConnection",
            "QuotaExceeded",
            "Late(",
            "Omit(",
            "Behave",
            "User(",
            "Policies([])",
            "zones/nl-ams-1",
            "OutOfStock",
        ] {
            assert!(reported.contains(word), "{word}");
        }
        for swap in Swap::all() {
            assert!(reported.contains(&format!("{swap:?}")), "{swap:?}");
        }
    }
}
