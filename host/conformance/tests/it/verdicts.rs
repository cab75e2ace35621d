use std::collections::BTreeSet;

use windlass_conformance::Probe;
use windlass_scaleway::Client;
use windlass_simulator::Simulator;

use crate::misbehaviour::Misbehaviour as M;
use crate::support::{
    ask, assert_only_the_strangers_is_left, client, client_with, run, simulator, strangers_address, those,
};

#[test]
fn every_assumption_holds_on_the_simulator_and_nothing_is_left() {
    run(async {
        let simulator = simulator();
        let stranger = strangers_address(&simulator).await;
        let report = ask(client(&simulator), &[]).await;
        assert!(report.all_hold(), "{report:#?}");
        assert_eq!(report.probes.len(), Probe::all().len());
        assert!(report.removed >= 7, "{report:#?}");
        assert_only_the_strangers_is_left(&simulator, &stranger, &report);
    });
}

const FILTERS: &[&str] =
    &["tag-filter-addresses", "tag-filter-local-volumes", "tag-filter-block-volumes", "tag-filter-servers"];

/// The simulator's behaviours, exactly the assumptions that each breaks, and those that can then not be asked about.
const BEHAVIOURS: &[(&str, &[&str], &[&str])] = &[
    ("tag-filter-ignored", FILTERS, &[]),
    ("tag-filter-empty", FILTERS, &["tag-filter-several"]),
    ("tag-filter-without-equals", FILTERS, &["tag-filter-several"]),
    ("tag-filter-needs-project", FILTERS, &["tag-filter-several"]),
    ("late-listing:5000", &["listed-within-settle"], &[]),
    ("unfiltered-total", &["filtered-totals"], &[]),
    ("total-off", &["filtered-totals"], &[]),
    ("gone-forbidden", &["gone-address-answers"], &[]),
    ("user-data-body", &["user-data-answers"], &[]),
];

/// The same for what only a transport can do.
const MISBEHAVIOURS: &[(M, &[&str], &[&str])] = &[
    (M::FilterExactSet, &["tag-filter-several"], &[]),
    (M::AttachedAddressRefused, &["attached-address-deletable"], &[]),
    (M::UserDataSmall, &["user-data-size"], &[]),
    (M::VolumeTagsKept, &["root-volume-taggable"], &[]),
    (M::AttachedVolumeAccepted, &["attached-volume-refused"], &[]),
    (M::DeleteTakesVolumes, &["delete-leaves-parts"], &[]),
    (M::TerminateTakesVolumes, &["terminate-leaves-parts"], &[]),
    (M::ActionAnswersOk, &["action-takes-effect"], &[]),
    (M::RunningDeleteAccepted, &["running-delete-refused"], &["terminate-leaves-parts"]),
    (M::ProtectedDeleteRefused, &["protected-delete-accepted"], &[]),
    (M::DetachRefused, &["detached-from-stopped", "detached-from-running"], &[]),
];

async fn broken_is_found(simulator: &Simulator, client: Client, how: &str, broken: &[&str], open: &[&str]) {
    let stranger = strangers_address(simulator).await;
    let report = ask(client, &[]).await;
    assert_eq!(those(&report, "broken"), broken, "{how}: {report:#?}");
    assert_eq!(those(&report, "unknown"), open, "{how}: {report:#?}");
    assert_only_the_strangers_is_left(simulator, &stranger, &report);
}

#[test]
fn each_assumption_that_the_simulator_breaks_is_found_alone_and_nothing_is_left() {
    for &(how, broken, open) in BEHAVIOURS {
        run(async {
            let simulator = simulator();
            simulator.set_behaviour(how.parse().unwrap()).unwrap();
            broken_is_found(&simulator, client(&simulator), how, broken, open).await;
        });
    }
}

#[test]
fn each_assumption_that_a_transport_breaks_is_found_alone_and_nothing_is_left() {
    for &(how, broken, open) in MISBEHAVIOURS {
        run(async {
            let simulator = simulator();
            broken_is_found(&simulator, client_with(&simulator, how), &format!("{how:?}"), broken, open).await;
        });
    }
}

/// A probe that nothing breaks would not be known to be able to fail.
#[test]
fn every_probe_is_broken_by_something_here() {
    let broken =
        BEHAVIOURS.iter().map(|(_, broken, _)| broken).chain(MISBEHAVIOURS.iter().map(|(_, broken, _)| broken));
    let broken: BTreeSet<&str> = broken.flat_map(|ids| ids.iter().copied()).collect();
    assert_eq!(broken, Probe::all().iter().map(|probe| probe.id).collect());
}

#[test]
fn a_broken_filter_is_told_with_what_does_find_it() {
    for (how, words) in [
        ("tag-filter-without-equals", "one by a tag without `=` does"),
        ("tag-filter-needs-project", "one that names its project does"),
        ("tag-filter-empty", "neither does one by a tag without `=`"),
        ("tag-filter-ignored", "the filter is ignored"),
    ] {
        run(async {
            let simulator = simulator();
            simulator.set_behaviour(how.parse().unwrap()).unwrap();
            let report = ask(client(&simulator), &["tag-filter-addresses"]).await;
            let details = report.probes[0].verdict.details();
            assert!(details.contains(words), "{how}: {details}");
        });
    }
}

#[test]
fn each_probe_can_be_asked_alone_and_leaves_nothing() {
    for probe in Probe::all() {
        run(async {
            let simulator = simulator();
            let stranger = strangers_address(&simulator).await;
            let report = ask(client(&simulator), &[probe.id]).await;
            assert!(report.all_hold() && report.probes.len() == 1, "{report:#?}");
            assert_only_the_strangers_is_left(&simulator, &stranger, &report);
        });
    }
}
