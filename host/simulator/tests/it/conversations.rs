//! Holds the recorded conversations with the real Scaleway.
//!
//! # Method
//! Each conversation gets its own simulator, whose clock stands still. Every step is sent as it was recorded, as often
//! as it was repeated, with placeholders (`<id:3>`, `<ipv4:1>`, `<mac:2>`) bound to the simulator's own values: the
//! first answer that shows one binds it, from then on it must stay the same. Projects, which only requests name, are
//! made up. An answer matches when status, headers (content type, `Location`, `Link`, `X-Total-Count`), the set of
//! keys, JSON types, nulls, and every value that is not chosen by Scaleway are equal. When a GET does not match yet,
//! simulated time moves on in quarters of a second, as it did between the recorded polls, until it matches or three
//! minutes are over. Before each change one quarter of a second passes, too.
//!
//! Not compared: where a server was placed, numbers and prices of server types, the addresses of private networks, and
//! link-local gateways; of them only the JSON type. Lists were cut at 12 entries and the map of server types at a few
//! when they were recorded: there every recorded entry must be in the answer. One key,
//! `admin_password_encryption_ssh_key_id`, is missing in about half of the recorded servers, at random between polls
//! (two versions answered): it may be missing in a recording, never in the simulator.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use windlass_simulator::{Durations, Options};

use crate::caller::{Caller, Reply};

/// How often simulated time moves on.
const QUARTER: Duration = Duration::from_millis(250);
/// Where recorded lists were cut.
const CUT: usize = 12;
const OPTIONAL: &str = "admin_password_encryption_ssh_key_id";
const FREE: [&str; 6] = ["platform_id", "cluster_id", "hypervisor_id", "node_id", "gateway", "subnet"];

/// The folder of the recordings, when it is there: they are not part of the project. Named by `WINDLASS_FACTS`, or
/// `shared/facts` beside the checkout or anything that it is in.
pub(crate) fn facts() -> Option<PathBuf> {
    let is_there = |folder: &PathBuf| folder.join("scaleway-conversations.json").is_file();
    match std::env::var_os("WINDLASS_FACTS") {
        Some(folder) => Some(PathBuf::from(folder)).filter(is_there),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|ancestor| ancestor.join("shared/facts"))
            .find(is_there),
    }
}

/// All steps that there were.
#[tokio::test]
async fn the_recorded_conversations_are_held() {
    hold_all("scaleway-conversations.json", 969).await;
}

/// Fifteen more, recorded from Terraform, that nobody had seen when the simulator was written. Four steps are lost: in
/// them two servers that began the same thing took very different times to end it.
#[tokio::test]
async fn further_recorded_conversations_are_held() {
    hold_all("scaleway-conversations-2.json", 1_205).await;
}

/// Holds every conversation of a file, of which at least `floor` steps must match: as many as did when it was written.
async fn hold_all(file: &str, floor: usize) {
    let Some(path) = facts().map(|folder| folder.join(file)).filter(|path| path.is_file()) else {
        eprintln!("{file}: SKIPPED, no recordings here; set WINDLASS_FACTS to the folder that holds them");
        return;
    };
    let text = std::fs::read(path).unwrap();
    let conversations: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&text).unwrap();
    let mut steps = 0;
    let mut matched = 0;
    let mut problems: BTreeMap<String, usize> = BTreeMap::new();
    for (name, conversation) in &conversations {
        let mut replay = Replay::new(conversation);
        for (number, step) in conversation.iter().enumerate() {
            steps += 1;
            match replay.hold(step).await {
                Ok(()) => matched += 1,
                Err(difference) => {
                    eprintln!(
                        "{name}, step {number}: {} {}: {difference}",
                        text_of(step, "method"),
                        text_of(step, "path")
                    );
                    *problems.entry(endpoint(step)).or_default() += 1;
                }
            }
        }
    }
    // Every step is sent and compared: what is left out is what does not match.
    println!("{file}: matched {matched} of {steps} steps; left out, by endpoint: {problems:#?}");
    assert!(matched >= floor, "{file}: matched {matched} of {steps} steps, {floor} before");
}

fn text_of<'a>(step: &'a Value, key: &str) -> &'a str {
    step[key].as_str().unwrap()
}

fn endpoint(step: &Value) -> String {
    let path = text_of(step, "path").split('?').next().unwrap();
    let segments: Vec<&str> = path.split('/').map(|part| if part.starts_with('<') { "{}" } else { part }).collect();
    format!("{} {} {}", text_of(step, "method"), segments.join("/"), step["status"])
}

struct Replay {
    caller: Caller,
    bound: BTreeMap<String, String>,
}

impl Replay {
    fn new(conversation: &[Value]) -> Self {
        let options = Options {
            time_scale: 0.0,
            organization: second_organization(conversation),
            // The recorded organization was exempt from the 24 hours.
            apple_silicon_commitment: Duration::ZERO,
            // Recorded as over with the next call but one, between which time passes here only before changes.
            durations: Durations { block_update: QUARTER, ..Durations::default() },
            ..Options::default()
        };
        Self { caller: Caller::of(options), bound: BTreeMap::new() }
    }

    async fn hold(&mut self, step: &Value) -> Result<(), String> {
        let method: Method = text_of(step, "method").parse().unwrap();
        let path = self.fill(text_of(step, "path"));
        let body = match &step["request"] {
            Value::Null => Bytes::new(),
            Value::String(text) => self.fill(text).into(),
            json => self.fill(&json.to_string()).into(),
        };
        for _ in 0..step["repeated"].as_u64().unwrap_or(1) {
            let mut first: Option<String> = None;
            // A POST is sent once; time only passes between polls.
            let polls = if method == Method::GET {
                720
            } else {
                self.caller.simulator.advance(QUARTER);
                1
            };
            let mut held = false;
            for _ in 0..polls {
                let reply =
                    self.caller.send(method.clone(), &path, body.clone()).await.map_err(|error| error.to_string())?;
                let mut bound = self.bound.clone();
                match compare_reply(step, &reply, &mut bound) {
                    Ok(()) => {
                        self.bound = bound;
                        held = true;
                        break;
                    }
                    Err(difference) => {
                        first.get_or_insert(difference);
                        self.caller.simulator.advance(QUARTER);
                    }
                }
            }
            if !held {
                return Err(first.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Puts our values in the place of placeholders; one that nothing has shown yet is a project and made up.
    fn fill(&mut self, text: &str) -> String {
        let mut filled = String::new();
        for part in parts(text) {
            match part {
                Part::Plain(plain) => filled.push_str(plain),
                Part::Placeholder(name) => {
                    let known = self.bound.len() as u128;
                    let value = self.bound.entry(name.to_owned()).or_insert_with(|| {
                        uuid::Uuid::from_u128(0x7100_0000_0000_4000_8000_0000_0000_0000 + known).to_string()
                    });
                    filled.push_str(value);
                }
            }
        }
        filled
    }
}

/// An organization other than the project, where the recording shows one.
fn second_organization(conversation: &[Value]) -> Option<String> {
    fn differs(value: &Value) -> bool {
        match value {
            // Images belong to Scaleway's own organization.
            Value::Object(map) if map.contains_key("organization") && map.contains_key("project") => {
                map["organization"] != map["project"]
            }
            Value::Object(map) => map.values().any(differs),
            Value::Array(list) => list.iter().any(differs),
            _ => false,
        }
    }
    let other = conversation.iter().any(|step| differs(&step["response"]));
    other.then(|| "7e000000-0000-4000-8000-00000000000a".to_owned())
}

fn compare_reply(step: &Value, reply: &Reply, bound: &mut BTreeMap<String, String>) -> Result<(), String> {
    let status = step["status"].as_u64().unwrap();
    if u64::from(reply.status.as_u16()) != status {
        return Err(format!("status {status} was recorded, {} is answered: {}", reply.status, reply.json));
    }
    // The body first: it binds what the headers name.
    match &step["response"] {
        Value::Null if reply.body.is_empty() => {}
        Value::Null => return Err("an empty body was recorded".to_owned()),
        Value::String(text) if reply.body.as_ref() == text.as_bytes() => {}
        Value::String(text) => return Err(format!("text {text:?} was recorded, {:?} is answered", reply.body)),
        recorded => {
            let types = text_of(step, "path").contains("/products/servers");
            compare(recorded, &reply.json, "", types, bound)?;
        }
    }
    for (name, recorded) in step["headers"].as_object().unwrap() {
        let actual = reply.header(name).ok_or_else(|| format!("header {name} is missing"))?;
        // Recorded with the host cut off.
        let actual = actual.strip_prefix("https://api.scaleway.com").unwrap_or(actual);
        compare_text(recorded.as_str().unwrap(), actual, name, bound)?;
    }
    for name in ["location", "link", "x-total-count"] {
        if reply.headers.contains_key(name) && step["headers"].get(name).is_none() {
            return Err(format!("header {name} was not recorded"));
        }
    }
    Ok(())
}

fn compare(
    recorded: &Value,
    actual: &Value,
    at: &str,
    types: bool,
    bound: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    match (recorded, actual) {
        (Value::Object(recorded), Value::Object(actual)) => {
            let cut = types && at == ".servers";
            if let Some(extra) = actual.keys().find(|key| !cut && !recorded.contains_key(*key) && *key != OPTIONAL) {
                return Err(format!("{at}.{extra} was not recorded"));
            }
            for (key, value) in recorded {
                let inner = actual.get(key).ok_or_else(|| format!("{at}.{key} is missing"))?;
                let address = key == "address" && actual.contains_key("source");
                if FREE.contains(&key.as_str()) || address {
                    same_type(value, inner, at, key)?;
                } else {
                    compare(value, inner, &format!("{at}.{key}"), types, bound)?;
                }
            }
            Ok(())
        }
        (Value::Array(recorded), Value::Array(actual)) if recorded.len() == CUT => {
            let missing = recorded.iter().find(|entry| !actual.contains(entry));
            missing.map_or(Ok(()), |entry| Err(format!("{at} lacks {entry}")))
        }
        (Value::Array(recorded), Value::Array(actual)) => {
            if recorded.len() != actual.len() {
                return Err(format!("{at} had {} entries, has {}: {actual:?}", recorded.len(), actual.len()));
            }
            for (index, (recorded, actual)) in recorded.iter().zip(actual).enumerate() {
                compare(recorded, actual, &format!("{at}[{index}]"), types, bound)?;
            }
            Ok(())
        }
        (Value::String(recorded), Value::String(actual)) => compare_text(recorded, actual, at, bound),
        (Value::Number(_), Value::Number(_)) if types => Ok(()),
        (recorded, actual) if recorded == actual => Ok(()),
        (recorded, actual) => Err(format!("{at} was {recorded}, is {actual}")),
    }
}

fn same_type(recorded: &Value, actual: &Value, at: &str, key: &str) -> Result<(), String> {
    if std::mem::discriminant(recorded) == std::mem::discriminant(actual) {
        Ok(())
    } else {
        Err(format!("{at}.{key} was {recorded}, is {actual}"))
    }
}

/// Compares texts with placeholders in them, and binds those that are new.
fn compare_text(recorded: &str, actual: &str, at: &str, bound: &mut BTreeMap<String, String>) -> Result<(), String> {
    match recorded {
        "<time>" => {
            return if actual.parse::<jiff::Timestamp>().is_ok() {
                Ok(())
            } else {
                Err(format!("{at} is no date: {actual}"))
            };
        }
        "<redacted>" => return Ok(()),
        _ => {}
    }
    let differs = || format!("{at} was {recorded:?}, is {actual:?}");
    let mut rest = actual;
    let pieces = parts(recorded);
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Part::Plain(plain) => rest = rest.strip_prefix(plain).ok_or_else(differs)?,
            Part::Placeholder(name) => {
                let value = match bound.get(*name) {
                    Some(value) => value.clone(),
                    None => {
                        let end = match pieces.get(index + 1) {
                            Some(Part::Plain(plain)) => rest.find(plain).ok_or_else(differs)?,
                            _ => rest.len(),
                        };
                        let value = &rest[..end];
                        if !plausible(name, value) {
                            return Err(format!("{at}: {value:?} cannot be {name}"));
                        }
                        bound.insert((*name).to_owned(), value.to_owned());
                        value.to_owned()
                    }
                };
                rest = rest.strip_prefix(value.as_str()).ok_or_else(differs)?;
            }
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(differs()) }
}

/// Whether a value has the form of what a placeholder stands for.
fn plausible(name: &str, value: &str) -> bool {
    match name.trim_start_matches('<').split(':').next() {
        Some("id") => uuid::Uuid::parse_str(value).is_ok(),
        Some("ipv4") => value.parse::<std::net::Ipv4Addr>().is_ok(),
        Some("ipv6") => value.parse::<std::net::Ipv6Addr>().is_ok(),
        Some("mac") => {
            value.split(':').count() == 6 && value.split(':').all(|part| u8::from_str_radix(part, 16).is_ok())
        }
        _ => false,
    }
}

enum Part<'a> {
    Plain(&'a str),
    Placeholder(&'a str),
}

/// Cuts a text into plain parts and placeholders of the form `<word:number>`.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(start) = rest[from..].find('<').map(|index| index + from) {
        let end = rest[start..].find('>').map(|index| index + start);
        let is_placeholder = end.is_some_and(|end| {
            let inner = &rest[start + 1..end];
            inner.split_once(':').is_some_and(|(word, number)| {
                ["id", "ipv4", "ipv6", "mac"].contains(&word) && number.parse::<u32>().is_ok()
            })
        });
        match end {
            Some(end) if is_placeholder => {
                if start > 0 {
                    parts.push(Part::Plain(&rest[..start]));
                }
                parts.push(Part::Placeholder(&rest[start..=end]));
                rest = &rest[end + 1..];
                from = 0;
            }
            _ => from = start + 1,
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Plain(rest));
    }
    parts
}
