//! What follows a reconcile.

use std::time::Duration;

use kube::runtime::controller;

/// What follows a reconcile: kube's own action, which does not tell afterwards when it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action(Option<Duration>);

impl Action {
    /// Look again after this time, at the latest.
    pub(crate) const fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    /// Look again when something changes.
    pub(crate) const fn await_change() -> Self {
        Self(None)
    }

    /// When it looks again, where it does without a change.
    pub(crate) const fn again_after(self) -> Option<Duration> {
        self.0
    }
}

impl From<Action> for controller::Action {
    fn from(action: Action) -> Self {
        action.0.map_or_else(Self::await_change, Self::requeue)
    }
}
