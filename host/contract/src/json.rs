//! Whether JSON in the contract's words is a value of a type of the contract.

use serde_json::Value as Json;

use crate::shape::Shape;
use crate::words::meant;

impl Shape {
    /// All that keeps this JSON from being such a value, each with its place: `` `failure.class`: ... ``. Empty: it is
    /// one.
    pub fn misfits(&self, json: &Json) -> Vec<String> {
        let mut misfits = Vec::new();
        self.find_misfits(json, "", &mut misfits);
        misfits
    }

    fn find_misfits(&self, json: &Json, path: &str, misfits: &mut Vec<String>) {
        let mut tell = |problem: String| misfits.push(in_place(path, &problem));
        match (self, json) {
            (Shape::Option(_), Json::Null) | (Shape::Bool, Json::Bool(_)) | (Shape::Text, Json::String(_)) => {}
            (Shape::Option(inner), json) => inner.find_misfits(json, path, misfits),
            (Shape::Bool, _) => tell(format!("{} is not true or false", short(json))),
            (Shape::Text, _) => tell(format!("{} is not a text", short(json))),
            (Shape::Number { bits }, json) => {
                let most = u64::MAX >> (64 - u32::from(*bits));
                if json.as_u64().is_none_or(|number| number > most) {
                    tell(format!("{} is not a whole number from 0 to {most}", short(json)));
                }
            }
            (Shape::List(item), Json::Array(items)) => {
                for (position, one) in items.iter().enumerate() {
                    item.find_misfits(one, &format!("{path}[{position}]"), misfits);
                }
            }
            (Shape::List(_), _) => tell(format!("{} is not a list", short(json))),
            (Shape::Enum(cases), Json::String(word)) => {
                if !cases.contains(&word.as_str()) {
                    tell(unknown_case(word, self));
                }
            }
            (Shape::Enum(cases), _) => tell(format!("{} is none of {}", short(json), cases.join(", "))),
            (Shape::Record(fields), Json::Object(object)) => {
                for key in object.keys().filter(|key| self.field(key).is_none()) {
                    let meant = meant(key, fields.iter().map(|(name, _)| *name));
                    misfits.push(in_place(&joined(path, key), &format!("there is no such field{meant}")));
                }
                for (name, shape) in *fields {
                    match object.get(*name) {
                        Some(json) => shape.find_misfits(json, &joined(path, name), misfits),
                        None if matches!(shape, Shape::Option(_)) => {}
                        None => misfits.push(in_place(&joined(path, name), "it is missing")),
                    }
                }
            }
            (Shape::Record(_), _) => tell(format!("{} is not an object", short(json))),
            (Shape::Variant(cases), json) => {
                let written = match json {
                    Json::String(word) => Some((word, None)),
                    Json::Object(object) if object.len() == 1 => {
                        object.iter().next().map(|(word, payload)| (word, Some(payload)))
                    }
                    _ => None,
                };
                let Some((word, payload)) = written else {
                    let cases: Vec<&str> = self.cases().collect();
                    return tell(format!("{} is none of {}", short(json), cases.join(", ")));
                };
                match (cases.iter().find(|(case, _)| case == word), payload) {
                    (None, _) => tell(unknown_case(word, self)),
                    (Some((_, None)), None) => {}
                    (Some((_, None)), Some(_)) => tell(format!("`{word}` has nothing to say beside: write \"{word}\"")),
                    (Some((_, Some(_))), None) => {
                        tell(format!("`{word}` lacks what it says: write {{\"{word}\": ...}}"))
                    }
                    (Some((_, Some(shape))), Some(json)) => shape.find_misfits(json, &joined(path, word), misfits),
                }
            }
        }
    }
}

fn unknown_case(word: &str, shape: &Shape) -> String {
    format!("`{}` is none of its values{}", cut(word), meant(word, shape.cases()))
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { cut(name) } else { format!("{path}.{}", cut(name)) }
}

fn in_place(path: &str, problem: &str) -> String {
    if path.is_empty() { problem.to_owned() } else { format!("`{path}`: {problem}") }
}

/// A value as it is quoted: somebody may have written a large one.
fn short(json: &Json) -> String {
    match json {
        Json::Array(_) => "a list".into(),
        Json::Object(_) => "an object".into(),
        json => cut(&json.to_string()),
    }
}

fn cut(text: &str) -> String {
    const MAX_CHARACTERS: usize = 60;
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHAPE: Shape = Shape::Record(&[
        ("id", Shape::Text),
        ("age", Shape::Number { bits: 16 }),
        ("state", Shape::Option(&Shape::Enum(&["running", "stopped"]))),
        ("tags", Shape::List(&Shape::Text)),
        ("verdict", Shape::Variant(&[("defer", None), ("wait", Some(Shape::Number { bits: 64 }))])),
    ]);

    #[test]
    fn everything_that_does_not_fit_is_told_with_its_place() {
        let json = |verdict: Json| json!({ "id": "a", "age": 1, "tags": ["b"], "verdict": verdict });
        assert_eq!(SHAPE.misfits(&json(json!("defer"))), Vec::<String>::new());
        assert_eq!(SHAPE.misfits(&json(json!({ "wait": 5 }))), Vec::<String>::new());
        let wrong = json!({ "agee": 1, "age": 65536, "state": "runing", "tags": ["b", 2], "verdict": { "wait": "1" } });
        assert_eq!(
            SHAPE.misfits(&wrong),
            [
                "`agee`: there is no such field; did you mean `age`?",
                "`id`: it is missing",
                "`age`: 65536 is not a whole number from 0 to 65535",
                "`state`: `runing` is none of its values; did you mean `running`?",
                "`tags[1]`: 2 is not a text",
                "`verdict.wait`: \"1\" is not a whole number from 0 to 18446744073709551615",
            ]
        );
        assert_eq!(
            SHAPE.misfits(&json(json!("wait"))),
            ["`verdict`: `wait` lacks what it says: write {\"wait\": ...}"]
        );
        assert_eq!(
            SHAPE.misfits(&json(json!({ "defer": 1 }))),
            ["`verdict`: `defer` has nothing to say beside: write \"defer\""]
        );
        assert_eq!(SHAPE.misfits(&json!([])), ["a list is not an object"]);
    }
}
