//! Serves a simulated Scaleway until Ctrl-C. Its first line on standard output is its URL:
//! `cargo run -p windlass-simulator --example serve -- --listen 127.0.0.1:0`

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Parser;
use windlass_simulator::{
    AppleSilicon, AppleSiliconPool, Behaviour, FloorRefusal, Latency, Options, RequestLimit, Simulator,
};

#[derive(Parser)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Simulated milliseconds per millisecond; 0 stands still except for POST /_simulator/clock.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Decides every id, address and jitter.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Milliseconds that every call takes.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Calls let through each second, and as many at once after a rest; more get 429.
    #[arg(long)]
    requests_per_second: Option<NonZeroU32>,
    /// Give servers addresses of 127.64.0.0/15, on which something real can answer.
    #[arg(long)]
    loopback_addresses: bool,
    /// A belief about Scaleway that does not hold here: tag-filter-ignored, late-listing:5000, ...; may be repeated.
    #[arg(long)]
    behaviour: Vec<Behaviour>,
    /// Macs that are there from the start: prefix=ci-,count=3,type=M4-S,age=26h; may be repeated.
    #[arg(long)]
    apple_silicon_pool: Vec<AppleSiliconPool>,
    /// Seconds for which a Mac cannot be deleted after its creation.
    #[arg(long, default_value_t = 24 * 60 * 60)]
    apple_silicon_floor_seconds: u64,
    /// How that is refused: in-words, without-details or status-alone.
    #[arg(long, default_value = "in-words")]
    apple_silicon_refusal: FloorRefusal,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let simulator = Simulator::new(Options {
        seed: arguments.seed,
        time_scale: arguments.time_scale,
        latency: Latency { base_ms: arguments.latency_ms, jitter_ms: 0 },
        request_limit: arguments.requests_per_second.map(|per_second| RequestLimit { per_second, burst: per_second }),
        loopback_addresses: arguments.loopback_addresses,
        behaviours: arguments.behaviour,
        apple_silicon_commitment: Duration::from_secs(arguments.apple_silicon_floor_seconds),
        apple_silicon: AppleSilicon {
            pools: arguments.apple_silicon_pool,
            floor_refusal: arguments.apple_silicon_refusal,
            ..AppleSilicon::default()
        },
        ..Options::default()
    });
    let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
    println!("http://{}", listener.local_addr()?);
    tokio::select! {
        never = simulator.serve(listener) => match never {},
        stopped = tokio::signal::ctrl_c() => stopped,
    }
}
