use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many resources that are gone are remembered.
const REMEMBERED_GONE: usize = 10_000;

/// Resources of one kind by their id. In order, which is part of "same seed, same answers"; and it notes which of them
/// may have changed.
#[derive(Debug)]
pub(crate) struct ById<T> {
    items: BTreeMap<String, T>,
    touched: BTreeSet<String>,
}

impl<T> ById<T> {
    pub(crate) fn new() -> Self {
        Self { items: BTreeMap::new(), touched: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn contains_key(&self, id: &str) -> bool {
        self.items.contains_key(id)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.items.get(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.items.values()
    }

    /// To be changed, which counts as a change.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        let item = self.items.get_mut(id)?;
        self.touched.insert(id.to_owned());
        Some(item)
    }

    pub(crate) fn insert(&mut self, id: String, item: T) {
        self.touched.insert(id.clone());
        self.items.insert(id, item);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<T> {
        let item = self.items.remove(id)?;
        self.touched.insert(id.to_owned());
        Some(item)
    }

    /// Changes those that are chosen.
    pub(crate) fn change_where(&mut self, chosen: impl Fn(&T) -> bool, mut change: impl FnMut(&mut T)) {
        for (id, item) in self.items.iter_mut().filter(|(_, item)| chosen(item)) {
            self.touched.insert(id.clone());
            change(item);
        }
    }

    /// Removes those that are chosen.
    pub(crate) fn remove_where(&mut self, chosen: impl Fn(&T) -> bool) {
        for (id, _) in self.items.extract_if(.., |_, item| chosen(item)) {
            self.touched.insert(id);
        }
    }

    /// Tells `changes` on whose behalf everything was changed since it was last told, and `changed` each of it.
    pub(super) fn tell(&mut self, changes: &mut Changes, request: u64, mut changed: impl FnMut(&str, Option<&T>)) {
        for id in std::mem::take(&mut self.touched) {
            let item = self.items.get(&id);
            changed(&id, item);
            let exists = item.is_some();
            changes.note(id, request, exists);
        }
    }
}

/// By which request each resource was last changed, also when the change came later by itself; 0: by none.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    existing: BTreeMap<String, u64>,
    /// In the order in which they went.
    gone: VecDeque<(String, u64)>,
}

impl Changes {
    fn note(&mut self, id: String, request: u64, exists: bool) {
        if exists {
            // What an earlier request began may end after a later one.
            let last = self.existing.entry(id).or_default();
            *last = request.max(*last);
            return;
        }
        self.existing.remove(&id);
        if self.gone.len() >= REMEMBERED_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((id, request));
    }

    pub(crate) fn show(&self) -> BTreeMap<String, u64> {
        self.gone.iter().cloned().chain(self.existing.iter().map(|(id, request)| (id.clone(), *request))).collect()
    }
}
