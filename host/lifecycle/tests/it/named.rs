//! The failures that have a name.

use std::time::Duration;

use windlass_lifecycle::{
    Control, Error, Event, EventKind, ExtraVolume, OperationId, OperationState, Phase, ResourceKind, SweepRequest,
    Target,
};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::instance::{CreateServer, ServerAction, UpdateServer};
use windlass_simulator::{Effect, FaultKind, FaultRule, ForcedState, Latency};

use crate::support::{World, brief, run, zone};

fn power_on_fails() -> FaultRule {
    FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError)
}

#[test]
fn power_on_answers_500_and_ips_volumes_and_server_are_gone() {
    run(async {
        let world = World::new(11).await;
        let lifecycle = world.start();
        // Only the power-on: the rollback's terminate is an action, too, so the rule is taken away when it has met
        // often enough for the retry policy to give up.
        world.simulator.add_fault(power_on_fails()).unwrap();
        let (control, mut events) = Control::with_events();
        let simulator = world.simulator.clone();
        let watch = async move {
            while let Some(Event { what, .. }) = events.recv().await {
                if matches!(what, EventKind::Undoing { .. }) {
                    simulator.clear_faults();
                }
            }
        };
        let create = async {
            let result = lifecycle.create_server(world.everything(), &control).await;
            drop(control);
            result
        };
        let (result, ()) = tokio::join!(create, watch);
        let Err(Error::Failed(failure)) = result else { panic!("{result:?}") };
        assert_eq!(failure.step, "power-on");
        assert_eq!(failure.cause.class, FailureClass::ServerError);
        assert_eq!(failure.cause.status, Some(500));
        assert_eq!(failure.state, OperationState::Undone);
        let removed = |kind| failure.report.removed.iter().filter(|name| name.kind == kind).count();
        assert_eq!(removed(ResourceKind::Server), 1);
        assert_eq!(removed(ResourceKind::Ip), 2);
        assert_eq!(removed(ResourceKind::BlockVolume), 2);
        world.assert_empty("power-on");
        world.assert_closed(&lifecycle, "power-on");
        // The server's id was in the journal before the failure.
        let entries = lifecycle.journal().entries(&failure.operation).unwrap();
        let journalled = entries
            .iter()
            .find(|entry| entry.step == "create-server" && entry.phase == Phase::Outcome)
            .and_then(|entry| entry.resource.clone().map(|resource| (entry.sequence, resource.id)))
            .expect("the server's id is journalled");
        let failed = entries
            .iter()
            .find(|entry| entry.step == "power-on" && entry.phase == Phase::Failure)
            .expect("the failure is journalled");
        assert!(journalled.0 < failed.sequence);
        let text = failure.to_string();
        assert!(text.contains("power-on") && text.contains("500") && text.contains("nothing is left"), "{text}");
        assert!(failure.reasons.iter().any(|reason| reason.starts_with("retry of power-on")), "{:?}", failure.reasons);
    });
}

/// Who follows a creation takes "undoing" for the end of its server: the runner plugin told it as `deleting` for a
/// moment, and the runner asked for another one that the group had no room for.
#[test]
fn a_good_creation_that_removes_a_double_is_not_told_as_being_undone() {
    run(async {
        let world = World::new(11).await;
        let lifecycle = world.start();
        let twice = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::TransientState).nth(1);
        world.simulator.add_fault(FaultRule { effect: Effect::After, ..twice }).unwrap();
        let (control, mut events) = Control::with_events();
        lifecycle.create_server(world.everything(), &control).await.unwrap();
        drop(control);
        let mut doubles = Vec::new();
        while let Some(event) = events.recv().await {
            assert!(!matches!(event.what, EventKind::Undoing { .. }), "{:?}", event.what);
            if let EventKind::RemovingDoubles { resources, .. } = event.what {
                doubles.extend(resources);
            }
        }
        assert_eq!(doubles.len(), 1, "{doubles:?}");
        world.assert_complete("the double is gone").await;
        world.assert_closed(&lifecycle, "the double is gone");
    });
}

#[test]
fn a_type_out_of_stock_gives_way_to_the_next() {
    run(async {
        let world = World::with(windlass_simulator::Options {
            seed: 5,
            out_of_stock: ["DEV1-S".to_owned()].into(),
            ..windlass_simulator::Options::default()
        })
        .await;
        let lifecycle = world.start();
        let mut specification = world.everything();
        specification.types = vec!["DEV1-S".into(), "DEV1-M".into()];
        let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
        assert_eq!(created.server.commercial_type, "DEV1-M");
        world.assert_complete("second type").await;
        world.assert_closed(&lifecycle, "second type");
    });
}

#[test]
fn a_type_whose_stock_ends_before_power_on_gives_way_to_the_next() {
    run(async {
        let world = World::new(7).await;
        let lifecycle = world.start();
        let gone = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::OutOfStock).nth(1);
        world.simulator.add_fault(gone).unwrap();
        let mut specification = world.everything();
        specification.types = vec!["DEV1-S".into(), "DEV1-M".into()];
        let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
        assert_eq!(created.server.commercial_type, "DEV1-M");
        world.assert_complete("the type was changed").await;
        world.assert_closed(&lifecycle, "the type was changed");
    });
}

#[test]
fn no_type_in_stock_at_power_on_leaves_nothing_and_names_the_stock() {
    run(async {
        let world = World::new(8).await;
        let lifecycle = world.start();
        let gone = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::OutOfStock);
        world.simulator.add_fault(gone).unwrap();
        let mut specification = world.everything();
        specification.types = vec!["DEV1-S".into(), "DEV1-M".into()];
        let error = lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!((failure.step.as_str(), failure.cause.class), ("power-on", FailureClass::OutOfStock));
        world.simulator.clear_faults();
        lifecycle.resume(&Control::new()).await.unwrap();
        world.assert_empty("no stock at power-on");
    });
}

#[test]
fn all_types_out_of_stock_is_a_failure_that_leaves_nothing_and_burns_no_time() {
    run(async {
        let world = World::with(windlass_simulator::Options {
            seed: 5,
            out_of_stock: ["DEV1-S".to_owned(), "DEV1-M".to_owned()].into(),
            ..windlass_simulator::Options::default()
        })
        .await;
        let lifecycle = world.start();
        let mut specification = world.everything();
        specification.types = vec!["DEV1-S".into(), "DEV1-M".into()];
        let began = tokio::time::Instant::now();
        let error = lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.cause.class, FailureClass::OutOfStock);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        world.assert_empty("no stock");
    });
}

#[test]
fn a_lost_create_answer_is_found_by_its_tag() {
    run(async {
        let world = World::new(6).await;
        let lifecycle = world.start();
        let lost =
            FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::DroppedConnection).nth(1).after_effect();
        world.simulator.add_fault(lost).unwrap();
        lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let posts = world
            .simulator
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST" && request.path.ends_with("/servers"))
            .count();
        assert_eq!(posts, 1, "it was sent again although it had worked");
        world.assert_complete("lost answer").await;
    });
}

#[test]
fn a_volume_that_was_there_before_survives_rollback_and_cleanup() {
    run(async {
        let world = World::new(8).await;
        let lifecycle = world.start();
        let theirs = world.block_volume_of_a_user().await;
        let mut specification = world.everything();
        specification.volumes.push(ExtraVolume::Existing { id: theirs.clone() });
        let only_theirs = |case: &str| {
            let resources = world.resources();
            assert_eq!(resources.count(), 1, "{case}: {}", crate::support::brief(&resources));
            assert_eq!(resources.volumes[0]["id"], theirs.as_str(), "{case}");
            assert_eq!(resources.volumes[0]["tags"], serde_json::json!([]), "{case}: it was tagged");
        };
        let created = lifecycle.create_server(specification.clone(), &Control::new()).await.unwrap();
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        only_theirs("cleanup");
        tokio::time::sleep(Duration::from_secs(30)).await;
        world.simulator.add_fault(FaultRule::new("PATCH", "/**/user_data/*", FaultKind::PermissionDenied)).unwrap();
        lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        only_theirs("rollback");
    });
}

#[test]
fn a_server_is_cleaned_up_from_every_state() {
    for state in ["running", "stopped", "stopped in place", "starting", "stopping"] {
        run(async {
            let world = World::new(9).await;
            let lifecycle = world.start();
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            let id = created.server.id.clone();
            let force = |state: &str| {
                let forced: ForcedState = state.parse().unwrap_or_else(|error| panic!("{state}: {error}"));
                world.simulator.set_server_state(&id, forced).unwrap();
            };
            if state != "running" {
                force(state);
            }
            let target = Target::Server { zone: zone(), id: created.server.id };
            let control = Control::new();
            let arrives = async {
                // The two states on the way last until somebody ends them.
                let end = match state {
                    "starting" => "running",
                    "stopping" => "stopped",
                    _ => return,
                };
                tokio::time::sleep(Duration::from_secs(20)).await;
                force(end);
            };
            let (cleaned, ()) = tokio::join!(lifecycle.cleanup(&target, &control), arrives);
            let cleaned = cleaned.unwrap();
            assert!(cleaned.report.is_clean(), "{state}: {}", cleaned.report.words());
            world.assert_empty(state);
            world.assert_closed(&lifecycle, state);
            // Again: gone is done.
            let again = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            assert!(again.report.is_clean() && again.report.removed.is_empty(), "{state}: {}", again.report.words());
        });
    }
}

#[test]
fn a_locked_server_is_reported_as_left_with_the_reason() {
    run(async {
        let world = World::new(9).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        world.simulator.set_server_state(&created.server.id, "locked".parse().unwrap()).unwrap();
        world.simulator.clear_requests();
        let began = tokio::time::Instant::now();
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(!cleaned.report.is_clean());
        let words = cleaned.report.words();
        assert!(words.contains("LEFT") && words.contains("locked by Scaleway"), "{words}");
        // Nothing waits for a lock that only Scaleway's support takes off.
        let (took, calls) = (began.elapsed(), world.simulator.requests().len());
        assert!(took < Duration::from_secs(20) && calls < 60, "{took:?}, {calls} calls");
    });
}

#[test]
fn a_protected_server_is_left_whole_in_every_state_without_a_try() {
    run(async {
        for (seed, stopped, everything) in [(42, false, true), (43, true, true), (44, true, false)] {
            let world = World::new(seed).await;
            let lifecycle = world.start();
            let mut specification = world.everything();
            if !everything {
                specification.private_networks.clear();
            }
            let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
            let id = created.server.id.as_str();
            let instance = world.client.instance(&zone());
            if stopped {
                world.simulator.set_server_state(id, ForcedState::Stopped).unwrap();
            }
            let protect = |protected| UpdateServer { protected: Some(protected), ..UpdateServer::default() };
            instance.update_server(id, &protect(true)).await.unwrap();
            let before = brief(&world.resources());
            world.simulator.clear_requests();
            let began = tokio::time::Instant::now();
            let target = Target::Operation(created.operation.clone());
            let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            let words = cleaned.report.words();
            assert!(
                words.contains(&format!("server {id} is protected")) && words.contains("zone=fr-par-1 protected=false"),
                "{words}"
            );
            assert!(cleaned.report.removed.is_empty(), "{words}");
            let changes: Vec<_> = world.simulator.requests().into_iter().filter(|it| it.method != "GET").collect();
            assert!(changes.is_empty(), "{changes:?}");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            assert_eq!(brief(&world.resources()), before);

            let mut sweep = SweepRequest::new(vec![zone()]);
            (sweep.grace, sweep.running_too) = (Duration::ZERO, true);
            lifecycle.sweep(&sweep, &Control::new()).await.unwrap();
            let refused = lifecycle.restart_server(&zone(), id).await;
            assert!(stopped || matches!(refused, Err(Error::Protected { .. })), "{refused:?}");
            assert_eq!(world.resources().servers.len(), 1);

            instance.update_server(id, &protect(false)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
            world.assert_empty("unprotected");
        }
    });
}

#[test]
fn a_server_that_is_protected_between_the_look_and_the_deletion_stays() {
    run(async {
        let world = World::new(45).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let id = created.server.id.as_str();
        world.simulator.set_server_state(id, ForcedState::Stopped).unwrap();
        let slow = FaultRule::new("GET", "/block/v1/zones/*/volumes/*", FaultKind::Delay(Duration::from_secs(12)));
        world.simulator.add_fault(slow.nth(1)).unwrap();
        let protect = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            let update = UpdateServer { protected: Some(true), ..UpdateServer::default() };
            world.client.instance(&zone()).update_server(id, &update).await.unwrap();
        };
        let target = Target::Operation(created.operation.clone());
        let control = Control::new();
        let (cleaned, ()) = tokio::join!(lifecycle.cleanup(&target, &control), protect);
        let words = cleaned.unwrap().report.words();
        assert!(words.contains(&format!("server {id} is protected")), "{words}");
        assert_eq!(world.resources().servers[0]["state"], "stopped");
        assert_eq!((world.resources().ips.len(), world.resources().volumes.len()), (2, 2), "{words}");
    });
}

#[test]
fn a_strangers_server_is_not_touched() {
    run(async {
        let world = World::new(10).await;
        let lifecycle = world.start();
        for tags in [vec![], vec!["windlass-owner=other".to_owned()]] {
            let image = world
                .client
                .marketplace()
                .resolve_image(
                    "ubuntu_noble",
                    &zone(),
                    "DEV1-S",
                    windlass_scaleway::types::marketplace::ImageStorage::BlockStorage,
                )
                .await
                .unwrap();
            let server = world
                .client
                .instance(&zone())
                .create_server(&CreateServer {
                    name: "theirs".into(),
                    commercial_type: "DEV1-S".into(),
                    image: Some(image),
                    tags,
                    ..CreateServer::default()
                })
                .await
                .unwrap();
            world.client.instance(&zone()).server_action(&server.id, ServerAction::PowerOn).await.unwrap();
            world.simulator.clear_requests();
            let error =
                lifecycle.cleanup(&Target::Server { zone: zone(), id: server.id }, &Control::new()).await.unwrap_err();
            assert!(matches!(error, Error::NotOurs { .. }), "{error}");
            assert!(error.to_string().contains("windlass-owner=team"), "{error}");
            assert!(world.simulator.requests().iter().all(|request| request.method == "GET"), "something was changed");
            world.assert_closed(&lifecycle, "stranger");
        }
    });
}

#[test]
fn called_off_in_the_middle_it_is_undone_and_left_it_is_ended_by_the_next_start() {
    for leave in [false, true] {
        run(async {
            let world = World::with(windlass_simulator::Options {
                seed: 12,
                latency: Latency { base_ms: 100, jitter_ms: 20 },
                ..windlass_simulator::Options::default()
            })
            .await;
            // After each of the first seconds of the create.
            for tenths in [0, 2, 4, 6, 9, 12, 20, 35] {
                let lifecycle = world.start();
                let control = Control::new();
                let stop = async {
                    tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
                    if leave { control.leave() } else { control.cancel() }
                };
                let (result, ()) = tokio::join!(lifecycle.create_server(world.everything(), &control), stop);
                let case = format!("leave {leave} after {tenths}");
                match result {
                    Ok(_) => panic!("{case}: it ended before"),
                    Err(Error::Failed(failure)) => {
                        assert!(!leave, "{case}");
                        assert_eq!(failure.cause.class, FailureClass::Cancelled, "{case}");
                        assert_eq!(failure.state, OperationState::Undone, "{case}");
                    }
                    Err(Error::LeftOpen { .. }) => {
                        assert!(leave, "{case}");
                        drop(lifecycle);
                        let next = world.start();
                        let resumed = next.resume(&Control::new()).await.unwrap();
                        assert_eq!(resumed.operations.len(), 1, "{case}");
                        assert!(resumed.is_clean(), "{case}: {resumed:?}");
                        if resumed.operations[0].state == OperationState::Done {
                            world.assert_complete(&case).await;
                            next.cleanup(&Target::Operation(resumed.operations[0].operation.clone()), &Control::new())
                                .await
                                .unwrap();
                        }
                    }
                    Err(other) => panic!("{case}: {other}"),
                }
                world.assert_empty(&case);
            }
        });
    }
}

#[test]
fn a_hundred_at_once_share_their_polls_and_take_little_longer_than_one() {
    run(async {
        let mut times = Vec::new();
        for count in [1, 100] {
            let world = World::with(windlass_simulator::Options {
                seed: 13,
                latency: Latency { base_ms: 50, jitter_ms: 0 },
                ..windlass_simulator::Options::default()
            })
            .await;
            let lifecycle = world.start();
            let mut specification = world.everything();
            specification.volumes = vec![];
            specification.private_networks = vec![];
            let began = tokio::time::Instant::now();
            let results = lifecycle.create_servers(&specification, count, &Control::new()).await;
            assert!(results.iter().all(Result::is_ok), "{results:?}");
            times.push(began.elapsed());
            let requests = world.simulator.requests();
            let polls = requests
                .iter()
                .filter(|request| {
                    request.method == "GET"
                        && (request.path.ends_with("/servers") || request.path.contains("/servers/"))
                })
                .count();
            let calls = requests.len() - polls;
            println!("{count} servers: {:?}, {calls} calls and {polls} polls", times.last().unwrap());
            assert!(calls <= 7 * count, "{calls} calls for {count} servers");
            assert!(count == 1 || polls < count, "{polls} polls for {count} servers");
        }
        assert!(times[1] <= 2 * times[0], "{times:?}");
    });
}

#[test]
fn a_second_cleanup_of_the_same_server_and_one_of_a_server_being_made_are_refused() {
    run(async {
        let world = World::new(14).await;
        let lifecycle = world.start();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let target = Target::Operation(pending.id().clone());
        assert!(matches!(lifecycle.begin_cleanup(&target).await, Err(Error::OperationRunning { .. })));
        pending.run(&Control::new()).await.unwrap();
        let first = lifecycle.begin_cleanup(&target).await.unwrap();
        let error = lifecycle.begin_cleanup(&target).await.unwrap_err();
        assert!(matches!(&error, Error::CleanupUnderWay { operation } if operation == first.id()), "{error}");
        first.run(&Control::new()).await.unwrap();
        world.assert_empty("after the first");
        let second = lifecycle.begin_cleanup(&target).await.unwrap();
        assert!(second.run(&Control::new()).await.unwrap().report.is_clean());
        let unknown = OperationId::parse("ci-000000000000").unwrap();
        assert!(matches!(
            lifecycle.begin_cleanup(&Target::Operation(unknown)).await,
            Err(Error::OperationUnknown { .. })
        ));
    });
}

#[test]
fn no_secret_of_the_specification_reaches_the_journal() {
    run(async {
        let world = World::new(15).await;
        let lifecycle = world.start();
        let mut specification = world.everything();
        specification.cloud_init = Some(windlass_lifecycle::CloudInit::new("token: hunter2"));
        assert!(!format!("{specification:?}").contains("hunter2"));
        let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
        let row = lifecycle.journal().operation(&created.operation).unwrap();
        assert!(row.specification.to_string().contains("14 bytes"), "{}", row.specification);
        drop(lifecycle);
        for file in std::fs::read_dir(world.folder.path()).unwrap().flatten() {
            if file.file_type().unwrap().is_file() {
                let bytes = std::fs::read(file.path()).unwrap();
                assert!(
                    !bytes.windows(7).any(|window| window == b"hunter2"),
                    "{} holds the secret",
                    file.path().display()
                );
            }
        }
    });
}

#[test]
fn a_double_that_arrives_late_is_removed_before_the_create_ends() {
    run(async {
        let world = World::new(16).await;
        let lifecycle = world.start();
        let lost = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::DroppedConnection);
        world.simulator.add_fault(lost.nth(1)).unwrap();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let operation = pending.id().clone();
        let control = Control::new();
        let late = async {
            // The first call's effect, long after its connection was lost and the call sent again.
            tokio::time::sleep(Duration::from_secs(4)).await;
            world
                .client
                .instance(&zone())
                .create_ip(&windlass_scaleway::types::instance::CreateIp {
                    tags: vec![
                        "windlass-owner=team".into(),
                        "windlass-group=ci".into(),
                        format!("windlass-operation={operation}"),
                    ],
                    ..Default::default()
                })
                .await
                .unwrap();
        };
        let (created, ()) = tokio::join!(pending.run(&control), late);
        created.unwrap();
        world.assert_complete("late double").await;
        world.assert_closed(&lifecycle, "late double");
    });
}

#[test]
fn what_no_policy_could_judge_is_left_unmarked_and_tried_again_until_it_is_gone() {
    // The policy fails when its random word is odd, since the host's dry run would refuse it otherwise: a few seeds.
    let policies = tempfile::tempdir().unwrap();
    let left = (17..25).filter(|&seed| run(left_by_failing_policy(seed, policies.path()))).count();
    assert!(left >= 1, "the policy never failed at the first asking");
}

async fn left_by_failing_policy(seed: u64, policies: &std::path::Path) -> bool {
    let world = World::new(seed).await;
    let host = crate::support::host_in(policies);
    // A policy that fails, and an operator who would rather try again than let the default decide.
    let link = windlass_policy::Link::bytes(windlass_test_guests::HOSTILE.bytes)
        .with_settings(serde_json::json!({ "behaviour": "trap", "during": "odd-decisions" }))
        .with_on_failure(windlass_policy::slots::OnFailure::Keep);
    host.configure(&windlass_policy::Policies::built_in().with(windlass_policy::slots::SlotName::Rollback, link))
        .unwrap();
    let lifecycle = world.start_under(host);
    let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
    world.simulator.add_fault(refused.nth(1)).unwrap();
    let error = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap_err();
    let Error::Failed(failure) = error else { panic!("{error}") };
    if failure.state == OperationState::Undone {
        return false;
    }
    assert_eq!(failure.state, OperationState::Left, "{failure}");
    assert!(!failure.report.is_clean() && failure.report.removed.is_empty(), "{failure}");
    assert_eq!(failure.report.left.len(), 6, "{failure}");
    assert!(failure.to_string().contains("no policy decided what to do"), "{failure}");
    assert_eq!(world.resources().tagged("windlass-kept").count(), 0);
    assert!(
        failure.reasons.iter().any(|reason| reason.contains("rollback") && reason.contains("failed")),
        "{:?}",
        failure.reasons
    );
    for _ in 0..20 {
        if world.resources().is_empty() {
            break;
        }
        lifecycle.resume(&Control::new()).await.unwrap();
    }
    world.assert_empty("tried again until it was gone");
    true
}

#[test]
fn a_server_is_restarted_as_it_stands_and_only_with_our_tag() {
    run(async {
        let world = World::new(41).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let id = created.server.id.as_str();
        let actions = || world.simulator.requests().iter().filter(|request| request.path.ends_with("/action")).count();
        let before = actions();
        assert!(lifecycle.restart_server(&zone(), id).await.unwrap());
        // On its way down already.
        assert!(lifecycle.restart_server(&zone(), id).await.unwrap());
        assert_eq!(actions(), before + 1, "one restart at a time");
        world.simulator.set_server_state(id, ForcedState::Stopped).unwrap();
        assert!(lifecycle.restart_server(&zone(), id).await.unwrap());
        assert_eq!(actions(), before + 2, "one that stands still is powered on");

        let request = UpdateServer { tags: Some(vec!["somebody-else".to_owned()]), ..UpdateServer::default() };
        world.client.instance(&zone()).update_server(id, &request).await.unwrap();
        let refused = lifecycle.restart_server(&zone(), id).await.unwrap_err();
        assert!(matches!(refused, Error::NotOurs { .. }), "{refused}");
        let nobody = "11111111-2222-4333-8444-555555555555";
        assert!(!lifecycle.restart_server(&zone(), nobody).await.unwrap());
        assert_eq!(actions(), before + 2);
    });
}
