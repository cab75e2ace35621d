//! Waiting for a server until something can be said about it.

use std::sync::Arc;

use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::instance::Server;

use crate::failure;
use crate::poller::{Poller, Waiting};
use crate::run::{Run, attempts};
use crate::stop::Stop;

/// The waits between looks, in poll intervals: short at first, then longer.
const INTERVALS: [u32; 6] = [1, 1, 2, 2, 3, 5];

impl Poller {
    /// Looks at the server again and again until `judge` has something to say. A look that fails is put to the retry
    /// slot and does not end the wait by itself.
    pub(crate) async fn wait<T>(
        &self,
        run: &Run,
        step: &str,
        id: &str,
        deadline: Instant,
        judge: impl FnMut(Option<Server>) -> Option<Result<T, Failure>>,
    ) -> Result<T, Stop> {
        run.trace.in_step(step, self.watch(run, step, id, deadline, judge)).await
    }

    /// What [`Poller::wait`] does within its step.
    async fn watch<T>(
        &self,
        run: &Run,
        step: &str,
        id: &str,
        deadline: Instant,
        mut judge: impl FnMut(Option<Server>) -> Option<Result<T, Failure>>,
    ) -> Result<T, Stop> {
        let shared = self.zone(&run.zone);
        let _waiting = Waiting::new(Arc::clone(&shared), id);
        let mut looks = 0;
        let mut failed_looks = None;
        let mut last_state = String::from("unknown");
        loop {
            let interval = self.interval * INTERVALS[looks.min(INTERVALS.len() - 1)];
            looks += 1;
            let looked = Box::pin(async {
                tokio::time::sleep(interval).await;
                self.look(&run.zone, &shared, id).await
            });
            let looked =
                if Instant::now() + interval > deadline { None } else { run.until(step, deadline, looked).await? };
            let Some(looked) = looked else {
                return Err(Stop::failed(
                    step,
                    failure::of_class(
                        FailureClass::DeadlineExceeded,
                        format!("the deadline passed while server {id} was {last_state}"),
                    ),
                ));
            };
            match looked {
                Ok(server) => {
                    failed_looks = None;
                    run.absences.prove(id, server.is_none());
                    if let Some(server) = &server {
                        last_state = format!("{} {}", server.state, server.state_detail).trim_end().to_owned();
                    }
                    if let Some(judged) = judge(server) {
                        return judged.map_err(|failed| Stop::failed(step, failed));
                    }
                }
                Err(failed) => {
                    run.after_failure(step, failed_looks.get_or_insert_with(attempts), failed, None).await?;
                }
            }
        }
    }
}
