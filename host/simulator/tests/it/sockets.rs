//! The socket path: the same answers as in process, over HTTP/1.1 with keep-alive.

use bytes::Bytes;
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_scaleway::{Client, Settings, Zone};
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
        "{method} {path} HTTP/1.1\r\nhost: api.scaleway.com\r\nx-auth-token: {TOKEN}\r\ncontent-type: \
         application/json\r\n\
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
async fn our_own_client_gets_the_same_over_a_socket_and_in_process() {
    let options = Options { time_scale: 0.0, seed: 5, ..Options::default() };
    let (near, far) = (Simulator::new(options.clone()), Simulator::new(options));
    let settings = || Settings::new(TOKEN.parse().unwrap());
    let address = serve(&far).await;
    let in_process = Client::with_transport(settings(), near.transport()).unwrap();
    let over_socket = Client::new(settings().with_api_url(&format!("http://{address}")).unwrap()).unwrap();
    let zone: Zone = "fr-par-1".parse().unwrap();
    let mut seen = Vec::new();
    for client in [in_process, over_socket] {
        let types = client.instance(&zone).list_server_types().await.unwrap();
        assert_eq!(types.len(), 135, "three pages");
        let missing = client.instance(&zone).get_server("5c1a0d5e-0000-4000-8000-000000000000").await.unwrap_err();
        assert!(missing.is_not_found(), "{missing}");
        seen.push(format!("{types:?}{missing}"));
    }
    assert_eq!(seen[0], seen[1]);
    for simulator in [near, far] {
        let agents: Vec<String> = simulator.requests().into_iter().map(|request| request.agent).collect();
        assert!(agents.iter().all(|agent| agent.starts_with("windlass/")), "{agents:?}");
    }
}
