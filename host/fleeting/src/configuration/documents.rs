//! What strangers copy: the configurations that the documents and the files for deployment show.

use std::path::Path;

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
