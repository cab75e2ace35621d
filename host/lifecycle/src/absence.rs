//! When something counts as absent: the API that would hold it, asked by its id, says so twice in Scaleway's own form,
//! a while apart. That it accepted our deletion counts as the first time.
//!
//! A list that leaves it out says nothing, nor does a 404 without one of Scaleway's types, nor the answer of an API
//! that would not hold it. One such answer alone may be wrong (assumption: not-found-is-lasting). Nor does a
//! termination that was accepted: it may fail later.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_scaleway::Error;

/// Between the two. A wrong answer is that of a moment.
const PAUSE: Duration = Duration::from_secs(2);

/// Reads something by its id. `None` where it is absent: answered so twice, two seconds apart.
///
/// # Errors
/// The client's, when it cannot be read or its absence is not proven.
pub async fn read_or_absent<T, F, Fut>(mut get: F) -> Result<Option<T>, Error>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Error>>,
{
    let absences = Absences::new(PAUSE);
    loop {
        match get().await {
            Err(error) if error.is_not_found() => {
                if absences.prove("", true) {
                    return Ok(None);
                }
                tokio::time::sleep(absences.wait("")).await;
            }
            answer => return answer.map(Some),
        }
    }
}

/// What an operation's own calls by id said of each resource since it was last seen.
#[derive(Debug)]
pub(crate) struct Absences {
    /// Between the two times that prove an absence.
    distance: Duration,
    absences: Mutex<BTreeMap<String, Absence>>,
}

/// What was last said to be absent.
#[derive(Clone, Copy, Debug)]
struct Absence {
    /// When that was said for the first time.
    since: Instant,
    /// Whether that was the answer to our own deletion.
    deleted: bool,
    proven: bool,
}

impl Absences {
    pub(crate) fn new(distance: Duration) -> Self {
        Self { distance, absences: Mutex::default() }
    }

    /// Takes the answer to a read down, and tells whether the resource is proven absent.
    pub(crate) fn prove(&self, id: &str, absent: bool) -> bool {
        let mut absences = self.absences.lock();
        if !absent {
            absences.remove(id);
            return false;
        }
        match absences.get_mut(id) {
            Some(absence) => {
                absence.proven |= absence.since.elapsed() >= self.distance;
                absence.proven
            }
            None => {
                let absence = Absence { since: Instant::now(), deleted: false, proven: false };
                absences.insert(id.to_owned(), absence);
                false
            }
        }
    }

    /// Takes down that Scaleway accepted the deletion of the resource, which was there until then.
    pub(crate) fn deleted(&self, id: &str) {
        let absence = Absence { since: Instant::now(), deleted: true, proven: false };
        self.absences.lock().insert(id.to_owned(), absence);
    }

    /// Whether it was proven absent, and not seen since.
    pub(crate) fn proves(&self, id: &str) -> bool {
        self.absences.lock().get(id).is_some_and(|absence| absence.proven)
    }

    /// Whether it was proven absent after our own deletion: there is nothing left to ask.
    pub(crate) fn proves_deletion(&self, id: &str) -> bool {
        self.absences.lock().get(id).is_some_and(|absence| absence.proven && absence.deleted)
    }

    /// How long to wait until another answer can prove the absence.
    pub(crate) fn wait(&self, id: &str) -> Duration {
        let absences = self.absences.lock();
        let unproven = absences.get(id).filter(|absence| !absence.proven);
        unproven.map_or(Duration::ZERO, |absence| self.distance.saturating_sub(absence.since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_answer_proves_nothing_and_being_seen_begins_anew() {
        let absences = Absences::new(PAUSE);
        assert!(!absences.prove("a", true) && !absences.prove("a", true), "the same moment");
        assert_eq!((absences.wait("a"), absences.wait("b")), (PAUSE, Duration::ZERO));
        advance(PAUSE).await;
        assert!(!absences.prove("b", true), "each on its own");
        assert!(absences.prove("a", true) && absences.prove("a", true));
        assert!(absences.proves("a") && !absences.proves("b") && !absences.proves_deletion("a"));
        assert_eq!(absences.wait("a"), Duration::ZERO);
        assert!(!absences.prove("a", false));
        assert!(!absences.prove("a", true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_accepted_deletion_is_the_first_answer_and_no_proof() {
        let absences = Absences::new(PAUSE);
        absences.deleted("a");
        assert!(!absences.proves("a") && !absences.prove("a", true), "the same moment");
        advance(PAUSE / 2).await;
        assert!(!absences.prove("a", true));
        assert_eq!(absences.wait("a"), PAUSE / 2);
        advance(PAUSE / 2).await;
        assert!(absences.prove("a", true) && absences.proves_deletion("a"));
        // It is there all the same: nothing of that counts any more, not even for a later deletion.
        assert!(!absences.prove("a", false) && !absences.proves_deletion("a"));
        assert!(!absences.prove("a", true), "after it was seen, one answer is the first again");
        absences.deleted("a");
        assert!(!absences.prove("a", true));
    }
}
