//! What a policy may ask Scaleway through the host, if its operator granted it.
//!
//! The host asks with its own credentials, bounds time, calls and bytes, and records question and answer with the
//! decision. In `cargo test` the answers come from a [`FakeHost`](crate::testing::FakeHost).

/// Typed, read-only look-ups. Grant: `windlass:scaleway/look-ups`.
pub mod look_ups {
    pub use crate::bindings::imports::windlass::scaleway::look_ups::{
        LookUpError, Money, Server, ServerList, ServerType, ServerTypeList, Stock,
    };
    #[cfg(target_arch = "wasm32")]
    pub use crate::bindings::imports::windlass::scaleway::look_ups::{get_server, list_servers, server_types};
    #[cfg(not(target_arch = "wasm32"))]
    pub use crate::testing::fake::{get_server, list_servers, server_types};
}

/// One generic HTTP request. Grant: `windlass:scaleway/request METHOD[,METHOD] /path/pattern`.
pub mod request {
    #[cfg(target_arch = "wasm32")]
    pub use crate::bindings::imports::windlass::scaleway::request::send;
    pub use crate::bindings::imports::windlass::scaleway::request::{HttpRequest, HttpResponse, RequestError};
    #[cfg(not(target_arch = "wasm32"))]
    pub use crate::testing::fake::send;
}
