//! How large a question is, as its bytes tell before anything is made of them: an empty item has two bytes, and takes a
//! hundred when it is read.

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use windlass_policy::slots::placement::MAX_PLACES;
use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::slots::types::Subject;

/// A question, or a batch, with more is large, in bytes.
const LARGE_BYTES: usize = 64 << 10;
/// A question with more items in its lists is large.
const LARGE_ITEMS: usize = 1_000;
/// A batch with more questions is large.
const SMALL_BATCH: usize = 16;

/// A list in a question.
struct List {
    /// The numbers of the fields on the way to it, from [`Question`](crate::proto::Question) on.
    path: &'static [u32],
    slot: &'static str,
    name: &'static str,
    /// The most items.
    most: usize,
}

/// All lists of all questions, in the order of their paths.
const LISTS: [List; 13] = {
    const fn list(path: &'static [u32], slot: &'static str, name: &'static str, most: usize) -> List {
        List { path, slot, name, most }
    }
    const fn labels(path: &'static [u32], slot: &'static str) -> List {
        list(path, slot, "subject.labels", Subject::MAX_LABELS)
    }
    [
        labels(&[1, 3, 7], "state-mapping"),
        list(&[1, 4], "state-mapping", "server-types", 256),
        list(&[1, 5], "state-mapping", "watched-tags", MAX_WATCHED_TAGS),
        list(&[1, 6], "state-mapping", "servers", 10_000),
        labels(&[2, 11, 7], "retry"),
        labels(&[3, 4, 7], "rollback"),
        list(&[3, 7], "rollback", "resources", 1_000),
        labels(&[4, 4, 7], "release"),
        labels(&[5, 3, 7], "provisioning"),
        list(&[5, 7], "provisioning", "groups", 256),
        list(&[5, 8], "provisioning", "nodes", 10_000),
        labels(&[6, 4, 7], "placement"),
        list(&[6, 6], "placement", "places", MAX_PLACES),
    ]
};

/// Why a question is not read.
#[derive(Debug)]
pub(crate) enum QuestionError {
    /// It is no message.
    Malformed(DecodeError),
    /// A list is too long, in words for its peer.
    TooLong(String),
}

impl From<DecodeError> for QuestionError {
    fn from(error: DecodeError) -> QuestionError {
        QuestionError::Malformed(error)
    }
}

/// Whether a question is large, from the bytes of its message.
///
/// # Errors
/// It can't be read, or a list has more items than it may have.
pub(crate) fn is_large(question: &[u8]) -> Result<bool, QuestionError> {
    let mut items = [0; LISTS.len()];
    count_items(question, 0, &LISTS, &mut items)?;
    for (List { slot, name, most, .. }, found) in LISTS.iter().zip(items) {
        if found > *most {
            let why =
                format!("the question to the slot {slot}: {name} has {found} items, and at most {most} are allowed");
            return Err(QuestionError::TooLong(why));
        }
    }
    Ok(question.len() > LARGE_BYTES || items.iter().sum::<usize>() > LARGE_ITEMS)
}

/// Whether a batch is large, however small each of its questions is.
pub(crate) fn is_large_batch(questions: &[impl AsRef<[u8]>]) -> bool {
    let bytes: usize = questions.iter().map(|question| question.as_ref().len()).sum();
    questions.len() > SMALL_BATCH || bytes > LARGE_BYTES
}

/// How many fields of a message have this number.
pub(crate) fn count_fields(message: &[u8], number: u32) -> Result<usize, DecodeError> {
    Fields(message).try_fold(0, |found, field| Ok(found + usize::from(field?.0 == number)))
}

/// Adds the items of `lists`, which is sorted and whose paths begin with the `depth` numbers that lead to `message`.
fn count_items(message: &[u8], depth: usize, lists: &[List], items: &mut [usize]) -> Result<(), DecodeError> {
    for field in Fields(message) {
        let (number, content) = field?;
        let first = lists.partition_point(|list| list.path[depth] < number);
        let count = lists[first..].iter().take_while(|list| list.path[depth] == number).count();
        let (lists, items) = (&lists[first..first + count], &mut items[first..first + count]);
        match lists {
            [] => {}
            [list] if list.path.len() == depth + 1 => items[0] += 1,
            _ => count_items(content, depth + 1, lists, items)?,
        }
    }
    Ok(())
}

/// The fields of a message: the number of each and, where it is a text, a message or the like, its content.
struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn field(&mut self) -> Result<(u32, &'m [u8]), DecodeError> {
        let (number, kind) = decode_key(&mut self.0)?;
        if kind != WireType::LengthDelimited {
            skip_field(kind, number, &mut self.0, DecodeContext::default())?;
            return Ok((number, &[]));
        }
        let length = usize::try_from(decode_varint(&mut self.0)?).unwrap_or(usize::MAX);
        // What is cut off has as many fields as are there; who reads it all says what is wrong with it.
        let (content, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        Ok((number, content))
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u32, &'m [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use prost::Message as _;

    use super::*;
    use crate::proto;

    /// The fields of each message in the files: name, type, number, and whether it is a list.
    fn messages() -> BTreeMap<String, Vec<(String, String, u32, bool)>> {
        let files = [
            include_str!("../proto/windlass/policy/v1/server.proto"),
            include_str!("../proto/windlass/policy/v1/slots.proto"),
        ];
        let mut messages = BTreeMap::<_, Vec<_>>::new();
        let mut current = String::new();
        for line in files.iter().flat_map(|file| file.lines()) {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("message ") {
                current = name.trim_end_matches(" {").to_owned();
            }
            let Some((field, number)) = line.strip_suffix(';').and_then(|line| line.split_once(" = ")) else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let words: Vec<&str> = field.split(' ').collect();
            if let [.., kind, name] = words[..] {
                let field = (name.to_owned(), kind.to_owned(), number, words[0] == "repeated");
                messages.entry(current.clone()).or_default().push(field);
            }
        }
        messages
    }

    fn lists(
        messages: &BTreeMap<String, Vec<(String, String, u32, bool)>>,
        message: &str,
        path: &[u32],
    ) -> Vec<(Vec<u32>, String)> {
        let mut found = Vec::new();
        for (name, kind, number, is_list) in messages.get(message).into_iter().flatten() {
            let path = [path, &[*number]].concat();
            if *is_list {
                found.push((path.clone(), name.clone()));
            }
            found.extend(lists(messages, kind, &path));
        }
        found
    }

    #[test]
    fn each_list_of_each_question_has_its_bound() {
        let there: BTreeSet<_> = lists(&messages(), "Question", &[])
            .into_iter()
            .map(|(path, name)| (path, name.replace('_', "-")))
            .collect();
        let known: BTreeSet<_> =
            LISTS.iter().map(|list| (list.path.to_vec(), list.name.rsplit('.').next().unwrap().to_owned())).collect();
        assert_eq!(there, known);
        let has_prefix = |path: &[u32]| LISTS.iter().any(|list| list.path != path && path.starts_with(list.path));
        assert!(LISTS.is_sorted_by_key(|list| list.path) && !LISTS.iter().any(|list| has_prefix(list.path)));
        let slots = messages()["Question"].clone();
        for list in &LISTS {
            let slot = slots.iter().find(|(.., number, _)| *number == list.path[0]).unwrap();
            assert_eq!(slot.0.replace('_', "-"), list.slot);
        }
    }

    #[test]
    fn the_page_names_each_bound() {
        let page = include_str!("../../../docs/policy-server.md");
        for List { slot, name, most, .. } in &LISTS {
            let slot = if *name == "subject.labels" { "every slot" } else { slot };
            let grouped =
                if *most >= 1_000 { format!("{},{:03}", most / 1_000, most % 1_000) } else { most.to_string() };
            let row = page.lines().find(|line| line.starts_with(&format!("| {slot} | `{name}` |")));
            assert!(row.is_some_and(|row| row.ends_with(&format!("| {grouped} |"))), "{slot} {name} {most}: {row:?}");
        }
        assert!(page.contains(&format!("more than {} KiB or 1,000 items", LARGE_BYTES >> 10)) && LARGE_ITEMS == 1_000);
        let batch = format!("more than {SMALL_BATCH} questions or {} KiB", LARGE_BYTES >> 10);
        assert!(page.contains(&batch), "{batch}");
    }

    fn servers(count: usize) -> Vec<u8> {
        let question = proto::StateMappingQuestion { servers: vec![Default::default(); count], ..Default::default() };
        proto::Question { slot: Some(proto::question::Slot::StateMapping(question)) }.encode_to_vec()
    }

    #[test]
    fn a_question_is_large_by_its_items_or_its_bytes_and_refused_beyond_its_bounds() {
        assert!(!is_large(&servers(1_000)).unwrap());
        assert!(is_large(&servers(1_001)).unwrap() && is_large(&servers(10_000)).unwrap());
        let Err(QuestionError::TooLong(why)) = is_large(&servers(10_001)) else { panic!() };
        assert_eq!(
            why,
            "the question to the slot state-mapping: servers has 10001 items, and at most 10000 are allowed"
        );
        let long = proto::RetryQuestion { operation: "x".repeat(LARGE_BYTES), ..Default::default() };
        let long = proto::Question { slot: Some(proto::question::Slot::Retry(long)) }.encode_to_vec();
        assert!(is_large(&long).unwrap());
    }

    #[test]
    fn a_batch_is_large_by_its_questions_or_by_their_bytes_together() {
        let question = servers(1_000);
        assert!(!is_large(&question).unwrap() && !is_large_batch(&vec![question.clone(); SMALL_BATCH]));
        assert!(is_large_batch(&vec![Vec::new(); SMALL_BATCH + 1]));
        let half = vec![0; LARGE_BYTES / 2];
        assert!(!is_large_batch(&[&half, &half]) && is_large_batch(&[&half[..], &half, &[0]]));
    }

    #[test]
    fn a_list_that_comes_in_parts_is_counted_whole() {
        // The same field twice is one message with the fields of both.
        let twice = [servers(6_000), servers(6_000)].concat();
        assert!(matches!(is_large(&twice), Err(QuestionError::TooLong(_))));
    }

    #[test]
    fn what_is_no_message_is_unreadable() {
        assert!(matches!(is_large(&[0xff; 20]), Err(QuestionError::Malformed(_))));
        let whole = servers(100);
        let cut = &whole[..51];
        assert!(is_large(cut).is_err() || proto::Question::decode(cut).is_err());
    }
}
