//! The socket path: the same answers as in process, over HTTP/1.1 with keep-alive.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_simulator::{FaultKind, FaultRule, Options, Simulator};

use crate::caller::{Caller, INSTANCE, TOKEN};

async fn serve(simulator: &Simulator) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let simulator = simulator.clone();
    tokio::spawn(async move { simulator.serve(listener).await });
    address
}

/// Sends one request on an open connection and reads one answer. An empty answer is a closed connection.
async fn exchange(stream: &mut TcpStream, method: &str, path: &str, body: &str) -> String {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: api.scaleway.com\r\nx-auth-token: {TOKEN}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap_or(0);
        answer.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return text;
            }
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned))
            .map_or(0, |length| length.parse::<usize>().unwrap());
        if body.len() >= length || read == 0 {
            return text;
        }
    }
}

#[tokio::test]
async fn a_socket_gives_the_same_answers_as_a_call_in_process() {
    let options = Options { time_scale: 0.0, seed: 3, ..Options::default() };
    let near = Caller::of(options.clone());
    let far = Simulator::new(options);
    let mut stream = TcpStream::connect(serve(&far).await).await.unwrap();
    let ips = format!("{INSTANCE}/ips");
    // All on one connection; some bodies where none belong, as Scaleway's Python SDK sends them.
    for (method, path, body) in [
        (Method::POST, ips.clone(), r#"{"tags":["t"]}"#),
        (Method::GET, format!("{ips}?page=1"), "{}"),
        (Method::GET, format!("{INSTANCE}/products/servers"), ""),
        (Method::POST, format!("{INSTANCE}/servers"), "{}"),
        (Method::DELETE, format!("{ips}/198.18.0.1"), "{}"),
        (Method::GET, "/no/such/path".to_owned(), ""),
    ] {
        let here = near.send(method.clone(), &path, Bytes::from_static(body.as_bytes())).await.unwrap();
        let there = exchange(&mut stream, method.as_str(), &path, body).await;
        let (head, there_body) = there.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {}", here.status.as_u16())), "{method} {path}: {head}");
        assert_eq!(there_body.as_bytes(), here.body, "{method} {path}");
        for (name, value) in &here.headers {
            let line = format!("{name}: {}", value.to_str().unwrap());
            assert!(head.lines().any(|candidate| candidate == line), "{line} is missing in {head}");
        }
    }
}

#[tokio::test]
async fn a_dropped_connection_ends_without_a_byte_and_the_effect_is_as_ordered() {
    let simulator = Simulator::new(Options { time_scale: 0.0, ..Options::default() });
    let address = serve(&simulator).await;
    let rule = FaultRule::new("POST", "**/ips", FaultKind::DroppedConnection);
    simulator.add_fault(rule.clone().nth(1)).unwrap();
    simulator.add_fault(rule.nth(2).after_effect()).unwrap();
    for existing in [0, 1] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut stream, "POST", &format!("{INSTANCE}/ips"), "{}").await, "");
        assert_eq!(simulator.resources().ips.len(), existing);
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert!(exchange(&mut stream, "POST", &format!("{INSTANCE}/ips"), "{}").await.starts_with("HTTP/1.1 201"));
}

#[tokio::test]
async fn our_own_client_talks_to_it_over_a_socket() {
    let simulator = Simulator::new(Options { time_scale: 1_000.0, ..Options::default() });
    let address = serve(&simulator).await;
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
    // Any plain HTTP client will do; this one is the one our own client is built on.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client.build().unwrap();
    let answer = client
        .post(format!("http://{address}{INSTANCE}/ips"))
        .header("x-auth-token", TOKEN)
        .body(json!({"tags": ["t"]}).to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status().as_u16(), 201);
    assert_eq!(simulator.resources().tagged("t").count(), 1);
}
