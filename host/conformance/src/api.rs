//! Calls as they are sent, and answers as they come. The typed client is made to survive an API that behaves otherwise
//! than assumed, so it would hide what is asked about here.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use url::form_urlencoded;
use windlass_lifecycle::Control;
use windlass_scaleway::{Client, ErrorClass, RawAnswer, Zone};

/// How often a call is sent at most whose failure says that it had no effect.
const ATTEMPTS: u32 = 5;
/// The first wait between two attempts; each further one is twice as long.
const BACKOFF: Duration = Duration::from_millis(500);
/// Items asked for on each page: the most that Scaleway gives (SDK).
const PAGE_ITEMS: usize = 100;
/// A page with fewer items than Scaleway gives by default is the last one, unless the list's total tells of more.
const SHORT_PAGE: usize = 50;
/// Most pages of one list.
const PAGES: usize = 1000;
/// How much of an answer's words a verdict repeats.
const WORDS: usize = 200;

/// What conformance makes and removes. The words are those of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// An Instance server.
    Server,
    /// A flexible address.
    Ip,
    /// A local volume of the Instance API.
    LocalVolume,
    /// A volume of Block Storage.
    BlockVolume,
}

impl Kind {
    /// Every kind, in the order in which they are removed: a server before what is attached to it.
    pub const ALL: [Kind; 4] = [Kind::Server, Kind::Ip, Kind::LocalVolume, Kind::BlockVolume];

    /// The kind's word: `block-volume`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The key of the items of a list.
    fn key(self) -> &'static str {
        match self {
            Kind::Server => "servers",
            Kind::Ip => "ips",
            Kind::LocalVolume | Kind::BlockVolume => "volumes",
        }
    }

    /// The key under which a single one is wrapped. Block Storage does not wrap.
    fn wrapping(self) -> Option<&'static str> {
        match self {
            Kind::Server => Some("server"),
            Kind::Ip => Some("ip"),
            Kind::LocalVolume => Some("volume"),
            Kind::BlockVolume => None,
        }
    }

    fn is_block(self) -> bool {
        self == Kind::BlockVolume
    }

    /// What several of them are called in a sentence.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Kind::Server => "servers",
            Kind::Ip => "addresses",
            Kind::LocalVolume => "local volumes",
            Kind::BlockVolume => "Block Storage volumes",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a question stays without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody called the run off.
    Ended,
    /// The run has taken all the time that it may.
    TimeUp,
    /// Something else than what was asked about failed.
    Unknown(String),
}

impl Stop {
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Stop::Unknown(why.into())
    }

    pub(crate) fn words(&self) -> String {
        match self {
            Stop::Ended => "the run was called off".to_owned(),
            Stop::TimeUp => "the time for it was up".to_owned(),
            Stop::Unknown(why) => why.clone(),
        }
    }
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) total_count: Option<u64>,
    pub(crate) body: Bytes,
}

impl Answer {
    fn of(raw: RawAnswer) -> Self {
        Self { status: raw.status, total_count: raw.total_count, body: raw.body }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it refuses what was asked, definitely.
    pub(crate) fn is_refusal(&self) -> bool {
        (400..500).contains(&self.status) && self.status != 429
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn error_type(&self) -> Option<String> {
        self.json()["type"].as_str().map(str::to_owned)
    }

    /// Whether it proves that there is no such resource: a 404 without Scaleway's type is some proxy's.
    pub(crate) fn proves_absence(&self) -> bool {
        let known = ["not_found", "unknown_resource", "expired", "resource_expired"];
        matches!(self.status, 404 | 410) && self.error_type().is_some_and(|word| known.contains(&word.as_str()))
    }

    /// Status, type and message: `404 not_found: resource is not found`.
    pub(crate) fn words(&self) -> String {
        let body = self.json();
        let mut words = self.status.to_string();
        if let Some(error_type) = body["type"].as_str().filter(|_| !self.is_success()) {
            words.push_str(&format!(" {error_type}"));
        }
        let said = [&body["message"], &body["help_message"]].into_iter().filter_map(Value::as_str);
        let said: Vec<&str> = said.filter(|_| !self.is_success()).collect();
        if !said.is_empty() {
            words.push_str(&format!(": {}", said.join("; ")));
        }
        words.chars().filter(|character| !character.is_control()).take(WORDS).collect()
    }
}

/// One resource, as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) value: Value,
}

impl Item {
    fn of(value: Value) -> Option<Self> {
        let id = value["id"].as_str().filter(|id| !id.is_empty())?.to_owned();
        Some(Self { id, value })
    }

    pub(crate) fn carries(&self, tag: &str) -> bool {
        self.value["tags"].as_array().into_iter().flatten().any(|carried| carried == tag)
    }

    /// The state of a server, an address or a local volume.
    pub(crate) fn state(&self) -> &str {
        self.value["state"].as_str().unwrap_or_default()
    }

    /// Whether somebody protected it (servers).
    pub(crate) fn is_protected(&self) -> bool {
        self.value["protected"] == true
    }

    /// The servers that it is attached to, or on its way to or from.
    pub(crate) fn servers(&self) -> Vec<&str> {
        let references = self.value["references"].as_array().into_iter().flatten();
        let referenced = references.filter_map(|reference| reference["product_resource_id"].as_str());
        referenced.chain(self.value["server"]["id"].as_str()).collect()
    }

    /// The project that it belongs to.
    pub(crate) fn project(&self) -> Option<&str> {
        self.value["project"].as_str().or(self.value["project_id"].as_str()).filter(|project| !project.is_empty())
    }

    /// The volumes of a server by position.
    pub(crate) fn volumes(&self) -> Vec<(String, Kind, String)> {
        let volumes = self.value["volumes"].as_object().into_iter().flatten();
        volumes
            .filter_map(|(position, volume)| {
                let kind = match volume["volume_type"].as_str() {
                    Some("sbs_volume") => Kind::BlockVolume,
                    _ => Kind::LocalVolume,
                };
                Some((position.clone(), kind, volume["id"].as_str()?.to_owned()))
            })
            .collect()
    }
}

/// A list, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) items: Vec<Item>,
    /// The totals that its pages reported.
    pub(crate) totals: Vec<u64>,
}

impl Listing {
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.items.iter().any(|item| item.id == id)
    }
}

/// What an id stands for now.
#[derive(Debug, Clone)]
pub(crate) enum Presence {
    Here(Item),
    Gone,
}

/// When a session ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Questions: ended by the first word to stop.
    Asking,
    /// Removing: only ended by the second, since it is what the first one asks for.
    Removing,
}

/// Calls of one zone, under one control and one deadline.
#[derive(Debug)]
pub(crate) struct Api {
    client: Client,
    zone: Zone,
    control: Control,
    deadline: Instant,
    purpose: Purpose,
    lost: AtomicBool,
}

impl Api {
    pub(crate) fn asking(client: Client, zone: Zone, control: Control, limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        Self { client, zone, control, deadline, purpose: Purpose::Asking, lost: AtomicBool::new(false) }
    }

    /// The same for removing, with a time of its own.
    pub(crate) fn removing(&self, limit: Duration) -> Self {
        Self {
            client: self.client.clone(),
            zone: self.zone.clone(),
            control: self.control.clone(),
            deadline: Instant::now() + limit,
            purpose: Purpose::Removing,
            lost: AtomicBool::new(self.lost_an_answer()),
        }
    }

    /// Whether something may exist whose creation was not answered.
    pub(crate) fn lost_an_answer(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The project that owns what is made, where one is configured.
    pub(crate) fn project(&self) -> Option<String> {
        self.client.settings().project_id().map(str::to_owned)
    }

    fn check(&self) -> Result<(), Stop> {
        let called_off = self.purpose == Purpose::Asking && self.control.cancelled().is_cancelled();
        if called_off || self.control.left().is_cancelled() {
            return Err(Stop::Ended);
        }
        if Instant::now() >= self.deadline { Err(Stop::TimeUp) } else { Ok(()) }
    }

    /// Resolves when the session is to end.
    async fn ended(&self) {
        match self.purpose {
            Purpose::Asking => {
                tokio::select! {
                    () = self.control.cancelled().cancelled() => {}
                    () = self.control.left().cancelled() => {}
                }
            }
            Purpose::Removing => self.control.left().cancelled().await,
        }
    }

    /// Waits, and no longer than the session.
    pub(crate) async fn pause(&self, duration: Duration) -> Result<(), Stop> {
        self.check()?;
        let until = (Instant::now() + duration).min(self.deadline);
        tokio::select! {
            biased;
            () = self.ended() => {}
            () = tokio::time::sleep_until(until) => {}
        }
        self.check()
    }

    /// Looks every now and then, until there is an answer or the limit has passed.
    pub(crate) async fn until<T, F, Fut>(&self, limit: Duration, mut look: F) -> Result<Option<T>, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>, Stop>>,
    {
        let began = Instant::now();
        let mut wait = Duration::from_millis(500);
        loop {
            if let Some(answer) = look().await? {
                return Ok(Some(answer));
            }
            if began.elapsed() >= limit {
                return Ok(None);
            }
            self.pause(wait).await?;
            wait = (wait * 2).min(Duration::from_secs(4));
        }
    }

    /// Sends a call. A failure that says that it had no effect is tried again a few times, and so is any of a call that
    /// can be repeated blindly.
    async fn send(&self, method: &str, path: &str, body: Option<(&'static str, Bytes)>) -> Result<Answer, Stop> {
        let blind = matches!(method, "GET" | "DELETE");
        let mut attempt = 1;
        loop {
            self.check()?;
            let call = self.client.send_raw_of(method, path, body.clone());
            // What only reads is given up at once; what changes something is waited for, for its answer's sake.
            let answer = if method == "GET" {
                tokio::select! {
                    biased;
                    () = self.ended() => return Err(Stop::Ended),
                    answer = call => answer,
                }
            } else {
                call.await
            };
            let again = attempt < ATTEMPTS;
            match answer {
                Ok(raw) => {
                    let answer = Answer::of(raw);
                    let transient = answer.status == 429
                        || (answer.status == 409 && answer.error_type().as_deref() == Some("transient_state"))
                        || (answer.status >= 500 && blind);
                    if !(transient && again) {
                        return Ok(answer);
                    }
                }
                Err(error) if again && (blind || !error.is_ambiguous()) && is_transient(&error) => {}
                Err(error) => {
                    if method == "POST" && error.is_ambiguous() {
                        self.lost.store(true, Ordering::Relaxed);
                    }
                    return Err(Stop::unknown(error.to_string()));
                }
            }
            self.pause(BACKOFF * 2_u32.pow(attempt - 1)).await?;
            attempt += 1;
        }
    }

    fn collection(&self, kind: Kind) -> String {
        let api = if kind.is_block() { "block" } else { "instance" };
        format!("/{api}/v1/zones/{}/{}", self.zone, kind.key())
    }

    fn path(&self, kind: Kind, id: &str) -> String {
        format!("{}/{id}", self.collection(kind))
    }

    /// Creates one, or says how that was refused. An answer that may have made something all the same, or names
    /// nothing, is remembered: what cannot be named is looked for by its tag at the end.
    pub(crate) async fn create(&self, kind: Kind, body: &impl Serialize) -> Result<Result<Item, Answer>, Stop> {
        let answer = self.send("POST", &self.collection(kind), Some(json(body)?)).await?;
        if !answer.is_success() {
            if answer.status >= 500 && answer.error_type().as_deref() != Some("out_of_stock") {
                self.lost.store(true, Ordering::Relaxed);
            }
            return Ok(Err(answer));
        }
        match self.item_of(kind, &answer) {
            Some(item) => Ok(Ok(item)),
            None => {
                self.lost.store(true, Ordering::Relaxed);
                Err(Stop::unknown(format!("the answer to the creation of a {kind} names none")))
            }
        }
    }

    fn item_of(&self, kind: Kind, answer: &Answer) -> Option<Item> {
        let body = answer.json();
        Item::of(match kind.wrapping() {
            Some(key) => body[key].clone(),
            None => body,
        })
    }

    /// Asks for one by its id; the answer may be a refusal.
    pub(crate) async fn get(&self, kind: Kind, id: &str) -> Result<Answer, Stop> {
        self.send("GET", &self.path(kind, id), None).await
    }

    /// One that exists.
    pub(crate) async fn read(&self, kind: Kind, id: &str) -> Result<Item, Stop> {
        let answer = self.get(kind, id).await?;
        let unreadable = || Stop::unknown(format!("the {kind} {id} cannot be read: {}", answer.words()));
        if answer.is_success() { self.item_of(kind, &answer).ok_or_else(unreadable) } else { Err(unreadable()) }
    }

    /// Whether one exists. A refusal that does not say so is believed only together with a listing that lacks it.
    pub(crate) async fn presence(&self, kind: Kind, id: &str) -> Result<Presence, Stop> {
        let answer = self.get(kind, id).await?;
        if answer.proves_absence() {
            return Ok(Presence::Gone);
        }
        if answer.is_success() {
            let unreadable = || Stop::unknown(format!("the answer for {kind} {id} names none"));
            return self.item_of(kind, &answer).map(Presence::Here).ok_or_else(unreadable);
        }
        if !answer.is_refusal() {
            return Err(Stop::unknown(format!("the {kind} {id} cannot be read: {}", answer.words())));
        }
        let listed = self.list(kind, &[], None).await?;
        Ok(match listed.items.into_iter().find(|item| item.id == id) {
            Some(item) => Presence::Here(item),
            None => Presence::Gone,
        })
    }

    pub(crate) async fn update(&self, kind: Kind, id: &str, body: &impl Serialize) -> Result<Answer, Stop> {
        self.send("PATCH", &self.path(kind, id), Some(json(body)?)).await
    }

    pub(crate) async fn delete(&self, kind: Kind, id: &str) -> Result<Answer, Stop> {
        self.send("DELETE", &self.path(kind, id), None).await
    }

    /// A call on one server: `action`, `attach-volume`, `detach-volume`.
    pub(crate) async fn on_server(&self, id: &str, what: &str, body: &impl Serialize) -> Result<Answer, Stop> {
        self.send("POST", &format!("{}/{what}", self.path(Kind::Server, id)), Some(json(body)?)).await
    }

    pub(crate) async fn set_cloud_init(&self, id: &str, content: Bytes) -> Result<Answer, Stop> {
        let path = format!("{}/user_data/cloud-init", self.path(Kind::Server, id));
        self.send("PATCH", &path, Some(("text/plain", content))).await
    }

    pub(crate) async fn cloud_init(&self, id: &str) -> Result<Answer, Stop> {
        self.send("GET", &format!("{}/user_data/cloud-init", self.path(Kind::Server, id)), None).await
    }

    /// Reads a list to its end: with these tags, of this project, or everything that the key may see.
    ///
    /// A total never shortens the reading, since totals are on trial; it only makes it go on after a short page.
    pub(crate) async fn list(&self, kind: Kind, tags: &[&str], project: Option<&str>) -> Result<Listing, Stop> {
        let size = if kind.is_block() { "page_size" } else { "per_page" };
        let entries = self.pages(&self.collection(kind), &query(kind, tags, project), size, kind.key()).await?;
        let items = entries.values.into_iter().map(|(_, value)| Item::of(value));
        let items: Option<Vec<Item>> = items.collect();
        let items =
            items.ok_or_else(|| Stop::unknown(format!("a listing of {} holds one without id", kind.plural())))?;
        Ok(Listing { items, totals: entries.totals })
    }

    /// Reads every page of a list, whose items are an array or a map under `key`; each with its id or its name.
    pub(crate) async fn pages(&self, path: &str, query: &str, size: &str, key: &str) -> Result<Entries, Stop> {
        let mut entries = Entries { values: Vec::new(), totals: Vec::new() };
        let mut seen = BTreeSet::new();
        for page in 1..=PAGES {
            let and = if query.is_empty() { "" } else { "&" };
            let answer = self.send("GET", &format!("{path}?{query}{and}{size}={PAGE_ITEMS}&page={page}"), None).await?;
            if !answer.is_success() {
                return Err(Stop::unknown(format!("GET {path} was answered {}", answer.words())));
            }
            let body = answer.json();
            let values: Vec<(String, Value)> = match body[key].clone() {
                Value::Array(items) => {
                    items.into_iter().map(|item| (item["id"].as_str().unwrap_or_default().to_owned(), item)).collect()
                }
                Value::Object(map) => map.into_iter().collect(),
                _ => return Err(Stop::unknown(format!("the answer to GET {path} holds no `{key}`"))),
            };
            let total = answer.total_count.or(body["total_count"].as_u64());
            entries.totals.extend(total);
            let (length, before) = (values.len(), seen.len());
            entries.values.extend(values.into_iter().filter(|(name, _)| seen.insert(name.clone())));
            let more_told = total.is_some_and(|total| total > seen.len() as u64);
            if seen.len() == before || (length < SHORT_PAGE && !more_told) {
                return Ok(entries);
            }
        }
        Err(Stop::unknown(format!("the listing {path} has more than {PAGES} pages")))
    }
}

/// The query of a listing with these tags, of this project.
fn query(kind: Kind, tags: &[&str], project: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if kind.is_block() {
        query.extend_pairs(tags.iter().map(|tag| ("tags", tag)));
    } else if !tags.is_empty() {
        query.append_pair("tags", &tags.join(","));
    }
    if let Some(project) = project {
        query.append_pair(if kind.is_block() { "project_id" } else { "project" }, project);
    }
    query.finish()
}

/// What a paged list holds.
pub(crate) struct Entries {
    pub(crate) values: Vec<(String, Value)>,
    pub(crate) totals: Vec<u64>,
}

fn is_transient(error: &windlass_scaleway::Error) -> bool {
    matches!(error.class(), ErrorClass::Timeout | ErrorClass::Connection)
}

fn json(body: &impl Serialize) -> Result<(&'static str, Bytes), Stop> {
    let body =
        serde_json::to_vec(body).map_err(|error| Stop::unknown(format!("a request cannot be written: {error}")))?;
    Ok(("application/json", body.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, total_count: None, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    #[test]
    fn only_a_typed_404_or_410_proves_absence() {
        assert!(answer(404, r#"{"type":"not_found"}"#).proves_absence());
        assert!(answer(410, r#"{"type":"expired"}"#).proves_absence());
        for other in [answer(404, ""), answer(404, "<html>"), answer(403, r#"{"type":"permissions_denied"}"#)] {
            assert!(!other.proves_absence(), "{}", other.words());
        }
    }

    #[test]
    fn an_answer_is_told_in_status_type_and_words_without_control_characters() {
        let refused = answer(400, r#"{"type":"precondition_failed","message":"no\u001b","help_message":"stop it"}"#);
        assert_eq!(refused.words(), "400 precondition_failed: no; stop it");
        assert_eq!(answer(204, "").words(), "204");
        assert!(answer(500, &format!(r#"{{"message":"{}"}}"#, "x".repeat(1000))).words().len() <= WORDS);
    }

    #[test]
    fn attachments_are_read_from_references_and_from_the_server_field() {
        let item = |text: &str| Item::of(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(item(r#"{"id":"v","references":[{"product_resource_id":"s"}]}"#).servers(), ["s"]);
        assert_eq!(item(r#"{"id":"i","server":{"id":"s","name":"n"}}"#).servers(), ["s"]);
        assert!(item(r#"{"id":"i","server":null,"references":[]}"#).servers().is_empty());
    }
}
