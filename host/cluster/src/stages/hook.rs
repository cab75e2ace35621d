//! The user's hooks, as a stage: which nodes one is about, its retries under the retry slot, and what is stored of its
//! end.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_lifecycle::Attempts;

use crate::hooks::{HOOK_INPUT_VERSION, Hook, HookFailure, HookInput, HookNode, HookOutput};
use crate::record::{ClusterEventKind, Node, Stage};
use crate::run::{Book, MAX_WAITS, Run, Stop};
use crate::trace::Step;

/// Bytes of a hook's output in one event.
const EVENT_OUTPUT: usize = 4 * 1024;

fn hook_of(book: &Book, stage: Stage) -> (Option<Hook>, &'static str) {
    let hooks = &book.cluster.specification.hooks;
    match stage {
        Stage::Decommission => (hooks.decommission.clone(), "run the decommission hook"),
        Stage::Configure => (hooks.configure.clone(), "run the configure hook"),
        _ => (hooks.start.clone(), "run the start hook"),
    }
}

/// A node as a hook sees it.
pub(crate) fn hook_node(node: &Node) -> HookNode {
    HookNode {
        name: node.name.clone(),
        group: node.group.to_string(),
        index: node.index,
        role: node.role.for_policy(),
        configured: node.configured,
        server_id: node.server.clone().unwrap_or_default(),
        server_type: node.server_type.clone().unwrap_or_default(),
        public_addresses: node.addresses.clone(),
        private_addresses: node.private_addresses.clone(),
        ssh_host_key: node.ssh_host_key.clone(),
    }
}

fn input(book: &Book, stage: Stage, nodes: &[String]) -> HookInput {
    let about: BTreeSet<&String> = nodes.iter().collect();
    let (nodes, others): (Vec<&Node>, Vec<&Node>) =
        book.nodes.values().filter(|node| node.exists()).partition(|node| about.contains(&node.name));
    let in_order = |mut nodes: Vec<&Node>| {
        nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
        nodes.into_iter().map(hook_node).collect()
    };
    HookInput {
        version: HOOK_INPUT_VERSION,
        cluster: book.cluster.name.to_string(),
        zone: book.cluster.specification.zone.to_string(),
        operation: book.operation.kind.for_policy(),
        operation_id: book.operation.id(&book.cluster.name),
        operation_number: book.operation.number,
        stage: stage.for_policy(),
        attempt: 1,
        nodes: in_order(nodes),
        others: in_order(others),
    }
}

fn mark(node: &mut Node, stage: Stage) {
    match stage {
        Stage::Decommission => (node.decommissioned, node.decommission_began) = (true, false),
        Stage::Configure => node.configured = true,
        _ => node.started = true,
    }
}

/// Runs the stage's hook for these nodes. Without a hook, or without nodes, the stage is done.
pub(crate) async fn run_hook(run: &Run, stage: Stage, nodes: &[String]) -> Result<(), Stop> {
    let (hook, words) = hook_of(&run.book.lock(), stage);
    let step = run.begin_step(stage, words, nodes.len()).await?;
    if nodes.is_empty() {
        return Ok(());
    }
    let Some(hook) = hook else { return finish(run, step, nodes, None).await };
    if run.control.cancelled().is_cancelled() {
        return Err(Stop::called_off(stage));
    }
    let begun_before = note_begun(run, stage, nodes).await?;
    let mut next = input(&run.book.lock(), stage, nodes);
    // The hook has a time limit of its own.
    let mut attempts = Attempts::waiting_within(MAX_WAITS);
    let mut ends_known = true;
    let (stopped, error) = loop {
        let span = run.trace.hook(step, &hook, &next);
        let ended = run_until_called_off(run, &hook, &next).instrument(span.clone()).await;
        if let Err(error) = &ended {
            span.record("error", tracing::field::display(error));
        }
        drop(span);
        let error = match ended {
            Ok(output) => return finish(run, step, nodes, Some(&output)).await,
            Err(error) => error,
        };
        ends_known &= error.problem.is_end_known();
        // The nodes for which it ended well are not asked of it again.
        next = next.next_attempt(&error.output.succeeded());
        if run.control.left().is_cancelled() {
            break (Stop::Left, error);
        }
        if run.control.cancelled().is_cancelled() {
            break (Stop::called_off(stage), error);
        }
        match run.after_failure(step, &mut attempts, error.for_retry()).await {
            Ok(()) => {}
            Err(Stop::Failed(mut failed)) => {
                if failed.failure == error.for_retry() {
                    failed.failure = error.for_provisioning();
                }
                break (Stop::Failed(failed), error);
            }
            Err(graver) => break (graver, error),
        }
    };
    if matches!(stopped, Stop::Gone | Stop::Overtaken | Stop::Store(_)) {
        return Err(stopped);
    }
    let still: Vec<String> = next.nodes.into_iter().map(|node| node.name).collect();
    let failed: BTreeSet<&String> = still.iter().collect();
    let done: Vec<String> = nodes.iter().filter(|name| !failed.contains(name)).cloned().collect();
    finish(run, step, &done, Some(&error.output)).await?;
    let at = run.now();
    let words = error.to_string();
    run.change(|book, change| {
        for name in &still {
            // It has failed for them, which is known; what came of one that was ended in the middle, or of an earlier
            // one that nobody noted, is not.
            let began = |node: &&mut Node| node.decommission_began && ends_known && !begun_before.contains(name);
            if let Some(node) = book.nodes.get_mut(name).filter(began) {
                node.decommission_began = false;
                change.nodes.push(node.clone());
            }
            change.events.push((at, Run::failed(step, name, &words)));
        }
    })
    .await?;
    Err(stopped)
}

/// Before the hook runs: from now on these nodes may hold data, or may be decommissioned. Gives those of which an
/// earlier decommission began that has no known end.
async fn note_begun(run: &Run, stage: Stage, nodes: &[String]) -> Result<BTreeSet<String>, Stop> {
    let mut begun_before = BTreeSet::new();
    run.change(|book, change| {
        for name in nodes {
            let Some(node) = book.nodes.get_mut(name) else { continue };
            if node.decommission_began {
                begun_before.insert(name.clone());
            }
            match stage {
                Stage::Configure => node.configure_began = true,
                Stage::Decommission => node.decommission_began = true,
                _ => continue,
            }
            change.nodes.push(node.clone());
        }
    })
    .await?;
    Ok(begun_before)
}

/// Runs a hook once. Called off, it is ended, and tells for which nodes it was done until then.
async fn run_until_called_off(run: &Run, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
    let stop = CancellationToken::new();
    let called_off = async {
        tokio::select! {
            () = run.control.left().cancelled() => {}
            () = run.control.cancelled().cancelled() => {}
        }
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = called_off => unreachable!("it waits for ever once it has reported the cancellation"),
        ended = run.shared.hooks.run_until(hook, input, &stop) => ended,
    }
}

async fn finish(run: &Run, step: Step, nodes: &[String], output: Option<&HookOutput>) -> Result<(), Stop> {
    let at = run.now();
    run.change(|book, change| {
        for name in nodes {
            let Some(node) = book.nodes.get_mut(name) else { continue };
            mark(node, step.stage);
            change.events.push((at, Run::done(step, name)));
            change.nodes.push(node.clone());
        }
        let Some(output) = output else { return };
        for of_node in &output.nodes {
            let Some(node) = book.nodes.get_mut(&of_node.node) else { continue };
            // What it showed first is what it must show ever after.
            if node.ssh_host_key.is_none() && of_node.host_key.is_some() {
                node.ssh_host_key = of_node.host_key.clone();
                change.nodes.push(node.clone());
            }
        }
        let said = said(output);
        if !said.is_empty() {
            change.events.push((at, ClusterEventKind::HookOutput { stage: step.stage, output: said }));
        }
    })
    .await
}

/// What a hook wrote, for the history: the ends of its streams, within a bound.
fn said(output: &HookOutput) -> String {
    let mut parts = vec![output.stdout.text.trim_end().to_owned(), output.stderr.text.trim_end().to_owned()];
    for node in &output.nodes {
        for stream in [&node.stdout, &node.stderr] {
            if !stream.text.trim().is_empty() {
                parts.push(format!("{}: {}", node.node, stream.text.trim_end()));
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    let text = parts.join("\n");
    let mut start = text.len().saturating_sub(EVENT_OUTPUT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}
