use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, server, state_mapping_question};

use state_mapping::{Action, Answer, Mapping, Operation, Report, Server, ServerState, StateDetail, Verdict};

use crate::DefaultStateMapping;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const DEADLINE_MS: u64 = 900_000;

const STATES: [ServerState; 7] = [
    ServerState::Running,
    ServerState::Starting,
    ServerState::Stopping,
    ServerState::Stopped,
    ServerState::StoppedInPlace,
    ServerState::Locked,
    ServerState::Other,
];
const DETAILS: [StateDetail; 13] = [
    StateDetail::None,
    StateDetail::AllocatingNode,
    StateDetail::ProvisioningNode,
    StateDetail::Starting,
    StateDetail::BootingKernel,
    StateDetail::Booted,
    StateDetail::Ready,
    StateDetail::Stopping,
    StateDetail::StoppingInPlace,
    StateDetail::StoppedInPlace,
    StateDetail::Terminating,
    StateDetail::Rebooting,
    StateDetail::Other,
];
const OPERATIONS: [Operation; 6] =
    [Operation::None, Operation::Create, Operation::Cleanup, Operation::Suspend, Operation::Resume, Operation::Other];

fn decide(server: &Server) -> Answer {
    DefaultStateMapping::default().decide(server, &state_mapping_question([]))
}

fn mapping(server: &Server) -> Mapping {
    match decide(server).verdict {
        Verdict::Mapped(mapping) => mapping,
        Verdict::Defer => panic!("the default never defers"),
    }
}

/// Every combination of what can be said about a server, with ages on both sides of the deadline.
fn every_server() -> impl Iterator<Item = Server> {
    let ages = [0, DEADLINE_MS, DEADLINE_MS + 1];
    STATES.into_iter().flat_map(move |state| {
        DETAILS.into_iter().flat_map(move |detail| {
            OPERATIONS.into_iter().flat_map(move |in_flight| {
                (0..4).flat_map(move |bits| {
                    ages.into_iter().flat_map(move |age| {
                        ages.into_iter().filter(move |state_age| *state_age <= age).map(move |state_age| Server {
                            state,
                            detail,
                            age,
                            state_age,
                            has_run: bits & 1 == 1,
                            in_flight,
                            suspended: bits & 2 == 2,
                            ..server(state)
                        })
                    })
                })
            })
        })
    })
}

#[test]
fn deleting_is_said_only_with_a_cleanup_in_flight_or_a_reap() {
    for server in every_server() {
        let Mapping { report, action } = mapping(&server);
        if report == Report::Deleting {
            assert!(server.in_flight == Operation::Cleanup || action == Action::Reap, "{server:?}");
        }
        if action == Action::Reap {
            assert_eq!(report, Report::Deleting, "{server:?}");
        }
    }
}

#[test]
fn what_exists_is_never_called_deleted() {
    for server in every_server() {
        assert_ne!(mapping(&server).report, Report::Deleted, "{server:?}");
    }
}

#[test]
fn only_what_nobody_can_use_or_delete_is_given_up() {
    for server in every_server() {
        if mapping(&server).report == Report::Timeout {
            assert_eq!(server.state, ServerState::Locked, "{server:?}");
        }
    }
}

#[test]
fn a_locked_server_gives_its_capacity_back_and_is_not_reaped_against_the_wall() {
    let locked = Server { has_run: true, in_flight: Operation::None, ..server(ServerState::Locked) };
    assert_eq!(mapping(&locked), Mapping { report: Report::Timeout, action: Action::None });
    assert_eq!(mapping(&Server { state: ServerState::Running, ..locked }).report, Report::Running, "unlocked again");
}

#[test]
fn a_server_that_runs_is_never_reaped() {
    for server in every_server().filter(|server| server.state == ServerState::Running) {
        assert_eq!(mapping(&server).action, Action::None, "{server:?}");
    }
}

#[test]
fn a_stopped_server_that_nothing_works_on_is_suspended_by_us_or_reaped_in_the_end() {
    for server in every_server().filter(|server| {
        matches!(server.state, ServerState::Stopped | ServerState::StoppedInPlace)
            && server.in_flight == Operation::None
            && server.age > DEADLINE_MS
    }) {
        let expected = match server.suspended {
            true => Mapping { report: Report::Suspended, action: Action::None },
            false => Mapping { report: Report::Deleting, action: Action::Reap },
        };
        assert_eq!(mapping(&server), expected, "{server:?}");
    }
}

#[test]
fn a_server_that_stopped_after_it_ran_is_reaped_however_young_it_is() {
    for state in [ServerState::Stopped, ServerState::StoppedInPlace] {
        let young = Server { age: 0, state_age: 0, ..server(state) };
        assert_eq!(mapping(&young), Mapping { report: Report::Deleting, action: Action::Reap });
    }
}

#[test]
fn nothing_that_is_suspended_by_us_is_reaped_while_it_stands_still() {
    for server in every_server().filter(|server| {
        server.suspended
            && matches!(server.state, ServerState::Stopped | ServerState::StoppedInPlace | ServerState::Stopping)
            && server.detail != StateDetail::Rebooting
    }) {
        assert_eq!(mapping(&server).action, Action::None, "{server:?}");
    }
}

#[test]
fn a_cleanup_in_flight_is_never_started_again() {
    for server in every_server().filter(|server| server.in_flight == Operation::Cleanup) {
        assert_eq!(mapping(&server), Mapping { report: Report::Deleting, action: Action::None }, "{server:?}");
    }
}

#[test]
fn a_word_that_is_not_understood_destroys_nothing() {
    for server in
        every_server().filter(|server| server.state == ServerState::Other || server.in_flight == Operation::Other)
    {
        assert_eq!(mapping(&server).action, Action::None, "{server:?}");
    }
}

#[test]
fn what_an_unknown_operation_works_on_is_not_handed_out() {
    for server in every_server().filter(|server| server.in_flight == Operation::Other) {
        assert_eq!(mapping(&server).report, Report::None, "{server:?}");
    }
}

#[test]
fn the_pause_between_creation_and_power_on_is_creating_until_the_deadline() {
    let new = Server { age: DEADLINE_MS, has_run: false, in_flight: Operation::Create, ..server(ServerState::Stopped) };
    assert_eq!(mapping(&new), Mapping { report: Report::Creating, action: Action::None });
    let late = Server { age: DEADLINE_MS + 1, ..new };
    assert_eq!(mapping(&late).action, Action::Reap);
}

#[test]
fn a_new_server_is_handed_out_only_when_its_creation_has_ended() {
    let new = Server { in_flight: Operation::Create, ..server(ServerState::Running) };
    assert_eq!(mapping(&new).report, Report::Creating);
    assert_eq!(mapping(&Server { in_flight: Operation::None, ..new }).report, Report::Running);
}

#[test]
fn booting_kernel_for_ever_is_running_because_images_without_an_agent_never_say_more() {
    let old = Server { detail: StateDetail::BootingKernel, state_age: u64::MAX, ..server(ServerState::Running) };
    assert_eq!(mapping(&old).report, Report::Running);
}

#[test]
fn a_reboot_comes_back_and_is_not_reaped_before_the_deadline() {
    for state in [ServerState::Stopping, ServerState::Starting] {
        let rebooting = Server { detail: StateDetail::Rebooting, state_age: DEADLINE_MS, ..server(state) };
        assert_eq!(mapping(&rebooting), Mapping { report: Report::Creating, action: Action::None });
        assert_eq!(mapping(&Server { state_age: DEADLINE_MS + 1, ..rebooting }).action, Action::Reap);
    }
}

#[test]
fn the_ordinary_cases_carry_no_reason_and_a_reap_always_does() {
    for server in every_server() {
        let answer = decide(&server);
        let ordinary = !matches!(
            answer.verdict,
            Verdict::Mapped(
                Mapping { action: Action::Reap, .. } | Mapping { report: Report::None | Report::Timeout, .. }
            )
        );
        assert_eq!(answer.reason.is_none(), ordinary, "{server:?}");
    }
}

#[test]
fn a_listing_is_answered_in_its_order() {
    let servers: Vec<Server> = every_server().collect();
    let answers = DefaultStateMapping::default().decide_all(&state_mapping_question(servers.clone()));
    assert_eq!(answers.len(), servers.len());
    for (server, answer) in servers.iter().zip(&answers) {
        assert_eq!(&decide(server), answer);
    }
}

#[test]
fn a_deadline_of_nothing_is_refused() {
    assert!(testing::configure::<DefaultStateMapping>(r#"{"deadline-ms": 0}"#).is_err());
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    use Operation::{Create, None, Resume, Suspend};
    let young = DEADLINE_MS;
    let old = DEADLINE_MS + 1;
    let columns: [(&str, Operation, bool, bool, u64); 7] = [
        ("creating it", Create, false, false, young),
        ("creating it, past the deadline", Create, false, false, old),
        ("nothing in flight, never ran", None, false, false, young),
        ("the same, past the deadline", None, false, false, old),
        ("nothing in flight, has run", None, true, false, young),
        ("suspended by us", None, true, true, old),
        ("suspending / resuming it", Suspend, true, false, old),
    ];
    let word = |server: &Server| {
        let Mapping { report, action } = mapping(server);
        match action {
            Action::Reap => "**reap**".to_owned(),
            Action::None => format!("{report:?}").to_lowercase(),
        }
    };
    let kinds = [
        ("running", ServerState::Running, StateDetail::None),
        ("starting", ServerState::Starting, StateDetail::None),
        ("stopping", ServerState::Stopping, StateDetail::None),
        ("stopping or starting, rebooting", ServerState::Stopping, StateDetail::Rebooting),
        ("stopped", ServerState::Stopped, StateDetail::None),
        ("stopped in place", ServerState::StoppedInPlace, StateDetail::StoppedInPlace),
        ("locked", ServerState::Locked, StateDetail::None),
        ("a word this host does not know", ServerState::Other, StateDetail::None),
    ];
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .map(|(name, state, detail)| {
            let mut row = vec![(*name).to_owned()];
            for (_, in_flight, has_run, suspended, age) in &columns {
                let at = |in_flight| Server {
                    state: *state,
                    detail: *detail,
                    age: *age,
                    state_age: 0,
                    has_run: *has_run,
                    in_flight,
                    suspended: *suspended,
                    ..server(*state)
                };
                row.push(match in_flight {
                    Suspend => format!("{} / {}", word(&at(Suspend)), word(&at(Resume))),
                    other => word(&at(*other)),
                });
            }
            row
        })
        .collect();
    let header: Vec<&str> = std::iter::once("Scaleway says").chain(columns.iter().map(|column| column.0)).collect();
    testing::readme::assert_table(README, "decisions", &header, &rows);
    testing::readme::assert_settings::<DefaultStateMapping>(README);
}
