//! The last look at a group, shared by updates and heartbeats.
//!
//! A runner replaces an instance after three failed heartbeats, so a heartbeat must not fail because Scaleway cannot be
//! asked: it is answered from what was seen last, for as long as that says anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::protocol::{Failure, State};

/// A look younger than this answers heartbeats, one that failed as well: many heartbeats are one look.
const FRESH: Duration = Duration::from_secs(10);
/// For how long a look says that an instance is healthy when no newer one can be had.
const KNOWN_FOR: Duration = Duration::from_secs(20 * 60);
/// How long a heartbeat waits for a look. One that hangs goes on without it.
pub(crate) const HEARTBEAT_PATIENCE: Duration = Duration::from_secs(5);

/// What is reported about each member.
pub(crate) type Reports = BTreeMap<String, State>;

/// What a look led to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// What is reported about each member.
    pub(crate) reports: Arc<Reports>,
    /// The members of zones that could not be asked: what is reported of them is what was seen there last.
    pub(crate) unseen: BTreeMap<String, Unseen>,
}

/// When a member's zone was seen last, and why it was not now.
#[derive(Clone, Debug)]
pub(crate) struct Unseen {
    pub(crate) since: Instant,
    pub(crate) why: Failure,
}

/// All were seen.
impl From<Reports> for Seen {
    fn from(reports: Reports) -> Self {
        Self { reports: Arc::new(reports), unseen: BTreeMap::new() }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Looks {
    /// Held while somebody looks, so that all who wait share it.
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// When the last look began that succeeded, and what it led to.
    seen: Option<(Instant, Seen)>,
    /// When the last look failed, where none has succeeded since, and why.
    failed: Option<(Instant, Failure)>,
    /// Whether it was logged that heartbeats are answered from an older look, since the last that succeeded.
    logged: bool,
}

impl Looks {
    /// Looks for an update.
    ///
    /// # Errors
    /// The look's.
    pub(crate) async fn now(&self, look: impl Future<Output = Result<Seen, Failure>>) -> Result<Arc<Reports>, Failure> {
        let _turn = self.turn.lock().await;
        self.take(look).await
    }

    /// Looks for a heartbeat, unless somebody did a moment ago.
    pub(crate) async fn unless_recent(&self, look: impl Future<Output = Result<Seen, Failure>>) {
        let _turn = self.turn.lock().await;
        if !self.is_recent() {
            // What failed is kept.
            let _ = self.take(look).await;
        }
    }

    /// Whether somebody looked a moment ago, with success or not.
    pub(crate) fn is_recent(&self) -> bool {
        let last = self.last.lock();
        let seen = last.seen.as_ref().map(|(at, _)| *at);
        let failed = last.failed.as_ref().map(|(at, _)| *at);
        seen.into_iter().chain(failed).any(|at| at.elapsed() <= FRESH)
    }

    async fn take(&self, look: impl Future<Output = Result<Seen, Failure>>) -> Result<Arc<Reports>, Failure> {
        let began = Instant::now();
        let looked = look.await;
        let mut last = self.last.lock();
        match looked {
            Ok(seen) => {
                let reports = Arc::clone(&seen.reports);
                let logged = last.logged && !seen.unseen.is_empty();
                *last = Last { seen: Some((began, seen)), failed: None, logged };
                Ok(reports)
            }
            Err(failure) => {
                last.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// Whether the member runs, as far as is known.
    ///
    /// # Errors
    /// When it was seen in another state, or not at all, or when nothing could be seen for too long.
    pub(crate) fn health(&self, id: &str) -> Result<(), Failure> {
        let mut last = self.last.lock();
        let (age, failure) = last.health(id)?;
        if age > FRESH && !std::mem::replace(&mut last.logged, true) {
            let why = failure.as_ref().map_or("a look takes long", |failure| failure.0.as_str());
            tracing::warn!(
                seen_seconds_ago = age.as_secs(),
                "Scaleway does not answer, so heartbeats are answered from what was seen last: {why}"
            );
        }
        Ok(())
    }

    /// The same for who does not care why.
    pub(crate) fn runs(&self, id: &str) -> bool {
        self.last.lock().health(id).is_ok()
    }
}

impl Last {
    /// How old the look is by which the member runs, and why there is no newer one, where one was tried.
    fn health(&self, id: &str) -> Result<(Duration, Option<Failure>), Failure> {
        let unhealthy = |why: String| Failure(format!("instance is unhealthy: {id} {why}"));
        let unseen = self.seen.as_ref().and_then(|(_, seen)| seen.unseen.get(id));
        let failure = self.failed.as_ref().map(|(_, failure)| failure).or(unseen.map(|unseen| &unseen.why)).cloned();
        let known = self.seen.as_ref().map(|(at, seen)| {
            let seen_at = unseen.map_or(*at, |unseen| unseen.since);
            (seen_at.elapsed(), seen.reports.get(id).copied())
        });
        let Some((age, state)) = known.filter(|(age, _)| *age <= KNOWN_FOR) else {
            let why = failure.map_or_else(String::new, |failure| format!(": {failure}"));
            return Err(unhealthy(format!("was not seen for {} minutes or more{why}", KNOWN_FOR.as_secs() / 60)));
        };
        match state {
            Some(State::Running) => Ok((age, failure)),
            Some(state) => Err(unhealthy(format!("is {state}"))),
            None => Err(unhealthy("is gone or cannot be used".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn seen(state: State) -> Result<Seen, Failure> {
        Ok(Reports::from([("a".to_owned(), state)]).into())
    }

    fn outage() -> Result<Seen, Failure> {
        Err(Failure("the API is down".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_a_quarter_of_an_hour_costs_no_healthy_instance_and_one_without_end_does() {
        let looks = Looks::default();
        assert!(looks.health("a").is_err(), "nothing was ever seen");
        looks.now(async { seen(State::Running) }).await.unwrap();
        for _ in 0..15 {
            tokio::time::advance(Duration::from_secs(60)).await;
            looks.unless_recent(async { outage() }).await;
            assert_eq!(looks.health("a"), Ok(()));
        }
        assert!(looks.health("b").is_err(), "what was never seen is not healthy");
        tokio::time::advance(KNOWN_FOR - Duration::from_secs(14 * 60)).await;
        let words = looks.health("a").unwrap_err().0;
        assert!(words.contains("unhealthy") && words.contains("the API is down"), "{words}");
        looks.now(async { seen(State::Running) }).await.unwrap();
        assert_eq!(looks.health("a"), Ok(()));
        looks.now(async { seen(State::Deleting) }).await.unwrap();
        assert!(looks.health("a").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn many_heartbeats_are_one_look_also_when_it_fails() {
        let looks = Looks::default();
        looks.now(async { seen(State::Running) }).await.unwrap();
        tokio::time::advance(FRESH + Duration::from_secs(1)).await;
        let looked = Cell::new(0);
        let slow = || async {
            looked.set(looked.get() + 1);
            tokio::time::sleep(Duration::from_secs(30)).await;
            outage()
        };
        futures::future::join_all((0..20).map(|_| looks.unless_recent(slow()))).await;
        assert_eq!(looked.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_whose_zone_cannot_be_asked_is_as_old_as_the_last_sight_of_it_however_fresh_the_look() {
        let looks = Looks::default();
        looks.now(async { seen(State::Running) }).await.unwrap();
        let since = Instant::now();
        let without_its_zone = || async move {
            let reports = [("a".to_owned(), State::Running), ("b".to_owned(), State::Running)];
            let why = Failure("fr-par-2 is down".to_owned());
            Ok(Seen { reports: Arc::new(reports.into()), unseen: [("a".to_owned(), Unseen { since, why })].into() })
        };
        for _ in 0..15 {
            tokio::time::advance(Duration::from_secs(60)).await;
            looks.now(without_its_zone()).await.unwrap();
            assert_eq!((looks.health("a"), looks.health("b")), (Ok(()), Ok(())));
        }
        tokio::time::advance(KNOWN_FOR - Duration::from_secs(14 * 60)).await;
        looks.now(without_its_zone()).await.unwrap();
        let words = looks.health("a").unwrap_err().0;
        assert!(words.contains("unhealthy") && words.contains("fr-par-2 is down"), "{words}");
        assert_eq!(looks.health("b"), Ok(()), "the other zone is seen");
    }
}
