//! What can go wrong, named by what failed.

use std::path::PathBuf;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration file cannot be used.
    #[error("{}: {problem}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// An option has a value that cannot be used.
    #[error("{option}: {problem}")]
    Option {
        option: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Scaleway's credentials or address cannot be used.
    #[error(transparent)]
    Scaleway(#[from] windlass_scaleway::ConfigurationError),
    /// The client for Scaleway cannot be made.
    #[error("the client for Scaleway cannot be made: {0}")]
    Client(#[source] Box<windlass_scaleway::Error>),
    /// The journal or the state directory cannot be used, or a policy was refused.
    #[error(transparent)]
    Lifecycle(#[from] windlass_lifecycle::Error),
    /// How the API server is reached cannot be told.
    #[error(
        "the API server: {0}; name a kubeconfig by --kubeconfig or KUBECONFIG, or run in a pod with a service account"
    )]
    Kubeconfig(String),
    /// The API server does not answer.
    #[error(
        "the API server {server} cannot be reached: {problem}; check that it runs, and its address in the kubeconfig \
         (--kubeconfig or KUBECONFIG)"
    )]
    Unreachable {
        /// Its address.
        server: String,
        /// What was met.
        problem: String,
    },
    /// The API server was asked in vain.
    #[error("{what}: {source}")]
    Kubernetes {
        /// What was asked.
        what: &'static str,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// Objects of another controller cannot be converted.
    #[error("{problems}")]
    NotConverted {
        /// What is wrong, a line for each object.
        problems: String,
    },
    /// A write of another came first; the next look sees it.
    #[error("the object was changed by another client")]
    Overtaken,
    /// Nobody can listen there.
    #[error("cannot listen on {address} ({what}): {source}")]
    Listen {
        /// For what.
        what: &'static str,
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Metrics are counted already, for somebody else.
    #[error("metrics cannot be collected: this process already has a metrics recorder")]
    Metrics,
    /// Another process leads, or may lead.
    #[error("the Lease is lost: another process may lead, so this one ends")]
    LeaseLost,
    /// Another process has taken over what this one was working on.
    #[error(
        "another controller took this one for dead, since it had not renewed its row in the database: this one can \
         write nothing more, so it ends"
    )]
    TakenForDead,
    /// A part of the process panicked.
    #[error("the controller has a defect: one of its tasks panicked (see the log lines above), so the process exits")]
    Panicked,
    /// A part of the process ended on its own.
    #[error("the controller has a defect: {0}")]
    Defect(String),
}

impl Error {
    pub(crate) fn kubernetes(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kubernetes { what, source: Box::new(source) }
    }
}
