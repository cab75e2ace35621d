use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use tower::{Service, ServiceExt};

use super::{Cause, Transport, TransportError};

/// Makes any cloneable tower service a [`Transport`], an axum `Router` for example: in process, without a socket, a
/// thread or a spawned task.
///
/// An error of the service means a connection that was lost after the request had arrived, because that is what a
/// service can fake and what callers must cope with.
#[derive(Debug, Clone)]
pub struct ServiceTransport<S> {
    service: S,
    answer_bytes: usize,
}

impl<S> ServiceTransport<S> {
    /// Reads at most 32 MiB of an answer.
    pub fn new(service: S) -> Self {
        Self { service, answer_bytes: 32 * 1024 * 1024 }
    }
}

impl<S, B> Transport for ServiceTransport<S>
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<Cause>,
    S::Future: Send,
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Cause>,
{
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let service = self.service.clone();
        let limit = self.answer_bytes;
        async move {
            let response =
                service.oneshot(request.map(Full::new)).await.map_err(|error| TransportError::Lost(error.into()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, limit).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    TransportError::AnswerTooLarge { limit }
                } else {
                    TransportError::Lost(error)
                }
            })?;
            Ok(http::Response::from_parts(parts, body.to_bytes()))
        }
        .boxed()
    }
}
