//! Suspend and Resume: `stop_in_place` and `poweron`. A server that is stopped in place keeps its hypervisor, and **is
//! still billed**: what is won is a quick start with a warm disk, not money. Hence only where the configuration asks.

use std::sync::Arc;
use std::time::Duration;

use windlass_lifecycle::Error as LifecycleError;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerAction, ServerState};

use super::Instances;
use crate::group::book::Book;
use crate::group::entry::{Event, Phase};
use crate::group::fleet::Fleet;
use crate::group::kind::Direction;
use crate::protocol::{Failure, Partial};

/// The list of suspended instances, kept over a restart: a server that is stopped in place for another reason is reaped.
pub(super) const LIST: &str = "suspended";
/// Looks at a server until it has come to rest: Scaleway takes up to 46 s to stop one in place (recorded).
const LOOKS: u32 = 60;
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

impl Fleet<Instances> {
    /// Accepts suspensions or resumptions and carries them out in the background. One that is suspended already is
    /// accepted.
    pub(super) fn turn(self: &Arc<Self>, instances: Vec<String>, direction: Direction) -> Partial {
        if !self.configuration.suspend {
            let words = "capability not supported: suspend_resume; set suspend = true in plugin_config";
            return Partial { succeeded: Vec::new(), failure: Some(Failure(words.to_owned())) };
        }
        let mut partial = Partial::default();
        let mut refused = Vec::new();
        for id in instances {
            match self.accept(&id, direction) {
                Ok(server) => {
                    if let Some((zone, server)) = server {
                        let fleet = Arc::clone(self);
                        let id = id.clone();
                        self.tasks.spawn(async move { fleet.carry_out(&id, &zone, &server, direction).await });
                    }
                    partial.succeeded.push(id);
                }
                Err(words) => refused.push(format!("{id}: {words}")),
            }
        }
        if !refused.is_empty() {
            partial.failure = Some(Failure(refused.join("; ")));
        }
        partial
    }

    /// The server to act on, with its zone; none when there is nothing to do.
    fn accept(&self, id: &str, direction: Direction) -> Result<Option<(Zone, String)>, String> {
        let is_idle = |book: &Book| book.get(id).is_some_and(|entry| matches!(entry.phase(), Phase::Idle { .. }));
        if direction == Direction::Suspend && is_idle(&self.book.lock()) {
            // Before the server is stopped: a crash in between never takes it for one that stopped by itself.
            self.kind.suspensions.remember([id]).map_err(|error| format!("it cannot be noted: {error}"))?;
        }
        let mut book = self.book.lock();
        let Some(entry) = book.get(id) else { return Err("there is no such instance".to_owned()) };
        let Some(server) = entry.server.clone() else { return Err("it has no server yet".to_owned()) };
        let zone = entry.place.zone.clone();
        let event = match (entry.phase(), direction) {
            (Phase::Suspending, Direction::Suspend) | (Phase::Resuming, Direction::Resume) => return Ok(None),
            (Phase::Idle { suspended: true }, Direction::Suspend) => return Ok(None),
            (Phase::Idle { suspended: false }, Direction::Resume) if entry.runs_for_the_runner() => return Ok(None),
            (Phase::Idle { .. }, Direction::Suspend) => Event::SuspendBegan,
            (Phase::Idle { .. }, Direction::Resume) => Event::ResumeBegan,
            _ => return Err("something else is being done with it".to_owned()),
        };
        book.apply(id, &event);
        Ok(Some((zone, server)))
    }

    async fn carry_out(&self, id: &str, zone: &Zone, server: &str, direction: Direction) {
        let ended = tokio::select! {
            biased;
            () = self.tasks.control().left().cancelled() => return,
            ended = self.turn_server(zone, server, direction) => ended,
        };
        if let Err(words) = &ended {
            tracing::error!(instance = id, "it could not be {}: {words}", direction.done());
        }
        // A failed suspension leaves it running, a failed resumption leaves it suspended.
        let suspended = (direction == Direction::Suspend) == ended.is_ok();
        if self.apply(id, &Event::Rests { suspended }).is_some() && !suspended {
            self.kind.suspensions.forget(id);
        }
    }

    /// Reads the server, checks that it is ours, acts, and waits until it has come to rest.
    async fn turn_server(&self, zone: &Zone, id: &str, direction: Direction) -> Result<(), String> {
        let mut asked = false;
        let mut last = String::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            let mut rests = false;
            let mut acts = false;
            let judge = |server: &Server| {
                last = format!("it is {}", server.state.as_str());
                rests = server.state == direction.wanted();
                let action = direction.action(&server.state).filter(|_| !rests && !asked);
                acts = action.is_some();
                action
            };
            let seen = self.lifecycle.act_on_server(zone, id, judge).await;
            match seen {
                Ok(false) => return Err("its server is gone".to_owned()),
                Ok(true) if rests => return Ok(()),
                Ok(true) => asked |= acts,
                Err(error @ (LifecycleError::NotOurs { .. } | LifecycleError::Protected { .. })) => {
                    return Err(error.to_string());
                }
                // Whether it took effect shows at the next look.
                Err(error) => last = error.to_string(),
            }
        }
        Err(format!("it did not come to rest: {last}"))
    }
}

impl Direction {
    fn wanted(self) -> ServerState {
        match self {
            Self::Suspend => ServerState::StoppedInPlace,
            Self::Resume => ServerState::Running,
        }
    }

    /// What leads there from this state, where anything does.
    fn action(self, from: &ServerState) -> Option<ServerAction> {
        match (self, from) {
            (Self::Suspend, ServerState::Running) => Some(ServerAction::StopInPlace),
            (Self::Resume, ServerState::StoppedInPlace | ServerState::Stopped) => Some(ServerAction::PowerOn),
            _ => None,
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
        }
    }
}
