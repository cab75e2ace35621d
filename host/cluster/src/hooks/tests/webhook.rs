//! Webhooks against a real server that verifies signatures as a receiver would.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, Mac as _};
use parking_lot::Mutex;
use sha2::Sha256;

use super::*;

const SECRET: &str = "whsec-0123456789-not-a-real-one";

/// What the server has got.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(HeaderMap, Bytes)>>>);

/// As a receiver would: with nothing of the sender's code.
fn verifies(headers: &HeaderMap, body: &[u8], secret: &str) -> bool {
    let signature = headers["windlass-signature"].to_str().unwrap();
    let (time, mac) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let mut expected = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    expected.update(&[time.as_bytes(), b".", body].concat());
    let recent = (jiff::Timestamp::now().as_second() - time.parse::<i64>().unwrap()).abs() < 300;
    recent && expected.verify_slice(&hex::decode(mac).unwrap()).is_ok()
}

/// As a library of the Standard Webhooks would, for the secret `whsec_<base64 of secret>`.
fn verifies_by_the_standard(headers: &HeaderMap, body: &[u8], secret: &str) -> bool {
    let text = |name: &str| headers[name].to_str().unwrap();
    let time = text("webhook-timestamp");
    let mut expected = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    expected.update(&[text("webhook-id").as_bytes(), b".", time.as_bytes(), b".", body].concat());
    let encoded = text("webhook-signature").strip_prefix("v1,").unwrap();
    let mac = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap();
    let recent = (jiff::Timestamp::now().as_second() - time.parse::<i64>().unwrap()).abs() < 300;
    recent && expected.verify_slice(&mac).is_ok()
}

async fn serve(received: Received) -> String {
    let take = async |State(received): State<Received>, headers: HeaderMap, body: Bytes| {
        let right = verifies(&headers, &body, SECRET);
        received.0.lock().push((headers, body));
        if right { (StatusCode::OK, "done") } else { (StatusCode::UNAUTHORIZED, "wrong signature") }
    };
    let status = |status: u16| async move || StatusCode::from_u16(status).unwrap();
    let router = Router::new()
        .route("/take", post(take))
        .route("/elsewhere", post(async || (StatusCode::TEMPORARY_REDIRECT, [("location", "/take?token=hush")])))
        .route("/busy", post(status(429)))
        .route("/down", post(status(503)))
        .route("/missing", post(status(404)))
        .route("/words", post(async || (StatusCode::UNPROCESSABLE_ENTITY, "no such farm")))
        .route("/flood", post(async || "y".repeat(3 * 1024 * 1024)))
        .route("/never", post(std::future::pending::<StatusCode>))
        // The connection ends without an answer.
        .route("/dies", post(async || -> StatusCode { panic!("on purpose") }))
        .with_state(received);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// A webhook whose secret is in a file.
struct Sender {
    folder: tempfile::TempDir,
    url: String,
    received: Received,
}

impl Sender {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        private_file(folder.path(), "secret", format!("{SECRET}\n"));
        let received = Received::default();
        Self { folder, url: serve(received.clone()).await, received }
    }

    fn webhook(&self, path: &str) -> WebhookHook {
        WebhookHook {
            url: format!("{}{path}", self.url).parse().unwrap(),
            secret_file: Some(self.folder.path().join("secret")),
            secret_env: None,
            plain_http: false,
        }
    }

    async fn send(&self, path: &str) -> Result<HookOutput, Box<HookFailure>> {
        HookRunner.run(&hook(HookAction::Webhook(self.webhook(path))), &input(2)).await
    }
}

#[tokio::test]
async fn a_webhook_is_told_the_span_of_its_hook_in_a_header_and_nothing_where_there_is_none() {
    let sender = Sender::new().await;
    let (sent, reported) = windlass_telemetry::collector::in_a_hook(sender.send("/take")).await;
    sent.unwrap();
    sender.send("/take").await.unwrap();
    let received = sender.received.0.lock();
    assert_eq!(received[0].0["traceparent"], reported.as_str());
    assert!(verifies(&received[0].0, &received[0].1, SECRET));
    assert!(!received[1].0.contains_key("traceparent"));
}

#[tokio::test]
async fn a_webhook_gets_the_same_json_signed_so_that_the_receiver_can_verify_it() {
    let sender = Sender::new().await;
    let output = sender.send("/take").await.unwrap();
    assert_eq!(output.stdout.text, "done");
    let received = sender.received.0.lock();
    let (headers, body) = &received[0];
    assert_eq!(body, &input(2).json());
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["windlass-delivery"], "0a1b2c-configure");
    assert_eq!(headers["webhook-id"], headers["windlass-delivery"]);
    assert!(verifies_by_the_standard(headers, body, SECRET));
    assert!(!verifies_by_the_standard(headers, b"{}", SECRET));
    assert!(!verifies_by_the_standard(headers, body, "another-secret-of-enough-bytes"));
    // What the server's check is worth: another secret, another body, another time don't pass.
    assert!(verifies(headers, body, SECRET));
    assert!(!verifies(headers, body, "another-secret-of-enough-bytes"));
    assert!(!verifies(headers, b"{}", SECRET));
    let mut later = headers.clone();
    let moved = headers["windlass-signature"].to_str().unwrap().replacen("t=1", "t=2", 1);
    later.insert("windlass-signature", moved.parse().unwrap());
    assert!(!verifies(&later, body, SECRET));
}

#[tokio::test]
async fn a_secret_that_was_changed_is_used_from_the_next_request_on() {
    let sender = Sender::new().await;
    let file = sender.folder.path().join("secret");
    std::fs::write(&file, "some-other-secret-entirely").unwrap();
    let failure = sender.send("/take").await.unwrap_err();
    assert_eq!(failure.problem, HookProblem::Refused { status: 401, location: None });
    assert_eq!(failure.output.stdout.text, "wrong signature");
    std::fs::write(&file, SECRET).unwrap();
    sender.send("/take").await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let sender = Sender::new().await;
    let failure = sender.send("/elsewhere").await.unwrap_err();
    let place = format!("{}/…", sender.url);
    assert_eq!(failure.problem, HookProblem::Refused { status: 307, location: Some(place.clone()) });
    assert!(failure.to_string().contains(&format!("a redirect to {place}, which is not followed")), "{failure}");
    assert!(sender.received.0.lock().is_empty());
}

#[tokio::test]
async fn every_answer_but_2xx_is_a_failure_with_the_answers_words() {
    let sender = Sender::new().await;
    for (path, status) in [("/busy", 429), ("/down", 503), ("/missing", 404), ("/words", 422)] {
        let failure = sender.send(path).await.unwrap_err();
        assert_eq!(failure.problem, HookProblem::Refused { status, location: None });
        assert_eq!(failure.for_retry().status, Some(status));
    }
    assert!(sender.send("/words").await.unwrap_err().to_string().ends_with("it said: no such farm"));
}

#[tokio::test]
async fn a_flood_of_an_answer_is_bounded() {
    let sender = Sender::new().await;
    let output = sender.send("/flood").await.unwrap();
    assert_eq!(output.stdout.text.len(), CAPTURED_BYTES);
    assert!(output.stdout.dropped < 2 * 1024 * 1024, "{} bytes were read", output.stdout.dropped);
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_and_one_that_is_not_there_is_no_connection() {
    let sender = Sender::new().await;
    let slow = soon(HookAction::Webhook(sender.webhook("/never")));
    let failure = HookRunner.run(&slow, &input(1)).await.unwrap_err();
    assert!(failure.problem.is_time_out(), "{failure}");

    // A port that was free a moment ago.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let webhook = WebhookHook { url: format!("http://{closed}/?token=hush").parse().unwrap(), ..sender.webhook("/") };
    let failure = HookRunner.run(&hook(HookAction::Webhook(webhook)), &input(1)).await.unwrap_err();
    assert!(matches!(failure.problem, HookProblem::Connection(_)), "{failure}");
    assert!(!failure.to_string().contains("hush"), "{failure}");
}

#[tokio::test]
async fn a_receiver_that_dies_with_the_request_leaves_its_end_unknown() {
    let sender = Sender::new().await;
    let failure = sender.send("/dies").await.unwrap_err();
    assert!(matches!(failure.problem, HookProblem::ConnectionLost(_)), "{failure}");
    assert!(!failure.problem.is_end_known(), "{failure}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_is_named_by_its_place_and_shown_nowhere() {
    use std::os::unix::fs::PermissionsExt as _;
    let sender = Sender::new().await;
    let file = sender.folder.path().join("secret");
    let refused = |webhook: WebhookHook| {
        let hook = hook(HookAction::Webhook(webhook));
        let words = hook.preflight().unwrap_err().to_string();
        assert!(!format!("{hook:?}{hook}{words}").contains("whsec"), "{words}");
        words
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(sender.webhook("/take")).contains("mode 644): chmod 640"));
    let failure = sender.send("/take").await.unwrap_err();
    assert!(matches!(failure.problem, HookProblem::Secret(_)), "{failure}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "whsec-short").unwrap();
    assert!(refused(sender.webhook("/take")).contains("shorter than 16 bytes"));
    std::fs::remove_file(&file).unwrap();
    assert!(refused(sender.webhook("/take")).contains(file.to_str().unwrap()));
    let variable =
        WebhookHook { secret_file: None, secret_env: Some("NOT_SET_ANYWHERE".into()), ..sender.webhook("/") };
    assert!(refused(variable).contains("secret_env NOT_SET_ANYWHERE: the variable is not set"));
    assert!(sender.received.0.lock().is_empty());
}

#[tokio::test]
async fn a_dry_run_sends_nothing_and_shows_no_secret() {
    let sender = Sender::new().await;
    let webhook =
        WebhookHook { url: format!("{}/take?token=hush", sender.url).parse().unwrap(), ..sender.webhook("/") };
    let plan = HookRunner.plan(&hook(HookAction::Webhook(webhook)), &input(2));
    assert_eq!(plan.problem, None);
    let shown = serde_json::to_string(&plan).unwrap();
    assert!(
        shown.contains(&format!("{}/…", sender.url)) && !shown.contains("/take") && shown.contains("0a1b2c-configure"),
        "{shown}"
    );
    assert!(!shown.contains("hush") && !shown.contains("whsec"), "{shown}");
    assert!(sender.received.0.lock().is_empty());
}
