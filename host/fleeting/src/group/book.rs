//! What the group knows of its instances, and what the runner is told of each. Pure data: no calls, no clock.
//!
//! Three properties of the runner's loop decide what is told (they are facts of fleeting's source):
//! - Each instance that `Increase` accepted stays *pending*, and eats capacity, until it has been seen in an update
//!   once.
//! - An instance that was told as `deleting` is forgotten as soon as it is left out; one that was told as `running` or
//!   `creating` and is left out holds its capacity for five more updates; one that is told as `deleted` is forgotten at
//!   once.
//! - Nobody ever asks for the deletion of an instance that is told as `deleting`.

use std::collections::BTreeMap;

use windlass_lifecycle::OperationId;
use windlass_policy::slots::state_mapping::{Operation, ServerState};

use crate::protocol::State;

/// What we are doing with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It is being created.
    Creating,
    /// Its creation failed or was called off and is being undone.
    Undoing,
    /// Nothing.
    Idle,
    /// It is being removed with everything that belongs to it.
    CleaningUp,
    /// It is being stopped in place.
    Suspending,
    /// It is being powered on again.
    Resuming,
    /// A cleanup ended and could not remove everything. It is tried again in the background.
    Left,
    /// Nothing of it is left.
    Gone,
}

/// One instance.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The operation that created it. Its text is the instance's id.
    pub(crate) operation: OperationId,
    /// What we are doing with it.
    pub(crate) work: Work,
    /// Scaleway's id of the server, once known.
    pub(crate) server: Option<String>,
    /// The state in which the server was last listed, and since when it has been seen so (milliseconds since 1970).
    pub(crate) seen: Option<(ServerState, u64)>,
    /// Whether it ever ran.
    pub(crate) has_run: bool,
    /// Whether it was suspended and not resumed since.
    pub(crate) suspended: bool,
    /// What the runner knows: the state in the last update that reached it.
    pub(crate) told: Option<State>,
    /// Whether the runner still waits for the first sight of it.
    pub(crate) owed: bool,
    /// The operation whose end left something behind.
    pub(crate) left_by: Option<OperationId>,
}

impl Entry {
    /// One that is being created on the runner's demand.
    pub(crate) fn demanded(operation: OperationId) -> Self {
        Self { owed: true, ..Self::found(operation, Work::Creating) }
    }

    /// One that is there already.
    pub(crate) fn found(operation: OperationId, work: Work) -> Self {
        Self {
            operation,
            work,
            server: None,
            seen: None,
            has_run: false,
            suspended: false,
            told: None,
            owed: false,
            left_by: None,
        }
    }

    /// Whether the runner has forgotten it, or never knew it.
    fn forgotten(&self) -> bool {
        matches!(self.told, None | Some(State::Deleting | State::Deleted | State::Timeout))
    }

    /// What of ours works on it, in the contract's words.
    pub(crate) fn in_flight(&self) -> Operation {
        match self.work {
            Work::Creating => Operation::Create,
            Work::Undoing | Work::CleaningUp => Operation::Cleanup,
            Work::Suspending => Operation::Suspend,
            Work::Resuming => Operation::Resume,
            Work::Idle | Work::Left | Work::Gone => Operation::None,
        }
    }

    /// What to tell about it, where the policy gave this word for its server.
    ///
    /// The runner never takes up an instance whose first report is none, `deleted` or `timeout`; it would stay pending
    /// for ever. So what the runner still waits for is told as `creating` once, whatever the policy said.
    pub(crate) fn first_sight(&self, told: Option<State>) -> Option<State> {
        match told {
            None | Some(State::Deleted | State::Timeout) if self.owed => Some(State::Creating),
            told => told,
        }
    }

    /// What to tell about it when there is no server that a policy could judge.
    pub(crate) fn without_server(&self) -> Option<State> {
        match self.work {
            Work::Creating => Some(State::Creating),
            Work::Undoing | Work::CleaningUp => Some(State::Deleting),
            // Nobody could find out what became of it: what was said stays true for now.
            Work::Idle | Work::Suspending | Work::Resuming => self.told,
            Work::Left | Work::Gone => self.farewell(),
        }
    }

    /// The last word about an instance that is gone, or that nothing more can be done about for now.
    ///
    /// One that the runner has never seen is told as `deleting` once, although nothing is in flight any more: the
    /// failure was quicker than the runner's update, and without being seen it would stay pending for ever.
    fn farewell(&self) -> Option<State> {
        if !self.forgotten() {
            Some(State::Deleted)
        } else if self.owed {
            Some(State::Deleting)
        } else {
            None
        }
    }
}

/// All instances, by id.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<String, Entry>,
}

impl Book {
    /// Takes an instance up.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.operation.to_string(), entry);
    }

    /// One instance.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// One instance, to change it.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.get_mut(id)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    /// How many take up room in the group: all but those that are gone.
    pub(crate) fn occupied(&self) -> usize {
        self.entries.values().filter(|entry| entry.work != Work::Gone).count()
    }

    /// Changes what we are doing with an instance. Nothing brings one back that is gone.
    pub(crate) fn set_work(&mut self, id: &str, work: Work) {
        if let Some(entry) = self.entries.get_mut(id)
            && entry.work != Work::Gone
        {
            entry.work = work;
        }
    }

    /// Takes an instance for a cleanup that is about to be journalled, so that of several who want it removed only one
    /// begins. Answers its creation, its server, and what was being done with it, which is to be set again when the
    /// cleanup cannot begin. Nothing where it is unknown, or its removal is under way or has ended.
    pub(crate) fn claim_for_cleanup(&mut self, id: &str) -> Option<(OperationId, Option<String>, Work)> {
        let entry = self.entries.get_mut(id)?;
        if !matches!(entry.work, Work::Idle | Work::Suspending | Work::Resuming) {
            return None;
        }
        let before = std::mem::replace(&mut entry.work, Work::CleaningUp);
        Some((entry.operation.clone(), entry.server.clone(), before))
    }

    /// Notes that an update with these reports reached the runner, and forgets what nobody needs any more.
    pub(crate) fn delivered(&mut self, reports: &BTreeMap<String, State>) {
        for (id, entry) in &mut self.entries {
            entry.told = reports.get(id).copied();
            // The runner never takes up an instance whose first report is one of these.
            if entry.told.is_some_and(|state| !matches!(state, State::Deleted | State::Timeout)) {
                entry.owed = false;
            }
        }
        self.entries.retain(|_, entry| entry.work != Work::Gone || entry.owed || !entry.forgotten());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(text: &str) -> OperationId {
        OperationId::parse(text).unwrap()
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
            let pending = u32::from(entry.owed);
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

        fn work(&mut self, work: Work) {
            self.book.set_work(&self.id.clone(), work);
        }
    }

    const ID: &str = "ci-k3v9q20mfz7a";

    #[test]
    fn a_creation_that_fails_before_the_first_update_never_stays_pending() {
        let mut runner = Loop::new(Entry::demanded(operation(ID)));
        runner.work(Work::Undoing);
        runner.work(Work::Gone);
        assert_eq!(runner.update(), Some(State::Deleting));
        assert_eq!(runner.pending, 0);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.believed, None);
        assert_eq!(runner.book.iter().count(), 0);
    }

    #[test]
    fn an_update_that_never_arrived_counts_for_nothing() {
        let mut book = Book::default();
        book.insert(Entry::demanded(operation(ID)));
        book.set_work(ID, Work::Gone);
        // The report was made, and the stream was cut: it is made again.
        assert_eq!(book.get(ID).unwrap().without_server(), Some(State::Deleting));
        assert_eq!(book.get(ID).unwrap().without_server(), Some(State::Deleting));
        assert!(book.get(ID).unwrap().owed);
    }

    #[test]
    fn capacity_comes_back_in_the_update_after_a_failure() {
        let mut runner = Loop::new(Entry::demanded(operation(ID)));
        assert_eq!(runner.update(), Some(State::Creating));
        runner.work(Work::Undoing);
        assert_eq!(runner.update(), Some(State::Deleting));
        runner.work(Work::Gone);
        assert_eq!(runner.update(), None);
        assert_eq!((runner.pending, runner.believed), (0, None));
    }

    #[test]
    fn an_instance_that_vanishes_between_two_updates_is_told_as_deleted_and_not_just_left_out() {
        let mut runner = Loop::new(Entry::demanded(operation(ID)));
        runner.update();
        runner.work(Work::CleaningUp);
        runner.work(Work::Gone);
        assert_eq!(runner.update(), Some(State::Deleted));
        assert_eq!(runner.believed, None);
        assert_eq!(runner.update(), None);
    }

    #[test]
    fn what_cannot_be_removed_gives_its_capacity_back_and_is_not_told_again() {
        let mut runner = Loop::new(Entry::demanded(operation(ID)));
        runner.update();
        runner.work(Work::CleaningUp);
        assert_eq!(runner.update(), Some(State::Deleting));
        runner.work(Work::Left);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.believed, None);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.book.occupied(), 1, "it still takes up room in the group");
        runner.work(Work::Gone);
        assert_eq!(runner.update(), None);
        assert_eq!(runner.book.iter().count(), 0);
    }

    #[test]
    fn what_the_runner_has_never_seen_is_seen_once_whatever_the_policy_says() {
        let mut book = Book::default();
        book.insert(Entry::demanded(operation(ID)));
        book.set_work(ID, Work::Idle);
        for word in [None, Some(State::Deleted), Some(State::Timeout)] {
            assert_eq!(book.get(ID).unwrap().first_sight(word), Some(State::Creating), "{word:?}");
        }
        assert_eq!(book.get(ID).unwrap().first_sight(Some(State::Running)), Some(State::Running));
        book.delivered(&[(ID.to_owned(), State::Creating)].into());
        for word in [None, Some(State::Deleted), Some(State::Timeout)] {
            assert_eq!(book.get(ID).unwrap().first_sight(word), word, "seen once is enough");
        }
    }

    #[test]
    fn of_several_who_want_an_instance_removed_one_begins() {
        let mut book = Book::default();
        book.insert(Entry::found(operation(ID), Work::Idle));
        let (creation, server, before) = book.claim_for_cleanup(ID).unwrap();
        assert_eq!((creation, server, before), (operation(ID), None, Work::Idle));
        assert!(book.claim_for_cleanup(ID).is_none());
        book.set_work(ID, Work::Idle);
        assert!(book.claim_for_cleanup(ID).is_some(), "one that could not begin is wanted again");
        assert!(book.claim_for_cleanup("nobody").is_none());
        book.insert(Entry::demanded(operation(ID)));
        assert!(book.claim_for_cleanup(ID).is_none(), "a creation is called off instead");
    }

    #[test]
    fn nothing_brings_back_what_is_gone() {
        let mut book = Book::default();
        book.insert(Entry::found(operation(ID), Work::Gone));
        book.set_work(ID, Work::Idle);
        assert_eq!(book.get(ID).unwrap().work, Work::Gone);
    }

    #[test]
    fn a_state_counts_from_when_it_was_first_seen() {
        let mut book = Book::default();
        book.insert(Entry::found(operation(ID), Work::Idle));
        book.saw(ID, "s", ServerState::Running, 100);
        book.saw(ID, "s", ServerState::Stopped, 200);
        book.saw(ID, "s", ServerState::Stopped, 300);
        let entry = book.get(ID).unwrap();
        assert_eq!(entry.seen, Some((ServerState::Stopped, 200)));
        assert!(entry.has_run);
    }
}
