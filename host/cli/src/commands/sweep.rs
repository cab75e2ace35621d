//! `windlass sweep`: what is ours, and explained by nothing. What would be removed is shown and confirmed first, and no
//! more than that is removed.

use std::collections::BTreeSet;

use serde::Serialize;
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::{Listing, with_notes};
use windlass_lifecycle::{Control, LeftResource, RequestedBy, Sweep, SweepRequest, Unexplained};

use super::lifecycle::{left_open_words, lifecycle_failure, take_up, undone_line};
use crate::arguments;
use crate::confirmation::{Confirmation, DRY_RUN, Planned, name_or_id};
use crate::context::{Context, Work};
use crate::interrupt;
use crate::progress::Progress;
use windlass_inspect::words::{counted, human_duration};

/// Document of `sweep`.
#[derive(Serialize)]
struct Swept {
    #[serde(flatten)]
    sweep: Sweep,
    /// What is said where nothing is unexplained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(crate) async fn run(context: &Context, arguments: arguments::Sweep) -> Result<(), Failure> {
    let confirmation =
        (!arguments.dry_run).then(|| Confirmation::source(arguments.yes, "sweep", DRY_RUN)).transpose()?;
    let work = context.work(None, None)?;
    let mut request = SweepRequest::new(vec![work.zone.clone()]);
    request.dry_run = arguments.dry_run;
    request.requested_by = RequestedBy::user("sweep");
    request.running_too = arguments.running_too;
    if let Some(grace) = arguments.older_than {
        request.grace = grace;
    }
    if confirmation == Some(Confirmation::OnTerminal) {
        confirm(&work, &mut request).await?;
    }
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen(&control, context.output, interrupt::REMOVING)?;
    let progress = Progress::follow(events, 0, context.output, context.verbose());
    let mut beside = None;
    if !arguments.dry_run {
        beside = Some(take_up(context, &work, &control, true).await?);
    }
    let result = work.lifecycle.sweep(&request, &control).await;
    let left_beside = match beside {
        Some(beside) => beside.end().await,
        None => Vec::new(),
    };
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    progress.end().await;
    let swept = result.map_err(|error| failed(&error).with_left_beside(left_beside))?;

    if !arguments.dry_run && !swept.is_clean() {
        let removals = swept.cleanups.iter().map(|cleanup| cleanup.report.aftermath());
        let aftermaths = swept.failures.iter().map(|failure| failure.aftermath.clone()).chain(removals);
        let mut failure = Failure::undone("the sweep could not remove everything")
            .remedy("remove the causes, then sweep again")
            .with_partial(serde_json::to_value(&swept).unwrap_or_default())
            .ended(aftermaths, untouched(&swept).collect(), was_interrupted);
        // What could not be seen may be left.
        if failure.exit != Exit::Interrupted {
            failure.exit = Exit::Left;
        }
        failure.causes.extend(swept.failures.iter().map(|failed| format!("{}: {}", failed.zone, failed.problem)));
        for cleanup in &swept.cleanups {
            failure.undone.extend(undone_line(&cleanup.operation, &cleanup.report));
        }
        return Err(failure);
    }
    let nothing = swept.unexplained.is_empty();
    let notes = if nothing { context.other_owners(&work.state, true).await } else { Vec::new() };
    let swept = Swept { sweep: swept, notes };
    context.output.result(&swept, || {
        let Swept { sweep: swept, notes } = &swept;
        let mut text = String::new();
        if let Some(evidence) = &swept.moved {
            text.push_str(&format!("the state directory cannot be relied on, and removes nothing: {evidence}\n"));
        }
        if swept.unexplained.is_empty() {
            text.push_str(match swept.young {
                0 => "nothing is unexplained\n",
                _ => "nothing that was judged is unexplained\n",
            });
        } else {
            let became = if arguments.dry_run { "would be" } else { "was" };
            text.push_str(&listing(&swept.unexplained, became).table(context.output.is_wide()));
        }
        text.push_str(&format!("{} explained, {} kept on purpose\n", swept.explained, swept.kept.len()));
        if swept.young > 0 {
            let not_judged = counted(swept.young, "resource");
            let grace = human_duration(request.grace);
            text.push_str(&format!(
                "{not_judged} not judged: made less than {grace} ago (--older-than), or their operation has just ended\n"
            ));
        }
        if !swept.abandoned.is_empty() {
            text.push_str(&format!(
                "{} abandoned on purpose and left alone; `windlass server delete` removes a server with its parts:\n",
                swept.abandoned.len()
            ));
            swept.abandoned.iter().for_each(|name| text.push_str(&format!("  {name}\n")));
        }
        with_notes(&text, notes)
    });
    Ok(())
}

fn listing<'f>(unexplained: &'f [Unexplained], became: &'static str) -> Listing<'f, Unexplained> {
    Listing::new(unexplained, "", |found: &Unexplained| found.resource.id.clone())
        .column("kind", |found| found.resource.kind.to_string())
        .column("id", |found| found.resource.id.clone())
        .spare(3)
        .column("zone", |found| found.resource.zone.clone())
        .spare(4)
        .column("name", |found| name_or_id(&found.label, &found.resource.id).to_owned())
        .column("state", |found| found.state.clone())
        .spare(2)
        .column("why", |found| found.why.clone())
        .spare(1)
        .column(became, |found| {
            found.spared.as_ref().map_or_else(|| "removed".to_owned(), |why| format!("spared: {why}"))
        })
}

fn failed(error: &windlass_lifecycle::Error) -> Failure {
    lifecycle_failure("the sweep failed", error)
}

/// Looks, shows, asks, and binds the sweep to what was shown.
async fn confirm(work: &Work, request: &mut SweepRequest) -> Result<(), Failure> {
    let mut look = request.clone();
    look.dry_run = true;
    work.lifecycle.check_history_in(&request.zones).await.map_err(|error| failed(&error))?;
    let seen = work.lifecycle.sweep(&look, &Control::new()).await.map_err(|error| failed(&error))?;
    request.only = Some(removable(&seen).map(|found| found.resource.clone()).collect());
    let planned: Vec<Planned> = removable(&seen).map(planned).collect();
    if planned.is_empty() {
        return Ok(());
    }
    let open = left_open_words(work)?;
    Confirmation::OnTerminal.ask(&planned, &format!("{open}Remove {}?", counted(planned.len(), "resource"))).await
}

/// What was to be removed and stands in no report, since its removal failed or never began.
fn untouched(swept: &Sweep) -> impl Iterator<Item = Leftover> {
    let reports = swept.cleanups.iter().map(|cleanup| &cleanup.report);
    let reported: BTreeSet<&str> = reports
        .flat_map(|report| {
            let left = report.left.iter().map(|left| &left.resource);
            report.removed.iter().chain(&report.kept).chain(&report.not_ours).chain(left)
        })
        .map(|name| name.id.as_str())
        .collect();
    removable(swept).filter(move |found| !reported.contains(found.resource.id.as_str())).map(|found| {
        let why = format!("it was not removed: {}", found.why);
        LeftResource { resource: found.resource.clone(), why }.into()
    })
}

fn removable(seen: &Sweep) -> impl Iterator<Item = &Unexplained> {
    seen.unexplained.iter().filter(|found| found.spared.is_none())
}

fn planned(found: &Unexplained) -> Planned {
    Planned {
        kind: found.resource.kind.to_string(),
        id: found.resource.id.clone(),
        name: found.label.clone(),
        state: found.state.clone(),
        why: found.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spared_resource_is_named_within_sixty_columns() {
        let found = Unexplained {
            resource: serde_json::from_value(serde_json::json!({
                "kind": "block-volume", "id": "0b7d6a51-92a0-4f8c-a0ec-7c8d1f6f8a10", "zone": "fr-par-1"
            }))
            .expect("a resource"),
            label: "web-0nqrsxtrgyns".to_owned(),
            state: "in_use".to_owned(),
            operation: None,
            why: "no operation in the journal made it".to_owned(),
            spared: Some("it is attached to a server that runs, and --running-too is not given".to_owned()),
        };
        let table = listing(&[found], "would be").table_within(Some(60));
        assert!(table.lines().all(|line| line.chars().count() <= 60), "{table}");
        assert!(table.contains("web-0nqrsxtrgyns") && table.contains("spared: "), "{table}");
    }
}
