//! A schema's text as rules. What isn't understood is refused: a rule that is skipped would promise what nobody checks.

use serde_json::{Map, Number, Value};
use windlass_contract::nearest;

use super::{
    MAX_DEPTH, MAX_MEMBERS, MAX_NAME_BYTES, MAX_SCHEMA_BYTES, MAX_SCHEMAS, Place, Rules, Schema, SettingsSchema, Type,
};
use crate::text::{brief, is_unprintable, one_line, short};

/// The keywords that settings are checked against.
const RULES: [&str; 16] = [
    "type",
    "enum",
    "const",
    "anyOf",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "required",
];
/// The keywords that only people and editors read.
const ANNOTATIONS: [&str; 9] =
    ["title", "description", "default", "examples", "deprecated", "format", "$schema", "$id", "$comment"];

impl SettingsSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// A sentence with the place of the first mistake and what would be right.
    pub(crate) fn read(text: &str) -> Result<SettingsSchema, String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!(
                "`settings-schema` has {} bytes, and at most {MAX_SCHEMA_BYTES} are allowed",
                text.len()
            ));
        }
        let schema: Value =
            serde_json::from_str(text).map_err(|error| format!("`settings-schema` is not JSON: {error}"))?;
        if !schema.is_object() {
            return Err(wrong(&Place::Root, &format!("expected an object, found {}", brief(&schema))));
        }
        Ok(SettingsSchema(Reader { schemas: 0, members: 0 }.schema(&schema, &Place::Root, 0)?))
    }
}

/// Counts what a schema is made of while it is read.
struct Reader {
    schemas: usize,
    members: usize,
}

impl Reader {
    fn schema(&mut self, schema: &Value, place: &Place<'_>, depth: usize) -> Result<Schema, String> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(wrong(place, &format!("it has more than {MAX_SCHEMAS} schemas")));
        }
        if depth > MAX_DEPTH {
            return Err(wrong(place, &format!("schemas are nested more than {MAX_DEPTH} deep")));
        }
        match schema {
            Value::Bool(true) => Ok(Schema::Anything),
            Value::Bool(false) => Ok(Schema::Nothing),
            Value::Object(keywords) => Ok(Schema::Rules(Box::new(self.rules(keywords, place, depth)?))),
            other => Err(wrong(place, &format!("expected a schema, which is an object, found {}", brief(other)))),
        }
    }

    fn rules(&mut self, keywords: &Map<String, Value>, place: &Place<'_>, depth: usize) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for (keyword, value) in keywords {
            let at = &Place::Key(place, keyword);
            match keyword.as_str() {
                "type" => rules.types = types(value, at)?,
                "enum" => rules.choices.push(self.choices(value, at)?),
                "const" => rules.choices.push(vec![self.choice(value, at)?]),
                "anyOf" => rules.any_of = self.alternatives(value, at, depth)?,
                "minimum" => rules.minimum = Some(number(value, at)?),
                "exclusiveMinimum" => rules.exclusive_minimum = Some(number(value, at)?),
                "maximum" => rules.maximum = Some(number(value, at)?),
                "exclusiveMaximum" => rules.exclusive_maximum = Some(number(value, at)?),
                "minLength" => rules.min_length = Some(size(value, at)?),
                "maxLength" => rules.max_length = Some(size(value, at)?),
                "items" => rules.items = self.schema(value, at, depth + 1)?,
                "minItems" => rules.min_items = Some(size(value, at)?),
                "maxItems" => rules.max_items = Some(size(value, at)?),
                "properties" => {
                    let properties = value.as_object().ok_or_else(|| expected(at, "an object", value))?;
                    for (name, property) in properties {
                        let schema = self.property(name, property, &Place::Key(at, name), depth)?;
                        rules.properties.insert(name.clone(), schema);
                    }
                }
                "additionalProperties" => rules.additional_properties = self.schema(value, at, depth + 1)?,
                "required" => {
                    for (index, name) in array(value, at)?.iter().enumerate() {
                        let at = &Place::Index(at, index);
                        self.member(at)?;
                        rules.required.push(string(name, at)?.to_owned());
                    }
                }
                "title" | "description" | "format" | "$schema" | "$id" | "$comment" => drop(string(value, at)?),
                "default" | "examples" | "deprecated" => {}
                unsupported => return Err(refused(unsupported, place)),
            }
        }
        Ok(rules)
    }

    fn property(&mut self, name: &str, schema: &Value, place: &Place<'_>, depth: usize) -> Result<Schema, String> {
        // Names are printed wherever settings are explained.
        if name.len() > MAX_NAME_BYTES || name.contains(is_unprintable) {
            let words = format!("a name has at most {MAX_NAME_BYTES} bytes and no control characters");
            return Err(wrong(place, &words));
        }
        self.schema(schema, place, depth + 1)
    }

    fn alternatives(&mut self, value: &Value, place: &Place<'_>, depth: usize) -> Result<Vec<Schema>, String> {
        let read = |(index, schema)| self.schema(schema, &Place::Index(place, index), depth + 1);
        array_of_some(value, place)?.iter().enumerate().map(read).collect()
    }

    fn choices(&mut self, value: &Value, place: &Place<'_>) -> Result<Vec<Value>, String> {
        let read = |(index, choice)| self.choice(choice, &Place::Index(place, index));
        array_of_some(value, place)?.iter().enumerate().map(read).collect()
    }

    fn choice(&mut self, value: &Value, place: &Place<'_>) -> Result<Value, String> {
        self.member(place)?;
        match value {
            Value::Array(_) | Value::Object(_) => {
                Err(expected(place, "a string, a number, a boolean or null, as `enum` and `const` have here", value))
            }
            scalar => Ok(scalar.clone()),
        }
    }

    fn member(&mut self, place: &Place<'_>) -> Result<(), String> {
        self.members += 1;
        match self.members > MAX_MEMBERS {
            true => Err(wrong(place, &format!("`enum`, `const` and `required` have more than {MAX_MEMBERS} members"))),
            false => Ok(()),
        }
    }
}

fn types(value: &Value, place: &Place<'_>) -> Result<Vec<Type>, String> {
    let read = |value: &Value, place: &Place<'_>| {
        let names = || Type::ALL.iter().map(|(_, name, _)| *name);
        let of_name = |name: &str| Type::ALL.iter().find(|known| known.1 == name).map(|known| known.0);
        let wanted = || format!("a type ({})", names().collect::<Vec<_>>().join(", "));
        let found = value.as_str().ok_or_else(|| expected(place, &wanted(), value))?;
        of_name(found).ok_or_else(|| match nearest(found, names()) {
            Some(near) => wrong(place, &format!("there is no type {}; did you mean `{near}`?", brief(value))),
            None => expected(place, &wanted(), value),
        })
    };
    match value {
        Value::Array(_) => {
            let names = array_of_some(value, place)?;
            // Each type once is all that makes sense, and what bounds the list.
            if names.len() > Type::ALL.len() {
                return Err(wrong(place, "a type stands twice in the list"));
            }
            names.iter().enumerate().map(|(index, name)| read(name, &Place::Index(place, index))).collect()
        }
        one => Ok(vec![read(one, place)?]),
    }
}

fn number(value: &Value, place: &Place<'_>) -> Result<Number, String> {
    value.as_number().cloned().ok_or_else(|| expected(place, "a number", value))
}

fn size(value: &Value, place: &Place<'_>) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| expected(place, "a whole number from 0", value))
}

fn string<'a>(value: &'a Value, place: &Place<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| expected(place, "a string", value))
}

fn array<'a>(value: &'a Value, place: &Place<'_>) -> Result<&'a [Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| expected(place, "an array", value))
}

fn array_of_some<'a>(value: &'a Value, place: &Place<'_>) -> Result<&'a [Value], String> {
    match array(value, place)? {
        [] => Err(wrong(place, "expected an array with at least one member")),
        members => Ok(members),
    }
}

fn expected(place: &Place<'_>, what: &str, found: &Value) -> String {
    wrong(place, &format!("expected {what}, found {}", brief(found)))
}

fn wrong(place: &Place<'_>, words: &str) -> String {
    let text = match place {
        Place::Root => format!("`settings-schema`: {words}"),
        place => format!("`settings-schema` at `{}`: {words}", place.pointer()),
    };
    one_line(&text).into()
}

/// For a keyword that this host doesn't understand.
fn refused(keyword: &str, place: &Place<'_>) -> String {
    let remedy = match keyword {
        "$ref" | "$dynamicRef" | "$defs" | "definitions" | "$anchor" | "$dynamicAnchor" => {
            "write each schema out where it is used.".to_owned()
        }
        "allOf" => "write its keywords side by side.".to_owned(),
        "oneOf" => "use `anyOf`.".to_owned(),
        _ => match nearest(keyword, RULES.into_iter().chain(ANNOTATIONS)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "check it in `configure`.".to_owned(),
        },
    };
    let words = format!(
        "the keyword `{}` is not supported: {remedy} Supported are {} and, unchecked, {}",
        short(keyword),
        RULES.join(", "),
        ANNOTATIONS.join(", ")
    );
    wrong(place, &words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(schema: &Value) -> String {
        match SettingsSchema::read(&schema.to_string()) {
            Ok(_) => panic!("it was accepted: {schema}"),
            Err(error) => error,
        }
    }

    fn is_accepted(schema: &Value) {
        SettingsSchema::read(&schema.to_string()).unwrap_or_else(|error| panic!("{schema}: {error}"));
    }

    #[test]
    fn every_supported_keyword_is_accepted_and_stands_in_the_guide_and_in_the_contract() {
        let guide = include_str!("../../../../docs/writing-policies.md");
        let contract = include_str!("../../../../wit/policy/policy.wit");
        let values = [
            ("type", json!(["string", "null"])),
            ("enum", json!(["a", 1, true, null])),
            ("const", json!(1.5)),
            ("anyOf", json!([{ "type": "string" }, true])),
            ("items", json!({ "type": "string" })),
            ("properties", json!({ "a": {}, "b": false })),
            ("additionalProperties", json!({ "type": "string" })),
            ("required", json!(["a"])),
            ("default", json!([{}])),
            ("examples", json!([1])),
            ("deprecated", json!(true)),
        ];
        for keyword in RULES.into_iter().chain(ANNOTATIONS) {
            let value = values.iter().find(|(known, _)| *known == keyword).map(|(_, value)| value.clone());
            let value = value.unwrap_or_else(|| if RULES.contains(&keyword) { json!(3) } else { json!("words") });
            is_accepted(&json!({ keyword: value }));
            for text in [guide, contract] {
                assert!(text.contains(&format!("`{keyword}`")), "`{keyword}` is missing");
            }
        }
        is_accepted(&json!({}));
    }

    #[test]
    fn any_other_keyword_is_refused_with_its_place_and_what_to_do_instead() {
        for (schema, words) in [
            (json!({ "$ref": "#" }), "`settings-schema`: the keyword `$ref` is not supported: write each schema out"),
            (json!({ "$defs": {} }), "write each schema out where it is used"),
            (
                json!({ "properties": { "a": { "items": { "allOf": [] } } } }),
                "`settings-schema` at `/properties/a/items`: the keyword `allOf` is not supported: write its keywords \
                 side by side",
            ),
            (
                json!({ "anyOf": [true, { "oneOf": [] }] }),
                "at `/anyOf/1`: the keyword `oneOf` is not supported: use `anyOf`",
            ),
            (json!({ "pattern": "(a+)+$" }), "`pattern` is not supported: check it in `configure`"),
            (json!({ "not": {} }), "`not` is not supported: check it in `configure`"),
            (json!({ "if": {} }), "`if` is not supported: check it in `configure`"),
            (json!({ "patternProperties": {} }), "`patternProperties` is not supported: check it in `configure`"),
            (json!({ "uniqueItems": true }), "`uniqueItems` is not supported: check it in `configure`"),
            (json!({ "minimun": 1 }), "`minimun` is not supported: did you mean `minimum`?"),
            (json!({ "colour": 1 }), "Supported are type, enum, const, anyOf, minimum"),
        ] {
            let error = refusal(&schema);
            assert!(error.contains(words), "{schema}: {error}");
        }
    }

    #[test]
    fn a_keyword_with_a_wrong_value_is_refused_with_its_place() {
        for (schema, words) in [
            (json!([]), "`settings-schema`: expected an object, found an array"),
            (json!(true), "`settings-schema`: expected an object, found true"),
            (
                json!({ "type": 7 }),
                "at `/type`: expected a type (boolean, integer, number, string, array, object, null), found 7",
            ),
            (json!({ "type": "strng" }), "at `/type`: there is no type \"strng\"; did you mean `string`?"),
            (json!({ "type": [] }), "at `/type`: expected an array with at least one member"),
            (json!({ "type": ["string", 1] }), "at `/type/1`: expected a type"),
            (json!({ "type": vec!["string"; 8] }), "at `/type`: a type stands twice"),
            (json!({ "enum": "a" }), "at `/enum`: expected an array, found \"a\""),
            (json!({ "enum": [] }), "at `/enum`: expected an array with at least one member"),
            (json!({ "enum": [[]] }), "at `/enum/0`: expected a string, a number, a boolean or null"),
            (json!({ "const": {} }), "at `/const`: expected a string, a number, a boolean or null"),
            (json!({ "minimum": "1" }), "at `/minimum`: expected a number, found \"1\""),
            (json!({ "exclusiveMaximum": true }), "at `/exclusiveMaximum`: expected a number, found true"),
            (json!({ "minLength": -1 }), "at `/minLength`: expected a whole number from 0, found -1"),
            (json!({ "items": [{}] }), "at `/items`: expected a schema, which is an object, found an array"),
            (json!({ "properties": [] }), "at `/properties`: expected an object, found an array"),
            (json!({ "properties": { "a": 1 } }), "at `/properties/a`: expected a schema"),
            (json!({ "required": ["a", 1] }), "at `/required/1`: expected a string, found 1"),
            (json!({ "anyOf": [] }), "at `/anyOf`: expected an array with at least one member"),
            (json!({ "description": 1 }), "at `/description`: expected a string, found 1"),
        ] {
            let error = refusal(&schema);
            assert!(error.contains(words), "{schema}: {error}");
        }
        let error = SettingsSchema::read("{").map(|_| ()).unwrap_err();
        assert!(error.starts_with("`settings-schema` is not JSON"), "{error}");
    }

    /// A schema in so many others.
    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({ "items": inner }))
    }

    #[test]
    fn a_schema_is_bounded_in_bytes_depth_parts_and_members() {
        is_accepted(&nested(MAX_DEPTH));
        let error = refusal(&nested(MAX_DEPTH + 1));
        assert!(error.contains("nested more than 32 deep"), "{error}");

        let properties = |count: usize| -> Value {
            json!({ "properties": (0..count).map(|index| (index.to_string(), json!({}))).collect::<Map<_, _>>() })
        };
        is_accepted(&properties(MAX_SCHEMAS - 1));
        let error = refusal(&properties(MAX_SCHEMAS));
        assert!(error.contains("more than 512 schemas"), "{error}");

        is_accepted(&json!({ "enum": vec![0; MAX_MEMBERS - 1], "const": 0 }));
        let error = refusal(&json!({ "enum": vec![0; MAX_MEMBERS - 1], "const": 0, "required": ["a"] }));
        assert!(error.contains("more than 1024 members"), "{error}");

        let error = refusal(&json!({ "description": "x".repeat(MAX_SCHEMA_BYTES) }));
        assert!(error.contains("at most 65536 are allowed"), "{error}");
        // Deeper than JSON is read at all.
        let error = SettingsSchema::read(&r#"{"items":"#.repeat(5_000)).map(|_| ()).unwrap_err();
        assert!(error.contains("is not JSON"), "{error}");
    }

    #[test]
    fn what_a_schema_says_reaches_errors_short_and_without_control_characters() {
        for schema in [
            json!({ "properties": { "a\u{1b}[31m": {} } }),
            json!({ "properties": { "a\u{202e}b": {} } }),
            json!({ "properties": { "x".repeat(200): {} } }),
            json!({ "\u{1b}]0;title\u{7}": 1 }),
            json!({ "y".repeat(60_000): 1 }),
            json!({ "type": "\u{202e}gnirts" }),
            json!({ "type": "z".repeat(60_000) }),
            json!({ "enum": [{ "a\u{1b}": 1 }] }),
            // A long way down.
            (0..20).fold(json!({ "allOf": 1 }), |inner, _| json!({ "properties": { "x".repeat(100): inner } })),
        ] {
            let error = refusal(&schema);
            assert!(!error.contains(is_unprintable) && error.len() <= 1024, "{error:?}");
        }
        // However long it is, it hides nothing of what is said of it.
        let error = refusal(&json!({ "y".repeat(60_000): 1 }));
        assert!(error.contains("is not supported") && error.ends_with("$comment"), "{error:?}");
    }
}
