//! The SDK's fixtures and the host's are the same fixtures.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_guest_sdk::testing;
use windlass_guest_sdk::{placement, provisioning, release, retry, rollback, state_mapping};
use windlass_policy::slots::SlotName;
use windlass_proof::fixture::Fixture;

fn example(slot: SlotName) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guest/sdk/src/testing/examples/{slot}.json"))
}

#[test]
fn the_sdk_knows_the_hosts_example_questions() {
    for slot in SlotName::ALL {
        let ours = serde_json::to_string_pretty(&slot.example_question()).unwrap() + "\n";
        if std::env::var_os("WINDLASS_BLESS").is_some() {
            std::fs::write(example(slot), &ours).unwrap();
        }
        let theirs = std::fs::read_to_string(example(slot)).unwrap();
        assert!(theirs == ours, "{} is not the host's: run this test with WINDLASS_BLESS=1", example(slot).display());
    }
}

/// The question of a fixture as the SDK has it, in JSON.
fn in_the_sdk(slot: SlotName, fixture: &testing::Fixture) -> Value {
    let json = match slot {
        SlotName::StateMapping => serde_json::to_value(fixture.question::<state_mapping::Question>()),
        SlotName::Retry => serde_json::to_value(fixture.question::<retry::Question>()),
        SlotName::Rollback => serde_json::to_value(fixture.question::<rollback::Question>()),
        SlotName::Release => serde_json::to_value(fixture.question::<release::Question>()),
        SlotName::Provisioning => serde_json::to_value(fixture.question::<provisioning::Question>()),
        SlotName::Placement => serde_json::to_value(fixture.question::<placement::Question>()),
    };
    json.unwrap()
}

#[test]
fn a_fixture_asks_the_same_question_in_the_sdk_and_in_the_host() {
    let failure = json!({"class": "locked", "message": "no", "ambiguous": true});
    let refusal = json!({"action": "terminate", "failure": failure, "not-before": 7});
    for (slot, question) in [
        (SlotName::StateMapping, json!({"subject": {"group": null}, "servers": [{"age": 1}, {}, {"state": "locked"}]})),
        (SlotName::StateMapping, json!({"servers": []})),
        (SlotName::Retry, json!({"attempt": 9, "failure": {"class": "gateway", "status": null}})),
        (SlotName::Rollback, json!({"cause": null, "resources": [{"owned": false}, {}, {}, {}, {}, {"id": "x"}]})),
        (SlotName::Release, json!({"trigger": "reclaim", "refusal": refusal, "machine": {"pool-prefix": null}})),
        (SlotName::Provisioning, json!({"nodes": [{"role": "made"}], "cause": {"class": "hook-failed"}})),
        (SlotName::Placement, json!({"wanted": 9, "places": [{"backoff-until": null}, {"price-per-hour": null}]})),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = json!({"slot": slot, "question": question, "expect": {}}).to_string();
        std::fs::write(folder.path().join("case.json"), &text).unwrap();
        let fixtures = testing::fixtures(folder.path());
        assert_eq!(in_the_sdk(slot, &fixtures[0]), Fixture::parse(&text).unwrap().whole_question().unwrap(), "{slot}");
    }
}
