//! What a group of instances has policies decide: every slot that it asks, and that nothing does what they forbid.

use super::*;

/// Leaves every question to the default.
pub(in crate::group) const DEFER: &str = "\"defer\"";
pub(in crate::group) const KEEP: &str = "\"keep\"";
pub(in crate::group) const REAP: &str = "{ mapped = { report = \"deleting\", action = \"reap\" } }";

/// Rules for each of these slots that answer so whatever is asked.
pub(in crate::group) fn rules(folder: &Path, answers: &[(SlotName, &str)]) -> Policies {
    answers.iter().fold(Policies::built_in(), |policies, (slot, answer)| {
        let file = folder.join(format!("{slot}.rules.toml"));
        let text = format!("slot = \"{slot}\"\n[[rules]]\nwhen = \"true\"\nanswer = {answer}\nreason = \"as told\"\n");
        std::fs::write(&file, text).unwrap();
        policies.with(*slot, Link::file(file))
    })
}

/// These policies as Init loads them.
pub(in crate::group) fn host(asker: Asker, policies: &Policies, simulator: &Simulator, state: &Path) -> Arc<Host> {
    let mut options = RuntimeOptions::new(client_of(simulator), StateDirectory::open(state).unwrap(), asker);
    (options.policies, options.lending_dir) = (policies.clone(), Some(super::compiled()));
    Runtime::build(options).unwrap().policies
}

/// Each slot of the program must have asked rules.
#[track_caller]
pub(in crate::group) fn assert_asked(asker: Asker, host: &Host) {
    host.flush_decisions();
    let log = host.decisions().unwrap();
    for slot in asker.slots() {
        let mut filter = DecisionFilter::default();
        (filter.slot, filter.policy) = (Some(*slot), Some(format!("{slot}.rules.toml")));
        assert!(!log.list(&filter).unwrap().decisions.is_empty(), "{asker} never asked {slot}");
    }
}

/// Rules that defer for each slot of the program.
pub(in crate::group) fn deferring(asker: Asker, folder: &Path) -> Policies {
    let answers: Vec<(SlotName, &str)> = asker.slots().iter().map(|slot| (*slot, DEFER)).collect();
    rules(folder, &answers)
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn every_slot_that_a_group_of_instances_asks_is_asked() {
    let simulator = Simulator::new(Options::default());
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deferring = deferring(Asker::Instances, state.path());
    let host = host(Asker::Instances, &deferring, &simulator, state.path());
    let both = |configuration: &mut Configuration| configuration.server.types.push("DEV1-M".to_owned());
    let group = try_start(Arc::clone(&host), &simulator, folder.path(), both).await.unwrap();
    simulator.add_fault(FaultRule::new("POST", SERVERS, FaultKind::QuotaExceeded)).unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(60).await;
    simulator.clear_faults();
    assert_eq!(reported(&group).await, [State::Deleting]);
    assert!(simulator.resources().is_empty());
    // The longest pause after a failure.
    seconds(1_000).await;
    let action = FaultRule::new("POST", format!("{SERVERS}/*/action"), FaultKind::InternalServerError);
    simulator.add_fault(action.nth(1)).unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(600).await;
    assert_eq!(reported(&group).await, [State::Running]);
    let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
    group.decrease(vec![id]).await.unwrap();
    seconds(120).await;
    assert!(simulator.resources().is_empty());
    group.stop().await;
    assert_asked(Asker::Instances, &host);
}

/// Decrease is in [`an_instance_that_the_release_policy_keeps_leaves_the_group_for_good`].
#[tokio::test(start_paused = true)]
async fn an_instance_kept_stays_when_it_is_reaped_or_shut_down() {
    for reaped in [true, false] {
        let simulator = Simulator::new(Options::default());
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let keeping = rules(state.path(), &[(SlotName::Release, KEEP)]);
        let host = host(Asker::Instances, &keeping, &simulator, state.path());
        let all_go = |configuration: &mut Configuration| configuration.common.delete_on_shutdown = true;
        let group = try_start(Arc::clone(&host), &simulator, folder.path(), all_go).await.unwrap();
        assert_eq!(group.increase(1).await, Ok(1));
        seconds(120).await;
        assert_eq!(reported(&group).await, [State::Running]);
        if reaped {
            let reaping = rules(state.path(), &[(SlotName::Release, KEEP), (SlotName::StateMapping, REAP)]);
            host.configure(&reaping).unwrap();
            assert_eq!(reported(&group).await, [State::Deleting]);
            seconds(60).await;
        } else {
            let began = tokio::time::Instant::now();
            group.shutdown().await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(60), "nobody waits for what stays");
        }
        reported(&group).await;
        assert_eq!(reported(&group).await, [], "it has left the group");
        let mut removals = OperationFilter::default();
        removals.kind = Some(OperationKind::CleanupServer);
        let removals = fleet(&group).lifecycle.journal().operations(&removals).unwrap();
        let states: Vec<OperationState> = removals.iter().map(|removal| removal.state).collect();
        assert_eq!(states, [OperationState::Kept], "reaped: {reaped}");
        let asks = removals[0].requested_by().unwrap().decided_by;
        let by_policy = asks.is_some_and(|policy| policy.starts_with("state-mapping.rules.toml"));
        assert_eq!(by_policy, reaped, "the policy that asks is named");
        group.stop().await;
        drop(group);
        // The next process has other policies, and sweeps.
        let next = start(&simulator, folder.path()).await;
        seconds(7_200).await;
        assert_eq!(reported(&next).await, []);
        let there = simulator.resources();
        assert_eq!((there.servers.len(), there.ips.len(), there.volumes.len()), (1, 1, 1), "reaped: {reaped}");
        assert_eq!(there.servers[0]["state"], "running");
        next.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_placement_policy_that_skips_all_has_no_instance_made() {
    let simulator = Simulator::new(Options::default());
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let skipping = rules(state.path(), &[(SlotName::Placement, "\"skip\"")]);
    let host = host(Asker::Instances, &skipping, &simulator, state.path());
    let group = start_under(Arc::clone(&host), &simulator, folder.path()).await;
    assert_eq!(group.increase(2).await, Ok(0));
    seconds(600).await;
    assert_eq!(reported(&group).await, []);
    let begun = fleet(&group).lifecycle.journal().operations(&OperationFilter::default()).unwrap();
    assert!(begun.is_empty() && simulator.resources().is_empty(), "{begun:?}");
    // A skip is no failure after which there would be a pause.
    host.configure(&Policies::built_in()).unwrap();
    assert_eq!(group.increase(2).await, Ok(2));
    group.stop().await;
}
