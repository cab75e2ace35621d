use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_process::read_text;

use super::{ConfigurationError, Environment};

/// Largest configuration file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where the configuration file is, and who says so.
pub(super) struct ConfigPath {
    pub(super) path: PathBuf,
    pub(super) named_by: &'static str,
    /// A file in its usual place may be absent; one that was named may not.
    pub(super) must_exist: bool,
}

/// Scaleway's order (SDK): `SCW_CONFIG_PATH`, `$XDG_CONFIG_HOME/scw/config.yaml`, `$HOME/.config/scw/config.yaml`,
/// `$USERPROFILE/.config/scw/config.yaml`.
pub(super) fn config_path(explicit: Option<&Path>, environment: &Environment) -> Option<ConfigPath> {
    if let Some(path) = explicit {
        return Some(ConfigPath { path: path.to_owned(), named_by: "named by the given option", must_exist: true });
    }
    if let Some(path) = environment.get("SCW_CONFIG_PATH") {
        return Some(ConfigPath { path: path.into(), named_by: "named by SCW_CONFIG_PATH", must_exist: true });
    }
    let directory = match (environment.get("XDG_CONFIG_HOME"), environment.get("HOME"), environment.get("USERPROFILE"))
    {
        (Some(config), _, _) => PathBuf::from(config),
        (None, Some(home), _) | (None, None, Some(home)) => Path::new(home).join(".config"),
        (None, None, None) => return None,
    };
    Some(ConfigPath {
        path: directory.join("scw").join("config.yaml"),
        named_by: "where Scaleway's tools keep it",
        must_exist: false,
    })
}

/// Scaleway's configuration file: a profile at the top level, and named profiles. Keys that we don't use are ignored;
/// the file belongs to Scaleway's tools.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ConfigFile {
    #[serde(flatten)]
    pub(super) top_level: Profile,
    pub(super) active_profile: Option<String>,
    pub(super) profiles: Option<BTreeMap<String, Option<Profile>>>,
}

/// One profile. No `Debug`: it holds a secret.
#[derive(Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Profile {
    pub(super) access_key: Option<String>,
    pub(super) secret_key: Option<String>,
    pub(super) api_url: Option<String>,
    pub(super) insecure: Option<bool>,
    pub(super) default_organization_id: Option<String>,
    pub(super) default_project_id: Option<String>,
    pub(super) default_region: Option<String>,
    pub(super) default_zone: Option<String>,
    pub(super) user_agent: Option<String>,
}

/// Reads the file; `None` when it may be absent and is.
pub(super) fn read(place: &ConfigPath) -> Result<Option<ConfigFile>, ConfigurationError> {
    let text = match read_regular(&place.path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !place.must_exist => return Ok(None),
        Err(source) => {
            return Err(ConfigurationError::UnreadableFile {
                path: place.path.clone(),
                named_by: place.named_by,
                source,
            });
        }
    };
    if text.trim().is_empty() {
        return Ok(Some(ConfigFile::default()));
    }
    serde_norway::from_str(&text).map(Some).map_err(|error| ConfigurationError::InvalidFile {
        path: place.path.clone(),
        // The parser's own words can quote values, secrets among them: the place is enough.
        problem: match error.location() {
            Some(location) => {
                format!(
                    "not a Scaleway configuration (YAML) at line {}, column {}; the line is not shown, because it may \
                     hold a key",
                    location.line(),
                    location.column()
                )
            }
            None => "not a Scaleway configuration (YAML): every key of a profile takes one text, `insecure` true or \
                     false, and `profiles` holds profiles by name"
                .to_owned(),
        },
    })
}

/// Reads a file, whose links are followed. It is looked at before it is opened: opening a pipe would wait for its other
/// end.
fn read_regular(path: &Path) -> io::Result<String> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a directory: name the file in it, or move it away",
        ));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a file"));
    }
    read_text(path, MAX_FILE_BYTES)
}
