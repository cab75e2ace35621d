//! Policies as components: what is proved of them, and found.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod comparing;
mod defaults;
mod faults;
mod ready_made;
mod replaying;
mod rules;
mod support;
mod violations;
