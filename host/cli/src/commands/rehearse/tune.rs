//! `windlass rehearse tune`: which settings cost least within laws.

use std::path::{Path, PathBuf};

use windlass_inspect::failure::Failure;
use windlass_inspect::output::{Output, print, table};
use windlass_inspect::text::{bold, dim, printable};
use windlass_rehearsal::{Candidate, Figure, Search, TUNED, TuneFailure, TuneOptions, Tuning};

use super::{failed, figures, laws, read_scenario, rehearser, tunable};
use crate::arguments::TuneScenarios;
use crate::context::Context;
use crate::files::{Existing, ResultFile, read_text, refuse_overwriting, write_atomically};

/// The largest file of settings.
const MAX_SEARCH_BYTES: u64 = 1 << 20;
/// How many candidates the table for people has.
const SHOWN: usize = 12;

pub(crate) fn run(output: Output, arguments: &TuneScenarios, context: Option<&Context>) -> Result<(), Failure> {
    keep_inputs(arguments, context)?;
    let scenarios = arguments.scenarios.iter().map(|file| read_scenario(file, false)).collect::<Result<Vec<_>, _>>()?;
    let (name, file) = &arguments.arm;
    if name == TUNED {
        return Err(Failure::usage(format!("an arm cannot be called {TUNED}: the result is called so")));
    }
    let arm = tunable(name, file, arguments.group.as_deref())?;
    let search = search(arguments)?;
    let laws = laws(&arguments.never, &arguments.always)?;
    let goal = Figure::named(&arguments.goal);
    let goal = goal.ok_or_else(|| Failure::usage(format!("there is no figure {}", arguments.goal)))?;
    let options = TuneOptions { goal, candidates: arguments.candidates, seed: arguments.seed, seeds: arguments.seeds };
    let rehearser = rehearser(context)?;
    let began = |candidates: usize, seeds: usize| output.say(&format!("candidates: {candidates}, seeds: {seeds}"));
    let tuning = Tuning::run(&scenarios, &arm, &search, &laws, options, &rehearser, &began);
    let tuning = tuning.map_err(|failure| match failure {
        TuneFailure::Setting(error) => Failure::usage(error.to_string()),
        TuneFailure::Candidate { settings, source } => failed(source).because(format!("with {settings}")),
        TuneFailure::Rehearsal(failure) => failed(failure),
    })?;
    if let Some(path) = &arguments.html {
        write(path, &tuning.page(), Existing::Replace)?;
    }
    if !tuning.is_good() {
        if !output.is_document() {
            print(&words(&tuning));
        }
        let failure = Failure::undone("no settings were found that keep the laws")
            .because("the best ones violate a law, on the seeds of the search or on those held out")
            .remedy("search more settings, or state other laws");
        return Err(failure.with_partial(serde_json::to_value(&tuning).unwrap_or_default()));
    }
    if let Some(path) = &arguments.write {
        let chosen: Vec<_> = tuning.chosen().collect();
        let text = arm.arm.text_with(&chosen).map_err(|error| Failure::usage(error.to_string()))?;
        let existing = if arguments.overwrite { Existing::Replace } else { Existing::Keep };
        write(path, &format!("{}\n{text}", tuning.evidence()), existing)?;
    }
    output.result(&tuning, || words(&tuning));
    Ok(())
}

/// The configuration alone may be replaced, with --write and --overwrite: the result is the same with other settings.
fn keep_inputs(arguments: &TuneScenarios, context: Option<&Context>) -> Result<(), Failure> {
    let mut used: Vec<&Path> = arguments.scenarios.iter().map(PathBuf::as_path).collect();
    used.push(&arguments.search);
    used.extend(context.and_then(|context| context.configuration.file.as_deref()));
    refuse_overwriting(&[ResultFile::new("--write", &arguments.write)], used.clone())?;
    used.push(Path::new(&arguments.arm.1));
    used.extend(arguments.write.as_deref());
    refuse_overwriting(&[ResultFile::html(&arguments.html)], used)
}

fn search(arguments: &TuneScenarios) -> Result<Search, Failure> {
    let text = read_text(&arguments.search, "the settings to search", MAX_SEARCH_BYTES)?;
    Search::parse(&text).map_err(|error| {
        let failure = Failure::usage("the settings cannot be searched").at(arguments.search.display().to_string());
        error.problems().iter().cloned().fold(failure, Failure::because)
    })
}

fn write(path: &Path, text: &str, existing: Existing) -> Result<(), Failure> {
    write_atomically(path, text.as_bytes(), existing).map_err(|error| {
        let failure = Failure::usage("the result cannot be written").at(path.display().to_string());
        match error.kind() {
            _ if path.is_dir() => failure.because("it is a directory").remedy("name a file in it"),
            std::io::ErrorKind::AlreadyExists => {
                failure.because("the file exists").remedy("name another file with --write, or add --overwrite")
            }
            _ => failure.because(error.to_string()),
        }
    })
}

/// The search for people.
fn words(tuning: &Tuning) -> String {
    let (goal, against) = tuning.figures();
    let range = |seeds: &[u64]| match seeds {
        [first, .., last] => format!("seeds {first} to {last}"),
        one => format!("seed {}", one.first().copied().unwrap_or_default()),
    };
    let titles: Vec<String> = tuning.scenarios.iter().map(|title| printable(title)).collect();
    let mut text = format!("{}: the lowest {} within the laws\n", bold(&titles.join(", ")), goal.title);
    tuning.laws.iter().for_each(|law| text.push_str(&format!("  {}\n", printable(law))));
    text.push_str(&format!(
        "  {} of {} combinations in {} rehearsals, {}\n\n",
        tuning.candidates.len().saturating_sub(1),
        tuning.combinations,
        tuning.rehearsals,
        range(&tuning.seeds)
    ));
    let mut header: Vec<String> =
        tuning.candidates.iter().take(1).flat_map(|it| &it.settings).map(|set| printable(&set.key)).collect();
    header.extend([goal.title, against.title, "violations", "seeds", ""].map(str::to_owned));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |candidate: &Candidate| {
        let mut row: Vec<String> = candidate.settings.iter().map(|set| printable(&set.value)).collect();
        let marks = [
            (candidate.is_chosen, "chosen"),
            (candidate.is_unchanged, "as it is"),
            (candidate.is_on_front, "on the front"),
        ];
        let marks: Vec<&str> = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect();
        row.extend([
            goal.words(candidate.goal),
            against.words(candidate.against),
            candidate.violations.to_string(),
            candidate.seeds.to_string(),
            marks.join(", "),
        ]);
        row
    };
    // The table always has the configuration as it is, whatever its rank.
    let shown = tuning.candidates.iter().enumerate().filter(|(place, it)| *place < SHOWN || it.is_unchanged);
    text.push_str(&table(&header, shown.map(|(_, candidate)| row(candidate))));
    if tuning.candidates.len() > SHOWN {
        text.push_str(&dim(&format!(
            "and {} more, which --html or --output json show\n",
            tuning.candidates.len() - SHOWN
        )));
    }
    for (held_out, rehearsal) in tuning.held_out() {
        let title = printable(&held_out.scenario);
        text.push_str(&format!("\n{title}, {}, which the search had not seen\n", range(&tuning.held_out_seeds)));
        text.push_str(&figures(rehearsal));
    }
    text.push_str(&dim("\nWhat the simulation simplifies:\n"));
    tuning.simplified.iter().for_each(|words| text.push_str(&dim(&format!("- {words}\n"))));
    text
}
