//! Rehearsals that were saved in the state directory. How one is shown is for those to say who know what it is.

use std::io::{self, Read as _};

use cap_std::fs::{Dir, ReadDir};
use maud::Markup;
use windlass_distribution::files;

use crate::Error;

/// Where they are in a state directory.
const FOLDER: &str = "rehearsals";
/// How their names end.
const ENDING: &str = ".json";
/// How many are kept: the newest.
const MAX_KEPT: usize = 200;
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
    let mut names = sorted(entries).map_err(failed)?;
    names.truncate(MAX_KEPT);
    Ok(names)
}

/// The names, the newest first.
fn sorted(entries: ReadDir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(
            name.to_str().and_then(|name| name.strip_suffix(ENDING)).filter(|it| is_name(it)).map(str::to_owned),
        );
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

/// Saves a rehearsal in a state directory, and removes the oldest ones beyond 200. Names must begin with the time, and
/// have only letters, digits and dashes.
///
/// # Errors
/// The state directory cannot be written.
pub fn save_rehearsal(state: &Dir, name: &str, saved: &str) -> io::Result<()> {
    let folder = files::private_folder(state, FOLDER)?;
    files::write_atomically(&folder, &format!("{name}{ENDING}"), saved.as_bytes())?;
    let names = sorted(folder.entries()?)?;
    names.iter().skip(MAX_KEPT).try_for_each(|old| files::remove(&folder, format!("{old}{ENDING}")))
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

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn the_newest_rehearsals_are_kept_and_nothing_else_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        state.create_dir(FOLDER).unwrap();
        state.write(format!("{FOLDER}/notes of mine.json"), "{}").unwrap();
        for number in 0..MAX_KEPT + 2 {
            save_rehearsal(&state, &format!("2026-{number:04}"), "{}").unwrap();
        }
        let names = names(&state).unwrap();
        assert_eq!(
            (names.len(), names[0].as_str(), names[MAX_KEPT - 1].as_str()),
            (MAX_KEPT, "2026-0201", "2026-0002")
        );
        assert_eq!(read(&state, "2026-0002").unwrap(), "{}");
        assert!(state.exists(format!("{FOLDER}/notes of mine.json")));
    }
}
