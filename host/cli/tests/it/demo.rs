use crate::support::{Ran, bare};

#[test]
fn the_demo_ends_with_nothing_left_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let ran = Ran::of(bare(home.path()).args(["demo", "--pace", "10"])).expect(0);
    for words in
        ["5 servers, 5 addresses, 5 volumes", "given up: power-on", "replaced by grace-for-stopped", "0 resources left"]
    {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
    // It leaves no state behind, either.
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_is_one_document_for_programs() {
    let home = tempfile::tempdir().unwrap();
    let ran = Ran::of(bare(home.path()).args(["demo", "--pace", "10", "--output", "json"])).expect(0);
    let document = ran.json();
    assert_eq!(document["resources_left"], 0);
    assert_eq!(document["acts"].as_array().unwrap().len(), 5);
    assert!(document["cost"]["api_calls"].as_u64().unwrap() > 0);
    assert!(document["cost"]["decisions"].as_u64().unwrap() > 0);
}
