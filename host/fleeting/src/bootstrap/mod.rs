//! `bootstrap <repository>`: the binary installs itself into the runner's plugin folder. A runner's image is built from
//! plugin images that way, so folder names are fleeting's own (module path, escaped).

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _, PermissionsExt as _};

/// Where plugins live, unless the environment says otherwise.
const DEFAULT_PLUGIN_PATH: &str = "/plugins";
/// Names another folder.
const PLUGIN_PATH_VARIABLE: &str = "FLEETING_PLUGIN_PATH";
/// Put before a bare name.
const DEFAULT_REGISTRY: &str = "registry.gitlab.com";
/// Put before a bare name.
const DEFAULT_NAMESPACE: &str = "gitlab-org/fleeting/plugins";

/// Why the plugin was not installed.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// No repository was named.
    #[error(
        "bootstrap needs the path of the plugin's repository, for example \
         registry.gitlab.com/gitlab-org/fleeting/plugins/scaleway"
    )]
    NoRepository,
    /// The folder for plugins is missing.
    #[error("plugin directory {} doesn't exist: make it, or name another one in {PLUGIN_PATH_VARIABLE}", .0.display())]
    NoPluginDirectory(PathBuf),
    /// The repository cannot be a folder's name.
    #[error("{repository:?} is not a repository path: {reason}")]
    Repository {
        /// As it was given.
        repository: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Files {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// Where `repository` would be installed, relative to the plugin folder.
///
/// # Errors
/// When the name is empty or cannot be a path of folders.
pub(crate) fn plugin_folder(repository: &str, version: &str) -> Result<PathBuf, BootstrapError> {
    if repository.is_empty() {
        return Err(BootstrapError::NoRepository);
    }
    let refuse = |reason| BootstrapError::Repository { repository: repository.to_owned(), reason };
    let full = match repository.split_once('/') {
        None => format!("{DEFAULT_REGISTRY}/{DEFAULT_NAMESPACE}/{repository}"),
        Some((first, _)) if !first.contains('.') => format!("{DEFAULT_REGISTRY}/{repository}"),
        Some(_) => repository.to_owned(),
    };
    // The binary's own version counts, not one that is asked for.
    let without_tag = match full.rsplit_once('/') {
        Some((parent, name)) => format!("{parent}/{}", name.split(':').next().unwrap_or(name)),
        None => full,
    };
    let mut escaped = String::new();
    for part in without_tag.split('/') {
        if part.is_empty() || part == "." || part == ".." || part.starts_with('-') {
            return Err(refuse("a part of it is empty, a dot name, or begins with a dash"));
        }
    }
    for character in without_tag.chars() {
        match character {
            // Go's module escaping, for file systems that do not tell letters' cases apart.
            'A'..='Z' => {
                escaped.push('!');
                escaped.push(character.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' | '-' | '.' | '_' | '~' | '/' => escaped.push(character),
            _ => return Err(refuse("it holds a character other than letters, digits and -._~/")),
        }
    }
    Ok(Path::new(&escaped).join(version))
}

/// Copies the folder of the running binary to the plugin folder and answers where to. Does nothing where it is already.
/// The copy becomes visible in one piece: it is made beside the place and renamed.
///
/// # Errors
/// See [`BootstrapError`].
pub fn bootstrap(repository: &str, version: &str) -> Result<PathBuf, BootstrapError> {
    let root = std::env::var_os(PLUGIN_PATH_VARIABLE)
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_PLUGIN_PATH), PathBuf::from);
    let binary = std::env::current_exe().map_err(|source| BootstrapError::Files {
        action: "find",
        path: PathBuf::from("this binary"),
        source,
    })?;
    let source = binary.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    install(&source, &root, &plugin_folder(repository, version)?)
}

/// Copies the files in `source` to `root/folder`.
fn install(source: &Path, root: &Path, folder: &Path) -> Result<PathBuf, BootstrapError> {
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |source| BootstrapError::Files { action, path, source }
    };
    let place = root.join(folder);
    let plugins = match Dir::open_ambient_dir(root, ambient_authority()) {
        Ok(plugins) => plugins,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BootstrapError::NoPluginDirectory(root.to_path_buf()));
        }
        Err(error) => return Err(failed("open", root)(error)),
    };
    if plugins.exists(folder) {
        return Ok(place);
    }
    let files = Dir::open_ambient_dir(source, ambient_authority()).map_err(failed("open", source))?;
    let parent = folder.parent().unwrap_or(Path::new("."));
    plugins.create_dir_all(parent).map_err(failed("make", &root.join(parent)))?;
    let temporary = PathBuf::from(format!(".plugin-{}", std::process::id()));
    let made = copy_files(&files, source, &plugins, &temporary)
        .and_then(|()| plugins.rename(&temporary, &plugins, folder).map_err(failed("rename the copy to", &place)));
    match made {
        Ok(()) => Ok(place),
        Err(error) => {
            let _ = plugins.remove_dir_all(&temporary);
            // Another process may have been quicker; then the plugin is there all the same.
            if plugins.exists(folder) { Ok(place) } else { Err(error) }
        }
    }
}

/// Copies regular files with their permissions, without folders below.
fn copy_files(files: &Dir, source: &Path, plugins: &Dir, temporary: &Path) -> Result<(), BootstrapError> {
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |source| BootstrapError::Files { action, path, source }
    };
    plugins.create_dir(temporary).map_err(failed("make", temporary))?;
    let copy = plugins.open_dir(temporary).map_err(failed("open", temporary))?;
    for entry in files.entries().map_err(failed("list", source))? {
        let entry = entry.map_err(failed("list", source))?;
        let name = entry.file_name();
        let path = source.join(&name);
        let metadata = entry.metadata().map_err(failed("look at", &path))?;
        if !metadata.is_file() {
            continue;
        }
        let mut from = entry.open().map_err(failed("open", &path))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(metadata.permissions().mode() & 0o777);
        let mut to = copy.open_with(&name, &options).map_err(failed("write", &path))?;
        io::copy(&mut from, &mut to).map_err(failed("copy", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn names_become_folders_as_fleeting_makes_them() {
        for (repository, folder) in [
            ("scaleway", "registry.gitlab.com/gitlab-org/fleeting/plugins/scaleway/1.2.3"),
            ("team/scaleway:latest", "registry.gitlab.com/team/scaleway/1.2.3"),
            ("ghcr.io/Windlass/scaleway:0.9", "ghcr.io/!windlass/scaleway/1.2.3"),
        ] {
            assert_eq!(plugin_folder(repository, "1.2.3").unwrap(), Path::new(folder));
        }
    }

    #[test]
    fn a_name_that_leaves_the_plugin_folder_is_refused() {
        for repository in ["../../etc", "a.b/../c", "a.b//c", "/etc/x", "a.b/c d"] {
            assert!(plugin_folder(repository, "1.0.0").is_err(), "{repository}");
        }
    }

    #[test]
    fn a_missing_name_says_what_is_expected() {
        assert!(
            plugin_folder("", "1.0.0").unwrap_err().to_string().starts_with("bootstrap needs the path of the plugin")
        );
    }

    #[test]
    fn files_are_copied_once_with_their_permissions_and_nothing_else_is_left() {
        let source = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("plugin"), "first").unwrap();
        std::fs::set_permissions(source.path().join("plugin"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(source.path().join("below")).unwrap();
        let folder = Path::new("registry/x/1.0.0");

        let place = install(source.path(), root.path(), folder).unwrap();
        assert_eq!(place, root.path().join(folder));
        let installed = place.join("plugin");
        assert_eq!(std::fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);

        std::fs::write(source.path().join("plugin"), "second").unwrap();
        install(source.path(), root.path(), folder).unwrap();
        assert_eq!(std::fs::read_to_string(installed).unwrap(), "first");
    }

    #[test]
    fn a_missing_plugin_folder_is_named() {
        let source = tempfile::tempdir().unwrap();
        let error = install(source.path(), Path::new("/nonexistent/plugins"), Path::new("x/1")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/plugins doesn't exist"), "{error}");
    }
}
