//! What the spans cost: of a call below a step below an operation, and of a decision, where nothing is exported and where
//! spans, log records or both are. The lines that say `off` are the cost that everybody pays.

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

/// With the fields that a decision about a listing of an autoscaler's has: the most frequent one.
fn with_decision() -> u64 {
    let decision = tracing::trace_span!(
        target: "windlass_bench",
        "decision",
        slot = "state-mapping",
        decision = Empty,
        subject = Empty,
        group = Empty,
        zone = Empty,
        policy = Empty,
        verdict = Empty,
    );
    let done = decision.in_scope(work);
    if !decision.is_disabled() {
        decision.record("decision", "019b2f3c4d5e-9f8a7b6c-0000002a");
        decision.record("subject", "3 servers of group ci in fr-par-1");
        decision.record("group", "ci");
        decision.record("zone", "fr-par-1");
        decision.record("policy", "windlass-state-mapping 0.1.0 (0123456789ab)");
        decision.record("verdict", r#"[{"verdict":{"mapped":{"report":"running","action":"none"}},"reason":null}]"#);
    }
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

type Case = fn() -> u64;

/// The same while all is exported but this.
fn exported(without: &[&str], once: Case) -> Result<Duration, Box<dyn std::error::Error>> {
    let collector = Collector::start(Behaviour::Takes)?;
    let settings = Settings::read("bench", "0", |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(collector.endpoint()),
        name => without.contains(&name).then(|| "none".to_owned()),
    })?;
    let telemetry = settings.map(Telemetry::with).transpose()?.unwrap_or_default();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let on = tracing::subscriber::with_default(subscriber, || quickest(once));
    telemetry.shutdown(Duration::from_secs(3));
    Ok(on)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bare = quickest(work);
    let ratio = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    for (what, once) in [("three spans", with_spans as Case), ("a decision", with_decision)] {
        println!("{what} around {bare:?} of work");
        let off = quickest(once);
        println!("off:             {off:?}, {:.3} of the bare work", ratio(off));
        let exports: [(&str, &[&str]); 3] = [
            ("spans:           ", &["OTEL_LOGS_EXPORTER"]),
            ("logs:            ", &["OTEL_TRACES_EXPORTER"]),
            ("spans and logs:  ", &[]),
        ];
        for (name, without) in exports {
            let on = exported(without, once)?;
            println!("{name}{on:?}, {:.3} of the bare work", ratio(on));
        }
    }
    Ok(())
}
