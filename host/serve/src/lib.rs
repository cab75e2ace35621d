//! Knows how decisions of policies are asked for over a Unix socket: connections, messages, who may ask. Must not know
//! where policies come from, or what an answer is used for.
//!
//! For programs that are not written in Rust; those that are embed `windlass-policy`. What travels stands in
//! `proto/windlass/policy/v1`: the questions and answers of the slots, made from the contract in `wit/policy`, and
//! around them requests and responses. Each message is preceded by its length. gRPC was measured first: an empty call
//! between two programs in Go takes 55 to 65 µs on a machine where the same exchange of frames takes 9 µs, and a
//! decision is to take 60 µs as a whole.
//!
//! Everything from a peer is untrusted: who it is is asked of the kernel, and what it sends is bounded in bytes, number
//! and time.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod answer;
mod bindings {
    //! What is made of the contract in `wit/`.
    #[rustfmt::skip]
    mod slots;
}
mod error;
mod frame;
mod peers;
mod pins;
#[allow(clippy::all, reason = "made by prost")]
pub mod proto {
    //! The messages.

    include!("bindings/messages.rs");
}
mod server;
mod size;
mod socket;
mod turns;
mod wire;

pub use error::Error;
pub use server::{ServeLimits, ServeOptions, serve};
pub use socket::Socket;
