//! Many logs in one schema, over the connections of one process.

use std::sync::Arc;

use windlass_lifecycle::StateDirectory;
use windlass_lifecycle::log::{Log, SharedLog as _};

use crate::hosts::{everything, note, numbers};
use crate::server::Server;

const PARTS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_parts_share_three_connections_and_one_row() {
    let Some(server) = Server::start() else { return };
    let state = server.state("s").with_shared_connections();
    let part = |number: usize| state.part(&format!("accounts/team-{number}/key"));
    let logs: Vec<Arc<dyn Log>> = (0..PARTS).map(|number| part(number).open().unwrap()).collect();
    let whole = state.open().unwrap();
    let writes = logs.iter().enumerate().map(|(number, log)| {
        let log = Arc::clone(log);
        tokio::spawn(async move { log.append(note("a", number)).await })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(write.await.unwrap().unwrap().is_some());
    }
    for (number, log) in logs.iter().enumerate() {
        assert_eq!(numbers(&**log), [number as u64], "what others wrote under the same id is not there");
    }
    assert_eq!(whole.count(&everything()).unwrap(), 0);
    let connections = "select count(*) from pg_stat_activity where application_name = 'windlass'";
    server.until(connections, "3");
    assert_eq!(state.hosts().unwrap().len(), 1);
    // One more reads, for all of them.
    for number in 0..PARTS {
        assert_eq!(numbers(&*part(number).read_only().unwrap()), [number as u64]);
    }
    server.until(connections, "4");
    drop((logs, whole));
    assert_eq!(state.hosts().unwrap(), [], "who ends leaves no row behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_those_of_a_part_and_who_lost_one_lost_those_of_all_parts() {
    let Some(server) = Server::start() else { return };
    let mine = server.state("s").with_shared_connections();
    let open = |name: &str| mine.part(name).open().unwrap();
    let (one, two) = (open("one"), open("two"));
    let held = [one.lock("machines.lock").unwrap(), two.lock("machines.lock").unwrap()];
    assert!(held.iter().all(Option::is_some), "each part has its own");
    assert!(open("one").lock("machines.lock").unwrap().is_none(), "and once in this process, too");
    let other = server.state_of("s", "there").with_shared_connections();
    let (theirs, alive) = (other.part("one").open().unwrap(), two.register("1-mine").unwrap());
    assert!(theirs.lock("machines.lock").unwrap().is_none() && !theirs.lives("1-mine"));
    assert_eq!(other.part("one").holder("machines.lock").unwrap().unwrap().host, "here");
    server.expire("s");
    assert!(theirs.lock("machines.lock").unwrap().is_some());
    for log in [&one, &two] {
        let error = log.append(note("a", 1)).await.unwrap_err().to_string();
        assert!(error.contains("took this process for dead") && log.is_overtaken(), "{error}");
    }
    // What is opened after that is another process to the others.
    let again = open("two");
    assert!(!again.is_overtaken() && again.append(note("a", 2)).await.unwrap().is_some());
    assert_eq!(numbers(&*again), [2]);
    drop((held, alive));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_below_another_has_an_owner_and_a_journal_of_its_own() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap().with_shared_log(Arc::new(server.state("s")));
    let owner = state.owner(None).unwrap();
    let below = state.below("accounts/ci/key").unwrap();
    let other = below.owner(None).unwrap();
    assert_ne!(other, owner);
    assert_eq!(state.stored_owner().unwrap(), Some(owner));
    assert_eq!(state.below("accounts/ci/key").unwrap().stored_owner().unwrap(), Some(other));
    assert!(below.path().starts_with(state.path()) && below.path() != state.path());
    assert!(below.location().to_string_lossy().ends_with("schema=s&part=accounts/ci/key"), "{:?}", below.location());
}
