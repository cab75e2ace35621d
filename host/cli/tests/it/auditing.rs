//! `windlass policy audit`: what a policy would decide about the servers that exist, without any effect.

use serde_json::Value;

use crate::support::World;

/// Two servers of the group `ci` with the tag `team=build`, and one without.
fn world() -> World {
    let world = World::new("100");
    world.configure("[policies]\nlabels = ['team']\n");
    let create = ["server", "create", "--group", "ci", "--image", "ubuntu_noble", "--type", "DEV1-S"];
    world.run(&[&create[..], &["--count", "2", "--tag", "team=build"]].concat()).expect(0);
    world.run(&create).expect(0);
    world
}

fn rules(world: &World, name: &str, slot: &str, rule: &str) -> String {
    let text = format!("slot = \"{slot}\"\n[[rules]]\n{rule}\n");
    world.write(&format!("{name}.rules.toml"), text.as_bytes()).to_str().unwrap().to_owned()
}

const KEEP_BUILD: &str = "when = \"subject.labels.exists(l, l.name == 'team' && l.value == 'build')\"\n\
    answer = \"keep\"\nreason = \"the build team looks at it\"";

#[test]
fn an_audit_tells_what_a_first_policy_would_decide() {
    let world = world();
    let keep = rules(&world, "keep", "release", KEEP_BUILD);
    let before = world.control("GET", "requests", "").as_array().unwrap().len();
    let audit = world.json(&["policy", "audit", &keep]);
    assert_eq!((&audit["servers"], &audit["same"], &audit["slot"]), (&3.into(), &1.into(), &"release".into()));
    let group = &audit["groups"][0];
    assert_eq!((&group["before"], &group["after"]), (&"terminate".into(), &"keep".into()), "{audit}");
    assert_eq!((&group["count"], &group["destructive"]), (&2.into(), &false.into()));
    assert_eq!(group["reason"], "the build team looks at it");
    assert_eq!(group["servers"][0]["group"], "ci");
    let requests = world.control("GET", "requests", "");
    let changes: Vec<&Value> =
        requests.as_array().unwrap().iter().skip(before).filter(|call| call["method"] != "GET").collect();
    assert!(changes.is_empty(), "{changes:?}");
    assert!(world.json(&["decision", "list", "--slot", "release"])["decisions"].as_array().unwrap().is_empty());
    world.run(&["policy", "audit", &keep, "--fail-on-destructive"]).expect(0);
    let shown = world.run(&["policy", "audit", &keep]).expect(0).stdout;
    assert!(shown.contains("terminate -> keep: 2"), "{shown}");
}

#[test]
fn what_would_destroy_comes_first_and_can_fail_the_audit() {
    let world = world();
    let keep = rules(&world, "keep", "release", "when = \"true\"\nanswer = \"keep\"");
    world.configure(&format!("[policies]\nlabels = ['team']\n[[policies.release]]\npath = {keep:?}\n"));
    let rule = "when = \"subject.labels.size() == 0\"\nanswer = \"terminate\"\nreason = \"nobody's\"\n[[rules]]\n\
        when = \"true\"\nanswer = { retry-after = 1000 }";
    let next = rules(&world, "next", "release", rule);
    let shown = world.run(&["policy", "audit", &next]).expect(0).stdout;
    let (destructive, other) = (shown.find("DESTRUCTIVE keep -> terminate: 1"), shown.find("keep -> retry-after: 2"));
    assert!(destructive.is_some() && destructive < other, "{shown}");
    assert!(shown.contains("why: nobody's"), "{shown}");
    world.run(&["policy", "audit", &next, "--fail-on-destructive"]).expect(1);
    // In its own place: the file that is configured, as it is now, and not beside itself.
    let same = world.json(&["policy", "audit", &keep]);
    assert_eq!((&same["same"], &same["groups"]), (&3.into(), &Value::Array(Vec::new())), "{same}");
}

#[test]
fn a_policy_that_fails_is_no_pass() {
    let world = world();
    let rule = "when = \"subject.labels.exists(l, int(l.value) > 7)\"\nanswer = \"keep\"";
    let fails = rules(&world, "fails", "release", rule);
    let audit = world.json(&["policy", "audit", &fails]);
    assert_eq!(audit["failed"][0]["count"], 2, "{audit}");
    world.run(&["policy", "audit", &fails, "--fail-on-destructive"]).expect(1).says("the policy fails about 2 servers");
}

#[test]
fn prices_that_are_not_known_are_told_and_fail_an_audit_that_must_be_harmless() {
    let world = world();
    let rule = "when = \"machine.price_per_hour != null && machine.price_per_hour.micros > 1000\"\nanswer = \"keep\"";
    let dear = rules(&world, "dear", "release", rule);
    let shown = world.run(&["policy", "audit", &dear, "--fail-on-destructive"]).expect(0).stdout;
    assert!(shown.contains("terminate -> keep: 3"), "{shown}");
    world.fault("GET", "/instance/v1/zones/*/products/**", "internal-server-error");
    let audit = world.json(&["policy", "audit", &dear]);
    assert_eq!((&audit["same"], &audit["without_price"]), (&3.into(), &3.into()), "{audit}");
    let refused = world.run(&["policy", "audit", &dear, "--fail-on-destructive"]).expect(1);
    refused.says("the prices are not known of 3 servers");
    world.fault("GET", "/instance/v1/zones/*/servers", "internal-server-error");
    world.run(&["policy", "audit", &dear]).expect(1).says("the servers cannot be listed");
}

#[test]
fn an_audit_of_state_mapping_sees_what_would_be_reaped() {
    let world = world();
    let rule = "when = \"!('team=build' in server.watched_tags)\"\n\
        answer = { mapped = { report = \"running\", action = \"reap\" } }";
    let reaps = rules(&world, "reaps", "state-mapping", rule);
    let audit = world.json(&["policy", "audit", &reaps]);
    let group = &audit["groups"][0];
    assert_eq!((&group["after"], &group["count"]), (&"running, reaped".into(), &1.into()), "{audit}");
    assert_eq!(group["destructive"], true);
    assert_eq!(world.json(&["policy", "audit", &reaps, "--group", "other"])["servers"], 0);
    let shown = world.run(&["policy", "audit", &reaps, "--group", "other"]).expect(0).stdout;
    assert!(shown.contains("0 servers of group other in"), "{shown}");
}

#[test]
fn what_is_not_about_existing_servers_is_refused_with_a_remedy() {
    let world = world();
    let retries = rules(&world, "retries", "retry", "when = \"attempt > 3\"\nanswer = \"give-up\"");
    let refused = world.run(&["policy", "audit", &retries]).expect(2);
    refused.says("is about what happens, not about what exists").says("windlass policy diff default");
    let keep = rules(&world, "keep", "release", KEEP_BUILD);
    world.run(&["policy", "audit", &keep, "--slot", "retry"]).expect(2).says("it decides release");
}
