//! What the end of a job means for a Mac: it is written into the object, and the job is forgotten.

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_lifecycle::{AdoptedMachine, OperationState, ReleaseOutcome, Released};

use super::bootstrap::failures;
use super::setup::ended::{Ended, Ran};
use super::{Mac, addresses, credentials};
use crate::action::Action;
use crate::job_kind::JobKind;
use crate::kinds::{BootstrapStatus, Phase, SetupState, annotations, conditions};
use crate::names::ProviderId;
use crate::outcome::{Outcome, Recovery, backoff, later, needs_people, word};
use crate::status::{remove_condition, time};
use crate::turn::JOB_CHECK;
use crate::writes::{remove_foreign_condition, write_object};
use crate::{Error, metric_names};

impl Mac<'_> {
    pub(super) async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        match outcome {
            Outcome::Adopted { machine, ordered } => self.adopted(machine, *ordered).await,
            Outcome::Inspected(host) => {
                self.turn.status.credentials_secret_name =
                    credentials::write(self.turn.context, self.turn.object, host).await?;
                self.turn.acted_upon().await
            }
            Outcome::Ran(ran) => self.ran(ran).await,
            // What is deleted meanwhile is released, whatever was said of its recovery.
            Outcome::Released(_) if self.turn.deleting() && self.turn.has_recovered() => self.turn.acted_upon().await,
            Outcome::Released(released) if self.turn.deleting() => self.released(released).await,
            Outcome::Released(released) => self.recovered(released).await,
            outcome => self.turn.came_to_nothing(outcome).await,
        }
    }

    /// The order matters: the Secret and the provider id are there before the machine counts as provisioned.
    async fn adopted(&mut self, machine: &AdoptedMachine, ordered: bool) -> Result<Action, Error> {
        let (turn, host) = (&mut self.turn, &machine.server);
        let Ok(zone) = self.target.zone.clone() else { return Ok(Action::requeue(JOB_CHECK)) };
        if !turn.deleting() {
            if host.delivered {
                turn.status.credentials_secret_name = credentials::write(turn.context, turn.object, host).await?;
            }
            let provider = ProviderId::AppleSilicon { zone: zone.clone(), id: host.id.clone() };
            let mut patch = json!({"spec": {"providerID": provider.to_string()}});
            if !machine.rediscovered || !turn.object.annotations().contains_key(annotations::ORIGIN) {
                // What is not delivered was never in a pool: it was ordered by somebody who died before this could be
                // written.
                let origin = if ordered || !host.delivered { "ordered" } else { "pool" };
                patch["metadata"] = json!({"annotations": {annotations::ORIGIN: origin}});
            }
            if !write_object(&turn.api, turn.object, patch).await? {
                // The next look sees what changed, and the outcome is still there.
                return Err(Error::Overtaken);
            }
            let reason = if ordered { "HostOrdered" } else { "HostAdopted" };
            let verb = match (ordered, machine.rediscovered) {
                (true, _) => "ordered",
                (false, true) => "found",
                (false, false) => "adopted",
            };
            let note = format!("{verb} the host {} ({}) as {}", host.id, host.ip, host.name);
            turn.event(false, reason, "Adopt", &note).await;
        }
        turn.status.server_id = Some(host.id.clone());
        turn.status.server_name = Some(host.name.clone());
        turn.status.claim = Some(self.claim.to_string());
        turn.status.failure_domain = Some(zone.to_string());
        turn.status.addresses = addresses(host, &turn.object.name_any());
        if !machine.rediscovered || turn.status.bootstrap.is_none() {
            let known = failures(turn.object);
            turn.status.bootstrap =
                Some(BootstrapStatus { judged_failures: known, failures_before: known, rebooted: false });
        }
        turn.acted_upon().await
    }

    /// A deleted object's host was released, or is to be asked for again.
    async fn released(&mut self, released: &Released) -> Result<Action, Error> {
        let message = match (&released.outcome, &self.host) {
            (ReleaseOutcome::NotOurs { .. }, Some((zone, id))) => {
                format!("the host {id} in {zone}: {}", released.words())
            }
            _ => released.words(),
        };
        if self.is_carried_on(released)? {
            let message = format!("{message}; the controller finishes the release after this object is gone");
            return self.turn.finish_release(false, "ReleaseGoesOn", &message).await;
        }
        let turn = &mut self.turn;
        if let Some(waits) = turn.waits_for_release(released, !released.outcome.is_released()).await? {
            return Ok(waits);
        }
        let outcome = word(&released.outcome);
        if !turn.has_been_released() {
            metrics::counter!(metric_names::RELEASES, "outcome" => outcome).increment(1);
        }
        turn.finish_release(needs_people(released), outcome, &message).await
    }

    /// Whether the host's way into the pool has begun and the supervisor ends it, so that the object need not wait where
    /// the operator does not want it to. With a namespace's own key it does: the key may be gone with the object. It
    /// stays, too, where somebody should look at it.
    fn is_carried_on(&self, released: &Released) -> Result<bool, Error> {
        let context = self.turn.context;
        let is_to_be_looked_at = needs_people(released) || !released.policy_failures.is_empty();
        if context.settings.wait_for_wipe || context.secret.is_some() || is_to_be_looked_at {
            return Ok(false);
        }
        let (ReleaseOutcome::AskAgain { .. }, Some(operation)) = (&released.outcome, &released.operation) else {
            return Ok(false);
        };
        Ok(context.lifecycle.journal().operation(operation)?.state == OperationState::Left)
    }

    /// A script was run on the host.
    async fn ran(&mut self, ran: &Ran) -> Result<Action, Error> {
        let (known, bootstrap) = (failures(self.turn.object), self.bootstrap());
        let turn = &mut self.turn;
        let Some(mut setup) = turn.status.setup.clone().filter(|setup| setup.server_id.as_ref() == Some(&ran.host))
        else {
            return turn.acted_upon().await;
        };
        setup.ended_at = Some(time(turn.now));
        setup.exit_code = ran.exit_code.or(setup.exit_code);
        setup.output = ran.output.clone();
        // The first one counts (assumption: mac-host-key-stays).
        setup.host_key = setup.host_key.or_else(|| ran.host_key.clone());
        setup.not_before = None;
        match (&ran.ended, ran.kind) {
            (Ended::Done, JobKind::TearDown) => {
                setup.state = Some(SetupState::TornDown);
                turn.event(false, "TornDown", "TearDown", "the tear-down script succeeded").await;
            }
            (
                Ended::Again { after, .. } | Ended::NotBegun { reason: "HostUnreadable", after, .. },
                JobKind::TearDown,
            ) => setup.not_before = Some(later(turn.now, *after)),
            (Ended::GivenUp { message } | Ended::NotBegun { message, .. }, JobKind::TearDown) => {
                setup.state = Some(SetupState::TornDown);
                let note = format!("the host is released without a successful tear-down: {message}");
                turn.event(true, "TeardownFailed", "TearDown", &note).await;
            }
            (Ended::Done, _) => {
                if !turn.deleting() {
                    let patch = json!({"metadata": {"annotations": {annotations::SET_UP: ran.host}}});
                    if !write_object(&turn.api, turn.object, patch).await? {
                        return Err(Error::Overtaken);
                    }
                }
                setup.state = Some(SetupState::Succeeded);
                let message = format!("run {} of the set-up script succeeded", setup.attempt);
                turn.say_bootstrapped(true, "SetUp", &message);
                turn.event(false, "SetUp", "SetUp", &message).await;
            }
            (Ended::Again { message, after }, _) => {
                setup.state = Some(SetupState::Waiting);
                setup.not_before = Some(later(turn.now, *after));
                turn.say_bootstrapped(false, "SetupRetried", message);
                turn.event(true, "SetupRetried", "SetUp", message).await;
            }
            (Ended::GivenUp { message }, _) => {
                setup.state = Some(SetupState::Waiting);
                setup.failures = setup.failures.saturating_add(1);
                setup.attempt = 0;
                // The release policy says what becomes of the host; where it stays, so long until the next run.
                let on_this_host = known.saturating_sub(bootstrap.failures_before).saturating_add(1);
                setup.not_before = Some(later(turn.now, backoff(on_this_host)));
                turn.say_bootstrapped(false, "SetupFailed", message);
                turn.event(true, "SetupFailed", "SetUp", message).await;
            }
            (Ended::NotBegun { reason, message, after }, _) => {
                setup.state = Some(SetupState::Waiting);
                setup.attempt = setup.attempt.saturating_sub(1);
                setup.not_before = Some(later(turn.now, *after));
                turn.say_bootstrapped(false, reason, message);
                turn.event(true, reason, "SetUp", message).await;
            }
        }
        turn.status.setup = Some(setup);
        turn.acted_upon().await
    }

    /// A host whose set-up failed was judged.
    async fn recovered(&mut self, released: &Released) -> Result<Action, Error> {
        let mut bootstrap = self.bootstrap();
        let (message, turn) = (released.words(), &mut self.turn);
        let known = failures(turn.object);
        let waits = matches!(released.outcome, ReleaseOutcome::AskAgain { .. });
        if let Some(waits) = turn.waits_for_release(released, waits).await? {
            return Ok(waits);
        }
        match &released.outcome {
            ReleaseOutcome::Kept => {
                bootstrap.judged_failures = known;
                turn.judged(Recovery::Kept, &message);
                turn.event(needs_people(released), "BootstrapRetried", "Recover", &message).await;
            }
            ReleaseOutcome::Rebooted => {
                bootstrap.judged_failures = known;
                bootstrap.rebooted = true;
                turn.judged(Recovery::Rebooted, &message);
                turn.event(true, "HostRebooted", "Recover", &message).await;
            }
            outcome if turn.owners.machine.is_some() || matches!(outcome, ReleaseOutcome::GivenUp) => {
                bootstrap.judged_failures = known;
                turn.give_up(&message).await;
            }
            outcome => {
                // Another host takes its place: first the old one is forgotten, in one write.
                let patch = json!({"spec": {"providerID": Value::Null}, "metadata": {"annotations": {
                    annotations::ORIGIN: Value::Null, annotations::SET_UP: Value::Null,
                }}});
                if turn.object.spec.provider_id.is_some() && !write_object(&turn.api, turn.object, patch).await? {
                    return Err(Error::Overtaken);
                }
                if !remove_foreign_condition(&turn.api, turn.object, conditions::BOOTSTRAPPED).await? {
                    return Err(Error::Overtaken);
                }
                credentials::clear(turn.context, turn.object).await?;
                metrics::counter!(metric_names::RELEASES, "outcome" => word(outcome)).increment(1);
                turn.event(true, "HostReplaced", "Recover", &message).await;
                bootstrap = BootstrapStatus { judged_failures: known, failures_before: known, rebooted: false };
                turn.status.ready = false;
                turn.status.server_id = None;
                turn.status.server_name = None;
                turn.status.addresses = Vec::new();
                turn.status.credentials_secret_name = None;
                turn.status.setup = turn.status.setup.take().map(|known| known.of_no_host());
                remove_condition(&mut turn.status.conditions, conditions::BOOTSTRAPPED);
                turn.say(Phase::Pending, "HostReplaced", &message);
            }
        }
        turn.status.bootstrap = Some(bootstrap);
        turn.acted_upon().await
    }
}
