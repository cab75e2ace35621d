//! The writing side: a bounded queue and a thread.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::record::ShadowRecord;
use super::{DecisionRecord, Redaction, segment_name, slot_of, weight};
use crate::decision::now_ms;
use crate::error::Error;
use crate::host_calls::HostCall;
use crate::json_text::JsonText;
use crate::limits::LARGE_QUESTION_BYTES;
use crate::slot_name::SlotName;
use windlass_distribution::files;

/// The bounds of the decision log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecisionLogOptions {
    /// The bytes of all segments together. The oldest of the slot that has most of them go first, but none that a host
    /// has open: a slot whose records are large or many leaves the others their share. Default 64 MiB.
    pub total_bytes: u64,
    /// The bytes at which a slot's segment is full. At most half of a slot's share of `total_bytes`. Default 4 MiB.
    pub segment_bytes: u64,
    /// The longest record. A longer one loses its question and answer, then its host calls and lines. Default 4 MiB.
    pub record_bytes: usize,
    /// How many records may wait to be written, and half as many of one slot. Default 16,384.
    pub queue_records: usize,
    /// How many bytes of memory they may take, and half as many those of one slot. One record may take more when it is
    /// alone. A record of a large question or answer is lost where a quarter is taken, so that others have the rest.
    /// Default 32 MiB.
    pub queue_bytes: usize,
    /// What is taken out of recorded host calls.
    pub redaction: Redaction,
}

impl Default for DecisionLogOptions {
    fn default() -> DecisionLogOptions {
        DecisionLogOptions {
            total_bytes: 64 << 20,
            segment_bytes: 4 << 20,
            record_bytes: 4 << 20,
            queue_records: 16 << 10,
            queue_bytes: 32 << 20,
            redaction: Redaction::default(),
        }
    }
}

/// How long the writer looks at the queue by itself after it was busy, before it sleeps until it is woken. While it
/// does, a decision saves the system call that wakes a thread.
const LINGER: Duration = Duration::from_millis(100);
/// How long what is written may be lost with the machine's power, while more is being written.
const SYNCED_WITHIN: Duration = Duration::from_millis(500);
/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// A record of whatever slot, on its way to the writer.
trait Entry: Send {
    fn slot(&self) -> SlotName;

    /// Writes it as one line of JSON of at most so many bytes, but for its identities and reasons.
    fn write(
        &mut self,
        redaction: &Redaction,
        lost_before: u64,
        most: usize,
        line: &mut Vec<u8>,
    ) -> serde_json::Result<()>;
}

impl<Q: Serialize + Send, A: Serialize + Send> Entry for DecisionRecord<Q, A> {
    fn slot(&self) -> SlotName {
        self.slot
    }

    fn write(
        &mut self,
        redaction: &Redaction,
        lost_before: u64,
        most: usize,
        line: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        self.lost_before = lost_before;
        let asked = self.asked.iter_mut().chain(self.shadows.iter_mut().map(|shadow| &mut shadow.asked));
        asked.flat_map(|asked| &mut asked.host_calls).for_each(|call| redact(call, redaction));
        if !fits(self, most, line)? {
            let mut small = DecisionRecord {
                id: self.id,
                at_ms: self.at_ms,
                slot: self.slot,
                question: (),
                answer: (),
                reason: self.reason.take(),
                decided_by: self.decided_by.clone(),
                asked: std::mem::take(&mut self.asked),
                shadows: std::mem::take(&mut self.shadows).into_iter().map(ShadowRecord::without_answer).collect(),
                duration_ns: self.duration_ns,
                lost_before,
            };
            if !fits(&small, most, line)? {
                for asked in small.asked.iter_mut().chain(small.shadows.iter_mut().map(|shadow| &mut shadow.asked)) {
                    asked.host_calls.clear();
                    asked.log.clear();
                    asked.items = None;
                    asked.rules.clear();
                }
                line.clear();
                serde_json::to_writer(&mut *line, &small)?;
            }
        }
        line.push(b'\n');
        Ok(())
    }
}

fn redact(call: &mut HostCall, redaction: &Redaction) {
    let mut arguments = call.arguments.value();
    if redaction.apply(&mut arguments) {
        call.arguments = JsonText::of(&arguments);
    }
    let mut answer = call.answer.value();
    if redaction.apply(&mut answer) {
        call.answer = JsonText::of(&answer);
        call.redacted = true;
    }
}

/// Writes a record into the line. Returns false where it is longer than allowed, of which no more is made.
fn fits(record: &impl Serialize, most: usize, line: &mut Vec<u8>) -> serde_json::Result<bool> {
    line.clear();
    match serde_json::to_writer(Bounded { line, most }, record) {
        Ok(()) => Ok(true),
        Err(error) if error.is_io() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fails before the line would have more bytes than allowed.
struct Bounded<'a> {
    line: &'a mut Vec<u8>,
    most: usize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.line.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The queue, as both sides see it.
#[derive(Default)]
struct Queue {
    entries: VecDeque<Waiting>,
    /// Records that are written, for the deciding threads to free: in glibc, a thread that frees what another one
    /// allocated takes that one's lock and leaves its cache of free memory empty.
    spent: Vec<Box<dyn Entry>>,
    /// What is in memory: what waits, and what the writer has taken and not written yet.
    records: usize,
    of_slots: [InMemory; SlotName::ALL.len()],
    bytes: usize,
    /// Records that were lost since the writer looked last.
    lost: u64,
    lost_in_all: u64,
    dropped_in_all: u64,
    /// Set while the writer sleeps until it is woken.
    asleep: bool,
    stop: bool,
    /// Records that were put in and that were written, to know when a flush is done.
    put: u64,
    written: u64,
}

/// What one slot has of the queue.
#[derive(Default)]
struct InMemory {
    records: usize,
    bytes: usize,
}

impl InMemory {
    /// Whether one more record is more than half of the queue. A slot that has none may have one.
    fn is_full(&self, bytes: usize, options: &DecisionLogOptions) -> bool {
        self.records > 0
            && (self.records >= options.queue_records / 2 || self.bytes.saturating_add(bytes) > options.queue_bytes / 2)
    }
}

/// A record and the bytes that it holds.
struct Waiting {
    entry: Box<dyn Entry>,
    bytes: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    done: Condvar,
}

/// The log of one host. Writes what is left when it is dropped.
pub(crate) struct DecisionLog {
    shared: Arc<Shared>,
    options: DecisionLogOptions,
    writer: Option<JoinHandle<()>>,
}

impl DecisionLog {
    /// The log in this folder of the state folder.
    pub(crate) fn open(
        state: &Dir,
        folder: &str,
        process: u32,
        options: DecisionLogOptions,
    ) -> Result<DecisionLog, Error> {
        let failed = |source| Error::StateFolder { what: format!("open the folder {folder}"), source };
        let folder = files::private_folder(state, folder).map_err(failed)?;
        let share = options.total_bytes / SlotName::ALL.len() as u64;
        let options = DecisionLogOptions { segment_bytes: options.segment_bytes.min(share / 2), ..options };
        let shared = Arc::<Shared>::default();
        let mut writer = Writer {
            shared: shared.clone(),
            folder,
            process,
            open: Default::default(),
            segments: 0,
            lost: 0,
            unsynced: None,
            since_cut: 0,
            options: options.clone(),
            line: Vec::new(),
        };
        let writer = std::thread::Builder::new()
            .name("decision-log".into())
            .spawn(move || writer.run())
            .map_err(Error::Thread)?;
        Ok(DecisionLog { shared, options, writer: Some(writer) })
    }

    /// Hands a record over. Never waits for the disk. Returns false where there is no room for it.
    pub(crate) fn record<Q, A>(&self, record: Box<DecisionRecord<Q, A>>) -> bool
    where
        Q: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let bytes = weight::of(&record);
        let entry: Box<dyn Entry> = record;
        let mut queue = self.shared.queue.lock();
        let is_large = bytes > LARGE_QUESTION_BYTES;
        let most = if is_large { self.options.queue_bytes / 4 } else { self.options.queue_bytes };
        let slot = entry.slot().index();
        let is_full = queue.records >= self.options.queue_records
            || queue.of_slots[slot].is_full(bytes, &self.options)
            || (queue.records > 0 && queue.bytes.saturating_add(bytes) > most);
        if is_full {
            queue.lost += 1;
            queue.lost_in_all += 1;
            drop(queue);
            metrics::counter!(crate::metric_names::RECORDS_LOST).increment(1);
            return false;
        }
        queue.records += 1;
        queue.of_slots[slot].records += 1;
        queue.of_slots[slot].bytes += bytes;
        queue.bytes += bytes;
        queue.put += 1;
        queue.entries.push_back(Waiting { entry, bytes });
        let spent = queue.spent.pop();
        let asleep = std::mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.shared.wake.notify_one();
        }
        drop(spent);
        true
    }

    /// Waits until everything that was recorded before is written (not synced), or a write has failed.
    pub(crate) fn flush(&self) {
        let mut queue = self.shared.queue.lock();
        let until = queue.put;
        queue.asleep = false;
        self.shared.wake.notify_one();
        while queue.written < until {
            self.shared.done.wait(&mut queue);
        }
    }

    /// How many records were never written.
    pub(crate) fn lost_in_all(&self) -> u64 {
        self.shared.queue.lock().lost_in_all
    }

    /// How many written records this host has removed to make room.
    pub(crate) fn dropped_in_all(&self) -> u64 {
        self.shared.queue.lock().dropped_in_all
    }
}

impl Drop for DecisionLog {
    fn drop(&mut self) {
        self.shared.queue.lock().stop = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread of the decision log panicked");
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    folder: Dir,
    process: u32,
    /// The open segment of each slot.
    open: [Option<Segment>; SlotName::ALL.len()],
    /// How many were begun: each has its number in its name.
    segments: u32,
    /// Lost records that no written record mentions yet.
    lost: u64,
    /// Since when something is written that would not survive a loss of power.
    unsynced: Option<Instant>,
    /// The bytes that were written since the segments were cut to their total.
    since_cut: u64,
    options: DecisionLogOptions,
    line: Vec<u8>,
}

/// A segment that is being written. Its file is locked, so that no host takes it for one that may go.
struct Segment {
    file: File,
    bytes: u64,
    is_synced: bool,
}

/// Lines of one slot that are written at once.
#[derive(Default)]
struct Chunk {
    text: Vec<u8>,
    lines: u64,
    /// How many lost records they tell of.
    reported: u64,
    /// What they have taken of the queue.
    records: usize,
    bytes: usize,
}

/// How many written records wait to be freed by deciding threads, and the largest of them.
const SPENT_RECORDS: usize = 256;
const SPENT_BYTES: usize = 16 << 10;

/// The size at which a chunk is written.
const CHUNK_BYTES: usize = 256 << 10;

impl Writer {
    fn run(&mut self) {
        let mut busy_until = Instant::now();
        let shared = self.shared.clone();
        loop {
            let (entries, stop) = {
                let mut queue = shared.queue.lock();
                while queue.entries.is_empty() && !queue.stop {
                    if Instant::now() < busy_until {
                        shared.wake.wait_for(&mut queue, LOOK);
                    } else if !queue.spent.is_empty() {
                        let spent = std::mem::take(&mut queue.spent);
                        parking_lot::MutexGuard::unlocked(&mut queue, || drop(spent));
                    } else if self.unsynced.is_some() {
                        parking_lot::MutexGuard::unlocked(&mut queue, || self.sync());
                    } else {
                        queue.asleep = true;
                        shared.wake.wait(&mut queue);
                        queue.asleep = false;
                    }
                }
                self.lost += std::mem::take(&mut queue.lost);
                (std::mem::take(&mut queue.entries), queue.stop)
            };
            if entries.is_empty() && stop {
                self.sync();
                return;
            }
            self.write(entries);
            if self.unsynced.is_some_and(|since| since.elapsed() >= SYNCED_WITHIN) {
                self.sync();
            }
            busy_until = Instant::now() + LINGER;
        }
    }

    fn write(&mut self, entries: VecDeque<Waiting>) {
        let mut chunks: [Chunk; SlotName::ALL.len()] = Default::default();
        let mut spent = Vec::new();
        for Waiting { mut entry, bytes } in entries {
            let slot = entry.slot();
            let chunk = &mut chunks[slot.index()];
            chunk.records += 1;
            chunk.bytes += bytes;
            let lost_before = std::mem::take(&mut self.lost);
            match entry.write(&self.options.redaction, lost_before, self.options.record_bytes, &mut self.line) {
                Ok(()) => {
                    chunk.text.extend_from_slice(&self.line);
                    chunk.lines += 1;
                    chunk.reported += lost_before;
                }
                Err(error) => {
                    tracing::error!(%error, "a decision can't be written as JSON");
                    self.lost += lost_before;
                    self.lose(1);
                }
            }
            if bytes <= SPENT_BYTES && spent.len() < SPENT_RECORDS {
                spent.push(entry);
            }
            if chunk.text.len() >= CHUNK_BYTES {
                let full = std::mem::take(chunk);
                self.append(slot, full);
            }
        }
        for (slot, chunk) in SlotName::ALL.into_iter().zip(chunks) {
            if chunk.records > 0 {
                self.append(slot, chunk);
            }
        }
        // What nobody has freed since the last time is freed here, and not while deciding threads wait for the queue.
        let unfreed = std::mem::replace(&mut self.shared.queue.lock().spent, spent);
        drop(unfreed);
        // One very large record must not hold its memory for ever.
        self.line.clear();
        self.line.shrink_to(CHUNK_BYTES);
    }

    fn append(&mut self, slot: SlotName, chunk: Chunk) {
        if !chunk.text.is_empty()
            && let Err(error) = self.append_text(slot, &chunk.text)
        {
            tracing::error!(%error, records = chunk.lines, "cannot write to the decision log");
            metrics::counter!(crate::metric_names::LOG_ERRORS).increment(1);
            // A new segment next time: the end of this one may be torn.
            self.open[slot.index()] = None;
            self.lost += chunk.reported;
            self.lose(chunk.lines);
        }
        let mut queue = self.shared.queue.lock();
        queue.records -= chunk.records;
        queue.of_slots[slot.index()].records -= chunk.records;
        queue.of_slots[slot.index()].bytes -= chunk.bytes;
        queue.bytes -= chunk.bytes;
        queue.written += chunk.records as u64;
        drop(queue);
        self.shared.done.notify_all();
    }

    fn append_text(&mut self, slot: SlotName, text: &[u8]) -> io::Result<()> {
        let segment = match self.open[slot.index()].take() {
            Some(segment) => segment,
            None => {
                self.make_room()?;
                self.since_cut = 0;
                Segment { file: self.begin_segment(slot)?, bytes: 0, is_synced: true }
            }
        };
        let segment = self.open[slot.index()].insert(segment);
        segment.file.write_all(text)?;
        segment.bytes += text.len() as u64;
        segment.is_synced = false;
        let is_full = segment.bytes >= self.options.segment_bytes;
        self.unsynced.get_or_insert_with(Instant::now);
        if is_full {
            self.sync();
            self.open[slot.index()] = None;
        }
        // The open segments of other slots grow as well.
        self.since_cut += text.len() as u64;
        if self.since_cut >= self.options.segment_bytes {
            self.since_cut = 0;
            self.make_room()?;
        }
        Ok(())
    }

    /// Has what was written survive a loss of power.
    fn sync(&mut self) {
        self.unsynced = None;
        for segment in self.open.iter_mut().flatten().filter(|segment| !segment.is_synced) {
            segment.is_synced = true;
            if let Err(error) = segment.file.sync_data() {
                tracing::error!(%error, "the decision log cannot be synced");
                metrics::counter!(crate::metric_names::LOG_ERRORS).increment(1);
            }
        }
    }

    /// Counts records that nobody will ever read. The next one that is written tells of them.
    fn lose(&mut self, records: u64) {
        self.lost += records;
        self.shared.queue.lock().lost_in_all += records;
        metrics::counter!(crate::metric_names::RECORDS_LOST).increment(records);
    }

    fn begin_segment(&mut self, slot: SlotName) -> io::Result<File> {
        /// How often a new segment may be taken for an old one.
        const ATTEMPTS: usize = 8;
        for _ in 0..ATTEMPTS {
            let name = segment_name(now_ms(), self.process, self.segments, slot);
            self.segments += 1;
            let mut options = OpenOptions::new();
            options.append(true).create_new(true).mode(0o600);
            let file = self.folder.open_with(name, &options)?.into_std();
            file.lock()?;
            // Before it was locked another host may have removed it.
            if file.metadata()?.nlink() > 0 {
                return Ok(file);
            }
        }
        Err(io::Error::other("new segments are removed at once"))
    }

    /// Removes the oldest segments of the largest slots until as much as one more has room within the total.
    fn make_room(&self) -> io::Result<()> {
        let most = self.options.total_bytes.saturating_sub(self.options.segment_bytes);
        let slot = |name: &OsStr| name.to_str().and_then(slot_of);
        files::cut_to(&self.folder, most, slot, |name| {
            let Some(records) = drop_segment(&self.folder, name)? else { return Ok(false) };
            if records > 0 {
                self.shared.queue.lock().dropped_in_all += records;
                metrics::counter!(crate::metric_names::RECORDS_DROPPED).increment(records);
                let segment = name.to_string_lossy();
                tracing::info!(%segment, records, "the oldest decisions make room in the log");
            }
            Ok(true)
        })
    }
}

/// Removes a segment, unless a host has it open. Returns how many records went with it.
fn drop_segment(folder: &Dir, name: &OsStr) -> io::Result<Option<u64>> {
    let file = match folder.open(name) {
        Ok(file) => file.into_std(),
        // Another host was quicker.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let records = lines(&file)?;
    files::remove(folder, name)?;
    Ok(Some(records))
}

fn lines(mut file: &File) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut lines = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(lines),
            count => lines += buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use cap_std::ambient_authority;
    use serde::Serializer;
    use serde::ser::SerializeSeq;

    use super::*;
    use crate::decision::{DecidedBy, DecisionIds};
    use crate::{DecisionFilter, DecisionReader};

    fn record<Q>(question: Q) -> Box<DecisionRecord<Q, ()>> {
        let id = DecisionIds::new(1).next();
        Box::new(DecisionRecord {
            id,
            at_ms: id.at_ms(),
            slot: SlotName::Retry,
            question,
            answer: (),
            reason: None,
            decided_by: DecidedBy::Keep,
            asked: Vec::new(),
            shadows: Vec::new(),
            duration_ns: 0,
            lost_before: 0,
        })
    }

    fn open(change: impl FnOnce(&mut DecisionLogOptions)) -> (tempfile::TempDir, Dir, DecisionLog) {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let mut options = DecisionLogOptions::default();
        change(&mut options);
        let log = DecisionLog::open(&state, super::super::FOLDER, 1, options).unwrap();
        (folder, state, log)
    }

    /// Text that the writer can write only when the other end of the channel is gone.
    struct Held(String, Mutex<Receiver<()>>);

    impl Serialize for Held {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if std::thread::current().name() == Some("decision-log") {
                let _ = self.1.lock().recv();
            }
            serializer.serialize_str(&self.0)
        }
    }

    #[test]
    fn a_record_weighs_what_it_holds_until_it_is_written() {
        let (_folder, _state, log) = open(|options| options.queue_bytes = 2 << 20);
        let text = |bytes: usize| record("x".repeat(bytes));
        let (release, held) = channel();
        log.record(record(Held("x".repeat(700 << 10), Mutex::new(held))));
        // The writer has taken it, and holds it.
        while !log.shared.queue.lock().entries.is_empty() {
            std::thread::yield_now();
        }
        log.record(text(100 << 10));
        assert_eq!(log.lost_in_all(), 0);
        log.record(text(400 << 10));
        assert_eq!(log.lost_in_all(), 1, "there is no room beside what is being written");
        drop(release);
        log.flush();
        log.record(text(400 << 10));
        log.flush();
        assert_eq!(log.lost_in_all(), 1);
        // Alone, a record may be larger than the queue.
        log.record(text(2 << 20));
        log.flush();
        assert_eq!(log.lost_in_all(), 1);
        let queue = log.shared.queue.lock();
        assert_eq!((queue.records, queue.bytes, queue.written), (0, 0, 4));
    }

    #[test]
    fn the_records_of_one_slot_leave_half_of_the_queue_to_others() {
        let (_folder, _state, log) = open(|options| options.queue_records = 10);
        let (release, held) = channel();
        log.record(record(Held(String::new(), Mutex::new(held))));
        for _ in 0..10 {
            log.record(record("a"));
        }
        assert_eq!(log.lost_in_all(), 6);
        for _ in 0..5 {
            let mut other = record("b");
            other.slot = SlotName::Release;
            log.record(other);
        }
        assert_eq!(log.lost_in_all(), 6);
        drop(release);
        log.flush();
        assert_eq!(log.shared.queue.lock().written, 10);
    }

    #[test]
    fn the_bytes_of_one_slot_leave_half_of_the_queue_to_others() {
        let (_folder, _state, log) = open(|options| options.queue_bytes = 1 << 20);
        let (release, held) = channel();
        log.record(record(Held(String::new(), Mutex::new(held))));
        for _ in 0..10 {
            log.record(record("x".repeat(100 << 10)));
        }
        assert_eq!(log.lost_in_all(), 5);
        for _ in 0..4 {
            let mut other = record("x".repeat(100 << 10));
            other.slot = SlotName::Release;
            log.record(other);
        }
        assert_eq!(log.lost_in_all(), 5);
        drop(release);
        log.flush();
        assert_eq!(log.shared.queue.lock().written, 10);
    }

    #[test]
    fn large_records_leave_most_of_the_queue_to_others() {
        let (_folder, _state, log) = open(|options| options.queue_bytes = 2 << 20);
        let (release, held) = channel();
        log.record(record(Held("x".repeat(300 << 10), Mutex::new(held))));
        for _ in 0..3 {
            log.record(record("x".repeat(300 << 10)));
        }
        assert_eq!(log.lost_in_all(), 3);
        for _ in 0..300 {
            log.record(record("x".repeat(1 << 10)));
        }
        assert_eq!(log.lost_in_all(), 3);
        drop(release);
        log.flush();
        assert_eq!(log.shared.queue.lock().written, 301);
    }

    /// Counts how many of its million items are serialised.
    struct Long(AtomicUsize);

    impl Serialize for Long {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut items = serializer.serialize_seq(None)?;
            for item in 0..1_000_000 {
                self.0.fetch_add(1, Ordering::Relaxed);
                items.serialize_element(&item)?;
            }
            items.end()
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_found_out_before_it_is_written() {
        let long = Arc::new(Long(AtomicUsize::new(0)));
        let mut line = Vec::new();
        record(long.clone()).write(&Redaction::default(), 3, 1000, &mut line).unwrap();
        assert!(long.0.load(Ordering::Relaxed) < 1000, "{long} items", long = long.0.load(Ordering::Relaxed));
        assert!(line.capacity() <= 4000, "{} bytes", line.capacity());
        let written: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&written["question"], &written["lost-before"]), (&serde_json::Value::Null, &3.into()));
    }

    #[test]
    fn what_is_too_long_goes_question_first_and_host_calls_next() {
        let call = HostCall {
            interface: "a".into(),
            function: "b".into(),
            arguments: JsonText::of(&["c".repeat(100)]),
            answer: JsonText::of("d"),
            duration_us: 0,
            refused: false,
            shortened: false,
            redacted: false,
        };
        let link = |host_calls| super::super::LinkRecord {
            policy: Arc::new(crate::PolicyIdentity {
                slot: SlotName::Retry,
                name: "a".into(),
                version: "1.0.0".into(),
                component: crate::Digest::of(b"a"),
                settings: crate::Digest::of(b"b"),
                configuration: None,
                origin: None,
            }),
            signed_by: None,
            items: None,
            outcome: super::super::Outcome::Decided,
            rules: Vec::new(),
            duration_ns: 0,
            fuel: None,
            host_calls,
            log: Vec::new(),
            log_dropped: 0,
        };
        let written = |most: usize| -> serde_json::Value {
            let mut record = record("q".repeat(5000));
            record.asked = vec![link(vec![call.clone(); 20])];
            let mut line = Vec::new();
            record.write(&Redaction::default(), 0, most, &mut line).unwrap();
            serde_json::from_slice(&line).unwrap()
        };
        let calls = |record: &serde_json::Value| record["asked"][0]["host-calls"].as_array().map_or(0, Vec::len);
        assert!(written(20_000)["question"].is_string());
        let record = written(6_000);
        assert!(record["question"].is_null() && calls(&record) == 20, "{record}");
        let record = written(1_000);
        assert!(record["question"].is_null() && calls(&record) == 0, "{record}");
    }

    /// Refuses to be written.
    struct Unwritable;

    impl Serialize for Unwritable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }

    #[test]
    fn the_next_record_tells_of_those_that_could_not_be_written() {
        let (_folder, state, log) = open(|_| ());
        log.record(record(Unwritable));
        log.record(record("fine"));
        log.flush();
        assert_eq!(log.lost_in_all(), 1);
        let list = DecisionReader::open(&state).unwrap().list(&DecisionFilter::default()).unwrap();
        assert_eq!(list.decisions.iter().map(|decision| decision.lost_before).collect::<Vec<_>>(), [1]);
    }
}
