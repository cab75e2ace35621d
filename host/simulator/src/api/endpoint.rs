//! What every endpoint is made of.

use http::Method;

use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;

/// What every endpoint gives back.
pub(super) type Outcome = Result<Answer, Refusal>;

/// The method as text, so that a table of paths can match on both.
pub(super) fn method(call: &Call) -> &str {
    match call.method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "",
    }
}

/// Whether a filter is absent or fits.
pub(super) fn fits(wanted: Option<&str>, actual: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == actual)
}

/// Whether a name filter is absent or part of the name.
pub(super) fn part_of(wanted: Option<&str>, actual: &str) -> bool {
    wanted.is_none_or(|wanted| actual.contains(wanted))
}

/// Refuses one more of a kind of which `current` exist.
pub(super) fn within(quota: Option<usize>, resource: &str, current: usize) -> Result<(), Refusal> {
    match quota {
        Some(quota) if current >= quota => Err(Refusal::quota(resource, quota, current)),
        _ => Ok(()),
    }
}
