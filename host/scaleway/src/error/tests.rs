use std::io::Write;
use std::path::PathBuf;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    name: String,
    status: u16,
    method: String,
    path: String,
    body: String,
    class: String,
    ambiguous: bool,
    #[serde(rename = "type")]
    error_type: Option<String>,
    resource: Option<String>,
    resource_id: Option<String>,
    words: Option<String>,
}

fn understood(method: &str, path: &str, status: u16, body: &[u8]) -> Error {
    let answer = ReceivedAnswer { method, path, status, request_id: None, retry_after: None, body };
    Error::Api(Box::new(ApiError::understand(answer)))
}

#[test]
fn every_shape_of_failure_is_classified_by_its_type_and_then_by_its_status() {
    let text = include_str!("../../tests/fixtures/errors.json");
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    for case in cases {
        let error = understood(&case.method, &case.path, case.status, case.body.as_bytes());
        assert_eq!(error.class().as_str(), case.class, "{}: {error}", case.name);
        assert_eq!(error.is_ambiguous(), case.ambiguous, "{}: {error}", case.name);
        assert_eq!(error.error_type(), case.error_type.as_deref(), "{}", case.name);
        assert_eq!(error.body(), Some(case.body.as_str()), "{}", case.name);
        assert_eq!(error.is_not_found(), matches!(case.class.as_str(), "not-found" | "expired"), "{}", case.name);
        if case.resource.is_some() {
            assert_eq!(error.resource(), case.resource.as_deref(), "{}", case.name);
        }
        if case.resource_id.is_some() {
            assert_eq!(error.api().unwrap().resource_id, case.resource_id, "{}", case.name);
        }
        if let Some(words) = case.words {
            assert_eq!(error.to_string(), words, "{}", case.name);
        }
    }
}

#[test]
fn only_scaleways_own_words_or_its_rate_limit_settle_that_nothing_was_done() {
    for (status, body, expected) in [
        (429, "", true),
        (403, r#"{"type":"quotas_exceeded"}"#, true),
        (400, r#"{"type":"invalid_request_error"}"#, true),
        (409, r#"{"type":"transient_state"}"#, true),
        (422, r#"{"type":"of_tomorrow"}"#, true),
        (422, r#"{"type":"about:blank","status":422}"#, false),
        (409, r#"{"type":"https://gateway.example/errors/conflict"}"#, false),
        (412, "", false),
        (404, "<html>404</html>", false),
        (403, r#"{"message":"denied"}"#, false),
        (408, "", false),
        (400, r#"{"type":"server_error"}"#, false),
        (503, r#"{"type":"out_of_stock"}"#, false),
        (500, r#"{"type":"server_error"}"#, false),
        (502, "", false),
        (302, "", false),
    ] {
        let error = understood("POST", "/x", status, body.as_bytes());
        assert_eq!(error.is_refusal(), expected, "{status} {body}");
        assert!(!(error.is_refusal() && error.is_ambiguous()), "{status} {body}");
    }
    let unsent = TransportError::NotConnected("refused".into());
    let error = Error::Transport { method: "POST".to_owned(), path: "/x".to_owned(), source: unsent };
    assert!(!error.is_refusal() && error.retry_after().is_none());
}

#[test]
fn only_scaleways_recorded_words_say_that_something_is_gone() {
    for (status, body, expected) in [
        (404, r#"{"type":"not_found","resource":"instance_server"}"#, true),
        (404, r#"{"type":"unknown_resource","message":"\"a\" not found"}"#, true),
        (410, r#"{"type":"expired","resource":"volume"}"#, true),
        (404, r#"{"type":"about:blank","title":"Not Found","status":404}"#, false),
        (404, r#"{"type":"https://gateway.example/problems/no-route","title":"not_found"}"#, false),
        (404, r#"{"type":"of_tomorrow"}"#, false),
        (404, r#"{"type":""}"#, false),
        (404, r#"{"type":["not_found"]}"#, false),
        (404, r#"{"message":"resource is not found"}"#, false),
        (404, "", false),
        (410, r#"{"type":"about:blank"}"#, false),
        (410, "", false),
    ] {
        let error = understood("GET", "/instance/v1/zones/fr-par-1/servers/a", status, body.as_bytes());
        assert_eq!(error.is_not_found(), expected, "{status} {body}");
        assert_eq!(error.is_gone_or_not_ours(), expected, "{status} {body}");
    }
}

/// Past the test harness, which swallows what a passing test prints.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The folder of recordings, which is not part of the project; see the README.
fn facts(file: &str) -> Option<String> {
    let folder = std::env::var_os("WINDLASS_FACTS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts"), PathBuf::from);
    let text = std::fs::read_to_string(folder.join(file)).ok();
    if text.is_none() {
        say(&format!("RECORDINGS ABSENT: {file} is not in {}; only our own fixtures were tested", folder.display()));
    }
    text
}

/// The class of a recorded error, told from the recording by hand and not by the code under test.
fn expected(status: u16, error_type: Option<&str>, message: &str) -> &'static str {
    match (status, error_type) {
        (400, Some("invalid_request_error")) if message.contains("must be powered off") => "precondition-failed",
        (400, Some("invalid_arguments" | "invalid_request_error")) => "invalid-arguments",
        (400 | 412, Some("precondition_failed")) => "precondition-failed",
        (401, Some("denied_authentication")) => "authentication-denied",
        (403, Some("permissions_denied" | "authorization_required")) => "permission-denied",
        (403, Some("invalid_request_error")) | (429, None) if message.to_lowercase().contains("quota") => {
            "quota-exceeded"
        }
        (404, Some("not_found" | "unknown_resource") | None) => "not-found",
        (409, Some("transient_state")) => "transient-state",
        (410, Some("expired")) => "expired",
        (429, None) if message.is_empty() => "rate-limited",
        (500, Some("server_error" | "internal_server_error")) => "server-error",
        (503, Some("out_of_stock")) => "out-of-stock",
        (503, None) => "gateway",
        other => panic!("a recorded error that nobody has looked at: {other:?} {message}"),
    }
}

#[test]
fn every_recorded_error_is_understood() {
    #[derive(Deserialize)]
    struct Recorded {
        status: u16,
        method: String,
        path_template: String,
        body: String,
    }
    let Some(text) = facts("scaleway-real-errors.json") else { return };
    let recorded: Vec<Recorded> = serde_json::from_str(&text).unwrap();
    assert!(recorded.len() >= 40);
    for case in &recorded {
        let json: serde_json::Value = serde_json::from_str(&case.body).unwrap_or_default();
        let word = |key: &str| json[key].as_str();
        let error = understood(&case.method, &case.path_template, case.status, case.body.as_bytes());
        let class = expected(case.status, word("type"), word("message").unwrap_or_default());
        assert_eq!(error.class().as_str(), class, "{} {}: {}", case.method, case.path_template, case.body);
        let api = error.api().unwrap();
        assert_eq!(error.body(), Some(case.body.as_str()));
        assert_eq!(api.message, word("message").unwrap_or_default());
        if word("type") != Some("unknown_resource") {
            assert_eq!((error.resource(), api.resource_id.as_deref()), (word("resource"), word("resource_id")));
        } else {
            assert!(api.resource_id.is_some(), "{}", case.body);
        }
        assert_eq!(api.help.as_deref(), word("help_message"));
        assert_eq!(api.current_state.as_deref(), word("current_state"));
        assert_eq!(api.precondition.as_deref(), word("precondition"));
        let details = json["details"].as_array().map_or(0, Vec::len)
            + json["fields"].as_object().map_or(0, |fields| fields.len());
        assert_eq!(api.details.len(), details, "{}", case.body);
        let writes = case.method != "GET";
        let unsettled = matches!(class, "server-error" | "gateway");
        assert_eq!(error.is_ambiguous(), writes && unsettled, "{}", case.body);
    }
    say(&format!("{} recorded errors understood", recorded.len()));
}

#[test]
fn every_class_has_the_spelling_of_the_contract() {
    let contract = include_str!("../../../../wit/policy/types.wit");
    let start = contract.find("enum failure-class").unwrap();
    let listed: Vec<&str> = contract[start..contract[start..].find("\n    }").unwrap() + start]
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("///"))
        .map(|line| line.trim_end_matches(','))
        .collect();
    for class in ErrorClass::ALL {
        assert!(listed.contains(&class.as_str()), "{class} is not in wit/policy/types.wit");
    }
}

#[test]
fn an_endless_body_is_kept_only_in_part() {
    let body = format!("{{\"message\": \"{}\", \"type\": \"server_error\"}}", "ä".repeat(100_000));
    let error = understood("GET", "/x", 500, body.as_bytes());
    assert!(error.body().unwrap().len() <= ERROR_BODY_BYTES);
    assert!(error.to_string().len() <= 2048);
    assert_eq!(error.class(), ErrorClass::ServerError, "the type is read from the whole body");
    let many = format!("{{\"details\": [{}]}}", vec!["{\"resource\": \"r\"}"; 10_000].join(","));
    assert!(understood("GET", "/x", 400, many.as_bytes()).api().unwrap().details.len() <= 64);
}

#[test]
fn bytes_that_are_no_text_are_kept_as_well_as_text_can() {
    let error = understood("GET", "/x", 502, b"\xff\xfe\x00bad");
    assert_eq!(error.body(), Some("\u{fffd}\u{fffd}\0bad"));
    assert_eq!(error.class(), ErrorClass::Gateway);
}

#[test]
fn only_what_left_can_have_taken_effect() {
    let transport =
        |method: &str, source| Error::Transport { method: method.to_owned(), path: "/x".to_owned(), source };
    let deadline = |method: &str, phase| Error::Deadline {
        method: method.to_owned(),
        path: "/x".to_owned(),
        phase,
        limit: Duration::from_secs(1),
    };
    let cases = [
        (transport("POST", TransportError::NotConnected("refused".into())), false),
        (transport("POST", TransportError::Unsendable("bad".into())), false),
        (transport("POST", TransportError::Lost("reset".into())), true),
        (transport("DELETE", TransportError::Lost("reset".into())), true),
        (transport("GET", TransportError::Lost("reset".into())), false),
        (transport("PATCH", TransportError::AnswerTooLarge { limit: 1 }), true),
        (deadline("POST", DeadlinePhase::Queued), false),
        (deadline("POST", DeadlinePhase::Sent), true),
        (deadline("GET", DeadlinePhase::Sent), false),
    ];
    for (error, ambiguous) in cases {
        assert_eq!(error.is_ambiguous(), ambiguous, "{error}");
    }
}

/// JSON of any shape that still has the keys which the parser looks at.
fn body_like_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,40}".prop_map(Into::into),
        Just("\" not found".into()),
        Just("'' not found".into()),
        Just("Ip 'ä' not found ".into()),
        Just("unknown_resource".into()),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        let key = prop_oneof![
            Just("type"),
            Just("message"),
            Just("details"),
            Just("fields"),
            Just("resource"),
            Just("resource_id"),
            Just("help_message"),
            Just("quota"),
            Just("current"),
            Just("x"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn understanding_any_json_never_panics(status in 100u16..1000, body in body_like_json(), write in any::<bool>()) {
        let method = if write { "POST" } else { "GET" };
        let error = understood(method, "/x/user_data/y", status, body.to_string().as_bytes());
        let _ = (error.to_string(), error.class(), error.is_not_found());
        prop_assert!(write || !error.is_ambiguous());
    }

    #[test]
    fn understanding_any_bytes_never_panics(status in 100u16..1000, body in prop::collection::vec(any::<u8>(),
        0..300)) {
        let error = understood("POST", "/x", status, &body);
        let _ = error.to_string();
        prop_assert!(error.body().unwrap().len() <= ERROR_BODY_BYTES);
    }
}
