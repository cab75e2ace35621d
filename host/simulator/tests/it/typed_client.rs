//! Our own typed client understands every word the simulator says: none ends as `Unknown`.

use windlass_scaleway::types::block::BlockVolumeStatus;
use windlass_scaleway::types::instance::{CreateIp, CreateServer, IpState, ServerAction, ServerState, VolumeType};
use windlass_scaleway::{Client, Settings, Zone};

use crate::caller::{Caller, TOKEN};

#[tokio::test]
async fn our_own_client_follows_a_server_through_its_life() {
    let caller = Caller::still();
    let settings = Settings::new(TOKEN.parse().unwrap());
    let client = Client::with_transport(settings, caller.simulator.transport()).unwrap();
    let zone: Zone = "fr-par-1".parse().unwrap();
    let (instance, block) = (client.instance(&zone), client.block(&zone));

    let ip = instance.create_ip(&CreateIp { tags: vec!["t".to_owned()], ..CreateIp::default() }).await.unwrap();
    assert_eq!(ip.state, IpState::Detached);
    let request = CreateServer {
        name: "web".to_owned(),
        commercial_type: "DEV1-S".to_owned(),
        image: Some(caller.image().await),
        public_ips: vec![ip.id.clone()],
        tags: vec!["t".to_owned()],
        ..CreateServer::default()
    };
    let server = instance.create_server(&request).await.unwrap();
    assert_eq!(server.state, ServerState::Stopped);
    let root = server.volumes.values().next().unwrap();
    assert_eq!(root.volume_type, VolumeType::BlockStorage);
    let root = root.id.clone();

    for (action, passing, seconds, end) in [
        (ServerAction::PowerOn, ServerState::Starting, 5, ServerState::Running),
        (ServerAction::StopInPlace, ServerState::Stopping, 60, ServerState::StoppedInPlace),
        (ServerAction::PowerOn, ServerState::Starting, 5, ServerState::Running),
        (ServerAction::PowerOff, ServerState::Stopping, 60, ServerState::Stopped),
    ] {
        instance.server_action(&server.id, action.clone()).await.unwrap();
        assert_eq!(instance.get_server(&server.id).await.unwrap().state, passing, "{action}");
        caller.advance(seconds);
        assert_eq!(instance.get_server(&server.id).await.unwrap().state, end, "{action}");
    }
    instance.delete_server(&server.id).await.unwrap();
    assert!(instance.get_server(&server.id).await.unwrap_err().is_not_found());
    assert_eq!(block.get_volume(&root).await.unwrap().status, BlockVolumeStatus::InUse);
    caller.advance(5);
    assert_eq!(block.get_volume(&root).await.unwrap().status, BlockVolumeStatus::Available);
    block.delete_volume(&root).await.unwrap();
    instance.delete_ip(&ip.id).await.unwrap();
    assert!(caller.simulator.resources().is_empty());
}
