use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, component, environment};

const TARGET: &str = "wasm32-unknown-unknown";
/// Its settings stand in the workspace's manifest.
const PROFILE: &str = "guest";
/// Rust's own default is 1 MiB, which alone is 16 of the pages that a fresh instance has to be given.
const STACK_BYTES: u32 = 16 * 1024;

/// A build of one or more policies.
#[derive(Debug)]
pub struct Build {
    workspace: PathBuf,
    target_dir: PathBuf,
    out: PathBuf,
    packages: Vec<(String, String)>,
    tell_cargo: bool,
    add_target: bool,
}

/// A component that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The package that it was built from.
    pub package: String,
    /// The component.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
}

impl Build {
    /// A build of packages of the workspace whose root is `workspace`, into the folder `out`. `target_dir` holds what
    /// cargo leaves between builds; it must not be the target folder of a cargo that is running.
    pub fn new(workspace: impl Into<PathBuf>, target_dir: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            target_dir: target_dir.into(),
            out: out.into(),
            packages: Vec::new(),
            tell_cargo: false,
            add_target: false,
        }
    }

    /// A build into `OUT_DIR` that tells cargo when the build script is to run again.
    ///
    /// # Errors
    /// [`Error::NotABuildScript`] where cargo's variables are missing.
    pub fn from_build_script() -> Result<Self, Error> {
        let out = variable("OUT_DIR")?;
        let manifest_dir = variable("CARGO_MANIFEST_DIR")?;
        let mut build = Self::new(workspace_of(&manifest_dir), target_dir_beside(&out), out);
        build.tell_cargo = true;
        Ok(build)
    }

    /// Adds a package. The component is written as `<name>.wasm`.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>, name: impl Into<String>) -> Self {
        self.packages.push((package.into(), name.into()));
        self
    }

    /// Has rustup add Rust's WebAssembly target where it is missing. Without rustup the error says what to run.
    #[must_use]
    pub fn adding_target(mut self) -> Self {
        self.add_target = true;
        self
    }

    /// Builds the packages and makes a component of each, in the order in which they were added. Each has a run of
    /// cargo to itself: in a common one, a feature that one asks of a dependency would change the bytes of the others.
    ///
    /// # Errors
    /// See [`Error`]; each names the package and, where there is one, the remedy.
    pub fn run(self) -> Result<Vec<Artifact>, Error> {
        self.require_target()?;
        let others = self.other_folders()?;
        let mut inputs = BTreeSet::from(["Cargo.toml", "Cargo.lock"].map(|file| self.workspace.join(file)));
        let mut artifacts = Vec::new();
        for (package, name) in &self.packages {
            let module = self.cargo(package, &others)?;
            inputs.insert(module.manifest);
            inputs.extend(dependencies_of(&module.wasm)?);
            let bytes = component::encode(package, &read(&module.wasm)?)?;
            let path = self.out.join(format!("{name}.wasm"));
            write_if_changed(&path, &bytes)?;
            artifacts.push(Artifact { package: package.clone(), path, size: bytes.len() });
        }
        if self.tell_cargo {
            for input in inputs {
                println!("cargo::rerun-if-changed={}", input.display());
            }
        }
        Ok(artifacts)
    }

    fn require_target(&self) -> Result<(), Error> {
        if self.has_target()? {
            return Ok(());
        }
        if self.add_target {
            let mut rustup = Command::new("rustup");
            rustup.current_dir(&self.workspace).args(["target", "add", TARGET]).stdin(Stdio::null());
            // Its own words go to standard error, as cargo's do; standard output belongs to the caller.
            let added = rustup.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
            if added && self.has_target()? {
                return Ok(());
            }
        }
        Err(Error::TargetMissing { target: TARGET })
    }

    fn has_target(&self) -> Result<bool, Error> {
        let directory = self.rustc(&["--print", "target-libdir", "--target", TARGET])?;
        Ok(Path::new(directory.trim()).is_dir())
    }

    /// What panic messages are to call the folders of packages from elsewhere (a registry, a mirror of it, a vendored
    /// copy) and of Rust's own library.
    fn other_folders(&self) -> Result<BTreeMap<PathBuf, String>, Error> {
        let packages = || self.packages.iter().map(|(package, _)| package.as_str()).collect::<Vec<_>>().join(", ");
        let mut command = self.command(&BTreeMap::new());
        command.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
        let output = self.output(command, packages)?;
        let metadata: serde_json::Value = serde_json::from_slice(&output)
            .map_err(|source| Error::File { path: self.workspace.join("Cargo.toml"), source: source.into() })?;
        let manifests = metadata["packages"].as_array().into_iter().flatten().filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            (!package["source"].is_null() || !manifest.starts_with(&self.workspace)).then_some(manifest)
        });
        let folders = manifests.filter_map(|manifest| manifest.parent()?.parent());
        let mut names: BTreeMap<_, _> = folders.map(|folder| (folder.to_owned(), "/packages".to_owned())).collect();
        // Where rustup has installed the library's sources, rustc names these, else what stands here.
        let version = self.rustc(&["-vV"])?;
        let value = |key| version.lines().find_map(|line| line.strip_prefix(key)).filter(|value| *value != "unknown");
        if let Some(build) = value("commit-hash: ").or_else(|| value("release: ")) {
            let sources = Path::new(self.rustc(&["--print", "sysroot"])?.trim()).join("lib/rustlib/src/rust");
            names.insert(sources, format!("/rustc/{build}"));
        }
        Ok(names)
    }

    /// What rustc says in the workspace, whose `rust-toolchain.toml` may name another compiler than the one used here.
    /// Empty where it says that it can't.
    fn rustc(&self, arguments: &[&str]) -> Result<String, Error> {
        let program = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let output = Command::new(&program)
            .current_dir(&self.workspace)
            .args(arguments)
            .output()
            .map_err(|source| Error::Start { program: program.to_string_lossy().into_owned(), source })?;
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(if output.status.success() { words } else { String::new() })
    }

    fn cargo(&self, package: &str, others: &BTreeMap<PathBuf, String>) -> Result<Module, Error> {
        let mut command = self.command(others);
        command
            .args(["build", "--lib", "--profile", PROFILE, "--target", TARGET, "--package", package])
            .args(["--message-format", "json-render-diagnostics"])
            .arg("--target-dir")
            .arg(&self.target_dir);
        let output = self.output(command, || package.to_owned())?;
        String::from_utf8_lossy(&output)
            .lines()
            .filter_map(Module::from_message)
            .find(|module| module.package == package)
            .ok_or_else(|| Error::NoModule { package: package.to_owned() })
    }

    /// A cargo in the workspace that builds the same bytes on every machine.
    fn command(&self, others: &BTreeMap<PathBuf, String>) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.workspace).stdin(Stdio::null()).stderr(Stdio::inherit());
        environment::prepare(&mut command);
        let home = cargo_home();
        let places =
            environment::Places { workspace: &self.workspace, target_dir: &self.target_dir, home: &home, others };
        command.env("CARGO_ENCODED_RUSTFLAGS", environment::rustflags(&places, STACK_BYTES));
        command
    }

    fn output(&self, mut command: Command, packages: impl FnOnce() -> String) -> Result<Vec<u8>, Error> {
        let start = |source| Error::Start { program: cargo_program().to_string_lossy().into_owned(), source };
        let output = command.output().map_err(start)?;
        if !output.status.success() {
            return Err(Error::Cargo { packages: packages(), target: TARGET });
        }
        Ok(output.stdout)
    }
}

/// A core module that cargo has made.
struct Module {
    package: String,
    manifest: PathBuf,
    wasm: PathBuf,
}

impl Module {
    /// Reads one of cargo's `compiler-artifact` messages.
    fn from_message(line: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" {
            return None;
        }
        let wasm = message["filenames"]
            .as_array()?
            .iter()
            .filter_map(|name| name.as_str())
            .find(|name| name.ends_with(".wasm"))?;
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        Some(Self { package: package_name(message["package_id"].as_str()?)?, manifest, wasm: PathBuf::from(wasm) })
    }
}

/// The name in a package id: `path+file:///x/retry#windlass-guest-retry@0.1.0`, or `path+file:///x/retry#0.1.0` where
/// the folder has the package's name.
fn package_name(id: &str) -> Option<String> {
    let (url, fragment) = id.rsplit_once('#')?;
    match fragment.split_once('@') {
        Some((name, _)) => Some(name.to_owned()),
        None => Some(url.rsplit('/').next()?.to_owned()),
    }
}

/// The sources of a module, from the dep-info that cargo writes beside it. It holds path dependencies (the SDK, the
/// contract) and leaves out what comes from a registry, which the lock file pins.
fn dependencies_of(wasm: &Path) -> Result<Vec<PathBuf>, Error> {
    let path = wasm.with_extension("d");
    let text = String::from_utf8_lossy(&read(&path)?).into_owned();
    Ok(parse_dep_info(&text))
}

/// `target: source source`, in which a space inside a path is written `\ `.
fn parse_dep_info(text: &str) -> Vec<PathBuf> {
    let Some((_, sources)) = text.lines().next().and_then(|line| line.split_once(": ")) else {
        return Vec::new();
    };
    sources
        .replace("\\ ", "\0")
        .split(' ')
        .filter(|source| !source.is_empty())
        .map(|source| PathBuf::from(source.replace('\0', " ")))
        .collect()
}

/// Leaves the file and its time alone when the bytes are the same, so that nothing that embeds it is rebuilt.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let failed = |source| Error::File { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

fn variable(name: &'static str) -> Result<PathBuf, Error> {
    std::env::var_os(name).map(PathBuf::from).ok_or(Error::NotABuildScript(name))
}

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .unwrap_or_else(|| PathBuf::from(".cargo"))
}

/// The outermost folder above `manifest_dir` that has both a manifest and a lock file: the root of the workspace.
fn workspace_of(manifest_dir: &Path) -> PathBuf {
    manifest_dir
        .ancestors()
        .filter(|folder| folder.join("Cargo.toml").is_file() && folder.join("Cargo.lock").is_file())
        .last()
        .unwrap_or(manifest_dir)
        .to_owned()
}

/// `<target>/guests`, where `<target>` is the folder that holds `out` and that cargo has marked as a cache: shared by
/// all build scripts of the workspace, and locked by none of them.
fn target_dir_beside(out: &Path) -> PathBuf {
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap_or(out).join("guests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_info_names_every_source_even_with_spaces() {
        let text = "/t/guest/retry.wasm: /a/lib.rs /with\\ space/x.wit /b.rs\n";
        assert_eq!(parse_dep_info(text), ["/a/lib.rs", "/with space/x.wit", "/b.rs"].map(PathBuf::from));
    }

    #[test]
    fn both_spellings_of_a_package_id_give_the_name() {
        assert_eq!(
            package_name("path+file:///x/retry#windlass-guest-retry@0.1.0").as_deref(),
            Some("windlass-guest-retry")
        );
        assert_eq!(package_name("path+file:///x/patience#0.1.0").as_deref(), Some("patience"));
    }

    #[test]
    fn a_module_that_is_no_policy_is_refused_with_its_package() {
        let error =
            component::encode("acme", b"\0asm\x01\0\0\0junk").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("acme cannot be made into a component: "), "{error}");
    }
}
