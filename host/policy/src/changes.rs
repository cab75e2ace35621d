//! How the policies of the hosts on a state folder changed over time: which came into force, which replaced which,
//! which files were refused, and who was suspended.
//!
//! `policy-changes/changes.jsonl` has one line for each change, written by the thread that says how a host is doing
//! ([`status`](crate::status)), never by a decision. Changes that follow each other within its pause are reported as
//! one. At 1 MiB the file becomes `changes.before.jsonl`, in the place of an older one.
//!
//! Once a change is written, an event `policy` says the same: the export makes a log record of it.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};
use windlass_distribution::files::{private_folder, read_bounded};

use crate::configuration::Mode;
use crate::decision::PolicyIdentity;
use crate::error::Error;
use crate::host_status::{HostStatus, LinkStatus};
use crate::slots::SlotName;

const FOLDER: &str = "policy-changes";
const FILE: &str = "changes.jsonl";
const BEFORE: &str = "changes.before.jsonl";
const LOCK: &str = "lock";
/// A file that has reached this is put aside.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// A file that is longer than this was not written by us: the last batch of lines may pass the bound above.
const MAX_READ_BYTES: u64 = 4 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyChange {
    /// When it was seen, in milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    /// The process of the host.
    pub process: u32,
    /// The name of its program.
    pub program: String,
    pub slot: SlotName,
    /// The place in the chain, from 0, shadows counted.
    pub position: usize,
    /// Whether the policy decides.
    pub mode: Mode,
    /// The policy that it is about: for what was refused, the one that stays.
    pub policy: PolicyIdentity,
    /// What happened.
    pub what: PolicyEventKind,
}

impl PolicyChange {
    /// Emits it as an event. Log lines for people are written where it happens.
    fn tell(&self) {
        let (before, source, why) = match &self.what {
            PolicyEventKind::InForce { source } => (None, Some(source.as_str()), None),
            PolicyEventKind::Replaced { before, source } => (Some(before), Some(source.as_str()), None),
            PolicyEventKind::Refused { why } | PolicyEventKind::Suspended { why } => (None, None, Some(why.as_str())),
            PolicyEventKind::Resumed | PolicyEventKind::Removed => (None, None, None),
        };
        tracing::trace!(
            name: "policy",
            what = self.what.as_str(),
            slot = self.slot.as_str(),
            position = self.position,
            mode = self.mode.as_str(),
            policy = %self.policy,
            digest = %self.policy.digest(),
            before = before.map(tracing::field::display),
            source,
            why,
        );
    }
}

/// What can happen to a place in a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PolicyEventKind {
    /// The policy is there, where there was none.
    #[serde(rename_all = "kebab-case")]
    InForce {
        /// Where it came from.
        source: String,
    },
    /// The policy took the place of another.
    #[serde(rename_all = "kebab-case")]
    Replaced {
        /// The other.
        before: PolicyIdentity,
        /// Where the new one came from.
        source: String,
    },
    /// A new file could not be used; the policy stays.
    #[serde(rename_all = "kebab-case")]
    Refused { why: String },
    /// It is no longer asked, since it failed too often in a row.
    #[serde(rename_all = "kebab-case")]
    Suspended {
        /// Its last failure.
        why: String,
    },
    /// It is asked again.
    Resumed,
    /// The place is no longer in the chain.
    Removed,
}

impl PolicyEventKind {
    /// The word of the file and of events, without what it holds.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// The newest changes, newest first.
///
/// # Errors
/// The files can't be read.
pub fn policy_changes(state: &Dir, most: usize) -> Result<Vec<PolicyChange>, Error> {
    let failed = |source| Error::StateFolder { what: "read the folder policy-changes".into(), source };
    let folder = match state.open_dir(FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder.map_err(failed)?,
    };
    let mut changes = Vec::new();
    for name in [FILE, BEFORE] {
        let text = read(&folder, name).map_err(failed)?;
        changes
            .extend(text.lines().rev().filter_map(|line| serde_json::from_str(line).ok()).take(most - changes.len()));
        if changes.len() >= most {
            break;
        }
    }
    Ok(changes)
}

/// What was written; nothing where nothing was.
fn read(folder: &Dir, name: &str) -> io::Result<String> {
    match read_bounded(folder, name, MAX_READ_BYTES) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// What is known of a place in a chain.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    mode: Mode,
    policy: PolicyIdentity,
    suspended: bool,
    refused: Option<String>,
}

/// Writes the changes of one host.
pub(crate) struct Changes {
    folder: Dir,
    process: u32,
    program: String,
    known: BTreeMap<(SlotName, usize), Known>,
}

impl Changes {
    /// Goes on where an earlier host of this program ended: what is as it was then is no change.
    pub(crate) fn open(state: &Dir, process: u32, program: String) -> io::Result<Changes> {
        let folder = private_folder(state, FOLDER)?;
        let mut known = BTreeMap::new();
        for name in [BEFORE, FILE] {
            for line in read(&folder, name)?.lines() {
                let Ok(change) = serde_json::from_str::<PolicyChange>(line) else { continue };
                if change.program == program {
                    learn(&mut known, change);
                }
            }
        }
        // A host begins with nobody suspended and nothing refused.
        for known in known.values_mut() {
            (known.suspended, known.refused) = (false, None);
        }
        Ok(Changes { folder, process, program, known })
    }

    /// Writes what has changed since the last time.
    pub(crate) fn note(&mut self, status: &HostStatus, at_ms: u64) -> io::Result<()> {
        let changes = self.changes(status, at_ms);
        if changes.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        for change in &changes {
            serde_json::to_writer(&mut text, change)?;
            text.push(b'\n');
        }
        self.append(&text)?;
        for change in changes {
            change.tell();
            learn(&mut self.known, change);
        }
        Ok(())
    }

    fn changes(&self, status: &HostStatus, at_ms: u64) -> Vec<PolicyChange> {
        let mut changes = Vec::new();
        let mut change = |slot, position, mode, policy: &PolicyIdentity, what| {
            let (process, program) = (self.process, self.program.clone());
            changes.push(PolicyChange { at_ms, process, program, slot, position, mode, policy: policy.clone(), what });
        };
        for link in &status.links {
            let known = self.known.get(&(link.slot, link.position));
            let mut is = |what| change(link.slot, link.position, link.mode, &link.policy, what);
            let source = || link.source.clone();
            let mut fresh = false;
            match known {
                Some(known) if known.policy == link.policy && known.mode == link.mode => {}
                Some(known) if known.policy != link.policy => {
                    fresh = true;
                    is(PolicyEventKind::Replaced { before: known.policy.clone(), source: source() });
                }
                _ => {
                    fresh = true;
                    is(PolicyEventKind::InForce { source: source() });
                }
            }
            let before = known.filter(|_| !fresh);
            let was_suspended = before.is_some_and(|known| known.suspended);
            if link.suspended && !was_suspended {
                is(PolicyEventKind::Suspended { why: last_failure(link) });
            }
            if !link.suspended && was_suspended {
                is(PolicyEventKind::Resumed);
            }
            if let Some(why) = &link.error
                && before.and_then(|known| known.refused.as_ref()) != Some(why)
            {
                is(PolicyEventKind::Refused { why: why.clone() });
            }
        }
        for ((slot, position), known) in &self.known {
            if !status.links.iter().any(|link| (link.slot, link.position) == (*slot, *position)) {
                change(*slot, *position, known.mode, &known.policy, PolicyEventKind::Removed);
            }
        }
        changes
    }

    fn append(&self, text: &[u8]) -> io::Result<()> {
        let options = |append: bool| {
            let mut options = OpenOptions::new();
            options.write(!append).append(append).create(true).mode(0o600);
            options
        };
        // Several hosts may share the folder: only one at a time puts the file aside.
        let lock = self.folder.open_with(LOCK, &options(false))?.into_std();
        lock.lock()?;
        let written = (|| {
            if self.folder.metadata(FILE).is_ok_and(|file| file.len() >= MAX_FILE_BYTES) {
                self.folder.rename(FILE, &self.folder, BEFORE)?;
            }
            self.folder.open_with(FILE, &options(true))?.write_all(text)
        })();
        // Not left to the closing of the file, which a child process that is being started may have open as well.
        lock.unlock()?;
        written
    }
}

fn last_failure(link: &LinkStatus) -> String {
    link.last_failure.clone().unwrap_or_default()
}

/// What is known after a change.
fn learn(known: &mut BTreeMap<(SlotName, usize), Known>, change: PolicyChange) {
    let place = (change.slot, change.position);
    let (mode, policy) = (change.mode, change.policy);
    let (suspended, refused) = match change.what {
        PolicyEventKind::Removed => {
            known.remove(&place);
            return;
        }
        PolicyEventKind::InForce { .. } | PolicyEventKind::Replaced { .. } => (false, None),
        what => {
            let before = known.get(&place);
            let suspended = before.is_some_and(|known| known.suspended);
            let refused = before.and_then(|known| known.refused.clone());
            match what {
                PolicyEventKind::Suspended { .. } => (true, refused),
                PolicyEventKind::Refused { why } => (suspended, Some(why)),
                _ => (false, refused),
            }
        }
    };
    known.insert(place, Known { mode, policy, suspended, refused });
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;
    use crate::digest::Digest;

    fn identity(name: &str) -> PolicyIdentity {
        PolicyIdentity {
            slot: SlotName::Retry,
            name: name.into(),
            version: "1.0.0".into(),
            component: Digest::of(name.as_bytes()),
            settings: Digest::of(b""),
            configuration: None,
            origin: None,
        }
    }

    fn link(position: usize, name: &str) -> LinkStatus {
        LinkStatus {
            slot: SlotName::Retry,
            position,
            mode: Mode::Decide,
            policy: identity(name),
            summary: String::new(),
            source: format!("{name}.wasm"),
            loaded_at_ms: 0,
            suspended: false,
            failures_in_a_row: 0,
            last_failure: Some("a trap".into()),
            error: None,
            refused_at_ms: None,
        }
    }

    fn status(links: Vec<LinkStatus>) -> HostStatus {
        HostStatus { links, lost_records: 0, dropped_records: 0 }
    }

    fn state() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, state)
    }

    fn reported(state: &Dir) -> Vec<(u64, String, String)> {
        let word = |what: &PolicyEventKind| {
            let json = serde_json::to_value(what).unwrap();
            json.as_str().map(str::to_owned).unwrap_or_else(|| json.as_object().unwrap().keys().next().unwrap().clone())
        };
        let mut changes = policy_changes(state, 100).unwrap();
        changes.reverse();
        changes.iter().map(|change| (change.at_ms, change.policy.name.to_string(), word(&change.what))).collect()
    }

    #[test]
    fn each_change_is_told_once_also_by_the_next_host() {
        let (_folder, state) = state();
        assert_eq!(policy_changes(&state, 100).unwrap(), []);
        let open = |process, program: &str| Changes::open(&state, process, program.into()).unwrap();
        let mut first = open(1, "plugin");
        first.note(&status(vec![link(0, "team"), link(1, "default")]), 1).unwrap();
        first.note(&status(vec![link(0, "team"), link(1, "default")]), 2).unwrap();
        let refused = LinkStatus { error: Some("no component".into()), ..link(0, "team") };
        first.note(&status(vec![refused.clone(), link(1, "default")]), 3).unwrap();
        first.note(&status(vec![refused, link(1, "default")]), 4).unwrap();
        first.note(&status(vec![link(0, "better"), link(1, "default")]), 5).unwrap();
        let suspended = LinkStatus { suspended: true, ..link(0, "better") };
        first.note(&status(vec![suspended.clone(), link(1, "default")]), 6).unwrap();
        first.note(&status(vec![suspended, link(1, "default")]), 7).unwrap();
        let expected = [
            (1, "team", "in-force"),
            (1, "default", "in-force"),
            (3, "team", "refused"),
            (5, "better", "replaced"),
            (6, "better", "suspended"),
        ];
        let expected: Vec<_> = expected.map(|(at, name, what)| (at, name.to_owned(), what.to_owned())).to_vec();
        assert_eq!(reported(&state), expected);

        // The next process of the same program goes on; another program has its own chains.
        open(2, "plugin").note(&status(vec![link(0, "better"), link(1, "default")]), 8).unwrap();
        assert_eq!(reported(&state), expected);
        open(2, "plugin").note(&status(vec![link(0, "default")]), 9).unwrap();
        open(3, "controller").note(&status(vec![link(0, "default")]), 10).unwrap();
        let last = &reported(&state)[5..];
        assert_eq!(
            last.iter().map(|(at, _, what)| (*at, what.as_str())).collect::<Vec<_>>(),
            [(9, "replaced"), (9, "removed"), (10, "in-force")]
        );
        assert_eq!(policy_changes(&state, 2).unwrap().len(), 2, "the newest");
    }

    #[test]
    fn the_file_is_put_aside_when_it_is_long_and_lines_that_are_torn_are_passed_over() {
        let (folder, state) = state();
        let mut changes = Changes::open(&state, 1, "plugin".into()).unwrap();
        let path = folder.path().join(FOLDER).join(FILE);
        std::fs::write(&path, "{\"at-ms\":1,\"torn").unwrap();
        assert_eq!(policy_changes(&state, 100).unwrap(), []);
        std::fs::write(&path, "x\n".repeat(MAX_FILE_BYTES as usize / 2)).unwrap();
        for name in ["one", "two"] {
            changes.note(&status(vec![link(0, name)]), 1).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 4096);
        assert!(std::fs::metadata(folder.path().join(FOLDER).join(BEFORE)).unwrap().len() >= MAX_FILE_BYTES);
        assert_eq!(policy_changes(&state, 100).unwrap().len(), 2);
    }
}
