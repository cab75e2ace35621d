//! What strangers copy: the configurations that the documents and the files for deployment show.

use std::path::Path;

use super::reader::KEYS;
use super::{GroupConfiguration, ProcessEnvironment};

/// The blocks of TOML in a page that hold runners.
fn blocks(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("[[runners]]")).map(str::to_owned).collect()
}

/// What stands below `config: |` in a file of values.
fn configuration_of_values(values: &str) -> String {
    let below = values.lines().skip_while(|line| *line != "  config: |").skip(1);
    below.map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_the_documents_configure_is_accepted() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(repository.join(path)).unwrap();
    let mut shown = vec![("helm-values.yaml", configuration_of_values(&read("deploy/gitlab-runner/helm-values.yaml")))];
    for page in ["docs/gitlab-runner.md", "docs/gitlab-runner-apple-silicon.md"] {
        shown.extend(blocks(&read(page)).into_iter().map(|block| (page, block)));
    }
    assert_eq!(shown.len(), 3, "one in each");
    let home = tempfile::tempdir().unwrap();
    let variables = [
        ("HOME", home.path().to_str().unwrap()),
        ("SCW_SECRET_KEY", "11111111-2222-4333-8444-555555555555"),
        ("SCW_DEFAULT_PROJECT_ID", "22222222-2222-4333-8444-555555555555"),
    ];
    for (place, text) in shown {
        let parsed: serde_json::Value = toml::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let autoscaler = &parsed["runners"][0]["autoscaler"];
        assert!(autoscaler["plugin"].as_str().is_some_and(|plugin| plugin.contains("scaleway")), "{place}: {text}");
        let configuration = autoscaler["plugin_config"].to_string();
        let process_environment: ProcessEnvironment = variables.into_iter().collect();
        if let Err(error) = GroupConfiguration::read(configuration.as_bytes(), &process_environment) {
            panic!("{place}: {error}");
        }
    }
}

/// The keys that stand in the first column of a page's tables.
fn first_column(page: &str) -> Vec<&str> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).map(|(first, _)| first);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_key_stands_on_a_page_and_every_key_on_the_page_exists() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(repository.join(path)).unwrap();
    let (keys, macs) = (read("docs/gitlab-runner-keys.md"), read("docs/gitlab-runner-apple-silicon.md"));
    let explained = [first_column(&keys), first_column(&macs)].concat();
    let missing: Vec<_> = KEYS.iter().filter(|key| !explained.contains(key)).collect();
    assert!(missing.is_empty(), "no table explains {missing:?}");
    let own = keys.split("## GitLab's own keys").next().unwrap();
    let unknown: Vec<_> = first_column(own).into_iter().filter(|key| !KEYS.contains(key)).collect();
    assert!(unknown.is_empty(), "the page explains keys that are not read: {unknown:?}");
}
