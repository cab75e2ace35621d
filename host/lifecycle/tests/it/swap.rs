//! Policies that are replaced while operations run.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use windlass_lifecycle::{Control, OperationFilter, Phase};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecidedBy, Link, Policies, PolicyIdentity};
use windlass_simulator::{FaultKind, FaultRule, Latency};

use crate::support::{World, host_in, run};

fn with_retry(settings: serde_json::Value) -> Policies {
    Policies::built_in().with(SlotName::Retry, Link::default().with_settings(settings))
}

#[test]
fn a_swap_during_a_hundred_creations_fails_none_and_each_keeps_the_digest_it_began_with() {
    run(async {
        let world = World::with(windlass_simulator::Options {
            seed: 31,
            latency: Latency { base_ms: 50, jitter_ms: 40 },
            ..windlass_simulator::Options::default()
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        host.configure(&with_retry(json!({ "budget-ms": 100_000 }))).unwrap();
        // Every fifth address must be asked for again, so that policies have something to decide.
        for nth in (1..=400).step_by(5) {
            let busy = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::InternalServerError);
            world.simulator.add_fault(busy.nth(nth)).unwrap();
        }
        let lifecycle = world.start_under(host.clone());
        let specification = world.everything();
        let control = Control::new();
        let first_half = lifecycle.create_servers(&specification, 50, &control);
        let second_half = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            host.configure(&with_retry(json!({ "budget-ms": 200_000 }))).unwrap();
            lifecycle.create_servers(&specification, 50, &control).await
        };
        let (first, second) = tokio::join!(first_half, second_half);
        for result in first.iter().chain(&second) {
            assert!(result.is_ok(), "{result:?}");
        }
        world.assert_closed(&lifecycle, "swap");
        host.flush_decisions();
        let decisions = host.decisions().unwrap();
        let mut digests = BTreeSet::new();
        let mut decided = 0;
        for operation in lifecycle.journal().operations(&OperationFilter::default()).unwrap() {
            let pinned: Vec<PolicyIdentity> = serde_json::from_value(operation.policies.clone()).unwrap();
            let retry: Vec<_> = pinned.iter().filter(|policy| policy.slot == SlotName::Retry).collect();
            digests.insert(retry[0].settings.to_string());
            for entry in lifecycle.journal().entries(&operation.id).unwrap() {
                if entry.phase != Phase::Failure {
                    continue;
                }
                let record = decisions.show(entry.data["decision"].as_str().unwrap()).unwrap();
                let DecidedBy::Policy(by) = record.decided_by else { panic!("{record:?}") };
                assert_eq!(&*by, retry[0], "{}: decided by another policy than it began with", operation.id);
                decided += 1;
            }
        }
        assert_eq!(digests.len(), 2, "operations began under both policies");
        assert!(decided >= 20, "only {decided} decisions");
    });
}
