//! When something counts as absent: the API that would hold it, asked by its id, says so twice in Scaleway's own form.
//!
//! A list that leaves it out says nothing, nor does a 404 without one of Scaleway's types, nor the answer of an API
//! that would not hold it. One such answer alone may be wrong (assumption: not-found-is-lasting).

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_scaleway::Error;

/// So many answers prove it.
const ANSWERS: u32 = 2;

/// Between the two, where nothing else takes time. A wrong answer is that of a moment.
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
    let absences = Absences::default();
    loop {
        match get().await {
            Err(error) if error.is_not_found() => {
                if absences.prove("", true) {
                    return Ok(None);
                }
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer.map(Some),
        }
    }
}

/// What an operation's own reads by id said of each resource since it was last seen.
#[derive(Debug, Default)]
pub(crate) struct Absences(Mutex<BTreeMap<String, u32>>);

impl Absences {
    /// Takes an answer down, and tells whether the resource is proven absent.
    pub(crate) fn prove(&self, id: &str, absent: bool) -> bool {
        let mut answers = self.0.lock();
        if !absent {
            answers.remove(id);
            return false;
        }
        let count = answers.entry(id.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count >= ANSWERS
    }

    /// Whether it was proven absent, and not seen since.
    pub(crate) fn proves(&self, id: &str) -> bool {
        self.0.lock().get(id).is_some_and(|count| *count >= ANSWERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_proves_nothing_and_being_seen_begins_anew() {
        let absences = Absences::default();
        assert!(!absences.prove("a", true));
        assert!(!absences.prove("b", true), "each on its own");
        assert!(absences.prove("a", true) && absences.prove("a", true));
        assert!(absences.proves("a") && !absences.proves("b"));
        assert!(!absences.prove("a", false));
        assert!(!absences.prove("a", true));
    }
}
