//! Mistakes on a command line: clap's errors, with what to type instead.

use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use windlass_policy::nearest;

/// The words of clap's error about this command line, with colours: the nearest name or all that there are, plain words
/// for a wrong value, and the help of the very command. `habit`: the command that does what was tried.
pub fn explained<'a>(
    mut error: clap::Error,
    program: &Command,
    arguments: impl IntoIterator<Item = &'a str>,
    habit: Option<&str>,
) -> String {
    let mut program = program.clone();
    program.build();
    let line: Vec<&str> = arguments.into_iter().collect();
    let (path, command) = command_of(&program, line.iter().copied());
    if let Some(place) = variable_of(&error, &line, command.get_arguments().chain(program.get_arguments())) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(place));
    }
    let tip = match habit {
        Some(habit) => Some(format!("to do that, run `{habit}`")),
        None => tip(&error, &path, command),
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedSubcommand);
        if error.remove(ContextKind::SuggestedArg).is_some() {
            // It shows what clap takes for meant.
            error.remove(ContextKind::Usage);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let mut words = error.render().ansi().to_string();
    if let Some((said, plain)) = plain_words(&error) {
        words = words.replacen(&said, &plain, 1);
    }
    let help = words.rfind("For more information").and_then(|end| Some(end + words[end..].find("--help")?));
    if let Some(at) = help {
        words.insert_str(at, &format!("{path} "));
    }
    words
}

/// The command that a line is about, as far as its words name one, and its path.
fn command_of<'p, 'a>(program: &'p Command, arguments: impl IntoIterator<Item = &'a str>) -> (String, &'p Command) {
    let (mut path, mut command) = (program.get_name().to_owned(), program);
    for word in arguments.into_iter().skip(1).filter(|word| *word != "help") {
        if let Some(next) = command.find_subcommand(word) {
            path = format!("{path} {}", next.get_name());
            command = next;
        }
    }
    (path, command)
}

/// Where a wrong value comes from, if that is the variable of an option that does not stand on the line.
fn variable_of<'p>(error: &clap::Error, line: &[&str], mut options: impl Iterator<Item = &'p Arg>) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    // Behind the option stands how its value is called.
    let option = shown.split([' ', '=', '[']).next()?;
    let option = options.find(|one| one.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long)))?;
    let variable = option.get_env().filter(|name| std::env::var_os(name).is_some())?;
    let is_given = |word: &&str| {
        let is_short = option.get_short().is_some_and(|short| word.starts_with(&format!("-{short}")));
        let long = word.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or_default());
        is_short || (long.is_some() && long == option.get_long())
    };
    if line.iter().any(is_given) {
        return None;
    }
    Some(format!("{} (the variable of {shown})", variable.to_string_lossy()))
}

fn tip(error: &clap::Error, path: &str, command: &Command) -> Option<String> {
    let written = |kind| match error.get(kind) {
        Some(ContextValue::String(written)) => Some(written.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let shown: Vec<&Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
            let names = || shown.iter().flat_map(|one| one.get_name_and_visible_aliases());
            Some(match nearest(written(ContextKind::InvalidSubcommand)?, names()) {
                Some(near) => format!("a similar command exists: `{path} {near}`"),
                None => {
                    let names: Vec<&str> =
                        shown.iter().map(|one| one.get_name()).filter(|one| *one != "help").collect();
                    format!("the commands of `{path}` are: {}", names.join(", "))
                }
            })
        }
        ErrorKind::UnknownArgument => Some(match written(ContextKind::InvalidArg)? {
            negative if is_number_below_zero(negative) => "a value cannot be negative".to_owned(),
            option if option.starts_with('-') => {
                let long = option.trim_start_matches('-').split('=').next().unwrap_or_default();
                let longs = || command.get_arguments().filter(|one| !one.is_hide_set()).filter_map(Arg::get_long);
                // `--state` is the beginning of a global option, which is not meant where this command has no such one.
                let own = || command.get_arguments().filter(|one| !one.is_hide_set() && !one.is_global_set());
                let begins = || own().filter_map(Arg::get_long).find(|one| one.starts_with(long));
                let near = nearest(long, longs()).or_else(begins);
                match near.filter(|_| long.len() > 1) {
                    Some(near) => format!("a similar option exists: --{near}"),
                    None => options_of(path, command),
                }
            }
            _ => format!("`{path}` takes no {} argument; {}", more(command), options_of(path, command)),
        }),
        ErrorKind::MissingRequiredArgument => {
            let help = command.get_after_help()?.to_string();
            let example = help.lines().skip_while(|line| *line != "Examples:").nth(1)?.trim().to_owned();
            Some(format!("for example: {example}"))
        }
        _ => None,
    }
}

fn more(command: &Command) -> &'static str {
    if command.get_positionals().next().is_some() { "further" } else { "such" }
}

/// `-5`, and `-5m`, of which clap cuts the rest.
fn is_number_below_zero(written: &str) -> bool {
    written.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Options that are listed at most.
const MAX_OPTIONS: usize = 16;

/// The options that are this command's own.
fn options_of(path: &str, command: &Command) -> String {
    let own = command.get_arguments().filter(|one| !one.is_hide_set() && !one.is_global_set());
    let own = own.filter_map(Arg::get_long).filter(|long| !matches!(*long, "help" | "version"));
    let own: Vec<String> = own.map(|long| format!("--{long}")).collect();
    match own.len() {
        0 => format!("`{path}` has no options of its own"),
        1..=MAX_OPTIONS => format!("the options of `{path}` are: {}", own.join(", ")),
        more => {
            format!("`{path}` has {}, and {} more options", own[..MAX_OPTIONS].join(", "), more - MAX_OPTIONS)
        }
    }
}

/// What a parser of the standard library or of clap says about a value, and the same for people.
fn plain_words(error: &clap::Error) -> Option<(String, String)> {
    let source = std::error::Error::source(error)?;
    let said = source.to_string();
    let plain = if let Some(number) = source.downcast_ref::<ParseIntError>() {
        match number.kind() {
            IntErrorKind::Zero => "it must be at least 1".to_owned(),
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "the number is too large".to_owned(),
            _ => "it must be a whole number".to_owned(),
        }
    } else if source.is::<ParseFloatError>() {
        "it must be a number".to_owned()
    } else if source.is::<AddrParseError>() {
        "it must be an IP address and a port, for example 127.0.0.1:8080".to_owned()
    } else {
        let (_, range) = said.split_once(" is not in ")?;
        match range.split_once("..=") {
            Some(("", most)) => format!("it must be at most {most}"),
            Some((least, most)) => format!("it must be from {least} to {most}"),
            None => format!("it must be at least {}", range.strip_suffix("..")?),
        }
    };
    Some((said, plain))
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;
    use clap::value_parser;

    use super::*;

    fn program() -> Command {
        let list = Command::new("list")
            .arg(Arg::new("group").long("group"))
            .arg(Arg::new("limit").long("limit").value_parser(value_parser!(u32).range(1..=100)))
            .arg(Arg::new("listen").long("listen").value_parser(value_parser!(std::net::SocketAddr)))
            .arg(Arg::new("each").long("each").value_parser(value_parser!(std::num::NonZeroU32)));
        let scale =
            Command::new("scale").arg(Arg::new("name").required(true)).after_help("Examples:\n  run scale farm");
        let all = Arg::new("verbose").long("verbose").global(true).action(ArgAction::SetTrue);
        Command::new("run").subcommand_required(true).arg(all).subcommands([
            Command::new("server").subcommand_required(true).subcommands([list, scale, Command::new("delete")]),
            Command::new("decision"),
            Command::new("version"),
        ])
    }

    fn refusal(line: &str) -> String {
        let error = program().try_get_matches_from(line.split(' ')).expect_err(line);
        anstream::adapter::strip_str(&explained(error, &program(), line.split(' '), None)).to_string()
    }

    #[test]
    fn a_wrong_value_of_a_variable_is_told_with_its_name() {
        // A variable that is set wherever tests run.
        let limit = Arg::new("limit").long("limit").env("PATH").value_parser(value_parser!(u32));
        let program = Command::new("run").arg(limit);
        for (line, expected) in [
            (&["run"][..], "for 'PATH (the variable of --limit <limit>)': it must be a whole number"),
            (&["run", "--limit", "x"], "'x' for '--limit <limit>': it must be a whole number"),
            (&["run", "--limit=x"], "'x' for '--limit <limit>': it must be a whole number"),
        ] {
            let error = program.clone().try_get_matches_from(line).expect_err("a path is no number");
            let words = explained(error, &program, line.iter().copied(), None);
            let words = anstream::adapter::strip_str(&words).to_string();
            assert!(words.contains(expected), "{line:?}: {words}");
        }
    }

    #[test]
    fn each_mistake_on_a_command_line_says_what_to_type_instead() {
        for (line, expected) in [
            ("run verison", "a similar command exists: `run version`"),
            ("run frobnicate", "the commands of `run` are: server, decision, version"),
            ("run server lst", "a similar command exists: `run server list`"),
            ("run server list --grup a", "a similar option exists: --group"),
            ("run server list --lis a", "a similar option exists: --listen"),
            ("run server list --all", "the options of `run server list` are: --group, --limit, --listen, --each"),
            ("run server list -f", "the options of `run server list` are: --group"),
            ("run server delete --all", "`run server delete` has no options of its own"),
            ("run server delete web", "`run server delete` takes no such argument"),
            ("run server scale a b", "`run server scale` takes no further argument"),
            ("run server scale", "for example: run scale farm"),
            ("run server list --limit -5m", "a value cannot be negative"),
            ("run server list --limit five", "'--limit <limit>': it must be a whole number\n"),
            ("run server list --limit 0", "'--limit <limit>': it must be from 1 to 100\n"),
            ("run server list --each 0", "'--each <each>': it must be at least 1\n"),
            ("run server list --listen 80", "an IP address and a port, for example 127.0.0.1:8080"),
        ] {
            let words = refusal(line);
            assert!(words.contains(expected), "{line}: {words}");
            let of = if line.starts_with("run server") { "'run server" } else { "'run --help'" };
            assert!(words.contains(&format!("For more information, try {of}")), "{line}: {words}");
        }
    }
}
