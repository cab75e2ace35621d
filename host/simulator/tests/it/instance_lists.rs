//! Lists of the Instance API: filters, order, pages.

use serde_json::json;

use crate::caller::{Caller, INSTANCE};

async fn names(caller: &Caller, query: &str) -> Vec<String> {
    let list = caller.get(&format!("{INSTANCE}/servers?{query}")).await.expect(200);
    list["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn server_types_fill_three_pages_with_totals_and_links() {
    let caller = Caller::still();
    let mut seen = Vec::new();
    for page in 1..=3 {
        let reply = caller.get(&format!("{INSTANCE}/products/servers?page={page}")).await;
        assert_eq!(reply.header("x-total-count"), Some("135"));
        assert!(reply.header("link").unwrap().ends_with("</products/servers?page=3&per_page=50&>; rel=\"last\""));
        seen.extend(reply.expect(200)["servers"].as_object().unwrap().keys().cloned());
    }
    assert_eq!(seen.len(), 135);
    assert!(seen.is_sorted() && seen.contains(&"DEV1-S".to_owned()));
    let beyond = caller.get(&format!("{INSTANCE}/products/servers?page=4")).await.expect(200);
    assert_eq!(beyond["servers"], json!({}));
}

#[tokio::test]
async fn lists_come_newest_first_and_in_pages() {
    let caller = Caller::still();
    for name in ["one", "two", "three"] {
        caller.server(json!({"name": name})).await;
    }
    assert_eq!(names(&caller, "").await, ["three", "two", "one"]);
    assert_eq!(names(&caller, "order=creation_date_asc").await, ["one", "two", "three"]);
    assert_eq!(names(&caller, "per_page=2&page=2").await, ["one"]);
    caller.get(&format!("{INSTANCE}/servers?per_page=101")).await.expect(400);
    caller.get(&format!("{INSTANCE}/servers?order=random")).await.expect(400);
}

#[tokio::test]
async fn filters_narrow_and_several_tags_must_all_be_there() {
    let caller = Caller::still();
    caller.server(json!({"name": "web-1", "tags": ["a"]})).await;
    let second = caller.server(json!({"name": "web-2", "tags": ["a", "b"]})).await;
    caller.server(json!({"name": "db-1", "commercial_type": "DEV1-M", "tags": ["b"]})).await;
    assert_eq!(names(&caller, "name=web").await, ["web-2", "web-1"]);
    assert_eq!(names(&caller, "tags=a").await, ["web-2", "web-1"]);
    assert_eq!(names(&caller, "tags=a%2Cb").await, ["web-2"]);
    assert_eq!(names(&caller, "tags=a&tags=b").await, ["web-2"]);
    assert_eq!(names(&caller, "commercial_type=DEV1-M").await, ["db-1"]);
    assert_eq!(names(&caller, &format!("servers={second}")).await, ["web-2"]);
    assert_eq!(names(&caller, "state=running").await, Vec::<String>::new());
    assert_eq!(names(&caller, "project=00000000-0000-4000-8000-000000000000").await, Vec::<String>::new());
}

#[tokio::test]
async fn zones_do_not_see_each_other() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let elsewhere = "/instance/v1/zones/nl-ams-1/servers";
    assert_eq!(caller.get(elsewhere).await.expect(200), json!({"servers": []}));
    caller.get(&format!("{elsewhere}/{id}")).await.expect(404);
    caller.delete(&format!("{elsewhere}/{id}")).await.expect(404);
    assert_eq!(caller.simulator.resources().servers.len(), 1);
}
