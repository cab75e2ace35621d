//! Whatever is asked in whatever order: an answer comes, and what exists fits together.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_simulator::Options;

use crate::caller::{BLOCK, Caller, INSTANCE};

/// One step: which endpoint, which of the existing resources, which variation.
type Step = (u8, u8, u8);

fn picked(list: &[Value], pick: u8) -> String {
    let unknown = || "5c1a0d5e-0000-4000-8000-000000000000".to_owned();
    match list.len() {
        0 => unknown(),
        // Now and then something that does not exist.
        len => {
            list.get(usize::from(pick) % (len + 1)).map_or_else(unknown, |item| item["id"].as_str().unwrap().to_owned())
        }
    }
}

async fn take(caller: &Caller, image: &str, (endpoint, pick, variation): Step) {
    let now = caller.simulator.resources();
    let server = format!("{INSTANCE}/servers/{}", picked(&now.servers, pick));
    let ip = picked(&now.ips, variation);
    let volume = picked(&now.volumes, variation);
    let actions = ["poweron", "poweroff", "stop_in_place", "reboot", "terminate", "backup", "nonsense"];
    let action = actions[usize::from(variation) % actions.len()];
    let flag = variation % 2 == 0;
    let (method, path, body) = match endpoint % 16 {
        0 | 1 => {
            let ips = if flag { json!([ip]) } else { json!([]) };
            let kind = if variation % 3 == 0 { "l_ssd" } else { "sbs_volume" };
            let volumes = json!({"0": {"volume_type": kind, "size": 10_000_000_000_u64}});
            let request = json!({"name": "s", "commercial_type": "DEV1-S", "image": image, "public_ips": ips,
                                 "dynamic_ip_required": flag, "volumes": volumes});
            (Method::POST, format!("{INSTANCE}/servers"), request)
        }
        2..=5 => (Method::POST, format!("{server}/action"), json!({"action": action})),
        6 => (Method::DELETE, server, json!({})),
        7 => (Method::POST, format!("{INSTANCE}/ips"), if flag { json!({"type": "routed_ipv6"}) } else { json!({}) }),
        8 => {
            let target = if flag { json!(picked(&now.servers, pick)) } else { Value::Null };
            let tags = [variation.to_string()];
            (Method::PATCH, format!("{INSTANCE}/ips/{ip}"), json!({"server": target, "tags": tags}))
        }
        9 => (Method::DELETE, format!("{INSTANCE}/ips/{ip}"), json!({})),
        10 => (Method::POST, format!("{server}/attach-volume"), json!({"volume_id": volume})),
        11 => (Method::POST, format!("{server}/detach-volume"), json!({"volume_id": volume})),
        12 => {
            let api = if flag { BLOCK } else { INSTANCE };
            (Method::DELETE, format!("{api}/volumes/{volume}"), json!({}))
        }
        13 => {
            let volumes = if flag { json!({}) } else { json!({"0": {"id": volume}}) };
            (Method::PATCH, server, json!({"volumes": volumes, "public_ips": [ip], "name": "renamed"}))
        }
        14 => {
            caller.simulator.advance(Duration::from_secs(u64::from(variation)));
            (Method::GET, format!("{INSTANCE}/servers"), json!({}))
        }
        _ => {
            let request = json!({"name": "v", "from_empty": {"size": 1_000_000_000}});
            (Method::POST, format!("{BLOCK}/volumes"), request)
        }
    };
    let reply = caller.send(method, &path, body.to_string().into()).await.unwrap();
    assert!(reply.status.as_u16() < 500, "{path}: {} {}", reply.status, reply.json);
}

/// Each tie between two resources is seen from both of its ends.
fn assert_consistent(caller: &Caller) {
    let now = caller.simulator.resources();
    let find = |list: &[Value], id: &Value| list.iter().find(|item| &item["id"] == id).cloned();
    for server in &now.servers {
        for ip in server["public_ips"].as_array().unwrap().iter().filter(|ip| ip["dynamic"] == false) {
            let ip = find(&now.ips, &ip["id"]).unwrap_or_else(|| panic!("{server} shows an IP that is gone"));
            assert_eq!(ip["server"]["id"], server["id"], "{ip}");
        }
        for volume in server["volumes"].as_object().unwrap().values() {
            let volume = find(&now.volumes, &volume["id"]).unwrap_or_else(|| panic!("{server} shows a lost volume"));
            let holder = if volume["references"].is_array() {
                &volume["references"][0]["product_resource_id"]
            } else {
                &volume["server"]["id"]
            };
            assert_eq!(holder, &server["id"], "{volume}");
        }
    }
    for ip in now.ips.iter().filter(|ip| !ip["server"].is_null()) {
        let server = find(&now.servers, &ip["server"]["id"]).unwrap_or_else(|| panic!("{ip} is on no server"));
        let shown = server["public_ips"].as_array().unwrap().iter().any(|shown| shown["id"] == ip["id"]);
        assert!(shown || server["state_detail"] == "terminating", "{server} hides {ip}");
    }
}

/// A list shows every change at once.
async fn assert_listed(caller: &Caller) {
    let listed = caller.get(&format!("{INSTANCE}/servers?per_page=100&order=creation_date_asc")).await.expect(200);
    assert_eq!(listed["servers"].as_array(), Some(&caller.simulator.resources().servers));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_calls_leaves_a_world_that_fits_together(
        seed in any::<u64>(),
        steps in prop::collection::vec(any::<Step>(), 1..60),
    ) {
        runtime().block_on(async {
            let caller = Caller::of(Options { time_scale: 0.0, seed, ..Options::default() });
            let image = caller.image().await;
            for step in steps {
                take(&caller, &image, step).await;
                assert_consistent(&caller);
                assert_listed(&caller).await;
            }
        });
    }

    #[test]
    fn any_bytes_are_answered(
        method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
        api in prop::sample::select(vec![
            "/instance/v1/zones/fr-par-1", "/instance/v2alpha1/zones/fr-par-1", "/block/v1/zones/fr-par-1",
            "/apple-silicon/v1alpha1/zones/fr-par-1", "/ipam/v1/regions/fr-par", "/vpc/v2/regions/fr-par",
            "/iam/v1alpha1", "/marketplace/v2", "/_simulator", "",
        ]),
        path in "(/(servers|ips|volumes|snapshots|security_groups|placement_groups|private-networks|vpcs|ssh-keys|local-images|faults|clock|[a-z%0-9]{0,5})){0,3}",
        query in "(\\?([a-z_]{1,8}=[a-z0-9,%-]{0,6}&?){0,3})?",
        body in prop_oneof![
            any::<Vec<u8>>(),
            "\\{(\"(name|size|volumes|type|project|tags|action|source)\": ?(1|-1|null|\"x\"|\\[\\]|\\{\\}|true),?){0,4}\\}".prop_map(String::into_bytes),
        ],
    ) {
        let path = format!("{api}{path}{query}");
        prop_assume!(path.starts_with('/') && path.parse::<http::Uri>().is_ok());
        runtime().block_on(async {
            let caller = Caller::still();
            let method: Method = method.parse().unwrap();
            let reply = caller.send(method, &path, Bytes::from(body)).await.unwrap();
            assert!(reply.status.as_u16() < 500, "{path}: {}", reply.status);
        });
    }
}
