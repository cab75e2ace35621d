use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_lifecycle::{AddressKind, AddressPool, ExtraVolume, ImageChoice, VolumeKind};
use windlass_policy::slots::SlotName;

use super::{
    AppleSiliconConfiguration, Configuration, ConfigurationErrors, GroupConfiguration, MetricsAddress, OperatingSystem,
    ProcessEnvironment,
};

const SECRET: &str = "11111111-2222-4333-8444-555555555555";

fn read_with(configuration: &Value, variables: &[(&str, &str)]) -> Result<Configuration, ConfigurationErrors> {
    // An empty folder for Scaleway's own configuration, so that nothing of the machine is read.
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let all = [("HOME", home)].into_iter().chain(variables.iter().copied());
    match GroupConfiguration::read(configuration.to_string().as_bytes(), &all.collect::<ProcessEnvironment>())? {
        GroupConfiguration::Instances(read) => Ok(*read),
        GroupConfiguration::AppleSilicon(_) => panic!("a group of Macs"),
    }
}

fn least() -> Value {
    json!({
        "name": "ci-runners",
        "secret_key": SECRET,
        "project": "22222222-2222-4333-8444-555555555555",
        "zone": "fr-par-1",
        "server_type": "DEV1-S",
        "image": "ubuntu_noble",
        "state_dir": "/var/lib/windlass",
    })
}

fn with(changes: Value) -> Value {
    let mut all = least();
    for (key, value) in changes.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn problems(configuration: &Value) -> Vec<String> {
    let error = read_with(configuration, &[]).expect_err("it should have been refused");
    error.problems().iter().map(ToString::to_string).collect()
}

#[test]
fn the_least_configuration_has_the_defaults_of_the_existing_plugins() {
    let read = read_with(&least(), &[]).unwrap();
    assert_eq!(read.common.group.as_str(), "ci-runners");
    assert_eq!(read.server.types, ["DEV1-S"]);
    assert_eq!(read.server.image, ImageChoice::Label("ubuntu_noble".into()));
    assert_eq!(read.server.addresses, [AddressKind::Ipv4, AddressKind::Ipv6]);
    assert_eq!(read.server.root_volume.kind, VolumeKind::Block);
    assert_eq!(read.server.deadline_milliseconds, 600_000);
    assert_eq!((read.common.max_size, read.max_parallel_creates, read.common.max_leftovers), (1_000, 20, 10));
    assert_eq!(read.common.state_directory, PathBuf::from("/var/lib/windlass"));
    assert!(!read.suspend && !read.common.delete_on_shutdown && read.common.metrics.is_none());
}

#[test]
fn a_configuration_of_the_existing_instance_plugin_works_unchanged() {
    let read = read_with(
        &json!({
            "name": "docker-autoscaler",
            "access_key": "SCWXXXXXXXXXXXXXXXXX",
            "secret_key": SECRET,
            "organization": "33333333-2222-4333-8444-555555555555",
            "project": "22222222-2222-4333-8444-555555555555",
            "endpoint": "https://api.example.test",
            "location": "nl-ams-1",
            "server_type": ["dev1-s", "DEV1-M"],
            "image": "debian_bookworm",
            "cloud_init": "#cloud-config\n",
            "volume_size": 20,
            "public_ipv4_disabled": false,
            "public_ipv6_disabled": true,
        }),
        &[],
    )
    .unwrap();
    assert_eq!(read.common.zones[0].as_str(), "nl-ams-1");
    assert_eq!(read.server.types, ["DEV1-S", "DEV1-M"]);
    assert_eq!(read.server.root_volume.size, Some(20_000_000_000));
    assert_eq!(read.server.addresses, [AddressKind::Ipv4]);
    assert!(read.server.cloud_init.is_some());
    assert_eq!(read.common.settings.api_url().host_str(), Some("api.example.test"));
    assert!(read.common.state_directory.ends_with(".local/state/windlass"));
}

#[test]
fn zone_and_location_mean_the_same() {
    let mut configuration = least();
    configuration.as_object_mut().unwrap().remove("zone");
    assert!(problems(&configuration)[0].starts_with("zone: say where"));
    let wrong = read_with(&configuration, &[("SCW_DEFAULT_ZONE", "fr-paris")]).unwrap_err();
    assert!(matches!(wrong.problems(), [one] if one.place == "SCW_DEFAULT_ZONE"), "{wrong}");
    configuration["location"] = "pl-waw-2".into();
    assert_eq!(read_with(&configuration, &[]).unwrap().common.zones[0].as_str(), "pl-waw-2");
    configuration["zone"] = "fr-par-1".into();
    assert!(problems(&configuration)[0].starts_with("location: differs from zone"));
}

#[test]
fn several_zones_stand_in_their_order_and_each_once() {
    let zones = |changes: Value, variables: &[(&str, &str)]| {
        let read = read_with(&with(changes), variables).unwrap();
        assert_eq!(read.server.zone, read.common.zones[0]);
        read.common.zones.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let several = json!({"zone": ["fr-par-2", "nl-ams-1", "fr-par-1"]});
    assert_eq!(zones(several.clone(), &[]), ["fr-par-2", "nl-ams-1", "fr-par-1"]);
    let variable = [("SCW_DEFAULT_ZONE", "it-mil-1")];
    assert_eq!(zones(several, &variable).len(), 3, "a list is chosen on purpose");
    assert_eq!(zones(json!({"zone": ["fr-par-2"]}), &variable), ["it-mil-1"]);
    assert_eq!(zones(json!({"zone": null, "location": ["fr-par-2", "fr-par-1"]}), &[]), ["fr-par-2", "fr-par-1"]);
    for (zone, words) in [
        (json!(["fr-par-1", "mars-1", "fr-par-2"]), "zone[1]: `mars-1` is not the name of a zone"),
        (json!(["fr-par-1", "fr-par-2", "fr-par-1"]), "zone[2]: fr-par-1 is listed twice"),
        (json!(["fr-par-1", 7]), "zone[1]: expected a text, found a number"),
        (json!({"fr-par-1": true}), "zone: expected a text or a list of texts"),
    ] {
        let problems = problems(&with(json!({ "zone": zone })));
        assert!(matches!(&problems[..], [problem] if problem.starts_with(words)), "{words}: {problems:?}");
    }
    let types: Vec<String> = (0..9).map(|number| format!("TYPE-{number}")).collect();
    let zones: Vec<String> = (1..9).map(|number| format!("fr-par-{number}")).collect();
    let problems = problems(&with(json!({ "zone": zones, "server_type": types })));
    assert!(problems[0].starts_with("zone: 8 zones with 9 types are more than the 64 places"), "{problems:?}");
    assert!(read_mac(&mac(json!({"zone": ["fr-par-1", "fr-par-3"]}))).unwrap_err().to_string().contains("in one zone"));
}

#[test]
fn what_is_valid_in_one_zone_is_named_for_each() {
    let ids = ["44444444-2222-4333-8444-555555555555", "55555555-2222-4333-8444-555555555555"];
    let zone = json!(["fr-par-1", "nl-ams-1"]);
    let read = read_with(
        &with(json!({
            "zone": zone,
            "security_group": {"fr-par-1": ids[0], "nl-ams-1": ids[1]},
            "placement_group": ids[0],
            "private_networks": {"fr-par": [ids[0]], "nl-ams": ids[1]},
            "public_ipv4_disabled": true,
            "public_ipv6_disabled": true,
        })),
        &[],
    )
    .unwrap();
    for (zone, id) in read.common.zones.iter().zip(ids) {
        let server = read.server_in(zone);
        assert_eq!(server.zone, *zone);
        assert_eq!(server.security_group.as_deref(), Some(id));
        assert_eq!(server.private_networks, [id]);
        assert_eq!(server.placement_group.as_deref(), Some(ids[0]));
    }
    for (changes, words) in [
        (json!({"security_group": {"fr-par-1": ids[0]}}), "security_group: there is no entry for nl-ams-1"),
        (
            json!({"security_group": {"fr-par-1": ids[0], "nl-ams-1": ids[1], "fr-par-2": ids[1]}}),
            "security_group.fr-par-2: the group does not use it; it uses fr-par-1, nl-ams-1",
        ),
        (
            json!({"placement_group": {"fr-par-1": "x", "nl-ams-1": ids[1]}}),
            "placement_group.fr-par-1: \"x\" is not a Scaleway id",
        ),
        (json!({"private_networks": {"fr-par": ids[0]}}), "private_networks: there is no entry for nl-ams"),
        (json!({"private_networks": {"fr-par": 7, "nl-ams": []}}), "private_networks.fr-par: expected a text"),
        (json!({"private_networks": {"fr-par": vec![ids[0]; 17], "nl-ams": []}}), "private_networks: 17 are more"),
        (
            json!({"private_networks": {"fr-par": ids[0], "nl-ams": []}, "public_ipv4_disabled": true,
                   "public_ipv6_disabled": true}),
            "public_ipv4_disabled: with public_ipv6_disabled",
        ),
    ] {
        let mut configuration = with(changes);
        configuration["zone"] = zone.clone();
        let problems = problems(&configuration);
        assert!(problems[0].starts_with(words), "{words}: {problems:?}");
    }
}

#[test]
fn the_environment_wins_and_every_variable_has_a_file_form() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    let mut configuration = least();
    configuration["secret_key"] = "99999999-2222-4333-8444-555555555555".into();
    let path = file.path().to_str().unwrap();
    let read = read_with(&configuration, &[("SCW_SECRET_KEY_FILE", path), ("SCW_DEFAULT_ZONE", "it-mil-1")]).unwrap();
    assert_eq!(read.common.zones[0].as_str(), "it-mil-1");
    assert_eq!(*read.common.settings.secret_key(), SECRET.parse().unwrap());

    let error = read_with(&configuration, &[("SCW_SECRET_KEY_FILE", "/nonexistent/key")]).unwrap_err();
    assert!(error.to_string().contains("SCW_SECRET_KEY_FILE: cannot read /nonexistent/key"), "{error}");
    let error = read_with(&configuration, &[("SCW_SECRET_KEY_FILE", path), ("SCW_SECRET_KEY", SECRET)]).unwrap_err();
    assert!(error.to_string().contains("both set"), "{error}");
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let found = problems(&json!({
        "secret_key": SECRET,
        "zone": "mars-1",
        "server_typ": "DEV1-S",
        "volume_size": 5,
        "volume_iops": 7,
        "create_timeout": "soon",
        "security_group": "default",
        "public_ipv4_disabled": "yes",
        "state_dir": "relative",
        "metrics": "here",
        "policies": {"rety": {}},
    }));
    for place in [
        "name: ",
        "zone: ",
        "server_type: ",
        "image: ",
        "volume_size: ",
        "volume_iops: ",
        "create_timeout: ",
        "security_group: ",
        "public_ipv4_disabled: ",
        "state_dir: ",
        "metrics: ",
        "policies: ",
        "server_typ: ",
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(place)), "{place} is not in {found:#?}");
    }
}

#[test]
fn a_url_as_state_directory_is_told_without_its_password() {
    let found = problems(&with(json!({"state_dir": "postgres://ops:hunter2@db.example/windlass"})));
    assert_eq!(found, ["state_dir: it is a URL; write the path of a folder. A database is named with `state`"]);
}

#[test]
fn an_unknown_key_names_the_nearest() {
    assert_eq!(
        problems(&with(json!({"max_paralel_creates": 3}))),
        ["max_paralel_creates: there is no such key; did you mean `max_parallel_creates`?"]
    );
    assert!(problems(&with(json!({"colour": 3})))[0].contains("the keys are access_key, adopt"));
}

#[test]
fn a_missing_secret_key_names_the_variable_and_never_shows_a_wrong_one() {
    let mut configuration = least();
    configuration.as_object_mut().unwrap().remove("secret_key");
    assert!(problems(&configuration)[0].contains("SCW_SECRET_KEY"));
    configuration["secret_key"] = "not-a-uuid-but-secret".into();
    let text = problems(&configuration).join("\n");
    assert!(text.starts_with("secret_key: ") && !text.contains("not-a-uuid"), "{text}");
    configuration["project"] = "7d0e3a4c-0000-4000-8000-000000000001".into();
    assert_eq!(problems(&configuration).len(), 1, "the other keys are no mistakes: {:?}", problems(&configuration));
}

#[test]
fn our_own_keys_are_read() {
    let read = read_with(
        &with(json!({
            "kind": "instance",
            "owner": "team-a",
            "private_networks": ["44444444-2222-4333-8444-555555555555"],
            "security_group": "55555555-2222-4333-8444-555555555555",
            "placement_group": "66666666-2222-4333-8444-555555555555",
            "volume_type": "sbs_volume",
            "volume_iops": 15000,
            "tags": ["team=a"],
            "create_timeout": "5m",
            "max_parallel_creates": 7,
            "max_size": 50,
            "max_leftovers": 0,
            "suspend": true,
            "delete_on_shutdown": true,
            "metrics": "unix:/run/windlass/metrics.sock",
            "policies": {"retry": {"path": "retry.wasm"}},
            "policy_folder": "/etc/windlass",
        })),
        &[],
    )
    .unwrap();
    assert_eq!(read.server.deadline_milliseconds, 300_000);
    assert_eq!(read.server.root_volume.operations_per_second, Some(15_000));
    assert_eq!((read.common.max_size, read.max_parallel_creates, read.common.max_leftovers), (50, 7, 0));
    assert_eq!(read.common.metrics, Some(MetricsAddress::Unix("/run/windlass/metrics.sock".into())));
    assert_eq!(read.common.policies.chain(SlotName::Retry).len(), 1);
    assert!(read.suspend && read.common.delete_on_shutdown);
    assert_eq!(Duration::from_millis(read.server.deadline_milliseconds), Duration::from_secs(300));
}

#[test]
fn a_server_is_not_reaped_before_its_creation_gives_it_up() {
    let deadline = |changes: Value| {
        let read = read_with(&with(changes), &[]).unwrap();
        let link = read.common.policies.chain(SlotName::StateMapping).last().cloned();
        link.and_then(|link| link.settings.get("deadline-ms").and_then(Value::as_u64))
    };
    assert_eq!(deadline(json!({})), None, "the policy's own default is longer");
    assert_eq!(deadline(json!({"create_timeout": "40m"})), Some(45 * 60_000));
    let own = |settings: Value| json!({"create_timeout": "40m", "policies": {"state-mapping": settings}});
    let longer = json!({"settings": {"deadline-ms": 2_400_000}});
    assert_eq!(deadline(own(longer)), Some(2_400_000), "what is configured counts");
    assert_eq!(deadline(own(json!({"path": "own.wasm"}))), Some(45 * 60_000), "the default ends every chain");
}

#[test]
fn a_policy_that_removes_a_server_before_its_create_timeout_is_refused() {
    let with_deadline = |links: Value| with(json!({"create_timeout": "40m", "policies": {"state-mapping": links}}));
    let early = json!({"settings": {"deadline-ms": 2_399_999}});
    for links in [early.clone(), json!([{"path": "own.wasm"}, early])] {
        let problems = problems(&with_deadline(links));
        assert!(
            matches!(&problems[..], [problem] if problem.starts_with("create_timeout: policies.state-mapping removes a \
                server after 2399999 ms (deadline-ms)") && problem.contains("set deadline-ms to 2400000 ms or more, or remove it")),
            "{problems:?}"
        );
    }
    // What a policy of one's own calls its settings nobody knows here.
    let own = json!({"path": "own.wasm", "settings": {"deadline-ms": 5}});
    assert!(read_with(&with_deadline(own), &[]).is_ok());
    let alone = json!({"policies": {"state-mapping": {"settings": {"deadline-ms": 5}}}});
    assert!(read_with(&with(alone), &[]).is_ok(), "nothing is said that it could contradict");
}

#[test]
fn extra_volumes_are_read_with_their_types_and_speeds() {
    let volumes = |volumes: Value| read_with(&with(json!({ "extra_volumes": volumes })), &[]).unwrap().server.volumes;
    let new = |kind, gigabytes: u64, operations_per_second| ExtraVolume::New {
        kind,
        size: gigabytes * 1_000_000_000,
        operations_per_second,
    };
    let two =
        json!([{"size": 50, "type": "sbs_volume", "iops": 15000}, {"size": "20 GB", "type": "l_ssd"}, {"size": 1}]);
    assert_eq!(
        volumes(two),
        [new(VolumeKind::Block, 50, Some(15_000)), new(VolumeKind::Local, 20, None), new(VolumeKind::Block, 1, None)]
    );
    assert!(volumes(json!([])).is_empty());
    for (volumes, words) in [
        (json!({"size": 50}), "extra_volumes: expected a list like [{ size = 50 }], found a table"),
        (json!([50]), "extra_volumes[0]: expected a table like { size = 50 }, found a number"),
        (json!([{"size": 50}, {"type": "l_ssd"}]), "extra_volumes[1].size: say how large it is, as in \"50GB\""),
        (
            json!([{"size": 0}]),
            "extra_volumes[0].size: expected gigabytes, as a whole number from 1 to 10000, or with its unit, as in \"20GB\", \
             found 0",
        ),
        (json!([{"size": "20 floppies"}]), "extra_volumes[0].size: 'floppies' is no unit of size"),
        (json!([{"size": "20GiB"}]), "extra_volumes[0].size: expected gigabytes, as a whole number"),
        (json!([{"size": 5, "iops": 7}]), "extra_volumes[0].iops: expected 5000 or 15000, found 7"),
        (
            json!([{"size": 5, "iops": 5000, "type": "l_ssd"}]),
            "extra_volumes[0].iops: can only be chosen for type = \"sbs_volume\"",
        ),
        (json!([{"size": 5, "type": "tape"}]), "extra_volumes[0].type: \"tape\" is unknown"),
        (json!([{"size": 5, "sise": 5}]), "extra_volumes[0].sise: there is no such key; did you mean `size`?"),
        (json!(vec![json!({"size": 5}); 16]), "extra_volumes: 16 are more than 15"),
    ] {
        let problems = problems(&with(json!({ "extra_volumes": volumes })));
        assert!(matches!(&problems[..], [problem] if problem.starts_with(words)), "{words}: {problems:?}");
    }
}

#[test]
fn an_image_is_a_label_an_id_or_the_newest_of_ones_own() {
    let image = |image: Value| read_with(&with(json!({ "image": image })), &[]).unwrap().server.image;
    assert_eq!(image(json!(SECRET)), ImageChoice::Id(SECRET.to_owned()));
    assert_eq!(image(json!({"name": "ci-image"})), ImageChoice::Name("ci-image".to_owned()));
    assert_eq!(image(json!({"tag": "ci"})), ImageChoice::Tag("ci".to_owned()));
    for (image, words) in [
        (json!({"name": "a", "tag": "b"}), "image.tag: cannot be combined with name"),
        (json!({}), "image.name: say which"),
        (json!({"tags": "b", "name": "a"}), "image.tags: there is no such key; did you mean `tag`?"),
        (json!({"tag": 7}), "image.tag: expected a text, found a number"),
        (json!(7), "image: expected a text or a table, found a number"),
        (json!({"name": "x".repeat(5_000)}), "image: its name or tag is empty or longer than 4096 bytes"),
    ] {
        let problems = problems(&with(json!({ "image": image })));
        assert!(problems.first().is_some_and(|problem| problem.starts_with(words)), "{words}: {problems:?}");
    }
}

#[test]
fn addresses_that_are_handed_round_take_the_place_of_those_that_are_made_and_bound_the_group() {
    let ips = json!(["198.51.100.7", "44444444-2222-4333-8444-555555555555"]);
    let read = read_with(&with(json!({ "reserved_ips": ips })), &[]).unwrap();
    assert_eq!(read.server.addresses, [AddressKind::Ipv6]);
    assert!(matches!(&read.server.address_pool, Some(AddressPool::Ips(ips)) if ips.len() == 2));
    assert_eq!(read.common.max_size, 2);
    assert_eq!(read_with(&with(json!({ "reserved_ips": ips, "max_size": 1 })), &[]).unwrap().common.max_size, 1);
    let by_tag = json!({ "reserved_ip_tag": "ci-egress", "public_ipv6_disabled": true });
    let read = read_with(&with(by_tag), &[]).unwrap();
    assert_eq!(read.server.address_pool, Some(AddressPool::Tag("ci-egress".to_owned())));
    assert!(read.server.addresses.is_empty());
    assert_eq!(read.common.max_size, 1_000);
    for (changes, words) in [
        (json!({"reserved_ips": ["2001:db8::1"]}), "reserved_ips[0]: \"2001:db8::1\" is neither"),
        (
            json!({"reserved_ips": ["198.51.100.7", "198.51.100.7"]}),
            "reserved_ips[1]: it is the same as reserved_ips[0]",
        ),
        (json!({"reserved_ips": ips, "reserved_ip_tag": "a"}), "reserved_ip_tag: cannot be combined with reserved_ips"),
        (json!({"reserved_ips": ips, "public_ipv4_disabled": true}), "public_ipv4_disabled: reserved IPs are public"),
        (json!({"reserved_ips": ips, "max_size": 3}), "max_size: each instance takes one of the 2 reserved_ips"),
        (json!({"reserved_ip_tag": "windlass-owner=a"}), "reserved_ip_tag: \"windlass-owner=a\" begins with"),
    ] {
        let problems = problems(&with(changes));
        assert!(matches!(&problems[..], [problem] if problem.starts_with(words)), "{words}: {problems:?}");
    }
    let of_macs = read_mac(&mac(json!({ "reserved_ips": ips, "extra_volumes": [{"size": 5}] }))).unwrap_err();
    assert_eq!(of_macs.problems().len(), 2, "{of_macs}");
}

#[test]
fn a_maximum_age_is_refused_with_what_the_runner_has_instead() {
    let of_macs = read_mac(&mac(json!({"max_age": "24h"}))).unwrap_err().to_string();
    let of_instances = problems(&with(json!({"max_age": "24h"}))).join("\n");
    for words in [of_macs, of_instances] {
        for word in ["max_age: ", "idle", "max_use_count", "idle_time"] {
            assert!(words.contains(word), "{words}");
        }
    }
}

#[test]
fn adoption_is_asked_for_and_the_limit_of_calls_is_chosen() {
    let read = |changes: Value| read_with(&with(changes), &[]).unwrap();
    let calls = |changes: Value| read(changes).common.settings.limits().calls_per_second.get();
    assert_eq!((calls(json!({})), calls(json!({"calls_per_second": 7}))), (30, 7));
    assert!(problems(&with(json!({"calls_per_second": 0})))[0].starts_with("calls_per_second: expected"));
    let adopt = |value: Value| read(json!({"adopt": value})).common.adopt;
    assert_eq!(
        (read(json!({})).common.adopt, adopt(json!(true)), adopt(json!(false))),
        (None, Some(true), Some(false))
    );
}

#[test]
fn keys_that_exclude_each_other_are_refused() {
    assert!(
        problems(&with(json!({"cloud_init": "a", "cloud_init_file": "/b"})))[0].contains("cannot be combined with")
    );
    assert!(problems(&with(json!({"volume_type": "l_ssd", "volume_iops": 5000})))[0].starts_with("volume_iops"));
    let unreachable = with(json!({"public_ipv4_disabled": true, "public_ipv6_disabled": true}));
    assert!(problems(&unreachable)[0].contains("nobody could reach"));
}

#[test]
fn a_name_that_cannot_be_used_as_it_is_becomes_one_of_its_own() {
    let name =
        |text: &str| read_with(&with(json!({"name": text})), &[]).map(|read| read.common.group.as_str().to_owned());
    assert_eq!(name("ci-runners").unwrap(), "ci-runners");
    let (first, second) = (name("CI Runners").unwrap(), name("ci_runners").unwrap());
    assert!(first.starts_with("ci-runners-") && second.starts_with("ci-runners-"));
    assert_ne!(first, second);
    assert!(name("###").is_err());
    assert!(name(&"x".repeat(300)).unwrap().len() <= 48);
}

#[test]
fn what_is_no_table_is_refused_in_words() {
    let refused =
        |bytes: &[u8]| GroupConfiguration::read(bytes, &ProcessEnvironment::default()).unwrap_err().to_string();
    assert!(refused(b"{").contains("it is not valid JSON"));
    assert!(refused(b"[1]").contains("expected a table, found a list"));
}

#[test]
fn debug_output_holds_neither_key_nor_cloud_init() {
    let read =
        read_with(&with(json!({"cloud_init": "password: hunter2", "tags": ["AUTHORIZED_KEY=abc"]})), &[]).unwrap();
    let text = format!("{read:?}");
    assert!(!text.contains("hunter2") && !text.contains(SECRET) && !text.contains("AUTHORIZED_KEY"), "{text}");
}

fn mac(changes: Value) -> Value {
    let mut all = json!({"kind": "apple-silicon", "name": "macs", "secret_key": SECRET, "server_type": "m4-s",
                         "state_dir": "/var/lib/windlass"});
    for (key, value) in changes.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn read_mac(configuration: &Value) -> Result<AppleSiliconConfiguration, ConfigurationErrors> {
    let home = tempfile::tempdir().unwrap();
    let process_environment = [("HOME", home.path().to_str().unwrap())].into_iter().collect::<ProcessEnvironment>();
    match GroupConfiguration::read(configuration.to_string().as_bytes(), &process_environment)? {
        GroupConfiguration::AppleSilicon(read) => Ok(*read),
        GroupConfiguration::Instances(_) => panic!("a group of instances"),
    }
}

#[test]
fn a_configuration_of_the_existing_apple_silicon_plugin_works_with_the_kind_added() {
    let read = read_mac(&json!({
        "kind": "apple-silicon",
        "name": "macs",
        "access_key": "SCWXXXXXXXXXXXXXXXXX",
        "secret_key": SECRET,
        "project_id": "22222222-2222-4333-8444-555555555555",
        "server_type": "M4-S",
        "os_id": "33333333-2222-4333-8444-555555555555",
        "state_dir": "/var/lib/windlass",
    }))
    .unwrap();
    assert_eq!(
        (read.server_type.as_str(), read.common.first_zone().as_str(), read.common.max_size),
        ("M4-S", "fr-par-3", 10)
    );
    assert_eq!(read.operating_system, OperatingSystem::Id("33333333-2222-4333-8444-555555555555".to_owned()));
    assert!(read.order && read.pool.is_none(), "it ordered hosts, so this does");
}

#[test]
fn a_pool_is_used_and_money_is_spent_only_when_that_is_said() {
    let read = read_mac(&mac(json!({"pool_prefix": "ci-pool-", "operating_system": "Sequoia", "zone": "fr-par-1",
                                    "release_requested": "pool"})))
    .unwrap();
    assert_eq!(read.pool.unwrap().as_str(), "ci-pool-");
    assert!(!read.order);
    assert_eq!((read.server_type.as_str(), read.common.first_zone().as_str()), ("M4-S", "fr-par-1"));
    assert_eq!(read.operating_system, OperatingSystem::Named("Sequoia".to_owned()));
    assert!(read_mac(&mac(json!({"pool_prefix": "ci-pool-", "order": true}))).unwrap().order);
    assert!(read_mac(&mac(json!({}))).unwrap().order);
}

#[test]
fn watched_tags_are_few_short_and_each_there_once() {
    let watched = |tags: Value| read_with(&with(json!({ "watched_tags": tags })), &[]).unwrap().watched_tags;
    assert_eq!(watched(json!(["debug", "keep=yes"])), ["debug", "keep=yes"]);
    assert_eq!(watched(json!("debug")), ["debug"]);
    let numbered = |count: usize| (0..count).map(|number| format!("tag-{number}")).collect::<Vec<_>>();
    assert_eq!(watched(json!(numbered(64))).len(), 64);
    assert!(read_with(&least(), &[]).unwrap().watched_tags.is_empty());
    for (tags, words) in [
        (json!(numbered(65)), "watched_tags: 65 are more than 64"),
        (json!(["debug", "keep", "debug"]), "watched_tags[2]: it is the same as watched_tags[0]"),
        (json!(["a", "x".repeat(257)]), "watched_tags[1]: it is longer than 256 bytes"),
        (json!([""]), "watched_tags[0]: expected a text"),
        (json!(7), "watched_tags: expected a text or a list of texts"),
    ] {
        let problems = problems(&with(json!({ "watched_tags": tags })));
        assert!(matches!(&problems[..], [problem] if problem.starts_with(words)), "{words}: {problems:?}");
    }
    let of_macs = read_mac(&mac(json!({ "watched_tags": ["debug"] }))).unwrap_err().to_string();
    assert!(of_macs.contains("watched_tags") && of_macs.contains("groups of instances"), "{of_macs}");
}

#[test]
fn the_brake_is_five_and_a_third_unless_configured_and_holds_for_macs_as_well() {
    let read = |changes: Value| read_with(&with(changes), &[]).unwrap().common.brake;
    assert_eq!(read(json!({})), windlass_policy::Brake { servers: 5, share: 1.0 / 3.0 });
    let brake = windlass_policy::Brake { servers: 0, share: 0.1 };
    assert_eq!(read(json!({ "max_reaps": 0, "max_reap_share": 0.1 })), brake);
    assert_eq!(read_mac(&mac(json!({ "max_reaps": 0, "max_reap_share": 0.1 }))).unwrap().common.brake, brake);
    assert_eq!(read(json!({ "max_reap_share": 1 })).share, 1.0);
    for (changes, words) in [
        (json!({ "max_reap_share": 1.5 }), "max_reap_share: expected a number from 0 to 1, found 1.5"),
        (json!({ "max_reap_share": "a third" }), "max_reap_share: expected a number from 0 to 1"),
        (json!({ "max_reaps": -1 }), "max_reaps: expected a whole number"),
        (json!({ "max_reap": 1 }), "max_reap: there is no such key; did you mean `max_reaps`?"),
    ] {
        let problems = problems(&with(changes));
        assert!(matches!(&problems[..], [problem] if problem.starts_with(words)), "{words}: {problems:?}");
    }
}

#[test]
fn what_cannot_be_meant_of_macs_is_refused_all_at_once() {
    let wrong = mac(json!({"server_type": ["M4-S", "M2-M"], "image": "ubuntu_noble", "os_id": "x", "order": false,
                           "release_requested": "pool", "pool_prefx": "a-"}));
    let problems = read_mac(&wrong).unwrap_err().to_string();
    for words in [
        "one type",
        "image",
        "not a Scaleway id (a UUID)",
        "could never get a host",
        "no pool to return to",
        "`pool_prefix`",
    ] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    for (changes, words) in [
        (json!({"os_id": SECRET, "operating_system": "Tahoe"}), "keep one of them"),
        (json!({"pool_prefix": "macs-"}), "hold them while they work"),
        (json!({"pool_prefix": ""}), ""),
        (json!({"pool_prefix": "macs"}), "dash"),
        (json!({"release_requested": "explode"}), "\"terminate\""),
        (json!({"kind": "toaster"}), "\"apple-silicon\""),
        (json!({"zone": "mars"}), "fr-par-1"),
    ] {
        match read_mac(&mac(changes)) {
            Ok(_) => assert_eq!(words, "", "it should have been refused"),
            Err(error) => assert!(!words.is_empty() && error.to_string().contains(words), "{words}: {error}"),
        }
    }
    let of_macs = problems_of_instances();
    assert!(of_macs.contains("kind = \"apple-silicon\""), "{of_macs}");
}

fn problems_of_instances() -> String {
    problems(&with(json!({"pool_prefix": "ci-pool-"}))).join("\n")
}
