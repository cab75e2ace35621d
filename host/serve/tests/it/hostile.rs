//! Peers that send what they should not. Time is simulated: what takes minutes here takes none.

use std::time::Duration;

use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::Instant;
use windlass_serve::ServeOptions;
use windlass_serve::proto::{self, error::Code, outcome, request};

use crate::support::{Client, Server, asking, gateway_failed, subject};

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
async fn of_thousands_of_connections_some_are_served_and_the_rest_is_told_so_at_once() {
    let server = Server::with(|options: &mut ServeOptions| options.limits.connections = 8).await;
    let mut served = Vec::new();
    for _ in 0..8 {
        let mut client = server.client().await;
        assert_eq!(client.waits(b"").await, 1);
        served.push(client);
    }
    for _ in 0..3_000 {
        assert_eq!(server.client().await.last_error().await, Code::Busy);
    }
    for client in &mut served {
        assert_eq!(client.waits(b"").await, 1);
    }
    drop(served);
    // The server notices the end of one when it comes to it.
    let mut status = None;
    while status.is_none() {
        let mut client = server.client().await;
        client.stream.write_all(&crate::support::framed(&status_request())).await.ok();
        status = match client.response().await.and_then(|response| response.result) {
            Some(proto::response::Result::Status(status)) => Some(status),
            _ => None,
        };
    }
    let counters = status.unwrap().counters.unwrap();
    assert!(counters.busy_connections >= 3_000 && counters.open_connections <= 8, "{counters:?}");
}

fn status_request() -> Vec<u8> {
    proto::Request { id: 7, call: Some(request::Call::Status(())) }.encode_to_vec()
}

#[tokio::test]
async fn large_requests_share_their_room_and_small_ones_need_none() {
    let server = Server::with(|options| {
        options.limits.large_requests_bytes = 1 << 20;
        options.limits.request_time = Duration::from_secs(300);
    })
    .await;
    // Its time runs from its first byte, and ends before the holder's.
    let mut second = server.client().await;
    let length = (1u32 << 19).to_be_bytes();
    second.stream.write_all(&length[..1]).await.unwrap();
    // What was sent before has come to the server when another has its answer.
    assert_eq!(server.client().await.waits(b"").await, 1);
    // Both ends in one millisecond would come in any order.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    let mut holder = server.client().await;
    holder.stream.write_all(&(1u32 << 20).to_be_bytes()).await.unwrap();
    holder.stream.write_all(&[0; 1000]).await.unwrap();
    assert_eq!(server.client().await.waits(b"").await, 1);
    second.stream.write_all(&length[1..]).await.unwrap();
    assert_eq!(server.client().await.waits(b"").await, 1);
    // Not before: simulated time passes whenever nobody but a socket is waited for.
    tokio::time::pause();
    assert_eq!(second.last_error().await, Code::Busy);
    assert_eq!(holder.last_error().await, Code::Timeout);
    tokio::time::resume();
    let mut third = server.client().await;
    third.send(&vec![0xff; 1 << 19]).await;
    assert_eq!(third.error().await, Code::Invalid, "there is room again");
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
async fn half_a_million_empty_servers_are_refused_at_the_first() {
    let server = Server::new().await;
    let mut client = server.client().await;
    let question = proto::StateMappingQuestion {
        subject: Some(subject()),
        servers: vec![proto::StateMappingServer::default(); 500_000],
        ..Default::default()
    };
    let question = proto::Question { slot: Some(proto::question::Slot::StateMapping(question)) };
    let decide = proto::Decide { pin: Default::default(), questions: vec![question] };
    let outcomes = client.decide(decide).await.unwrap();
    let outcome::Outcome::Error(error) = &outcomes[0] else { panic!() };
    assert_eq!(error.message, "the question to the slot state-mapping: the field servers[0].state is missing");
}
