//! Several processes on one pool, in interleavings drawn from seeds: with one state directory, and with one each.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use windlass_lifecycle::{ClaimName, Control, Error, Lifecycle, ReleaseOutcome, RequestedBy};
use windlass_simulator::{Latency, Options};

use super::support::{Macs, claim, pool, release_of};
use crate::support::{number, run, seeds};

/// What a process did: the hosts that it believes to have, claim by claim.
type Belief = BTreeMap<String, String>;

/// Claims and releases by the seed's will, and says what it has at the end.
async fn live(lifecycle: &Lifecycle, mut random: ChaCha8Rng, who: usize, rounds: usize) -> Belief {
    let mut belief = Belief::new();
    let control = Control::new();
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..3_000))).await;
        let mine = claim(&format!("{who}-{round}"));
        match lifecycle.adopt_machine(&pool(), &mine, &RequestedBy::default(), &control).await {
            Ok(adopted) => {
                belief.insert(mine.to_string(), adopted.server.id);
            }
            Err(Error::NoEligibleMachine { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if random.random_bool(0.4)
            && let Some((name, host)) = belief.pop_first()
        {
            let name: ClaimName = name.parse().unwrap();
            let released = lifecycle.release(&release_of(&host, &name), &control).await.unwrap();
            assert!(matches!(released.outcome, ReleaseOutcome::ReturnedToPool { .. }), "{released:?}");
        }
    }
    belief
}

/// Whether each host is believed to be had by nobody but the one whose claim it carries.
fn judge(macs: &Macs, beliefs: &[Belief], case: &str) {
    let mut all = Belief::new();
    for (name, host) in beliefs.iter().flatten() {
        assert_eq!(&macs.name(host), name, "{case}: who believes to have {host} does not");
        assert!(all.insert(host.clone(), name.clone()).is_none(), "{case}: {host} is had twice");
    }
    let claims: Vec<ClaimName> = all.values().map(|name| name.parse().unwrap()).collect();
    macs.assert_sound(&claims.iter().collect::<Vec<_>>(), case);
}

#[test]
fn a_hundred_claims_and_a_hundred_releases_at_once_take_turns_and_end() {
    run(async {
        let latency = Latency { base_ms: 80, jitter_ms: 40 };
        let macs = Macs::with(Options { latency, ..Options::default() }, 100, []);
        let lifecycle = macs.start();
        let (control, pool) = (Control::new(), pool());
        let claims: Vec<ClaimName> = (0..100).map(|number| claim(&number.to_string())).collect();
        let began = tokio::time::Instant::now();
        let nobody = RequestedBy::default();
        let adopted = futures::future::join_all(
            claims.iter().map(|mine| lifecycle.adopt_machine(&pool, mine, &nobody, &control)),
        );
        let hosts: Vec<String> = adopted.await.into_iter().map(|adopted| adopted.unwrap().server.id).collect();
        macs.assert_sound(&claims.iter().collect::<Vec<_>>(), "a hundred claims");
        assert_eq!(macs.in_pool(), 0);
        let (claimed_in, calls) = (began.elapsed(), macs.simulator.requests().len());
        macs.simulator.clear_requests();
        let began = tokio::time::Instant::now();
        let requests: Vec<_> = claims.iter().zip(&hosts).map(|(mine, host)| release_of(host, mine)).collect();
        let released = futures::future::join_all(requests.iter().map(|one| lifecycle.release(one, &control)));
        for released in released.await {
            assert!(matches!(released.unwrap().outcome, ReleaseOutcome::ReturnedToPool { .. }));
        }
        // Each is read when it begins, under the lock, and right before each change but the first.
        assert_eq!((macs.in_pool(), macs.simulator.requests().len()), (100, 700));
        macs.assert_closed(&lifecycle, "a hundred");
        println!(
            "100 claims: {claimed_in:?}, {calls} calls; 100 releases: {:?}, 700 calls (100 ms a call)",
            began.elapsed()
        );
    });
}

/// Cases from which on what is true of most holds for all together.
const ENOUGH: usize = 20;

/// How a case is played again.
fn again(seed: u64) -> String {
    format!("WINDLASS_RACES_SEED={seed} WINDLASS_RACES=1")
}

fn world(seed: u64) -> Macs {
    // A call takes up to 0.9 s, so a rename takes effect well within the settling time of 2 s.
    let latency = Latency { base_ms: 20, jitter_ms: 880 };
    let durations = windlass_simulator::Durations {
        apple_silicon_reinstall: Duration::from_secs(5).into(),
        ..windlass_simulator::Durations::default()
    };
    Macs::with(Options { seed, latency, durations, ..Options::default() }, 4, [])
}

#[test]
fn processes_that_share_a_state_directory_never_have_one_host_twice() {
    let mut had = 0;
    let seeds = seeds("WINDLASS_RACES_SEED", number("WINDLASS_RACES", ENOUGH as u64));
    let cases = seeds.len();
    for seed in seeds {
        had += run(async {
            let macs = world(seed);
            let processes = [macs.start(), macs.start(), macs.start()];
            let lives = processes
                .iter()
                .enumerate()
                .map(|(who, lifecycle)| live(lifecycle, ChaCha8Rng::seed_from_u64(seed * 10 + who as u64), who, 4));
            let beliefs = futures::future::join_all(lives).await;
            judge(&macs, &beliefs, &format!("one directory, {}", again(seed)));
            beliefs.iter().map(Belief::len).sum::<usize>()
        });
    }
    println!("one directory: {cases} interleavings, {had} hosts had at their ends");
    assert!(had > cases || cases < ENOUGH, "they hardly ever had one: {had}");
}

#[test]
fn processes_with_a_state_directory_each_never_have_one_host_twice_while_renames_take_effect_in_time() {
    let mut had = 0;
    let mut seeds = seeds("WINDLASS_RACES_SEED", number("WINDLASS_RACES", ENOUGH as u64));
    // A claim took another process's mark for that of a release of its own.
    seeds.push(1_765_361_140);
    let cases = seeds.len();
    let mut lost = 0;
    for seed in seeds {
        let (hosts, races) = run(async {
            let macs = world(seed);
            let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
            let processes: Vec<Lifecycle> = folders.iter().map(|folder| macs.start_in(folder.path())).collect();
            let lives = processes
                .iter()
                .enumerate()
                .map(|(who, lifecycle)| live(lifecycle, ChaCha8Rng::seed_from_u64(seed * 10 + who as u64), who, 4));
            let beliefs = futures::future::join_all(lives).await;
            judge(&macs, &beliefs, &format!("a directory each, {}", again(seed)));
            let lost: usize = processes
                .iter()
                .flat_map(|lifecycle| {
                    let journal = lifecycle.journal();
                    let operations = journal.operations(&Default::default()).unwrap();
                    operations.into_iter().map(|operation| journal.entries(&operation.id).unwrap()).collect::<Vec<_>>()
                })
                .flatten()
                .filter(|entry| entry.data.get("lost").is_some())
                .count();
            (beliefs.iter().map(Belief::len).sum::<usize>(), lost)
        });
        had += hosts;
        lost += races;
    }
    println!("a directory each: {cases} interleavings, {had} hosts had at their ends, {lost} races lost on the way");
    assert!(had > cases && lost > cases / 4 || cases < ENOUGH, "they hardly ever met: {had} had, {lost} lost");
}
