//! Calls as another program may send them. An input is the name of a method of `proto.InstanceGroup`, a line's end, and
//! the body of its request: messages in frames, as gRPC writes them.

use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

use super::service::Service;
use super::*;

/// Answers with what it received, as far as the protocol lets it.
struct Echo;

#[async_trait]
impl InstanceGroup for Echo {
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure> {
        let reported = format!("{connector:?}");
        assert!(
            connector.password.len() < 8 || !reported.contains(&connector.password),
            "the password is reported: {reported}"
        );
        Ok(ProviderInfo {
            id: String::from_utf8_lossy(&configuration).into_owned(),
            max_size: 1,
            version: connector.architecture,
            build_info: connector.username,
            capabilities: vec![Capability::SuspendResume],
        })
    }
    async fn update(&self) -> Result<Update, Failure> {
        Ok(Update { reports: vec![Report { instance: "a".into(), state: State::Running }], delivered: None })
    }
    async fn increase(&self, count: u32) -> Result<u32, Failure> {
        Ok(count)
    }
    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure> {
        Ok(instances)
    }
    async fn connect_info(&self, instance: String) -> Result<ConnectInfo, Failure> {
        Ok(ConnectInfo { external_address: instance, ..ConnectInfo::default() })
    }
    async fn heartbeat(&self, instance: String) -> Result<(), Failure> {
        Err(Failure(format!("{instance} is unhealthy")))
    }
    async fn suspend(&self, instances: Vec<String>) -> Partial {
        Partial { failure: Some(Failure(format!("not {}", instances.join(", ")))), succeeded: instances }
    }
    async fn resume(&self, instances: Vec<String>) -> Partial {
        Partial { succeeded: instances, failure: None }
    }
    async fn shutdown(&self) -> Result<(), Failure> {
        Ok(())
    }
}

const METHODS: [&str; 9] =
    ["Init", "Update", "Increase", "Decrease", "ConnectInfo", "Heartbeat", "Suspend", "Resume", "Shutdown"];

async fn answer(method: &str, body: &[u8]) -> Result<(http::HeaderMap, Bytes), String> {
    let request = http::Request::post(format!("http://plugin/proto.InstanceGroup/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .map_err(|error| error.to_string())?;
    let answer: Result<_, Infallible> = Service::new(Arc::new(Echo)).oneshot(request).await;
    let (parts, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
    assert_eq!(parts.status, 200, "failures are sent in trailers");
    let collected = body.collect().await.map_err(|status| status.to_string())?;
    let mut trailers = parts.headers;
    trailers.extend(collected.trailers().cloned().unwrap_or_default());
    Ok((trailers, collected.to_bytes()))
}

#[test]
fn whatever_is_called_is_answered_with_a_status_of_grpc() {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    }
    windlass_test_fuzz::check("plugin", |input| {
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let name = String::from_utf8_lossy(&input[..end]);
        let method = METHODS.iter().find(|method| **method == name).unwrap_or(&METHODS[end % METHODS.len()]);
        let body = input.get(end + 1..).unwrap_or_default();
        let (trailers, _) = RUNTIME.with(|runtime| runtime.block_on(answer(method, body))).unwrap();
        let status: u32 = trailers["grpc-status"].to_str().unwrap().parse().unwrap();
        assert!(status <= 16, "{status}");
    });
}
