//! Registries that lie, break off, never end, and send others elsewhere.

use std::io::Write as _;
use std::time::Duration;

use windlass_distribution::{ContentDigest, Fetch as _, Registries, RegistrySettings};

use crate::support::{Home, LAYER, MANIFEST, MAX_BYTES, Server, honest, manifest, manifest_of, respond, respond_with};

/// A registry that serves this manifest whatever is asked for.
fn serving(text: String) -> Server {
    Server::start(move |_, stream| respond(stream, "200 OK", MANIFEST, text.as_bytes()))
}

#[test]
fn an_honest_registry_is_believed() {
    let (server, home) = (Server::honest(LAYER), Home::new());
    let artifact = home.fetch(&server.by_tag()).unwrap();
    assert_eq!(&*artifact.contents, LAYER);
    assert_eq!(artifact.digest, manifest(LAYER).1);
    assert_eq!(home.cached(), 2);
}

#[test]
fn a_manifest_of_another_digest_is_refused() {
    let server = serving(manifest(LAYER).0);
    let asked_for = ContentDigest::of(b"another");
    let words = Home::new().refused(&server.by_digest(asked_for));
    assert!(words.contains(&format!("the manifest has the digest {}", manifest(LAYER).1)), "{words}");
    assert!(words.contains(&format!("{asked_for} was asked for")), "{words}");
}

#[test]
fn a_layer_of_another_digest_is_refused() {
    let server = Server::start(|request, stream| {
        if request.line.contains("/blobs/") {
            respond(stream, "200 OK", "application/wasm", b"the layer of the fake");
        } else {
            respond(stream, "200 OK", MANIFEST, manifest(LAYER).0.as_bytes());
        }
    });
    let words = Home::new().refused(&server.by_tag());
    assert!(words.contains("the layer has the digest"), "{words}");
}

#[test]
fn a_layer_that_breaks_off_is_refused() {
    // With its length, and without one, where nothing but the digest tells that it is not whole.
    for length in [format!("Content-Length: {}\r\n", LAYER.len()), String::new()] {
        let server = Server::start(move |request, stream| {
            if request.line.contains("/blobs/") {
                respond_with(stream, "200 OK", &length);
                let _ = stream.write_all(&LAYER[..5]);
            } else {
                honest(request, stream, LAYER);
            }
        });
        let words = Home::new().refused(&server.by_tag());
        assert!(words.contains("the layer broke off") || words.contains("the layer has the digest"), "{words}");
    }
}

#[test]
fn what_never_ends_is_cut_off_at_its_limit() {
    for endless in ["/manifests/", "/blobs/"] {
        let server = Server::start(move |request, stream| {
            if request.line.contains(endless) {
                respond_with(stream, "200 OK", "");
                while stream.write_all(&[b' '; 65_536]).is_ok() {}
            } else {
                honest(request, stream, LAYER);
            }
        });
        let words = Home::new().refused(&server.by_tag());
        let limit = if endless == "/blobs/" { LAYER.len() } else { 4 << 20 };
        assert!(words.contains(&format!("has more than {limit} bytes")), "{words}");
    }
}

#[test]
fn a_layer_larger_than_is_taken_is_never_asked_for() {
    let server = serving(manifest_of("application/wasm", ContentDigest::of(LAYER), usize::MAX).0);
    let words = Home::new().refused(&server.by_tag());
    assert!(words.contains(&format!("has more than {MAX_BYTES} bytes")), "{words}");
    assert!(server.requests().iter().all(|request| !request.line.contains("/blobs/")));
}

#[test]
fn a_registry_that_says_nothing_is_given_up() {
    let server = Server::start(|_, stream| {
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let home = Home::new();
    let mut options = home.options();
    options.deadline = Duration::from_millis(200);
    let error = Registries::new(options).unwrap().fetch(&server.by_tag(), MAX_BYTES).unwrap_err().to_string();
    assert!(error.contains("it took longer than 200ms"), "{error}");
}

#[test]
fn an_artifact_of_another_kind_is_refused_with_what_it_is() {
    let layer = ContentDigest::of(LAYER);
    let image = manifest_of("application/vnd.oci.image.layer.v1.tar+gzip", layer, LAYER.len()).0;
    let index =
        r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#.to_owned();
    let one = manifest(LAYER).0;
    let two = one.replacen(
        "\"layers\":[",
        &format!("\"layers\":[{{\"mediaType\":\"application/wasm\",\"digest\":\"{layer}\",\"size\":1}},"),
        1,
    );
    let traversal = one.replace(&layer.to_string(), "sha256:../../../../etc/passwd");
    for (text, words) in [
        (image, "its layer is of the type application/vnd.oci.image.layer.v1.tar+gzip"),
        (index, "its manifest is of the type application/vnd.oci.image.index.v1+json"),
        (two, "it has 2 layers"),
        (traversal, "the digest of its layer: expected sha256:"),
        ("[".repeat(100_000), "its manifest is not valid"),
        ("<html>".to_owned(), "its manifest is not valid"),
    ] {
        let refused = Home::new().refused(&serving(text).by_tag());
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_redirection_that_never_ends_is_given_up() {
    let server = Server::start(|_, stream| {
        respond_with(stream, "307 Temporary Redirect", "Location: /v2/again\r\nContent-Length: 0\r\n")
    });
    let words = Home::new().refused(&server.by_tag());
    assert!(words.contains("it redirects more than 5 times"), "{words}");
    let server = Server::start(|_, stream| {
        respond_with(stream, "307 Temporary Redirect", "Location: file:///etc/passwd\r\nContent-Length: 0\r\n")
    });
    let words = Home::new().refused(&server.by_tag());
    assert!(words.contains("no valid Location header"), "{words}");
}

#[test]
fn a_mirror_that_lies_is_passed_over() {
    let (honest, liar, home) = (Server::honest(LAYER), serving(manifest(b"fake").0), Home::new());
    let mut options = home.options();
    let settings = serde_json::json!({"hosts": {&honest.address: {"mirrors": [&liar.address]}}});
    options.settings = RegistrySettings::from_value(settings).unwrap();
    let registries = Registries::new(options).unwrap();
    let artifact = registries.fetch(&honest.by_digest(manifest(LAYER).1), MAX_BYTES).unwrap();
    assert_eq!(&*artifact.contents, LAYER);
    assert_eq!(liar.requests().len(), 1);
}

#[test]
fn the_words_of_a_registry_are_told_on_one_short_line() {
    let server =
        Server::start(|_, stream| respond(stream, "403 Forbidden", "text/plain", &b"no\x1b[31m\n".repeat(1_000)));
    let words = Home::new().refused(&server.by_tag());
    assert!(words.contains("403 Forbidden") && !words.contains(['\n', '\x1b']) && words.len() < 600, "{words}");
}
