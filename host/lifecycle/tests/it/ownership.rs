//! Only what is provably ours is touched: what users attach, copy, stop or take back stays theirs; a listing proves no
//! absence; what was called off stays called off, and what was kept stays kept.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_lifecycle::{
    Aftermath, Clock, Control, CreatedServer, Durability, Error, Event, EventKind, ExtraVolume, Lifecycle,
    OperationState, Options, RootVolume, ServerSpecification, StateDirectory, SweepRequest, Target, VolumeKind,
};
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, Policies};
use windlass_scaleway::types::Patch;
use windlass_scaleway::types::instance::{
    AttachVolume, CreateIp, CreateServer, CreateVolume, Server, ServerAction, UpdateIp, UpdateServer, UpdateVolume,
    VolumeType,
};
use windlass_scaleway::{Client, Transport, TransportError};
use windlass_simulator::{Effect, FaultKind, FaultRule, ForcedState};
use windlass_test_guests::KEEP_VOLUMES_FOR_INSPECTION;

use crate::support::{NOW, World, brief, host, host_in, owner, run, settings, zone};

/// What a creation of everything changes.
const CREATING: usize = 8;

/// A sweep that spares nothing for its youth.
fn sweep_of_all() -> SweepRequest {
    let mut request = SweepRequest::new(vec![zone()]);
    request.grace = Duration::ZERO;
    request
}

/// A process with a client and a state directory of its own, hours after the world began.
fn process(client: Client, folder: &Path, hours: u64) -> Lifecycle {
    let mut options = Options::new(client, host(), StateDirectory::open(folder).unwrap());
    options.owner = Some(owner());
    options.durability = Durability::Process;
    options.clock = Clock::simulated(NOW + hours * 3_600_000);
    options.seed = Some(hours);
    Lifecycle::open(options).unwrap()
}

async fn create(lifecycle: &Lifecycle, specification: ServerSpecification) -> CreatedServer {
    lifecycle.create_server(specification, &Control::new()).await.unwrap()
}

/// A Block Storage volume of a user, on this server.
async fn attach_block(world: &World, server: &str) -> String {
    let volume = world.block_volume_of_a_user().await;
    attach(world, server, &volume, VolumeType::BlockStorage).await;
    volume
}

/// A local volume of a user, on this server.
pub(crate) async fn attach_local(world: &World, server: &str) -> String {
    let volume = world
        .client
        .instance(&zone())
        .create_volume(&CreateVolume {
            name: "theirs".into(),
            volume_type: Some(VolumeType::LocalSsd),
            size: Some(1_000_000_000),
            ..CreateVolume::default()
        })
        .await
        .unwrap();
    attach(world, server, &volume.id, VolumeType::LocalSsd).await;
    volume.id
}

async fn attach(world: &World, server: &str, volume: &str, kind: VolumeType) {
    let request = AttachVolume { volume_id: volume.to_owned(), volume_type: Some(kind), boot: None };
    world.client.instance(&zone()).attach_server_volume(server, &request).await.unwrap();
}

fn ids(list: &[Value]) -> Vec<&str> {
    list.iter().filter_map(|value| value["id"].as_str()).collect()
}

/// Exactly these exist.
fn assert_only(world: &World, expected: &[&str], case: &str) {
    let resources = world.resources();
    let mut there: Vec<&str> = [&resources.servers, &resources.ips, &resources.volumes, &resources.private_nics]
        .into_iter()
        .flat_map(|list| ids(list))
        .collect();
    let mut expected = expected.to_vec();
    there.sort_unstable();
    expected.sort_unstable();
    assert_eq!(there, expected, "{case}: {}", brief(&resources));
}

/// A server of somebody else that carries every tag of this one, as a clone made with other tools does.
async fn clone_of(world: &World, original: &Server, start: bool) -> Server {
    let instance = world.client.instance(&zone());
    let clone = instance
        .create_server(&CreateServer {
            name: "clone".into(),
            commercial_type: original.commercial_type.clone(),
            image: original.image.as_ref().map(|image| image.id.clone()),
            tags: original.tags.clone(),
            ..CreateServer::default()
        })
        .await
        .unwrap();
    if start {
        instance.server_action(&clone.id, ServerAction::PowerOn).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    instance.get_server(&clone.id).await.unwrap()
}

// --- What users attach -----------------------------------------------------------------------------------------------

#[test]
fn a_volume_that_a_user_attached_survives_the_removal_of_its_server() {
    for kind in [VolumeKind::Block, VolumeKind::Local] {
        for by_id in [false, true] {
            run(async {
                let case = format!("{kind:?}, by id: {by_id}");
                let world = World::new(101).await;
                let lifecycle = world.start();
                let created = create(&lifecycle, world.everything()).await;
                let id = created.server.id.clone();
                let theirs = match kind {
                    VolumeKind::Block => attach_block(&world, &id).await,
                    VolumeKind::Local | VolumeKind::Scratch => attach_local(&world, &id).await,
                };
                let target = if by_id {
                    Target::Server { zone: zone(), id }
                } else {
                    Target::Operation(created.operation.clone())
                };
                let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
                assert!(cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
                assert_only(&world, &[&theirs], &case);
                assert_eq!(world.resources().volumes[0]["tags"], json!([]), "{case}: it was marked");
                assert!(!cleaned.report.removed.iter().any(|name| name.id == theirs), "{case}");
                world.assert_closed(&lifecycle, &case);
            });
        }
    }
}

#[test]
fn a_volume_that_a_user_attached_survives_the_sweep_of_its_server() {
    run(async {
        let mut world = World::new(102).await;
        let created = create(&world.start(), world.everything()).await;
        let block = attach_block(&world, &created.server.id).await;
        let local = attach_local(&world, &created.server.id).await;
        world.folder = tempfile::tempdir().unwrap();
        let lifecycle = process(world.client.clone(), world.folder.path(), 5);
        let mut all = sweep_of_all();
        all.running_too = true;
        let sweep = lifecycle.sweep(&all, &Control::new()).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_only(&world, &[&block, &local], "swept");
    });
}

#[test]
fn a_local_volume_that_a_user_attached_survives_a_policy_that_does_not_speak_of_it() {
    // What the plan leaves out is neither deleted nor terminated with its server.
    run(async {
        let world = World::new(103).await;
        let lifecycle = world.start();
        let mut specification = world.everything();
        specification.root_volume = RootVolume { kind: VolumeKind::Local, ..RootVolume::default() };
        specification.volumes = vec![];
        let created = create(&lifecycle, specification).await;
        let theirs = attach_local(&world, &created.server.id).await;
        // The default rollback keeps what is not ours; the terminate of a server would not.
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        assert_only(&world, &[&theirs], "theirs");
    });
}

#[test]
fn a_local_volume_that_a_user_attaches_to_a_server_that_waits_for_its_removal_survives() {
    run(async {
        let mut world = World::new(120).await;
        // More than are removed at the same time.
        let lifecycle = world.start();
        let mut servers = Vec::new();
        for _ in 0..5 {
            servers.push(create(&lifecycle, world.everything()).await.server.id);
        }
        // They are removed in the order of their ids.
        let last = servers.into_iter().max().unwrap();
        world.folder = tempfile::tempdir().unwrap();
        let stranger = process(world.client.clone(), world.folder.path(), 5);
        let (control, mut events) = Control::with_events();
        let attaching = async {
            while let Some(Event { what, .. }) = events.recv().await {
                if matches!(&what, EventKind::StepBegan { step } if step == "delete-server") {
                    break;
                }
            }
            attach_local(&world, &last).await
        };
        let sweeping = async {
            let mut all = sweep_of_all();
            all.running_too = true;
            let sweep = stranger.sweep(&all, &control).await.unwrap();
            drop(control);
            sweep
        };
        let (sweep, local) = tokio::join!(sweeping, attaching);
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_only(&world, &[&local], "the user's volume");
    });
}

#[test]
fn marking_the_volumes_of_a_half_made_server_spares_what_was_attached_to_it() {
    run(async {
        let world = World::new(104).await;
        let lifecycle = world.start();
        let existing = world.block_volume_of_a_user().await;
        let mut specification = world.everything();
        specification.volumes.push(ExtraVolume::Existing { id: existing.clone() });
        let created = create(&lifecycle, specification).await;
        let theirs = attach_block(&world, &created.server.id).await;
        for known in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let marking = if known { lifecycle.clone() } else { process(world.client.clone(), folder.path(), 5) };
            let server = world.client.instance(&zone()).get_server(&created.server.id).await.unwrap();
            marking.mark_volumes(&zone(), &server).await.unwrap();
            for id in [&existing, &theirs] {
                let tags = world.client.block(&zone()).get_volume(id).await.unwrap().tags;
                assert!(tags.is_empty(), "journal known: {known}, {id}: {tags:?}");
            }
        }
    });
}

// --- What carries copied tags ----------------------------------------------------------------------------------------

#[test]
fn a_clone_that_carries_copied_tags_survives_the_removal_of_the_original() {
    for by_id in [false, true] {
        for start in [false, true] {
            run(async {
                let case = format!("by id: {by_id}, the clone runs: {start}");
                let world = World::new(105).await;
                let lifecycle = world.start();
                let created = create(&lifecycle, world.everything()).await;
                let clone = clone_of(&world, &created.server, start).await;
                let target = if by_id {
                    Target::Server { zone: zone(), id: created.server.id.clone() }
                } else {
                    Target::Operation(created.operation.clone())
                };
                let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
                assert!(cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
                let mut stays: Vec<&str> = vec![&clone.id];
                stays.extend(clone.volumes.values().map(|volume| volume.id.as_str()));
                assert_only(&world, &stays, &case);
                let sweep = lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
                assert!(sweep.cleanups.is_empty(), "{case}: {sweep:?}");
                assert_only(&world, &stays, &case);
            });
        }
    }
}

#[test]
fn a_clone_is_not_taken_for_what_a_lost_answer_made() {
    for start in [false, true] {
        run(async {
            let world = World::new(119).await;
            let lifecycle = world.start();
            let lost = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::DroppedConnection);
            let pending = lifecycle.begin_create(world.everything()).await.unwrap();
            let tags = ["owner=team".to_owned(), "group=ci".to_owned(), format!("operation={}", pending.id())];
            let original = Server {
                tags: tags.iter().map(|tag| format!("windlass-{tag}")).collect(),
                ..create(&lifecycle, world.everything()).await.server
            };
            let clone = clone_of(&world, &original, start).await;
            world.simulator.add_fault(lost.nth(1)).unwrap();
            let created = pending.run(&Control::new()).await.unwrap();
            assert_ne!(created.server.id, clone.id, "started: {start}");
            let now = world.client.instance(&zone()).get_server(&clone.id).await.unwrap();
            assert_eq!((now.state, now.name, now.volumes), (clone.state, clone.name, clone.volumes));
            assert_eq!(world.resources().servers.len(), 3, "started: {start}");
        });
    }
}

#[test]
fn a_clone_survives_the_removal_of_a_server_that_no_journal_knows() {
    run(async {
        let world = World::new(106).await;
        let created = create(&world.start(), world.everything()).await;
        let clone = clone_of(&world, &created.server, true).await;
        let folder = tempfile::tempdir().unwrap();
        let lifecycle = process(world.client.clone(), folder.path(), 5);
        let target = Target::Server { zone: zone(), id: created.server.id.clone() };
        let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        let mut stays: Vec<&str> = vec![&clone.id];
        stays.extend(clone.volumes.values().map(|volume| volume.id.as_str()));
        assert_only(&world, &stays, "the clone");
    });
}

#[test]
fn an_address_that_a_user_put_on_another_server_is_not_taken_from_it() {
    run(async {
        let world = World::new(107).await;
        let lifecycle = world.start();
        let created = create(&lifecycle, world.everything()).await;
        let theirs = clone_of(&world, &Server { tags: vec![], ..created.server.clone() }, true).await;
        let instance = world.client.instance(&zone());
        let address = created.server.public_ips[0].id.clone();
        let moved = |server| UpdateIp { server, ..UpdateIp::default() };
        instance.update_ip(&address, &moved(Patch::Clear)).await.unwrap();
        instance.update_ip(&address, &moved(Patch::Set(theirs.id.clone()))).await.unwrap();
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        let address = instance.get_ip(&address).await.unwrap();
        assert_eq!(address.server.map(|server| server.id), Some(theirs.id));
    });
}

#[test]
fn an_address_that_is_given_away_while_its_deletion_is_tried_again_stays() {
    run(async {
        let world = World::new(108).await;
        let lifecycle = world.start();
        let created = create(&lifecycle, world.everything()).await;
        let address = created.server.public_ips[0].id.clone();
        let failing =
            FaultRule::new("DELETE", format!("/instance/v1/zones/*/ips/{address}"), FaultKind::InternalServerError);
        world.simulator.add_fault(failing.nth(1)).unwrap();
        let (control, mut events) = Control::with_events();
        let client = world.client.clone();
        let id = address.clone();
        let give_away = async move {
            while let Some(Event { what, .. }) = events.recv().await {
                if matches!(&what, EventKind::Waiting { step, .. } if step == "delete-ip") {
                    let update = UpdateIp { tags: Some(vec!["role=web".into()]), ..UpdateIp::default() };
                    client.instance(&zone()).update_ip(&id, &update).await.unwrap();
                }
            }
        };
        let cleanup = async {
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation.clone()), &control).await.unwrap();
            drop(control);
            cleaned
        };
        let (cleaned, ()) = tokio::join!(cleanup, give_away);
        assert_only(&world, &[&address], &cleaned.report.words());
    });
}

#[test]
fn a_server_that_a_user_takes_over_during_a_slow_look_stays_whole() {
    run(async {
        for (seed, looked_at) in [(119, "/block/v1/zones/*/volumes/*"), (120, "/instance/v1/zones/*/ips/*")] {
            let world = World::new(seed).await;
            let lifecycle = world.start();
            let created = create(&lifecycle, world.everything()).await;
            let before = world.resources();
            world
                .simulator
                .add_fault(FaultRule::new("GET", looked_at, FaultKind::Delay(Duration::from_secs(12))).nth(1))
                .unwrap();
            world.simulator.clear_requests();
            let take_over = async {
                tokio::time::sleep(Duration::from_secs(6)).await;
                let update = UpdateServer { tags: Some(vec!["role=web".into()]), ..UpdateServer::default() };
                world.client.instance(&zone()).update_server(&created.server.id, &update).await.unwrap();
            };
            let target = Target::Operation(created.operation.clone());
            let control = Control::new();
            let (cleaned, ()) = tokio::join!(lifecycle.cleanup(&target, &control), take_over);
            let report = cleaned.unwrap().report;
            let changes: Vec<String> = (world.simulator.requests().iter())
                .filter(|request| !matches!(request.method.as_str(), "GET"))
                .map(|request| format!("{} {}", request.method, request.path))
                .collect();
            assert_eq!(changes.len(), 1, "only the user's: {changes:?}; {}", report.words());
            // It is no longer ours, and not gone either.
            assert_eq!(report.server_not_ours().map(|name| &name.id), Some(&created.server.id), "{}", report.words());
            assert!(report.removed.is_empty() && !report.words().contains("nothing is left"), "{}", report.words());
            assert!(matches!(report.aftermath(), Aftermath::Left(left) if left.len() == report.not_ours.len()));
            assert_eq!(lifecycle.journal().operation(&created.operation).unwrap().ended_by, None);
            let remembered = lifecycle.remembered(&zone(), created.operation.as_str()).unwrap();
            assert!(!remembered[0].gone && remembered[0].removed_by.is_none(), "{remembered:?}");
            let after = world.resources();
            assert_eq!((after.ips.len(), after.volumes.len()), (before.ips.len(), before.volumes.len()));
            assert_eq!(after.servers[0]["state"], "running");
        }
    });
}

#[test]
fn a_local_volume_that_a_user_takes_over_outlives_its_server() {
    let local = |world: &World| {
        let mut specification = world.everything();
        specification.root_volume = RootVolume { kind: VolumeKind::Local, ..RootVolume::default() };
        specification.volumes = vec![];
        specification
    };
    // Before the look of the removal, and between that look and the termination.
    for during in [false, true] {
        run(async {
            let case = format!("during the removal: {during}");
            let world = World::new(123).await;
            let lifecycle = world.start();
            let created = create(&lifecycle, local(&world)).await;
            let id = created.server.volumes["0"].id.clone();
            let slow = FaultKind::Delay(Duration::from_secs(12));
            let slow = FaultRule::new("GET", "/instance/v1/zones/*/servers/*", slow).nth(1);
            if during {
                world.simulator.add_fault(slow).unwrap();
            }
            let take_over = async {
                if during {
                    tokio::time::sleep(Duration::from_secs(6)).await;
                }
                let update = UpdateVolume { tags: Some(vec!["role=web".into()]), ..UpdateVolume::default() };
                world.client.instance(&zone()).update_volume(&id, &update).await.unwrap();
            };
            let removal = async {
                if !during {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let target = Target::Operation(created.operation.clone());
                lifecycle.cleanup(&target, &Control::new()).await.unwrap()
            };
            let (cleaned, ()) = tokio::join!(removal, take_over);
            assert!(cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
            assert_only(&world, &[&id], &case);
            assert_eq!(world.resources().volumes[0]["tags"], json!(["role=web"]), "{case}");
            // Neither does a sweep take it.
            lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
            assert_only(&world, &[&id], &case);
        });
    }
}

// --- What a listing leaves out ---------------------------------------------------------------------------------------

/// Under it, lists of servers leave one out and lower their total: one was deleted and one created between two pages.
struct ShortListing {
    below: Arc<dyn Transport>,
    left_out: Arc<Mutex<Option<String>>>,
}

impl Transport for ShortListing {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let listing = request.method() == http::Method::GET && request.uri().path().ends_with("/servers");
        let left_out = self.left_out.lock().clone().filter(|_| listing);
        let answer = self.below.send(request);
        async move {
            let answer = answer.await?;
            let Some(left_out) = left_out else { return Ok(answer) };
            let (mut parts, body) = answer.into_parts();
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            let servers = body["servers"].as_array_mut().unwrap();
            servers.retain(|server| server["id"] != left_out.as_str());
            parts.headers.insert("x-total-count", servers.len().to_string().parse().unwrap());
            parts.headers.remove("content-length");
            Ok(http::Response::from_parts(parts, body.to_string().into()))
        }
        .boxed()
    }
}

#[test]
fn a_server_that_one_listing_left_out_keeps_its_addresses_and_volumes() {
    run(async {
        let world = World::new(109).await;
        let left_out = Arc::new(Mutex::new(None));
        let transport = ShortListing { below: world.simulator.transport(), left_out: Arc::clone(&left_out) };
        let client = Client::with_transport(settings(), Arc::new(transport)).unwrap();
        let lifecycle = process(client, world.folder.path(), 1);
        let created = create(&lifecycle, world.everything()).await;
        *left_out.lock() = Some(created.server.id.clone());
        let sweep = lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.cleanups.is_empty(), "{sweep:?}");
        world.assert_complete("a short listing").await;
        let server = world.client.instance(&zone()).get_server(&created.server.id).await.unwrap();
        assert_eq!(server.public_ips.len(), 2);
        // Neither in a state directory that knows nothing of it, whatever is attached to it.
        let folder = tempfile::tempdir().unwrap();
        let transport = ShortListing { below: world.simulator.transport(), left_out };
        let stranger = process(Client::with_transport(settings(), Arc::new(transport)).unwrap(), folder.path(), 5);
        let sweep = stranger.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.cleanups.is_empty(), "{sweep:?}");
        world.assert_complete("a short listing, and no journal").await;
    });
}

/// Under it, the first removals of addresses meet a conflict.
struct Conflicts {
    below: Arc<dyn Transport>,
    left: Mutex<u32>,
    body: &'static str,
}

impl Transport for Conflicts {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let removal = request.method() == http::Method::DELETE && request.uri().path().contains("/ips/");
        let mut left = self.left.lock();
        if !removal || *left == 0 {
            return self.below.send(request);
        }
        *left -= 1;
        let answer = http::Response::builder().status(409).header("content-type", "application/json");
        let answer = answer.body(Bytes::from_static(self.body.as_bytes())).unwrap();
        async move { Ok(answer) }.boxed()
    }
}

#[test]
fn a_conflict_of_a_removal_is_asked_again_as_often_as_a_refused_precondition() {
    run(async {
        for body in ["", r#"{"message": "try again later"}"#, r#"{"type": "conflict", "message": "in use"}"#] {
            let world = World::new(126).await;
            let transport = Conflicts { below: world.simulator.transport(), left: Mutex::new(4), body };
            let client = Client::with_transport(settings(), Arc::new(transport)).unwrap();
            let lifecycle = process(client, world.folder.path(), 1);
            let mut specification = world.everything();
            specification.addresses.truncate(1);
            let created = create(&lifecycle, specification).await;
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{body}: {}", cleaned.report.words());
            world.assert_empty(body);
        }
    });
}

/// Under it, Scaleway has a new word for the type of block volumes; and it may keep them out of its old APIs.
struct NewVolumeType {
    below: Arc<dyn Transport>,
    hidden: bool,
}

fn with_new_word(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| match value {
            Value::String(word) if key == "volume_type" && word == "sbs_volume" => *word = "sbs_of_tomorrow".into(),
            other => with_new_word(other),
        }),
        Value::Array(items) => items.iter_mut().for_each(with_new_word),
        _ => {}
    }
}

impl Transport for NewVolumeType {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let hidden = self.hidden && request.uri().path().contains("/block/v1/zones/fr-par-1/volumes/");
        let answer = self.below.send(request);
        async move {
            if hidden {
                let body = json!({"type": "not_found", "resource": "volume", "message": "resource is not found"});
                let answer = http::Response::builder().status(404).header("content-type", "application/json");
                return Ok(answer.body(body.to_string().into()).unwrap());
            }
            let (mut parts, body) = answer.await?.into_parts();
            let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
                return Ok(http::Response::from_parts(parts, body));
            };
            with_new_word(&mut value);
            parts.headers.remove("content-length");
            Ok(http::Response::from_parts(parts, value.to_string().into()))
        }
        .boxed()
    }
}

fn under_new_volume_type(world: &World, hidden: bool) -> Lifecycle {
    let transport = NewVolumeType { below: world.simulator.transport(), hidden };
    process(Client::with_transport(settings(), Arc::new(transport)).unwrap(), world.folder.path(), 1)
}

#[test]
fn a_volume_of_an_unknown_type_is_found_in_the_api_that_holds_it() {
    run(async {
        let world = World::new(121).await;
        let lifecycle = under_new_volume_type(&world, false);
        let created = create(&lifecycle, world.everything()).await;
        let volumes = &world.resources().volumes;
        assert!(volumes.iter().all(|volume| !volume["tags"].as_array().unwrap().is_empty()), "{volumes:?}");
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("of an unknown type");
    });
}

#[test]
fn a_volume_of_an_unknown_type_that_no_api_shows_is_left_with_its_id() {
    run(async {
        let world = World::new(122).await;
        let lifecycle = under_new_volume_type(&world, true);
        let mut specification = world.everything();
        specification.volumes.clear();
        let error = lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        let Error::Failed(failed) = &error else { panic!("{error}") };
        assert!(failed.cause.message.contains("sbs_of_tomorrow"), "{error}");
        let volume = world.resources().volumes[0]["id"].as_str().unwrap().to_owned();
        let left: Vec<&str> = failed.report.left.iter().map(|left| left.resource.id.as_str()).collect();
        assert_eq!(left, [&volume], "{}", failed.report.words());
        assert_eq!(failed.state, OperationState::Left);
        assert!(world.resources().servers.is_empty() && world.resources().ips.is_empty());
        // Once an API shows it, it goes.
        drop(lifecycle);
        let resumed = world.start().resume(&Control::new()).await.unwrap();
        assert!(resumed.is_clean(), "{resumed:?}");
        world.assert_empty("shown again");
    });
}

#[test]
fn a_volume_of_an_unknown_type_that_cannot_be_read_is_left_with_its_id() {
    run(async {
        let world = World::new(124).await;
        let lifecycle = under_new_volume_type(&world, false);
        let mut specification = world.everything();
        specification.volumes.clear();
        let created = create(&lifecycle, specification).await;
        let volume = world.resources().volumes[0]["id"].as_str().unwrap().to_owned();
        let unread = FaultRule::new("GET", "/block/v1/zones/*/volumes/*", FaultKind::PermissionDenied);
        world.simulator.add_fault(unread).unwrap();
        let target = Target::Operation(created.operation);
        let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
        let left: Vec<&str> = cleaned.report.left.iter().map(|left| left.resource.id.as_str()).collect();
        assert!(left.contains(&volume.as_str()), "{}", cleaned.report.words());
        world.simulator.clear_faults();
        let resumed = lifecycle.resume(&Control::new()).await.unwrap();
        assert!(resumed.is_clean(), "{resumed:?}");
        world.assert_empty("read again");
    });
}

#[test]
fn a_volume_of_an_unknown_type_that_was_removed_before_is_not_left() {
    run(async {
        let world = World::new(125).await;
        let lifecycle = under_new_volume_type(&world, false);
        let created = create(&lifecycle, world.everything()).await;
        for time in ["first", "second"] {
            let target = Target::Operation(created.operation.clone());
            let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{time}: {}", cleaned.report.words());
            world.assert_empty(time);
        }
    });
}

#[test]
fn one_wrong_not_found_at_any_read_hides_nothing_that_is_left() {
    run(async {
        for nth in 1..=8 {
            let world = World::new(123).await;
            let lifecycle = world.start();
            let mut specification = world.everything();
            specification.addresses.truncate(1);
            let created = create(&lifecycle, specification).await;
            // No list shows it, and it cannot be removed.
            world.simulator.set_behaviour("tag-filter-empty".parse().unwrap()).unwrap();
            let path = "/instance/v1/zones/*/ips/*";
            world.simulator.add_fault(FaultRule::new("DELETE", path, FaultKind::PermissionDenied)).unwrap();
            world.simulator.add_fault(FaultRule::new("GET", path, FaultKind::NotFound).nth(nth)).unwrap();
            let target = Target::Operation(created.operation.clone());
            let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            let words = cleaned.report.words();
            assert!(!cleaned.report.is_clean() && world.resources().ips.len() == 1, "{nth}: {words}");
        }
    });
}

#[test]
fn a_server_that_no_journal_explains_is_spared_in_every_state_unless_asked_for() {
    for state in ["running", "stopped", "stopped in place", "starting", "stopping", "locked"] {
        run(async {
            let mut world = World::new(110).await;
            let created = create(&world.start(), world.everything()).await;
            let forced: ForcedState = state.parse().unwrap();
            world.simulator.set_server_state(&created.server.id, forced).unwrap();
            world.folder = tempfile::tempdir().unwrap();
            let lifecycle = process(world.client.clone(), world.folder.path(), 5);
            let sweep = lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
            assert!(sweep.cleanups.is_empty(), "{state}: {sweep:?}");
            assert_eq!(sweep.unexplained.len(), 5, "{state}: {sweep:?}");
            assert!(sweep.unexplained.iter().all(|found| found.spared.is_some()), "{state}: {sweep:?}");
            assert_eq!(world.resources().count(), 6, "{state}");
            if !["starting", "stopping", "locked"].contains(&state) {
                let mut all = sweep_of_all();
                all.running_too = true;
                let sweep = lifecycle.sweep(&all, &Control::new()).await.unwrap();
                assert!(sweep.is_clean(), "{state}: {sweep:?}");
                world.assert_empty(state);
            }
        });
    }
}

#[test]
fn a_sweep_journals_what_it_removes_and_nothing_else() {
    run(async {
        let world = World::new(111).await;
        let lifecycle = world.start();
        let stays = create(&lifecycle, world.everything()).await;
        let goes = create(&lifecycle, world.everything()).await;
        world.simulator.set_server_state(&goes.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let sweep = lifecycle.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.is_clean() && sweep.cleanups.len() == 1, "{sweep:?}");
        let row = lifecycle.journal().operation(&sweep.cleanups[0].operation).unwrap().specification.to_string();
        for volume in stays.server.volumes.values() {
            assert!(!row.contains(&volume.id), "{} is explained: {row}", volume.id);
        }
    });
}

// --- What was called off, and what was kept --------------------------------------------------------------------------

#[test]
fn a_creation_that_was_called_off_and_then_killed_is_undone_by_the_next_start() {
    run(async {
        let world = World::new(112).await;
        let lifecycle = world.start();
        // The undo's first look hangs; there the process dies.
        world
            .simulator
            .add_fault(FaultRule::new("GET", "/instance/v1/zones/*/ips", FaultKind::Delay(Duration::from_secs(20))))
            .unwrap();
        let (control, mut events) = Control::with_events();
        let death = async {
            while let Some(Event { what, .. }) = events.recv().await {
                if matches!(&what, EventKind::StepBegan { step } if step == "wait-until-running") {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            control.cancel();
            tokio::time::sleep(Duration::from_secs(2)).await;
        };
        tokio::select! {
            result = lifecycle.create_server(world.everything(), &control) => panic!("it ended before: {result:?}"),
            () = death => {}
        }
        world.simulator.clear_faults();
        drop(lifecycle);
        let next = world.start();
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations.len(), 1);
        assert_eq!(resumed.operations[0].state, OperationState::Undone, "{resumed:?}");
        world.assert_empty("called off");
    });
}

/// A creation that fails for its deadline, under a policy that keeps the volumes then. Gives its local root volume.
async fn fail_and_keep(world: &World, lifecycle: &Lifecycle, faults: Vec<FaultRule>) -> (Error, String) {
    let mut specification = world.everything();
    specification.root_volume = RootVolume { kind: VolumeKind::Local, ..RootVolume::default() };
    specification.volumes = vec![];
    specification.deadline_milliseconds = 60_000;
    let (control, mut events) = Control::with_events();
    let simulator = world.simulator.clone();
    let hold = async move {
        let mut faults = faults;
        while let Some(Event { what, .. }) = events.recv().await {
            match what {
                EventKind::StepBegan { step } if step == "wait-until-running" => {
                    let id = simulator.resources().servers[0]["id"].as_str().unwrap().to_owned();
                    simulator.set_server_state(&id, ForcedState::Starting).unwrap();
                    // It stays there past the deadline, and runs when it is to be removed.
                    for fault in faults.drain(..) {
                        simulator.add_fault(fault).unwrap();
                    }
                }
                EventKind::Undoing { .. } => {
                    for server in simulator.resources().servers {
                        simulator.set_server_state(server["id"].as_str().unwrap(), ForcedState::Running).unwrap();
                    }
                }
                _ => {}
            }
        }
    };
    let creating = async {
        let error = lifecycle.create_server(specification, &control).await.unwrap_err();
        drop(control);
        error
    };
    let (error, ()) = tokio::join!(creating, hold);
    let resources = world.resources();
    let local = resources.volumes.iter().find(|volume| volume["volume_type"] == "l_ssd");
    let local = local.unwrap_or_else(|| panic!("the kept volume is gone: {error}: {}", brief(&resources)));
    (error, local["id"].as_str().unwrap().to_owned())
}

fn keeping(world: &World, policies: &Path) -> Lifecycle {
    let host = host_in(policies);
    let link = Link::bytes(KEEP_VOLUMES_FOR_INSPECTION.bytes);
    host.configure(&Policies::built_in().with(SlotName::Rollback, link)).unwrap();
    world.start_under(host)
}

#[test]
fn a_local_volume_that_was_kept_is_not_terminated_with_its_server_by_a_later_round() {
    run(async {
        let world = World::new(113).await;
        let policies = tempfile::tempdir().unwrap();
        let lifecycle = keeping(&world, policies.path());
        // The first round's power-off is refused; a later round finds the volume spared and the server still there.
        let refused =
            FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied).nth(1);
        let (error, local) = fail_and_keep(&world, &lifecycle, vec![refused]).await;
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.state, OperationState::Kept, "{failure}");
        assert!(failure.report.kept.iter().any(|kept| kept.id == local), "{failure}");
        assert_only(&world, &[&local], "kept");
    });
}

#[test]
fn a_local_volume_that_was_kept_survives_the_sweep_of_its_server() {
    run(async {
        let world = World::new(119).await;
        let policies = tempfile::tempdir().unwrap();
        let lifecycle = keeping(&world, policies.path());
        // Neither does the server go, nor can the volume be marked.
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
        let unmarkable = FaultRule::new("PATCH", "/instance/v1/zones/*/volumes/*", FaultKind::PermissionDenied);
        let (error, local) = fail_and_keep(&world, &lifecycle, vec![refused, unmarkable]).await;
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.state, OperationState::Left, "{failure}");
        world.simulator.clear_faults();
        drop(lifecycle);
        // Swept before anybody has resumed it, under policies that keep nothing.
        let sweep = world.start().sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.is_clean() && sweep.cleanups.len() == 1, "{sweep:?}");
        assert_only(&world, &[&local], "swept");
    });
}

#[test]
fn what_was_kept_stays_kept_over_a_resume_and_a_sweep_also_when_it_could_not_be_marked() {
    run(async {
        let world = World::new(114).await;
        let policies = tempfile::tempdir().unwrap();
        let lifecycle = keeping(&world, policies.path());
        let unmarkable = FaultRule::new("PATCH", "/instance/v1/zones/*/volumes/*", FaultKind::PermissionDenied);
        let (error, local) = fail_and_keep(&world, &lifecycle, vec![unmarkable]).await;
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert!(failure.report.kept.iter().any(|kept| kept.id == local), "{failure}");
        world.simulator.clear_faults();
        let volume = world.client.instance(&zone()).get_volume(&local).await.unwrap();
        assert!(!volume.tags.iter().any(|tag| tag == "windlass-kept"), "it could be marked: {:?}", volume.tags);
        drop(lifecycle);
        let next = world.start();
        next.resume(&Control::new()).await.unwrap();
        let sweep = next.sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.cleanups.is_empty(), "{sweep:?}");
        assert_only(&world, &[&local], "kept");
    });
}

#[test]
fn what_a_cleanup_kept_is_spared_by_the_sweep_though_it_could_not_be_marked() {
    run(async {
        let world = World::new(116).await;
        let lifecycle = world.start();
        let created = create(&lifecycle, world.everything()).await;
        let boot = created.server.volumes["0"].id.clone();
        drop(lifecycle);
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // As a cleanup leaves it whose policy kept the boot volume, and that was not allowed to mark it.
        let cleanup = "ci-0mfmj460ttaa";
        let journal = rusqlite::Connection::open(world.folder.path().join("journal.sqlite")).unwrap();
        let row = "insert into streams (family, id, fence, document)
             select family, ?1, fence, json_set(document, '$.id', ?1, '$.kind', 'cleanup-server', '$.state', 'kept',
                 '$.specification', json('{\"creation\": null, \"server\": null}'),
                 '$.report', json('{\"removed\": [], \"kept\": [], \"left\": []}'))
             from streams where id = ?2";
        journal.execute(row, [cleanup, created.operation.as_str()]).unwrap();
        let ended = "update streams set document = json_set(document, '$.ended_by', ?1) where id = ?2";
        journal.execute(ended, [cleanup, created.operation.as_str()]).unwrap();
        let kept = "insert into entries (family, id, document)
             values ('operation', ?1, json_object('step', 'kept', 'phase', 'note', 'data', json('{}'), 'at', 1,
                 'resource', json_object('kind', 'block-volume', 'id', ?2, 'zone', 'fr-par-1')))";
        journal.execute(kept, [cleanup, boot.as_str()]).unwrap();
        drop(journal);
        let sweep = world.start().sweep(&sweep_of_all(), &Control::new()).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_eq!(sweep.kept.iter().map(|name| name.id.as_str()).collect::<Vec<_>>(), [boot.as_str()]);
        assert_only(&world, &[&boot], "kept");
    });
}

#[test]
fn a_double_that_a_good_creation_could_not_remove_is_the_sweeps() {
    run(async {
        let world = World::new(117).await;
        let lifecycle = world.start();
        let lost = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::DroppedConnection);
        world.simulator.add_fault(lost.nth(1)).unwrap();
        let stuck = FaultRule::new("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::PermissionDenied);
        world.simulator.add_fault(stuck).unwrap();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let tags = vec![
            "windlass-owner=team".to_owned(),
            "windlass-group=ci".to_owned(),
            format!("windlass-operation={}", pending.id()),
        ];
        let late = async {
            // The first call's effect, long after its connection was lost and the call sent again.
            tokio::time::sleep(Duration::from_secs(4)).await;
            world.client.instance(&zone()).create_ip(&CreateIp { tags, ..CreateIp::default() }).await.unwrap().id
        };
        let control = Control::new();
        let (created, double) = tokio::join!(pending.run(&control), late);
        created.unwrap();
        world.simulator.clear_faults();
        assert_eq!(world.resources().ips.len(), 3, "the double is still there");
        let sweep = lifecycle.sweep(&sweep_of_all(), &control).await.unwrap();
        assert_eq!(sweep.unexplained.iter().map(|found| found.resource.id.as_str()).collect::<Vec<_>>(), [&double]);
        assert!(sweep.is_clean(), "{sweep:?}");
        world.assert_complete("without its double").await;
    });
}

#[test]
fn a_creation_reads_nothing_again_and_a_removal_costs_one_read_more_for_each_deletion() {
    run(async {
        let world = World::new(118).await;
        let lifecycle = world.start();
        // Reads of servers are polls as well, whose number depends on how long a server takes to start or go.
        let calls = || {
            let requests = world.simulator.requests();
            let is_server = |path: &str| path.contains("/servers/") || path.ends_with("/servers");
            let counted = requests.iter().filter(|request| request.method != "GET" || !is_server(&request.path));
            let text: Vec<String> = counted.map(|request| format!("{} {}", request.method, request.path)).collect();
            world.simulator.clear_requests();
            text
        };
        calls();
        let created = create(&lifecycle, world.everything()).await;
        let creating = calls();
        // Two addresses, a volume that is then read, a server, its two volumes' tags, a NIC, the cloud-init and the
        // power-on, after an image was looked up.
        assert_eq!(creating.iter().filter(|call| !call.starts_with("GET")).count(), CREATING, "{creating:#?}");
        assert!(creating.len() <= CREATING + 4, "{creating:#?}");
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        let removing = calls();
        // One action; two addresses and two volumes, each read to plan, read and deleted, and read once at the end.
        assert!(removing.len() <= 1 + 4 * 4, "{} calls: {removing:#?}", removing.len());
    });
}

#[test]
fn a_clone_that_carries_copied_tags_is_listed_as_nobodys_machine() {
    run(async {
        let world = World::new(77).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let clone = clone_of(&world, &created.server, true).await;
        let machines = lifecycle.machines(&[zone()], None).await.unwrap();
        let machine = |id: &str| machines.iter().find(|machine| machine.id == id).unwrap();
        let operation = Some(created.operation.clone());
        assert_eq!((&machine(&created.server.id).operation, &machine(&created.server.id).copy_of), (&operation, &None));
        assert_eq!((&machine(&clone.id).operation, &machine(&clone.id).copy_of), (&None, &operation));
        // Nor is it taken for the original where that has gone.
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(lifecycle.find_created(&zone(), &created.operation).await.unwrap().map(|server| server.id), None);
    });
}

#[test]
fn a_journal_that_cannot_be_read_at_the_end_leaves_what_was_made_and_says_so() {
    run(async {
        let world = World::new(61).await;
        let lifecycle = world.start();
        let lost = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::DroppedConnection);
        world.simulator.add_fault(FaultRule { nth: Some(1), effect: Effect::After, ..lost }).unwrap();
        let (control, mut events) = Control::<Event>::with_events();
        let journal = rusqlite::Connection::open(world.folder.path().join("journal.sqlite")).unwrap();
        let spoil = async {
            while let Some(event) = events.recv().await {
                if matches!(event.what, EventKind::StepDone { step, .. } if step == "power-on") {
                    journal
                        .execute(
                            "update entries set document = '\"?\"' where document ->> '$.step' = 'create-server'",
                            [],
                        )
                        .unwrap();
                }
            }
        };
        let create = async {
            let control = control;
            lifecycle.create_server(world.everything(), &control).await
        };
        let (created, ()) = tokio::join!(create, spoil);
        let error = created.unwrap_err();
        let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        let Aftermath::Left(left) = error.aftermath() else { panic!("{error}") };
        assert!(left.iter().any(|left| left.resource.id == server), "{left:?}");
    });
}
