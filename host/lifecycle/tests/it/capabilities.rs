//! What policies can look up on Scaleway: asked by a policy, and asked directly, against the simulator.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_lifecycle::{Control, StateDirectory, scaleway_capabilities};
use windlass_policy::slots::SlotName;
use windlass_policy::{CallContext, Compiler, Host, HostOptions, Link, Policies};
use windlass_simulator::{FaultKind, FaultRule};
use windlass_test_guests::STOCK_AWARE_RETRY;

use crate::support::{World, run};

/// One call of a capability that was granted with `arguments`.
async fn call(world: &World, interface: &str, arguments: &str, function: &str, values: Vec<Value>) -> Value {
    let capabilities = scaleway_capabilities(&world.client);
    let capability = capabilities.iter().find(|capability| capability.interface() == interface).unwrap();
    let granted = capability.accept_grants(&[arguments.to_owned()]).unwrap();
    let context = CallContext { time_left: Duration::from_secs(5), bytes_left: 1 << 20 };
    granted.call(context, function, values).await.unwrap()
}

#[test]
fn a_retry_policy_looks_the_stock_up_and_waits_where_the_default_gives_up() {
    run(async {
        for granted in [false, true] {
            let world = World::new(61).await;
            let folder = tempfile::tempdir().unwrap();
            let state = StateDirectory::open(folder.path()).unwrap();
            let mut options = HostOptions::new(state.handle().try_clone().unwrap());
            options.compiler = Some(Compiler::this_process());
            for capability in scaleway_capabilities(&world.client) {
                options = options.with_capability(capability);
            }
            let host = std::sync::Arc::new(Host::new(options).unwrap());
            if granted {
                let link = Link::bytes(STOCK_AWARE_RETRY.bytes).with_grant("windlass:scaleway/look-ups");
                host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
            }
            let lifecycle = world.start_under(host);
            let sold_out = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::OutOfStock).nth(1);
            world.simulator.add_fault(sold_out).unwrap();
            let created = lifecycle.create_server(world.everything(), &Control::new()).await;
            let asked = world.simulator.requests().iter().any(|request| request.path.ends_with("/availability"));
            assert_eq!((created.is_ok(), asked), (granted, granted));
            if granted {
                world.assert_complete("the stock was there again").await;
            } else {
                world.assert_empty("given up");
            }
        }
    });
}

#[test]
fn a_look_up_answers_in_the_words_of_the_contract() {
    run(async {
        let world = World::new(62).await;
        let look_ups = "windlass:scaleway/look-ups";
        let types = call(&world, look_ups, "", "server-types", vec![json!("fr-par-1"), json!(["DEV1-S"])]).await;
        let (list, only) = (&types["ok"]["server-types"], &types["ok"]["server-types"][0]);
        assert_eq!((list.as_array().unwrap().len(), &only["name"]), (1, &json!("DEV1-S")));
        assert_eq!((&only["stock"], &only["architecture"]), (&json!("available"), &json!("x86_64")));
        assert_eq!(only["hourly-price"], json!({"currency": "EUR", "micros": 8_976}));
        assert_eq!(types["ok"]["complete"], true);
        let servers = call(&world, look_ups, "", "list-servers", vec![json!("fr-par-1"), json!([])]).await;
        assert_eq!(servers, json!({"ok": {"servers": [], "complete": true}}));
        for id in ["00000000-0000-4000-8000-000000000000", "../../iam"] {
            let missing = call(&world, look_ups, "", "get-server", vec![json!("fr-par-1"), json!(id)]).await;
            assert_eq!(missing, json!({"err": "not-found"}), "{id}");
        }
        let nowhere = call(&world, look_ups, "", "list-servers", vec![json!("nowhere"), json!([])]).await;
        assert!(nowhere["err"]["failed"].as_str().unwrap().contains("zone"), "{nowhere}");
    });
}

#[test]
fn the_generic_request_sends_what_was_granted_and_names_the_grant_that_is_missing() {
    run(async {
        let world = World::new(63).await;
        let request = "windlass:scaleway/request";
        let grant = "GET /instance/v1/zones/*/products/**";
        let send = |method: &str, path: &str| vec![json!({"method": method, "path": path, "body": null})];
        let products = "/instance/v1/zones/fr-par-1/products/servers/availability?per_page=100";
        let answer = call(&world, request, grant, "send", send("GET", products)).await;
        assert_eq!(answer["ok"]["status"], 200, "{answer}");
        assert!(answer["ok"]["body"].as_str().unwrap().contains("DEV1-S"));
        let before = world.simulator.requests().len();
        let servers = "/instance/v1/zones/fr-par-1/servers";
        let refused = call(&world, request, grant, "send", send("GET", servers)).await;
        let words = refused["err"]["not-granted"].as_str().unwrap();
        assert!(words.contains(&format!("\"{request} GET {servers}\"")), "{words}");
        for (grant, method, path) in [
            ("GET,POST /**", "POST", servers.to_owned()),
            ("GET /**", "DELETE", servers.to_owned()),
            ("GET /**", "GET", format!("{servers}/11111111-1111-4111-8111-111111111111/user_data/cloud-init")),
            ("GET /**", "GET", "//elsewhere.example/".to_owned()),
        ] {
            let refused = call(&world, request, grant, "send", send(method, &path)).await;
            assert!(refused["err"]["not-granted"].is_string(), "{method} {path}: {refused}");
        }
        assert_eq!(world.simulator.requests().len(), before, "nothing was sent");
    });
}
