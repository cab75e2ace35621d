//! What honest clients get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_policy::DecisionFilter;
use windlass_policy::slots::{Slot, StateMapping};
use windlass_serve::proto::{self, error::Code, outcome};

use crate::support::{Server, asking, gateway_failed, subject, wait_of};

#[tokio::test]
async fn a_decision_is_that_of_the_policy_in_force_and_is_in_the_log() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let decide = proto::Decide { pin: Default::default(), questions: vec![gateway_failed()] };
    let outcomes = client.decide(decide).await.unwrap();
    assert_eq!(wait_of(&outcomes[0]), 1);
    let outcome::Outcome::Decision(decision) = &outcomes[0] else { panic!() };
    let Some(proto::decision::DecidedBy::Policy(policy)) = &decision.decided_by else { panic!("{decision:?}") };
    assert_eq!((policy.slot.as_str(), policy.built_in), ("retry", false));
    let log = server.host.decisions().unwrap();
    assert!(log.show(&decision.id).unwrap().decided_by.to_string().contains(&policy.name));
    assert_eq!(log.list(&DecisionFilter::default()).unwrap().decisions.len(), 1);
}

#[tokio::test]
async fn a_pin_keeps_its_policies_across_a_swap_and_a_restart() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let pin = client.pin().await;
    server.swap(2);
    assert_eq!(client.waits(b"").await, 2);
    assert_eq!(client.waits(&pin.token).await, 1);
    let folder = server.end().await;
    let server = Server::on(folder, |_| {}).await;
    let mut client = server.client().await;
    assert_eq!(client.waits(b"").await, 2);
    assert_eq!(client.waits(&pin.token).await, 1, "the policy is read from the state directory");
}

#[tokio::test]
async fn more_pins_than_are_kept_ready_are_all_kept() {
    let server = Server::with(|options| options.limits.ready_pins = 2).await;
    let mut client = server.client().await;
    let mut pins = Vec::new();
    for milliseconds in 2..8 {
        pins.push((milliseconds - 1, client.pin().await.token));
        server.swap(milliseconds);
    }
    for (milliseconds, token) in &pins {
        assert_eq!(client.waits(token).await, *milliseconds);
    }
}

#[tokio::test]
async fn a_batch_is_decided_under_one_set_of_policies_each_question_by_itself() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let unknown = proto::Question { slot: None };
    let decide =
        proto::Decide { pin: Default::default(), questions: vec![gateway_failed(), unknown, gateway_failed()] };
    let outcomes = client.decide(decide).await.unwrap();
    assert_eq!((wait_of(&outcomes[0]), wait_of(&outcomes[2])), (1, 1));
    let outcome::Outcome::Error(error) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert_eq!(error.code(), Code::Invalid);
}

#[tokio::test]
async fn an_empty_batch_and_one_that_is_too_large_are_refused_whole() {
    let server = Server::new().await;
    let mut client = server.client().await;
    for (questions, code) in [(0, Code::Invalid), (257, Code::TooLarge)] {
        let decide = proto::Decide { pin: Default::default(), questions: vec![gateway_failed(); questions] };
        assert_eq!(client.decide(decide).await.unwrap_err().code(), code);
    }
    let decide = proto::Decide { pin: Default::default(), questions: vec![gateway_failed(); 256] };
    assert_eq!(client.decide(decide).await.unwrap().len(), 256);
    assert_eq!(server.status().await.counters.unwrap().decisions, 256);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_decision_is_lost_while_policies_are_swapped() {
    let server = Arc::new(Server::new().await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut asking = Vec::new();
    for _ in 0..4 {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        asking.push(tokio::spawn(async move {
            let mut client = server.client().await;
            let (mut last, mut decisions) = (0, 0u64);
            while !stop.load(Ordering::Relaxed) {
                let waits = client.waits(b"").await;
                assert!(waits >= last, "{waits} after {last}: a former policy decided again");
                (last, decisions) = (waits, decisions + 1);
            }
            decisions
        }));
    }
    for milliseconds in 2..=6 {
        let swapping = Arc::clone(&server);
        tokio::task::spawn_blocking(move || swapping.swap(milliseconds)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut decisions = 0;
    for asking in asking {
        decisions += asking.await.unwrap();
    }
    let counters = server.status().await.counters.unwrap();
    assert_eq!((counters.decisions, counters.errors, counters.fallbacks), (decisions, 0, 0));
}

#[tokio::test]
async fn a_request_that_has_come_is_answered_before_the_end() {
    let server = Server::with(|options| options.limits.drain_time = Duration::from_secs(300)).await;
    let mut client = server.client().await;
    client.waits(b"").await;
    client.send(&asking(100)).await;
    let folder = server.end().await;
    let response = client.response().await.expect("the request had come");
    assert!(matches!(response.result, Some(proto::response::Result::Outcomes(it)) if it.outcomes.len() == 100));
    assert_eq!(client.response().await, None);
    assert!(!folder.path().join("policy.sock").exists());
}

#[tokio::test]
async fn the_status_tells_what_is_in_force() {
    let server = Server::new().await;
    server.client().await.waits(b"").await;
    std::fs::write(server.folder.path().join("retry.rules.toml"), "slot = 5").unwrap();
    server.host.reload();
    let status = server.status().await;
    let link = status.links.iter().find(|link| link.source == "retry.rules.toml").unwrap();
    assert!(link.error.is_some() && !link.suspended && !link.shadow);
    assert_eq!(link.policy.as_ref().unwrap().component.len(), 64);
    let built_in = status.links.iter().find(|link| link.policy.as_ref().unwrap().slot == "placement").unwrap();
    assert!(built_in.policy.as_ref().unwrap().built_in);
    let counters = status.counters.unwrap();
    assert_eq!((counters.decisions, counters.connections, counters.errors), (1, 2, 0));
}

#[tokio::test]
async fn a_listing_of_ten_thousand_servers_is_answered() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let example = StateMapping::example();
    let one = proto::StateMappingServer {
        state: proto::StateMappingServerState::Running.into(),
        detail: proto::StateMappingStateDetail::Booted.into(),
        in_flight: proto::StateMappingOperation::None.into(),
        has_run: true,
        ..Default::default()
    };
    let question = proto::StateMappingQuestion {
        now: example.now,
        zone: example.zone,
        subject: Some(subject()),
        server_types: vec!["DEV1-S".into()],
        servers: vec![one; 10_000],
        ..Default::default()
    };
    let question = proto::Question { slot: Some(proto::question::Slot::StateMapping(question)) };
    let decide = proto::Decide { pin: Default::default(), questions: vec![question] };
    let outcomes = client.decide(decide).await.unwrap();
    let outcome::Outcome::Decision(decision) = &outcomes[0] else { panic!() };
    let Some(proto::answer::Slot::StateMapping(answers)) = decision.answer.clone().unwrap().slot else { panic!() };
    assert_eq!(answers.answers.len(), 10_000);
}
