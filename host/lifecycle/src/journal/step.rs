//! The steps of operations on servers, as types. The journal keeps a step's word and its data apart; here they meet.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_policy::slots::rollback::Action;

use super::record::{ResourceKind, ResourceName};
use crate::machines::ORDER_STEP;
use crate::specification::AddressKind;

/// The key under which the word of a step stands in its serialized form.
const WORD: &str = "step";

/// A step with what is worth knowing of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A step that creates a server.
    Create(Create),
    /// A step of a rollback plan.
    Plan(Action, ResourceKind),
    /// A step on an Apple silicon host. The module of hosts knows its data.
    Host { word: String, data: Value },
}

impl From<Create> for Step {
    fn from(create: Create) -> Self {
        Self::Create(create)
    }
}

impl From<(&str, Value)> for Step {
    fn from((word, data): (&str, Value)) -> Self {
        Self::Host { word: word.to_owned(), data }
    }
}

/// The steps of a creation that have an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(crate) enum Create {
    #[serde(rename = "create-ip")]
    Ip {
        kind: AddressKind,
        /// In the outcome: the address itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    },
    #[serde(rename = "create-volume")]
    Volume {
        position: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    #[serde(rename = "create-server")]
    Server {
        #[serde(rename = "type")]
        server_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
        /// In the intent: the id of the address out of a pool that is attached to it. It was there before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pooled_ip: Option<String>,
        /// In the outcome: the volumes that came into being with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volumes: Vec<ResourceName>,
    },
    TagVolume,
    #[serde(rename = "create-private-nic")]
    PrivateNic {
        private_network: String,
    },
    SetCloudInit,
    /// Everything about the server is settled before it. A create that got so far is finished by a successor, not
    /// undone.
    PowerOn,
    ChangeServerType {
        #[serde(rename = "type")]
        server_type: String,
    },
    WaitUntilRunning,
}

/// The word of an action in a step.
fn action_word(action: Action) -> &'static str {
    match action {
        Action::Delete => "delete",
        Action::Detach => "detach",
        Action::PowerOff => "power-off",
        Action::Keep => "keep",
    }
}

/// The word of a case and its data, of an enum whose tag is `tag`.
pub(super) fn parts(tag: &str, tagged: &impl Serialize) -> (String, Value) {
    let mut fields = match serde_json::to_value(tagged) {
        Ok(Value::Object(fields)) => fields,
        // An enum with a tag is an object of plain data.
        _ => Map::new(),
    };
    let word = match fields.remove(tag) {
        Some(Value::String(word)) => word,
        _ => String::new(),
    };
    (word, Value::Object(fields))
}

impl Step {
    /// The word and the data, as the journal keeps them.
    pub(crate) fn parts(&self) -> (String, Value) {
        match self {
            Self::Create(create) => parts(WORD, create),
            Self::Plan(action, kind) => (format!("{}-{kind}", action_word(*action)), Value::Object(Map::new())),
            Self::Host { word, data } => (word.clone(), data.clone()),
        }
    }

    pub(crate) fn word(&self) -> String {
        self.parts().0
    }

    /// What the step of this word makes, where it can be found by its tag when the answer is lost.
    pub(crate) fn makes(word: &str) -> Option<ResourceKind> {
        match word {
            "create-ip" => Some(ResourceKind::Ip),
            "create-volume" => Some(ResourceKind::BlockVolume),
            "create-server" => Some(ResourceKind::Server),
            _ => None,
        }
    }

    /// Whether a late effect of the step of this word would be left over, since it makes something. A late effect of
    /// any other step is one on something that is looked up by its id.
    pub(crate) fn may_arrive_late(word: &str) -> bool {
        Self::makes(word).is_some() || word == "create-private-nic" || word == ORDER_STEP
    }

    /// Whether the step of this word removes its resource.
    pub(crate) fn removes(word: &str) -> bool {
        word.strip_prefix(action_word(Action::Delete)).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Reads a step. An error says what of a known step's data is wrong.
    pub(crate) fn read(word: &str, data: &Value) -> Result<Self, String> {
        for action in [Action::Delete, Action::Detach, Action::PowerOff, Action::Keep] {
            let kind = word.strip_prefix(action_word(action)).and_then(|rest| rest.strip_prefix('-'));
            if let Some(kind) = kind.and_then(|kind| serde_json::from_value(Value::from(kind)).ok()) {
                return Ok(Self::Plan(action, kind));
            }
        }
        if !CREATE_WORDS.contains(&word) {
            return Ok(Self::from((word, data.clone())));
        }
        let mut fields = data.as_object().cloned().unwrap_or_default();
        fields.insert(WORD.to_owned(), Value::from(word));
        serde_json::from_value(Value::Object(fields)).map(Self::Create).map_err(|error| error.to_string())
    }
}

const CREATE_WORDS: [&str; 9] = [
    "create-ip",
    "create-volume",
    "create-server",
    "tag-volume",
    "create-private-nic",
    "set-cloud-init",
    "power-on",
    "change-server-type",
    "wait-until-running",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all() -> Vec<Create> {
        let volume =
            ResourceName { kind: ResourceKind::BlockVolume, id: "boot".into(), zone: "fr-par-1".into(), server: None };
        vec![
            Create::Ip { kind: AddressKind::Ipv6, address: Some("2001:db8::1".into()) },
            Create::Volume { position: 2, size: None },
            Create::Server {
                server_type: "DEV1-S".into(),
                image: None,
                pooled_ip: Some("ip".into()),
                volumes: vec![volume],
            },
            Create::TagVolume,
            Create::PrivateNic { private_network: "network".into() },
            Create::SetCloudInit,
            Create::PowerOn,
            Create::ChangeServerType { server_type: "DEV1-M".into() },
            Create::WaitUntilRunning,
        ]
    }

    #[test]
    fn every_step_is_read_as_it_was_written() {
        let words: Vec<String> = all().into_iter().map(|create| Step::Create(create).word()).collect();
        assert_eq!(words, CREATE_WORDS);
        for create in all() {
            let step = Step::Create(create);
            let (word, data) = step.parts();
            assert_eq!(Step::read(&word, &data).unwrap(), step);
        }
        for action in [Action::Delete, Action::Detach, Action::PowerOff, Action::Keep] {
            for kind in [ResourceKind::Server, ResourceKind::BlockVolume, ResourceKind::LocalVolume, ResourceKind::Ip] {
                let step = Step::Plan(action, kind);
                assert_eq!(Step::read(&step.word(), &json!({})).unwrap(), step);
            }
        }
        // Machines' words are theirs.
        for word in ["claim", "power-on-host", "delete-everything", "reinstall"] {
            let data = json!({ "name": "x" });
            assert_eq!(Step::read(word, &data).unwrap(), Step::from((word, data)));
        }
    }

    #[test]
    fn a_known_step_with_data_of_another_shape_is_an_error() {
        assert!(Step::read("create-ip", &json!({ "kind": "ipv5" })).is_err());
        assert!(Step::read("create-server", &json!({})).is_err());
    }

    #[test]
    fn what_older_versions_wrote_is_read() {
        let server = json!({ "type": "DEV1-S", "image": "an-image" });
        let step = Create::Server {
            server_type: "DEV1-S".into(),
            image: Some("an-image".into()),
            pooled_ip: None,
            volumes: vec![],
        };
        assert_eq!(Step::read("create-server", &server).unwrap(), Step::Create(step));
        let volume = json!({ "position": 1 });
        let step = Create::Volume { position: 1, size: None };
        assert_eq!(Step::read("create-volume", &volume).unwrap(), Step::Create(step));
    }
}
