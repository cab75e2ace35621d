//! JSON Schemas of settings, written as text.
//!
//! Every component carries the code that writes its schema, and compiles it when it is loaded. schemars builds a tree
//! of maps first: with it, 40% of a default policy were schema. Text needs one string.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;

/// A type that settings can have: numbers, texts, truth values, lists and optional ones of these, the contract's
/// [`FailureClass`](crate::types::FailureClass) and [`ResourceKind`](crate::types::ResourceKind), whatever
/// [`choices!`](crate::choices) makes, and other [`settings!`](crate::settings).
pub trait Setting: DeserializeOwned {
    /// Writes the JSON Schema (2020-12) of the type.
    fn schema(out: &mut String);

    /// Writes the value as JSON, for the schema's `default`.
    fn json(&self, out: &mut String);
}

macro_rules! integers {
    ($($type:ident),+) => {
        $(
            impl Setting for $type {
                fn schema(out: &mut String) {
                    // JSON Schema's numbers are exact; a maximum of 2^64 - 1 would only be noise.
                    let _ = match Self::BITS {
                        64 if Self::MIN == 0 => out.write_str(r#""type":"integer","minimum":0"#),
                        64 => out.write_str(r#""type":"integer""#),
                        _ => write!(out, r#""type":"integer","minimum":{},"maximum":{}"#, Self::MIN, Self::MAX),
                    };
                }

                fn json(&self, out: &mut String) {
                    let _ = write!(out, "{self}");
                }
            }
        )+
    };
}

integers!(u8, u16, u32, u64, i32, i64);

impl Setting for f64 {
    fn schema(out: &mut String) {
        out.push_str(r#""type":"number""#);
    }

    fn json(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
}

impl Setting for bool {
    fn schema(out: &mut String) {
        out.push_str(r#""type":"boolean""#);
    }

    fn json(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Setting for String {
    fn schema(out: &mut String) {
        out.push_str(r#""type":"string""#);
    }

    fn json(&self, out: &mut String) {
        quote(self, out);
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn schema(out: &mut String) {
        out.push_str(r#""type":"array","items":{"#);
        T::schema(out);
        out.push('}');
    }

    fn json(&self, out: &mut String) {
        out.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.json(out);
        }
        out.push(']');
    }
}

impl<T: Setting> Setting for Option<T> {
    fn schema(out: &mut String) {
        out.push_str(r#""anyOf":[{"#);
        T::schema(out);
        out.push_str(r#"},{"type":"null"}]"#);
    }

    fn json(&self, out: &mut String) {
        match self {
            Some(value) => value.json(out),
            None => out.push_str("null"),
        }
    }
}

/// The schema of an object, written property by property. For [`settings!`](crate::settings).
#[doc(hidden)]
#[derive(Debug)]
pub struct ObjectSchema<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> ObjectSchema<'a> {
    /// Begins it.
    pub fn begin(out: &'a mut String, description: &str) -> Self {
        out.push_str(r#""type":"object","description":"#);
        quote(description.trim(), out);
        out.push_str(r#","additionalProperties":false,"properties":{"#);
        Self { out, is_first: true }
    }

    /// Adds a property; `field` is the field's name in Rust.
    pub fn property<T: Setting>(&mut self, field: &str, description: &str, default: &T) {
        self.name(field);
        self.out.push('{');
        T::schema(self.out);
        self.out.push_str(r#","description":"#);
        quote(description.trim(), self.out);
        self.out.push_str(r#","default":"#);
        default.json(self.out);
        self.out.push('}');
    }

    /// Ends it.
    pub fn end(self) {
        self.out.push('}');
    }

    fn name(&mut self, field: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(',');
        }
        self.out.push('"');
        push_key(field, self.out);
        self.out.push_str("\":");
    }
}

/// Writes a field of an object's value. For [`settings!`](crate::settings).
#[doc(hidden)]
pub fn member<T: Setting>(field: &str, value: &T, out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    push_key(field, out);
    out.push_str("\":");
    value.json(out);
}

/// A field's name as the configuration writes it: with dashes.
fn push_key(field: &str, out: &mut String) {
    out.extend(field.chars().map(|letter| if letter == '_' { '-' } else { letter }));
}

/// Writes a text as JSON.
#[doc(hidden)]
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::testing::settings_schema;

    choices! {
        /// For this test.
        enum Colour {
            /// Like blood.
            Red = "red",
            /// Like the sea, sometimes.
            DeepBlue = "deep-blue",
        }
    }

    settings! {
        /// All there is. "Quoted" \ and so on.
        struct Everything {
            /// A whole number
            /// described on two lines.
            whole: u64 = 7,
            /// Small.
            small_number: u8 = 1,
            /// Negative.
            negative: i64 = -5,
            /// A fraction.
            fraction: f64 = 0.5,
            /// Yes or no.
            flag: bool = true,
            /// A text.
            text: String = "a \"b\"\n".into(),
            /// A list.
            list: Vec<FailureClass> = vec![FailureClass::Locked, FailureClass::Other],
            /// Perhaps.
            perhaps: Option<String> = None,
            /// One of some.
            colour: Colour = Colour::DeepBlue,
            /// More.
            inner: Inner = Inner::default(),
        }
    }

    settings! {
        /// Inside.
        struct Inner {
            /// Deep.
            depth: u32 = 3,
        }
    }

    fn schema() -> serde_json::Value {
        serde_json::from_str(&settings_schema::<Everything>()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_schema_is_json_with_every_key_its_type_its_default_and_its_words() {
        let schema = schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["description"], "All there is. \"Quoted\" \\ and so on.");
        assert_eq!(schema["additionalProperties"], false);
        let property = |key: &str| &schema["properties"][key];
        assert_eq!(property("whole")["description"], "A whole number described on two lines.");
        assert_eq!(property("small-number")["maximum"], 255);
        assert_eq!(property("negative")["default"], -5);
        assert_eq!(property("text")["default"], "a \"b\"\n");
        assert_eq!(property("list")["default"], serde_json::json!(["locked", "other"]));
        assert_eq!(property("list")["items"]["enum"][0], "invalid-arguments");
        assert_eq!(property("colour")["enum"], serde_json::json!(["red", "deep-blue"]));
        assert_eq!(property("inner")["properties"]["depth"]["default"], 3);
        assert_eq!(property("perhaps")["default"], serde_json::Value::Null);
    }

    #[test]
    fn the_schemas_defaults_are_the_settings_defaults() {
        let properties = schema()["properties"].as_object().cloned().unwrap_or_default();
        let defaults: serde_json::Map<_, _> =
            properties.into_iter().map(|(key, property)| (key, property["default"].clone())).collect();
        let read: Everything = crate::testing::configure(&serde_json::Value::Object(defaults).to_string())
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, Everything::default());
    }
}
