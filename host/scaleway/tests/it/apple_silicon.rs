//! Apple silicon: what is sent, what is understood, what is refused, and that its passwords get nowhere by accident.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_scaleway::types::apple_silicon::*;
use windlass_scaleway::{AppleSiliconApi, Error, ErrorClass};

use crate::support::{Sent, client_answered, client_with, response, settings, zone};

const PATH: &str = "https://api.scaleway.com/apple-silicon/v1alpha1/zones/fr-par-1";
const PASSWORD: &str = "open-sesame";

fn fixture(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../fixtures/apple_silicon.json")).unwrap();
    assert!(!all[name].is_null(), "there is no fixture {name}");
    all[name].clone()
}

fn answered(status: u16, body: impl Into<Bytes>) -> (AppleSiliconApi, Sent) {
    let (client, sent) = client_answered(status, body);
    (client.apple_silicon(&zone()), sent)
}

/// Asserts that the one request that was sent is this one.
#[track_caller]
fn assert_sent(sent: &Sent, line: &str, body: Value) {
    assert_eq!(sent.count(), 1, "one call");
    let request = sent.last();
    assert_eq!(format!("{} {}", request.method(), request.uri().to_string().replacen(PATH, "", 1)), line);
    let ours = if request.body().is_empty() { Value::Null } else { serde_json::from_slice(request.body()).unwrap() };
    assert_eq!(ours, body, "{line}");
}

#[tokio::test(start_paused = true)]
async fn every_method_sends_what_scaleways_sdk_sends() {
    let server = fixture("server").to_string();
    let (api, sent) = answered(200, server.clone());
    api.create_server(&CreateServer {
        name: "mac".to_owned(),
        server_type: "M4-S".to_owned(),
        commitment_type: Some(CommitmentType::Duration24h),
        public_bandwidth_bps: Some(1_000_000_000),
        ..CreateServer::default()
    })
    .await
    .unwrap();
    assert_sent(
        &sent,
        "POST /servers",
        json!({"name": "mac", "type": "M4-S", "enable_vpc": false, "commitment_type": "duration_24h",
               "public_bandwidth_bps": 1_000_000_000, "project_id": crate::support::PROJECT}),
    );
    let (api, sent) = answered(200, server.clone());
    api.get_server("a").await.unwrap();
    assert_sent(&sent, "GET /servers/a", Value::Null);
    let (api, sent) = answered(200, server.clone());
    api.update_server("a", &UpdateServer::rename("new")).await.unwrap();
    assert_sent(&sent, "PATCH /servers/a", json!({"name": "new"}));
    let (api, sent) = answered(200, server.clone());
    api.update_server("a", &UpdateServer::schedule_deletion(false)).await.unwrap();
    assert_sent(&sent, "PATCH /servers/a", json!({"schedule_deletion": false}));
    let (api, sent) = answered(200, server.clone());
    let commitment = ChangeCommitment { commitment_type: CommitmentType::RenewedMonthly };
    let request = UpdateServer { commitment_type: Some(commitment), ..UpdateServer::default() };
    api.update_server("a", &request).await.unwrap();
    assert_sent(&sent, "PATCH /servers/a", json!({"commitment_type": {"commitment_type": "renewed_monthly"}}));
    let (api, sent) = answered(204, "");
    api.delete_server("a").await.unwrap();
    assert_sent(&sent, "DELETE /servers/a", Value::Null);
    let (api, sent) = answered(200, server.clone());
    api.reboot_server("a").await.unwrap();
    assert_sent(&sent, "POST /servers/a/reboot", json!({}));
    let (api, sent) = answered(200, server);
    api.reinstall_server("a", &ReinstallServer { os_id: Some("o".to_owned()), enable_kext: false }).await.unwrap();
    assert_sent(&sent, "POST /servers/a/reinstall", json!({"os_id": "o", "enable_kext": false}));
    let (api, sent) = answered(200, fixture("servers").to_string());
    api.list_servers(&ListServers::default()).await.unwrap();
    assert_sent(&sent, "GET /servers?order_by=created_at_asc&page_size=100&page=1", Value::Null);
    let (api, sent) = answered(200, fixture("os").to_string());
    let filter =
        ListOperatingSystems { server_type: Some("M4-S".to_owned()), name: Some("macos-sequoia-15.6".to_owned()) };
    api.list_os(&filter).await.unwrap();
    assert_sent(&sent, "GET /os?server_type=M4-S&name=macos-sequoia-15.6&page_size=100&page=1", Value::Null);
    let (api, sent) = answered(200, fixture("os")["os"][0].to_string());
    assert_eq!(api.get_os("o").await.unwrap().version, "15.6.1");
    assert_sent(&sent, "GET /os/o", Value::Null);
    let (api, sent) = answered(200, fixture("server_types").to_string());
    api.list_server_types().await.unwrap();
    assert_sent(&sent, "GET /server-types", Value::Null);
    let (api, sent) = answered(200, fixture("server_types")["server_types"][0].to_string());
    api.get_server_type("M4-S").await.unwrap();
    assert_sent(&sent, "GET /server-type/M4-S", Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_would_make_another_call_is_refused_unsent() {
    for id in ["", ".", ".."] {
        let (api, sent) = answered(204, "");
        let error = api.delete_server(id).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "server_id", .. }), "{error}");
        assert_eq!(sent.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_tells_its_state_its_floor_and_its_passwords() {
    let server = answered(200, fixture("server").to_string()).0.get_server("a").await.unwrap();
    assert_eq!((server.status.clone(), server.delivered, server.name.as_str()), (ServerStatus::Ready, true, "pool-1"));
    assert_eq!(server.server_type, "M4-S");
    assert_eq!(server.os.as_ref().unwrap().name, "macos-sequoia-15.6");
    let lease = server.deletable_at().unwrap().duration_since(server.created_at().unwrap());
    assert_eq!(lease.as_secs(), 86_400);
    assert_eq!(server.commitment.as_ref().unwrap().commitment_type, CommitmentType::Duration24h);
    assert_eq!(server.sudo_password.reveal(), Some(PASSWORD));
    assert_eq!(server.vnc_url.reveal(), Some("vnc://m1:open-sesame@192.0.2.7:59010"));

    let server = answered(200, fixture("server_sealed").to_string()).0.get_server("a").await.unwrap();
    assert_eq!((server.sudo_password.reveal(), server.vnc_url.reveal()), (None, None), "sealed is no password");
    assert!(server.status.is_transient() && server.deletion_scheduled && !server.delivered);
    assert!(server.commitment.is_none() && server.vpc_status == VpcStatus::Enabled);

    let server = answered(200, fixture("server_of_tomorrow").to_string()).0.get_server("a").await.unwrap();
    assert_eq!(server.status, ServerStatus::Unknown("dreaming".to_owned()));
    assert!(!server.status.is_transient(), "nobody waits for what nobody knows");
    assert_eq!((server.deletable_at(), server.sudo_password.reveal()), (None, None));
    assert_eq!(server.commitment.unwrap().commitment_type.as_str(), "for_life");
}

#[tokio::test(start_paused = true)]
async fn types_tell_stock_and_minimum_lease() {
    let types = answered(200, fixture("server_types").to_string()).0.list_server_types().await.unwrap();
    assert_eq!((&types[0].stock, &types[1].stock), (&Stock::Low, &Stock::None));
    assert_eq!(types[0].minimum_lease().unwrap().as_secs(), 86_400);
    assert_eq!(types[0].memory.as_ref().unwrap().capacity, 16_000_000_000);
    assert_eq!(types[1].cpu.as_ref().unwrap().core_count, 8);
    let twice =
        json!({"server_types": [{"name": "M4-S", "stock": "low_stock"}, {"name": "M4-S", "stock": "no_stock"}]});
    let types = answered(200, twice.to_string()).0.list_server_types().await.unwrap();
    assert_eq!(
        types.iter().map(|known| known.name.as_str()).collect::<Vec<_>>(),
        ["M4-S"],
        "what comes twice counts once"
    );
    for body in ["{}", r#"{"server_types": null}"#, r#"{"server_types": [{}]}"#] {
        let error = answered(200, body).0.list_server_types().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::MalformedAnswer, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_the_list_are_read() {
    let server = |number: u64| {
        let mut server = fixture("server_sealed");
        server["id"] = json!(format!("server-{number}"));
        server
    };
    let (client, sent) = client_with(settings(), move |request| {
        let page: u64 = request.uri().query().unwrap().rsplit_once("page=").unwrap().1.parse().unwrap();
        let servers: Vec<Value> = ((page - 1) * 100..(page * 100).min(205)).map(server).collect();
        let body = json!({"servers": servers, "total_count": 205}).to_string();
        async move { Ok(response_without_total(body)) }
    });
    let servers = client.apple_silicon(&zone()).list_servers(&ListServers::default()).await.unwrap();
    assert_eq!(servers.len(), 205);
    assert_eq!(sent.count(), 4, "from the last page to the first, which is read twice");
}

/// This API tells its total in the body alone.
fn response_without_total(body: String) -> http::Response<Bytes> {
    let mut response = response(200, body);
    response.headers_mut().remove("x-total-count");
    response
}

#[tokio::test(start_paused = true)]
async fn the_billing_floor_is_a_failed_precondition_in_both_shapes() {
    let with_words = fixture("refused_with_words").to_string();
    let error = answered(412, with_words.clone()).0.delete_server("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::PreconditionFailed);
    assert_eq!(error.not_before(), Some("2026-01-03T03:04:05.000006Z".parse().unwrap()));
    assert!(!error.is_ambiguous() && !error.is_gone_or_not_ours());
    let error = answered(400, with_words).0.delete_server("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::PreconditionFailed, "by its type, whatever the status");
    for bare in ["", "{}", r#"{"message": "precondition failed"}"#, "<html>412</html>"] {
        let error = answered(412, bare).0.delete_server("a").await.unwrap_err();
        assert_eq!((error.class(), error.not_before()), (ErrorClass::PreconditionFailed, None), "{bare:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_gone_is_told_by_403_and_only_where_a_host_was_asked_for() {
    let gone = fixture("gone").to_string();
    let api = answered(403, gone.clone()).0;
    for error in [
        api.get_server("a").await.unwrap_err(),
        api.delete_server("a").await.unwrap_err(),
        api.update_server("a", &UpdateServer::rename("b")).await.unwrap_err(),
        api.reinstall_server("a", &ReinstallServer::default()).await.unwrap_err(),
    ] {
        assert!(error.is_gone_or_not_ours(), "{error}");
        assert_eq!(error.class(), ErrorClass::PermissionDenied);
    }
    let list = api.list_servers(&ListServers::default()).await.unwrap_err();
    assert!(!list.is_gone_or_not_ours(), "a list that may not be read proves nothing: {list}");
    let create = api.create_server(&CreateServer::default()).await.unwrap_err();
    assert!(!create.is_gone_or_not_ours(), "{create}");
    for body in ["", "{}", r#"{"type": "permissions_denied", "details": []}"#, "<html>403</html>"] {
        let error = answered(403, body).0.get_server("a").await.unwrap_err();
        assert!(!error.is_gone_or_not_ours(), "{body:?}: {error}");
    }
    let instance = client_answered(403, gone).0.instance(&zone()).get_server("a").await.unwrap_err();
    assert!(!instance.is_gone_or_not_ours(), "Instance says 404");
    let not_found = r#"{"message":"resource is not found","resource":"server","resource_id":"a","type":"not_found"}"#;
    assert!(answered(404, not_found).0.get_server("a").await.unwrap_err().is_gone_or_not_ours());
}

#[tokio::test(start_paused = true)]
async fn out_of_stock_is_not_an_outage() {
    let body = r#"{"message":"resource is out of stock","resource":"server","type":"out_of_stock"}"#;
    let error = answered(503, body).0.create_server(&CreateServer::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::OutOfStock);
    assert!(!error.is_ambiguous(), "nothing was made");
}

#[tokio::test(start_paused = true)]
async fn passwords_appear_in_no_debug_no_json_no_error_and_no_raw_answer() {
    let body = fixture("server").to_string();
    let server = answered(200, body.clone()).0.get_server("a").await.unwrap();
    assert!(!format!("{server:?}").contains(PASSWORD));
    assert!(!serde_json::to_string(&server).unwrap().contains(PASSWORD));

    // Answers that cannot be understood are quoted, whole or broken off, without the passwords.
    let broken = [
        body.replace("\"tags\":[]", "\"tags\":7"),
        body.replace("\"id\"", "\"di\""),
        body.replace(r#""open-sesame""#, r#"["open-sesame"]"#),
        body[..body.find(PASSWORD).unwrap() + 5].to_owned(),
        format!("[{body}]"),
    ];
    for (number, body) in broken.iter().enumerate() {
        let error = answered(200, body.clone()).0.get_server("a").await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::MalformedAnswer);
        let reported = format!("{error} {error:?} {}", error.body().unwrap());
        assert!(!reported.contains("open-"), "{number}: {reported}");
    }
    let error = answered(500, body.clone()).0.get_server("a").await.unwrap_err();
    assert!(!format!("{error:?}").contains(PASSWORD));

    // A policy may be granted to read hosts; their passwords stay here.
    let (client, _) = client_answered(200, body);
    let raw = client.send_raw("GET", "/apple-silicon/v1alpha1/zones/fr-par-1/servers/a", None).await.unwrap();
    let read: Value = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!((&read["sudo_password"], &read["vnc_url"]), (&json!("<sealed>"), &json!("<sealed>")));
    assert_eq!(read["name"], "pool-1");
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,24}"
}

proptest! {
    #[test]
    fn whatever_a_host_says_is_read_and_written_back_without_secrets(
        name in text(), status in text(), password in "[^<]{1,24}", date in text(), bandwidth in any::<u64>(),
    ) {
        let body = json!({"id": "x", "name": name, "status": status, "sudo_password": password, "deletable_at": date,
                          "public_bandwidth_bps": bandwidth});
        let server: Server = serde_json::from_value(body).unwrap();
        prop_assert_eq!(&server.name, &name);
        prop_assert_eq!(server.status.as_str(), &status);
        prop_assert_eq!(server.sudo_password.reveal(), Some(password.as_str()));
        let _ = server.deletable_at();
        let written = serde_json::to_value(&server).unwrap();
        prop_assert!(written.get("sudo_password").is_none() && written.get("vnc_url").is_none());
        let again: Server = serde_json::from_value(written).unwrap();
        prop_assert_eq!(again.status, server.status);
        prop_assert_eq!(again.public_bandwidth_bps, bandwidth);
    }
}
