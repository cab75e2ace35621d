//! JSON kept as text.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A JSON value as the text that it is: as a value in memory it takes up to sixteen times as much.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> JsonText {
        // What is made of JSON values always can be written.
        JsonText(to_raw_value(value).unwrap_or_default())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn value(&self) -> Value {
        // It was valid when it was made, and read from the log it was checked.
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &JsonText) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
