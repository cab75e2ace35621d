//! Keeps secrets of Scaleway's own answers out of everything that quotes an answer.

use std::borrow::Cow;

/// Fields of answers that hold passwords: both of Apple silicon servers.
const SECRET_FIELDS: [&[u8]; 2] = [b"sudo_password", b"vnc_url"];
/// What stands in their place, as it does in Scaleway's own answers (recorded).
const SEALED: &[u8] = b"<sealed>";

/// The body with the values of secret fields sealed, also when it is broken off in the middle of one, or quoted inside
/// of another text. What was JSON stays JSON.
pub(crate) fn sealed(body: &[u8]) -> Cow<'_, [u8]> {
    let mut out: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < body.len() {
        let name = SECRET_FIELDS.iter().find(|name| body[at..].starts_with(name));
        match name.and_then(|name| value_after(body, at + name.len())) {
            Some(value) => {
                out.extend_from_slice(&body[copied..value.start]);
                out.extend_from_slice(if value.is_text { SEALED } else { b"\"<sealed>\"" });
                copied = value.end;
                at = value.end;
            }
            None => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(body);
    }
    out.extend_from_slice(&body[copied..]);
    Cow::Owned(out)
}

struct Value {
    start: usize,
    end: usize,
    /// Between quotes, which stay.
    is_text: bool,
}

/// The value of the field whose name ends at `at`.
fn value_after(body: &[u8], at: usize) -> Option<Value> {
    let skip = |mut at: usize, wanted: fn(u8) -> bool| {
        while body.get(at).is_some_and(|byte| wanted(*byte)) {
            at += 1;
        }
        at
    };
    let colon = skip(skip(at, |byte| matches!(byte, b'\\' | b'"')), |byte| byte.is_ascii_whitespace());
    if body.get(colon) != Some(&b':') {
        return None;
    }
    let opening = skip(colon + 1, |byte| byte.is_ascii_whitespace());
    let quote = skip(opening, |byte| byte == b'\\');
    if body.get(quote) != Some(&b'"') {
        // Never seen: a list or an object. Where it ends is not worth finding out.
        if matches!(body.get(opening), Some(b'[' | b'{')) {
            return Some(Value { start: opening, end: body.len(), is_text: false });
        }
        // Never seen either: a number that is a password.
        let end = skip(opening, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'));
        return (end > opening).then_some(Value { start: opening, end, is_text: false });
    }
    // Inside of another text the quotes themselves are escaped, and the value's own quotes and backslashes once more.
    let depth = quote - opening;
    let start = quote + 1;
    let mut end = start;
    while end < body.len() {
        let escapes = skip(end, |byte| byte == b'\\') - end;
        if body.get(end + escapes) == Some(&b'"') && escapes % (2 * (depth + 1)) == depth {
            end += escapes - depth;
            break;
        }
        end = (end + escapes + 1).min(body.len());
    }
    Some(Value { start, end, is_text: true })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(body: &str) -> String {
        String::from_utf8(sealed(body.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn what_has_no_secret_is_left_as_it_is() {
        for body in ["", "{}", r#"{"sudo": "x"}"#, r#"the sudo_password is wrong"#, "sudo_password", "vnc_url:"] {
            assert!(matches!(sealed(body.as_bytes()), Cow::Borrowed(_)), "{body}");
        }
    }

    #[test]
    fn secrets_are_sealed_in_every_writing() {
        assert_eq!(
            text(r#"{"sudo_password":"hunter2","vnc_url" : "vnc://m1:hunter2@192.0.2.1:5900","id":"x"}"#),
            r#"{"sudo_password":"<sealed>","vnc_url" : "<sealed>","id":"x"}"#
        );
        assert_eq!(text(r#"{"sudo_password": 1234, "id": 5}"#), r#"{"sudo_password": "<sealed>", "id": 5}"#);
        assert_eq!(text(r#"{"id":"x","sudo_password":"hun"#), r#"{"id":"x","sudo_password":"<sealed>"#, "broken off");
        assert_eq!(
            text(r#"echo: {\"sudo_password\":\"hun\\\"ter\",\"id\":1}"#),
            r#"echo: {\"sudo_password\":\"<sealed>\",\"id\":1}"#
        );
    }

    proptest! {
        #[test]
        fn no_password_survives_and_the_rest_does(password in ".{1,20}", name in "[^<\n]{0,20}",
            cut in any::<proptest::sample::Index>()) {
            let password = format!("<<{password}>>");
            let body = json!({"a": name, "sudo_password": password, "vnc_url": format!("vnc://m1:{password}@h"),
                "z": [name]});
            let read: serde_json::Value = serde_json::from_slice(&sealed(body.to_string().as_bytes())).unwrap();
            prop_assert_eq!(&read, &json!({"a": name, "sudo_password": "<sealed>", "vnc_url": "<sealed>",
                "z": [name]}));
            // Quoted inside of another text, as a proxy does that echoes what it saw.
            let quoted = json!({"echo": body.to_string(), "z": name}).to_string();
            let read: serde_json::Value = serde_json::from_slice(&sealed(quoted.as_bytes())).unwrap();
            let echoed: serde_json::Value = serde_json::from_str(read["echo"].as_str().unwrap()).unwrap();
            prop_assert_eq!(&echoed["vnc_url"], "<sealed>");
            prop_assert_eq!(&echoed["z"][0], &name);
            // Broken off anywhere.
            let cut = cut.index(quoted.len());
            let broken = String::from_utf8_lossy(&sealed(&quoted.as_bytes()[..cut])).into_owned();
            prop_assert!(!broken.contains("<<"), "{}", broken);
        }
    }
}
