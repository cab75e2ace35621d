//! What Scaleway answers is understood, tolerantly where that is safe and strictly where it is not.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_scaleway::types::block::{BlockVolume, BlockVolumeStatus, ListBlockVolumes, ReferenceStatus};
use windlass_scaleway::types::instance::*;
use windlass_scaleway::types::ipam::{IpamIp, ListIpamIps};
use windlass_scaleway::types::marketplace::{ImageStorage, LocalImage};
use windlass_scaleway::types::{Patch, has_all_tags};
use windlass_scaleway::{Error, ErrorClass};

use crate::support::*;

async fn server(body: impl Into<Bytes>) -> Result<Server, Error> {
    client_answered(200, body).0.instance(&zone()).get_server(SERVER).await
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_on_block_storage() {
    let server = server(fixture("server_block_storage")).await.unwrap();
    assert_eq!(server.state, ServerState::Stopped);
    let root = &server.volumes["0"];
    assert_eq!((&root.volume_type, &root.state, root.size), (&VolumeType::BlockStorage, &VolumeState::Available, 0));
    assert_eq!(server.image.as_ref().unwrap().name, "Ubuntu");
    assert_eq!(server.created_at().unwrap().as_microsecond() % 1_000_000, 6);
    assert!(server.modified_at() > server.created_at());
    assert!(server.has_all_tags(&["windlass-owner=me"]) && !server.has_all_tags(&["windlass-owner=me", "other"]));
    assert!(server.public_ip.is_none() && server.placement_group.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_running_server_with_addresses_and_interfaces() {
    let server = server(fixture("server_running")).await.unwrap();
    assert_eq!((server.state, server.state_detail.as_str()), (ServerState::Running, "booting kernel"));
    let addresses: Vec<_> = server.public_ips.iter().map(|ip| (ip.address.as_str(), ip.dynamic, &ip.state)).collect();
    assert_eq!(
        addresses,
        [("192.0.2.1", false, &ServerIpState::Attached), ("2001:db8::1", true, &ServerIpState::Pending)]
    );
    assert_eq!(server.private_nics[0].state, PrivateNicState::Available);
    assert_eq!(server.placement_group.unwrap().name, "spread");
}

#[tokio::test(start_paused = true)]
async fn a_local_volume_inside_a_server_shows_what_block_storage_hides() {
    let server = server(fixture("server_local_storage")).await.unwrap();
    let root = &server.volumes["0"];
    assert_eq!((root.name.as_str(), root.size, &root.volume_type), ("root", 10_000_000_000, &VolumeType::LocalSsd));
}

#[tokio::test(start_paused = true)]
async fn words_and_fields_of_tomorrow_are_kept_or_ignored_and_null_is_the_default() {
    let server = server(fixture("server_of_tomorrow")).await.unwrap();
    assert_eq!(server.state, ServerState::Unknown("hibernating".to_owned()));
    assert_eq!((server.arch.as_str(), server.volumes["0"].volume_type.as_str()), ("riscv64", "hologram"));
    assert!(server.tags.is_empty() && server.name.is_empty() && !server.protected && server.private_nics.is_empty());
    assert_eq!(serde_json::to_value(&server.state).unwrap(), "hibernating", "written back unchanged");
}

#[tokio::test(start_paused = true)]
async fn the_other_objects() {
    let client = |name: &str| client_answered(200, fixture(name)).0;
    let ip = client("ip").instance(&zone()).get_ip("i").await.unwrap();
    assert_eq!((ip.ip_type, ip.state, ip.server.unwrap().id.as_str()), (IpType::RoutedIpv4, IpState::Attached, SERVER));
    let ip = client("ip_v6").instance(&zone()).get_ip("i").await.unwrap();
    assert_eq!((ip.address, ip.prefix.as_deref()), (None, Some("2001:db8:1:2::/64")));
    let volume = client("volume").instance(&zone()).get_volume("v").await.unwrap();
    assert_eq!((volume.volume_type, volume.state, volume.server), (VolumeType::LocalSsd, VolumeState::Available, None));
    let volume = client("block_volume").block(&zone()).get_volume("v").await.unwrap();
    assert_eq!(volume.status, BlockVolumeStatus::InUse);
    assert_eq!(volume.references[0].status, ReferenceStatus::Detaching);
    assert!(volume.is_referenced_by(SERVER) && !volume.is_referenced_by("other"));
    assert!(volume.has_all_tags(&["b", "a"]) && volume.created_at().is_some());
    let task = client("task").instance(&zone()).server_action(SERVER, ServerAction::PowerOff).await.unwrap();
    assert_eq!((task.description.as_str(), task.status), ("fake task", TaskStatus::Pending));
    let stock = client("availability").instance(&zone()).server_type_availability().await.unwrap();
    assert_eq!(stock["DEV1-S"], Stock::Scarce);
    assert_eq!(stock["NEW1-S"].as_str(), "by appointment");
    let types = client("server_types").instance(&zone()).list_server_types().await.unwrap();
    assert_eq!(
        (types["DEV1-S"].ncpus, types["DEV1-S"].ram, types["DEV1-S"].hourly_price),
        (2, 2_147_483_648, 0.008976)
    );
    let image = client("image").instance(&zone()).get_image("i").await.unwrap();
    assert_eq!((image.arch, image.state), (Architecture::Arm64, ImageState::Available));
    let group = client("security_group").instance(&zone()).get_security_group("g").await.unwrap();
    assert_eq!(group.inbound_default_policy, SecurityGroupPolicy::Drop);
    let group = client("placement_group").instance(&zone()).get_placement_group("g").await.unwrap();
    assert_eq!(group.policy_mode, PlacementGroupPolicyMode::Enforced);
    let nic = client("private_nic").instance(&zone()).get_private_nic(SERVER, "n").await.unwrap();
    assert_eq!(nic.state, PrivateNicState::Syncing);
    let addresses = client("ipam").ipam(&zone().region()).list_ips(&ListIpamIps::default()).await.unwrap();
    assert_eq!(addresses[0].resource.as_ref().unwrap().resource_type, "instance_private_nic");
    let data = client_answered(200, &b"#cloud-config\n\xff"[..]).0;
    let data = data.instance(&zone()).get_server_user_data(SERVER, "cloud-init").await.unwrap();
    assert_eq!(&data[..], b"#cloud-config\n\xff", "user data is bytes");
}

/// A server's user data behind a PATCH that answers so, and keeps what it was sent or something else.
async fn set_user_data(status: u16, body: &'static str, keeps: Option<&'static str>) -> (Result<(), Error>, usize) {
    let (client, sent) = client_with(settings(), move |request| {
        let reads = request.method() == http::Method::GET;
        async move {
            Ok(match (reads, keeps) {
                (false, _) => response(status, body),
                (true, Some(kept)) => response(200, kept),
                (true, None) => response(404, ""),
            })
        }
    });
    (client.instance(&zone()).set_server_user_data(SERVER, "cloud-init", "#cloud-config\n").await, sent.count())
}

#[tokio::test(start_paused = true)]
async fn user_data_is_set_when_the_answer_is_the_known_one_or_the_value_can_be_read_back() {
    let (result, calls) = set_user_data(204, "", None).await;
    assert_eq!((result.unwrap(), calls), ((), 1), "the recorded answer costs no second call");
    for (status, body) in [(200, ""), (200, "{}"), (202, "accepted"), (204, "x"), (200, "#cloud-config\n")] {
        let (result, calls) = set_user_data(status, body, Some("#cloud-config\n")).await;
        assert!(result.is_ok() && calls == 2, "{status} {body:?}: {result:?}");
        for keeps in [None, Some("#cloud-config"), Some("")] {
            let (result, _) = set_user_data(status, body, keeps).await;
            let error = result.unwrap_err();
            assert!(error.class() == ErrorClass::MalformedAnswer && error.is_ambiguous(), "{error}");
            assert!(error.to_string().contains("back"), "{error}");
        }
    }
    assert!(set_user_data(500, "", Some("#cloud-config\n")).await.0.is_err(), "a failure is not a success");
}

#[tokio::test(start_paused = true)]
async fn only_204_says_that_a_deletion_was_accepted() {
    for (status, body) in [(200, ""), (200, "{\"id\": \""), (202, "{}")] {
        let (client, _) = client_answered(status, body);
        let (instance, block) = (client.instance(&zone()), client.block(&zone()));
        for answer in [
            instance.delete_server(SERVER).await,
            instance.delete_ip("i").await,
            instance.delete_volume("v").await,
            block.delete_volume("v").await,
        ] {
            let error = answer.unwrap_err();
            assert!(error.class() == ErrorClass::MalformedAnswer && error.is_ambiguous(), "{status}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_address_is_gone_only_when_the_addresses_can_be_listed_and_it_is_not_among_them() {
    const DENIED: &str = r#"{"details":[{"action":"read","resource":"compute_ips"}],"message":"insufficient permissions","type":"permissions_denied"}"#;
    let ips = |ids: &[&str]| {
        let ips: Vec<Value> = ids.iter().map(|id| json!({"id": id, "address": "192.0.2.1"})).collect();
        (200, json!({ "ips": ips }).to_string())
    };
    let denied = (403, DENIED.to_owned());
    for (listing, is_gone) in
        [(ips(&[]), true), (ips(&["other"]), true), (ips(&["other", "mine"]), false), (denied, false)]
    {
        let (client, sent) = client_with(settings(), move |request| {
            let listed = request.uri().path().ends_with("/ips");
            let (status, body) = if listed { listing.clone() } else { (403, DENIED.to_owned()) };
            async move { Ok(response(status, body)) }
        });
        let instance = client.instance(&zone());
        let errors = [
            instance.get_ip("mine").await.unwrap_err(),
            instance.update_ip("mine", &UpdateIp::default()).await.unwrap_err(),
            instance.delete_ip("mine").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.is_not_found(), error.status()), (is_gone, Some(403)), "{error}");
            assert_eq!(error.class() == ErrorClass::PermissionDenied, !is_gone, "{error}");
            assert!(error.is_refusal() && !error.is_ambiguous(), "{error}");
        }
        assert_eq!(sent.count(), 2 * 3);
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_is_the_first_release_that_fits_the_server_type() {
    let (client, _) = client_answered(200, fixture("local_images"));
    let marketplace = client.marketplace();
    let id = marketplace.resolve_image("ubuntu_noble", &zone(), "GP1-XL", ImageStorage::BlockStorage).await.unwrap();
    assert_eq!(id, "00000000-0000-4000-8000-0000000000d2");
    let id =
        marketplace.resolve_image("ubuntu_noble", &zone(), "coparm1-2c-8g", ImageStorage::BlockStorage).await.unwrap();
    assert_eq!(id, "00000000-0000-4000-8000-0000000000d1");
    let error =
        marketplace.resolve_image("ubuntu_noble", &zone(), "NEW1-S", ImageStorage::BlockStorage).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "image `ubuntu_noble` has no instance_sbs release for server type NEW1-S in fr-par-1; \
         compatible there: COPARM1-2C-8G, DEV1-S, GP1-XL"
    );
    assert_eq!(error.class(), ErrorClass::InvalidArguments);
    // Releases of another zone or kind of storage don't count, whatever the answer holds.
    let elsewhere = "nl-ams-1".parse().unwrap();
    assert!(marketplace.resolve_image("ubuntu_noble", &elsewhere, "DEV1-S", ImageStorage::BlockStorage).await.is_err());
    assert!(marketplace.resolve_image("ubuntu_noble", &zone(), "DEV1-S", ImageStorage::Local).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_label_is_not_found_by_its_name() {
    let body = r#"{"message":"resource is not found","resource":"MarketplaceImage","resource_id":"nonsense","type":"not_found"}"#;
    let (client, _) = client_answered(404, body);
    let error = client
        .marketplace()
        .resolve_image("nonsense", &zone(), "DEV1-S", ImageStorage::BlockStorage)
        .await
        .unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.api().unwrap().resource_id.as_deref(), Some("nonsense"));
}

#[tokio::test(start_paused = true)]
async fn a_success_that_is_not_what_the_call_answers_is_malformed_and_kept_verbatim() {
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "<html>welcome</html>",
        "{}",
        r#"{"server": null}"#,
        r#"{"server": []}"#,
        r#"{"server": {}}"#,
        r#"{"server": {"id": ""}}"#,
        r#"{"server": {"id": 7}}"#,
        r#"{"server": {"id": "x", "tags": "not a list"}}"#,
    ];
    for body in bodies {
        let error = server(body).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::MalformedAnswer, "{body}: {error}");
        assert_eq!((error.body(), error.request_id(), error.status()), (Some(body), Some("request-1"), Some(200)));
        assert!(!error.is_ambiguous() && !error.is_not_found(), "reading has no effect: {body}");
    }
    let (client, _) = client_answered(201, "{");
    let error = client.instance(&zone()).create_server(&CreateServer::default()).await.unwrap_err();
    assert!(error.is_ambiguous(), "the server may have been made");
    let long = format!("{{{}", " ".repeat(100_000));
    assert!(server(long).await.unwrap_err().body().unwrap().len() <= 8 * 1024);
    let quoted = format!(r#"{{"server": {{"id": "x", "tags": "{}"}}}}"#, "ä".repeat(100_000));
    assert!(server(quoted).await.unwrap_err().to_string().len() < 1024, "the parser quotes what it stumbles over");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_its_items_is_not_an_empty_list() {
    for body in
        ["{}", "[]", r#"{"total_count": 0}"#, r#"{"servers": null}"#, r#"{"servers": {}}"#, r#"{"servers": [{}]}"#]
    {
        let (client, _) = client_answered(200, body);
        let error = client.instance(&zone()).list_servers(&ListServers::default()).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::MalformedAnswer, "{body}");
    }
    let (client, _) = client_answered(200, r#"{"volumes": [], "total_count": "many"}"#);
    assert!(client.block(&zone()).list_volumes(&ListBlockVolumes::default()).await.is_err());
}

/// Serves `count` servers in pages, as the Instance API does.
fn paged_servers(count: usize) -> (windlass_scaleway::Client, Sent) {
    client_with(settings(), move |request| {
        let uri = request.uri().to_string();
        async move {
            let url = url_of(&uri);
            let number = |name: &str| -> usize {
                url.iter().find(|(key, _)| key == name).map_or(1, |(_, value)| value.parse().unwrap())
            };
            let (page, per_page) = (number("page"), number("per_page"));
            assert!(per_page <= 100, "Scaleway gives at most 100");
            let servers: Vec<Value> = (0..count)
                .skip((page - 1) * per_page)
                .take(per_page)
                .map(|index| json!({"id": format!("server-{index:04}")}))
                .collect();
            let mut response = response(200, json!({ "servers": servers }).to_string());
            response.headers_mut().insert("x-total-count", count.into());
            Ok(response)
        }
    })
}

fn url_of(uri: &str) -> Vec<(String, String)> {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_of_many_pages_comes_whole_and_in_order() {
    // A full page may not be the last one, and a list of several pages costs one call more.
    for (count, requests) in [(0, 1), (99, 1), (100, 3), (101, 3), (1234, 14)] {
        let (client, sent) = paged_servers(count);
        let servers = client.instance(&zone()).list_servers(&ListServers::default()).await.unwrap();
        assert_eq!(servers.len(), count);
        assert!(servers.is_sorted_by(|one, other| one.id < other.id));
        assert_eq!(sent.count(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_from_the_last_to_the_first() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (client, _) = {
        let asked = asked.clone();
        client_with(settings(), move |request| {
            let query = url_of(&request.uri().to_string());
            let page: usize = query.into_iter().find(|(key, _)| key == "page").unwrap().1.parse().unwrap();
            asked.lock().unwrap().push(page);
            let length = [100, 100, 100, 50][page - 1];
            let volumes: Vec<Value> = (0..length).map(|index| json!({"id": format!("{page}-{index:03}")})).collect();
            async move { Ok(response(200, json!({"volumes": volumes, "total_count": 350}).to_string())) }
        })
    };
    let volumes = client.block(&zone()).list_volumes(&ListBlockVolumes::default()).await.unwrap();
    assert_eq!(volumes.len(), 350);
    assert!(volumes.is_sorted_by(|one, other| one.id < other.id), "they come in order all the same");
    assert_eq!(*asked.lock().unwrap(), [1, 4, 3, 2, 1], "where nothing that stays can slip past");
}

#[test]
fn every_word_is_read_and_written_as_scaleway_spells_it() {
    fn check<T: DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(known: &[T]) {
        for word in known {
            let text = serde_json::to_string(word).unwrap();
            assert_eq!(serde_json::from_str::<T>(&text).unwrap(), *word);
            assert!(!format!("{word:?}").starts_with("Unknown("), "{text}");
        }
    }
    check(ServerState::KNOWN);
    check(ServerAction::KNOWN);
    check(VolumeType::KNOWN);
    check(VolumeState::KNOWN);
    check(IpType::KNOWN);
    check(IpState::KNOWN);
    check(Stock::KNOWN);
    check(BlockVolumeStatus::KNOWN);
    check(ImageStorage::KNOWN);
    assert_eq!(ServerState::StoppedInPlace.as_str(), "stopped in place");
    assert_eq!(ServerState::from("locked"), ServerState::Locked);
}

#[test]
fn requests_can_be_read_back_by_a_server() {
    let update: UpdateServer = serde_json::from_str(r#"{"placement_group": null, "tags": []}"#).unwrap();
    assert_eq!((update.placement_group, update.tags), (Patch::Clear, Some(vec![])));
    let update: UpdateServer = serde_json::from_str("{}").unwrap();
    assert_eq!((update.placement_group, update.tags), (Patch::Keep, None));
    let update: UpdateIp = serde_json::from_str(r#"{"server": "s"}"#).unwrap();
    assert_eq!((update.server, update.reverse), (Patch::Set("s".to_owned()), Patch::Keep));
    let create: CreateServer =
        serde_json::from_str(r#"{"name": "n", "volumes": {"0": {"boot": false}}, "later": 1}"#).unwrap();
    assert_eq!(create.volumes["0"].boot, Some(false));
}

#[test]
fn all_tags_means_every_one_exactly() {
    let tags = ["a", "b=1", "b=10"];
    assert!(has_all_tags(&tags, &["b=1", "a"]) && has_all_tags::<_, &str>(&tags, &[]));
    assert!(!has_all_tags(&tags, &["b"]) && !has_all_tags(&tags, &["A"]) && !has_all_tags::<&str, _>(&[], &["a"]));
}

/// Any JSON whose keys are often those of the objects.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~ä]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 80, 8, |inner| {
        let key = prop::sample::select(vec![
            "id",
            "name",
            "state",
            "tags",
            "volumes",
            "public_ips",
            "private_nics",
            "image",
            "root_volume",
            "location",
            "server",
            "type",
            "references",
            "specs",
            "perf_iops",
            "size",
            "allowed_actions",
            "total_count",
            "0",
            "zone",
            "per_volume_constraint",
            "ram",
            "hourly_price",
            "resource",
            "compatible_commercial_types",
            "servers",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..10)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn parsing_any_json_into_any_type_never_panics(value in any_json()) {
        fn read<T: DeserializeOwned + serde::Serialize>(value: &Value) {
            if let Ok(read) = serde_json::from_value::<T>(value.clone()) {
                serde_json::to_string(&read).expect("what was read can be written");
            }
        }
        read::<Server>(&value);
        read::<Ip>(&value);
        read::<Volume>(&value);
        read::<PrivateNic>(&value);
        read::<Image>(&value);
        read::<SecurityGroup>(&value);
        read::<PlacementGroup>(&value);
        read::<ServerType>(&value);
        read::<Task>(&value);
        read::<BlockVolume>(&value);
        read::<LocalImage>(&value);
        read::<IpamIp>(&value);
        read::<CreateServer>(&value);
        read::<UpdateServer>(&value);
        read::<UpdateIp>(&value);
        read::<ServerActionRequest>(&value);
    }

    #[test]
    fn any_answer_ends_a_call_without_a_panic(status in 200u16..600, body in any_json(), wrapped in any::<bool>()) {
        let body = if wrapped { json!({"server": body.clone(), "servers": [body]}) } else { body };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (client, _) = client_answered(status, body.to_string());
            let _ = client.instance(&zone()).get_server(SERVER).await.map_err(|error| error.to_string());
            let _ = client.instance(&zone()).list_servers(&ListServers::default()).await;
            let _ = client.instance(&zone()).list_server_types().await;
        });
    }

    #[test]
    fn unknown_words_survive_reading_and_writing(word in "[ -~]{0,30}") {
        let state = ServerState::from(word.as_str());
        prop_assert_eq!(state.as_str(), word.as_str());
        let text = serde_json::to_string(&state).unwrap();
        prop_assert_eq!(serde_json::from_str::<ServerState>(&text).unwrap(), state);
    }
}
