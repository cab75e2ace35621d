//! What to do next about a cluster of servers, as a function on data: nothing here calls anybody.

use std::time::Duration;

use jiff::Timestamp;
use windlass_cluster::ClusterState;

use crate::job_kind::JobKind;
use crate::kinds::{AttemptStatus, OperationStatus};
use crate::outcome::not_yet;

/// Interruptions in a row after which the same is not begun again by itself: a controller that dies of an operation
/// must not make servers for ever.
pub(super) const MAX_INTERRUPTIONS: usize = 3;

/// The cluster that the object's record tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedCluster {
    pub(super) state: ClusterState,
    /// Whether an operation is open.
    pub(super) open: bool,
    /// Whether it was ever active.
    pub(super) established: bool,
    /// Whether its nodes are not those that the specification asks for.
    pub(super) differs: bool,
}

/// What the operations before tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// The number of the last one that has ended, 0 without one.
    pub(super) last: u64,
    /// How many of the last ones in a row were interrupted: their process died.
    pub(super) interruptions: usize,
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) deleting: bool,
    pub(super) finalizer: bool,
    pub(super) paused: bool,
    /// Whether its nodes are to be left alone when it is deleted.
    pub(super) abandoned: bool,
    /// Why the object's record cannot be read, where it cannot.
    pub(super) unreadable: Option<&'a str>,
    /// Why its specification cannot be used, where it cannot.
    pub(super) misconfigured: Option<&'a str>,
    pub(super) busy: Option<JobKind>,
    pub(super) recorded: Option<RecordedCluster>,
    pub(super) past: Past,
    pub(super) generation: i64,
    pub(super) retry: Option<&'a str>,
    pub(super) attempt: Option<&'a AttemptStatus>,
    pub(super) last: Option<&'a OperationStatus>,
    pub(super) now: Timestamp,
}

/// Work on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Create it.
    Create,
    /// Remove what a failed creation left, and create it.
    CreateAnew,
    /// Make its nodes those that the specification asks for.
    Scale,
    /// End what a dead controller left open.
    Resume,
    /// Take all of it away.
    Terminate,
}

impl Work {
    pub(super) const fn job(self) -> JobKind {
        match self {
            Self::Create | Self::CreateAnew => JobKind::Create,
            Self::Scale => JobKind::Scale,
            Self::Resume => JobKind::Resume,
            Self::Terminate => JobKind::Terminate,
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing of ours is attached to the object.
    Nothing,
    /// Nothing is begun while it is paused.
    Pause,
    /// Write the finalizer, before anything is called.
    Mark,
    /// An operation is under way.
    Follow,
    /// Not yet.
    Wait(Duration),
    /// It cannot be.
    Misconfigured(String),
    /// Start it.
    Start(Work),
    /// There is nothing to do: it is as it should be, or what was tried has failed and is not tried again by itself.
    Settled,
    /// Leave the nodes of the deleted cluster alone, and let the object go.
    Abandon,
    /// Take the finalizer away.
    RemoveFinalizer,
}

pub(super) fn decide(seen: &Observed<'_>) -> Next {
    if seen.deleting && !seen.finalizer {
        return Next::Nothing;
    }
    if seen.busy.is_some() {
        // One that is deleted is called off by its own operation, which looks for that.
        return Next::Follow;
    }
    if seen.paused {
        return Next::Pause;
    }
    if !seen.finalizer {
        return Next::Mark;
    }
    if let Some(problem) = seen.unreadable {
        return Next::Misconfigured(problem.to_owned());
    }
    if seen.deleting {
        // What is there goes, also of a specification that asks for what cannot be.
        return match seen.recorded {
            None => Next::RemoveFinalizer,
            Some(_) if seen.abandoned => Next::Abandon,
            Some(_) => after_backoff(seen, Work::Terminate),
        };
    }
    if let Some(problem) = seen.misconfigured {
        return Next::Misconfigured(problem.to_owned());
    }
    let Some(recorded) = seen.recorded else { return once(seen, Work::Create) };
    if recorded.open {
        return after_backoff(seen, Work::Resume);
    }
    match recorded.state {
        ClusterState::Active if !recorded.differs => Next::Settled,
        // What never was a cluster is not mended node by node.
        _ if !recorded.established => once(seen, Work::CreateAnew),
        _ => once(seen, Work::Scale),
    }
}

/// Whether what the object asks for now was begun already, and came to an end of its own.
pub(super) fn is_tried(seen: &Observed<'_>) -> bool {
    let Some(attempt) = seen.attempt.filter(|attempt| is_same(seen, attempt)) else { return false };
    if attempt.refused.is_some() {
        return true;
    }
    let ended = seen.past.last >= attempt.operation;
    ended && (seen.past.interruptions == 0 || seen.past.interruptions >= MAX_INTERRUPTIONS)
}

fn is_same(seen: &Observed<'_>, attempt: &AttemptStatus) -> bool {
    attempt.generation == seen.generation && attempt.retry.as_deref() == seen.retry
}

fn once(seen: &Observed<'_>, work: Work) -> Next {
    if is_tried(seen) {
        return Next::Settled;
    }
    // What is asked for anew does not wait for what failed before.
    match seen.attempt {
        Some(attempt) if is_same(seen, attempt) => after_backoff(seen, work),
        _ => Next::Start(work),
    }
}

fn after_backoff(seen: &Observed<'_>, work: Work) -> Next {
    match not_yet(seen.last, &[work.job()], seen.now) {
        Some(wait) => Next::Wait(wait),
        None => Next::Start(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: RecordedCluster =
        RecordedCluster { state: ClusterState::Active, open: false, established: true, differs: false };

    fn seen() -> Observed<'static> {
        Observed {
            deleting: false,
            finalizer: true,
            paused: false,
            abandoned: false,
            unreadable: None,
            misconfigured: None,
            busy: None,
            recorded: None,
            past: Past::default(),
            generation: 2,
            retry: None,
            attempt: None,
            last: None,
            now: "2026-08-01T12:00:00Z".parse().unwrap(),
        }
    }

    fn attempt(generation: i64, operation: u64) -> AttemptStatus {
        AttemptStatus { generation, operation, ..AttemptStatus::default() }
    }

    #[test]
    fn every_situation_has_its_move() {
        let differs = RecordedCluster { differs: true, ..ACTIVE };
        let error = RecordedCluster { state: ClusterState::Error, ..ACTIVE };
        let never = RecordedCluster { established: false, differs: true, ..error };
        let open = RecordedCluster { state: ClusterState::Scaling, open: true, ..ACTIVE };
        for (what, found, wanted) in [
            ("new", Observed { finalizer: false, ..seen() }, Next::Mark),
            ("marked", seen(), Next::Start(Work::Create)),
            ("paused", Observed { paused: true, ..seen() }, Next::Pause),
            ("wrong", Observed { misconfigured: Some("zone"), ..seen() }, Next::Misconfigured("zone".into())),
            ("at work", Observed { busy: Some(JobKind::Create), ..seen() }, Next::Follow),
            ("at work and deleted", Observed { busy: Some(JobKind::Create), deleting: true, ..seen() }, Next::Follow),
            ("paused at work", Observed { busy: Some(JobKind::Create), paused: true, ..seen() }, Next::Follow),
            ("as it should be", Observed { recorded: Some(ACTIVE), ..seen() }, Next::Settled),
            ("other counts", Observed { recorded: Some(differs), ..seen() }, Next::Start(Work::Scale)),
            ("in error, asked anew", Observed { recorded: Some(error), ..seen() }, Next::Start(Work::Scale)),
            ("never active", Observed { recorded: Some(never), ..seen() }, Next::Start(Work::CreateAnew)),
            ("left open", Observed { recorded: Some(open), ..seen() }, Next::Start(Work::Resume)),
            ("deleted", Observed { deleting: true, recorded: Some(ACTIVE), ..seen() }, Next::Start(Work::Terminate)),
            (
                "deleted, open",
                Observed { deleting: true, recorded: Some(open), ..seen() },
                Next::Start(Work::Terminate),
            ),
            (
                "deleted and abandoned",
                Observed { deleting: true, abandoned: true, recorded: Some(open), ..seen() },
                Next::Abandon,
            ),
            ("abandoned, not deleted", Observed { abandoned: true, recorded: Some(ACTIVE), ..seen() }, Next::Settled),
            ("abandoned, nothing there", Observed { deleting: true, abandoned: true, ..seen() }, Next::RemoveFinalizer),
            ("deleted, nothing there", Observed { deleting: true, ..seen() }, Next::RemoveFinalizer),
            (
                "deleted, wrong",
                Observed { deleting: true, misconfigured: Some("zone"), ..seen() },
                Next::RemoveFinalizer,
            ),
            (
                "deleted, unreadable",
                Observed { deleting: true, unreadable: Some("nodes"), ..seen() },
                Next::Misconfigured("nodes".into()),
            ),
            (
                "deleted, and its finalizer removed",
                Observed { deleting: true, finalizer: false, ..seen() },
                Next::Nothing,
            ),
        ] {
            assert_eq!(decide(&found), wanted, "{what}");
        }
    }

    #[test]
    fn what_failed_is_not_begun_again_until_it_is_asked_for_anew() {
        let error = RecordedCluster { state: ClusterState::Error, ..ACTIVE };
        let tried = attempt(2, 4);
        let past = Past { last: 4, interruptions: 0 };
        let found = Observed { recorded: Some(error), attempt: Some(&tried), past, ..seen() };
        assert_eq!(decide(&found), Next::Settled);
        assert_eq!(decide(&Observed { generation: 3, ..found }), Next::Start(Work::Scale), "another specification");
        assert_eq!(
            decide(&Observed { retry: Some("now"), ..found }),
            Next::Start(Work::Scale),
            "asked for by annotation"
        );
        let not_begun = Past { last: 3, ..past };
        assert_eq!(decide(&Observed { past: not_begun, ..found }), Next::Start(Work::Scale), "it was never begun");
        let refused = AttemptStatus { refused: Some("no such node".into()), ..attempt(2, 4) };
        let found = Observed { attempt: Some(&refused), past: not_begun, ..found };
        assert_eq!(decide(&found), Next::Settled, "it cannot be begun");
    }

    #[test]
    fn what_was_interrupted_is_begun_again_a_few_times() {
        let never = RecordedCluster { state: ClusterState::Error, established: false, ..ACTIVE };
        let tried = attempt(2, 1);
        let found = |interruptions| Observed {
            recorded: Some(never),
            attempt: Some(&tried),
            past: Past { last: 5, interruptions },
            ..seen()
        };
        assert_eq!(decide(&found(1)), Next::Start(Work::CreateAnew));
        assert_eq!(decide(&found(MAX_INTERRUPTIONS - 1)), Next::Start(Work::CreateAnew));
        assert_eq!(decide(&found(MAX_INTERRUPTIONS)), Next::Settled);
    }

    #[test]
    fn a_termination_that_failed_is_tried_again_with_patience() {
        let last = OperationStatus {
            kind: JobKind::Terminate.as_str().into(),
            state: "failed".into(),
            not_before: Some("2026-08-01T12:00:30Z".into()),
            ..OperationStatus::default()
        };
        let found = Observed { deleting: true, recorded: Some(ACTIVE), last: Some(&last), ..seen() };
        assert_eq!(decide(&found), Next::Wait(Duration::from_secs(30)));
        let later = "2026-08-01T12:00:31Z".parse().unwrap();
        assert_eq!(decide(&Observed { now: later, ..found }), Next::Start(Work::Terminate));
    }
}
