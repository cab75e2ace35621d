//! A policy's folder becomes a component.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use windlass_guest_build::Build;

use crate::Error;

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

/// Builds the package in `folder`. The component becomes `out`, or `<package>.wasm` in the folder. Rust's WebAssembly
/// target is added where it is missing and rustup is there. Cargo's own words go to standard error.
///
/// The same sources give the same bytes wherever the folder lies, with the same compiler.
///
/// # Errors
/// There is no package, a tool is missing, the package doesn't compile or isn't a policy, a file can't be written.
pub fn build(folder: &Path, out: Option<&Path>) -> Result<Built, Error> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let folder = folder.canonicalize().map_err(file(folder))?;
    let package = Package::of(&folder)?;
    let out = match out {
        Some(out) => std::path::absolute(out).map_err(file(out))?,
        None => folder.join(format!("{}.wasm", package.name)),
    };
    let no_file = || {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "a component's file is named `....wasm`");
        Error::File { path: out.clone(), source }
    };
    let (Some(parent), Some(stem)) = (out.parent(), out.file_name().and_then(|name| name.to_str())) else {
        return Err(no_file());
    };
    let stem = stem.strip_suffix(".wasm").filter(|stem| !stem.is_empty()).ok_or_else(no_file)?;
    // A folder of its own below the usual one: a cargo that runs there meanwhile, an editor's for example, doesn't wait.
    let target = package.target_directory.join("policy");
    let mut artifacts =
        Build::new(&package.workspace, target, parent).adding_target().package(&package.name, stem).run()?;
    let artifact = artifacts
        .pop()
        .ok_or_else(|| Error::NoPackage { folder: folder.clone(), problem: "cargo built nothing".into() })?;
    Ok(Built { package: package.name, path: artifact.path, bytes: artifact.size })
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
            return Err(none("there is no Cargo.toml".into()));
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
