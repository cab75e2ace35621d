use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;
use windlass_scaleway::{Transport, TransportError};

use crate::Simulator;
use crate::simulator::Dropped;

/// Calls the simulator in the caller's own task: no socket, no thread, no spawned task.
struct InProcess {
    simulator: Simulator,
    /// For the controls, and for methods that no API has.
    router: Router,
}

/// Whether the router would pass it to the APIs unchanged.
fn is_of_api(request: &Request<Bytes>) -> bool {
    matches!(*request.method(), Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
        && !request.uri().path().starts_with("/_simulator")
}

fn closed() -> TransportError {
    TransportError::Lost("the simulator closed the connection without an answer".into())
}

/// Answers as the router does.
async fn call_api(simulator: Simulator, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
    let (parts, body) = request.into_parts();
    let body = (body.len() <= simulator.body_bytes()).then_some(body);
    let mut response = simulator.call(parts, body).await.map_err(|Dropped| closed())?;
    let length = HeaderValue::from(response.body().len());
    response.headers_mut().entry(CONTENT_LENGTH).or_insert(length);
    Ok(response)
}

impl Simulator {
    /// The simulator as what is under a [`windlass_scaleway::Client`], in the same process.
    ///
    /// A dropped connection becomes [`TransportError::Lost`]. The authority of a request's URI does not matter.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(InProcess { simulator: self.clone(), router: self.router() })
    }
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        if is_of_api(&request) {
            return call_api(self.simulator.clone(), request).boxed();
        }
        let router = self.router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::from)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if response.extensions().get::<Dropped>().is_some() {
                return Err(closed());
            }
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| TransportError::Lost(error.into()))?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[tokio::test(start_paused = true)]
    async fn a_call_in_the_same_process_is_answered_as_the_router_answers_it() {
        let simulator = || Simulator::new(Options { body_bytes: 100, ..Options::default() });
        let (transport, router) = (simulator().transport(), simulator().router());
        for (method, path, body) in [
            ("GET", "/instance/v1/zones/fr-par-1/servers?per_page=5", 0),
            ("POST", "/instance/v1/zones/fr-par-1/servers", 100),
            ("POST", "/instance/v1/zones/fr-par-1/servers", 101),
            ("DELETE", "/instance/v1/zones/fr-par-1/servers/none", 0),
            ("HEAD", "/instance/v1/zones/fr-par-1/servers", 0),
            ("GET", "/nothing", 0),
            ("GET", "/_simulators", 0),
            ("GET", "/_simulator/clock", 0),
            ("GET", "/_simulator/nothing", 0),
        ] {
            let request = || {
                let key = "7d0e3a4c-0000-4000-8000-00000000000a";
                let uri = format!("https://api.scaleway.com{path}");
                let request = Request::builder().method(method).uri(uri).header("x-auth-token", key);
                request.body(Bytes::from(vec![b'x'; body])).expect("written in this test")
            };
            let answer = transport.send(request()).await.expect("nothing closes the connection");
            let Ok(expected) = router.clone().oneshot(request().map(Body::from)).await;
            let (parts, expected) = expected.into_parts();
            let expected = expected.collect().await.expect("it does not break off").to_bytes();
            assert_eq!((answer.status(), answer.headers()), (parts.status, &parts.headers), "{method} {path}");
            assert_eq!(*answer.body(), expected, "{method} {path}");
        }
    }
}
