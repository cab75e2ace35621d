//! What happens in one run, as data: drawn from a seed, told in words, cut down to what matters.

use std::fmt;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use windlass_simulator::{Effect, FaultKind};

/// Processes that create servers. The first two share an owner and nothing else; the third shares the state directory
/// of the first.
pub const PROCESSES: usize = 3;
/// The process that has clusters; it shares the state directory of the second.
pub const CLUSTERS: usize = 3;
/// The process that is a runner's plugin, with a state directory of its own.
pub const RUNNER: usize = 4;
/// All processes.
pub const SEATS: usize = 5;
/// The longest that a call is on its way: less than the second look's time, since what comes later is beyond what is
/// assumed (assumption: late-effect-within-second-look).
const LATEST: u64 = 590_000;

/// A run, from its first event to its last. What follows the last is the same for all: faults end, dead processes are
/// started again, and what is left to the hosts is given the time that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Decides ids, jitter, latencies and what a disk keeps.
    pub seed: u64,
    /// Who takes part beside the processes that create servers.
    pub cast: Cast,
    /// Whether a supervisor works in each process beside what happens. Otherwise only the story's rounds are made.
    pub supervised: bool,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// Who takes part beside the processes that create servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cast {
    /// A process with clusters.
    pub clusters: bool,
    /// A runner with its group.
    pub runner: bool,
}

impl Cast {
    /// The processes that take part.
    #[must_use]
    pub fn seats(self) -> Vec<usize> {
        let more = [(CLUSTERS, self.clusters), (RUNNER, self.runner)];
        (0..PROCESSES).chain(more.into_iter().filter(|(_, there)| *there).map(|(seat, _)| seat)).collect()
    }
}

/// Something that happens some time after what came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Simulated milliseconds since the event before.
    pub after: u64,
    /// What.
    pub what: What,
}

/// What can happen. Numbers that choose something among what is there are taken modulo its count; where there is none,
/// nothing happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A process creates a server.
    Create { process: usize, shape: Shape },
    /// A process cleans a server up that it has created.
    CleanUp { process: usize, chosen: usize },
    /// A process calls a creation off that is under way.
    CallOff { process: usize, chosen: usize },
    /// A process's supervisor makes a round of resuming what is open.
    Resume { process: usize },
    /// A process's supervisor sweeps.
    Sweep { process: usize },
    /// Calls fail from here on, or one of them does.
    Fault { method: &'static str, path: &'static str, nth: Option<u64>, kind: FaultKind, effect: Effect },
    /// Scaleway differs from what is believed of it, from here on.
    Behave { as_if: Oddity },
    /// No call fails any more, and Scaleway is as it is believed to be.
    FaultsEnd,
    /// A process ends at once; its disk keeps what was written.
    Kill { process: usize },
    /// The power of a process's machine is lost at one of its next writes: what was not synced may be gone.
    LosePower { process: usize, at_sync: u64, took_effect: bool },
    /// A process that does not live is started, and resumes.
    Start { process: usize },
    /// The jobs of the runner need so many instances.
    Demand { count: usize },
    /// A cluster is created.
    CreateCluster { chosen: usize, count: u32 },
    /// A cluster gets so many nodes.
    ScaleCluster { chosen: usize, count: u32 },
    /// A cluster is terminated.
    TerminateCluster { chosen: usize, force: bool },
    /// The operation under way on a cluster is called off.
    CancelCluster { chosen: usize },
    /// A user of the account does something.
    User(User),
    /// Somebody cancels an operation of the journal through this process, as `operation cancel` does.
    Cancel { process: usize, chosen: usize },
    /// A process gets a signal to end: the journal says that what it makes is cancelled before anybody is told so.
    Signal { process: usize },
    /// From here on the clock of a process's machine is ahead by so many milliseconds.
    SetClock { process: usize, ahead: u64 },
    /// Somebody copies a process's state directory, starts a process like it on the copy, and asks it for everything.
    Copy { process: usize },
    /// Somebody makes a backup of a process's state directory.
    BackUp { process: usize },
    /// Somebody ends the processes of a machine, puts the last backup in the place of their state directory, and
    /// starts them.
    Restore { process: usize },
    /// Somebody says that a restored state directory is to be used, and starts its processes again.
    TakeOver { process: usize },
    /// One endpoint fails from here on, whatever else works.
    Outage { endpoint: Endpoint, kind: OutageKind },
}

/// What a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A server with its boot volume.
    Bare,
    /// With addresses, a further volume and a private network.
    Everything,
    /// On local disks.
    Local,
    /// With a volume of a user's, which exists before.
    WithExisting,
}

/// What users of the account do beside us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Makes a volume and attaches it to a server of ours.
    AttachVolume { server: usize },
    /// Makes an address and attaches it to a server of ours.
    AttachAddress { server: usize },
    /// Makes a server of their own, without tags.
    MakeServer,
    /// Makes a server that carries all tags of one of ours, as a script that clones servers does.
    CloneServer { server: usize },
    /// Stops a server of ours in place.
    StopInPlace { server: usize },
    /// Stops a server of ours.
    PowerOff { server: usize },
    /// Gives a server of ours another name.
    Rename { server: usize },
    /// Deletes a server of ours with its local disks.
    Terminate { server: usize },
    /// Deletes a server of ours and nothing else.
    Delete { server: usize },
    /// Takes our tags off a server.
    TakeServer { server: usize },
    /// Takes our tags off an address of a server.
    TakeAddress { server: usize },
    /// Takes our tags off a volume of a server.
    TakeVolume { server: usize },
    /// Attaches a volume of a server of ours to a server of their own.
    MoveVolume { server: usize },
    /// Protects a server.
    Protect { server: usize },
}

/// What can fail while everything else works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The list of a collection.
    List(Collection),
    /// Reads of its members by their ids.
    Read(Collection),
    /// Deletions of its members.
    Delete(Collection),
    /// Actions of servers.
    Act,
}

/// A collection of one of the APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Servers.
    Servers,
    /// Addresses.
    Addresses,
    /// Local volumes.
    LocalVolumes,
    /// Volumes of Block Storage.
    BlockVolumes,
}

/// How an endpoint fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// 403 in Scaleway's own form.
    Forbidden,
    /// 404 of something that is not Scaleway.
    UntypedNotFound,
    /// 410 of the same.
    UntypedGone,
    /// 500 in Scaleway's own form.
    ServerError,
    /// 503 of the gateway.
    Unavailable,
}

impl Endpoint {
    /// Whether a call is one of this endpoint's.
    pub(crate) fn is(self, method: &str, path: &str) -> bool {
        let (wanted, collection, has_id) = match self {
            Self::List(collection) => ("GET", collection, false),
            Self::Read(collection) => ("GET", collection, true),
            Self::Delete(collection) => ("DELETE", collection, true),
            Self::Act => ("POST", Collection::Servers, true),
        };
        let (api, name) = match collection {
            Collection::Servers => ("instance", "servers"),
            Collection::Addresses => ("instance", "ips"),
            Collection::LocalVolumes => ("instance", "volumes"),
            Collection::BlockVolumes => ("block", "volumes"),
        };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let fits = matches!(segments[..], [of, _, "zones", _, collection, ..] if of == api && collection == name);
        let ends = match self {
            Self::Act => segments.len() == 7 && segments[6] == "action",
            _ => segments.len() == 5 + usize::from(has_id),
        };
        method == wanted && fits && ends
    }
}

impl OutageKind {
    /// Its status and body.
    pub(crate) fn answer(self) -> (http::StatusCode, &'static str) {
        use http::StatusCode as S;
        match self {
            Self::Forbidden => {
                (S::FORBIDDEN, r#"{"details":[],"message":"insufficient permissions","type":"permissions_denied"}"#)
            }
            Self::UntypedNotFound => (S::NOT_FOUND, r#"{"type":"about:blank","title":"Not Found","status":404}"#),
            Self::UntypedGone => (S::GONE, r#"{"type":"about:blank","title":"Gone","status":410}"#),
            Self::ServerError => {
                (S::INTERNAL_SERVER_ERROR, r#"{"message":"Internal error","type":"internal_server_error"}"#)
            }
            Self::Unavailable => (S::SERVICE_UNAVAILABLE, r#"{"message":"upstream request timeout"}"#),
        }
    }
}

/// A way in which Scaleway differs from what is believed, under which the laws can still be stated: whatever is made,
/// missed or refused meanwhile, in the end the same holds. (What Scaleway denies by its id does not exist, as far as
/// anybody can know, so nothing can be promised about it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// Filters by tags let everything through.
    FilterIgnored,
    /// Filters by tags find nothing.
    FilterEmpty,
    /// Filters by tags find nothing where the tag has a `=`.
    FilterWithoutEquals,
    /// Filters by tags find nothing without a project.
    FilterNeedsProject,
    /// What is new is listed so many milliseconds later.
    LateListing { after: u64 },
    /// Totals are those of the unfiltered lists.
    UnfilteredTotal,
    /// Totals are one too many.
    TotalOff,
    /// An address that is gone is answered 403.
    GoneForbidden,
    /// Writing user data is answered with a body.
    UserDataBody,
    /// Servers show volumes of Block Storage under a type that nobody knows yet.
    NewVolumeType,
    /// The key may no longer see a server of ours: lists leave it out, by its id it is answered 403.
    Forbidden { server: usize },
}

/// Paths that faults meet: one for each thing that the hosts ask for, and all of them.
const PATHS: [&str; 9] = [
    "/**",
    "/instance/v1/zones/*/servers",
    "/instance/v1/zones/*/servers/*",
    "/instance/v1/zones/*/servers/*/action",
    "/instance/v1/zones/*/servers/*/private_nics",
    "/instance/v1/zones/*/ips",
    "/instance/v1/zones/*/ips/*",
    "/block/v1/zones/*/volumes",
    "/block/v1/zones/*/volumes/*",
];
const METHODS: [&str; 5] = ["*", "GET", "POST", "PATCH", "DELETE"];

impl Story {
    /// The story of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let supervised = random.random_bool(0.2);
        let (clusters, runner) = match random.random_range(0..10) {
            0..2 => (true, false),
            2..4 => (false, true),
            4 => (true, true),
            _ => (false, false),
        };
        let cast = Cast { clusters, runner };
        let count = random.random_range(4..24);
        let mut events: Vec<Event> =
            (0..count).map(|_| Event { after: delay(&mut random), what: what(&mut random, cast) }).collect();
        for _ in 0..random.random_range(0..3) {
            let at = random.random_range(0..=events.len());
            events.splice(at..at, scene(&mut random, cast));
        }
        Self { seed, cast, supervised, events }
    }

    /// The shortest story like this one that still `fails`, as far as leaving out one run of events after another finds
    /// it. Asks at most `most` times.
    #[must_use]
    pub fn shrink(&self, most: usize, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let mut best = self.clone();
        let mut asked = 0;
        let mut length = best.events.len().div_ceil(2);
        while length > 0 {
            let mut from = 0;
            let mut shorter = false;
            while from < best.events.len() && asked < most {
                let mut candidate = best.clone();
                let to = (from + length).min(candidate.events.len());
                candidate.events.drain(from..to);
                asked += 1;
                if fails(&candidate) {
                    best = candidate;
                    shorter = true;
                } else {
                    from += length;
                }
            }
            if length == 1 && !shorter || asked >= most {
                break;
            }
            length = if length == 1 { 1 } else { length.div_ceil(2) };
        }
        best
    }
}

/// Most events come close together, some long after.
fn delay(random: &mut ChaCha8Rng) -> u64 {
    match random.random_range(0..10) {
        0..3 => random.random_range(0..500),
        3..7 => random.random_range(500..10_000),
        7..9 => random.random_range(10_000..120_000),
        _ => random.random_range(120_000..4_000_000),
    }
}

fn what(random: &mut ChaCha8Rng, cast: Cast) -> What {
    let process = random.random_range(0..PROCESSES);
    let chosen = random.random_range(0..8);
    if cast.clusters && random.random_bool(0.2) {
        let count = random.random_range(1..4);
        return match random.random_range(0..20) {
            0..8 => What::CreateCluster { chosen, count },
            8..14 => What::ScaleCluster { chosen, count },
            14..18 => What::TerminateCluster { chosen, force: random.random_bool(0.5) },
            _ => What::CancelCluster { chosen },
        };
    }
    if cast.runner && random.random_bool(0.2) {
        return What::Demand { count: random.random_range(0..4) };
    }
    let seat = *cast.seats().choose(random).unwrap_or(&process);
    match random.random_range(0..100) {
        0..28 => What::Create {
            process,
            shape: match random.random_range(0..8) {
                0 => Shape::Bare,
                1..5 => Shape::Everything,
                5 | 6 => Shape::Local,
                _ => Shape::WithExisting,
            },
        },
        28..40 => What::CleanUp { process, chosen },
        40..44 => What::CallOff { process, chosen },
        44..48 => What::Resume { process },
        48..53 => What::Sweep { process },
        53..67 => fault(random),
        67..69 => What::Behave { as_if: oddity(random) },
        69..71 => What::FaultsEnd,
        71..75 => What::Kill { process: seat },
        75..80 => {
            What::LosePower { process: seat, at_sync: random.random_range(1..30), took_effect: random.random_bool(0.5) }
        }
        80..84 => What::Start { process: seat },
        _ => What::User(user(random)),
    }
}

/// Some events that belong together, so close that one falls into the other.
fn scene(random: &mut ChaCha8Rng, cast: Cast) -> Vec<Event> {
    let process = random.random_range(0..PROCESSES);
    let chosen = random.random_range(0..8);
    let seat = *cast.seats().choose(random).unwrap_or(&process);
    let event = |after: u64, what: What| Event { after, what };
    let create = What::Create { process, shape: *SHAPES.choose(random).unwrap_or(&Shape::Local) };
    match random.random_range(0..16) {
        // A user acts while a removal waits for a slow answer.
        0..4 => {
            let path = SLOW_PATHS.choose(random).unwrap_or(&"/**");
            let kind = FaultKind::Delay(Duration::from_millis(random.random_range(2_000..25_000)));
            let effect = if random.random_bool(0.5) { Effect::Before } else { Effect::After };
            let slow = What::Fault { method: "GET", path, nth: Some(random.random_range(1..4)), kind, effect };
            let removal =
                if random.random_bool(0.7) { What::CleanUp { process, chosen } } else { What::Sweep { process } };
            vec![
                event(delay(random), create),
                event(20_000, slow),
                event(random.random_range(0..100), removal),
                event(random.random_range(0..12_000), What::User(user_at_edge(random))),
            ]
        }
        // A signal in any window of a creation, and perhaps a kill after it.
        4..7 => {
            let cancel = if random.random_bool(0.6) {
                What::Signal { process }
            } else {
                // In the same process, or in another one of the same journal.
                let other = if process == 0 { 2 } else { process };
                What::Cancel { process: if random.random_bool(0.5) { other } else { process }, chosen }
            };
            let mut events = vec![event(delay(random), create), event(random.random_range(0..12_000), cancel)];
            // The longest window is that of a call that hangs.
            if random.random_bool(0.5) {
                let path = "/instance/v1/zones/*/servers/*/action";
                let kind = FaultKind::Delay(Duration::from_millis(random.random_range(2_000..25_000)));
                let effect = if random.random_bool(0.5) { Effect::Before } else { Effect::After };
                events.insert(0, event(0, What::Fault { method: "POST", path, nth: Some(1), kind, effect }));
            }
            if random.random_bool(0.7) {
                let soon = if random.random_bool(0.5) { 500 } else { 10_000 };
                events.push(event(random.random_range(0..soon), What::Kill { process }));
                events.push(event(delay(random), What::Start { process }));
            }
            events
        }
        7 | 8 => {
            vec![event(delay(random), create), event(random.random_range(0..15_000), What::Copy { process: seat })]
        }
        9 => {
            let mut events = vec![
                event(delay(random), create),
                event(random.random_range(0..15_000), What::BackUp { process: 0 }),
                event(delay(random), What::Create { process: 0, shape: Shape::Everything }),
                event(delay(random), What::Restore { process: 0 }),
            ];
            if random.random_bool(0.5) {
                events.push(event(delay(random), What::TakeOver { process: 0 }));
            }
            events
        }
        10..12 => {
            let ahead = *AHEAD.choose(random).unwrap_or(&0);
            let back = *AHEAD.choose(random).unwrap_or(&0);
            let lost = What::Fault {
                method: "POST",
                path: PATHS.choose(random).unwrap_or(&"/**"),
                nth: Some(random.random_range(1..6)),
                kind: FaultKind::DroppedConnection,
                effect: if random.random_bool(0.5) { Effect::Before } else { Effect::After },
            };
            let mut events = vec![event(delay(random), What::SetClock { process, ahead })];
            if random.random_bool(0.6) {
                events.push(event(0, lost));
            }
            events.push(event(random.random_range(0..2_000), create));
            if random.random_bool(0.5) {
                events.push(event(random.random_range(0..20_000), What::Kill { process }));
            }
            if random.random_bool(0.8) {
                let back = if random.random_bool(0.7) { 0 } else { back };
                events.push(event(delay(random), What::SetClock { process, ahead: back }));
                events.push(event(random.random_range(0..2_000), What::Start { process }));
            }
            events
        }
        12..15 => {
            let collections =
                [Collection::Servers, Collection::Addresses, Collection::LocalVolumes, Collection::BlockVolumes];
            let collection = *collections.choose(random).unwrap_or(&Collection::Servers);
            let endpoint = match random.random_range(0..8) {
                0..3 => Endpoint::List(collection),
                3..5 => Endpoint::Read(collection),
                5..7 => Endpoint::Delete(collection),
                _ => Endpoint::Act,
            };
            let kinds = [
                OutageKind::Forbidden,
                OutageKind::UntypedNotFound,
                OutageKind::UntypedGone,
                OutageKind::ServerError,
                OutageKind::Unavailable,
            ];
            let outage = What::Outage { endpoint, kind: *kinds.choose(random).unwrap_or(&OutageKind::Forbidden) };
            let mut events = vec![event(delay(random), create), event(random.random_range(0..20_000), outage)];
            if random.random_bool(0.7) {
                events.push(event(random.random_range(0..2_000), What::CleanUp { process, chosen }));
            }
            events
        }
        _ => vec![
            event(delay(random), What::Behave { as_if: Oddity::NewVolumeType }),
            event(random.random_range(0..1_000), create),
        ],
    }
}

/// The shapes of servers in scenes: those with local disks as often as others.
const SHAPES: [Shape; 4] = [Shape::Local, Shape::Local, Shape::Everything, Shape::Bare];

/// What can be slow while a user acts.
const SLOW_PATHS: [&str; 8] = [
    "/instance/v1/zones/*/servers",
    "/instance/v1/zones/*/servers/*",
    "/instance/v1/zones/*/ips",
    "/instance/v1/zones/*/ips/*",
    "/instance/v1/zones/*/volumes",
    "/instance/v1/zones/*/volumes/*",
    "/block/v1/zones/*/volumes",
    "/block/v1/zones/*/volumes/*",
];

/// By how much a clock can be ahead.
const AHEAD: [u64; 5] = [0, 2 * HOUR, 26 * HOUR, 40 * 24 * HOUR, 365 * 24 * HOUR];
const HOUR: u64 = 3_600_000;

fn user_at_edge(random: &mut ChaCha8Rng) -> User {
    let server = random.random_range(0..8);
    match random.random_range(0..8) {
        0 | 1 => User::TakeServer { server },
        2 => User::TakeAddress { server },
        3 | 4 => User::TakeVolume { server },
        5 => User::MoveVolume { server },
        6 => User::Delete { server },
        _ => User::Protect { server },
    }
}

pub(crate) fn fault(random: &mut ChaCha8Rng) -> What {
    let reported = random.random_bool(0.75);
    let kinds: &[FaultKind] = if reported { &FaultKind::ALL } else { &FaultKind::UNTOLD };
    let kind = match *kinds.choose(random).unwrap_or(&FaultKind::InternalServerError) {
        FaultKind::Delay(_) => FaultKind::Delay(Duration::from_millis(random.random_range(100..60_000))),
        FaultKind::Late(_) => {
            let latest = if random.random_bool(0.5) { 10_000 } else { LATEST };
            FaultKind::Late(Duration::from_millis(random.random_range(100..latest)))
        }
        FaultKind::Omit(_) => FaultKind::Omit(random.random_range(1..5)),
        FaultKind::OmitKeepTotal(_) => FaultKind::OmitKeepTotal(random.random_range(1..5)),
        kind => kind,
    };
    let after = random.random_bool(0.5) && !is_believed(kind);
    What::Fault {
        method: METHODS.choose(random).unwrap_or(&"*"),
        path: PATHS.choose(random).unwrap_or(&"/**"),
        // What is read by its id and not found is gone (assumption: not-found-is-lasting): only single answers lie.
        nth: (random.random_bool(0.8) || kind == FaultKind::NotFound).then(|| random.random_range(1..12)),
        kind,
        effect: if after { Effect::After } else { Effect::Before },
    }
}

/// What says that nothing was done is believed, out of stock too: a creation then goes on with another type at once
/// (assumption: instance-out-of-stock).
fn is_believed(kind: FaultKind) -> bool {
    kind.is_refusal() || kind == FaultKind::OutOfStock
}

pub(crate) fn oddity(random: &mut ChaCha8Rng) -> Oddity {
    match random.random_range(0..11) {
        0 => Oddity::FilterIgnored,
        1 => Oddity::FilterEmpty,
        2 => Oddity::FilterWithoutEquals,
        3 => Oddity::FilterNeedsProject,
        4 => Oddity::LateListing { after: random.random_range(1_000..600_000) },
        5 => Oddity::UnfilteredTotal,
        6 => Oddity::TotalOff,
        7 => Oddity::GoneForbidden,
        8 => Oddity::UserDataBody,
        _ => Oddity::Forbidden { server: random.random_range(0..8) },
    }
}

pub(crate) fn user(random: &mut ChaCha8Rng) -> User {
    let server = random.random_range(0..8);
    match random.random_range(0..8) {
        0 => User::AttachVolume { server },
        1 => User::AttachAddress { server },
        2 => User::MakeServer,
        3 => User::CloneServer { server },
        4 => User::StopInPlace { server },
        5 => User::PowerOff { server },
        6 => User::Rename { server },
        _ => User::Terminate { server },
    }
}

impl fmt::Display for Story {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let supervised = if self.supervised { ", supervised" } else { "" };
        let clusters = if self.cast.clusters { ", with clusters" } else { "" };
        let runner = if self.cast.runner { ", with a runner" } else { "" };
        writeln!(formatter, "seed {}{supervised}{clusters}{runner}", self.seed)?;
        for event in &self.events {
            writeln!(formatter, "  after {:>8} ms: {:?}", event.after, event.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_tells_the_same_story_and_another_seed_another_one() {
        for seed in 0..100 {
            assert_eq!(Story::of_seed(seed), Story::of_seed(seed));
            assert_ne!(Story::of_seed(seed).events, Story::of_seed(seed + 1).events);
        }
    }

    #[test]
    fn a_story_shrinks_to_the_events_that_matter() {
        let matters = |what: &What| matches!(what, What::Kill { .. } | What::User(User::Terminate { .. }));
        let mut shrunk = 0;
        for seed in 0..200 {
            let story = Story::of_seed(seed);
            let needed: Vec<Event> = story.events.iter().filter(|event| matters(&event.what)).cloned().collect();
            let fails = |story: &Story| needed.iter().all(|event| story.events.contains(event));
            let shortest = story.shrink(10_000, fails);
            assert!(shortest.events.len() <= needed.len(), "{shortest}");
            shrunk += usize::from(shortest.events.len() < story.events.len());
        }
        assert!(shrunk > 150, "{shrunk}");
    }

    #[test]
    fn every_kind_of_event_comes_up() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            for event in Story::of_seed(seed).events {
                let words = format!("{:?}", event.what);
                seen.insert(words.split([' ', '{']).next().unwrap_or_default().to_owned());
            }
        }
        assert!(seen.len() >= 27, "{seen:?}");
    }

    #[test]
    fn what_is_said_to_have_been_refused_had_no_effect_and_what_comes_late_comes_before_the_second_look() {
        let (mut after, mut late) = (0, 0);
        for event in (0..500).flat_map(|seed| Story::of_seed(seed).events) {
            let What::Fault { kind, effect, .. } = event.what else { continue };
            assert!(effect == Effect::Before || !is_believed(kind), "{kind}");
            after += usize::from(effect == Effect::After);
            if let FaultKind::Late(by) = kind {
                assert!(by <= Duration::from_millis(LATEST));
                late += 1;
            }
        }
        assert!(after > 100 && late > 20, "{after} {late}");
    }
}
