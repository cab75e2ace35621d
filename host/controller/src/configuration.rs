//! The configuration file: which policies decide, and what each namespace may use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_policy::{Policies, mistakes_of, nearest, plain_serde};

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
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        let instead = if is_toml { "; the controller reads YAML or JSON, not TOML" } else { "" };
        Self::parse(&text).map_err(|words| problem(format!("{words}{instead}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
        let map = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(map) => map,
            _ => return Err("expected a mapping with the keys policies and limits".to_owned()),
        };
        let mut configuration = Self::default();
        let wrong: Vec<String> =
            map.into_iter().filter_map(|(key, value)| configuration.read_key(&key, value).err()).collect();
        if wrong.is_empty() { Ok(configuration) } else { Err(wrong.join("; ")) }
    }

    fn read_key(&mut self, key: &str, value: Value) -> Result<(), String> {
        match key {
            "policies" => self.policies = Policies::from_value(value).map_err(|wrong| wrong.join("; "))?,
            "limits" => {
                self.limits = Vec::deserialize(&value).map_err(|first| {
                    let all = mistakes_of(&json!({ "limits": value }), Ok::<BTreeMap<String, Vec<Limit>>, _>);
                    let mut words: Vec<String> = all.into_iter().map(|mistake| mistake.words).collect();
                    if words.is_empty() {
                        words.push(plain_serde(&first.to_string()));
                    }
                    words.iter().map(|words| format!("limits: {words}")).collect::<Vec<_>>().join("; ")
                })?;
            }
            _ => {
                return Err(match nearest(key, KEYS) {
                    Some(meant) => format!("unknown key `{key}`; did you mean `{meant}`?"),
                    None => format!("unknown key `{key}`; the keys are {}", KEYS.join(" and ")),
                });
            }
        }
        Ok(())
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
            ("limits:\n- server: 1", "limits: there is no key `server` here; did you mean `servers`?"),
            ("limits:\n- namespaces: team", "limits: `namespaces`: the text \"team\" must be a list"),
            ("limits:\n- macs: -1\n- sevrers: 1", "limits: `macs`: the number -1 must be a whole number"),
            ("limits:\n- macs: -1\n- sevrers: 1", "; limits: there is no key `sevrers` here; did you mean `servers`?"),
            ("limits:", "limits: this empty value must be a list"),
            ("policies:\n  realese: {}", "policies: unknown key `realese`; did you mean `release`?"),
            ("- a", "expected a mapping"),
            ("policies: [", "did not find"),
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
        for words in
            ["unknown key `zone`", "limits: there is no key `server`", "did you mean `release`?", "policies.retry.mode"]
        {
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
