//! Small helpers about files, addresses and words.

use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, PermissionsExt as _};

/// Who may read a file that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner alone, as OpenSSH asks of private keys.
    OwnerOnly,
    /// Anybody but strangers: others than owner and group.
    NotStrangers,
}

/// The content of a small secret file, through a handle on its folder.
pub(super) fn read_secret(path: &Path, longest: u64, readers: Readers) -> Result<Vec<u8>, String> {
    let name = path.file_name().ok_or("it is no file")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name may be a link to elsewhere, as Kubernetes mounts secrets: what the user named is what is opened.
    let folder = Dir::open_ambient_dir(folder, ambient_authority()).map_err(|error| error.to_string())?;
    let file = match folder.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            cap_std::fs::File::open_ambient(path, ambient_authority()).map_err(|error| error.to_string())?
        }
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mode = metadata.permissions().mode();
    let (forbidden, remedy) = match readers {
        Readers::OwnerOnly => (0o077, "chmod 600"),
        Readers::NotStrangers => (0o007, "chmod 640 or 600"),
    };
    if mode & forbidden != 0 {
        return Err(format!("others may open it (mode {:03o}): {remedy}", mode & 0o777));
    }
    windlass_process::read_to_limit(file, longest).map_err(|error| error.to_string())
}

/// `folder/path` without the `./` that people write, for words that people read.
pub(super) fn join(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path).components().filter(|component| !matches!(component, Component::CurDir)).collect()
}

pub(super) fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(domain)) => domain == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The beginning of a text for a line of words.
pub(super) fn first_line(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= longest && line.len() == text.trim_end().len() {
        line.to_owned()
    } else {
        format!("{}…", line.chars().take(longest).collect::<String>())
    }
}
