//! GitLab's provisioner: what a runner knows of its instances, and what it asks the plugin for. It follows
//! `provisioner.go` of `gitlab.com/gitlab-org/fleeting/fleeting` (v0.0.0-20260630131728-ef4ba33c8ab8), without
//! suspension. `tests/fleeting-go` holds what it knows against GitLab's own over days of simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::{Report, State};

/// After this many updates without it, an instance is forgotten.
const MAX_MISSED: u32 = 5;

/// What the provisioner knows of an instance.
#[derive(Clone, Debug)]
struct Known {
    state: State,
    missed: u32,
    /// Whether it must be removed.
    removing: bool,
    /// When the plugin last accepted the removal.
    accepted: Option<Instant>,
}

/// A runner's knowledge of its group. Pure data: whoever has it makes the calls, in this order in each round: Decrease
/// of the [`removals`](Self::removals), Update, and where that did not fail, Increase of the [`demand`](Self::demand).
#[derive(Debug)]
pub struct Provisioner {
    max_instances: usize,
    /// Requested and not accepted yet. GitLab's provisioner never withdraws a request.
    requested: usize,
    /// Accepted and not listed yet.
    pending: usize,
    instances: BTreeMap<String, Known>,
    /// Updates that were applied.
    updates: u64,
}

impl Provisioner {
    /// One that has so many instances at most.
    #[must_use]
    pub fn new(max_instances: usize) -> Self {
        Self { max_instances, requested: 0, pending: 0, instances: BTreeMap::new(), updates: 0 }
    }

    /// Requests further instances.
    pub fn request(&mut self, count: usize) {
        self.requested += count;
    }

    /// Requested instances, and accepted ones that no update has listed.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.requested + self.pending
    }

    /// Accepted instances that no update has listed.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// How many more instances there may be. An instance that is being removed counts until it is gone.
    #[must_use]
    pub fn room(&self) -> usize {
        self.max_instances.saturating_sub(self.pending + self.instances.len())
    }

    /// How many instances to request now.
    #[must_use]
    pub fn demand(&self) -> usize {
        self.requested.min(self.room())
    }

    /// The plugin accepted this many.
    pub fn increased(&mut self, accepted: usize) {
        self.requested = self.requested.saturating_sub(accepted);
        self.pending += accepted;
    }

    /// Marks an instance for removal.
    pub fn delete(&mut self, id: &str) {
        if let Some(known) = self.instances.get_mut(id) {
            known.removing = true;
        }
    }

    /// Marks every instance for removal and drops all requests, as a runner that stops.
    pub fn delete_all(&mut self) {
        self.requested = 0;
        self.instances.values_mut().for_each(|known| known.removing = true);
    }

    /// The instances whose removal to request now. A removal is requested again if it was accepted longer than `retry`
    /// ago without effect.
    #[must_use]
    pub fn removals(&self, now: Instant, retry: Duration) -> Vec<String> {
        let due = |known: &Known| {
            let waits = known.accepted.is_some_and(|accepted| now.duration_since(accepted) <= retry);
            known.removing && known.state != State::Deleting && !waits
        };
        self.instances.iter().filter(|(_, known)| due(known)).map(|(id, _)| id.clone()).collect()
    }

    /// The plugin accepted the removal of these.
    pub fn removal_accepted(&mut self, ids: &[String], now: Instant) {
        for id in ids {
            if let Some(known) = self.instances.get_mut(id) {
                known.accepted = Some(now);
            }
        }
    }

    /// Applies a complete update.
    pub fn take(&mut self, reports: &[Report]) {
        self.updates += 1;
        for report in reports {
            if matches!(report.state, State::Deleted | State::Timeout) {
                self.instances.remove(&report.instance);
            } else if let Some(known) = self.instances.get_mut(&report.instance) {
                (known.state, known.missed) = (report.state, 0);
            } else {
                self.pending = self.pending.saturating_sub(1);
                let known = Known { state: report.state, missed: 0, removing: false, accepted: None };
                self.instances.insert(report.instance.clone(), known);
            }
        }
        let reported: BTreeSet<&str> = reports.iter().map(|report| report.instance.as_str()).collect();
        self.instances.retain(|id, known| {
            if reported.contains(id.as_str()) {
                return true;
            }
            known.missed += 1;
            known.state != State::Deleting && !known.removing && known.missed <= MAX_MISSED
        });
    }

    /// How many updates were applied.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Whether a change is expected. Then the next update comes soon.
    #[must_use]
    pub fn expects(&self) -> bool {
        let changes = |known: &Known| known.removing || !matches!(known.state, State::Running | State::Suspended);
        self.awaited() > 0 || self.instances.values().any(changes)
    }

    /// The state of an instance that is known.
    #[must_use]
    pub fn state(&self, id: &str) -> Option<State> {
        self.instances.get(id).map(|known| known.state)
    }

    /// All known instances, with their state and whether they are marked for removal.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = (&str, State, bool)> {
        self.instances.iter().map(|(id, known)| (id.as_str(), known.state, known.removing))
    }

    /// Forgets everything, like a new process of the runner.
    pub fn restart(&mut self) {
        *self = Self::new(self.max_instances);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_secs(60);

    fn reported(provisioner: &mut Provisioner, reports: &[(&str, State)]) {
        let report = |&(id, state): &(&str, State)| Report { instance: id.to_owned(), state };
        provisioner.take(&reports.iter().map(report).collect::<Vec<_>>());
    }

    fn ids(provisioner: &Provisioner) -> Vec<&str> {
        provisioner.instances().map(|(id, ..)| id).collect()
    }

    #[test]
    fn an_instance_is_pending_until_it_is_seen_and_a_first_sight_as_deleted_is_none() {
        let mut provisioner = Provisioner::new(3);
        provisioner.request(2);
        assert_eq!(provisioner.demand(), 2);
        provisioner.increased(1);
        assert_eq!((provisioner.demand(), provisioner.pending(), provisioner.awaited()), (1, 1, 2));
        reported(&mut provisioner, &[("a", State::Deleted)]);
        assert_eq!(provisioner.pending(), 1);
        reported(&mut provisioner, &[("a", State::Creating)]);
        assert_eq!((provisioner.pending(), provisioner.awaited()), (0, 1));
        assert!(provisioner.expects());
    }

    #[test]
    fn what_is_going_holds_its_place_until_it_is_left_out() {
        let mut provisioner = Provisioner::new(1);
        reported(&mut provisioner, &[("a", State::Deleting)]);
        provisioner.request(1);
        assert_eq!(provisioner.demand(), 0);
        reported(&mut provisioner, &[]);
        assert_eq!(provisioner.demand(), 1);
    }

    #[test]
    fn what_is_left_out_is_forgotten_at_once_where_it_was_going_and_after_five_more_updates_otherwise() {
        let mut provisioner = Provisioner::new(3);
        reported(&mut provisioner, &[("a", State::Deleting), ("b", State::Running), ("c", State::Running)]);
        provisioner.delete("c");
        reported(&mut provisioner, &[]);
        assert_eq!(ids(&provisioner), ["b"]);
        for _ in 0..4 {
            reported(&mut provisioner, &[]);
        }
        assert_eq!(ids(&provisioner), ["b"]);
        reported(&mut provisioner, &[]);
        assert!(ids(&provisioner).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_removal_is_asked_for_until_it_is_accepted_and_again_when_it_has_no_effect() {
        let (mut provisioner, now) = (Provisioner::new(1), Instant::now());
        reported(&mut provisioner, &[("a", State::Running)]);
        assert!(provisioner.removals(now, RETRY).is_empty() && !provisioner.expects());
        provisioner.delete("a");
        assert_eq!(provisioner.removals(now, RETRY), ["a"]);
        assert_eq!(provisioner.removals(now, RETRY), ["a"], "it was not accepted");
        provisioner.removal_accepted(&["a".to_owned()], now);
        assert!(provisioner.removals(now + RETRY, RETRY).is_empty() && provisioner.expects());
        assert_eq!(provisioner.removals(now + RETRY + Duration::from_millis(1), RETRY), ["a"]);
        reported(&mut provisioner, &[("a", State::Deleting)]);
        assert!(provisioner.removals(now + 2 * RETRY, RETRY).is_empty(), "it goes");
    }
}
