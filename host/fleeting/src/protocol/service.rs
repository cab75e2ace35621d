//! The `proto.InstanceGroup` service: messages in and out of an [`InstanceGroup`]'s own words.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use prost::Message as _;
use tonic::{Code, Request, Response, Status};

use super::instance_group::{ConnectInfo, ConnectorConfig, Failure, InstanceGroup, Partial, State, Update};
use super::wire::{fleeting as wire, status};

/// The largest message that is accepted, in bytes. The largest the host sends is the configuration.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// Adapts a provider to the wire.
pub(crate) struct Service {
    group: Arc<dyn InstanceGroup>,
}

impl Service {
    /// The service of one group.
    pub(crate) fn new(group: Arc<dyn InstanceGroup>) -> wire::instance_group_server::InstanceGroupServer<Self> {
        wire::instance_group_server::InstanceGroupServer::new(Self { group })
            .max_decoding_message_size(MAX_REQUEST_BYTES)
    }
}

/// Errors have one code: fleeting's own server knows no other, and the host looks at `Unimplemented` only.
fn unknown(failure: Failure) -> Status {
    tracing::debug!(error = %failure, "a call failed");
    Status::unknown(failure.0)
}

/// The host reads which instances succeeded from a detail of the error.
fn partial_failure(failure: &Failure, detail: &'static str, response: &impl prost::Message) -> Status {
    let body = status::Status {
        code: Code::Unknown as i32,
        message: failure.0.clone(),
        details: vec![prost_types::Any {
            type_url: format!("type.googleapis.com/{detail}"),
            value: response.encode_to_vec(),
        }],
    };
    Status::with_details(Code::Unknown, failure.0.clone(), Bytes::from(body.encode_to_vec()))
}

#[tonic::async_trait]
impl wire::instance_group_server::InstanceGroup for Service {
    type UpdateStream = Pin<Box<dyn Stream<Item = Result<wire::UpdateResponse, Status>> + Send>>;

    async fn init(&self, request: Request<wire::InitRequest>) -> Result<Response<wire::InitResponse>, Status> {
        let request = request.into_inner();
        let connector = request.settings.and_then(|settings| settings.connector_config).unwrap_or_default();
        let info = self.group.init(Bytes::from(request.config), connector.into()).await.map_err(unknown)?;
        Ok(Response::new(wire::InitResponse {
            id: info.id,
            max_size: info.max_size,
            version: info.version,
            build_info: info.build_info,
            capabilities: info.capabilities.iter().map(|capability| capability.word().to_owned()).collect(),
        }))
    }

    async fn update(&self, _: Request<wire::Empty>) -> Result<Response<Self::UpdateStream>, Status> {
        let Update { reports, delivered } = self.group.update().await.map_err(unknown)?;
        let reports = reports.into_iter().map(|report| {
            Ok(wire::UpdateResponse {
                instance: report.instance,
                state: wire::update_response::State::from(report.state) as i32,
            })
        });
        // The transport polls past the last report only when it has taken all of them.
        let mut delivered = delivered;
        let end = std::iter::from_fn(move || {
            if let Some(delivered) = delivered.take() {
                delivered();
            }
            None
        });
        Ok(Response::new(Box::pin(futures::stream::iter(reports.chain(end)))))
    }

    async fn increase(
        &self,
        request: Request<wire::IncreaseRequest>,
    ) -> Result<Response<wire::IncreaseResponse>, Status> {
        let succeeded = self.group.increase(request.into_inner().n).await.map_err(unknown)?;
        Ok(Response::new(wire::IncreaseResponse { succeeded }))
    }

    async fn decrease(
        &self,
        request: Request<wire::DecreaseRequest>,
    ) -> Result<Response<wire::DecreaseResponse>, Status> {
        let succeeded = self.group.decrease(request.into_inner().instances).await.map_err(unknown)?;
        Ok(Response::new(wire::DecreaseResponse { succeeded }))
    }

    async fn connect_info(
        &self,
        request: Request<wire::ConnectInfoRequest>,
    ) -> Result<Response<wire::ConnectInfoResponse>, Status> {
        let ConnectInfo { connector, external_address, internal_address, expires } =
            self.group.connect_info(request.into_inner().instance).await.map_err(unknown)?;
        Ok(Response::new(wire::ConnectInfoResponse {
            connector: Some(connector.into()),
            external_addr: external_address,
            internal_addr: internal_address,
            expires: expires.unwrap_or(0),
        }))
    }

    async fn heartbeat(&self, request: Request<wire::HeartbeatRequest>) -> Result<Response<wire::Empty>, Status> {
        self.group.heartbeat(request.into_inner().instance).await.map_err(unknown)?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn suspend(&self, request: Request<wire::SuspendRequest>) -> Result<Response<wire::SuspendResponse>, Status> {
        let Partial { succeeded, failure } = self.group.suspend(request.into_inner().instances).await;
        let response = wire::SuspendResponse { succeeded };
        match failure {
            None => Ok(Response::new(response)),
            Some(failure) => Err(partial_failure(&failure, "proto.SuspendResponse", &response)),
        }
    }

    async fn resume(&self, request: Request<wire::ResumeRequest>) -> Result<Response<wire::ResumeResponse>, Status> {
        let Partial { succeeded, failure } = self.group.resume(request.into_inner().instances).await;
        let response = wire::ResumeResponse { succeeded };
        match failure {
            None => Ok(Response::new(response)),
            Some(failure) => Err(partial_failure(&failure, "proto.ResumeResponse", &response)),
        }
    }

    async fn shutdown(&self, _: Request<wire::Empty>) -> Result<Response<wire::Empty>, Status> {
        self.group.shutdown().await.map_err(unknown)?;
        Ok(Response::new(wire::Empty {}))
    }
}

impl From<State> for wire::update_response::State {
    fn from(state: State) -> Self {
        match state {
            State::Creating => Self::Creating,
            State::Running => Self::Running,
            State::Deleting => Self::Deleting,
            State::Deleted => Self::Deleted,
            State::Timeout => Self::Timeout,
            State::Suspending => Self::Suspending,
            State::Suspended => Self::Suspended,
            State::Resuming => Self::Resuming,
        }
    }
}

impl From<wire::ConnectorConfig> for ConnectorConfig {
    fn from(message: wire::ConnectorConfig) -> Self {
        Self {
            operating_system: message.os,
            architecture: message.arch,
            protocol: message.protocol,
            protocol_port: message.protocol_port,
            username: message.username,
            password: message.password,
            key: Bytes::from(message.key),
            use_static_credentials: message.use_static_credentials,
            keepalive_ns: message.keepalive,
            timeout_ns: message.timeout,
        }
    }
}

impl From<ConnectorConfig> for wire::ConnectorConfig {
    fn from(config: ConnectorConfig) -> Self {
        Self {
            os: config.operating_system,
            arch: config.architecture,
            protocol: config.protocol,
            username: config.username,
            password: config.password,
            key: config.key.into(),
            use_static_credentials: config.use_static_credentials,
            keepalive: config.keepalive_ns,
            timeout: config.timeout_ns,
            protocol_port: config.protocol_port,
        }
    }
}
