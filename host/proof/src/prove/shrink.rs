//! Makes a question as like an example as it can be without losing what it shows.

use serde_json::Value as Json;

/// Takes differences back, the largest first, as long as `shows` remains true. `full` has a value where the example has
/// none. Returns a question of which no single difference can be taken back.
pub(super) fn shrink(mut question: Json, example: &Json, full: &Json, shows: impl Fn(&Json) -> bool) -> Json {
    loop {
        let mut candidates = Vec::new();
        collect(&question, example, full, &mut |candidate| candidates.push(candidate));
        let now = measure(&question, example, full);
        let smaller = candidates.into_iter().find(|candidate| {
            // Each step makes it smaller, so this ends.
            measure(candidate, example, full) < now && shows(candidate)
        });
        match smaller {
            Some(smaller) => question = smaller,
            None => return question,
        }
    }
}

/// In how many places it differs, and how many items its lists have.
fn measure(question: &Json, example: &Json, full: &Json) -> (usize, usize) {
    match (question, example) {
        (Json::Object(fields), _) if !fields.is_empty() => {
            let is_new = usize::from(example.is_null());
            fields.iter().fold((is_new, 0), |(differences, items), (name, value)| {
                let (more_differences, more_items) = measure(value, base(example, full, name), &full[name.as_str()]);
                (differences + more_differences, items + more_items)
            })
        }
        (Json::Array(values), _) => {
            values.iter().enumerate().fold((0, values.len()), |(differences, items), (position, value)| {
                let (more_differences, more_items) =
                    measure(value, item(example, full, position), item(full, full, position));
                (differences + more_differences, items + more_items)
            })
        }
        (value, example) => (usize::from(value != example), 0),
    }
}

/// With what a field is compared.
fn base<'j>(example: &'j Json, full: &'j Json, name: &str) -> &'j Json {
    if example.is_null() { &full[name] } else { &example[name] }
}

/// With what an item is compared: the example's in its place, or its last.
fn item<'j>(example: &'j Json, full: &'j Json, position: usize) -> &'j Json {
    let of = |list: &'j Json| list.as_array().and_then(|items| items.get(position).or(items.last()));
    of(example).or_else(|| of(full)).unwrap_or(&Json::Null)
}

/// Everything that has one difference less.
fn collect(question: &Json, example: &Json, full: &Json, found: &mut dyn FnMut(Json)) {
    if question != example {
        found(example.clone());
    }
    match question {
        Json::Object(fields) => {
            for (name, value) in fields {
                collect(value, base(example, full, name), &full[name.as_str()], &mut |changed| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), changed);
                    found(Json::Object(fields));
                });
            }
        }
        Json::Array(values) => {
            for position in 0..values.len() {
                let mut fewer = values.clone();
                fewer.remove(position);
                found(Json::Array(fewer));
            }
            for (position, value) in values.iter().enumerate() {
                collect(value, item(example, full, position), item(full, full, position), &mut |changed| {
                    let mut values = values.clone();
                    values[position] = changed;
                    found(Json::Array(values));
                });
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_shows_it_is_left() {
        let example = json!({ "a": 1, "b": { "c": true, "d": "x" }, "e": null, "list": [{ "f": 0, "g": 0 }] });
        let full =
            json!({ "a": 1, "b": { "c": true, "d": "x" }, "e": { "h": 0, "i": 0 }, "list": [{ "f": 0, "g": 0 }] });
        let question = json!({
            "a": 2, "b": { "c": false, "d": "y" }, "e": { "h": 5, "i": 6 },
            "list": [{ "f": 1, "g": 2 }, { "f": 3, "g": 4 }, { "f": 1, "g": 1 }],
        });
        let shrunk = shrink(question, &example, &full, |json| {
            json["b"]["c"] == json!(false)
                && json["e"]["i"].as_u64().is_some_and(|number| number > 3)
                && json["list"].as_array().is_some_and(|items| items.iter().any(|item| item["g"] == json!(4)))
        });
        let smallest = json!({
            "a": 1, "b": { "c": false, "d": "x" }, "e": { "h": 0, "i": 6 }, "list": [{ "f": 0, "g": 4 }],
        });
        assert_eq!(shrunk, smallest);
    }

    #[test]
    fn what_the_example_shows_is_the_example_with_shorter_lists() {
        let example = json!({ "a": 1, "list": [1, 2] });
        assert_eq!(shrink(json!({ "a": 2, "list": [3] }), &example, &example, |_| true), json!({ "a": 1, "list": [] }));
    }
}
