//! The log a page at a time, newest first, whatever it holds: a page reads the segments that it needs and no others.

use std::cmp::Reverse;
use std::io;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use windlass_distribution::files::read_bounded;

use super::read::{DecisionFilter, DecisionReader, DecisionSummary, MAX_SEGMENT_BYTES, id_of, text_of};
use super::{DecisionRecord, slot_of};
use crate::decision::DecisionId;
use crate::error::Error;
use crate::slot_name::SlotName;

/// What is read for one page at most, where a filter lets little through. One segment may exceed it.
const PAGE_BYTES: usize = 32 << 20;
/// How long a record may have waited for the segment that it is in, in milliseconds.
const WAITED_MS: u64 = 60_000;
/// How many times as much is read where the segments of several slots hold decisions of the same time.
const OVERLAPPING: usize = 8;
/// Decisions of a page whose filter names no limit.
const PAGE: usize = 100;

/// Some of the decisions, newest first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionPage {
    /// Those that the filter lets through.
    pub decisions: Vec<DecisionSummary>,
    /// Lines that can't be read: torn by a crash, or written by something else.
    pub unreadable: usize,
    /// Where the next page begins, when there may be one. A page may hold fewer decisions than asked for, even none,
    /// and have a next one: then so much was read that a look at the rest is better asked for anew.
    pub older: Option<DecisionId>,
}

/// A segment, as its name tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) name: String,
    /// When it was begun. What it holds is at most [`WAITED_MS`] older.
    pub(super) begun: u64,
    /// When the next one of its process and slot was begun, or, of the last one, when it was written last: it holds nothing
    /// newer.
    pub(super) until: u64,
    process: u32,
    pub(super) slot: SlotName,
    number: u64,
}

impl Segment {
    /// Whether a decision that the filter lets through may be in it.
    fn may_have(&self, filter: &DecisionFilter) -> bool {
        filter.slot.is_none_or(|slot| slot == self.slot)
    }
}

impl DecisionReader {
    /// The newest decisions before `before`, or the newest of all, as far as the filter lets them through and its limit
    /// goes (0: a hundred).
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn page(&self, filter: &DecisionFilter, before: Option<DecisionId>) -> Result<DecisionPage, Error> {
        self.page_within(filter, before, filter.most_bytes.unwrap_or(PAGE_BYTES))
    }

    /// The same, where no further segment is read once so many bytes were.
    fn page_within(
        &self,
        filter: &DecisionFilter,
        before: Option<DecisionId>,
        most: usize,
    ) -> Result<DecisionPage, Error> {
        let limit = if filter.limit == 0 { PAGE } else { filter.limit };
        let begins_before = before.map_or(u64::MAX, |before| before.at_ms().saturating_add(WAITED_MS));
        let mut segments = self.segment_names()?;
        segments.retain(|segment| segment.begun <= begins_before && segment.may_have(filter));
        segments.sort_by_key(|segment| (segment.until, segment.begun));
        let mut page = DecisionPage { decisions: Vec::new(), unreadable: 0, older: None };
        let mut read = 0;
        while let Some(segment) = segments.pop() {
            let newer = page.decisions.iter().filter(|decision| decision.id.at_ms() > segment.until).count();
            // All that is newer than this segment was seen; what is older may not have been.
            let older = DecisionId::first_of(segment.until.saturating_add(1));
            // Each page gets further than the one before, and has what was found so far.
            let is_spent = read >= most && (newer > 0 || read >= most.saturating_mul(OVERLAPPING));
            if newer >= limit || (is_spent && before.is_none_or(|before| older < before)) {
                page.decisions.retain(|decision| decision.id.at_ms() > segment.until);
                page.older = Some(older);
                break;
            }
            let Some(text) = self.segment(&segment.name)? else { continue };
            read += text.len();
            page.add(&text, filter, before, limit);
        }
        page.decisions.sort_unstable_by_key(|decision| Reverse(decision.id));
        if page.decisions.len() > limit {
            page.decisions.truncate(limit);
            page.older = page.decisions.last().map(|decision| decision.id);
        }
        Ok(page)
    }

    /// The decisions that come next after this one, oldest first, as far as the filter lets them through and its limit
    /// goes (0: a hundred). Where the filter lets little through, there may be more than are found.
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn following(&self, filter: &DecisionFilter, after: DecisionId) -> Result<Vec<DecisionSummary>, Error> {
        let limit = if filter.limit == 0 { PAGE } else { filter.limit };
        let most = filter.most_bytes.unwrap_or(PAGE_BYTES);
        let mut segments = self.segment_names()?;
        segments.retain(|segment| segment.until >= after.at_ms() && segment.may_have(filter));
        segments.sort_by_key(|segment| (segment.begun, segment.until));
        let mut found: Vec<DecisionSummary> = Vec::new();
        let mut read = 0;
        for segment in segments {
            // What is in this segment and all later ones is younger than what was found.
            let oldest = segment.begun.saturating_sub(WAITED_MS);
            let older = found.iter().filter(|decision| decision.id.at_ms() < oldest).count();
            if older >= limit || read >= most {
                found.retain(|decision| decision.id.at_ms() < oldest);
                break;
            }
            let Some(text) = self.segment(&segment.name)? else { continue };
            read += text.len();
            let mut lines: Vec<(DecisionId, &str)> = text
                .lines()
                .filter_map(|line| Some((id_of(line)?.parse::<DecisionId>().ok()?, line)))
                .filter(|(id, line)| *id > after && filter.may_let_through(line))
                .collect();
            lines.sort_unstable_by_key(|(id, _)| *id);
            let decisions =
                lines.into_iter().filter_map(|(_, line)| serde_json::from_str::<DecisionSummary>(line).ok());
            found.extend(decisions.filter(|decision| filter.lets_through(decision)).take(limit));
            found.sort_unstable_by_key(|decision| decision.id);
            found.truncate(limit);
        }
        Ok(found)
    }

    /// The line of a decision whose id is whole, from where it has to be.
    pub(super) fn line_of(&self, id: DecisionId) -> Result<Option<DecisionRecord>, Error> {
        let mut segments = self.segment_names()?;
        segments.retain(|segment| {
            segment.process == id.process()
                && segment.begun <= id.at_ms().saturating_add(WAITED_MS)
                && segment.until >= id.at_ms()
        });
        let text_of_id = id.to_string();
        for segment in segments {
            let Some(text) = self.segment(&segment.name)? else { continue };
            let line = text.lines().find(|line| id_of(line) == Some(text_of_id.as_str()));
            if let Some(record) = line.and_then(|line| serde_json::from_str(line).ok()) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    pub(super) fn segment_names(&self) -> Result<Vec<Segment>, Error> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let failed = |source| Error::StateFolder { what: "list the folder decisions".into(), source };
        let mut names = Vec::new();
        for entry in folder.entries().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let written = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let written = written.and_then(|at| at.into_std().duration_since(UNIX_EPOCH).ok());
            // What is just being written is as new as can be.
            let written = written.map_or(u64::MAX, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
            names.push((entry.file_name().to_string_lossy().into_owned(), written.saturating_add(WAITED_MS)));
        }
        Ok(segments_of(names))
    }

    /// The text of a segment; nothing where a host has removed it meanwhile, to make room.
    pub(super) fn segment(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match read_bounded(folder, name, MAX_SEGMENT_BYTES) {
            Ok(bytes) => Ok(Some(text_of(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::StateFolder { what: "read a segment of the decision log".into(), source }),
        }
    }
}

impl DecisionPage {
    /// Takes in a segment: of what it holds, no more than a page needs.
    fn add(&mut self, text: &str, filter: &DecisionFilter, before: Option<DecisionId>, limit: usize) {
        let mut lines: Vec<(DecisionId, &str)> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match id_of(line).and_then(|id| id.parse::<DecisionId>().ok()) {
                Some(id) if before.is_none_or(|before| id < before) => lines.push((id, line)),
                Some(_) => {}
                None => self.unreadable += 1,
            }
        }
        lines.sort_unstable_by_key(|(id, _)| Reverse(*id));
        let mut taken = 0;
        for (_, line) in lines.into_iter().filter(|(_, line)| filter.may_let_through(line)) {
            match serde_json::from_str::<DecisionSummary>(line) {
                Ok(decision) if filter.lets_through(&decision) => {
                    self.decisions.push(decision);
                    taken += 1;
                }
                Ok(_) => {}
                Err(_) => self.unreadable += 1,
            }
            // One more than a page tells that there is a next one.
            if taken > limit {
                break;
            }
        }
    }
}

/// The segments among these names, each with what the others tell of it, and when it was written last.
fn segments_of(names: impl IntoIterator<Item = (String, u64)>) -> Vec<Segment> {
    let segment = |(name, until): (String, u64)| {
        let (begun, process, number) = parts(name.split_once('.')?.0)?;
        let slot = slot_of(&name)?;
        Some(Segment { name, begun, until, process, slot, number })
    };
    let mut segments: Vec<Segment> = names.into_iter().filter_map(segment).collect();
    segments.sort_unstable_by_key(|segment| (segment.process, segment.slot, segment.number));
    for index in 1..segments.len() {
        let (before, next) = (index - 1, &segments[index]);
        if (next.process, next.slot) == (segments[before].process, segments[before].slot) {
            segments[before].until = next.begun;
        }
    }
    segments
}

/// `<milliseconds>-<process>-<number>`, each in hexadecimal digits.
fn parts(name: &str) -> Option<(u64, u32, u64)> {
    let mut parts = name.split('-').map(|part| u64::from_str_radix(part, 16).ok());
    let (begun, process, number) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some((begun, u32::try_from(process).ok()?, number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::decision::DecidedBy;
    use crate::decision_log::{FOLDER, segment_name};

    fn record(id: DecisionId, slot: SlotName) -> DecisionRecord {
        DecisionRecord {
            id,
            at_ms: id.at_ms(),
            slot,
            question: Value::Null,
            answer: Value::Null,
            reason: None,
            decided_by: DecidedBy::Keep,
            asked: Vec::new(),
            shadows: Vec::new(),
            duration_ns: 1,
            lost_before: 0,
        }
    }

    /// Processes with their segments, each of decisions by how long after the one before and in which slot.
    fn logs() -> impl Strategy<Value = Vec<Vec<Vec<(u64, bool)>>>> {
        let segment = prop::collection::vec((0_u64..400, any::<bool>()), 0..12);
        prop::collection::vec(prop::collection::vec(segment, 0..6), 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn pages_one_after_the_other_hold_each_decision_once_in_order(log in logs(), limit in 1_usize..9,
            most in 1_usize..8_000) {
            let folder = tempfile::tempdir().unwrap();
            let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
            state.create_dir(FOLDER).unwrap();
            let mut all = Vec::new();
            for (process, segments) in (0_u32..).zip(log) {
                // A process decides, and a segment is begun with its first record.
                let (mut now, mut sequence) = (1_700_000_000_000, 0);
                for (number, decisions) in (0..).zip(segments) {
                    // Each slot has its own, beside those of others.
                    let mut texts: BTreeMap<SlotName, (u64, String)> = BTreeMap::new();
                    for (later, is_retry) in decisions {
                        now += later;
                        let slot = if is_retry { SlotName::Retry } else { SlotName::Rollback };
                        let id = DecisionId::of(now, process, sequence);
                        sequence += 1;
                        let (_, text) = texts.entry(slot).or_insert_with(|| (now, String::new()));
                        text.push_str(&serde_json::to_string(&record(id, slot)).unwrap());
                        text.push('\n');
                        all.push((id, slot));
                    }
                    for (slot, (begun, text)) in texts {
                        state.write(format!("{FOLDER}/{}", segment_name(begun, process, number, slot)), text).unwrap();
                    }
                }
            }
            all.sort_unstable_by_key(|(id, _)| Reverse(*id));
            let reader = DecisionReader::open(&state).unwrap();
            for slot in [None, Some(SlotName::Retry)] {
                let filter = DecisionFilter { slot, limit, ..DecisionFilter::default() };
                let (mut seen, mut before) = (Vec::new(), None);
                loop {
                    let page = reader.page_within(&filter, before, most).unwrap();
                    prop_assert!(page.decisions.len() <= limit && page.unreadable == 0);
                    seen.extend(page.decisions.iter().map(|decision| decision.id));
                    match page.older {
                        Some(older) => {
                            prop_assert!(before.is_none_or(|before| older < before), "{older} again");
                            before = Some(older);
                        }
                        None => break,
                    }
                }
                let expected: Vec<_> =
                    all.iter().filter(|(_, of)| slot.is_none_or(|slot| slot == *of)).map(|(id, _)| *id).collect();
                prop_assert_eq!(seen, expected);
            }
            for (id, slot) in &all {
                prop_assert_eq!(reader.show(&id.to_string()).unwrap().slot, *slot);
            }
            // And what follows each is what comes before it in those pages.
            all.sort_unstable();
            for (position, (id, slot)) in all.iter().enumerate() {
                for only in [None, Some(*slot)] {
                    let filter = DecisionFilter { slot: only, limit, ..DecisionFilter::default() };
                    let found: Vec<_> =
                        reader.following(&filter, *id).unwrap().iter().map(|decision| decision.id).collect();
                    let later = all[position + 1..].iter().filter(|(_, of)| only.is_none_or(|only| only == *of));
                    let expected: Vec<_> = later.map(|(id, _)| *id).take(limit).collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn a_page_does_not_read_what_is_older_than_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        state.create_dir(FOLDER).unwrap();
        let line = |at| serde_json::to_string(&record(DecisionId::of(at, 7, 0), SlotName::Retry)).unwrap() + "\n";
        for (number, begun) in (0..).zip([1_000_000_u64, 2_000_000, 3_000_000]) {
            let name = format!("{FOLDER}/{}", segment_name(begun, 7, number, SlotName::Retry));
            // A segment that cannot be read: whoever reads it fails.
            if number == 0 { state.create_dir(name).unwrap() } else { state.write(name, line(begun + 1)).unwrap() }
        }
        let reader = DecisionReader::open(&state).unwrap();
        let filter = DecisionFilter { limit: 1, ..DecisionFilter::default() };
        let first = reader.page(&filter, None).unwrap();
        assert_eq!((first.decisions.len(), first.decisions[0].at_ms), (1, 3_000_001));
        assert_eq!(reader.page(&filter, first.older).unwrap().decisions[0].at_ms, 2_000_001);
        assert_eq!(reader.show(&DecisionId::of(3_000_001, 7, 0).to_string()).unwrap().at_ms, 3_000_001);
        assert!(reader.list(&filter).is_err());
    }
}
