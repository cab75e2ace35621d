//! Authentication, unknown paths, Marketplace, IAM.

use bytes::Bytes;
use http::Method;
use serde_json::json;
use windlass_simulator::{Options, Quotas};

use crate::caller::{Caller, INSTANCE, TOKEN};

#[tokio::test]
async fn a_call_without_a_key_or_with_a_wrong_one_is_denied_and_does_nothing() {
    let caller = Caller::still();
    let path = format!("{INSTANCE}/ips");
    for (token, reason) in [(None, "not_found"), (Some("nonsense"), "invalid_argument")] {
        let denied = caller.with_token(token).post(&path, json!({})).await.expect(401);
        assert_eq!((&denied["type"], &denied["reason"]), (&json!("denied_authentication"), &json!(reason)));
    }
    let tokens = [TOKEN.to_owned()].into();
    let strict = Caller::of(Options { time_scale: 0.0, tokens, ..Options::default() });
    let other = "00000000-0000-4000-8000-00000000dead";
    assert_eq!(strict.with_token(Some(other)).post(&path, json!({})).await.expect(401)["reason"], "not_found");
    strict.post(&path, json!({})).await.expect(201);
    assert!(caller.simulator.resources().is_empty());
}

#[tokio::test]
async fn every_answer_carries_the_gateways_headers() {
    let caller = Caller::still();
    let ok = caller.get(&format!("{INSTANCE}/ips")).await;
    let missing = caller.get("/no/such/path").await;
    for reply in [&ok, &missing] {
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("server"), Some("Scaleway API Gateway (fr-par-1;edge01)"));
        assert_eq!(reply.header("x-frame-options"), Some("DENY"));
        assert!(reply.header("date").unwrap().ends_with(" GMT"));
        assert!(uuid::Uuid::parse_str(reply.header("x-request-id").unwrap()).is_ok());
    }
    assert_ne!(ok.header("x-request-id"), missing.header("x-request-id"));
    missing.expect(404);
}

#[tokio::test]
async fn bodies_that_are_no_objects_or_too_large_are_refused_and_empty_ones_tolerated() {
    let caller = Caller::of(Options { time_scale: 0.0, body_bytes: 1_000, ..Options::default() });
    let path = format!("{INSTANCE}/ips");
    for body in ["{", "[]", "\"x\"", "nonsense"] {
        let reply = caller.send(Method::POST, &path, Bytes::from_static(body.as_bytes())).await.unwrap();
        assert_eq!(reply.expect(400)["type"], "invalid_arguments", "{body}");
    }
    caller.send(Method::POST, &path, vec![b' '; 1_001].into()).await.unwrap().expect(413);
    // Scaleway's Python SDK sends `{}` with GET and DELETE.
    caller.send(Method::GET, &path, Bytes::from_static(b"{}")).await.unwrap().expect(200);
    let ip = caller.ip(json!({})).await;
    let delete = caller.send(Method::DELETE, &format!("{path}/{ip}"), Bytes::from_static(b"{}")).await.unwrap();
    delete.expect(204);
}

#[tokio::test]
async fn an_unknown_label_is_named_in_the_place_of_an_id() {
    let caller = Caller::still();
    let refusal = caller.get("/marketplace/v2/local-images?image_label=no_such_image&zone=fr-par-1").await.expect(404);
    assert_eq!((&refusal["resource"], &refusal["resource_id"]), (&json!("MarketplaceImage"), &json!("no_such_image")));
}

#[tokio::test]
async fn a_local_image_serves_only_its_zone_and_architecture() {
    let caller = Caller::still();
    let list = caller.get("/marketplace/v2/local-images?image_label=ubuntu_jammy&zone=nl-ams-1").await.expect(200);
    let elsewhere = list["local_images"][0]["id"].clone();
    let request = json!({"name": "web", "commercial_type": "DEV1-S", "image": elsewhere});
    assert_eq!(caller.post(&format!("{INSTANCE}/servers"), request).await.expect(404)["resource"], "instance_image");
    let request = json!({"name": "web", "commercial_type": "COPARM1-2C-8G", "image": caller.image().await});
    assert_eq!(
        caller.post(&format!("{INSTANCE}/servers"), request).await.expect(400)["details"][0]["argument_name"],
        "image"
    );
}

#[tokio::test]
async fn ssh_keys_are_made_listed_changed_and_limited() {
    let quotas = Quotas { ssh_keys: Some(1), ..Quotas::default() };
    let caller = Caller::of(Options { time_scale: 0.0, quotas, ..Options::default() });
    let path = "/iam/v1alpha1/ssh-keys";
    caller.post(path, json!({"name": "k", "public_key": "no key"})).await.expect(200);
    caller.post(path, json!({"name": "k", "public_key": "nokey"})).await.expect(400);
    let refusal = caller.post(path, json!({"name": "k", "public_key": "ssh-ed25519 AAAA me"})).await.expect(403);
    assert_eq!(refusal["details"], json!([{"current": 1, "quota": 1, "resource": "IamSshKeys"}]));
    let id = caller.simulator.resources().ssh_keys[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(caller.patch(&format!("{path}/{id}"), json!({"name": "new"})).await.expect(200)["name"], "new");
    assert_eq!(caller.get(path).await.expect(200)["total_count"], 1);
    caller.delete(&format!("{path}/{id}")).await.expect(204);
    caller.delete(&format!("{path}/{id}")).await.expect(404);
}

#[tokio::test]
async fn the_product_catalog_has_a_price_for_every_server_type_of_a_zone() {
    let caller = Caller::still();
    let catalog = "/product-catalog/v2alpha1/public-catalog/products";
    let all = caller.get(&format!("{catalog}?product_types=instance&zone=pl-waw-1&page_size=1000")).await.expect(200);
    let products = all["products"].as_array().unwrap();
    let types = caller.get("/instance/v1/zones/pl-waw-1/products/servers").await.expect(200);
    let types = types["servers"].as_object().unwrap();
    assert_eq!((products.len(), &all["total_count"]), (types.len(), &json!(types.len())));
    for product in products {
        let name = product["properties"]["instance"]["offer_id"].as_str().unwrap();
        let price = &product["price"]["retail_price"];
        let hourly = price["units"].as_f64().unwrap() + price["nanos"].as_f64().unwrap() / 1e9;
        assert!((hourly - types[name]["hourly_price"].as_f64().unwrap()).abs() < 1e-6, "{name}: {hourly}");
        assert_eq!(product["properties"]["hardware"]["ram"]["size"], types[name]["ram"], "{name}");
    }
    for (query, status, count) in [
        ("product_types=apple_silicon", 200, json!(0)),
        ("global=true", 200, json!(0)),
        ("product_types=spaceship", 400, json!(null)),
    ] {
        let answer = caller.get(&format!("{catalog}?{query}")).await.expect(status);
        assert_eq!(answer["total_count"], count, "{query}");
    }
}
