//! `windlass init`: the first configuration. What no option says is asked on the terminal; what is wrong is said with
//! its remedy before a file is written, and a file that exists is replaced only when that is asked for.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use toml::Table;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::ask;
use windlass_inspect::text::{bold, printable};
use windlass_lifecycle::GroupName;
use windlass_policy::Link;
use windlass_policy::slots::{Retry, Slot, SlotName, types};
use windlass_scaleway::Zone;

use super::doctor::{self, Examination};
use crate::arguments::{Global, Init};
use crate::configuration::{Environment, environment_of_process, parse, usual_place, usual_state_dir};
use crate::confirmation::{Answer, answer, is_yes};
use crate::context::{Context, no_key};
use crate::files::{Existing, write_atomically};
use crate::policy_file::trial_host;

/// What a first configuration cannot do without; other failures are reported, and can be fixed later.
const NEEDED: [&str; 4] = ["configuration", "policies", "state-directory", "zone"];

/// How often a wrong answer is asked for again.
const TRIES: usize = 3;

/// The policy that is tried: what docs/rules.md begins with.
const PATIENCE: &[u8] = br#"slot = "retry"

[[rules]]
name = "stock"
when = "failure.class == 'out-of-stock' && attempt < 20"
answer = { wait = 60000 }
reason = "stock may come back"
"#;

/// Document of `init`.
#[derive(Serialize)]
struct Begun {
    file: PathBuf,
    #[serde(flatten)]
    examination: Examination,
    /// What the tried policy answered; absent where none was tried.
    policy: Option<Tried>,
    next: Vec<String>,
}

/// A policy's answer to an example question.
#[derive(Serialize)]
struct Tried {
    slot: SlotName,
    question: Value,
    answer: Value,
    reason: Option<String>,
}

/// What the configuration is to say.
#[derive(Default)]
struct Wanted {
    profile: Option<String>,
    zone: Option<String>,
    state_dir: Option<PathBuf>,
    group: Option<GroupName>,
}

pub(crate) async fn run(global: Global, arguments: Init) -> Result<(), Failure> {
    let environment = environment_of_process();
    let file = global.config.clone().or_else(|| usual_place(&environment)).ok_or_else(|| {
        Failure::usage("there is no place for the configuration: neither XDG_CONFIG_HOME nor HOME is set")
            .remedy("name one with --config or WINDLASS_CONFIG")
    })?;
    let asks = !arguments.yes;
    if asks && !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::usage("`windlass init` asks, and there is no terminal to ask on; nothing was touched")
            .remedy("give options instead: windlass init --yes --zone fr-par-1"));
    }
    let existing = existing(&file, &arguments, asks).await?;
    let mut wanted = Wanted {
        profile: global.profile.clone(),
        zone: global.zone.clone(),
        state_dir: global.state_dir.clone(),
        group: arguments.group.clone(),
    };
    if asks {
        ask_for_the_rest(&mut wanted, &environment).await?;
    }
    let tries = match arguments.try_policy {
        Some(tries) => tries,
        None if asks => yes_to("Try a policy on an example question?", true).await?,
        None => true,
    };
    let text = written(&wanted, &global)?;
    // Read as every later command will read it, before it stands anywhere.
    let configuration = parse(&text, &file)?;
    let context = Context::new(Global { config: Some(file.clone()), ..global }, configuration, environment);
    known_zone(&context)?;
    let examination = doctor::examine(&context).await;
    let output = context.output;
    output.say(examination.rendered().trim_end());
    let failed: Vec<&str> = examination.failed().into_iter().filter(|check| NEEDED.contains(check)).collect();
    if !failed.is_empty() {
        return Err(Failure::usage(format!(
            "the configuration would not work: {}; nothing was written",
            failed.join(", ")
        ))
        .remedy("answer otherwise, or give --profile, --zone or --state-dir")
        .with_partial(serde_json::to_value(&examination).unwrap_or_default()));
    }
    write_atomically(&file, text.as_bytes(), existing).map_err(|error| {
        Failure::usage("the configuration cannot be written")
            .at(file.display().to_string())
            .because(error.to_string())
            .remedy("name another file with --config; --overwrite replaces one that exists")
    })?;
    let policy = if tries { Some(tried(&context).await?) } else { None };
    let next = next(&wanted);
    let begun = Begun { file, examination, policy, next };
    output.result(&begun, || rendered(&begun));
    Ok(())
}

/// Every command needs a zone, and the profile that is named; credentials may come later.
fn known_zone(context: &Context) -> Result<(), Failure> {
    let mut explicit = context.explicit_settings(None)?;
    explicit.secret_key = Some(no_key()?);
    let settings = context.load_settings(&explicit);
    let settings = settings.map_err(|error| Failure::usage(error.to_string()).because("nothing was written"))?;
    match settings.zone() {
        Some(_) => Ok(()),
        None => Err(Failure::usage("no zone is known; nothing was written").remedy("name one: --zone fr-par-1")),
    }
}

/// What may happen to a file that is there already.
async fn existing(file: &Path, arguments: &Init, asks: bool) -> Result<Existing, Failure> {
    if !file.exists() || arguments.overwrite {
        return Ok(if arguments.overwrite { Existing::Replace } else { Existing::Keep });
    }
    let place = file.display().to_string();
    let question = format!("{} exists. Replace it?", printable(&place));
    if asks && yes_to(&question, false).await? {
        return Ok(Existing::Replace);
    }
    Err(Failure::usage("there is a configuration already; nothing was touched")
        .at(place)
        .remedy("look at it with `windlass config show`; --overwrite replaces it"))
}

async fn ask_for_the_rest(wanted: &mut Wanted, environment: &Environment) -> Result<(), Failure> {
    if wanted.profile.is_none() {
        let profile = ask_text("Profile of Scaleway's configuration file", "the active one", Ok).await?;
        wanted.profile = profile;
    }
    if wanted.zone.is_none() {
        let known = environment.get("SCW_DEFAULT_ZONE").filter(|zone| !zone.is_empty());
        let offered = known.map_or("fr-par-1", String::as_str);
        let checked = |zone: String| match zone.parse::<Zone>() {
            Ok(_) => Ok(zone),
            Err(error) => Err(format!("{error}; known are {}", Zone::KNOWN.join(", "))),
        };
        wanted.zone = ask_text("Availability zone", offered, checked).await?.or_else(|| Some(offered.to_owned()));
    }
    if wanted.state_dir.is_none() {
        let usual = usual_state_dir(environment).map_or_else(String::new, |path| path.display().to_string());
        wanted.state_dir = ask_text("Directory of journal and decision log", &usual, Ok).await?.map(PathBuf::from);
    }
    if wanted.group.is_none() {
        let checked = |group: String| group.parse::<GroupName>().map_err(|error| error.to_string());
        wanted.group = ask_text("Group of servers that name none", "none", checked).await?;
    }
    Ok(())
}

/// Asks until the answer will do. `None`: nothing was typed, and what is offered in brackets holds.
async fn ask_text<T>(
    question: &str,
    offered: &str,
    checked: impl Fn(String) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    for _ in 0..TRIES {
        ask(&format!("{} [{}] ", bold(question), printable(offered)));
        let line = typed().await?;
        let line = line.trim();
        if line.is_empty() {
            return Ok(None);
        }
        match checked(line.to_owned()) {
            Ok(value) => return Ok(Some(value)),
            Err(problem) => ask(&format!("{}\n", printable(&problem))),
        }
    }
    Err(Failure::usage(format!("no answer was valid: {question}; nothing was written")))
}

async fn yes_to(question: &str, offered: bool) -> Result<bool, Failure> {
    ask(&format!("{} [{}] ", bold(question), if offered { "Y/n" } else { "y/N" }));
    let line = typed().await?;
    Ok(if line.trim().is_empty() { offered && line.ends_with('\n') } else { is_yes(&line) })
}

/// A line from the terminal. Its end is no answer.
async fn typed() -> Result<String, Failure> {
    match answer().await? {
        Answer::Line(line) if line.is_empty() => {
            ask("\n");
            Err(Failure::usage("the input ended before everything was answered; nothing was written"))
        }
        Answer::Line(line) => Ok(line),
        Answer::Interrupted => {
            ask("\n");
            Err(Failure::new(Exit::Interrupted, "interrupted; nothing was written"))
        }
    }
}

/// The file's text: only what was said, so that defaults stay defaults.
fn written(wanted: &Wanted, global: &Global) -> Result<String, Failure> {
    let text = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        path.into_os_string().into_string().map_err(|path| {
            Failure::usage("a path in a configuration must be UTF-8 text").at(path.to_string_lossy().into_owned())
        })
    };
    let mut table = Table::new();
    if let Some(profile) = &wanted.profile {
        table.insert("profile".to_owned(), profile.clone().into());
    }
    if let Some(zone) = &wanted.zone {
        table.insert("zone".to_owned(), zone.clone().into());
    }
    if let Some(url) = &global.api_url {
        table.insert("api_url".to_owned(), url.clone().into());
    }
    if let Some(directory) = &wanted.state_dir {
        table.insert("state_dir".to_owned(), text(directory)?.into());
    }
    if let Some(group) = &wanted.group {
        let server = Table::from_iter([("group".to_owned(), group.to_string().into())]);
        table.insert("server".to_owned(), server.into());
    }
    let keys = toml::to_string(&table)
        .map_err(|error| Failure::undone("the configuration cannot be made").because(error.to_string()))?;
    Ok(format!("# Written by `windlass init`; docs/configuration.md lists every key.\n{keys}"))
}

/// Asks a file of rules a question that it answers otherwise than the built-in default.
async fn tried(context: &Context) -> Result<Tried, Failure> {
    let host = trial_host(context)?;
    let link = Link::contents(Path::new("patience.rules.toml"), PATIENCE);
    let policy = host
        .load(SlotName::Retry, &link)
        .map_err(|error| Failure::undone("the example policy cannot be loaded").because(error.to_string()))?;
    let mut question = Retry::example();
    question.failure.class = types::FailureClass::OutOfStock;
    let asked = serde_json::to_value(&question).unwrap_or_default();
    let decision = host.pin_only(policy).decide::<Retry>(question).await;
    host.flush_decisions();
    Ok(Tried {
        slot: SlotName::Retry,
        question: asked,
        answer: serde_json::to_value(&decision.answer).unwrap_or_default(),
        reason: decision.reason.as_ref().map(ToString::to_string),
    })
}

fn next(wanted: &Wanted) -> Vec<String> {
    let group = if wanted.group.is_some() { "" } else { " --group ci" };
    vec![
        format!("windlass server create{group} --type DEV1-S --image ubuntu_noble"),
        "windlass server list".to_owned(),
        "windlass policy new patience --slot retry --language rules".to_owned(),
        "windlass config show".to_owned(),
    ]
}

fn rendered(begun: &Begun) -> String {
    let mut text = format!("wrote {}\n", printable(&begun.file.display().to_string()));
    if let Some(tried) = &begun.policy {
        let reason = tried.reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
        text.push_str(&format!(
            "tried a policy: a server is out of stock, what now? It answers {}{reason}\n",
            printable(&tried.answer["verdict"].to_string())
        ));
    }
    text.push_str("next:\n");
    text.extend(begun.next.iter().map(|line| format!("  {line}\n")));
    text
}
