//! Every file that the user names is opened here, and none is read without a bound.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use windlass_inspect::failure::Failure;

/// A file named on the command line or in the configuration, read whole; `-` is standard input. Longer than `limit` bytes
/// is an error.
pub(crate) fn read_bounded(path: &Path, what: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    if path.as_os_str() == "-" {
        return read_stdin(what, limit);
    }
    let wrong = |error: std::io::Error| {
        let failure = Failure::usage(format!("cannot read {what}")).at(path.display().to_string());
        match path.to_str().is_some_and(|path| path.contains("://")) {
            true => failure
                .because("it is a URL, and a file is needed")
                .remedy("fetch it first; `windlass policy pull` does so with an oci:// reference"),
            false => failure.because(error.to_string()),
        }
    };
    windlass_process::read_bounded(path, limit).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => {
            Failure::usage(format!("{what} must be a file, but is a directory")).at(path.display().to_string())
        }
        io::ErrorKind::FileTooLarge => too_large(what, limit).at(path.display().to_string()),
        _ => wrong(error),
    })
}

fn too_large(what: &str, limit: u64) -> Failure {
    Failure::usage(format!("{what} is larger than {limit} bytes"))
}

/// As [`read_bounded`], for text.
pub(crate) fn read_text(path: &Path, what: &str, limit: u64) -> Result<String, Failure> {
    windlass_process::text_of(read_bounded(path, what, limit)?)
        .map_err(|error| Failure::usage(format!("cannot read {what}: {error}")).at(path.display().to_string()))
}

/// Standard input, whole, up to `limit` bytes.
pub(crate) fn read_stdin(what: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    windlass_process::read_to_limit(io::stdin().lock(), limit).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(what, limit).at("stdin"),
        _ => Failure::usage(format!("cannot read {what}")).at("stdin").because(error.to_string()),
    })
}

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and writing fails, also where it appeared meanwhile.
    Keep,
    Replace,
}

/// A file that a command writes, by its option.
pub(crate) struct ResultFile<'p> {
    pub(crate) option: &'static str,
    pub(crate) path: Option<&'p Path>,
    /// How it begins, if only an earlier one of its kind may be replaced.
    pub(crate) beginning: &'static str,
}

impl<'p> ResultFile<'p> {
    pub(crate) fn new(option: &'static str, path: &'p Option<PathBuf>) -> Self {
        Self { option, path: path.as_deref(), beginning: "" }
    }

    /// A report, which replaces nothing but a report.
    pub(crate) fn html(path: &'p Option<PathBuf>) -> Self {
        Self { beginning: "<!DOCTYPE html>", ..Self::new("--html", path) }
    }

    /// The same.
    pub(crate) fn junit(path: &'p Option<PathBuf>) -> Self {
        Self { beginning: "<?xml", ..Self::new("--junit", path) }
    }
}

/// Refuses results that would be written over a file that the command reads, over one another, or over a file of
/// another kind.
pub(crate) fn refuse_overwriting<'p>(results: &[ResultFile<'p>], mut used: Vec<&'p Path>) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for ResultFile { option, path, beginning } in results {
        let Some(path) = *path else { continue };
        if used.iter().any(|other| is_same(path, other)) {
            wrong.push(format!(
                "{option} {}: the command reads this file, or writes another result to it",
                path.display()
            ));
        } else if begins_otherwise(path, beginning).unwrap_or(false) {
            wrong.push(format!("{option} {}: this file is there, and is no earlier report", path.display()));
        }
        used.push(path);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let failure =
        Failure::usage("a result would overwrite another file; nothing was written").remedy("name another file");
    Err(wrong.into_iter().fold(failure, Failure::because))
}

/// Whether there is a file that does not begin so. An empty one is nobody's loss.
fn begins_otherwise(path: &Path, beginning: &str) -> Option<bool> {
    let name = path.file_name()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
    // A pipe must not be read.
    folder.metadata(name).ok().filter(|found| found.is_file())?;
    let mut found = Vec::new();
    folder.open(name).ok()?.take(beginning.len() as u64).read_to_end(&mut found).ok()?;
    Some(!found.is_empty() && found != beginning.as_bytes())
}

/// Whether both name one file.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Removes a file, where it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match Dir::open_ambient_dir(folder, ambient_authority()).and_then(|folder| folder.remove_file(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file for its user alone, whole or not at all, and its folders where they are missing.
pub(crate) fn write_atomically(path: &Path, content: &[u8], existing: Existing) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Dir::create_ambient_dir_all(folder, ambient_authority())?;
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    let temporary = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = folder.open_with(&temporary, &options)?;
    let placed = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| match existing {
        Existing::Replace => folder.rename(&temporary, &folder, name),
        // A link, unlike a rename, replaces nothing.
        Existing::Keep => folder.hard_link(&temporary, &folder, name),
    });
    if placed.is_err() || existing == Existing::Keep {
        // It is not what was to be written, whether it goes or stays.
        let _ = folder.remove_file(&temporary);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_its_bound_is_refused_and_one_at_it_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, b"12345").expect("written");
        assert_eq!(read_bounded(&path, "the file", 5).expect("read"), b"12345");
        let failure = read_bounded(&path, "the file", 4).expect_err("too large");
        assert_eq!(failure.message, "the file is larger than 4 bytes");
    }

    #[test]
    fn a_missing_file_or_a_directory_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = directory.path().join("missing");
        let failure = read_bounded(&missing, "the configuration", 9).expect_err("missing");
        assert_eq!(failure.place.as_deref(), missing.to_str());
        assert!(read_bounded(directory.path(), "the configuration", 9).is_err());
    }

    #[test]
    fn a_file_is_written_whole_for_its_user_alone_and_replaces_another_only_when_told_to() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b/config.toml");
        write_atomically(&path, b"one", Existing::Keep).expect("written");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let refused = write_atomically(&path, b"two", Existing::Keep).expect_err("it is there");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("there"), b"one");
        write_atomically(&path, b"three", Existing::Replace).expect("replaced");
        assert_eq!(std::fs::read(&path).expect("there"), b"three");
        let names: Vec<_> = std::fs::read_dir(directory.path().join("a/b")).expect("there").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}
