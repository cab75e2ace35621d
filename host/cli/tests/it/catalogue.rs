//! What servers can be created from, and what people type when they look for it.

use crate::support::World;

#[test]
fn types_images_and_zones_are_listed_as_the_options_take_them() {
    let world = World::new("50");
    let types = world.json(&["type", "list"]);
    let types = types["types"].as_array().unwrap();
    let prices: Vec<f64> = types.iter().map(|one| one["hourly_price"].as_f64().unwrap()).collect();
    assert!(prices.len() > 5 && prices.is_sorted(), "the cheapest first: {prices:?}");
    let some = world.json(&["type", "list", "--arch", "arm64", "--in-stock"]);
    let some = some["types"].as_array().unwrap();
    assert!(!some.is_empty() && some.len() < types.len());
    assert!(some.iter().all(|one| one["arch"] == "arm64" && one["stock"] != "shortage"), "{some:?}");
    world.run(&["type", "list", "--zone", "fr-par-9"]).expect(2).says("windlass zone list");

    let images = world.run(&["image", "list", "-o", "name"]).expect(0).stdout;
    let (image, server_type) = (images.lines().last().unwrap(), types[0]["name"].as_str().unwrap());
    world.run(&["server", "create", "--group", "ci", "--type", server_type, "--image", image]).expect(0);
    assert_eq!(world.json(&["image", "list", "--own"])["images"], serde_json::json!([]));

    let zones = world.json(&["zone", "list", "--zone", "fr-par-2"]);
    let default = zones["zones"].as_array().unwrap().iter().find(|zone| zone["default"] == true).unwrap();
    assert_eq!((&default["zone"], &default["region"]), (&"fr-par-2".into(), &"fr-par".into()));
}

#[test]
fn operations_are_listed_by_state() {
    let world = World::new("50");
    world.create("1").expect(0);
    let count = |state: &str| {
        let listed = world.json(&["operation", "list", "--state", state]);
        listed["operations"].as_array().unwrap().len()
    };
    assert_eq!((count("done"), count("undone,left"), count("open,done")), (1, 0, 1));
    world.run(&["operation", "list", "--state", "failed"]).expect(2).says("undone");
}

#[test]
fn what_people_type_out_of_habit_is_answered_with_the_command() {
    let world = World::new("50");
    let version = world.run(&["version"]).expect(0).stdout;
    assert_eq!(version, world.run(&["--version"]).expect(0).stdout);
    for (typed, command) in [
        ("ls", "windlass server list"),
        ("delete", "windlass server delete NAME"),
        ("logs", "windlass operation list"),
        ("login", "windlass init"),
    ] {
        let reported = world.run(&[typed]).expect(2);
        assert!(!reported.stderr.contains("similar"), "{}", reported.stderr);
        reported.says(&format!("to do that, run `{command}`"));
    }
    world.create("1").expect(0);
    let listed = world.json(&["server", "ls"]);
    let name = listed["servers"][0]["name"].as_str().unwrap_or_else(|| panic!("{listed}"));
    world.run(&["server", "get", name]).expect(0);
    world.run(&["server", "create", "--ipv4", "-1"]).expect(2).says("it must be from 0 to 5");
}
