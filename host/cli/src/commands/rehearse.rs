//! `windlass rehearse`: what configurations would have done in a scenario, over simulated time.

mod tune;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_console::save_rehearsal;
use windlass_fleeting::{Arm, Event, ProcessEnvironment, RehearsalError, Rehearser, RunnerFileError, Scenario};
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{Output, print, table};
use windlass_inspect::text::{bold, dim, green, printable, red};
use windlass_lifecycle::Journal;
use windlass_policy::Compiler;
use windlass_proof::fixture::{ReportedCase, junit};
use windlass_rehearsal::{
    ArmKind, ArmOutcomes, ClusterArm, Figure, ImportError, Imported, Law, NOT_CALIBRATED, NamedArm, Parting, Rehearsal,
    RehearsalFailure, clusters_in, imported, recorded_cluster, recorded_from, scenario_schema, with_jobs,
};

use crate::COMPILE;
use crate::arguments::{ImportScenario, RecordScenario, Rehearse};
use crate::commands::cluster::specification;
use crate::configuration;
use crate::context::Context;
use crate::files::{Existing, ResultFile, read_text, refuse_overwriting, write_atomically};

pub(crate) use tune::run as tune;

/// The largest scenario: 200,000 listed jobs.
const MAX_SCENARIO_BYTES: u64 = 8 << 20;
/// The largest configuration of a runner, and specification of a cluster.
const MAX_ARM_BYTES: u64 = 1 << 20;
/// The largest file of jobs: as many, as GitLab's API has them.
const MAX_JOBS_BYTES: u64 = 512 << 20;

/// `context` has the policies of clusters, and the state directory, in which the rehearsal is saved and which may hold
/// compiled policies. The rehearsal of a runner needs no valid configuration.
pub(crate) fn run(output: Output, arguments: &Rehearse, context: Result<Context, Failure>) -> Result<(), Failure> {
    let mut used: Vec<&Path> =
        arguments.arms.iter().chain(&arguments.policies).map(|(_, file)| Path::new(file)).collect();
    used.extend(arguments.scenario.as_deref());
    used.extend(context.as_ref().ok().and_then(|context| context.configuration.file.as_deref()));
    refuse_overwriting(&[ResultFile::html(&arguments.html), ResultFile::junit(&arguments.junit)], used)?;
    let files = arm_files(arguments)?;
    let of_clusters = are_clusters(&files, &arguments.policies)?;
    let context = if of_clusters || arguments.save { Some(context?) } else { context.ok() };
    let scenario = read_scenario(arguments.scenario.as_deref().unwrap_or(Path::new("-")), of_clusters)?;
    let laws = laws(&arguments.never, &arguments.always)?;
    let seeds: Vec<u64> = (0..arguments.seeds).map(|further| arguments.seed.wrapping_add(further)).collect();
    let rehearser = rehearser(context.as_ref())?;
    let rehearsal = match context.as_ref().filter(|_| of_clusters) {
        Some(context) => {
            let arms = files.iter().map(|file| file.cluster(context, &arguments.policies));
            let arms = arms.collect::<Result<Vec<_>, _>>()?;
            Rehearsal::run(&scenario, &arms, &seeds, &laws, &rehearser, &|| {})
        }
        None => {
            let arms = files.iter().map(|file| file.group(arguments.group.as_deref()));
            let arms = arms.collect::<Result<Vec<_>, _>>()?;
            Rehearsal::run(&scenario, &arms, &seeds, &laws, &rehearser, &|| {})
        }
    };
    let rehearsal = rehearsal.map_err(failed)?;
    report(&rehearsal, arguments)?;
    if let Some(context) = context.filter(|_| arguments.save) {
        save(&rehearsal, &context)?;
    }
    if rehearsal.is_good() {
        output.result(&rehearsal, || words(&rehearsal));
        return Ok(());
    }
    if !output.is_document() {
        print(&words(&rehearsal));
    }
    let violated = rehearsal.laws.iter().filter(|law| !law.holds).map(|law| law.law.clone());
    let mut failure = violated.fold(Failure::undone("the rehearsal failed"), Failure::because);
    for arm in rehearsal.arms.iter().filter(|arm| !arm.outcomes.iter().all(|outcome| outcome.is_good())) {
        let words =
            if of_clusters { "something was left" } else { "something was left, or jobs had not ended a day later" };
        failure = failure.because(format!("arm {}: {words}", arm.arm));
    }
    Err(failure.with_partial(serde_json::to_value(&rehearsal).unwrap_or_default()))
}

fn rehearser(context: Option<&Context>) -> Result<Rehearser, Failure> {
    let rehearser = Rehearser::new(ProcessEnvironment::of_process(), Compiler::this_program([COMPILE]).ok())
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match context.and_then(Context::lending_dir) {
        Some(state) => rehearser.borrowing(state),
        None => rehearser,
    })
}

/// Saves a rehearsal where a console looks for it. The names are in the order of time.
fn save(rehearsal: &Rehearsal, context: &Context) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
    let word = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let title: String = rehearsal.title.chars().take(60).map(word).collect();
    let title = title.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let name = if title.is_empty() { now.to_string() } else { format!("{now}-{title}") };
    let failed = |words: String| {
        Failure::usage("the rehearsal cannot be saved").at(state.path().display().to_string()).because(words)
    };
    let saved = rehearsal.to_saved().map_err(|error| failed(error.to_string()))?;
    save_rehearsal(state.handle(), &name, &saved).map_err(|error| failed(error.to_string()))?;
    context.output.say(&format!("saved as {name}; `windlass console` shows it"));
    Ok(())
}

/// `rehearse record`: a scenario of what a group did, or of what was done with a cluster.
pub(crate) async fn record(context: &Context, arguments: &RecordScenario) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let unreadable = |error: String| Failure::usage("the journal cannot be read").because(error);
    let journal = Journal::read_only(&state).map_err(|error| {
        unreadable(error.to_string())
            .remedy("name the group's state directory with --state-dir: that of the plugin is STATE_DIR/fleeting/GROUP")
    })?;
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let now = milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let from = now.saturating_sub(milliseconds(arguments.since));
    let (group, mut cluster) = (arguments.group.as_deref(), arguments.cluster.clone());
    let mut scenario = None;
    if cluster.is_none() {
        scenario = recorded_from(&journal, group, from, now).map_err(|error| unreadable(error.to_string()))?;
    }
    if scenario.is_none() && cluster.is_none() && group.is_none() {
        let clusters = clusters_in(&journal, from, now).map_err(|error| unreadable(error.to_string()))?;
        if clusters.len() > 1 {
            return Err(Failure::usage("there are several clusters")
                .because(Vec::from_iter(clusters).join(", "))
                .remedy("name one with --cluster"));
        }
        cluster = clusters.first().and_then(|name| name.parse().ok());
    }
    if let Some(name) = &cluster {
        let recorded = recorded_cluster(&journal, name, from, now).await;
        scenario = recorded.map_err(|error| unreadable(error.to_string()))?;
    }
    let scenario = scenario.ok_or_else(|| {
        let what = match (&cluster, group) {
            (Some(cluster), _) => format!("there was no cluster {cluster} in that time"),
            (None, Some(group)) => format!("no machine was created or claimed in the group {group} in that time"),
            (None, None) => "no machine was created or claimed in that time".to_owned(),
        };
        Failure::unknown(what)
            .at(state.path().display().to_string())
            .remedy("look back further with --since, or name another state directory with --state-dir")
    })?;
    let Some(file) = &arguments.jobs else { return write(context.output, &scenario) };
    let text = read_text(file, "the jobs", MAX_JOBS_BYTES)?;
    let imported = with_jobs(scenario, &text, arguments.job_minutes);
    write_imported(context.output, &imported.map_err(|error| not_imported(file, error))?)
}

/// `rehearse import`: a scenario of the jobs that GitLab ran.
pub(crate) fn import(output: Output, arguments: &ImportScenario) -> Result<(), Failure> {
    let text = read_text(&arguments.file, "the jobs", MAX_JOBS_BYTES)?;
    let imported = imported(&text, arguments.job_minutes);
    write_imported(output, &imported.map_err(|error| not_imported(&arguments.file, error))?)
}

fn not_imported(file: &Path, error: ImportError) -> Failure {
    let failure = Failure::usage("the jobs cannot be imported").at(file.display().to_string());
    match error {
        ImportError::Values(mistakes) => mistakes.into_iter().fold(failure, Failure::because),
        ImportError::NoLength => failure.because(error.to_string()).remedy("give it with --job-minutes"),
        error => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            source.into_iter().fold(failure.because(error.to_string()), Failure::because)
        }
    }
}

fn write_imported(output: Output, imported: &Imported) -> Result<(), Failure> {
    if imported.left_out > 0 {
        output.say(&format!("note: jobs left out, which were never started or had not ended: {}", imported.left_out));
    }
    write(output, &imported.scenario)
}

/// `rehearse schema`: what a scenario's file may hold.
pub(crate) fn schema(output: Output) -> Result<(), Failure> {
    let schema = scenario_schema();
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::usage("the schema cannot be written").because(error.to_string()))?;
    output.file(&schema, || format!("{text}\n"));
    Ok(())
}

fn write(output: Output, scenario: &Scenario) -> Result<(), Failure> {
    let text =
        scenario.to_toml().map_err(|error| Failure::usage("the scenario cannot be written as TOML").because(error))?;
    output.file(scenario, || text);
    Ok(())
}

fn read_scenario(file: &Path, of_clusters: bool) -> Result<Scenario, Failure> {
    let text = read_text(file, "the scenario", MAX_SCENARIO_BYTES)?;
    let read = if of_clusters { Scenario::parse_for_clusters(&text) } else { Scenario::parse(&text) };
    read.map_err(|error| {
        let failure = Failure::usage("the scenario cannot be used").at(file.display().to_string());
        error.problems().iter().cloned().fold(failure, Failure::because)
    })
}

/// A file that was named as an arm. It is read once: it may be a pipe.
struct ArmFile<'a> {
    name: &'a str,
    file: &'a str,
    text: String,
}

impl ArmFile<'_> {
    /// Whether it is the specification of a cluster: only these have groups. Also where it cannot be read whole.
    fn is_cluster(&self) -> bool {
        let has_groups = |line: &str| line.trim_start_matches([' ', '[', '"']).starts_with("groups");
        let of_json = || serde_json::from_str::<serde_json::Value>(&self.text).is_ok_and(|it| it["groups"].is_object());
        self.text.lines().any(has_groups) || of_json()
    }

    fn named<A>(&self, arm: A) -> NamedArm<A> {
        NamedArm { name: self.name.to_owned(), arm }
    }

    fn group(&self, group: Option<&str>) -> Result<NamedArm, Failure> {
        let arm = Arm::parse(&self.text, group).map_err(|error| unreadable(self.name, self.file, &error))?;
        Ok(self.named(arm))
    }

    /// The cluster, under the policies of its own configuration, or of the command's.
    fn cluster(&self, context: &Context, policies: &[(String, String)]) -> Result<NamedArm<ClusterArm>, Failure> {
        let specification = specification::read(Path::new(self.file))?;
        let policies = match policies.iter().find(|(arm, _)| arm == self.name) {
            Some((_, file)) => configuration::load(Some(Path::new(file)), &context.environment)?.policies,
            None => context.configuration.policies.clone(),
        };
        Ok(self.named(ClusterArm::new(specification, policies)))
    }
}

fn arm_files(arguments: &Rehearse) -> Result<Vec<ArmFile<'_>>, Failure> {
    let mut names = BTreeSet::new();
    let mut files = Vec::new();
    for (name, file) in &arguments.arms {
        if !names.insert(name) {
            return Err(Failure::usage(format!("two arms are called {name}")));
        }
        files.push(ArmFile { name, file, text: read_text(Path::new(file), "the arm", MAX_ARM_BYTES)? });
    }
    Ok(files)
}

/// Whether the arms are clusters, and not runners. Those of one rehearsal are of one kind.
fn are_clusters(arms: &[ArmFile<'_>], policies: &[(String, String)]) -> Result<bool, Failure> {
    let (clusters, runners): (Vec<_>, Vec<_>) = arms.iter().partition(|arm| arm.is_cluster());
    if let (Some(cluster), Some(runner)) = (clusters.first(), runners.first()) {
        return Err(Failure::usage("the arms of a rehearsal are of one kind: runners, or clusters")
            .because(format!("arm {} is the configuration of a runner: {}", runner.name, runner.file))
            .because(format!("arm {} is the specification of a cluster: {}", cluster.name, cluster.file))
            .remedy("rehearse them one after the other"));
    }
    match policies.iter().find(|(name, _)| clusters.iter().all(|cluster| cluster.name != name)) {
        Some((name, _)) => Err(Failure::usage(format!("--policies {name}: no cluster among the arms is called so"))
            .remedy("set the policies of a runner in its own configuration")),
        None => Ok(!clusters.is_empty()),
    }
}

fn unreadable(name: &str, file: &str, error: &RunnerFileError) -> Failure {
    Failure::usage(format!("arm {name} cannot be read")).at(file.to_owned()).because(error.to_string())
}

/// A runner's configuration, whose settings can be tuned.
fn tunable(name: &str, file: &str, group: Option<&str>) -> Result<NamedArm, Failure> {
    let arm = ArmFile { name, file, text: read_text(Path::new(file), "the arm", MAX_ARM_BYTES)? };
    if arm.is_cluster() {
        return Err(Failure::usage("only the settings of a runner can be tuned")
            .at(file.to_owned())
            .because("this is the specification of a cluster")
            .remedy("compare several specifications: windlass rehearse SCENARIO --arm NAME=FILE --arm ..."));
    }
    arm.group(group)
}

fn laws(never: &[String], always: &[String]) -> Result<Vec<Law>, Failure> {
    let never = never.iter().map(|text| ("--never", Law::never(text)));
    let always = always.iter().map(|text| ("--always", Law::always(text)));
    let (mut laws, mut wrong) = (Vec::new(), Vec::new());
    for (option, law) in never.chain(always) {
        match law {
            Ok(law) => laws.push(law),
            Err(error) => wrong.push(format!("{option}: {error}")),
        }
    }
    if wrong.is_empty() {
        return Ok(laws);
    }
    let failure = Failure::usage("the laws cannot be used")
        .remedy("a condition is about figures, which docs/rehearse-reference.md lists");
    Err(wrong.into_iter().fold(failure, Failure::because))
}

fn failed(failure: RehearsalFailure) -> Failure {
    let RehearsalFailure::Arm { arm, source } = failure else { return Failure::usage(failure.to_string()) };
    match *source {
        RehearsalError::Interrupted => Failure::new(Exit::Interrupted, "interrupted"),
        RehearsalError::Wrong(found) => {
            let failure = Failure::usage(format!("arm {arm} could not start"));
            found.problems.iter().cloned().fold(failure, Failure::because)
        }
        error => Failure::usage(format!("arm {arm} could not start")).because(error.to_string()),
    }
}

/// The rehearsal for people.
fn words(rehearsal: &Rehearsal) -> String {
    let mut text = String::new();
    let title = if rehearsal.title.is_empty() { "rehearsal" } else { &rehearsal.title };
    let seeds = match rehearsal.seeds.as_slice() {
        [one] => format!("seed {one}"),
        [first, .., last] => format!("seeds {first} to {last}"),
        [] => String::new(),
    };
    text.push_str(&format!(
        "{}\n  {} h in {} from {} on, {seeds}\n",
        bold(&printable(title)),
        rehearsal.hours,
        printable(&rehearsal.time_zone),
        rehearsal.local_day(rehearsal.starts_at),
    ));
    for incident in &rehearsal.incidents {
        let zone = incident.zone.as_ref().map(|zone| format!(" in {}", printable(zone))).unwrap_or_default();
        let of_type = incident.server_type.as_ref().map(|of| format!(" of {}", printable(of))).unwrap_or_default();
        let (from, to) = (rehearsal.local(incident.starts_at), rehearsal.local(incident.ends_at));
        let time = if from == to { format!("at {from}") } else { format!("from {from} to {to}") };
        text.push_str(&format!("  {}{of_type}{zone} {time}\n", incident.kind));
    }
    for scale in &rehearsal.scales {
        text.push_str(&format!("  {} at {}\n", printable(&scale.words()), rehearsal.local(scale.at)));
    }
    text.push('\n');
    text.push_str(&figures(rehearsal));
    if let Some(first) = rehearsal.arms.first() {
        for parting in &rehearsal.partings {
            text.push_str(&format!("\n{}\n", parted(rehearsal, &first.arm, parting)));
        }
    }
    if let Some((arm, calibration)) = rehearsal.calibrated() {
        text.push_str(&format!("\narm {} beside what was observed\n", printable(arm)));
        calibration.iter().for_each(|it| text.push_str(&format!("  {}\n", it.words())));
    } else {
        text.push_str(&dim(&format!("\n{NOT_CALIBRATED}\n")));
    }
    text.push_str(&notes(rehearsal));
    for law in &rehearsal.laws {
        let word = if law.holds { green("holds") } else { red("VIOLATED") };
        text.push_str(&format!("\n{word}  {}\n", printable(&law.law)));
        for violation in &law.violations {
            let because = violation.because.join(", ");
            text.push_str(&format!("  arm {}, seed {}: {because}\n", printable(&violation.arm), violation.seed));
        }
    }
    text.push_str(&dim("\nWhat the simulation simplifies:\n"));
    for words in &rehearsal.simplified {
        text.push_str(&dim(&format!("- {words}\n")));
    }
    text
}

/// A row for each figure and a column for each arm. One line names those that are zero in all arms.
fn figures(rehearsal: &Rehearsal) -> String {
    let mut header = vec!["figure".to_owned()];
    header.extend(rehearsal.arms.iter().map(|arm| printable(&arm.arm)));
    let several = rehearsal.seeds.len() > 1;
    if let Some((first, others)) = rehearsal.arms.split_first() {
        let compared = |arm: &ArmOutcomes| {
            let interval = if several { " (95 %)" } else { "" };
            format!("{} - {}{interval}", printable(&arm.arm), printable(&first.arm))
        };
        header.extend(others.iter().map(compared));
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mean = |arm: &ArmOutcomes, figure: &Figure| {
        let spread = arm.figures.iter().find(|spread| spread.figure == figure.name);
        spread.map_or_else(String::new, |spread| figure.words(spread.mean))
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut zero = Vec::new();
    for figure in rehearsal.shown_figures() {
        let spreads = rehearsal.arms.iter().flat_map(|arm| &arm.figures);
        if spreads.filter(|spread| spread.figure == figure.name).all(|spread| spread.mean == 0.0) {
            zero.push(figure.title);
            continue;
        }
        let mut row = vec![figure.title.to_owned()];
        row.extend(rehearsal.arms.iter().map(|arm| mean(arm, figure)));
        let differences = rehearsal.differences.iter().filter(|difference| difference.figure == figure.name);
        row.extend(differences.map(|difference| difference.words(figure)));
        rows.push(row);
    }
    for ((zone, server_type), of_arms) in rehearsal.places() {
        let mut row = vec![format!("{server_type} in {zone}")];
        row.extend(of_arms.into_iter().map(|(hours, cost)| format!("{hours:.1} h, EUR {cost:.2}")));
        rows.push(row);
    }
    let zero = if zero.is_empty() { String::new() } else { format!("zero: {}\n", zero.join(", ")) };
    table(&header, rows) + &zero
}

fn parted(rehearsal: &Rehearsal, first: &str, parting: &Parting) -> String {
    let did =
        |event: &Option<Event>| printable(&event.as_ref().map_or_else(|| "does nothing".to_owned(), Event::words));
    format!(
        "{} and {} first differ at {} (seed {}):\n  {} {}\n  {} {}",
        printable(first),
        printable(&parting.arm),
        rehearsal.local(parting.at),
        parting.seed,
        printable(first),
        did(&parting.first),
        printable(&parting.arm),
        did(&parting.other),
    )
}

/// What else is to be known of each arm.
fn notes(rehearsal: &Rehearsal) -> String {
    let mut text = String::new();
    for arm in &rehearsal.arms {
        let notes = arm.notes();
        if !notes.is_empty() {
            text.push_str(&format!("\narm {}\n", printable(&arm.arm)));
            notes.iter().for_each(|note| text.push_str(&format!("  note: {}\n", printable(note))));
        }
    }
    text
}

/// Each law in each arm as a case of JUnit.
fn cases(rehearsal: &Rehearsal) -> Vec<(String, String, Vec<String>)> {
    let mut cases = Vec::new();
    for arm in &rehearsal.arms {
        for law in &rehearsal.laws {
            let of_arm = law.violations.iter().filter(|violation| violation.arm == arm.arm);
            let problems = of_arm.map(|it| format!("seed {}: {}", it.seed, it.because.join(", ")));
            cases.push((arm.arm.clone(), law.law.clone(), problems.collect()));
        }
        let bad = arm.outcomes.iter().filter(|outcome| !outcome.is_good());
        let problems = bad.map(|outcome| {
            let (left, unfinished) = (outcome.left.len(), outcome.totals.unfinished);
            match outcome.kind() {
                ArmKind::Group => {
                    format!("seed {}: {left} resources left, {unfinished} jobs unfinished", outcome.seed)
                }
                ArmKind::Cluster => format!("seed {}: {left} resources left", outcome.seed),
            }
        });
        let name = match arm.outcomes.first().map(|outcome| outcome.kind()) {
            Some(ArmKind::Cluster) => "nothing is left",
            _ => "nothing is left, and every job ends",
        };
        cases.push((arm.arm.clone(), name.to_owned(), problems.collect()));
    }
    cases
}

fn report(rehearsal: &Rehearsal, arguments: &Rehearse) -> Result<(), Failure> {
    let write = |path: &Path, text: &str| {
        write_atomically(path, text.as_bytes(), Existing::Replace).map_err(|error| {
            Failure::usage("a report cannot be written").at(path.display().to_string()).because(error.to_string())
        })
    };
    if let Some(path) = &arguments.html {
        write(path, &rehearsal.page())?;
    }
    if let Some(path) = &arguments.junit {
        let cases = cases(rehearsal);
        let cases = cases.iter().map(|(class, name, problems)| ReportedCase { class, name, problems, duration_ns: 0 });
        let suite = arguments.scenario.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
        write(path, &junit(&suite, cases))?;
    }
    Ok(())
}
