use std::fmt::Debug;

use prost::Message;
use windlass_policy::slots::{
    Placement, Provisioning, Release, Retry, Rollback, Slot, StateMapping, placement, provisioning, release, retry,
    rollback, state_mapping, types,
};

use super::*;
use crate::proto;

/// There and back, over bytes.
fn travels<T>(value: T)
where
    T: Wire + Clone + PartialEq + Debug,
    T::Message: Message + Default,
{
    let bytes = value.clone().write().encode_to_vec();
    assert_eq!(T::read(T::Message::decode(&bytes[..]).unwrap()), Ok(value));
}

#[test]
fn the_example_of_each_slot_travels() {
    travels(StateMapping::example());
    travels(Retry::example());
    travels(Rollback::example());
    travels(Release::example());
    travels(Provisioning::example());
    travels(Placement::example());
}

#[test]
fn each_verdict_travels() {
    let mapping =
        state_mapping::Mapping { report: state_mapping::Report::Timeout, action: state_mapping::Action::Reap };
    for verdict in [state_mapping::Verdict::Defer, state_mapping::Verdict::Mapped(mapping)] {
        travels(state_mapping::Answer { verdict, reason: Some("why".into()) });
    }
    for verdict in [retry::Verdict::Defer, retry::Verdict::GiveUp, retry::Verdict::Wait(u64::MAX)] {
        travels(retry::Answer { verdict, reason: None });
    }
    let step = |action, after| rollback::Step { resource: 1, action, after };
    let plan = vec![step(rollback::Action::Detach, vec![]), step(rollback::Action::Delete, vec![0, 7])];
    for verdict in [rollback::Verdict::Defer, rollback::Verdict::Plan(vec![]), rollback::Verdict::Plan(plan)] {
        travels(rollback::Answer { verdict, reason: None });
    }
    for verdict in [
        release::Verdict::Defer,
        release::Verdict::ReturnToPool(release::PoolReturn { operating_system: Some("macos".into()) }),
        release::Verdict::Terminate,
        release::Verdict::ScheduleDeletion,
        release::Verdict::Keep,
        release::Verdict::RetryAfter(5),
        release::Verdict::Reboot,
    ] {
        travels(release::Answer { verdict, reason: None });
    }
    let recovery = provisioning::Recovery { state: provisioning::ClusterState::Error, delete: vec![2, 0] };
    for verdict in [provisioning::Verdict::Defer, provisioning::Verdict::Recover(recovery)] {
        travels(provisioning::Answer { verdict, reason: None });
    }
    let assignment = placement::Assignment { count: 3, places: vec![4, 1] };
    for verdict in [placement::Verdict::Defer, placement::Verdict::Place(vec![assignment])] {
        travels(placement::Answer { verdict, reason: None });
    }
}

/// All cases travel. Returns what a case gives that nobody knows.
fn cases<E: Wire<Message = i32> + PartialEq + Debug>(least: i32) -> Result<E, Invalid> {
    assert_eq!(E::read(0), Err(missing()));
    for number in 1..=least {
        assert_eq!(E::read(number).map(Wire::write), Ok(number));
    }
    E::read(1_000)
}

#[test]
fn each_case_travels_and_an_unknown_one_is_other_where_there_is_such_a_case() {
    assert_eq!(cases(types::FailureClass::Other.write()), Ok(types::FailureClass::Other));
    assert_eq!(cases(types::ResourceKind::Other.write()), Ok(types::ResourceKind::Other));
    assert_eq!(cases(state_mapping::ServerState::Other.write()), Ok(state_mapping::ServerState::Other));
    assert_eq!(cases(state_mapping::StateDetail::Other.write()), Ok(state_mapping::StateDetail::Other));
    assert_eq!(cases(state_mapping::Operation::Other.write()), Ok(state_mapping::Operation::Other));
    assert_eq!(cases(rollback::Evidence::Other.write()), Ok(rollback::Evidence::Other));
    assert_eq!(cases(release::MachineKind::Other.write()), Ok(release::MachineKind::Other));
    assert_eq!(cases(release::Trigger::Other.write()), Ok(release::Trigger::Other));
    assert_eq!(cases(release::Requested::Other.write()), Ok(release::Requested::Other));
    assert_eq!(cases(release::Action::Other.write()), Ok(release::Action::Other));
    assert_eq!(cases(provisioning::Operation::Other.write()), Ok(provisioning::Operation::Other));
    assert_eq!(cases(provisioning::Stage::Other.write()), Ok(provisioning::Stage::Other));
    assert_eq!(cases(provisioning::NodeRole::Other.write()), Ok(provisioning::NodeRole::Other));
    assert_eq!(cases::<state_mapping::Report>(state_mapping::Report::Resuming.write()), Err(unknown(1_000)));
    assert_eq!(cases::<state_mapping::Action>(state_mapping::Action::Reap.write()), Err(unknown(1_000)));
    assert_eq!(cases::<rollback::Action>(rollback::Action::Keep.write()), Err(unknown(1_000)));
    assert_eq!(cases::<provisioning::ClusterState>(provisioning::ClusterState::Error.write()), Err(unknown(1_000)));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let wrong = |change: fn(&mut proto::RetryQuestion)| {
        let mut question = Retry::example().write();
        change(&mut question);
        retry::Question::read(question).unwrap_err().to_string()
    };
    assert_eq!(wrong(|question| question.failure = None), "the field failure is missing");
    assert_eq!(
        wrong(|question| question.failure = Some(proto::Failure { class: 0, ..Default::default() })),
        "the field failure.class is missing"
    );
    assert_eq!(
        wrong(|question| {
            if let Some(failure) = &mut question.failure {
                failure.status = Some(65_536);
            }
        }),
        "the field failure.status is 65536, more than 65535"
    );
    let mut question = StateMapping::example().write();
    question.servers[2].state = 0;
    let wrong = state_mapping::Question::read(question).unwrap_err().to_string();
    assert_eq!(wrong, "the field servers[2].state is missing");
}
