//! What is cancelled at any moment never ends as if nothing had happened.

use std::time::Duration;

use windlass_lifecycle::{
    AdoptedMachine, Cancellation, Control, Error, HostOrigin, Lifecycle, OperationFilter, OperationState,
    ReleaseOutcome, ReleaseRequest, Report, RequestedBy,
};
use windlass_simulator::{Latency, Options};

use super::ordering::order;
use super::support::{DAY, Macs, claim, pool};
use crate::support::{run, zone};

/// Cancels the newest operation after this time. `None`: there was none yet.
async fn cancel_after(lifecycle: &Lifecycle, after: Duration) -> Option<Cancellation> {
    tokio::time::sleep(after).await;
    let operation = lifecycle.journal().operations(&OperationFilter::default()).unwrap().into_iter().next()?;
    Some(lifecycle.cancel(&operation.id, "somebody").await.unwrap())
}

/// The state of the only operation, and its report.
fn ended(lifecycle: &Lifecycle) -> (OperationState, Report) {
    let operations = lifecycle.journal().operations(&OperationFilter::default()).unwrap();
    assert_eq!(operations.len(), 1, "{operations:?}");
    let report = operations[0].report.clone().map(|report| serde_json::from_value(report).unwrap());
    (operations[0].state, report.unwrap_or_default())
}

fn failed_as(result: &Result<AdoptedMachine, Error>, state: OperationState) -> bool {
    matches!(result, Err(Error::Failed(failed)) if failed.state == state)
}

#[test]
fn an_adoption_that_is_cancelled_at_any_moment_gives_the_host_back() {
    let (mut noted, mut too_late) = (0, 0);
    for step in 0..32 {
        let after = Duration::from_millis(step * 200);
        let case = format!("after {after:?}");
        let cancelled = run(async {
            let macs =
                Macs::with(Options { latency: Latency { base_ms: 90, jitter_ms: 0 }, ..Options::default() }, 1, []);
            let (lifecycle, mine, control) = (macs.start(), claim("a"), Control::new());
            let place = pool();
            let nobody = RequestedBy::default();
            let adopt = lifecycle.adopt_machine(&place, &mine, &nobody, &control);
            let (adopted, cancelled) = tokio::join!(adopt, cancel_after(&lifecycle, after));
            match cancelled {
                Some(Cancellation::Noted) => {
                    assert!(failed_as(&adopted, OperationState::Undone), "{case}: {adopted:?}");
                    assert_eq!(ended(&lifecycle).0, OperationState::Undone, "{case}");
                    assert_eq!(macs.in_pool(), 1, "{case}");
                }
                None | Some(Cancellation::Ended(_)) => {
                    assert!(adopted.is_ok(), "{case}: {adopted:?}");
                    assert_eq!(ended(&lifecycle).0, OperationState::Done, "{case}");
                    assert_eq!(macs.named(mine.as_str()).len(), 1, "{case}");
                }
            }
            macs.assert_sound(&[&mine], &case);
            macs.assert_closed(&lifecycle, &case);
            // It is as any other host of the pool, or the claim's.
            lifecycle.adopt_machine(&pool(), &mine, &RequestedBy::default(), &Control::new()).await.unwrap();
            cancelled
        });
        noted += u32::from(cancelled == Some(Cancellation::Noted));
        too_late += u32::from(matches!(cancelled, Some(Cancellation::Ended(_))));
    }
    assert!(noted > 10 && too_late > 2, "{noted} {too_late}");
}

#[test]
fn an_adoption_that_was_cancelled_before_its_process_died_is_given_back_by_the_next() {
    for step in 1..32 {
        let died_after = Duration::from_millis(step * 200);
        let case = format!("died after {died_after:?}");
        run(async {
            let macs =
                Macs::with(Options { latency: Latency { base_ms: 90, jitter_ms: 0 }, ..Options::default() }, 1, []);
            let (dying, mine, control) = (macs.start(), claim("a"), Control::new());
            let died = tokio::time::timeout(
                died_after,
                dying.adopt_machine(&pool(), &mine, &RequestedBy::default(), &control),
            )
            .await
            .is_err();
            drop(dying);
            let next = macs.start();
            let cancelled = cancel_after(&next, Duration::ZERO).await;
            if cancelled == Some(Cancellation::Noted) {
                assert!(died, "{case}");
                // Nobody takes for theirs what is about to be given back.
                let early = next.adopt_machine(&pool(), &mine, &RequestedBy::default(), &Control::new()).await;
                assert!(!matches!(&early, Ok(adopted) if adopted.rediscovered), "{case}: {early:?}");
                let resumed = next.resume(&Control::new()).await.unwrap();
                assert!(resumed.is_clean(), "{case}: {resumed:?}");
                assert_eq!(resumed.operations[0].state, OperationState::Undone, "{case}");
                assert_eq!(macs.in_pool(), usize::from(early.is_err()), "{case}");
            }
            macs.assert_sound(&[&mine], &case);
            macs.assert_closed(&next, &case);
        });
    }
}

#[test]
fn an_order_that_is_cancelled_after_it_was_sent_says_which_host_it_left() {
    let (mut left, mut none) = (0, 0);
    for step in 0..20 {
        let after = Duration::from_millis(step * 100);
        let case = format!("after {after:?}");
        let state = run(async {
            let macs =
                Macs::with(Options { latency: Latency { base_ms: 400, jitter_ms: 0 }, ..Options::default() }, 0, []);
            let (lifecycle, mine, control) = (macs.start(), claim("a"), Control::new());
            let request = order(&mine, 1);
            let ordering = lifecycle.order_machine(&request, &control);
            let (ordered, cancelled) = tokio::join!(ordering, cancel_after(&lifecycle, after));
            let (state, report) = ended(&lifecycle);
            let hosts = macs.named(mine.as_str());
            if cancelled != Some(Cancellation::Noted) {
                assert!(ordered.is_ok() && state == OperationState::Done, "{case}: {ordered:?}");
                return None;
            }
            assert!(failed_as(&ordered, state), "{case}: {ordered:?}");
            let reported: Vec<String> = report.left.iter().map(|left| left.resource.id.clone()).collect();
            assert_eq!(reported, hosts, "{case}: what costs money is told");
            let expected = if hosts.is_empty() { OperationState::Undone } else { OperationState::Kept };
            assert_eq!(state, expected, "{case}");
            macs.assert_closed(&lifecycle, &case);
            if let [host] = hosts.as_slice() {
                assert!(report.left[0].why.contains("cancelled"), "{case}: {report:?}");
                assert_eq!(lifecycle.host_origin(host, &mine).unwrap(), HostOrigin::Ordered, "{case}");
                // A release ends what is known of it.
                tokio::time::sleep(DAY * 2).await;
                let released =
                    lifecycle.release(&ReleaseRequest::new(zone(), host, mine.clone(), None), &control).await;
                assert_eq!(released.unwrap().outcome, ReleaseOutcome::Terminated, "{case}");
                lifecycle.journal().prune(u64::MAX).await.unwrap();
                assert!(lifecycle.journal().operations(&OperationFilter::default()).unwrap().is_empty(), "{case}");
            }
            Some(state)
        });
        left += u32::from(state == Some(OperationState::Kept));
        none += u32::from(state == Some(OperationState::Undone));
    }
    assert!(left > 2 && none > 2, "{left} {none}");
}

#[test]
fn an_order_that_was_cancelled_and_is_delivered_late_is_told_as_left() {
    run(async {
        let macs = Macs::new(0);
        macs.late.next(1, "POST", "/servers", crate::late::Fate::Hangs(Duration::from_secs(20)));
        let (dying, mine, control) = (macs.start(), claim("a"), Control::new());
        let request = order(&mine, 1);
        let died = tokio::time::timeout(Duration::from_secs(10), dying.order_machine(&request, &control)).await;
        assert!(died.is_err());
        drop(dying);
        let next = macs.start();
        assert_eq!(cancel_after(&next, Duration::ZERO).await, Some(Cancellation::Noted));
        next.resume(&control).await.unwrap();
        assert_eq!(ended(&next).0, OperationState::Unverified, "nothing there yet, and nothing said");
        tokio::time::sleep(Duration::from_secs(700)).await;
        next.resume(&control).await.unwrap();
        let (state, report) = ended(&next);
        assert_eq!((state, report.left.len(), macs.hosts().len()), (OperationState::Kept, 1, 1), "{report:?}");
    });
}

#[test]
fn an_order_whose_process_died_after_the_answer_says_that_its_host_is_there() {
    for cancelled in [false, true] {
        run(async {
            let macs = Macs::new(0);
            let (dying, mine, control) = (macs.start(), claim("a"), Control::new());
            dying.order_machine(&order(&mine, 1), &control).await.unwrap();
            drop(dying);
            let journal = rusqlite::Connection::open(macs.folder.path().join("journal.sqlite")).unwrap();
            let open = "update streams set document = json_set(document, '$.state', 'open', '$.runner', '1-dead')
                        where family = 'operation'";
            journal.execute(open, []).unwrap();
            let next = macs.start();
            if cancelled {
                assert_eq!(cancel_after(&next, Duration::ZERO).await, Some(Cancellation::Noted));
            }
            next.resume(&control).await.unwrap();
            let (state, report) = ended(&next);
            let expected = if cancelled { OperationState::Kept } else { OperationState::Done };
            assert_eq!((state, report.left.len()), (expected, usize::from(cancelled)), "{report:?}");
        });
    }
}
