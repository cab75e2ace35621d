//! `windlass policy audit`: what a policy would decide about the machines that exist, without any effect.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_lifecycle::{Control, Lifecycle, Options, Pool, RequestedBy, Requester, StateDirectory};
use windlass_policy::{Host, HostOptions};
use windlass_scaleway::{Client, Settings};

use crate::support::{STATE, World, eventually};

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
    assert_eq!(group["machines"][0]["group"], "ci");
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
    world
        .run(&["policy", "audit", &fails, "--fail-on-destructive"])
        .expect(1)
        .says("the policy fails about 2 machines");
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
    world.run(&["policy", "audit", &dear]).expect(1).says("the machines cannot be listed");
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
    assert!(shown.contains("no machines of group other in"), "{shown}");
}

#[test]
fn what_is_not_about_existing_servers_is_refused_with_a_remedy() {
    let world = world();
    let retries = rules(&world, "retries", "retry", "when = \"attempt > 3\"\nanswer = \"give-up\"");
    let refused = world.run(&["policy", "audit", &retries]).expect(2);
    refused.says("a policy of retry cannot be audited").says("windlass policy diff default");
    let keep = rules(&world, "keep", "release", KEEP_BUILD);
    world.run(&["policy", "audit", &keep, "--slot", "retry"]).expect(2).says("it decides release");
}

/// Claims a Mac of a pool, as a runner plugin with the same state directory does.
#[tokio::main(flavor = "current_thread")]
async fn claim(world: &World, claim: &str, group: &str) {
    let settings = Settings::new("11111111-1111-1111-1111-111111111111".parse().unwrap());
    let client = Client::new(settings.with_api_url(&world.url).unwrap()).unwrap();
    let state = StateDirectory::open(&world.home.path().join(STATE)).unwrap();
    let host = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
    let mut options = Options::new(client, Arc::new(host), state);
    options.limits.claim_settle = std::time::Duration::ZERO;
    let lifecycle = Lifecycle::open(options).unwrap();
    let (zone, prefix) = ("fr-par-1".parse().unwrap(), "pool-".parse().unwrap());
    let pool = Pool { zone, prefix, machine_type: "M4-S".to_owned(), operating_system: None };
    let requested_by = RequestedBy::new(Requester::Runner, "").of_group(&group.parse().unwrap());
    lifecycle.adopt_machine(&pool, &claim.parse().unwrap(), &requested_by, &Control::new()).await.unwrap();
}

#[test]
fn the_macs_of_a_runner_group_are_asked_about_with_their_group_and_pool() {
    let world = world();
    let macs = "/apple-silicon/v1alpha1/zones/fr-par-1/servers";
    for name in ["pool-1", "pool-2", "somebody-elses"] {
        let project = "22222222-2222-2222-2222-222222222222";
        world.call("POST", macs, &json!({ "name": name, "type": "M4-S", "project_id": project }).to_string());
    }
    world.control("POST", "clock", &json!({ "advance_ms": 3_600_000 }).to_string());
    eventually("the Macs are ready", || {
        let listed = world.call("GET", macs, "");
        let servers = listed["servers"].as_array().unwrap();
        servers.iter().all(|mac| mac["status"] == "ready").then_some(())
    });
    claim(&world, "ci-macs-1", "macs");
    claim(&world, "other-1", "other");
    let rule = "when = \"subject.group == 'macs' && machine.pool_prefix == 'pool-'\"\n\
        answer = \"terminate\"\nreason = \"no Mac goes back\"";
    let terminates = rules(&world, "terminates", "release", rule);
    let audit = world.json(&["policy", "audit", &terminates]);
    assert_eq!((&audit["servers"], &audit["macs"], &audit["without_price"]), (&3.into(), &2.into(), &0.into()));
    let group = &audit["groups"][0];
    assert_eq!((&group["before"], &group["after"]), (&"return-to-pool".into(), &"terminate".into()), "{audit}");
    assert_eq!((&group["count"], &group["machines"][0]["name"]), (&1.into(), &"ci-macs-1".into()), "{audit}");
    let shown = world.run(&["policy", "audit", &terminates, "--group", "macs"]).expect(0);
    assert!(shown.stdout.contains("1 Mac of group macs in fr-par-1"), "{}", shown.stdout);
    shown.says("the command does not know `release_requested` of a runner group");
    let rule = "when = \"'M4-S' in server_types\"\nanswer = { mapped = { report = \"deleted\", action = \"none\" } }";
    let audit = world.json(&["policy", "audit", &rules(&world, "forgets", "state-mapping", rule)]);
    assert_eq!((&audit["groups"][0]["after"], &audit["groups"][0]["destructive"]), (&"deleted".into(), &true.into()));
    assert_eq!((&audit["groups"][0]["count"], &audit["same"]), (&2.into(), &3.into()), "{audit}");
}
