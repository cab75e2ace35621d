use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::Simulator;
use crate::simulator::Dropped;

/// A pause before the next try when the system has no connection to give, out of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Simulator {
    /// Serves HTTP/1.1 with keep-alive until the future is dropped, which closes every connection.
    ///
    /// Not by axum's own server: a dropped connection must end without an answer, and that server always answers.
    pub async fn serve(&self, listener: TcpListener) -> Infallible {
        let router = self.router();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, router.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no connection could be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                // Collects what has ended, so that the set does not grow.
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    // Small answers would otherwise wait for the peer's acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            match router.oneshot(request.map(Body::new)).await {
                Ok(response) => answer_or_close(response),
                Err(never) => match never {},
            }
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        // Callers that go away are no news, and dropped connections are asked for.
        tracing::debug!(%error, "connection ended");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("connection dropped on request")]
struct DroppedOnRequest;

fn answer_or_close(response: Response<Body>) -> Result<Response<Body>, DroppedOnRequest> {
    // An error of the service makes hyper close the connection without a byte.
    if response.extensions().get::<Dropped>().is_some() { Err(DroppedOnRequest) } else { Ok(response) }
}
