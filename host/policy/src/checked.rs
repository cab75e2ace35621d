//! What becomes of an answer before it counts: the slot's check, the brake, and reasons that are fit to be shown.

use crate::brake::Brake;
use crate::decision::PolicyIdentity;
use crate::failure_kind::FailureKind;
use crate::guest::Failure;
use crate::policy::LoadedPolicy;
use crate::slots::{Reasons as _, Slot};
use crate::text::{TidyReasons, one_line};

/// How the reason begins for which an answer was rejected.
const REFUSED: &str = "its answer was refused: ";

/// Why a policy isn't asked that failed too often.
pub(crate) fn suspended(policy: &LoadedPolicy) -> Failure {
    let last = policy.health.last_failure().unwrap_or_default();
    let reason = format!("suspended until it is replaced, since it failed too often in a row; the last time: {last}");
    Failure::new(FailureKind::Suspended, reason)
}

/// What the brake holds an answer against.
pub(crate) struct Braking<'a, S: Slot> {
    pub(crate) brake: Brake,
    pub(crate) whole: &'a S::Question,
    /// What the links before have removed.
    pub(crate) removed: usize,
}

impl<S: Slot> Braking<'_, S> {
    fn check(&self, question: &S::Question, answer: &S::Answer) -> Result<(), Failure> {
        let removed = S::removed(question, answer);
        if removed == 0 {
            return Ok(());
        }
        let checked = self.brake.check(self.removed + removed, S::running(self.whole));
        checked.map_err(|words| Failure::new(FailureKind::Brake, words))
    }
}

/// An answer that passed the slot's check, the bounds of a tenant's policy and the brake, with tidy reasons.
pub(crate) fn checked<S: Slot>(
    identity: &PolicyIdentity,
    question: &S::Question,
    mut answer: S::Answer,
    braking: &Braking<'_, S>,
) -> Result<S::Answer, Failure> {
    if identity.is_from_tenant()
        && let Err(problem) = S::check_tenant_answer(question, &answer)
    {
        return Err(Failure::new(FailureKind::NotAllowed, one_line(&problem)));
    }
    if let Err(problem) = S::check(question, &answer) {
        return Err(Failure::new(FailureKind::RejectedAnswer, format!("{REFUSED}{}", one_line(&problem))));
    }
    braking.check(question, &answer)?;
    let mut tidy = TidyReasons::default();
    answer.for_each_reason(|reason| tidy.next(reason));
    Ok(answer)
}
