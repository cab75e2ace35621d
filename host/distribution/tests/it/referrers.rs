//! Bundles that a registry keeps beside a manifest, and registries that do not tell the truth about them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_distribution::{Artifact, ContentDigest, Error, Fetch as _, Registries, RegistrySettings, Trust};

use crate::cosign::{BUNDLE, Cosign};
use crate::support::{Home, LAYER, MAX_BYTES, Server, honest, manifest, respond, respond_with};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// What cosign writes as the type of the configuration, which some registries list as that of the artifact.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// What a registry answers: a type and a body for each path below the repository.
type Shelf = BTreeMap<String, (&'static str, Vec<u8>)>;

fn shelf() -> Shelf {
    Shelf::new()
}

/// Puts a bundle beside the manifest of `LAYER`, and returns its descriptor for a list.
fn put(shelf: &mut Shelf, bundle: &[u8]) -> Value {
    put_of(shelf, bundle, manifest(LAYER).1, bundle.len())
}

fn put_of(shelf: &mut Shelf, bundle: &[u8], subject: ContentDigest, size: usize) -> Value {
    let blob = ContentDigest::of(bundle);
    let text = json!({
        "schemaVersion": 2, "mediaType": crate::support::MANIFEST, "artifactType": BUNDLE,
        "config": {"mediaType": EMPTY, "digest": ContentDigest::of(b"{}").to_string(), "size": 2},
        "layers": [{"mediaType": BUNDLE, "digest": blob.to_string(), "size": size}],
        "subject": {"mediaType": crate::support::MANIFEST, "digest": subject.to_string(), "size": 1},
    })
    .to_string();
    let digest = ContentDigest::of(text.as_bytes());
    let descriptor = json!({"mediaType": crate::support::MANIFEST, "digest": digest.to_string(), "size": text.len(),
        "artifactType": BUNDLE});
    shelf.insert(format!("manifests/{digest}"), (crate::support::MANIFEST, text.into_bytes()));
    shelf.insert(format!("blobs/{blob}"), ("application/octet-stream", bundle.to_vec()));
    descriptor
}

fn index(manifests: &[Value]) -> (&'static str, Vec<u8>) {
    (INDEX, json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string().into_bytes())
}

fn by_api() -> String {
    format!("referrers/{}", manifest(LAYER).1)
}

fn by_tag() -> String {
    format!("manifests/sha256-{}", manifest(LAYER).1.hex())
}

/// A registry with the manifest and the layer, and with what stands on a shelf that can be changed.
fn serving(shelf: Shelf) -> (Server, Arc<Mutex<Shelf>>) {
    let shelf = Arc::new(Mutex::new(shelf));
    let served = Arc::clone(&shelf);
    let server = Server::start(move |request, stream| {
        let path = request.line.split(' ').nth(1).unwrap().trim_start_matches("/v2/team/policy/").to_owned();
        let found = served.lock().unwrap().get(&path).cloned();
        match found {
            Some((media_type, body)) => respond(stream, "200 OK", media_type, &body),
            None => honest(request, stream, LAYER),
        }
    });
    (server, shelf)
}

fn registries(home: &Home, trust: &Trust, settings: Value) -> Registries {
    let mut options = home.options();
    options.settings = RegistrySettings::from_value(settings).unwrap();
    options.trust = Some(Arc::new(trust.clone()));
    Registries::new(options).unwrap()
}

fn fetch(home: &Home, trust: &Trust, server: &Server) -> Result<Artifact, Error> {
    registries(home, trust, json!({})).fetch(&server.by_tag(), MAX_BYTES)
}

fn only(key: &Cosign) -> Trust {
    Trust::from_value(json!({"keys": {"release": key.pem()}})).unwrap()
}

fn bundle(key: &Cosign) -> Vec<u8> {
    key.statement(manifest(LAYER).0.as_bytes()).to_string().into_bytes()
}

/// Fetches what nobody who is trusted has signed, and returns the words of the refusal.
fn refused(trust: &Trust, server: &Server) -> String {
    let home = Home::new();
    let words = match fetch(&home, trust, server) {
        Ok(artifact) => trust.verify(&artifact.contents, &artifact.signatures).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(!home.lock().exists(), "what is not trusted was locked: {words}");
    words
}

#[test]
fn a_bundle_beside_a_manifest_is_found_by_the_api_and_by_the_tag_and_a_start_needs_no_registry() {
    let key = Cosign::new();
    let trust = only(&key);
    for (path, listed_as) in [(by_api(), BUNDLE), (by_api(), EMPTY), (by_tag(), BUNDLE), (by_tag(), EMPTY)] {
        let mut shelf = shelf();
        let mut descriptor = put(&mut shelf, &bundle(&key));
        descriptor["artifactType"] = listed_as.into();
        shelf.insert(path, index(&[descriptor]));
        let (server, _) = serving(shelf);
        let home = Home::new();
        for _ in 0..2 {
            let artifact = fetch(&home, &trust, &server).unwrap();
            assert_eq!(trust.verify(&artifact.contents, &artifact.signatures).unwrap().key.to_string(), key.id());
        }
        let asked = server.requests().len();
        fetch(&home, &trust, &server).unwrap();
        assert_eq!(server.requests().len(), asked, "what is cached was asked for");
        assert!(home.lock().exists());
    }
}

#[test]
fn nobody_is_asked_for_bundles_where_no_key_of_cosigns_is_trusted() {
    let (server, _) = serving(shelf());
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let trust = Trust::from_value(json!({"keys": {"release": pair.pk.to_base64()}})).unwrap();
    assert!(refused(&trust, &server).contains("is not signed"));
    Home::new().fetch(&server.by_tag()).unwrap();
    let asked = server.requests();
    assert!(!asked.iter().any(|request| request.line.contains("referrers") || request.line.contains("sha256-")));
}

#[test]
fn a_stripped_signature_is_noticed_and_looked_for_at_the_next_registry() {
    let key = Cosign::new();
    let trust = only(&key);
    let (bare, _) = serving(shelf());
    let words = refused(&trust, &bare);
    assert!(words.contains("is not signed") && words.contains(&key.id()), "{words}");

    let mut shelf = shelf();
    let descriptor = put(&mut shelf, &bundle(&key));
    shelf.insert(by_api(), index(&[descriptor]));
    let (whole, _) = serving(shelf);
    let home = Home::new();
    let settings = json!({"hosts": {&whole.address: {"mirrors": [&bare.address]}}});
    let artifact = registries(&home, &trust, settings).fetch(&whole.by_tag(), MAX_BYTES).unwrap();
    assert!(trust.verify(&artifact.contents, &artifact.signatures).is_ok());
}

#[test]
fn a_list_that_lies_is_not_believed() {
    let (key, stranger) = (Cosign::new(), Cosign::new());
    let trust = only(&key);
    let good = bundle(&key);
    let other = ContentDigest::of(b"another manifest");
    for (what, expected) in [
        ("of another manifest", "is not signed"),
        ("signed for another manifest", "it is of sha256:"),
        ("by a stranger", &*stranger.id()),
        ("absent", "is not signed"),
        ("not of its digest", "is not signed"),
        ("not text", "is not signed"),
        ("an image", "is not signed"),
    ] {
        let mut shelf = shelf();
        let mut descriptor = match what {
            "of another manifest" => put_of(&mut shelf, &good, other, good.len()),
            "signed for another manifest" => put(&mut shelf, key.statement(b"another").to_string().as_bytes()),
            "by a stranger" => put(&mut shelf, &bundle(&stranger)),
            "not text" => put(&mut shelf, &[0xff; 100]),
            _ => put(&mut shelf, &good),
        };
        let path = format!("manifests/{}", descriptor["digest"].as_str().unwrap());
        match what {
            "absent" => drop(shelf.remove(&path)),
            "not of its digest" => shelf.get_mut(&path).unwrap().1.push(b' '),
            "an image" => descriptor["artifactType"] = "application/vnd.docker.distribution.manifest.v2+json".into(),
            _ => {}
        }
        shelf.insert(by_api(), index(&[descriptor]));
        let words = refused(&trust, &serving(shelf).0);
        assert!(words.contains(expected), "{what}: {words}");
    }
}

#[test]
fn a_list_without_end_is_left_off() {
    let key = Cosign::new();
    let trust = only(&key);
    // More entries than are looked at: the bundle among the first is found, one behind them is not.
    for (place, found) in [(0, true), (15, true), (16, false), (100, false)] {
        let mut shelf = shelf();
        let mut listed: Vec<Value> = (0..100)
            .map(|number: u32| {
                let digest = ContentDigest::of(&number.to_be_bytes()).to_string();
                json!({"mediaType": crate::support::MANIFEST, "digest": digest, "size": 1, "artifactType": BUNDLE})
            })
            .collect();
        let descriptor = put(&mut shelf, &bundle(&key));
        listed.insert(place, descriptor);
        shelf.insert(by_api(), index(&listed));
        let (server, _) = serving(shelf);
        assert_eq!(
            fetch(&Home::new(), &trust, &server)
                .is_ok_and(|artifact| { trust.verify(&artifact.contents, &artifact.signatures).is_ok() }),
            found
        );
        assert!(server.requests().len() < 30, "{}", server.requests().len());
    }
    // Pages that always have another one.
    let body = index(&[]).1;
    let server = Server::start(move |request, stream| match request.line.contains("/referrers/") {
        true => {
            let headers = format!(
                "Content-Type: {INDEX}\r\nLink: <{}?n=1>; rel=\"next\"\r\nContent-Length: {}\r\n",
                request.line.split(' ').nth(1).unwrap().split('?').next().unwrap(),
                body.len()
            );
            respond_with(stream, "200 OK", &headers);
            let _ = stream.write_all(&body);
        }
        false => honest(request, stream, LAYER),
    });
    assert!(refused(&trust, &server).contains("is not signed"));
    assert_eq!(server.requests().iter().filter(|request| request.line.contains("/referrers/")).count(), 8);
    // A page, and a bundle, that never ends.
    for endless in ["/referrers/", "/sha256-"] {
        let server = Server::start(move |request, stream| {
            if request.line.contains(endless) {
                respond_with(stream, "200 OK", &format!("Content-Type: {INDEX}\r\n"));
                while stream.write_all(&[b' '; 65_536]).is_ok() {}
            } else {
                honest(request, stream, LAYER);
            }
        });
        let words = refused(&trust, &server);
        assert!(words.contains("the list of signatures has more than 4194304 bytes"), "{words}");
    }
}

#[test]
fn pages_are_followed_at_the_same_registry_and_nowhere_else() {
    let key = Cosign::new();
    let trust = only(&key);
    let mut shelf = shelf();
    let descriptor = put(&mut shelf, &bundle(&key));
    let second = index(&[descriptor]).1;
    let (elsewhere, _) = serving(Shelf::new());
    for (next, found) in
        [("/v2/team/policy/more".to_owned(), true), (format!("http://{}/more", elsewhere.address), false)]
    {
        let (served, second) = (shelf.clone(), second.clone());
        let server = Server::start(move |request, stream| {
            let path = request.line.split(' ').nth(1).unwrap().trim_start_matches("/v2/team/policy/");
            if path.starts_with("referrers/") {
                let body = index(&[]).1;
                let headers = format!(
                    "Content-Type: {INDEX}\r\nLink: <{next}>; rel=\"next\"\r\nContent-Length: {}\r\n",
                    body.len()
                );
                respond_with(stream, "200 OK", &headers);
                let _ = stream.write_all(&body);
            } else if path == "more" {
                respond(stream, "200 OK", INDEX, &second);
            } else if let Some((media_type, body)) = served.get(path) {
                respond(stream, "200 OK", media_type, body);
            } else {
                honest(request, stream, LAYER);
            }
        });
        let artifact = fetch(&Home::new(), &trust, &server).unwrap();
        assert_eq!(trust.verify(&artifact.contents, &artifact.signatures).is_ok(), found);
    }
    assert!(elsewhere.requests().is_empty());
}

#[test]
fn a_bundle_that_is_said_to_be_huge_is_never_asked_for() {
    let key = Cosign::new();
    let good = bundle(&key);
    for (size, asked) in [(usize::MAX, false), ((128 << 10) + 1, false), (good.len() - 1, true)] {
        let mut shelf = shelf();
        let descriptor = put_of(&mut shelf, &good, manifest(LAYER).1, size);
        shelf.insert(by_api(), index(&[descriptor]));
        let (server, _) = serving(shelf);
        assert!(refused(&only(&key), &server).contains("is not signed"));
        let blob = ContentDigest::of(&good).to_string();
        assert_eq!(server.requests().iter().any(|request| request.line.contains(&blob)), asked, "{size}");
    }
}

#[test]
fn a_list_that_cannot_be_had_is_the_reason_and_not_that_nobody_signed() {
    let key = Cosign::new();
    for (status, body, expected) in [
        (
            "500 Internal Server Error",
            "out of order",
            "500 Internal Server Error for the list of signatures: out of order",
        ),
        ("200 OK", "<html>", "its list of signatures is not valid"),
        ("200 OK", "{\"schemaVersion\": 1}", "its list of signatures is not valid"),
        (
            "200 OK",
            "{\"schemaVersion\": 2, \"manifests\": [{\"mediaType\": \"x\", \"size\": 1, \"digest\": \"md5:0\"}]}",
            "expected sha256:",
        ),
    ] {
        let server = Server::start(move |request, stream| match request.line.contains("/referrers/") {
            true => respond(stream, status, INDEX, body.as_bytes()),
            false => honest(request, stream, LAYER),
        });
        let words = refused(&only(&key), &server);
        assert!(words.contains(expected), "{words}");
    }
    // A page instead of an answer is no list, but no answer either: the tag is looked at.
    let server = Server::start(|request, stream| match request.line.contains("/referrers/") {
        true => respond(stream, "200 OK", "text/html", b"<html>"),
        false => honest(request, stream, LAYER),
    });
    assert!(refused(&only(&key), &server).contains("is not signed"));
    assert!(server.requests().iter().any(|request| request.line.contains("/manifests/sha256-")));
}

#[test]
fn a_replaced_key_needs_a_new_bundle_and_no_new_artifact() {
    let (old, new) = (Cosign::new(), Cosign::new());
    let mut first = shelf();
    let one = put(&mut first, &bundle(&old));
    first.insert(by_api(), index(std::slice::from_ref(&one)));
    let (server, shelf) = serving(first);
    let home = Home::new();
    fetch(&home, &only(&old), &server).unwrap();

    let revoked = json!({"keys": {"new": new.pem()}, "revoked": [old.id()]});
    let revoked = Trust::from_value(revoked).unwrap();
    let artifact = fetch(&home, &revoked, &server).unwrap();
    let words = revoked.verify(&artifact.contents, &artifact.signatures).unwrap_err().to_string();
    assert!(words.contains("which `revoked` of [policies.trust] names"), "{words}");

    {
        let mut shelf = shelf.lock().unwrap();
        let two = put(&mut shelf, &bundle(&new));
        shelf.insert(by_api(), index(&[one, two]));
    }
    let artifact = fetch(&home, &revoked, &server).unwrap();
    assert_eq!(revoked.verify(&artifact.contents, &artifact.signatures).unwrap().name, "new");
    let asked = server.requests().len();
    fetch(&home, &revoked, &server).unwrap();
    assert_eq!(server.requests().len(), asked, "the new bundle was not cached");
}

#[test]
fn where_trust_is_new_and_the_registry_is_gone_that_is_said() {
    let key = Cosign::new();
    let (server, shelf) = serving(shelf());
    let home = Home::new();
    home.fetch(&server.by_tag()).unwrap();
    // Nothing but the list is missing, so the registry has to be asked once more.
    shelf.lock().unwrap().insert(by_api(), ("text/plain", Vec::new()));
    shelf.lock().unwrap().insert(by_tag(), (INDEX, b"gone".to_vec()));
    let words = fetch(&home, &only(&key), &server).unwrap_err().to_string();
    assert!(words.contains("its list of signatures is not valid"), "{words}");
}

#[test]
fn what_somebody_wrote_into_the_cache_signs_nothing() {
    let (key, stranger) = (Cosign::new(), Cosign::new());
    let mut shelf = shelf();
    let descriptor = put(&mut shelf, &bundle(&key));
    shelf.insert(by_api(), index(&[descriptor]));
    let (server, _) = serving(shelf);
    let home = Home::new();
    let trust = only(&key);
    fetch(&home, &trust, &server).unwrap();
    let file = home.folder.path().join("artifacts").join(format!("{}.bundles", manifest(LAYER).1.hex()));
    let theirs = json!([String::from_utf8(bundle(&stranger)).unwrap()]).to_string();
    for text in ["", "nonsense", "[1]", &theirs, &format!("[{}]", " ".repeat(8 << 20))] {
        std::fs::write(&file, text).unwrap();
        // Not believed, and so asked for again.
        let artifact = fetch(&home, &trust, &server).unwrap();
        assert!(trust.verify(&artifact.contents, &artifact.signatures).is_ok());
        assert_ne!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
