//! The five acts.

use std::time::{Duration, Instant};

use windlass_inspect::failure::Failure;
use windlass_inspect::text::{cyan, dim, green, red, yellow};
use windlass_lifecycle::{Control, Error, Event, EventKind, Machine, OperationId, OperationState, SubjectOf, Target};
use windlass_policy::slots::state_mapping::{Action, Question, Report, Server, StateDetail, Verdict};
use windlass_policy::slots::{SlotName, StateMapping};
use windlass_policy::{Decision, PolicyIdentity};
use windlass_simulator::{FaultKind, FaultRule, ForcedState};

use super::narrator::Narrator;
use super::stage::{GRACE_FOR_STOPPED, Stage, broken};

/// Servers of the first act.
const SERVERS: usize = 5;
/// Servers that are being created while the policy is swapped.
const DURING_SWAP: usize = 2;
/// The grace that the example policy gives by default, and a little more.
const GRACE: Duration = Duration::from_secs(601);
/// A policy that is not in place by then never will be.
const MAX_SWAP: Duration = Duration::from_secs(20);

pub(super) async fn play(stage: &mut Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    create(stage, narrator).await?;
    stage.pause(1.2).await;
    fail(stage, narrator).await?;
    stage.pause(1.5).await;
    swap(stage, narrator).await?;
    stage.pause(1.2).await;
    reap(stage, narrator).await?;
    stage.pause(1.2).await;
    delete(stage, narrator).await
}

async fn create(stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    narrator.act(&format!("{SERVERS} servers at once, each whole or not at all"));
    let began = Instant::now();
    let (control, mut events) = Control::with_events();
    let specification = stage.specification()?;
    let creating = async {
        let results = stage.lifecycle.create_servers(&specification, SERVERS, &control).await;
        drop(control);
        results
    };
    let telling = async {
        while let Some(event) = events.recv().await {
            if let EventKind::Closed { state: OperationState::Done } = event.what {
                let seconds = began.elapsed().as_secs_f64();
                narrator.line(&format!("✔ {} runs after {seconds:.1} s", event.operation), green);
            }
        }
    };
    let (results, ()) = tokio::join!(creating, telling);
    for result in results {
        result.map_err(broken)?;
    }
    narrator.plain(&format!(
        "{} · {} API calls · each step was journalled before its call left",
        stage.inventory(),
        stage.simulator.requests().len()
    ));
    Ok(())
}

async fn fail(stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    narrator.act("One more, but Scaleway answers its power-on with 500, again and again");
    let before = stage.inventory();
    let retry = in_use(stage, SlotName::Retry)?.to_string();
    let power_on = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError);
    stage.simulator.add_fault(power_on).map_err(broken)?;
    let (control, mut events) = Control::with_events();
    let specification = stage.specification()?;
    let creating = async {
        let result = stage.lifecycle.create_server(specification, &control).await;
        drop(control);
        result
    };
    let telling = async {
        let mut undoing = false;
        while let Some(event) = events.recv().await {
            undoing |= matches!(event.what, EventKind::Undoing { .. });
            tell_failure(narrator, &event, undoing, &retry);
        }
    };
    let (result, ()) = tokio::join!(creating, telling);
    stage.simulator.clear_faults();
    match result {
        Err(Error::Failed(failed)) if failed.report.is_clean() => {
            for reason in &failed.reasons {
                narrator.line(&format!("why it was given up: “{reason}”"), dim);
            }
            narrator.line(&format!("✔ {}", failed.report.words()), green);
        }
        Err(error) => return Err(broken(error)),
        Ok(_) => return Err(broken("the injected failure did not happen")),
    }
    let after = stage.inventory();
    if before != after {
        return Err(broken(format!("there were {before}, and now there are {after}")));
    }
    narrator.plain(&format!("{after}, as before"));
    Ok(())
}

fn tell_failure(narrator: &mut Narrator, event: &Event, undoing: bool, retry: &str) {
    match &event.what {
        EventKind::StepDone { step, resource: Some(resource) } if !undoing => {
            narrator.line(&format!("  {step}: {} {}", resource.kind, short(&resource.id)), dim);
        }
        EventKind::Waiting { step, attempt, milliseconds, failure, reason } => {
            let words = brief(failure);
            let reason = reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
            let line = format!("✘ {step}, attempt {attempt}: {words} → {retry}: again in {milliseconds} ms{reason}");
            narrator.line(&line, yellow);
        }
        EventKind::Undoing { cause, resources, decided_by, reason } => {
            if let Some(cause) = cause {
                narrator.line(&format!("✘ given up: {}", brief(cause)), red);
            }
            let reason = reason.as_ref().map(|reason| format!(", “{reason}”")).unwrap_or_default();
            narrator.line(&format!("↩ undo {} resources, planned by {decided_by}{reason}", resources.len()), cyan);
        }
        EventKind::StepDone { step, resource: Some(resource) } => {
            narrator.line(&format!("  {step}: {} {}", resource.kind, short(&resource.id)), dim);
        }
        _ => {}
    }
}

/// A failure without its status, type and path, which would fill two lines.
fn brief(failure: &str) -> &str {
    failure.split(" (").next().unwrap_or(failure)
}

/// The beginning of an id, as people quote it.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// The first policy of a slot's chain, as it is now.
fn in_use(stage: &Stage, slot: SlotName) -> Result<PolicyIdentity, Failure> {
    let chain = stage.policies.pin().chain(slot);
    chain.into_iter().next().ok_or_else(|| broken(format!("the slot {slot} has no policy")))
}

async fn swap(stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    narrator.act("A policy is replaced while servers are being created");
    let old = in_use(stage, SlotName::StateMapping)?;
    let (control, mut events) = Control::with_events();
    let specification = stage.specification()?;
    let creating = async {
        let results = stage.lifecycle.create_servers(&specification, DURING_SWAP, &control).await;
        drop(control);
        results
    };
    let swapping = async {
        // Both have begun, under the old policy, before the file is touched.
        let mut begun: Vec<OperationId> = Vec::new();
        while begun.len() < DURING_SWAP {
            let Some(event) = events.recv().await else { break };
            if matches!(event.what, EventKind::Opened) {
                begun.push(event.operation);
            }
        }
        let file = stage.policy_file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        narrator.plain(&format!("{file} is {old}; {} creations have begun under it", begun.len()));
        let began = Instant::now();
        // A rename, as every deployment does it: nobody ever reads half a file.
        let next = stage.policy_file.with_extension("new");
        std::fs::write(&next, GRACE_FOR_STOPPED).map_err(broken)?;
        std::fs::rename(&next, &stage.policy_file).map_err(broken)?;
        let new = loop {
            let now = in_use(stage, SlotName::StateMapping)?;
            if now.component != old.component {
                break now;
            }
            if began.elapsed() > MAX_SWAP {
                return Err(broken("the replaced policy was not taken up"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        narrator.line(
            &format!("⇄ replaced by {new} after {} ms: loaded, checked, tried, swapped", began.elapsed().as_millis()),
            cyan,
        );
        while events.recv().await.is_some() {}
        Ok::<_, Failure>(begun)
    };
    let (results, begun) = tokio::join!(creating, swapping);
    for result in results {
        result.map_err(broken)?;
    }
    for id in begun? {
        let operation = stage.journal().operation(&id).map_err(broken)?;
        let identities: Vec<PolicyIdentity> = serde_json::from_value(operation.policies).map_err(broken)?;
        if !identities.iter().any(|identity| identity.component == old.component) {
            return Err(broken(format!("{id} did not keep the policy it began with")));
        }
        narrator.line(&format!("✔ {id} ended under {}, with which it began", old.component.short()), green);
    }
    Ok(())
}

/// One look at our servers, as a runner's plugin does it: one question for the whole batch.
async fn look(stage: &Stage, stopped_for: Duration) -> Result<(Vec<Machine>, Decision<StateMapping>), Failure> {
    let machines = stage.lifecycle.machines(std::slice::from_ref(&stage.zone), None).await.map_err(broken)?;
    let age = u64::try_from(stage.simulator.now().as_millis()).unwrap_or(u64::MAX);
    let state_age = u64::try_from(stopped_for.as_millis()).unwrap_or(u64::MAX);
    let subject = stage.lifecycle.subject(SubjectOf::default());
    let mut question = Question::of_listing(age, stage.zone.as_str(), subject, Vec::new());
    for machine in &machines {
        let server = Server { age, state_age, detail: StateDetail::None, ..machine.for_policy(age) };
        question.push(server, &machine.server_type, &[]);
    }
    let decision = stage.policies.pin().decide::<StateMapping>(question).await;
    Ok((machines, decision))
}

/// What the decision says about one server: the report, whether to reap it, and why.
fn verdict(decision: &Decision<StateMapping>, position: usize) -> Result<(Report, bool, String), Failure> {
    let answer = decision.answer.get(position).ok_or_else(|| broken("an answer is missing"))?;
    let Verdict::Mapped(mapping) = &answer.verdict else { return Err(broken("nobody decided")) };
    Ok((mapping.report, mapping.action == Action::Reap, answer.reason.clone().unwrap_or_default()))
}

async fn reap(stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    narrator.act("Somebody stops a server behind our back");
    let (machines, _) = look(stage, Duration::ZERO).await?;
    let victim = machines.first().ok_or_else(|| broken("there is no server to stop"))?;
    stage.simulator.set_server_state(&victim.id, ForcedState::Stopped).map_err(broken)?;

    let (machines, decision) = look(stage, Duration::from_secs(1)).await?;
    let position = position_of(&machines, &victim.id)?;
    let (report, reaped, why) = verdict(&decision, position)?;
    if reaped {
        return Err(broken("the new policy did not give the stopped server its time of grace"));
    }
    narrator.line(
        &format!(
            "{} is stopped; one question for all {} servers: report it as {}, “{why}”",
            victim.name,
            machines.len(),
            word(&report)
        ),
        yellow,
    );

    stage.simulator.advance(GRACE);
    let (machines, decision) = look(stage, GRACE).await?;
    let (_, reaped, why) = verdict(&decision, position_of(&machines, &victim.id)?)?;
    if !reaped {
        return Err(broken("the stopped server was not to be reaped after its time of grace"));
    }
    let who = decider(stage, &decision, position_of(&machines, &victim.id)?)?;
    narrator.line(&format!("ten simulated minutes later: reap it, “{why}”, says {who}"), cyan);
    let target = Target::Server { zone: stage.zone.clone(), id: victim.id.clone() };
    let cleaned = stage.lifecycle.cleanup(&target, &Control::new()).await.map_err(broken)?;
    if !cleaned.report.is_clean() {
        return Err(broken(cleaned.report.words()));
    }
    narrator.line(&format!("✔ {}", cleaned.report.words()), green);
    Ok(())
}

/// Who decided about one server of the batch: the first policy that did not leave it to the next.
fn decider(stage: &Stage, decision: &Decision<StateMapping>, position: usize) -> Result<String, Failure> {
    stage.policies.flush_decisions();
    let record = stage.policies.decisions().and_then(|log| log.show(&decision.id.to_string())).map_err(broken)?;
    let was_asked = |items: &Option<Vec<u32>>| items.as_ref().is_none_or(|items| items.contains(&(position as u32)));
    let last = record.asked.iter().rfind(|asked| was_asked(&asked.items));
    Ok(last.map_or_else(|| decision.decided_by.to_string(), |asked| asked.policy.to_string()))
}

fn position_of(machines: &[Machine], id: &str) -> Result<usize, Failure> {
    machines.iter().position(|machine| machine.id == id).ok_or_else(|| broken("the stopped server is not listed"))
}

fn word(report: &Report) -> String {
    serde_json::to_value(report).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

async fn delete(stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    narrator.act("Everything is deleted");
    let before = stage.inventory();
    let began = Instant::now();
    let machines = stage.lifecycle.machines(std::slice::from_ref(&stage.zone), None).await.map_err(broken)?;
    let cleanups = machines.iter().map(|machine| {
        let target = Target::Server { zone: stage.zone.clone(), id: machine.id.clone() };
        async move { stage.lifecycle.cleanup(&target, &Control::new()).await }
    });
    for cleaned in futures::future::join_all(cleanups).await {
        let cleaned = cleaned.map_err(broken)?;
        if !cleaned.report.is_clean() {
            return Err(broken(cleaned.report.words()));
        }
    }
    narrator
        .line(&format!("✔ {before} before, {} {:.1} s later", stage.inventory(), began.elapsed().as_secs_f64()), green);
    Ok(())
}
