//! The dry run of a hook.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::hook::{Hook, HookAction};
use super::input::HookInput;
use super::{program, webhook};

/// What a hook would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookPlan {
    /// What would be run.
    pub run: PlannedRun,
    /// How long it may take. In JSON: `time_limit_ms`.
    #[serde(rename = "time_limit_ms", serialize_with = "milliseconds")]
    pub time_limit: Duration,
    /// The input that it would receive: on stdin, or as the body.
    pub input: HookInput,
    /// What is wrong already, so that it would fail at once.
    pub problem: Option<String>,
}

/// What would be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedRun {
    Program {
        /// The file, where it was found.
        file: Option<PathBuf>,
        /// As it is written.
        command: String,
        arguments: Vec<String>,
        /// Where it would run.
        working_directory: Option<PathBuf>,
        /// The names of its variables. Not their values: those passed on may be secrets.
        environment: Vec<String>,
    },
    /// A request.
    Webhook {
        /// Where to: scheme and host.
        url: String,
        /// Names of its headers with their values, as far as these are no secrets.
        headers: Vec<(String, String)>,
    },
    /// A command on nodes.
    Ssh {
        command: String,
        /// Who would log in.
        user: String,
        /// How many nodes at the same time.
        parallel: u32,
        /// Node and address with port, or why there is none.
        nodes: Vec<(String, String)>,
    },
    /// What only another program can run.
    Foreign { words: String },
}

fn milliseconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn plan(hook: &Hook, input: &HookInput) -> HookPlan {
    let run = match &hook.action {
        HookAction::Program(action) => PlannedRun::Program {
            file: program::find(action).ok(),
            command: action.command.clone(),
            arguments: action.arguments.clone(),
            working_directory: action.working_directory.clone(),
            environment: program::environment(action, input).into_iter().map(|(name, _)| name).collect(),
        },
        HookAction::Webhook(action) => PlannedRun::Webhook {
            url: action.place(),
            headers: [
                ("content-type", "application/json".to_owned()),
                (webhook::SIGNATURE, "t=<now>,v1=<hmac-sha256>".to_owned()),
                (webhook::DELIVERY, webhook::delivery(input)),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        },
        HookAction::Ssh(action) => PlannedRun::Ssh {
            command: action.command.clone(),
            user: action.user.clone(),
            parallel: action.parallel,
            nodes: input
                .nodes
                .iter()
                .map(|node| {
                    let address = node.ssh_address(action);
                    let words = address.map(|address| std::net::SocketAddr::new(address, action.port).to_string());
                    (node.name.clone(), words.unwrap_or_else(|| "has no such address".to_owned()))
                })
                .collect(),
        },
        HookAction::Foreign(words) => PlannedRun::Foreign { words: words.clone() },
    };
    let problem = hook
        .problems()
        .first()
        .map(ToString::to_string)
        .or_else(|| hook.preflight().err().map(|problem| problem.to_string()));
    HookPlan { run, time_limit: hook.time_limit, input: input.clone(), problem }
}
