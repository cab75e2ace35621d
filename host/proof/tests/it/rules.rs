//! Files of rules as large as they can be, under the limits that every policy has.

use std::path::Path;

use windlass_policy::Link;
use windlass_policy::slots::SlotName;

use crate::support::Scene;

#[test]
fn a_file_of_rules_as_long_as_can_be_is_loaded() {
    let rule = |when: &str| format!("[[rules]]\nwhen = \"{when}\"\nanswer = \"defer\"\n");
    let listed = |number: u32| {
        let words: Vec<String> = (0..210).map(|word| format!("'{:06}'", number * 105 + word)).collect();
        let words = words.join(",");
        rule(&format!("server_type in [{words}] && !(zone in [{words}]) || undoing"))
    };
    let short = |number: u32| rule(&format!("attempt=={number}"));
    let rules: String = (0..13).map(listed).chain((0..243).map(short)).collect();
    assert!((60_000..65_000).contains(&rules.len()), "{}", rules.len());
    let link = Link::contents(Path::new("many.rules.toml"), format!("slot = \"retry\"\n{rules}").into_bytes());
    Scene::new().load(SlotName::Retry, &link);
}
