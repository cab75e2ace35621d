//! The operations as sequences of stages, and their top: the one place where every error ends.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::Either;
use windlass_policy::slots::types::{Failure, FailureClass};

use crate::record::{Node, NodeRole, NodeState, Stage};
use crate::run::{Run, Stop};
use crate::selection::{ScaleRequest, select};
use crate::stages::hook::run_hook;
use crate::stages::look::look;
use crate::stages::servers::{CloudInits, cloud_inits, make, remove};
use crate::stages::validate::{growing, validate};
use crate::stages::wait::{prepare, wait};
use crate::{ClusterOutcome, Error, handler};

/// Where an operation begins in this process.
pub(crate) enum Start {
    /// At the first stage of a creation.
    Create,
    /// At the first stage of a scaling that is to do this.
    Scale(ScaleRequest),
    /// At the first stage of a termination.
    Terminate,
    /// In the handler: an earlier process ended in the middle.
    Handler(Stop),
}

/// Runs an operation to its end. Whatever stops its stages comes here, and from here to the one handler.
pub(crate) async fn perform(run: &Run, start: Start) -> Result<ClusterOutcome, Error> {
    let ended = match start {
        Start::Create => watched(run, create(run)).await,
        Start::Scale(request) => watched(run, scale(run, &request)).await,
        // It is what somebody who deletes wants: nothing calls it off.
        Start::Terminate => terminate(run).await,
        Start::Handler(stop) => Err(stop),
    };
    let stop = match ended {
        Ok(()) => match handler::succeed(run).await {
            Ok(outcome) => return Ok(outcome),
            Err(stop) => stop,
        },
        Err(stop) => stop,
    };
    handler::handle(run, stop).await
}

/// Validate → servers → wait → prepare → configure → start.
async fn create(run: &Run) -> Result<(), Stop> {
    let growing = growing(run);
    validate(run, &growing).await?;
    let contents = cloud_inits(run, Stage::Validate, &growing).await?;
    let made = run.names_of(NodeRole::Made);
    make(run, Stage::Servers, &made, &contents, &run.control.child_for(None)).await?;
    wait(run, Stage::Wait, &made).await?;
    prepare(run, Stage::Prepare, &made).await?;
    configure_and_start(run).await
}

/// Look at the nodes → choose → validate, where nodes are to be made → decommission → resize → configure → start.
async fn scale(run: &Run, request: &ScaleRequest) -> Result<(), Stop> {
    let gone = look(run, Stage::Validate).await?;
    choose(run, request, &gone).await?;
    let growing = growing(run);
    if !growing.is_empty() {
        validate(run, &growing).await?;
    }
    let contents = cloud_inits(run, Stage::Validate, &growing).await?;
    let leaving = run.names(|node| node.role == NodeRole::Leaving && node.awaits_decommission());
    run_hook(run, Stage::Decommission, &leaving).await?;
    resize(run, &contents).await?;
    configure_and_start(run).await
}

/// Notes who leaves and who is made: after the look, since a choice made from what was known before could remove a node
/// too many.
async fn choose(run: &Run, request: &ScaleRequest, gone: &BTreeSet<String>) -> Result<(), Stop> {
    let selected = {
        let book = run.book.lock();
        let nodes: Vec<Node> = book.nodes.values().cloned().collect();
        select(&book.cluster, &nodes, request, gone)
    };
    let refused = |error: Error| {
        Stop::failed(Stage::Validate, Failure::of_class(FailureClass::InvalidArguments, error.to_string()))
    };
    let selection = selected.map_err(refused)?;
    run.change(|book, change| {
        book.cluster.last_index = selection.last_index;
        book.nodes.extend(selection.nodes.iter().map(|node| (node.name.clone(), node.clone())));
        change.cluster = Some(book.cluster.clone());
        change.nodes = selection.nodes;
    })
    .await
}

/// Leaving nodes go and new ones come, at the same time. Going is always finished; coming is called off when going
/// fails.
async fn resize(run: &Run, contents: &CloudInits) -> Result<(), Stop> {
    let leaving = run.names(|node| node.role == NodeRole::Leaving && node.exists());
    let made = run.names_of(NodeRole::Made);
    let come = run.control.child_for(None);
    let going = async {
        if leaving.is_empty() {
            return Ok(());
        }
        let gone = remove(run, Stage::Resize, &leaving).await;
        if gone.is_err() {
            come.cancel();
        }
        gone
    };
    let coming = async {
        if made.is_empty() {
            return Ok(());
        }
        make(run, Stage::Resize, &made, contents, &come).await?;
        // From here on nothing is made: it may just end.
        let ready = async {
            wait(run, Stage::Resize, &made).await?;
            prepare(run, Stage::Resize, &made).await
        };
        tokio::select! {
            biased;
            ready = ready => ready,
            () = come.cancelled().cancelled() => Err(Stop::called_off(Stage::Resize)),
        }
    };
    match futures::future::join(going, coming).await {
        (Ok(()), Ok(())) => Ok(()),
        (Err(stop), Ok(())) | (Ok(()), Err(stop)) => Err(stop),
        (Err(going), Err(coming)) => Err(going.or_graver(coming)),
    }
}

/// Every node that is to stay and is not configured, or not started: the new ones, and those that an earlier operation
/// left so.
async fn configure_and_start(run: &Run) -> Result<(), Stop> {
    let stays = |node: &Node| node.role != NodeRole::Leaving && node.state == NodeState::Running;
    run_hook(run, Stage::Configure, &run.names(|node| stays(node) && !node.configured)).await?;
    run_hook(run, Stage::Start, &run.names(|node| stays(node) && !node.started)).await
}

/// Decommission, unless it is forced → servers.
async fn terminate(run: &Run) -> Result<(), Stop> {
    let (force, has_hook) = {
        let book = run.book.lock();
        (book.operation.force, book.cluster.specification.hooks.decommission.is_some())
    };
    if !force {
        // Only a hook has to know the nodes as they are: each removal reads what it removes.
        if has_hook && !run.names(Node::awaits_decommission).is_empty() {
            look(run, Stage::Decommission).await?;
        }
        run_hook(run, Stage::Decommission, &run.names(Node::awaits_decommission)).await?;
    }
    let all = run.names(|_| true);
    remove(run, Stage::Servers, &all).await
}

/// Runs the stages, and calls them off as soon as another process requests it: the one place where a running operation
/// looks whether its cluster is still wanted, since without it a wait could last for hours. It decides nothing: what
/// the request means, the handler sees.
async fn watched(run: &Run, stages: impl Future<Output = Result<(), Stop>>) -> Result<(), Stop> {
    let watch = watch(run, run.shared.limits.watch_interval);
    match futures::future::select(std::pin::pin!(stages), std::pin::pin!(watch)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), stages)) => stages.await,
    }
}

async fn watch(run: &Run, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        match run.shared.store.requests(&run.name, run.fence).await {
            Ok(Some(requests)) if !requests.cancel && !requests.delete => {}
            // A store that cannot be read now says so at the next write, too.
            Err(error) => tracing::warn!(cluster = %run.name, %error, "cannot read the requests of other processes"),
            Ok(_) => {
                run.control.cancel();
                return;
            }
        }
    }
}
