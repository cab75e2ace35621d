//! The generated messages and services, one module for each proto package (see `proto/`).

#![allow(unreachable_pub, clippy::all)]

/// Package `proto`: fleeting.
pub(crate) mod fleeting {
    include!("../bindings/proto.rs");
}

/// Package `plugin`: go-plugin's own services.
pub(crate) mod go_plugin {
    include!("../bindings/plugin.rs");
}

/// The body of an error with details.
pub(crate) mod status {
    include!("../bindings/status.rs");
}
