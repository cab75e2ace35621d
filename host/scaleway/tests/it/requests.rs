//! Every method sends what Scaleway's SDK sends: method, path, query, body, headers.

use std::collections::BTreeMap;
use std::future::Future;

use http::Request;
use serde_json::{Value, json};
use windlass_scaleway::types::Patch;
use windlass_scaleway::types::block::*;
use windlass_scaleway::types::instance::*;
use windlass_scaleway::types::ipam::ListIpamIps;
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Error};

use crate::support::*;

/// Runs one call against an answer and returns what was sent.
async fn sent<T, F, A>(status: u16, answer: &str, call: F) -> (String, Value)
where
    F: FnOnce(Client) -> A,
    A: Future<Output = Result<T, Error>>,
{
    let (client, sent) = client_answered(status, answer.to_owned());
    call(client).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sent.count(), 1, "one call");
    let request: Request<_> = sent.last();
    let path = request.uri().to_string().replacen("https://api.scaleway.com", "", 1);
    let body = match request.body().is_empty() {
        true => {
            assert!(!request.headers().contains_key("content-type"), "no body, no type");
            Value::Null
        }
        false if request.headers()["content-type"] == "application/json" => {
            serde_json::from_slice(request.body()).unwrap()
        }
        false => Value::String(String::from_utf8(request.body().to_vec()).unwrap()),
    };
    (format!("{} {path}", request.method()), body)
}

macro_rules! assert_sends {
    ($status:expr, $answer:expr, |$client:ident| $call:expr, $line:expr, $body:tt) => {{
        let answer: String = $answer.into();
        let (line, body) = sent($status, &answer, |$client| async move { $call.await }).await;
        assert_eq!(line, $line);
        assert_eq!(body, json!($body), "{line}");
    }};
}

const ZONED: &str = "/instance/v1/zones/fr-par-1";

fn tags() -> Vec<String> {
    vec!["windlass-owner=me".to_owned(), "b".to_owned()]
}

#[tokio::test(start_paused = true)]
async fn servers() {
    let server = fixture("server_block_storage");
    let request = CreateServer {
        name: "ci-1".to_owned(),
        commercial_type: "DEV1-S".to_owned(),
        image: Some("image".to_owned()),
        volumes: BTreeMap::from([(
            "0".to_owned(),
            VolumeTemplate {
                size: Some(10_000_000_000),
                volume_type: Some(VolumeType::BlockStorage),
                boot: Some(false),
                ..Default::default()
            },
        )]),
        dynamic_ip_required: Some(false),
        boot_type: Some(BootType::Local),
        public_ips: vec!["ip".to_owned()],
        tags: tags(),
        ..Default::default()
    };
    assert_sends!(201, &server, |client| client.instance(&zone()).create_server(&request),
        format!("POST {ZONED}/servers"),
        {"name": "ci-1", "commercial_type": "DEV1-S", "image": "image", "dynamic_ip_required": false,
            "boot_type": "local",
         "volumes": {"0": {"size": 10000000000u64, "volume_type": "sbs_volume", "boot": false}},
         "public_ips": ["ip"], "tags": ["windlass-owner=me", "b"], "project": PROJECT});
    assert_sends!(
        200,
        &server,
        |client| client.instance(&zone()).get_server(SERVER),
        format!("GET {ZONED}/servers/{SERVER}"),
        null
    );
    assert_sends!(
        204,
        "",
        |client| client.instance(&zone()).delete_server(SERVER),
        format!("DELETE {ZONED}/servers/{SERVER}"),
        null
    );
    let update = UpdateServer { placement_group: Patch::Clear, name: Some("other".to_owned()), ..Default::default() };
    assert_sends!(200, &server, |client| client.instance(&zone()).update_server(SERVER, &update),
        format!("PATCH {ZONED}/servers/{SERVER}"), {"name": "other", "placement_group": null});
    assert_sends!(202, fixture("task"), |client| client.instance(&zone()).server_action(SERVER, ServerAction::PowerOn),
        format!("POST {ZONED}/servers/{SERVER}/action"), {"action": "poweron"});
    assert_sends!(
        200,
        r#"{"actions":["poweron","dream"]}"#,
        |client| client.instance(&zone()).list_server_actions(SERVER),
        format!("GET {ZONED}/servers/{SERVER}/action"),
        null
    );
    let volume = AttachVolume { volume_id: "v".to_owned(), volume_type: Some(VolumeType::BlockStorage), boot: None };
    assert_sends!(200, &server, |client| client.instance(&zone()).attach_server_volume(SERVER, &volume),
        format!("POST {ZONED}/servers/{SERVER}/attach-volume"), {"volume_id": "v", "volume_type": "sbs_volume"});
    assert_sends!(200, &server, |client| client.instance(&zone()).detach_server_volume(SERVER, "v"),
        format!("POST {ZONED}/servers/{SERVER}/detach-volume"), {"volume_id": "v"});
    assert_sends!(
        200,
        r#"{"servers": []}"#,
        |client| client.instance(&zone()).list_servers(&ListServers::default()),
        format!("GET {ZONED}/servers?order=creation_date_asc&per_page=100&page=1"),
        null
    );
    assert_sends!(
        200,
        r#"{"servers": []}"#,
        |client| client.instance(&zone()).count_servers(&ListServers::default()),
        format!("GET {ZONED}/servers?order=creation_date_asc&per_page=1&page=1"),
        null
    );
    let list = ListServers {
        organization: Some("o".to_owned()),
        project: Some("p".to_owned()),
        name: Some("n m".to_owned()),
        commercial_type: Some("DEV1-S".to_owned()),
        state: Some(ServerState::StoppedInPlace),
        tags: tags(),
        private_network: Some("pn".to_owned()),
        servers: vec!["a".to_owned(), "b".to_owned()],
        order: Some(ListServersOrder::ModificationDateDescending),
    };
    assert_sends!(
        200,
        r#"{"servers": []}"#,
        |client| client.instance(&zone()).list_servers(&list),
        format!(
            "GET {ZONED}/servers?organization=o&project=p&name=n+m&commercial_type=DEV1-S&state=stopped+in+place\
                 &tags=windlass-owner%3Dme%2Cb&private_network=pn&servers=a%2Cb&order=modification_date_desc&per_page=100&page=1"
        ),
        null
    );
}

#[tokio::test(start_paused = true)]
async fn user_data() {
    assert_sends!(
        200,
        r#"{"user_data": ["cloud-init"]}"#,
        |client| client.instance(&zone()).list_server_user_data(SERVER),
        format!("GET {ZONED}/servers/{SERVER}/user_data"),
        null
    );
    assert_sends!(
        200,
        "#cloud-config",
        |client| client.instance(&zone()).get_server_user_data(SERVER, "cloud-init"),
        format!("GET {ZONED}/servers/{SERVER}/user_data/cloud-init"),
        null
    );
    assert_sends!(
        204,
        "",
        |client| client.instance(&zone()).set_server_user_data(SERVER, "cloud-init", "#cloud-config\n"),
        format!("PATCH {ZONED}/servers/{SERVER}/user_data/cloud-init"),
        "#cloud-config\n"
    );
    assert_sends!(
        204,
        "",
        |client| client.instance(&zone()).delete_server_user_data(SERVER, "cloud-init"),
        format!("DELETE {ZONED}/servers/{SERVER}/user_data/cloud-init"),
        null
    );
}

#[tokio::test(start_paused = true)]
async fn private_nics() {
    let request =
        CreatePrivateNic { private_network_id: "pn".to_owned(), tags: tags(), ipam_ip_ids: vec!["ip".to_owned()] };
    assert_sends!(201, fixture("private_nic"), |client| client.instance(&zone()).create_private_nic(SERVER, &request),
        format!("POST {ZONED}/servers/{SERVER}/private_nics"),
        {"private_network_id": "pn", "tags": ["windlass-owner=me", "b"], "ipam_ip_ids": ["ip"]});
    assert_sends!(
        200,
        fixture("private_nic"),
        |client| client.instance(&zone()).get_private_nic(SERVER, "nic"),
        format!("GET {ZONED}/servers/{SERVER}/private_nics/nic"),
        null
    );
    assert_sends!(
        200,
        r#"{"private_nics": []}"#,
        |client| client.instance(&zone()).list_private_nics(SERVER, &ListPrivateNics { tags: tags() }),
        format!("GET {ZONED}/servers/{SERVER}/private_nics?tags=windlass-owner%3Dme%2Cb&per_page=100&page=1"),
        null
    );
    assert_sends!(
        204,
        "",
        |client| client.instance(&zone()).delete_private_nic(SERVER, "nic"),
        format!("DELETE {ZONED}/servers/{SERVER}/private_nics/nic"),
        null
    );
}

#[tokio::test(start_paused = true)]
async fn addresses() {
    let request = CreateIp { tags: tags(), ip_type: Some(IpType::RoutedIpv6), ..Default::default() };
    assert_sends!(201, fixture("ip_v6"), |client| client.instance(&zone()).create_ip(&request),
        format!("POST {ZONED}/ips"), {"project": PROJECT, "tags": ["windlass-owner=me", "b"], "type": "routed_ipv6"});
    let foreign = CreateIp { organization: Some("o".to_owned()), ..Default::default() };
    assert_sends!(201, fixture("ip"), |client| client.instance(&zone()).create_ip(&foreign),
        format!("POST {ZONED}/ips"), {"organization": "o"});
    assert_sends!(
        200,
        fixture("ip"),
        |client| client.instance(&zone()).get_ip("192.0.2.1"),
        format!("GET {ZONED}/ips/192.0.2.1"),
        null
    );
    let attach = UpdateIp { server: SERVER.to_owned().into(), ..Default::default() };
    assert_sends!(200, fixture("ip"), |client| client.instance(&zone()).update_ip("i", &attach),
        format!("PATCH {ZONED}/ips/i"), {"server": SERVER});
    let detach = UpdateIp { server: Patch::Clear, ..Default::default() };
    assert_sends!(200, fixture("ip"), |client| client.instance(&zone()).update_ip("i", &detach),
        format!("PATCH {ZONED}/ips/i"), {"server": null});
    let list = ListIps { tags: tags(), ip_type: Some(IpType::RoutedIpv4), ..Default::default() };
    assert_sends!(
        200,
        r#"{"ips": []}"#,
        |client| client.instance(&zone()).list_ips(&list),
        format!("GET {ZONED}/ips?tags=windlass-owner%3Dme%2Cb&type=routed_ipv4&per_page=100&page=1"),
        null
    );
    assert_sends!(204, "", |client| client.instance(&zone()).delete_ip("i"), format!("DELETE {ZONED}/ips/i"), null);
}

#[tokio::test(start_paused = true)]
async fn local_volumes() {
    let request = CreateVolume {
        name: "data".to_owned(),
        volume_type: Some(VolumeType::LocalSsd),
        size: Some(512),
        ..Default::default()
    };
    assert_sends!(201, fixture("volume"), |client| client.instance(&zone()).create_volume(&request),
        format!("POST {ZONED}/volumes"), {"name": "data", "volume_type": "l_ssd", "size": 512, "project": PROJECT});
    assert_sends!(
        200,
        fixture("volume"),
        |client| client.instance(&zone()).get_volume("v"),
        format!("GET {ZONED}/volumes/v"),
        null
    );
    let update = UpdateVolume { tags: Some(vec![]), ..Default::default() };
    assert_sends!(200, fixture("volume"), |client| client.instance(&zone()).update_volume("v", &update),
        format!("PATCH {ZONED}/volumes/v"), {"tags": []});
    let list = ListVolumes { volume_type: Some(VolumeType::Scratch), name: Some("n".to_owned()), ..Default::default() };
    assert_sends!(
        200,
        r#"{"volumes": []}"#,
        |client| client.instance(&zone()).list_volumes(&list),
        format!("GET {ZONED}/volumes?volume_type=scratch&name=n&per_page=100&page=1"),
        null
    );
    assert_sends!(
        204,
        "",
        |client| client.instance(&zone()).delete_volume("v"),
        format!("DELETE {ZONED}/volumes/v"),
        null
    );
}

#[tokio::test(start_paused = true)]
async fn block_volumes() {
    let block = "/block/v1/zones/fr-par-1/volumes";
    let request = CreateBlockVolume {
        name: "data".to_owned(),
        perf_iops: Some(5000),
        from_empty: Some(FromEmpty { size: 12_000_000_000 }),
        ..Default::default()
    };
    assert_sends!(200, fixture("block_volume"), |client| client.block(&zone()).create_volume(&request),
        format!("POST {block}"),
        {"name": "data", "perf_iops": 5000, "project_id": PROJECT, "from_empty": {"size": 12000000000u64}, "tags": []});
    assert_sends!(
        200,
        fixture("block_volume"),
        |client| client.block(&zone()).get_volume("v"),
        format!("GET {block}/v"),
        null
    );
    let update = UpdateBlockVolume { tags: Some(tags()), ..Default::default() };
    assert_sends!(200, fixture("block_volume"), |client| client.block(&zone()).update_volume("v", &update),
        format!("PATCH {block}/v"), {"tags": ["windlass-owner=me", "b"]});
    let list = ListBlockVolumes { tags: tags(), product_resource_id: Some("s".to_owned()), ..Default::default() };
    assert_sends!(
        200,
        r#"{"volumes": [], "total_count": 0}"#,
        |client| client.block(&zone()).list_volumes(&list),
        format!(
            "GET {block}?order_by=created_at_asc&product_resource_id=s&tags=windlass-owner%3Dme&tags=b&page_size=100&page=1"
        ),
        null
    );
    assert_sends!(204, "", |client| client.block(&zone()).delete_volume("v"), format!("DELETE {block}/v"), null);
}

#[tokio::test(start_paused = true)]
async fn products_images_groups_and_private_addresses() {
    assert_sends!(
        200,
        fixture("server_types"),
        |client| client.instance(&zone()).list_server_types(),
        format!("GET {ZONED}/products/servers?per_page=100&page=1"),
        null
    );
    assert_sends!(
        200,
        fixture("availability"),
        |client| client.instance(&zone()).server_type_availability(),
        format!("GET {ZONED}/products/servers/availability?per_page=100&page=1"),
        null
    );
    assert_sends!(
        200,
        fixture("image"),
        |client| client.instance(&zone()).get_image("i"),
        format!("GET {ZONED}/images/i"),
        null
    );
    assert_sends!(
        200,
        fixture("security_group"),
        |client| client.instance(&zone()).get_security_group("g"),
        format!("GET {ZONED}/security_groups/g"),
        null
    );
    assert_sends!(
        200,
        fixture("placement_group"),
        |client| client.instance(&zone()).get_placement_group("g"),
        format!("GET {ZONED}/placement_groups/g"),
        null
    );
    assert_sends!(
        200,
        fixture("local_images"),
        |client| client.marketplace().resolve_image("ubuntu_noble", &zone(), "dev1-s", ImageStorage::BlockStorage),
        "GET /marketplace/v2/local-images?image_label=ubuntu_noble&zone=fr-par-1&type=instance_sbs&order_by=type_asc&page_size=100&page=1",
        null
    );
    let list = ListIpamIps {
        resource_type: Some("instance_private_nic".to_owned()),
        resource_id: Some("nic".to_owned()),
        ..Default::default()
    };
    assert_sends!(
        200,
        fixture("ipam"),
        |client| client.ipam(&zone().region()).list_ips(&list),
        "GET /ipam/v1/regions/fr-par/ips?resource_type=instance_private_nic&resource_id=nic&page_size=100&page=1",
        null
    );
    assert_sends!(
        200,
        r#"{"id": "i"}"#,
        |client| client.ipam(&zone().region()).get_ip("i"),
        "GET /ipam/v1/regions/fr-par/ips/i",
        null
    );
}

#[tokio::test(start_paused = true)]
async fn quotas() {
    assert_sends!(
        200,
        r#"{"quota": [], "total_count": 0}"#,
        |client| client.iam().list_quota("o"),
        "GET /iam/v1alpha1/quota?organization_id=o&page_size=100&page=1",
        null
    );
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_the_key_in_its_one_header_and_our_name() {
    let (client, sent) = client_answered(200, fixture("server_running"));
    client.instance(&zone()).get_server(SERVER).await.unwrap();
    let request = sent.last();
    assert_eq!(request.headers()["x-auth-token"], KEY);
    assert!(request.headers()["x-auth-token"].is_sensitive());
    assert_eq!(request.headers()["user-agent"], format!("windlass/{}", env!("CARGO_PKG_VERSION")));
    assert!(!request.uri().to_string().contains(KEY));
    let with_key = request.headers().values().filter(|value| value.as_bytes() == KEY.as_bytes());
    assert_eq!(with_key.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_default_project_names_none() {
    let settings = windlass_scaleway::Settings::new(KEY.parse().unwrap());
    let (client, sent) = client_with(settings, |_| async { Ok(response(201, fixture("ip"))) });
    client.instance(&zone()).create_ip(&CreateIp::default()).await.unwrap();
    assert_eq!(sent.last().body(), "{}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_id_never_becomes_a_call_on_everything() {
    let (client, sent) = client_answered(204, "");
    let instance = client.instance(&zone());
    for result in [
        instance.delete_server("").await,
        instance.delete_ip("").await,
        instance.delete_volume("..").await,
        instance.delete_private_nic(SERVER, "").await,
        instance.delete_server_user_data(SERVER, "").await,
        client.block(&zone()).delete_volume("").await,
    ] {
        assert!(matches!(result.unwrap_err(), Error::InvalidArgument { .. }));
    }
    assert_eq!(sent.count(), 0, "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_raw_request_goes_out_as_it_is_and_its_answer_comes_back_whatever_its_status() {
    let (client, sent) = client_answered(404, r#"{"type":"not_found"}"#);
    let path = "/instance/v1/zones/fr-par-1/products/servers/availability?per_page=100";
    let answer = client.send_raw("GET", path, None).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (404, &br#"{"type":"not_found"}"#[..]));
    assert_eq!(answer.request_id.as_deref(), Some("request-1"));
    assert_eq!(sent.last().uri().to_string(), format!("https://api.scaleway.com{path}"));
    assert_eq!(sent.last().headers()["x-auth-token"], KEY);
    let answer = client.send_raw("POST", "/x", Some("{}".into())).await.unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(sent.last().headers()["content-type"], "application/json");
    assert!(client.send_raw("GET", "/a/../b", None).await.is_err());
    assert_eq!(sent.count(), 2);
}
