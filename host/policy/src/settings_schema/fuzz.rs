//! Schemas of settings as any policy may bring them. An input is a schema and settings, with a line of two dashes
//! between them.

use serde_json::Value;

use super::SettingsSchema;
use crate::text::is_unprintable;

/// Five problems, each with its place and what was expected there.
const MAX_WORDS_LEN: usize = 16 * 1024;

fn is_short(words: &str) {
    assert!(words.len() <= MAX_WORDS_LEN, "{} bytes: {words}", words.len());
    assert!(!words.contains(is_unprintable), "{words:?}");
}

#[test]
fn any_schema_is_read_or_refused_and_any_settings_are_checked_in_few_words() {
    windlass_test_fuzz::check("settings-schema", |input| {
        let text = String::from_utf8_lossy(input);
        let (schema, settings) = text.split_once("\n--\n").unwrap_or((&text, "{}"));
        let settings: Value = serde_json::from_str(settings).unwrap_or_default();
        match SettingsSchema::read(schema) {
            Ok(schema) => {
                let checked = schema.check(&settings);
                if let Err(problems) = &checked {
                    is_short(problems);
                }
                assert_eq!(checked, schema.check(&settings));
            }
            Err(problem) => is_short(&problem),
        }
    });
}
