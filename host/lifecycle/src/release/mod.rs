//! Releasing a machine that its owner no longer wants: the release slot decides, and the host does it.
//!
//! [`server`] releases a server, [`host`] a Mac. Both ask here.

mod host;
mod request;
mod server;
mod stage;

use std::sync::Arc;

use windlass_policy::slots::release::{Machine, Question, Refusal};
use windlass_policy::slots::types::{FailureClass, Subject};

pub(crate) use host::{kept, question_now as question_of_host_now, question_of as question_of_host};
pub use request::{Asking, Release, ReleaseOutcome, ReleaseRequest, Released, Removal};
pub(crate) use request::{ReleaseSpecification, instant};
pub use server::Decided;
pub(crate) use server::{Answer, Course, judge, machine_of, question_of_owner as question_of_server};

use crate::control::Control;
use crate::journal::Operation;
use crate::lifecycle::Lifecycle;
use crate::machines::specification;
use crate::run::Run;
use crate::shared::{Active, Shared};
use crate::{Error, OperationId};

impl Lifecycle {
    /// Releases a machine as the release slot decides.
    ///
    /// # Expected flow
    /// 1. The machine is read by its id. Where there is none, what is left of it is removed without asking.
    /// 2. The slot is asked, and what it says is done.
    /// 3. What Scaleway refuses is put to the slot once more. Everything that asks for patience is answered as
    ///    [`ReleaseOutcome::AskAgain`], so this never waits for a policy.
    ///
    /// # Guarantees
    /// A machine is changed only on the slot's verdict, and only where it is proven ours. Where a policy fails about a
    /// Mac, the question is put again; about a server the built-in default decides, unless the policy is configured to
    /// keep. What is kept is recorded in the journal and stays kept, in every process: no sweep, no supervisor and no
    /// group takes it up. Asked for again, after any end and after a crash at any point, a release ends as it would
    /// have.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the machine cannot be read, [`Error::LeftOpen`] after [`Control::leave`],
    /// [`Error::MachinesLocked`], those of [`Lifecycle::begin_cleanup`], and the journal's.
    pub async fn release(&self, release: impl Into<Release>, control: &Control) -> Result<Released, Error> {
        match release.into() {
            Release::Host(request) => self.release_host(request, control).await,
            Release::Server(request) => match request.unhealthy() {
                Some((zone, id, asking)) => self.recover_server(zone, id, &request.requested_by, asking, control).await,
                None => Ok(self.begin_cleanup(request).await?.run(control).await?.into()),
            },
        }
    }
}

/// After a restart: the release goes on where it stood, under the policies with which it began.
pub(crate) async fn resume(shared: &Arc<Shared>, operation: &Operation, run: Run, active: Active) -> Result<(), Error> {
    match server::is_restart(operation) {
        true => server::resume_restart(&run, &active).await,
        false => host::resume(shared, specification(operation)?, run, active).await,
    }
}

pub(crate) fn question(
    now: u64,
    random: u64,
    subject: Subject,
    asking: &Asking,
    machine: Machine,
    refusal: Option<Refusal>,
) -> Question {
    Question {
        now,
        random,
        trigger: asking.trigger,
        subject,
        machine,
        requested: asking.requested,
        refusal,
        attempt: asking.attempt,
    }
}

/// What is reported of a release beside its outcome.
#[derive(Default)]
struct ReleaseReport {
    reason: Option<String>,
    reasons: Vec<String>,
    decided_by: Option<String>,
    policy_failures: Vec<String>,
    refused: Option<(String, FailureClass)>,
}

impl ReleaseReport {
    fn decision(&mut self, decision: &windlass_policy::Decision<windlass_policy::slots::Release>) {
        self.decided_by = Some(decision.decided_by.to_string());
        self.reason.clone_from(&decision.reason);
        for fallback in &decision.fallbacks {
            let words = fallback.to_string();
            if !self.policy_failures.contains(&words) {
                self.policy_failures.push(words.clone());
            }
            self.reasons.push(format!("release: {words}"));
        }
        self.reasons.extend(decision.reason.iter().map(|reason| format!("release: {reason}")));
    }

    fn released(self, outcome: ReleaseOutcome, operation: Option<OperationId>) -> Released {
        let (refused, refused_class) = self.refused.unzip();
        Released {
            outcome,
            reason: self.reason,
            decided_by: self.decided_by,
            policy_failures: self.policy_failures,
            refused,
            refused_class,
            report: None,
            operation,
        }
    }
}
