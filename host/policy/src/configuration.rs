//! Which policies decide: the `policies` part of a configuration, read from TOML or JSON.
//!
//! ```toml
//! [policies.retry]                      # one policy for a slot
//! path = "policies/stock-aware-retry.wasm"
//! grants = ["windlass:scaleway/look-ups"]
//! settings = { patience = "5m" }
//!
//! [[policies.rollback]]                 # or a chain, asked in this order
//! path = "policies/team.wasm"
//! [[policies.rollback]]
//! path = "policies/company.rules.toml"  # rules instead of a component
//! on_failure = "keep"
//! limits = { time_ms = 100 }
//! [[policies.rollback]]
//! path = "oci://registry.example/policies/next@sha256:..."   # from a registry, by digest or by tag
//! mode = "shadow"                       # asked and recorded, and never decides
//!
//! [policies]
//! labels = ["team", "cost-center"]      # which labels, annotations and tags of a machine its questions have
//!
//! [policies.trust.keys]                 # where it stands, only what one of these keys has signed is used
//! release = "RWQ..."
//! ```
//!
//! Settings and limits in milliseconds (`deadline-ms`, `time_ms`) also take durations: `deadline-ms = "15m"`.
//!
//! The last link of every chain is the built-in default, also when it isn't written. A link without `path` is the
//! built-in default with settings of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use windlass_distribution::{Reference, RegistrySettings, Trust};

use crate::digest::Digest;
use crate::duration::in_milliseconds;
use crate::limits::Limits;
use crate::plain::plain_serde;
use crate::rules::RulesFile;
use crate::slot_name::{OnFailure, SlotName};
use crate::slots::types::Subject;
use crate::source::Source;
use crate::text::unknown_key;

/// The most links of one chain.
const MAX_LINKS: usize = 8;
/// The most grants of one policy.
const MAX_GRANTS: usize = 64;

/// What a link does in its chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// It decides.
    #[default]
    Decide,
    /// It is asked what it would have been asked in its place, after the decision is made; its answer is recorded and
    /// compared with the decision, and never decides. See [`ShadowOptions`](crate::ShadowOptions) for what it may cost.
    Shadow,
}

impl Mode {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One policy of a chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Its component.
    pub source: Source,
    /// What its `configure` gets.
    pub settings: Map<String, Value>,
    /// The imports that it may have, each with the arguments of its capability: `windlass:scaleway/look-ups`,
    /// `windlass:scaleway/request GET /instance/v1/**`.
    pub grants: Vec<String>,
    /// What decides when it fails. Absent: [`Slot::on_failure`](crate::slots::Slot::on_failure).
    pub on_failure: Option<OnFailure>,
    /// The limits that differ from the host's.
    pub limits: Map<String, Value>,
    /// Whether it decides.
    pub mode: Mode,
}

impl Link {
    /// A policy from a file, without settings or grants.
    pub fn file(path: impl Into<PathBuf>) -> Link {
        Link { source: Source::File(path.into()), ..Link::default() }
    }

    /// A policy from memory, without settings or grants.
    pub fn bytes(component: impl Into<Arc<[u8]>>) -> Link {
        Link { source: Source::Bytes(component.into()), ..Link::default() }
    }

    /// An artifact of a registry, without settings or grants.
    pub fn registry(reference: Reference) -> Link {
        Link { source: Source::Registry(Arc::new(reference)), ..Link::default() }
    }

    /// What a file of that name holds, from memory: a component, or rules where the name ends in `.rules.toml`.
    pub fn contents(path: &Path, contents: impl Into<Arc<[u8]>>) -> Link {
        let contents = contents.into();
        let source = match RulesFile::is_named(path) {
            true => {
                let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
                Source::Rules { name: (&*name).into(), contents }
            }
            false => Source::Bytes(contents),
        };
        Link { source, ..Link::default() }
    }

    /// What tells its grants, limits and `on_failure` from those of another link of the same policy.
    pub(crate) fn configuration(&self) -> Option<Digest> {
        let Link { grants, limits, on_failure, .. } = self;
        let is_plain = grants.is_empty() && limits.is_empty() && on_failure.is_none();
        (!is_plain).then(|| Digest::of_json(&json!({"grants": grants, "limits": limits, "on_failure": on_failure})))
    }

    /// The same with these settings. What is no object counts as none.
    pub fn with_settings(mut self, settings: Value) -> Link {
        self.settings = match settings {
            Value::Object(map) => in_milliseconds(map),
            _ => Map::new(),
        };
        self
    }

    /// The same with one more grant.
    pub fn with_grant(mut self, grant: impl Into<String>) -> Link {
        self.grants.push(grant.into());
        self
    }

    /// The same with one limit replaced.
    pub fn with_limit(mut self, limit: &str, value: u64) -> Link {
        self.limits.insert(limit.into(), value.into());
        self
    }

    /// The same with what decides when it fails.
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Link {
        self.on_failure = Some(on_failure);
        self
    }

    /// The same as a shadow.
    pub fn as_shadow(mut self) -> Link {
        self.mode = Mode::Shadow;
        self
    }

    /// Whether it is the built-in default, which never defers.
    fn decides_all(&self) -> bool {
        self.source == Source::BuiltIn && self.mode == Mode::Decide
    }

    const KEYS: [&str; 6] = ["path", "settings", "grants", "on_failure", "limits", "mode"];

    fn from_value(value: Value, place: &str) -> Result<Link, Vec<String>> {
        let Value::Object(map) = value else {
            return Err(vec![format!(
                "{place}: expected a table with the keys {}, found {}",
                Self::KEYS.join(", "),
                kind(&value)
            )]);
        };
        let (mut link, mut wrong) = (Link::default(), Vec::new());
        for (key, value) in map {
            let place_of = format!("{place}.{key}");
            match (key.as_str(), value) {
                ("path", Value::String(path)) if Reference::is_meant(&path) => match path.parse::<Reference>() {
                    Ok(reference) => link.source = Source::Registry(Arc::new(reference)),
                    Err(error) => wrong.push(format!("{place_of}: {error}")),
                },
                ("path", Value::String(path)) if !path.is_empty() => link.source = Source::File(path.into()),
                ("path", value) => wrong.push(format!("{place_of}: expected the path of a component, found {value}")),
                ("settings", Value::Object(settings)) => link.settings = in_milliseconds(settings),
                ("grants", Value::Array(grants)) => {
                    if grants.len() > MAX_GRANTS {
                        let many = grants.len();
                        wrong.push(format!("{place_of}: {many} grants, and at most {MAX_GRANTS} are allowed"));
                    }
                    for (index, grant) in grants.into_iter().take(MAX_GRANTS).enumerate() {
                        match grant {
                            Value::String(grant) if !grant.trim().is_empty() => link.grants.push(grant),
                            other => wrong
                                .push(format!("{place_of}[{index}]: expected the name of an import, found {other}")),
                        }
                    }
                }
                ("grants", value) => {
                    wrong.push(format!("{place_of}: expected a list of imports, found {}", kind(&value)));
                }
                ("on_failure", Value::String(word)) if word == "default" => link.on_failure = Some(OnFailure::Default),
                ("on_failure", Value::String(word)) if word == "keep" => link.on_failure = Some(OnFailure::Keep),
                ("on_failure", value) => {
                    wrong.push(format!("{place_of}: expected \"default\" or \"keep\", found {value}"));
                }
                ("limits", Value::Object(limits)) => {
                    let limits = in_milliseconds(limits);
                    // Checked here already, so that a mistake is found when the file is read.
                    wrong.extend(Limits::default().with(&limits, &place_of).err().into_iter().flatten());
                    link.limits = limits;
                }
                ("settings" | "limits", value) => {
                    wrong.push(format!("{place_of}: expected a table, found {}", kind(&value)));
                }
                ("mode", Value::String(word)) if word == Mode::Decide.as_str() => link.mode = Mode::Decide,
                ("mode", Value::String(word)) if word == Mode::Shadow.as_str() => link.mode = Mode::Shadow,
                ("mode", value) => {
                    wrong.push(format!("{place_of}: expected \"decide\" or \"shadow\", found {value}"));
                }
                _ => wrong.push(format!("{place}: {}", unknown_key(&key, &Self::KEYS))),
            }
        }
        if wrong.is_empty() { Ok(link) } else { Err(wrong) }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        if let Source::File(_) | Source::Registry(_) = &self.source {
            map.insert("path".into(), self.source.to_string().into());
        }
        if !self.settings.is_empty() {
            map.insert("settings".into(), Value::Object(self.settings.clone()));
        }
        if !self.grants.is_empty() {
            map.insert("grants".into(), self.grants.clone().into());
        }
        if let Some(on_failure) = self.on_failure {
            map.insert("on_failure".into(), <&str>::from(on_failure).into());
        }
        if !self.limits.is_empty() {
            map.insert("limits".into(), Value::Object(self.limits.clone()));
        }
        if self.mode != Mode::default() {
            map.insert("mode".into(), self.mode.as_str().into());
        }
        Value::Object(map)
    }
}

/// The policies of every slot: for each slot its chain, in the order in which its links are asked. A slot that isn't
/// named has the built-in default alone.
///
/// Reading one (it implements `Deserialize`) refuses unknown keys with their place and the nearest valid key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    chains: BTreeMap<SlotName, Vec<Link>>,
    trust: Option<Arc<Trust>>,
    registries: RegistrySettings,
    labels: Vec<String>,
}

/// The keys of `policies` that are no slots.
const TRUST: &str = "trust";
const REGISTRIES: &str = "registries";
const LABELS: &str = "labels";

/// The longest name of a label, in bytes: a qualified one of Kubernetes has 317.
const MAX_LABEL_LEN: usize = 320;

impl Policies {
    /// The built-in defaults and nothing else.
    pub fn built_in() -> Policies {
        Policies::default()
    }

    /// These policies with one more link at the end of a slot's chain.
    pub fn with(mut self, slot: SlotName, link: Link) -> Policies {
        self.chains.entry(slot).or_default().push(link);
        self
    }

    /// These policies where the built-in default of a slot has this setting, unless it is configured otherwise.
    pub fn with_default_setting(mut self, slot: SlotName, key: &str, value: Value) -> Policies {
        let chain = self.chains.entry(slot).or_default();
        if !chain.last().is_some_and(Link::decides_all) {
            chain.push(Link::default());
        }
        if let Some(default) = chain.last_mut() {
            default.settings.entry(key).or_insert(value);
        }
        self
    }

    /// The configured links of a slot, without the built-in default that ends every chain.
    pub fn chain(&self, slot: SlotName) -> &[Link] {
        self.chains.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// Who may sign policies. Where this is something, what nobody of them has signed is not used.
    pub fn trust(&self) -> Option<&Arc<Trust>> {
        self.trust.as_ref()
    }

    /// How registries are reached.
    pub fn registries(&self) -> &RegistrySettings {
        &self.registries
    }

    /// Reads the key `labels`.
    ///
    /// # Errors
    /// Where it is no list of names, too long a list, or has one twice.
    fn read_labels(value: Value) -> Result<Vec<String>, String> {
        let Value::Array(names) = value else {
            return Err(format!("expected a list of names, found {}", kind(&value)));
        };
        if names.len() > Subject::MAX_LABELS {
            return Err(format!("has {} names, and at most {} are allowed", names.len(), Subject::MAX_LABELS));
        }
        let (mut read, mut wrong): (Vec<String>, Vec<String>) = (Vec::with_capacity(names.len()), Vec::new());
        for (index, name) in names.into_iter().enumerate() {
            match name {
                Value::String(name)
                    if name.is_empty()
                        || name.len() > MAX_LABEL_LEN
                        || name.contains(|it: char| it == '=' || it.is_whitespace()) =>
                {
                    wrong.push(format!(
                        "[{index}]: expected the name of a label, of 1 to {MAX_LABEL_LEN} bytes and without spaces and \
                         \"=\", found {name:?}"
                    ));
                }
                Value::String(name) if read.contains(&name) => {
                    wrong.push(format!("[{index}]: {name:?} is there twice"));
                }
                Value::String(name) => read.push(name),
                other => wrong.push(format!("[{index}]: expected the name of a label, found {}", kind(&other))),
            }
        }
        if wrong.is_empty() { Ok(read) } else { Err(wrong.join("; ")) }
    }

    /// The names of the labels, annotations and tags that questions may have, in this order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// These policies with questions that may have labels of these names.
    pub fn with_labels<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Policies {
        self.labels = names.into_iter().map(Into::into).collect();
        self
    }

    /// These policies, and only if one of these keys has signed them.
    pub fn with_trust(mut self, trust: Trust) -> Policies {
        self.trust = Some(Arc::new(trust));
        self
    }

    /// These policies with registries that are reached so.
    pub fn with_registries(mut self, registries: RegistrySettings) -> Policies {
        self.registries = registries;
        self
    }

    /// These policies with the trust, registries and labels of others, where these have any.
    pub fn with_common_of(mut self, others: Policies) -> Policies {
        self.trust = others.trust.or(self.trust);
        if others.registries != RegistrySettings::default() {
            self.registries = others.registries;
        }
        if !others.labels.is_empty() {
            self.labels = others.labels;
        }
        self
    }

    /// All configured links.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.chains.values().flatten()
    }

    /// Reads the table `policies`.
    ///
    /// # Errors
    /// For each key that is wrong a sentence: the key, its place, and the nearest valid key or what was expected.
    pub fn from_value(value: Value) -> Result<Policies, Vec<String>> {
        let Value::Object(map) = value else {
            return Err(vec![format!("policies: expected a table with a key for each slot, found {}", kind(&value))]);
        };
        let (mut policies, mut wrong) = (Policies::default(), Vec::new());
        for (key, value) in map {
            wrong.extend(policies.read(&key, value).err().into_iter().flatten());
        }
        wrong.extend(policies.check().err());
        if wrong.is_empty() { Ok(policies) } else { Err(wrong) }
    }

    /// Reads what stands under one key of the table.
    fn read(&mut self, key: &str, value: Value) -> Result<(), Vec<String>> {
        let place = |problem: String| vec![format!("policies.{key}: {problem}")];
        match key {
            TRUST => {
                let read = Trust::from_value(value);
                self.trust = Some(Arc::new(read.map_err(|problem| place(plain_serde(&problem)))?));
            }
            REGISTRIES => {
                let read = RegistrySettings::from_value(value);
                self.registries = read.map_err(|problem| place(plain_serde(&problem)))?;
            }
            LABELS => self.labels = Self::read_labels(value).map_err(place)?,
            _ => {
                let names = SlotName::ALL.map(SlotName::as_str);
                let names: Vec<&str> = names.into_iter().chain([TRUST, REGISTRIES, LABELS]).collect();
                let Ok(slot) = key.parse::<SlotName>() else {
                    return Err(vec![format!("policies: {}", unknown_key(key, &names))]);
                };
                let place = format!("policies.{slot}");
                let (mut links, mut wrong) = (Vec::new(), Vec::new());
                let mut add = |link, place: &str| match Link::from_value(link, place) {
                    Ok(link) => links.push(link),
                    Err(problems) => wrong.extend(problems),
                };
                match value {
                    Value::Array(all) => {
                        let count = all.len();
                        for (index, link) in all.into_iter().take(MAX_LINKS).enumerate() {
                            add(link, &format!("{place}[{index}]"));
                        }
                        if count > MAX_LINKS {
                            wrong.push(format!("{place}: {count} links, and at most {MAX_LINKS} are allowed"));
                        }
                    }
                    link => add(link, &place),
                }
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.chains.insert(slot, links);
            }
        }
        Ok(())
    }

    /// The built-in default never defers, so nothing after it would ever be asked.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (slot, links) in &self.chains {
            if let Some(index) = links.iter().rev().skip(1).position(Link::decides_all) {
                let index = links.len() - 2 - index;
                return Err(format!(
                    "policies.{slot}[{index}]: a link without `path` is the built-in default, which decides \
                     everything; the links after it would never be asked. Put it last"
                ));
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Policies, D::Error> {
        let read = Policies::from_value(Value::deserialize(deserializer)?);
        read.map_err(|wrong| serde::de::Error::custom(wrong.join("; ")))
    }
}

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (slot, links) in &self.chains {
            map.serialize_entry(slot, &links.iter().map(Link::to_value).collect::<Vec<_>>())?;
        }
        if let Some(trust) = &self.trust {
            map.serialize_entry(TRUST, &**trust)?;
        }
        if self.registries != RegistrySettings::default() {
            map.serialize_entry(REGISTRIES, &self.registries)?;
        }
        if !self.labels.is_empty() {
            map.serialize_entry(LABELS, &self.labels)?;
        }
        map.end()
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        policies: Policies,
    }

    fn read(toml: &str) -> Result<Policies, String> {
        toml::from_str::<File>(toml).map(|file| file.policies).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_default_setting_beside_as_many_links_as_are_allowed_is_no_link_too_many() {
        let links = "[[policies.retry]]\npath = 'a.wasm'\n".repeat(MAX_LINKS);
        let policies = read(&links).unwrap().with_default_setting(SlotName::Retry, "attempts", 3.into());
        assert_eq!(policies.check(), Ok(()));
    }

    #[test]
    fn labels_are_few_short_names_and_each_is_there_once() {
        let policies = read("[policies]\nlabels = ['team', 'example.com/cost-center']").unwrap();
        assert_eq!(policies.labels(), ["team", "example.com/cost-center"]);
        assert_eq!(Policies::from_value(serde_json::to_value(&policies).unwrap()).unwrap(), policies);
        for (labels, why) in [
            ("'team'", "expected a list"),
            ("['']", "[0]: expected the name"),
            ("['a', 'team=build']", "[1]: expected the name"),
            ("[' team']", "without spaces"),
            ("[7]", "[0]: expected the name"),
            ("['a', 'a']", "[1]: \"a\" is there twice"),
            ("['', 'a', 7]", "found \"\"; [2]: expected the name"),
        ] {
            let refused = read(&format!("[policies]\nlabels = {labels}")).unwrap_err();
            assert!(refused.contains("policies.labels: ") && refused.contains(why), "{labels}: {refused}");
        }
        let many: Vec<String> = (0..65).map(|number| format!("'n{number}'")).collect();
        let refused = read(&format!("[policies]\nlabels = [{}]", many.join(", "))).unwrap_err();
        assert!(refused.contains("65 names, and at most 64"), "{refused}");
    }

    #[test]
    fn one_table_is_a_chain_of_one_and_a_list_of_tables_keeps_its_order() {
        let policies = read(
            r#"
            [policies.retry]
            path = "a.wasm"
            settings = { patience = 3 }
            grants = ["windlass:scaleway/look-ups"]
            [[policies.rollback]]
            path = "team.wasm"
            on_failure = "keep"
            [[policies.rollback]]
            path = "company.wasm"
            limits = { time_ms = 100 }
            [[policies.rollback]]
            path = "next.wasm"
            mode = "shadow"
            "#,
        )
        .unwrap();
        let retry = &policies.chain(SlotName::Retry)[0];
        assert_eq!(retry.source, Source::File("a.wasm".into()));
        assert_eq!(retry.settings["patience"], 3);
        assert_eq!(retry.grants, ["windlass:scaleway/look-ups"]);
        let rollback = policies.chain(SlotName::Rollback);
        assert_eq!(rollback[0].source, Source::File("team.wasm".into()));
        assert_eq!(rollback[0].on_failure, Some(OnFailure::Keep));
        assert_eq!(rollback[1].limits["time_ms"], 100);
        assert_eq!((rollback[1].mode, rollback[2].mode), (Mode::Decide, Mode::Shadow));
        assert!(policies.chain(SlotName::Release).is_empty());
        // JSON says the same, and what is written reads back.
        let json = serde_json::to_string(&policies).unwrap();
        assert_eq!(serde_json::from_str::<Policies>(&json).unwrap(), policies);
    }

    #[test]
    fn misspelt_keys_are_refused_with_their_place_and_the_nearest_key() {
        for (toml, message) in [
            ("[policies.rety]", "policies: unknown key `rety`; did you mean `retry`?"),
            ("[policies.retry]\nsetings = {}", "policies.retry: unknown key `setings`; did you mean `settings`?"),
            (
                "[[policies.retry]]\n[[policies.retry]]\ncolour = 1",
                "policies.retry[1]: unknown key `colour`; the keys are path, settings, grants, on_failure, limits, \
                 mode",
            ),
            (
                "[policies.retry.limits]\ntime = 1",
                "policies.retry.limits: unknown key `time`; the keys are component_bytes",
            ),
            ("[policies.retry]\non_failure = \"stop\"", "policies.retry.on_failure: expected \"default\" or \"keep\""),
            ("[policies.retry]\nmode = \"watch\"", "policies.retry.mode: expected \"decide\" or \"shadow\""),
            ("[policies.retry]\ngrants = \"x\"", "policies.retry.grants: expected a list of imports, found a string"),
            ("[policies.retry]\npath = 1", "policies.retry.path: expected the path of a component, found 1"),
        ] {
            let error = read(toml).unwrap_err();
            assert!(error.starts_with(message), "{toml}: {error}");
        }
    }

    #[test]
    fn all_mistakes_of_all_policies_are_told_at_once() {
        let text = "[policies]\nrety = {}\nlabels = 'x'\n[policies.retry]\npath = ''\nmode = 'watch'\nsettings = 1\n\
                    limits = { time_ms = 0, memory_byte = 1 }\n[[policies.rollback]]\ngrants = ['', 1]\n\
                    [[policies.rollback]]\npath = 'a.wasm'\n";
        let Err(wrong) = Policies::from_value(
            serde_json::to_value(toml::from_str::<Map<String, Value>>(text).unwrap()).unwrap()["policies"].take(),
        ) else {
            panic!("it is read")
        };
        let places: Vec<&str> = wrong.iter().filter_map(|words| words.split(": ").next()).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let expected = [
            "policies",
            "policies.labels",
            "policies.retry.limits",
            "policies.retry.limits.time_ms",
            "policies.retry.mode",
            "policies.retry.path",
            "policies.retry.settings",
            "policies.rollback[0].grants[0]",
            "policies.rollback[0].grants[1]",
        ];
        assert_eq!(sorted, expected, "{wrong:#?}");
    }

    #[test]
    fn a_link_that_could_never_be_asked_is_refused() {
        let error = read("[[policies.retry]]\nsettings = {}\n[[policies.retry]]\npath = \"a.wasm\"").unwrap_err();
        assert!(error.starts_with("policies.retry[0]: a link without `path` is the built-in default"), "{error}");
        let error = read("[[policies.retry]]\n[[policies.retry]]\npath = \"a.wasm\"\nmode = \"shadow\"").unwrap_err();
        assert!(error.starts_with("policies.retry[0]: a link without `path` is the built-in default"), "{error}");
        // As a shadow it decides nothing.
        let shadow = "[[policies.retry]]\nmode = \"shadow\"\n[[policies.retry]]\npath = \"a.wasm\"";
        assert_eq!(read(shadow).unwrap().chain(SlotName::Retry)[0].mode, Mode::Shadow);
    }
}
