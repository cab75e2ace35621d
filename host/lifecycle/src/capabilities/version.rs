/// The WIT version of `windlass:scaleway` that is offered.
pub(super) const VERSION: &str = "0.1.0";
