//! The account that everybody in a world works in.

use std::num::NonZeroU32;

use windlass_scaleway::{Settings, Zone};

pub(crate) const ZONE: &str = "fr-par-1";
const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
pub(crate) const OWNER: &str = "team";

pub(crate) fn settings() -> Settings {
    let many = NonZeroU32::MAX;
    let mut limits = windlass_scaleway::Limits::default();
    limits.calls_per_second = NonZeroU32::new(1_000_000).unwrap_or(many);
    limits.burst = NonZeroU32::new(1_000_000).unwrap_or(many);
    limits.concurrent_calls = NonZeroU32::new(512).unwrap_or(many);
    Settings::new(KEY.parse().expect("a UUID is a key")).with_limits(limits)
}

pub(crate) fn zone() -> Zone {
    ZONE.parse().expect("a valid zone")
}
