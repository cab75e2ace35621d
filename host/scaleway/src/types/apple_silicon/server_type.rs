use std::time::Duration;

use super::OperatingSystem;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// How many hosts of a type are available in a zone.
    pub enum Stock {
        /// Enough.
        High = "high_stock",
        /// Few.
        Low = "low_stock",
        None = "no_stock",
        /// Scaleway does not know.
        UnknownStock = "unknown_stock",
    }
}

answers! {
    /// What a type of host is.
    pub struct ServerType {
        /// `M4-S`.
        pub name: String,
        /// Its processor.
        pub cpu: Option<ServerTypeCpu>,
        pub disk: Option<ServerTypeMemory>,
        pub memory: Option<ServerTypeMemory>,
        /// Its graphics processor.
        pub gpu: Option<ServerTypeGpu>,
        /// Its bandwidths.
        pub network: Option<ServerTypeNetwork>,
        /// Current stock.
        pub stock: Stock,
        /// How long a host is kept at least: `86400s` on every recorded type. See [`ServerType::minimum_lease`].
        pub minimum_lease_duration: String,
        /// What it is installed with when nothing else is asked for.
        pub default_os: Option<OperatingSystem>,
    }

    /// A processor.
    pub struct ServerTypeCpu {
        /// `Apple M4`.
        pub name: String,
        pub core_count: u32,
        /// Hertz.
        pub frequency: u64,
    }

    /// A disk or a memory.
    pub struct ServerTypeMemory {
        /// Bytes.
        pub capacity: u64,
        /// `SSD`, `LPDDR5X`.
        #[serde(rename = "type")]
        pub kind: String,
    }

    /// A graphics processor.
    pub struct ServerTypeGpu {
        /// Cores.
        pub count: u32,
    }

    /// Bandwidths in bits per second.
    pub struct ServerTypeNetwork {
        /// What a host gets when nothing else is asked for.
        pub public_bandwidth_bps: u64,
        /// What can be asked for.
        pub supported_bandwidth: Vec<u64>,
    }
}

impl ServerType {
    /// How long a host of this type is kept at least, when Scaleway's text can be read.
    pub fn minimum_lease(&self) -> Option<Duration> {
        // A protobuf duration in JSON: seconds, perhaps with a fraction, and an `s`.
        let seconds: f64 = self.minimum_lease_duration.trim().strip_suffix('s')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_lease_is_read_or_unknown_never_a_guess() {
        let lease = |text: &str| {
            ServerType { minimum_lease_duration: text.to_owned(), ..ServerType::default() }.minimum_lease()
        };
        assert_eq!(lease("86400s"), Some(Duration::from_secs(86_400)));
        assert_eq!(lease("0.500s"), Some(Duration::from_millis(500)));
        for text in ["", "s", "86400", "-1s", "infs", "NaNs", "1e300s", "24h", "ßs"] {
            assert_eq!(lease(text), None, "{text}");
        }
    }
}
