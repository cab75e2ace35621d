//! Requests, as bytes that can be sent.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;

use prost::Message as _;
use windlass_serve::proto::{self, question, request};

/// The next message of a stream.
pub(crate) fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// With its length before it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("no message here has 4 GiB");
    [&length.to_be_bytes()[..], message].concat()
}

pub(crate) fn request(call: request::Call) -> Vec<u8> {
    framed(&proto::Request { id: 1, call: Some(call) }.encode_to_vec())
}

pub(crate) fn decide(pin: &[u8], questions: Vec<proto::Question>) -> Vec<u8> {
    request(request::Call::Decide(proto::Decide { pin: pin.to_vec().into(), questions }))
}

fn subject() -> Option<proto::Subject> {
    Some(proto::Subject { program: proto::Program::Other.into(), owner: "tests".into(), ..Default::default() })
}

/// A question that the rules decide.
pub(crate) fn gateway_failed() -> proto::Question {
    failed(proto::FailureClass::Gateway, String::new())
}

/// After a failure of this class, with these words.
pub(crate) fn failed(class: proto::FailureClass, message: String) -> proto::Question {
    let failure = proto::Failure { class: class.into(), message, ..Default::default() };
    let question = proto::RetryQuestion {
        operation: "create-server".into(),
        step: "power-on".into(),
        attempt: 2,
        zone: "fr-par-1".into(),
        subject: subject(),
        failure: Some(failure),
        ..Default::default()
    };
    proto::Question { slot: Some(question::Slot::Retry(question)) }
}

/// About so many servers.
pub(crate) fn servers(count: usize) -> proto::Question {
    let server = proto::StateMappingServer {
        state: proto::StateMappingServerState::Running.into(),
        detail: proto::StateMappingStateDetail::None.into(),
        in_flight: proto::StateMappingOperation::None.into(),
        has_run: true,
        ..Default::default()
    };
    of_servers(vec![server; count])
}

/// About so many servers of which nothing is said.
pub(crate) fn empty_servers(count: usize) -> proto::Question {
    of_servers(vec![proto::StateMappingServer::default(); count])
}

fn of_servers(servers: Vec<proto::StateMappingServer>) -> proto::Question {
    let question = proto::StateMappingQuestion {
        zone: "fr-par-1".into(),
        subject: subject(),
        server_types: vec!["DEV1-S".into()],
        servers,
        ..Default::default()
    };
    proto::Question { slot: Some(question::Slot::StateMapping(question)) }
}

/// One of each slot that `policies` are set upon.
pub(crate) fn of_other_slots() -> [proto::Question; 4] {
    let resource = |kind: proto::ResourceKind, attached_to| proto::RollbackResource {
        kind: kind.into(),
        id: format!("{kind:?}"),
        attached_to,
        owned: true,
        evidence: proto::RollbackEvidence::Journal.into(),
        ..Default::default()
    };
    let rollback = proto::RollbackQuestion {
        operation: "create-server".into(),
        subject: subject(),
        resources: vec![
            resource(proto::ResourceKind::Server, None),
            resource(proto::ResourceKind::BlockVolume, Some(0)),
            resource(proto::ResourceKind::Ip, Some(0)),
        ],
        ..Default::default()
    };
    let machine = proto::ReleaseMachine {
        kind: proto::ReleaseMachineKind::Instance.into(),
        id: "a machine".into(),
        activity: Some(proto::ReleaseActivity::default()),
        ..Default::default()
    };
    let release = proto::ReleaseQuestion {
        trigger: proto::ReleaseTrigger::Released.into(),
        subject: subject(),
        machine: Some(machine),
        attempt: 1,
        ..Default::default()
    };
    let provisioning = proto::ProvisioningQuestion {
        subject: subject(),
        operation: proto::ProvisioningOperation::Create.into(),
        stage: proto::ProvisioningStage::Servers.into(),
        cause: Some(proto::Failure { class: proto::FailureClass::Gateway.into(), ..Default::default() }),
        ..Default::default()
    };
    let place = proto::PlacementPlace { zone: "fr-par-1".into(), server_type: "DEV1-S".into(), ..Default::default() };
    let placement = proto::PlacementQuestion {
        operation: "create-server".into(),
        subject: subject(),
        wanted: 3,
        places: vec![place],
        ..Default::default()
    };
    [
        question::Slot::Rollback(rollback),
        question::Slot::Release(release),
        question::Slot::Provisioning(provisioning),
        question::Slot::Placement(placement),
    ]
    .map(|slot| proto::Question { slot: Some(slot) })
}
