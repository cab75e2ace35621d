//! How long decisions take: `cargo bench -p windlass-policy --bench decisions`. `summary` holds them against their
//! targets.

use criterion::{Criterion, criterion_group, criterion_main};
use windlass_policy::slots::{Retry, Rollback, Slot, SlotName, StateMapping};

mod common;

fn decisions(criterion: &mut Criterion) {
    let set = common::Set::new();
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers always starts");
    let pin = set.host.pin();
    let mut group = criterion.benchmark_group("decision");
    group.bench_function("retry, fresh and recorded", |bencher| {
        bencher.iter(|| runtime.block_on(pin.decide::<Retry>(Retry::example())));
    });
    group.bench_function("retry, the bare loop", |bencher| {
        let mut bare = set.bare();
        bencher.iter(|| bare.decide_fresh());
    });
    let rules = set.host.pin_only(common::ten_rules(&set.host, SlotName::Retry));
    group.bench_function("retry by ten rules, fresh and recorded", |bencher| {
        bencher.iter(|| runtime.block_on(rules.decide::<Retry>(Retry::example())));
    });
    group.bench_function("rollback, fresh and recorded", |bencher| {
        bencher.iter(|| runtime.block_on(pin.decide::<Rollback>(Rollback::example())));
    });
    for servers in [1_000, 10_000] {
        let question = common::batch(servers);
        group.bench_function(format!("state-mapping of {servers} servers"), |bencher| {
            bencher.iter(|| runtime.block_on(pin.decide::<StateMapping>(question.clone())));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
