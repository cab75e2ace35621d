use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HeaderValue, SERVER};
use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::api;
use crate::apple_silicon::AppleSiliconPool;
use crate::behaviour::{Behaviour, Behaviours};
use crate::call::Call;
use crate::clock::{Clock, http_date};
use crate::control_error::ControlError;
use crate::fault::{self, Effect, Fault, FaultKind, FaultRule, Faults};
use crate::forced_state::ForcedState;
use crate::offer::Offer;
use crate::options::{Availability, Options};
use crate::refusal::Refusal;
use crate::request_limit::{RequestAccount, RequestLimit};
use crate::resources::Resources;
use crate::world::World;

/// A simulated Scaleway. Clones share it.
///
/// # Guarantees
/// - Same options (the seed among them), same calls in the same order at the same simulated times: byte-identical
///   answers.
/// - Nothing runs in the background. What Scaleway does by itself happens when the next call comes, at its own time and
///   in its own order; so paused tokio time works, and a simulator that nobody calls costs nothing.
/// - The controls are not subject to faults, authentication, latency or the request log.
#[derive(Debug, Clone)]
pub struct Simulator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    body_bytes: usize,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    world: World,
    faults: Faults,
    account: Option<RequestAccount>,
    requests: VecDeque<RequestRecord>,
    sequence: u64,
    /// Calls whose callers got no answer, by when they take effect and their sequence.
    late: BTreeMap<(Instant, u64), LateCall>,
}

/// How many calls can be on their way; of more, the first takes effect before its time.
const LATE_CALLS: usize = 1_000;

#[derive(Debug)]
struct LateCall {
    call: Call,
    token: Option<String>,
}

/// One call of an API, as the simulator saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Counts the calls from 1; clearing the log does not begin anew.
    pub sequence: u64,
    /// Simulated milliseconds since the start at which the call came.
    pub at_ms: u64,
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query as it was written; empty when there was none.
    pub query: String,
    /// What the caller calls itself, `windlass/1.0.0` for example: at most 200 characters; empty when it says nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Which secret key the caller has, as [`key_mark`] tells it; empty without one. The key itself is in no log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The status of the answer. `None` while none was given, or when the connection was dropped instead.
    pub status: Option<u16>,
    /// The fault that was applied, `delay:1500` for example; beyond [`Options::request_limit`] it is `rate-limited`.
    pub fault: Option<String>,
}

/// By what [`RequestRecord::key`] tells secret keys apart. The key cannot be found from it.
#[must_use]
pub fn key_mark(secret_key: &str) -> String {
    let mut hasher = DefaultHasher::new();
    secret_key.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Instead of an answer: the connection closes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropped;

impl Simulator {
    /// An empty Scaleway at its simulated time 0.
    pub fn new(options: Options) -> Self {
        let body_bytes = options.body_bytes;
        let state = State {
            clock: Clock::new(options.time_scale),
            account: options.request_limit.map(RequestAccount::new),
            world: World::new(options),
            faults: Faults::default(),
            requests: VecDeque::new(),
            sequence: 0,
            late: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), body_bytes }) }
    }

    /// Everything that exists now.
    pub fn resources(&self) -> Resources {
        Resources::of(&self.settled().world)
    }

    /// All calls so far, or since the log was cleared, in order: the last [`Options::logged_requests`] of them.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.state.lock().requests.iter().cloned().collect()
    }

    /// The number of the last call so far, or 0: what [`RequestRecord::sequence`] says of it.
    pub fn last_sequence(&self) -> u64 {
        self.shared.state.lock().sequence
    }

    /// Forgets the calls so far.
    pub fn clear_requests(&self) {
        self.shared.state.lock().requests.clear();
    }

    /// Adds a fault rule after those that exist.
    ///
    /// # Errors
    /// [`ControlError::InvalidRule`] for one that could never meet a request.
    pub fn add_fault(&self, rule: FaultRule) -> Result<(), ControlError> {
        if let Some(problem) = rule.problem() {
            return Err(ControlError::InvalidRule(problem));
        }
        self.shared.state.lock().faults.0.push(Fault { rule, matched: 0, applied: 0 });
        Ok(())
    }

    /// The fault rules and how often they met.
    pub fn faults(&self) -> Vec<Fault> {
        self.shared.state.lock().faults.0.clone()
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.shared.state.lock().faults.0.clear();
    }

    /// Makes this Scaleway differ from what is believed of the real one, until the behaviours are cleared. It takes the
    /// place of one about the same thing.
    ///
    /// # Errors
    /// [`ControlError::TooManyBehaviours`] beyond 1,000 of them.
    pub fn set_behaviour(&self, behaviour: Behaviour) -> Result<(), ControlError> {
        let mut state = self.settled();
        if state.world.behaviours.all().len() >= Behaviours::MAX {
            return Err(ControlError::TooManyBehaviours);
        }
        state.world.behaviours.set(behaviour);
        Ok(())
    }

    /// In what this Scaleway differs now.
    pub fn behaviours(&self) -> Vec<Behaviour> {
        self.shared.state.lock().world.behaviours.all().to_vec()
    }

    /// Lets this Scaleway behave as is believed of the real one.
    pub fn clear_behaviours(&self) {
        self.settled().world.behaviours.clear();
    }

    /// What an owner does behind our back. Takes effect at once; whatever the server was about to do is off.
    ///
    /// # Errors
    /// [`ControlError::UnknownServer`], and [`ControlError::InvalidState`] for a state of the other product.
    pub fn set_server_state(&self, id: &str, state: ForcedState) -> Result<(), ControlError> {
        state.force(&mut self.settled().world, id)
    }

    /// Says how much is left of a server type, of an Instance or of Apple silicon, in every zone.
    pub fn set_stock(&self, server_type: impl Into<String>, availability: Availability) {
        self.shared.state.lock().world.stock.insert(server_type.into(), availability);
    }

    /// Says in what server types differ from the catalogue; the last one about a server decides. It takes the place of
    /// all that was said before. A server that starts goes on as it began.
    pub fn set_offers(&self, offers: Vec<Offer>) {
        self.settled().world.offers = offers;
    }

    /// Lets so many calls through from now on; `None`: all.
    pub fn set_request_limit(&self, limit: Option<RequestLimit>) {
        self.shared.state.lock().account = limit.map(RequestAccount::new);
    }

    /// How many servers with such a name there are of each zone and type, in both products.
    pub fn server_counts(&self, is_counted: impl Fn(&str) -> bool) -> BTreeMap<(String, String), usize> {
        let state = self.settled();
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let instances = state.world.servers.values().map(|it| (&it.name, &it.zone, &it.commercial_type));
        let hosts = state.world.apple_servers.values().map(|it| (&it.name, &it.zone, &it.server_type));
        for (_, zone, server_type) in instances.chain(hosts).filter(|(name, ..)| is_counted(name)) {
            *counts.entry((zone, server_type)).or_default() += 1;
        }
        let owned = |((zone, kind), count): ((&str, &str), usize)| ((zone.to_owned(), kind.to_owned()), count);
        counts.into_iter().map(owned).collect()
    }

    /// Says how many Apple silicon hosts of a type are left; `None`: any number. Each creation takes one.
    pub fn set_apple_silicon_stock(&self, server_type: impl Into<String>, left: Option<u32>) {
        let mut state = self.shared.state.lock();
        match left {
            Some(left) => state.world.apple_stock.insert(server_type.into(), left),
            None => state.world.apple_stock.remove(&server_type.into()),
        };
    }

    /// Adds hosts that are delivered and ready, and gives their ids. They are not taken from the stock.
    pub fn add_apple_silicon_pool(&self, pool: &AppleSiliconPool) -> Vec<String> {
        self.settled().world.add_apple_pool(pool)
    }

    /// Gives a server another name behind our back, in either product.
    ///
    /// # Errors
    /// [`ControlError::UnknownServer`].
    pub fn rename_server(&self, id: &str, name: impl Into<String>) -> Result<(), ControlError> {
        let mut state = self.settled();
        if state.world.apple_servers.contains_key(id) {
            state.world.rename_apple_server(id, name.into());
        } else if let Some(server) = state.world.servers.get_mut(id) {
            server.name = name.into();
        } else {
            return Err(ControlError::UnknownServer(id.to_owned()));
        }
        Ok(())
    }

    /// Gives an Apple silicon server this address: that of something that listens on this machine, for example.
    ///
    /// # Errors
    /// [`ControlError::UnknownServer`].
    pub fn set_apple_silicon_address(&self, id: &str, address: std::net::Ipv4Addr) -> Result<(), ControlError> {
        let mut state = self.settled();
        let unknown = || ControlError::UnknownServer(id.to_owned());
        state.world.apple_servers.get_mut(id).ok_or_else(unknown)?.ip = address.to_string();
        Ok(())
    }

    /// Moves simulated time on. What is due in between happens in its order.
    pub fn advance(&self, by: Duration) {
        self.settled().clock.advance(by);
        drop(self.settled());
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.shared.state.lock().clock.now())
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.shared.body_bytes
    }

    fn settled(&self) -> parking_lot::MutexGuard<'_, State> {
        let mut state = self.shared.state.lock();
        state.settle();
        state
    }

    /// One API call. `None` stands for a body that was larger than is read.
    pub(crate) async fn call(
        &self,
        parts: http::request::Parts,
        body: Option<Bytes>,
    ) -> Result<Response<Bytes>, Dropped> {
        let too_large = body.is_none();
        let mut call = Call::new(parts.method, &parts.uri, body.unwrap_or_default());
        let token = parts.headers.get("x-auth-token").and_then(|value| value.to_str().ok()).map(str::to_owned);

        let (sequence, latency, fault) = {
            let mut state = self.shared.state.lock();
            let (sequence, latency, fault) = state.arrive(&call, &parts.headers, token.as_deref());
            if let Some((FaultKind::Late(by), _)) = fault
                && !too_large
            {
                // Now, and not when the caller has waited: it may go at any moment.
                state.put_off(sequence, latency + by, LateCall { call: call.clone(), token: token.clone() });
            }
            (sequence, latency, fault)
        };
        sleep(latency).await;
        match fault {
            Some((FaultKind::Delay(delay), Effect::Before)) => sleep(delay).await,
            Some((FaultKind::Late(by), Effect::After)) => sleep(by).await,
            Some((FaultKind::Omit(place) | FaultKind::OmitKeepTotal(place), _)) => {
                call.distortion.omitted = (place as usize).checked_sub(1);
                call.distortion.counts_omitted = matches!(fault, Some((FaultKind::OmitKeepTotal(_), _)));
            }
            _ => {}
        }
        let outcome = {
            let mut state = self.settled();
            let answer = if too_large {
                Some(Refusal::too_large(self.shared.body_bytes).into())
            } else {
                state.act(sequence, &call, token.as_deref(), fault)
            };
            state.close(sequence, answer)
        };
        if let Some((FaultKind::Delay(delay), Effect::After)) = fault {
            sleep(delay).await;
        }
        outcome.ok_or(Dropped)
    }
}

/// What a caller calls itself.
fn agent(headers: &http::HeaderMap) -> String {
    let agent = headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    agent.unwrap_or_default().chars().take(200).collect()
}

async fn sleep(duration: Duration) {
    // A sleep of zero would still be a round through the timer, and an auto-advanced clock moves at every one.
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

impl State {
    /// Brings everything to the present: late calls and what the world does by itself, in the order of time.
    fn settle(&mut self) {
        let present = Instant::now();
        while let Some(entry) = self.late.first_entry()
            && entry.key().0 <= present
        {
            let ((due, sequence), late) = entry.remove_entry();
            self.world.settle(self.clock.at(due));
            self.arrive_late(sequence, &late);
        }
        self.world.settle(self.clock.now());
    }

    fn put_off(&mut self, sequence: u64, by: Duration, late: LateCall) {
        if self.late.len() >= LATE_CALLS
            && let Some(((_, first), late)) = self.late.pop_first()
        {
            self.arrive_late(first, &late);
        }
        self.late.insert((Instant::now() + by, sequence), late);
    }

    /// The effect of a call that nobody hears of any more.
    fn arrive_late(&mut self, sequence: u64, late: &LateCall) {
        self.serve(sequence, &late.call, late.token.as_deref());
    }

    /// Logs a call and decides what will happen to it and how long it takes.
    fn arrive(
        &mut self,
        call: &Call,
        headers: &http::HeaderMap,
        token: Option<&str>,
    ) -> (u64, Duration, Option<(FaultKind, Effect)>) {
        self.sequence += 1;
        // The gateway refuses before anything behind it hears of a call.
        let refused = self.account.as_mut().is_some_and(|account| !account.admits());
        let fault = match refused {
            true => Some((FaultKind::RateLimited, Effect::Before)),
            false => self.faults.meet(call.method.as_str(), &call.path),
        };
        let logged = self.world.options.logged_requests;
        if logged > 0 {
            if self.requests.len() >= logged {
                self.requests.pop_front();
            }
            self.requests.push_back(RequestRecord {
                sequence: self.sequence,
                at_ms: self.clock.now() / 1_000,
                method: call.method.to_string(),
                path: call.path.clone(),
                query: call.raw_query.clone(),
                agent: agent(headers),
                key: token.map(key_mark).unwrap_or_default(),
                status: None,
                fault: fault.map(|(kind, _)| kind.to_string()),
            });
        }
        let latency = self.world.options.latency;
        let jitter = self.world.random.jitter_ms(latency.jitter_ms);
        (self.sequence, Duration::from_millis(latency.base_ms + jitter), fault)
    }

    /// Does what was asked, unless the fault hits before. `None`: no answer at all.
    fn act(
        &mut self,
        sequence: u64,
        call: &Call,
        token: Option<&str>,
        fault: Option<(FaultKind, Effect)>,
    ) -> Option<Answer> {
        let Some((kind, effect)) = fault else { return Some(self.serve(sequence, call, token)) };
        let real = match (kind, effect) {
            // It takes effect by itself.
            (FaultKind::Late(_), _) => return None,
            (FaultKind::Delay(_) | FaultKind::Omit(_) | FaultKind::OmitKeepTotal(_), _) => {
                return Some(self.serve(sequence, call, token));
            }
            (_, Effect::Before) => None,
            (_, Effect::After) => Some(self.serve(sequence, call, token)),
        };
        match kind {
            FaultKind::DroppedConnection => None,
            FaultKind::MalformedBody => Some(fault::malformed(real)),
            kind => fault::answer(&self.world, call, kind),
        }
    }

    /// What Scaleway does and answers.
    fn serve(&mut self, sequence: u64, call: &Call, token: Option<&str>) -> Answer {
        if let Err(refusal) = self.authenticate(token) {
            return refusal.into();
        }
        self.world.on_behalf_of(sequence);
        let answer = api::dispatch(&mut self.world, call);
        self.world.on_behalf_of(0);
        answer
    }

    /// Recorded: a key nobody has is `not_found`, one that is malformed `invalid_argument`.
    // Assumption: every endpoint wants a key. The public ones (product lists, marketplace) were only recorded with one.
    fn authenticate(&self, token: Option<&str>) -> Result<(), Refusal> {
        let Some(token) = token else { return Err(Refusal::denied_authentication("not_found")) };
        if uuid::Uuid::parse_str(token).is_err() {
            return Err(Refusal::denied_authentication("invalid_argument"));
        }
        let known = &self.world.options.tokens;
        if known.is_empty() || known.contains(token) {
            Ok(())
        } else {
            Err(Refusal::denied_authentication("not_found"))
        }
    }

    /// Completes the log and gives the answer the headers that every answer of the gateway carries (recorded).
    fn close(&mut self, sequence: u64, answer: Option<Answer>) -> Option<Response<Bytes>> {
        let status = answer.as_ref().map(|answer| answer.status.as_u16());
        // The log may have been cleared while the call was on its way.
        if let Ok(index) = self.requests.binary_search_by_key(&sequence, |record| record.sequence) {
            self.requests[index].status = status;
        }
        let answer = answer?;
        let mut response = Response::new(answer.body);
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        if let Some(content_type) = answer.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        for (name, value) in answer.headers {
            headers.insert(name, value);
        }
        headers.insert(SERVER, HeaderValue::from_static("Scaleway API Gateway (fr-par-1;edge01)"));
        let date = http_date(self.world.now());
        let id = self.world.random.request_id();
        for (name, value) in [(DATE, date), (http::HeaderName::from_static("x-request-id"), id)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        for (name, value) in [
            ("strict-transport-security", "max-age=63072000"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if response.status() == StatusCode::NO_CONTENT {
            *response.body_mut() = Bytes::new();
        }
        Some(response)
    }
}
