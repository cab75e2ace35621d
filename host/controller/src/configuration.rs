//! The configuration file: which policies decide, and what each namespace may use.

use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_policy::{Policies, nearest, plain_serde, plain_yaml};

use crate::Error;
use crate::limits::Limit;

/// The most that is read of the file, in bytes: a ConfigMap holds no more.
const MAX_BYTES: u64 = 1024 * 1024;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Configuration {
    /// The policies of every slot.
    pub(crate) policies: Policies,
    /// What each namespace may use of the controller's own account.
    pub(crate) limits: Vec<Limit>,
}

/// The keys of the file.
const KEYS: [&str; 2] = ["policies", "limits"];

impl Configuration {
    /// Reads YAML or JSON with the keys `policies` and `limits`. An empty file says nothing.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let problem = |problem: String| Error::Configuration { path: path.to_owned(), problem };
        let unreadable = |error: std::io::Error| problem(format!("cannot read the configuration (--config): {error}"));
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > MAX_BYTES {
            return Err(problem(format!("it has {length} bytes, more than {MAX_BYTES}")));
        }
        let text = windlass_process::read_text(path, MAX_BYTES).map_err(unreadable)?;
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        let instead = if is_toml { "; the controller reads YAML or JSON, not TOML" } else { "" };
        Self::parse(&text).map_err(|words| problem(format!("{words}{instead}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_norway::from_str(text).map_err(|error| yaml_words(text, &error))?;
        let map = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(map) => map,
            _ => return Err("expected a mapping with the keys policies and limits".to_owned()),
        };
        let mut configuration = Self::default();
        let wrong = map.into_iter().filter_map(|(key, value)| configuration.read_key(&key, value).err());
        let wrong: Vec<String> = wrong.flatten().collect();
        match wrong.as_slice() {
            [] => Ok(configuration),
            [one] => Err(one.clone()),
            several => Err(format!("{} mistakes:\n  {}", several.len(), several.join("\n  "))),
        }
    }

    /// Reads what stands under one key, or tells all mistakes in it.
    fn read_key(&mut self, key: &str, value: Value) -> Result<(), Vec<String>> {
        match key {
            "policies" => self.policies = Policies::from_value(value)?,
            "limits" => self.limits = Limit::read_all(&value)?,
            _ => {
                return Err(vec![match nearest(key, KEYS) {
                    Some(meant) => format!("unknown key `{key}`; did you mean `{meant}`?"),
                    None => format!("unknown key `{key}`; the keys are {}", KEYS.join(" and ")),
                }]);
            }
        }
        Ok(())
    }
}

/// What serde says about a value, in the words of YAML.
pub(crate) fn in_yaml(words: &str) -> String {
    let words = plain_serde(words).replace("the table must be", "the mapping must be");
    words.replace("must be a table", "must be a mapping")
}

/// What is wrong with a YAML text, with the line and in words for who wrote it.
pub(crate) fn yaml_words(text: &str, error: &serde_norway::Error) -> String {
    let at = error.location().map_or(1, |location| location.line());
    let (line, words) = (format!("line {at}: "), plain_yaml(text, at, &error.to_string()));
    // The path of the key comes first, where there is one.
    match words.split_once(": ") {
        Some((path, rest)) if !path.contains(' ') => format!("{line}`{path}`: {}", in_yaml(rest)),
        _ => format!("{line}{}", in_yaml(&words)),
    }
}

/// Where relative paths of policies start.
pub(crate) fn policy_folder(configured: Option<&PathBuf>, configuration: Option<&PathBuf>) -> PathBuf {
    configured
        .cloned()
        .or_else(|| configuration.and_then(|path| path.parent()).map(Path::to_owned))
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use windlass_policy::slots::SlotName;

    use super::*;

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = "policies:\n  release:\n    path: release.wasm\n    settings:\n      reboot-after-failures: 3\n";
        let json = r#"{"policies": {"release": {"path": "release.wasm", "settings": {"reboot-after-failures": 3}}}}"#;
        let from_yaml = Configuration::parse(yaml).unwrap();
        assert_eq!(from_yaml, Configuration::parse(json).unwrap());
        assert_eq!(from_yaml.policies.chain(SlotName::Release).len(), 1);
        assert_eq!(Configuration::parse("").unwrap(), Configuration::default());
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_the_nearest_key() {
        for (text, message) in [
            ("polices: {}", "unknown key `polices`; did you mean `policies`?"),
            ("zone: fr-par-1", "unknown key `zone`; the keys are policies and limits"),
            ("limits:\n- server: 1", "limits[0]: there is no key `server` here; did you mean `servers`?"),
            ("limits:\n- namespaces: team", "limits[0]: `namespaces`: the text \"team\" must be a list"),
            (
                "limits:\n- macs: -1\n- sevrers: 1",
                "2 mistakes:\n  limits[0]: `macs`: the number -1 must be a whole number",
            ),
            (
                "limits:\n- macs: -1\n- sevrers: 1",
                "\n  limits[1]: there is no key `sevrers` here; did you mean `servers`?",
            ),
            (
                "limits:\n- namespaces: [ci, Team_A]",
                "limits[0]: `namespaces[1]`: \"Team_A\" is not a namespace: its name has",
            ),
            ("limits:\n- namespaces: [Team_A]\n  sevrers: 1", "\n  limits[0]: `namespaces[0]`: \"Team_A\""),
            ("limits:\n- zones: [paris]", "limits[0]: `zones[0]`: "),
            ("limits:\n- 3", "limits[0]: the number 3 must be a mapping"),
            ("limits: {servers: 1}", "limits: the mapping must be a list"),
            ("limits:", "limits: this empty value must be a list"),
            ("policies:\n  realese: {}", "policies: unknown key `realese`; did you mean `release`?"),
            ("- a", "expected a mapping"),
            ("policies: [", "a closing bracket is missing"),
            ("limits:\n\t- macs: 1\n", "line 2: the line begins with a tab: indent with spaces"),
        ] {
            let error = Configuration::parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_that_is_null_is_no_limit() {
        let limits = |text| Configuration::parse(text).unwrap().limits;
        assert_eq!(limits("limits:\n- servers: null\n  macs: 2"), limits("limits:\n- macs: 2"));
    }

    #[test]
    fn the_mistakes_of_all_keys_are_reported_at_once() {
        let text = "zone: fr-par-1\nlimits:\n- server: 1\npolicies:\n  realese: {}\n  retry:\n    mode: on\n";
        let error = Configuration::parse(text).unwrap_err();
        for words in [
            "unknown key `zone`",
            "limits[0]: there is no key `server`",
            "did you mean `release`?",
            "policies.retry.mode",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn relative_policies_lie_beside_the_configuration() {
        let folder = policy_folder(None, Some(&PathBuf::from("/etc/windlass/config.yaml")));
        assert_eq!(folder, PathBuf::from("/etc/windlass"));
        assert_eq!(policy_folder(None, Some(&PathBuf::from("config.yaml"))), PathBuf::from("."));
        assert_eq!(policy_folder(Some(&PathBuf::from("/p")), None), PathBuf::from("/p"));
    }
}
