//! The decision log, read while it is written: what others decide may displace old segments.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

/// Follows the log.
pub(crate) struct Follower {
    folder: PathBuf,
    /// How far each segment was read.
    read: BTreeMap<OsString, u64>,
    ids: HashSet<String>,
}

impl Follower {
    pub(crate) fn new(folder: PathBuf) -> Follower {
        Follower { folder, read: BTreeMap::new(), ids: HashSet::new() }
    }

    /// Reads what is new.
    pub(crate) fn read(&mut self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let at = self.read.entry(entry.file_name()).or_default();
            // It may have been displaced just now.
            let Ok(mut file) = File::open(entry.path()) else { continue };
            if file.seek(SeekFrom::Start(*at)).is_err() {
                continue;
            }
            let mut lines = BufReader::new(file);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with(b"\n") {
                *at += line.len() as u64;
                if let Some(id) = id_of(&line) {
                    self.ids.insert(id);
                }
                line.clear();
            }
        }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

/// The record's id, which comes first. The rest of the record may have megabytes.
fn id_of(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(b"{\"id\":\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
