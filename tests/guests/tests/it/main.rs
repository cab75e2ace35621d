//! What the components of this repository are, looked at from outside.

mod build;
mod components;
mod prebuilt;
