//! The policy host against real components: the built-in defaults, the examples, and guests that mean harm.

mod contract;
mod deciding;
mod support;
