//! Many teams with a key each on one controller, measured: memory, open files and threads while each has a server, and
//! after the last one is gone. The number is an argument, 1000 without; the second one says how often, each time with
//! other teams: what is not freed shows in later rounds. `just bench-kubernetes` builds what it needs and runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass_simulator::Options;
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, Programs, Scene, User, eventually_within,
};

const SECRET: &str = "scaleway";
const PATIENCE: Duration = Duration::from_secs(1_800);
const WATCHED: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> Result<()> {
    let programs = Programs::found().context("`just bench-kubernetes` builds what is missing")?;
    let count: usize = std::env::args().nth(1).map_or(Ok(1_000), |count| count.parse())?;
    let rounds: usize = std::env::args().nth(2).map_or(Ok(1), |rounds| rounds.parse())?;
    let plane = ControlPlane::start(programs, false).await?;
    let own = Scene::with(&plane, "teams", Options { time_scale: 60.0, ..Options::default() }).await?;
    let options = ControllerOptions { all_namespaces: true, ..ControllerOptions::default() }
        .argument(&format!("--namespace-credentials={SECRET}"))
        .argument("--require-namespace-credentials")
        // The default. Orphans are looked for more often than by default, since accounts are closed after four looks.
        .argument("--listing-interval=60s")
        .argument("--orphans-interval=75s");
    let controller = own.start(&options).await?;
    print_figures("nothing to do", &controller)?;

    for _ in 0..rounds {
        round(&own, &controller, count).await?;
    }
    plane.kubectl(User::Admin, &["get", "--raw", "/readyz"], "")?;
    Ok(())
}

/// That many teams come and go.
async fn round(own: &Scene<'_>, controller: &Controller, count: usize) -> Result<()> {
    let began = Instant::now();
    let mut teams = Vec::new();
    for number in 0..count {
        let team = own.neighbour("team").await?;
        let mut secret = Kind::Secret.object(SECRET);
        secret["stringData"] = json!({
            "SCW_SECRET_KEY": format!("11111111-1111-4111-8111-{number:012}"),
            "SCW_DEFAULT_PROJECT_ID": format!("aaaaaaaa-1111-4111-8111-{number:012}"),
        });
        team.apply(&secret).await?;
        let mut machine = Kind::InstanceMachine.object("server");
        machine["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
        team.apply(&machine).await?;
        teams.push(team);
    }
    eventually_within(PATIENCE, "every team has its server", || async {
        let servers = own.scaleway().instances();
        let running = servers.iter().filter(|server| server["state"] == "running").count();
        ensure!(running == count, "{running} of {count}");
        Ok(())
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    print_figures(&format!("{count} namespaces with a key and a server each, after {took:.0} s"), controller)?;

    let processor = controller.processor_time()?;
    let calls = own.scaleway().calls().len();
    tokio::time::sleep(WATCHED).await;
    let processor = controller.processor_time()?.saturating_sub(processor).as_secs_f64() / WATCHED.as_secs_f64();
    let calls = own.scaleway().calls().len() - calls;
    let title =
        format!("  at rest for {} s: {:.1} % of a processor, {calls} calls", WATCHED.as_secs(), 100.0 * processor);
    print_figures(&title, controller)?;

    for team in &teams {
        team.delete(Kind::InstanceMachine, "server").await?;
    }
    eventually_within(PATIENCE, "no account is left", || async {
        let accounts = controller.metrics().await?.lines().any(|line| line == "windlass_accounts 0");
        ensure!(accounts && own.scaleway().simulator().resources().is_empty());
        Ok(())
    })
    .await?;
    print_figures("all of them gone", controller)?;
    Ok(())
}

fn print_figures(when: &str, controller: &Controller) -> Result<()> {
    let mebibytes = controller.resident_bytes()? as f64 / f64::from(1 << 20);
    println!("{when}: {mebibytes:.0} MiB, {} files, {} threads", controller.open_files()?, controller.threads()?);
    Ok(())
}
