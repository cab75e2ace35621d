//! A program's commands and options, as clap has them.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use crate::{cell, wrapped};

/// A section for each command, and one for the options that all of them take.
pub fn commands(program: Command) -> String {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let globals: Vec<&Arg> = program.get_arguments().filter(|argument| argument.is_global_set()).collect();
    let mut page = String::new();
    section(&program, &[], &mut page);
    if !globals.is_empty() {
        page += "\n## Options of every command\n\n";
        page += &table(&globals);
    }
    page
}

/// A command, and then those below it.
fn section(command: &Command, above: &[&str], page: &mut String) {
    let names = [above, &[command.get_name()]].concat();
    if !above.is_empty() {
        let _ = write!(page, "\n## `{}`\n", names.join(" "));
    }
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        for paragraph in about.to_string().split("\n\n") {
            let end = if paragraph.ends_with(['.', ':', '?', '!']) { "" } else { "." };
            let _ = write!(page, "\n{}{end}\n", wrapped(&paragraph.replace('<', "&lt;")));
        }
    }
    let below: Vec<&Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_global_set() && !argument.is_hide_set())
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .collect();
    if below.is_empty() || !own.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = write!(
            page,
            "\n```text\n{}\n```\n",
            textwrap::fill(usage, textwrap::Options::new(100).subsequent_indent("    "))
        );
    }
    if !own.is_empty() {
        page.push('\n');
        *page += &table(&own);
    }
    if let Some(after) = command.get_after_help() {
        after_help(&after.to_string(), page);
    }
    let aliases: Vec<_> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = write!(page, "\nAlso {}.\n", aliases.join(", "));
    }
    for command in below {
        section(command, &names, page);
    }
}

/// What stands behind the options: examples, which are indented, and words.
fn after_help(text: &str, page: &mut String) {
    let mut is_example = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let indented = line.starts_with(' ');
        if indented && !is_example {
            *page += "\n```sh\n";
        } else if !indented && is_example {
            *page += "```\n";
        }
        let _ = if indented { writeln!(page, "{}", line.trim()) } else { write!(page, "\n{}\n", wrapped(line)) };
        is_example = indented;
    }
    if is_example {
        *page += "```\n";
    }
}

fn table(arguments: &[&Arg]) -> String {
    let mut table = "| option | meaning |\n|---|---|\n".to_owned();
    for argument in arguments {
        let _ = writeln!(table, "| {} | {} |", cell(&names(argument)).replace("&lt;", "<"), meaning(argument));
    }
    table
}

/// `--output FORMAT`, `-o`.
fn names(argument: &Arg) -> String {
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<_> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let values = if takes_value { values.join(" ") } else { String::new() };
    let many = argument.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(argument.get_action(), ArgAction::Append | ArgAction::Count);
    let more = if many { "..." } else { "" };
    let Some(long) = argument.get_long() else { return format!("`{values}{more}`") };
    let mut names = vec![format!("`--{}{more}`", [long, &values].join(" ").trim_end())];
    names.extend(argument.get_visible_aliases().unwrap_or_default().iter().map(|alias| format!("`--{alias}`")));
    names.extend(argument.get_short().map(|short| format!("`-{short}`")));
    names.join(", ")
}

/// Its help, what it may hold, what it is by default, and the variable that says it, too.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut parts = vec![cell(&help)];
    if argument.is_required_set() {
        parts.push("Required".to_owned());
    }
    let values = argument.get_possible_values();
    let shown: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    let is_switch = !matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if !is_switch && !argument.is_hide_possible_values_set() && !shown.is_empty() {
        let named = |value: &clap::builder::PossibleValue| {
            let help = value.get_help().map(|help| format!(" ({})", cell(help.to_string().trim_end_matches('.'))));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        };
        parts.push(format!("One of {}", shown.into_iter().map(named).collect::<Vec<_>>().join(", ")));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !is_switch && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        parts.push(format!("Default: `{}`", defaults.join(" ")));
    }
    if let Some(variable) = argument.get_env() {
        parts.push(format!("Variable: `{}`", variable.to_string_lossy()));
    }
    let ended = parts.iter().map(|part| part.trim_end_matches('.')).filter(|part| !part.is_empty());
    ended.map(|part| format!("{part}.")).collect::<Vec<_>>().join(" ")
}
