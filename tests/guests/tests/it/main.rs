//! What the components of this repository are, looked at from outside.

mod bindings;
mod build;
mod components;
mod prebuilt;
