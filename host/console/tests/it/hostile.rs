//! Names, reasons, log lines and outputs come from outside: whatever they hold, they stay text.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::json;
use windlass_console::{Report, ReportFormat};

use crate::world::World;

/// A mark that no page has of itself, so that what follows it can be found again.
const MARK: &str = "q7z";

/// Pieces of which something else than text could be made.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<script>alert(1)</script>"),
        Just("</title><svg onload=alert(1)>"),
        Just("\" onmouseover=\"alert(1)"),
        Just("' autofocus onfocus='alert(1)"),
        Just("-->"),
        Just("</style><style>*{display:none}"),
        Just("]]>"),
        Just("&lt;b&gt;"),
        Just("javascript:alert(1)"),
        Just("\u{202e}\u{0}\u{1b}[2J"),
        Just("{{7*7}}${7*7}"),
        Just("`*_[x](javascript:alert(1))"),
        Just("\n\n# "),
        "\\PC{0,8}".prop_map(|text| -> &'static str { Box::leak(text.into_boxed_str()) }),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| format!("{MARK}{}{MARK}", pieces.concat()))
}

/// The markup that a page has: its tags, with the names of their attributes. Text of whatever kind adds none.
fn skeleton(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin + 1..];
        // To the end of the tag; within quotes there may be anything.
        let (mut quoted, mut names) = (false, String::new());
        let mut length = 0;
        for character in rest.chars() {
            length += character.len_utf8();
            match character {
                '"' => quoted = !quoted,
                '>' if !quoted => break,
                _ if !quoted => names.push(character),
                _ => {}
            }
        }
        rest = &rest[length..];
        tags.push(names);
    }
    tags
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hostile_texts_never_become_markup() {
    let world = World::new().await;
    let id = world.create_and_fail().await;
    let path = format!("/operations/{id}");
    let journal = rusqlite::Connection::open(world.path().join("journal.sqlite")).unwrap();
    let put = |text: &str| {
        let failure = json!({
            "ambiguous": false, "class": "server-error", "error-type": text, "message": text, "method": "GET",
            "path": text, "resource": null, "status": 500,
        });
        let data = json!({"attempt": 1, "decision": text, "reason": text, "wait": 1, "failure": failure});
        journal
            .execute(
                "update streams set document = json_set(document, '$.group', ?1, '$.owner', ?1, '$.runner', ?1,
                     '$.zone', ?1, '$.reasons', json(?2), '$.cause', json(?3), '$.report', json(?4),
                     '$.specification', json(?2)) where family = 'operation'",
                (
                    text,
                    json!([text]).to_string(),
                    json!({"step": text, "failure": failure}).to_string(),
                    json!({"left": [{"resource": {"kind": text, "id": text, "zone": text}, "why": text}]}).to_string(),
                ),
            )
            .unwrap();
        let failed = "update entries set document = json_set(document, '$.data', json(?1))
                      where document ->> '$.phase' = 'failure'";
        journal.execute(failed, [data.to_string()]).unwrap();
        let noted = "update entries set document = json_set(document, '$.step', ?1)
                     where document ->> '$.phase' = 'note' and document like '%tagged%'";
        journal.execute(noted, [text]).unwrap();
    };
    put("plain");
    let operation = skeleton(&world.get(&path).await.text);
    let list = skeleton(&world.get("/operations").await.text);
    let report = |world: &World| {
        let report = Report::of_operation(world.state(), &id).unwrap();
        (skeleton(&report.write(ReportFormat::Html)), report.write(ReportFormat::Markdown))
    };
    let alone = report(&world).0;
    let mut runner = TestRunner::deterministic();
    for round in 0..1_000 {
        let text = hostile().new_tree(&mut runner).unwrap().current();
        put(&text);
        let page = world.get(&path).await.text;
        assert!(page.contains(MARK), "{page}");
        assert_eq!(skeleton(&page), operation, "{text:?}");
        if round % 10 == 0 {
            assert_eq!(skeleton(&world.get("/operations").await.text), list, "{text:?}");
            let (html, markdown) = report(&world);
            assert_eq!(html, alone, "{text:?}");
            assert!(!markdown.replace("\\<", "").contains('<') && !markdown.contains("\n# q7z"), "{markdown}");
        }
    }
}
