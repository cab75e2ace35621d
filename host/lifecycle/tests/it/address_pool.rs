//! Addresses that are handed round: never two servers with one, and whatever becomes of the servers, they stay.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use windlass_lifecycle::{
    AddressKind, AddressPool, Clock, Control, Durability, Error, Lifecycle, OperationState, Options, OwnerName,
    ServerSpecification, StateDirectory, SweepRequest, Target,
};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::Patch;
use windlass_scaleway::types::instance::{CreateIp, IpType, UpdateIp};
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{NOW, World, faults_at, host, run, zone};

const TAG: &str = "ci-egress";

/// Reserves addresses with the pool's tag.
async fn reserve(world: &World, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let request = CreateIp { tags: vec![TAG.to_owned()], ..CreateIp::default() };
        ids.push(world.client.instance(&zone()).create_ip(&request).await.unwrap().id);
    }
    world.simulator.clear_requests();
    ids
}

fn pooled(world: &World) -> ServerSpecification {
    let mut specification = world.everything();
    specification.addresses = vec![AddressKind::Ipv6];
    specification.address_pool = Some(AddressPool::Tag(TAG.to_owned()));
    specification
}

/// Another host, with a journal and an owner of its own.
fn another(world: &World, folder: &std::path::Path, owner: &str, seed: u64) -> Lifecycle {
    let mut options = Options::new(world.client.clone(), host(), StateDirectory::open(folder).unwrap());
    options.owner = Some(owner.parse::<OwnerName>().unwrap());
    options.durability = Durability::Process;
    options.clock = Clock::simulated(NOW);
    options.seed = Some(seed);
    Lifecycle::open(options).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The pool is as it was reserved, and each of its addresses serves whom it should: a server that there is, or nobody.
/// Answers how many serve somebody.
fn assert_pool(world: &World, pool: &[String], case: &str) -> usize {
    let resources = world.resources();
    let mut serving = 0;
    for id in pool {
        let found = resources.ips.iter().find(|ip| ip["id"] == id.as_str());
        let ip = found.unwrap_or_else(|| panic!("{case}: the address {id} of the pool is gone"));
        assert_eq!(texts(&ip["tags"]), [TAG], "{case}");
        if let Some(server) = ip["server"]["id"].as_str() {
            assert!(resources.servers.iter().any(|there| there["id"] == server), "{case}: it serves nobody's server");
            serving += 1;
        }
    }
    serving
}

/// Nothing is there but the pool, which serves nobody.
fn assert_only_the_pool(world: &World, pool: &[String], case: &str) {
    assert_eq!(assert_pool(world, pool, case), 0, "{case}");
    let there = world.resources();
    let others = there.servers.len() + there.volumes.len() + there.private_nics.len() + there.ips.len() - pool.len();
    assert_eq!(others, 0, "{case}: {there:?}");
}

#[test]
fn a_server_takes_a_free_address_of_the_pool_and_leaves_it_behind_when_it_goes() {
    for by_id in [false, true] {
        run(async {
            let world = World::new(1).await;
            let lifecycle = world.start();
            let pool = reserve(&world, 2).await;
            let mut specification = pooled(&world);
            if by_id {
                specification.address_pool = Some(AddressPool::Ips(pool.clone()));
            }
            let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
            let ips: Vec<&String> = created.server.public_ips.iter().map(|ip| &ip.id).collect();
            assert_eq!(ips.iter().filter(|id| pool.contains(id)).count(), 1);
            assert_eq!(ips.len(), 2, "and the IPv6 one that was made");
            assert_eq!(assert_pool(&world, &pool, "it runs"), 1);
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
            assert_only_the_pool(&world, &pool, "removed");
        });
    }
}

#[test]
fn creations_at_once_never_share_an_address_and_one_too_many_fails_before_anything_is_made() {
    for seed in 0..20 {
        run(async {
            let world = World::new(seed).await;
            let lifecycle = world.start();
            let pool = reserve(&world, 4).await;
            let created = lifecycle.create_servers(&pooled(&world), 6, &Control::new()).await;
            let mut taken = BTreeSet::new();
            let mut refused = 0;
            for created in created {
                match created {
                    Ok(created) => {
                        let mut ips = created.server.public_ips.iter().filter(|ip| pool.contains(&ip.id));
                        assert!(taken.insert(ips.next().unwrap().id.clone()), "seed {seed}: two have one address");
                        assert!(ips.next().is_none());
                    }
                    Err(Error::Failed(failure)) => {
                        assert_eq!(
                            (failure.step.as_str(), failure.cause.class),
                            ("take-address", FailureClass::QuotaExceeded)
                        );
                        assert!(failure.cause.message.contains("all 4 are attached to servers"), "{failure}");
                        assert!(failure.report.removed.is_empty(), "{failure}");
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!((taken.len(), refused), (4, 2), "seed {seed}");
            assert_eq!(world.resources().servers.len(), 4);
            let refusals = world
                .simulator
                .requests()
                .into_iter()
                .filter(|request| request.status.is_some_and(|status| status >= 400))
                .count();
            assert_eq!(refusals, 0, "within a process it is known who has which");
        });
    }
}

#[test]
fn hosts_that_share_a_pool_never_share_an_address() {
    let mut conflicts = 0;
    for seed in 0..40 {
        run(async {
            let world = World::new(seed).await;
            let pool = reserve(&world, 3).await;
            let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
            let hosts = ["a", "b", "c"].map(|owner| {
                let place = usize::from(owner.as_bytes()[0] - b'a');
                another(&world, folders[place].path(), owner, seed * 3 + place as u64)
            });
            // All look before any has created.
            let slow = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::Delay(Duration::from_secs(5)));
            world.simulator.add_fault(slow).unwrap();
            let control = Control::new();
            let created =
                futures::future::join_all(hosts.iter().map(|host| host.create_server(pooled(&world), &control)));
            let mut taken = BTreeSet::new();
            for created in created.await {
                let created = created.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let ip = created.server.public_ips.into_iter().find(|ip| pool.contains(&ip.id)).unwrap();
                assert!(taken.insert(ip.id), "seed {seed}: two hosts have one address");
            }
            assert_eq!(assert_pool(&world, &pool, "all run"), 3);
            let there = world.resources();
            assert_eq!((there.servers.len(), there.ips.len()), (3, 6), "seed {seed}: a refused server is left");
            let refused = |status: Option<u16>| status.is_some_and(|status| (400..500).contains(&status));
            conflicts += world.simulator.requests().into_iter().filter(|request| refused(request.status)).count();
        });
    }
    assert!(conflicts > 10, "only {conflicts} times two wanted the same");
}

#[test]
fn what_was_made_for_a_server_is_never_handed_round_and_neither_is_what_serves_somebody() {
    run(async {
        let world = World::new(5).await;
        let lifecycle = world.start();
        let pool = reserve(&world, 2).await;
        let instance = world.client.instance(&zone());
        let owned = vec![TAG.to_owned(), "windlass-owner=another".to_owned()];
        let request = UpdateIp { tags: Some(owned), ..UpdateIp::default() };
        instance.update_ip(&pool[0], &request).await.unwrap();
        let six = CreateIp { tags: vec![TAG.into()], ip_type: Some(IpType::RoutedIpv6), ..CreateIp::default() };
        instance.create_ip(&six).await.unwrap();
        let first = lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap();
        assert!(first.server.public_ips.iter().any(|ip| ip.id == pool[1]));
        let second = lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap_err().to_string();
        assert!(second.contains("no address of the pool is free"), "{second}");
        // Somebody takes it off the server: it is free.
        let detach = UpdateIp { server: Patch::Clear, ..UpdateIp::default() };
        instance.update_ip(&pool[1], &detach).await.unwrap();
        let third = lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap();
        assert!(third.server.public_ips.iter().any(|ip| ip.id == pool[1]));
    });
}

#[test]
fn neither_rollback_nor_cleanup_nor_sweep_takes_an_address_of_the_pool_whatever_its_tags_say() {
    for lost in [false, true] {
        run(async {
            let world = World::new(6).await;
            let lifecycle = world.start();
            let pool = reserve(&world, 1).await;
            if lost {
                // Then what carries the operation's tag, and nobody uses, is taken for what a lost answer made.
                let dropped = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::DroppedConnection);
                world.simulator.add_fault(dropped.nth(1)).unwrap();
            }
            let created = lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap();
            // All that is ours on the server, copied by a user who tags whole projects.
            let tags = world.client.instance(&zone()).get_server(&created.server.id).await.unwrap().tags;
            let marked = UpdateIp { tags: Some(tags), ..UpdateIp::default() };
            world.client.instance(&zone()).update_ip(&pool[0], &marked).await.unwrap();
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
            let there = world.resources();
            assert_eq!((there.servers.len(), there.ips.len()), (0, 1), "lost: {lost}: {there:?}");
            assert_eq!(there.ips[0]["id"], pool[0].as_str());
            assert!(there.ips[0]["server"].is_null());
        });
    }
}

#[test]
fn an_address_that_was_taken_after_the_list_was_read_is_not_asked_for() {
    run(async {
        let world = World::new(10).await;
        let lifecycle = world.start();
        reserve(&world, 1).await;
        // The list is as it was twenty seconds ago; meanwhile another creation has begun and ended.
        let late = FaultRule::new("GET", "/instance/v1/zones/*/ips", FaultKind::Delay(Duration::from_secs(20)));
        world.simulator.add_fault(FaultRule { effect: Effect::After, ..late.nth(1) }).unwrap();
        let control = Control::new();
        let first = lifecycle.create_server(pooled(&world), &control);
        let second = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lifecycle.create_server(pooled(&world), &control).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(second.is_ok());
        assert!(first.unwrap_err().to_string().contains("no address of the pool is free"));
        let refused = |status: Option<u16>| status.is_some_and(|status| status >= 400);
        let refused = world.simulator.requests().into_iter().filter(|it| it.method == "POST" && refused(it.status));
        assert_eq!(refused.count(), 0, "it was looked at again before a server was made");
    });
}

fn rule(nth: u64, kind: FaultKind, effect: Effect) -> FaultRule {
    FaultRule { method: None, path: "/**".into(), nth: Some(nth), kind, effect }
}

async fn calls_of_create() -> u64 {
    let world = World::new(7).await;
    reserve(&world, 2).await;
    world.start().create_server(pooled(&world), &Control::new()).await.unwrap();
    world.simulator.requests().len() as u64
}

/// Ends what is open, and holds that there is one whole server with one address of the pool, or only the pool.
async fn assert_whole_or_nothing(world: &World, pool: &[String], case: &str) -> bool {
    let next = world.start();
    next.resume(&Control::new()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(700)).await;
    drop(next);
    // Later, for what waits for its second look.
    let next = world.start();
    let resumed = next.resume(&Control::new()).await.unwrap();
    assert!(resumed.is_clean(), "{case}: {resumed:?}");
    let sweep = next.sweep(&SweepRequest::new(vec![zone()]), &Control::new()).await.unwrap();
    assert!(sweep.is_clean(), "{case}: {sweep:?}");
    let there = world.resources();
    let done = !there.servers.is_empty();
    if done {
        assert_eq!(assert_pool(world, pool, case), 1, "{case}");
        assert_eq!((there.servers.len(), there.ips.len()), (1, pool.len() + 1), "{case}");
        assert_eq!(there.servers[0]["state"], "running", "{case}");
    } else {
        assert_only_the_pool(world, pool, case);
    }
    world.assert_closed(&next, case);
    done
}

#[test]
fn a_fault_of_any_kind_at_any_call_leaves_the_pool_whole() {
    let calls = run(calls_of_create());
    let (mut done, mut undone) = (0, 0);
    for (nth, kind, effect) in faults_at(calls + 8) {
        if kind.is_refusal() && effect == Effect::After {
            continue;
        }
        let case = format!("call {nth} {kind} {effect:?}");
        run(async {
            let world = World::new(nth).await;
            let pool = reserve(&world, 2).await;
            let lifecycle = world.start();
            world.simulator.add_fault(rule(nth, kind, effect)).unwrap();
            let ended = lifecycle.create_server(pooled(&world), &Control::new()).await;
            world.simulator.clear_faults();
            drop(lifecycle);
            let there = assert_whole_or_nothing(&world, &pool, &case).await;
            assert_eq!(ended.is_ok(), there, "{case}");
            if there { done += 1 } else { undone += 1 }
        });
    }
    assert!(done > 7 && undone > 7, "{done} done, {undone} undone");
}

#[test]
fn a_creation_that_dies_at_any_call_leaves_the_pool_whole() {
    let calls = run(calls_of_create());
    let (mut done, mut undone) = (0, 0);
    for nth in 1..=calls {
        for effect in [Effect::Before, Effect::After] {
            let case = format!("died at call {nth} {effect:?}");
            run(async {
                let world = World::new(nth).await;
                let pool = reserve(&world, 2).await;
                let lifecycle = world.start();
                world.simulator.add_fault(rule(nth, FaultKind::Delay(Duration::from_secs(20)), effect)).unwrap();
                let creating = {
                    let (lifecycle, specification) = (lifecycle.clone(), pooled(&world));
                    tokio::spawn(async move { lifecycle.create_server(specification, &Control::new()).await })
                };
                while world.simulator.faults()[0].applied == 0 {
                    assert!(!creating.is_finished(), "{case}: it was never met");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                creating.abort();
                assert!(creating.await.unwrap_err().is_cancelled(), "{case}");
                world.simulator.clear_faults();
                drop(lifecycle);
                if assert_whole_or_nothing(&world, &pool, &case).await { done += 1 } else { undone += 1 }
            });
        }
    }
    assert!(done > 0 && undone > 10, "{done} finished, {undone} undone");
}

#[test]
fn an_operation_that_failed_for_want_of_an_address_has_nothing_to_undo_and_the_next_gets_what_became_free() {
    run(async {
        let world = World::new(9).await;
        let lifecycle = world.start();
        let pool = reserve(&world, 1).await;
        let first = lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap();
        let Err(Error::Failed(failure)) = lifecycle.create_server(pooled(&world), &Control::new()).await else {
            panic!("there is one address")
        };
        assert_eq!(failure.state, OperationState::Undone, "{failure}");
        lifecycle.cleanup(&Target::Operation(first.operation), &Control::new()).await.unwrap();
        lifecycle.create_server(pooled(&world), &Control::new()).await.unwrap();
        assert_eq!(assert_pool(&world, &pool, "it runs again"), 1);
    });
}
