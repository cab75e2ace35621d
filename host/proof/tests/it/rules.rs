//! Files of rules as large as they can be, under the limits that every policy has.

use std::path::Path;

use windlass_policy::Link;
use windlass_policy::slots::SlotName;

use crate::support::Scene;

#[test]
fn as_many_rules_with_as_long_lists_as_can_be_are_loaded() {
    let rule = |number: u32| {
        let words: Vec<String> = (0..210).map(|word| format!("'{:06}'", number * 125 + word)).collect();
        let words = words.join(",");
        format!(
            "[[rules]]\nwhen = \"server_type in [{words}] && !(zone in [{words}]) || undoing\"\nanswer = \"give-up\"\n"
        )
    };
    let rules: String = (0..256).map(rule).collect();
    let link = Link::contents(Path::new("many.rules.toml"), format!("slot = \"retry\"\n{rules}").into_bytes());
    Scene::new().load(SlotName::Retry, &link);
}
