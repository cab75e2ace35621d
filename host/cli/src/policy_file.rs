//! A policy as a command line names it: read from its file, with the settings and grants of its options, and loaded.

use std::path::Path;
use std::sync::Arc;

use cap_std::fs::Dir;
use serde_json::{Map, Value};
use windlass_inspect::failure::Failure;
use windlass_policy::slots::SlotName;
use windlass_policy::{
    Error, Examination, Host, Link, LoadedPolicy, Mode, Policies, Refusal, RulesFile, Source, nearest, plain_serde,
};

use crate::arguments::LoadOptions;
use crate::context::{Context, is_writable};
use crate::files::{read_bounded, read_stdin, read_text};

/// A policy file larger than this is not read at all.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// A question or settings larger than this are a mistake.
pub(crate) const MAX_JSON_BYTES: u64 = 64 << 20;
/// How the built-in default is called where a file is expected.
pub(crate) const BUILT_IN: &str = "default";
/// Policies tried by hand keep their decisions here, apart from those that count.
const TRIAL_FOLDER: &str = "trials";

/// A host beside the one that counts.
pub(crate) fn trial_host(context: &Context) -> Result<Host, Failure> {
    context.trial_policy_host(trial_folder(context)?)
}

/// The same without anybody to ask: it needs no credentials.
pub(crate) fn offline_trial_host(context: &Context) -> Result<Host, Failure> {
    context.offline_policy_host(trial_folder(context)?, context.cache_dir())
}

/// The folder of trials. Where the state directory cannot be written, one that is removed afterwards: a trial leaves
/// nothing that is needed.
fn trial_folder(context: &Context) -> Result<Dir, Failure> {
    let in_state = || {
        let state = context.state_directory().ok()?;
        // That it exists is as good.
        let _ = state.handle().create_dir(TRIAL_FOLDER);
        let folder = state.handle().open_dir(TRIAL_FOLDER).ok()?;
        is_writable(&folder).then_some(folder)
    };
    match in_state() {
        Some(folder) => Ok(folder),
        None => context.scratch().map_err(|error| {
            Failure::usage("neither the state directory nor the folder of temporary files can be written")
                .because(error.to_string())
                .remedy("name another with --state-dir or TMPDIR")
        }),
    }
}

/// A policy's file, of a command that needs one.
pub(crate) fn read_policy(file: &Path) -> Result<Vec<u8>, Failure> {
    if file == Path::new(BUILT_IN) && !file.exists() {
        return Err(Failure::usage(format!("{BUILT_IN} is the built-in policy, and this command needs a file"))
            .remedy("name the file of a policy"));
    }
    read_bounded(file, "the policy", MAX_COMPONENT_BYTES)
}

/// The slots that a policy's file decides: those that a component exports, or the one that rules are for.
pub(crate) fn slots_of(file: &Path, contents: &[u8]) -> Result<Vec<SlotName>, Failure> {
    match RulesFile::is_named(file) {
        true => {
            let slot = RulesFile::slot_in(contents);
            Ok(vec![slot.map_err(|problems| unusable(file, None, &Refusal::Rules(problems)))?])
        }
        false => Ok(Examination::of(contents).map_err(|refusal| unusable(file, None, &refusal))?.slots()),
    }
}

/// What an operator must grant to a policy.
pub(crate) fn grants_needed(examination: &Examination) -> Vec<String> {
    let names = examination.imports.iter().map(|import| import.split('@').next().unwrap_or(import));
    names.filter(|import| !import.starts_with("windlass:policy/")).map(str::to_owned).collect()
}

/// These imports as grants, where nothing is ever called: `request` takes methods and paths, and any will do.
pub(crate) fn granted(needed: &[String]) -> Vec<String> {
    let grant_of = |grant: &String| match grant.as_str() {
        "windlass:scaleway/request" => format!("{grant} GET /**"),
        _ => grant.clone(),
    };
    needed.iter().map(grant_of).collect()
}

/// The rules in a file, where its name says that it holds some.
pub(crate) fn rules(file: &Path, contents: &[u8]) -> Result<Option<RulesFile>, Failure> {
    if !RulesFile::is_named(file) {
        return Ok(None);
    }
    RulesFile::read(contents).map(Some).map_err(|problems| unusable(file, None, &Refusal::Rules(problems)))
}

/// The policy as its file and options say; where they say nothing, as the configuration says for the same file.
pub(crate) fn link(context: &Context, slot: SlotName, options: &LoadOptions) -> Result<Link, Failure> {
    let bytes = read_policy(&options.file)?;
    let canonical = options.file.canonicalize().ok();
    let configured = context.configuration.policies.chain(slot).iter().find(|link| match &link.source {
        Source::File(path) => canonical.is_some() && path.canonicalize().ok() == canonical,
        _ => false,
    });
    let mut link = Link::contents(&options.file, bytes);
    if let Some(configured) = configured {
        link.settings = configured.settings.clone();
        link.grants = configured.grants.clone();
        link.limits = configured.limits.clone();
        link.on_failure = configured.on_failure;
    }
    if let Some(settings) = &options.settings {
        link.settings = object(&json_argument(settings, "the settings")?, "the settings")?;
    }
    if !options.grants.is_empty() {
        link.grants = options.grants.clone();
    }
    Ok(link)
}

/// The slot that is named, or else the one that these policies decide. A built-in one decides any.
pub(crate) fn only_slot<'f>(
    wanted: Option<SlotName>,
    files: impl IntoIterator<Item = &'f Path>,
) -> Result<SlotName, Failure> {
    if let Some(wanted) = wanted {
        return Ok(wanted);
    }
    let Some(file) = files.into_iter().find(|file| *file != Path::new(BUILT_IN)) else {
        return Err(Failure::usage("name the slot with --slot").because("each slot has a built-in default"));
    };
    let slots = slots_of(file, &read_policy(file)?)?;
    match slots.as_slice() {
        [slot] => Ok(*slot),
        _ => {
            let names: Vec<&str> = slots.iter().map(|slot| slot.as_str()).collect();
            Err(Failure::usage("name the slot with --slot").at(file.display().to_string()).because(format!(
                "the policy exports {}",
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )))
        }
    }
}

/// A policy by its file, or the built-in one under the name `default`.
pub(crate) fn link_or_default(context: &Context, slot: SlotName, options: &LoadOptions) -> Result<Link, Failure> {
    if options.file != Path::new(BUILT_IN) {
        let name = options.file.to_string_lossy();
        if !options.file.exists() && nearest(&name, [BUILT_IN]).is_some() {
            return Err(Failure::usage(format!("there is no file {name}; did you mean {BUILT_IN}?")));
        }
        return link(context, slot, options);
    }
    let mut link = Link::default();
    if let Some(settings) = &options.settings {
        link.settings = object(&json_argument(settings, "the settings")?, "the settings")?;
    }
    Ok(link)
}

pub(crate) fn object(value: &Value, what: &str) -> Result<Map<String, Value>, Failure> {
    match value {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(Failure::usage(format!("{what} must be a JSON object, for example '{{\"key\": 1}}'"))),
    }
}

/// JSON as an option gives it: the text itself, `@FILE`, or `-` for stdin.
pub(crate) fn json_argument(argument: &str, what: &str) -> Result<Value, Failure> {
    let (text, place) = if argument == "-" {
        let bytes = read_stdin(what, MAX_JSON_BYTES)?;
        let text =
            windlass_process::text_of(bytes).map_err(|error| Failure::usage(format!("{what}, {error}")).at("stdin"))?;
        (text, "stdin".to_owned())
    } else if let Some(file) = argument.strip_prefix('@') {
        (read_text(Path::new(file), what, MAX_JSON_BYTES)?, file.to_owned())
    } else {
        (argument.to_owned(), "the command line".to_owned())
    };
    serde_json::from_str(&text).map_err(|error| {
        let failure = Failure::usage(format!("{what}: this is not valid JSON"))
            .at(place)
            .because(plain_serde(&error.to_string()));
        match Path::new(argument).is_file() {
            true => failure.remedy(format!("to read the file, write @{argument}")),
            false => failure,
        }
    })
}

pub(crate) fn load(host: &Host, slot: SlotName, link: &Link, file: &Path) -> Result<Arc<LoadedPolicy>, Failure> {
    host.load(slot, link).map_err(|error| match &error {
        Error::Refused { refusal, .. } => unusable(file, Some(slot), refusal),
        other => Failure::usage("the policy cannot be used").at(file.display().to_string()).because(other.to_string()),
    })
}

/// Why a file cannot be used as a policy.
pub(crate) fn unusable(file: &Path, slot: Option<SlotName>, refusal: &Refusal) -> Failure {
    let role = slot.map(|slot| format!(" for the slot {slot}")).unwrap_or_default();
    let failure = Failure::usage(format!("the policy cannot be used{role}")).at(file.display().to_string());
    match refusal {
        Refusal::Rules(problems) => problems.iter().fold(failure, |failure, problem| failure.because(problem.clone())),
        refusal => failure.because(refusal.to_string()),
    }
}

/// The configured chain of a slot, without shadows; with a candidate, that is in the place of the link with its file,
/// or comes first. Nobody need have signed it.
pub(crate) fn chain_with(policies: &Policies, slot: SlotName, candidate: Option<(&Path, &Link)>) -> Policies {
    let mut chain: Vec<Link> = policies.chain(slot).iter().filter(|link| link.mode == Mode::Decide).cloned().collect();
    if let Some((file, candidate)) = candidate {
        let canonical = file.canonicalize().ok();
        let own = |link: &Link| match &link.source {
            Source::File(path) => canonical.is_some() && path.canonicalize().ok() == canonical,
            _ => false,
        };
        match chain.iter().position(own) {
            Some(position) => chain[position] = candidate.clone(),
            None => chain.insert(0, candidate.clone()),
        }
    }
    let labelled = Policies::built_in()
        .with_labels(policies.labels().iter().cloned())
        .with_registries(policies.registries().clone());
    chain.into_iter().fold(labelled, |policies, link| policies.with(slot, link))
}
