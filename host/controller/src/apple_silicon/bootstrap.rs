//! The attempts to set a host up: what whoever bootstraps tells by an annotation, our own, and what of them was judged
//! already.

use kube::ResourceExt;

use crate::kinds::{AppleSiliconMachine, BootstrapStatus, annotations};

/// Failed set-ups: those that the annotation tells of, our own, and as such each request of a MachineRemediation.
pub(super) fn failures(object: &AppleSiliconMachine) -> u32 {
    let annotated = object.annotations().get(annotations::BOOTSTRAP_FAILURES).and_then(|text| text.parse().ok());
    let status = object.status.as_ref();
    let own = status.and_then(|status| status.setup.as_ref()).map(|setup| setup.failures);
    let requests = status.and_then(|status| status.remediation.as_ref()).map(|remediation| remediation.requests);
    annotated.unwrap_or(0_u32).saturating_add(own.unwrap_or(0)).saturating_add(requests.unwrap_or(0))
}

/// What was judged of `failures`. A count that went back (the annotation was reset) begins anew.
///
/// A status that is lost (a move between clusters drops it) leaves the annotation alone: then all that it tells of
/// counts as judged. Otherwise failures of long ago would have a host rebooted, or wiped, that is in use.
pub(super) fn judged(known: Option<&BootstrapStatus>, failures: u32) -> BootstrapStatus {
    match known {
        None => BootstrapStatus { judged_failures: failures, failures_before: failures, rebooted: false },
        Some(known) => BootstrapStatus {
            judged_failures: known.judged_failures.min(failures),
            failures_before: known.failures_before.min(failures),
            rebooted: known.rebooted,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_status_judges_no_old_failure_again() {
        let now = judged(None, 8);
        assert_eq!((now.judged_failures, now.failures_before, now.rebooted), (8, 8, false));
    }

    #[test]
    fn a_count_that_went_back_begins_anew() {
        let known = BootstrapStatus { judged_failures: 5, failures_before: 2, rebooted: true };
        assert_eq!(judged(Some(&known), 7), known);
        let reset = judged(Some(&known), 0);
        assert_eq!((reset.judged_failures, reset.failures_before, reset.rebooted), (0, 0, true));
    }
}
