//! What more than one slot speaks about: `windlass:policy/types`.

pub use crate::bindings::types::*;
use crate::text::kind_word;

impl Failure {
    /// The longest message, in bytes.
    pub const MAX_MESSAGE_LEN: usize = 1024;

    /// A failure without a call. The message is cut at a character within the bound.
    #[must_use]
    pub fn of_class(class: FailureClass, message: impl AsRef<str>) -> Self {
        Self {
            class,
            message: Self::bounded(message.as_ref()),
            method: None,
            path: None,
            status: None,
            error_type: None,
            resource: None,
            ambiguous: false,
        }
    }

    /// A message, cut at a character within the bound.
    #[must_use]
    pub fn bounded(message: &str) -> String {
        message[..message.floor_char_boundary(Self::MAX_MESSAGE_LEN)].to_owned()
    }

    /// In one line for people: the message, or the class where there is none, then status, type and call.
    #[must_use]
    pub fn words(&self) -> String {
        let words = if self.message.is_empty() { kind_word(&self.class) } else { self.message.clone() };
        match (&self.method, &self.path) {
            (Some(method), Some(path)) if !words.contains(path.as_str()) => {
                let status = self.status.map(|status| status.to_string());
                let call = format!("{method} {path}");
                let details: Vec<String> = status.into_iter().chain(self.error_type.clone()).chain([call]).collect();
                format!("{words} ({})", details.join(", "))
            }
            _ => words,
        }
    }

    /// A failure to try policies with: Scaleway's answer to a power-on that failed inside.
    pub fn example() -> Failure {
        Failure {
            class: FailureClass::ServerError,
            message: "internal error".into(),
            method: Some("POST".into()),
            path: Some("/instance/v1/zones/fr-par-1/servers/11111111-2222-4333-8444-555555555500/action".into()),
            status: Some(500),
            error_type: None,
            resource: Some("instance_server".into()),
            ambiguous: true,
        }
    }
}

impl Label {
    /// The longest value, in bytes.
    pub const MAX_VALUE_LEN: usize = 256;

    /// A label. A value that is too long is cut at a character within the bound.
    #[must_use]
    pub fn new(name: &str, value: &str) -> Label {
        let value = value[..value.floor_char_boundary(Self::MAX_VALUE_LEN)].to_owned();
        Label { name: name.to_owned(), value }
    }
}

impl Subject {
    /// The most labels.
    pub const MAX_LABELS: usize = 64;

    /// An owner's, and no more is known.
    #[must_use]
    pub fn of_owner(program: Program, owner: &str) -> Subject {
        Subject {
            program,
            owner: owner.to_owned(),
            project: None,
            group: None,
            cluster: None,
            object: None,
            labels: Vec::new(),
            requester: None,
            why: None,
        }
    }

    /// A subject to try policies with: a group of the runner plugin's.
    pub fn example() -> Subject {
        Subject { group: Some("example".into()), ..Subject::of_owner(Program::RunnerPlugin, "example") }
    }
}
