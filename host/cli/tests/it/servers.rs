use serde_json::Value;

use crate::support::{Ran, Running, STATE, World, eventually, new_home};

#[test]
fn servers_are_created_listed_shown_swept_and_deleted() {
    let world = World::new("50");
    let created = world.create("3").expect(0).json();
    let servers = created["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 3);
    assert!(servers.iter().all(|server| server["state"] == "running" && server["addresses"][0].is_string()));
    assert_eq!(created["failures"].as_array().unwrap().len(), 0);

    let listed = world.json(&["server", "list", "--group", "ci"]);
    assert_eq!(listed["servers"].as_array().unwrap().len(), 3);
    let table = world.run(&["server", "list"]).expect(0).stdout;
    assert!(table.starts_with("SERVER") && table.lines().count() == 4, "{table}");
    assert!(!table.contains('\u{1b}'), "no colours where there is no terminal: {table:?}");

    let id = servers[0]["id"].as_str().unwrap();
    let shown = world.json(&["server", "show", id]);
    assert_eq!(shown["server"]["id"], id);
    let misspelt = format!("{}x", servers[0]["name"].as_str().unwrap());
    world
        .run(&["server", "show", &misspelt])
        .expect(1)
        .says(&format!("there is no server '{misspelt}'"))
        .says("did you mean '");
    assert_eq!(shown["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(shown["operations"][0]["state"], "done");

    // All of it is explained, so a sweep leaves it alone.
    let swept = world.json(&["sweep", "--yes"]);
    assert_eq!(swept["unexplained"].as_array().unwrap().len(), 0);
    assert_eq!(world.resources(), 9);

    world.run(&["server", "delete", "--yes", servers[0]["name"].as_str().unwrap()]).expect(0);
    assert_eq!(world.resources(), 6);
    let deleted = world.json(&["server", "delete", "--yes", "--group", "ci"]);
    assert_eq!(deleted["servers"].as_array().unwrap().len(), 2);
    assert_eq!(world.resources(), 0);
}

#[test]
fn what_is_left_of_a_deleted_server_goes_by_name_id_operation_and_group() {
    for (seen, by_group) in [("name", false), ("id", false), ("operation", false), ("name", true)] {
        let world = World::new("50");
        let created = world.create("1").expect(0).json();
        let server = &created["servers"][0];
        let delete = ["server", "delete", "--yes", server[seen].as_str().unwrap()];
        let state = format!("servers/{}/state", server["id"].as_str().unwrap());
        world.control("POST", &state, r#"{"state": "deleted"}"#);
        world.until(|resources| resources["servers"].as_array().unwrap().is_empty());
        assert_eq!(world.resources(), 2, "an address and a volume");
        if by_group {
            let planned = world.json(&["server", "delete", "--dry-run", "--group", "ci"]);
            let kinds: Vec<&str> =
                planned["planned"].as_array().unwrap().iter().map(|part| part["kind"].as_str().unwrap()).collect();
            assert!(kinds.contains(&"ip") && kinds.contains(&"block-volume"), "{planned}");
            world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
        } else {
            world.run(&delete).expect(0);
        }
        assert_eq!(world.resources(), 0, "{seen} {by_group}");
        let again = world.run(&delete).expect(0);
        assert!(again.stdout.contains("is gone already"), "{}", again.stdout);
        world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
        let ran = world.run(&["server", "delete", "--yes", "nobody", "nowhere"]).expect(1);
        ran.says("2 servers do not exist").says("there is no server 'nobody'").says("there is no server 'nowhere'");
        world.run(&["server", "delete", "--yes", "nobody"]).expect(1).says("there is no server 'nobody'");
    }
}

/// The commands that would otherwise say that there is nothing, with what each says then.
const NOTHING: [(&[&str], &str); 6] = [
    (&["server", "list"], "no servers"),
    (&["server", "delete", "--yes", "--group", "ci"], "no servers to delete"),
    (&["sweep", "--yes", "--older-than", "0s"], "nothing is unexplained"),
    (&["operation", "list"], "no operations"),
    (&["operation", "resume"], "nothing was left open"),
    (&["cluster", "list"], "no clusters"),
];

#[test]
fn a_lost_state_directory_and_other_owners_are_named_beside_nothing() {
    let world = World::new("50");
    world.create("2").expect(0);
    let owner = std::fs::read_to_string(world.home.path().join(STATE).join("owner")).unwrap();
    let owner = owner.trim();
    let others = format!("2 servers belong to other owners in fr-par-1: owner {owner} (2)");
    // Nothing but compiled policies is in it.
    let other = new_home();
    let lost = other.path().join(STATE);
    for (command, nothing) in NOTHING {
        let reported = world.run(&[command, &["--state-dir", lost.to_str().unwrap()]].concat()).expect(0).stdout;
        let lines: Vec<&str> = reported.lines().filter(|line| line.starts_with("note: ")).collect();
        assert!(reported.starts_with(nothing) && lines.len() == 2, "{command:?}: {reported}");
        assert!(lines[0].contains(&format!("no state was found in {}:", lost.display())), "{command:?}: {reported}");
        assert!(lines[1].contains(&others), "{command:?}: {reported}");
    }
    let named = ["server", "delete", "--yes", "nobody", "--state-dir", lost.to_str().unwrap()];
    world.run(&named).expect(1).says("no state was found in").says(&others);
    let document = world.json(&["server", "list", "--state-dir", lost.to_str().unwrap()]);
    assert_eq!(document["notes"].as_array().map(Vec::len), Some(2), "{document}");
    let doctor = world.run(&["doctor", "--state-dir", lost.to_str().unwrap()]).stdout;
    assert!(doctor.contains("warning  owners") && doctor.contains(&others), "{doctor}");
    // Where there is something, and where all is ours, nothing more is said.
    let usual = world.json(&["server", "list"]);
    assert!(usual.get("notes").is_none() && usual["servers"].as_array().unwrap().len() == 2, "{usual}");
    let swept = world.json(&["sweep", "--yes"]);
    assert!(swept.get("notes").is_none(), "{swept}");
}

#[test]
fn whatever_is_not_found_names_the_lost_state_directory() {
    let world = World::new("50");
    let other = new_home();
    let lost = other.path().join(STATE);
    let lost = ["--state-dir", lost.to_str().unwrap()];
    for command in [
        ["operation", "show", "ci-000000000000"],
        ["operation", "cancel", "ci-000000000000"],
        ["cluster", "status", "farm"],
        ["cluster", "cancel", "farm"],
        ["decision", "show", "0000"],
        ["server", "show", "nobody"],
    ] {
        world.run(&[&command[..], &lost].concat()).expect(1).says("no state was found in");
    }
    for command in [["cluster", "resume"], ["decision", "list"]] {
        let reported = world.run(&[&command[..], &lost].concat()).expect(0).stdout;
        assert!(reported.contains("note: no state was found in"), "{reported}");
    }
}

#[test]
fn a_renamed_server_is_found_and_not_deleted_by_its_former_name() {
    let world = World::new("50");
    let named = ["server", "create", "--name", "web", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    let created = world.json(&named);
    let server = &created["servers"][0];
    let text = |key: &str| server[key].as_str().unwrap();
    let (id, former, address) = (text("id"), text("name"), server["addresses"][0].as_str().unwrap());
    world.call("PATCH", &format!("/instance/v1/zones/fr-par-1/servers/{id}"), r#"{"name": "prod"}"#);
    for seen in [id, former, address, "prod", text("operation")] {
        assert_eq!(world.json(&["server", "show", seen])["server"]["name"], "prod", "{seen}");
    }
    for seen in [id, former, address] {
        assert_eq!(world.json(&["operation", "show", seen])["operation"]["id"], text("operation"), "{seen}");
    }
    let refused = world.run(&["server", "delete", former, "--yes"]).expect(2).says("is called 'prod' now");
    assert!(!refused.stderr.contains(address), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("windlass server delete {id}")), "{}", refused.stderr);
    assert_eq!(world.resources(), 3);
    world.run(&["server", "delete", address, "--yes"]).expect(0);
    for seen in [id, former, address] {
        assert_eq!(world.json(&["operation", "show", seen])["operation"]["kind"], "cleanup-server", "{seen}");
    }
}

#[test]
fn a_server_is_shown_and_deleted_where_the_list_is_forbidden() {
    let world = World::new("50");
    let created = world.create("2").expect(0).json();
    let server = |position: usize, key: &str| created["servers"][position][key].as_str().unwrap().to_owned();
    world.fault("GET", "/instance/v1/zones/*/servers", "permission-denied");
    assert_eq!(world.json(&["server", "show", &server(0, "name")])["server"]["id"], server(0, "id"));
    world.run(&["server", "delete", "--yes", &server(0, "id"), &server(1, "name")]).expect(0);
    assert_eq!(world.resources(), 0);
    // Of what it never knew, the list might have told.
    world.run(&["server", "delete", "--yes", "nobody"]).expect(1).says("the servers cannot be listed");
    // Nobody has to be asked about what is gone.
    let gone = Ran::of(world.command(&["server", "show", &server(0, "id")]).env_remove("SCW_SECRET_KEY")).expect(0);
    assert!(gone.stdout.contains("server delete"), "{}", gone.stdout);
}

#[test]
fn an_owner_that_is_not_the_journals_is_named_beside_nothing() {
    let world = World::new("50");
    world.create("1").expect(0);
    let owner = std::fs::read_to_string(world.home.path().join(STATE).join("owner")).unwrap();
    let owner = owner.trim();
    world.configure("owner = 'somebody-else'\n");
    for (command, nothing) in NOTHING.iter().filter(|(command, _)| command[0] != "operation") {
        let reported = world.run(command).expect(0).stdout;
        let remedy = format!("set owner = {owner:?} in the configuration");
        assert!(reported.starts_with(nothing) && reported.contains(&remedy), "{command:?}: {reported}");
        assert!(reported.contains(&format!("machines of owner {owner} (1)")), "{command:?}: {reported}");
    }
    // The same owner, and another journal: what is too young to judge is no news of this directory.
    world.configure(&format!("owner = '{owner}'\n"));
    let other = new_home();
    let lost = other.path().join(STATE);
    let reported = world.run(&["sweep", "--yes", "--state-dir", lost.to_str().unwrap()]).expect(0).stdout;
    assert!(reported.contains("3 resources not judged") && reported.contains("no state was found in"), "{reported}");
}

#[test]
fn a_server_that_the_release_policy_keeps_is_named_and_stays_until_forced() {
    let world = World::new("50");
    let rules = "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\nreason = \"under audit\"\n";
    let rules = world.write("keep.rules.toml", rules.as_bytes());
    world.configure(&format!("[policies.release]\npath = {rules:?}\n"));
    let created = world.create("1").expect(0).json();
    let id = created["servers"][0]["id"].as_str().unwrap();
    for _ in 0..2 {
        let kept = world.run(&["server", "delete", "--yes", id]).expect(3);
        kept.says("kept as it is").says("under audit").says(&format!("windlass server delete --force {id}"));
        world.run(&["sweep", "--yes"]).expect(0);
        world.run(&["operation", "resume"]).expect(0);
    }
    assert_eq!(world.json(&["server", "list"])["servers"][0]["kept"], true);
    world.run(&["server", "delete", "--yes", "--force", id]).expect(0);
    assert_eq!(world.json(&["server", "list"])["servers"].as_array().unwrap().len(), 0);
}

#[test]
fn a_policy_for_a_slot_that_the_command_line_never_asks_is_refused() {
    let world = World::new("50");
    world.configure("[policies.state-mapping]\n");
    let why = "policies.state-mapping: the command line does not use the slot state-mapping; it uses retry, rollback";
    world.create("1").expect(2).says(why);
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains(why), "{}", doctor.stdout);
}

#[test]
fn a_placement_policy_decides_which_types_the_servers_get() {
    let world = World::new("50");
    let place = |answer: &str| {
        let rules = format!(
            "slot = \"placement\"\n[[rules]]\nwhen = \"place.server_type == 'DEV1-S' && place.servers == 0\"\n\
             answer = \"{answer}\"\nreason = \"small ones are for others\"\n"
        );
        let rules = world.write("placement.rules.toml", rules.as_bytes());
        world.configure(&format!("[policies.placement]\npath = {rules:?}\n"));
    };
    let create = |types: &str| {
        let options =
            ["server", "create", "--group", "ci", "--image", "ubuntu_noble", "--output", "json", "--type", types];
        world.run(&options)
    };
    place("last");
    let created = create("DEV1-S,DEV1-M").expect(0).json();
    assert_eq!(created["servers"][0]["server_type"], "DEV1-M");
    // The rule is about one type; the other is placed as without it.
    assert_eq!(create("DEV1-S").expect(0).json()["servers"][0]["server_type"], "DEV1-S");
    // Now there is one of the group, so that the rule does not hold any more.
    assert_eq!(create("DEV1-S,DEV1-M").expect(0).json()["servers"][0]["server_type"], "DEV1-S");
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let rules = "slot = \"placement\"\n[[rules]]\nwhen = \"true\"\nanswer = \"skip\"\nreason = \"not today\"\n";
    let rules = world.write("placement.rules.toml", rules.as_bytes());
    world.configure(&format!("[policies.placement]\npath = {rules:?}\n"));
    let refused = create("DEV1-S,DEV1-M").expect(1);
    refused.says("not created, as the placement policy decided: not today");
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_group_holds_only_what_this_journal_knows() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let (id, operation) = (&created["servers"][0]["id"], &created["servers"][0]["operation"]);
    let owner = std::fs::read_to_string(world.home.path().join(STATE).join("owner")).unwrap();
    world.configure(&format!("owner = '{}'\n", owner.trim()));
    let other = new_home();
    let lost = other.path().join(STATE);
    let lost = lost.to_str().unwrap();
    let kept = world.run(&["server", "delete", "--yes", "--group", "ci", "--state-dir", lost]).expect(0);
    let delete = format!("to remove it: windlass server delete {}", id.as_str().unwrap());
    for words in ["left alone", &delete, operation.as_str().unwrap()] {
        assert!(kept.stdout.contains(words), "{}", kept.stdout);
    }
    let document = ["server", "delete", "--dry-run", "--group", "ci", "--state-dir", lost];
    assert!(world.json(&document)["notes"].to_string().contains(&delete));
    assert_eq!(world.resources(), 3);
    // Its id says what is meant.
    world.run(&["server", "delete", "--yes", id.as_str().unwrap(), "--state-dir", lost]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_protected_server_is_refused_before_anything_is_touched() {
    let world = World::new("50");
    let created = world.create("2").expect(0).json();
    let (protected, other) = (&created["servers"][0], &created["servers"][1]);
    let path = format!("/instance/v1/zones/fr-par-1/servers/{}", protected["id"].as_str().unwrap());
    world.call("PATCH", &path, r#"{"protected": true}"#);
    for named in [["--group", "ci"].as_slice(), &[protected["name"].as_str().unwrap()]] {
        world
            .run(&[["server", "delete", "--yes"].as_slice(), named].concat())
            .expect(2)
            .says("protected; nothing was touched");
        assert_eq!(world.resources(), 6);
    }
    world.run(&["server", "delete", "--yes", other["name"].as_str().unwrap()]).expect(0);
    world.call("PATCH", &path, r#"{"protected": false}"#);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn what_could_not_be_looked_up_is_listed_with_the_ids_of_the_journal() {
    let world = World::new("50");
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "permission-denied");
    for path in ["/instance/v1/zones/*/servers/*", "/instance/v1/zones/*/ips/*", "/block/v1/zones/*/volumes/*"] {
        world.fault("GET", path, "permission-denied");
    }
    let failed = world.create("1").expect(3);
    let resources = world.control("GET", "resources", "");
    for kind in ["servers", "ips", "volumes"] {
        let id = resources[kind][0]["id"].as_str().unwrap();
        assert!(failed.stderr.contains(id) || failed.stdout.contains(id), "{kind} {id}: {}", failed.stderr);
    }
    assert!(!failed.stderr.contains(" in : "), "{}", failed.stderr);
}

#[test]
fn operations_tell_their_steps_with_intent_before_outcome() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let id = created["servers"][0]["operation"].as_str().unwrap();
    let listed = world.json(&["operation", "list"]);
    assert_eq!(listed["operations"][0]["id"], id);
    assert_eq!(world.json(&["operation", "list", "--open"])["operations"].as_array().unwrap().len(), 0);
    let shown = world.json(&["operation", "show", id]);
    let phases: Vec<&str> = shown["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["step"] == "create-server")
        .map(|entry| entry["phase"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["intent", "outcome"]);
    let text = world.run(&["operation", "show", id]).expect(0).stdout;
    assert!(text.contains("create-server") && text.contains("power-on"), "{text}");
    world.run(&["operation", "show", "ci-000000000000"]).expect(1).says("there is no operation ci-000000000000");
    world.run(&["operation", "resume"]).expect(0);
}

#[test]
fn options_reach_the_server() {
    let world = World::new("50");
    let cloud_init = world.write("cloud-init.yaml", b"#cloud-config\n");
    world
        .run(&[
            "server",
            "create",
            "--group",
            "ci",
            "--type",
            "DEV1-S",
            "--image",
            "ubuntu_noble",
            "--name",
            "runner",
            "--ipv4",
            "1",
            "--ipv6",
            "1",
            "--volume-size",
            "30GB",
            "--extra-volume",
            "block:10GB",
            "--tag",
            "team=ci",
            "--cloud-init",
            cloud_init.to_str().unwrap(),
        ])
        .expect(0);
    let resources = world.control("GET", "resources", "");
    let server = &resources["servers"][0];
    assert_eq!(server["name"], "runner");
    assert!(server["tags"].as_array().unwrap().iter().any(|tag| tag == "team=ci"));
    assert_eq!(resources["ips"].as_array().unwrap().len(), 2);
    let sizes: Vec<u64> =
        resources["volumes"].as_array().unwrap().iter().filter_map(|volume| volume["size"].as_u64()).collect();
    assert!(sizes.contains(&30_000_000_000) && sizes.contains(&10_000_000_000), "{sizes:?}");
    world.run(&["server", "delete", "--yes", "runner"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn what_is_known_wrong_is_refused_before_anything_is_made() {
    const ID: &str = "33333333-3333-4333-8333-333333333333";
    let world = World::new("50");
    let create = |options: &[&str]| {
        let server = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
        world.run(&[&server, options].concat())
    };
    let groups = "/instance/v1/zones/fr-par-1/security_groups";
    let group = world.call("POST", groups, r#"{"name": "web"}"#)["security_group"]["id"].as_str().unwrap().to_owned();
    let (long, tag, elsewhere) = ("n".repeat(126), "t".repeat(4_092), format!("fr-par-2/{ID}"));
    let tags: Vec<&str> = std::iter::repeat_n(["--tag", tag.as_str()], 64).flatten().collect();
    let cases: [(&[&str], &str); 12] = [
        (&["--name", &long, "--count", "12"], "with the numbers of 12 servers it has 129 bytes"),
        (&["--extra-volume", ID, "--count", "2"], "can be attached to only one server, and 2 servers are requested"),
        (&tags, "bytes in all are more than"),
        (&["--private-network", "lan"], "is no id of a private network"),
        (&["--volume-size", "1GB"], "too small for an image of the marketplace, which needs 10 GB; units are GB"),
        (&["--security-group", &elsewhere], "is in fr-par-2, and this is fr-par-1"),
        // What only Scaleway knows.
        (&["--type", "DVE1-M"], "did you mean DEV1-M?"),
        (
            &["--private-network", ID],
            &format!("there is no private network {ID} in fr-par, where fr-par-1 is; there is none"),
        ),
        (&["--security-group", ID], &format!("there is no security group {ID} in fr-par-1; choose from {group} (web)")),
        (&["--extra-volume", ID], "there is no Block Storage volume"),
        (&["--volume-type", "local", "--volume-size", "90GB"], "DEV1-S takes 20 GB of local volumes"),
        (&["--extra-volume", "scratch:100GB"], "DEV1-S has no scratch storage"),
    ];
    for (options, words) in cases {
        create(options).expect(2).says(words);
    }
    let image = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", ID];
    world.run(&image).expect(2).says("there is no image");
    let missing = world.run(&["server", "create", "--cloud-init", "/no/such/file"]).expect(2).says("4 mistakes");
    missing.says("add --type DEV1-S").says("add --image").says("add --group").says("the cloud-init file");
    let long = "n".repeat(129);
    let wrong = ["--private-network", "lan", "--name", &long, "--type", "DVE1-M", "--image", "ubuntu_nobel"];
    let all = world.run(&[&["server", "create", "--group", "ci"][..], &wrong].concat()).expect(2);
    let all = all.says("4 mistakes").says("--private-network: ").says("--name: ");
    let both = all.says("DVE1-M").says("ubuntu_nobel");
    assert!(!both.stderr.contains("operation"), "{}", both.stderr);
    let requests = world.control("GET", "requests", "");
    let made: Vec<&Value> = requests.as_array().unwrap().iter().filter(|request| request["method"] != "GET").collect();
    // The group of this test.
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(world.json(&["operation", "list"])["operations"].as_array().unwrap().len(), 0);
}

#[test]
fn types_in_lower_case_and_ids_as_terraform_prints_them_are_understood() {
    let world = World::new("50");
    let volume = r#"{"name": "data", "perf_iops": 5000, "from_empty": {"size": 5000000000}}"#;
    let volume = world.call("POST", "/block/v1/zones/fr-par-1/volumes", volume);
    let volume = volume["id"].as_str().unwrap();
    world.until(|resources| resources["volumes"][0]["status"] == "available");
    let image =
        world.call("GET", "/marketplace/v2/local-images?image_label=ubuntu_noble&zone=fr-par-1&type=instance_sbs", "");
    let releases = image["local_images"].as_array().unwrap();
    let release = |arch: &str| {
        let release = releases.iter().find(|release| release["arch"] == arch).unwrap();
        format!("fr-par-1/{}", release["id"].as_str().unwrap())
    };
    let other = ["server", "create", "--group", "ci", "--type", "dev1-s", "--image", &release("arm64")];
    world.run(&other).expect(2).says("is for arm64, and DEV1-S is x86_64");
    let image = release("x86_64");
    let attached = format!("fr-par-1/{volume}");
    let options = ["--type", "dev1-s", "--image", &image, "--extra-volume", &attached];
    world.run(&[&["server", "create", "--group", "ci", "--name", "web"], &options[..]].concat()).expect(0);
    let listed = world.json(&["server", "list"]);
    assert_eq!(listed["servers"][0]["server_type"], "DEV1-S");
    let id = listed["servers"][0]["id"].as_str().unwrap();
    world.run(&["server", "show", &format!("fr-par-2/{id}")]).expect(2).says("is in fr-par-2");
    world.run(&["server", "show", &format!("fr-par-1/{id}")]).expect(0);
    world.run(&["server", "delete", "--yes", &format!("fr-par-1/{id}")]).expect(0);
    assert_eq!(world.resources(), 1, "the volume that was there before");
}

#[test]
fn scratch_storage_comes_and_goes_with_its_server() {
    let world = World::new("50");
    let options = ["--type", "H100-1-80G", "--image", "ubuntu_jammy_gpu_os_12", "--zone", "fr-par-2"];
    let create = |scratch: &str| {
        let command = ["server", "create", "--group", "ci", "--extra-volume", scratch];
        world.run(&[&command, &options[..]].concat())
    };
    create("scratch:1601GB").expect(2).says("H100-1-80G takes 1600 GB of scratch storage, and 1601 GB are wanted");
    create("scratch:1600GB").expect(0);
    let volumes = world.control("GET", "resources", "")["volumes"].clone();
    let scratch = volumes.as_array().unwrap().iter().find(|volume| volume["volume_type"] == "scratch");
    let tags = scratch.unwrap_or_else(|| panic!("{volumes}"))["tags"].to_string();
    assert!(tags.contains("windlass-owner="), "{tags}");
    world.run(&["server", "delete", "--yes", "--group", "ci", "--zone", "fr-par-2"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn defaults_for_servers_come_from_the_configuration_and_options_win() {
    let world = World::new("50");
    world.configure("[server]\ntype = 'DEV1-S'\nimage = 'ubuntu_noble'\nipv4 = 0\ntags = ['from-file']\n");
    world.run(&["server", "create", "--group", "ci"]).expect(0);
    let resources = world.control("GET", "resources", "");
    assert_eq!(resources["ips"].as_array().unwrap().len(), 0);
    assert_eq!(resources["servers"][0]["commercial_type"], "DEV1-S");
    world.run(&["server", "create", "--group", "ci", "--type", "DEV1-M"]).expect(0);
    let resources = world.control("GET", "resources", "");
    assert_eq!(resources["servers"][1]["commercial_type"], "DEV1-M");
}

fn start_creation(world: &World) -> Running {
    let arguments = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    Running::start(&mut world.command(&arguments))
}

#[test]
fn an_interrupt_before_the_first_call_that_costs_says_that_nothing_was_made() {
    let world = World::new("1");
    world.fault("GET", "/instance/v1/zones/*/products/**", "delay:60000");
    let create = start_creation(&world);
    let journal = world.home.path().join(STATE).join("journal.sqlite");
    eventually("the command has begun to look", || journal.exists().then_some(()));
    create.signal("TERM");
    create.end().expect(130).says("interrupted: nothing was made");
    assert_eq!(world.json(&["operation", "list"])["operations"].as_array().unwrap().len(), 0);
}

#[test]
fn a_server_of_another_owner_or_zone_or_a_lost_journal_is_named_so() {
    let world = World::new("50");
    world.configure("owner = 'team'\n");
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble", "--name", "a"];
    world.run(&create).expect(0);
    world.run(&["--zone", "fr-par-2", "server", "delete", "a", "--yes"]).expect(1).says("created it in fr-par-1");
    world.run(&["--zone", "fr-par-99", "server", "list"]).expect(2).says("no servers in a zone fr-par-99");
    world.configure("owner = 'other'\n");
    for command in [&["server", "show", "a"][..], &["server", "delete", "a", "--yes"]] {
        world.run(command).expect(1).says("created it for owner team; the owner is other");
    }
    world.configure("owner = 'team'\n");
    std::fs::remove_dir_all(world.home.path().join(STATE)).unwrap();
    let swept = world.run(&["sweep", "--dry-run"]).expect(0).stdout;
    assert!(swept.contains("3 resources not judged") && swept.contains("0 explained"), "{swept}");
    assert!(!swept.contains("nothing is unexplained"), "{swept}");
}

#[test]
fn the_first_interrupt_undoes_what_is_in_flight() {
    let world = World::new("1");
    let create = start_creation(&world);
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("INT");
    let ran = create.end().expect(130).says("interrupted: rolling back");
    assert!(ran.stderr.contains("1 of 1 server could not be created"), "{}", ran.stderr);
    assert_eq!(world.resources(), 0, "{}", ran.stderr);
}

#[test]
fn the_second_interrupt_leaves_it_to_the_next_start_which_ends_it() {
    // Time stands still, so the undo cannot end by itself.
    let world = World::new("0");
    let create = start_creation(&world);
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("TERM");
    create.until_it_says("press Ctrl-C again");
    create.signal("INT");
    create.end().expect(130);
    assert_eq!(world.json(&["operation", "list", "--open"])["operations"].as_array().unwrap().len(), 1);
    assert!(world.resources() > 0);

    let mut resumed = Running::start(&mut world.command(&["operation", "resume", "--output", "json"]));
    eventually("the next start ends it", || {
        world.control("POST", "clock", r#"{"advance_ms": 1000}"#);
        resumed.has_ended().then_some(())
    });
    resumed.end().expect(0);
    assert_eq!(world.json(&["operation", "list", "--open"])["operations"].as_array().unwrap().len(), 0);
    // Powering on had begun, so the next start finished the server instead of undoing it.
    let left = world.control("GET", "resources", "");
    let states: Vec<_> = left["servers"].as_array().unwrap().iter().map(|server| server["state"].clone()).collect();
    assert!(states.is_empty() && world.resources() == 0 || states == ["running"], "{left}");
}

/// A creation whose power-on takes effect and is not answered.
fn start_creation_that_hangs(world: &World) -> Running {
    let hangs = r#"{"method": "POST", "path": "/instance/v1/zones/*/servers/*/action", "nth": 1,
        "kind": "delay:3600000", "effect": "after"}"#;
    world.control("POST", "faults", hangs);
    let create = start_creation(world);
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create
}

fn the_creation(world: &World) -> Value {
    world.json(&["operation", "list"])["operations"][0].clone()
}

/// Ends what is open while simulated time goes on.
fn while_time_goes_on(world: &World, mut work: Running) -> Ran {
    eventually("it ends", || {
        world.control("POST", "clock", r#"{"advance_ms": 1000}"#);
        work.has_ended().then_some(())
    });
    work.end()
}

/// Cancels an operation. Time goes on when that is in the journal: before, the operation could end.
fn cancel_while_time_goes_on(world: &World, id: &str) -> Ran {
    let cancel = Running::start(&mut world.command(&["operation", "cancel", id]));
    eventually("the cancellation is recorded", || {
        world.json(&["operation", "show", id]).to_string().contains("cancelled").then_some(())
    });
    while_time_goes_on(world, cancel)
}

#[test]
fn what_a_signal_cancelled_is_undone_after_a_kill() {
    let world = World::new("0");
    let create = start_creation_that_hangs(&world);
    create.signal("TERM");
    create.until_it_says("interrupted: rolling back");
    create.signal("KILL");
    let resume = Running::start(&mut world.command(&["operation", "resume"]));
    while_time_goes_on(&world, resume).expect(0);
    assert_eq!(the_creation(&world)["state"], "undone");
    assert_eq!(world.resources(), 0);
}

#[test]
fn operation_cancel_undoes_the_creation_of_another_process() {
    let world = World::new("0");
    let create = start_creation(&world);
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    let id = the_creation(&world)["id"].as_str().unwrap().to_owned();
    cancel_while_time_goes_on(&world, &id).expect(0);
    create.end().expect(1);
    assert_eq!(the_creation(&world)["state"], "undone");
    assert_eq!(world.resources(), 0);
    world.run(&["operation", "cancel", &id]).expect(0);
}

#[test]
fn operation_cancel_of_a_creation_that_has_ended_well_lists_what_runs() {
    let world = World::new("100");
    start_creation(&world).end().expect(0);
    let id = the_creation(&world)["id"].as_str().unwrap().to_owned();
    let server = world.control("GET", "resources", "")["servers"][0]["id"].as_str().unwrap().to_owned();
    let failed = world.run(&["operation", "cancel", &id]).expect(3);
    assert!(failed.stderr.contains(&format!("windlass server delete {server}")), "{}", failed.stderr);
    world.run(&["server", "delete", "--yes", &server]).expect(0);
    world.run(&["operation", "cancel", &id]).expect(0);
}

#[test]
fn a_server_that_another_process_creates_is_not_deleted_but_called_off() {
    let world = World::new("0");
    let create = start_creation(&world);
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    let id = the_creation(&world)["id"].as_str().unwrap().to_owned();
    let remedy = format!("windlass operation cancel {id}");
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(3).says(&remedy);
    cancel_while_time_goes_on(&world, &id).expect(0);
    create.end().expect(1);
}

#[test]
fn a_removal_cannot_be_cancelled_and_what_was_cancelled_beside_it_is_not_called_untouched() {
    let world = World::new("50");
    world.create("1").expect(0);
    world.fault("POST", "/instance/v1/zones/*/servers", "quota-exceeded");
    world.create("1").expect(1);
    let operations = || world.json(&["operation", "list"])["operations"].as_array().unwrap().clone();
    let of_state = |state: &str| {
        let found = operations().into_iter().find(|operation| operation["state"] == state)?;
        Some(found["id"].as_str().unwrap().to_owned())
    };
    let undone = of_state("undone").unwrap();
    let hangs = r#"{"method": "DELETE", "path": "/instance/v1/zones/*/servers/*", "nth": 1, "kind": "delay:20000"}"#;
    world.control("POST", "faults", hangs);
    let delete = Running::start(&mut world.command(&["server", "delete", "--yes", "--group", "ci"]));
    let removal = eventually("the removal is recorded", || of_state("open"));
    world.run(&["operation", "cancel", &removal]).expect(2).says("1 operation cannot be cancelled");
    world.run(&["operation", "cancel", &removal, &undone]).expect(1).says("1 operation cannot be cancelled");
    delete.end().expect(0);
}

#[test]
fn an_interrupted_removal_goes_on_and_says_so() {
    let world = World::new("50");
    world.create("1").expect(0);
    let hangs = r#"{"method": "DELETE", "path": "/instance/v1/zones/*/servers/*", "nth": 1, "kind": "delay:20000"}"#;
    world.control("POST", "faults", hangs);
    let delete = Running::start(&mut world.command(&["server", "delete", "--yes", "--group", "ci"]));
    let deletes = || world.control("GET", "requests", "").to_string().contains(r#""method":"DELETE""#);
    eventually("the deletion was sent", || deletes().then_some(()));
    delete.signal("INT");
    delete.until_it_says("finishing the deletions that have begun");
    delete.end().expect(0);
    assert_eq!(world.resources(), 0);
}

/// Waits until a call of this method whose path ends so has reached the simulator.
fn until_called(world: &World, method: &str, end: &str) {
    let is_it = |request: &Value| {
        request["method"] == method && request["path"].as_str().is_some_and(|path| path.ends_with(end))
    };
    let requests = || world.control("GET", "requests", "");
    eventually("the call was sent", || requests().as_array()?.iter().any(is_it).then_some(()));
}

#[test]
fn an_interrupted_removal_begins_no_further_one_and_lists_the_rest() {
    let world = World::new("50");
    let created = world.create("2").expect(0).json();
    let ids = [0, 1].map(|position| created["servers"][position]["id"].as_str().unwrap());
    world.control("DELETE", "requests", "");
    let hangs =
        r#"{"method": "POST", "path": "/instance/v1/zones/*/servers/*/action", "nth": 1, "kind": "delay:3000"}"#;
    world.control("POST", "faults", hangs);
    let words = ["server", "delete", "--yes", "--parallel", "1", ids[0], ids[1]];
    let delete = Running::start(&mut world.command(&words));
    until_called(&world, "POST", "/action");
    delete.signal("INT");
    delete.until_it_says("finishing the deletions that have begun");
    let ended = delete.end().expect(130);
    let rest = format!("server {} in fr-par-1: its deletion was not begun", ids[1]);
    assert!(ended.stderr.contains(&rest) && !ended.stderr.contains(ids[0]), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("windlass server delete {}", ids[1])), "{}", ended.stderr);
    assert_eq!(world.resources(), 3);
}

#[test]
fn a_removal_that_is_left_open_lists_what_it_has_still_to_remove() {
    let world = World::new("50");
    world.create("1").expect(0);
    let resources = world.control("GET", "resources", "");
    let id = |kind: &str| resources[kind][0]["id"].as_str().unwrap();
    let hangs = r#"{"method": "DELETE", "path": "/instance/v1/zones/*/ips/*", "kind": "internal-server-error"}"#;
    world.control("POST", "faults", hangs);
    let delete = Running::start(&mut world.command(&["server", "delete", "--yes", "--group", "ci"]));
    until_called(&world, "DELETE", id("ips"));
    world.until(|resources| resources["volumes"].as_array().unwrap().is_empty());
    delete.signal("INT");
    delete.until_it_says("finishing the deletions that have begun");
    delete.signal("INT");
    let ended = delete.end().expect(130);
    assert!(ended.stderr.contains(&format!("LEFT    ip {}", id("ips"))), "{}", ended.stderr);
    assert!(!ended.stderr.contains(&format!("server {}", id("servers"))), "{}", ended.stderr);
    world.control("DELETE", "faults", "");
    world.run(&["operation", "resume"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_server_that_only_has_tags_outlives_its_group() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let operation = &created["servers"][0]["operation"];
    let servers = "/instance/v1/zones/fr-par-1/servers";
    let original = world.call("GET", &format!("{servers}/{}", created["servers"][0]["id"].as_str().unwrap()), "");
    let (tags, image) = (&original["server"]["tags"], &original["server"]["image"]["id"]);
    let copy = serde_json::json!({ "name": "production", "project": "22222222-2222-2222-2222-222222222222",
        "commercial_type": "DEV1-S", "image": image, "tags": tags });
    let mut by_hand = copy.clone();
    by_hand["tags"].as_array_mut().unwrap().retain(|tag| !tag.as_str().unwrap().starts_with("windlass-operation="));
    by_hand["name"] = "by-hand".into();
    let copy = world.call("POST", servers, &copy.to_string())["server"]["id"].as_str().unwrap().to_owned();
    let by_hand = world.call("POST", servers, &by_hand.to_string())["server"]["id"].as_str().unwrap().to_owned();
    let listed = world.json(&["server", "list"]);
    let marked = listed["servers"].as_array().unwrap().iter().find(|server| server["id"] == copy.as_str()).unwrap();
    assert_eq!((&marked["copy_of"], &marked["operation"]), (operation, &Value::Null), "{listed}");
    let planned = world.run(&["server", "delete", "--group", "ci", "--dry-run"]).expect(0);
    assert!(!planned.stdout.contains(&copy), "{}", planned.stdout);
    let deleted = world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(0);
    for left in [&copy, &by_hand] {
        assert!(deleted.stderr.contains(&format!("windlass server delete {left}")), "{}", deleted.stderr);
    }
    assert_eq!(world.resources(), 4);
    // A name does not select a server that Windlass did not create.
    world.run(&["server", "delete", "production", "--yes"]).expect(2).says(&format!("windlass server delete {copy}"));
    assert_eq!(world.resources(), 4);
    world.run(&["server", "delete", &copy, &by_hand, "--yes"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_server_that_lost_its_tags_is_left_alone_and_never_called_gone() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let (id, name) = (created["servers"][0]["id"].as_str().unwrap(), created["servers"][0]["name"].as_str().unwrap());
    let path = format!("/instance/v1/zones/fr-par-1/servers/{id}");
    let tags = world.call("GET", &path, "")["server"]["tags"].clone();
    world.call("PATCH", &path, r#"{"tags": ["mine"]}"#);
    for _ in 0..2 {
        let left = world.run(&["server", "delete", name, "--yes"]).expect(3).says("no longer carries our owner tag");
        assert!(left.stderr.contains(&format!("server {id} in fr-par-1")), "{}", left.stderr);
        assert!(!left.stderr.contains("nothing is left"), "{}", left.stderr);
        assert_eq!(world.resources(), 3);
    }
    world.call("PATCH", &path, &serde_json::json!({ "tags": tags }).to_string());
    world.run(&["server", "delete", name, "--yes"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn the_removal_of_an_unverified_creation_says_that_more_may_appear() {
    let world = World::new("50");
    let late = r#"{"method": "POST", "path": "/instance/v1/zones/*/ips", "nth": 1, "kind": "late:3600000"}"#;
    world.control("POST", "faults", late);
    let create = start_creation(&world);
    until_called(&world, "POST", "/ips");
    create.signal("KILL");
    drop(create.end());
    world.run(&["operation", "resume"]).expect(3).says("unverified");
    for _ in 0..2 {
        let left = world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(3).says("LEFT    unverified");
        assert!(left.stderr.contains("windlass operation resume"), "{}", left.stderr);
    }
    assert_eq!(world.json(&["operation", "list"])["operations"][2]["ended_by"], Value::Null);
}

#[test]
fn a_group_is_deleted_by_the_journal_where_a_list_cannot_be_read() {
    for path in ["/instance/v1/zones/*/servers", "/instance/v1/zones/*/ips", "/block/v1/zones/*/volumes"] {
        let world = World::new("50");
        world.create("1").expect(0);
        world.fault("GET", path, "permission-denied");
        let reported = world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(3);
        assert_eq!(world.resources(), 0, "{path}: {}", reported.stderr);
        reported.says("cannot check whether the group has more servers").says("permission");
    }
}

#[test]
fn a_dry_run_tells_what_is_detached_and_stays() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let server = created["servers"][0]["id"].as_str().unwrap();
    let volume = r#"{"name": "precious", "project_id": "22222222-2222-2222-2222-222222222222",
        "from_empty": {"size": 10000000000}, "perf_iops": 5000}"#;
    let volume = world.call("POST", "/block/v1/zones/fr-par-1/volumes", volume)["id"].as_str().unwrap().to_owned();
    let attach = serde_json::json!({ "volume_id": volume, "volume_type": "sbs_volume" });
    let path = format!("/instance/v1/zones/fr-par-1/servers/{server}/attach-volume");
    eventually("the volume can be attached", || {
        let volumes = world.control("GET", "resources", "")["volumes"].clone();
        let is_there = |it: &Value| it["id"] == volume.as_str() && it["status"] == "available";
        volumes.as_array()?.iter().any(is_there).then_some(())
    });
    world.call("POST", &path, &attach.to_string());
    let planned = world.json(&["server", "delete", server, "--dry-run"]);
    for part in planned["planned"].as_array().unwrap() {
        let stays = part["why"].as_str().unwrap().contains("is detached and stays");
        assert_eq!(stays, part["id"] == volume.as_str(), "{planned}");
    }
    world.run(&["server", "delete", server, "--yes"]).expect(0);
    assert_eq!(world.resources(), 1);
}

#[test]
fn operation_cancel_undoes_what_a_dead_process_left() {
    let world = World::new("0");
    let create = start_creation_that_hangs(&world);
    create.signal("KILL");
    let id = the_creation(&world)["id"].as_str().unwrap().to_owned();
    cancel_while_time_goes_on(&world, &id).expect(0);
    assert_eq!(the_creation(&world)["state"], "undone");
    assert_eq!(world.resources(), 0);
}
