//! What is published can be packaged: it depends on nothing that is not, and holds the files that it reads.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(workspace()).args(arguments).output().expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {stderr}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The members of the workspace that may be published, as `cargo metadata` describes them.
fn public() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("a workspace has packages");
    packages.iter().filter(|package| package["publish"].is_null()).cloned().collect()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

fn files(package: &Value) -> BTreeSet<String> {
    let listed = cargo(&["package", "--list", "--offline", "--allow-dirty", "--package", name(package)]);
    listed.lines().map(str::to_owned).collect()
}

/// The part of a source that is compiled into the library.
fn without_tests(source: &str) -> &str {
    let tests = source.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        let line = source[*at..].lines().nth(1);
        line.is_some_and(|line| line.ends_with('{'))
    });
    tests.map_or(source, |(at, _)| &source[..at])
}

/// The paths in `include_str!("...")` and its like, as they stand there.
fn included(source: &str) -> Vec<&str> {
    let calls = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    let paths = calls.iter().flat_map(|call| source.split(call).skip(1));
    paths.filter_map(|rest| rest.split_once('"')).map(|(path, _)| path).collect()
}

/// A path within the package, without `..`; `None` where it leads outside.
fn within(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(part) => parts.push(part.to_str()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

#[test]
fn what_is_published_says_what_it_is() {
    for package in public() {
        for key in ["description", "readme", "license", "repository", "rust_version"] {
            assert!(package[key].is_string(), "{} has no {key}", name(&package));
        }
        assert!(package["keywords"].as_array().is_some_and(|words| !words.is_empty()), "{}", name(&package));
    }
}

#[test]
fn what_is_published_depends_on_what_is_published() {
    let public = public();
    let names: BTreeSet<&str> = public.iter().map(name).collect();
    for package in &public {
        let dependencies = package["dependencies"].as_array().expect("a list").iter();
        for dependency in dependencies.filter(|dependency| dependency["path"].is_string()) {
            let has_version = dependency["req"] != "*";
            // A development dependency without a version is left out of the package.
            if has_version || dependency["kind"] != "dev" {
                let published = names.contains(dependency["name"].as_str().unwrap_or_default());
                assert!(published && has_version, "{} needs {}", name(package), dependency["name"]);
            }
        }
    }
}

#[test]
fn a_package_holds_the_files_that_it_reads() {
    let mut checked = 0;
    for package in public() {
        let files = files(&package);
        let folder = Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder");
        assert!(files.contains("README.md") && !files.iter().any(|file| file.starts_with("tests/")), "{files:?}");
        let is_test = |file: &str| ["/tests.rs", "/fuzz.rs", "/tests/"].iter().any(|of_tests| file.contains(of_tests));
        for file in files.iter().filter(|file| file.ends_with(".rs") && !is_test(file)) {
            let source = std::fs::read_to_string(folder.join(file)).expect("it is in the package");
            for path in included(without_tests(&source)) {
                let place = within(&Path::new(file).parent().expect("a folder").join(path));
                let held = place.as_ref().is_some_and(|place| files.contains(place));
                assert!(held, "{}: {file} reads {path}, which its package does not hold", name(&package));
                checked += 1;
            }
        }
    }
    assert!(checked >= 9, "only {checked} files were found that are read");
}

#[test]
fn the_recipe_packages_what_is_published() {
    let recipes = std::fs::read_to_string(workspace().join("Justfile")).expect("the recipes are there");
    let line = recipes.lines().find_map(|line| line.strip_prefix("public := \"")?.strip_suffix('"'));
    let named: BTreeSet<&str> = line.expect("the list of what is published").split(' ').collect();
    assert_eq!(named, public().iter().map(name).collect());
}
