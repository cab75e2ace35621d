use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value};

use crate::refusal::{BadArgument, Reason, Refusal};

/// What is wrong with a list that is well formed; nothing, by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Distortion {
    /// What stands at this place, from 0 over all pages, is left out.
    pub(crate) omitted: Option<usize>,
    /// Whether the total counts what is left out.
    pub(crate) counts_omitted: bool,
    /// Stands for the number of items.
    pub(crate) total: Option<usize>,
    /// What the total says too much.
    pub(crate) surplus: usize,
}

/// One request to an API, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Decoded pairs in their order.
    pub(crate) query: Vec<(String, String)>,
    /// The query as it was written.
    pub(crate) raw_query: String,
    pub(crate) body: Bytes,
    /// What is to be wrong with the answer, should it be a list.
    pub(crate) distortion: Distortion,
}

impl Call {
    pub(crate) fn new(method: Method, uri: &http::Uri, body: Bytes) -> Self {
        let raw_query = uri.query().unwrap_or_default().to_owned();
        let query = url::form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect();
        Self { method, path: uri.path().to_owned(), query, raw_query, body, distortion: Distortion::default() }
    }

    /// The same without any filter.
    pub(crate) fn unfiltered(&self) -> Self {
        Self { query: Vec::new(), raw_query: String::new(), distortion: Distortion::default(), ..self.clone() }
    }

    /// The last value of a query parameter; empty ones count as absent, as the SDKs send them.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Every value of a repeated query parameter.
    pub(crate) fn repeated(&self, name: &str) -> Vec<&str> {
        self.query
            .iter()
            .filter(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The values of a parameter that joins them with commas.
    pub(crate) fn joined(&self, name: &str) -> Vec<&str> {
        self.repeated(name).into_iter().flat_map(|value| value.split(',')).filter(|value| !value.is_empty()).collect()
    }

    /// The body as a JSON object; no body at all is an empty one.
    pub(crate) fn fields(&self) -> Result<Fields, Refusal> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields::empty());
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(map)) => Ok(Fields(map)),
            // Assumption: the answer to a body that is no JSON object was not recorded.
            Ok(_) => Err(Refusal::invalid_argument("body", Reason::Format, "expected a JSON object")),
            Err(error) => Err(Refusal::invalid_argument("body", Reason::Format, format!("not JSON: {error}"))),
        }
    }
}

/// The keys of a request body. `null` differs from an absent key only where [`Fields::value`] is asked.
#[derive(Debug)]
pub(crate) struct Fields(pub(crate) Map<String, Value>);

impl Fields {
    pub(crate) fn empty() -> Self {
        Self(Map::new())
    }

    /// The raw value, `null` included.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong_type(name, "a string")),
        }
    }

    /// A text that must be there and not be empty.
    pub(crate) fn required_text(&self, name: &str) -> Result<String, Refusal> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(Refusal::invalid_arguments(&[BadArgument::missing(name)])),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(wrong_type(name, "a boolean")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| wrong_type(name, "a whole number that is not negative"))
            }
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong_type(name, "a list of strings")))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(wrong_type(name, "a list of strings")),
        }
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields(map.clone()))),
            Some(_) => Err(wrong_type(name, "an object")),
        }
    }
}

pub(crate) fn wrong_type(name: &str, expected: &str) -> Refusal {
    Refusal::invalid_argument(name, Reason::Format, format!("expected {expected}"))
}
