//! `windlass config show`: every value in force and where it comes from. Of secrets only where they come from.

use std::path::Path;

use serde::Serialize;
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_lifecycle::StateDirectory;
use windlass_policy::slots::SlotName;
use windlass_policy::{Mode, Source};
use windlass_scaleway::{ConfigurationError, DEFAULT_API_URL, Limits, Settings};

use crate::configuration::VolumeType;
use crate::context::{Context, DEFAULT_PARALLEL, STATE, no_key};
use crate::units::human_duration;

/// Document of `config show`.
#[derive(Serialize)]
struct Shown {
    values: Vec<Value>,
    /// Why Scaleway's variables and file cannot be read, where they cannot.
    problem: Option<String>,
}

/// One value in force.
#[derive(Serialize)]
struct Value {
    key: String,
    /// Null: there is none, or it is a secret.
    value: Option<String>,
    from: Origin,
    /// The option, the variable, the key with its file.
    place: Option<String>,
}

/// What kind of place a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Origin {
    Option,
    Variable,
    /// Windlass's configuration file.
    File,
    /// A profile of Scaleway's own configuration file.
    ScalewayFile,
    /// What was made once and is kept in the state directory.
    StateDirectory,
    Default,
    /// There is no value.
    None,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Origin::Option => "option",
            Origin::Variable => "variable",
            Origin::File => "Windlass's file",
            Origin::ScalewayFile => "Scaleway's file",
            Origin::StateDirectory => "state directory",
            Origin::Default => "default",
            Origin::None => "none",
        }
    }
}

impl Value {
    fn new(key: impl Into<String>, value: impl Into<String>, from: Origin, place: Option<String>) -> Value {
        Value { key: key.into(), value: Some(value.into()), from, place }
    }

    fn none(key: impl Into<String>) -> Value {
        Value { key: key.into(), value: None, from: Origin::None, place: None }
    }

    /// What Scaleway's settings found at a place: a variable, or a key of a file.
    fn found(key: &str, value: Option<String>, place: &str) -> Value {
        let from = if place.contains(" in ") { Origin::ScalewayFile } else { Origin::Variable };
        Value { key: key.to_owned(), value, from, place: Some(place.to_owned()) }
    }
}

pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let (settings, secret_key, problem) = settings(context)?;
    let mut values = vec![configuration(context)];
    values.extend(scaleway(context, settings.as_ref()));
    values.push(secret_key);
    values.push(state_directory(context));
    values.push(shared_state(context));
    values.push(owner(context));
    values.extend(limits(context));
    values.extend(server(context));
    values.extend(policies(context));
    let shown = Shown { values, problem };
    if let Some(problem) = &shown.problem {
        context.output.say(&format!("note: {problem}"));
    }
    let listing = Listing::new(&shown.values, "nothing", |value: &Value| value.key.clone())
        .column("key", |value| value.key.clone())
        .column("value", |value| match (&value.value, value.from) {
            (Some(value), _) => value.clone(),
            (None, Origin::None) => "none".to_owned(),
            (None, _) => "(not shown)".to_owned(),
        })
        .wide("kind", |value| value.from.words().to_owned())
        .column("from", |value| value.place.clone().unwrap_or_else(|| value.from.words().to_owned()));
    context.output.listing(&shown, &listing);
    Ok(())
}

/// The secret key where something else hides where it comes from: that of the variable is in force if there is one.
fn unread_secret_key(context: &Context) -> Value {
    match context.environment.get("SCW_SECRET_KEY") {
        Some(key) if !key.is_empty() => Value::found("secret_key", None, "SCW_SECRET_KEY"),
        _ => Value::none("secret_key"),
    }
}

/// What Scaleway's variables and file say, the secret key apart, and why they cannot be read.
fn settings(context: &Context) -> Result<(Option<Settings>, Value, Option<String>), Failure> {
    let mut explicit = context.explicit_settings(None)?;
    let secret_key = |place: Option<&str>| match place {
        Some(place) => Value::found("secret_key", None, place),
        None => Value::none("secret_key"),
    };
    match context.load_settings(&explicit) {
        Ok(settings) => {
            let key = secret_key(Some(settings.secret_key_place()));
            Ok((Some(settings), key, None))
        }
        Err(error) => {
            // A key that is missing must not hide the rest.
            explicit.secret_key = Some(no_key()?);
            let rest = context.load_settings(&explicit);
            let missing = matches!(error, ConfigurationError::Missing { .. });
            let problem = if missing { rest.as_ref().err().map(ToString::to_string) } else { Some(error.to_string()) };
            let key = if missing { secret_key(None) } else { unread_secret_key(context) };
            Ok((rest.ok(), key, problem))
        }
    }
}

fn configuration(context: &Context) -> Value {
    const KEY: &str = "config";
    let Some(file) = &context.configuration.file else { return Value::none(KEY) };
    let (from, place) = by_option_or_variable(context, context.global.config.as_deref(), "--config", "WINDLASS_CONFIG");
    Value::new(KEY, file.display().to_string(), from, place)
}

/// Where a path comes from that clap read from an option or its variable.
fn by_option_or_variable(
    context: &Context,
    given: Option<&Path>,
    option: &str,
    variable: &str,
) -> (Origin, Option<String>) {
    let Some(given) = given else { return (Origin::Default, None) };
    let of_variable = context.environment.get(variable).is_some_and(|value| Path::new(value) == given);
    match of_variable {
        true => (Origin::Variable, Some(variable.to_owned())),
        false => (Origin::Option, Some(option.to_owned())),
    }
}

/// A key of our own file.
fn in_file(context: &Context, key: &str) -> Option<String> {
    context.configuration.file.as_ref().map(|file| format!("`{key}` in {}", file.display()))
}

/// What goes by options, variables, our file and Scaleway's.
fn scaleway(context: &Context, settings: Option<&Settings>) -> Vec<Value> {
    let (global, configured) = (&context.global, &context.configuration);
    let places = settings.map(|settings| settings.places().clone()).unwrap_or_default();
    let zone = settings.and_then(Settings::zone).map(|zone| zone.as_str().to_owned());
    let project = settings.and_then(Settings::project_id).map(str::to_owned);
    let url = settings.map(|settings| settings.api_url().to_string());
    let layers = [
        ("profile", "--profile", &global.profile, "SCW_PROFILE", &configured.profile, None),
        ("zone", "--zone", &global.zone, "SCW_DEFAULT_ZONE", &configured.zone, zone.zip(places.zone)),
        ("project", "", &None, "SCW_DEFAULT_PROJECT_ID", &configured.project, project.zip(places.project_id)),
        ("api_url", "--api-url", &global.api_url, "SCW_API_URL", &configured.api_url, url.zip(places.api_url)),
    ];
    let values = layers.map(|(key, option, given, variable, configured, found)| {
        let of_variable = context.environment.get(variable).filter(|value| !value.is_empty());
        match (given, of_variable, configured, found) {
            (Some(value), ..) => Value::new(key, value, Origin::Option, Some(option.to_owned())),
            (None, None, Some(value), _) => Value::new(key, value, Origin::File, in_file(context, key)),
            (None, _, _, Some((value, place))) => Value::found(key, Some(value), &place),
            (None, Some(value), _, None) => Value::new(key, value, Origin::Variable, Some(variable.to_owned())),
            (None, None, None, None) => Value::none(key),
        }
    });
    let defaulted = |value: Value| match (value.key.as_str(), value.from, &places.profile) {
        ("api_url", Origin::None, _) => Value::new("api_url", DEFAULT_API_URL, Origin::Default, None),
        ("profile", Origin::None, Some(applies)) => Value::new("profile", applies, Origin::ScalewayFile, None),
        _ => value,
    };
    values.into_iter().map(defaulted).collect()
}

fn state_directory(context: &Context) -> Value {
    const KEY: &str = "state_dir";
    let Ok(path) = context.state_path() else { return Value::none(KEY) };
    let given = context.global.state_dir.as_deref();
    let (from, place) = match (given, &context.configuration.state_dir) {
        (None, Some(_)) => (Origin::File, in_file(context, KEY)),
        (given, _) => by_option_or_variable(context, given, "--state-dir", "WINDLASS_STATE_DIR"),
    };
    Value::new(KEY, path.display().to_string(), from, place)
}

fn shared_state(context: &Context) -> Value {
    const KEY: &str = "state";
    let Ok(Some(shared)) = context.shared_state() else { return Value::none(KEY) };
    let (from, place) = match context.environment.get(STATE).is_some_and(|value| !value.is_empty()) {
        true => (Origin::Variable, Some(STATE.to_owned())),
        false => (Origin::File, in_file(context, KEY)),
    };
    Value::new(KEY, shared.location().to_owned(), from, place)
}

/// Looking makes no state directory, and no owner in it.
fn owner(context: &Context) -> Value {
    const KEY: &str = "owner";
    const FILE: &str = "owner";
    if let Some(owner) = &context.configuration.owner {
        return Value::new(KEY, owner.as_str(), Origin::File, in_file(context, KEY));
    }
    let state = context.state_path().ok().filter(|path| path.join(FILE).is_file());
    let owner = state.and_then(|path| StateDirectory::open(&path).ok()?.owner(None).ok());
    match owner {
        Some(owner) => Value::new(KEY, owner.as_str(), Origin::StateDirectory, None),
        None => Value::none(KEY),
    }
}

fn limits(context: &Context) -> Vec<Value> {
    let (configured, defaults) = (&context.configuration.limits, Limits::default());
    let limits = [
        ("limits.parallel", configured.parallel, DEFAULT_PARALLEL.to_string()),
        ("limits.concurrent_requests", configured.concurrent_requests, defaults.concurrent_calls.to_string()),
        ("limits.requests_per_second", configured.requests_per_second, defaults.calls_per_second.to_string()),
    ];
    let value = |(key, configured, default): (&str, Option<u32>, String)| match configured {
        Some(value) => Value::new(key, value.to_string(), Origin::File, in_file(context, key)),
        None => Value::new(key, default, Origin::Default, None),
    };
    limits.into_iter().map(value).collect()
}

/// The keys of `[server]` that the file sets.
fn server(context: &Context) -> Vec<Value> {
    let server = &context.configuration.server;
    let list = |list: &Option<Vec<String>>| list.as_ref().map(|list| list.join(", "));
    let keys = [
        ("server.group", server.group.as_ref().map(ToString::to_string)),
        ("server.type", list(&server.server_types)),
        ("server.image", server.image.clone()),
        ("server.ipv4", server.ipv4.map(|count| count.to_string())),
        ("server.ipv6", server.ipv6.map(|count| count.to_string())),
        ("server.volume_size", server.volume_size.map(|size| size.to_string())),
        (
            "server.volume_type",
            server.volume_type.map(|kind| match kind {
                VolumeType::Block => "block".to_owned(),
                VolumeType::Local => "local".to_owned(),
                VolumeType::Scratch => "scratch".to_owned(),
            }),
        ),
        ("server.private_networks", list(&server.private_networks)),
        ("server.security_group", server.security_group.clone()),
        ("server.placement_group", server.placement_group.clone()),
        ("server.tags", list(&server.tags)),
        ("server.wait", server.wait.map(human_duration)),
    ];
    let value =
        |(key, value): (&str, Option<String>)| Some(Value::new(key, value?, Origin::File, in_file(context, key)));
    keys.into_iter().filter_map(value).collect()
}

/// The policies of each slot in the order in which they are asked, and the labels that they may see. Their settings are
/// theirs, and not shown.
fn policies(context: &Context) -> Vec<Value> {
    let of_slot = |slot: SlotName| {
        let key = format!("policies.{slot}");
        let links = context.configuration.policies.chain(slot);
        if links.is_empty() {
            return vec![Value::new(key, "built-in", Origin::Default, None)];
        }
        let lines = context.configuration.policy_lines.get(&slot);
        let link = |(position, link): (usize, &windlass_policy::Link)| {
            let source = match &link.source {
                Source::BuiltIn => "built-in".to_owned(),
                source => source.to_string(),
            };
            let shadow = if link.mode == Mode::Shadow { " (shadow)" } else { "" };
            let line = lines.and_then(|lines| lines.get(position)).map(|line| format!(", line {line}"));
            let place = in_file(context, &key).map(|place| place + &line.unwrap_or_default());
            Value::new(key.clone(), source + shadow, Origin::File, place)
        };
        links.iter().enumerate().map(link).collect()
    };
    let labels = context.configuration.policies.labels();
    let labels = (!labels.is_empty()).then(|| {
        let key = "policies.labels";
        Value::new(key, labels.join(", "), Origin::File, in_file(context, key))
    });
    SlotName::ALL.into_iter().flat_map(of_slot).chain(labels).collect()
}
