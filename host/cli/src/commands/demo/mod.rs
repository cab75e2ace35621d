//! `windlass demo`: the whole story on the embedded simulator, in a temporary directory, ending with a proof.

mod acts;
mod narrator;
mod stage;

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::output::{Output, print};
use windlass_inspect::text::{bold, dim, green};

use crate::arguments;
use narrator::Narrator;
use stage::Stage;

/// What the story cost.
#[derive(Debug, Serialize)]
struct Cost {
    api_calls: usize,
    decisions: usize,
    operations: usize,
    seconds: f64,
    simulated_seconds: f64,
}

pub(crate) async fn run(output: Output, arguments: &arguments::Demo) -> Result<(), Failure> {
    let began = Instant::now();
    let mut narrator = Narrator::new(output);
    if !output.is_document() {
        print(&format!("{}\n", dim("A simulated Scaleway, a temporary state directory: no account, nothing to pay.")));
    }
    let mut stage = Stage::set(arguments.seed, arguments.pace)?;
    let mut console = None;
    if arguments.console {
        let serving = crate::commands::console::beside(stage.state()?, stage.client.clone()).await?;
        output.say(&format!("Look at it: {}", serving.url));
        console = Some(serving);
    }
    let played = tokio::select! {
        played = acts::play(&mut stage, &mut narrator) => played,
        // Everything lives in this process and in a temporary directory: there is nothing to undo.
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "the demo was interrupted; nothing outlives \
            it")),
    };
    stage.policies.flush_decisions();
    let resources = stage.simulator.resources();
    let left = resources.count();
    let cost = Cost {
        api_calls: stage.simulator.requests().len(),
        decisions: stage.decisions()?,
        operations: stage.operations()?,
        seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        simulated_seconds: stage.simulator.now().as_secs_f64().round(),
    };
    let document = json!({ "acts": narrator.acts(), "resources_left": left, "cost": cost });
    played.map_err(|failure| failure.with_partial(document.clone()))?;
    proof(output, left, &cost, &resources, document)?;
    if let Some(console) = console {
        output.say(&format!("The console stays open until Ctrl-C: {}", console.url));
        // Without the signal there is nothing to wait for.
        let _ = tokio::signal::ctrl_c().await;
        console.end().await;
    }
    Ok(())
}

fn proof(
    output: Output,
    left: usize,
    cost: &Cost,
    resources: &windlass_simulator::Resources,
    document: Value,
) -> Result<(), Failure> {
    if left > 0 {
        let mut failure = Failure::new(Exit::Left, format!("{left} resources left")).with_partial(document);
        failure.left = leftovers(resources);
        return Err(failure);
    }
    output.result(&document, || {
        let cost = format!(
            "{} API calls, {} decisions, {} operations in {:.1} s ({:.0} s simulated)",
            cost.api_calls, cost.decisions, cost.operations, cost.seconds, cost.simulated_seconds
        );
        format!(
            "\n{}  {}\n{}\n",
            green(&bold("0 resources left")),
            dim("by the simulator's own count"),
            dim(&format!("{cost}\nNext: docs/operating.md, docs/writing-policies.md"))
        )
    });
    Ok(())
}

/// What the simulator still holds.
fn leftovers(resources: &windlass_simulator::Resources) -> Vec<Leftover> {
    let kinds = [
        ("server", &resources.servers),
        ("ip", &resources.ips),
        ("volume", &resources.volumes),
        ("private-nic", &resources.private_nics),
    ];
    let leftover = |kind: &str, resource: &Value| Leftover {
        kind: kind.to_owned(),
        id: resource["id"].as_str().unwrap_or_default().to_owned(),
        zone: resource["zone"].as_str().unwrap_or_default().to_owned(),
        reason: "the simulator still has it".to_owned(),
    };
    kinds.iter().flat_map(|(kind, list)| list.iter().map(|resource| leftover(kind, resource))).collect()
}
