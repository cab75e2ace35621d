//! Plugin processes of several hosts, with one PostgreSQL.

use serde_json::json;
use windlass_simulator::Options;
use windlass_test_postgres::Server;

use crate::plugin::Plugin;

#[tokio::test(flavor = "multi_thread")]
async fn the_group_of_a_plugin_that_was_killed_goes_on_at_another_host() {
    let Some(server) = Server::start() else { return };
    let url = server.url("runners");
    let mut first = Plugin::start(Options { time_scale: 60.0, ..Options::default() }).await;
    let second = first.start_beside(&[("WINDLASS_STATE", &url)]).await;
    let configuration = json!({
        "name": "ci", "zone": "fr-par-1", "server_type": "DEV1-S", "image": "ubuntu_noble", "state": url,
    });
    first.init(configuration.clone()).await.unwrap();
    first.calls().increase(crate::plugin::wire::IncreaseRequest { n: 2 }).await.unwrap();
    let ids = first.running(2).await;
    first.kill();
    server.expire("runners_ci");
    // This one has the database from its environment.
    let mut without = configuration;
    without.as_object_mut().unwrap().remove("state");
    second.init(without).await.unwrap();
    let mut found = second.running(2).await;
    found.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(found, ids);
    second.leave().await;
}
