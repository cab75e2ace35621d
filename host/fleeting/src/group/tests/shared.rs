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
    assert!(matches!(refused, StartError::Shared { .. }) && words.contains("host-a"), "{words}");
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
    let _ = first.increase(1).await;
    while !first.fleet.get().unwrap().is_overtaken() {
        tokio::task::yield_now().await;
    }
    let refused = first.update().await.err().unwrap();
    assert!(refused.0.contains("another host took this group over"), "{refused:?}");
    assert!(first.increase(1).await.is_err());
    assert_eq!(simulator.resources().servers.len(), 0);
    assert_eq!(reported(&second).await, []);
    first.stop().await;
    second.stop().await;
    drop(second);
    let began = tokio::time::Instant::now();
    let third = on_host(&server, "host-c", "ci", &simulator, here.path()).await;
    assert!(third.is_err(), "its folder is the first's, which still lives");
    drop((third, first));
    let third = on_host(&server, "host-c", "ci", &simulator, here.path()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(30), "the second left in order: nobody waits for it");
    third.stop().await;
}
