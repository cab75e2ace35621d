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
/// Counter: requests for instances that were answered with 0, because every type pauses in every zone after failures,
/// or because more instances are left than `max_leftovers`.
pub const INCREASES_PAUSED: &str = "windlass_fleeting_increases_paused_total";
/// Gauge `zone`: 1 for a zone that the group has set aside, because it answers like a closed one; 0 when it answers
/// again.
pub const ZONE_CLOSED: &str = "windlass_fleeting_zone_closed";
/// Histogram: seconds that an update took. The runner's loop waits for it.
pub const UPDATE_SECONDS: &str = "windlass_fleeting_update_seconds";
/// Gauge `zone`, `type`: the group's servers at Scaleway, in whatever state, by server type.
pub const SERVERS: &str = "windlass_fleeting_servers";
/// Gauge `zone`, `type`: what these servers cost in an hour, in euros, by the prices of Scaleway's list of server types
/// at the plugin's start. Volumes and addresses are not in it.
pub const COST: &str = "windlass_fleeting_cost_euros_per_hour";
/// Gauge `zone`, `type`, `class`: until when nothing of this type is created in this zone, in seconds since 1970, by
/// the class of the failure that is the reason; 0 where that reason is gone. The pause is over once this time is past.
pub const PAUSED_UNTIL: &str = "windlass_fleeting_paused_until_timestamp_seconds";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    const RULES: &str = "deploy/gitlab-runner/alerts.yaml";
    const RULES_TESTS: &str = "deploy/gitlab-runner/alerts.test.yaml";
    const DASHBOARD: &str = "docs/grafana/gitlab-runner.json";
    const PAGE: &str = "docs/metrics.md";
    const TROUBLESHOOTING: &str = "docs/gitlab-runner-troubleshooting.md";

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(repository().join(path)).unwrap()
    }

    /// The metrics that a plugin serves, from the page of all metrics.
    fn served() -> BTreeSet<String> {
        let page = read(PAGE);
        let sections = page.split("\n## ").skip(1);
        let own = sections.filter(|section| section.lines().next().is_some_and(is_served_by_the_plugin));
        let rows = own.flat_map(|section| section.lines().filter_map(|line| line.strip_prefix("| `")));
        rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_owned()).collect()
    }

    fn is_served_by_the_plugin(title: &str) -> bool {
        title.ends_with(": all programs") || title == "The runner plugin"
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

    #[test]
    fn what_rules_dashboard_and_documents_use_stands_on_the_page_of_the_metrics() {
        let served = served();
        assert!(served.contains(super::COST) && served.contains("windlass_policy_shadows_total"), "{served:?}");
        let files = std::fs::read_dir(repository().join("docs")).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let pages = names.filter(|name| name.starts_with("gitlab-runner") && name.ends_with(".md"));
        let pages: Vec<String> = pages.map(|name| format!("docs/{name}")).collect();
        assert!(pages.iter().any(|page| page == TROUBLESHOOTING), "{pages:?}");
        for path in [RULES, RULES_TESTS, DASHBOARD].into_iter().chain(pages.iter().map(String::as_str)) {
            let used = used_in(&read(path));
            let unknown: Vec<_> = used.difference(&served).collect();
            assert!(unknown.is_empty(), "{path} uses metrics that {PAGE} has not for a plugin: {unknown:?}");
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
