//! Writes that the server refuses, and roles that it keeps from what they need not do.

use std::collections::BTreeMap;

use windlass_lifecycle::log::SharedLog as _;
use windlass_postgres::PostgresState;

use crate::hosts::{everything, pair, pairs};
use crate::server::Server;

const AT_ONCE: &str = "create trigger refuse after insert on s.entries";
const AT_THE_COMMIT: &str = "create constraint trigger refuse after insert on s.entries deferrable initially deferred";

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_refuses_a_write_whole() {
    let Some(server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    let triggers = [("40001", AT_ONCE), ("40P01", AT_ONCE), ("40001", AT_THE_COMMIT), ("40P01", AT_THE_COMMIT)];
    for (round, (code, trigger)) in triggers.into_iter().enumerate() {
        // The second of the two entries.
        let refused = 4 * round + 1;
        server.execute(&format!(
            "create or replace function s.refuse() returns trigger language plpgsql as $$ begin \
             if new.document->>'number' = '{refused}' then \
             raise 'could not serialize access' using errcode = '{code}'; end if; return null; end $$"
        ));
        server.execute(&format!("{trigger} for each row execute function s.refuse()"));
        let error = log.append(pair(2 * round)).await.unwrap_err().to_string();
        assert!(error.contains("cannot be written: could not serialize access"), "{code}: {error}");
        assert!(log.append(pair(2 * round + 1)).await.unwrap().is_some(), "the next one goes on");
        server.execute("drop trigger refuse on s.entries");
    }
    assert_eq!(pairs(&*log), [1, 3, 5, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_works_with_the_rights_that_the_page_gives() {
    let Some(server) = Server::start() else { return };
    let owner = server.state("windlass");
    drop(owner.open().unwrap());
    let page = include_str!("../../../../docs/shared-state.md");
    let (_, section) = page.split_once("## Give it fewer rights\n").unwrap();
    let (_, block) = section.split_once("```sql\n").unwrap();
    let (sql, _) = block.split_once("```\n").unwrap();
    server.execute(sql);
    let url = server.url("windlass").replace("windlass@", "operators@");
    let state = PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap();
    let log = state.open().unwrap();
    let lease = log.register("1-here").unwrap();
    assert!(log.lives("1-here"));
    assert!(log.append(pair(0)).await.unwrap().is_some());
    assert_eq!(pairs(&*log), [0]);
    assert_eq!(log.forget(everything()).await.unwrap(), 1);
    assert_eq!(state.hosts().unwrap().len(), 1);
    assert_eq!(state.place().unwrap(), owner.place().unwrap());
    for (statement, problem) in [
        ("create table windlass.more ()", "permission denied for schema windlass"),
        ("drop table windlass.entries", "must be owner of table entries"),
    ] {
        let refused = server.refused(&format!("set role operators; {statement}"));
        assert!(refused.contains(problem), "{refused}");
    }
    drop(lease);
}
