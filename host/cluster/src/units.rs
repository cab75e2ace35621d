//! Sizes and durations as people write them: `20GB`, `10m`.

use std::fmt;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserializer, Serializer};
pub use windlass_lifecycle::parse_size;
pub use windlass_policy::parse_duration;

/// The fewest units that say exactly the same.
fn write_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if milliseconds != 0 && milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    format!("{milliseconds}ms")
}

/// For serde: a text, and what it is called where something else stands there.
struct Written(&'static str);

impl Visitor<'_> for Written {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// For serde: a size in bytes, written as text with its unit.
pub(crate) mod size {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        for (unit, factor) in [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)] {
            if bytes.is_multiple_of(factor) {
                return serializer.collect_str(&format_args!("{}{unit}", bytes / factor));
            }
        }
        serializer.collect_str(&format_args!("{bytes}B"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = deserializer.deserialize_str(Written("a size in quotes, for example \"20GB\""))?;
        parse_size(&text).map_err(serde::de::Error::custom)
    }
}

/// For serde: the same, where it may be absent.
pub(crate) mod optional_size {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::size::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        super::size::deserialize(deserializer).map(Some)
    }
}

/// For serde: a duration, written as text with its unit.
pub(crate) mod duration {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_duration(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = deserializer.deserialize_str(Written("a duration in quotes, for example \"10m\""))?;
        parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_need_their_unit() {
        assert_eq!(parse_size("20 GB"), Ok(20_000_000_000));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert!(parse_size("20").unwrap_err().contains("lacks a unit"));
        assert!(parse_size("0GB").is_err() && parse_size("99999999999TB").is_err());
        for (text, milliseconds) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("10 min", 600_000),
            ("2d", 172_800_000),
            ("PT10M", 600_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["", "10", "m", "-1h", "1h ago", "2 years", "99999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for duration in [0, 1, 999, 1_000, 90_000, 600_000, 3_600_000].map(Duration::from_millis) {
            assert_eq!(parse_duration(&write_duration(duration)), Ok(duration));
        }
    }
}
