//! What the last sweep of each zone has found, kept in the state directory for whoever looks from outside:
//! `sweeps/ZONE.json`, replaced as a whole by the next one. Nothing depends on it.

use std::io;

use serde::{Deserialize, Serialize};
use windlass_distribution::files::{private_folder, read_bounded, write_atomically};
use windlass_scaleway::Zone;

use super::{Sweep, Unexplained};
use crate::{Error, StateDirectory};

const FOLDER: &str = "sweeps";
const END: &str = ".json";
/// Unexplained resources that are kept; how many there are is kept in any case.
const MAX_KEPT: usize = 200;
/// The longest file. Scaleway's names have at most a few hundred bytes.
const MAX_BYTES: u64 = 1 << 20;

/// What the last sweep of a zone has found and left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LastSweep {
    pub zone: String,
    /// When it ended, in milliseconds since 1970.
    pub at: u64,
    /// Whether it only looked.
    pub dry_run: bool,
    /// How many resources are ours and explained.
    pub explained: usize,
    /// How many are kept on purpose.
    pub kept: usize,
    /// How many are left alone since somebody abandoned their operation.
    #[serde(default)]
    pub abandoned: usize,
    /// How many unexplained ones it has removed.
    pub removed: usize,
    /// How many unexplained ones there are still.
    pub unexplained: usize,
    /// The first of them.
    pub examples: Vec<Unexplained>,
}

impl LastSweep {
    pub(super) fn of(zone: &Zone, at: u64, dry_run: bool, sweep: &Sweep) -> Self {
        let gone = sweep.gone();
        let left: Vec<&Unexplained> =
            sweep.unexplained.iter().filter(|unexplained| !gone.contains(&unexplained.resource)).collect();
        Self {
            zone: zone.to_string(),
            at,
            dry_run,
            explained: sweep.explained,
            kept: sweep.kept.len(),
            abandoned: sweep.abandoned.len(),
            removed: sweep.unexplained.len() - left.len(),
            unexplained: left.len(),
            examples: left.into_iter().take(MAX_KEPT).cloned().collect(),
        }
    }

    pub(super) fn write(&self, state: &StateDirectory) -> io::Result<()> {
        let folder = private_folder(state.handle(), FOLDER)?;
        write_atomically(&folder, &format!("{}{END}", self.zone), &serde_json::to_vec(self)?)
    }

    /// Those of this state directory, by zone. What cannot be read is passed over.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when the directory cannot be read.
    pub fn read(state: &StateDirectory) -> Result<Vec<Self>, Error> {
        let failed = |source| Error::StateDirectory { path: state.path().join(FOLDER), source };
        let folder = match state.handle().open_dir(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder.map_err(failed)?,
        };
        let mut sweeps: Vec<Self> = Vec::new();
        for entry in folder.entries().map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if !name.to_string_lossy().ends_with(END) {
                continue;
            }
            let read = read_bounded(&folder, &name, MAX_BYTES)
                .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other));
            match read {
                Ok(sweep) => sweeps.push(sweep),
                Err(error) => {
                    tracing::warn!(name = %name.to_string_lossy(), %error, "cannot read the stored result of a sweep")
                }
            }
        }
        sweeps.sort_by(|one, other| one.zone.cmp(&other.zone));
        Ok(sweeps)
    }
}
