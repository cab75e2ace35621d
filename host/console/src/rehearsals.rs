//! Rehearsals that were saved in the state directory. How one is shown is for those to say who know what it is.

use std::io::{self, Read as _};

use cap_std::fs::Dir;
use maud::Markup;

use crate::Error;

/// Where they are in a state directory.
const FOLDER: &str = "rehearsals";
/// How their names end.
const ENDING: &str = ".json";
/// How many are listed.
const MAX_LISTED: usize = 200;
/// The largest one.
const MAX_BYTES: u64 = 64 << 20;

/// What a page shows of a saved rehearsal, or why it cannot be shown.
pub type ShowRehearsal = fn(&str) -> Result<Markup, String>;

/// The names of those that there are, the newest first: names begin with the time.
pub(crate) fn names(state: &Dir) -> Result<Vec<String>, Error> {
    let failed = |source| Error::File { what: "the folder of rehearsals", path: FOLDER.into(), source };
    let entries = match state.read_dir(FOLDER) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        names.extend(
            name.to_str().and_then(|name| name.strip_suffix(ENDING)).filter(|it| is_name(it)).map(str::to_owned),
        );
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.truncate(MAX_LISTED);
    Ok(names)
}

/// The one with this name.
pub(crate) fn read(state: &Dir, name: &str) -> Result<String, Error> {
    let unknown = || Error::Unknown { what: "rehearsal", name: name.to_owned() };
    if !is_name(name) {
        return Err(unknown());
    }
    let file = format!("{FOLDER}/{name}{ENDING}");
    let mut text = String::new();
    let read = state.open(&file).and_then(|opened| opened.take(MAX_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown()),
        Err(source) => Err(Error::File { what: "a rehearsal", path: file.into(), source }),
    }
}

/// As they are saved: nothing that leads out of the folder.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-')
}
