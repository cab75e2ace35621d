//! The console over HTTP, on what real operations on a simulated Scaleway have left behind.

#![allow(clippy::unwrap_used)]

mod candidates;
mod endpoint;
mod hostile;
mod overview;
mod world;

use std::collections::BTreeSet;

use axum::http::StatusCode;
use windlass_console::{Access, Console, Prices, Report, ReportFormat};
use world::{KEY, World, get_of};

/// Every link and source of a page.
fn references(page: &str) -> BTreeSet<String> {
    let after = ["href=\"", "src=\""].into_iter().flat_map(|mark| page.split(mark).skip(1));
    after.filter_map(|rest| rest.split('"').next()).map(|link| link.replace("&amp;", "&")).collect()
}

/// A text as a part of a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_that_can_be_reached_is_there_and_none_shows_a_secret() {
    let world = World::new().await;
    world.create(3).await;
    world.create_and_fail().await;
    let (mut seen, mut to_see) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = to_see.pop() {
        if path.starts_with('#') || !seen.insert(path.clone()) {
            continue;
        }
        let page = world.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains(KEY), "{path}");
        to_see.extend(references(&page.text));
    }
    for part in ["/operations", "/decisions", "/policies", "/clusters", "/assets/live.js", "/decisions?slot=retry"] {
        assert!(seen.contains(part), "{part} in {seen:?}");
    }
    assert_eq!(seen.iter().filter(|path| path.starts_with("/operations/")).count(), 4, "{seen:?}");
    assert!(seen.iter().filter(|path| path.starts_with("/decisions/")).count() >= 2, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_operation_shows_its_attempts_its_decisions_and_how_it_was_undone() {
    let world = World::new().await;
    let id = world.create_and_fail().await;
    let page = world.get(&format!("/operations/{id}")).await.text;
    for words in ["power-on", "Internal error", "again after", "given up", "How it is undone", "What became of it"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // Each resource of the plan is told with what became of it.
    assert_eq!(page.matches("<g class=\"removed\">").count(), 3, "{page}");
    let decision = references(&page).into_iter().find(|link| link.starts_with("/decisions/0")).unwrap();
    let page = world.get(&decision).await.text;
    assert!(page.contains("Asked, in order") && page.contains("What the host did"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_to_be_not_there() {
    let world = World::new().await;
    for path in ["/operations/ci-0000000000", "/operations/%3Cb%3E", "/decisions/nope", "/clusters/none", "/nope"] {
        let page = world.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(page.text.contains("Not found") && !page.text.contains("<b>"), "{path}: {}", page.text);
    }
    // And nothing was ever done here: the pages say so.
    for path in ["/", "/operations", "/decisions", "/policies", "/clusters"] {
        assert_eq!(world.get(path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_let_nothing_run_that_is_not_theirs_and_are_kept_nowhere() {
    let world = World::new().await;
    let page = world.get("/").await;
    let header = |name: &str| page.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert!(header("content-security-policy").starts_with("default-src 'none'; style-src 'self'; script-src 'self'"));
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("x-content-type-options"), "nosniff");
    // Styles and handlers in a page would be refused by that policy.
    assert!(!page.text.contains(" style=") && !page.text.contains(" on"), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_operations_leads_to_the_next() {
    let world = World::new().await;
    world.create(103).await;
    let (mut path, mut seen) = ("/operations".to_owned(), BTreeSet::new());
    loop {
        let links = references(&world.get(&path).await.text);
        seen.extend(links.iter().filter(|link| link.starts_with("/operations/")).cloned());
        match links.into_iter().find(|link| link.contains("before=")) {
            Some(next) => path = next,
            None => break,
        }
    }
    assert_eq!(seen.len(), 103);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_told_when_something_has_happened() {
    let world = World::new().await;
    let mut changes = world.follow().await;
    world.create(1).await;
    assert!(changes.next().await.contains("event: changed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_shown_is_said_with_the_command_that_shows_it() {
    let world = World::new().await;
    let access = || Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
    let console = || Console::new(world.state(), access()).with_elsewhere("accounts", "Clusters are in their objects.");
    let page = get_of(&console().router(), "/").await.text;
    assert!(page.contains("Clusters are in their objects.") && !page.contains("--state-dir"), "{page}");
    std::fs::create_dir_all(world.path().join("accounts/team/<b>key")).unwrap();
    std::fs::write(world.path().join("accounts/note"), "no folder").unwrap();
    let page = get_of(&console().router(), "/").await.text;
    assert!(page.contains("accounts/team/&lt;b&gt;key console</code>"), "{page}");
    assert_eq!(page.matches("--state-dir").count(), 1, "{page}");
    // Where everything is shown, nothing of the kind is said.
    assert!(!world.get("/").await.text.contains("Not shown here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_says_what_is_not_in_it() {
    let world = World::new().await;
    world.create(2).await;
    let access = Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
    let prices = Prices::new();
    prices.set("fr-par-1", [("DEV1-S".to_owned(), 0.25)]);
    let console = Console::new(world.state(), access).with_prices(prices).router();
    let page = get_of(&console, "/").await.text;
    assert!(page.contains("0.5000 €") && page.contains("not Macs, volumes and addresses"), "{page}");
    let without = world.get("/").await.text;
    assert!(!without.contains("The sum covers") && without.contains("there are no prices here"), "{without}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_stands_alone() {
    let world = World::new().await;
    world.create(2).await;
    let id = world.create_and_fail().await;
    let report = Report::of_operation(world.state(), &id).unwrap();
    let html = report.write(ReportFormat::Html);
    assert!(html.contains("<style>") && !html.contains("<script") && !html.contains("src="), "{html}");
    assert!(!html.contains("href=\"http") && html.contains("Internal error") && !html.contains(KEY));
    let markdown = report.write(ReportFormat::Markdown);
    assert!(markdown.contains("| power-on") && markdown.contains("failed attempts"), "{markdown}");
    assert_eq!(Report::since(world.state(), 0).unwrap().operations(), 3);
    assert_eq!(Report::since(world.state(), u64::MAX).unwrap().operations(), 0);
    assert!(Report::of_operation(world.state(), "ci-000000000000").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_is_looked_at_changes_no_byte() {
    let world = World::new().await;
    world.create(2).await;
    world.status_is_written().await;
    let before = world.files();
    for path in ["/", "/operations", "/decisions", "/policies", "/clusters"] {
        world.get(path).await;
    }
    assert_eq!(world.files(), before);
}
