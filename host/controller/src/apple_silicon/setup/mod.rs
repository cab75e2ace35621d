//! Setting a host up by `spec.setup`: when a run is due, and the run.

mod archive;
pub(crate) mod ended;
mod inputs;
mod redact;
mod remote;

use std::time::Duration;

use jiff::Timestamp;
use windlass_lifecycle::{ClaimName, Control, RequestedBy, SubjectOf};
use windlass_policy::slots::Retry;
use windlass_policy::slots::retry::{self, Verdict};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::{Server as Host, ServerStatus};
use windlass_ssh::Error as SshError;

use crate::context::Context;
use crate::job_kind::JobKind;
use crate::kinds::{Setup, SetupState, SetupStatus};
use crate::outcome::Outcome;
use crate::status::time;
use archive::Contents;
use ended::{Ended, Ran};
use inputs::Inputs;
use remote::{Problem, Run};

/// What a run says of itself in `EX_TEMPFAIL` of sysexits.h: "temporary failure; user is invited to retry".
const EXIT_TRY_AGAIN: i32 = 75;
/// Output that is kept of a run, before what must not be shown is taken out.
const KEPT: usize = 16 * 1024;
/// Output in the status.
const SHOWN: usize = 2 * 1024;
/// Lines and bytes of it in a message.
const QUOTED: (usize, usize) = (3, 400);
/// The longest wait that a policy may ask for between two runs.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Runs at most before a set-up counts as given up, whatever a policy says.
const MAX_ATTEMPTS: u32 = 100;

/// Whether a run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// None is wanted, or it is done.
    Never,
    /// It is.
    Now,
    /// After so long.
    In(Duration),
}

/// Whether the set-up is due on this host. `done` is the host that the object's annotation says was set up, which
/// counts where the status was lost; `retry` the annotation that asks for another run.
pub(super) fn due(
    wanted: bool,
    known: Option<&SetupStatus>,
    host: &str,
    done: Option<&str>,
    retry: Option<&str>,
    now: Timestamp,
) -> Due {
    if !wanted {
        return Due::Never;
    }
    let known = known.filter(|known| known.server_id.as_deref() == Some(host));
    match known.and_then(|known| Some((known, known.state?))) {
        None if done == Some(host) => Due::Never,
        None => Due::Now,
        Some((known, SetupState::Succeeded)) if known.retry.as_deref() == retry => Due::Never,
        Some((_, SetupState::TearingDown | SetupState::TornDown)) => Due::Never,
        Some((_, SetupState::Running | SetupState::Succeeded)) => Due::Now,
        Some((known, SetupState::Waiting)) => wait(known, now),
    }
}

/// Whether the tear-down is due on this host.
pub(super) fn teardown_due(setup: Option<&Setup>, known: Option<&SetupStatus>, host: &str, now: Timestamp) -> Due {
    let known = known.filter(|known| known.server_id.as_deref() == Some(host));
    match (setup.and_then(|setup| setup.teardown.as_ref()), known.and_then(|known| Some((known, known.state?)))) {
        (None, _) | (_, None | Some((_, SetupState::TornDown))) => Due::Never,
        (Some(_), Some((known, SetupState::TearingDown))) => wait(known, now),
        (Some(_), Some((_, SetupState::Running | SetupState::Waiting | SetupState::Succeeded))) => Due::Now,
    }
}

fn wait(known: &SetupStatus, now: Timestamp) -> Due {
    let at: Option<Timestamp> = known.not_before.as_deref().and_then(|at| at.parse().ok());
    let rest = at.and_then(|at| Duration::try_from(at.duration_since(now)).ok()).unwrap_or_default();
    if rest.is_zero() { Due::Now } else { Due::In(rest) }
}

/// What the status says when a run begins.
pub(super) fn begun(known: Option<&SetupStatus>, kind: JobKind, host: &str, now: Timestamp) -> SetupStatus {
    let (state, going_on): (_, &[SetupState]) = match kind {
        JobKind::TearDown => (SetupState::TearingDown, &[SetupState::TearingDown]),
        _ => (SetupState::Running, &[SetupState::Running, SetupState::Waiting]),
    };
    let failures = known.map(|known| known.failures).unwrap_or_default();
    let known = known.filter(|known| known.server_id.as_deref() == Some(host)).cloned().unwrap_or_default();
    let goes_on = known.attempt > 0 && known.state.is_some_and(|state| going_on.contains(&state));
    SetupStatus {
        server_id: Some(host.to_owned()),
        state: Some(state),
        failures,
        attempt: if goes_on { known.attempt.saturating_add(1) } else { 1 },
        began_at: known.began_at.clone().filter(|_| goes_on).or_else(|| Some(time(now))),
        not_before: None,
        ..known
    }
}

/// What the condition `Bootstrapped` says where its own words are lost: whether it holds, the reason, the message.
pub(super) fn bootstrapped(known: &SetupStatus) -> Option<(bool, &'static str, String)> {
    match known.state? {
        SetupState::Succeeded => Some((true, "SetUp", "the host was set up".to_owned())),
        SetupState::Running => {
            Some((false, "SettingUp", format!("run {} of the set-up script is in progress", known.attempt)))
        }
        SetupState::Waiting => Some((false, "SetupRetried", "the set-up script failed and is run again".to_owned())),
        SetupState::TearingDown | SetupState::TornDown => None,
    }
}

/// One run, as it is asked for.
pub(super) struct Request {
    /// [`JobKind::SetUp`] or [`JobKind::TearDown`].
    pub(super) kind: JobKind,
    pub(super) setup: Setup,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) zone: Zone,
    pub(super) id: String,
    pub(super) claim: ClaimName,
    pub(super) requested_by: RequestedBy,
    pub(super) provider_id: String,
    /// The host key that this host showed before.
    pub(super) host_key: Option<String>,
    /// Which run this is since the last one that was given up, from 1.
    pub(super) attempt: u32,
    /// Since the first of these began.
    pub(super) elapsed: Duration,
}

/// Runs the script, and asks the retry slot when it fails.
pub(super) async fn run(context: &Context, request: Request, control: &Control) -> Outcome {
    tokio::select! {
        biased;
        () = control.left().cancelled() => Outcome::LeftOpen,
        () = control.cancelled().cancelled() => {
            Outcome::CalledOff { message: "the script was cancelled and is being stopped on the host".to_owned() }
        }
        ran = request.run(context) => Outcome::Ran(Box::new(ran)),
    }
}

impl Request {
    fn script(&self) -> (&str, Duration) {
        let (script, seconds) = match (self.kind, &self.setup.teardown) {
            (JobKind::TearDown, Some(teardown)) => (&teardown.script, teardown.time_limit_seconds),
            _ => (&self.setup.script, self.setup.time_limit_seconds),
        };
        (script, Duration::from_secs(seconds.into()))
    }

    async fn run(&self, context: &Context) -> Ran {
        let not_begun = |reason, message| Ran {
            kind: self.kind,
            host: self.id.clone(),
            ended: Ended::NotBegun { reason, message, after: context.settings.retry_interval },
            host_key: None,
            exit_code: None,
            output: None,
        };
        let (script, time_limit) = self.script();
        let mut inputs = match Inputs::read(&context.client, &self.namespace, &self.setup, script).await {
            Ok(inputs) => inputs,
            Err(problem) => return not_begun("SetupNotReady", problem),
        };
        // The last look before anything is done to it, and the only one that shows its password.
        let host = match context.lifecycle.host(&self.zone, &self.id).await {
            Ok(Some(host)) => host,
            Ok(None) => return not_begun("HostGone", format!("Scaleway has no host {} any more", self.id)),
            Err(error) => return not_begun("HostUnreadable", error.to_string()),
        };
        if host.name != self.claim.as_str() || host.status != ServerStatus::Ready {
            let Host { id, name, status, .. } = &host;
            return not_begun(
                "HostNotReady",
                format!("the host {id} is named {name:?} and has the status {}", status.as_str()),
            );
        }
        let password = host.sudo_password.reveal();
        for secret in [password, host.vnc_url.reveal()].into_iter().flatten() {
            inputs.redacted.add(secret.as_bytes());
        }
        let Some(login) = inputs.login(password) else {
            return not_begun(
                "PasswordsNotShown",
                format!("Scaleway does not show the passwords of the host {}", self.id),
            );
        };
        let user = self.setup.user.as_deref().unwrap_or(&host.ssh_username);
        let Some(destination) = remote::destination(&host.ip, self.setup.port, user) else {
            return not_begun("HostNotReady", format!("the host {} has no address", self.id));
        };
        let mut host_keys = std::mem::take(&mut inputs.host_keys);
        if host_keys.is_empty()
            && let Some(seen) = &self.host_key
        {
            match seen.parse() {
                Ok(key) => host_keys.push(key),
                // One that cannot be read must not count as none.
                Err(error) => return not_begun("SetupNotReady", format!("status.setup.hostKey: {error}")),
            }
        }
        let archive = Contents {
            files: std::mem::take(&mut inputs.files),
            secrets: std::mem::take(&mut inputs.secrets),
            sudo_password: password.map(str::to_owned),
            environment: self.environment(&host, script),
        };
        let archive = match archive.archive() {
            Ok(archive) => archive,
            Err(error) => return not_begun("SetupNotReady", format!("the files cannot be packed: {error}")),
        };
        let kept = KEPT + inputs.redacted.longest();
        let ran = Run { destination, login: &login, host_keys, archive: &archive, time_limit, kept }.perform().await;
        let output = inputs.redacted.end_of(&ran.output, SHOWN);
        let ended = match &ran.ended {
            Ok(()) => Ended::Done,
            Err(problem) => {
                let message = inputs.redacted.redact(&format!("{script} {problem}")) + &quoted(&output);
                self.failed(context, problem, message).await
            }
        };
        Ran {
            kind: self.kind,
            host: self.id.clone(),
            ended,
            host_key: ran.host_key.map(|key| key.to_string()),
            exit_code: match &ran.ended {
                Ok(()) => Some(0),
                Err(Problem::Ssh(SshError::ExitCode(code))) => Some(*code),
                Err(_) => None,
            },
            output: (!output.is_empty()).then_some(output),
        }
    }

    fn environment(&self, host: &Host, script: &str) -> Vec<(&'static str, String)> {
        vec![
            ("WINDLASS_ACTION", self.kind.as_str().to_owned()),
            ("WINDLASS_SCRIPT", script.to_owned()),
            ("WINDLASS_NAMESPACE", self.namespace.clone()),
            ("WINDLASS_MACHINE", self.name.clone()),
            ("WINDLASS_PROVIDER_ID", self.provider_id.clone()),
            ("WINDLASS_SERVER_ID", self.id.clone()),
            ("WINDLASS_SERVER_TYPE", host.server_type.clone()),
            ("WINDLASS_ZONE", self.zone.to_string()),
            ("WINDLASS_ADDRESS", host.ip.clone()),
            ("WINDLASS_ATTEMPT", self.attempt.to_string()),
        ]
    }

    /// Whether it is tried again: the retry slot's to say.
    async fn failed(&self, context: &Context, problem: &Problem, message: String) -> Ended {
        let question = retry::Question {
            now: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default(),
            random: rand::random(),
            operation: format!("{}-machine", self.kind.as_str()),
            step: "run-script".to_owned(),
            // What is left behind goes with the host's disk.
            undoing: false,
            attempt: self.attempt,
            elapsed: u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            time_left: None,
            failure: Failure::of_class(class(problem), &message),
            zone: self.zone.to_string(),
            subject: context
                .lifecycle
                .subject(SubjectOf { requested_by: Some(&self.requested_by), ..SubjectOf::default() }),
            server_type: None,
        };
        let decision = context.policies.pin_of(Some(&self.namespace)).decide::<Retry>(question).await;
        match decision.answer.verdict {
            Verdict::Wait(wait) if self.attempt < MAX_ATTEMPTS => {
                Ended::Again { message, after: Duration::from_millis(wait).min(MAX_WAIT) }
            }
            _ => Ended::GivenUp { message },
        }
    }
}

/// What a failure is to the retry slot: what may pass by itself says so, all else is the script's own word.
fn class(problem: &Problem) -> FailureClass {
    match problem {
        Problem::Ssh(SshError::Connection(_)) => FailureClass::Connection,
        Problem::Ssh(SshError::ExitCode(EXIT_TRY_AGAIN)) => FailureClass::TransientState,
        Problem::TimedOut(_) => FailureClass::HookTimedOut,
        Problem::Ssh(_) => FailureClass::HookFailed,
    }
}

/// The last words of an output, for a message.
fn quoted(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = lines[lines.len().saturating_sub(QUOTED.0)..].join(" / ");
    let words = &words[words.ceil_char_boundary(words.len().saturating_sub(QUOTED.1))..];
    if words.is_empty() { String::new() } else { format!("; it said: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-08-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn known(state: SetupState) -> SetupStatus {
        SetupStatus {
            server_id: Some("h".into()),
            state: Some(state),
            failures: 4,
            attempt: 2,
            began_at: Some("2026-08-01T11:58:00Z".into()),
            not_before: Some("2026-08-01T12:00:30Z".into()),
            host_key: Some("ssh-ed25519 AAAA".into()),
            ..SetupStatus::default()
        }
    }

    #[test]
    fn a_run_is_due_as_the_table_says() {
        use SetupState as State;
        let soon = Due::In(Duration::from_secs(30));
        let past = SetupStatus { not_before: Some(NOW.into()), ..known(State::Waiting) };
        let retried = SetupStatus { retry: Some("1".into()), ..known(State::Succeeded) };
        for (status, done, retry, set_up, tear_down) in [
            (None, None, None, Due::Now, Due::Never),
            // The status was lost; the annotation was not.
            (None, Some("h"), None, Due::Never, Due::Never),
            (None, Some("another"), None, Due::Now, Due::Never),
            (Some(known(State::Running)), None, None, Due::Now, Due::Now),
            (Some(known(State::Waiting)), None, None, soon, Due::Now),
            (Some(past), None, None, Due::Now, Due::Now),
            (Some(known(State::Succeeded)), Some("h"), None, Due::Never, Due::Now),
            (Some(known(State::Succeeded)), Some("h"), Some("1"), Due::Now, Due::Now),
            (Some(retried), Some("h"), Some("1"), Due::Never, Due::Now),
            (Some(known(State::TearingDown)), None, None, Due::Never, soon),
            (Some(known(State::TornDown)), None, None, Due::Never, Due::Never),
            // Another host is set up anew, whatever was known of the one before.
            (
                Some(SetupStatus { server_id: Some("i".into()), ..known(State::Succeeded) }),
                None,
                None,
                Due::Now,
                Due::Never,
            ),
        ] {
            let setup = Setup { teardown: Some(crate::kinds::Teardown::default()), ..Setup::default() };
            assert_eq!(due(true, status.as_ref(), "h", done, retry, now()), set_up, "{status:?}");
            assert_eq!(teardown_due(Some(&setup), status.as_ref(), "h", now()), tear_down, "{status:?}");
            assert_eq!(due(false, status.as_ref(), "h", done, retry, now()), Due::Never);
            assert_eq!(teardown_due(Some(&Setup::default()), status.as_ref(), "h", now()), Due::Never);
        }
    }

    #[test]
    fn runs_are_counted_until_one_is_given_up_and_a_host_key_is_its_hosts() {
        let first = begun(None, JobKind::SetUp, "h", now());
        assert_eq!((first.attempt, first.failures, first.began_at.as_deref()), (1, 0, Some(NOW)));
        let next = begun(Some(&known(SetupState::Waiting)), JobKind::SetUp, "h", now());
        assert_eq!((next.attempt, next.failures, next.state), (3, 4, Some(SetupState::Running)));
        assert_eq!((next.began_at.as_deref(), &next.not_before), (Some("2026-08-01T11:58:00Z"), &None));
        let given_up = SetupStatus { attempt: 0, ..known(SetupState::Waiting) };
        let anew = begun(Some(&given_up), JobKind::SetUp, "h", now());
        assert_eq!((anew.attempt, anew.began_at.as_deref()), (1, Some(NOW)));
        assert!(anew.host_key.is_some());
        let of_another = begun(Some(&given_up), JobKind::SetUp, "i", now());
        assert_eq!((of_another.attempt, of_another.failures, of_another.host_key), (1, 4, None));
        let left = begun(Some(&known(SetupState::Waiting)), JobKind::TearDown, "h", now());
        assert_eq!((left.attempt, left.state), (1, Some(SetupState::TearingDown)));
    }

    #[test]
    fn what_may_pass_by_itself_is_a_passing_failure_for_the_retry_slot() {
        for (problem, expected) in [
            (Problem::Ssh(SshError::Connection("refused".into())), FailureClass::Connection),
            (Problem::Ssh(SshError::ExitCode(75)), FailureClass::TransientState),
            (Problem::Ssh(SshError::ExitCode(1)), FailureClass::HookFailed),
            (Problem::Ssh(SshError::LoginRefused { user: "m1".into() }), FailureClass::HookFailed),
            (Problem::TimedOut(Duration::from_secs(1)), FailureClass::HookTimedOut),
        ] {
            assert_eq!(class(&problem), expected, "{problem}");
        }
    }

    #[test]
    fn a_message_quotes_the_last_words() {
        assert_eq!(quoted("one\n\ntwo\nthree\nfour\n"), "; it said: two / three / four");
        assert_eq!(quoted(""), "");
        assert_eq!(quoted(&"é".repeat(1000)).len(), "; it said: ".len() + QUOTED.1);
    }
}
