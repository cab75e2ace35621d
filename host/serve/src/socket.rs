//! The socket's file: made, guarded against a second server, removed.

use std::fs::TryLockError;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileTypeExt as _, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, Mode, chmodat};
use tokio::net::{UnixListener, UnixStream};

use crate::error::Error;

/// The longest path of a socket on Linux, in bytes, without its terminating zero.
const MAX_PATH_BYTES: usize = 107;
/// How long it is waited whether somebody listens who isn't one of us.
const PROBE: Duration = Duration::from_secs(2);

/// A socket that is listened on. Its file goes with it.
#[derive(Debug)]
pub struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    folder: Dir,
    name: PathBuf,
    /// What tells the file from one that took its place.
    made: Option<(u64, u64)>,
    /// Held for as long as the socket is served.
    _lock: std::fs::File,
}

impl Socket {
    /// Listens on this path. `mode` are the rights on the file: 0o600 lets only the own user connect, 0o666 leaves it
    /// to [`ServeOptions::users`](crate::ServeOptions).
    ///
    /// A socket that a dead server has left is replaced; one on which somebody listens is not. Beside it lies a
    /// file `.lock`, which servers of Windlass hold locked, so that of two that start at the same time one is refused.
    ///
    /// # Errors
    /// Something else is there, or the system refuses.
    pub async fn listen(path: &Path, mode: u32) -> Result<Socket, Error> {
        if path.as_os_str().as_bytes().len() > MAX_PATH_BYTES {
            return Err(Error::LongPath { path: path.into(), most: MAX_PATH_BYTES });
        }
        let failed = |source| Error::Listen { path: path.into(), source };
        let name = PathBuf::from(path.file_name().ok_or_else(|| Error::NoName { path: path.into() })?);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        let lock = lock(&folder, &name).map_err(failed)?.ok_or_else(|| Error::InUse { path: path.into() })?;
        match folder.symlink_metadata(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(Error::NotASocket { path: path.into() });
            }
            Ok(_) if is_listened_on(path).await => return Err(Error::InUse { path: path.into() }),
            Ok(_) => folder.remove_file(&name).map_err(failed)?,
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let made = folder.symlink_metadata(&name).map_err(failed)?;
        // Who connects in between is asked for the user like everybody.
        let rights = chmodat(&folder, &name, Mode::from_raw_mode(mode), AtFlags::empty());
        rights.map_err(|error| failed(error.into()))?;
        let made = Some((made.dev(), made.ino()));
        Ok(Socket { listener, path: path.into(), folder, name, made, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let there = self.folder.symlink_metadata(&self.name).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        if there.is_some() && there == self.made {
            // Left behind it would be replaced by the next server.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

/// None: another server has it locked.
fn lock(folder: &Dir, name: &Path) -> io::Result<Option<std::fs::File>> {
    let mut file = name.as_os_str().to_owned();
    file.push(".lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = folder.open_with(file, &options)?.into_std();
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether anybody does. Unknown counts as yes.
async fn is_listened_on(path: &Path) -> bool {
    match tokio::time::timeout(PROBE, UnixStream::connect(path)).await {
        Ok(Err(error)) => !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound),
        Ok(Ok(_)) | Err(_) => true,
    }
}
