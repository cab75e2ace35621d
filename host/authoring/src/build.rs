//! A policy's folder becomes a component.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use windlass_guest_build::Build;

use crate::Error;
use crate::script::{JAVASCRIPT_MANIFEST, PYTHON_MANIFEST, Script};

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The package's name.
    pub package: String,
    /// Where the component is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Builds the policy in `folder`: a package in Rust (`Cargo.toml`), a script in JavaScript or TypeScript
/// (`package.json`) or in Python (`pyproject.toml`). The component becomes `out`, or `<package>.wasm` in the folder.
/// Rust's WebAssembly target is added where it is missing and rustup is there; what scripts are built with is installed
/// into the user's cache where it is missing, and `notice` gets a line that says so. Cargo's own words go to standard
/// error.
///
/// The same sources in Rust give the same bytes wherever the folder lies, with the same compiler.
///
/// # Errors
/// There is no package, a tool is missing, the package doesn't compile or isn't a policy, a file can't be written.
pub fn build(folder: &Path, out: Option<&Path>, notice: &dyn Fn(&str)) -> Result<Built, Error> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let folder = folder.canonicalize().map_err(file(folder))?;
    let source = match Script::of(&folder)? {
        Some(script) => Source::Script(script),
        None => Source::Package(Package::of(&folder)?),
    };
    let out = match out {
        Some(out) => std::path::absolute(out).map_err(file(out))?,
        None => folder.join(format!("{}.wasm", source.name())),
    };
    let no_file = || {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "a component's file is named `....wasm`");
        Error::File { path: out.clone(), source }
    };
    let (Some(parent), Some(stem)) = (out.parent(), out.file_name().and_then(|name| name.to_str())) else {
        return Err(no_file());
    };
    let stem = stem.strip_suffix(".wasm").filter(|stem| !stem.is_empty()).ok_or_else(no_file)?;
    let package = match source {
        Source::Package(package) => package,
        Source::Script(script) => {
            script.build(&folder, &out, notice)?;
            let bytes = std::fs::metadata(&out).map_err(file(&out))?.len();
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            return Ok(Built { package: script.name.as_str().to_owned(), path: out, bytes });
        }
    };
    // A folder of its own below the usual one: a cargo that runs there meanwhile, an editor's for example, doesn't
    // wait.
    let target = package.target_directory.join("policy");
    let mut artifacts =
        Build::new(&package.workspace, target, parent).adding_target().package(&package.name, stem).run()?;
    let artifact = artifacts
        .pop()
        .ok_or_else(|| Error::NoPackage { folder: folder.clone(), problem: "cargo built nothing".into() })?;
    Ok(Built { package: package.name, path: artifact.path, bytes: artifact.size })
}

/// Whether a folder holds what [`build`] makes a policy of, rather than a policy that is used as it is.
#[must_use]
pub fn is_built(folder: &Path) -> bool {
    ["Cargo.toml", JAVASCRIPT_MANIFEST, PYTHON_MANIFEST].iter().any(|manifest| folder.join(manifest).is_file())
}

/// What is built.
enum Source {
    Package(Package),
    Script(Script),
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Package(package) => &package.name,
            Source::Script(script) => script.name.as_str(),
        }
    }
}

/// What cargo says of the folder.
struct Package {
    name: String,
    workspace: PathBuf,
    target_directory: PathBuf,
}

impl Package {
    fn of(folder: &Path) -> Result<Package, Error> {
        let none = |problem: String| Error::NoPackage { folder: folder.to_owned(), problem };
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(none("there is no Cargo.toml, package.json or pyproject.toml".into()));
        }
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let start = |source| {
            Error::Build(windlass_guest_build::Error::Start { program: program.to_string_lossy().into_owned(), source })
        };
        let output = Command::new(&program)
            .current_dir(folder)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stdin(Stdio::null())
            .output()
            .map_err(start)?;
        if !output.status.success() {
            return Err(none(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| none(format!("`cargo metadata` cannot be read: {error}")))?;
        let path = |key: &str| {
            let path = metadata[key].as_str().map(PathBuf::from);
            path.ok_or_else(|| none(format!("`cargo metadata` has no {key}")))
        };
        let is_here =
            |package: &&Value| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest);
        let packages = metadata["packages"].as_array();
        let name =
            packages.and_then(|packages| packages.iter().find(is_here)).and_then(|package| package["name"].as_str());
        let name = name.ok_or_else(|| none("its Cargo.toml has no [package]".into()))?.to_owned();
        Ok(Package { name, workspace: path("workspace_root")?, target_directory: path("target_directory")? })
    }
}
