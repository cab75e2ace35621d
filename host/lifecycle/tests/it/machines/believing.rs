//! What Scaleway says of a Mac is believed only where it is proof: that it is wiped, that it has a name, that it is
//! gone.

use std::time::Duration;

use serde_json::json;
use windlass_lifecycle::{AbandonTarget, Abandonment, Control, Error, ReleaseOutcome, RequestedBy};
use windlass_simulator::{FaultKind, FaultRule, ForcedState};

use super::support::{Macs, PREFIX, adopt, claim, pool, release_of};
use crate::late::Fate;
use crate::support::{run, zone};

const SERVER: &str = "/apple-silicon/v1alpha1/zones/*/servers/*";
const MINUTE: Duration = Duration::from_secs(60);

/// Asks until the host is released; how long that took.
async fn until_released(macs: &Macs, host: &str, case: &str) -> (ReleaseOutcome, Duration) {
    let (lifecycle, began) = (macs.start(), tokio::time::Instant::now());
    let mut request = release_of(host, &claim("a"));
    for attempt in 1..60 {
        request.attempt = attempt;
        match lifecycle.release(&request, &Control::new()).await.unwrap().outcome {
            ReleaseOutcome::AskAgain { after } => {
                let host = macs.host(host);
                let (name, wiped) = (host["name"].as_str().unwrap(), host["simulator"]["reinstalls"].as_u64());
                assert!(!name.starts_with(PREFIX) || wiped > Some(0), "{case}: in the pool with its old disk");
                tokio::time::sleep(Duration::from_millis(after)).await;
            }
            outcome => return (outcome, began.elapsed()),
        }
    }
    panic!("{case}: it never ends");
}

#[test]
fn a_host_gets_its_name_in_the_pool_only_when_it_shows_that_it_is_wiped() {
    // Within one asking, and over several of them.
    for late in [Duration::from_secs(8), MINUTE * 3] {
        let case = format!("late by {late:?}");
        run(async {
            let macs = Macs::new(1);
            let id = adopt(&macs.start(), &claim("a")).await;
            macs.late.next(1, "POST", "/reinstall", Fate::Promised(late));
            let (outcome, took) = until_released(&macs, &id, &case).await;
            assert!(matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }), "{case}: {outcome:?}");
            assert!(took >= late, "{case}: {took:?}");
            let host = macs.host(&id);
            assert_eq!(host["simulator"]["reinstalls"].as_u64(), Some(1), "{case}: asked for once");
            assert_eq!(host["status"], "reinstalling", "{case}");
            macs.assert_sound(&[&claim("a")], &case);
            macs.assert_closed(&macs.start(), &case);
        });
    }
}

#[test]
fn a_wipe_that_was_promised_and_never_comes_is_asked_for_again_after_the_second_looks_time() {
    run(async {
        let macs = Macs::new(1);
        let id = adopt(&macs.start(), &claim("a")).await;
        macs.late.next(1, "POST", "/reinstall", Fate::Promised(MINUTE * 100_000));
        let (outcome, took) = until_released(&macs, &id, "never").await;
        assert!(matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }), "{outcome:?}");
        assert!(took >= MINUTE * 10, "{took:?}");
        assert_eq!(macs.host(&id)["simulator"]["reinstalls"].as_u64(), Some(1));
        macs.assert_sound(&[&claim("a")], "never");
    });
}

#[test]
fn a_wipe_is_also_told_by_the_new_password_that_it_makes() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let id = adopt(&lifecycle, &claim("a")).await;
        // The answer says nothing, and the wipe is over before anybody looks.
        macs.simulator.add_fault(FaultRule::new("GET", SERVER, FaultKind::GatewayTimeout).nth(3)).unwrap();
        macs.late.next(1, "POST", "/reinstall", Fate::Answered(json!({ "id": id, "status": "ready" })));
        let simulator = macs.simulator.clone();
        let host = id.clone();
        let over = async move {
            while simulator.resources().apple_silicon_servers[0]["status"] != "reinstalling" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            simulator.set_server_state(&host, ForcedState::Ready).unwrap();
        };
        let request = release_of(&id, &claim("a"));
        let control = Control::new();
        let (released, ()) = tokio::join!(lifecycle.release(&request, &control), over);
        let outcome = released.unwrap().outcome;
        assert!(matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }), "{outcome:?}");
        assert_eq!(macs.host(&id)["simulator"]["reinstalls"].as_u64(), Some(1));
    });
}

#[test]
fn a_rename_that_shows_late_is_waited_for_and_costs_no_host() {
    for nth in [0, 1] {
        run(async {
            let macs = Macs::new(1);
            let id = macs.hosts()[0]["id"].as_str().unwrap().to_owned();
            let (lifecycle, mine, control, pool) = (macs.start(), claim("a"), Control::new(), pool());
            // The second of the two phases is met when the first has been sent.
            let late = async {
                if nth == 1 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let ending: &'static str = Box::leak(id.clone().into_boxed_str());
                macs.late.next(1, "PATCH", ending, Fate::Promised(Duration::from_secs(4)));
            };
            let nobody = RequestedBy::default();
            let ((), adopted) = tokio::join!(late, lifecycle.adopt_machine(&pool, &mine, &nobody, &control));
            let adopted = adopted.unwrap_or_else(|error| panic!("phase {nth}: {error}"));
            assert_eq!(macs.named(mine.as_str()), [adopted.server.id], "phase {nth}");
            macs.assert_sound(&[&mine], "late");
        });
    }
}

#[test]
fn a_claim_is_read_once_more_before_it_is_used() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        let (mine, control, pool) = (claim("a"), Control::new(), pool());
        let first = macs.hosts()[0]["id"].as_str().unwrap().to_owned();
        // Somebody's mark that was on its way for longer than the settling time.
        let thief = {
            let (simulator, first) = (macs.simulator.clone(), first.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                simulator.rename_server(&first, "somebody-elses").unwrap();
            }
        };
        let nobody = RequestedBy::default();
        let (adopted, ()) = tokio::join!(lifecycle.adopt_machine(&pool, &mine, &nobody, &control), thief);
        assert_ne!(adopted.unwrap().server.id, first);
        assert_eq!(macs.name(&first), "somebody-elses", "left alone");
        assert_eq!(macs.named(mine.as_str()).len(), 1);
    });
}

#[test]
fn a_host_that_the_key_may_not_see_any_more_is_not_gone() {
    run(async {
        let macs = Macs::new(3);
        let lifecycle = macs.start();
        let id = adopt(&lifecycle, &claim("a")).await;
        // Its rights were narrowed: every read is refused, every list is empty.
        macs.simulator.add_fault(FaultRule::new("GET", SERVER, FaultKind::PermissionDenied)).unwrap();
        macs.late.next(usize::MAX, "GET", "/servers", Fate::Answered(json!({ "servers": [], "total_count": 0 })));
        for _ in 0..3 {
            let released = lifecycle.release(&release_of(&id, &claim("a")), &Control::new()).await;
            assert!(matches!(released, Err(Error::Scaleway { .. })), "{released:?}");
            // Also when everybody has looked meanwhile.
            lifecycle.hosts(&zone()).await.unwrap();
            tokio::time::sleep(MINUTE).await;
        }
        assert!(lifecycle.host(&zone(), &id).await.is_err());
        assert_eq!(macs.name(&id), claim("a").as_str());
    });
}

#[test]
fn a_process_that_never_saw_the_hosts_believes_no_narrowed_key_for_an_hour() {
    run(async {
        let macs = Macs::new(3);
        let before = macs.start();
        let mut hosts = Vec::new();
        for name in ["a", "b"] {
            hosts.push(adopt(&before, &claim(name)).await);
        }
        drop(before);
        for id in &hosts {
            macs.simulator.set_server_state(id, ForcedState::Deleted).unwrap();
        }
        let lifecycle = macs.start();
        for _ in 0..3 {
            assert!(lifecycle.host(&zone(), &hosts[0]).await.is_err(), "the other one is not listed, either");
            // The host that is left is all that this process sees.
            lifecycle.hosts(&zone()).await.unwrap();
            tokio::time::sleep(MINUTE).await;
        }
        tokio::time::sleep(60 * MINUTE).await;
        assert!(lifecycle.host(&zone(), &hosts[0]).await.unwrap().is_none());
    });
}

#[test]
fn a_process_that_never_saw_a_host_believes_that_it_is_gone_where_its_other_claims_are_listed() {
    run(async {
        let macs = Macs::new(4);
        let before = macs.start();
        let [gone, staying, released, abandoned] = ["a", "b", "c", "d"].map(claim);
        let id = adopt(&before, &gone).await;
        adopt(&before, &staying).await;
        let ended = adopt(&before, &released).await;
        before.release(&release_of(&ended, &released), &Control::new()).await.unwrap();
        let left = adopt(&before, &abandoned).await;
        let target = AbandonTarget::Host { zone: zone(), host: Some(left.clone()), claim: abandoned };
        before.abandon_machine(&target, &Abandonment { by: "ada".into(), reason: None }).await.unwrap();
        drop(before);
        for id in [&id, &ended, &left] {
            macs.simulator.set_server_state(id, ForcedState::Deleted).unwrap();
        }
        assert!(macs.start().host(&zone(), &id).await.unwrap().is_none());
    });
}

#[test]
fn one_list_that_leaves_a_host_out_proves_nothing() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let id = adopt(&lifecycle, &claim("a")).await;
        macs.simulator.add_fault(FaultRule::new("GET", SERVER, FaultKind::PermissionDenied).nth(1)).unwrap();
        macs.late.next(1, "GET", "/servers", Fate::Answered(json!({ "servers": [], "total_count": 0 })));
        let seen = lifecycle.host(&zone(), &id).await.unwrap();
        assert_eq!(seen.map(|host| host.id), Some(id));
    });
}

#[test]
fn hosts_that_go_by_their_schedule_together_are_gone() {
    run(async {
        let macs = Macs::new(3);
        let lifecycle = macs.start();
        let mut hosts = Vec::new();
        for name in ["a", "b"] {
            let id = adopt(&lifecycle, &claim(name)).await;
            let request = windlass_lifecycle::ReleaseRequest {
                requested: Some(windlass_policy::slots::release::Requested::Terminate),
                ..release_of(&id, &claim(name))
            };
            let outcome = lifecycle.release(&request, &Control::new()).await.unwrap().outcome;
            assert!(matches!(outcome, ReleaseOutcome::DeletionScheduled { .. }), "{outcome:?}");
            hosts.push(id);
        }
        lifecycle.hosts(&zone()).await.unwrap();
        tokio::time::sleep(super::support::DAY).await;
        for id in hosts {
            assert!(lifecycle.host(&zone(), &id).await.unwrap().is_none());
        }
    });
}

#[test]
fn two_hosts_that_leave_a_listing_together_are_not_gone_and_one_is() {
    for together in [1, 2] {
        run(async {
            let macs = Macs::new(4);
            let lifecycle = macs.start();
            let mut hosts = Vec::new();
            for name in ["a", "b"] {
                hosts.push((adopt(&lifecycle, &claim(name)).await, claim(name)));
            }
            lifecycle.hosts(&zone()).await.unwrap();
            for (id, _) in &hosts[..together] {
                macs.simulator.set_server_state(id, ForcedState::Deleted).unwrap();
            }
            macs.simulator.clear_requests();
            let release = |host: usize| {
                let (id, claim) = &hosts[host];
                let (lifecycle, request) = (&lifecycle, release_of(id, claim));
                async move { lifecycle.release(&request, &Control::new()).await }
            };
            if together == 1 {
                assert_eq!(release(0).await.unwrap().outcome, ReleaseOutcome::AlreadyGone);
                assert!(lifecycle.host(&zone(), &hosts[0].0).await.unwrap().is_none());
                return;
            }
            // Two may as well have left this key's sight: each is asked about beside the other, at once.
            let (first, second) = tokio::join!(release(0), release(1));
            for released in [first, second] {
                assert!(matches!(released, Err(Error::Scaleway { .. })), "{released:?}");
            }
            for (id, _) in &hosts {
                assert!(lifecycle.host(&zone(), id).await.is_err());
            }
            assert!(macs.changes().is_empty(), "{:?}", macs.changes());
            macs.assert_closed(&lifecycle, "not gone");
        });
    }
}
