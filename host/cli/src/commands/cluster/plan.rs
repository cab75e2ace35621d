//! The text of a dry run.

use serde_json::json;
use windlass_cluster::{ClusterPlan, PlannedHook, PlannedRun};
use windlass_inspect::failure::Failure;
use windlass_inspect::output::fields;
use windlass_inspect::text::{bold, dim, printable, yellow};

use crate::context::Context;
use crate::units::human_duration;

pub(super) fn show(context: &Context, plan: &ClusterPlan) -> Result<(), Failure> {
    context.output.result(&json!({ "plan": plan }), || rendered(plan));
    Ok(())
}

pub(super) fn rendered(plan: &ClusterPlan) -> String {
    let names = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join("\n") };
    let mut text = fields(&[
        ("cluster", plan.cluster.to_string()),
        ("would", plan.operation.to_string()),
        ("make", names(&plan.make)),
        ("remove", names(&plan.remove)),
    ]);
    if plan.hooks.is_empty() {
        text.push_str("no hook would be run\n");
    }
    for hook in &plan.hooks {
        text.push_str(&rendered_hook(hook));
    }
    text
}

fn rendered_hook(hook: &PlannedHook) -> String {
    let plan = &hook.plan;
    let lines = match &plan.run {
        PlannedRun::Program { file, command, arguments, working_directory, environment } => vec![
            ("program", file.as_ref().map_or_else(|| command.clone(), |file| file.display().to_string())),
            ("arguments", arguments.join("\n")),
            ("in", working_directory.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default()),
            ("variables", environment.join(" ")),
        ],
        PlannedRun::Webhook { url, headers } => vec![
            ("POST", url.clone()),
            ("headers", headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")),
        ],
        PlannedRun::Ssh { command, user, parallel, nodes } => vec![
            ("command", command.clone()),
            ("user", user.clone()),
            ("at a time", parallel.to_string()),
            ("nodes", nodes.iter().map(|(node, address)| format!("{node} {address}")).collect::<Vec<_>>().join("\n")),
        ],
        PlannedRun::Foreign { words } => vec![("what", words.clone())],
    };
    let mut lines: Vec<_> = lines.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    lines.push(("time limit", human_duration(plan.time_limit)));
    let input = serde_json::to_string_pretty(&plan.input).unwrap_or_default();
    let mut text = format!("\n{}\n{}", bold(&format!("{} hook", hook.stage)), fields(&lines));
    if let Some(problem) = &plan.problem {
        text.push_str(&format!("{}\n", yellow(&printable(&format!("problem: it {problem}")))));
    }
    text.push_str(&dim("input"));
    text.push('\n');
    for line in input.lines() {
        text.push_str(&format!("  {}\n", printable(line)));
    }
    text
}
