//! The policy host against real components: the built-in defaults, the examples, and guests that mean harm.

mod cache;
mod capabilities;
mod chains;
mod contract;
mod deciding;
mod guests;
mod hostile;
mod loading;
mod support;
mod swapping;
