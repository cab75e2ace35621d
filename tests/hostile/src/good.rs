//! The peer that means no harm. It does as the clients do: it gives each call its time, and connects anew where the
//! server has closed a connection that it had.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use prost::Message as _;
use windlass_serve::proto::{self, answer, outcome, request, response, retry_verdict};

use crate::messages::{decide, gateway_failed, receive, request, servers};
use crate::server::{RULES, Server, WAIT_MS};

/// How many broken promises are told in words.
const TOLD: usize = 10;

pub(crate) struct Good {
    socket: PathBuf,
    time: Duration,
    stream: Option<UnixStream>,
    pin: Vec<u8>,
    asked: u64,
    times: Vec<Duration>,
    ids: Vec<String>,
    broken: Vec<String>,
    lost_records: u64,
}

impl Good {
    pub(crate) fn new(server: &Server, time: Duration) -> Good {
        Good {
            socket: server.socket().into(),
            time,
            stream: None,
            pin: Vec::new(),
            asked: 0,
            times: Vec::new(),
            ids: Vec::new(),
            broken: Vec::new(),
            lost_records: 0,
        }
    }

    /// Asks one question, and remembers whether it was decided as it has to be.
    pub(crate) fn ask(&mut self) {
        self.asked += 1;
        if let Err(error) = self.try_to_ask()
            && self.broken.len() < TOLD
        {
            self.broken.push(format!("the good peer's question {}: {error:#}", self.asked));
        }
    }

    /// How long the questions took since this was asked last, sorted.
    pub(crate) fn take_times(&mut self) -> Vec<Duration> {
        let mut times = std::mem::take(&mut self.times);
        times.sort_unstable();
        times
    }

    /// Of all its decisions.
    pub(crate) fn ids(&self) -> &[String] {
        &self.ids
    }

    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// How many records the server has lost, as it said last.
    pub(crate) fn lost_records(&self) -> u64 {
        self.lost_records
    }

    fn try_to_ask(&mut self) -> anyhow::Result<()> {
        match self.asked % 50 {
            0 => match self.call(&request(request::Call::Pin(())))? {
                response::Result::Pin(pin) => self.pin = pin.token.into(),
                other => bail!("no pin: {other:?}"),
            },
            25 => match self.call(&request(request::Call::Status(())))? {
                response::Result::Status(status) => {
                    self.lost_records = status.counters.map_or(0, |counters| counters.lost_records);
                    let is_asked = |link: &&proto::Link| {
                        let slot = link.policy.as_ref().map(|policy| policy.slot.as_str());
                        !link.shadow && matches!(slot, Some("retry" | "state-mapping"))
                    };
                    let suspended = status.links.iter().filter(is_asked).find(|link| link.suspended);
                    ensure!(suspended.is_none(), "a policy is suspended: {suspended:?}");
                }
                other => bail!("no status: {other:?}"),
            },
            _ => {}
        }
        let pin = if self.asked.is_multiple_of(2) { self.pin.clone() } else { Vec::new() };
        let began = Instant::now();
        if self.asked.is_multiple_of(10) {
            let decision = self.decision(&decide(&pin, vec![servers(3)]))?;
            let Some(answer::Slot::StateMapping(answers)) = decision.answer.and_then(|answer| answer.slot) else {
                bail!("an answer of another slot")
            };
            ensure!(answers.answers.len() == 3, "{answers:?}");
        } else {
            let decision = self.decision(&decide(&pin, vec![gateway_failed()]))?;
            match &decision.decided_by {
                Some(proto::decision::DecidedBy::Policy(policy)) if policy.name == RULES => {}
                other => bail!("decided by {other:?}"),
            }
            match decision.answer.and_then(|answer| answer.slot) {
                Some(answer::Slot::Retry(answer))
                    if answer.verdict.and_then(|verdict| verdict.verdict)
                        == Some(retry_verdict::Verdict::Wait(WAIT_MS)) => {}
                other => bail!("a wrong answer: {other:?}"),
            }
        }
        self.times.push(began.elapsed());
        Ok(())
    }

    fn decision(&mut self, message: &[u8]) -> anyhow::Result<proto::Decision> {
        let response::Result::Outcomes(mut outcomes) = self.call(message)? else { bail!("no outcomes") };
        ensure!(outcomes.outcomes.len() == 1, "{outcomes:?}");
        match outcomes.outcomes.remove(0).outcome {
            Some(outcome::Outcome::Decision(decision)) => {
                self.ids.push(decision.id.clone());
                ensure!(decision.fallbacks.is_empty(), "a fallback: {:?}", decision.fallbacks);
                Ok(decision)
            }
            other => bail!("no decision: {other:?}"),
        }
    }

    fn call(&mut self, message: &[u8]) -> anyhow::Result<response::Result> {
        let until = Instant::now() + self.time;
        let reused = self.stream.is_some();
        let answered = match self.exchange(message, until) {
            Err(error) if reused && is_gone(&error) => self.exchange(message, until),
            answered => answered,
        };
        let bytes = answered.with_context(|| format!("within {:?}", self.time))?;
        match proto::Response::decode(&bytes[..])?.result.context("an empty response")? {
            response::Result::Error(error) => bail!("the server says {:?}: {}", error.code(), error.message),
            result => Ok(result),
        }
    }

    /// The connection is kept only if all went well.
    fn exchange(&mut self, message: &[u8], until: Instant) -> io::Result<Vec<u8>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => UnixStream::connect(&self.socket)?,
        };
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        stream.write_all(message)?;
        let bytes = receive(&mut stream)?;
        self.stream = Some(stream);
        Ok(bytes)
    }
}

/// Whether the server had closed the connection before it took the request.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
