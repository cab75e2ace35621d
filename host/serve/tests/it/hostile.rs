//! Peers that send what they should not. Time is simulated: what takes minutes here takes none.

use std::time::Duration;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, Policies};
use windlass_serve::ServeOptions;
use windlass_serve::proto::{self, error::Code, outcome, request, response};

use crate::support::{Client, Server, asking, gateway_failed, subject};

/// For many decisions on a machine that has little time for them.
const PATIENT: Duration = Duration::from_secs(600);

#[tokio::test]
async fn garbage_is_refused_and_the_connection_goes_on() {
    let server = Server::new().await;
    let mut client = server.client().await;
    for garbage in [&b"\xff\xff\xff\xff\xff\xff\xff"[..], b"GET / HTTP/1.1\r\n\r\n", b"", &[0x1a; 1000]] {
        client.send(garbage).await;
        assert_eq!(client.error().await, Code::Invalid, "{garbage:?}");
    }
    assert_eq!(client.waits(b"").await, 1);
    assert_eq!(server.status().await.counters.unwrap().errors, 4);
}

#[tokio::test]
async fn a_giant_length_takes_no_memory_and_ends_the_connection() {
    let server = Server::new().await;
    for length in [u32::MAX, (1 << 20) + 1] {
        let mut client = server.client().await;
        client.stream.write_all(&length.to_be_bytes()).await.unwrap();
        assert_eq!(client.last_error().await, Code::TooLarge);
    }
    assert_eq!(server.client().await.waits(b"").await, 1);
}

#[tokio::test(start_paused = true)]
async fn half_a_message_is_waited_for_ten_seconds_and_no_longer() {
    let server = Server::new().await;
    let request = asking(1);
    for (bytes, pause) in [(2, 0), (request.len() / 2, 0), (request.len() - 1, 1)] {
        let mut client = server.client().await;
        let began = Instant::now();
        let whole = crate::support::framed(&request);
        for byte in &whole[..bytes] {
            // A byte a second would take minutes as a whole.
            if client.stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
        assert_eq!(client.last_error().await, Code::Timeout);
        let took = began.elapsed();
        assert!(pause > 0 || (Duration::from_secs(10)..Duration::from_secs(11)).contains(&took), "{took:?}");
    }
    assert_eq!(server.client().await.waits(b"").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_let_go_after_five_minutes() {
    let server = Server::new().await;
    let mut client = server.client().await;
    assert_eq!(client.waits(b"").await, 1);
    let began = Instant::now();
    assert_eq!(client.response().await, None);
    assert!((300..302).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_says_anything_is_let_go_after_ten_seconds() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let began = Instant::now();
    assert_eq!(client.response().await, None);
    assert!((10..12).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_no_answer_is_let_go() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let request = crate::support::framed(&asking(256));
    // Until the socket is full of answers, and then of requests.
    while client.stream.write_all(&request).await.is_ok() {}
    assert_eq!(server.client().await.waits(b"").await, 1);
    assert_eq!(server.status().await.counters.unwrap().open_connections, 1);
}

#[tokio::test]
async fn thousands_of_idle_connections_lock_nobody_out() {
    let server = Server::with(|options: &mut ServeOptions| options.limits.connections = 8).await;
    let mut asked = server.client().await;
    assert_eq!(asked.waits(b"").await, 1);
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(server.client().await);
    }
    assert_eq!(asked.waits(b"").await, 1, "who never asked makes room before who has");
    // Who has asked longest ago makes room before who has asked since.
    for _ in 0..20 {
        let mut client = server.client().await;
        assert_eq!(client.waits(b"").await, 1);
        silent.push(client);
    }
    assert_eq!(asked.response().await, None);
    let counters = server.status().await.counters.unwrap();
    assert!(counters.busy_connections >= 300 && counters.open_connections == 8, "{counters:?}");
}

#[tokio::test]
async fn half_messages_make_room_for_whole_ones() {
    let server = Server::with(|options: &mut ServeOptions| options.limits.connections = 4).await;
    let mut halves = Vec::new();
    for _ in 0..4 {
        let mut half = server.client().await;
        assert_eq!(half.waits(b"").await, 1);
        half.stream.write_all(&[0, 0, 0]).await.unwrap();
        halves.push(half);
    }
    // The server has seen the halves when it has answered what came later.
    assert_eq!(server.client().await.waits(b"").await, 1);
    assert_eq!(halves[0].response().await, None, "the oldest made room");
    assert!(halves[1].stream.try_read(&mut [0]).is_err(), "and only that one");
}

#[tokio::test]
async fn what_is_held_for_half_a_large_request_makes_room_for_a_whole_one() {
    let server = Server::with(|options| {
        (options.limits.held_bytes, options.limits.response_bytes) = (1 << 20, 64 << 10);
    })
    .await;
    let mut stalled = server.client().await;
    stalled.stream.write_all(&(1u32 << 20).to_be_bytes()).await.unwrap();
    stalled.stream.write_all(&[0; 1000]).await.unwrap();
    assert_eq!(server.client().await.waits(b"").await, 1, "small requests need no room");
    let mut whole = server.client().await;
    whole.send(&vec![0xff; 1 << 19]).await;
    assert_eq!(whole.error().await, Code::Invalid, "it was read");
    assert_eq!(stalled.response().await, None);
}

#[tokio::test]
async fn answers_that_nobody_takes_make_room_for_others() {
    let server = Server::with(|options| {
        (options.limits.held_bytes, options.limits.response_bytes) = (1 << 20, 512 << 10);
        options.limits.request_time = PATIENT;
    })
    .await;
    let mut full = Vec::new();
    for _ in 0..4 {
        let mut client = server.client().await;
        client.send(&asking_about_servers(9_000, 4)).await;
        // Far more than a socket takes.
        assert!(client.stream.read_u32().await.unwrap() > 300_000);
        full.push(client);
    }
    let mut client = server.client().await;
    client.send(&asking_about_servers(9_000, 4)).await;
    let Some(response::Result::Outcomes(outcomes)) = client.response().await.unwrap().result else { panic!() };
    assert!(outcomes.outcomes.iter().all(|outcome| matches!(outcome.outcome, Some(outcome::Outcome::Decision(_)))));
}

#[tokio::test]
async fn no_response_is_larger_than_is_allowed_also_with_its_refusals() {
    let most = 70_000;
    let server = Server::with(|options| {
        (options.limits.response_bytes, options.limits.request_time) = (most, PATIENT);
    })
    .await;
    let mut client = server.client().await;
    client.send(&asking(256)).await;
    let response = client.response().await.unwrap();
    assert!(response.encoded_len() <= most, "{}", response.encoded_len());
    let Some(response::Result::Outcomes(outcomes)) = response.result else { panic!() };
    let is_answered = |outcome: &proto::Outcome| matches!(outcome.outcome, Some(outcome::Outcome::Decision(_)));
    let answered = outcomes.outcomes.iter().filter(|outcome| is_answered(outcome)).count();
    assert!((1..256).contains(&answered), "{answered}");
    for refused in outcomes.outcomes.iter().filter(|outcome| !is_answered(outcome)) {
        let Some(outcome::Outcome::Error(error)) = &refused.outcome else { panic!("{refused:?}") };
        assert_eq!(error.message, format!("the answers have more than {most} bytes: ask in smaller batches"));
    }
}

#[tokio::test]
async fn a_user_that_is_not_named_is_refused() {
    let server = Server::with(|options| {
        options.users = options.users.iter().map(|user| user + 1).collect();
    })
    .await;
    assert_eq!(server.client().await.last_error().await, Code::Denied);
}

#[tokio::test]
async fn a_pin_that_is_none_or_names_what_is_gone_is_refused() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let pin = client.pin().await;
    let changed = |change: fn(&mut proto::Policy)| {
        let mut policies = pin.policies.clone();
        policies.iter_mut().for_each(change);
        proto::PinToken { policies }.encode_to_vec()
    };
    let many = proto::PinToken { policies: vec![pin.policies[0].clone(); 65] }.encode_to_vec();
    for token in [
        b"garbage".to_vec(),
        vec![0; 40_000],
        many,
        changed(|policy| policy.component = "../../../etc/passwd".into()),
        changed(|policy| policy.slot = "doom".into()),
        changed(|policy| policy.name = "\u{1b}[31mred\n".into()),
        changed(|policy| policy.version = "1".repeat(1_000)),
    ] {
        let decide = proto::Decide { pin: token.into(), questions: vec![gateway_failed()] };
        assert_eq!(client.decide(decide).await.unwrap_err().code(), Code::Invalid);
    }
    for gone in [
        changed(|policy| policy.settings = "0".repeat(64)),
        changed(|policy| policy.configuration = "0".repeat(64)),
        changed(|policy| policy.version = "9.9.9".into()),
    ] {
        let decide = proto::Decide { pin: gone.into(), questions: vec![gateway_failed()] };
        let refused = client.decide(decide).await.unwrap_err();
        assert_eq!(refused.code(), Code::Invalid);
        assert!(refused.message.contains("is not there any more"), "{}", refused.message);
    }
}

#[tokio::test]
async fn a_peer_that_vanishes_disturbs_nobody() {
    let server = Server::new().await;
    for _ in 0..50 {
        let mut client = server.client().await;
        client.send(&asking(50)).await;
    }
    let mut half = UnixStream::connect(server.path()).await.unwrap();
    half.write_all(&[0, 0]).await.unwrap();
    drop(half);
    let mut client = Client { stream: UnixStream::connect(server.path()).await.unwrap() };
    assert_eq!(client.waits(b"").await, 1);
}

#[tokio::test]
async fn more_items_than_a_list_may_have_are_refused_before_they_are_read() {
    let server = Server::new().await;
    let mut client = server.client().await;
    for (servers, words) in [
        (500_000, "the question to the slot state-mapping: servers has 500000 items, and at most 10000 are allowed"),
        (10_000, "the question to the slot state-mapping: the field servers[0].state is missing"),
    ] {
        let question = proto::StateMappingQuestion {
            subject: Some(subject()),
            servers: vec![proto::StateMappingServer::default(); servers],
            ..Default::default()
        };
        let question = proto::Question { slot: Some(proto::question::Slot::StateMapping(question)) };
        let decide = proto::Decide { pin: Default::default(), questions: vec![question] };
        let outcomes = client.decide(decide).await.unwrap();
        let outcome::Outcome::Error(error) = &outcomes[0] else { panic!() };
        assert_eq!(error.message, words);
        let code = if servers > 10_000 { Code::TooLarge } else { Code::Invalid };
        assert_eq!(error.code(), code);
    }
}

#[tokio::test]
async fn no_peer_suspends_a_policy_by_questions_that_are_too_large_for_it() {
    let server = Server::new().await;
    std::fs::write(
        server.folder.path().join("servers.rules.toml"),
        "slot = \"state-mapping\"\n[[rules]]\nname = \"all\"\nwhen = \"true\"\n\
         answer = { mapped = { report = \"running\", action = \"none\" } }\n",
    )
    .unwrap();
    let link = Link::file("servers.rules.toml").with_limit("fuel", 3_000_000);
    server.host.configure(&Policies::built_in().with(SlotName::StateMapping, link)).unwrap();
    let mut client = server.client().await;
    for (servers, fails) in std::iter::repeat_n((10_000, true), 7).chain([(3, false)]) {
        client.send(&asking_about_servers(servers, 1)).await;
        let Some(response::Result::Outcomes(outcomes)) = client.response().await.unwrap().result else { panic!() };
        let Some(outcome::Outcome::Decision(decision)) = &outcomes.outcomes[0].outcome else { panic!("{outcomes:?}") };
        let kinds: Vec<&str> = decision.fallbacks.iter().map(|fallback| fallback.kind.as_str()).collect();
        assert_eq!(kinds, if fails { &["fuel-limit"][..] } else { &[] }, "{:?}", decision.fallbacks);
        if fails {
            let words = "the question has more than 128 KiB, so this failure does not count against the policy";
            assert!(decision.fallbacks[0].reason.ends_with(words), "{:?}", decision.fallbacks);
        }
    }
    assert!(server.status().await.links.iter().all(|link| !link.suspended));
}

/// So many questions about so many servers, as a request.
fn asking_about_servers(servers: usize, questions: usize) -> Vec<u8> {
    let server = proto::StateMappingServer {
        state: proto::StateMappingServerState::Running.into(),
        detail: proto::StateMappingStateDetail::None.into(),
        in_flight: proto::StateMappingOperation::None.into(),
        age: 1,
        has_run: true,
        ..Default::default()
    };
    let question = proto::StateMappingQuestion {
        subject: Some(subject()),
        server_types: vec!["DEV1-S".into()],
        servers: vec![server; servers],
        ..Default::default()
    };
    let question = proto::Question { slot: Some(proto::question::Slot::StateMapping(question)) };
    let decide = proto::Decide { pin: Default::default(), questions: vec![question; questions] };
    proto::Request { id: 1, call: Some(request::Call::Decide(decide)) }.encode_to_vec()
}
