//! Policies from a registry.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Path as Part, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use windlass_distribution::ContentDigest;
use windlass_postgres::PostgresState;
use windlass_test_guests::RETRY;
use windlass_test_postgres::Server;

use super::*;

/// Keys and bundles as cosign makes them.
#[path = "../../../../distribution/tests/it/cosign.rs"]
#[allow(dead_code, unreachable_pub)]
mod cosign;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

type Shelf = std::sync::Arc<std::collections::HashMap<String, (&'static str, String)>>;

/// A registry with one component under any name and tag; whoever holds the runtime holds it.
fn registry() -> (tokio::runtime::Runtime, String) {
    signed_by(&[])
}

/// The same, with a bundle of each of these keys beside the manifest, by the tag that stands for a list of them.
fn signed_by(keys: &[&cosign::Cosign]) -> (tokio::runtime::Runtime, String) {
    let layer = ContentDigest::of(RETRY.bytes);
    let length = RETRY.bytes.len();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
            "layers":[{{"mediaType":"application/wasm","digest":"{layer}","size":{length}}}]}}"#
    );
    let mut shelf = std::collections::HashMap::new();
    let mut listed = Vec::new();
    for key in keys {
        let bundle = key.statement(manifest.as_bytes()).to_string();
        let subject =
            json!({"mediaType": MANIFEST, "digest": ContentDigest::of(manifest.as_bytes()).to_string(), "size": 1});
        let blob = ContentDigest::of(bundle.as_bytes()).to_string();
        let layers = json!([{"mediaType": cosign::BUNDLE, "digest": blob, "size": bundle.len()}]);
        let beside =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers, "subject": subject}).to_string();
        let digest = ContentDigest::of(beside.as_bytes()).to_string();
        listed.push(
            json!({"mediaType": MANIFEST, "artifactType": cosign::BUNDLE, "digest": digest, "size": beside.len()}),
        );
        shelf.insert(digest, (MANIFEST, beside));
        shelf.insert(blob, ("application/octet-stream", bundle));
    }
    let tag = ContentDigest::of(manifest.as_bytes()).to_string().replace(':', "-");
    shelf.insert(tag, (INDEX, json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}).to_string()));
    let answer = async |Shared((manifest, shelf)): Shared<(String, Shelf)>, Part(path): Part<String>| {
        if let Some((media_type, body)) = path.rsplit('/').next().and_then(|name| shelf.get(name)) {
            ([(CONTENT_TYPE, *media_type)], body.clone()).into_response()
        } else if path.contains("/manifests/") {
            ([(CONTENT_TYPE, MANIFEST)], manifest.into_bytes()).into_response()
        } else {
            ([(CONTENT_TYPE, "application/octet-stream")], RETRY.bytes).into_response()
        }
    };
    let shelf = std::sync::Arc::new(shelf);
    let router = Router::new().route("/v2/{*path}", axum::routing::get(answer)).with_state((manifest, shelf));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    runtime.spawn(async move { axum::serve(listener, router).await });
    (runtime, address)
}

fn start(policies: &Policies, state: &StateDirectory) -> Result<Arc<Host>, windlass_lifecycle::Error> {
    let client = Client::new(Settings::new(KEY.parse().unwrap())).unwrap();
    let mut options = RuntimeOptions::new(client, state.clone(), Asker::Instances);
    (options.policies, options.policy_folder) = (policies.clone(), "/nowhere".into());
    options.lending_dir = Some(super::compiled());
    Ok(Runtime::build(options)?.policies)
}

fn fetched(policies: serde_json::Value) -> Policies {
    Policies::from_value(policies).unwrap()
}

#[test]
fn a_policy_of_a_registry_decides_also_after_a_restart_without_it() {
    let (running, address) = registry();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let policies = fetched(json!({ "retry": { "path": format!("oci://{address}/team/retry:1.0.0") } }));
    let first = start(&policies, &state).unwrap().status();
    let lock = std::fs::read_to_string(folder.path().join("policies.lock")).unwrap();
    assert!(lock.contains("/team/retry:1.0.0") && lock.contains("sha256:"), "{lock}");
    drop(running);
    let again = start(&policies, &state).unwrap().status();
    let asked = |status: windlass_policy::HostStatus| {
        let link = status.links.into_iter().find(|link| link.slot == SlotName::Retry).unwrap();
        (link.source, link.policy)
    };
    let first = asked(first);
    assert!(first.0.contains(&address), "{first:?}");
    assert_eq!(first, asked(again));
}

#[test]
fn a_tag_is_what_hosts_that_share_a_database_have_locked() {
    let Some(server) = Server::start() else { return };
    let (_running, address) = registry();
    let policies = fetched(json!({ "retry": { "path": format!("oci://{address}/team/retry:1.0.0") } }));
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let state = |place: usize, host: &str| {
        let shared = PostgresState::parse(&server.url("s"), &BTreeMap::new(), host).unwrap();
        StateDirectory::open(folders[place].path()).unwrap().with_shared_log(Arc::new(shared))
    };
    start(&policies, &state(0, "host-a")).unwrap();
    assert_eq!(server.execute("select document->>'host' from s.streams where family = 'policy-tag'"), "host-a");
    // Another host has locked it to what this registry does not have.
    let other = ContentDigest::of(b"another policy");
    let locked = format!("update s.streams set document = document || '{{\"digest\": \"{other}\"}}'");
    server.execute(&format!("{locked} where family = 'policy-tag'"));
    let refused = start(&policies, &state(1, "host-b")).err().unwrap().to_string();
    assert!(refused.contains(&other.to_string()), "{refused}");
}

#[test]
fn what_nobody_who_is_trusted_has_signed_is_no_policy_of_a_group() {
    let (_running, address) = registry();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let policies = fetched(json!({
        "retry": { "path": format!("oci://{address}/team/retry:1.0.0") },
        "trust": { "keys": { "release": key } },
    }));
    let refused = start(&policies, &state).err().unwrap().to_string();
    assert!(refused.contains("sign"), "{refused}");
    assert!(!folder.path().join("policies.lock").exists(), "an artifact that is not trusted is locked");
}

#[test]
fn what_cosign_signed_in_a_registry_is_a_policy_of_a_group_also_after_a_restart_without_it() {
    let (release, stranger) = (cosign::Cosign::new(), cosign::Cosign::new());
    let policies = |address: &str| {
        fetched(json!({
            "retry": { "path": format!("oci://{address}/team/retry:1.0.0") },
            "trust": { "keys": { "release": release.pem() } },
        }))
    };
    let (_running, address) = signed_by(&[&stranger]);
    let folder = tempfile::tempdir().unwrap();
    let refused = start(&policies(&address), &StateDirectory::open(folder.path()).unwrap()).err().unwrap().to_string();
    assert!(refused.contains(&stranger.id()) && refused.contains(&release.id()), "{refused}");

    let (running, address) = signed_by(&[&stranger, &release]);
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    start(&policies(&address), &state).unwrap();
    drop(running);
    start(&policies(&address), &state).unwrap();
}

#[test]
fn a_registry_that_is_gone_before_the_first_start_is_told_by_its_name() {
    let (running, address) = registry();
    drop(running);
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let policies = fetched(json!({ "retry": { "path": format!("oci://{address}/team/retry:1.0.0") } }));
    let refused = start(&policies, &state).err().unwrap().to_string();
    assert!(refused.contains(&address), "{refused}");
}
