//! What a question is about, in short: for lists of decisions, traces and logs.

use super::release::Trigger;
use super::types::Subject;

/// What a question is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic<'q> {
    /// The servers, the machine, the operation or the cluster, in words for people.
    pub words: String,
    /// Whose that is.
    pub subject: &'q Subject,
    /// Absent where a question is not about one zone.
    pub zone: Option<&'q str>,
    /// Scaleway's id of the machine. Absent where a question is not about one machine.
    pub machine: Option<&'q str>,
    /// Why the question is put. Only of the slot `release`.
    pub trigger: Option<Trigger>,
}

impl<'q> Topic<'q> {
    /// These words about something of the subject's.
    pub(super) fn new(words: String, subject: &'q Subject) -> Topic<'q> {
        Topic { words, subject, zone: None, machine: None, trigger: None }
    }

    /// The same with the group in the words, where there is one.
    pub(super) fn of_group(mut words: String, subject: &'q Subject) -> Topic<'q> {
        if let Some(group) = &subject.group {
            words.push_str(" of group ");
            words.push_str(group);
        }
        Topic::new(words, subject)
    }
}
