//! What a file is, before anything is compiled: its kind, its imports and exports.

use wasmparser::{Encoding, Parser, Payload, Validator};

use crate::class::Class;
use crate::engine::features;
use crate::error::Refusal;
use crate::slot_name::SlotName;
use crate::slots::CONTRACT_VERSION;
use crate::text::{one_line, short};

/// The interface that every policy exports.
pub(crate) const POLICY_INTERFACE: &str = "windlass:policy/policy";

/// The parts of a component that concern a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// What it imports, by full name.
    pub imports: Vec<String>,
    /// What it exports, by full name.
    pub exports: Vec<String>,
}

impl Examination {
    /// Reads a component.
    ///
    /// # Errors
    /// [`Refusal::NotAComponent`] with what the bytes seem to be, [`Refusal::Invalid`] where it breaks the rules of
    /// WebAssembly or uses what this host has switched off.
    pub fn of(bytes: &[u8]) -> Result<Examination, Refusal> {
        if let Some((what, remedy)) = not_a_component(bytes) {
            return Err(Refusal::NotAComponent { what, remedy });
        }
        Validator::new_with_features(features(Class::of(bytes)))
            .validate_all(bytes)
            .map_err(|error| Refusal::Invalid(one_line(&error.to_string()).into()))?;
        Examination::of_validated(bytes)
    }

    /// The same of a component that has been validated before, which takes most of the time for a large one.
    pub(crate) fn of_validated(bytes: &[u8]) -> Result<Examination, Refusal> {
        let mut examination = Examination { imports: Vec::new(), exports: Vec::new() };
        let mut depth = 0usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| Refusal::Invalid(one_line(&error.to_string()).into()))? {
                // Nothing in nested modules and components is visible from outside.
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        let import = import.map_err(|error| Refusal::Invalid(one_line(&error.to_string()).into()))?;
                        examination.imports.push(import.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        let export = export.map_err(|error| Refusal::Invalid(one_line(&error.to_string()).into()))?;
                        examination.exports.push(export.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(examination)
    }

    /// The slots that it exports, whatever their version.
    pub fn slots(&self) -> Vec<SlotName> {
        let exported = |slot: &SlotName| self.exports.iter().any(|export| split_version(export).0 == slot.interface());
        SlotName::ALL.into_iter().filter(exported).collect()
    }

    /// The versions of the contract that it exports `windlass:policy/policy` of: for which it was built. Whether a host
    /// speaks one of them is reported when it is loaded.
    pub fn contract_versions(&self) -> Vec<&str> {
        let exports = self.exports.iter().map(|export| split_version(export));
        exports.filter(|(name, _)| *name == POLICY_INTERFACE).filter_map(|(_, version)| version).collect()
    }

    /// The full name under which it exports this interface in a version that fits ours.
    ///
    /// # Errors
    /// [`Refusal::LacksExport`].
    pub(crate) fn export(&self, interface: &str) -> Result<&str, Refusal> {
        let fits = |export: &&String| {
            let (name, its_version) = split_version(export);
            name == interface && its_version.is_some_and(|its_version| is_compatible(its_version, CONTRACT_VERSION))
        };
        self.exports.iter().find(fits).map(String::as_str).ok_or_else(|| Refusal::LacksExport {
            expected: format!("{interface}@{CONTRACT_VERSION}"),
            found: list(&self.exports),
        })
    }
}

/// Names in backquotes; "nothing" for none.
fn list(names: &[String]) -> String {
    /// More would hide the message.
    const MAX_NAMES: usize = 12;
    if names.is_empty() {
        return "nothing".into();
    }
    let mut text: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{}`", short(name))).collect();
    if names.len() > MAX_NAMES {
        text.push(format!("and {} more", names.len() - MAX_NAMES));
    }
    text.join(", ")
}

/// Splits `windlass:policy/retry@0.1.0` into name and version.
pub(crate) fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (name, None),
    }
}

/// Whether a component made for one version of an interface can use the other: before 1.0 the minor number must be
/// equal, from 1.0 the major one.
pub(crate) fn is_compatible(one: &str, other: &str) -> bool {
    let track = |version: &str| {
        let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u64>().ok());
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(match (major, minor) {
            (0, 0) => (0, 0, patch),
            (0, minor) => (0, minor, 0),
            (major, _) => (major, 0, 0),
        })
    };
    one == other || (track(one).is_some() && track(one) == track(other))
}

/// What bytes that are no component seem to be, and what to do about it.
fn not_a_component(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const MAKE_ONE: &str = "`windlass policy build` makes one of a policy's folder";
    const WRONG_FILE: &str = "is `path` the right file?";
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    Some(match bytes {
        [] => ("an empty file", WRONG_FILE),
        _ if starts(b"\0asm") => match Parser::new(0).parse(bytes, true) {
            Ok(wasmparser::Chunk::Parsed {
                payload: Payload::Version { encoding: Encoding::Component, .. }, ..
            }) => return None,
            Ok(wasmparser::Chunk::Parsed { payload: Payload::Version { encoding: Encoding::Module, .. }, .. }) => {
                ("a core WebAssembly module", "`windlass policy build` makes a component of a policy's folder")
            }
            _ => ("WebAssembly of an unknown kind or version", MAKE_ONE),
        },
        _ if starts(b"\x7fELF") => ("a native program or compiled code (ELF)", MAKE_ONE),
        _ if starts(b"\x1f\x8b") => ("compressed with gzip", "unpack it first"),
        _ if starts(b"\x28\xb5\x2f\xfd") => ("compressed with zstd", "unpack it first"),
        _ if starts(b"PK\x03\x04") => ("a zip archive", "unpack it first"),
        _ if starts(b"version https://git-lfs") => {
            ("a pointer of git-lfs", "fetch the file itself with `git lfs pull`")
        }
        _ if bytes.trim_ascii_start().starts_with(b"(component")
            || bytes.trim_ascii_start().starts_with(b"(module") =>
        {
            ("WebAssembly as text", "make it binary with `wasm-tools parse`")
        }
        _ if bytes.trim_ascii_start().starts_with(b"<") => ("an HTML or XML page", "was an error page downloaded?"),
        _ if std::str::from_utf8(&bytes[..bytes.len().min(512)]).is_ok_and(|text| !text.contains('\0')) => {
            ("text", "if it holds rules, its name must end in .rules.toml; else: is `path` the right file?")
        }
        _ => ("no WebAssembly", WRONG_FILE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_is_named() {
        for (bytes, what) in [
            (&b""[..], "an empty file"),
            (b"\0asm\x01\0\0\0", "a core WebAssembly module"),
            (b"\0asm\x07\0\0\0", "WebAssembly of an unknown kind or version"),
            (b"\x7fELF\x02\x01", "a native program or compiled code (ELF)"),
            (b"\x1f\x8b\x08", "compressed with gzip"),
            (b"  (component)", "WebAssembly as text"),
            (b"<!doctype html>", "an HTML or XML page"),
            (b"path = \"x\"", "text"),
            (b"\xff\xfe\x00\x01", "no WebAssembly"),
        ] {
            let refusal = Examination::of(bytes).unwrap_err();
            assert!(matches!(&refusal, Refusal::NotAComponent { what: found, .. } if *found == what), "{refusal}");
        }
    }

    #[test]
    fn a_torn_component_is_invalid_and_no_panic() {
        let whole = b"\0asm\x0d\0\x01\0";
        assert!(Examination::of(whole).is_ok());
        assert!(matches!(Examination::of(b"\0asm\x0d\0\x01\0\x07\xff"), Err(Refusal::Invalid(_))));
    }

    #[test]
    fn versions_fit_within_their_track() {
        for (one, other, fits) in [
            ("0.1.0", "0.1.7", true),
            ("0.1.0", "0.2.0", false),
            ("1.2.0", "1.9.3", true),
            ("1.0.0", "2.0.0", false),
            ("0.0.1", "0.0.2", false),
            ("x", "0.1.0", false),
        ] {
            assert_eq!(is_compatible(one, other), fits, "{one} {other}");
        }
    }
}
