//! What a run takes to the host: a tar archive of scripts, files and secrets.

use std::collections::BTreeMap;
use std::io;

const RUN: &str = include_str!("run.bash");
const STOP: &str = include_str!("stop.bash");
const ASKPASS: &str = "#!/bin/sh\nexec cat \"$(dirname \"$0\")/sudo-password\"\n";

/// What a run takes along.
pub(super) struct Contents {
    /// The operator's files.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The operator's secrets.
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
    /// The password of the user, for `sudo -A`.
    pub(super) sudo_password: Option<String>,
    /// Variables of the script, beside those that say where its files are.
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Contents {
    /// The archive. Everything in it is its user's alone.
    pub(super) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut add = |path: String, mode: u32, content: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(mode);
            header.set_entry_type(tar::EntryType::Regular);
            archive.append_data(&mut header, path, content)
        };
        add("run".to_owned(), 0o600, RUN.as_bytes())?;
        add("stop".to_owned(), 0o600, STOP.as_bytes())?;
        add("environment".to_owned(), 0o600, self.variables().as_bytes())?;
        if let Some(password) = &self.sudo_password {
            add("sudo-password".to_owned(), 0o600, format!("{password}\n").as_bytes())?;
            add("askpass".to_owned(), 0o700, ASKPASS.as_bytes())?;
        }
        for (name, content) in &self.files {
            add(format!("files/{name}"), 0o700, content)?;
        }
        for (name, content) in &self.secrets {
            add(format!("secrets/{name}"), 0o600, content)?;
        }
        archive.into_inner()
    }

    /// The variables, for a shell.
    fn variables(&self) -> String {
        // They are read in the run's folder.
        let mut lines: String = [("WINDLASS_FILES", "files"), ("WINDLASS_SECRETS", "secrets")]
            .map(|(name, folder)| format!("export {name}=\"$PWD/{folder}\"\n"))
            .concat();
        if self.sudo_password.is_some() {
            lines.push_str("export SUDO_ASKPASS=\"$PWD/askpass\"\n");
        }
        for (name, value) in &self.environment {
            lines.push_str(&format!("export {name}='{}'\n", value.replace('\'', r"'\''")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_archive_holds_everything_and_nobody_else_may_read_it() {
        let contents = Contents {
            files: BTreeMap::from([("setup.sh".to_owned(), b"true".to_vec())]),
            secrets: BTreeMap::from([("token".to_owned(), b"s3cret".to_vec())]),
            sudo_password: Some("pass word".to_owned()),
            environment: vec![("WINDLASS_SCRIPT", "it's".to_owned())],
        };
        let archive = contents.archive().unwrap();
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mode = entry.header().mode().unwrap();
            assert_eq!(mode & 0o077, 0, "{:?}", entry.path().unwrap());
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            found.insert(entry.path().unwrap().display().to_string(), content);
        }
        assert_eq!(found["files/setup.sh"], "true");
        assert_eq!(found["secrets/token"], "s3cret");
        assert_eq!(found["sudo-password"], "pass word\n");
        assert!(found["environment"].ends_with("export WINDLASS_SCRIPT='it'\\''s'\n"), "{}", found["environment"]);
        // The password stands in its own file alone.
        assert_eq!(found.values().filter(|content| content.contains("pass word")).count(), 1);
    }
}
