//! What a person sees at one look, and what a search finds.

use windlass_console::{Access, Console, Prices};
use windlass_lifecycle::StateDirectory;

use crate::world::{World, get_of};
use crate::{encoded, references};

fn access() -> Access {
    Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_counts_what_was_created_what_failed_and_why() {
    let world = World::new().await;
    let page = world.get("/").await.text;
    assert!(page.contains("Nothing happened.") && !page.contains("<svg"), "nothing happened: {page}");
    world.create(2).await;
    let failed = world.create_and_fail().await;
    let prices = Prices::new();
    prices.set("fr-par-1", [("DEV1-S".to_owned(), 0.25)]);
    let page = get_of(&Console::new(world.state(), access()).with_prices(prices).router(), "/").await.text;
    for words in [
        "2 created, 1 failed or cancelled; at most 2 and 1 in an hour",
        "1 × power-on: internal server error",
        "now 2 running, 0 creating, 0 removing; at most 2 at a time",
        "now 0.5000 € an hour; at most 0.5000 € at a time",
        "A day at this rate: 12.00 €",
        "Decisions by policy",
        "Decisions by verdict",
        "give up",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let links = references(&page);
    for link in [&format!("/operations/{failed}"), "/operations?group=ci", "/decisions?policy=windlass-guest-retry"] {
        assert!(links.contains(link), "{link}: {links:?}");
    }
    // Each plot has words of its own for those who do not see it.
    assert_eq!(page.matches("role=\"img\"").count(), page.matches("<desc").count());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_incident_is_marked_in_its_hour_and_linked_to_what_it_is_about() {
    let world = World::new().await;
    world.create(1).await;
    let page = world.get("/").await.text;
    assert!(page.contains("No incidents.") && !page.contains("class=\"marks\""), "{page}");
    let failed = world.create_and_fail().await;
    let marks = |page: &str| {
        let (_, rest) = page.split_once("class=\"marks\"").unwrap();
        rest.split_once("</figure>").unwrap().0.to_owned()
    };
    let page = world.get("/").await.text;
    assert!(marks(&page).contains(&format!("href=\"/operations/{failed}\"")), "{}", marks(&page));
    assert!(page.contains("class=\"incident\""), "{page}");
    // Several of one hour are listed below.
    let left = world.create_and_leave().await;
    let page = world.get("/").await.text;
    for link in references(&marks(&page)) {
        match link.strip_prefix('#') {
            Some(id) => assert!(page.contains(&format!("id=\"{id}\"")), "{link}: {page}"),
            // They are of two hours.
            None => assert!([&failed, &left].iter().any(|id| link.ends_with(&***id)), "{link}"),
        }
    }
    let (_, listed) = page.split_once("id=\"incidents\"").unwrap();
    let listed = references(listed.split_once("</table>").unwrap().0);
    for id in [failed, left] {
        assert!(listed.contains(&format!("/operations/{id}")), "{id}: {listed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_listed_and_nothing_else_is() {
    let world = World::new().await;
    world.create(1).await;
    let needs = |page: &str| {
        let (_, rest) = page.split_once("Needs your attention").unwrap();
        rest.split_once("</section>").unwrap().0.to_owned()
    };
    let well = needs(&world.get("/").await.text);
    assert!(well.contains("Nothing needs your attention"), "{well}");
    let left = world.create_and_leave().await;
    let page = needs(&world.get("/").await.text);
    assert!(page.contains(&format!("/operations/{left}")) && page.contains("left"), "{page}");
    assert!(!page.contains("Nothing needs your attention"), "{page}");
    // A copy is told to be one.
    let copy = tempfile::tempdir().unwrap();
    for file in ["history", "journal.sqlite", "journal.sqlite-wal"] {
        if world.path().join(file).exists() {
            std::fs::copy(world.path().join(file), copy.path().join(file)).unwrap();
        }
    }
    let copied = Console::new(StateDirectory::open(copy.path()).unwrap(), access()).router();
    let page = needs(&get_of(&copied, "/").await.text);
    assert!(page.contains("it is a copy") && page.contains("windlass state take-over"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_names_its_subject_its_verdict_and_its_reason() {
    let world = World::new().await;
    let id = world.create_and_fail().await;
    let page = world.get("/decisions?slot=rollback").await.text;
    assert!(page.contains("resources of create-server of group ci</a>"), "{page}");
    assert!(page.contains("<strong>delete 3</strong>"), "{page}");
    let removals = world.get("/decisions?removals=true").await.text;
    let listed = references(&removals).into_iter().filter(|link| link.starts_with("/decisions/")).count();
    assert!(removals.contains("<strong>delete 3</strong>") && listed == 1, "{removals}");
    let subject = references(&page).into_iter().find(|link| link.starts_with("/search?q=")).unwrap();
    assert!(world.get(&subject).await.text.contains(&id), "{subject}");
    assert!(world.get("/operations?group=nobody").await.text.contains("None of this group here."));
    let page = world.get("/operations?group=ci").await.text;
    assert!(page.contains("server of type DEV1-S") && page.contains("Internal error"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_filtered_by_tenant_and_group() {
    let world = World::new().await;
    world.create(1).await;
    world.create_for("team-a").await;
    for (query, count) in [
        ("group=&tenant=", 2),
        ("tenant=team-a", 1),
        ("tenant=%20team-a&group=ci", 1),
        ("tenant=team-a&group=web", 0),
        ("tenant=team-b", 0),
        ("tenant=team-a&state=open", 0),
        ("host=elsewhere", 0),
    ] {
        let page = world.get(&format!("/operations?{query}")).await.text;
        let shown = references(&page).into_iter().filter(|link| link.starts_with("/operations/")).count();
        assert_eq!(shown, count, "{query}: {page}");
    }
    let page = world.get("/operations?tenant=team-a").await.text;
    assert!(references(&page).contains("/operations?state=left&tenant=team-a"), "a state keeps the filter: {page}");
    assert!(page.contains("<form class=\"filter\" action=\"/operations\" method=\"get\">"), "{page}");
    let page = world.get("/operations?tenant=%3Cb%3E").await.text;
    assert!(page.contains("value=\"&lt;b&gt;\"") && !page.contains("<b>"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_ids_names_addresses_and_words() {
    let world = World::new().await;
    world.create(1).await;
    let (links, failed) = (references(&world.get("/operations").await.text), world.create_and_fail().await);
    let made = links.iter().find_map(|link| link.strip_prefix("/operations/ci-")).unwrap();
    let made = format!("ci-{made}");
    let decision = references(&world.get("/decisions").await.text).into_iter();
    let decision = decision.filter_map(|link| Some(link.strip_prefix("/decisions/")?.to_owned())).next().unwrap();
    let journal = rusqlite::Connection::open(world.path().join("journal.sqlite")).unwrap();
    let entry = |path: &str, id: &str| -> String {
        let query = format!("select document ->> '{path}' as found from entries where id = ?1 and found is not null");
        journal.query_row(&query, [id], |row| row.get(0)).unwrap()
    };
    let found = async |text: &str| world.get(&format!("/search?q={}", encoded(text))).await.text;
    let (made_link, failed_link) = (format!("/operations/{made}"), format!("/operations/{failed}"));
    for (text, link) in [
        (made.clone(), &made_link),
        (entry("$.resource.id", &made), &made_link),
        (entry("$.data.address", &made), &made_link),
        ("INTERNAL ERROR".to_owned(), &failed_link),
        (format!("  {failed} "), &failed_link),
        (decision.clone(), &format!("/decisions/{decision}")),
        ("guest-retry".to_owned(), &"/decisions?policy=windlass-guest-retry".to_owned()),
    ] {
        let page = found(&text).await;
        assert!(references(&page).contains(link), "{text}: {page}");
    }
    assert!(!found(&entry("$.data.address", &made)).await.contains(&failed_link));
    let nothing = found("<b>nobody").await;
    assert!(nothing.contains("Nothing found") && nothing.contains("&lt;b&gt;nobody") && !nothing.contains("<b>"));
    assert!(found("").await.contains("Type an id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_page_says_what_would_be_there_and_the_command_that_makes_it() {
    let world = World::new().await;
    for (path, command) in [
        ("/", "windlass server create"),
        ("/operations", "windlass server create"),
        ("/decisions", "windlass server create"),
        ("/policies", "windlass server create"),
        ("/clusters", "windlass cluster create"),
    ] {
        let page = world.get(path).await.text;
        assert!(page.contains(&format!("<code>{command}")), "{path}: {page}");
    }
    assert!(world.get("/operations?state=left").await.text.contains("No operation is left."));
}
