//! Why a server is gone, as the journal tells it.

use windlass_lifecycle::{
    Control, KnownServer, Lifecycle, OperationFilter, OperationKind, RequestedBy, Requester, SweepRequest, Target,
};
use windlass_simulator::{FaultKind, FaultRule, ForcedState};

use crate::support::{World, run, zone};

fn known(lifecycle: &Lifecycle, text: &str) -> KnownServer {
    let known = lifecycle.journal().known_servers(text).unwrap();
    assert_eq!(known.len(), 1, "{text}: {known:?}");
    known.into_iter().next().unwrap()
}

/// The creations whose servers are there, as far as the journal knows.
fn there(lifecycle: &Lifecycle) -> usize {
    let mut filter = OperationFilter::default();
    filter.kind = Some(OperationKind::CreateServer);
    filter.not_ended = true;
    lifecycle.journal().operations(&filter).unwrap().len()
}

#[test]
fn a_removed_server_is_found_by_id_name_and_address_with_who_asked() {
    run(async {
        let world = World::new(61).await;
        let lifecycle = world.start();
        let control = Control::new();
        let mut specification = world.everything();
        specification.name = Some("web".into());
        let created = lifecycle.create_server(specification, &control).await.unwrap();
        assert!(known(&lifecycle, "web").removed_by.is_none());
        let why = RequestedBy::new(Requester::Runner, "the runner no longer wants it");
        let target = Target::Operation(created.operation.clone());
        let pending = lifecycle.begin_cleanup(target.requested_by(why.clone())).await.unwrap();
        let id = pending.id().clone();
        let journalled = lifecycle.journal().operation(&id).unwrap();
        assert_eq!(journalled.requested_by().as_ref(), Some(&why), "it is journalled before anything is removed");
        pending.run(&control).await.unwrap();
        let address = created.server.public_ips.iter().find(|ip| ip.address.contains('.')).unwrap();
        for text in [created.server.id.as_str(), "web", created.operation.as_str(), address.address.as_str()] {
            let gone = known(&lifecycle, text);
            assert_eq!(gone.id.as_deref(), Some(created.server.id.as_str()), "{text}");
            assert_eq!(gone.name(), Some("web"), "{text}");
            let removal = gone.removed_by.unwrap();
            assert_eq!((&removal.id, removal.requested_by().as_ref()), (&id, Some(&why)), "{text}");
        }
        assert!(lifecycle.journal().known_servers("never-there").unwrap().is_empty());
    });
}

#[test]
fn a_failed_creation_says_itself_that_its_server_is_gone() {
    run(async {
        let world = World::new(62).await;
        let lifecycle = world.start();
        world.simulator.add_fault(FaultRule::new("PATCH", "/**/user_data/*", FaultKind::PermissionDenied)).unwrap();
        let mut specification = world.everything();
        specification.name = Some("web".into());
        lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        let gone = known(&lifecycle, "web");
        assert_eq!(gone.removed_by.map(|removal| removal.id), gone.created_by.map(|creation| creation.id));
    });
}

#[test]
fn a_swept_server_ends_the_creation_that_made_it() {
    run(async {
        let world = World::new(63).await;
        let lifecycle = world.start();
        let control = Control::new();
        let created = lifecycle.create_server(world.everything(), &control).await.unwrap();
        let server = created.server.id.clone();
        // Somebody deletes the server; a sweep removes what is left of it.
        world.simulator.set_server_state(&server, ForcedState::Deleted).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let mut request = SweepRequest::new(vec![zone()]);
        request.requested_by = RequestedBy::user("sweep");
        let sweep = lifecycle.sweep(&request, &control).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_eq!(there(&lifecycle), 0, "the journal still lists a server that a sweep saw to be gone");
        let removal = known(&lifecycle, &server).removed_by.unwrap();
        assert_eq!(removal.id, sweep.cleanups[0].operation);
        assert_eq!(removal.requested_by(), Some(RequestedBy::user("sweep")));
        let whys = removal.specification["why"].as_object().unwrap();
        assert_eq!(whys.len(), 4, "each resource has its reason: {whys:?}");
    });
}

#[test]
fn a_server_deleted_by_its_id_ends_the_creation_that_made_it() {
    run(async {
        let world = World::new(64).await;
        let lifecycle = world.start();
        let control = Control::new();
        let created = lifecycle.create_server(world.everything(), &control).await.unwrap();
        let target = Target::Server { zone: zone(), id: created.server.id.clone() };
        lifecycle.cleanup(&target, &control).await.unwrap();
        assert_eq!(there(&lifecycle), 0);
    });
}

#[test]
fn what_cannot_be_removed_for_long_is_tried_for_one_budget_only() {
    run(async {
        let world = World::new(65).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let broken = FaultRule::new("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::InternalServerError);
        world.simulator.add_fault(broken).unwrap();
        world.simulator.clear_requests();
        let target = Target::Operation(created.operation.clone());
        let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
        assert_eq!(cleaned.report.left.len(), 2, "{}", cleaned.report.words());
        let requests = world.simulator.requests();
        let tried = requests.iter().filter(|it| it.method == "DELETE" && it.path.contains("/ips/")).count();
        // Twenty attempts at each address, by the default policy.
        assert!((30..=40).contains(&tried), "{tried} attempts at two addresses");
    });
}
