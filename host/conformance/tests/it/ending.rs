//! Runs that do not go to their end.

use std::time::Duration;

use windlass_conformance::{Bounds, Plan, Probe, Verdict};
use windlass_lifecycle::Control;
use windlass_simulator::{FaultKind, FaultRule};

use crate::support::{
    ask, assert_only_the_strangers_is_left, client, plan, run, simulator, strangers_address, those, zone,
};

#[test]
fn a_run_that_is_called_off_at_any_time_removes_what_it_made() {
    for second in [0, 1, 3, 6, 9, 12, 15, 20, 25, 30, 40] {
        run(async {
            let simulator = simulator();
            let stranger = strangers_address(&simulator).await;
            let control = Control::new();
            let plan = plan(client(&simulator), &[], &control).await;
            let ending = async {
                tokio::time::sleep(Duration::from_secs(second)).await;
                control.cancel();
            };
            let (report, ()) = tokio::join!(plan.run(&control, |_| {}), ending);
            assert_eq!(report.probes.len(), Probe::all().len());
            assert_only_the_strangers_is_left(&simulator, &stranger, &report);
        });
    }
}

#[test]
fn a_creation_whose_answer_is_lost_is_found_by_its_tag_and_removed() {
    for path in ["/instance/**/ips", "/instance/**/volumes", "/block/**/volumes", "/instance/**/servers"] {
        for kind in [FaultKind::DroppedConnection, FaultKind::InternalServerError, FaultKind::MalformedBody] {
            run(async {
                let simulator = simulator();
                let stranger = strangers_address(&simulator).await;
                simulator.add_fault(FaultRule::new("POST", path, kind).after_effect()).unwrap();
                let report = ask(client(&simulator), &[]).await;
                assert_ne!(those(&report, "unknown"), [""; 0], "{path} {kind:?}: {report:#?}");
                assert_eq!(those(&report, "broken"), [""; 0], "{path} {kind:?}: {report:#?}");
                assert_only_the_strangers_is_left(&simulator, &stranger, &report);
            });
        }
    }
}

#[test]
fn what_cannot_be_removed_is_listed_with_why() {
    run(async {
        let simulator = simulator();
        simulator.add_fault(FaultRule::new("DELETE", "/instance/**/ips/*", FaultKind::PermissionDenied)).unwrap();
        let report = ask(client(&simulator), &["tag-filter-addresses"]).await;
        assert!(report.all_hold(), "{report:#?}");
        let [left] = report.left.as_slice() else { panic!("{report:#?}") };
        assert_eq!(left.id, simulator.resources().ips[0]["id"].as_str().unwrap());
        assert!(left.why.contains("403 permissions_denied"), "{}", left.why);
    });
}

#[test]
fn a_look_that_fails_is_no_proof_that_nothing_is_left() {
    run(async {
        let simulator = simulator();
        let control = Control::new();
        let plan = plan(client(&simulator), &["tag-filter-addresses"], &control).await;
        simulator.add_fault(FaultRule::new("GET", "/block/**/volumes", FaultKind::PermissionDenied)).unwrap();
        let report = plan.run(&control, |_| {}).await;
        let [left] = report.left.as_slice() else { panic!("{report:#?}") };
        assert!(left.id == "unknown" && left.why.contains("not known"), "{left:?}");
    });
}

#[test]
fn when_the_time_is_up_the_rest_is_unknown_and_everything_is_removed() {
    run(async {
        let simulator = simulator();
        let stranger = strangers_address(&simulator).await;
        let control = Control::new();
        let bounds = Bounds { asking: Duration::from_secs(3), ..Bounds::default() };
        let plan = Plan::make(client(&simulator), zone(), Probe::all().to_vec(), bounds, &control).await.unwrap();
        let report = plan.run(&control, |_| {}).await;
        let last = report.probes.last().unwrap();
        assert_eq!(last.verdict, Verdict::Unknown { why: "the time for it was up".to_owned() }, "{report:#?}");
        assert!(!report.called_off);
        assert_only_the_strangers_is_left(&simulator, &stranger, &report);
    });
}

#[test]
fn the_second_word_to_stop_ends_the_removal_and_lists_what_is_left() {
    run(async {
        let simulator = simulator();
        let control = Control::new();
        let plan = plan(client(&simulator), &[], &control).await;
        let ending = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            control.cancel();
            control.leave();
        };
        let (report, ()) = tokio::join!(plan.run(&control, |_| {}), ending);
        assert!(report.called_off && !report.left.is_empty(), "{report:#?}");
    });
}

#[test]
fn a_plan_changes_nothing_and_names_the_cheapest_server() {
    run(async {
        let simulator = simulator();
        let plan = plan(client(&simulator), &[], &Control::new()).await;
        assert!(simulator.resources().is_empty());
        assert!(simulator.requests().iter().all(|request| request.method == "GET"));
        let types = client(&simulator).instance(&zone()).list_server_types().await.unwrap();
        let cheapest = types.values().map(|known| known.hourly_price).fold(f64::INFINITY, f64::min);
        assert!(plan.server().unwrap().hourly_price >= cheapest);
        assert!(plan.cost().servers_for_an_hour < 0.1, "{:?}", plan.cost());
    });
}

#[test]
fn a_type_that_is_out_of_stock_gives_way_to_the_next() {
    run(async {
        let simulator = simulator();
        simulator.add_fault(FaultRule::new("POST", "/instance/**/servers", FaultKind::OutOfStock).nth(1)).unwrap();
        let report = ask(client(&simulator), &["tag-filter-servers"]).await;
        assert!(report.all_hold() && report.left.is_empty(), "{report:#?}");
        assert!(simulator.resources().is_empty());
    });
}
