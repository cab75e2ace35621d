//! What parsers say about a mistake, in words for the people who made it.

use std::ops::Range;

use windlass_contract::nearest;

/// What the parser of TOML says about a line. Its own words name what it tried last, such as the truth value `false`
/// for a text without quotes.
pub fn plain_toml(words: &str) -> String {
    const PLAIN: [(&str, &str); 10] = [
        ("invalid basic string", "the text has no closing quote"),
        ("invalid literal string", "the text has no closing quote"),
        ("invalid boolean", "this value is not a number, date, true or false; a text needs quotes"),
        ("string values must be quoted", "a text needs quotes"),
        ("key with no value", "a line is written as KEY = VALUE"),
        ("missing assignment between key-value pairs", "a line is written as KEY = VALUE"),
        ("invalid key-value pair", "a line is written as KEY = VALUE"),
        ("invalid unquoted key", "a key has letters, digits, - and _, and other keys need quotes"),
        ("unclosed table", "the brackets are not closed"),
        ("duplicate key", "the key is set twice; keep one"),
    ];
    let plain = PLAIN.iter().find(|(said, _)| words.starts_with(said));
    plain.map_or(words, |(_, plain)| plain).to_owned()
}

/// As [`plain_toml`], with the name of what a text has twice, which the parser only points at.
pub fn plain_toml_at(text: &str, place: Option<Range<usize>>, words: &str) -> String {
    let twice = place.filter(|_| words.starts_with("duplicate key"));
    let Some((before, key)) = twice.and_then(|key| Some((text.get(..key.start)?, text.get(key)?))) else {
        return plain_toml(words);
    };
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
    let name = line.trim_start_matches('[').split(']').next().unwrap_or_default();
    match line {
        line if line.starts_with("[[") => {
            format!("[{name}] is begun above as one table: for several, write [[{name}]] there too")
        }
        line if line.starts_with('[') => format!("[{name}] is begun above already: put its keys together there"),
        _ => format!("the key `{}` is set twice; keep one", key.trim()),
    }
}

/// What the parser of YAML says about a line of a text, without the place that it names.
pub fn plain_yaml(text: &str, line: usize, words: &str) -> String {
    const PLAIN: [(&str, &str); 11] = [
        ("did not find expected node content", "a value or a closing bracket is missing"),
        (
            "did not find expected key",
            "this line is not indented as the lines around it, or is not written as KEY: VALUE",
        ),
        ("did not find expected '-' indicator", "this line is not indented as the items of the list around it"),
        (
            "mapping values are not allowed",
            "this line is indented too far, or its value holds a colon and needs quotes",
        ),
        ("could not find expected ':'", "a line is written as KEY: VALUE"),
        ("did not find expected ',' or ']'", "the list has no closing ], or an item without a comma"),
        ("did not find expected ',' or '}'", "the table has no closing }, or a value without a comma"),
        ("found unexpected end of stream", "the text has no closing quote"),
        ("found character that cannot start", "a value that begins with this character needs quotes"),
        ("block sequence entries are not allowed", "a list begins on its own line, below its key"),
        ("found undefined tag handle", "a value that begins with ! needs quotes"),
    ];
    let begins_with_tab = |line: &str| line.trim_start_matches(' ').starts_with('\t');
    if words.starts_with("found ") && text.lines().nth(line.saturating_sub(1)).is_some_and(begins_with_tab) {
        return "the line begins with a tab: indent with spaces".to_owned();
    }
    let said = words.split(" at line ").next().unwrap_or(words);
    PLAIN.iter().find(|(begin, _)| said.starts_with(begin)).map_or(said, |(_, plain)| plain).to_owned()
}

/// What serde says about a value that does not fit, whose types are those of this program.
pub fn plain_serde(words: &str) -> String {
    let words = words.trim_end();
    if let Some(key) = words.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("the key `{key}` is missing");
    }
    if let Some(key) = words.strip_prefix("duplicate field ") {
        return format!("the key {key} is set twice; keep one");
    }
    if words.starts_with("EOF while parsing") {
        return "the text ends too early".to_owned();
    }
    for (prefix, what) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        if let Some(rest) = words.strip_prefix(prefix) {
            let mut names = rest.split('`').skip(1).step_by(2);
            return unknown_words(what, names.next().unwrap_or_default(), &names.collect::<Vec<_>>());
        }
    }
    let wrong = words.strip_prefix("invalid type: ").or_else(|| words.strip_prefix("invalid value: "));
    match wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("{} must be {}", found_words(found), expected_words(expected)),
        None => words.to_owned(),
    }
}

/// About an unknown key or value: the valid one that was probably meant, or all of them.
fn unknown_words(what: &str, unknown: &str, valid: &[&str]) -> String {
    let meant = match nearest(unknown, valid.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if valid.is_empty() => String::new(),
        None => format!("; use one of: {}", valid.join(", ")),
    };
    format!("there is no {what} `{unknown}` here{meant}")
}

fn found_words(found: &str) -> String {
    let quoted = |kind: &str| found.strip_prefix(kind).map(|rest| rest.trim_matches('`'));
    if let Some(text) = quoted("string ") {
        return format!("the text {text}");
    }
    if let Some(number) = quoted("integer ").or_else(|| quoted("floating point ")) {
        return format!("the number {number}");
    }
    match found {
        "sequence" => "the list".to_owned(),
        "map" => "the table".to_owned(),
        "null" | "unit value" => "this empty value".to_owned(),
        _ => found.strip_prefix("boolean ").unwrap_or(found).trim_matches('`').to_owned(),
    }
}

fn expected_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255, without quotes",
        "u16" => "a whole number from 0 to 65535, without quotes",
        "u32" | "u64" | "usize" => "a whole number, 0 or more, without quotes",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number, without quotes",
        "f32" | "f64" => "a number, without quotes",
        "a string" | "string" | "str" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list: [...]",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_or_value_is_told_with_the_nearest_or_with_all() {
        for (words, expected) in [
            (
                "unknown field `nver`, expected one of `always`, `never`",
                "there is no key `nver` here; did you mean `never`?",
            ),
            ("unknown field `laws`, expected `slot` or `law`", "there is no key `laws` here; did you mean `law`?"),
            ("unknown variant `x`, expected `day` or `hour`", "there is no value `x` here; use one of: day, hour"),
            ("unknown field `x`, there are no fields", "there is no key `x` here"),
        ] {
            assert_eq!(plain_serde(words), expected);
        }
    }

    #[test]
    fn what_a_parser_says_of_a_mistake_is_told_without_its_own_terms() {
        for (text, expected) in [
            ("a = \"x\n", "the text has no closing quote"),
            ("a = fr-par-1\n", "a text needs quotes"),
            ("a = par\n", "a text needs quotes"),
            ("a: 1\n", "a line is written as KEY = VALUE"),
            ("{\"a\": 1}\n", "a line is written as KEY = VALUE"),
            ("a = 1\na = 2\n", "the key is set twice"),
        ] {
            let error = toml::de::DeTable::parse(text).expect_err(text);
            let words = plain_toml(error.message());
            assert!(words.contains(expected), "{text}: {words} ({})", error.message());
        }
        for (text, expected) in [
            ("a = 1\nb = 2\na = 2\n", "the key `a` is set twice; keep one"),
            ("[a]\n[b]\n[a]\n", "[a] is begun above already"),
            ("[a.b]\n[[a.b]]\n", "write [[a.b]] there too"),
        ] {
            let error = toml::de::DeTable::parse(text).expect_err(text);
            let words = plain_toml_at(text, error.span(), error.message());
            assert!(words.contains(expected), "{text}: {words} ({})", error.message());
        }
        for (text, line, words, expected) in [
            ("a:\n\tb: 1\n", 2, "found character that cannot start any token at line 2 column 1", "begins with a tab"),
            ("a: @b\n", 1, "found character that cannot start any token at line 1 column 4", "needs quotes"),
            ("a: 1\n b\n", 2, "did not find expected key at line 2 column 2, while parsing", "is not indented as"),
            ("a\n", 1, "something else at line 1 column 2", "something else"),
        ] {
            let said = plain_yaml(text, line, words);
            assert!(said.contains(expected) && !said.contains(" at line "), "{text}: {said}");
        }
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code, reason = "only read")]
        struct Wanted {
            count: u32,
            names: Vec<String>,
        }
        for (json, expected) in [
            (r#"{"count": "3", "names": []}"#, "the text \"3\" must be a whole number, 0 or more, without quotes"),
            (r#"{"count": -3, "names": []}"#, "the number -3 must be a whole number, 0 or more"),
            (r#"{"count": 3, "names": "a"}"#, "the text \"a\" must be a list: [...]"),
            (r#"{"count": 3, "names": [5]}"#, "the number 5 must be a text in quotes"),
            (r#"{"count": null, "names": []}"#, "this empty value must be a whole number"),
            (r#"{"names": []}"#, "the key `count` is missing"),
            (r#""x""#, "the text \"x\" must be a table"),
        ] {
            // Through a value, whose errors have no place.
            let value: serde_json::Value = serde_json::from_str(json).expect(json);
            let error = serde_json::from_value::<Wanted>(value).expect_err(json).to_string();
            let words = plain_serde(&error);
            assert!(words.contains(expected), "{json}: {words} ({error})");
        }
    }
}
