//! A policy in JavaScript, TypeScript or Python: how its folder is recognized, and how it becomes a component.

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Value, json};
use toml::Table;
use windlass_policy::Digest;
use windlass_policy::slots::{CONTRACT_VERSION, SlotName};

use crate::contract::Contract;
use crate::new::{Language, PolicyName};
use crate::shape::{self, Dialect, camel, pascal};
use crate::toolchain::{self, Toolchain};
use crate::{Error, packed};

/// What a folder says of its script.
pub(crate) struct Script {
    pub(crate) name: PolicyName,
    version: String,
    summary: String,
    slot: SlotName,
    dialect: Dialect,
    /// The policy's own module.
    source: &'static str,
}

/// The manifests that tell a script's folder.
pub(crate) const JAVASCRIPT_MANIFEST: &str = "package.json";
pub(crate) const PYTHON_MANIFEST: &str = "pyproject.toml";

impl Script {
    /// The script of a folder, where it has one.
    pub(crate) fn of(folder: &Path) -> Result<Option<Script>, Error> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
        };
        let none = |problem: String| Error::NoPackage { folder: folder.to_owned(), problem };
        if folder.join(JAVASCRIPT_MANIFEST).is_file() {
            let manifest: Value = serde_json::from_str(&read(JAVASCRIPT_MANIFEST)?)
                .map_err(|error| none(format!("its {JAVASCRIPT_MANIFEST} is not JSON: {error}")))?;
            let source = match folder.join(Language::TypeScript.source()).is_file() {
                true => Language::TypeScript.source(),
                false => Language::JavaScript.source(),
            };
            let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).map(str::to_owned);
            let said = [text("/name"), text("/version"), text("/description"), text("/windlass/slot")];
            let keys = ["name", "version", "description", "windlass.slot"];
            return Script::read(folder, Dialect::JavaScript, source, JAVASCRIPT_MANIFEST, keys, said).map(Some);
        }
        if folder.join(PYTHON_MANIFEST).is_file() {
            let manifest: Table = read(PYTHON_MANIFEST)?
                .parse()
                .map_err(|error| none(format!("its {PYTHON_MANIFEST} is not TOML: {error}")))?;
            let text = |path: [&str; 3]| {
                let mut value = manifest.get(path[0])?;
                for key in path[1..].iter().filter(|key| !key.is_empty()) {
                    value = value.get(key)?;
                }
                value.as_str().map(str::to_owned)
            };
            let project = |key| text(["project", key, ""]);
            let said =
                [project("name"), project("version"), project("description"), text(["tool", "windlass", "slot"])];
            let keys = ["project.name", "project.version", "project.description", "tool.windlass.slot"];
            let source = Language::Python.source();
            return Script::read(folder, Dialect::Python, source, PYTHON_MANIFEST, keys, said).map(Some);
        }
        Ok(None)
    }

    fn read(
        folder: &Path,
        dialect: Dialect,
        source: &'static str,
        manifest: &str,
        keys: [&str; 4],
        said: [Option<String>; 4],
    ) -> Result<Script, Error> {
        let none = |problem: String| Error::NoPackage { folder: folder.to_owned(), problem };
        let mut missing = keys.into_iter().zip(&said).filter(|(_, said)| said.is_none()).map(|(key, _)| key);
        if let Some(key) = missing.next() {
            return Err(none(format!("its {manifest} says no `{key}`")));
        }
        if !folder.join(source).is_file() {
            return Err(none(format!("there is no {source}")));
        }
        let [name, version, summary, slot] = said.map(Option::unwrap_or_default);
        let slot = slot.parse().map_err(|error| none(format!("`{}` of its {manifest}: {error}", keys[3])))?;
        Ok(Script { name: name.parse()?, version, summary, slot, dialect, source })
    }

    /// Makes the component. The tools never make the same bytes twice, so what they made of the same sources is kept:
    /// a host that knows a policy compiles nothing then.
    pub(crate) fn build(&self, folder: &Path, out: &Path, notice: &dyn Fn(&str)) -> Result<(), Error> {
        let toolchain = Toolchain::of(self.dialect, notice)?;
        let sources = sources(folder, self.endings())?;
        let mut identity = format!("{}\n{}\n", toolchain.folder.display(), self.filled(self.entry())?);
        let mut add = |place: &str, text: &str| identity.push_str(&format!("{place}\n{}\n{text}\n", text.len()));
        self.fixed().for_each(|(place, text)| add(place, text));
        sources.iter().for_each(|(place, text)| add(place, text));
        let built = toolchain.built(&Digest::of(identity.as_bytes()).to_string());
        if std::fs::copy(&built, out).is_ok() {
            return Ok(());
        }
        self.make(folder, &sources, &toolchain, out)?;
        toolchain.keep(out, &built);
        Ok(())
    }

    fn endings(&self) -> &'static [&'static str] {
        match self.dialect {
            Dialect::JavaScript => &[".js", ".mjs", ".ts"],
            Dialect::Python => &[".py"],
        }
    }

    /// What joins the script to the contract.
    fn entry(&self) -> &'static str {
        match self.dialect {
            Dialect::JavaScript => include_str!("../toolchains/javascript/entry.js"),
            Dialect::Python => include_str!("../toolchains/python/windlass_entry.py"),
        }
    }

    /// What is built in beside it, whatever the script: the contract among it.
    fn fixed(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let prelude = match self.dialect {
            Dialect::JavaScript => ("prelude.js", include_str!("../toolchains/javascript/prelude.js")),
            Dialect::Python => ("windlass.py", include_str!("../toolchains/python/windlass.py")),
        };
        packed::CONTRACT.iter().copied().chain([prelude])
    }

    fn make(
        &self,
        folder: &Path,
        sources: &[(String, String)],
        toolchain: &Toolchain,
        out: &Path,
    ) -> Result<(), Error> {
        let scratch = tempfile::tempdir().map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let scratch_folder = scratch.path();
        for (name, text) in packed::CONTRACT {
            put(scratch_folder, &format!("wit/{name}"), text)?;
        }
        for (place, text) in sources {
            put(scratch_folder, &format!("policy/{place}"), text)?;
        }
        let output = match self.dialect {
            Dialect::JavaScript => {
                put(scratch_folder, "windlass/prelude.js", include_str!("../toolchains/javascript/prelude.js"))?;
                put(scratch_folder, "windlass/entry.js", &self.filled(self.entry())?)?;
                let request = json!({
                    "folder": scratch_folder,
                    "entry": scratch_folder.join("windlass/entry.js"),
                    "wit": scratch_folder.join("wit"),
                    "world": self.world(),
                    "out": out,
                });
                put(scratch_folder, "request.json", &request.to_string())?;
                let mut node = toolchain::node(&toolchain.folder.join("build.mjs"));
                node.arg(scratch_folder.join("request.json"));
                toolchain::run(node, scratch_folder)?
            }
            Dialect::Python => {
                put(
                    scratch_folder,
                    "windlass/windlass.py",
                    &self.filled(include_str!("../toolchains/python/windlass.py"))?,
                )?;
                put(scratch_folder, "windlass/windlass_entry.py", &self.filled(self.entry())?)?;
                let mut python = toolchain::componentize_py(toolchain);
                python.arg("--wit-path").arg(scratch_folder.join("wit")).args(["--world", &self.world()]);
                python.args(["componentize", "windlass_entry", "--stub-wasi", "--python-path"]);
                python.arg(scratch_folder.join("windlass")).arg("--python-path");
                python.arg(scratch_folder.join("policy"));
                python.arg("--output").arg(out);
                toolchain::run(python, scratch_folder)?
            }
        };
        if output.status.success() {
            return Ok(());
        }
        // The scratch folder is gone when this is read.
        let places = format!("{}/", scratch_folder.display());
        let words = toolchain::messages(&output);
        let said = words.split("Stack backtrace:").next().unwrap_or(&words).trim();
        let problem = said.replace(&format!("{places}policy/"), "").replace(&places, "");
        Err(Error::Script { folder: folder.to_owned(), problem })
    }

    fn world(&self) -> String {
        format!("{}-policy", self.slot)
    }

    fn filled(&self, template: &str) -> Result<String, Error> {
        let contract = Contract::read()?;
        let (answer, batch) = shape::answer(&contract, &contract.slot(self.slot)?, self.dialect);
        let description =
            json!({ "name": self.name.as_str(), "version": self.version, "summary": self.summary }).to_string();
        let slot = match self.dialect {
            Dialect::JavaScript => camel(self.slot.as_str()),
            Dialect::Python => self.slot.as_str().replace('-', "_"),
        };
        // A text in JSON is a literal in both languages; a value in JSON one in JavaScript only.
        let literal = |json: String| match self.dialect {
            Dialect::JavaScript => json,
            Dialect::Python => Value::String(json).to_string(),
        };
        Ok(template
            .replace("@VERSION@", CONTRACT_VERSION)
            .replace("@SOURCE@", self.source)
            .replace("@DESCRIPTION@", &literal(description))
            .replace("@ANSWER@", &literal(answer.to_string()))
            .replace("@BATCH@", &literal(json!(batch).to_string()))
            .replace("@SLOT@", &slot)
            .replace("@CLASS@", &pascal(self.slot.as_str())))
    }
}

/// The sources below a folder with these endings, by their places in it. What other tools put there is none of them.
fn sources(folder: &Path, endings: &[&str]) -> Result<Vec<(String, String)>, Error> {
    const NOT_SOURCES: [&str; 4] = ["node_modules", "fixtures", "schemas", "__pycache__"];
    /// More is a mistake, such as a folder that holds others' packages.
    const MAX_BYTES: usize = 8 << 20;
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut open = vec![(PathBuf::new(), folder.to_owned())];
    while let Some((place, path)) = open.pop() {
        let failed = |source| Error::File { path: path.clone(), source };
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(failed)?;
        for entry in dir.entries().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && !name.starts_with('.') && !NOT_SOURCES.contains(&name.as_str()) {
                open.push((place.join(&name), path.join(&name)));
            } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) && !name.ends_with(".d.ts")
            {
                let text =
                    dir.read_to_string(&name).map_err(|source| Error::File { path: path.join(&name), source })?;
                bytes += text.len();
                if bytes > MAX_BYTES {
                    let problem = format!("its sources have more than {} MiB", MAX_BYTES >> 20);
                    return Err(Error::NoPackage { folder: folder.to_owned(), problem });
                }
                found.push((place.join(&name).to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn put(folder: &Path, place: &str, text: &str) -> Result<(), Error> {
    let path: PathBuf = folder.join(place);
    let failed = |source| Error::File { path: path.clone(), source };
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
    if let Some(parent) = Path::new(place).parent() {
        dir.create_dir_all(parent).map_err(failed)?;
    }
    dir.write(place, text).map_err(failed)
}
