//! What follows a refusal of Scaleway's.

use windlass_guest_sdk::prelude::*;

use release::{Action, Answer, MachineKind, Question, Refusal};

use crate::DefaultRelease;

impl DefaultRelease {
    pub(crate) fn after_refusal(&self, question: &Question, refusal: &Refusal) -> Answer {
        use FailureClass as Class;
        let class = refusal.failure.class;
        let apple = question.machine.kind == MachineKind::AppleSiliconServer;
        match (refusal.action, class) {
            // Nothing is left to be done to it.
            (_, Class::NotFound | Class::Expired) => Answer::keep().because("it is gone"),
            (Action::Terminate | Action::ScheduleDeletion, Class::PreconditionFailed)
                if question.machine.deletion_scheduled =>
            {
                Answer::keep().because("its deletion is scheduled already")
            }
            // The billing floor: 412 `precondition_failed`.
            (Action::Terminate, Class::PreconditionFailed) if apple => {
                Answer::schedule_deletion().because("it is under its billing floor")
            }
            // An operating system that Scaleway has withdrawn: the one that the machine has will do. Asked a second
            // time with the same refusal, a person has to look.
            (Action::ReturnToPool, Class::InvalidArguments)
                if self.pool_system().is_some() && question.attempt <= 2 =>
            {
                Answer::return_to_pool(None).because(format!("`{}` cannot be installed", self.pool_operating_system))
            }
            // The recovery does not work: what would have come after it.
            (Action::Reboot, Class::InvalidArguments | Class::PreconditionFailed | Class::Conflict | Class::Other) => {
                self.end(question)
            }
            (_, Class::InvalidArguments | Class::Cancelled | Class::HookFailed | Class::HookTimedOut) => {
                Answer::keep().because(format!("Scaleway refused it for good ({class})"))
            }
            // May pass, if only when somebody mends the credentials or the quota.
            _ => Answer::retry_after(self.wait(question, refusal))
                .because(format!("Scaleway refused it for now ({class})")),
        }
    }

    /// Until Scaleway's own date where it gave one, otherwise twice as long each time; within the cap, and not all at
    /// once.
    fn wait(&self, question: &Question, refusal: &Refusal) -> Milliseconds {
        let doublings = question.attempt.saturating_sub(1).min(32);
        let grown = self.retry_base_ms.saturating_mul(1 << doublings).min(self.retry_cap_ms);
        let jittered = grown / 2 + question.random % (grown / 2 + 1);
        match refusal.not_before {
            Some(instant) if instant > question.now => {
                (instant - question.now).clamp(self.retry_base_ms, self.retry_cap_ms)
            }
            _ => jittered,
        }
    }
}
