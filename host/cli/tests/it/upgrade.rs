//! States that older revisions left in the middle of their work (`tests/upgrade/frozen`), opened by this program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{STATE, World};

const PROJECT: &str = "22222222-2222-2222-2222-222222222222";
/// As the older ones were configured, by `tests/upgrade/state.py`.
const CONFIGURATION: &str = "owner = 'upgrade'\n[policies.retry]\n\
    settings = { attempts = 2, undo-attempts = 2, base-ms = 1, cap-ms = 1, transient-ms = 1 }\n";
/// How long ago the older program was killed, here: the second look is due, and nothing is so old that it is pruned.
const AGE: i64 = 3_600_000;

fn frozen() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/upgrade/frozen");
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 2, "{all:?}");
    all
}

fn document(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn texts<'v>(value: &'v Value, key: &str) -> Vec<&'v str> {
    value.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

/// What was at Scaleway, made again; and the ids that it has now, by those that it had.
fn make_again(world: &World, was: &Value) -> BTreeMap<String, String> {
    let mut ids = BTreeMap::new();
    let zone = "/instance/v1/zones/fr-par-1";
    for ip in was["ips"].as_array().unwrap() {
        let body = json!({ "project": PROJECT, "type": ip["type"], "tags": ip["tags"] });
        let made = world.call("POST", &format!("{zone}/ips"), &body.to_string());
        ids.insert(text(&ip["id"]), text(&made["ip"]["id"]));
    }
    let label = "/marketplace/v2/local-images?image_label=ubuntu_noble&zone=fr-par-1&type=instance_sbs";
    let images = world.call("GET", label, "");
    let image = images["local_images"].as_array().unwrap().iter().find(|image| image["arch"] == "x86_64").unwrap();
    let image = text(&image["id"]);
    for server in was["servers"].as_array().unwrap() {
        ids.insert(text(&server["image"]), image.clone());
        let ips: Vec<_> = server["public_ips"].as_array().unwrap().iter().map(|ip| ids[&text(ip)].clone()).collect();
        let body = json!({
            "project": PROJECT, "name": server["name"], "commercial_type": server["commercial_type"],
            "image": image, "tags": server["tags"], "public_ips": ips, "dynamic_ip_required": false,
        });
        let made = &world.call("POST", &format!("{zone}/servers"), &body.to_string())["server"];
        ids.insert(text(&server["id"]), text(&made["id"]));
        for (was, is) in server["volumes"].as_array().unwrap().iter().zip(made["volumes"].as_object().unwrap().values())
        {
            ids.insert(text(was), text(&is["id"]));
        }
        if server["state"] == "running" {
            let action = format!("{zone}/servers/{}/action", text(&made["id"]));
            world.call("POST", &action, r#"{"action": "poweron"}"#);
        }
    }
    for volume in was["volumes"].as_array().unwrap() {
        let path = format!("/block/v1/zones/fr-par-1/volumes/{}", ids[&text(&volume["id"])]);
        world.call("PATCH", &path, &json!({ "tags": volume["tags"] }).to_string());
    }
    ids
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Instants in milliseconds: thirteen digits, and nothing beside them that would make them a part of an id.
fn instants(text: &str) -> Vec<(usize, i64)> {
    let is_of_a_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for at in 0..bytes.len().saturating_sub(12) {
        let digits = &bytes[at..at + 13];
        let alone = !is_of_a_word(at.checked_sub(1).map(|before| &bytes[before])) && !is_of_a_word(bytes.get(at + 13));
        if alone && digits.iter().all(u8::is_ascii_digit) {
            found.push((at, text[at..at + 13].parse().unwrap()));
        }
    }
    found
}

/// A text with each instant this much later.
fn later(text: &str, by: i64) -> String {
    let mut moved = text.to_owned();
    for (at, instant) in instants(text) {
        moved.replace_range(at..at + 13, &(instant + by).to_string());
    }
    moved
}

/// Lays a frozen state into a world, as if its program had been killed an hour ago.
fn thaw(folder: &Path) -> World {
    let world = World::new("100");
    world.configure(CONFIGURATION);
    let ids = make_again(&world, &document(folder, "resources.json"));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let journal = read(&folder.join("journal.sql"));
    // The second look is planned for later than all that has happened.
    let events = journal.lines().filter(|line| line.starts_with("INSERT INTO \"entries\""));
    let newest = events.flat_map(instants).map(|(_, instant)| instant).max().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let by = i64::try_from(now.as_millis()).unwrap() - AGE - newest;
    let thawed = |path: &Path| {
        let moved = later(&read(path), by);
        ids.iter().fold(moved, |text, (was, is)| text.replace(was, is))
    };
    let state = world.home.path().join(STATE);
    std::fs::create_dir_all(state.join("decisions")).unwrap();
    for name in ["journal", "clusters"] {
        let database = rusqlite::Connection::open(state.join(format!("{name}.sqlite"))).unwrap();
        // Tables come in the order of their names: some refer to one that comes later.
        database.pragma_update(None, "foreign_keys", false).unwrap();
        database.execute_batch(&thawed(&folder.join(format!("{name}.sql")))).unwrap();
    }
    for entry in std::fs::read_dir(folder.join("decisions")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::write(state.join("decisions").join(path.file_name().unwrap()), thawed(&path)).unwrap();
    }
    world
}

#[test]
fn what_older_revisions_left_is_read_finished_and_not_lost() {
    for folder in frozen() {
        println!("{}", folder.display());
        let told = document(&folder, "told.json");
        let world = thaw(&folder);

        // Looking changes nothing, and shows all that the older one has shown.
        let before = world.json(&["operation", "list"]);
        let states = |listed: &Value| -> BTreeMap<String, String> {
            let operations = listed["operations"].as_array().unwrap().iter();
            operations.map(|operation| (text(&operation["id"]), text(&operation["state"]))).collect()
        };
        let older: BTreeMap<String, String> = states(&told);
        assert_eq!(states(&before), older);
        assert_eq!(older.values().filter(|state| *state == "open").count(), 2, "{older:?}");

        world.run(&["operation", "resume"]).expect(0);
        world.run(&["cluster", "resume"]).expect(0);

        let after = states(&world.json(&["operation", "list"]));
        for (id, state) in &older {
            match state.as_str() {
                "open" => assert!(["done", "undone"].contains(&after[id].as_str()), "{id} is {}", after[id]),
                "unverified" => assert_eq!(after[id], "undone", "{id}"),
                ended => assert_eq!(after[id], ended, "{id}"),
            }
        }
        let decisions = world.json(&["decision", "list", "--limit", "1000"]);
        let now = texts(&decisions["decisions"], "id");
        for id in texts(&told["decisions"], "id") {
            assert!(now.contains(&id), "the decision {id} is lost");
            let shown = world.json(&["decision", "show", id]);
            assert_eq!(shown["id"], id);
        }
        assert_eq!(decisions["unreadable"], 0);

        // Nothing that was given is gone, and of what was never given nothing is left.
        let servers = world.json(&["server", "list"]);
        let names = texts(&servers["servers"], "name");
        for server in told["servers"].as_array().unwrap() {
            let is_open = server["group"] == "open";
            assert!(is_open || names.contains(&server["name"].as_str().unwrap()), "{server} is gone: {names:?}");
        }
        let groups = texts(&servers["servers"], "group");
        assert!(!groups.iter().any(|group| ["failing", "lost"].contains(group)), "{groups:?}");
        let history = world.json(&["cluster", "history", "farm"]);
        let operations: BTreeMap<u64, &Value> = history["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["operation"]["number"].as_u64().unwrap(), &entry["operation"]["state"]))
            .collect();
        assert_eq!(operations.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!(operations[&1] == "done" && operations[&2] != "open", "{operations:?}");

        // The user goes on.
        world.run(&["cluster", "terminate", "farm", "--yes"]).expect(0);
        for group in ["web", "open"] {
            let listed = world.json(&["server", "list", "--group", group]);
            if !texts(&listed["servers"], "id").is_empty() {
                world.run(&["server", "delete", "--group", group, "--yes"]).expect(0);
            }
        }
        assert_eq!(world.resources(), 0);
    }
}

#[test]
fn what_a_newer_version_has_migrated_is_refused_with_both_versions_and_stays_as_it_is() {
    let folder = frozen().pop().unwrap();
    for (file, commands) in [
        ("journal.sqlite", [["operation", "list"].as_slice(), &["operation", "resume"], &["server", "list"]]),
        ("clusters.sqlite", [["cluster", "list"].as_slice(), &["cluster", "resume"], &["cluster", "status", "farm"]]),
    ] {
        let world = thaw(&folder);
        let state = world.home.path().join(STATE);
        let database = rusqlite::Connection::open(state.join(file)).unwrap();
        let known: i64 = database.query_row("pragma user_version", [], |row| row.get(0)).unwrap();
        database.pragma_update(None, "user_version", 99).unwrap();
        drop(database);
        let requests = world.control("GET", "requests", "").as_array().unwrap().len();
        let untouched = std::fs::read(state.join(file)).unwrap();
        for command in commands {
            let ran = world.run(command);
            assert_ne!(ran.code, 0, "{command:?}");
            for version in [99, known] {
                assert!(ran.stderr.contains(&version.to_string()), "{command:?}: no {version} in {}", ran.stderr);
            }
            assert!(std::fs::read(state.join(file)).unwrap() == untouched, "{command:?} has changed {file}");
        }
        let changing = world.control("GET", "requests", "");
        let sent = changing.as_array().unwrap()[requests..].iter().filter(|request| request["method"] != "GET");
        assert_eq!(sent.count(), 0, "{changing}");
    }
}
