//! How many calls a removal makes, and which of them it must not save.

use windlass_lifecycle::{Asking, Control, CreatedServer, Lifecycle, ReleaseOutcome, RequestedBy, Target};
use windlass_simulator::{FaultKind, FaultRule, ForcedState, RequestRecord};

use crate::support::{World, run};

const SERVERS: &str = "/instance/v1/zones/*/servers/*";

/// A server with a volume and an address, made by a process that has looked around in the zone before.
async fn created(world: &World, lifecycle: &Lifecycle) -> CreatedServer {
    let mut specification = world.everything();
    specification.addresses.truncate(1);
    specification.volumes.clear();
    specification.private_networks.clear();
    let first = lifecycle.create_server(specification.clone(), &Control::new()).await.unwrap();
    lifecycle.cleanup(&Target::Operation(first.operation), &Control::new()).await.unwrap();
    let created = lifecycle.create_server(specification, &Control::new()).await.unwrap();
    world.simulator.clear_requests();
    created
}

/// The calls to a path that ends so, in their order.
fn calls_to(world: &World, end: &str) -> Vec<RequestRecord> {
    let mut calls = world.simulator.requests();
    calls.retain(|call| call.path.ends_with(end));
    calls
}

/// Method and status of each.
fn outline(calls: &[RequestRecord]) -> Vec<(&str, u16)> {
    calls.iter().map(|call| (call.method.as_str(), call.status.unwrap_or_default())).collect()
}

#[test]
fn a_released_server_costs_sixteen_calls() {
    run(async {
        let world = World::new(131).await;
        let lifecycle = world.start();
        let created = created(&world, &lifecycle).await;
        let release = Target::Operation(created.operation).released_by(RequestedBy::default(), Asking::default());
        let released = lifecycle.release(release, &Control::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Terminated, "{released:?}");
        world.assert_empty("released");
        // What goes with the server: read to plan, read to delete, deleted, and read once at the end.
        let parts = [created.server.public_ips[0].id.as_str(), created.server.volumes["0"].id.as_str()];
        for part in parts {
            let calls = calls_to(&world, part);
            assert_eq!(outline(&calls), [("GET", 200), ("GET", 200), ("DELETE", 204), ("GET", 404)], "{part}");
            assert!(calls[3].at_ms >= calls[2].at_ms + 1_000, "the same moment proves nothing: {calls:?}");
        }
        // The judgement's read is the plan's as well; the second one is of the step that terminates. The looks that
        // wait for the end are four, and one more proves it.
        let calls = world.simulator.requests();
        let text: Vec<String> = calls.iter().map(|call| format!("{} {}", call.method, call.path)).collect();
        let action = calls.iter().position(|call| call.path.ends_with("/action")).unwrap();
        let server = created.server.id.as_str();
        assert_eq!(calls[..action].iter().filter(|call| call.path.ends_with(server)).count(), 2, "{text:#?}");
        assert_eq!(calls.len(), 16, "{text:#?}");
    });
}

#[test]
fn an_accepted_deletion_and_one_look_prove_that_a_server_is_gone() {
    run(async {
        let world = World::new(132).await;
        let lifecycle = world.start();
        let created = created(&world, &lifecycle).await;
        world.simulator.set_server_state(&created.server.id, ForcedState::Stopped).unwrap();
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("deleted");
        let calls = calls_to(&world, &created.server.id);
        assert_eq!(outline(&calls), [("GET", 200), ("GET", 200), ("DELETE", 204), ("GET", 404)]);
        assert!(calls[3].at_ms >= calls[2].at_ms + 1_000, "the same moment proves nothing: {calls:?}");
    });
}

#[test]
fn an_accepted_termination_and_one_wrong_look_prove_nothing() {
    run(async {
        let world = World::new(133).await;
        let lifecycle = world.start();
        let created = created(&world, &lifecycle).await;
        // The first look after the termination: the server is still there.
        world.simulator.add_fault(FaultRule::new("GET", SERVERS, FaultKind::NotFound).nth(3)).unwrap();
        let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("terminated");
        let calls = calls_to(&world, &created.server.id);
        assert!(calls.iter().any(|call| call.fault.is_some()), "no wrong answer: {calls:?}");
        let last = calls.last().unwrap();
        assert!(last.status == Some(404) && last.fault.is_none(), "it was not looked at again: {calls:?}");
    });
}

#[test]
fn a_deletion_that_was_not_accepted_takes_two_looks() {
    for kind in [FaultKind::NotFound, FaultKind::MalformedBody] {
        run(async {
            let world = World::new(134).await;
            let lifecycle = world.start();
            let created = created(&world, &lifecycle).await;
            let path = "/instance/v1/zones/*/ips/*";
            // The deletion has no effect, and the look that follows is wrong.
            world.simulator.add_fault(FaultRule::new("DELETE", path, kind).nth(1)).unwrap();
            world.simulator.add_fault(FaultRule::new("GET", path, FaultKind::NotFound).nth(3)).unwrap();
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{kind}: {}", cleaned.report.words());
            world.assert_empty("deleted at last");
            let calls = calls_to(&world, &created.server.public_ips[0].id);
            assert_eq!(calls.iter().filter(|call| call.fault.is_some()).count(), 2, "{kind}: {calls:?}");
        });
    }
}
