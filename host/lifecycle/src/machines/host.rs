//! One host: whether it is there, and changing its name so that the outcome is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::apple_silicon::{ListServers, Server, UpdateServer};
use windlass_scaleway::types::instance::Server as InstanceServer;
use windlass_scaleway::{ErrorClass, Zone};

use crate::absence::read_or_absent;
use crate::control::Control;
use crate::journal::{Phase, ResourceKind, ResourceName};
use crate::lifecycle::Lifecycle;
use crate::run::{Run, attempts};
use crate::shared::Shared;
use crate::stop::Stop;
use crate::{Error, failure};

/// Tries of a look at a host before it is given up for now: whoever asked comes back.
const LOOKS: u32 = 3;
/// How old a read under the same lock may be that stands for the one right before a change.
const JUST_NOW: Duration = Duration::from_secs(1);

/// Whether a host exists.
#[derive(Clone, Debug)]
pub(crate) enum Presence {
    Here(Box<Server>),
    Gone,
}

pub(crate) fn resource(zone: &Zone, id: &str) -> ResourceName {
    ResourceName { kind: ResourceKind::AppleSiliconServer, id: id.to_owned(), zone: zone.to_string(), server: None }
}

/// Reads a host. What stands for "not found" in this API (403 `permissions_denied`, recorded) is also what a key is
/// told that may not see the host, and such a key's lists leave it out. So that one is gone is believed only when,
/// beside that answer, two lists a moment apart agree and do not hold it, and every other host that was listed beside
/// it is still listed: a key whose rights were narrowed loses more than one. A process that has just begun takes the
/// hosts that the journal knows to be claimed for those others. (assumption: mac-listing-complete)
async fn read(shared: &Shared, control: &Control, zone: &Zone, id: &str) -> Result<Presence, windlass_scaleway::Error> {
    let api = shared.client.apple_silicon(zone);
    let error = match api.get_server(id).await {
        Ok(server) => return Ok(Presence::Here(Box::new(server))),
        Err(error) if error.is_gone_or_not_ours() => error,
        Err(error) => return Err(error),
    };
    let list = || async {
        let servers = api.list_servers(&ListServers::default()).await?;
        Ok::<BTreeSet<String>, windlass_scaleway::Error>(servers.into_iter().map(|server| server.id).collect())
    };
    let first = list().await?;
    wait(control, shared.limits.settle).await;
    let second = list().await?;
    if first != second || second.contains(id) {
        return Err(error);
    }
    let hosts = &shared.machines.hosts;
    let others = match hosts.others(zone, id) {
        Some(others) => others,
        None if hosts.is_young() => match shared.journal.claimed_hosts(&shared.owner, zone) {
            Ok(claimed) => Arc::new(claimed),
            Err(unread) => {
                tracing::warn!(host = id, %zone, error = %unread, "cannot check whether other hosts are still listed");
                return Err(error);
            }
        },
        None => Arc::default(),
    };
    if !others.iter().all(|other| other == id || second.contains(other)) {
        tracing::warn!(host = id, %zone, "several hosts are not listed any more: the key may have lost rights, \
            so the host does not count as gone");
        return Err(error);
    }
    Ok(Presence::Gone)
}

/// Whether a host whose deletion Scaleway has just taken is still there: that answer and the refusal to show it are
/// proof together.
async fn deleted(shared: &Shared, zone: &Zone, id: &str) -> Result<Presence, windlass_scaleway::Error> {
    match shared.client.apple_silicon(zone).get_server(id).await {
        Ok(server) => Ok(Presence::Here(Box::new(server))),
        Err(error) if error.is_gone_or_not_ours() => Ok(Presence::Gone),
        Err(error) => Err(error),
    }
}

/// Reads a host, a few times where that fails. Changes nothing, so no policy is asked and nothing is journalled.
pub(crate) async fn presence(
    shared: &Shared,
    control: &Control,
    zone: &Zone,
    id: &str,
) -> Result<Presence, windlass_scaleway::Error> {
    let mut attempt = 1;
    loop {
        let error = match read(shared, control, zone, id).await {
            Ok(presence) => return Ok(presence),
            Err(error) => error,
        };
        let hopeless = matches!(error.class(), ErrorClass::AuthenticationDenied | ErrorClass::InvalidArguments);
        if attempt >= LOOKS || hopeless || control.left().is_cancelled() {
            return Err(error);
        }
        pause(shared, control, attempt).await;
        attempt += 1;
    }
}

/// Half a second to two, jittered; no longer than until the work is to end.
pub(crate) async fn pause(shared: &Shared, control: &Control, attempt: u32) {
    let longest = 500_u64 << attempt.min(2);
    wait(control, Duration::from_millis(longest / 2 + shared.randomness.word() % (longest / 2))).await;
}

async fn wait(control: &Control, duration: Duration) {
    tokio::select! {
        biased;
        () = control.left().cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

impl Lifecycle {
    /// Reads one host, with its passwords. `None` only where it is proven to be gone, and not merely out of this key's
    /// sight.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when it cannot be read, or nobody can tell whether it is there.
    pub async fn host(&self, zone: &Zone, id: &str) -> Result<Option<Server>, Error> {
        match presence(&self.shared, &Control::new(), zone, id).await {
            Ok(Presence::Here(server)) => Ok(Some(*server)),
            Ok(Presence::Gone) => Ok(None),
            Err(error) => Err(Error::scaleway("reading a host", error)),
        }
    }

    /// Reads one server, also one that is not ours. `None` only where Scaleway says that there is none.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when it cannot be read.
    pub async fn server(&self, zone: &Zone, id: &str) -> Result<Option<InstanceServer>, Error> {
        let instance = self.shared.client.instance(zone);
        let seen = read_or_absent(|| instance.get_server(id)).await;
        seen.map_err(|error| Error::scaleway("reading a server", error))
    }
}

/// How a change that was asked for stands, as far as it can be seen.
pub(crate) enum Seen<T> {
    /// It took effect.
    Done(T),
    /// It did not, and may be tried again.
    NotYet,
    /// It cannot any more: the host has gone, or has gone to somebody else.
    Over(Over),
}

/// Why a host is no longer ours to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Gone,
    /// It carries this name instead of the one that it should.
    Renamed(String),
}

/// What became of a change.
pub(crate) enum Changed<T> {
    Done(T),
    Over(Over),
    /// Scaleway refused it and may go on to; the host is as it was.
    Refused(Box<Refused>),
}

/// A refusal, as the release slot receives it.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    pub(crate) not_before: Option<u64>,
}

impl Refused {
    pub(crate) fn of(failure: Failure) -> Self {
        Self { failure, not_before: None }
    }
}

/// Sends a call until its effect is seen, it is refused for good, or the host is no longer ours.
///
/// Right before each call the host is read by its id and `judge` says whether the call is still wanted, and after each
/// failed one whether it took effect, so a lost answer is neither repeated blindly nor believed. Whether a failed call
/// is sent again is the retry slot's, within the run's deadline; one that a precondition forbids is not: who asked for
/// it has to think again.
pub(crate) async fn change<T, C, CFut, A>(
    run: &Run,
    step: &str,
    id: &str,
    call: C,
    judge: impl FnMut(&Server) -> Seen<T>,
    done: impl Fn(A) -> Option<T>,
    gone: impl Fn() -> Option<T>,
) -> Result<Changed<T>, Stop>
where
    C: FnMut() -> CFut,
    CFut: Future<Output = Result<A, windlass_scaleway::Error>>,
{
    run.trace.in_step(step, change_within(run, step, (id, None), call, judge, done, gone)).await
}

/// What was read of a host, and when.
pub(crate) type Read<'a> = (Instant, &'a Server);

/// What a call ended with that took no effect as far as its answer tells.
struct Unsettled {
    failure: Failure,
    not_before: Option<u64>,
}

/// What [`change`] does within its step.
async fn change_within<T, C, CFut, A>(
    run: &Run,
    step: &str,
    (id, read): (&str, Option<Read<'_>>),
    mut call: C,
    mut judge: impl FnMut(&Server) -> Seen<T>,
    done: impl Fn(A) -> Option<T>,
    gone: impl Fn() -> Option<T>,
) -> Result<Changed<T>, Stop>
where
    C: FnMut() -> CFut,
    CFut: Future<Output = Result<A, windlass_scaleway::Error>>,
{
    let mut attempts = attempts();
    // A call whose effect is to be looked for before anything else.
    let mut unsettled: Option<Unsettled> = None;
    let (mut sent, mut taken) = (false, false);
    let mut read = read.filter(|(at, _)| at.elapsed() < JUST_NOW);
    loop {
        run.check(step)?;
        let seen = if let Some((_, host)) = read.take() {
            Ok(Presence::Here(Box::new(host.clone())))
        } else if taken && gone().is_some() {
            deleted(&run.shared, &run.zone, id).await
        } else {
            presence(&run.shared, &run.control, &run.zone, id).await
        };
        let failed = match seen {
            Ok(Presence::Gone) => {
                return Ok(gone().filter(|_| sent).map_or(Changed::Over(Over::Gone), Changed::Done));
            }
            Ok(Presence::Here(server)) => match judge(&server) {
                Seen::Done(value) => return Ok(Changed::Done(value)),
                Seen::Over(over) => return Ok(Changed::Over(over)),
                Seen::NotYet => match unsettled.take() {
                    Some(Unsettled { failure, not_before }) if failure.class == FailureClass::PreconditionFailed => {
                        let data = json!({ "attempt": attempts.number(), "failure": failure, "wait": Value::Null });
                        run.write(step, Phase::Failure, None, data).await?;
                        return Ok(Changed::Refused(Box::new(Refused { failure, not_before })));
                    }
                    Some(Unsettled { failure, .. }) => failure,
                    None => match call().await {
                        Ok(answer) => match done(answer) {
                            Some(value) => return Ok(Changed::Done(value)),
                            None => {
                                (sent, taken) = (true, true);
                                let words = "Scaleway answered well and shows no change";
                                let failure = failure::of_class(FailureClass::Other, words);
                                unsettled = Some(Unsettled { failure, not_before: None });
                                continue;
                            }
                        },
                        Err(error) => {
                            let failure = failure::of_error(&error);
                            if error.is_ambiguous() {
                                run.write(step, Phase::Note, None, json!({ "ambiguous": failure })).await?;
                                run.sleep(step, run.shared.limits.settle).await?;
                            }
                            if error.is_ambiguous() || error.status().is_some() {
                                sent = true;
                                let not_before =
                                    error.not_before().and_then(|at| u64::try_from(at.as_millisecond()).ok());
                                unsettled = Some(Unsettled { failure, not_before });
                                continue;
                            }
                            failure
                        }
                    },
                },
            },
            Err(error) => {
                let failure = failure::of_error(&error);
                // What came of the call is not known: it is not sent again before it is.
                if unsettled.is_some() {
                    unsettled = Some(Unsettled { failure: failure.clone(), not_before: None });
                }
                failure
            }
        };
        match run.after_failure(step, &mut attempts, failed, None).await {
            Ok(()) => {}
            Err(Stop::Failed(failed)) if failed.failure.class != FailureClass::Cancelled => {
                return Ok(Changed::Refused(Box::new(Refused::of(failed.failure))));
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// Renames a host that carries one of `from`. Whoever gave it another name meanwhile has it.
pub(crate) async fn rename(run: &Run, step: &str, id: &str, from: &[&str], to: &str) -> Result<Changed<Server>, Stop> {
    rename_if(run, step, id, from, to, |_| true).await
}

/// The same, as long as the host fits as well.
pub(crate) async fn rename_if(
    run: &Run,
    step: &str,
    id: &str,
    from: &[&str],
    to: &str,
    fits: impl Fn(&Server) -> bool,
) -> Result<Changed<Server>, Stop> {
    rename_of(run, step, (id, None), from, to, fits).await
}

/// Renames a host that was read under the lock that is held: it is not read again where that was just now.
pub(crate) async fn rename_read(run: &Run, step: &str, read: Read<'_>, to: &str) -> Result<Changed<Server>, Stop> {
    let host = read.1;
    rename_of(run, step, (host.id.as_str(), Some(read)), &[&host.name], to, |_| true).await
}

#[expect(clippy::disallowed_methods, reason = "sent by `change_within`, which has read the host, or got it just read")]
async fn rename_of(
    run: &Run,
    step: &str,
    (id, read): (&str, Option<Read<'_>>),
    from: &[&str],
    to: &str,
    fits: impl Fn(&Server) -> bool,
) -> Result<Changed<Server>, Stop> {
    let api = run.shared.client.apple_silicon(&run.zone);
    let request = UpdateServer::rename(to);
    let change = change_within(
        run,
        step,
        (id, read),
        || api.update_server(id, &request),
        |server| match server.name.as_str() {
            name if name == to => Seen::Done(server.clone()),
            name if from.contains(&name) && fits(server) => Seen::NotYet,
            name => Seen::Over(Over::Renamed(name.to_owned())),
        },
        |server: Server| (server.name == to && server.id == id).then_some(server),
        || None,
    );
    let changed = run.trace.in_step(step, change).await?;
    match &changed {
        Changed::Done(server) => run.shared.machines.hosts.replace(&run.zone, server),
        Changed::Over(Over::Gone) => run.shared.machines.hosts.forget(&run.zone, id),
        Changed::Over(Over::Renamed(_)) | Changed::Refused(_) => {}
    }
    Ok(changed)
}
