//! Knows how a policy's Rust package becomes a component; must not know what any policy decides.
//!
//! From a build script:
//!
//! ```no_run
//! # fn main() -> Result<(), windlass_guest_build::Error> {
//! // Writes OUT_DIR/retry.wasm and OUT_DIR/rollback.wasm, and tells cargo what they depend on.
//! windlass_guest_build::Build::from_build_script()?
//!     .package("windlass-guest-retry", "retry")
//!     .package("windlass-guest-rollback", "rollback")
//!     .run()?;
//! # Ok(())
//! # }
//! ```
//!
//! From a shell: `windlass-guest-build --out DIR PACKAGE...`.
//!
//! What it guarantees:
//! * **No WASI.** The target is `wasm32-unknown-unknown`; the component imports what its source uses, nothing else.
//! * **One page of memory at start**, where the policy's data allows it: the stack is 16 KiB instead of Rust's 1 MiB,
//!   so that a fresh instance for each decision costs a reset of 64 KiB.
//! * **The same bytes from the same source**, wherever the checkout, cargo's home, its target folder and its packages
//!   lie, and whatever is built beside it: a policy is identified by its digest. The compiler has to be the same, to
//!   the patch version and the platform that it runs on: cargo puts both into symbols, by whose order the linker goes.
//! * **No dead lock with the cargo that runs the build script**: the nested cargo has a target folder of its own, one
//!   for all guests of a workspace, so that they share their dependencies.

mod build;
mod component;
mod environment;
mod error;

pub use build::{Artifact, Build};
pub use component::encode;
pub use error::Error;
