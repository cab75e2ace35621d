//! The writing side: a bounded queue and a thread.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::{DecisionRecord, FOLDER, Redaction, SUFFIX};
use crate::decision::now_ms;
use crate::error::Error;
use crate::files;

/// The bounds of the decision log.
#[derive(Clone, Debug)]
pub struct DecisionLogOptions {
    /// The bytes of all segments together; the oldest go first. Default 64 MiB.
    pub total_bytes: u64,
    /// The bytes at which a new segment is begun. Default 4 MiB.
    pub segment_bytes: u64,
    /// The longest record. A longer one loses its question and answer, then its host calls and lines. Default 4 MiB.
    pub record_bytes: usize,
    /// How many records may wait to be written. Default 16,384.
    pub queue_records: usize,
    /// How many bytes of memory they may take, roughly. Default 32 MiB.
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
/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// A record of whatever slot, on its way to the writer.
trait Entry: Send {
    /// Writes it as one line of JSON.
    fn write(
        self: Box<Self>,
        redaction: &Redaction,
        lost_before: u64,
        most: usize,
        line: &mut Vec<u8>,
    ) -> serde_json::Result<()>;
}

impl<Q: Serialize + Send, A: Serialize + Send> Entry for DecisionRecord<Q, A> {
    fn write(
        mut self: Box<Self>,
        redaction: &Redaction,
        lost_before: u64,
        most: usize,
        line: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        self.lost_before = lost_before;
        for call in self.asked.iter_mut().flat_map(|asked| &mut asked.host_calls) {
            call.arguments.iter_mut().for_each(|argument| redaction.apply(argument));
            redaction.apply(&mut call.answer);
        }
        serde_json::to_writer(&mut *line, &*self)?;
        if line.len() > most {
            line.clear();
            for asked in &mut self.asked {
                asked.host_calls.clear();
                asked.log.clear();
                asked.items = None;
            }
            let small = DecisionRecord {
                id: self.id,
                at_ms: self.at_ms,
                slot: self.slot,
                question: (),
                answer: (),
                reason: self.reason,
                decided_by: self.decided_by,
                asked: self.asked,
                duration_ns: self.duration_ns,
                lost_before,
            };
            serde_json::to_writer(&mut *line, &small)?;
        }
        line.push(b'\n');
        Ok(())
    }
}

/// The queue, as both sides see it.
struct Queue {
    entries: VecDeque<(usize, Box<dyn Entry>)>,
    bytes: usize,
    lost: u64,
    lost_in_all: u64,
    /// Set while the writer sleeps until it is woken.
    asleep: bool,
    stop: bool,
    /// Records that were put in and that were written, to know when a flush is done.
    put: u64,
    written: u64,
}

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
    pub(crate) fn open(state: &Dir, process: u32, options: DecisionLogOptions) -> Result<DecisionLog, Error> {
        let folder = files::private_folder(state, FOLDER)
            .map_err(|source| Error::StateFolder { what: "open the folder decisions".into(), source })?;
        let queue = Queue {
            entries: VecDeque::new(),
            bytes: 0,
            lost: 0,
            lost_in_all: 0,
            asleep: false,
            stop: false,
            put: 0,
            written: 0,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), wake: Condvar::new(), done: Condvar::new() });
        let mut writer = Writer {
            shared: shared.clone(),
            folder,
            process,
            segment: None,
            segments: 0,
            options: options.clone(),
            line: Vec::new(),
        };
        let writer = std::thread::Builder::new()
            .name("decision-log".into())
            .spawn(move || writer.run())
            .map_err(Error::Thread)?;
        Ok(DecisionLog { shared, options, writer: Some(writer) })
    }

    /// Hands a record over. Never waits for the disk.
    pub(crate) fn record<Q, A>(&self, record: DecisionRecord<Q, A>, bytes: usize)
    where
        Q: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let entry: Box<dyn Entry> = Box::new(record);
        let mut queue = self.shared.queue.lock();
        if queue.entries.len() >= self.options.queue_records
            || queue.bytes + bytes > self.options.queue_bytes.max(bytes)
        {
            queue.lost += 1;
            queue.lost_in_all += 1;
            drop(queue);
            metrics::counter!("windlass_decision_records_lost_total").increment(1);
            return;
        }
        queue.bytes += bytes;
        queue.put += 1;
        queue.entries.push_back((bytes, entry));
        let asleep = std::mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.shared.wake.notify_one();
        }
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

    /// How many records were lost in all.
    pub(crate) fn lost_in_all(&self) -> u64 {
        self.shared.queue.lock().lost_in_all
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
    /// The open segment and its size.
    segment: Option<(File, u64)>,
    /// How many were begun: the end of their names.
    segments: u32,
    options: DecisionLogOptions,
    line: Vec<u8>,
}

impl Writer {
    fn run(&mut self) {
        let mut busy_until = Instant::now();
        loop {
            let (entries, lost, stop) = {
                let mut queue = self.shared.queue.lock();
                while queue.entries.is_empty() && !queue.stop {
                    if Instant::now() < busy_until {
                        self.shared.wake.wait_for(&mut queue, LOOK);
                    } else {
                        queue.asleep = true;
                        self.shared.wake.wait(&mut queue);
                        queue.asleep = false;
                    }
                }
                queue.bytes = 0;
                (std::mem::take(&mut queue.entries), std::mem::take(&mut queue.lost), queue.stop)
            };
            if entries.is_empty() && stop {
                return;
            }
            let count = entries.len() as u64;
            self.write(entries, lost);
            busy_until = Instant::now() + LINGER;
            self.shared.queue.lock().written += count;
            self.shared.done.notify_all();
        }
    }

    fn write(&mut self, entries: VecDeque<(usize, Box<dyn Entry>)>, mut lost: u64) {
        /// What is written at once.
        const CHUNK: usize = 256 << 10;
        let mut chunk = Vec::with_capacity(CHUNK);
        for (_, entry) in entries {
            self.line.clear();
            match entry.write(
                &self.options.redaction,
                std::mem::take(&mut lost),
                self.options.record_bytes,
                &mut self.line,
            ) {
                Ok(()) => chunk.extend_from_slice(&self.line),
                Err(error) => tracing::error!(%error, "a decision can't be written as JSON"),
            }
            if chunk.len() >= CHUNK {
                self.append(&chunk);
                chunk.clear();
            }
        }
        self.append(&chunk);
        // One very large record must not hold its memory for ever.
        self.line.shrink_to(CHUNK);
    }

    fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let appended = self.open_segment().and_then(|segment| {
            segment.0.write_all(bytes)?;
            segment.1 += bytes.len() as u64;
            Ok(segment.1)
        });
        match appended {
            Ok(size) if size < self.options.segment_bytes => {}
            Ok(_) => self.segment = None,
            Err(error) => {
                tracing::error!(%error, "cannot write to the decision log");
                metrics::counter!("windlass_decision_log_errors_total").increment(1);
                // A new segment next time: the end of this one may be torn.
                self.segment = None;
            }
        }
    }

    fn open_segment(&mut self) -> io::Result<&mut (File, u64)> {
        if self.segment.is_none() {
            // Room for the new one, within the total.
            files::cut_to(&self.folder, self.options.total_bytes.saturating_sub(self.options.segment_bytes))?;
            let name = format!("{:012x}-{:08x}-{:08x}{SUFFIX}", now_ms(), self.process, self.segments);
            self.segments += 1;
            let mut options = OpenOptions::new();
            options.append(true).create_new(true).mode(0o600);
            self.segment = Some((self.folder.open_with(name, &options)?, 0));
        }
        self.segment.as_mut().ok_or_else(|| io::Error::other("no segment"))
    }
}
