//! Knows how to put questions to a policy and what its answers say of it; must not know a terminal or Scaleway.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

pub mod bench;
pub mod diff;
pub mod expression;
pub mod fixture;
pub mod law;
mod prove;
pub mod replay;
mod slot;
pub mod space;
mod work;

pub use expression::{Expression, ExpressionError};
pub use law::{Law, Laws, LawsError, Statement};
pub use prove::{Counterexample, Finding, Proof, ProofError, ProofOptions, prove};
pub use slot::ProvedSlot;
pub use work::Progress;
