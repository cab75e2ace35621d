//! The metrics of the controller. Those of operations, decisions and calls are described by the crates below.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// Gauge `kind`, `state`, `shard` (where there are several): objects; the state is the phase of a machine or the state
/// of a cluster of servers, `none` where nothing is recorded yet. Counted every 15 s.
pub const OBJECTS: &str = "windlass_objects";
/// Counter `kind`, `outcome` (`done`, `failed`): reconciles.
pub const RECONCILES: &str = "windlass_reconciles_total";
/// Histogram `kind`: seconds that reconciles take.
pub const RECONCILE_SECONDS: &str = "windlass_reconcile_seconds";
/// Gauge `kind` (`adopt`, `release`, ...): work on machines that is under way in the background.
pub const JOBS: &str = "windlass_jobs_in_flight";
/// Counter `outcome` (`returned-to-pool`, `deletion-scheduled`, `terminated`, `kept`, ...): releases that ended.
pub const RELEASES: &str = "windlass_releases_total";
/// Gauge `zone`, `shard` (where there are several): hosts that carry a claim of ours which no object explains.
pub const ORPHANS: &str = "windlass_orphaned_hosts";
/// Gauge `zone`, `shard` (where there are several): Instance servers with our tags that no object explains.
pub const ORPHANED_SERVERS: &str = "windlass_orphaned_servers";
/// Gauge `shard` (where there are several): credentials of namespaces that are in use.
pub const ACCOUNTS: &str = "windlass_accounts";
/// Gauge `shard` (where there are several): whether this process leads, 1 or 0.
pub const LEADER: &str = "windlass_leader";

/// Counter `name` (the kind in lower-case letters): objects that came to wait for their reconcile. The `workqueue_`
/// metrics are those of controller-runtime; what kube's scheduler holds is derived from events and reconciles.
pub const QUEUE_ADDS: &str = "workqueue_adds_total";
/// Gauge `name`, `shard` (where there are several): objects that wait for their reconcile. Counted every 5 s.
pub const QUEUE_DEPTH: &str = "workqueue_depth";
/// Histogram `name`: seconds that objects wait for their reconcile.
pub const QUEUE_SECONDS: &str = "workqueue_queue_duration_seconds";
/// Histogram `name`: seconds that reconciles take.
pub const QUEUE_WORK_SECONDS: &str = "workqueue_work_duration_seconds";
/// Counter `name`: reconciles that failed and are tried again.
pub const QUEUE_RETRIES: &str = "workqueue_retries_total";
/// Gauge `name`, `shard` (where there are several): seconds that the reconciles under way have taken so far, all of
/// them together. Counted every 5 s.
pub const QUEUE_UNFINISHED: &str = "workqueue_unfinished_work_seconds";
/// Gauge `name`, `shard` (where there are several): seconds that the longest of the reconciles under way has taken so
/// far. Counted every 5 s.
pub const QUEUE_LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";

pub(crate) fn describe() {
    describe_gauge!(OBJECTS, "Machines by phase and clusters of servers by state");
    describe_counter!(RECONCILES, "Reconciles, by kind and outcome");
    describe_histogram!(RECONCILE_SECONDS, "How long reconciles take, by kind");
    describe_gauge!(JOBS, "Work on machines under way in the background, by kind");
    describe_counter!(RELEASES, "Releases that ended, by outcome");
    describe_gauge!(ORPHANS, "Hosts with a claim of ours that no object explains, by zone");
    describe_gauge!(ORPHANED_SERVERS, "Instance servers with our tags that no object explains, by zone");
    describe_gauge!(ACCOUNTS, "Credentials of namespaces in use");
    describe_gauge!(LEADER, "Whether this process leads, by shard where there are several");
    describe_counter!(QUEUE_ADDS, "Objects that came to wait for their reconcile, by kind");
    describe_gauge!(QUEUE_DEPTH, "Objects that wait for their reconcile, by kind");
    describe_histogram!(QUEUE_SECONDS, "How long objects wait for their reconcile, by kind");
    describe_histogram!(QUEUE_WORK_SECONDS, "How long reconciles take, by kind");
    describe_counter!(QUEUE_RETRIES, "Reconciles that failed and are tried again, by kind");
    describe_gauge!(QUEUE_UNFINISHED, "How long the reconciles under way have taken so far, in all, by kind");
    describe_gauge!(
        QUEUE_LONGEST_RUNNING,
        "How long the longest of the reconciles under way has taken so far, by kind"
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    const RULES: &str = include_str!("../deploy/helm/windlass-controller/files/alerts.yaml");
    const RULES_TESTS: &str = include_str!("../deploy/helm/windlass-controller/files/alerts.test.yaml");
    const DASHBOARD: &str = include_str!("../deploy/helm/windlass-controller/files/dashboard.json");
    const PAGE: &str = include_str!("../../../docs/kubernetes-troubleshooting.md");

    /// What the names of our own metrics begin with, and of those that are called as controller-runtime calls them.
    const PREFIXES: [&str; 2] = ["windlass_", "workqueue_"];

    fn is_a_metric(word: &str) -> bool {
        PREFIXES.iter().any(|prefix| word.starts_with(prefix) && word != *prefix)
    }

    fn is_of_a_name(character: char) -> bool {
        character.is_ascii_lowercase() || character == '_'
    }

    /// Every Rust source of the host.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => sources(&path, text),
                Some(extension) if extension == "rs" => text.push_str(&std::fs::read_to_string(&path).unwrap()),
                _ => {}
            }
        }
    }

    #[test]
    fn rules_dashboard_and_page_use_metrics_that_exist() {
        let mut code = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut code);
        for text in [RULES, DASHBOARD, PAGE] {
            let used = text.split(|character| !is_of_a_name(character)).filter(|word| is_a_metric(word));
            for metric in used {
                let metric = metric.strip_suffix("_bucket").unwrap_or(metric);
                assert!(code.contains(&format!("\"{metric}\"")), "no code has {metric}");
            }
        }
    }

    #[test]
    fn every_metric_of_the_controller_is_on_the_dashboard() {
        let own = include_str!("metric_names.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let names: Vec<_> = own.split('"').filter(|literal| is_a_metric(literal)).collect();
        assert!(names.len() > 5, "{names:?}");
        for metric in names {
            assert!(DASHBOARD.contains(metric), "{metric} is not on the dashboard");
        }
    }

    #[test]
    fn each_alert_is_tested_and_the_page_says_what_to_do() {
        let alerts: Vec<_> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(alerts.len() > 10, "{alerts:?}");
        for alert in alerts {
            assert!(PAGE.contains(&format!("\n- `{alert}`: ")), "{alert} is not on the page");
            assert!(RULES_TESTS.contains(&format!("alertname=\"{alert}\"")), "{alert} is not tested");
        }
    }
}
