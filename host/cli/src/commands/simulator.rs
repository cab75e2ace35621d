//! `windlass simulator`: a simulated Scaleway on a socket, until it is asked to stop.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio::net::TcpListener;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::Output;
use windlass_simulator::{AppleSilicon, Latency, Options, RequestLimit, Simulator};

use crate::arguments;
use crate::interrupt::EndSignals;

pub(crate) async fn run(output: Output, arguments: arguments::Simulator) -> Result<(), Failure> {
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let refused = |error: std::io::Error| {
        Failure::usage("the simulator cannot listen")
            .at(arguments.listen.to_string())
            .because(error.to_string())
            .remedy("choose another address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(arguments.listen).await.map_err(refused)?;
    let url = format!("http://{}", listener.local_addr().map_err(refused)?);
    let mut ends = EndSignals::listen()?;
    let simulator = Simulator::new(Options {
        seed,
        time_scale: arguments.time_scale,
        latency: Latency { base_ms: arguments.latency_ms, jitter_ms: 0 },
        request_limit: arguments.requests_per_second.map(|per_second| RequestLimit { per_second, burst: per_second }),
        loopback_addresses: arguments.loopback_addresses,
        apple_silicon_commitment: arguments.apple_silicon_floor,
        apple_silicon: AppleSilicon {
            pools: arguments.apple_silicon_pool,
            floor_refusal: arguments.apple_silicon_refusal,
            exempt_types: arguments.apple_silicon_exempt_type.into_iter().collect(),
            stock: arguments.apple_silicon_stock.into_iter().collect(),
            ..AppleSilicon::default()
        },
        behaviours: arguments.behaviour,
        ..Options::default()
    });

    output.first_line(&json!({ "url": url, "seed": seed, "time_scale": arguments.time_scale }), &url);
    output.say(&format!(
        "simulating Scaleway (seed {seed}, time scale {}). Any UUID is a secret key:",
        arguments.time_scale
    ));
    output.say(&format!(
        "  export SCW_API_URL={url} SCW_SECRET_KEY=11111111-1111-1111-1111-111111111111 SCW_DEFAULT_ZONE=fr-par-1"
    ));
    output.say(&format!("What exists: curl {url}/_simulator/resources   End: Ctrl-C"));
    tokio::select! {
        never = simulator.serve(listener) => match never {},
        _ = ends.recv() => {}
    }
    Ok(())
}

/// A seed nobody chose; it is reported, so that the run can be repeated.
fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs())
}
