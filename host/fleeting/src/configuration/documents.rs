//! What strangers copy: the configurations that the documents and the files for deployment show.

use std::path::Path;

use super::{GroupConfiguration, ProcessEnvironment};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The blocks of TOML in a page that have this.
fn blocks(page: &str, what: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains(what)).map(str::to_owned).collect()
}

/// What is wrong with this `plugin_config`.
fn mistakes(configuration: &serde_json::Value) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    let variables = [
        ("HOME", home.path().to_str().unwrap()),
        ("SCW_SECRET_KEY", "11111111-2222-4333-8444-555555555555"),
        ("SCW_DEFAULT_PROJECT_ID", "22222222-2222-4333-8444-555555555555"),
    ];
    let process_environment: ProcessEnvironment = variables.into_iter().collect();
    GroupConfiguration::read(configuration.to_string().as_bytes(), &process_environment)
        .err()
        .map(|error| error.to_string())
}

/// What stands below `config: |` in a file of values.
fn configuration_of_values(values: &str) -> String {
    let below = values.lines().skip_while(|line| *line != "  config: |").skip(1);
    below.map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_the_documents_configure_is_accepted() {
    let mut shown = vec![("helm-values.yaml", configuration_of_values(&read("deploy/gitlab-runner/helm-values.yaml")))];
    for page in ["docs/gitlab-runner.md", "docs/gitlab-runner-apple-silicon.md"] {
        shown.extend(blocks(&read(page), "[[runners]]").into_iter().map(|block| (page, block)));
    }
    assert_eq!(shown.len(), 3, "one in each");
    for (place, text) in shown {
        let parsed: serde_json::Value = toml::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let autoscaler = &parsed["runners"][0]["autoscaler"];
        assert!(autoscaler["plugin"].as_str().is_some_and(|plugin| plugin.contains("scaleway")), "{place}: {text}");
        assert_eq!(mistakes(&autoscaler["plugin_config"]), None, "{place}");
    }
}

#[test]
fn the_zones_and_networks_that_the_documents_show_are_accepted() {
    let shown = blocks(&read("docs/gitlab-runner-networks.md"), "plugin_config");
    assert_eq!(shown.len(), 1);
    let mut parsed: serde_json::Value = toml::from_str(&shown[0]).unwrap();
    let configuration = &mut parsed["runners"]["autoscaler"]["plugin_config"];
    assert!(configuration["private_networks"]["nl-ams"].is_array(), "{configuration}");
    (configuration["name"], configuration["image"]) = ("ci".into(), "ubuntu_noble".into());
    assert_eq!(mistakes(configuration), None);
}
