//! Policies that are not in force, to put a recorded decision to them: files of one folder that the operator has named.
//!
//! A browser chooses among the names of that folder and can give neither a path nor a policy of its own, so that who
//! may look can run nothing that the operator has not put there. A candidate runs in the same sandbox and within the
//! same limits as a policy that decides, one at a time. Its look-ups are answered from the record; nobody is called,
//! and nothing is recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use windlass_distribution::files::read_bounded;
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionRecord, Digest, Host, Link, LoadedPolicy, Replay, ReplayAgainst};
use windlass_process::with_causes;

use crate::Error;

/// Files of a folder that are offered.
const MAX_FILES: usize = 200;
/// Policies that are kept loaded.
const MAX_LOADED: usize = 8;
/// A file larger than this is not read at all.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How long somebody waits while another one's question is put.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// What the name of a policy's file ends in.
const ENDS: [&str; 2] = [".wasm", ".rules.toml"];

/// A folder of policies, and who runs them.
pub struct Candidates {
    folder: Dir,
    host: Host,
    /// How files are configured, by name. One that is not among them has no settings and no grants.
    links: BTreeMap<String, Link>,
    /// The newest last. Locked while one is asked.
    loaded: Mutex<Vec<Loaded>>,
}

struct Loaded {
    slot: SlotName,
    name: String,
    contents: Digest,
    policy: Arc<LoadedPolicy>,
}

impl std::fmt::Debug for Candidates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Candidates").field("links", &self.links).finish_non_exhaustive()
    }
}

impl Candidates {
    /// The candidates of this folder. `host` runs them: one of its own, with a state folder of its own,
    /// so that nothing is written into the one that is shown.
    #[must_use]
    pub fn new(folder: Dir, host: Host) -> Self {
        Self { folder, host, links: BTreeMap::new(), loaded: Mutex::default() }
    }

    /// The file of this name has the settings, grants and limits of that link.
    #[must_use]
    pub fn with_link(mut self, name: &str, link: &Link) -> Self {
        self.links.insert(name.to_owned(), link.clone());
        self
    }

    /// The names of the files, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let failed = |source| Error::Candidates { what: "its files cannot be listed".to_owned(), source };
        let mut names = Vec::new();
        for entry in self.folder.entries().map_err(failed)? {
            let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
            if ENDS.iter().any(|end| name.ends_with(end)) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.truncate(MAX_FILES);
        Ok(names)
    }

    /// Puts a recorded question to the file of this name, on a thread of the runtime that may wait. In words why it
    /// cannot be put.
    pub(crate) fn ask(&self, record: &DecisionRecord, name: &str) -> Result<Result<Replay, String>, Error> {
        if !self.names()?.iter().any(|known| known == name) {
            return Err(Error::Unknown { what: "policy file", name: name.to_owned() });
        }
        let Some(mut loaded) = self.loaded.try_lock_for(MAX_WAIT) else {
            return Ok(Err("another question is being put; try again in a moment".to_owned()));
        };
        let policy = match self.load(&mut loaded, record.slot, name)? {
            Ok(policy) => policy,
            Err(why) => return Ok(Err(why)),
        };
        let replayed = Handle::current().block_on(self.host.replay(record, &ReplayAgainst::Policy(policy)));
        Ok(replayed.map_err(|error| with_causes(&error)))
    }

    fn load(
        &self,
        loaded: &mut Vec<Loaded>,
        slot: SlotName,
        name: &str,
    ) -> Result<Result<Arc<LoadedPolicy>, String>, Error> {
        let bytes = read_bounded(&self.folder, name, MAX_FILE_BYTES)
            .map_err(|source| Error::Candidates { what: format!("{name} cannot be read"), source })?;
        let contents = Digest::of(&bytes);
        if let Some(position) =
            loaded.iter().position(|known| known.slot == slot && known.name == name && known.contents == contents)
        {
            let known = loaded.remove(position);
            let policy = Arc::clone(&known.policy);
            loaded.push(known);
            return Ok(Ok(policy));
        }
        let mut link = Link::contents(Path::new(name), bytes);
        if let Some(configured) = self.links.get(name) {
            link.settings = configured.settings.clone();
            link.grants = configured.grants.clone();
            link.limits = configured.limits.clone();
            link.on_failure = configured.on_failure;
        }
        match self.host.load(slot, &link) {
            Ok(policy) => {
                loaded.push(Loaded { slot, name: name.to_owned(), contents, policy: Arc::clone(&policy) });
                if loaded.len() > MAX_LOADED {
                    loaded.remove(0);
                }
                Ok(Ok(policy))
            }
            Err(error) => Ok(Err(with_causes(&error))),
        }
    }
}
