//! Waits end, look-ups are shared and happen only in doubt, and what Scaleway asks for is heeded. All on simulated
//! time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};
use windlass_lifecycle::{
    Clock, Control, CreatedServer, Durability, Error, Event, EventKind, Lifecycle, OperationFailure, OperationState,
    Options, Target,
};
use windlass_policy::DecisionFilter;
use windlass_policy::slots::SlotName;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::{Client, Transport, TransportError};
use windlass_simulator::{FaultKind, FaultRule, ForcedState, RequestLimit};

use crate::support::{NOW, World, host, host_in, owner, run, settings};

const MINUTE: Duration = Duration::from_secs(60);
const IMAGES: &str = "/marketplace/**";

fn hangs(method: &str, path: &str) -> FaultRule {
    FaultRule::new(method, path, FaultKind::Delay(MINUTE))
}

/// Limits as they are by default; the others of these tests never wait for their turn.
fn start_with_default_limits(world: &World) -> Lifecycle {
    let settings = settings().with_limits(windlass_scaleway::Limits::default());
    let client = Client::with_transport(settings, world.simulator.transport()).unwrap();
    start_over(world, client)
}

fn start_over(world: &World, client: Client) -> Lifecycle {
    let mut options = Options::new(client, host(), world.state());
    options.owner = Some(owner());
    options.durability = Durability::Process;
    options.clock = Clock::simulated(NOW);
    options.seed = Some(1);
    Lifecycle::open(options).unwrap()
}

fn failure_of(result: Result<CreatedServer, Error>) -> Box<OperationFailure> {
    match result {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

/// Tells the operations to end at this time. It then also says how long they took to.
async fn ends<T>(after: Duration, tell: impl FnOnce(), work: impl Future<Output = T>) -> (T, Duration) {
    let reported = async {
        sleep(after).await;
        tell();
        Instant::now()
    };
    let done = async { (work.await, Instant::now()) };
    let ((result, ended), reported) = tokio::join!(done, reported);
    (result, ended - reported)
}

#[test]
fn fifty_creations_that_wait_for_a_hung_look_up_end_at_once_when_they_are_called_off() {
    run(async {
        let world = World::new(1).await;
        let lifecycle = start_with_default_limits(&world);
        world.simulator.add_fault(hangs("GET", IMAGES)).unwrap();
        let control = Control::new();
        let specification = world.everything();
        let work = lifecycle.create_servers(&specification, 50, &control);
        let (results, took) = ends(Duration::from_secs(3), || control.cancel(), work).await;
        for result in results {
            let failure = failure_of(result);
            assert_eq!((failure.cause.class, failure.state), (FailureClass::Cancelled, OperationState::Undone));
        }
        // Nothing was begun, so there is nothing to look for.
        assert_eq!(took, Duration::ZERO);
        world.assert_empty("called off");
        world.assert_closed(&lifecycle, "called off");
    });
}

#[test]
fn fifty_creations_that_wait_for_a_hung_look_up_end_at_once_when_the_process_leaves() {
    run(async {
        let world = World::new(1).await;
        let lifecycle = world.start();
        world.simulator.add_fault(hangs("GET", IMAGES)).unwrap();
        let control = Control::new();
        let specification = world.everything();
        let work = lifecycle.create_servers(&specification, 50, &control);
        let (results, took) = ends(Duration::from_secs(3), || control.leave(), work).await;
        assert!(results.iter().all(|result| matches!(result, Err(Error::LeftOpen { .. }))), "{results:?}");
        assert_eq!(took, Duration::ZERO);
        world.simulator.clear_faults();
        drop(lifecycle);
        let next = world.start();
        assert!(next.resume(&Control::new()).await.unwrap().is_clean());
        world.assert_closed(&next, "left");
    });
}

#[test]
fn a_look_up_that_fails_fails_for_all_who_wait_for_it_and_once() {
    run(async {
        let world = World::new(1).await;
        let lifecycle = world.start();
        world.simulator.add_fault(hangs("GET", IMAGES)).unwrap();
        let began = Instant::now();
        let results = lifecycle.create_servers(&world.everything(), 50, &Control::new()).await;
        for result in results {
            assert_eq!(failure_of(result).cause.class, FailureClass::Timeout);
        }
        // One after the other they would wait 50 times 30 s for the first attempt alone.
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
        world.assert_empty("no image");
    });
}

#[test]
fn the_one_that_began_a_look_up_can_leave_and_the_others_get_their_answer() {
    run(async {
        let world = World::new(1).await;
        let lifecycle = world.start();
        let slow = FaultRule::new("GET", IMAGES, FaultKind::Delay(Duration::from_secs(10)));
        world.simulator.add_fault(slow).unwrap();
        let (first, second) = (Control::new(), Control::new());
        let begins = lifecycle.create_server(world.everything(), &first);
        let joins = async {
            sleep(Duration::from_secs(1)).await;
            lifecycle.create_server(world.everything(), &second).await
        };
        let ((left, took), stays) = tokio::join!(ends(Duration::from_secs(2), || first.leave(), begins), joins);
        assert!(matches!(left, Err(Error::LeftOpen { .. })), "{left:?}");
        assert_eq!(took, Duration::ZERO);
        stays.unwrap();
        let asked = world.simulator.requests().iter().filter(|call| call.path.starts_with("/marketplace/")).count();
        assert_eq!(asked, 1);
    });
}

#[test]
fn a_wait_for_a_server_ends_at_the_deadline_and_not_with_the_call_that_hangs() {
    run(async {
        let world = World::new(2).await;
        let lifecycle = world.start();
        let mut specification = world.everything();
        specification.deadline_milliseconds = 20_000;
        let (control, mut events) = Control::<Event>::with_events();
        let simulator = world.simulator.clone();
        let over = Instant::now() + Duration::from_secs(21);
        let watch = async move {
            while let Some(event) = events.recv().await {
                if matches!(event.what, EventKind::StepDone { step, .. } if step == "power-on") {
                    simulator.add_fault(hangs("GET", "/instance/v1/zones/*/servers/*")).unwrap();
                    tokio::time::sleep_until(over).await;
                    simulator.clear_faults();
                }
            }
        };
        let create = async {
            let result = lifecycle.create_server(specification, &control).await;
            drop(control);
            result
        };
        let (result, ()) = tokio::join!(create, watch);
        let failure = failure_of(result);
        let entries = lifecycle.journal().entries(&failure.operation).unwrap();
        let undone_at = entries.iter().find(|entry| entry.step == "undo-begun").unwrap().at;
        let undone_after = undone_at - lifecycle.journal().operation(&failure.operation).unwrap().created_at;
        assert!((20_000..25_000).contains(&undone_after), "{undone_after}");
        assert_eq!(
            (failure.step.as_str(), failure.cause.class),
            ("wait-until-running", FailureClass::DeadlineExceeded)
        );
        assert!(failure.cause.message.contains("the deadline passed while server"), "{}", failure.cause.message);
        assert_eq!(failure.state, OperationState::Undone);
        world.assert_empty("the deadline");
    });
}

#[test]
fn a_boot_that_fails_before_the_first_look_is_not_waited_for() {
    run(async {
        let world = World::new(2).await;
        let lifecycle = world.start();
        let (control, mut events) = Control::<Event>::with_events();
        let simulator = world.simulator.clone();
        let began = Instant::now();
        let fails = async move {
            while let Some(event) = events.recv().await {
                if let EventKind::StepDone { step, resource: Some(server) } = event.what
                    && step == "power-on"
                {
                    simulator.set_server_state(&server.id, ForcedState::Stopped).unwrap();
                }
            }
        };
        let create = async {
            let result = lifecycle.create_server(world.everything(), &control).await;
            drop(control);
            result
        };
        let (result, ()) = tokio::join!(create, fails);
        let failure = failure_of(result);
        assert_eq!((failure.step.as_str(), failure.cause.class), ("wait-until-running", FailureClass::ServerError));
        assert!(failure.cause.message.contains("failed to start"), "{}", failure.cause.message);
        assert_eq!(failure.state, OperationState::Undone);
        // The deadline is ten minutes.
        assert!(began.elapsed() < MINUTE, "{:?}", began.elapsed());
        world.assert_empty("it did not start");
    });
}

#[test]
fn a_creation_ends_at_its_deadline_and_not_with_the_look_up_that_hangs() {
    run(async {
        let world = World::new(1).await;
        let lifecycle = world.start();
        world.simulator.add_fault(hangs("GET", IMAGES)).unwrap();
        let mut specification = world.everything();
        specification.deadline_milliseconds = 5_000;
        let began = Instant::now();
        let failure = failure_of(lifecycle.create_server(specification, &Control::new()).await);
        assert_eq!(failure.cause.class, FailureClass::DeadlineExceeded, "{failure}");
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        world.assert_empty("the deadline has passed");
        world.assert_closed(&lifecycle, "the deadline has passed");
    });
}

#[test]
fn the_retry_policy_is_told_whether_a_step_undoes_how_much_time_is_left_and_of_which_group() {
    run(async {
        let world = World::new(8).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let lifecycle = world.start_under(host.clone());
        for (method, path, kind) in [
            ("POST", "/instance/v1/zones/*/ips", FaultKind::InternalServerError),
            ("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied),
            ("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::InternalServerError),
        ] {
            world.simulator.add_fault(FaultRule::new(method, path, kind).nth(1)).unwrap();
        }
        let specification = world.everything();
        let deadline = specification.deadline_milliseconds;
        failure_of(lifecycle.create_server(specification, &Control::new()).await);
        world.assert_empty("undone");
        let mut asked: Vec<(String, bool)> = Vec::new();
        for question in asked_of(&host, SlotName::Retry) {
            let (step, undoing) = (question["step"].as_str().unwrap(), question["undoing"].as_bool().unwrap());
            assert_eq!(question["subject"]["group"], "ci", "{question}");
            match question["time-left"].as_u64() {
                Some(left) => assert!(!undoing && left < deadline, "{question}"),
                None => assert!(undoing, "{question}"),
            }
            asked.push((step.to_owned(), undoing));
        }
        for expected in [("create-ip", false), ("power-on", false), ("delete-ip", true)] {
            assert!(
                asked.iter().any(|(step, undoing)| (step.as_str(), *undoing) == expected),
                "{expected:?}: {asked:?}"
            );
        }
    });
}

/// The questions that were put to a slot.
fn asked_of(host: &windlass_policy::Host, slot: SlotName) -> Vec<serde_json::Value> {
    host.flush_decisions();
    let log = host.decisions().unwrap();
    let mut filter = DecisionFilter::default();
    filter.slot = Some(slot);
    let decisions = log.list(&filter).unwrap().decisions;
    decisions.iter().map(|decision| log.show(&decision.id.to_string()).unwrap().question).collect()
}

#[test]
fn each_retry_gets_a_random_word_of_its_own() {
    run(async {
        let world = World::new(8).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let lifecycle = world.start_under(host.clone());
        let fails = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::InternalServerError);
        world.simulator.add_fault(fails).unwrap();
        failure_of(lifecycle.create_server(world.everything(), &Control::new()).await);
        let words: Vec<_> =
            asked_of(&host, SlotName::Retry).iter().map(|question| question["random"].clone()).collect();
        let distinct: std::collections::BTreeSet<_> = words.iter().map(ToString::to_string).collect();
        assert!(words.len() >= 8 && words.iter().all(|word| !word.is_null()), "{words:?}");
        assert_eq!(distinct.len(), words.len(), "{words:?}");
    });
}

#[test]
fn a_busy_server_and_volume_are_retried_within_one_plan() {
    for kind in [FaultKind::TransientState, FaultKind::Locked] {
        run(async {
            let world = World::new(8).await;
            let folder = tempfile::tempdir().unwrap();
            let host = host_in(folder.path());
            let lifecycle = world.start_under(host.clone());
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            // A local volume of a user: the server is powered off and deleted, for terminating it would take that too.
            let theirs = crate::ownership::attach_local(&world, &created.server.id).await;
            for (method, path) in [
                ("POST", "/instance/v1/zones/*/servers/*/action"),
                ("DELETE", "/instance/v1/zones/*/servers/*"),
                ("DELETE", "/block/v1/zones/*/volumes/*"),
            ] {
                for nth in [1, 2] {
                    world.simulator.add_fault(FaultRule::new(method, path, kind).nth(nth)).unwrap();
                }
            }
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            assert!(cleaned.report.is_clean(), "{kind}: {}", cleaned.report.words());
            let resources = world.resources();
            assert_eq!(resources.count(), 1, "{kind}: {}", crate::support::brief(&resources));
            assert_eq!(resources.volumes[0]["id"], theirs.as_str(), "{kind}");
            // A further plan would mend what was not retried.
            assert_eq!(asked_of(&host, SlotName::Rollback).len(), 1, "{kind}: one plan");
            let retried = asked_of(&host, SlotName::Retry);
            for step in ["delete-server", "delete-block-volume"] {
                let of_step = retried.iter().filter(|question| question["step"].as_str().unwrap().starts_with(step));
                assert!(of_step.count() >= 2, "{kind}: {step}: {retried:?}");
            }
        });
    }
}

#[test]
fn an_undo_that_follows_from_the_deadline_is_not_bound_by_it() {
    run(async {
        let world = World::new(7).await;
        let lifecycle = world.start();
        world.simulator.add_fault(hangs("GET", "/block/v1/zones/*/volumes/*")).unwrap();
        let mut specification = world.everything();
        specification.deadline_milliseconds = 20_000;
        let after_the_deadline = async {
            sleep(Duration::from_secs(21)).await;
            world.simulator.clear_faults();
            // More often than the rounds of an undo alone would ask.
            for nth in 1..=16 {
                let path = "/instance/v1/zones/*/ips/*";
                let rule = FaultRule::new("DELETE", path, FaultKind::InternalServerError).nth(nth);
                world.simulator.add_fault(rule).unwrap();
            }
        };
        let control = Control::new();
        let (result, ()) = tokio::join!(lifecycle.create_server(specification, &control), after_the_deadline);
        let failure = failure_of(result);
        assert_eq!(failure.cause.class, FailureClass::DeadlineExceeded, "{failure}");
        assert_eq!(failure.state, OperationState::Undone, "{failure}");
        world.assert_empty("the deadline");
    });
}

#[test]
fn an_undo_goes_on_when_it_is_called_off_and_its_waits_end_at_once_when_the_process_leaves() {
    run(async {
        let world = World::with(windlass_simulator::Options {
            seed: 3,
            durations: windlass_simulator::Durations { terminate: MINUTE, ..Default::default() },
            ..windlass_simulator::Options::default()
        })
        .await;
        let lifecycle = world.start();
        for leaves in [false, true] {
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            let control = Control::new();
            let target = Target::Operation(created.operation);
            let work = lifecycle.cleanup(&target, &control);
            let tell = || if leaves { control.leave() } else { control.cancel() };
            let (result, took) = ends(Duration::from_secs(10), tell, work).await;
            if leaves {
                assert!(matches!(result, Err(Error::LeftOpen { .. })), "{result:?}");
                assert_eq!(took, Duration::ZERO);
            } else {
                assert!(result.unwrap().report.is_clean());
                assert!(took > Duration::from_secs(40), "the server takes a minute to go: {took:?}");
                world.assert_empty("a cleanup goes on");
            }
        }
    });
}

#[test]
fn a_call_that_has_not_left_when_its_operation_is_called_off_is_never_sent() {
    run(async {
        let world = World::new(8).await;
        let mut one = *settings().limits();
        one.concurrent_calls = NonZeroU32::MIN;
        let client = Client::with_transport(settings().with_limits(one), world.simulator.transport()).unwrap();
        let lifecycle = start_over(&world, client);
        let slow = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::Delay(Duration::from_secs(20)));
        world.simulator.add_fault(slow).unwrap();
        let control = Control::new();
        let specification = world.everything();
        let work = lifecycle.create_servers(&specification, 3, &control);
        let (results, took) = ends(Duration::from_secs(5), || control.cancel(), work).await;
        for result in results {
            assert_eq!(failure_of(result).cause.class, FailureClass::Cancelled);
        }
        let sent = world.simulator.requests().iter().filter(|call| call.method == "POST").count();
        assert_eq!(sent, 1, "the one that had left was waited for, the others never left");
        assert!(took >= Duration::from_secs(15), "{took:?}");
        world.assert_empty("called off");
    });
}

/// How often something was listed by tag, which only a look-up does.
fn look_ups(world: &World) -> usize {
    world.simulator.requests().iter().filter(|call| call.method == "GET" && call.query.contains("tags=")).count()
}

#[test]
fn a_rate_limit_of_five_calls_a_second_costs_no_look_ups() {
    run(async {
        let five = NonZeroU32::new(5).unwrap();
        let world = World::with(windlass_simulator::Options {
            seed: 4,
            request_limit: Some(RequestLimit { per_second: five, burst: five }),
            ..windlass_simulator::Options::default()
        })
        .await;
        let lifecycle = world.start();
        let results = lifecycle.create_servers(&world.everything(), 6, &Control::new()).await;
        for result in results {
            result.unwrap();
        }
        let requests = world.simulator.requests();
        let refused = requests.iter().filter(|call| call.method == "POST" && call.status == Some(429)).count();
        assert!(refused >= 6, "the limit was hardly met: {refused} of {}", requests.len());
        assert_eq!(look_ups(&world), 0, "{refused} refusals");
    });
}

#[test]
fn a_refusal_in_scaleways_words_costs_no_look_up_and_a_lost_answer_one() {
    for (kind, expected) in [
        (FaultKind::RateLimited, 0),
        (FaultKind::DroppedConnection, 1),
        (FaultKind::InternalServerError, 1),
        (FaultKind::MalformedBody, 1),
    ] {
        run(async {
            let world = World::new(5).await;
            let lifecycle = world.start();
            world.simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/ips", kind).nth(1)).unwrap();
            let look_ups_meanwhile = {
                let (control, mut events) = Control::<Event>::with_events();
                let simulator = world.simulator.clone();
                // Counted when the server is being made: what comes at the very end looks for doubles.
                let watch = async move {
                    let mut counted = None;
                    while let Some(event) = events.recv().await {
                        if matches!(&event.what, EventKind::StepBegan { step } if step == "create-server") {
                            let requests = simulator.requests();
                            counted = Some(requests.iter().filter(|call| call.query.contains("tags=")).count());
                        }
                    }
                    counted
                };
                let create = async {
                    let result = lifecycle.create_server(world.everything(), &control).await;
                    drop(control);
                    result.unwrap();
                };
                tokio::join!(create, watch).1
            };
            assert_eq!(look_ups_meanwhile, Some(expected), "{kind}");
            world.assert_complete("looked up").await;
        });
    }
}

/// Answers the first calls for an address with a rate limit that asks for this much.
struct AsksToWait {
    under: Arc<dyn Transport>,
    retry_after: &'static str,
    left: Arc<AtomicUsize>,
}

impl Transport for AsksToWait {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let refuses = request.method() == http::Method::POST
            && request.uri().path().ends_with("/ips")
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if refuses {
            let answer = http::Response::builder().status(429).header("retry-after", self.retry_after);
            let answer = answer.body(Bytes::new()).unwrap();
            return Box::pin(async move { Ok(answer) });
        }
        self.under.send(request)
    }
}

async fn create_when_asked_to_wait(retry_after: &'static str) -> (World, Result<CreatedServer, Error>, Duration) {
    let world = World::new(6).await;
    let transport = AsksToWait { under: world.simulator.transport(), retry_after, left: Arc::new(AtomicUsize::new(2)) };
    let lifecycle = start_over(&world, Client::with_transport(settings(), Arc::new(transport)).unwrap());
    let began = Instant::now();
    let result = lifecycle.create_server(world.everything(), &Control::new()).await;
    (world, result, began.elapsed())
}

#[test]
fn what_scaleway_asks_to_wait_is_the_least_that_is_waited() {
    run(async {
        let (world, result, unasked) = create_when_asked_to_wait("0").await;
        result.unwrap();
        world.assert_complete("no wait asked for").await;
        let (world, result, elapsed) = create_when_asked_to_wait("70").await;
        result.unwrap();
        world.assert_complete("waited").await;
        // The default policy would wait some seconds.
        assert!(unasked < MINUTE && elapsed >= Duration::from_secs(2 * 70), "{unasked:?} {elapsed:?}");
    });
}

#[test]
fn a_wait_that_goes_beyond_the_deadline_is_not_begun() {
    run(async {
        for absurd in ["86400", "99999999999999999999"] {
            let (world, result, elapsed) = create_when_asked_to_wait(absurd).await;
            let failure = failure_of(result);
            assert_eq!((failure.step.as_str(), failure.cause.class), ("create-ip", FailureClass::RateLimited));
            assert_eq!(failure.state, OperationState::Undone);
            assert!(elapsed < MINUTE, "{elapsed:?}");
            world.assert_empty("given up");
        }
    });
}

#[test]
fn one_wrong_answer_that_the_server_is_gone_does_not_undo_a_creation() {
    run(async {
        for nth in 1..=6 {
            let world = World::new(90 + nth).await;
            let gone = FaultRule::new("GET", "/instance/v1/zones/*/servers/*", FaultKind::NotFound);
            world.simulator.add_fault(FaultRule { nth: Some(nth), ..gone }).unwrap();
            let created = world.start().create_server(world.everything(), &Control::new()).await;
            created.unwrap_or_else(|error| panic!("answer {nth}: {error}"));
            world.assert_complete("created").await;
        }
    });
}

#[test]
fn one_wrong_answer_that_a_resource_is_gone_does_not_undo_a_creation_that_tries_again() {
    run(async {
        let world = World::new(97).await;
        let busy = FaultRule::new("PATCH", "/instance/v1/zones/*/servers/*/user_data/*", FaultKind::TransientState);
        world.simulator.add_fault(FaultRule { nth: Some(1), ..busy }).unwrap();
        let gone = FaultRule::new("GET", "/instance/v1/zones/*/servers/*", FaultKind::NotFound);
        world.simulator.add_fault(FaultRule { nth: Some(1), ..gone }).unwrap();
        world.start().create_server(world.everything(), &Control::new()).await.unwrap();
        world.assert_complete("created").await;
    });
}
