//! Files of a folder that several processes may share: bounded reads, atomic writes, private to their owner.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, File, FileType, FileTypeExt, Metadata, OpenOptions, OpenOptionsExt};
use rand::Rng;
use rustix::fs::OFlags;

/// The end of the name of a file that is being written.
const TEMPORARY: &str = ".tmp";

/// Opens a folder, which is made with access for its owner only.
pub fn private_folder(state: &Dir, name: &str) -> io::Result<Dir> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700).recursive(true);
    state.create_dir_with(name, &builder)?;
    state.open_dir(name)
}

/// Reads a file of at most so many bytes. What is no regular file is refused, and never waited for.
pub fn read_bounded(folder: &Dir, name: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let name = name.as_ref();
    // Opening a device can do something, so it is looked at before.
    let metadata = folder.metadata(name)?;
    if !metadata.is_file() {
        return Err(irregular(metadata.file_type()));
    }
    let (file, metadata) = open_regular(folder, name, OFlags::empty())?;
    if metadata.len() > most {
        return Err(too_large(metadata.len(), most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    // It may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64, most));
    }
    Ok(bytes)
}

/// Opens a file for reading, with more flags of the system's. A pipe that has taken its place meanwhile is not waited
/// for.
pub fn open_regular(folder: &Dir, name: &Path, flags: OFlags) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((flags | OFlags::NONBLOCK).bits().cast_signed());
    let file = folder.open_with(name, &options)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(irregular(metadata.file_type()));
    }
    Ok((file, metadata))
}

fn too_large(bytes: u64, most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {bytes} bytes, and at most {most} are allowed"))
}

/// Writes a file so that a reader finds either the old one or the whole new one, also after a crash.
pub fn write_atomically(folder: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = folder.open_with(&temporary, &options).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    let renamed = written.and_then(|()| folder.rename(&temporary, folder, name));
    if renamed.is_err() {
        let _ = folder.remove_file(&temporary);
    }
    renamed
}

/// A name that no other writer uses.
pub fn temporary_name(name: &str) -> String {
    format!(".{name}.{:016x}{TEMPORARY}", rand::rng().next_u64())
}

/// Has files removed until those that stay have at most so many bytes: the oldest of the group that has most bytes
/// goes first. `remove` returns whether a file is gone, or stays because somebody uses it.
pub fn cut_to<G: Ord>(
    folder: &Dir,
    most: u64,
    group: impl Fn(&OsStr) -> G,
    remove: impl Fn(&OsStr) -> io::Result<bool>,
) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in folder.entries()? {
        let entry = entry?;
        // Another process may remove it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            files.push((metadata.modified()?, metadata.len(), entry.file_name()));
        }
    }
    files.sort();
    let mut total = 0;
    // The bytes of each group, and its files that may be deleted, oldest first.
    let mut groups: BTreeMap<G, (u64, VecDeque<(u64, OsString)>)> = BTreeMap::new();
    for (_, bytes, name) in files {
        let (group_bytes, files) = groups.entry(group(&name)).or_default();
        total += bytes;
        *group_bytes += bytes;
        files.push_back((bytes, name));
    }
    while total > most {
        let may_shrink = groups.values_mut().filter(|(_, files)| !files.is_empty());
        let Some((group_bytes, files)) = may_shrink.max_by_key(|(bytes, _)| *bytes) else { break };
        let Some((bytes, name)) = files.pop_front() else { break };
        if remove(&name)? {
            total -= bytes;
            *group_bytes -= bytes;
        }
    }
    Ok(())
}

/// Removes a file. Another process may have done so.
pub fn remove(folder: &Dir, name: impl AsRef<Path>) -> io::Result<()> {
    match folder.remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What a file is that is no regular file.
fn irregular(file_type: FileType) -> io::Error {
    let what = if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a named pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_block_device() || file_type.is_char_device() {
        "a device"
    } else {
        "something else"
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}
