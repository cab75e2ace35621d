//! Inputs as files.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

/// An input and its file's name.
pub(crate) type Named = (String, Vec<u8>);

/// The inputs of a folder, in the order of their names.
pub(crate) fn read(folder: &Path) -> Vec<Named> {
    let files = || -> std::io::Result<Vec<Named>> {
        fs::read_dir(folder)?
            .map(|entry| {
                let entry = entry?;
                Ok((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?))
            })
            .collect()
    };
    let mut corpus = files().unwrap_or_else(|error| panic!("the corpus {}: {error}", folder.display()));
    corpus.sort();
    corpus
}

/// A name that the same input always has.
pub(crate) fn name_of(input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Writes a finding to a file, and says where it is.
pub(crate) fn keep(findings: &Path, input: &[u8]) {
    let file = findings.join(name_of(input));
    match fs::create_dir_all(findings).and_then(|()| fs::write(&file, input)) {
        Ok(()) => eprintln!("FOUND {}: b\"{}\"", file.display(), input[..input.len().min(2_000)].escape_ascii()),
        Err(error) => {
            eprintln!("FOUND, but {} cannot be written ({error}): b\"{}\"", file.display(), input.escape_ascii())
        }
    }
}
