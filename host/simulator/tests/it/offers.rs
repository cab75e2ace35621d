//! Offers: what server types cost, whether there are any, and how they start, by zone and over time.

use std::time::Duration;

use serde_json::json;
use windlass_simulator::{Availability, Offer, Options, Span};

use crate::caller::{Caller, INSTANCE};

const OTHER: &str = "/instance/v1/zones/fr-par-2";

fn in_zone(zone: &str) -> Offer {
    Offer { zone: Some(zone.to_owned()), ..Offer::default() }
}

#[tokio::test]
async fn a_price_and_a_shortage_are_those_of_their_zone_and_the_last_offer_decides() {
    let caller = Caller::still();
    let dev1_s = |offer: Offer| Offer { server_type: Some("DEV1-S".to_owned()), ..offer };
    caller.simulator.set_offers(vec![
        Offer { hourly_price: Some(1.5), ..Offer::default() },
        dev1_s(Offer { hourly_price: Some(0.5), availability: Some(Availability::Shortage), ..in_zone("fr-par-1") }),
    ]);
    let shown = async |path: &str, name: &str| {
        for page in 1..=3 {
            let types = caller.get(&format!("{path}?per_page=100&page={page}")).await.expect(200);
            if let Some(found) = types["servers"].get(name) {
                return found.clone();
            }
        }
        panic!("{path} has no {name}");
    };
    for (zone, price, stock) in [(INSTANCE, 0.5, "shortage"), (OTHER, 1.5, "available")] {
        let products = format!("{zone}/products/servers");
        assert_eq!(shown(&products, "DEV1-S").await["hourly_price"], price);
        assert_eq!(shown(&products, "DEV1-M").await["hourly_price"], 1.5);
        assert_eq!(shown(&format!("{products}/availability"), "DEV1-S").await["availability"], stock);
    }
    let create = async |zone: &str| {
        let image = caller.image_in(zone, "instance_sbs").await;
        let request = json!({"name": "a", "commercial_type": "DEV1-S", "image": image, "volumes": {}});
        caller.post(&format!("/instance/v1/zones/{zone}/servers"), request).await
    };
    assert_eq!(create("fr-par-1").await.expect(503)["type"], "out_of_stock");
    create("fr-par-2").await.expect(201);
    caller.simulator.set_offers(Vec::new());
    create("fr-par-1").await.expect(201);
}

/// After how many seconds each of some servers runs; none where it is stopped again.
async fn boots(caller: &Caller, count: usize) -> Vec<Option<u64>> {
    let mut boots = Vec::new();
    for _ in 0..count {
        let id = caller.server(json!({})).await;
        caller.post(&format!("{INSTANCE}/servers/{id}/action"), json!({"action": "poweron"})).await.expect(202);
        let mut seconds = 0;
        loop {
            let state = caller.get(&format!("{INSTANCE}/servers/{id}")).await.expect(200)["server"]["state"].clone();
            if state != "starting" {
                boots.push((state == "running").then_some(seconds));
                break;
            }
            caller.simulator.advance(Duration::from_secs(1));
            seconds += 1;
        }
    }
    boots
}

#[tokio::test]
async fn servers_start_within_their_span_as_the_seed_says_and_slower_where_that_is_offered() {
    let caller = |seed| Caller::of(Options { time_scale: 0.0, seed, ..Options::default() });
    let span = Span { shortest: Duration::from_secs(20), longest: Duration::from_secs(60) };
    let offer = Offer { boot: Some(span), ..in_zone("fr-par-1") };
    let drawn = async |seed, offers: Vec<Offer>| {
        let caller = caller(seed);
        caller.simulator.set_offers(offers);
        boots(&caller, 6).await.into_iter().map(Option::unwrap).collect::<Vec<u64>>()
    };
    let usual = drawn(1, vec![offer.clone()]).await;
    assert!(usual.iter().all(|seconds| (20..=61).contains(seconds)), "{usual:?}");
    assert!(usual.iter().any(|seconds| *seconds != usual[0]), "{usual:?}");
    assert_eq!(drawn(1, vec![offer.clone()]).await, usual);
    assert_ne!(drawn(2, vec![offer.clone()]).await, usual);
    let slow = drawn(1, vec![offer, Offer { slowdown: Some(3.0), ..Offer::default() }]).await;
    assert!(slow.iter().zip(&usual).all(|(slow, usual)| slow.abs_diff(3 * usual) <= 3), "{slow:?} {usual:?}");
}

#[tokio::test]
async fn a_share_of_servers_is_stopped_again_instead_of_running() {
    let caller = Caller::still();
    let half = Offer { failed_boots: Some(0.5), ..Offer::default() };
    caller.simulator.set_offers(vec![half]);
    let boots = boots(&caller, 20).await;
    let failed = boots.iter().filter(|boot| boot.is_none()).count();
    assert!((4..=16).contains(&failed), "{boots:?}");
}

#[tokio::test]
async fn macs_are_reinstalled_within_the_span_of_an_offer_and_a_share_of_them_breaks() {
    let caller = Caller::still();
    let pool = windlass_simulator::AppleSiliconPool::new("ci-", 20, "M4-S").unwrap();
    let ids = caller.simulator.add_apple_silicon_pool(&pool);
    let seconds = |seconds| Duration::from_secs(seconds);
    let reinstall = Some(Span { shortest: seconds(100), longest: seconds(200) });
    caller.simulator.set_offers(vec![Offer {
        reinstall,
        slowdown: Some(2.0),
        failed_boots: Some(0.5),
        ..Offer::default()
    }]);
    for id in &ids {
        let path = format!("/apple-silicon/v1alpha1/zones/fr-par-1/servers/{id}/reinstall");
        caller.post(&path, json!({})).await.expect(200);
    }
    let in_state = |state: &str| {
        let hosts = caller.simulator.resources().apple_silicon_servers;
        hosts.iter().filter(|host| host["status"] == state).count()
    };
    caller.simulator.advance(seconds(199));
    assert_eq!(in_state("reinstalling"), 20);
    caller.simulator.advance(seconds(202));
    assert_eq!(in_state("ready") + in_state("error"), 20);
    assert!((4..=16).contains(&in_state("error")), "{}", in_state("error"));
    let counted = caller.simulator.server_counts(|name| name != "other");
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), [(("fr-par-1".to_owned(), "M4-S".to_owned()), 20)]);
}
