use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;
use windlass_scaleway::{Transport, TransportError};

use crate::Simulator;
use crate::simulator::Dropped;

/// Calls the simulator's router in the caller's own task: no socket, no thread, no spawned task.
struct InProcess {
    router: Router,
}

impl Simulator {
    /// The simulator as what is under a [`windlass_scaleway::Client`], in the same process.
    ///
    /// A dropped connection becomes [`TransportError::Lost`]. The authority of a request's URI does not matter.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(InProcess { router: self.router() })
    }
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        let router = self.router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::from)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if response.extensions().get::<Dropped>().is_some() {
                return Err(TransportError::Lost("the simulator closed the connection without an answer".into()));
            }
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| TransportError::Lost(error.into()))?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        }
        .boxed()
    }
}
