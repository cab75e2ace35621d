//! What is configured, and what is in use because of it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::sync::{ArcSwap, Mutex, MutexGuard};

/// A configuration, and the generation that was made of it. The one changes slowly under a lock, the other is read at
/// once by anybody at any time.
///
/// # Guarantees
/// - Changes follow one another, so that the generation in use is always the one that was made of the configuration.
/// - Whoever reads the generation waits for nobody, and what it got stays as it is. A generation is dropped when it is
///   no longer in use and the last who got it has dropped it.
pub struct Generations<C, G> {
    configuration: Mutex<C>,
    current: ArcSwap<G>,
}

impl<C, G> Generations<C, G> {
    /// Begins with these.
    pub fn new(configuration: C, generation: G) -> Self {
        Self { configuration: Mutex::new(configuration), current: ArcSwap::from_pointee(generation) }
    }

    /// The generation in use.
    pub fn current(&self) -> Arc<G> {
        self.current.load_full()
    }

    /// Waits for its turn to look at the configuration, or to change it.
    pub fn lock(&self) -> Locked<'_, C, G> {
        Locked { configuration: self.configuration.lock(), current: &self.current }
    }
}

/// The configuration, which nobody else changes meanwhile.
pub struct Locked<'a, C, G> {
    configuration: MutexGuard<'a, C>,
    current: &'a ArcSwap<G>,
}

impl<C, G> Locked<'_, C, G> {
    /// Puts another generation in use.
    pub fn swap(&self, generation: G) {
        self.current.store(Arc::new(generation));
    }
}

impl<C, G> Deref for Locked<'_, C, G> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.configuration
    }
}

impl<C, G> DerefMut for Locked<'_, C, G> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.configuration
    }
}
