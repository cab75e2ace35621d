//! What a group knows of its members. Pure data: no calls, no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_lifecycle::{OperationId, RequestedBy};
use windlass_policy::slots::state_mapping::{Operation, ServerState};
use windlass_scaleway::Zone;

use super::entry::{Entry, Event, Phase};
use super::places::Place;
use crate::observe::names;
use crate::protocol::State;

/// How long a removal may take before its member counts as left.
const REMOVAL_TAKES: Duration = Duration::from_secs(120);

/// All members, by id.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<String, Entry>,
    /// How many looks at Scaleway have begun.
    looks: u64,
    /// Whether the latest removal that ended left something.
    removals_fail: bool,
}

impl Book {
    /// Notes that a look at Scaleway begins, and returns its number.
    pub(crate) fn begin_look(&mut self) -> u64 {
        self.looks += 1;
        self.looks
    }

    /// Takes a member up.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.operation.to_string(), entry);
    }

    /// One member.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut Entry)> {
        self.entries.iter_mut()
    }

    /// How many take up room in the group: all but those that are gone.
    pub(crate) fn occupied(&self) -> usize {
        self.entries.values().filter(|entry| *entry.phase() != Phase::Gone).count()
    }

    /// The number of members of which something is left that should be gone.
    pub(crate) fn left(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry.phase(), Phase::Left { .. })).count()
    }

    /// How many the runner counts no more although they are not gone: something of them is left, or their removal takes
    /// too long. While removals fail, all that are being removed are among them, since they will probably be left.
    /// Counted are those in the zones that `counts` names.
    pub(crate) fn leftovers(&mut self, now: u64, counts: impl Fn(&Zone) -> bool) -> usize {
        let takes_too_long = |time: Duration| self.removals_fail || time > REMOVAL_TAKES;
        let is_left = |entry: &mut Entry| {
            let leaving = entry.leaves_for(now);
            let is_left = matches!(entry.phase(), Phase::Left { .. }) || leaving.is_some_and(takes_too_long);
            is_left && counts(&entry.place.zone)
        };
        self.entries.values_mut().map(is_left).filter(|is_left| *is_left).count()
    }

    /// How many the group has at each place, those included of which something is left, and how many of them are being
    /// created.
    pub(crate) fn counts(&self) -> BTreeMap<Place, (u32, u32)> {
        let mut counts: BTreeMap<Place, (u32, u32)> = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| *entry.phase() != Phase::Gone) {
            let (servers, creating) = counts.entry(entry.place.clone()).or_default();
            *servers += 1;
            *creating += u32::from(entry.phase().in_flight() == Operation::Create);
        }
        counts
    }

    /// Whether something is being removed.
    pub(crate) fn is_removing(&self) -> bool {
        self.entries.values().any(|entry| entry.phase().is_leaving())
    }

    /// Those that were asked to go and are not gone; all, where `everything` was asked to go.
    pub(crate) fn remaining(&self, everything: bool) -> Vec<String> {
        let remains = |entry: &Entry| {
            let phase = entry.phase();
            matches!(phase, Phase::Left { .. }) || phase.is_leaving() || everything && phase.is_judged()
        };
        self.entries.iter().filter(|(_, entry)| remains(entry)).map(|(id, _)| id.clone()).collect()
    }

    /// The member that this operation removes, or left.
    pub(crate) fn removed_by(&self, operation: &OperationId) -> Option<&str> {
        let by_it = |entry: &Entry| match entry.phase() {
            Phase::Removing { by } | Phase::Left { by } => by.as_ref() == Some(operation),
            _ => false,
        };
        self.entries.iter().find(|(_, entry)| by_it(entry)).map(|(id, _)| id.as_str())
    }

    /// Takes in what happened to a member. Answers the phase before it, where it changed anything.
    pub(crate) fn apply(&mut self, id: &str, event: &Event) -> Option<Phase> {
        let entry = self.entries.get_mut(id)?;
        let before = entry.apply(event)?;
        entry.changed_during = self.looks;
        match entry.phase() {
            Phase::Left { .. } if !matches!(before, Phase::Left { .. }) => self.removals_fail = true,
            Phase::Gone if before.in_flight() == Operation::Cleanup => self.removals_fail = false,
            _ => {}
        }
        Some(before)
    }

    /// Notes who asks for the end of a member that is being created, before [`Event::Unwanted`].
    pub(crate) fn unwanted_by(&mut self, id: &str, requested_by: &RequestedBy) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.unwanted_by.get_or_insert_with(|| requested_by.clone());
        }
    }

    /// Notes which server is its.
    pub(crate) fn has_server(&mut self, id: &str, server: &str) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.server = Some(server.to_owned());
        }
    }

    /// Notes of which type its server is.
    pub(crate) fn has_type(&mut self, id: &str, server_type: &str) {
        if let Some(entry) = self.entries.get_mut(id)
            && entry.place.server_type != server_type
        {
            entry.place.server_type = server_type.to_owned();
        }
    }

    /// Notes that an update with these reports reached the runner, and forgets what nobody needs any more.
    pub(crate) fn delivered(&mut self, reports: &BTreeMap<String, State>) {
        for (id, entry) in &mut self.entries {
            entry.delivered(reports.get(id).copied());
        }
        self.entries.retain(|_, entry| *entry.phase() != Phase::Gone || entry.is_awaited() || !entry.is_forgotten());
    }

    /// Notes that the runner uses a member: it asked whether it is alive, or how to connect to it.
    pub(crate) fn used(&mut self, id: &str, now: u64, connects: bool) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let activity = &mut entry.activity;
        activity.last_used = Some(now);
        activity.connections = Some(activity.connections.unwrap_or_default().saturating_add(connects.into()));
    }

    /// Notes in which state a server was listed.
    pub(crate) fn saw(&mut self, id: &str, server: &str, state: ServerState, now: u64) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.server.is_none() {
            entry.server = Some(server.to_owned());
        }
        if entry.seen.is_none_or(|(before, _)| before != state) {
            entry.seen = Some((state, now));
        }
        if state == ServerState::Running {
            entry.has_run = true;
        }
    }
}

/// Whether so many are `leftovers` that nothing more is to be made. It says so.
pub(crate) fn is_paused(leftovers: usize, demanded: u32, max_leftovers: u32) -> bool {
    let paused = leftovers > max_leftovers as usize;
    if paused {
        tracing::error!(
            demanded,
            leftovers,
            max_leftovers,
            "nothing is created, because too many removals have failed (max_leftovers in plugin_config); `windlass \
             operation list --open` shows what is left and why"
        );
        metrics::counter!(names::INCREASES_PAUSED).increment(1);
    }
    paused
}

/// Takes in what happened to a member, and shows how many are left that should be gone.
pub(crate) fn apply(book: &Mutex<Book>, id: &str, event: &Event) -> Option<Phase> {
    let mut book = book.lock();
    let before = book.apply(id, event)?;
    metrics::gauge!(names::LEFT).set(book.left() as f64);
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(text: &str) -> OperationId {
        OperationId::parse(text).unwrap()
    }

    fn place() -> Place {
        Place { zone: "fr-par-1".parse().unwrap(), server_type: "DEV1-S".to_owned() }
    }

    /// A book with one instance, what a runner knows of it, and the update loop between the two.
    struct Loop {
        book: Book,
        id: String,
        /// The runner's side: requests that wait for a first sight, and the state it believes in.
        pending: u32,
        believed: Option<State>,
    }

    impl Loop {
        fn new(entry: Entry) -> Self {
            let pending = u32::from(entry.is_awaited());
            let id = entry.operation.to_string();
            let mut book = Book::default();
            book.insert(entry);
            Self { book, id, pending, believed: None }
        }

        /// One update that arrives, by the rules of fleeting's `reconcile` and `prune` (without missed updates).
        fn update(&mut self) -> Option<State> {
            let report = self.book.get(&self.id).and_then(Entry::without_server);
            match (report, self.believed) {
                (Some(State::Deleted | State::Timeout), _) => self.believed = None,
                (Some(state), before) => {
                    if before.is_none() {
                        self.pending = self.pending.saturating_sub(1);
                    }
                    self.believed = Some(state);
                }
                (None, Some(State::Deleting)) => self.believed = None,
                (None, _) => {}
            }
            self.book.delivered(&report.map(|state| (self.id.clone(), state)).into_iter().collect());
            report
        }

        fn happens(&mut self, event: Event) {
            assert!(self.book.apply(&self.id.clone(), &event).is_some(), "{event:?}");
        }
    }

    const ID: &str = "ci-k3v9q20mfz7a";

    fn removal() -> Event {
        Event::RemovalBegan { by: Some(operation("ci-k3v9q20mfz7b")) }
    }

    #[test]
    fn a_creation_that_fails_before_the_first_update_never_stays_pending() {
        let mut runner = Loop::new(Entry::demanded(operation(ID), place()));
        runner.happens(Event::UndoBegan);
        runner.happens(Event::Ended);
        assert_eq!(runner.update(), Some(State::Deleting));
        assert_eq!(runner.pending, 0);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.believed, None);
        assert_eq!(runner.book.iter().count(), 0);
    }

    #[test]
    fn an_update_that_never_arrived_counts_for_nothing() {
        let mut book = Book::default();
        book.insert(Entry::demanded(operation(ID), place()));
        book.apply(ID, &Event::Ended);
        // The report was made, and the stream was cut: it is made again.
        assert_eq!(book.get(ID).unwrap().without_server(), Some(State::Deleting));
        assert_eq!(book.get(ID).unwrap().without_server(), Some(State::Deleting));
        assert!(book.get(ID).unwrap().is_awaited());
    }

    #[test]
    fn capacity_comes_back_in_the_update_after_a_failure() {
        let mut runner = Loop::new(Entry::demanded(operation(ID), place()));
        assert_eq!(runner.update(), Some(State::Creating));
        runner.happens(Event::UndoBegan);
        assert_eq!(runner.update(), Some(State::Deleting));
        runner.happens(Event::Ended);
        assert_eq!(runner.update(), None);
        assert_eq!((runner.pending, runner.believed), (0, None));
    }

    #[test]
    fn an_instance_that_vanishes_between_two_updates_is_reported_as_deleted_and_not_just_left_out() {
        let mut runner = Loop::new(Entry::demanded(operation(ID), place()));
        runner.update();
        runner.happens(Event::Created);
        runner.happens(removal());
        runner.happens(Event::Ended);
        assert_eq!(runner.update(), Some(State::Deleted));
        assert_eq!(runner.believed, None);
        assert_eq!(runner.update(), None);
    }

    #[test]
    fn what_cannot_be_removed_gives_its_capacity_back_and_is_not_told_again() {
        let mut runner = Loop::new(Entry::demanded(operation(ID), place()));
        runner.update();
        runner.happens(Event::Created);
        runner.happens(removal());
        assert_eq!(runner.update(), Some(State::Deleting));
        runner.happens(Event::LeftBehind { by: None });
        assert_eq!(runner.update(), None);
        assert_eq!(runner.believed, None);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.book.occupied(), 1, "it still takes up room in the group");
        runner.happens(Event::Ended);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.book.iter().count(), 0);
    }

    #[test]
    fn a_running_instance_that_a_policy_left_out_once_is_reported_as_deleted_when_it_is_gone() {
        let mut runner = Loop::new(Entry::demanded(operation(ID), place()));
        runner.happens(Event::Created);
        runner.book.delivered(&[(ID.to_owned(), State::Running)].into());
        runner.believed = Some(State::Running);
        runner.book.delivered(&BTreeMap::new());
        runner.happens(removal());
        runner.happens(Event::Ended);
        assert_eq!(runner.update(), Some(State::Deleted), "the runner holds its capacity for five updates otherwise");
        assert_eq!(runner.book.iter().count(), 0);
    }

    #[test]
    fn a_member_is_found_by_the_operation_that_removes_it_or_left_it() {
        let mut book = Book::default();
        book.insert(Entry::found(operation(ID), place(), Phase::Idle { suspended: false }));
        let by = operation("ci-k3v9q20mfz7b");
        assert_eq!(book.removed_by(&by), None);
        assert!(!book.is_removing());
        book.apply(ID, &removal());
        assert_eq!(book.removed_by(&by), Some(ID));
        assert!(book.is_removing());
        book.apply(ID, &Event::LeftBehind { by: Some(by.clone()) });
        assert_eq!((book.removed_by(&by), book.left()), (Some(ID), 1));
        assert!(!book.is_removing());
    }

    #[test]
    fn a_state_counts_from_when_it_was_first_seen() {
        let mut book = Book::default();
        book.insert(Entry::found(operation(ID), place(), Phase::Idle { suspended: false }));
        book.saw(ID, "s", ServerState::Running, 100);
        book.saw(ID, "s", ServerState::Stopped, 200);
        book.saw(ID, "s", ServerState::Stopped, 300);
        let entry = book.get(ID).unwrap();
        assert_eq!(entry.seen, Some((ServerState::Stopped, 200)));
        assert!(entry.has_run);
    }

    #[test]
    fn what_is_being_created_and_what_cannot_be_removed_counts_at_its_place() {
        let mut book = Book::default();
        let ids = ["ci-k3v9q20mfz7a", "ci-k3v9q20mfz7b", "ci-k3v9q20mfz7c", "ci-k3v9q20mfz7d"];
        let elsewhere = Place { server_type: "DEV1-M".to_owned(), ..place() };
        book.insert(Entry::demanded(operation(ids[0]), place()));
        book.insert(Entry::demanded(operation(ids[1]), place()));
        book.insert(Entry::found(operation(ids[2]), place(), Phase::Left { by: None }));
        book.insert(Entry::found(operation(ids[3]), place(), Phase::Gone));
        book.has_type(ids[1], "DEV1-M");
        book.apply(ids[1], &Event::Created);
        assert_eq!(book.counts(), [(place(), (2, 1)), (elsewhere, (1, 0))].into());
    }
}
