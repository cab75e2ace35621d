//! Images of the project's own, by name or tag: the newest that can be used.

use std::time::Duration;

use windlass_lifecycle::{Control, Error, ImageChoice};
use windlass_policy::slots::types::FailureClass;
use windlass_simulator::{FaultKind, FaultRule, RequestRecord};

use crate::support::{World, run, zone};

/// Makes an image of a server, with this tag, as somebody who builds images does.
async fn build(world: &World, server: &str, name: &str, tag: &str) -> String {
    let call = |method: &'static str, path: String, body: String| {
        let client = world.client.clone();
        async move {
            let answer = client.send_raw(method, &path, Some(body.into())).await.unwrap();
            assert!(answer.status < 300, "{method} {path}: {}", answer.status);
            serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()
        }
    };
    let place = format!("/instance/v1/zones/{}", zone());
    let body = format!(r#"{{"action":"backup","name":"{name}"}}"#);
    let task = call("POST", format!("{place}/servers/{server}/action"), body).await;
    let id = task["task"]["href_result"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    call("PATCH", format!("{place}/images/{id}"), format!(r#"{{"tags":["{tag}"]}}"#)).await;
    id
}

#[test]
fn each_creation_uses_the_newest_image_of_a_name_or_tag_that_is_available() {
    for by_tag in [false, true] {
        run(async {
            let world = World::new(1).await;
            let lifecycle = world.start();
            let control = Control::new();
            let base = lifecycle.create_server(world.everything(), &control).await.unwrap().server.id;
            let mut wanted = world.everything();
            wanted.image = if by_tag { ImageChoice::Tag("ci".into()) } else { ImageChoice::Name("ci-image".into()) };
            let Err(Error::Failed(failure)) = lifecycle.create_server(wanted.clone(), &control).await else {
                panic!("there is none")
            };
            assert_eq!((failure.step.as_str(), failure.cause.class), ("resolve-image", FailureClass::NotFound));
            assert!(failure.cause.message.contains("the project has no available image"), "{failure}");
            assert!(failure.report.removed.is_empty(), "{failure}");

            let first = build(&world, &base, "ci-image", "ci").await;
            build(&world, &base, "ci-image-2", "ci-2").await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            let image = |server: windlass_scaleway::types::instance::Server| server.image.unwrap().id;
            let used = image(lifecycle.create_server(wanted.clone(), &control).await.unwrap().server);
            assert_eq!(used, first, "by tag: {by_tag}");

            let second = build(&world, &base, "ci-image", "ci").await;
            // It is being made: not yet.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let again = image(world.start().create_server(wanted.clone(), &control).await.unwrap().server);
            assert_eq!(again, first, "by tag: {by_tag}");
            tokio::time::sleep(Duration::from_secs(600)).await;
            let used = image(lifecycle.create_server(wanted, &control).await.unwrap().server);
            assert_eq!(used, second, "by tag: {by_tag}");
        });
    }
}

#[test]
fn an_image_that_was_deleted_costs_one_creation_and_not_those_of_five_minutes() {
    run(async {
        let world = World::new(2).await;
        let lifecycle = world.start();
        let control = Control::new();
        let base = lifecycle.create_server(world.everything(), &control).await.unwrap().server.id;
        let first = build(&world, &base, "ci-image", "ci").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let second = build(&world, &base, "ci-image", "ci").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mut wanted = world.everything();
        wanted.image = ImageChoice::Tag("ci".into());
        lifecycle.create_server(wanted.clone(), &control).await.unwrap();
        world.client.send_raw("DELETE", &format!("/instance/v1/zones/{}/images/{second}", zone()), None).await.unwrap();
        assert!(lifecycle.create_server(wanted.clone(), &control).await.is_err(), "the answer of before still serves");
        let created = lifecycle.create_server(wanted, &control).await.unwrap();
        assert_eq!(created.server.image.unwrap().id, first);
    });
}

#[test]
fn many_creations_ask_once_which_image_is_the_newest_and_a_failed_answer_is_not_kept() {
    run(async {
        let world = World::new(3).await;
        let lifecycle = world.start();
        let control = Control::new();
        let base = lifecycle.create_server(world.everything(), &control).await.unwrap().server.id;
        build(&world, &base, "ci-image", "ci").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mut wanted = world.everything();
        wanted.image = ImageChoice::Name("ci-image".into());
        world.simulator.clear_requests();
        let refused = FaultRule::new("GET", "/instance/v1/zones/*/images", FaultKind::PermissionDenied);
        world.simulator.add_fault(refused.nth(1)).unwrap();
        assert!(lifecycle.create_server(wanted.clone(), &control).await.is_err());
        for created in lifecycle.create_servers(&wanted, 5, &control).await {
            created.unwrap();
        }
        let lists =
            |path: &str| world.simulator.requests().iter().filter(|request| request.path.ends_with(path)).count();
        assert_eq!(lists("/images"), 2);
    });
}

#[test]
fn looks_before_many_creations_read_the_zone_and_the_image_once() {
    run(async {
        let world = World::new(4).await;
        let lifecycle = world.start();
        let wanted = world.everything();
        let slow = FaultRule::new("GET", "/**", FaultKind::Delay(Duration::from_millis(100)));
        world.simulator.add_fault(slow).unwrap();
        let looks = (0..20).map(|_| lifecycle.account_problems(&wanted, 0));
        for problems in futures::future::join_all(looks).await {
            assert!(problems.is_empty(), "{problems:?}");
        }
        let reads = |path: &str, page: &str| {
            let is_page = |read: &&RequestRecord| read.path.ends_with(path) && read.query.ends_with(page);
            world.simulator.requests().iter().filter(is_page).count()
        };
        assert_eq!(["/products/servers", "/availability"].map(|path| reads(path, "&page=2")), [1; 2]);
        for created in lifecycle.create_servers(&wanted, 5, &Control::new()).await {
            created.unwrap();
        }
        assert_eq!(reads("/local-images", ""), 1);
    });
}
