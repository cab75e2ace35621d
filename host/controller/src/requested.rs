//! What an owner requests by annotations: what is to become of a machine, an input of the release slot; and another try.

use std::collections::BTreeMap;

use kube::ResourceExt;
use windlass_policy::slots::release::Requested;

use crate::kinds::annotations;
use crate::names::{cut, mark};

/// The longest value of [`annotations::RETRY`] that is kept as it is, in bytes (the status has room for no more).
const MAX_RETRY_LEN: usize = 256;
/// What the names of annotations begin with that say what is to be done.
const OURS: &str = "windlass.dev/";

/// The value that asks for another try. One that is too long for the status is told from others by its mark.
pub(crate) fn retry(found: &BTreeMap<String, String>) -> Option<String> {
    let value = found.get(annotations::RETRY)?;
    let kept = if value.len() <= MAX_RETRY_LEN {
        value.clone()
    } else {
        let mark = mark(value);
        format!("{}-{mark}", cut(value, MAX_RETRY_LEN - mark.len() - 1))
    };
    Some(kept)
}

/// Whether two sights of one object ask for the same: deletion, and the annotations that say what is to be done.
pub(crate) fn asks_the_same<K: ResourceExt>(one: &K, other: &K) -> bool {
    let asks = |object: &K| -> BTreeMap<String, String> {
        let says = |key: &str| {
            key.starts_with(OURS) || [annotations::TUIST_RELEASE_POLICY, annotations::PAUSED].contains(&key)
        };
        object
            .annotations()
            .iter()
            .filter(|(key, _)| says(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let deleted = |object: &K| object.meta().deletion_timestamp.is_some();
    deleted(one) == deleted(other) && asks(one) == asks(other)
}

/// The request that stands in the annotations. A word that is none of the three is said so, and counts as none.
pub(crate) fn requested(found: &BTreeMap<String, String>) -> (Option<Requested>, Option<String>) {
    let wanted = [annotations::RELEASE_POLICY, annotations::TUIST_RELEASE_POLICY]
        .into_iter()
        .find_map(|key| found.get(key).map(|value| (key, value)));
    match wanted {
        None => (None, None),
        Some((_, value)) if value == "pool" => (Some(Requested::ReturnToPool), None),
        Some((_, value)) if value == "terminate" => (Some(Requested::Terminate), None),
        Some((_, value)) if value == "keep" => (Some(Requested::Keep), None),
        Some((key, value)) => {
            let value: String = value.chars().take(64).collect();
            (None, Some(format!("the annotation {key} says {value:?}; it may say pool, terminate or keep")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_retry_fits_into_the_status_and_stays_different_from_others() {
        let retry = |value: &str| retry(&annotated(&[(annotations::RETRY, value)])).unwrap();
        assert_eq!(retry("2"), "2");
        let long = ["a".repeat(300) + "1", "a".repeat(300) + "2", "é".repeat(200)];
        for one in &long {
            assert!(retry(one).len() <= MAX_RETRY_LEN, "{one}");
        }
        assert_ne!(retry(&long[0]), retry(&long[1]));
    }

    #[test]
    fn the_request_is_read_under_both_names_and_ours_wins() {
        assert_eq!(requested(&annotated(&[])), (None, None));
        assert_eq!(requested(&annotated(&[("windlass.dev/release-policy", "pool")])).0, Some(Requested::ReturnToPool));
        assert_eq!(requested(&annotated(&[("tuist.dev/release-policy", "terminate")])).0, Some(Requested::Terminate));
        let both = annotated(&[("tuist.dev/release-policy", "terminate"), ("windlass.dev/release-policy", "keep")]);
        assert_eq!(requested(&both).0, Some(Requested::Keep));
        let (none, problem) = requested(&annotated(&[("windlass.dev/release-policy", "Terminate")]));
        assert_eq!(none, None, "what is no request must never destroy a host");
        assert!(problem.unwrap().contains("pool, terminate or keep"));
    }
}
