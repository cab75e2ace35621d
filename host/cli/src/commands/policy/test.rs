//! `windlass policy test`: a policy's fixtures put to it, and fixtures made of recorded decisions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::Serialize;
use serde_json::Value;
use windlass_inspect::failure::Failure;
use windlass_inspect::text::{bold, dim, green, printable, red};
use windlass_policy::slots::SlotName;
use windlass_policy::{
    AppliedRule, DecisionReader, DecisionRecord, Examination, Host, Link, LoadedPolicy, PolicyIdentity, RulesFile,
};
use windlass_proof::fixture::{self, Case, Cell, Coverage, Fixture, FuelLock, Part, Suite, junit};

use crate::arguments::TestPolicy;
use crate::context::Context;
use crate::files::read_text;
use crate::policy_file::{
    MAX_JSON_BYTES, granted, grants_needed, json_argument, load, object, offline_trial_host, read_policy, slots_of,
    unusable,
};

/// The file of the fuel that cases use, beside the fixtures.
const FUEL_LOCK: &str = "fuel.lock";
/// Where `policy new` puts the schema of fixtures, from theirs.
const SCHEMA: &str = "../schemas/fixture.json";
/// A fixture of a larger question would be nothing to read.
const MAX_RECORDED_BYTES: usize = 256 << 10;

pub(super) async fn run(context: &Context, arguments: &TestPolicy) -> Result<(), Failure> {
    let tested = Tested::find(arguments)?;
    let host = offline_trial_host(context)?;
    let link = tested.link(arguments)?;
    if arguments.record {
        record(context, arguments, &tested, &host, &link).await
    } else {
        test(context, arguments, &tested, &host, link).await
    }
}

/// What is tested, and where its fixtures are.
struct Tested {
    file: PathBuf,
    fixtures: PathBuf,
}

impl Tested {
    /// A file is tested as it is. Of a folder, its package is built, or its one policy is taken.
    fn find(arguments: &TestPolicy) -> Result<Tested, Failure> {
        let named = &arguments.policy;
        let (file, folder) = if named.is_dir() {
            let file = match windlass_authoring::is_built(named) {
                true => super::author::built(named, None)?.path,
                false => the_policy_in(named)?,
            };
            (file, named.clone())
        } else {
            let folder = named.parent().filter(|folder| !folder.as_os_str().is_empty());
            (named.clone(), folder.unwrap_or(Path::new(".")).to_owned())
        };
        Ok(Tested { file, fixtures: arguments.fixtures.clone().unwrap_or_else(|| folder.join("fixtures")) })
    }

    /// The policy with its settings, and with all that it imports: nothing is called in a test.
    fn link(&self, arguments: &TestPolicy) -> Result<Link, Failure> {
        let bytes = read_policy(&self.file)?;
        // Rules import nothing.
        let grants = match RulesFile::is_named(&self.file) {
            true => Vec::new(),
            false => {
                let examination = Examination::of(&bytes).map_err(|refusal| unusable(&self.file, None, &refusal))?;
                granted(&grants_needed(&examination))
            }
        };
        let mut link = Link::contents(&self.file, bytes);
        link.grants = grants;
        if let Some(settings) = &arguments.settings {
            link.settings = object(&json_argument(settings, "the settings")?, "the settings")?;
        }
        Ok(link)
    }

    /// The slots that the policy decides.
    fn slots(&self) -> Result<Vec<SlotName>, Failure> {
        let bytes = read_policy(&self.file)?;
        slots_of(&self.file, &bytes)
    }

    /// The folder of the fixtures.
    fn folder(&self) -> &Path {
        match self.fixtures.is_file() {
            true => self.fixtures.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            false => &self.fixtures,
        }
    }

    /// The fixtures by name. If any file is invalid, or of a slot that the policy does not decide, reports all such
    /// files, and nothing is tested.
    fn fixtures(&self) -> Result<Vec<(String, Fixture)>, Failure> {
        let mut files = match self.fixtures.is_file() {
            true => vec![self.fixtures.clone()],
            false => files_in(&self.fixtures, ".json")?,
        };
        files.sort();
        let decided = self.slots()?;
        // A policy that decides nothing is refused when it is loaded.
        let is_decided = |slot: SlotName| decided.is_empty() || decided.contains(&slot);
        let (mut fixtures, mut wrong) = (Vec::new(), Vec::new());
        for file in files {
            let read = read_text(&file, "the fixture", MAX_JSON_BYTES).map_err(|failure| failure.message.clone());
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match read.and_then(|text| Fixture::parse(&text).map_err(|error| error.to_string())) {
                Ok(fixture) if is_decided(fixture.slot) => fixtures.push((name, fixture)),
                Ok(fixture) => {
                    let decided: Vec<String> = decided.iter().map(ToString::to_string).collect();
                    let (slot, decided) = (fixture.slot, decided.join(", "));
                    wrong.push(format!("{}: `slot` is {slot}, and the policy decides {decided}", file.display()));
                }
                Err(words) => wrong.push(format!("{}: {words}", file.display())),
            }
        }
        match wrong.as_slice() {
            [] => Ok(fixtures),
            _ => Err(wrong.into_iter().fold(Failure::usage("fixtures cannot be used"), Failure::because)),
        }
    }

    fn fuel_lock(&self) -> Result<FuelLock, Failure> {
        let file = self.folder().join(FUEL_LOCK);
        if !file.is_file() {
            return Ok(FuelLock::default());
        }
        FuelLock::parse(&read_text(&file, "the lock file", MAX_JSON_BYTES)?).map_err(|error| {
            Failure::usage("the lock file cannot be read")
                .at(file.display().to_string())
                .because(error.to_string())
                .remedy("remove it, and make it again with --lock-fuel")
        })
    }
}

/// The files of a folder whose names end so. A folder that is not there has none.
fn files_in(folder: &Path, end: &str) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage("the folder cannot be read").at(folder.display().to_string()).because(error.to_string())
    };
    let dir = match Dir::open_ambient_dir(folder, ambient_authority()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in dir.entries().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.to_string_lossy().ends_with(end) {
            files.push(folder.join(name));
        }
    }
    Ok(files)
}

/// The one policy in a folder that is no package.
fn the_policy_in(folder: &Path) -> Result<PathBuf, Failure> {
    let mut found = files_in(folder, ".wasm")?;
    found.extend(files_in(folder, ".rules.toml")?);
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (one, _) => Err(Failure::usage("the folder is not that of one policy")
            .at(folder.display().to_string())
            .because(match one {
                None => "it has no Cargo.toml, no component (.wasm) and no rules (.rules.toml)",
                Some(_) => "it has several components (.wasm) or rules (.rules.toml)",
            })
            .remedy("name the policy's file")),
    }
}

/// Document of `policy test`.
#[derive(Serialize)]
struct Results {
    file: PathBuf,
    passed: usize,
    failed: usize,
    cases: Vec<Case>,
    coverage: Vec<Coverage>,
}

async fn test(
    context: &Context,
    arguments: &TestPolicy,
    tested: &Tested,
    host: &Host,
    link: Link,
) -> Result<(), Failure> {
    let fixtures = tested.fixtures()?;
    if fixtures.is_empty() {
        let words = match tested.fixtures.exists() {
            true => "there are no fixtures",
            false => "the folder of fixtures does not exist",
        };
        return Err(Failure::usage(words)
            .at(tested.fixtures.display().to_string())
            .remedy("write one (docs/writing-policies.md), or make some of recorded decisions with --record"));
    }
    let lock = if arguments.lock_fuel { FuelLock::default() } else { tested.fuel_lock()? };
    // A policy that cannot be used at all is wrong usage, not a case that fails.
    let slots: BTreeSet<SlotName> = fixtures.iter().map(|(_, fixture)| fixture.slot).collect();
    for slot in &slots {
        load(host, *slot, &link, &tested.file)?;
    }
    let mut suite = Suite::new(host, link);
    let mut cases = Vec::new();
    for (name, fixture) in &fixtures {
        cases.push(suite.run(name, fixture, lock.most(name)).await);
    }
    let coverage = slots
        .into_iter()
        .map(|slot| Coverage::of(slot, cases.iter().filter(|case| case.slot == slot).flat_map(|case| &case.cells)))
        .collect();
    let failed = cases.iter().filter(|case| !case.passed()).count();
    let results = Results { file: tested.file.clone(), passed: cases.len() - failed, failed, cases, coverage };
    if let Some(file) = &arguments.junit {
        let name = tested.file.file_stem().unwrap_or_default().to_string_lossy();
        write(file, &junit(&name, &results.cases))?;
    }
    if arguments.lock_fuel && failed == 0 {
        write(&tested.folder().join(FUEL_LOCK), &FuelLock::of(&results.cases).to_text())?;
    }
    if failed == 0 {
        context.output.result(&results, || rendered(context, &results));
        return Ok(());
    }
    if !context.output.is_document() {
        windlass_inspect::output::print(&rendered(context, &results));
    }
    Err(Failure::undone(format!("{failed} of {} cases failed", results.cases.len()))
        .at(tested.fixtures.display().to_string())
        .with_partial(serde_json::to_value(&results).unwrap_or_default()))
}

/// Writes a file that the user named, or one beside the fixtures.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage("a file cannot be written").at(file.display().to_string()).because(error.to_string())
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| failed(std::io::Error::other("it has no name")))?;
    Dir::create_ambient_dir_all(folder, ambient_authority()).map_err(failed)?;
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
    dir.write(name, text).map_err(failed)
}

fn rendered(context: &Context, results: &Results) -> String {
    let mut text = String::new();
    for case in &results.cases {
        let word = if case.passed() { green("ok") } else { red("FAILED") };
        let fuel = case.fuel.map(|fuel| dim(&format!("  {fuel} fuel"))).unwrap_or_default();
        let rules = match case.rules.is_empty() {
            true => String::new(),
            false => dim(&format!("  by {}", printable(&AppliedRule::names(&case.rules)))),
        };
        text.push_str(&format!("{word}  {}{rules}{fuel}\n", printable(&case.name)));
        for problem in &case.problems {
            text.push_str(&format!("    {}\n", printable(problem)));
        }
        if context.verbose() || !case.passed() {
            for line in &case.log {
                let level = windlass_inspect::words::kind_word(&line.level);
                text.push_str(&format!("    {level}: {}\n", printable(&line.message)));
            }
        }
    }
    for coverage in &results.coverage {
        text.push_str(&format!("\n{}\n", bold(&format!("reached of {}", coverage.slot))));
        let (verdicts, values) = (coverage.verdicts, coverage.values);
        text.push_str(&format!(
            "  {} of {verdicts} verdicts, {} of {values} of the {}, {} combinations\n",
            verdicts - coverage.verdicts_missed.len(),
            values - coverage.values_missed.len(),
            several(coverage.axis),
            coverage.cells.len()
        ));
        if !coverage.verdicts_missed.is_empty() {
            text.push_str(&format!("  no case is answered: {}\n", coverage.verdicts_missed.join(", ")));
        }
        if !coverage.values_missed.is_empty() {
            text.push_str(&format!("  no case is about: {}\n", coverage.values_missed.join(", ")));
        }
    }
    text.push_str(&format!("\n{} passed, {} failed\n", results.passed, results.failed));
    text
}

/// An axis of coverage, for more than one.
fn several(axis: &str) -> String {
    match axis.strip_suffix("class") {
        Some(of) => format!("{of}classes"),
        None => format!("{axis}s"),
    }
}

/// Document of `policy test --record`.
#[derive(Serialize)]
struct Recorded {
    /// How many decisions were looked at.
    decisions: usize,
    /// Those of which no fixture could be made: too large, or of another version of the contract.
    unusable: usize,
    fixtures: Vec<RecordedFixture>,
}

#[derive(Serialize)]
struct RecordedFixture {
    file: PathBuf,
    decision: String,
    /// Whether the policy itself decided so then; otherwise it is what it answers now.
    decided_then: bool,
}

/// Makes a fixture of each recorded decision that reaches what no fixture reaches yet.
async fn record(
    context: &Context,
    arguments: &TestPolicy,
    tested: &Tested,
    host: &Host,
    link: &Link,
) -> Result<(), Failure> {
    let reader = DecisionReader::open(context.state_directory()?.handle()).map_err(|error| unreadable(&error))?;
    // Parsed one by one from the newest, and only until there are enough.
    let mut unread = reader.since(0).map_err(|error| unreadable(&error))?.records;
    let present = tested.fixtures()?;
    let mut recorder = Recorder {
        tested,
        suite: Suite::new(host, link.clone()),
        names: present.iter().map(|(name, _)| name.clone()).collect(),
        reached: BTreeSet::new(),
        recorded: Recorded { decisions: 0, unusable: 0, fixtures: Vec::new() },
    };
    for (name, fixture) in &present {
        let case = recorder.suite.run(name, fixture, None).await;
        recorder.reached.extend(case.cells.into_iter().map(|cell| (fixture.slot, cell)));
    }
    let mut policies = Vec::new();
    for slot in tested.slots()? {
        policies.push((load(host, slot, link, &tested.file)?, arguments.limit));
    }
    while let Some(record) = unread.pop() {
        if policies.iter().all(|(_, left)| *left == 0) {
            break;
        }
        let Ok(record) = record.read() else { continue };
        let asked = policies.iter_mut().find(|(policy, left)| policy.identity().slot == record.slot && *left > 0);
        if let Some((policy, left)) = asked {
            *left -= 1;
            recorder.take(&record, policy).await?;
        }
    }
    context.output.result(&recorder.recorded, || recorded_words(&recorder.recorded));
    Ok(())
}

/// Fixtures on their way.
struct Recorder<'a> {
    tested: &'a Tested,
    suite: Suite<'a>,
    /// The names that fixtures have.
    names: BTreeSet<String>,
    /// The combinations that fixtures reach.
    reached: BTreeSet<(SlotName, Cell)>,
    recorded: Recorded,
}

impl Recorder<'_> {
    async fn take(&mut self, record: &DecisionRecord, policy: &LoadedPolicy) -> Result<(), Failure> {
        self.recorded.decisions += 1;
        let ours = policy.identity();
        // All rules are one component: only their settings tell them apart.
        let is_rules = RulesFile::is_named(&self.tested.file);
        let is_tested =
            |asked: &PolicyIdentity| asked.name == ours.name && (!is_rules || asked.settings == ours.settings);
        let mut fixture = match fixture::of_record(record, is_tested) {
            Ok(fixture) if fixture.to_text().len() <= MAX_RECORDED_BYTES => fixture,
            _ => {
                self.recorded.unusable += 1;
                return Ok(());
            }
        };
        let case = self.suite.run(&ours.name, &fixture, None).await;
        let Some(answer) = &case.answer else {
            self.recorded.unusable += 1;
            return Ok(());
        };
        let cells = case.cells.iter().map(|cell| (record.slot, cell.clone()));
        let new: Vec<(SlotName, Cell)> = cells.filter(|cell| !self.reached.contains(cell)).collect();
        let Some((slot, first)) = new.first() else { return Ok(()) };
        let name = free_name(&format!("{slot}-{}-{}", first.verdict, first.value), &mut self.names);
        self.reached.extend(new);
        let (verdict, decided_then) = match fixture::part_of(record, is_tested) {
            Part::Verdict(verdict) => (verdict, true),
            Part::None => (verdicts(answer), false),
        };
        fixture.expect.verdict = Some(verdict);
        if self.tested.folder().join(SCHEMA).is_file() {
            fixture.schema = Some(SCHEMA.to_owned());
        }
        let file = self.tested.folder().join(format!("{name}.json"));
        write(&file, &fixture.to_text())?;
        self.recorded.fixtures.push(RecordedFixture { file, decision: record.id.to_string(), decided_then });
        Ok(())
    }
}

fn unreadable(error: &windlass_policy::Error) -> Failure {
    Failure::usage("the decision log cannot be read").because(error.to_string())
}

/// The verdicts of an answer, as a fixture expects them.
fn verdicts(answer: &Value) -> Value {
    match answer {
        Value::Array(answers) => answers.iter().map(|answer| answer["verdict"].clone()).collect(),
        one => one["verdict"].clone(),
    }
}

/// The name itself, or with a number that nobody has yet.
fn free_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut free = name.to_owned();
    let mut number = 1;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}

fn recorded_words(recorded: &Recorded) -> String {
    let mut text = String::new();
    for fixture in &recorded.fixtures {
        let then = if fixture.decided_then { "as it decided then" } else { "as it answers now" };
        let file = printable(&fixture.file.display().to_string());
        text.push_str(&format!("{file}  {then}  (decision {})\n", fixture.decision));
    }
    let Recorded { decisions, unusable, fixtures } = recorded;
    text.push_str(&format!("{} fixtures of {decisions} decisions", fixtures.len()));
    if *unusable > 0 {
        text.push_str(&format!("; {unusable} make none: too large, of another version, or the policy fails"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_never_gets_the_name_of_another() {
        let mut taken = BTreeSet::from(["a".to_owned()]);
        let names = ["a", "a", "b"].map(|name| free_name(name, &mut taken));
        assert_eq!(names, ["a-2", "a-3", "b"]);
    }
}
