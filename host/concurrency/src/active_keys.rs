//! Who is at work on what, in this process.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::sync::Mutex;

/// Keys at which somebody works, each held by one at a time. Cheap to clone; clones are one set.
pub struct ActiveKeys<K>(Arc<Mutex<BTreeSet<K>>>);

impl<K> Clone for ActiveKeys<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord> Default for ActiveKeys<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BTreeSet::new())))
    }
}

impl<K: Ord + Clone> ActiveKeys<K> {
    /// Holds the key until the answer is dropped. `None` when somebody holds it already.
    #[must_use]
    pub fn hold(&self, key: &K) -> Option<ActiveKey<K>> {
        self.0.lock().insert(key.clone()).then(|| ActiveKey { keys: self.clone(), key: key.clone() })
    }

    /// Whether somebody holds it just now.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.0.lock().contains(key)
    }

    /// All that are held just now, in their order.
    #[must_use]
    pub fn all(&self) -> Vec<K> {
        self.0.lock().iter().cloned().collect()
    }
}

/// A key that is held.
#[must_use = "the key is free when this is dropped"]
pub struct ActiveKey<K: Ord> {
    keys: ActiveKeys<K>,
    key: K,
}

impl<K: Ord> ActiveKey<K> {
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Ord + std::fmt::Debug> std::fmt::Debug for ActiveKey<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("ActiveKey").field(&self.key).finish()
    }
}

impl<K: Ord> Drop for ActiveKey<K> {
    fn drop(&mut self) {
        self.keys.0.lock().remove(&self.key);
    }
}
