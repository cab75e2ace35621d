//! The folder of a new policy.

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::slots::SlotName;

use crate::schema::{SchemaOf, schema};
use crate::shape;
use crate::{Error, packed};

/// The longest name that a policy may have: the contract's bound.
const MAX_NAME_BYTES: usize = 64;

/// Names that a package can't have, or that would hide what the build needs.
const TAKEN: [&str; 9] = ["alloc", "core", "proc-macro", "std", "test", "sdk", "deps", "build", "incremental"];

/// Rust's keywords, which can't be the name of a crate (the reference, "Keywords": strict and reserved).
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// What a policy is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A Rust package, built with the SDK.
    Rust,
    /// Rules in CEL, which need no compiler.
    Rules,
    /// A script in JavaScript, built with its interpreter.
    JavaScript,
    /// The same with types, which the build takes out.
    TypeScript,
    /// A script in Python, built with its interpreter.
    Python,
}

impl Language {
    /// The file that holds the policy; of rules, how its name ends.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Language::Rust => "src/lib.rs",
            Language::Rules => ".rules.toml",
            Language::JavaScript => "policy.js",
            Language::TypeScript => "policy.ts",
            Language::Python => "policy.py",
        }
    }
}

/// The name of a policy and of its package: lower-case letters, digits and dashes, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyName(String);

impl PolicyName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As Rust names a crate.
    fn as_crate(&self) -> String {
        self.0.replace('-', "_")
    }

    /// As Rust names a type. It ends in `Policy`, so that it hides nothing of the SDK's.
    fn as_type(&self) -> String {
        let words = self.0.split('-').filter(|word| *word != "policy");
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        words.map(capital).collect::<String>() + "Policy"
    }
}

impl std::str::FromStr for PolicyName {
    type Err = Error;

    fn from_str(name: &str) -> Result<PolicyName, Error> {
        let wrong = |problem: &str| {
            let problem = format!("{problem}; one looks like `patient-retry`");
            Err(Error::Name { name: windlass_policy::cut(name, MAX_NAME_BYTES), problem })
        };
        if name.len() > MAX_NAME_BYTES {
            return wrong("it is longer than 64 characters");
        }
        let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            return wrong("it has to begin with a lower-case letter");
        }
        if !name.chars().all(|letter| is_word(letter) || letter == '-') {
            return wrong("it may have lower-case letters, digits and dashes only");
        }
        if name.ends_with('-') || name.contains("--") {
            return wrong("a dash stands between two letters or digits");
        }
        if KEYWORDS.contains(&name) || TAKEN.contains(&name) {
            return wrong("Rust uses that word for something else");
        }
        let quoted = format!("{name:?}");
        if packed::LOCK.lines().any(|line| line.strip_prefix("name = ") == Some(&quoted)) {
            return wrong("a package that the policy is built with is called so");
        }
        Ok(PolicyName(name.to_owned()))
    }
}

/// A policy that is about to be begun.
#[derive(Clone, Debug)]
pub struct NewPolicy {
    pub name: PolicyName,
    /// The slot that it decides.
    pub slot: SlotName,
    /// What it is written in.
    pub language: Language,
}

impl NewPolicy {
    /// Writes the policy's folder, which may exist where it is empty: a policy that decides one thing otherwise,
    /// fixtures for it, schemas for editors, and all that it is built with. Nothing in it leads out of it. Returns the
    /// files that an author reads and changes, by their places in the folder.
    ///
    /// # Errors
    /// The folder holds something, or can't be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let files = self.files()?;
        let failed = |path: PathBuf| move |source| Error::File { path, source };
        Dir::create_ambient_dir_all(folder, ambient_authority()).map_err(failed(folder.to_owned()))?;
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed(folder.to_owned()))?;
        if dir.entries().map_err(failed(folder.to_owned()))?.next().is_some() {
            return Err(Error::NotEmpty(folder.to_owned()));
        }
        let mut shown = Vec::new();
        for File { place, text, of_the_author } in files {
            let path = Path::new(&place);
            if let Some(parent) = path.parent() {
                dir.create_dir_all(parent).map_err(failed(folder.join(parent)))?;
            }
            dir.write(path, text).map_err(failed(folder.join(path)))?;
            if of_the_author {
                shown.push(path.to_owned());
            }
        }
        Ok(shown)
    }

    fn files(&self) -> Result<Vec<File>, Error> {
        let slot = Templates::of(self.slot);
        let mut files = match self.language {
            Language::Rust => self.rust(&slot),
            Language::Rules => self.rules(&slot),
            Language::JavaScript | Language::TypeScript | Language::Python => self.script(&slot)?,
        };
        for (name, text) in [(slot.changed_name, slot.changed), ("anything-else-is-deferred", slot.deferred)] {
            files.push(File::of_the_author(format!("fixtures/{name}.json"), text.to_owned()));
        }
        for of in SchemaOf::ALL {
            if of == SchemaOf::Rules && self.language != Language::Rules {
                continue;
            }
            // JSON values always can be written.
            let text = serde_json::to_string_pretty(&schema(self.slot, of)?).unwrap_or_default() + "\n";
            files.push(File::packed(format!("schemas/{}.json", of.as_str()), text));
        }
        Ok(files)
    }

    fn rust(&self, slot: &Templates) -> Vec<File> {
        let decide = match self.slot {
            SlotName::StateMapping => "decide_all(&",
            _ => "decide(",
        };
        let filled = |template: &str| {
            self.filled(slot, template)
                .replace("@CRATE@", &self.name.as_crate())
                .replace("@TYPE@", &self.name.as_type())
                .replace("@DECIDE@", decide)
                .replace("@SETTING@", slot.setting)
                .replace("@CHANNEL@", packed::CHANNEL)
        };
        let source = format!("//! A policy for the slot `@SLOT@`. @SUMMARY@\n\n{}", slot.source);
        let mut files = vec![
            File::of_the_author("README.md", filled(include_str!("../templates/rust/README.md.template"))),
            File::of_the_author("Cargo.toml", filled(include_str!("../templates/rust/Cargo.toml.template"))),
            File::of_the_author("src/lib.rs", filled(&source)),
            File::of_the_author(
                "tests/fixtures.rs",
                filled(include_str!("../templates/rust/tests-fixtures.rs.template")),
            ),
            File::packed("Cargo.lock", self.lock()),
            File::packed(".gitignore", include_str!("../templates/rust/gitignore.template").to_owned()),
            File::packed("rust-toolchain.toml", filled(include_str!("../templates/rust/rust-toolchain.toml.template"))),
        ];
        files.extend(packed::SDK.iter().map(|(place, text)| File::packed(format!("sdk/{place}"), (*text).to_owned())));
        files
    }

    fn rules(&self, slot: &Templates) -> Vec<File> {
        let rules = format!(
            "#:schema schemas/rules.json\n# A policy for the slot `@SLOT@`. @SUMMARY@\n# The first rule whose \
             condition holds answers; where none does, the next policy decides.\nslot = \"@SLOT@\"\n\n{}",
            slot.rules
        );
        vec![
            File::of_the_author("README.md", self.filled(slot, include_str!("../templates/rules/README.md.template"))),
            File::of_the_author(format!("{}.rules.toml", self.name.as_str()), self.filled(slot, &rules)),
        ]
    }

    fn script(&self, slot: &Templates) -> Result<Vec<File>, Error> {
        let [javascript, typescript, python] = slot.scripts;
        let filled = |template: &str| {
            self.filled(slot, template).replace("@SOURCE@", self.language.source()).replace("@SETTING@", slot.setting)
        };
        let readme = filled(include_str!("../templates/javascript/README.md.template"));
        let files = if self.language == Language::Python {
            vec![
                File::of_the_author("README.md", filled(include_str!("../templates/python/README.md.template"))),
                File::of_the_author("policy.py", filled(python)),
                File::packed("pyproject.toml", filled(include_str!("../templates/python/pyproject.toml.template"))),
                File::packed("windlass.pyi", shape::python(self.slot)?),
                File::packed(".gitignore", "*.wasm\n__pycache__/\n".to_owned()),
            ]
        } else {
            let source = if self.language == Language::TypeScript { typescript } else { javascript };
            vec![
                File::of_the_author("README.md", readme),
                File::of_the_author(self.language.source(), filled(source)),
                File::packed("package.json", filled(include_str!("../templates/javascript/package.json.template"))),
                File::packed("jsconfig.json", include_str!("../templates/javascript/jsconfig.json").to_owned()),
                File::packed("windlass.d.ts", shape::typescript(self.slot)?),
                File::packed(".gitignore", "*.wasm\n/node_modules\n".to_owned()),
            ]
        };
        Ok(files)
    }

    /// A template with what every language has.
    fn filled(&self, slot: &Templates, template: &str) -> String {
        template
            .replace("@NAME@", self.name.as_str())
            .replace("@SLOT@", self.slot.as_str())
            .replace("@SUMMARY@", slot.summary)
            .replace("@FIXTURE@", slot.changed)
    }

    /// The versions that the SDK was tested with, so that a policy is the same wherever it is built. Cargo sorts the
    /// packages by their names.
    fn lock(&self) -> String {
        let name = self.name.as_str();
        let own = format!(
            "[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"windlass-guest-sdk\",\n]"
        );
        let name_of = |entry: &str| entry.lines().nth(1).unwrap_or_default().to_owned();
        let mut entries: Vec<&str> = packed::LOCK.trim_end().split("\n\n").chain([own.as_str()]).collect();
        entries.sort_by_key(|entry| name_of(entry));
        format!(
            "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\n\
             version = 4\n\n{}\n",
            entries.join("\n\n")
        )
    }
}

struct File {
    place: String,
    text: String,
    of_the_author: bool,
}

impl File {
    fn of_the_author(place: impl Into<String>, text: String) -> File {
        File { place: place.into(), text, of_the_author: true }
    }

    fn packed(place: impl Into<String>, text: String) -> File {
        File { place: place.into(), text, of_the_author: false }
    }
}

/// What differs from slot to slot.
struct Templates {
    /// What the policy decides differently.
    summary: &'static str,
    source: &'static str,
    rules: &'static str,
    /// In JavaScript, TypeScript and Python.
    scripts: [&'static str; 3],
    /// A setting with its default, in TOML.
    setting: &'static str,
    /// The fixture of what it changes, and its name.
    changed: &'static str,
    changed_name: &'static str,
    /// The fixture of what it leaves to the next.
    deferred: &'static str,
}

impl Templates {
    fn of(slot: SlotName) -> Templates {
        macro_rules! templates {
            ($slot:literal, $summary:literal, $setting:literal, $changed:literal) => {
                Templates {
                    summary: $summary,
                    source: include_str!(concat!("../templates/slots/", $slot, ".rs")),
                    rules: include_str!(concat!("../templates/rules/", $slot, ".toml")),
                    scripts: [
                        include_str!(concat!("../templates/scripts/", $slot, ".js")),
                        include_str!(concat!("../templates/scripts/", $slot, ".ts")),
                        include_str!(concat!("../templates/scripts/", $slot, ".py")),
                    ],
                    setting: $setting,
                    changed: include_str!(concat!("../templates/fixtures/", $slot, ".changed.json")),
                    changed_name: $changed,
                    deferred: include_str!(concat!("../templates/fixtures/", $slot, ".deferred.json")),
                }
            };
        }
        match slot {
            SlotName::StateMapping => templates!(
                "state-mapping",
                "Leaves a stopped server alone for a while.",
                "grace-ms = 600000",
                "a-stopped-server-keeps-its-place"
            ),
            SlotName::Retry => templates!(
                "retry",
                "Waits a fixed time when a server type is out of stock.",
                "wait-ms = 60000",
                "out-of-stock-is-waited-for"
            ),
            SlotName::Rollback => templates!(
                "rollback",
                "Keeps everything when nobody knows why a creation failed.",
                "keep-after = \"other\"",
                "an-unknown-cause-keeps-everything"
            ),
            SlotName::Release => templates!(
                "release",
                "Keeps a machine whose set-up failed again and again.",
                "failures = 3",
                "a-machine-that-keeps-failing-is-kept"
            ),
            SlotName::Provisioning => templates!(
                "provisioning",
                "Deletes no node after a hook that failed.",
                "also-timed-out = true",
                "a-failed-hook-deletes-nothing"
            ),
            SlotName::Placement => templates!(
                "placement",
                "Tries those places last where creations keep failing.",
                "failures = 3",
                "a-place-that-keeps-failing-comes-last"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_package_can_have_is_refused_with_why() {
        for (name, words) in [
            ("", "begin with a lower-case letter"),
            ("Patience", "begin with a lower-case letter"),
            ("9lives", "begin with a lower-case letter"),
            ("a_b", "lower-case letters, digits and dashes"),
            ("a/../b", "lower-case letters, digits and dashes"),
            ("a-", "a dash stands between"),
            ("a--b", "a dash stands between"),
            ("match", "Rust uses that word"),
            ("std", "Rust uses that word"),
            ("serde", "is called so"),
            ("windlass-guest-sdk", "is called so"),
            (&"a".repeat(65), "longer than 64"),
        ] {
            let error = name.parse::<PolicyName>().unwrap_err().to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn the_type_of_a_policy_hides_nothing_of_the_sdks() {
        for (name, of_type) in
            [("patience", "PatiencePolicy"), ("retry", "RetryPolicy"), ("my-2nd-policy", "My2ndPolicy")]
        {
            assert_eq!(name.parse::<PolicyName>().unwrap().as_type(), of_type);
        }
    }

    #[test]
    fn a_folder_that_holds_something_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "1").unwrap();
        let policy = NewPolicy { name: "patience".parse().unwrap(), slot: SlotName::Retry, language: Language::Rust };
        assert!(matches!(policy.write(folder.path()), Err(Error::NotEmpty(_))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_lock_file_has_every_package_once_in_order() {
        let policy = NewPolicy { name: "patience".parse().unwrap(), slot: SlotName::Retry, language: Language::Rust };
        let lock = policy.lock();
        let names: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
        assert!(names.is_sorted() && names.contains(&"\"patience\"") && names.contains(&"\"windlass-guest-sdk\""));
        assert!(names.len() < 20, "a policy is built of little: {names:?}");
    }
}
