//! `check`: whether the groups of a runner's configuration could start, and what they could cost. Scaleway is only read,
//! and nothing is written but a folder that is removed at the end.

use std::fmt;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _};
use ring::rand::{SecureRandom as _, SystemRandom};
use windlass_lifecycle::log::SharedLog;
use windlass_lifecycle::{Runtime, RuntimeOptions, StateDirectory};
use windlass_policy::{Asker, Compiler, Refusal};
use windlass_scaleway::Client;

use super::apple_silicon::Macs;
use super::error::StartError;
use super::instances::Instances;
use super::kind::MachineKind;
use super::places::Place;
use super::rehearsal::Autoscaling;
use super::runner_file::{Autoscaler, RunnerFile, RunnerFileError};
use super::start::{problem, refuse_protocol};
use crate::configuration::{Common, ConfigurationErrors, GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectorConfig, Failure};

/// What was found about one group.
#[derive(Debug)]
pub struct CheckedGroup {
    /// Its `name`.
    pub name: String,
    /// What keeps it from starting.
    pub problems: Vec<String>,
    /// What its operator should know.
    pub notes: Vec<String>,
    /// What it would make, where, and for how much.
    pub facts: Vec<String>,
}

impl CheckedGroup {
    /// The group of this name, of which nothing was found yet.
    pub(super) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), problems: Vec::new(), notes: Vec::new(), facts: Vec::new() }
    }
}

impl fmt::Display for CheckedGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "without a name" } else { &self.name };
        match self.problems.len() {
            0 => writeln!(formatter, "group {name}: ok")?,
            1 => writeln!(formatter, "group {name}: 1 mistake")?,
            several => writeln!(formatter, "group {name}: {several} mistakes")?,
        }
        self.problems.iter().try_for_each(|words| writeln!(formatter, "  - {words}"))?;
        self.facts.iter().try_for_each(|words| writeln!(formatter, "  {words}"))?;
        self.notes.iter().try_for_each(|words| writeln!(formatter, "  note: {words}"))
    }
}

/// Checks each group of the runner's `config.toml` at this path, or the one with this name.
///
/// # Errors
/// When the file cannot be read, or has no such group. Mistakes in a group are part of its result.
pub async fn check(
    config: &str,
    name: Option<&str>,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Vec<CheckedGroup>, RunnerFileError> {
    let file = RunnerFile::read(config)?;
    let groups = file.groups(name)?;
    let mut checked = Vec::new();
    let mut jobs = 0_u64;
    for group in &groups {
        let (mut found, of_group) = runner_keys(&file, *group, checked.is_empty());
        jobs = jobs.saturating_add(of_group);
        check_group(*group, process_environment, compiler.clone(), &mut found).await;
        let namesakes: Vec<_> = groups.iter().filter(|other| other.name() == group.name()).collect();
        if namesakes.len() > 1 && !group.name().is_empty() {
            let words = problem("name", "another group has the same name: give each its own `name`").to_string();
            let folder = |it: &Autoscaler<'_>| it.plugin_config()["state_dir"].clone();
            // Only one plugin process can have a group's folder.
            let is_shared = namesakes.iter().filter(|other| folder(other) == folder(group)).count() > 1;
            let told = if is_shared { &mut found.problems } else { &mut found.notes };
            told.push(words);
        }
        checked.push(found);
    }
    if let (Ok(concurrent), Some(last)) = (file.concurrent(), checked.last_mut())
        && concurrent < jobs
    {
        last.notes.push(format!(
            "concurrent = {concurrent} at the top of the file is less than the {jobs} jobs that max_instances allow \
             together: instances wait, and cost, without a job"
        ));
    }
    Ok(checked)
}

/// What is wrong with the runner's own keys, and how many jobs the group has room for; 0: max_instances does not say.
/// Mistakes in keys of the whole file are reported with the first group.
fn runner_keys(file: &RunnerFile, group: Autoscaler<'_>, is_first: bool) -> (CheckedGroup, u64) {
    let (mut found, mut problems) = (CheckedGroup::of(group.name()), Vec::new());
    let autoscaling = Autoscaling::read(file, group, None, &mut problems);
    let jobs = u64::from(autoscaling.max_instances).saturating_mul(autoscaling.capacity() as u64);
    found.problems.extend(group.contradictions());
    found.notes.extend(group.doubts(jobs));
    for problem in problems {
        match problem.place.as_str() {
            "concurrent" if !is_first => {}
            // The runner may have a database of its own.
            place if place.ends_with("timezone") => found.notes.push(problem.to_string()),
            _ => found.problems.push(problem.to_string()),
        }
    }
    (found, jobs)
}

async fn check_group(
    group: Autoscaler<'_>,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
    found: &mut CheckedGroup,
) {
    if let Some(words) = group.without_plugin_config() {
        found.problems.push(words);
        return;
    }
    let json = group.plugin_config().to_string();
    let configuration = match GroupConfiguration::read(json.as_bytes(), process_environment) {
        Ok(configuration) => configuration,
        Err(errors) => {
            found.problems.extend(errors.problems().iter().map(ToString::to_string));
            return;
        }
    };
    let common: &Common = configuration.as_ref();
    let connector = group.connector();
    found.problems.extend(refuse_protocol(&connector).err().map(|error| error.to_string()));
    let client = match Client::new(common.settings.clone()) {
        Ok(client) => client,
        Err(error) => {
            found.problems.push(Failure::from_error(&error).0);
            return;
        }
    };
    let places = places_of(&client, &configuration, &connector).await;
    let size = size(group, common, found);
    match places {
        Ok(places) => found.facts.extend(costs(&places, size)),
        Err(errors) => found.problems.extend(errors.problems().iter().map(ToString::to_string)),
    }
    found.problems.extend(common.shared_state.as_ref().and_then(|shared| check_shared(&**shared)));
    let policies = check_policies(common, client, asker_of(&configuration), compiler).await;
    found.problems.extend(policies.err().unwrap_or_default());
}

/// Whether the database that has the group's journal can be read. Nothing is made there.
fn check_shared(shared: &dyn SharedLog) -> Option<String> {
    match shared.read_only() {
        Ok(_) | Err(windlass_lifecycle::Error::JournalAbsent { .. }) => None,
        Err(error) => Some(problem("state", Failure::from_error(&error).0).to_string()),
    }
}

/// Who asks a group's policies.
pub(super) fn asker_of(configuration: &GroupConfiguration) -> Asker {
    match configuration {
        GroupConfiguration::Instances(_) => Instances::ASKER,
        GroupConfiguration::AppleSilicon(_) => Macs::ASKER,
    }
}

/// Asks Scaleway whether what a group names exists; answers where its machines would be, with their prices.
pub(super) async fn places_of(
    client: &Client,
    configuration: &GroupConfiguration,
    connector: &ConnectorConfig,
) -> Result<Vec<(Place, Option<f64>)>, ConfigurationErrors> {
    match configuration {
        GroupConfiguration::Instances(it) => {
            Instances::check(client, it, connector).await.map(|learned| learned.places)
        }
        GroupConfiguration::AppleSilicon(it) => {
            Macs::check(client, it, connector).await.map(|_| vec![(it.place(), None)])
        }
    }
}

/// How many instances there can be at once: the smaller one of the runner's limit and the plugin's.
pub(super) fn size(group: Autoscaler<'_>, common: &Common, found: &mut CheckedGroup) -> u32 {
    let most = group.number("max_instances").and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
    let written = &group.table()["max_instances"];
    match most {
        // What is wrong with it is told elsewhere.
        None if !written.is_null() && written.as_u64() != Some(0) => {}
        None => found.notes.push(format!(
            "max_instances is not set, so the runner has no limit of its own: max_size = {} counts",
            common.max_size
        )),
        Some(most) if most > common.max_size => found.problems.push(format!(
            "max_instances = {most} is above max_size = {} of plugin_config: the runner refuses the plugin",
            common.max_size
        )),
        Some(_) => {}
    }
    most.unwrap_or(u32::MAX).min(common.max_size)
}

/// A line for each place, and what the group costs when it is full.
fn costs(places: &[(Place, Option<f64>)], size: u32) -> Vec<String> {
    let price =
        |price: &Option<f64>| price.map_or("price not known".to_owned(), |price| format!("EUR {price:.4} an hour"));
    let mut lines: Vec<String> =
        places.iter().map(|(place, of)| format!("{} in {}: {}", place.server_type, place.zone, price(of))).collect();
    let dearest = places.iter().filter_map(|(_, price)| *price).reduce(f64::max);
    let full = match dearest {
        Some(dearest) => {
            let hour = dearest * f64::from(size);
            format!("with {size} instances: up to EUR {hour:.2} an hour, without volumes, addresses and traffic")
        }
        None => format!("up to {size} machines, whose price Scaleway's API does not tell"),
    };
    lines.push(full);
    lines
}

/// Loads the configured policies as Init would, in a folder of its own: the group's may belong to another user.
async fn check_policies(
    common: &Common,
    client: Client,
    asker: Asker,
    compiler: Option<Compiler>,
) -> Result<(), Vec<String>> {
    let (policies, policy_folder, brake) =
        (common.policies.clone(), common.policy_folder.clone(), common.brake_of_each_zone());
    let lending_dir = Dir::open_ambient_dir(common.folder(), ambient_authority()).ok();
    let loading = move || -> Result<(), StartError> {
        let scratch = Scratch::new()?;
        let mut options = RuntimeOptions::new(client, scratch.state.clone(), asker);
        (options.policies, options.policy_folder, options.is_trial) = (policies, policy_folder, true);
        (options.brake, options.compiler, options.lending_dir) = (brake, compiler, lending_dir);
        Runtime::build(options)?;
        Ok(())
    };
    match tokio::task::spawn_blocking(loading).await {
        Ok(loaded) => loaded.map_err(|error| policy_mistakes(&error)),
        Err(error) => Err(policy_mistakes(&error.into())),
    }
}

/// Why policies cannot be loaded. Of rules, each mistake.
pub(super) fn policy_mistakes(error: &StartError) -> Vec<String> {
    if let StartError::Lifecycle(windlass_lifecycle::Error::Policy(refused)) = error
        && let windlass_policy::Error::Refused { slot, policy, refusal: Refusal::Rules(mistakes) } = &**refused
    {
        return mistakes.iter().map(|mistake| format!("policies.{slot}: {policy}: {mistake}")).collect();
    }
    let words = Failure::from_error(error).0;
    vec![problem("policies", words.strip_prefix("policies: ").unwrap_or(&words)).to_string()]
}

/// A state directory that is removed at the end.
pub(super) struct Scratch {
    parent: Dir,
    name: String,
    state: StateDirectory,
}

impl Scratch {
    pub(super) fn state(&self) -> &StateDirectory {
        &self.state
    }

    pub(super) fn new() -> Result<Self, StartError> {
        let path = std::env::temp_dir();
        let failed = |source| windlass_lifecycle::Error::StateDirectory { path: path.clone(), source };
        let parent = Dir::open_ambient_dir(&path, ambient_authority()).map_err(failed)?;
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).map_err(|_| failed(std::io::Error::other("no random bytes")))?;
        // Its name cannot be guessed, and it must not exist: nobody else can have prepared it.
        let name = format!("windlass-check-{}", hex::encode(random));
        let mut private = DirBuilder::new();
        private.mode(0o700);
        parent.create_dir_with(&name, &private).map_err(failed)?;
        let state = StateDirectory::open(&path.join(&name))?;
        Ok(Self { parent, name, state })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.parent.remove_dir_all(&self.name);
    }
}
