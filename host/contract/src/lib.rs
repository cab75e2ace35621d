//! Knows the shapes of questions and answers, and which expressions about them make sense. Must not know an engine, or
//! how a value is found: it is part of policies as well as of hosts.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod bindings {
    //! What is made of the contract in `wit/`.
    #[rustfmt::skip]
    pub mod shapes;
}
#[cfg(feature = "expressions")]
mod expression;
mod json;
#[cfg(feature = "expressions")]
mod possible;
mod shape;
mod words;

pub use bindings::shapes;
#[cfg(feature = "expressions")]
pub use expression::{Facts, Kind, Reader, Root, Scope, Variable, is_written, variable_at};
pub use shape::{Fields, Shape, SlotShapes};
pub use words::{meant, nearest};
