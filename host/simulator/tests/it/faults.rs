//! Every kind of fault, before and after the effect.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_scaleway::TransportError;
use windlass_simulator::{FaultKind, FaultRule, Options, RequestLimit};

use crate::caller::{BLOCK, Caller, INSTANCE};

const IPS: &str = "/instance/v1/zones/*/ips";

/// The status, the `type` and the number of IPs that exist afterwards, of one POST under a fault.
async fn outcome(rule: FaultRule) -> (Option<u16>, Value, usize) {
    let caller = Caller::still();
    caller.simulator.add_fault(rule).unwrap();
    let reply = caller.send(Method::POST, &format!("{INSTANCE}/ips"), Bytes::from_static(b"{}")).await;
    let ips = caller.simulator.resources().ips.len();
    match reply {
        Ok(reply) => (Some(reply.status.as_u16()), reply.json["type"].clone(), ips),
        Err(TransportError::Lost(_)) => (None, Value::Null, ips),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn each_kind_answers_as_scaleway_does_and_the_effect_is_as_ordered() {
    for kind in FaultKind::ALL {
        let (status, word) = match kind {
            FaultKind::InternalServerError => (Some(500), json!("internal_server_error")),
            FaultKind::GatewayTimeout => (Some(504), Value::Null),
            FaultKind::GatewayUnavailable => (Some(503), Value::Null),
            FaultKind::RateLimited => (Some(429), Value::Null),
            FaultKind::OutOfStock => (Some(503), json!("out_of_stock")),
            FaultKind::QuotaExceeded => (Some(403), json!("quotas_exceeded")),
            FaultKind::TransientState => (Some(409), json!("transient_state")),
            FaultKind::Locked => (Some(423), json!("locked")),
            FaultKind::PreconditionFailed => (Some(400), json!("precondition_failed")),
            FaultKind::PreconditionFailedBare => (Some(412), Value::Null),
            FaultKind::PermissionDenied => (Some(403), json!("permissions_denied")),
            FaultKind::NotFound => (Some(404), json!("not_found")),
            FaultKind::DroppedConnection => (None, Value::Null),
            // Tested below: they answer with success.
            FaultKind::Delay(_) | FaultKind::MalformedBody => continue,
            // Not among `ALL`; tested below.
            FaultKind::Late(_) | FaultKind::Omit(_) | FaultKind::OmitKeepTotal(_) => unreachable!("{kind}"),
        };
        let rule = FaultRule::new("POST", IPS, kind);
        assert_eq!(outcome(rule.clone()).await, (status, word.clone(), 0), "{kind} before");
        assert_eq!(outcome(rule.after_effect()).await, (status, word, 1), "{kind} after");
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_request_limit_calls_do_nothing_until_time_has_passed() {
    let [per_second, burst] = [2, 3].map(|number| NonZeroU32::new(number).unwrap());
    let limit = RequestLimit { per_second, burst };
    let caller = Caller::of(Options { request_limit: Some(limit), ..Options::default() });
    let create = async || {
        let reply = caller.send(Method::POST, &format!("{INSTANCE}/ips"), Bytes::from_static(b"{}")).await.unwrap();
        reply.status.as_u16()
    };
    let statuses = [create().await, create().await, create().await, create().await, create().await];
    assert_eq!(statuses, [201, 201, 201, 429, 429]);
    assert_eq!(caller.simulator.resources().ips.len(), 3);
    tokio::time::advance(Duration::from_millis(499)).await;
    assert_eq!(create().await, 429);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!([create().await, create().await], [201, 429]);
    // A rest is worth a burst, however long it was.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!([create().await, create().await, create().await, create().await], [201, 201, 201, 429]);
    let refused = caller.simulator.requests().iter().filter(|request| request.status == Some(429)).count();
    assert_eq!(refused, 5);
}

#[tokio::test]
async fn a_rate_limit_is_empty_and_names_no_time() {
    let caller = Caller::still();
    caller.simulator.add_fault(FaultRule::new("GET", IPS, FaultKind::RateLimited)).unwrap();
    let reply = caller.get(&format!("{INSTANCE}/ips")).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (429, 0));
    assert_eq!(reply.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!((reply.header("retry-after"), reply.header("content-type")), (None, None));
}

#[tokio::test]
async fn a_malformed_body_is_a_success_that_does_not_parse() {
    for (rule, status, ips) in [
        (FaultRule::new("POST", IPS, FaultKind::MalformedBody), 200, 0),
        (FaultRule::new("POST", IPS, FaultKind::MalformedBody).after_effect(), 201, 1),
    ] {
        let caller = Caller::still();
        caller.simulator.add_fault(rule).unwrap();
        let reply = caller.post(&format!("{INSTANCE}/ips"), json!({})).await;
        assert_eq!(reply.status.as_u16(), status);
        assert!(!reply.body.is_empty() && serde_json::from_slice::<Value>(&reply.body).is_err());
        assert_eq!(caller.simulator.resources().ips.len(), ips);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_waits_before_or_after_the_effect() {
    for (after, exists_meanwhile) in [(false, 0), (true, 1)] {
        let caller = Caller::of(Options::default());
        let mut rule = FaultRule::new("POST", IPS, FaultKind::Delay(Duration::from_secs(30)));
        if after {
            rule = rule.after_effect();
        }
        caller.simulator.add_fault(rule).unwrap();
        let begun = tokio::time::Instant::now();
        let path = format!("{INSTANCE}/ips");
        let call = caller.post(&path, json!({}));
        tokio::pin!(call);
        let early = tokio::time::timeout(Duration::from_secs(10), &mut call).await;
        assert!(early.is_err(), "answered too early");
        assert_eq!(caller.simulator.resources().ips.len(), exists_meanwhile);
        call.await.expect(201);
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
    }
}

#[tokio::test]
async fn a_fault_names_what_was_asked_for() {
    let caller = Caller::still();
    let id = caller.running_server().await;
    caller.simulator.add_fault(FaultRule::new("POST", "**/action", FaultKind::TransientState)).unwrap();
    let refusal = caller.act(&id, "terminate").await.expect(409);
    assert_eq!((&refusal["resource"], &refusal["resource_id"]), (&json!("instance_server"), &json!(id)));
    assert_eq!(refusal["current_state"], "running");
}

#[tokio::test]
async fn only_the_nth_call_is_met_and_the_log_says_so() {
    let caller = Caller::still();
    caller.simulator.add_fault(FaultRule::new("GET", IPS, FaultKind::GatewayUnavailable).nth(2)).unwrap();
    for status in [200, 503, 200] {
        caller.get(&format!("{INSTANCE}/ips")).await.expect(status);
    }
    let log: Vec<(Option<u16>, Option<String>)> =
        caller.simulator.requests().into_iter().map(|record| (record.status, record.fault)).collect();
    let fault = Some("gateway-unavailable".to_owned());
    assert_eq!(log, [(Some(200), None), (Some(503), fault), (Some(200), None)]);
    let faults = caller.simulator.faults();
    assert_eq!((faults[0].matched, faults[0].applied), (3, 1));
}

#[tokio::test]
async fn a_dropped_connection_is_logged_without_a_status() {
    let caller = Caller::still();
    caller.simulator.add_fault(FaultRule::new("GET", IPS, FaultKind::DroppedConnection)).unwrap();
    let lost = caller.send(Method::GET, &format!("{INSTANCE}/ips"), Bytes::new()).await;
    assert!(matches!(lost, Err(TransportError::Lost(_))), "{lost:?}");
    let record = caller.simulator.requests().remove(0);
    assert_eq!((record.status, record.fault.as_deref()), (None, Some("dropped-connection")));
}

const LATE: FaultKind = FaultKind::Late(Duration::from_secs(60));

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_call_is_not_answered_and_takes_effect_all_the_same() {
    let caller = Caller::of(Options::default());
    caller.simulator.add_fault(FaultRule::new("POST", "**/volumes", LATE)).unwrap();
    let request = json!({"name": "v", "from_empty": {"size": 1_000_000_000}}).to_string();
    let begun = tokio::time::Instant::now();
    let lost = caller.send(Method::POST, &format!("{BLOCK}/volumes"), request.into()).await;
    assert!(matches!(lost, Err(TransportError::Lost(_))), "{lost:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "the connection closes at once");
    pass(59).await;
    assert_eq!(caller.simulator.resources().count(), 0, "nothing before its time");
    pass(11).await;
    let volumes = caller.simulator.resources().volumes;
    assert_eq!(volumes.len(), 1);
    // It came when it was due, not when somebody looked.
    assert_eq!(volumes[0]["created_at"], "2026-08-01T00:01:00.000000Z");
    let log = caller.simulator.requests();
    assert_eq!((log[0].status, log[0].fault.as_deref()), (None, Some("late:60000")));
}

#[tokio::test(start_paused = true)]
async fn a_late_call_takes_effect_when_its_caller_has_hung_up_and_holds_one_that_waits() {
    for patience in [10, 300] {
        let caller = Caller::of(Options::default());
        caller.simulator.add_fault(FaultRule::new("POST", IPS, LATE).after_effect()).unwrap();
        let begun = tokio::time::Instant::now();
        let path = format!("{INSTANCE}/ips");
        let call = caller.send(Method::POST, &path, Bytes::from_static(b"{}"));
        match tokio::time::timeout(Duration::from_secs(patience), call).await {
            Err(_) => {
                assert_eq!((patience, caller.simulator.resources().count()), (10, 0));
                pass(50).await;
            }
            Ok(answer) => {
                assert!(matches!(answer, Err(TransportError::Lost(_))), "{answer:?}");
                assert_eq!((patience, begun.elapsed()), (300, Duration::from_secs(60)));
            }
        }
        assert_eq!(caller.simulator.resources().ips.len(), 1, "{patience}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_calls_take_effect_in_the_order_of_their_time_and_with_their_own_key() {
    let caller = Caller::of(Options { tokens: [crate::caller::TOKEN.to_owned()].into(), ..Options::default() });
    let id = caller.server(json!({})).await;
    for (nth, seconds) in [(1, 30), (2, 20), (3, 40)] {
        let kind = FaultKind::Late(Duration::from_secs(seconds));
        caller.simulator.add_fault(FaultRule::new("PATCH", "**/servers/*", kind).nth(nth)).unwrap();
    }
    let path = format!("{INSTANCE}/servers/{id}");
    let stranger = caller.with_token(Some("00000000-0000-4000-8000-000000000000"));
    for (who, name) in [(&caller, "first"), (&caller, "second"), (&stranger, "stranger")] {
        let body = json!({"name": name}).to_string();
        assert!(who.send(Method::PATCH, &path, body.into()).await.is_err());
    }
    for (seconds, name) in [(19, "web"), (1, "second"), (10, "first"), (60, "first")] {
        pass(seconds).await;
        assert_eq!(caller.shown(&id).await["name"], name);
    }
}

#[tokio::test]
async fn a_list_leaves_out_one_place_and_only_its_total_can_tell() {
    let caller = Caller::still();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.insert(0, caller.ip(json!({"tags": ["t"]})).await);
    }
    for (kind, total) in [(FaultKind::Omit(2), "2"), (FaultKind::OmitKeepTotal(2), "3")] {
        caller.simulator.clear_faults();
        caller.simulator.add_fault(FaultRule::new("GET", "/**", kind)).unwrap();
        let pages = ["page=1&per_page=1", "page=2&per_page=1", "per_page=100&tags=t"];
        let mut seen = Vec::new();
        for query in pages {
            let page = caller.get(&format!("{INSTANCE}/ips?{query}")).await;
            assert_eq!(page.header("x-total-count"), Some(total), "{kind}");
            let list = page.expect(200)["ips"].as_array().unwrap().clone();
            seen.push(list.iter().map(|ip| ip["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(seen, [vec![ids[0].clone()], vec![ids[2].clone()], vec![ids[0].clone(), ids[2].clone()]]);
        // The total of the newer APIs stands in the body; what is no list passes.
        let booked = caller.get("/ipam/v1/regions/fr-par/ips").await.expect(200);
        assert_eq!((booked["total_count"].to_string().as_str(), booked["ips"].as_array().unwrap().len()), (total, 2));
        caller.get(&format!("{INSTANCE}/ips/{}", ids[1])).await.expect(200);
    }
}
