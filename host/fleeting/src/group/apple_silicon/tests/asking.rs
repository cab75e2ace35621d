//! What a group of Macs has policies decide: every slot that it asks, and that nothing does what they forbid.

use windlass_policy::Asker;
use windlass_policy::slots::SlotName;

use super::*;
use crate::group::tests::asking::{KEEP, REAP, assert_asked, deferring, host, rules};

/// A group of the world under these policies.
async fn start_under(world: &World, policies: Arc<Host>, changes: Value) -> Arc<Hosts> {
    let text = world.configuration(&changes).to_string();
    let environment = [("HOME", "/nowhere")].into_iter().collect::<ProcessEnvironment>();
    let GroupConfiguration::AppleSilicon(configuration) =
        GroupConfiguration::read(text.as_bytes(), &environment).unwrap()
    else {
        panic!("a group of Macs")
    };
    let client = Client::with_transport(Settings::new(SECRET.parse().unwrap()), world.simulator.transport()).unwrap();
    let clock = Clock::simulated(EPOCH + u64::try_from(world.simulator.now().as_millis()).unwrap());
    let durability = Durability::Process;
    let dependencies = Dependencies { client, policies, clock, durability, seed: None, host: None };
    start_on(*configuration, ConnectorConfig::default(), dependencies).await.unwrap()
}

#[test]
fn every_slot_that_a_group_of_macs_asks_is_asked() {
    paused(async {
        let (world, state) = (World::of_three(), tempfile::tempdir().unwrap());
        let deferring = deferring(Asker::Macs, state.path());
        let policies = host(Asker::Macs, &deferring, &world.simulator, state.path());
        let hosts = start_under(&world, Arc::clone(&policies), json!({})).await;
        let rename = FaultRule::new("PATCH", "/apple-silicon/**", FaultKind::InternalServerError);
        world.simulator.add_fault(rename.nth(1)).unwrap();
        hosts.clone().increase(1).await.unwrap();
        let ids = until_running(&hosts, 1).await;
        hosts.clone().decrease(ids).await;
        until_none(&hosts).await;
        hosts.leave(Duration::from_secs(5)).await;
        assert_asked(Asker::Macs, &policies);
    });
}

/// Decrease is in [`a_host_that_the_policy_keeps_is_not_shown_again`].
#[test]
fn a_mac_that_is_kept_stays_when_it_is_reaped_or_shut_down() {
    for reaped in [true, false] {
        paused(async move {
            let (world, state) = (World::of_three(), tempfile::tempdir().unwrap());
            let keeping = rules(state.path(), &[(SlotName::Release, KEEP)]);
            let policies = host(Asker::Macs, &keeping, &world.simulator, state.path());
            let hosts = start_under(&world, Arc::clone(&policies), json!({"delete_on_shutdown": true})).await;
            hosts.clone().increase(1).await.unwrap();
            let ids = until_running(&hosts, 1).await;
            if reaped {
                let reaping = rules(state.path(), &[(SlotName::Release, KEEP), (SlotName::StateMapping, REAP)]);
                policies.configure(&reaping).unwrap();
                assert_eq!(round(&hosts).await, [(ids[0].clone(), State::Deleting)]);
            } else {
                let began = tokio::time::Instant::now();
                hosts.clone().shutdown().await;
                assert!(began.elapsed() < Duration::from_secs(60), "nobody waits for what stays");
            }
            until_none(&hosts).await;
            let journal = hosts.lifecycle.journal();
            let of_the_claim = journal.operations_of_machine(&ids[0]).unwrap();
            let is_kept = |operation: &windlass_lifecycle::Operation| {
                journal.entries(&operation.id).unwrap().iter().any(|entry| entry.step == "kept")
            };
            assert!(of_the_claim.iter().any(is_kept), "reaped: {reaped}: {of_the_claim:?}");
            let stays = |when: &str| {
                let host = world.host(&ids[0]);
                let touched = (&host["simulator"]["reinstalls"], &host["deletion_scheduled"]);
                assert_eq!(touched, (&json!(0), &json!(false)), "reaped: {reaped}: {when}");
                world.assert_nothing_lost(3);
            };
            stays("decided");
            hosts.leave(Duration::from_secs(5)).await;
            drop(hosts);
            // The next process has other policies.
            let next = world.start(json!({})).await;
            tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
            assert!(round(&next).await.is_empty());
            stays("after the next start");
            next.leave(Duration::from_secs(5)).await;
        });
    }
}
