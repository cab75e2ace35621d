//! The decision log, read while it is written: what others decide may displace old segments.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

/// Follows the log.
pub(crate) struct Follower {
    folder: PathBuf,
    /// The segments that there were at the last look, each at the end of its last whole line. They stay open, so that
    /// what others displace is read to its end.
    segments: BTreeMap<OsString, File>,
    ids: HashSet<String>,
}

impl Follower {
    pub(crate) fn new(folder: PathBuf) -> Follower {
        Follower { folder, segments: BTreeMap::new(), ids: HashSet::new() }
    }

    /// Reads what is new.
    pub(crate) fn read(&mut self) {
        let mut there = HashSet::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !self.segments.contains_key(&name)
                && let Ok(file) = File::open(entry.path())
            {
                self.segments.insert(name.clone(), file);
            }
            there.insert(name);
        }
        let ids = &mut self.ids;
        self.segments.retain(|name, file| {
            read_on(file, ids);
            there.contains(name)
        });
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

/// Reads the ids of the lines that are new.
fn read_on(file: &mut File, ids: &mut HashSet<String>) {
    let Ok(mut at) = file.stream_position() else { return };
    let mut lines = BufReader::new(&mut *file);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with(b"\n") {
        at += line.len() as u64;
        ids.extend(id_of(&line));
        line.clear();
    }
    // What was read ahead is read again.
    let _ = file.seek(SeekFrom::Start(at));
}

/// The record's id, which comes first. The rest of the record may have megabytes.
fn id_of(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(b"{\"id\":\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
