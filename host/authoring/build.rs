//! Packs what a new policy's folder holds of this repository into `OUT_DIR/packed.rs`: the SDK, the contract, and the
//! versions that the SDK was tested with. So the program needs no checkout beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The package that a policy depends on.
const SDK: &str = "windlass-guest-sdk";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for input in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "guest/sdk", "wit", "host/authoring/build.rs"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));

    let manifest = standing_alone(&read("guest/sdk/Cargo.toml")?, &read("Cargo.toml")?)?;
    std::fs::write(out.join("sdk-Cargo.toml"), manifest)?;
    std::fs::write(out.join("Cargo.lock"), lock_of_the_sdk(&read("Cargo.lock")?)?)?;

    let mut packed = String::from(
        "/// The SDK's files, by their places within its folder.\npub(crate) const SDK: &[(&str, &str)] = &[\n",
    );
    writeln!(packed, "    (\"Cargo.toml\", include_str!({:?})),", out.join("sdk-Cargo.toml"))?;
    list(&root.join("guest/sdk"), &root.join("guest/sdk/src"), &mut packed)?;
    let readme = root.join("guest/sdk/README.md");
    if readme.is_file() {
        writeln!(packed, "    (\"README.md\", include_str!({readme:?})),")?;
    }
    list(&root, &root.join("wit"), &mut packed)?;
    packed.push_str(
        "];\n/// The files of the package `windlass:policy`, by their names.\npub(crate) const CONTRACT: \
        &[(&str, &str)] = &[\n",
    );
    list(&root.join("wit/policy"), &root.join("wit/policy"), &mut packed)?;
    writeln!(
        packed,
        "];\n/// The lock file's part that is the SDK's.\npub(crate) const LOCK: &str = include_str!({:?});",
        out.join("Cargo.lock")
    )?;
    writeln!(
        packed,
        "/// The compiler that the SDK was tested with.\npub(crate) const CHANNEL: &str = {:?};",
        channel(&read("rust-toolchain.toml")?)?
    )?;
    std::fs::write(out.join("packed.rs"), packed)?;
    Ok(())
}

/// Lists all files below a folder, in the order of their names, by their places within `base`.
fn list(base: &Path, folder: &Path, packed: &mut String) -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(base, &path, packed)?;
        } else {
            let place = path.strip_prefix(base)?.to_str().ok_or("a file's name is not UTF-8")?;
            writeln!(packed, "    ({place:?}, include_str!({path:?})),")?;
        }
    }
    Ok(())
}

/// The manifest of a member of the workspace with what it inherits written out.
fn standing_alone(manifest: &str, workspace: &str) -> Result<String, Box<dyn Error>> {
    let mut whole = String::new();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        if section == "[lints]" {
            continue;
        }
        let Some(name) = line.strip_suffix(".workspace = true") else {
            if line.contains("workspace") {
                return Err(format!("the SDK's manifest inherits in a way that is not written out here: {line}").into());
            }
            writeln!(whole, "{line}")?;
            continue;
        };
        let of = if section == "[package]" { "[workspace.package]" } else { "[workspace.dependencies]" };
        let mut inherited =
            workspace.lines().skip_while(|line| *line != of).skip(1).take_while(|line| !line.starts_with('['));
        let said = inherited.find(|line| line.split_once(" = ").is_some_and(|(key, _)| key == name));
        writeln!(whole, "{}", said.ok_or_else(|| format!("the workspace has no {name} in {of}"))?)?;
    }
    Ok(whole)
}

/// The entries of the SDK and of all that it depends on. An entry names a package with its version only where the lock
/// file has several of them, so that is settled anew.
fn lock_of_the_sdk(lock: &str) -> Result<String, Box<dyn Error>> {
    let entries: Vec<&str> = lock.split("\n\n").filter_map(|entry| entry.strip_prefix("[[package]]\n")).collect();
    let find = |dependency: &str| {
        let (name, version) = dependency.split_once(' ').map_or((dependency, None), |(name, rest)| (name, Some(rest)));
        let fits = |entry: &&&str| {
            value(entry, "name") == Some(name) && version.is_none_or(|version| value(entry, "version") == Some(version))
        };
        entries.iter().find(fits).copied().ok_or_else(|| format!("the lock file has no {dependency}"))
    };
    let mut needed: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut open = vec![find(SDK)?];
    while let Some(entry) = open.pop() {
        let name = value(entry, "name").ok_or("an entry of the lock file has no name")?;
        let version = value(entry, "version").ok_or("an entry of the lock file has no version")?;
        if needed.insert((name, version), entry).is_none() {
            for dependency in dependencies(entry) {
                open.push(find(dependency)?);
            }
        }
    }
    let names: Vec<&str> = needed.keys().map(|(name, _)| *name).collect();
    let several: BTreeSet<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    let mut text = String::new();
    for entry in needed.values() {
        text.push_str("[[package]]\n");
        for line in entry.trim_end().lines() {
            match line.strip_prefix(" \"").and_then(|rest| rest.strip_suffix("\",")) {
                Some(dependency) => {
                    let name = dependency.split(' ').next().unwrap_or(dependency);
                    writeln!(text, " \"{}\",", if several.contains(name) { dependency } else { name })?;
                }
                None => writeln!(text, "{line}")?,
            }
        }
        text.push('\n');
    }
    Ok(text)
}

fn value<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    line.and_then(|rest| rest.strip_suffix('"'))
}

fn dependencies(entry: &str) -> impl Iterator<Item = &str> {
    entry.lines().filter_map(|line| line.strip_prefix(" \"").and_then(|rest| rest.strip_suffix("\",")))
}

fn channel(toolchain: &str) -> Result<&str, Box<dyn Error>> {
    let said = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    Ok(said.ok_or("rust-toolchain.toml names no channel")?)
}
