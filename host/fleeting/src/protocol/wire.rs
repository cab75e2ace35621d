//! The generated messages and services, one module for each proto package (see `proto/`).

#![allow(unreachable_pub, clippy::all)]

/// Package `proto`: fleeting.
pub(crate) mod fleeting {
    tonic::include_proto!("proto");
}

/// Package `plugin`: go-plugin's own services.
pub(crate) mod go_plugin {
    tonic::include_proto!("plugin");
}

/// The body of an error with details.
pub(crate) mod status {
    tonic::include_proto!("windlass.status");
}
