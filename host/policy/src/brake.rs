//! The brake on judgement: however wrong a policy is, it does not remove most of what runs at one look.

/// How many running servers one answer of the slot `state-mapping` may have reaped, or reported as gone or not at all.
///
/// An answer beyond both bounds counts as a failure of its policy ([`FailureKind::Brake`](crate::FailureKind)), the
/// built-in default's included: then the next link decides, and in the end
/// [`Slot::keep`](crate::slots::Slot::keep), which reaps nothing.
///
/// A server counts while it runs and no cleanup of it is under way; one that is stopped, starting or locked does not.
/// What several policies of a chain decide counts together, against all that run in the whole question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Brake {
    /// So many may be reaped however few run. Default 5.
    pub servers: u32,
    /// This share of those that run may be reaped, from 0 to 1. Default a third; 1 switches the brake off.
    pub share: f64,
}

impl Default for Brake {
    fn default() -> Brake {
        Brake { servers: 5, share: 1.0 / 3.0 }
    }
}

impl Brake {
    /// Refuses to remove so many of those that run.
    ///
    /// # Errors
    /// Words for people, with both numbers.
    pub(crate) fn check(&self, removed: usize, running: usize) -> Result<(), String> {
        let few = usize::try_from(self.servers).is_ok_and(|servers| removed <= servers);
        if few || removed as f64 <= self.share * running as f64 {
            return Ok(());
        }
        Err(format!(
            "the brake refused the answer: with it, {removed} of {running} running servers would be removed or \
             reported as gone at once, more than {} and more than {} %",
            self.servers,
            (self.share * 1000.0).round() / 10.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_five_and_more_than_a_third_are_too_many() {
        let brake = Brake::default();
        for (removed, running) in [(0, 0), (5, 5), (6, 18), (7, 21), (3_333, 9_999), (3_333, 10_000)] {
            assert_eq!(brake.check(removed, running), Ok(()), "{removed} of {running}");
        }
        for (removed, running) in [(6, 6), (6, 17), (7, 20), (3_334, 9_999), (3_334, 10_000)] {
            assert!(brake.check(removed, running).is_err(), "{removed} of {running}");
        }
        let words = brake.check(6, 17).unwrap_err();
        assert!(words.contains("6 of 17 running servers") && words.contains("33.3 %"), "{words}");
    }

    #[test]
    fn a_share_of_one_switches_it_off_and_bounds_of_zero_let_nothing_pass() {
        assert_eq!(Brake { servers: 0, share: 1.0 }.check(10_000, 10_000), Ok(()));
        assert!(Brake { servers: 0, share: 0.0 }.check(1, 10_000).is_err());
        assert_eq!(Brake { servers: 0, share: 0.0 }.check(0, 0), Ok(()));
    }
}
