//! What an owner requests to become of a machine: an annotation, and an input of the release slot.

use std::collections::BTreeMap;

use windlass_policy::slots::release::Requested;

use crate::kinds::annotations;

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
