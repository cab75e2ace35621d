use std::fs;

use super::*;

const OBJECT: &[u8] = br#"{"a": {"b": 1} }"#;

/// Breaks on what a search has to come upon.
fn fragile(input: &[u8]) {
    assert!(!input.windows(2).any(|pair| pair == b"}}"), "two braces");
}

fn corpus() -> Vec<Named> {
    vec![("an-object".to_owned(), OBJECT.to_vec())]
}

#[test]
fn the_same_copies_are_tried_each_time() {
    let copies = || {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        (0..INPUTS).map(|_| mutation::of(OBJECT, &[OBJECT], &mut random)).collect::<Vec<_>>()
    };
    let once = copies();
    assert!(once.iter().any(|copy| copy != OBJECT));
    assert!(once.iter().all(|copy| copy.len() <= mutation::LONGEST));
    assert_eq!(once, copies());
}

#[test]
fn an_ordinary_test_fails_on_what_breaks_a_law() {
    assert!(catch_unwind(|| try_some(&corpus(), fragile)).is_err());
}

#[test]
fn a_search_ends_with_its_finding_in_a_file_no_longer_than_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_owned();
    let ended = catch_unwind(move || search::run("fragile", fragile, &corpus(), &place, Duration::from_secs(3600)));
    assert!(ended.is_err());
    let found = read(&folder.path().join("findings"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, b"}}");
}

#[test]
fn a_search_without_a_finding_ends_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    search::run("sound", |_| {}, &corpus(), folder.path(), Duration::ZERO);
    assert!(!folder.path().join("findings").exists());
}

/// Every corpus belongs to a target that `run` knows, so that none is forgotten.
#[test]
fn the_list_of_targets_is_complete() {
    let list = include_str!("../run");
    let known = |line: &str| line.strip_prefix("target ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let mut listed: Vec<String> = list.lines().filter_map(known).collect();
    listed.sort();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora");
    let mut corpora: Vec<String> = fs::read_dir(folder)
        .expect("there are corpora")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    corpora.sort();
    assert_eq!(listed, corpora);
}
