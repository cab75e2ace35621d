//! Ordering: once, up to the limit, and never twice for a lost answer.

use std::time::Duration;

use windlass_lifecycle::{
    ClaimName, Control, Error, HostOrigin, Lifecycle, OperationFilter, OperationState, OrderRequest, ReleaseOutcome,
    ReleaseRequest, RequestedBy, Supervisor, SupervisorOptions,
};
use windlass_simulator::{Effect, FaultKind, FaultRule, Latency, Options};

use super::support::{Macs, TYPE, claim, pool, prefix};
use crate::late::Fate;
use crate::support::{run, zone};

const SERVERS: &str = "/apple-silicon/v1alpha1/zones/*/servers";
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn order(claim: &ClaimName, limit: usize) -> OrderRequest {
    OrderRequest {
        zone: zone(),
        claim: claim.clone(),
        machine_type: TYPE.into(),
        operating_system: Some("Sequoia".into()),
        limit,
        claim_prefix: "ci-mac-".into(),
        pool_prefix: Some(prefix()),
        requested_by: RequestedBy::default(),
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
        let adopted = lifecycle
            .adopt_machine(&super::support::pool(), &mine, &RequestedBy::default(), &Control::new())
            .await
            .unwrap();
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
                    Err(Error::OrderUnverified { .. }) => {
                        assert_eq!((count, effect), (0, Effect::Before), "{kind}");
                        macs.simulator.clear_faults();
                        // Asked again at once, none is ordered in its place; after the second look it is known to have
                        // failed.
                        let again = lifecycle.order_machine(&order(&mine, 2), &Control::new()).await;
                        assert!(matches!(again, Err(Error::OrderUnverified { .. })), "{kind}: {again:?}");
                        tokio::time::sleep(MINUTE * 11).await;
                        let again = lifecycle.order_machine(&order(&mine, 2), &Control::new()).await;
                        let Err(Error::Failed(failure)) = again else { panic!("{kind}: {again:?}") };
                        assert_eq!((failure.step.as_str(), failure.state), ("order-host", OperationState::Undone));
                        assert!(macs.hosts().is_empty(), "{kind}");
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

fn states(lifecycle: &Lifecycle) -> Vec<OperationState> {
    let operations = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
    operations.iter().map(|operation| operation.state).collect()
}

/// Runs the supervisor of this process for so long.
async fn supervise(lifecycle: &Lifecycle, how_long: Duration) {
    let supervisor = Supervisor::new(lifecycle.clone(), SupervisorOptions::default());
    let control = Control::new();
    let end = async {
        tokio::time::sleep(how_long).await;
        control.leave();
    };
    tokio::join!(supervisor.run(&control, |_| {}), end);
}

#[test]
fn a_host_that_is_delivered_late_is_found_and_none_is_ordered_or_claimed_in_its_place() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let (mine, control) = (claim("a"), Control::new());
        macs.late.next(1, "POST", "/servers", Fate::Lost(MINUTE * 5));
        let unverified = |result: Result<windlass_lifecycle::AdoptedMachine, Error>| match result {
            Err(Error::OrderUnverified { .. }) => {}
            other => panic!("{other:?}"),
        };
        unverified(lifecycle.order_machine(&order(&mine, 3), &control).await);
        assert_eq!(states(&lifecycle), [OperationState::Unverified]);
        // Whatever asks meanwhile: another process, after another minute, or for a host of the pool.
        tokio::time::sleep(MINUTE).await;
        let other = macs.start();
        unverified(other.order_machine(&order(&mine, 3), &control).await);
        unverified(other.adopt_machine(&pool(), &mine, &RequestedBy::default(), &control).await);
        assert_eq!(macs.in_pool(), 1, "and the pool keeps its host");
        tokio::time::sleep(MINUTE * 5).await;
        let found = lifecycle.order_machine(&order(&mine, 3), &control).await.unwrap();
        assert!(found.rediscovered);
        assert_eq!(macs.named(mine.as_str()), [found.server.id]);
        supervise(&lifecycle, MINUTE * 10).await;
        assert_eq!(states(&lifecycle), [OperationState::Done]);
        assert_eq!((macs.named(mine.as_str()).len(), macs.hosts().len()), (1, 2), "one lease");
        assert!(macs.gone().is_empty());
    });
}

#[test]
fn a_host_that_is_delivered_after_a_crash_is_found_by_the_second_look() {
    run(async {
        let macs = Macs::new(0);
        let mine = claim("a");
        macs.late.next(1, "POST", "/servers", Fate::Hangs(MINUTE * 5));
        let dying = macs.start();
        let control = Control::new();
        let request = order(&mine, 3);
        let died = tokio::time::timeout(Duration::from_secs(10), dying.order_machine(&request, &control)).await;
        assert!(died.is_err());
        drop(dying);
        let next = macs.start();
        assert!(next.resume(&control).await.unwrap().is_clean());
        assert_eq!(states(&next), [OperationState::Unverified], "nothing there yet, and nothing said");
        supervise(&next, MINUTE * 12).await;
        assert_eq!(states(&next), [OperationState::Done]);
        assert!(next.order_machine(&order(&mine, 3), &control).await.unwrap().rediscovered);
        assert_eq!(macs.hosts().len(), 1, "one lease");
    });
}

#[test]
fn an_order_that_may_still_be_delivered_counts_against_the_limit() {
    run(async {
        let macs = Macs::new(0);
        let lifecycle = macs.start();
        macs.late.next(1, "POST", "/servers", Fate::Lost(MINUTE * 5));
        lifecycle.order_machine(&order(&claim("a"), 1), &Control::new()).await.unwrap_err();
        let error = lifecycle.order_machine(&order(&claim("b"), 1), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::MachineLimit { existing: 1, limit: 1 }), "{error}");
        tokio::time::sleep(MINUTE * 6).await;
        let error = lifecycle.order_machine(&order(&claim("b"), 1), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::MachineLimit { existing: 1, limit: 1 }), "counted once: {error}");
        assert_eq!(macs.hosts().len(), 1);
    });
}

#[test]
fn the_journal_says_where_a_claimed_host_came_from_until_it_is_gone() {
    run(async {
        let macs = Macs::new(1);
        let lifecycle = macs.start();
        let control = Control::new();
        let (claimed, ordered) = (claim("a"), claim("b"));
        let from_pool =
            lifecycle.adopt_machine(&pool(), &claimed, &RequestedBy::default(), &control).await.unwrap().server.id;
        let new = lifecycle.order_machine(&order(&ordered, 2), &control).await.unwrap().server.id;
        lifecycle.journal().prune(u64::MAX).await.unwrap();
        let origin = |host: &str, claim: &ClaimName| lifecycle.host_origin(host, claim).unwrap();
        assert_eq!((origin(&from_pool, &claimed), origin(&new, &ordered)), (HostOrigin::Pool, HostOrigin::Ordered));
        assert_eq!(origin("another host", &claim("c")), HostOrigin::Unknown);
        // A host that somebody else removed is asked about once more; then nothing has to be remembered.
        tokio::time::sleep(MINUTE * 25 * 60).await;
        macs.client.apple_silicon(&zone()).delete_server(&new).await.unwrap();
        let request = ReleaseRequest::new(zone(), &new, ordered.clone(), None);
        let released = lifecycle.release(&request, &control).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::AlreadyGone);
        let again = lifecycle.release(&request, &control).await.unwrap();
        assert!(again.operation.is_none(), "nothing new is learned, so nothing is written");
        lifecycle.journal().prune(u64::MAX).await.unwrap();
        let rest = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!((origin(&from_pool, &claimed), origin(&new, &ordered)), (HostOrigin::Pool, HostOrigin::Unknown));
    });
}
