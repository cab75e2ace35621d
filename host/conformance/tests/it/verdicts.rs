use windlass_conformance::Probe;

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

/// Each misbehaviour, and exactly the assumptions that it breaks.
const BROKEN: &[(M, &[&str])] = &[
    (
        M::FilterIgnored,
        &["tag-filter-addresses", "tag-filter-local-volumes", "tag-filter-block-volumes", "tag-filter-servers"],
    ),
    (
        M::FilterEmpty,
        &["tag-filter-addresses", "tag-filter-local-volumes", "tag-filter-block-volumes", "tag-filter-servers"],
    ),
    (
        M::FilterWithoutEquals,
        &["tag-filter-addresses", "tag-filter-local-volumes", "tag-filter-block-volumes", "tag-filter-servers"],
    ),
    (
        M::FilterNeedsProject,
        &["tag-filter-addresses", "tag-filter-local-volumes", "tag-filter-block-volumes", "tag-filter-servers"],
    ),
    (M::FilterExactSet, &["tag-filter-several"]),
    (M::LateListing(5_000), &["listed-within-settle"]),
    (M::UnfilteredTotal, &["filtered-totals"]),
    (M::TotalOff, &["filtered-totals"]),
    (M::GoneForbidden, &["gone-address-answers"]),
    (M::AttachedAddressRefused, &["attached-address-deletable"]),
    (M::UserDataBody, &["user-data-answers"]),
    (M::UserDataSmall, &["user-data-size"]),
    (M::VolumeTagsKept, &["root-volume-taggable"]),
    (M::AttachedVolumeAccepted, &["attached-volume-refused"]),
    (M::DeleteTakesVolumes, &["delete-leaves-parts"]),
    (M::ActionAnswersOk, &["action-takes-effect"]),
    (M::RunningDeleteAccepted, &["running-delete-refused"]),
    (M::DetachRefused, &["detached-from-stopped", "detached-from-running"]),
];

#[test]
fn each_broken_assumption_is_found_alone_and_nothing_is_left() {
    for &(how, broken) in BROKEN {
        run(async {
            let simulator = simulator();
            let stranger = strangers_address(&simulator).await;
            let report = ask(client_with(&simulator, how), &[]).await;
            assert_eq!(those(&report, "broken"), broken, "{how:?}: {report:#?}");
            // What hangs on a broken assumption may stay open; nothing else does.
            let open: &[&str] = match how {
                M::FilterEmpty | M::FilterWithoutEquals | M::FilterNeedsProject => &["tag-filter-several"],
                M::RunningDeleteAccepted => &["terminate-leaves-parts"],
                _ => &[],
            };
            assert_eq!(those(&report, "unknown"), open, "{how:?}: {report:#?}");
            assert_only_the_strangers_is_left(&simulator, &stranger, &report);
        });
    }
}

#[test]
fn a_broken_filter_is_told_with_what_does_find_it() {
    for (how, words) in [
        (M::FilterWithoutEquals, "one by a tag without `=` does"),
        (M::FilterNeedsProject, "one that names its project does"),
        (M::FilterEmpty, "neither does one by a tag without `=`"),
        (M::FilterIgnored, "the filter is ignored"),
    ] {
        run(async {
            let simulator = simulator();
            let report = ask(client_with(&simulator, how), &["tag-filter-addresses"]).await;
            let details = report.probes[0].verdict.details();
            assert!(details.contains(words), "{how:?}: {details}");
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
