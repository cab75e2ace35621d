//! Runs policies natively, in `cargo test`.
//!
//! ```
//! use windlass_guest_sdk::prelude::*;
//! use windlass_guest_sdk::testing::{self, FakeHost};
//!
//! settings! {
//!     /// Gives up at once.
//!     struct Hasty {}
//! }
//! impl Retry for Hasty {
//!     fn decide(&self, question: retry::Question) -> retry::Answer {
//!         log::info(format!("attempt {} was enough", question.attempt));
//!         retry::Answer::give_up()
//!     }
//! }
//!
//! let policy: Hasty = testing::configure("{}").unwrap();
//! let question = retry::Question { attempt: 3, ..testing::retry_question(FailureClass::Gateway) };
//! let run = FakeHost::new().run(|| policy.decide(question));
//! assert_eq!(run.answer, retry::Answer::give_up());
//! assert_eq!(run.log[0].message, "attempt 3 was enough");
//! ```

pub(crate) mod fake;
mod fixtures;
mod questions;
pub mod readme;

pub use fake::{FakeHost, LogLine, Run};
pub use fixtures::{Fixture, fixtures};
pub use questions::{
    NOW, failure, machine, place, placement_question, provisioning_question, release_question, resource,
    retry_question, rollback_question, server, state_mapping_question, subject,
};

use crate::Policy;

/// Configures a policy with settings in JSON, exactly as the component does.
///
/// # Errors
/// The words with which the component would be refused.
pub fn configure<P: Policy>(settings: &str) -> Result<P, String> {
    crate::configuration::configure(settings)
}

/// The JSON Schema of a policy's settings, exactly as the component's `describe` gives it.
#[must_use]
pub fn settings_schema<P: Policy>() -> String {
    crate::exported::schema_of::<P>()
}
