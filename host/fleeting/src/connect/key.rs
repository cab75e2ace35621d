//! The key pair of a group.
//!
//! Each server carries the public part as the tag `AUTHORIZED_KEY=...`, which cloud-init's Scaleway datasource takes as
//! one more authorized key (read in cloud-init's source). So no right on IAM is needed, no other server of the project
//! opens to the key, and nothing stays behind in the account.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _, PermissionsExt as _};

use super::openssh;

/// The private key's file in the state directory.
const FILE: &str = "ssh_key";
/// Larger than any private key, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;
/// Mode bits that would let others read the key.
const OTHERS: u32 = 0o077;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("the group's key {FILE} in the state directory cannot be {action}")]
    File {
        /// `read` or `written`.
        action: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// Others can read it.
    #[error("the group's key {FILE} in the state directory can be read by others (mode {mode:o}): chmod 600 it")]
    Mode {
        /// The mode found.
        mode: u32,
    },
    /// It is no private key.
    #[error(
        "the group's key {FILE} in the state directory is not an OpenSSH private key: remove it, and a new one is created"
    )]
    Format,
    /// None could be made.
    #[error("cannot create a key pair: this machine's random number generator failed")]
    Make,
}

/// A private key in PEM form, and the public part (`ssh-ed25519 AAAA...`) where it is known. Its `Debug` form shows
/// neither.
#[derive(Clone)]
pub(crate) struct KeyPair {
    private: Bytes,
    public: Option<String>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KeyPair([redacted])")
    }
}

impl KeyPair {
    /// The group's own pair: the one in the directory, or a new one that is put there with mode 0600.
    ///
    /// The caller holds the group's lock, so no two processes make one at a time.
    pub(crate) fn of_group(directory: &Dir) -> Result<Self, KeyError> {
        match directory.open(FILE) {
            Ok(file) => {
                let read = |source| KeyError::File { action: "read", source };
                let mode = file.metadata().map_err(read)?.permissions().mode() & 0o777;
                if mode & OTHERS != 0 {
                    return Err(KeyError::Mode { mode });
                }
                let mut pem = String::new();
                file.take(MAX_KEY_BYTES).read_to_string(&mut pem).map_err(read)?;
                let public = openssh::public_key(&pem).ok_or(KeyError::Format)?;
                Ok(Self { private: pem.into(), public: Some(public) })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let pem = openssh::new_private_key().map_err(|_| KeyError::Make)?;
                let public = openssh::public_key(&pem);
                let written = |source| KeyError::File { action: "written", source };
                let temporary = format!("{FILE}.new");
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(0o600);
                let mut file = directory.open_with(&temporary, &options).map_err(written)?;
                file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(written)?;
                directory.rename(&temporary, directory, FILE).map_err(written)?;
                Ok(Self { private: pem.into(), public })
            }
            Err(source) => Err(KeyError::File { action: "read", source }),
        }
    }

    /// A key that the operator configured. Its public part is known only when it has OpenSSH's own form; any other must
    /// already be among the project's keys.
    pub(crate) fn configured(private: Bytes) -> Self {
        let public = std::str::from_utf8(&private).ok().and_then(openssh::public_key);
        Self { private, public }
    }

    /// The private key in PEM form.
    pub(crate) fn private(&self) -> Bytes {
        self.private.clone()
    }

    /// The tag that gives a server the public key. It has no comment: cloud-init takes underscores for spaces.
    pub(crate) fn tag(&self) -> Option<String> {
        Some(format!("AUTHORIZED_KEY={}", self.public.as_ref()?.replace(' ', "_")))
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn directory() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, directory)
    }

    #[test]
    fn the_pair_is_made_once_with_mode_0600_and_found_again() {
        let (_folder, directory) = directory();
        let made = KeyPair::of_group(&directory).unwrap();
        let found = KeyPair::of_group(&directory).unwrap();
        assert_eq!(made.private, found.private);
        assert_eq!(made.tag(), found.tag());
        assert_eq!(directory.metadata(FILE).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(directory.entries().unwrap().count(), 1);
    }

    #[test]
    fn the_tag_is_what_cloud_init_reads() {
        let (_folder, directory) = directory();
        let tag = KeyPair::of_group(&directory).unwrap().tag().unwrap();
        let rest = tag.strip_prefix("AUTHORIZED_KEY=ssh-ed25519_").unwrap();
        // Exactly the key: a further underscore would begin a comment, a comma would split the tag's filter.
        assert!(!rest.contains(['_', ',', ' ']), "{tag}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let (_folder, directory) = directory();
        KeyPair::of_group(&directory).unwrap();
        directory.set_permissions(FILE, cap_std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(KeyPair::of_group(&directory), Err(KeyError::Mode { mode: 0o644 })));
    }

    #[test]
    fn a_corrupt_key_is_refused_and_not_replaced() {
        let (_folder, directory) = directory();
        KeyPair::of_group(&directory).unwrap();
        directory.write(FILE, "nonsense").unwrap();
        assert!(matches!(KeyPair::of_group(&directory), Err(KeyError::Format)));
        assert_eq!(directory.read_to_string(FILE).unwrap(), "nonsense");
    }

    #[test]
    fn a_configured_key_is_passed_on_as_it_is() {
        let (_folder, directory) = directory();
        let own = KeyPair::of_group(&directory).unwrap();
        let configured = KeyPair::configured(own.private());
        assert_eq!(configured.tag(), own.tag());
        let foreign = KeyPair::configured(Bytes::from_static(b"-----BEGIN RSA PRIVATE KEY-----"));
        assert_eq!(foreign.tag(), None);
        assert_eq!(foreign.private(), Bytes::from_static(b"-----BEGIN RSA PRIVATE KEY-----"));
    }
}
