//! Waiting: rate, concurrency, deadlines – all on simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};
use windlass_scaleway::{DeadlinePhase, Error, ErrorClass, Limits, ServiceTransport, TransportError};

use crate::support::*;

fn limits(concurrent: u32, per_second: u32, burst: u32) -> Limits {
    let mut limits = Limits::default();
    limits.concurrent_calls = concurrent.try_into().unwrap();
    limits.calls_per_second = per_second.try_into().unwrap();
    limits.burst = burst.try_into().unwrap();
    limits
}

#[tokio::test(start_paused = true)]
async fn never_more_calls_under_way_than_allowed_also_by_clones() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (client, sent) = {
        let (now, most) = (now.clone(), most.clone());
        client_with(settings().with_limits(limits(3, 1000, 1000)), move |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(50)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(response(204, ""))
            }
        })
    };
    let start = Instant::now();
    join_all((0..12).map(|number| {
        let client = client.clone();
        async move { client.instance(&zone()).delete_server(&format!("s{number}")).await.unwrap() }
    }))
    .await;
    assert_eq!((most.load(Ordering::SeqCst), sent.count()), (3, 12));
    assert_eq!(start.elapsed(), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn calls_leave_in_their_rate() {
    let (client, _) = client_with(settings().with_limits(limits(100, 10, 10)), |_| async { Ok(response(204, "")) });
    let start = Instant::now();
    join_all((0..30).map(|_| {
        let client = client.clone();
        async move { client.instance(&zone()).delete_ip("i").await.unwrap() }
    }))
    .await;
    assert!(start.elapsed() >= Duration::from_secs(2) && start.elapsed() < Duration::from_millis(2100));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_too_long_for_its_turn_was_not_sent() {
    let mut limits = limits(1, 1000, 1000);
    limits.queue_deadline = Duration::from_secs(5);
    let (client, sent) = client_with(settings().with_limits(limits), |_| async {
        sleep(Duration::from_secs(20)).await;
        Ok(response(204, ""))
    });
    let instance = client.instance(&zone());
    let (first, second) = tokio::join!(instance.delete_server("one"), instance.delete_server("two"));
    first.unwrap();
    let error = second.unwrap_err();
    assert!(matches!(error, Error::Deadline { phase: DeadlinePhase::Queued, .. }), "{error}");
    assert!(!error.is_ambiguous() && error.class() == ErrorClass::Timeout);
    assert!(error.to_string().contains("was not sent; raise the limits"), "{error}");
    assert_eq!(sent.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_observes_calls_knows_whether_one_has_left() {
    let (client, sent) =
        client_with(settings().with_limits(limits(1, 1000, 1000)), |_| std::future::pending::<Outcome>());
    let instance = client.instance(&zone());
    let (first, second, none) =
        <(windlass_scaleway::Sent, windlass_scaleway::Sent, windlass_scaleway::Sent)>::default();
    let calls = async {
        let refused = none.observe(instance.delete_ip("")).await;
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })));
        tokio::join!(first.observe(instance.delete_ip("a")), second.observe(instance.delete_ip("b")))
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), calls).await.is_err());
    assert_eq!((first.is_set(), second.is_set(), none.is_set(), sent.count()), (true, false, false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline_and_may_have_taken_effect() {
    let (client, sent) = client_with(settings(), |_| std::future::pending());
    let start = Instant::now();
    let error = client.instance(&zone()).delete_server(SERVER).await.unwrap_err();
    assert_eq!(start.elapsed(), Limits::default().call_deadline);
    assert!(matches!(error, Error::Deadline { phase: DeadlinePhase::Sent, .. }) && error.is_ambiguous());
    assert_eq!(
        error.to_string(),
        format!("DELETE /instance/v1/zones/fr-par-1/servers/{SERVER}: no answer within 30 s")
    );
    assert_eq!(sent.count(), 1, "nothing is repeated");
    let error = client.instance(&zone()).get_server(SERVER).await.unwrap_err();
    assert!(!error.is_ambiguous(), "reading has no effect");
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_queue_does_not_count_against_the_answer() {
    let mut limits = limits(1, 1000, 1000);
    limits.call_deadline = Duration::from_secs(10);
    let (client, _) = client_with(settings().with_limits(limits), |_| async {
        sleep(Duration::from_secs(8)).await;
        Ok(response(204, ""))
    });
    let instance = client.instance(&zone());
    let results = tokio::join!(instance.delete_ip("a"), instance.delete_ip("b"), instance.delete_ip("c"));
    assert!(results.0.is_ok() && results.1.is_ok() && results.2.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_at_one_product_do_not_keep_calls_to_another_waiting() {
    let (client, sent) = client_with(settings().with_limits(limits(32, 1_000, 1_000)), |request| {
        let hangs = request.uri().path().starts_with("/block/") || request.uri().path().starts_with("/vpc/");
        async move { if hangs { std::future::pending().await } else { Ok(response(204, "")) } }
    });
    let start = Instant::now();
    let (block, instance) = (client.block(&zone()), client.instance(&zone()));
    let hung = join_all((0..40).map(|_| block.delete_volume("v")));
    let raw = join_all((0..40).map(|_| client.send_raw("GET", "/vpc/v2/regions/fr-par/vpcs", None)));
    let undone = async {
        sleep(Duration::from_millis(1)).await;
        assert_eq!(sent.count(), 64, "as many as each product may have under way");
        instance.delete_server(SERVER).await.unwrap();
        client.ipam(&zone().region()).get_ip("i").await.unwrap_err();
        start.elapsed()
    };
    let (_, _, elapsed) = tokio::join!(hung, raw, undone);
    assert_eq!(elapsed, Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_abandoned_call_gives_its_place_back() {
    let (client, sent) = client_with(settings().with_limits(limits(1, 1000, 1000)), |request| {
        let lost = request.uri().path().ends_with("lost");
        async move {
            if lost {
                return Err(TransportError::Lost("reset by peer".into()));
            }
            std::future::pending().await
        }
    });
    let instance = client.instance(&zone());
    for _ in 0..3 {
        assert!(instance.delete_ip("lost").await.unwrap_err().is_ambiguous());
        let abandoned = tokio::time::timeout(Duration::from_secs(1), instance.delete_ip("pending")).await;
        assert!(abandoned.is_err());
    }
    assert_eq!(sent.count(), 6);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_whatever_the_failure() {
    for status in [429, 500, 502, 503, 504, 409, 423, 408] {
        let (client, sent) = client_answered(status, "");
        assert!(client.instance(&zone()).get_server(SERVER).await.is_err());
        assert_eq!(sent.count(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn how_long_an_answer_asks_to_be_left_alone_stands_in_the_error() {
    for (asked, date, expected) in [
        (Some("7"), None, Some(7)),
        (Some("Sun, 06 Nov 1994 08:49:37 GMT"), Some("Sun, 06 Nov 1994 08:49:07 GMT"), Some(30)),
        (Some("99999999999999999999"), None, Some(86_400)),
        (Some("soon"), None, None),
        (None, None, None),
    ] {
        for status in [429, 503] {
            let (client, sent) = client_with(settings(), move |_| async move {
                let mut response = response(status, "");
                for (name, value) in [("retry-after", asked), ("date", date)] {
                    if let Some(value) = value {
                        response.headers_mut().insert(name, value.parse().unwrap());
                    }
                }
                Ok(response)
            });
            let error = client.instance(&zone()).delete_ip("i").await.unwrap_err();
            assert_eq!(error.retry_after(), expected.map(Duration::from_secs), "{asked:?}");
            assert_eq!(error.to_string().contains("asks to wait"), expected.is_some(), "{error}");
            assert_eq!(sent.count(), 1, "whether to wait is somebody else's judgement");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_beyond_the_limit_is_refused() {
    let mut limits = Limits::default();
    limits.answer_bytes = 1000;
    let (client, _) = client_with(settings().with_limits(limits), |_| async { Ok(response(200, "x".repeat(1001))) });
    let error = client.instance(&zone()).get_server(SERVER).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::MalformedAnswer, "{error}");
    assert!(client.send_raw("GET", "/x", None).await.is_err());
}

#[test]
fn calls_may_move_between_threads() {
    fn may_move<T: Send>(_: &T) {}
    fn may_be_kept<T: Send + Sync + 'static>() {}
    may_be_kept::<Error>();
    let (client, _) = client_answered(204, "");
    let (instance, marketplace) = (client.instance(&zone()), client.marketplace());
    may_move(&instance.delete_server(SERVER));
    may_move(&instance.list_servers(&Default::default()));
    may_move(&instance.list_server_types());
    may_move(&instance.server_action(SERVER, windlass_scaleway::types::instance::ServerAction::PowerOn));
    may_move(&marketplace.resolve_image("x", &zone(), "DEV1-S", Default::default()));
    may_move(&client.send_raw("GET", "/x", None));
}

#[tokio::test(start_paused = true)]
async fn a_tower_service_is_a_transport() {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};

    let service = tower::service_fn(|request: http::Request<Full<Bytes>>| async move {
        let path = request.uri().path().to_owned();
        if path.ends_with("lost") {
            return Err(std::io::Error::other("the line is dead"));
        }
        let sent = request.into_body().collect().await.unwrap().to_bytes();
        let body = if sent.is_empty() { Bytes::from(fixture("server_running")) } else { sent };
        Ok(http::Response::new(Full::new(body)))
    });
    let client =
        windlass_scaleway::Client::with_transport(settings(), Arc::new(ServiceTransport::new(service))).unwrap();
    assert_eq!(client.instance(&zone()).get_server(SERVER).await.unwrap().id, SERVER);
    let error = client.instance(&zone()).delete_server("lost").await.unwrap_err();
    assert!(error.is_ambiguous() && error.to_string().contains("the line is dead"), "{error}");
    assert_eq!(client.send_raw("POST", "/x", Some("echo".into())).await.unwrap().body, "echo");
}

#[tokio::test(start_paused = true)]
async fn a_key_counts_as_denied_until_an_answer_accepts_it() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (client, _) = client_with(settings(), move |_| {
        let status = [204, 401, 404, 403][asked.fetch_add(1, Ordering::SeqCst)];
        async move { Ok(response(status, "")) }
    });
    let mut seen = Vec::new();
    for _ in 0..4 {
        client.send_raw("GET", "/instance/v1/zones/fr-par-1/ips/i", None).await.unwrap();
        seen.push(client.is_denied());
    }
    assert_eq!(seen, [false, true, false, true]);
}
