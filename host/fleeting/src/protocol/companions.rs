//! The services that go-plugin expects beside the plugin's own: broker, controller and stdio.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::wire::go_plugin as wire;

/// A stream of answers without an end of its own.
type Quiet<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A stream that says nothing and ends when the plugin leaves, so that it never keeps the server up.
fn quiet<T: Send + 'static>(leaving: &CancellationToken) -> Quiet<T> {
    let leaving = leaving.clone();
    Box::pin(futures::stream::once(leaving.cancelled_owned()).filter_map(|()| std::future::ready(None)))
}

/// `plugin.GRPCBroker`. Fleeting opens no side channels: the stream stays open and empty, which is what go-plugin's own
/// server does until one is wanted.
pub(crate) struct Broker {
    leaving: CancellationToken,
}

impl Broker {
    /// The service.
    pub(crate) fn new(leaving: CancellationToken) -> wire::grpc_broker_server::GrpcBrokerServer<Self> {
        wire::grpc_broker_server::GrpcBrokerServer::new(Self { leaving })
    }
}

#[tonic::async_trait]
impl wire::grpc_broker_server::GrpcBroker for Broker {
    type StartStreamStream = Quiet<wire::ConnInfo>;

    async fn start_stream(
        &self,
        _: Request<Streaming<wire::ConnInfo>>,
    ) -> Result<Response<Self::StartStreamStream>, Status> {
        Ok(Response::new(quiet(&self.leaving)))
    }
}

/// `plugin.GRPCController`: how the host asks the plugin to leave.
pub(crate) struct Controller {
    leaving: CancellationToken,
}

impl Controller {
    /// The service. `leaving` is cancelled when the host asks.
    pub(crate) fn new(leaving: CancellationToken) -> wire::grpc_controller_server::GrpcControllerServer<Self> {
        wire::grpc_controller_server::GrpcControllerServer::new(Self { leaving })
    }
}

#[tonic::async_trait]
impl wire::grpc_controller_server::GrpcController for Controller {
    async fn shutdown(&self, _: Request<wire::Empty>) -> Result<Response<wire::Empty>, Status> {
        tracing::debug!("the host asks the plugin to leave");
        self.leaving.cancel();
        Ok(Response::new(wire::Empty {}))
    }
}

/// `plugin.GRPCStdio`. Nothing is ever written to standard output after the handshake, and log lines go to the real
/// standard error, which the host reads; so there is nothing to mirror.
pub(crate) struct Stdio {
    leaving: CancellationToken,
}

impl Stdio {
    /// The service.
    pub(crate) fn new(leaving: CancellationToken) -> wire::grpc_stdio_server::GrpcStdioServer<Self> {
        wire::grpc_stdio_server::GrpcStdioServer::new(Self { leaving })
    }
}

#[tonic::async_trait]
impl wire::grpc_stdio_server::GrpcStdio for Stdio {
    type StreamStdioStream = Quiet<wire::StdioData>;

    async fn stream_stdio(&self, _: Request<()>) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(quiet(&self.leaving)))
    }
}
