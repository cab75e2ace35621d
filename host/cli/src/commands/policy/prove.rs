//! `windlass policy prove`: laws over all questions within bounds.

use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_inspect::failure::Failure;
use windlass_inspect::text::{bold, green, printable, red, yellow};
use windlass_policy::slots::SlotName;
use windlass_policy::{Class, LoadedPolicy};
use windlass_proof::{Expression, Finding, Law, Laws, Proof, ProofError, ProofOptions, Statement, prove};

use crate::arguments::{LoadOptions, ProvePolicy, SpaceOptions};
use crate::context::Context;
use crate::files::read_text;
use crate::policy_file::{BUILT_IN, link_or_default, load, only_slot, trial_host};
use crate::progress::questions_line;

/// What is asked of a script where nothing else is said: a minute or two on two cores.
const SCRIPT_QUESTIONS: u64 = 50_000;
const SCRIPT_RANDOM: u64 = 10_000;
/// A file of laws larger than this is a mistake.
const MAX_LAWS_BYTES: u64 = 1 << 20;

pub(super) fn run(context: &Context, arguments: &ProvePolicy) -> Result<(), Failure> {
    let host = trial_host(context)?;
    let slot = only_slot(arguments.slot, [arguments.load.file.as_path()])?;
    let policy = load(&host, slot, &link_or_default(context, slot, &arguments.load)?, &arguments.load.file)?;
    let mut laws = Law::of_every_policy();
    if let Some(file) = &arguments.laws {
        laws.extend(read_laws(file, slot)?);
    }
    let mut wrong = Vec::new();
    for (keyword, texts, statement) in [
        ("always", &arguments.always, Statement::Always as fn(_) -> _),
        ("never", &arguments.never, Statement::Never),
        ("only-defers-or", &arguments.only_defers_or, Statement::OnlyDefersOr),
    ] {
        for text in texts {
            match Expression::parse(text, slot) {
                Ok(expression) => laws.push(Law::of_condition(keyword, expression, statement)),
                Err(error) => wrong.push(format!("--{keyword}: {error}")),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.into_iter().fold(Failure::usage("the laws cannot be used"), Failure::because));
    }
    if let Some(file) = &arguments.equivalent {
        let options = LoadOptions { file: file.clone(), settings: None, grants: arguments.load.grants.clone() };
        let other = load(&host, slot, &link_or_default(context, slot, &options)?, file)?;
        laws.push(Law { name: format!("equivalent {}", file.display()), statement: Statement::Equivalent(other) });
    }
    context.output.say(&format!("asking {} about {} laws", name_of(&arguments.load.file), laws.len()));
    let options = options(&arguments.space, &[&policy]);
    let proof = shown(context, &options, || prove(&policy, &laws, &options)).map_err(|error| match &error {
        ProofError::Bounds(_) | ProofError::NothingAsked => {
            Failure::usage(error.to_string()).remedy("windlass help policy prove")
        }
        _ => Failure::usage("the laws cannot be tested").because(error.to_string()),
    })?;
    let saved = save(&proof, &arguments.save)?;
    let mut document = serde_json::to_value(&proof).unwrap_or_default();
    document["holds"] = proof.holds().into();
    document["saved"] = json!(saved);
    context.output.result(&document, || rendered(&proof, &saved));
    let violated = proof.laws.iter().filter(|law| law.violations > 0).count();
    match violated {
        0 if proof.holds() => Ok(()),
        0 => Err(Failure::undone("a law was tested on no answer, so nothing is known about it")),
        1 => Err(Failure::undone("a law is violated")),
        many => Err(Failure::undone(format!("{many} laws are violated"))),
    }
    .map_err(|failure| match saved.first() {
        Some(_) => failure.remedy(format!(
            "windlass policy test {} --fixtures {}",
            arguments.load.file.display(),
            arguments.save.display()
        )),
        None => failure,
    })
}

pub(super) fn name_of(file: &Path) -> String {
    match file == Path::new(BUILT_IN) {
        true => "the built-in default".to_owned(),
        false => file.display().to_string(),
    }
}

fn read_laws(file: &Path, slot: SlotName) -> Result<Vec<Law>, Failure> {
    let wrong =
        |problem: String| Failure::usage("the laws cannot be used").at(file.display().to_string()).because(problem);
    let laws = Laws::parse(&read_text(file, "the laws", MAX_LAWS_BYTES)?).map_err(|error| wrong(error.to_string()))?;
    if laws.slot != slot {
        return Err(wrong(format!("they are about the slot {}, and {slot} was asked for", laws.slot)));
    }
    Ok(laws.laws)
}

/// How much is asked of these policies, as the command line says it.
pub(super) fn options(space: &SpaceOptions, policies: &[&LoadedPolicy]) -> ProofOptions {
    let usual = match policies.iter().any(|policy| policy.class() == Class::Script) {
        true => ProofOptions { enumerated: SCRIPT_QUESTIONS, random: SCRIPT_RANDOM, ..ProofOptions::default() },
        false => ProofOptions::default(),
    };
    ProofOptions {
        enumerated: space.questions.unwrap_or(usual.enumerated),
        random: space.random.unwrap_or(usual.random),
        seed: space.seed,
        bounds: space.bounds.clone(),
        ..usual
    }
}

/// Does this, and shows meanwhile on a terminal how far it is.
pub(super) fn shown<T>(context: &Context, options: &ProofOptions, ask: impl FnOnce() -> T) -> T {
    let bar = questions_line(options.progress.clone(), context.output);
    let result = ask();
    // They may all be asked before the line is drawn again: it has said how many there were all the same.
    bar.force_draw();
    bar.finish_and_clear();
    result
}

/// Writes each counterexample as a fixture, and says where.
fn save(proof: &Proof, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut saved = Vec::new();
    for law in &proof.laws {
        let Some(counterexample) = &law.counterexample else { continue };
        let path = folder.join(format!("{}.json", file_name(&law.law)));
        let text = serde_json::to_string_pretty(&counterexample.fixture).unwrap_or_default() + "\n";
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| {
            Failure::usage("a counterexample cannot be saved").at(path.display().to_string()).because(error.to_string())
        })?;
        saved.push(path);
    }
    Ok(saved)
}

/// The words of a law as the name of a file.
fn file_name(law: &str) -> String {
    let mut name = String::new();
    for letter in law.chars() {
        match letter {
            'a'..='z' | '0'..='9' => name.push(letter),
            'A'..='Z' => name.push(letter.to_ascii_lowercase()),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
        if name.len() >= 60 {
            break;
        }
    }
    name.trim_matches('-').to_owned()
}

fn rendered(proof: &Proof, saved: &[PathBuf]) -> String {
    let mut text = String::new();
    let mut saved = saved.iter();
    for law in &proof.laws {
        text.push_str(&words_of_law(law, &mut saved));
    }
    text.push_str(&format!("\n{}\n", bold("within these bounds")));
    let space = match proof.space {
        u64::MAX => "more combinations than can be counted".to_owned(),
        space => format!("{} combinations", grouped(space)),
    };
    let (asked, slot) = (grouped(proof.enumerated), proof.slot);
    text.push_str(&match (proof.exhaustive, proof.impossible) {
        (true, 0) => format!("  all {asked} questions of the slot {slot}:\n"),
        (true, impossible) => format!(
            "  all {asked} questions of the slot {slot} ({space}, {} of which no host can ask):\n",
            grouped(impossible)
        ),
        (false, _) if proof.drawn => format!("  {asked} questions of the slot {slot}, drawn from {space}:\n"),
        // It was stopped.
        (false, _) => format!("  the first {asked} questions of the slot {slot}, of {space}:\n"),
    });
    text.push_str(
        "  every case of every enum, both values of every boolean, every option absent and present, except\n",
    );
    for bound in &proof.bounds {
        text.push_str(&format!("    {} = {}\n", bound.path, printable(&bound.values)));
    }
    if proof.pairwise + proof.random > 0 {
        text.push_str(&format!(
            "  beyond them {} questions in which every two values of two places come together{}, and {} at random \
             (--seed {})\n",
            grouped(proof.pairwise),
            left_out(proof),
            grouped(proof.random),
            proof.seed
        ));
    }
    text
}

/// The pairs that were not asked.
fn left_out(proof: &Proof) -> String {
    let mut words = Vec::new();
    if proof.impossible_pairs > 0 {
        let pairs = grouped(proof.impossible_pairs);
        words.push(format!("left out: {pairs} pairs, none of 1,000 questions with them was possible"));
    }
    if proof.untried_pairs > 0 {
        words.push(format!("not tried: {} pairs, since there are too many", grouped(proof.untried_pairs)));
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) }
}

fn words_of_law(law: &Finding, saved: &mut std::slice::Iter<'_, PathBuf>) -> String {
    let Some(counterexample) = &law.counterexample else {
        let state = if law.holds() { green("holds   ") } else { yellow("unknown ") };
        return format!("{state}  {}\n", printable(&law.law));
    };
    let mut text = format!(
        "{}  {} ({} question{}, the first is number {})\n",
        red("violated"),
        printable(&law.law),
        grouped(law.violations),
        if law.violations == 1 { "" } else { "s" },
        grouped(law.first.unwrap_or_default())
    );
    text.push_str(&format!("    question: the example with {}\n", printable(&counterexample.changes.to_string())));
    text.push_str(&format!("    answer:   {}\n", printable(&counterexample.answer.to_string())));
    text.push_str(&format!("    problem:  {}\n", printable(&counterexample.problem)));
    if let Some(path) = saved.next() {
        text.push_str(&format!("    saved:    {}\n", path.display()));
    }
    text
}

/// A number that people can read: `8,968,320`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_laws_make_names_of_files() {
        assert_eq!([0, 999, 1_000, 8_968_320].map(grouped), ["0", "999", "1,000", "8,968,320"]);
        assert_eq!(file_name("never verdict == 'terminate'"), "never-verdict-terminate");
        assert!(file_name(&"a b".repeat(100)).len() <= 60);
    }
}
