//! Claiming: what is eligible, what is found again, what is lost and what is given back.

use std::time::Duration;

use windlass_lifecycle::{ClaimName, Control, Error, Lifecycle, OperationState, RequestedBy};
use windlass_simulator::{AppleSiliconPool, FaultKind, FaultRule, ForcedState};

use super::support::{Macs, PREFIX, TYPE, adopt, claim, pool};
use crate::support::{host, run};

const SERVERS: &str = "/apple-silicon/v1alpha1/zones/*/servers/*";

#[test]
fn a_host_is_claimed_in_two_phases_and_read_after_each() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        let mine = claim("a");
        macs.simulator.clear_requests();
        let adopted = lifecycle.adopt_machine(&pool(), &mine, &RequestedBy::default(), &Control::new()).await.unwrap();
        assert!(!adopted.rediscovered);
        assert_eq!(adopted.server.name, mine.as_str());
        assert!(adopted.server.sudo_password.reveal().is_some(), "its password comes with it");
        let calls: Vec<String> = macs
            .simulator
            .requests()
            .iter()
            .map(|call| format!("{} {}", call.method, if call.path.ends_with("servers") { "list" } else { "host" }))
            .collect();
        assert_eq!(
            calls,
            ["GET list", "GET list", "GET host", "PATCH host", "GET host", "GET host", "PATCH host", "GET host"],
            "listed, listed again under the lock, read, marked, read, read again when that is journalled, claimed, read"
        );
        let names = &macs.host(&adopted.server.id)["simulator"]["names"];
        assert!(names[1]["name"].as_str().unwrap().starts_with("windlass-claim-pending-"), "{names}");
        assert_eq!(macs.in_pool(), 1);
        macs.assert_sound(&[&mine], "adopted");
        macs.assert_closed(&lifecycle, "adopted");
    });
}

#[test]
fn a_claim_that_is_asked_for_again_is_found_and_nothing_is_changed() {
    run(async {
        let macs = Macs::new(2);
        let mine = claim("a");
        let first = adopt(&macs.start(), &mine).await;
        macs.simulator.clear_requests();
        let again = macs.start().adopt_machine(&pool(), &mine, &RequestedBy::default(), &Control::new()).await.unwrap();
        assert!(again.rediscovered && again.operation.is_none());
        assert_eq!(again.server.id, first);
        assert_eq!(macs.changes(), []);
    });
}

#[test]
fn a_host_of_another_project_is_not_claimed_although_the_key_reaches_it() {
    run(async {
        let macs = Macs::new(0);
        let others = AppleSiliconPool::new(PREFIX, 2, TYPE).unwrap().in_project("33333333-0000-4000-8000-000000000003");
        macs.simulator.add_apple_silicon_pool(&others);
        let mut options = macs.options(host(), macs.folder.path());
        options.project = Some(windlass_simulator::Options::default().default_project);
        let lifecycle = Lifecycle::open(options).unwrap();
        let refused =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        assert!(matches!(refused, Error::NoEligibleMachine { .. }), "{refused}");
        assert_eq!(macs.changes(), []);
        macs.simulator.add_apple_silicon_pool(&AppleSiliconPool::new(PREFIX, 1, TYPE).unwrap());
        // The listing of this moment is shared.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let adopted =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap();
        assert_eq!(macs.hosts().iter().filter(|host| host["name"] == adopted.server.name).count(), 1);
        assert_eq!(macs.in_pool(), 2, "those of the other project stay");
    });
}

#[test]
fn that_no_host_is_eligible_is_an_error_of_its_own_with_the_counts_and_changes_nothing() {
    run(async {
        let macs = Macs::new(2);
        macs.simulator.add_apple_silicon_pool(&AppleSiliconPool::new("other-", 1, "M4-S").unwrap());
        macs.simulator.add_apple_silicon_pool(&AppleSiliconPool::new(PREFIX, 1, "M2-M").unwrap());
        for host in macs.hosts().iter().take(2) {
            macs.simulator.set_server_state(host["id"].as_str().unwrap(), ForcedState::Reinstalling).unwrap();
        }
        let lifecycle = macs.start();
        macs.simulator.clear_requests();
        let error =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        let Error::NoEligibleMachine { counts, .. } = &error else { panic!("{error}") };
        assert_eq!((counts.in_pool, counts.busy, counts.other_type), (3, 2, 1));
        assert_eq!(
            error.to_string(),
            "no host of the pool ci-pool-... in fr-par-1 can be claimed: 3 in the pool, 2 not ready, 1 of another type"
        );
        assert_eq!(macs.changes(), []);
        assert!(
            lifecycle.journal().operations(&Default::default()).unwrap().is_empty(),
            "nothing done, nothing written"
        );
    });
}

#[test]
fn a_claim_that_stands_in_the_pool_is_refused_without_a_call() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let inside: ClaimName = "ci-pool-7".parse().unwrap();
        let error =
            lifecycle.adopt_machine(&pool(), &inside, &RequestedBy::default(), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::MachineName { .. }), "{error}");
        assert_eq!(macs.simulator.requests().len(), 0);
    });
}

#[test]
fn a_race_that_is_lost_leads_to_the_next_host() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        let (mine, control) = (claim("a"), Control::new());
        let first = macs.hosts()[0]["id"].as_str().unwrap().to_owned();
        // Somebody writes over our mark while we wait before the verification.
        let thief = {
            let (simulator, first) = (macs.simulator.clone(), first.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                simulator.rename_server(&first, "somebody-elses").unwrap();
            }
        };
        let pool = pool();
        let nobody = RequestedBy::default();
        let (adopted, ()) = tokio::join!(lifecycle.adopt_machine(&pool, &mine, &nobody, &control), thief);
        assert_ne!(adopted.unwrap().server.id, first);
        assert_eq!(macs.name(&first), "somebody-elses", "left alone");
        assert_eq!(macs.named(mine.as_str()).len(), 1);
    });
}

#[test]
fn a_host_that_is_not_there_at_the_first_rename_leads_to_the_next() {
    for kind in [FaultKind::NotFound, FaultKind::PermissionDenied] {
        run(async {
            let macs = Macs::new(2);
            let first = macs.hosts()[0]["id"].as_str().unwrap().to_owned();
            let lifecycle = macs.start();
            if kind == FaultKind::NotFound {
                macs.simulator.add_fault(FaultRule::new("PATCH", SERVERS, kind).nth(1)).unwrap();
            } else {
                // The 403 that stands for "gone", of a host that is gone.
                let (simulator, id) = (macs.simulator.clone(), first.clone());
                tokio::spawn(async move {
                    simulator.set_server_state(&id, ForcedState::Deleted).unwrap();
                });
            }
            let adopted =
                lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap();
            assert_ne!(adopted.server.id, first, "{kind}");
        });
    }
}

#[test]
fn a_permission_that_is_missing_is_told_and_never_taken_for_an_empty_pool() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        macs.simulator.add_fault(FaultRule::new("PATCH", SERVERS, FaultKind::PermissionDenied)).unwrap();
        let error =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.step.as_str(), failure.state), ("claim-pending", OperationState::Undone));
        macs.assert_sound(&[], "refused");
    });
}

#[test]
fn a_second_phase_that_fails_surfaces_and_the_host_is_given_back() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let before = macs.hosts()[0]["name"].clone();
        macs.simulator.add_fault(FaultRule::new("PATCH", SERVERS, FaultKind::QuotaExceeded).nth(2)).unwrap();
        let error =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.step, "claim");
        assert_eq!(macs.hosts()[0]["name"], before, "under the name that it had");
        macs.assert_closed(&lifecycle, "given back");
        adopt(&lifecycle, &claim("b")).await;
    });
}

#[test]
fn what_a_dead_claim_of_our_own_left_is_taken_up_at_once_and_a_strangers_after_a_quarter_of_an_hour() {
    run(async {
        let macs = Macs::new(1);
        let id = macs.hosts()[0]["id"].as_str().unwrap().to_owned();
        let lifecycle = macs.start();
        // Cannot be given back: every rename after the first fails, until the claim has been given up.
        macs.simulator.add_fault(FaultRule::new("PATCH", SERVERS, FaultKind::QuotaExceeded).nth(2)).unwrap();
        for nth in 3..=8 {
            let rule = FaultRule::new("PATCH", SERVERS, FaultKind::GatewayTimeout).nth(nth);
            macs.simulator.add_fault(rule).unwrap();
        }
        let error =
            lifecycle.adopt_machine(&pool(), &claim("a"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.state, OperationState::Left, "{failure}");
        assert!(macs.name(&id).starts_with("windlass-claim-pending-"));
        macs.simulator.clear_faults();
        assert_eq!(adopt(&lifecycle, &claim("b")).await, id, "the journal knows that it was ours");

        macs.simulator.rename_server(&id, "windlass-claim-pending-11111111-2222-4333-8444-555555555555").unwrap();
        let stranger = tempfile::tempdir().unwrap();
        let elsewhere = macs.start_in(stranger.path());
        let error =
            elsewhere.adopt_machine(&pool(), &claim("c"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        let Error::NoEligibleMachine { counts, .. } = &error else { panic!("{error}") };
        assert_eq!(counts.being_claimed, 1);
        tokio::time::sleep(Duration::from_secs(15 * 60)).await;
        let error =
            lifecycle.adopt_machine(&pool(), &claim("d"), &RequestedBy::default(), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::NoEligibleMachine { .. }), "our journal knows that it is in use: {error}");
        assert_eq!(adopt(&elsewhere, &claim("c")).await, id);
    });
}

#[test]
fn five_hundred_machines_that_are_looked_after_cost_one_call_per_interval() {
    run(async {
        let macs = Macs::new(500);
        let mut options = macs.options(crate::support::host(), macs.folder.path());
        options.limits.machine_interval = Duration::from_secs(30);
        let lifecycle = windlass_lifecycle::Lifecycle::open(options).unwrap();
        macs.simulator.clear_requests();
        for minute in 0..10_u32 {
            let zone = crate::support::zone();
            let looks = (0..500).map(|_| lifecycle.hosts(&zone));
            for listing in futures::future::join_all(looks).await {
                assert_eq!(listing.unwrap().machines.len(), 500);
            }
            let pages = macs.simulator.requests().len();
            // Five pages of a hundred, and three more calls, since the last page is full and the list is read from its
            // end.
            assert_eq!(pages as u32, 8 * (minute + 1));
            tokio::time::sleep(Duration::from_secs(31)).await;
        }
    });
}
