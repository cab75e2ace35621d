//! The group's state as web pages, beside the work of the real program.

use serde_json::json;
use windlass_simulator::{FaultKind, FaultRule, Options};
use windlass_test_pages::{Authority, Secrets, Viewer};

use crate::plugin::{KEY, Plugin, eventually, look, wire};

const CLOUD_INIT: &str = "#cloud-config\nchpasswd: {list: \"root:pass&word<of>first\\\"boot\"}\n";
const TOKEN: &str = "a token of the operator's: 0123456789";

fn quick() -> Options {
    Options { time_scale: 60.0, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_shows_what_it_does_to_who_has_the_token_and_no_page_shows_a_secret() {
    let plugin = Plugin::start(quick()).await;
    let token = plugin.file("token", TOKEN);
    let configuration = json!({
        "name": "ci", "zone": "fr-par-1", "server_type": ["DEV1-S"], "image": "ubuntu_noble", "cloud_init": CLOUD_INIT,
        "policies": {"retry": {"settings": {"attempts": 2}}},
        "console": {"listen": "0.0.0.0:0", "token_file": token, "allow_hosts": ["runners.example"]},
    });
    plugin.init(configuration).await.unwrap();
    let anybody = Viewer::of(&plugin.console().await);
    let viewer = anybody.clone().token(TOKEN);
    assert_eq!(look(&anybody, |viewer| viewer.status("/").unwrap()).await, 401);
    assert_eq!(look(&viewer, |viewer| viewer.clone().asking("runners.example").status("/").unwrap()).await, 200);
    assert_eq!(look(&viewer, |viewer| viewer.clone().asking("evil.example").status("/").unwrap()).await, 421);
    assert_eq!(look(&viewer, |viewer| viewer.with("origin", "http://evil.example").status("/").unwrap()).await, 403);

    // Two that are made, one that is removed, and one that fails and is undone.
    plugin.calls().increase(wire::IncreaseRequest { n: 2 }).await.unwrap();
    let running = plugin.running(2).await;
    let fault = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError);
    plugin.simulator.add_fault(fault).unwrap();
    plugin.calls().increase(wire::IncreaseRequest { n: 1 }).await.unwrap();
    plugin.running(2).await;
    plugin.simulator.clear_faults();
    plugin.calls().decrease(wire::DecreaseRequest { instances: vec![running[0].clone()] }).await.unwrap();
    plugin.running(1).await;

    let mut secrets = Secrets::new([("the API key", KEY), ("the first boot", CLOUD_INIT), ("the token", TOKEN)]);
    secrets.add("the group's key", &std::fs::read_to_string(plugin.state("ci").join("ssh_key")).unwrap());
    let pages = eventually("all of it is on the pages", async || {
        let pages = look(&viewer, |viewer| viewer.crawl().unwrap()).await;
        let operations = pages.keys().filter(|path| path.starts_with("/operations/")).count();
        let reported =
            pages.values().any(|page| page.contains("undone")) && pages["/policies"].contains("state-mapping");
        let priced = pages["/"].contains(" €</strong> an hour, by the catalogue");
        (operations >= 4 && reported && priced && !pages["/"].contains("<strong>0.0000 €")).then_some(pages)
    })
    .await;
    assert!(pages.keys().any(|path| path.starts_with("/decisions/")), "{:?}", pages.keys());
    for (path, page) in &pages {
        assert_eq!(secrets.shown_by(page), [""; 0], "{path}: {page}");
    }
    assert_eq!(secrets.shown_by(&plugin.said()), [""; 0], "in the log");
}

/// What the project allows the console in a host.
const MAX_BYTES: u64 = 20_000_000;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_who_look_at_all_pages_cost_the_plugin_little_memory_and_come_after_its_work() {
    let plugin = Plugin::start(quick()).await;
    let group = json!({
        "name": "ci", "zone": "fr-par-1", "server_type": "DEV1-S", "image": "ubuntu_noble", "console": "127.0.0.1:0",
    });
    plugin.init(group).await.unwrap();
    plugin.calls().increase(wire::IncreaseRequest { n: 20 }).await.unwrap();
    plugin.running(20).await;
    let before = plugin.resident_bytes();
    let viewer = Viewer::of(&plugin.console().await);
    let following: Vec<_> =
        futures::future::join_all((0..32).map(|_| look(&viewer, |viewer| viewer.open("/changes")))).await;
    let looking = (0..4).map(|_| look(&viewer, |viewer| viewer.crawl().unwrap().len()));
    let looking = futures::future::join_all(looking);
    let threads = eventually("pages are read", async || {
        Some(plugin.threads()).filter(|threads| threads.iter().any(|(name, _)| name == "console-reader"))
    });
    let (pages, threads) = tokio::join!(looking, threads);
    let pages: usize = pages.iter().sum();
    let (console, others): (Vec<_>, Vec<_>) = threads.into_iter().partition(|(name, _)| name.starts_with("console"));
    assert!(console.iter().all(|(_, niceness)| *niceness == 10), "{console:?}");
    let own = others.first().unwrap().1;
    assert!(own < 10 && others.iter().all(|(_, niceness)| *niceness == own), "{others:?}");
    let after = plugin.resident_bytes();
    println!("{before} bytes before, {after} after {pages} pages and {} streams of events", following.len());
    assert!(after < before + MAX_BYTES, "{before} before, {after} after");
}

#[tokio::test(flavor = "multi_thread")]
async fn macs_are_shown_without_their_passwords() {
    let plugin = Plugin::start(quick()).await;
    plugin.simulator.add_apple_silicon_pool(&"prefix=pool-,count=2,type=M4-S".parse().unwrap());
    let configuration = json!({
        "name": "macs", "kind": "apple-silicon", "server_type": "M4-S", "pool_prefix": "pool-", "zone": "fr-par-1",
        "console": "127.0.0.1:0",
    });
    plugin.init(configuration).await.unwrap();
    plugin.calls().increase(wire::IncreaseRequest { n: 2 }).await.unwrap();
    let running = plugin.running(2).await;
    let mut secrets = Secrets::new([("the API key", KEY)]);
    let connect = plugin.calls().connect_info(wire::ConnectInfoRequest { instance: running[0].clone() }).await.unwrap();
    let password = connect.into_inner().connector.unwrap().password;
    secrets.add("the Mac's password", &password);
    plugin.calls().decrease(wire::DecreaseRequest { instances: vec![running[0].clone()] }).await.unwrap();
    plugin.running(1).await;
    let viewer = Viewer::of(&plugin.console().await);
    let pages = look(&viewer, |viewer| viewer.crawl().unwrap()).await;
    assert!(pages.keys().filter(|path| path.starts_with("/operations/")).count() >= 2, "{:?}", pages.keys());
    for (path, page) in &pages {
        assert_eq!(secrets.shown_by(page), [""; 0], "{path}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_let_clients_in_and_an_open_stream_of_events_does_not_hold_the_plugin_up() {
    let plugin = Plugin::start(quick()).await;
    let (consoles, clients) = (Authority::new("consoles"), Authority::new("clients"));
    let own = consoles.server();
    let configuration = json!({
        "name": "ci", "zone": "fr-par-1", "server_type": "DEV1-S", "image": "ubuntu_noble",
        "console": {
            "listen": "127.0.0.1:0", "certificate_file": plugin.file("certificate", &own.certificate),
            "key_file": plugin.file("key", &own.key), "client_ca_file": plugin.file("ca", &clients.certificate),
        },
    });
    plugin.init(configuration).await.unwrap();
    let url = plugin.console().await;
    assert!(url.starts_with("https://"), "{url}");
    let client = clients.client();
    let viewer = Viewer::of(&url).trusting(&consoles, Some(&client));
    assert_eq!(look(&viewer, |viewer| viewer.status("/").unwrap()).await, 200);
    let stranger = Viewer::of(&url).trusting(&consoles, Some(&Authority::new("strangers").client()));
    assert!(look(&stranger, |viewer| viewer.get("/").is_err()).await);
    let mut following = look(&viewer, |viewer| viewer.open("/changes").unwrap()).await;
    plugin.leave().await;
    tokio::task::spawn_blocking(move || while following.line().unwrap_or(None).is_some() {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_cannot_be_served_refuses_the_group_and_says_why() {
    let group = |console: serde_json::Value| {
        json!({
            "name": "ci",
            "zone": "fr-par-1",
            "server_type": "DEV1-S",
            "image": "ubuntu_noble",
            "console": console,
        })
    };
    let plugin = Plugin::start(quick()).await;
    let open = plugin.init(group(json!("0.0.0.0:0"))).await.unwrap_err();
    assert!(open.contains("console: ") && open.contains("token_file"), "{open}");
    let missing =
        plugin.init(group(json!({"listen": "127.0.0.1:0", "token_file": "/nowhere/token"}))).await.unwrap_err();
    assert!(missing.contains("console: the token cannot be read: /nowhere/token"), "{missing}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = std::net::TcpListener::bind(taken).unwrap();
    let refused = plugin.init(group(json!(taken.to_string()))).await.unwrap_err();
    assert!(refused.contains("console: the console cannot be served on"), "{refused}");
    drop(held);
    // Nothing of a start that failed stands in the way of the next.
    plugin.init(group(json!(taken.to_string()))).await.unwrap();
    assert!(plugin.console().await.ends_with(&taken.to_string()));
}
