//! Ordering: once, up to the limit, and never twice for a lost answer.

use windlass_lifecycle::{ClaimName, Control, Error, OperationState, OrderRequest};
use windlass_simulator::{Effect, FaultKind, FaultRule, Latency, Options};

use super::support::{Macs, TYPE, claim, prefix};
use crate::support::{run, zone};

const SERVERS: &str = "/apple-silicon/v1alpha1/zones/*/servers";

pub(super) fn order(claim: &ClaimName, limit: usize) -> OrderRequest {
    OrderRequest {
        zone: zone(),
        claim: claim.clone(),
        machine_type: TYPE.into(),
        operating_system: Some("Sequoia".into()),
        limit,
        claim_prefix: "ci-mac-".into(),
        pool_prefix: Some(prefix()),
    }
}

#[test]
fn a_host_is_ordered_under_its_claim_and_found_again() {
    run(async {
        let macs = Macs::new(0);
        let lifecycle = macs.start();
        let mine = claim("a");
        let ordered = lifecycle.order_machine(&order(&mine, 1), &Control::new()).await.unwrap();
        assert_eq!((ordered.rediscovered, ordered.server.name.as_str()), (false, mine.as_str()));
        assert_eq!(macs.host(&ordered.server.id)["os"]["name"], "macos-sequoia-15.6");
        let again = lifecycle.order_machine(&order(&mine, 1), &Control::new()).await.unwrap();
        assert!(again.rediscovered && again.server.id == ordered.server.id);
        let adopted = lifecycle.adopt_machine(&super::support::pool(), &mine, &Control::new()).await.unwrap();
        assert!(adopted.rediscovered && adopted.server.id == ordered.server.id, "an adoption finds it, too");
        macs.assert_closed(&lifecycle, "ordered");
    });
}

#[test]
fn the_limit_counts_pool_and_claims_and_zero_asks_nobody() {
    run(async {
        let macs = Macs::new(2);
        let lifecycle = macs.start();
        macs.simulator.clear_requests();
        let error = lifecycle.order_machine(&order(&claim("a"), 0), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::MachineLimit { limit: 0, .. }), "{error}");
        assert_eq!(macs.simulator.requests().len(), 0);
        lifecycle.order_machine(&order(&claim("a"), 3), &Control::new()).await.unwrap();
        let error = lifecycle.order_machine(&order(&claim("b"), 3), &Control::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "there are 3 hosts and no more than 3 may be ordered");
        assert_eq!(macs.hosts().len(), 3);
    });
}

#[test]
fn ten_orders_at_once_stay_within_the_limit() {
    run(async {
        // Calls take their time, so that they come between each other.
        let latency = Latency { base_ms: 20, jitter_ms: 80 };
        let macs = Macs::with(Options { latency, ..Options::default() }, 0, []);
        let (one, other) = (macs.start(), macs.start());
        let claims: Vec<ClaimName> = (0..10).map(|number| claim(&number.to_string())).collect();
        let requests: Vec<OrderRequest> = claims.iter().map(|mine| order(mine, 3)).collect();
        let control = Control::new();
        let orders = requests.iter().enumerate().map(|(index, request)| {
            let lifecycle = if index % 2 == 0 { &one } else { &other };
            lifecycle.order_machine(request, &control)
        });
        let results = futures::future::join_all(orders).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3);
        assert_eq!(macs.hosts().len(), 3);
    });
}

#[test]
fn a_lost_answer_is_found_by_the_name_and_no_second_host_is_ordered() {
    for kind in FaultKind::ALL {
        for effect in [Effect::Before, Effect::After] {
            run(async {
                let macs = Macs::new(0);
                let lifecycle = macs.start();
                let mine = claim("a");
                let rule = FaultRule::new("POST", SERVERS, kind).nth(1);
                let rule = if effect == Effect::After { rule.after_effect() } else { rule };
                macs.simulator.add_fault(rule).unwrap();
                let result = lifecycle.order_machine(&order(&mine, 2), &Control::new()).await;
                let count = macs.named(mine.as_str()).len();
                match result {
                    Ok(_) => assert_eq!(count, 1, "{kind} {effect:?}"),
                    Err(Error::Failed(failure)) => {
                        assert_eq!((count, failure.state), (0, OperationState::Undone), "{kind} {effect:?}: {failure}");
                    }
                    Err(error) => panic!("{kind} {effect:?}: {error}"),
                }
                macs.assert_closed(&lifecycle, "ordered");
                macs.simulator.clear_faults();
                lifecycle.order_machine(&order(&mine, 2), &Control::new()).await.unwrap();
                assert_eq!(macs.named(mine.as_str()).len(), 1, "{kind} {effect:?}");
                assert!(macs.gone().is_empty(), "{kind} {effect:?}: nothing is deleted to tidy up");
            });
        }
    }
}

#[test]
fn out_of_stock_is_told_and_leaves_nothing() {
    run(async {
        let macs = Macs::new(0);
        macs.simulator.set_apple_silicon_stock(TYPE, Some(0));
        let lifecycle = macs.start();
        let error = lifecycle.order_machine(&order(&claim("a"), 1), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.cause.error_type.as_deref(), Some("out_of_stock"));
        macs.assert_closed(&lifecycle, "out of stock");
    });
}
