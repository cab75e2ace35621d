//! The tools that make components of scripts: pinned by version and digest, installed once for this user by npm or pip,
//! used without a network from then on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_distribution::files;
use windlass_policy::Digest;

use crate::Error;
use crate::shape::Dialect;

const JAVASCRIPT: [(&str, &str); 3] = [
    ("package.json", include_str!("../toolchains/javascript/package.json")),
    ("package-lock.json", include_str!("../toolchains/javascript/package-lock.json")),
    ("build.mjs", include_str!("../toolchains/javascript/build.mjs")),
];
const PYTHON: [(&str, &str); 1] = [("requirements.txt", include_str!("../toolchains/python/requirements.txt"))];

/// Where a toolchain keeps what was built, and the size to which that is cut.
const BUILT: &str = "built";
const MAX_BUILT_BYTES: u64 = 512 << 20;

/// How many characters of the digest of what is pinned name the folder of a toolchain.
const DIGEST_CHARACTERS: usize = 16;

/// A toolchain that is installed.
pub(crate) struct Toolchain {
    pub(crate) folder: PathBuf,
}

impl Toolchain {
    /// The toolchain of this language, from the user's cache; installed there first where it is missing. `notice` gets
    /// a line before that.
    pub(crate) fn of(dialect: Dialect, notice: &dyn Fn(&str)) -> Result<Toolchain, Error> {
        let files: &[(&str, &str)] = match dialect {
            Dialect::JavaScript => &JAVASCRIPT,
            Dialect::Python => &PYTHON,
        };
        let (name, installer) = match dialect {
            Dialect::JavaScript => ("javascript", "npm"),
            Dialect::Python => ("python", "pip"),
        };
        let pinned: String = files.iter().map(|(place, text)| format!("{place}\n{text}\n")).collect();
        let digest = Digest::of(pinned.as_bytes()).to_string();
        let digest: String = digest.chars().filter(char::is_ascii_hexdigit).take(DIGEST_CHARACTERS).collect();
        let cache = cache_folder()?;
        let folder = cache.join(format!("{name}-{digest}"));
        if folder.is_dir() {
            return Ok(Toolchain { folder });
        }
        notice(&format!(
            "installing the {name} toolchain with {installer}, once, into {}; builds need no network from then on",
            folder.display()
        ));
        // Made under another name and renamed when it is whole: what stands at its place is never half of it.
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        Dir::create_ambient_dir_all(&cache, ambient_authority()).map_err(failed(&cache))?;
        let making = tempfile::Builder::new().prefix(".installing-").tempdir_in(&cache).map_err(failed(&cache))?;
        let dir = Dir::open_ambient_dir(making.path(), ambient_authority()).map_err(failed(making.path()))?;
        for (place, text) in files {
            dir.write(place, text).map_err(failed(&making.path().join(place)))?;
        }
        install(dialect, making.path())?;
        match std::fs::rename(making.path(), &folder) {
            // Another build was quicker.
            Err(_) if folder.is_dir() => {}
            renamed => renamed.map_err(failed(&folder))?,
        }
        Ok(Toolchain { folder })
    }

    /// Where the component of these sources is kept.
    pub(crate) fn built(&self, digest: &str) -> PathBuf {
        self.folder.join(BUILT).join(format!("{digest}.wasm"))
    }

    /// Keeps a component, and few others. Where that fails, the next build takes its time.
    pub(crate) fn keep(&self, component: &Path, built: &Path) {
        let keep = || -> std::io::Result<()> {
            let bytes = std::fs::read(component)?;
            let folder = files::private_folder(&Dir::open_ambient_dir(&self.folder, ambient_authority())?, BUILT)?;
            if let Some(name) = built.file_name().and_then(|name| name.to_str()) {
                files::write_atomically(&folder, name, &bytes)?;
            }
            files::cut_to(&folder, MAX_BUILT_BYTES, |_| (), |name| files::remove(&folder, name).map(|()| true))
        };
        let _ = keep();
    }
}

/// `$XDG_CACHE_HOME/windlass/toolchains`, or below `~/.cache`.
fn cache_folder() -> Result<PathBuf, Error> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or_else(|| Error::Toolchain {
        problem: "there is no place for it: neither XDG_CACHE_HOME nor HOME is set".into(),
        remedy: "set one of them",
    })?;
    Ok(cache.join("windlass/toolchains"))
}

fn install(dialect: Dialect, folder: &Path) -> Result<(), Error> {
    let command = match dialect {
        Dialect::JavaScript => {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]);
            npm
        }
        Dialect::Python => {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
            pip.args(["--require-hashes", "--only-binary", ":all:", "--no-deps"]);
            pip.args(["--target", "packages", "--requirement", "requirements.txt"]);
            pip
        }
    };
    let output = run(command, folder)?;
    if output.status.success() {
        return Ok(());
    }
    let remedy = match dialect {
        Dialect::JavaScript => "npm must reach its registry once, or have these packages in its cache",
        Dialect::Python => "python3 needs pip (Debian's package is python3-pip), and pip must reach its index once",
    };
    Err(Error::Toolchain { problem: messages(&output), remedy })
}

/// Node, with a script of the toolchain's.
pub(crate) fn node(script: &Path) -> Command {
    let mut node = Command::new("node");
    node.arg(script);
    node
}

/// componentize-py as pip put it there, run by Python itself: its own starter names the Python that installed it.
pub(crate) fn componentize_py(toolchain: &Toolchain) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", "import sys; from componentize_py import script; sys.exit(script())"]);
    python.env("PYTHONPATH", toolchain.folder.join("packages"));
    python
}

/// Runs a tool. The error for a missing tool says where to get it.
pub(crate) fn run(mut command: Command, folder: &Path) -> Result<Output, Error> {
    let program = command.get_program().to_owned();
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    output.map_err(|error| Error::Toolchain {
        problem: format!("cannot run `{}`: {error}", program.display()),
        remedy: remedy_for(&program),
    })
}

fn remedy_for(program: &OsStr) -> &'static str {
    if program == "python3" {
        "install Python 3.10 or newer with pip: https://www.python.org"
    } else {
        "install Node.js 20 or newer, which brings npm: https://nodejs.org"
    }
}

/// What a tool said, its errors first.
pub(crate) fn messages(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match text(&output.stderr) {
        said if said.is_empty() => text(&output.stdout),
        said => said,
    }
}
