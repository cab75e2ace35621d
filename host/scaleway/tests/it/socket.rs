//! The HTTP transport over real sockets. Real time passes here: milliseconds, and no assertion on how many.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_scaleway::{Client, Error, ErrorClass, Limits, TransportError};

use crate::support::*;

/// What the other side does with a connection.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Answers with these bytes and closes.
    Answer(&'static str),
    /// Closes as soon as the request is read.
    Drop,
    /// Never answers.
    Silence,
    /// Promises more than it sends, then closes.
    HalfAnAnswer,
    /// Sends a body without end.
    Endless,
}

/// A server on loopback that reads one request per connection, behaves, and tells what it read.
async fn server(behaviour: Behaviour) -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, reported) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move {
                let request = read_request(&mut stream).await;
                let _ = tell.send(request);
                behave(&mut stream, behaviour).await;
            });
        }
    });
    (url, reported)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !read.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

async fn behave(stream: &mut TcpStream, behaviour: Behaviour) {
    // The client may hang up at any time; that is not this side's problem.
    let _ = match behaviour {
        Behaviour::Answer(answer) => stream.write_all(answer.as_bytes()).await,
        Behaviour::Drop => Ok(()),
        Behaviour::Silence => std::future::pending().await,
        Behaviour::HalfAnAnswer => {
            stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"server\"").await
        }
        Behaviour::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            Ok(())
        }
    };
    let _ = stream.shutdown().await;
}

fn client(url: &str, limits: Limits) -> Client {
    Client::new(settings().with_api_url(url).unwrap().with_limits(limits)).unwrap()
}

#[tokio::test]
async fn a_call_goes_over_the_wire_and_comes_back() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n\
                          {\"server\": {\"id\": \"from-a-far\"}}";
    let (url, mut reported) = server(Behaviour::Answer(ANSWER)).await;
    let client = client(&format!("{url}/prefix"), Limits::default());
    assert_eq!(client.instance(&zone()).get_server(SERVER).await.unwrap().id, "from-a-far");
    let request = reported.recv().await.unwrap();
    let first_line = format!("GET /prefix/instance/v1/zones/fr-par-1/servers/{SERVER} HTTP/1.1\r\n");
    assert!(request.starts_with(&first_line), "{request}");
    assert!(request.contains(&format!("x-auth-token: {KEY}\r\n")), "{request}");
    assert!(request.contains("user-agent: windlass/"), "{request}");
}

#[tokio::test]
async fn a_connection_dropped_after_the_request_is_ambiguous_and_not_repeated() {
    for behaviour in [Behaviour::Drop, Behaviour::HalfAnAnswer] {
        let (url, mut reported) = server(behaviour).await;
        let error =
            client(&url, Limits::default()).instance(&zone()).create_server(&Default::default()).await.unwrap_err();
        assert!(matches!(error, Error::Transport { source: TransportError::Lost(_), .. }), "{error}");
        assert_eq!((error.class(), error.is_ambiguous()), (ErrorClass::Connection, true), "{error}");
        assert!(!error.to_string().contains(KEY) && !format!("{error:?}").contains(KEY));
        assert!(reported.recv().await.is_some());
        assert!(reported.try_recv().is_err(), "sent once");
    }
}

#[tokio::test]
async fn a_refused_connection_was_not_sent() {
    // A port that nobody listens on: bound, and given back.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let client = client(&format!("http://127.0.0.1:{port}"), Limits::default());
    let error = client.instance(&zone()).create_server(&Default::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { source: TransportError::NotConnected(_), .. }), "{error}");
    assert!(!error.is_ambiguous() && error.class() == ErrorClass::Connection);
    let words = error.to_string();
    assert!(words.contains("was not sent") && words.to_lowercase().contains("refused"), "{words}");
    assert!(words.contains(&format!("127.0.0.1:{port} (check this address")), "{words}");
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_told_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            while stream.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {}
        }
    });
    let client = client(&url, Limits::default());
    let words = client.instance(&zone()).create_server(&Default::default()).await.unwrap_err().to_string();
    assert!(words.contains("it does not speak TLS") && words.contains("write http://"), "{words}");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_stops_a_call_before_it_is_sent() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let served = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(served));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let accepted = acceptor.accept(stream).await;
            assert!(accepted.is_err(), "the client must refuse the certificate");
        }
    });
    let client = client(&url, Limits::default());
    let error = client.instance(&zone()).create_server(&Default::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { source: TransportError::Untrusted(_), .. }), "{error}");
    // Nothing to look up, and nothing that another try would change.
    assert_eq!((error.is_ambiguous(), error.class()), (false, ErrorClass::InvalidArguments));
    assert!(error.to_string().contains("not trusted, the request was not sent"), "{error}");
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let (url, _told) = server(Behaviour::Silence).await;
    let mut limits = Limits::default();
    limits.call_deadline = Duration::from_millis(50);
    let error = client(&url, limits).instance(&zone()).delete_server(SERVER).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }) && error.is_ambiguous(), "{error}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let (url, _told) = server(Behaviour::Endless).await;
    let mut limits = Limits::default();
    limits.answer_bytes = 100_000;
    let error = client(&url, limits).instance(&zone()).get_server(SERVER).await.unwrap_err();
    assert!(
        matches!(error, Error::Transport { source: TransportError::AnswerTooLarge { limit: 100_000 }, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_the_token_would_go_along() {
    let (elsewhere, mut told_elsewhere) =
        server(Behaviour::Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n");
    let (url, _told) = server(Behaviour::Answer(answer.leak())).await;
    let error = client(&url, Limits::default()).instance(&zone()).get_server(SERVER).await.unwrap_err();
    assert_eq!(error.status(), Some(307));
    assert!(error.to_string().contains("redirects are not followed, check api_url"), "{error}");
    assert!(told_elsewhere.try_recv().is_err());
}

#[tokio::test]
async fn what_is_not_http_is_a_lost_connection() {
    let (url, _told) = server(Behaviour::Answer("SSH-2.0-OpenSSH_9.9\r\n")).await;
    let error = client(&url, Limits::default()).instance(&zone()).delete_server(SERVER).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Connection, "{error}");
}

/// Set for the child process in which this test runs again.
const CHILD: &str = "WINDLASS_TEST_WITHOUT_CERTIFICATES";

#[test]
fn a_machine_without_certificates_speaks_plain_http_and_is_told_what_https_needs() {
    if std::env::var_os(CHILD).is_none() {
        let name = "socket::a_machine_without_certificates_speaks_plain_http_and_is_told_what_https_needs";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .env("SSL_CERT_FILE", "/nonexistent/certificates.pem")
            .env("SSL_CERT_DIR", "/nonexistent")
            .output()
            .unwrap();
        let reported = format!("{}{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && reported.contains("1 passed"), "{reported}");
        return;
    }
    Client::new(settings().with_api_url("http://127.0.0.1:1").unwrap()).unwrap();
    if cfg!(target_os = "linux") {
        let error = Client::new(settings()).unwrap_err();
        assert!(error.to_string().contains("package ca-certificates"), "{error}");
        assert_eq!(error.class(), ErrorClass::InvalidArguments);
    }
}
