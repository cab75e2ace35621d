//! Sizes and durations as people write them.

use std::fmt;

pub(crate) use windlass_cluster::units::parse_duration;
pub(crate) use windlass_inspect::words::human_duration;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    /// The largest decimal unit that needs at most one digit after the point; Scaleway counts volumes in decimal units.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] =
            [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        for (unit, bytes) in UNITS {
            if self.0 >= bytes {
                return if self.0.is_multiple_of(bytes) {
                    write!(formatter, "{} {unit}", self.0 / bytes)
                } else {
                    write!(formatter, "{:.1} {unit}", self.0 as f64 / bytes as f64)
                };
            }
        }
        write!(formatter, "{} B", self.0)
    }
}

/// Reads a size, as a cluster's specification does.
pub(crate) fn parse_size(text: &str) -> Result<Size, String> {
    windlass_lifecycle::parse_size(text).map(Size)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn durations_are_read_in_one_or_more_units() {
        for (text, milliseconds) in [("500ms", 500), ("90s", 90_000), ("1h30m", 5_400_000), ("2d", 172_800_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["", "10", "s", "-1h", "99999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_reported_as_scaleway_counts_them() {
        assert_eq!(Size(20_000_000_000).to_string(), "20 GB");
        assert_eq!(Size(34_500).to_string(), "34.5 kB");
        assert_eq!(Size(12).to_string(), "12 B");
    }
}
