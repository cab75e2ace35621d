//! Every fault at every call of an adoption, of a release by each verdict, and of a reclaim.

use std::time::Duration;

use windlass_lifecycle::{
    Control, Error, Lifecycle, ReclaimMode, ReclaimRequest, ReleaseOutcome, ReleaseRequest, RequestedBy,
};
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_simulator::{Effect, FaultKind, FaultRule};

use super::support::{DAY, Macs, PREFIX, adopt, claim, pool, prefix, release_of};
use crate::support::{faults_at, run, zone};

/// Every kind, and a delay beyond the client's deadline.
fn at(nth: u64, kind: FaultKind, effect: Effect) -> FaultRule {
    FaultRule { method: None, path: "/**".into(), nth: Some(nth), kind, effect }
}

async fn calls_of_adoption() -> u64 {
    let macs = Macs::new(2);
    let lifecycle = macs.start();
    adopt(&lifecycle, &claim("a")).await;
    macs.simulator.requests().len() as u64
}

#[test]
fn a_fault_of_any_kind_at_any_call_of_an_adoption_leaves_one_claim_or_a_whole_pool() {
    let calls = run(calls_of_adoption());
    assert!(calls >= 7, "{calls}");
    let (mut claimed, mut failed) = (0, 0);
    for (nth, kind, effect) in faults_at(calls) {
        let case = format!("adopt, call {nth}, {kind} {effect:?}");
        run(async {
            let macs = Macs::new(2);
            let lifecycle = macs.start();
            let mine = claim("a");
            macs.simulator.add_fault(at(nth, kind, effect)).unwrap();
            let result = lifecycle.adopt_machine(&pool(), &mine, &RequestedBy::default(), &Control::new()).await;
            macs.simulator.clear_faults();
            match result {
                Ok(adopted) => {
                    claimed += 1;
                    assert_eq!(macs.named(mine.as_str()), [adopted.server.id], "{case}");
                }
                Err(Error::Failed(_) | Error::Scaleway { .. }) => {
                    failed += 1;
                    // A claim whose last look failed stands, and is found below.
                    assert!(macs.named(mine.as_str()).len() <= 1, "{case}");
                }
                Err(error) => panic!("{case}: {error}"),
            }
            macs.assert_sound(&[&mine], &case);
            macs.assert_closed(&lifecycle, &case);
            // Asked again, it has one, and no other was touched for good.
            let id = adopt(&lifecycle, &mine).await;
            assert_eq!(macs.named(mine.as_str()), [id], "{case}");
            assert_eq!(macs.in_pool(), 1, "{case}");
            macs.assert_sound(&[&mine], &case);
        });
    }
    println!("adopt: {calls} calls, {claimed} cases claimed at once, {failed} after asking again");
    assert!(claimed > 14 && failed > 1, "{claimed} {failed}");
}

/// What is asked for, and of which host.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    ReturnToPool,
    /// Past the floor.
    Terminate,
    /// Under the floor, which the policy sees coming.
    Schedule,
    /// Under the floor, which only Scaleway's refusal tells of.
    TerminateRefused,
    Reboot,
    Keep,
}

impl Verdict {
    const ALL: [Self; 6] =
        [Self::ReturnToPool, Self::Terminate, Self::Schedule, Self::TerminateRefused, Self::Reboot, Self::Keep];

    fn age(self) -> Duration {
        if matches!(self, Self::Terminate | Self::TerminateRefused) { 2 * DAY } else { Duration::ZERO }
    }

    fn request(self, host: &str, mine: &windlass_lifecycle::ClaimName) -> ReleaseRequest {
        let base = release_of(host, mine);
        match self {
            Self::ReturnToPool => base,
            Self::Terminate | Self::Schedule | Self::TerminateRefused => {
                ReleaseRequest { requested: Some(Requested::Terminate), ..base }
            }
            Self::Reboot => ReleaseRequest { trigger: Trigger::BootstrapFailed, bootstrap_failures: 3, ..base },
            Self::Keep => ReleaseRequest { requested: Some(Requested::Keep), ..base },
        }
    }

    fn world(self) -> Macs {
        let macs = Macs::with(windlass_simulator::Options::default(), 2, [self.age()]);
        if self == Self::TerminateRefused {
            let path = "/apple-silicon/v1alpha1/zones/*/servers/*";
            macs.simulator.add_fault(FaultRule::new("DELETE", path, FaultKind::PreconditionFailed)).unwrap();
        }
        macs
    }
}

/// Asks until the release has ended, as a controller does.
async fn until_ended(lifecycle: &Lifecycle, request: &ReleaseRequest, case: &str) -> ReleaseOutcome {
    let mut request = request.clone();
    for attempt in 1..30 {
        request.attempt = attempt;
        match lifecycle.release(&request, &Control::new()).await {
            Ok(released) => match released.outcome {
                ReleaseOutcome::AskAgain { after } => tokio::time::sleep(Duration::from_millis(after)).await,
                outcome => return outcome,
            },
            Err(Error::Scaleway { .. }) => tokio::time::sleep(Duration::from_secs(30)).await,
            Err(error) => panic!("{case}: {error}"),
        }
    }
    panic!("{case}: it never ends");
}

/// What must be true after a release by this verdict ended so.
fn judge(
    macs: &Macs,
    verdict: Verdict,
    id: &str,
    mine: &windlass_lifecycle::ClaimName,
    outcome: &ReleaseOutcome,
    case: &str,
) {
    let wipes = |id: &str| macs.host(id)["simulator"]["reinstalls"].as_u64().unwrap();
    let gone = macs.gone().iter().any(|host| host["id"] == id);
    match outcome {
        ReleaseOutcome::ReturnedToPool { .. } => {
            assert!(macs.name(id).starts_with(PREFIX), "{case}: {}", macs.name(id));
            assert!(wipes(id) >= 1, "{case}: in the pool with its old disk");
        }
        ReleaseOutcome::Terminated | ReleaseOutcome::AlreadyGone => assert!(gone, "{case}: {outcome:?}"),
        ReleaseOutcome::DeletionScheduled { .. } => {
            // One past its floor goes at once.
            assert!(gone || macs.host(id)["deletion_scheduled"] == true, "{case}");
        }
        ReleaseOutcome::Kept => assert_eq!((macs.name(id).as_str(), wipes(id)), (mine.as_str(), 0), "{case}"),
        ReleaseOutcome::Rebooted => {
            assert!(macs.host(id)["simulator"]["reboots"].as_u64() >= Some(1), "{case}");
            assert_eq!((macs.name(id).as_str(), wipes(id)), (mine.as_str(), 0), "{case}");
        }
        ReleaseOutcome::AskAgain { .. } | ReleaseOutcome::GivenUp | ReleaseOutcome::NotOurs { .. } => {
            panic!("{case}: {outcome:?}")
        }
    }
    // Never more than was asked for.
    match verdict {
        Verdict::ReturnToPool | Verdict::Reboot | Verdict::Keep => assert!(!gone, "{case}: destroyed unasked"),
        Verdict::Terminate | Verdict::Schedule | Verdict::TerminateRefused => {
            assert!(gone || wipes(id) == 0, "{case}: wiped unasked");
        }
    }
    macs.assert_sound(&[mine], case);
}

#[test]
fn a_fault_of_any_kind_at_any_call_of_a_release_ends_as_the_verdict_says_or_keeps_the_host() {
    for verdict in Verdict::ALL {
        let calls = run(async {
            let macs = verdict.world();
            let lifecycle = macs.start();
            let id = adopt(&lifecycle, &claim("a")).await;
            macs.simulator.clear_requests();
            until_ended(&lifecycle, &verdict.request(&id, &claim("a")), "a clean run").await;
            macs.simulator.requests().len() as u64
        });
        let mut ends = std::collections::BTreeMap::<String, u32>::new();
        for (nth, kind, effect) in faults_at(calls) {
            let case = format!("{verdict:?}, call {nth} of {calls}, {kind} {effect:?}");
            run(async {
                let macs = verdict.world();
                let lifecycle = macs.start();
                let mine = claim("a");
                let id = adopt(&lifecycle, &mine).await;
                let other = macs.hosts().iter().find(|host| host["id"] != id.as_str()).unwrap().clone();
                // Before the one that belongs to the verdict.
                let standing: Vec<FaultRule> = macs.simulator.faults().into_iter().map(|fault| fault.rule).collect();
                macs.simulator.clear_faults();
                macs.simulator.add_fault(at(nth, kind, effect)).unwrap();
                for rule in standing {
                    macs.simulator.add_fault(rule).unwrap();
                }
                let outcome = until_ended(&lifecycle, &verdict.request(&id, &mine), &case).await;
                // A name in the pool that could not be given at once is given by the next start.
                assert!(lifecycle.resume(&Control::new()).await.unwrap().is_clean(), "{case}");
                judge(&macs, verdict, &id, &mine, &outcome, &case);
                macs.assert_closed(&lifecycle, &case);
                let beside = macs.host(other["id"].as_str().unwrap());
                assert_eq!(beside["name"], other["name"], "{case}: another host was touched");
                // And once more: it is as it was.
                let again = until_ended(&lifecycle, &verdict.request(&id, &mine), &case).await;
                if verdict != Verdict::Reboot {
                    judge(&macs, verdict, &id, &mine, &again, &case);
                }
                let word = format!("{outcome:?}");
                *ends.entry(word.split([' ', '{']).next().unwrap().to_owned()).or_default() += 1;
            });
        }
        println!("{verdict:?}: {calls} calls, ends {ends:?}");
    }
}

#[test]
fn a_fault_of_any_kind_at_any_call_of_a_reclaim_touches_none_but_the_stranded() {
    let request = |live: &[&str]| ReclaimRequest {
        zone: zone(),
        claim_prefix: "ci-mac-".into(),
        live: live.iter().map(|name| (*name).to_owned()).collect(),
        grace: Duration::from_secs(60),
        mode: ReclaimMode::ReturnToPool(prefix()),
    };
    let world = || async {
        let macs = Macs::new(3);
        let lifecycle = macs.start();
        let live = adopt(&lifecycle, &claim("live")).await;
        let lost = adopt(&lifecycle, &claim("lost")).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        macs.simulator.clear_requests();
        (macs, lifecycle, live, lost)
    };
    let calls = run(async {
        let (macs, lifecycle, _, _) = world().await;
        lifecycle.reclaim(&request(&["ci-mac-live"]), &Control::new()).await.unwrap();
        macs.simulator.requests().len() as u64
    });
    for (nth, kind, effect) in faults_at(calls) {
        let case = format!("reclaim, call {nth} of {calls}, {kind} {effect:?}");
        run(async {
            let (macs, lifecycle, live, lost) = world().await;
            macs.simulator.add_fault(at(nth, kind, effect)).unwrap();
            for _ in 0..5 {
                let reclaimed = lifecycle.reclaim(&request(&["ci-mac-live"]), &Control::new()).await;
                match reclaimed {
                    Ok(reclaimed) => {
                        let others: Vec<_> =
                            reclaimed.stranded.iter().filter(|host| host.claim == "ci-mac-live").collect();
                        assert!(others.is_empty(), "{case}: {others:?}");
                    }
                    Err(Error::Scaleway { .. }) => {}
                    Err(error) => panic!("{case}: {error}"),
                }
                tokio::time::sleep(Duration::from_secs(300)).await;
                // What was begun and not ended is the next start's.
                lifecycle.resume(&Control::new()).await.unwrap();
            }
            assert_eq!(macs.name(&live), "ci-mac-live", "{case}");
            assert_eq!(macs.host(&live)["simulator"]["reinstalls"].as_u64(), Some(0), "{case}");
            assert!(macs.name(&lost).starts_with(PREFIX), "{case}: {}", macs.name(&lost));
            macs.assert_sound(&[&claim("live")], &case);
            macs.assert_closed(&lifecycle, &case);
        });
    }
}
