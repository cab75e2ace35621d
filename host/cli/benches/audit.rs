//! How long `windlass policy audit` takes for 10,000 servers, beside `windlass server list`, which reads the same pages:
//! with policies that were compiled before, with a candidate that is new, and with none compiled. `just bench-audit`.
//! Prints; asserts nothing about time.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use windlass_lifecycle::OwnerName;
use windlass_scaleway::types::instance::CreateServer;
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Settings, Zone};
use windlass_simulator::{Options, Simulator};

const SERVERS: usize = 10_000;
const ROUNDS: usize = 5;
const ZONE: &str = "fr-par-1";
const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
const PROJECT: &str = "aaaaaaaa-1111-4111-8111-111111111111";
const OWNER: &str = "bench";

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(serve());
    let warm = home();
    run(warm.path(), &url, &["policy", "list"]);
    println!("{:<24} {:>8} {:>8} {:>8}", format!("{SERVERS} servers"), "best", "median", "worst");
    for (what, is_new, is_warm) in
        [("all compiled before", false, true), ("a new candidate", true, true), ("nothing compiled", true, false)]
    {
        let seconds = (0..ROUNDS).map(|round| {
            let cold = home();
            let home = if is_warm { warm.path() } else { cold.path() };
            // What a candidate is compiled to is kept under its text.
            let name = if is_new { format!("{round}") } else { "same".to_owned() };
            let candidate = home.join(format!("{name}.rules.toml"));
            let rule = format!("[[rules]]\nwhen = \"machine.machine_type == '{name}'\"\nanswer = \"keep\"\n");
            std::fs::write(&candidate, format!("slot = \"release\"\n{rule}")).unwrap();
            let audit = ["policy", "audit", candidate.to_str().unwrap()];
            if !is_new && round == 0 {
                run(home, &url, &audit);
            }
            timed(home, &url, &audit)
        });
        print(what, seconds.collect());
    }
    print("server list", (0..ROUNDS).map(|_| timed(warm.path(), &url, &["server", "list"])).collect());
}

/// A user's home directory.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/windlass");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), format!("owner = '{OWNER}'\n")).unwrap();
    home
}

/// A Scaleway with the servers of one owner, in this process. Returns its URL.
async fn serve() -> String {
    let simulator = Simulator::new(Options::default());
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = windlass_scaleway::Limits::default();
    (limits.calls_per_second, limits.burst) = (many, many);
    let settings = Settings::new(KEY.parse().unwrap()).with_limits(limits);
    let client = Client::with_transport(settings, simulator.transport()).unwrap();
    let (zone, owner): (Zone, OwnerName) = (ZONE.parse().unwrap(), OWNER.parse().unwrap());
    let image = client.marketplace().resolve_image("ubuntu_noble", &zone, "DEV1-S", ImageStorage::Local).await.unwrap();
    for number in 0..SERVERS {
        let group = format!("group-{}", number % 10);
        let server = CreateServer {
            name: format!("server-{number}"),
            commercial_type: "DEV1-S".to_owned(),
            image: Some(image.clone()),
            project: Some(PROJECT.to_owned()),
            tags: vec![
                owner.tag(),
                format!("windlass-group={group}"),
                format!("windlass-operation={group}-{number:012}"),
            ],
            ..CreateServer::default()
        };
        client.instance(&zone).create_server(&server).await.unwrap();
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { simulator.serve(listener).await });
    url
}

fn run(home: &Path, url: &str, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).args(["--output", "json"]).env_clear().env("HOME", home).env("SCW_API_URL", url);
    command.env("SCW_SECRET_KEY", KEY).env("SCW_DEFAULT_ZONE", ZONE).env("SCW_DEFAULT_PROJECT_ID", PROJECT);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    if arguments.contains(&"audit") {
        let audit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(audit["servers"], SERVERS, "{audit}");
    }
}

fn timed(home: &Path, url: &str, arguments: &[&str]) -> f64 {
    let began = Instant::now();
    run(home, url, arguments);
    began.elapsed().as_secs_f64()
}

fn print(what: &str, mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let (best, median, worst) = (seconds[0], seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
    println!("{what:<24} {best:>6.2} s {median:>6.2} s {worst:>6.2} s");
}
