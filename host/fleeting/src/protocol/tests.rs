//! The protocol seen by a client over a real unix socket, and the handshake without one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message as _;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::companions::{Broker, Controller, Stdio};
use super::service::Service;
use super::wire::fleeting::instance_group_client::InstanceGroupClient;
use super::wire::go_plugin::{
    self, grpc_broker_client::GrpcBrokerClient, grpc_controller_client::GrpcControllerClient,
    grpc_stdio_client::GrpcStdioClient,
};
use super::wire::{fleeting as wire, status};
use super::*;

fn environment(variables: &[(&str, &str)]) -> HashMap<String, OsString> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect()
}

fn handshake(variables: &[(&str, &str)]) -> Result<Handshake, HandshakeError> {
    let variables = environment(variables);
    Handshake::from_variables(|name| variables.get(name).cloned())
}

#[test]
fn the_line_is_what_fleeting_reads() {
    let handshake = handshake(&[(COOKIE_KEY, COOKIE_VALUE)]).unwrap();
    assert_eq!(handshake.line(Path::new("/tmp/x/socket")), "1|0|unix|/tmp/x/socket|grpc|");
}

#[test]
fn a_host_that_asks_for_multiplexing_is_told_that_there_is_none() {
    let handshake = handshake(&[(COOKIE_KEY, COOKIE_VALUE), ("PLUGIN_MULTIPLEX_GRPC", "true")]).unwrap();
    assert_eq!(handshake.line(Path::new("/s")), "1|0|unix|/s|grpc||false");
}

#[test]
fn what_cannot_be_served_is_refused_in_words() {
    assert_eq!(handshake(&[]).unwrap_err(), HandshakeError::StartedByHand);
    assert_eq!(handshake(&[(COOKIE_KEY, "other")]).unwrap_err(), HandshakeError::WrongCookie);
    let with = |name| handshake(&[(COOKIE_KEY, COOKIE_VALUE), (name, "x")]).unwrap_err();
    assert_eq!(with("PLUGIN_CLIENT_CERT"), HandshakeError::MutualTls);
    assert_eq!(with("PLUGIN_UNIX_SOCKET_GROUP"), HandshakeError::SocketGroup);
}

/// A group that remembers what it received.
#[derive(Default)]
struct RecordingGroup {
    connector: Mutex<ConnectorConfig>,
    delivered: Arc<AtomicBool>,
}

#[async_trait]
impl InstanceGroup for RecordingGroup {
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure> {
        *self.connector.lock().unwrap() = connector;
        Ok(ProviderInfo {
            id: String::from_utf8_lossy(&configuration).into_owned(),
            max_size: u32::MAX,
            version: "1.2.3".to_owned(),
            build_info: "built".to_owned(),
            capabilities: vec![Capability::SuspendResume],
        })
    }
    async fn update(&self) -> Result<Update, Failure> {
        let states = [
            State::Creating,
            State::Running,
            State::Deleting,
            State::Deleted,
            State::Timeout,
            State::Suspending,
            State::Suspended,
            State::Resuming,
        ];
        let delivered = self.delivered.clone();
        Ok(Update {
            reports: states.into_iter().map(|state| Report { instance: state.to_string(), state }).collect(),
            delivered: Some(Box::new(move || delivered.store(true, Ordering::SeqCst))),
        })
    }
    async fn increase(&self, count: u32) -> Result<u32, Failure> {
        Ok(count.saturating_sub(1))
    }
    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure> {
        Ok(instances.into_iter().skip(1).collect())
    }
    async fn connect_info(&self, _: String) -> Result<ConnectInfo, Failure> {
        Ok(ConnectInfo {
            connector: self.connector.lock().unwrap().clone(),
            external_address: "192.0.2.7".to_owned(),
            internal_address: "10.0.0.7".to_owned(),
            expires: None,
        })
    }
    async fn heartbeat(&self, instance: String) -> Result<(), Failure> {
        Err(Failure(format!("{instance} is unhealthy")))
    }
    async fn suspend(&self, instances: Vec<String>) -> Partial {
        Partial { succeeded: instances, failure: Some(Failure("not all".to_owned())) }
    }
    async fn resume(&self, instances: Vec<String>) -> Partial {
        Partial { succeeded: instances, failure: None }
    }
    async fn shutdown(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The services on a socket, and a channel to them.
struct Served {
    channel: tonic::transport::Channel,
    leaving: CancellationToken,
    delivered: Arc<AtomicBool>,
    server: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    _directory: tempfile::TempDir,
}

async fn served() -> Served {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let leaving = CancellationToken::new();
    let group = RecordingGroup::default();
    let delivered = group.delivered.clone();
    let server = tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(Broker::new(leaving.clone()))
            .add_service(Controller::new(leaving.clone()))
            .add_service(Stdio::new(leaving.clone()))
            .add_service(Service::new(Arc::new(group)))
            .serve_with_incoming_shutdown(
                tokio_stream::wrappers::UnixListenerStream::new(listener),
                leaving.clone().cancelled_owned(),
            ),
    );
    let channel = tonic::transport::Endpoint::from_static("http://unused")
        .connect_with_connector(tower::service_fn(move |_: tonic::transport::Uri| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
        }))
        .await
        .unwrap();
    Served { channel, leaving, delivered, server, _directory: directory }
}

#[tokio::test]
async fn every_field_of_the_settings_arrives_and_comes_back() {
    let mut client = InstanceGroupClient::new(served().await.channel);
    let connector = wire::ConnectorConfig {
        os: "linux".into(),
        arch: "arm64".into(),
        protocol: "ssh".into(),
        username: "root".into(),
        password: "secret".into(),
        key: b"key".to_vec(),
        use_static_credentials: true,
        keepalive: 30_000_000_000,
        timeout: 600_000_000_000,
        protocol_port: 2222,
    };
    let info = client
        .init(wire::InitRequest {
            config: b"the group".to_vec(),
            settings: Some(wire::Settings { connector_config: Some(connector.clone()) }),
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!((info.id.as_str(), info.max_size), ("the group", u32::MAX));
    assert_eq!(info.capabilities, ["suspend_resume"]);
    let answer = client.connect_info(wire::ConnectInfoRequest { instance: "a".into() }).await.unwrap().into_inner();
    assert_eq!(answer.connector.unwrap(), connector);
    assert_eq!((answer.external_addr.as_str(), answer.internal_addr.as_str()), ("192.0.2.7", "10.0.0.7"));
    assert_eq!(answer.expires, 0);
}

#[tokio::test]
async fn an_update_streams_all_states_and_says_when_it_was_taken() {
    let served = served().await;
    let mut client = InstanceGroupClient::new(served.channel.clone());
    let mut stream = client.update(wire::Empty {}).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(report) = stream.message().await.unwrap() {
        assert_eq!(report.instance, report.state().as_str_name());
        seen.push(report.state);
    }
    assert_eq!(seen, (0..=7).collect::<Vec<i32>>());
    assert!(served.delivered.load(Ordering::SeqCst));
}

#[tokio::test]
async fn counts_lists_and_errors_cross_the_wire() {
    let mut client = InstanceGroupClient::new(served().await.channel);
    assert_eq!(client.increase(wire::IncreaseRequest { n: 5 }).await.unwrap().into_inner().succeeded, 4);
    let instances = vec!["a".to_owned(), "b".to_owned()];
    let request = wire::DecreaseRequest { instances: instances.clone() };
    assert_eq!(client.decrease(request).await.unwrap().into_inner().succeeded, ["b"]);
    let unhealthy = client.heartbeat(wire::HeartbeatRequest { instance: "a".into() }).await.unwrap_err();
    assert_eq!((unhealthy.code(), unhealthy.message()), (Code::Unknown, "a is unhealthy"));
    assert_eq!(client.resume(wire::ResumeRequest { instances }).await.unwrap().into_inner().succeeded, ["a", "b"]);
    client.shutdown(wire::Empty {}).await.unwrap();
}

#[tokio::test]
async fn a_partial_suspension_carries_its_successes_in_a_detail() {
    let mut client = InstanceGroupClient::new(served().await.channel);
    let error = client.suspend(wire::SuspendRequest { instances: vec!["a".into()] }).await.unwrap_err();
    let body = status::Status::decode(error.details()).unwrap();
    assert_eq!((body.code, body.message.as_str()), (Code::Unknown as i32, "not all"));
    assert_eq!(body.details[0].type_url, "type.googleapis.com/proto.SuspendResponse");
    assert_eq!(wire::SuspendResponse::decode(body.details[0].value.as_slice()).unwrap().succeeded, ["a"]);
}

#[tokio::test]
async fn open_streams_do_not_keep_a_plugin_that_was_asked_to_leave() {
    let served = served().await;
    let never = futures::stream::pending::<go_plugin::ConnInfo>();
    let mut broker = GrpcBrokerClient::new(served.channel.clone()).start_stream(never).await.unwrap().into_inner();
    let mut stdio = GrpcStdioClient::new(served.channel.clone()).stream_stdio(()).await.unwrap().into_inner();
    GrpcControllerClient::new(served.channel.clone()).shutdown(go_plugin::Empty {}).await.unwrap();
    assert!(served.leaving.is_cancelled());
    assert!(stdio.message().await.unwrap().is_none());
    assert!(broker.message().await.unwrap().is_none());
    drop(served.channel);
    drop((broker, stdio));
    served.server.await.unwrap().unwrap();
}

#[test]
fn credentials_are_not_in_debug_output() {
    let config =
        ConnectorConfig { password: "hunter2".into(), key: Bytes::from_static(b"PRIVATE"), ..Default::default() };
    let text = format!("{config:?}");
    assert!(!text.contains("hunter2") && !text.contains("PRIVATE"), "{text}");
}
