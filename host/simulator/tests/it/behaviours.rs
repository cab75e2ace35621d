//! A Scaleway that differs from what is believed of it, one belief at a time.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_simulator::{AppleSilicon, AppleSiliconPool, Behaviour, Options};

use crate::caller::{BLOCK, Caller, INSTANCE};

const MACS: &str = "/apple-silicon/v1alpha1/zones/fr-par-1/servers";
const TAG: &str = "owner=ci";

/// A caller of a simulator in which these beliefs do not hold.
fn caller_of(behaviours: &[&str]) -> Caller {
    let behaviours = behaviours.iter().map(|text| text.parse().unwrap()).collect();
    let pool = AppleSiliconPool::new("ci-", 2, "M4-S").unwrap().with_ages([Duration::from_secs(48 * 3_600)]);
    let apple_silicon = AppleSilicon { pools: vec![pool], ..AppleSilicon::default() };
    Caller::of(Options { time_scale: 0.0, behaviours, apple_silicon, ..Options::default() })
}

/// One of everything that has tags, with `TAG` and `plain`, and one without tags.
async fn tagged_and_not(caller: &Caller) {
    for tags in [json!([TAG, "plain"]), json!([])] {
        caller.ip(json!({"tags": tags})).await;
        caller.server(json!({"tags": tags})).await;
        let volume = json!({"name": "l", "volume_type": "l_ssd", "size": 1_000_000_000, "tags": tags});
        caller.post(&format!("{INSTANCE}/volumes"), volume).await.expect(201);
        let volume = json!({"name": "b", "from_empty": {"size": 1_000_000_000}, "tags": tags});
        caller.post(&format!("{BLOCK}/volumes"), volume).await.expect(200);
    }
}

/// How many of each such list are shown, and how many its total says there are.
async fn counts(caller: &Caller, query: &str) -> Vec<(usize, usize)> {
    let mut counts = Vec::new();
    for (path, key) in [
        (format!("{INSTANCE}/ips"), "ips"),
        (format!("{INSTANCE}/servers"), "servers"),
        (format!("{INSTANCE}/volumes"), "volumes"),
        (format!("{BLOCK}/volumes"), "volumes"),
    ] {
        let reply = caller.get(&format!("{path}?{query}")).await;
        let total = reply.header("x-total-count").map(str::to_owned);
        let body = reply.expect(200);
        let total = total.unwrap_or_else(|| body["total_count"].to_string());
        counts.push((body[key].as_array().unwrap().len(), total.parse().unwrap()));
    }
    counts
}

/// The same number in every list, but for Block Storage, where both servers have a volume without tags, too.
fn each(count: usize, block: usize) -> Vec<(usize, usize)> {
    [count, count, count, block].map(|count| (count, count)).to_vec()
}

#[tokio::test]
async fn without_behaviours_a_filter_by_tags_finds_what_carries_them() {
    let caller = caller_of(&[]);
    tagged_and_not(&caller).await;
    assert_eq!(counts(&caller, "").await, each(2, 4));
    assert_eq!(counts(&caller, &format!("tags={TAG}")).await, each(1, 1));
    assert_eq!(caller.simulator.behaviours(), []);
}

#[tokio::test]
async fn filters_by_tags_fail_in_each_of_their_ways() {
    let project = Options::default().default_project;
    let with_project = format!("tags={TAG}&project={project}&project_id={project}");
    let all = each(2, 4);
    let (one, none) = (each(1, 1), each(0, 0));
    let by_tag = format!("tags={TAG}");
    for (behaviour, query, expected) in [
        ("tag-filter-ignored", by_tag.as_str(), &all),
        ("tag-filter-ignored", "tags=nobody", &all),
        ("tag-filter-empty", &by_tag, &none),
        ("tag-filter-empty", "", &all),
        ("tag-filter-without-equals", &by_tag, &none),
        ("tag-filter-without-equals", "tags=plain", &one),
        ("tag-filter-needs-project", &by_tag, &none),
        ("tag-filter-needs-project", &with_project, &one),
        ("tag-filter-needs-project", "", &all),
    ] {
        let caller = caller_of(&[behaviour]);
        tagged_and_not(&caller).await;
        assert_eq!(&counts(&caller, query).await, expected, "{behaviour} {query}");
    }
}

#[tokio::test]
async fn totals_are_those_without_the_filter_or_one_too_many() {
    let by_tag = format!("tags={TAG}&per_page=1&page_size=1");
    for (behaviour, query, expected) in [
        ("unfiltered-total", by_tag.as_str(), [(1, 2), (1, 2), (1, 2), (1, 4)]),
        ("unfiltered-total", "", [(2, 2), (2, 2), (2, 2), (4, 4)]),
        ("total-off", &by_tag, [(1, 2), (1, 2), (1, 2), (1, 2)]),
        ("total-off", "", [(2, 3), (2, 3), (2, 3), (4, 5)]),
    ] {
        let caller = caller_of(&[behaviour]);
        tagged_and_not(&caller).await;
        assert_eq!(counts(&caller, query).await, expected, "{behaviour} {query}");
    }
}

#[tokio::test]
async fn something_new_is_there_by_its_id_before_lists_show_it() {
    let caller = caller_of(&["late-listing:5000"]);
    tagged_and_not(&caller).await;
    let ip = caller.simulator.resources().ips[0]["id"].as_str().unwrap().to_owned();
    caller.simulator.advance(Duration::from_millis(4_990));
    assert_eq!(counts(&caller, "").await, each(0, 0));
    caller.get(&format!("{INSTANCE}/ips/{ip}")).await.expect(200);
    // Creations of one moment are a microsecond apart.
    caller.simulator.advance(Duration::from_millis(11));
    assert_eq!(counts(&caller, "").await, each(2, 4));
    // What is older than the simulation was listed all the time.
    assert_eq!(caller.get(MACS).await.expect(200)["total_count"], 2);
}

#[tokio::test]
async fn a_narrowed_key_sees_neither_in_lists_nor_by_id_what_it_may_not() {
    let caller = caller_of(&[]);
    tagged_and_not(&caller).await;
    let now = caller.simulator.resources();
    let (ip, mac) = (&now.ips[0], &now.apple_silicon_servers[0]);
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let address = ip["address"].as_str().unwrap();
    for (word, status) in [("unlisted", 404), ("forbidden", 403)] {
        for hidden in [id(ip), id(mac)] {
            caller.post("/_simulator/behaviours", json!(format!("{word}:{hidden}"))).await.expect(201);
        }
        assert_eq!(counts(&caller, "").await[0], (1, 1));
        assert_eq!(caller.get(MACS).await.expect(200)["total_count"], 1);
        for path in [format!("{INSTANCE}/ips/{}", id(ip)), format!("{INSTANCE}/ips/{address}")] {
            let refusal = caller.get(&path).await.expect(status);
            assert_eq!(refusal["type"], if status == 404 { "not_found" } else { "permissions_denied" });
            caller.delete(&path).await.expect(status);
        }
        // A Mac that is gone is 403 as well.
        caller.get(&format!("{MACS}/{}", id(mac))).await.expect(403);
        caller.delete(&format!("{MACS}/{}", id(mac))).await.expect(403);
    }
    caller.delete("/_simulator/behaviours").await.expect(204);
    assert_eq!(caller.simulator.resources(), now, "nothing of it was touched");
    caller.get(&format!("{INSTANCE}/ips/{}", id(ip))).await.expect(200);
}

#[tokio::test]
async fn an_address_that_is_gone_is_forbidden_and_nothing_else_is() {
    let caller = caller_of(&["gone-forbidden"]);
    let ip = caller.ip(json!({})).await;
    let path = format!("{INSTANCE}/ips/{ip}");
    caller.get(&path).await.expect(200);
    caller.delete(&path).await.expect(204);
    for reply in [caller.get(&path).await, caller.delete(&path).await, caller.patch(&path, json!({})).await] {
        assert_eq!(reply.expect(403)["type"], "permissions_denied");
    }
    caller.get(&format!("{INSTANCE}/servers/{ip}")).await.expect(404);
}

async fn mac(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("{MACS}/{id}")).await.expect(200)
}

#[tokio::test]
async fn a_late_rename_is_answered_and_read_later_and_the_last_one_counts() {
    let caller = caller_of(&["late-rename:3000"]);
    let id = caller.simulator.resources().apple_silicon_servers[0]["id"].as_str().unwrap().to_owned();
    let before = mac(&caller, &id).await["name"].clone();
    for name in ["one", "two"] {
        let answer = caller.patch(&format!("{MACS}/{id}"), json!({"name": name})).await.expect(200);
        assert_eq!(answer["name"], name);
        caller.advance(1);
    }
    assert_eq!(mac(&caller, &id).await["name"], before);
    // Each is there for as long as no other has come: a look in between believes it.
    for name in ["one", "two", "two"] {
        caller.advance(1);
        assert_eq!(mac(&caller, &id).await["name"], name);
    }
}

#[tokio::test]
async fn a_late_reinstall_leaves_a_host_ready_and_wipes_it_under_the_name_it_then_has() {
    let caller = caller_of(&["late-reinstall:10000"]);
    let id = caller.simulator.resources().apple_silicon_servers[0]["id"].as_str().unwrap().to_owned();
    let answer = caller.post(&format!("{MACS}/{id}/reinstall"), json!({})).await.expect(200);
    assert_eq!(answer["status"], "ready");
    caller.advance(9);
    let host = mac(&caller, &id).await;
    assert_eq!(host["status"], "ready");
    assert_eq!(caller.simulator.resources().apple_silicon_servers[0]["simulator"]["reinstalls"], 0);
    caller.patch(&format!("{MACS}/{id}"), json!({"name": "in-use"})).await.expect(200);
    caller.advance(1);
    let host = mac(&caller, &id).await;
    assert_eq!(host["status"], "reinstalling");
    let known = caller.simulator.resources().apple_silicon_servers;
    let known = known.iter().find(|host| host["id"] == id.as_str()).unwrap();
    assert_eq!(known["simulator"]["wiped"], json!([{"at_ms": 10_000, "name": "in-use"}]));
    caller.advance(20 * 60);
    assert_eq!(mac(&caller, &id).await["status"], "ready");
}

#[tokio::test]
async fn user_data_is_answered_with_a_body_and_written_all_the_same() {
    let caller = caller_of(&["user-data-body"]);
    let id = caller.server(json!({})).await;
    let path = format!("{INSTANCE}/servers/{id}/user_data/cloud-init");
    let reply = caller.send(Method::PATCH, &path, Bytes::from_static(b"#cloud-config")).await.unwrap();
    assert!(!reply.body.is_empty());
    reply.expect(200);
    assert_eq!(caller.get(&path).await.body, "#cloud-config");
}

#[tokio::test]
async fn a_type_without_a_price_has_0_in_both_catalogues_and_every_other_keeps_its_own() {
    let caller = caller_of(&["unpriced:DEV1-S", "unpriced:PLAY2-PICO"]);
    let types = caller.get("/instance/v1/zones/pl-waw-1/products/servers").await.expect(200);
    let catalog = "/product-catalog/v2alpha1/public-catalog/products?zone=pl-waw-1&page_size=1000";
    let products = caller.get(catalog).await.expect(200);
    let of_product = |name: &str| {
        let product = products["products"].as_array().unwrap().iter().find(|product| product["product"] == name);
        let price = &product.unwrap()["price"]["retail_price"];
        price["units"] != 0 || price["nanos"] != 0
    };
    for (name, kind) in types["servers"].as_object().unwrap() {
        let has_price = !["DEV1-S", "PLAY2-PICO"].contains(&name.as_str());
        let hourly = kind["hourly_price"].as_f64().unwrap() > 0.0;
        let monthly = kind["monthly_price"].as_f64().unwrap() > 0.0;
        assert_eq!((hourly, monthly, of_product(name)), (has_price, has_price, has_price), "{name}");
    }
}

#[tokio::test]
async fn behaviours_are_set_shown_and_removed_over_http_and_wrong_ones_name_the_valid() {
    let caller = caller_of(&["total-off"]);
    let path = "/_simulator/behaviours";
    caller.post(path, json!("late-listing:5")).await.expect(201);
    let set = caller.post(path, json!(["tag-filter-empty", "late-listing:7"])).await.expect(201);
    assert_eq!(set, json!(["total-off", "tag-filter-empty", "late-listing:7"]));
    assert_eq!(caller.get(path).await.expect(200), set);
    let late = Behaviour::LateListing(Duration::from_millis(7));
    assert_eq!(caller.simulator.behaviours(), [Behaviour::TotalOff, Behaviour::TagFilterEmpty, late]);
    for (body, hint) in [
        (json!("total-on"), "gone-forbidden"),
        (json!(["user-data-body", "late-listing:x"]), "late-listing:<ms>"),
        (json!({"behaviour": "total-off"}), "string"),
        (json!(1), "string"),
    ] {
        let message = caller.post(path, body.clone()).await.expect(400)["message"].to_string();
        assert!(message.contains(hint), "{body}: {message}");
    }
    assert_eq!(caller.get(path).await.expect(200), set, "a list with a wrong one sets none");
    caller.delete(path).await.expect(204);
    assert_eq!(caller.get(path).await.expect(200), json!([]));
    for number in 0..1_000_u32 {
        let id = uuid::Uuid::from_u128(number.into());
        caller.simulator.set_behaviour(format!("unlisted:{id}").parse().unwrap()).unwrap();
    }
    let error = caller.simulator.set_behaviour(Behaviour::TotalOff).unwrap_err().to_string();
    assert!(error.contains("1000"), "{error}");
}
