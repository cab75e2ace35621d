//! Letting go: the slot's verdicts, the billing floor, crashes, and what must never happen.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use windlass_lifecycle::{
    AbandonTarget, Abandonment, Control, JournalledClaim, Lifecycle, OperationFilter, OperationKind, OperationState,
    ReclaimMode, ReclaimRequest, ReleaseOutcome, ReleaseRequest, RequestedBy,
};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_policy::{Link, Policies};
use windlass_simulator::{AppleSilicon, AppleSiliconPool, FaultKind, FaultRule, FloorRefusal, ForcedState};
use windlass_test_guests::HOSTILE;

use super::support::{DAY, Macs, PREFIX, TYPE, adopt, claim, prefix, release_of};
use crate::support::{host_in, run, zone};

const SERVER: &str = "/apple-silicon/v1alpha1/zones/*/servers/*";
const REINSTALL: &str = "/apple-silicon/v1alpha1/zones/*/servers/*/reinstall";

async fn release(lifecycle: &Lifecycle, request: &ReleaseRequest) -> windlass_lifecycle::Released {
    lifecycle.release(request, &Control::new()).await.unwrap()
}

/// Asks until it is released; how often.
async fn until_released(lifecycle: &Lifecycle, request: &ReleaseRequest) -> (ReleaseOutcome, u32) {
    let mut request = request.clone();
    loop {
        match release(lifecycle, &request).await.outcome {
            ReleaseOutcome::AskAgain { after } => tokio::time::sleep(Duration::from_millis(after)).await,
            outcome => return (outcome, request.attempt),
        }
        request.attempt += 1;
        assert!(request.attempt < 50, "it never ends");
    }
}

#[test]
fn a_host_of_the_pool_loses_its_claim_is_wiped_and_comes_back_under_a_name_of_the_pool() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.clear_requests();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        let ReleaseOutcome::ReturnedToPool { name } = &released.outcome else { panic!("{released:?}") };
        assert_eq!(&macs.name(&id), name);
        assert!(name.starts_with(PREFIX) && name.len() == PREFIX.len() + 36, "{name}");
        let calls: Vec<String> = macs
            .changes()
            .iter()
            .map(|call| format!("{} {}", call.method, call.path.rsplit('/').next().unwrap()))
            .collect();
        assert_eq!(calls, [format!("PATCH {id}"), "POST reinstall".into(), format!("PATCH {id}")]);
        let host = macs.host(&id);
        assert_eq!(
            (host["status"].as_str(), host["simulator"]["reinstalls"].as_u64()),
            (Some("reinstalling"), Some(1))
        );
        macs.assert_sound(&[&mine], "returned");
        macs.assert_closed(&lifecycle, "returned");
        // Asked again, by the same process and by one that has lost its journal: it knows its own work.
        assert_eq!(release(&lifecycle, &release_of(&id, &mine)).await.outcome, released.outcome);
        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = macs.start_in(elsewhere.path());
        assert_eq!(release(&stranger, &release_of(&id, &mine)).await.outcome, released.outcome);
        // Nobody can have it before it is wiped.
        let error = lifecycle
            .adopt_machine(&super::support::pool(), &claim("b"), &RequestedBy::default(), &Control::new())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("1 not ready"), "{error}");
        tokio::time::sleep(Duration::from_secs(21 * 60)).await;
        assert_eq!(adopt(&lifecycle, &claim("b")).await, id);
        // A release that is late does nothing to the next owner's host.
        macs.simulator.clear_requests();
        let late = release(&lifecycle, &release_of(&id, &mine)).await;
        assert_eq!(late.outcome, ReleaseOutcome::NotOurs { name: claim("b").to_string() });
        assert!(late.operation.is_none() && macs.changes().is_empty());
    });
}

#[test]
fn the_journal_says_which_policy_had_a_mac_wiped() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        release(&lifecycle, &release_of(&id, &mine)).await;
        let mut filter = OperationFilter::default();
        let removing = lifecycle.journal().removing(&filter).unwrap();
        let [(operation, removed)] = removing.as_slice() else { panic!("{removing:#?}") };
        let [removed] = removed.as_slice() else { panic!("{removed:#?}") };
        assert_eq!((operation.kind, removed.step.as_str()), (OperationKind::ReleaseMachine, "reinstall"));
        assert_eq!((removed.machine.id.as_str(), removed.name.as_deref()), (id.as_str(), Some(mine.as_str())));
        let policy = removed.decided_by.as_deref().unwrap_or_default();
        assert!(policy.starts_with("windlass-guest-release"), "{removed:#?}");
        let reasons: BTreeSet<&String> = operation.reasons.iter().collect();
        assert_eq!(reasons.len(), operation.reasons.len(), "each is told once: {:?}", operation.reasons);
        filter.since = Some(removed.at + 1);
        assert_eq!(lifecycle.journal().removing(&filter).unwrap(), []);
    });
}

#[test]
fn the_journal_tells_how_long_a_wipe_took_and_how_large_the_pool_was() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        release(&lifecycle, &release_of(&id, &mine)).await;
        for _ in 0..=21 {
            lifecycle.hosts(&zone()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let operations = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
        let of = |kind| operations.iter().find(|operation| operation.kind == kind).unwrap();
        assert_eq!(of(OperationKind::AdoptMachine).specification["in_pool"], 2);
        let entries = lifecycle.journal().entries(&of(OperationKind::ReleaseMachine).id).unwrap();
        let at = |step: &str| entries.iter().find(|entry| entry.step == step).unwrap().at;
        let settled: Vec<_> = entries.iter().filter(|entry| entry.step == "settled").collect();
        let [settled] = settled.as_slice() else { panic!("it is noted once: {settled:#?}") };
        assert_eq!(settled.data["status"], "ready");
        assert!((300_000..=1_300_000).contains(&(settled.at - at("reinstall"))), "{entries:#?}");
        let since = settled.at - settled.data["busy-at"].as_u64().unwrap();
        assert!((59_000..62_000).contains(&since), "the listing before: {since}");
    });
}

#[test]
fn a_roll_of_three_machines_inside_the_billing_floor_converges() {
    for (requested, refusal) in [
        (None, FloorRefusal::InWords),
        (Some(Requested::Terminate), FloorRefusal::InWords),
        (Some(Requested::Terminate), FloorRefusal::WithoutDetails),
        (Some(Requested::Terminate), FloorRefusal::StatusAlone),
    ] {
        let case = format!("{requested:?} {refusal:?}");
        run(async {
            let options = windlass_simulator::Options {
                apple_silicon: AppleSilicon { floor_refusal: refusal, ..AppleSilicon::default() },
                ..windlass_simulator::Options::default()
            };
            // Three that are rolled and three to roll to, all made just now.
            let macs = Macs::with(options, 6, []);
            let lifecycle = macs.start();
            let old = ["a", "b", "c"].map(claim);
            let mut hosts = Vec::new();
            for mine in &old {
                hosts.push(adopt(&lifecycle, mine).await);
            }
            let began = tokio::time::Instant::now();
            let new = ["d", "e", "f"].map(claim);
            for ((mine, id), next) in old.iter().zip(&hosts).zip(&new) {
                adopt(&lifecycle, next).await;
                let request = ReleaseRequest { requested, ..release_of(id, mine) };
                let (outcome, asked) = until_released(&lifecycle, &request).await;
                assert!(outcome.is_released(), "{case}: {outcome:?}");
                assert_eq!(asked, 1, "{case}");
                let expected = match requested {
                    None => matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }),
                    _ => matches!(outcome, ReleaseOutcome::DeletionScheduled { .. }),
                };
                assert!(expected, "{case}: {outcome:?}");
            }
            assert!(began.elapsed() < Duration::from_secs(120), "{case}: {:?}", began.elapsed());
            assert_eq!(macs.hosts().len(), 6, "{case}: none is destroyed under its floor");
            for mine in &new {
                assert_eq!(macs.named(mine.as_str()).len(), 1, "{case}");
            }
            macs.assert_closed(&lifecycle, &case);
            tokio::time::sleep(DAY).await;
            match requested {
                None => {
                    assert_eq!((macs.hosts().len(), macs.in_pool()), (6, 3), "{case}");
                    macs.assert_sound(&new.each_ref(), &case);
                }
                _ => {
                    let mut gone: Vec<_> = macs.gone().iter().map(|host| host["id"].clone()).collect();
                    gone.sort_by_key(ToString::to_string);
                    let mut expected = hosts.clone();
                    expected.sort();
                    assert_eq!(json!(gone), json!(expected), "{case}: exactly the three, by Scaleway itself");
                }
            }
        });
    }
}

#[test]
fn a_floor_that_only_the_refusal_tells_of_is_met_by_a_scheduled_deletion() {
    for kind in [FaultKind::PreconditionFailed, FaultKind::PreconditionFailedBare] {
        run(async {
            // Past its floor by its own date: the policy terminates, and Scaleway refuses all the same.
            let macs = Macs::with(windlass_simulator::Options::default(), 1, [2 * DAY]);
            let lifecycle = macs.start();
            let mine = claim("a");
            let id = adopt(&lifecycle, &mine).await;
            macs.simulator.add_fault(FaultRule::new("DELETE", SERVER, kind)).unwrap();
            macs.simulator.clear_requests();
            let request = ReleaseRequest { requested: Some(Requested::Terminate), ..release_of(&id, &mine) };
            let released = release(&lifecycle, &request).await;
            assert!(matches!(released.outcome, ReleaseOutcome::DeletionScheduled { .. }), "{kind}: {released:?}");
            let deletions = macs.changes().iter().filter(|call| call.method == "DELETE").count();
            assert_eq!(deletions, 1, "{kind}: a floor is not run against");
            assert!(released.refused.is_some_and(|words| words.contains("terminate")), "{kind}");
            macs.assert_closed(&lifecycle, "scheduled");
        });
    }
}

#[test]
fn a_policy_that_always_terminates_is_asked_a_bounded_number_of_times_and_nothing_is_lost() {
    run(async {
        let macs = Macs::new(1);
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let link = Link::bytes(HOSTILE.bytes).with_settings(json!({ "behaviour": "delete-foreign" }));
        host.configure(&Policies::built_in().with(SlotName::Release, link)).unwrap();
        let lifecycle = macs.start_under(host);
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.clear_requests();
        let began = tokio::time::Instant::now();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert!(matches!(released.outcome, ReleaseOutcome::AskAgain { .. }), "{released:?}");
        assert!(released.reason.as_deref().is_some_and(|reason| reason.contains("6 times")), "{released:?}");
        let deletions = macs.changes().iter().filter(|call| call.method == "DELETE").count();
        assert_eq!((deletions, macs.changes().len()), (6, 6));
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(macs.name(&id), mine.as_str());
        macs.assert_sound(&[&mine], "refused");
        macs.assert_closed(&lifecycle, "refused");
    });
}

#[test]
fn a_policy_that_fails_keeps_the_host_as_it_is_and_is_asked_again() {
    for behaviour in ["trap", "loop", "huge-answer", "memory-bomb", "panic"] {
        run(async {
            let macs = Macs::with(windlass_simulator::Options::default(), 1, [2 * DAY]);
            let folder = tempfile::tempdir().unwrap();
            let host = host_in(folder.path());
            let settings = json!({ "behaviour": behaviour, "during": "odd-decisions" });
            let link = Link::bytes(HOSTILE.bytes).with_settings(settings);
            host.configure(&Policies::built_in().with(SlotName::Release, link)).unwrap();
            let lifecycle = macs.start_under(host.clone());
            let mine = claim("a");
            let id = adopt(&lifecycle, &mine).await;
            macs.simulator.clear_requests();
            // It fails when its random word is odd; the default behind it must not decide in its place.
            let mut failed = 0;
            for attempt in 1..=12 {
                let request =
                    ReleaseRequest { requested: Some(Requested::Terminate), attempt, ..release_of(&id, &mine) };
                let released = release(&lifecycle, &request).await;
                if released.policy_failures.is_empty() {
                    assert_eq!(released.outcome, ReleaseOutcome::Terminated, "{behaviour}: the default decided");
                    break;
                }
                failed += 1;
                assert!(matches!(released.outcome, ReleaseOutcome::AskAgain { .. }), "{behaviour}: {released:?}");
                assert_eq!(macs.changes(), [], "{behaviour}: nothing was touched");
                assert_eq!(macs.name(&id), mine.as_str(), "{behaviour}");
            }
            // Until it is mended, also when it is suspended.
            if failed == 12 {
                host.configure(&Policies::built_in()).unwrap();
                let request = ReleaseRequest { requested: Some(Requested::Terminate), ..release_of(&id, &mine) };
                assert_eq!(release(&lifecycle, &request).await.outcome, ReleaseOutcome::Terminated, "{behaviour}");
            }
            macs.assert_closed(&lifecycle, behaviour);
            assert!(macs.gone().len() == 1, "{behaviour}");
        });
    }
}

#[test]
fn what_the_slot_keeps_stays_as_it_is() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.clear_requests();
        let request = ReleaseRequest { requested: Some(Requested::Keep), ..release_of(&id, &mine) };
        let released = release(&lifecycle, &request).await;
        assert_eq!(released.outcome, ReleaseOutcome::Kept);
        assert_eq!(released.reason.as_deref(), Some("its owner wants it kept"));
        assert!(macs.changes().is_empty());
        assert_eq!(macs.name(&id), mine.as_str());
        let JournalledClaim::Released(by) = lifecycle.journalled_claim(&mine).unwrap() else { panic!("it was kept") };
        assert_eq!(Some(&by.id), released.operation.as_ref());
        for text in [id.as_str(), mine.as_str()] {
            let operations = lifecycle.journal().operations_of_machine(text).unwrap();
            let kinds: Vec<OperationKind> = operations.iter().map(|operation| operation.kind).collect();
            assert_eq!(kinds, [OperationKind::ReleaseMachine, OperationKind::AdoptMachine], "{text}");
        }
        assert!(released.operation.is_some(), "later processes know that it was kept");
        // Nobody explains the claim any more, and an operator takes such hosts back: what was kept stays kept.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let request = ReclaimRequest {
            zone: zone(),
            claim_prefix: "ci-mac-".into(),
            live: BTreeSet::new(),
            grace: Duration::from_secs(60),
            mode: ReclaimMode::ReturnToPool(prefix()),
        };
        let reclaimed = lifecycle.reclaim(&request, &Control::new()).await.unwrap();
        assert!(reclaimed.stranded[0].spared.as_ref().unwrap().contains("kept it"), "{reclaimed:?}");
        assert!(macs.changes().is_empty());
    });
}

#[test]
fn a_host_that_is_gone_is_released() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.set_server_state(&id, ForcedState::Deleted).unwrap();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert_eq!(released.outcome, ReleaseOutcome::AlreadyGone);
        // A key that may read nothing is told the same 403, and no host is believed to be gone for that.
        let other = Macs::new(1);
        let lifecycle = other.start();
        let id = adopt(&lifecycle, &mine).await;
        other.simulator.add_fault(FaultRule::new("GET", "/apple-silicon/**", FaultKind::PermissionDenied)).unwrap();
        let error = lifecycle.release(&release_of(&id, &mine), &Control::new()).await.unwrap_err();
        assert!(error.to_string().contains("insufficient permissions"), "{error}");
    });
}

#[test]
fn a_host_that_vanishes_between_its_mark_and_its_wipe_is_released() {
    // Before the wipe is asked for, and while a wipe that failed waits for its next attempt.
    for kind in [FaultKind::Delay(Duration::from_secs(5)), FaultKind::InternalServerError] {
        run(async {
            let macs = Macs::new(3);
            let lifecycle = macs.start();
            let mine = claim("a");
            let id = adopt(&lifecycle, &mine).await;
            macs.simulator.add_fault(FaultRule::new("POST", REINSTALL, kind).nth(1)).unwrap();
            macs.simulator.clear_requests();
            let request = release_of(&id, &mine);
            let vanishes = async {
                while macs.name(&id) == mine.as_str() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                macs.simulator.set_server_state(&id, ForcedState::Deleted).unwrap();
            };
            let (released, ()) = tokio::join!(release(&lifecycle, &request), vanishes);
            assert_eq!(released.outcome, ReleaseOutcome::AlreadyGone, "{kind}: {released:?}");
            let wipes = macs.changes().iter().filter(|call| call.path.ends_with("/reinstall")).count();
            assert!(wipes <= 1, "{kind}: a host that is gone is asked {wipes} times to be wiped");
            assert_eq!(macs.in_pool(), 2, "{kind}");
            macs.assert_closed(&lifecycle, "vanished");
            // Also to a process that has only the journal.
            assert_eq!(release(&macs.start(), &request).await.outcome, ReleaseOutcome::AlreadyGone, "{kind}");
        });
    }
}

#[test]
fn a_reinstallation_that_runs_already_counts_as_done_and_a_reboot_does_not() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        let (mine, other) = (claim("a"), claim("b"));
        let id = adopt(&lifecycle, &mine).await;
        macs.client.apple_silicon(&zone()).reinstall_server(&id, &Default::default()).await.unwrap();
        macs.simulator.clear_requests();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert!(matches!(released.outcome, ReleaseOutcome::ReturnedToPool { .. }), "{released:?}");
        assert!(macs.changes().iter().all(|call| call.method == "PATCH"), "it is not wiped twice");
        let busy = adopt(&lifecycle, &other).await;
        macs.client.apple_silicon(&zone()).reboot_server(&busy).await.unwrap();
        macs.simulator.clear_requests();
        let released = release(&lifecycle, &release_of(&busy, &other)).await;
        assert!(matches!(released.outcome, ReleaseOutcome::AskAgain { .. }), "{released:?}");
        assert_eq!(macs.changes(), [], "nothing is begun that cannot be ended");
        let (outcome, asked) = until_released(&lifecycle, &release_of(&busy, &other)).await;
        assert!(matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }) && asked > 1, "{outcome:?} {asked}");
        macs.assert_closed(&lifecycle, "both");
    });
}

#[test]
fn a_machine_that_cannot_be_set_up_is_rebooted_once_and_given_up_in_the_end() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        let (mut rebooted, mut words) = (false, Vec::new());
        for bootstrap_failures in 1..=8 {
            let request = ReleaseRequest {
                trigger: Trigger::BootstrapFailed,
                bootstrap_failures,
                rebooted,
                ..release_of(&id, &mine)
            };
            let outcome = release(&lifecycle, &request).await.outcome;
            words.push(match &outcome {
                ReleaseOutcome::Kept => "kept",
                ReleaseOutcome::Rebooted => "rebooted",
                ReleaseOutcome::ReturnedToPool { .. } => "returned",
                other => panic!("{other:?}"),
            });
            rebooted |= outcome == ReleaseOutcome::Rebooted;
            tokio::time::sleep(Duration::from_secs(180)).await;
        }
        assert_eq!(words, ["kept", "kept", "rebooted", "kept", "kept", "kept", "kept", "returned"]);
        let host = macs.host(&id);
        assert_eq!(host["simulator"]["reboots"].as_u64(), Some(1));
        macs.assert_sound(&[&mine], "released");
    });
}

#[test]
fn a_restart_is_not_repeated_for_who_has_not_heard_of_it_and_is_forgotten_with_the_claim() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        let failed = |bootstrap_failures| ReleaseRequest {
            trigger: Trigger::BootstrapFailed,
            bootstrap_failures,
            ..release_of(&id, &mine)
        };
        let reboots = || macs.host(&id)["simulator"]["reboots"].as_u64();
        // Refused while it is busy: what it looks like afterwards is not a restart's doing.
        let rule =
            FaultRule::new("POST", "/apple-silicon/v1alpha1/zones/*/servers/*/reboot", FaultKind::TransientState);
        macs.simulator.add_fault(rule).unwrap();
        let refused = release(&lifecycle, &failed(3)).await;
        assert!(matches!(refused.outcome, ReleaseOutcome::AskAgain { .. }), "{refused:?}");
        assert_eq!(refused.refused_class, Some(windlass_policy::slots::types::FailureClass::TransientState));
        macs.simulator.clear_faults();
        macs.simulator.rename_server(&id, "busy").unwrap();
        macs.simulator.rename_server(&id, mine.as_str()).unwrap();
        assert_eq!(release(&lifecycle, &failed(3)).await.outcome, ReleaseOutcome::Rebooted);
        assert_eq!(reboots(), Some(1));
        tokio::time::sleep(Duration::from_secs(180)).await;

        // Its owner died before it wrote that down, and asks as if nothing had been; also after another failure.
        assert_eq!(release(&lifecycle, &failed(3)).await.outcome, ReleaseOutcome::Rebooted);
        assert_eq!(release(&lifecycle, &failed(4)).await.outcome, ReleaseOutcome::Kept);
        assert_eq!(reboots(), Some(1));

        // Released and claimed again by the same: a new life.
        assert!(until_released(&lifecycle, &release_of(&id, &mine)).await.0.is_released());
        tokio::time::sleep(Duration::from_secs(21 * 60)).await;
        assert_eq!(adopt(&lifecycle, &mine).await, id);
        assert_eq!(release(&lifecycle, &failed(3)).await.outcome, ReleaseOutcome::Rebooted);
        assert_eq!(reboots(), Some(2));
    });
}

#[test]
fn a_pool_system_that_there_is_not_costs_neither_the_claim_nor_the_host() {
    run(async {
        let macs = Macs::new(1);
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let link = Link::default().with_settings(json!({ "pool-operating-system": "macos-retired-1.0" }));
        host.configure(&Policies::built_in().with(SlotName::Release, link)).unwrap();
        let lifecycle = macs.start_under(host);
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        let before = macs.host(&id)["os"]["id"].clone();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert!(matches!(released.outcome, ReleaseOutcome::ReturnedToPool { .. }), "{released:?}");
        assert!(released.refused.as_deref().is_some_and(|words| words.contains("macos-retired-1.0")), "{released:?}");
        assert_eq!(macs.host(&id)["os"]["id"], before, "the system that it had");
    });
}

#[test]
fn a_pool_host_gets_its_own_system_or_the_default_of_its_type_as_the_setting_says() {
    for (setting, expected) in [("host", "macos-tahoe-26.0"), ("type-default", "macos-sequoia-15.6")] {
        run(async {
            let macs = Macs::new(0);
            let pool = AppleSiliconPool::new(PREFIX, 1, TYPE).unwrap().with_operating_system("macos-tahoe-26.0");
            macs.simulator.add_apple_silicon_pool(&pool.unwrap());
            let folder = tempfile::tempdir().unwrap();
            let host = host_in(folder.path());
            let link = Link::default().with_settings(json!({ "pool-operating-system": setting }));
            host.configure(&Policies::built_in().with(SlotName::Release, link)).unwrap();
            let lifecycle = macs.start_under(host);
            let id = adopt(&lifecycle, &claim("a")).await;
            assert_eq!(macs.host(&id)["os"]["name"], "macos-tahoe-26.0");
            let released = release(&lifecycle, &release_of(&id, &claim("a"))).await;
            assert!(matches!(released.outcome, ReleaseOutcome::ReturnedToPool { .. }), "{released:?}");
            assert_eq!(macs.host(&id)["os"]["name"], expected, "{setting}");
        });
    }
}

#[test]
fn a_host_that_may_not_be_renamed_while_it_is_wiped_is_returned_all_the_same_and_named_later() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        for nth in 2..=40 {
            macs.simulator.add_fault(FaultRule::new("PATCH", SERVER, FaultKind::TransientState).nth(nth)).unwrap();
        }
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        let ReleaseOutcome::ReturnedToPool { name } = &released.outcome else { panic!("{released:?}") };
        assert!(name.starts_with("windlass-returning-"), "{name}");
        macs.simulator.clear_faults();
        // The owner has forgotten it. An adoption takes it when it is ready, wiped as it is.
        let error = lifecycle
            .adopt_machine(&super::support::pool(), &claim("b"), &RequestedBy::default(), &Control::new())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("1 not ready"), "{error}");
        drop(lifecycle);
        let next = macs.start();
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert!(resumed.is_clean(), "{resumed:?}");
        assert!(macs.name(&id).starts_with(PREFIX));
        assert_eq!(macs.host(&id)["simulator"]["reinstalls"].as_u64(), Some(1), "wiped once");
        macs.assert_sound(&[&mine], "named");
        macs.assert_closed(&next, "named");
    });
}

#[test]
fn a_host_that_was_wiped_and_not_named_is_adopted_as_it_is() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        for nth in 2..=40 {
            macs.simulator.add_fault(FaultRule::new("PATCH", SERVER, FaultKind::TransientState).nth(nth)).unwrap();
        }
        release(&lifecycle, &release_of(&id, &mine)).await;
        macs.simulator.clear_faults();
        tokio::time::sleep(Duration::from_secs(21 * 60)).await;
        assert_eq!(adopt(&lifecycle, &claim("b")).await, id);
        let resumed = lifecycle.resume(&Control::new()).await.unwrap();
        assert!(resumed.is_clean(), "{resumed:?}");
        assert_eq!(macs.name(&id), claim("b").as_str(), "the release that was open does it no harm");
        assert_eq!(macs.host(&id)["simulator"]["reinstalls"].as_u64(), Some(1));
        macs.assert_closed(&lifecycle, "adopted");
    });
}

#[test]
fn a_wipe_that_is_refused_for_good_gives_the_claim_its_name_again() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.add_fault(FaultRule::new("POST", REINSTALL, FaultKind::NotFound)).unwrap();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert_eq!(released.outcome, ReleaseOutcome::Kept, "{released:?}");
        assert_eq!(macs.name(&id), mine.as_str(), "as it was");
        macs.assert_sound(&[&mine], "kept");
        macs.assert_closed(&lifecycle, "kept");
    });
}

#[test]
fn a_release_that_is_asked_for_again_carries_on_what_an_earlier_one_began() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("a");
        let id = adopt(&lifecycle, &mine).await;
        macs.simulator.add_fault(FaultRule::new("POST", REINSTALL, FaultKind::GatewayTimeout)).unwrap();
        let released = release(&lifecycle, &release_of(&id, &mine)).await;
        assert!(matches!(released.outcome, ReleaseOutcome::AskAgain { .. }), "{released:?}");
        assert!(macs.name(&id).starts_with("windlass-returning-"));
        macs.simulator.clear_faults();
        let (outcome, _) = until_released(&lifecycle, &release_of(&id, &mine)).await;
        assert!(matches!(outcome, ReleaseOutcome::ReturnedToPool { .. }), "{outcome:?}");
        macs.assert_closed(&lifecycle, "carried on");
        let mut kinds = OperationFilter::default();
        kinds.kind = Some(OperationKind::ReleaseMachine);
        let states: Vec<_> = lifecycle.journal().operations(&kinds).unwrap().iter().map(|row| row.state).collect();
        assert_eq!(states, [OperationState::Done, OperationState::Done]);
    });
}

#[test]
fn a_host_that_nobody_explains_is_told_of_and_given_back_only_when_that_is_asked_for() {
    run(async {
        let macs = Macs::new(4);
        let lifecycle = macs.start();
        let [live, by_id, stranded, fresh] = ["live", "by-id", "stranded", "fresh"].map(claim);
        adopt(&lifecycle, &live).await;
        let known = adopt(&lifecycle, &by_id).await;
        let lost = adopt(&lifecycle, &stranded).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        adopt(&lifecycle, &fresh).await;
        let request = |mode| ReclaimRequest {
            zone: zone(),
            claim_prefix: "ci-mac-".into(),
            live: [live.to_string(), known.clone()].into(),
            grace: Duration::from_secs(600),
            mode,
        };
        macs.simulator.clear_requests();
        let seen = lifecycle.reclaim(&request(ReclaimMode::Report), &Control::new()).await.unwrap();
        assert_eq!(macs.changes(), []);
        let reported: Vec<_> = seen.stranded.iter().map(|host| (host.claim.as_str(), host.spared.is_some())).collect();
        assert_eq!(reported, [(stranded.as_str(), false), (fresh.as_str(), true)]);
        assert_eq!(seen.explained, 2);
        let done = lifecycle.reclaim(&request(ReclaimMode::ReturnToPool(prefix())), &Control::new()).await.unwrap();
        let released = done.stranded[0].released.as_ref().unwrap();
        assert!(matches!(released.outcome, ReleaseOutcome::ReturnedToPool { .. }), "{released:?}");
        assert!(macs.name(&lost).starts_with(PREFIX));
        assert!(done.stranded[1].released.is_none());
        macs.assert_sound(&[&live, &by_id, &fresh], "reclaimed");
        for prefix in ["", "windlass-", "ci-pool-", "ci-"] {
            let mut wrong = request(ReclaimMode::ReturnToPool(super::support::prefix()));
            wrong.claim_prefix = prefix.into();
            assert!(lifecycle.reclaim(&wrong, &Control::new()).await.is_err(), "{prefix:?}");
        }
    });
}

#[test]
fn a_host_that_somebody_let_go_is_never_taken_back() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let mine = claim("let-go");
        let host = adopt(&lifecycle, &mine).await;
        let target = AbandonTarget::Host { zone: zone(), host: Some(host.clone()), claim: mine.clone() };
        let why = Abandonment { by: "ada".into(), reason: None };
        let abandoned = lifecycle.abandon_machine(&target, &why).await.unwrap();
        assert_eq!(abandoned.len(), 1);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        macs.simulator.clear_requests();
        let request = ReclaimRequest {
            zone: zone(),
            claim_prefix: "ci-mac-".into(),
            live: Default::default(),
            grace: Duration::from_secs(600),
            mode: ReclaimMode::ReturnToPool(prefix()),
        };
        let seen = lifecycle.reclaim(&request, &Control::new()).await.unwrap();
        let spared = seen.stranded[0].spared.as_deref().unwrap();
        assert!(spared.contains(abandoned[0].id.as_str()), "{spared}");
        assert_eq!(macs.changes(), []);
    });
}
