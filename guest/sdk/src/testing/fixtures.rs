//! The fixtures of a policy, which `windlass policy test` puts to its component, in `cargo test`.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::FakeHost;
use crate::scaleway::look_ups::{LookUpError, Money, Server, ServerList, ServerType, ServerTypeList, Stock};
use crate::scaleway::request::{HttpResponse, RequestError};

/// Each slot's example question, to which fixtures say their changes. Held equal to the host's by a test of the host.
const EXAMPLES: [(&str, &str); 6] = [
    ("state-mapping", include_str!("examples/state-mapping.json")),
    ("retry", include_str!("examples/retry.json")),
    ("rollback", include_str!("examples/rollback.json")),
    ("release", include_str!("examples/release.json")),
    ("provisioning", include_str!("examples/provisioning.json")),
    ("placement", include_str!("examples/placement.json")),
];

/// One question with what is expected of the answer. Conditions in CEL (`expect.holds`) and fuel are checked by
/// `windlass policy test` only.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Fixture {
    /// The file's name without `.json`.
    pub name: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Content {
    #[serde(rename = "$schema", default)]
    _schema: Option<String>,
    #[serde(rename = "about", default)]
    _about: Option<String>,
    slot: String,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    question: Map<String, Value>,
    #[serde(default)]
    host_calls: Vec<Call>,
    expect: Expect,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    #[serde(rename = "interface", default)]
    _interface: Option<String>,
    function: String,
    arguments: Vec<Value>,
    answer: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    verdict: Option<Value>,
    #[serde(rename = "holds", default)]
    _holds: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// The fixtures of a folder, by their names. In `cargo test` a relative path begins at the package.
///
/// # Panics
/// The folder can't be read or has none, or a file is no fixture.
#[must_use]
pub fn fixtures(folder: impl AsRef<Path>) -> Vec<Fixture> {
    let folder = folder.as_ref();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut fixtures: Vec<Fixture> = entries
        .filter_map(|entry| {
            let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
            let name = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let content = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Some(Fixture { name, content })
        })
        .collect();
    assert!(!fixtures.is_empty(), "{} has no fixtures (*.json)", folder.display());
    fixtures.sort_by(|one, other| one.name.cmp(&other.name));
    fixtures
}

impl Fixture {
    /// The slot that is asked: `retry`.
    #[must_use]
    pub fn slot(&self) -> &str {
        &self.content.slot
    }

    /// The question: that of the fixture's slot, as its type.
    ///
    /// # Panics
    /// It doesn't fit: the message says where.
    #[must_use]
    pub fn question<Question: DeserializeOwned>(&self) -> Question {
        let slot = self.slot();
        let example = EXAMPLES.iter().find(|(name, _)| *name == slot);
        let (_, example) = example.unwrap_or_else(|| panic!("{}: there is no slot `{slot}`", self.name));
        let example = serde_json::from_str(example).expect("a test of the host holds the examples");
        let whole = with_changes(&example, &Value::Object(self.content.question.clone()));
        serde_json::from_value(whole).unwrap_or_else(|error| panic!("{}: its question: {error}", self.name))
    }

    /// The policy's settings for this case, for [`configure`](super::configure).
    #[must_use]
    pub fn settings(&self) -> String {
        Value::Object(self.content.settings.clone()).to_string()
    }

    /// A host that answers the calls that the fixture has answers for, each once.
    ///
    /// # Panics
    /// In a call: its answer is none of that function.
    pub fn host(&self) -> FakeHost {
        let (types, servers, lists, requests) = (self.clone(), self.clone(), self.clone(), self.clone());
        let (mut made_types, mut made_servers, mut made_lists, mut made_requests) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        FakeHost::new()
            .server_types(move |zone, names| {
                let answer = types.answer(&mut made_types, "server-types", &[zone.into(), names.into()]);
                types.look_up("server-types", answer, server_types)
            })
            .get_server(move |zone, id| {
                let answer = servers.answer(&mut made_servers, "get-server", &[zone.into(), id.into()]);
                servers.look_up("get-server", answer, server)
            })
            .list_servers(move |zone, tags| {
                let answer = lists.answer(&mut made_lists, "list-servers", &[zone.into(), tags.into()]);
                lists.look_up("list-servers", answer, server_list)
            })
            .send(move |request| {
                let argument = serde_json::json!({
                    "method": request.method, "path": request.path, "body": request.body,
                });
                let answer = requests.answer(&mut made_requests, "send", &[argument]);
                requests.sent(answer)
            })
    }

    /// Compares an answer with what is expected.
    ///
    /// # Panics
    /// It is another one.
    #[track_caller]
    pub fn assert(&self, answer: &impl Serialize) {
        let answer = serde_json::to_value(answer).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let answers = match answer {
            Value::Array(answers) => answers,
            one => vec![one],
        };
        if let Some(expected) = &self.content.expect.verdict {
            let expected = match expected {
                Value::Array(verdicts) => verdicts.clone(),
                one => vec![one.clone(); answers.len()],
            };
            let expected: Vec<Value> = expected.iter().map(without_nulls).collect();
            let answered: Vec<Value> = answers.iter().map(|answer| without_nulls(&answer["verdict"])).collect();
            assert_eq!(answered, expected, "{}: the verdict (left) is not the expected one (right)", self.name);
        }
        if let Some(words) = &self.content.expect.reason {
            let mut reasons = answers.iter().filter_map(|answer| answer["reason"].as_str());
            assert!(reasons.any(|reason| reason.contains(words)), "{}: no reason says \"{words}\"", self.name);
        }
    }

    /// The next answer to a call, as `windlass policy test` gives it: each once, in any order.
    fn answer(&self, made: &mut Vec<usize>, function: &str, arguments: &[Value]) -> Option<Value> {
        let fits = |(position, call): &(usize, &Call)| {
            let arguments = arguments.iter().map(without_nulls);
            !made.contains(position)
                && call.function == function
                && call.arguments.iter().map(without_nulls).eq(arguments)
        };
        let (position, call) = self.content.host_calls.iter().enumerate().find(fits)?;
        made.push(position);
        Some(call.answer.clone())
    }

    fn look_up<T>(
        &self,
        function: &str,
        answer: Option<Value>,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, LookUpError> {
        let wrong = || -> ! { panic!("{}: the answer to `{function}` is none of that function", self.name) };
        let Some(answer) = answer else {
            return Err(LookUpError::LimitReached("the fixture has no such call".into()));
        };
        if let Some(found) = answer.get("ok") {
            return Ok(read(found).unwrap_or_else(|| wrong()));
        }
        Err(match &answer["err"] {
            Value::String(case) if case == "not-found" => LookUpError::NotFound,
            error => match (text(error, "limit-reached"), text(error, "failed")) {
                (Some(words), _) => LookUpError::LimitReached(words),
                (None, Some(words)) => LookUpError::Failed(words),
                (None, None) => wrong(),
            },
        })
    }

    fn sent(&self, answer: Option<Value>) -> Result<HttpResponse, RequestError> {
        let Some(answer) = answer else {
            return Err(RequestError::LimitReached("the fixture has no such call".into()));
        };
        let (found, error) = (&answer["ok"], &answer["err"]);
        let response = number(found, "status").and_then(|status| u16::try_from(status).ok()).zip(text(found, "body"));
        match (response, text(error, "not-granted"), text(error, "limit-reached"), text(error, "failed")) {
            (Some((status, body)), ..) => Ok(HttpResponse { status, body }),
            (_, Some(words), ..) => Err(RequestError::NotGranted(words)),
            (_, _, Some(words), _) => Err(RequestError::LimitReached(words)),
            (_, _, _, Some(words)) => Err(RequestError::Failed(words)),
            _ => panic!("{}: the answer to `send` is none of that function", self.name),
        }
    }
}

/// As the host does it (`windlass_proof::fixture::with_changes`), which is compared by a test there.
fn with_changes(example: &Value, changes: &Value) -> Value {
    match (example, changes) {
        (Value::Object(example), Value::Object(changes)) => {
            let mut whole = example.clone();
            for (key, change) in changes {
                let changed = example.get(key).map_or_else(|| change.clone(), |before| with_changes(before, change));
                whole.insert(key.clone(), changed);
            }
            Value::Object(whole)
        }
        (Value::Array(example), Value::Array(changes)) => {
            let like = |position: usize| example.get(position).or(example.last());
            let element = |(position, change): (usize, &Value)| {
                like(position).map_or_else(|| change.clone(), |before| with_changes(before, change))
            };
            Value::Array(changes.iter().enumerate().map(element).collect())
        }
        (_, change) => change.clone(),
    }
}

/// What is null may be left out, and the other way round.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

fn list<T>(value: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.get(key)?.as_array()?.iter().map(read).collect()
}

fn server_types(value: &Value) -> Option<ServerTypeList> {
    let complete = value.get("complete")?.as_bool()?;
    Some(ServerTypeList { server_types: list(value, "server-types", server_type)?, complete })
}

fn server_type(value: &Value) -> Option<ServerType> {
    let price = value.get("hourly-price")?;
    let stock = match text(value, "stock")?.as_str() {
        "available" => Stock::Available,
        "scarce" => Stock::Scarce,
        "shortage" => Stock::Shortage,
        "unknown" => Stock::Unknown,
        _ => return None,
    };
    Some(ServerType {
        name: text(value, "name")?,
        stock,
        architecture: text(value, "architecture")?,
        processors: u32::try_from(number(value, "processors")?).ok()?,
        memory: number(value, "memory")?,
        hourly_price: Money { currency: text(price, "currency")?, micros: number(price, "micros")? },
    })
}

fn server_list(value: &Value) -> Option<ServerList> {
    let complete = value.get("complete")?.as_bool()?;
    Some(ServerList { servers: list(value, "servers", server)?, complete })
}

fn server(value: &Value) -> Option<Server> {
    Some(Server {
        id: text(value, "id")?,
        name: text(value, "name")?,
        server_type: text(value, "server-type")?,
        state: text(value, "state")?,
        state_detail: text(value, "state-detail")?,
        tags: list(value, "tags", |tag| tag.as_str().map(str::to_owned))?,
        created_at: number(value, "created-at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    fn fixture(text: &str) -> Fixture {
        Fixture { name: "a-case".into(), content: serde_json::from_str(text).expect("a fixture") }
    }

    #[test]
    fn the_question_is_the_example_with_the_changes() {
        let case = fixture(
            r#"{"slot": "retry", "expect": {},
                "question": {"attempt": 4, "failure": {"class": "locked"}, "subject": {"group": null}}}"#,
        );
        let question: retry::Question = case.question();
        assert_eq!((question.attempt, question.failure.class), (4, FailureClass::Locked));
        assert_eq!((question.subject.group, question.zone.as_str()), (None, "fr-par-1"));
        let case = fixture(r#"{"slot": "state-mapping", "question": {"servers": [{"age": 7}]}, "expect": {}}"#);
        let question: state_mapping::Question = case.question();
        assert_eq!((question.servers.len(), question.servers[0].age), (1, 7));
    }

    #[test]
    fn a_look_up_is_answered_once_by_the_call_with_its_arguments() {
        let case = fixture(
            r#"{"slot": "retry", "expect": {}, "host-calls": [
                {"function": "server-types", "arguments": ["fr-par-1", ["DEV1-S"]],
                 "answer": {"ok": {"complete": true, "server-types": [{"name": "DEV1-S", "stock": "scarce",
                    "architecture": "x86_64", "processors": 2, "memory": 1,
                    "hourly-price": {"currency": "EUR", "micros": 1}}]}}},
                {"function": "get-server", "arguments": ["fr-par-1", "x"], "answer": {"err": "not-found"}}]}"#,
        );
        let names = ["DEV1-S".to_owned()];
        let run = case.host().run(|| {
            let look = || scaleway::look_ups::server_types("fr-par-1", &names);
            (look(), look(), scaleway::look_ups::get_server("fr-par-1", "x"))
        });
        let (first, second, server) = run.answer;
        assert_eq!(first.map(|found| found.server_types[0].stock), Ok(Stock::Scarce));
        assert!(matches!(second, Err(LookUpError::LimitReached(_))));
        assert_eq!(server, Err(LookUpError::NotFound));
    }

    #[test]
    fn an_answer_is_compared_by_verdict_and_reason() {
        let case = fixture(r#"{"slot": "retry", "expect": {"verdict": {"wait": 5}, "reason": "stock"}}"#);
        case.assert(&retry::Answer::wait(5).because("stock may come back"));
        for other in [retry::Answer::wait(6).because("stock"), retry::Answer::wait(5)] {
            assert!(std::panic::catch_unwind(|| case.assert(&other)).is_err(), "{other:?}");
        }
        // What an answer may leave out, an expectation may leave out, too.
        let case = fixture(r#"{"slot": "release", "expect": {"verdict": {"return-to-pool": {}}}}"#);
        case.assert(&release::Answer::return_to_pool(None));
    }
}
