//! The stages: what is done to nodes, one file per kind of work. None of them knows which operation it belongs to, and
//! none asks whether the cluster still exists: what goes wrong goes up.

pub(crate) mod hook;
pub(crate) mod look;
pub(crate) mod see;
pub(crate) mod servers;
pub(crate) mod validate;
pub(crate) mod wait;
