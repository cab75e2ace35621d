//! Groups whose journal is in a real PostgreSQL, so that another host can take them over.

use std::collections::BTreeMap;

use windlass_postgres::PostgresState;
use windlass_test_postgres::Server;

use super::*;

/// Starts the group of this name on a host.
async fn on_host(
    server: &Server,
    host: &str,
    group: &str,
    simulator: &Simulator,
    folder: &Path,
) -> Result<ScalewayGroup, StartError> {
    let name: windlass_lifecycle::GroupName = group.parse().unwrap();
    let state = PostgresState::of_group(&server.url("windlass"), &BTreeMap::new(), &name, host).unwrap();
    let change = |configuration: &mut Configuration| {
        configuration.common.shared_state = Some(Arc::new(state));
        configuration.common.group = name.clone();
        configuration.server.group = name;
        configuration.common.delete_on_shutdown = true;
    };
    try_start(policies(), simulator, folder, change).await
}

#[tokio::test(start_paused = true)]
async fn a_group_is_taken_over_once_its_host_is_dead_and_never_before() {
    let Some(server) = Server::start() else { return };
    let simulator = Simulator::new(Options::default());
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = on_host(&server, "host-a", "ci", &simulator, here.path()).await.unwrap();
    let refused = on_host(&server, "host-b", "ci", &simulator, there.path()).await.err().unwrap();
    let words = refused.to_string();
    assert!(
        matches!(refused, StartError::Shared { .. }) && words.contains("host-a") && !words.contains("host-b"),
        "{words}"
    );
    // Another group of the same database is nobody else's business.
    let other = on_host(&server, "host-b", "other", &simulator, there.path()).await.unwrap();
    other.stop().await;

    // The first may say that it lives between these two.
    let second = loop {
        server.expire("windlass_ci");
        match on_host(&server, "host-b", "ci", &simulator, there.path()).await {
            Ok(second) => break second,
            Err(error) => assert!(matches!(error, StartError::Shared { .. }), "{error}"),
        }
    };
    // It notices when it writes, and creates nothing.
    assert!(fleet(&first).known.remember(["a"]).is_err());
    assert!(!fleet(&first).known.holds("a"), "what is not written is not remembered");
    let refused = first.update().await.err().unwrap();
    assert!(refused.0.contains("another host has this group now"), "{refused:?}");
    assert!(first.increase(1).await.is_err());
    assert_eq!(simulator.resources().servers.len(), 0);
    assert_eq!(reported(&second).await, []);
    let began = tokio::time::Instant::now();
    first.shutdown().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "it waits for nothing that it cannot do");
    first.stop().await;
    second.stop().await;
    drop(second);
    let third = on_host(&server, "host-c", "ci", &simulator, here.path()).await.err().unwrap();
    assert!(matches!(third, StartError::Locked { .. }), "the folder is the first's, which still lives: {third}");
    drop(first);
    // The second left in order, so nobody waits for its lease.
    on_host(&server, "host-c", "ci", &simulator, here.path()).await.unwrap().stop().await;
}
