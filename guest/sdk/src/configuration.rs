use crate::Setting;

/// A settings type that is a policy at the same time: the usual case, made by [`settings!`](crate::settings).
pub trait Settings: Setting {
    /// Refuses settings that are well-formed and make no sense together. The text is for the operator: it should name
    /// the keys.
    ///
    /// # Errors
    /// What is wrong and how to put it right.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A configured policy.
///
/// Every [`Settings`] type is one. Implement this for a type of its own where `configure` has something to work out:
/// it runs once, when the policy is loaded, and every decision starts from its result.
pub trait Policy: Sized + Send + Sync + 'static {
    /// What the operator writes: made by [`settings!`](crate::settings).
    type Settings: Settings;

    /// Takes the settings. Must not call [`log`](crate::log) or [`scaleway`](crate::scaleway).
    ///
    /// # Errors
    /// Words for the operator; the policy is refused with them.
    fn configure(settings: Self::Settings) -> Result<Self, String>;
}

impl<T: Settings + Send + Sync + 'static> Policy for T {
    type Settings = T;

    fn configure(settings: T) -> Result<T, String> {
        Ok(settings)
    }
}

/// Reads settings and configures a policy with them.
///
/// # Errors
/// Names the key that is wrong, with the nearest valid one where it is unknown.
pub(crate) fn configure<P: Policy>(settings: &str) -> Result<P, String> {
    let read: P::Settings = serde_json::from_str(settings).map_err(|error| explain(settings, &error))?;
    read.check()?;
    P::configure(read)
}

fn explain(settings: &str, error: &serde_json::Error) -> String {
    let words = error.to_string();
    // serde_json ends with the place in the text. The operator never saw that text: the host wrote it.
    let words = words.split(" at line ").next().unwrap_or(&words);
    match (unknown_field(words), key_before(settings, error.line(), error.column())) {
        (Some((unknown, known)), _) => describe_unknown(unknown, &known),
        (None, Some(key)) => format!("`{key}`: {words}"),
        (None, None) => words.to_owned(),
    }
}

/// The last key of the outermost object that begins before a place in the text (line and column from 1).
fn key_before(text: &str, line: usize, column: usize) -> Option<&str> {
    let line_start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = (line_start + column).min(text.len());
    let (mut depth, mut string_start, mut escaped, mut key) = (0_u32, None, false, None);
    for (position, byte) in text.bytes().enumerate().take(end) {
        match (string_start, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(start), b'"') => {
                string_start = None;
                if depth == 1 && text[position + 1..].trim_start().starts_with(':') {
                    key = text.get(start..position);
                }
            }
            (Some(_), _) => {}
            (None, b'"') => string_start = Some(position + 1),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    key
}

/// Takes serde's "unknown field `a`, expected one of `b`, `c`" apart.
fn unknown_field(words: &str) -> Option<(&str, Vec<&str>)> {
    let (unknown, rest) = words.strip_prefix("unknown field `")?.split_once('`')?;
    // Every second piece between back quotes is a name.
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

fn describe_unknown(unknown: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|known| (strsim::levenshtein(unknown, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(unknown.len()) / 2);
    match (nearest, known.is_empty()) {
        (_, true) => format!("unknown key `{unknown}`: this policy has no settings"),
        (Some((_, nearest)), _) => format!("unknown key `{unknown}`: did you mean `{nearest}`?"),
        (None, _) => format!("unknown key `{unknown}`; there are `{}`", known.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    settings! {
        /// For these tests.
        struct Backoff {
            /// The first wait, in milliseconds.
            base_ms: u64 = 500,
            /// The longest wait, in milliseconds.
            cap_ms: u64 = 30_000,
            /// These are never tried again.
            never: Vec<FailureClass> = vec![FailureClass::OutOfStock],
        }
        check(self) {
            if self.base_ms > self.cap_ms {
                return Err(format!("`base-ms` ({}) is above `cap-ms` ({})", self.base_ms, self.cap_ms));
            }
            Ok(())
        }
    }

    settings! {
        /// For these tests.
        struct Bare {}
    }

    fn refusal(settings: &str) -> String {
        configure::<Backoff>(settings).err().unwrap_or_default()
    }

    #[test]
    fn absent_keys_take_their_defaults() {
        assert_eq!(
            configure::<Backoff>(r#"{"cap-ms": 1000}"#),
            Ok(Backoff { base_ms: 500, cap_ms: 1000, never: vec![FailureClass::OutOfStock] })
        );
    }

    #[test]
    fn a_misspelt_key_is_refused_with_the_nearest_one() {
        assert_eq!(refusal(r#"{"base_ms": 1}"#), "unknown key `base_ms`: did you mean `base-ms`?");
        assert_eq!(refusal(r#"{"cap-sm": 1}"#), "unknown key `cap-sm`: did you mean `cap-ms`?");
    }

    #[test]
    fn a_key_that_resembles_none_is_refused_with_all_of_them() {
        assert_eq!(refusal(r#"{"colour": 1}"#), "unknown key `colour`; there are `base-ms`, `cap-ms`, `never`");
    }

    #[test]
    fn a_policy_without_settings_says_so() {
        assert_eq!(
            configure::<Bare>(r#"{"x": 1}"#).err().as_deref(),
            Some("unknown key `x`: this policy has no settings")
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_key() {
        assert_eq!(refusal(r#"{"base-ms": "soon"}"#), "`base-ms`: invalid type: string \"soon\", expected u64");
        let words = refusal(r#"{"base-ms": 5, "never": ["locked", "out-of-stok"], "cap-ms": 7}"#);
        let expected = "`never`: unknown variant `out-of-stok`, expected one of `invalid-arguments`";
        assert!(words.starts_with(expected), "{words}");
        assert!(refusal("{\n  \"cap-ms\": 1,\n  \"base-ms\": -1\n}").starts_with("`base-ms`: invalid value"));
        assert!(refusal(r#"{"a \" b": 1}"#).starts_with("unknown key `a \" b`"));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_in_the_policys_words() {
        assert_eq!(refusal(r#"{"base-ms": 9, "cap-ms": 8}"#), "`base-ms` (9) is above `cap-ms` (8)");
    }

    #[test]
    fn text_that_is_no_object_is_refused() {
        assert!(refusal("[1, 2").contains("invalid type") || refusal("[1, 2").contains("EOF"));
        assert!(refusal("").contains("EOF"));
        assert!(refusal("{} x").contains("trailing characters"));
    }
}
