//! SIGKILL of a real process at every request of an adoption and of releases, before and after its effect.
//!
//! As in [`crate::kill`]: the child is this test binary again; the parent holds its nth request and kills it meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_lifecycle::{
    Clock, Control, Lifecycle, Options, ReleaseOutcome, ReleaseRequest, RequestedBy, StateDirectory,
};
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_scaleway::Client;
use windlass_simulator::{AppleSiliconPool, Effect, FaultKind, FaultRule, Simulator};

use super::support::{DAY, PREFIX, TYPE, claim, pool, release_of};
use crate::support::{Spawned, host_in, number, owner, real_time, settings};

const JOB: &str = "WINDLASS_TEST_MACHINE_JOB";
const URL: &str = "WINDLASS_TEST_URL";
const STATE: &str = "WINDLASS_TEST_STATE";
const POLICIES: &str = "WINDLASS_TEST_POLICIES";

fn open(client: Client, state: &Path, policies: &Path) -> Lifecycle {
    let tick = Duration::from_millis(20);
    let mut options = Options::new(client, host_in(policies), StateDirectory::open(state).unwrap());
    options.owner = Some(owner());
    options.limits.settle = tick;
    options.limits.poll_interval = tick;
    options.limits.machine_interval = Duration::ZERO;
    options.limits.claim_settle = tick;
    // The hosts' dates are the simulator's.
    options.clock = Clock::simulated(super::support::EPOCH);
    Lifecycle::open(options).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Adopt,
    ReturnToPool,
    Terminate,
    /// Refused under the floor and scheduled.
    Schedule,
    /// Its set-up has failed so often that it is rebooted.
    Recover,
}

impl Job {
    fn request(self, host: &str) -> ReleaseRequest {
        let requested = matches!(self, Self::Terminate | Self::Schedule).then_some(Requested::Terminate);
        let request = ReleaseRequest { requested, ..release_of(host, &claim("a")) };
        match self {
            Self::Recover => ReleaseRequest { trigger: Trigger::BootstrapFailed, bootstrap_failures: 3, ..request },
            _ => request,
        }
    }

    /// What the child is told.
    fn words(self, host: &str) -> String {
        match self {
            Self::Adopt => "adopt".to_owned(),
            Self::ReturnToPool => format!("return {host}"),
            Self::Terminate | Self::Schedule => format!("terminate {host}"),
            Self::Recover => format!("recover {host}"),
        }
    }

    fn of_word(word: &str) -> Self {
        match word {
            "return" => Self::ReturnToPool,
            "terminate" => Self::Terminate,
            "recover" => Self::Recover,
            _ => Self::Adopt,
        }
    }
}

/// What a killed process was: does the job that its environment names.
#[test]
#[ignore = "the killed process of other tests"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let of = |variable: &str| std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is missing"));
    real_time(async {
        let client = Client::new(settings().with_api_url(&of(URL)).unwrap()).unwrap();
        let lifecycle = open(client, Path::new(&of(STATE)), Path::new(&of(POLICIES)));
        match job.split_once(' ') {
            Some((job, host)) => {
                lifecycle.release(&Job::of_word(job).request(host), &Control::new()).await.unwrap();
            }
            None => drop(
                lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap(),
            ),
        }
    });
}

struct Ended {
    requests: u64,
    killed: bool,
    end: String,
}

/// One case. Afterwards the next start resumes, and then its owner asks again, with the journal or without it.
async fn play(job: Job, at: Option<(u64, Effect)>, journal_lost: bool, policies: &Path) -> Ended {
    let name = format!("{job:?} killed at {at:?}{}", if journal_lost { ", journal lost" } else { "" });
    // Time stands still, so that a wipe lasts.
    let simulator = Simulator::new(windlass_simulator::Options { seed: 5, time_scale: 0.0, ..Default::default() });
    let age = if job == Job::Terminate { 2 * DAY } else { Duration::ZERO };
    simulator.add_apple_silicon_pool(&AppleSiliconPool::new(PREFIX, 2, TYPE).unwrap().with_ages([age]));
    let client = Client::with_transport(settings(), simulator.transport()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn({
        let simulator = simulator.clone();
        async move { simulator.serve(listener).await }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut host = String::new();
    if job != Job::Adopt {
        let lifecycle = open(client.clone(), folder.path(), policies);
        host = lifecycle
            .adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new())
            .await
            .unwrap()
            .server
            .id;
    }
    simulator.clear_requests();
    if let Some((nth, effect)) = at {
        let kind = FaultKind::Delay(Duration::from_secs(60));
        simulator.add_fault(FaultRule { method: None, path: "/**".into(), nth: Some(nth), kind, effect }).unwrap();
    }
    if job == Job::Schedule {
        // The policy does not see the floor coming.
        let path = "/apple-silicon/v1alpha1/zones/*/servers/*";
        simulator.add_fault(FaultRule::new("DELETE", path, FaultKind::PreconditionFailed)).unwrap();
    }
    let words = job.words(&host);
    let variables =
        [(JOB, words.as_ref()), (URL, url.as_ref()), (STATE, folder.path().as_ref()), (POLICIES, policies.as_ref())];
    let killed = Spawned::start("machines::kill::child", &variables).kill_when_caught(&simulator).await;
    let requests = simulator.requests().len() as u64;
    simulator.clear_faults();
    if job == Job::Recover {
        // A reboot that took effect is over, so that its state does not tell of it.
        simulator.advance(Duration::from_secs(600));
    }
    let other = tempfile::tempdir().unwrap();
    let next = open(client, if journal_lost { other.path() } else { folder.path() }, policies);
    let resumed = next.resume(&Control::new()).await.unwrap();
    assert!(resumed.is_clean() && resumed.busy.is_empty(), "{name}: {resumed:?}");
    let resources = || simulator.resources();
    let names = || -> Vec<String> {
        let hosts = resources().apple_silicon_servers;
        hosts.iter().map(|host| host["name"].as_str().unwrap().to_owned()).collect()
    };
    let between = |names: &[String]| names.iter().any(|name| name.starts_with("windlass-"));
    if !journal_lost {
        assert!(!between(&names()), "{name}: after the start: {:?}", names());
    }
    let end = if job == Job::Adopt {
        let adopted = next.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap();
        let claims = names().iter().filter(|name| *name == claim("a").as_str()).count();
        assert_eq!(claims, 1, "{name}: {:?}", names());
        assert!(journal_lost || names().iter().any(|name| name.starts_with(PREFIX)), "{name}: {:?}", names());
        if adopted.rediscovered { "rediscovered" } else { "adopted" }.to_owned()
    } else {
        let mut attempt = 1;
        let outcome = loop {
            let request = ReleaseRequest { attempt, ..job.request(&host) };
            match next.release(&request, &Control::new()).await.unwrap().outcome {
                ReleaseOutcome::AskAgain { .. } if attempt < 5 => attempt += 1,
                outcome => break outcome,
            }
        };
        let seen = resources();
        let found = seen.apple_silicon_servers.iter().find(|found| found["id"] == host.as_str());
        match (job, &outcome) {
            (Job::ReturnToPool, ReleaseOutcome::ReturnedToPool { .. }) => {
                let found = found.unwrap();
                assert!(found["name"].as_str().unwrap().starts_with(PREFIX), "{name}: {found}");
                assert!(found["simulator"]["reinstalls"].as_u64() >= Some(1), "{name}: its old disk: {found}");
            }
            (Job::Terminate, ReleaseOutcome::AlreadyGone | ReleaseOutcome::Terminated) => {
                assert!(found.is_none(), "{name}");
            }
            (Job::Schedule, ReleaseOutcome::Kept | ReleaseOutcome::DeletionScheduled { .. }) => {
                assert_eq!(found.unwrap()["deletion_scheduled"], true, "{name}");
            }
            (Job::Recover, ReleaseOutcome::Rebooted) => {
                let reboots = found.unwrap()["simulator"]["reboots"].as_u64().unwrap();
                // Nobody but the journal knows of one that is over.
                let most = if journal_lost { 2 } else { 1 };
                assert!((1..=most).contains(&reboots), "{name}: {reboots} reboots");
            }
            (_, outcome) => panic!("{name}: {outcome:?}"),
        }
        assert!(!between(&names()), "{name}: {:?}", names());
        let word = format!("{outcome:?}");
        word.split([' ', '{']).next().unwrap().to_owned()
    };
    for host in resources().apple_silicon_servers {
        for wipe in host["simulator"]["wiped"].as_array().unwrap() {
            let wiped = wipe["name"].as_str().unwrap();
            assert!(wiped.starts_with("windlass-returning-"), "{name}: wiped in use, as {wiped}");
        }
    }
    server.abort();
    Ended { requests, killed, end }
}

fn at_every_request(job: Job) {
    let policies = tempfile::tempdir().unwrap();
    drop(host_in(policies.path()));
    let total = real_time(play(job, None, false, policies.path())).requests;
    assert!(total >= 3, "{job:?}: {total} requests");
    let cases: Vec<(u64, Effect, bool)> = (1..=total)
        .flat_map(|nth| [Effect::Before, Effect::After].map(|effect| (nth, effect)))
        // Half a claim that no journal knows is taken up after a quarter of an hour, not at once.
        .flat_map(|(nth, effect)| [false, true].map(|lost| (nth, effect, lost)))
        .collect();
    let next = AtomicU64::new(0);
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..number("WINDLASS_KILL_THREADS", 4) {
            scope.spawn(|| {
                while let Some((nth, effect, lost)) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let end = real_time(play(job, Some((*nth, *effect)), *lost, policies.path()));
                    ended.lock().unwrap().push(end);
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap();
    assert_eq!(ended.len(), cases.len(), "a case failed");
    let killed = ended.iter().filter(|end| end.killed).count();
    let mut ends = BTreeMap::<&str, u32>::new();
    for end in &ended {
        *ends.entry(&end.end).or_default() += 1;
    }
    println!("{job:?}: {total} requests, {killed} kills, ends {ends:?}");
    assert_eq!(killed, cases.len(), "each case is a kill");
}

#[test]
fn an_adoption_killed_at_any_request_leaves_one_claim_or_none_and_can_be_asked_for_again() {
    at_every_request(Job::Adopt);
}

#[test]
fn a_return_to_the_pool_killed_at_any_request_is_carried_on_with_the_journal_and_without() {
    at_every_request(Job::ReturnToPool);
}

#[test]
fn a_termination_killed_at_any_request_is_carried_on_with_the_journal_and_without() {
    at_every_request(Job::Terminate);
}

#[test]
fn a_scheduled_deletion_killed_at_any_request_is_carried_on_with_the_journal_and_without() {
    at_every_request(Job::Schedule);
}

#[test]
fn a_reboot_killed_at_any_request_is_done_once_with_the_journal_and_at_most_twice_without() {
    at_every_request(Job::Recover);
}
