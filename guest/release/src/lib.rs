//! The default policy of the slot `release`. Knows when a machine goes back to its pool, goes for good, or stays; must
//! not know how. README.md holds the decisions as a table.
//!
//! When in doubt it keeps: a machine that stays too long costs money, one that is destroyed too early costs work.

mod refused;

use windlass_guest_sdk::prelude::*;

use release::{Answer, Machine, MachineKind, Question, Requested, Trigger};

settings! {
    /// When a machine that cannot be set up is rebooted and when it is given up, and how patiently refusals are met.
    pub struct DefaultRelease {
        /// After so many failed set-ups the machine is rebooted, once. 0: never.
        pub reboot_after_failures: u32 = 3,
        /// After so many failed set-ups the machine is given up: released as if its owner had done it.
        pub give_up_after_failures: u32 = 8,
        /// The operating system that pool machines are reinstalled with: `host` (the one that each has), `type-default`
        /// (the default of its type), or a name or a family.
        pub pool_operating_system: String = "host".into(),
        /// The wait after a refusal that may pass; it doubles each time. Milliseconds.
        pub retry_base_ms: u64 = 15_000,
        /// The longest such wait. Milliseconds.
        pub retry_cap_ms: u64 = 900_000,
    }
    check(self) {
        if self.give_up_after_failures == 0 {
            return Err("`give-up-after-failures` is 0: every machine would be given up before its first set-up".into());
        }
        if self.reboot_after_failures >= self.give_up_after_failures {
            return Err(format!(
                "`reboot-after-failures` ({}) is not below `give-up-after-failures` ({}): no machine would be rebooted (0 says so)",
                self.reboot_after_failures, self.give_up_after_failures
            ));
        }
        if self.retry_base_ms == 0 || self.retry_base_ms > self.retry_cap_ms {
            return Err(format!(
                "`retry-base-ms` ({}) has to be above 0 and at most `retry-cap-ms` ({})",
                self.retry_base_ms, self.retry_cap_ms
            ));
        }
        Ok(())
    }
}

impl Release for DefaultRelease {
    fn decide(&self, question: Question) -> Answer {
        if let Some(why) = kept_because(&question) {
            return Answer::keep().because(why);
        }
        match (&question.refusal, question.trigger) {
            (Some(refusal), _) => self.after_refusal(&question, refusal),
            (None, Trigger::BootstrapFailed) => self.after_failed_set_up(&question),
            (None, Trigger::Released | Trigger::Reclaim | Trigger::Other) => self.end(&question),
        }
    }
}

/// Why the machine stays whatever else is so: its owner wants it, or this policy does not understand the question.
fn kept_because(question: &Question) -> Option<&'static str> {
    match (question.requested, question.machine.kind, question.trigger) {
        (Some(Requested::Keep), ..) => Some("its owner wants it kept"),
        (Some(Requested::Other), ..) => Some("its owner wants something that this policy does not know"),
        (_, MachineKind::Other, _) => Some("this policy does not know what kind of machine it is"),
        (.., Trigger::Other) => Some("this policy does not know why it is asked"),
        _ => None,
    }
}

impl DefaultRelease {
    fn after_failed_set_up(&self, question: &Question) -> Answer {
        let machine = &question.machine;
        let failures = machine.bootstrap_failures;
        if failures >= self.give_up_after_failures {
            return self.end(question);
        }
        if self.reboot_after_failures > 0 && failures >= self.reboot_after_failures && !machine.rebooted {
            return Answer::reboot().because(format!("its set-up failed {failures} times"));
        }
        Answer::keep()
            .because(format!("{failures} failed set-ups; it is given up after {}", self.give_up_after_failures))
    }

    /// The machine is to leave its owner: where to.
    pub(crate) fn end(&self, question: &Question) -> Answer {
        let machine = &question.machine;
        if machine.deletion_scheduled {
            return Answer::keep().because("its deletion is scheduled already");
        }
        let has_pool = machine.pool_prefix.as_deref().is_some_and(|prefix| !prefix.is_empty());
        match (question.requested, machine.kind) {
            (Some(Requested::Terminate), _) => terminate(machine, question.now),
            (_, MachineKind::AppleSiliconServer) if has_pool => Answer::return_to_pool(self.pool_system()),
            (Some(Requested::ReturnToPool), _) => Answer::keep().because("it is wanted in a pool and belongs to none"),
            (_, MachineKind::Instance) => Answer::terminate(),
            // Without a pool: a host that was ordered for this owner goes with it. One that came out of a pool which is
            // no longer known, or that nobody explains, may be somebody's.
            (_, MachineKind::AppleSiliconServer) => match (machine.adopted, question.trigger) {
                (false, Trigger::Released | Trigger::BootstrapFailed) => terminate(machine, question.now),
                (true, _) => Answer::keep().because("it came from a pool whose prefix is not known: it cannot return"),
                (false, Trigger::Reclaim | Trigger::Other) => {
                    Answer::keep().because("no owner explains it and it belongs to no pool: a person should look")
                }
            },
            // Kept before it comes to this.
            (_, MachineKind::Other) => Answer::keep(),
        }
    }

    pub(crate) fn pool_system(&self) -> Option<String> {
        // Empty is how `host` was written before.
        let wanted = self.pool_operating_system.as_str();
        (!["", "host"].contains(&wanted)).then(|| wanted.to_owned())
    }
}

/// Deletes it now, or has it deleted as soon as Scaleway accepts that.
fn terminate(machine: &Machine, now: Timestamp) -> Answer {
    match machine.deletable_at {
        Some(deletable_at) if deletable_at > now && machine.kind == MachineKind::AppleSiliconServer => {
            Answer::schedule_deletion().because("it is under its billing floor")
        }
        _ => Answer::terminate(),
    }
}

export_policy!(DefaultRelease: release; silent_panics);

#[cfg(test)]
mod tests;
