use crate::support::{IMPATIENT, World};

#[test]
fn power_on_answers_500_and_everything_is_undone_with_exit_code_1() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    let ran = world.create("2").expect(1).says("error: 2 of 2 servers could not be created").says("power-on");
    assert!(ran.stderr.contains("undone"), "{}", ran.stderr);
    let document = ran.json();
    assert_eq!(document["error"]["exit_code"], 1);
    assert_eq!(document["servers"].as_array().unwrap().len(), 0);
    let failure = &document["failures"][0];
    assert_eq!(failure["step"], "power-on");
    assert_eq!(failure["cause"]["status"], 500);
    assert_eq!(failure["report"]["left"].as_array().unwrap().len(), 0);
    assert_eq!(world.resources(), 0);
    // The journal tells it, too.
    let id = failure["operation"].as_str().unwrap();
    let shown = world.json(&["operation", "show", id]);
    assert_eq!(shown["operation"]["state"], "undone");
    assert_eq!(shown["operation"]["cause"]["failure"]["status"], 500);
    let listed = world.run(&["operation", "list"]).expect(0).stdout;
    assert!(listed.contains("undone") && listed.contains("power-on: "), "{listed}");
}

#[test]
fn where_only_some_servers_were_created_the_exit_code_is_3_and_those_that_run_are_listed() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    let rule = r#"{"method":"POST","path":"/instance/v1/zones/*/servers","kind":"quota-exceeded","nth":2}"#;
    world.control("POST", "faults", rule);
    let ran = world.create("2").expect(3).says("error: 1 of 2 servers could not be created").says("LEFT");
    let document = ran.json();
    let (created, left) = (&document["servers"], &document["error"]["left"]);
    assert_eq!((created.as_array().unwrap().len(), left.as_array().unwrap().len()), (1, 1));
    assert_eq!(created[0]["id"], left[0]["id"]);
}

#[test]
fn what_cannot_be_undone_is_listed_with_exit_code_3_and_the_next_start_ends_it() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.fault("DELETE", "/instance/v1/zones/*/ips/*", "internal-server-error");
    let ran = world.create("1").expect(3).says("LEFT").says("windlass operation resume");
    let document = ran.json();
    assert_eq!(document["error"]["left"][0]["kind"], "ip");
    assert_eq!(world.resources(), 1);
    world.control("DELETE", "faults", "");
    world.run(&["operation", "resume"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_server_of_somebody_else_is_neither_listed_nor_deleted() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let id = created["servers"][0]["id"].as_str().unwrap();
    // Another owner, by another state directory.
    let other = world.home.path().join("other");
    let other = other.to_str().unwrap();
    let listed = world.json(&["server", "list", "--state-dir", other]);
    assert_eq!(listed["servers"].as_array().unwrap().len(), 0);
    world.run(&["server", "delete", "--yes", id, "--state-dir", other]).expect(1).says("there is no server");
    let swept = world.json(&["sweep", "--yes", "--state-dir", other, "--older-than", "0s", "--running-too"]);
    assert_eq!(swept["unexplained"].as_array().unwrap().len(), 0);
    assert_eq!(world.resources(), 3);
}

#[test]
fn what_a_lost_journal_explained_is_found_by_the_sweep() {
    let world = World::new("50");
    world.configure("owner = 'ci-team'\n");
    let created = world.create("1").expect(0).json();
    let id = created["servers"][0]["id"].as_str().unwrap();
    let other = world.home.path().join("other");
    let other = ["--state-dir", other.to_str().unwrap(), "--older-than", "0s"];
    let dry = world.json(&[&["sweep", "--dry-run", "--running-too"], &other[..]].concat());
    assert_eq!(dry["unexplained"].as_array().unwrap().len(), 3);
    assert_eq!(world.resources(), 3);
    // A running server is more likely in use than lost.
    world.run(&[&["sweep", "--yes"], &other[..]].concat()).expect(0);
    assert_eq!(world.resources(), 3);
    world.run(&[&["sweep", "--yes", "--running-too"], &other[..]].concat()).expect(0);
    assert_eq!(world.resources(), 0, "{id}");
}

#[test]
fn a_call_that_may_still_take_effect_is_told_with_exit_code_3_until_it_was_looked_for_again() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/ips", "gateway-timeout");
    let ran = world.create("1").expect(3).says("may still take effect").says("windlass operation resume");
    let document = ran.json();
    assert_eq!(document["error"]["left"][0]["kind"], "unverified");
    let id = document["failures"][0]["operation"].as_str().unwrap();
    let look_at = document["failures"][0]["report"]["look_at"].as_str().unwrap();
    let shown = world.json(&["operation", "show", id]);
    assert_eq!(shown["operation"]["state"], "unverified");
    assert_eq!(shown["operation"]["look_at"], look_at);
    world.run(&["operation", "show", id]).expect(0);
    let listed = world.run(&["operation", "list", "--open"]).expect(0).stdout;
    assert!(listed.contains(id) && listed.contains("unverified"), "{listed}");
    // Too early to look again: it is said once more.
    let resumed =
        world.run(&["operation", "resume", "--output", "json"]).expect(3).says("may still take effect").json();
    assert_eq!(resumed["unverified"][0]["operation"], id);
    assert_eq!(resumed["operations"].as_array().unwrap().len(), 0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn new_work_does_not_wait_for_what_is_left() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let locked = created["servers"][0]["id"].as_str().unwrap();
    world.control("POST", &format!("servers/{locked}/state"), r#"{"state":"locked"}"#);
    world.run(&["server", "delete", "--yes", locked]).expect(3).says("locked by Scaleway");
    world.control("DELETE", "requests", "");
    let ran = world.create("1").expect(0);
    assert_eq!(ran.json()["servers"].as_array().unwrap().len(), 1);
    let requests = world.control("GET", "requests", "");
    let about = |request: &serde_json::Value| request["path"].as_str().is_some_and(|path| path.contains(locked));
    let about_it = requests.as_array().unwrap().iter().filter(|request| about(request)).count();
    assert!(about_it < 20, "{about_it} calls about a server that nobody can remove");
    // A person who asks gets a try at once.
    world.run(&["operation", "resume"]).expect(3).says("locked by Scaleway");
}

/// Whatever it costs to find out that nothing can be made here, it is paid once.
#[test]
fn a_creation_that_sends_nothing_leaves_nothing_that_later_commands_pay_for() {
    const SOME_IMAGE: &str = "11111111-0000-4000-8000-000000000001";
    let world = World::new("50");
    world.configure(IMPATIENT);
    world.fault("*", "/**", "permission-denied");
    for (case, more) in [
        ("every call is forbidden", vec!["--image", "ubuntu_noble"]),
        ("no image is looked up", vec!["--image", SOME_IMAGE]),
        ("nobody listens there", vec!["--image", "ubuntu_noble", "--api-url", "http://127.0.0.1:1"]),
        (
            "nobody listens there, and no image is looked up",
            vec!["--image", SOME_IMAGE, "--api-url", "http://127.0.0.1:1"],
        ),
    ] {
        let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--output", "json"];
        let ran = world.run(&[&create[..], &more].concat());
        assert_eq!(ran.code, 1, "{case}: {}", ran.stderr);
        let ran = ran.says("nothing was made");
        assert_eq!(ran.json()["error"]["left"].as_array().unwrap().len(), 0, "{case}");
        let open = world.json(&["operation", "list", "--open"]);
        assert_eq!(open["operations"].as_array().unwrap().len(), 0, "{case}: {open}");
        assert_eq!(world.resources(), 0, "{case}");
    }
    world.control("DELETE", "faults", "");
    let before = world.json(&["operation", "list"]);
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    world.run(&[&create[..], &["--zone", "fr-par-9"]].concat()).expect(2).says("no servers in a zone fr-par-9");
    assert_eq!(world.json(&["operation", "list"]), before, "it was not begun");
}
