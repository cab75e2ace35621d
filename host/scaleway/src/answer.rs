use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{ERROR_BODY_BYTES, Error, MalformedAnswer, bounded_text};
use crate::types::Identified;

/// How much of the parser's words an error repeats.
const PROBLEM_BYTES: usize = 512;

/// An answer with a success status, not yet understood.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) request_id: Option<String>,
    /// The header `X-Total-Count` of the Instance API's lists.
    pub(crate) total_count: Option<u64>,
    pub(crate) body: Bytes,
}

impl Answer {
    /// An object, out of its wrapping (`{"server": {...}}`) where this API wraps.
    pub(crate) fn object<T: DeserializeOwned + Identified>(&self, wrapping: Option<&str>) -> Result<T, Error> {
        let object: T = match wrapping {
            Some(key) => self.field(key)?,
            None => self.whole()?,
        };
        self.identified(object)
    }

    /// The items of a list. A list without its key is no empty list: it would "prove" that nothing is there.
    pub(crate) fn list<T: DeserializeOwned + Identified>(&self, key: &str) -> Result<Vec<T>, Error> {
        self.field::<Vec<T>>(key)?.into_iter().map(|item| self.identified(item)).collect()
    }

    /// The items of a list that has no pages. What comes twice counts once, as in lists with pages.
    pub(crate) fn unpaged_list<T: DeserializeOwned + Identified>(&self, key: &str) -> Result<Vec<T>, Error> {
        let mut seen = BTreeSet::new();
        let mut items = self.list::<T>(key)?;
        items.retain(|item| seen.insert(item.id().to_owned()));
        Ok(items)
    }

    /// The entries of a map from name to object.
    pub(crate) fn map<T: DeserializeOwned>(&self, key: &str) -> Result<Vec<(String, T)>, Error> {
        Ok(self.field::<BTreeMap<String, T>>(key)?.into_iter().collect())
    }

    /// Nothing: what an accepted deletion is answered with (recorded: always 204). Anything else does not say that it
    /// was accepted.
    pub(crate) fn nothing(&self) -> Result<(), Error> {
        match self.status {
            204 => Ok(()),
            _ => Err(self.malformed("a deletion is answered with status 204".to_owned())),
        }
    }

    /// The whole body.
    pub(crate) fn whole<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| self.malformed(error.to_string()))
    }

    /// One field of the body; its absence is an error.
    pub(crate) fn field<T: DeserializeOwned>(&self, key: &str) -> Result<T, Error> {
        // Long lists are read once. Whatever is wrong with the body is found below, with better words.
        if let Ok(body) = std::str::from_utf8(&self.body)
            && let Ok(Some(value)) = FieldOf::<T>::read(key, body)
        {
            return Ok(value);
        }
        let fields: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_slice(&self.body).map_err(|error| self.malformed(error.to_string()))?;
        let raw = fields.get(key).ok_or_else(|| self.malformed(format!("there is no `{key}` in it")))?;
        serde_json::from_str(raw.get()).map_err(|error| self.malformed(format!("in `{key}`: {error}")))
    }

    /// One field of the body, when it is there and not `null`.
    pub(crate) fn field_if_there<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let fields: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_slice(&self.body).map_err(|error| self.malformed(error.to_string()))?;
        match fields.get(key) {
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|error| self.malformed(format!("in `{key}`: {error}")))
            }
            None => Ok(None),
        }
    }

    /// An object without an id is none that can be deleted again; better no answer than such a one.
    fn identified<T: Identified>(&self, object: T) -> Result<T, Error> {
        if object.id().is_empty() { Err(self.malformed("an object in it has no id".to_owned())) } else { Ok(object) }
    }

    pub(crate) fn malformed(&self, problem: String) -> Error {
        Error::Malformed(Box::new(MalformedAnswer {
            method: self.method.clone(),
            path: self.path.clone(),
            status: self.status,
            request_id: self.request_id.clone(),
            // The parser quotes what it stumbles over, however long that is.
            problem: bounded_text(problem.as_bytes(), PROBLEM_BYTES),
            body: bounded_text(&self.body, ERROR_BODY_BYTES),
        }))
    }
}

/// Reads one field of an object, the last one of its name, and skips the others.
struct FieldOf<'k, T> {
    key: &'k str,
    value: PhantomData<T>,
}

impl<'k, T: DeserializeOwned> FieldOf<'k, T> {
    fn read(key: &'k str, body: &str) -> Result<Option<T>, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(body);
        let value = json.deserialize_map(Self { key, value: PhantomData })?;
        json.end()?;
        Ok(value)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for FieldOf<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Option<T>, A::Error> {
        let mut found = None;
        while let Some(key) = fields.next_key::<Cow<'_, str>>()? {
            if key == self.key {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
