//! The default policy of the slot `retry`. Knows which failures pass and how long to wait for them; must not know what
//! the step does. README.md holds the decisions as a table.

mod backoff;

use windlass_guest_sdk::prelude::*;

use retry::{Answer, Question};

settings! {
    /// How patiently a failed step is tried again.
    pub struct DefaultRetry {
        /// The bound of the first wait; it doubles with each attempt. Milliseconds.
        pub base_ms: u64 = 500,
        /// The bound of every wait. Milliseconds.
        pub cap_ms: u64 = 30_000,
        /// After so many attempts a step has failed for good.
        pub attempts: u32 = 8,
        /// No attempt begins later than this after the first one began. Milliseconds.
        pub budget_ms: u64 = 180_000,
        /// The fixed part of the wait for a resource that is on its way from one state to another; up to 500 ms of jitter
        /// are added. Milliseconds.
        pub transient_ms: u64 = 1_000,
        /// The bound of the first wait after a rate limit; it doubles with each attempt, and at least half of it is
        /// waited. Milliseconds.
        pub rate_limit_base_ms: u64 = 2_000,
        /// The bound of every wait after a rate limit. Milliseconds.
        pub rate_limit_cap_ms: u64 = 60_000,
        /// After so many attempts a refused precondition, a refusal that says that the resource is locked, or a conflict
        /// of an undo or a removal counts as lasting. A volume is "in use" for some seconds after its server has gone.
        pub precondition_attempts: u32 = 5,
        /// As `attempts`, for steps of an undo or a removal: giving those up leaves something behind.
        pub undo_attempts: u32 = 20,
        /// As `budget-ms`, for steps of an undo or a removal. Milliseconds.
        pub undo_budget_ms: u64 = 900_000,
    }
    check(self) {
        for (low, low_value, high, high_value) in [
            ("base-ms", self.base_ms, "cap-ms", self.cap_ms),
            ("rate-limit-base-ms", self.rate_limit_base_ms, "rate-limit-cap-ms", self.rate_limit_cap_ms),
        ] {
            if low_value > high_value {
                return Err(format!("`{low}` ({low_value}) is above `{high}` ({high_value})"));
            }
        }
        Ok(())
    }
}

/// How a class of failure is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryClass {
    /// It will not pass: why.
    Never(&'static str),
    /// It passes by itself, sooner or later: exponential with full jitter.
    Backoff,
    /// Too many asked at once: longer, and never nearly at once.
    RateLimit,
    /// It passes within seconds, and the budget alone bounds the attempts.
    Transient,
    /// It may be a matter of seconds or lasting: a few attempts.
    Precondition,
}

fn retry_class(question: &Question) -> RetryClass {
    use FailureClass as Class;
    let failure = &question.failure;
    match failure.class {
        Class::InvalidArguments => RetryClass::Never("the request is wrong and stays wrong"),
        Class::AuthenticationDenied => RetryClass::Never("the credentials are not accepted"),
        Class::PermissionDenied => RetryClass::Never("the credentials are not allowed to do this"),
        Class::QuotaExceeded => RetryClass::Never("the quota is used up"),
        Class::OutOfStock => RetryClass::Never("the type is out of stock in this zone"),
        Class::NotFound => RetryClass::Never("there is no such resource"),
        Class::Expired => RetryClass::Never("the resource is gone"),
        // A removal conflicts with nothing but what is being done to the resource: a server stops, or a volume leaves it
        // (assumption: removal-conflict-passes).
        Class::Conflict if question.undoing && failure.error_type.as_deref() != Some("already_exists") => {
            RetryClass::Precondition
        }
        Class::Conflict => RetryClass::Never("something with this name or in this role exists"),
        Class::DeadlineExceeded => RetryClass::Never("the operation's own deadline has passed"),
        Class::Cancelled => RetryClass::Never("the operation was called off"),
        Class::HookFailed | Class::HookTimedOut => RetryClass::Never("a hook that failed is not run again"),
        // The billing floor of a physical host lasts for hours: the release slot has an answer to it.
        Class::PreconditionFailed if question.operation == "release-machine" => {
            RetryClass::Never("the machine's state forbids it")
        }
        Class::PreconditionFailed => RetryClass::Precondition,
        // Seen in the state of the resource itself, not in an answer (assumption: locked-is-final).
        Class::Locked if failure.status.is_none() => {
            RetryClass::Never("the resource is locked: Scaleway's support unlocks it")
        }
        Class::Locked => RetryClass::Precondition,
        Class::TransientState => RetryClass::Transient,
        Class::RateLimited => RetryClass::RateLimit,
        Class::ServerError
        | Class::Gateway
        | Class::Timeout
        | Class::Connection
        | Class::MalformedAnswer
        | Class::Interrupted => RetryClass::Backoff,
        // A 4xx of an unknown type is our fault in some way that waiting doesn't mend.
        Class::Other => match failure.status {
            Some(400..=499) if !failure.ambiguous => RetryClass::Never("Scaleway refused it"),
            _ => RetryClass::Backoff,
        },
    }
}

impl Retry for DefaultRetry {
    fn decide(&self, question: Question) -> Answer {
        // What is left until the operation's deadline is the host's own bound of every wait.
        let (budget, attempts) = match question.undoing {
            true => (self.undo_budget_ms, self.undo_attempts),
            false => (self.budget_ms, self.attempts),
        };
        let (attempts, wait) = match retry_class(&question) {
            RetryClass::Never(why) => return Answer::give_up().because(why),
            RetryClass::Backoff => {
                (attempts, backoff::full_jitter(self.base_ms, self.cap_ms, question.attempt, question.random))
            }
            RetryClass::RateLimit => (
                attempts,
                backoff::equal_jitter(
                    self.rate_limit_base_ms,
                    self.rate_limit_cap_ms,
                    question.attempt,
                    question.random,
                ),
            ),
            RetryClass::Transient => (u32::MAX, backoff::short(self.transient_ms, question.random)),
            RetryClass::Precondition => (
                self.precondition_attempts.min(attempts),
                backoff::equal_jitter(self.transient_ms, self.cap_ms, question.attempt, question.random),
            ),
        };
        if question.attempt >= attempts {
            return Answer::give_up().because(format!("attempt {} was the last one", question.attempt));
        }
        match question.elapsed.checked_add(wait) {
            Some(then) if then <= budget => Answer::wait(wait),
            _ => Answer::give_up().because(format!(
                "{} ms have passed and the next attempt would begin after the budget of {budget} ms",
                question.elapsed
            )),
        }
    }
}

export_policy!(DefaultRetry: retry; silent_panics);

#[cfg(test)]
mod tests;
