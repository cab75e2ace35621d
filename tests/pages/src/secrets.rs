use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The shortest line of a secret that is looked for on its own.
const SHORTEST_LINE: usize = 12;

/// What must be seen nowhere.
#[derive(Default)]
pub struct Secrets {
    /// Names, and what stands for them in some form.
    needles: Vec<(String, String)>,
}

impl Secrets {
    /// These, each with its name. One of several lines is looked for as a whole and line by line.
    ///
    /// # Panics
    /// One is so short that it would be found by chance.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all = Self::default();
        for (name, secret) in secrets {
            all.add(name, secret);
        }
        all
    }

    /// A further one.
    ///
    /// # Panics
    /// It is so short that it would be found by chance.
    pub fn add(&mut self, name: &str, secret: &str) {
        assert!(secret.trim().len() >= 8, "{name} is too short to be looked for");
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        // Of a key in PEM, what all keys have tells nothing.
        let lines = lines.filter(|line| !line.starts_with("-----"));
        let parts: BTreeSet<&str> = lines.chain([secret.trim()]).collect();
        for part in parts {
            for form in forms(part) {
                self.needles.push((name.to_owned(), form));
            }
        }
    }

    /// The names of those that a text shows, in whatever form.
    #[must_use]
    pub fn shown_by(&self, text: &str) -> Vec<String> {
        let readings = readings(text);
        let shown = self.needles.iter().filter(|(_, needle)| readings.iter().any(|text| text.contains(needle)));
        let names: BTreeSet<String> = shown.map(|(name, _)| name.clone()).collect();
        names.into_iter().collect()
    }
}

/// A secret as it is, in base64 wherever in something larger it stands, and in hexadecimal digits.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), hex::encode(secret), hex::encode_upper(secret)];
    for before in 0..3 {
        // With so many bytes before it; of the first and the last digit others have a part.
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let first = (before * 8).div_ceil(6);
        let last = bytes.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.push(encoded[first..last].to_owned());
        }
    }
    forms
}

/// What a text says when what was escaped is not, once and twice.
fn readings(text: &str) -> BTreeSet<String> {
    let mut readings = BTreeSet::from([text.to_owned()]);
    for _ in 0..2 {
        let more: Vec<String> = readings.iter().flat_map(|text| [html(text), json(text), percent(text)]).collect();
        readings.extend(more);
    }
    readings
}

/// Without the escapes of HTML.
fn html(text: &str) -> String {
    let named = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    named.replace("&#x27;", "'").replace("&amp;", "&")
}

/// Without the escapes of a text in JSON.
fn json(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match rest.next() {
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                plain.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

/// Without the escapes of an address.
fn percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            plain.push(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_each_form_in_which_it_may_stand_on_a_page() {
        let secret = "pa\"ss<w>ör/d+ with & all";
        let secrets = Secrets::new([("password", secret)]);
        let json = secret.replace('"', "\\\"");
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let unicode: String = secret.chars().map(|character| format!("\\u{:04x}", character as u32)).collect();
        let mut forms = vec![
            secret.to_owned(),
            escaped(secret),
            json.clone(),
            escaped(&json),
            percent.clone(),
            percent.to_lowercase(),
            unicode,
            hex::encode(secret),
            percent.replace('%', "%25"),
        ];
        for before in ["", "x", "xy", "xyz"] {
            forms.push(STANDARD_NO_PAD.encode(format!("{before}{secret}and more")));
            forms.push(URL_SAFE_NO_PAD.encode(format!("{before}{secret}")));
        }
        for form in forms {
            let page = format!("<p>before {form} after</p>");
            assert_eq!(secrets.shown_by(&page), ["password"], "{page}");
        }
        assert!(secrets.shown_by("<p>nothing of the kind: pa ss w</p>").is_empty());
    }

    #[test]
    fn each_line_of_a_key_is_looked_for() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----\n";
        let secrets = Secrets::new([("key", key)]);
        assert_eq!(secrets.shown_by("cut: 9w0BAQEFAASCBKcwggSj"), ["key"]);
        assert!(secrets.shown_by("-----BEGIN KEY-----").is_empty());
    }
}
