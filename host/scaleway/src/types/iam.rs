//! IAM API v1alpha1, read only: how much of each kind an organization may have.

use super::tolerant::answers;
use crate::location::Zone;

answers! {
    /// How much of one kind an organization may have. How much there is does not stand here.
    pub struct Quotum {
        /// Scaleway's name for it. Which names there are is documented nowhere; refusals (`quotas_exceeded`) show some:
        /// `IamSshKeys`.
        pub name: String,
        /// A name for people.
        pub pretty_name: String,
        /// In what it is counted.
        pub unit: String,
        /// `global`, `region` or `zone`.
        pub locality_type: String,
        /// How much, by place.
        pub limits: Vec<QuotumLimit>,
        /// How much, everywhere. Deprecated (SDK), and still what older answers have.
        pub limit: Option<u64>,
        /// Whether there is none. Deprecated (SDK).
        pub unlimited: Option<bool>,
    }

    /// How much one place may have.
    pub struct QuotumLimit {
        /// Whether it is for all places together.
        pub global: Option<bool>,
        pub region: Option<String>,
        pub zone: Option<String>,
        /// How much.
        pub limit: Option<u64>,
        /// Whether there is none.
        pub unlimited: Option<bool>,
    }
}

impl Quotum {
    /// How much a zone may have: the smallest of the limits that hold for it. `None`: as much as it likes, or nothing
    /// is said.
    pub fn limit_in(&self, zone: &Zone) -> Option<u64> {
        let region = zone.region();
        let holds = |limit: &&QuotumLimit| {
            limit.global == Some(true)
                || limit.zone.as_deref() == Some(zone.as_str())
                || limit.region.as_deref() == Some(region.as_str())
        };
        let by_place = self.limits.iter().filter(holds).filter(|limit| limit.unlimited != Some(true));
        let smallest = by_place.filter_map(|limit| limit.limit).min();
        let everywhere = self.limit.filter(|_| self.limits.is_empty() && self.unlimited != Some(true));
        smallest.or(everywhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_in(quotum: &str) -> Option<u64> {
        serde_json::from_str::<Quotum>(quotum).unwrap().limit_in(&"fr-par-1".parse().unwrap())
    }

    #[test]
    fn the_limit_of_a_zone_is_the_smallest_that_holds_for_it() {
        let by_place = r#"{"name": "Servers", "locality_type": "zone", "limits": [
            {"zone": "fr-par-1", "limit": 20}, {"zone": "fr-par-2", "limit": 3},
            {"region": "fr-par", "limit": 30}, {"region": "nl-ams", "limit": 1}]}"#;
        assert_eq!(limit_in(by_place), Some(20));
        assert_eq!(limit_in(&by_place.replacen("20", "40", 1)), Some(30));
        assert_eq!(limit_in(r#"{"limits": [{"global": true, "limit": 7}]}"#), Some(7));
        assert_eq!(limit_in(r#"{"limits": [{"global": true, "unlimited": true, "limit": 0}]}"#), None);
        assert_eq!(limit_in(r#"{"limits": [{"zone": "pl-waw-1", "limit": 7}], "limit": 5}"#), None);
        assert_eq!(limit_in(r#"{"limits": null, "limit": 5}"#), Some(5));
        assert_eq!(limit_in(r#"{"limit": 0, "unlimited": true}"#), None);
        assert_eq!(limit_in("{}"), None);
    }
}
