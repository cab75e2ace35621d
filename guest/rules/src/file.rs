//! What a file of rules says, as the host passes it on: the policy's settings.

use serde::Deserialize;
use serde_json::Value;
use windlass_guest_sdk::{Setting, Settings};

/// The most rules of one file.
pub(crate) const MAX_RULES: usize = 256;

/// A file of rules.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// The slot that the rules are about. Without one there are no rules.
    pub(crate) slot: Option<Slot>,
    /// The first one that applies answers.
    pub(crate) rules: Vec<Rule>,
}

/// A slot by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Slot {
    StateMapping,
    Retry,
    Rollback,
    Release,
    Provisioning,
    Placement,
}

/// One rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Rule {
    /// For messages and records.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// A condition in CEL.
    pub(crate) when: String,
    /// The slot's verdict.
    pub(crate) answer: Value,
    /// Why, for people.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

impl Setting for File {
    fn schema(out: &mut String) {
        out.push_str(SCHEMA);
    }

    fn json(&self, out: &mut String) {
        out.push_str("{}");
    }
}

impl Settings for File {}

/// `answer` has no type here: each slot has its own, and `configure` knows them.
const SCHEMA: &str = concat!(
    r#""type":"object","description":"Conditions, each with an answer and a reason.","additionalProperties":false,"#,
    r#""properties":{"slot":{"enum":["state-mapping","retry","rollback","release","provisioning","placement"],"#,
    r#""description":"The slot that the rules are about."},"#,
    r#""rules":{"type":"array","maxItems":256,"description":"The first one that applies answers.","default":[],"#,
    r#""items":{"type":"object","additionalProperties":false,"required":["when","answer"],"properties":{"#,
    r#""name":{"type":"string","description":"Name shown in messages and records."},"#,
    r#""when":{"type":"string","description":"A condition in CEL."},"#,
    r#""answer":{"type":["string","object"],"description":"The verdict in the contract's words."},"#,
    r#""reason":{"type":"string","description":"Why, for people."}}}}}"#,
);
