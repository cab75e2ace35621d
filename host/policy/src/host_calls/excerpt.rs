//! What a record keeps of a call's arguments: all of them where the call was made, which its limits bound, and only
//! their beginnings where it was refused. A guest may hear two dozen refusals, and each may be about megabytes.

use serde_json::Value;

use crate::json_text::JsonText;
use crate::text::without_controls;

/// Arguments that are longer than this, as JSON, are shortened to about as much, in bytes.
const EXCERPT_BYTES: usize = 384;
/// The longest string of an excerpt, in bytes.
const STRING_BYTES: usize = 64;

/// Arguments as a record keeps them.
pub(super) struct Kept {
    pub(super) text: JsonText,
    pub(super) shortened: bool,
}

impl Kept {
    pub(super) fn whole(arguments: &[Value]) -> Kept {
        Kept { text: JsonText::of(arguments), shortened: false }
    }

    /// `bytes`: their length as JSON.
    pub(super) fn excerpt(arguments: &[Value], bytes: u64) -> Kept {
        if bytes <= EXCERPT_BYTES as u64 {
            return Kept::whole(arguments);
        }
        Kept { text: JsonText::of(&shortened(arguments)), shortened: true }
    }
}

/// The beginnings of these arguments. The same arguments have the same.
pub(super) fn shortened(arguments: &[Value]) -> Vec<Value> {
    let mut room = EXCERPT_BYTES;
    let mut kept = Vec::new();
    for argument in arguments {
        if room == 0 {
            break;
        }
        kept.push(shorten(argument, &mut room));
    }
    kept
}

fn shorten(value: &Value, room: &mut usize) -> Value {
    /// What a value takes by itself.
    const VALUE_BYTES: usize = 16;
    *room = room.saturating_sub(VALUE_BYTES);
    match value {
        Value::String(text) if text.len() <= STRING_BYTES => {
            *room = room.saturating_sub(text.len());
            without_controls(text, STRING_BYTES).into()
        }
        Value::String(text) => {
            *room = room.saturating_sub(STRING_BYTES);
            format!("{}… ({} bytes)", without_controls(text, STRING_BYTES), text.len()).into()
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                if *room == 0 {
                    kept.push(format!("… ({} items)", items.len()).into());
                    break;
                }
                kept.push(shorten(item, room));
            }
            kept.into()
        }
        // Keys are names of the contract, of which there are few.
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shorten(value, room))).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_excerpt_is_short_whatever_the_arguments_are_and_short_arguments_are_kept() {
        let short = [json!("fr-par-1"), json!([1, 2])];
        let kept = Kept::excerpt(&short, 14);
        assert!(!kept.shortened);
        assert_eq!(kept.text.value(), json!(["fr-par-1", [1, 2]]));
        for arguments in [
            vec![json!("x".repeat(4 << 20))],
            vec![json!("é\u{1b}\"".repeat(1 << 20)), json!(["y".repeat(1 << 20)])],
            vec![json!(vec![""; 1 << 20])],
            vec![json!(vec![vec![0; 100]; 10_000])],
            vec![json!({ "method": "GET", "path": "/".repeat(1 << 20), "body": "z".repeat(1 << 20) })],
        ] {
            let kept = Kept::excerpt(&arguments, 4 << 20);
            assert!(kept.shortened);
            assert!(kept.text.as_str().len() <= 1 << 10, "{} bytes: {}", kept.text.as_str().len(), kept.text);
        }
        let kept = Kept::excerpt(&[json!("x".repeat(1000))], 1002);
        assert_eq!(kept.text.value(), json!([format!("{}… (1000 bytes)", "x".repeat(64))]));
    }
}
