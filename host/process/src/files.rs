//! Files that a user names, read whole and never beyond a limit.

use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::File;

/// Reads a file. The user's word is the authority for it, so a link that leads elsewhere (a dotfile manager's, a mounted
/// Secret's) is followed, and a pipe of the shell (`<(...)`) is read.
///
/// # Errors
/// When it cannot be read, is a directory, or is larger than `max_bytes`.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open_ambient(path, ambient_authority())?;
    if file.metadata()?.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    read_to_limit(file, max_bytes)
}

/// As [`read_bounded`], for text.
///
/// # Errors
/// As there and as [`text_of`].
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    text_of(read_bounded(path, max_bytes)?)
}

/// The text that these bytes are.
///
/// # Errors
/// [`ErrorKind::InvalidData`] with the line where they are not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let right = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = right.filter(|byte| **byte == b'\n').count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line}: it is not UTF-8 text"))
    })
}

/// Reads everything.
///
/// # Errors
/// When it cannot be read, and [`ErrorKind::FileTooLarge`] when there is more than `max_bytes`.
pub fn read_to_limit(reader: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {max_bytes} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_its_limit_is_read_and_a_larger_one_is_said_to_be_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // The limit cuts the last character in two.
        std::fs::write(&path, "1234é").unwrap();
        assert_eq!(read_text(&path, 6).unwrap(), "1234é");
        assert_eq!(read_text(&path, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
        std::fs::write(&path, b"123\n\xff").unwrap();
        assert_eq!(read_text(&path, 6).unwrap_err().to_string(), "line 2: it is not UTF-8 text");
        assert_eq!(read_bounded(&path, 5).unwrap(), b"123\n\xff");
        assert_eq!(read_bounded(folder.path(), 5).unwrap_err().to_string(), "it is a directory");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_file_elsewhere_is_followed() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(there.path().join("target"), b"x").unwrap();
        std::os::unix::fs::symlink(there.path().join("target"), here.path().join("link")).unwrap();
        assert_eq!(read_bounded(&here.path().join("link"), 9).unwrap(), b"x");
    }
}
