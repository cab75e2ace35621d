//! The names of the plugin's own metrics. Beside them stand those of `windlass-lifecycle` (operations, steps, failures
//! by class, leaks), `windlass-scaleway` (calls, latency) and `windlass-policy` (decisions, fallbacks).

/// Gauge `state`: instances by the state that was last reported to the runner.
pub const INSTANCES: &str = "windlass_fleeting_instances";
/// Counter `outcome` (`done`, `failed`): creations that ended.
pub const CREATIONS: &str = "windlass_fleeting_creations_total";
/// Counter `outcome` (`done`, `left`, `failed`): removals that ended.
pub const CLEANUPS: &str = "windlass_fleeting_cleanups_total";
/// Counter: removals that the state-mapping policy ordered.
pub const REAPS: &str = "windlass_fleeting_reaps_total";
/// Gauge: instances of which something is left that should be gone, and is tried again.
pub const LEFT: &str = "windlass_fleeting_left";
/// Counter: Increase calls that were answered with 0 because of the pause after hopeless failures, or because more is
/// left than `max_leftovers`.
pub const INCREASES_PAUSED: &str = "windlass_fleeting_increases_paused_total";
/// Gauge `zone`: 1 for a zone that answers as one that is closed, so that the group goes on without it; 0 when it
/// answers again.
pub const ZONE_CLOSED: &str = "windlass_fleeting_zone_closed";
/// Histogram: seconds that an Update took.
pub const UPDATE_SECONDS: &str = "windlass_fleeting_update_seconds";
/// Gauge `zone`, `type`: the group's servers at Scaleway, in whatever state, by server type.
pub const SERVERS: &str = "windlass_fleeting_servers";
/// Gauge `zone`, `type`: what these servers cost in an hour, in euros, by the prices of Scaleway's list of server types
/// at the plugin's start. Volumes and addresses are not in it.
pub const COST: &str = "windlass_fleeting_cost_euros_per_hour";
/// Gauge `zone`, `type`, `class`: until when nothing of this type is created in this zone, in seconds since 1970, by
/// the class of the failure that is the reason; 0 where that reason is gone. The pause is over once this time is past.
pub const PAUSED_UNTIL: &str = "windlass_fleeting_paused_until_timestamp_seconds";
/// Gauge `slot`, `position`, `policy`, `version`, `digest`, `mode` (`decide`, `shadow`, `suspended`): 1 for a policy
/// that is in force, 0 for one that was.
pub const POLICY_INFO: &str = "windlass_fleeting_policy_info";
/// Gauge: policies whose new file was refused, so that an older one stays in force.
pub const POLICY_FILES_REFUSED: &str = "windlass_fleeting_policy_files_refused";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    const RULES: &str = "deploy/gitlab-runner/alerts.yaml";
    const RULES_TESTS: &str = "deploy/gitlab-runner/alerts.test.yaml";
    const DASHBOARD: &str = "docs/grafana/gitlab-runner.json";
    const PAGE: &str = "docs/gitlab-runner-metrics.md";
    const TROUBLESHOOTING: &str = "docs/gitlab-runner-troubleshooting.md";
    /// The crates whose metrics a plugin serves.
    const CRATES: [&str; 4] = ["fleeting", "lifecycle", "policy", "scaleway"];

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(repository().join(path)).unwrap()
    }

    /// The sources below a folder, one after the other.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// The metrics that the code names: string literals that are nothing but a name.
    fn that_exist() -> BTreeSet<String> {
        let mut text = String::new();
        for name in CRATES {
            sources(&repository().join("host").join(name).join("src"), &mut text);
        }
        let literals = text.split('"').filter(|literal| literal.starts_with("windlass_"));
        literals.filter(|literal| literal.chars().all(is_of_a_name)).map(str::to_owned).collect()
    }

    fn is_of_a_name(character: char) -> bool {
        character.is_ascii_lowercase() || character == '_'
    }

    /// The metrics that a text uses: a histogram's series go by the histogram's name.
    fn used_in(text: &str) -> BTreeSet<String> {
        text.split(|character| !is_of_a_name(character))
            .filter(|word| word.starts_with("windlass_"))
            .map(|word| {
                let stem = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end));
                stem.filter(|stem| stem.ends_with("_seconds")).unwrap_or(word).to_owned()
            })
            .collect()
    }

    fn explained_on_the_page(name: &str, page: &str) -> bool {
        page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}{{"))
    }

    #[test]
    fn rules_dashboard_and_documents_use_metrics_that_exist() {
        let exist = that_exist();
        assert!(exist.contains(super::COST) && exist.contains("windlass_policy_shadows_total"), "{exist:?}");
        for path in [RULES, RULES_TESTS, DASHBOARD, PAGE, TROUBLESHOOTING] {
            let used = used_in(&read(path));
            let unknown: Vec<_> = used.difference(&exist).collect();
            assert!(unknown.is_empty(), "{path} uses metrics that no code has: {unknown:?}");
        }
    }

    #[test]
    fn what_rules_and_dashboard_use_is_explained_and_so_is_each_metric_of_the_plugin() {
        let page = read(PAGE);
        let own = include_str!("names.rs").split("#[cfg(test)]").next().unwrap_or_default();
        for (path, text) in [(RULES, read(RULES)), (DASHBOARD, read(DASHBOARD)), ("names.rs", own.to_owned())] {
            for name in used_in(&text) {
                let module = CRATES.iter().any(|part| name == format!("windlass_{part}"));
                assert!(module || explained_on_the_page(&name, &page), "{name} of {path} is not explained in {PAGE}");
            }
        }
    }

    #[test]
    fn each_alert_has_a_section_that_says_what_to_do() {
        let page = read(TROUBLESHOOTING);
        let rules = read(RULES);
        let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(!alerts.is_empty());
        for alert in alerts {
            assert!(page.lines().any(|line| line == format!("### {alert}")), "{alert} has no section");
            let link = format!("{TROUBLESHOOTING}#{}\n", alert.to_lowercase());
            assert_eq!(rules.matches(&link).count(), 1, "{alert} does not name its section");
            assert!(read(RULES_TESTS).contains(&format!("alertname=\"{alert}\"")), "{alert} is not tested");
        }
    }
}
