//! Configurations, scenarios, and one rehearser for all tests, so that policies are compiled once.

use std::path::PathBuf;
use std::sync::LazyLock;

use tempfile::TempDir;
use windlass_fleeting::{Arm, ProcessEnvironment, Rehearser, Scenario};
use windlass_rehearsal::{Law, NamedArm, Rehearsal};

pub(crate) static REHEARSER: LazyLock<Rehearser> =
    LazyLock::new(|| Rehearser::new(ProcessEnvironment::default(), None).unwrap());

/// A runner's configuration on its way.
#[derive(Clone)]
pub(crate) struct Configuration {
    pub(crate) autoscaler: String,
    pub(crate) plugin: String,
    /// Of the autoscaler: how much is idle.
    pub(crate) idle: String,
    /// Rules of a slot.
    pub(crate) policies: Vec<(&'static str, String)>,
}

/// One server for each job, one idle, in fr-par-1.
pub(crate) fn configuration() -> Configuration {
    Configuration {
        autoscaler: "max_instances = 5\nmax_use_count = 1".to_owned(),
        plugin: "zone = 'fr-par-1'\nserver_type = 'DEV1-S'".to_owned(),
        idle: "idle_count = 1\nidle_time = '10m'".to_owned(),
        policies: Vec::new(),
    }
}

impl Configuration {
    pub(crate) fn with_plugin(mut self, plugin: &str) -> Self {
        self.plugin = plugin.to_owned();
        self
    }

    pub(crate) fn with_autoscaler(mut self, autoscaler: &str) -> Self {
        self.autoscaler = autoscaler.to_owned();
        self
    }

    pub(crate) fn with_idle(mut self, idle: &str) -> Self {
        self.idle = idle.to_owned();
        self
    }

    pub(crate) fn with_rules(mut self, slot: &'static str, rules: &str) -> Self {
        self.policies.push((slot, rules.to_owned()));
        self
    }

    /// Writes it, and its policies beside it.
    fn write(&self, folder: &TempDir, name: &str) -> PathBuf {
        let mut policies = String::new();
        for (slot, rules) in &self.policies {
            let file = folder.path().join(format!("{name}-{slot}.rules.toml"));
            std::fs::write(&file, format!("slot = '{slot}'\n{rules}\n")).unwrap();
            policies += &format!("[runners.autoscaler.plugin_config.policies.{slot}]\npath = {file:?}\n");
        }
        let Self { autoscaler, plugin, idle, .. } = self;
        let file = folder.path().join(format!("{name}.toml"));
        let text = format!(
            "concurrent = 50\n[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\n{autoscaler}\n\
             [runners.autoscaler.plugin_config]\nname = 'ci'\nimage = 'ubuntu_noble'\n{plugin}\n{policies}\
             [[runners.autoscaler.policy]]\n{idle}\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

/// So many hours from eleven o'clock on in which so many jobs come, each of five minutes; and what goes wrong.
pub(crate) fn scenario(hours: u32, jobs_per_hour: u32, more: &str) -> Scenario {
    let text = format!(
        "hours = {hours}\nstarts_at = '2026-08-03T11:00:00'\ntime_zone = 'UTC'\n\
         [[demand]]\npattern = 'steady'\njobs_per_hour = {jobs_per_hour}\njob_minutes = 5\n{more}"
    );
    Scenario::parse(&text).unwrap()
}

/// So many hours from eleven o'clock on with these jobs, each with the minute in which it comes and its minutes; and what
/// goes wrong.
pub(crate) fn listed(hours: u32, jobs: &[(u32, u32)], more: &str) -> Scenario {
    let jobs: Vec<[u32; 2]> = jobs.iter().map(|(at, length)| [60 * at, 60 * length]).collect();
    let text = format!(
        "hours = {hours}\nstarts_at = '2026-08-03T11:00:00'\ntime_zone = 'UTC'\n[[demand]]\njobs = {jobs:?}\n{more}"
    );
    Scenario::parse(&text).unwrap()
}

/// What comes of a scenario under these configurations.
pub(crate) fn rehearse(scenario: &Scenario, arms: &[(&str, Configuration)], seeds: &[u64], laws: &[&str]) -> Rehearsal {
    let laws: Vec<Law> = laws.iter().map(|law| Law::never(law).unwrap()).collect();
    with_arms(arms, |arms, rehearser| Rehearsal::run(scenario, arms, seeds, &laws, rehearser, &|| {}).unwrap())
}

/// What is done with these configurations, whose files are there as long as it takes.
pub(crate) fn with_arms<T>(arms: &[(&str, Configuration)], run: impl FnOnce(&[NamedArm], &Rehearser) -> T) -> T {
    let folder = TempDir::new().unwrap();
    let arm = |(name, configuration): &(&str, Configuration)| {
        let file = configuration.write(&folder, name);
        NamedArm { name: (*name).to_owned(), arm: Arm::read(file.to_str().unwrap(), None).unwrap() }
    };
    run(&arms.iter().map(arm).collect::<Vec<_>>(), &REHEARSER)
}
