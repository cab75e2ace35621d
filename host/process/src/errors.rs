use std::error::Error;

/// An error and its causes in one line, each once: many errors say their cause themselves, and of others only the
/// innermost cause tells what happened.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let refused = Said { words: "refused", cause: std::fmt::Error };
        let connecting = Said { words: "cannot connect", cause: Said { words: "it was refused", cause: refused } };
        assert_eq!(with_causes(&connecting), format!("cannot connect: it was refused: {}", std::fmt::Error));
    }

    #[derive(Debug)]
    struct Said<E> {
        words: &'static str,
        cause: E,
    }

    impl<E> std::fmt::Display for Said<E> {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str(self.words)
        }
    }

    impl<E: Error + 'static> Error for Said<E> {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.cause)
        }
    }
}
