//! Where credentials come from, and where they go.

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use windlass_distribution::{Fetch as _, Registries, RegistryOptions, RegistrySettings};

use crate::support::{Home, LAYER, MAX_BYTES, Server, honest, respond_with};

/// base64 of `ci:secret-word`.
const ENCODED: &str = "Y2k6c2VjcmV0LXdvcmQ=";
const CHALLENGE: &str = "WWW-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n";

/// A home with Docker's configuration.
fn home_with(configuration: &str) -> Home {
    let home = Home::new();
    std::fs::write(home.folder.path().join("docker.json"), configuration).unwrap();
    home
}

fn fetch(home: &Home, server: &Server) -> Result<(), String> {
    fetch_with(home, server, |_| {})
}

fn fetch_with(home: &Home, server: &Server, change: impl FnOnce(&mut RegistryOptions)) -> Result<(), String> {
    let mut options = home.options();
    options.settings = RegistrySettings::from_value(serde_json::json!({"credentials": "docker.json"})).unwrap();
    // Only one that never answers needs to be given up soon.
    options.helper_deadline = Duration::from_secs(60);
    change(&mut options);
    let registries = Registries::new(options).unwrap();
    registries.fetch(&server.by_tag(), MAX_BYTES).map(drop).map_err(|error| error.to_string())
}

#[test]
fn credentials_are_sent_once_asked_for_and_nowhere_else() {
    let elsewhere = Server::honest(LAYER);
    let there = elsewhere.address.clone();
    let registry = Server::start(move |request, stream| {
        if !request.head.contains(&format!("Basic {ENCODED}")) {
            respond_with(stream, "401 Unauthorized", CHALLENGE);
        } else if request.line.contains("/blobs/") {
            let path = request.line.split(' ').nth(1).unwrap();
            respond_with(
                stream,
                "307 Temporary Redirect",
                &format!("Location: http://{there}{path}\r\nContent-Length: 0\r\n"),
            );
        } else {
            honest(request, stream, LAYER);
        }
    });
    let home = home_with(&format!(r#"{{"auths": {{"{}": {{"auth": "{ENCODED}"}}}}}}"#, registry.address));
    fetch(&home, &registry).unwrap();
    assert!(!registry.requests()[0].head.contains(ENCODED), "sent before it was asked for");
    assert_eq!(elsewhere.requests().len(), 1);
    assert!(!elsewhere.requests()[0].head.to_lowercase().contains("authorization"), "sent elsewhere");
}

#[test]
fn credentials_of_one_registry_are_not_sent_to_another() {
    let registry = Server::start(|_, stream| respond_with(stream, "401 Unauthorized", CHALLENGE));
    let home = home_with(&format!(r#"{{"auths": {{"registry.example": {{"auth": "{ENCODED}"}}}}}}"#));
    let words = fetch(&home, &registry).unwrap_err();
    assert!(words.contains("Docker's configuration has none"), "{words}");
    assert!(registry.requests().iter().all(|request| !request.head.contains(ENCODED)));
}

#[test]
fn a_password_that_is_refused_is_not_sent_again_and_never_shown() {
    let registry = Server::start(|_, stream| respond_with(stream, "401 Unauthorized", CHALLENGE));
    let home = home_with(&format!(r#"{{"auths": {{"{}": {{"auth": "{ENCODED}"}}}}}}"#, registry.address));
    let words = fetch(&home, &registry).unwrap_err();
    assert!(
        words.contains("401 Unauthorized") && !words.contains("secret-word") && !words.contains(ENCODED),
        "{words}"
    );
    assert_eq!(registry.requests().len(), 2);
}

/// A registry that lets in `ci` with `secret-word`, and nobody else.
fn closed_to_others() -> Server {
    Server::start(|request, stream| {
        if request.head.contains(&format!("Basic {ENCODED}")) {
            honest(request, stream, LAYER);
        } else {
            respond_with(stream, "401 Unauthorized", CHALLENGE);
        }
    })
}

#[test]
fn credentials_are_found_by_scheme_path_and_pattern() {
    let registry = closed_to_others();
    let host = &registry.address;
    let pattern = host.replacen("127", "1*", 1);
    for key in [
        host.clone(),
        format!("{host}/"),
        format!("http://{host}"),
        format!("https://{host}/"),
        format!("http://{host}/v1/"),
        format!("https://{host}/v1/"),
        format!("https://{host}/v2/"),
        format!("{host}/team"),
        format!("{host}/team/"),
        format!("{host}/team/policy"),
        format!("https://{host}/team"),
        format!("https://{host}/v2/team/policy"),
        pattern.clone(),
        format!("{pattern}/team"),
    ] {
        let home = home_with(&serde_json::json!({"auths": {&key: {"auth": ENCODED}}}).to_string());
        let fetched = fetch(&home, &registry);
        assert!(fetched.is_ok(), "{key}: {fetched:?}");
    }
}

#[test]
fn credentials_of_another_path_or_port_are_not_sent() {
    let registry = closed_to_others();
    let host = &registry.address;
    let (name, port) = host.rsplit_once(':').unwrap();
    for key in [
        format!("{host}/tea"),
        format!("{host}/team2"),
        format!("{host}/policy"),
        format!("{host}/team/policy/more"),
        format!("{host}/team/policy:main"),
        name.to_owned(),
        format!("{name}:1{port}"),
        format!("{name}:*"),
        format!("*:{port}"),
        format!("*.{host}"),
    ] {
        let home = home_with(&serde_json::json!({"auths": {&key: {"auth": ENCODED}}}).to_string());
        let words = fetch(&home, &registry).unwrap_err();
        assert!(words.contains("Docker's configuration has none"), "{key}: {words}");
    }
    assert!(registry.requests().iter().all(|request| !request.head.contains(ENCODED)));
}

#[test]
fn the_longest_path_is_tried_first_and_then_the_others() {
    let registry = closed_to_others();
    let host = &registry.address;
    let auth_of = |name: &str| BASE64.encode(format!("{name}:secret-word"));
    // Nobody but `ci` is let in: all that fit are seen, in the order in which they are tried.
    let home = home_with(
        &serde_json::json!({"auths": {
            host: {"auth": ENCODED},
            format!("https://{host}/team"): {"auth": auth_of("team")},
            format!("{host}/team/policy"): {"auth": auth_of("policy")},
            format!("{host}/other"): {"auth": auth_of("other")},
            format!("{host}/team/empty"): {},
        }})
        .to_string(),
    );
    fetch(&home, &registry).unwrap();
    let sent = registry.requests().into_iter().filter_map(|request| {
        let (_, rest) = request.head.split_once("Basic ")?;
        let decoded = BASE64.decode(rest.lines().next()?).ok()?;
        Some(String::from_utf8(decoded).ok()?.split(':').next()?.to_owned())
    });
    // The manifest with each of them, then the layer.
    assert_eq!(sent.collect::<Vec<_>>(), ["policy", "team", "ci", "ci"]);
}

#[test]
fn a_token_service_that_refuses_one_name_is_asked_with_the_next() {
    let tokens = Server::start(|request, stream| {
        if request.head.contains(&format!("Basic {ENCODED}")) {
            crate::support::respond(stream, "200 OK", "application/json", br#"{"token": "a-token"}"#);
        } else {
            respond_with(stream, "401 Unauthorized", CHALLENGE);
        }
    });
    let realm = format!("http://{}/token", tokens.address);
    let registry = Server::start(move |request, stream| {
        if request.head.contains("Bearer a-token") {
            honest(request, stream, LAYER);
        } else {
            let challenge = format!("WWW-Authenticate: Bearer realm=\"{realm}\"\r\nContent-Length: 0\r\n");
            respond_with(stream, "401 Unauthorized", &challenge);
        }
    });
    let auths = serde_json::json!({
        format!("{}/team", registry.address): {"username": "team", "password": "old"},
        &registry.address: {"auth": ENCODED},
    });
    let home = home_with(&serde_json::json!({"auths": auths}).to_string());
    fetch(&home, &registry).unwrap();
    assert_eq!(tokens.requests().len(), 2);
}

#[test]
fn a_token_is_had_from_the_service_that_the_registry_names() {
    let tokens = Server::start(|request, stream| {
        assert!(request.head.contains(&format!("Basic {ENCODED}")), "{}", request.head);
        assert!(request.line.contains("scope=repository%3Ateam%2Fpolicy%3Apull&service=its"), "{}", request.line);
        crate::support::respond(stream, "200 OK", "application/json", br#"{"token": "a-token"}"#);
    });
    let realm = Mutex::new(format!("http://{}/token", tokens.address));
    let registry = Server::start(move |request, stream| {
        if request.head.contains("Bearer a-token") {
            honest(request, stream, LAYER);
        } else {
            let realm = realm.lock().unwrap().clone();
            let challenge = format!(
                "WWW-Authenticate: Bearer realm=\"{realm}\",service=\"its\",scope=\"x,y\"\r\nContent-Length: 0\r\n"
            );
            respond_with(stream, "401 Unauthorized", &challenge);
        }
    });
    let home = home_with(&format!(r#"{{"auths": {{"{}": {{"auth": "{ENCODED}"}}}}}}"#, registry.address));
    fetch(&home, &registry).unwrap();
    assert_eq!(tokens.requests().len(), 1, "one token for the manifest and the layer");
}

#[test]
fn a_helper_with_a_path_for_a_name_is_not_run() {
    let registry = Server::honest(LAYER);
    for name in ["../../bin/sh", "", "a b", "/bin/true"] {
        let home = home_with(&serde_json::json!({"credHelpers": {&registry.address: name}}).to_string());
        let words = fetch(&home, &registry).unwrap_err();
        assert!(words.contains("is not the name of a credential helper"), "{name}: {words}");
    }
}

#[test]
fn helpers_are_asked_and_neither_waited_for_nor_believed_without_end() {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in [
        (
            "answers",
            r#"read host; [ -n "$host" ] && echo '{"ServerURL": "x", "Username": "ci", "Secret": "secret-word"}'"#,
        ),
        ("hangs", "sleep 600"),
        ("floods", "yes"),
        ("fails", "echo secret-word; exit 3"),
        ("keeps-none", "echo 'credentials not found in native keychain'; exit 1"),
    ] {
        let path = folder.path().join(format!("docker-credential-{name}"));
        // By a child: a program that this process has open for writing may not be run by another thread's child.
        let mut write = Command::new("sh");
        write.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(&path).arg(script);
        assert!(write.status().unwrap().success());
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let registry = closed_to_others();
    for (name, words) in [
        ("answers", None),
        ("hangs", Some("did not answer within 300ms")),
        ("floods", Some("answers more than 65536 bytes")),
        ("fails", Some("ended with exit status: 3")),
        ("keeps-none", Some("Docker's configuration has none")),
        ("missing", Some("docker-credential-missing: No such file")),
    ] {
        let home = home_with(&serde_json::json!({"credsStore": name}).to_string());
        let fetched = fetch_with(&home, &registry, |options| {
            options.environment.insert("PATH".to_owned(), path.clone());
            if name == "hangs" {
                options.helper_deadline = Duration::from_millis(300);
            }
        });
        match (fetched, words) {
            (Ok(()), None) => {}
            (Err(error), Some(words)) => {
                assert!(error.contains(words) && !error.contains("secret-word"), "{name}: {error}")
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}
