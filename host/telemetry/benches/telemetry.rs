//! What the spans cost, of a call below a step below an operation: where nothing is exported, and where all is. The
//! first line is the cost that everybody pays.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing_subscriber::layer::SubscriberExt as _;
use windlass_telemetry::collector::{Behaviour, Collector};
use windlass_telemetry::{Settings, Telemetry};

const ROUNDS: u32 = 20_000;
/// The quickest of so many: what else the machine does makes some slower.
const SERIES: u32 = 7;

/// About what a create does between two calls to Scaleway on this side: some microseconds of hashing.
fn work() -> u64 {
    (0..2_000_u64).fold(black_box(7), |sum, n| sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n))
}

fn with_spans() -> u64 {
    let operation = tracing::trace_span!(target: "windlass_bench", "operation", trace = "o/a", state = Empty);
    let step = tracing::trace_span!(target: "windlass_bench", parent: &operation, "step", step = "create-ip");
    let done = step.in_scope(|| {
        let call = tracing::trace_span!(target: "windlass_bench", "scaleway_call", method = "GET", request_id = Empty);
        let done = call.in_scope(work);
        call.record("request_id", "r");
        done
    });
    operation.record("state", "done");
    done
}

fn quickest(mut once: impl FnMut() -> u64) -> Duration {
    let series = (0..SERIES).map(|_| {
        let began = Instant::now();
        for _ in 0..ROUNDS {
            black_box(once());
        }
        began.elapsed() / ROUNDS
    });
    series.min().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bare = quickest(work);
    let off = quickest(with_spans);
    let collector = Collector::start(Behaviour::Takes)?;
    let settings =
        Settings::read("bench", "0", |name| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| collector.endpoint()))?;
    let telemetry = settings.map(Telemetry::with).transpose()?.unwrap_or_default();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let on = tracing::subscriber::with_default(subscriber, || quickest(with_spans));
    telemetry.shutdown(Duration::from_secs(3));
    let ratio = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    println!("three spans around {bare:?} of work");
    println!("off: {off:?}, {:.3} of the bare work", ratio(off));
    println!("on:  {on:?}, {:.3} of the bare work", ratio(on));
    Ok(())
}
