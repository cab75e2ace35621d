//! What an operation does where it cannot see: it ends what it can, and says the rest.

use std::time::Duration;

use tokio::time::Instant;
use windlass_lifecycle::{
    Aftermath, CleanedUp, Control, CreatedServer, Error, ImageChoice, Lifecycle, OperationFailure, OperationState,
    Target,
};
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{World, run};

/// The lists of the kinds that an undo looks at.
const LISTS: [&str; 4] = [
    "/instance/v1/zones/*/servers",
    "/instance/v1/zones/*/ips",
    "/instance/v1/zones/*/volumes",
    "/block/v1/zones/*/volumes",
];

/// What Scaleway answers that is of no use to anybody, whatever is asked.
const ANSWERS: [FaultKind; 2] = [FaultKind::PermissionDenied, FaultKind::NotFound];

impl World {
    fn always(&self, method: &str, path: &str, kind: FaultKind) {
        self.simulator.add_fault(FaultRule::new(method, path, kind)).unwrap();
    }

    /// How often one of these was called.
    fn calls(&self, method: &str, paths: &[&str]) -> usize {
        let ends_so = |path: &str| paths.iter().any(|it| path.ends_with(it.rsplit('/').next().unwrap_or(it)));
        let requests = self.simulator.requests();
        requests.iter().filter(|request| request.method == method && ends_so(&request.path)).count()
    }
}

fn failure_of(result: Result<CreatedServer, Error>) -> Box<OperationFailure> {
    match result {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

async fn cleaned(lifecycle: &Lifecycle, created: CreatedServer) -> CleanedUp {
    lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap()
}

#[test]
fn a_creation_that_began_no_effect_made_nothing_and_looks_for_nothing() {
    for kind in ANSWERS {
        for image in ["ubuntu_noble", "11111111-0000-4000-8000-000000000001"] {
            let case = format!("{kind} to every call, image {image}");
            run(async {
                let world = World::new(81).await;
                let lifecycle = world.start();
                world.always("*", "/**", kind);
                let mut specification = world.everything();
                specification.image = ImageChoice::parse(image);
                let began = Instant::now();
                let failure = failure_of(lifecycle.create_server(specification, &Control::new()).await);
                assert_eq!(failure.state, OperationState::Undone, "{case}: {failure}");
                assert_eq!(failure.report.aftermath(), Aftermath::Clean, "{case}");
                assert!(failure.to_string().contains("nothing was made"), "{case}: {failure}");
                assert!(began.elapsed() < Duration::from_secs(5), "{case}: {:?}", began.elapsed());
                // What Scaleway refuses is believed, but looked for where it can be.
                let refused = usize::from(image != "ubuntu_noble") * 3;
                assert!(world.calls("GET", &LISTS) <= refused, "{case}: it looked for what it never made");
                world.simulator.clear_requests();
                let resumed = lifecycle.resume(&Control::new()).await.unwrap();
                assert_eq!(resumed.operations.len(), 0, "{case}: {resumed:?}");
                assert_eq!(world.simulator.requests().len(), 0, "{case}: a later command pays for it");
                world.assert_closed(&lifecycle, &case);
            });
        }
    }
}

#[test]
fn what_the_journal_names_goes_though_no_list_can_be_read() {
    for kind in [FaultKind::PermissionDenied, FaultKind::InternalServerError, FaultKind::NotFound] {
        let case = format!("lists answer {kind}");
        run(async {
            let world = World::new(82).await;
            let lifecycle = world.start();
            for list in LISTS {
                world.always("GET", list, kind);
            }
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            let cleaned = cleaned(&lifecycle, created).await;
            assert!(cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
            world.assert_empty(&case);
            // The same of a creation that fails at its end.
            world.always("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
            let failure = failure_of(lifecycle.create_server(world.everything(), &Control::new()).await);
            assert_eq!(failure.state, OperationState::Undone, "{case}: {failure}");
            assert!(!failure.nothing_was_made, "{case}: {failure}");
            world.assert_empty(&case);
            world.assert_closed(&lifecycle, &case);
        });
    }
}

#[test]
fn what_a_lost_answer_may_have_made_keeps_the_operation_open_while_its_list_cannot_be_read() {
    run(async {
        let world = World::new(83).await;
        let lifecycle = world.start();
        world.always("GET", "/instance/v1/zones/*/ips", FaultKind::PermissionDenied);
        let lost = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::DroppedConnection);
        world.simulator.add_fault(FaultRule { effect: Effect::After, ..lost.nth(2) }).unwrap();
        let failure = failure_of(lifecycle.create_server(world.everything(), &Control::new()).await);
        assert_eq!(failure.state, OperationState::Left, "{failure}");
        let why = failure.report.unverified.clone().unwrap();
        assert!(why.contains("list-ips") && failure.report.left.is_empty(), "{failure}");
        assert_eq!(failure.report.removed.len(), 1, "the address that was answered is gone: {failure}");
        assert_eq!(world.resources().ips.len(), 1);
        world.simulator.clear_faults();
        assert!(lifecycle.resume(&Control::new()).await.unwrap().is_clean());
        world.assert_empty("the list can be read again");
    });
}

#[test]
fn a_part_that_cannot_be_read_is_left_and_the_others_go() {
    for (path, left) in [("/instance/v1/zones/*/ips/*", 2), ("/block/v1/zones/*/volumes/*", 2)] {
        run(async {
            let world = World::new(84).await;
            let lifecycle = world.start();
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            world.always("GET", path, FaultKind::PermissionDenied);
            let cleaned = cleaned(&lifecycle, created).await;
            assert_eq!(cleaned.report.left.len(), left, "{path}: {}", cleaned.report.words());
            let why = &cleaned.report.left[0].why;
            assert!(why.contains("cannot check whether") && why.contains("403"), "{path}: {why}");
            let there = world.resources();
            assert_eq!((there.servers.len(), there.count()), (0, left), "{path}");
            world.simulator.clear_faults();
            assert!(lifecycle.resume(&Control::new()).await.unwrap().is_clean());
            world.assert_empty(path);
        });
    }
}

#[test]
fn nothing_is_taken_off_a_server_that_cannot_be_read() {
    run(async {
        let world = World::new(85).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let before = world.resources().count();
        world.always("GET", "/instance/v1/zones/*/servers/*", FaultKind::InternalServerError);
        let cleaned = cleaned(&lifecycle, created).await;
        assert_eq!((world.resources().count(), cleaned.report.removed.len()), (before, 0));
        // A NIC is not named beside its server.
        assert_eq!(cleaned.report.left.len(), before - 1, "{}", cleaned.report.words());
    });
}
