//! One seed, one history.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use windlass_simulator::{FaultKind, FaultRule, Latency, Options};

use crate::caller::{BLOCK, Caller, INSTANCE};

/// A history with concurrent callers, whose order the jitter decides; every answer whole, in the order of arrival.
async fn history(seed: u64, jitter_ms: u64) -> Vec<(String, Bytes)> {
    let latency = Latency { base_ms: 20, jitter_ms };
    let caller = Caller::of(Options { seed, latency, ..Options::default() });
    caller.simulator.add_fault(FaultRule::new("POST", "**/ips", FaultKind::GatewayUnavailable).nth(3)).unwrap();
    let transcript = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let image = caller.image().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (caller, transcript, image) = (caller.clone(), transcript.clone(), image.clone());
        tasks.spawn(async move {
            let note = |reply: &crate::caller::Reply| {
                let head = format!("{number} {} {:?}", reply.status, reply.headers);
                transcript.lock().unwrap().push((head, reply.body.clone()));
            };
            note(&caller.post(&format!("{INSTANCE}/ips"), json!({"tags": [number.to_string()]})).await);
            let request = json!({"name": format!("s{number}"), "commercial_type": "DEV1-S", "image": image});
            let created = caller.post(&format!("{INSTANCE}/servers"), request).await;
            note(&created);
            let id = created.json["server"]["id"].as_str().unwrap().to_owned();
            note(&caller.act(&id, "poweron").await);
            tokio::time::sleep(Duration::from_secs(10)).await;
            note(&caller.get(&format!("{INSTANCE}/servers/{id}")).await);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let last = caller.get(&format!("{BLOCK}/volumes")).await;
    let mut transcript = transcript.lock().unwrap().clone();
    transcript.push((format!("{:?}", last.headers), last.body));
    transcript
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_and_calls_give_byte_identical_answers_in_the_same_order() {
    let first = history(7, 50).await;
    assert_eq!(first, history(7, 50).await);
    assert_eq!(first.len(), 33);
}

#[tokio::test(start_paused = true)]
async fn another_seed_gives_other_ids_and_another_order() {
    let order = |history: &[(String, Bytes)]| {
        history.iter().map(|(head, _)| head.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (first, second) = (history(7, 50).await, history(8, 50).await);
    assert_ne!(first, second);
    assert_ne!(order(&first), order(&second), "jitter did not change the order");
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_lifecycle_passes_under_paused_time() {
    let caller = Caller::of(Options::default());
    let id = caller.server(json!({})).await;
    let begun = tokio::time::Instant::now();
    let comes_to = async |state: &str| {
        while caller.shown(&id).await["state"] != state {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(begun.elapsed() < Duration::from_secs(24 * 3_600), "it is never {state}");
        }
    };
    for _ in 0..40 {
        caller.act(&id, "poweron").await.expect(202);
        comes_to("running").await;
        caller.act(&id, "poweroff").await.expect(202);
        comes_to("stopped").await;
    }
    assert!(begun.elapsed() > Duration::from_secs(25 * 60), "{:?}", begun.elapsed());
}
