//! Tags of policies that hosts lock in a database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use windlass_distribution::{ContentDigest, LockFile, LockedTag, TagLock};
use windlass_lifecycle::log::SharedLog as _;
use windlass_lifecycle::{StateDirectory, shared_tags, tag_lock};
use windlass_postgres::PostgresState;

use crate::server::Server;

/// A tag that has been moved so often.
fn tag(moved: usize) -> LockedTag {
    LockedTag {
        reference: "oci://registry.example/team/policy:main".parse().unwrap(),
        digest: ContentDigest::of(moved.to_string().as_bytes()),
    }
}

/// The lock of a host whose own file is in this folder.
fn of_host(server: &Server, host: &str, folder: &Path) -> Arc<dyn TagLock> {
    tag_lock(Some(Arc::new(server.state_of("s", host))), LockFile::of_service(folder))
}

fn in_file(folder: &Path) -> Option<ContentDigest> {
    LockFile::of_service(folder).get(&tag(0).reference).unwrap()
}

#[test]
fn what_a_host_locks_holds_for_all_and_has_its_name() {
    let Some(server) = Server::start() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (one, other) =
        (of_host(&server, "laptop-a", folders[0].path()), of_host(&server, "laptop-b", folders[1].path()));
    let reference = tag(0).reference;
    assert_eq!(one.get(&reference).unwrap(), None);
    assert_eq!(server.execute("select to_regnamespace('s') is null"), "t", "who only asks makes no tables");
    assert_eq!(one.lock_first(&tag(0)).unwrap(), tag(0).digest);
    assert_eq!(other.get(&reference).unwrap(), Some(tag(0).digest));
    assert_eq!(other.lock_first(&tag(1)).unwrap(), tag(0).digest, "it is locked");
    other.lock(&[tag(2)]).unwrap();
    assert_eq!(one.get(&reference).unwrap(), Some(tag(2).digest), "who locks it last decides");
    let state = server.state("s");
    let known = shared_tags(&state).unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!((&known[0].tag, known[0].by.host.as_str()), (&tag(2), "laptop-b"));
    assert!(known[0].by.process == std::process::id() && known[0].by.at > 0, "{known:?}");
    assert!(folders.iter().all(|folder| in_file(folder.path()) == Some(tag(2).digest)), "their files follow");
    assert_eq!(state.hosts().unwrap(), [], "who locks a tag leaves no row behind");
}

#[test]
fn of_hosts_that_lock_a_tag_together_one_decides() {
    let Some(server) = Server::start() else { return };
    let folders: Vec<_> = (0..8).map(|_| tempfile::tempdir().unwrap()).collect();
    let locked: Vec<ContentDigest> = std::thread::scope(|threads| {
        let lock = |host: usize| {
            let (server, folder) = (&server, folders[host].path());
            threads.spawn(move || of_host(server, &format!("host-{host}"), folder).lock_first(&tag(host)).unwrap())
        };
        let threads: Vec<_> = (0..folders.len()).map(lock).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(locked.iter().all(|digest| *digest == locked[0]), "{locked:?}");
    assert!(folders.iter().all(|folder| in_file(folder.path()) == Some(locked[0])));
}

#[test]
fn a_hosts_own_file_counts_until_a_tag_is_locked_for_all() {
    let Some(server) = Server::start() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (first, second) = (folders[0].path(), folders[1].path());
    LockFile::of_service(first).lock(&[tag(1)]).unwrap();
    LockFile::of_service(second).lock(&[tag(2)]).unwrap();
    let reference = tag(0).reference;
    assert_eq!(of_host(&server, "one", first).get(&reference).unwrap(), Some(tag(1).digest));
    assert_eq!(of_host(&server, "other", second).get(&reference).unwrap(), Some(tag(1).digest));
    assert_eq!(in_file(second), Some(tag(1).digest));
    // A file that is none is left as it is, and matters where it has to decide.
    let file = second.join("policies.lock");
    std::fs::write(&file, "no TOML").unwrap();
    assert_eq!(of_host(&server, "other", second).get(&reference).unwrap(), Some(tag(1).digest));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "no TOML");
    let unknown = "oci://registry.example/team/policy:other".parse().unwrap();
    let refused = of_host(&server, "other", second).get(&unknown).unwrap_err().to_string();
    assert!(refused.contains("policies.lock"), "{refused}");
    assert_eq!(of_host(&server, "one", first).get(&unknown).unwrap(), None);
}

#[test]
fn who_may_only_look_uses_what_is_locked_and_locks_nothing() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    of_host(&server, "here", folder.path()).lock(&[tag(0)]).unwrap();
    server.execute("create role reader login");
    server.execute("grant usage on schema s to reader; grant select on all tables in schema s to reader");
    let url = server.url("s").replace("windlass@", "reader@");
    let state = PostgresState::parse(&url, &BTreeMap::new(), "there").unwrap();
    let reader = tag_lock(Some(Arc::new(state)), LockFile::of_service(folder.path()));
    assert_eq!(reader.get(&tag(0).reference).unwrap(), Some(tag(0).digest));
    let refused = reader.lock(&[tag(1)]).unwrap_err().to_string();
    assert!(refused.contains("permission denied") && refused.contains("reader@"), "{refused}");
    assert_eq!(in_file(folder.path()), Some(tag(0).digest));
}

#[test]
fn tags_alone_are_no_journal_of_anybody() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let directory = StateDirectory::open(folder.path()).unwrap();
    let state = directory.with_shared_log(Arc::new(server.state("s")));
    of_host(&server, "here", folder.path()).lock_first(&tag(0)).unwrap();
    assert!(state.is_fresh());
    let owner = "team-a".parse().unwrap();
    state.take_owner(&owner).unwrap();
    assert_eq!(state.stored_owner().unwrap(), Some(owner));
    assert!(!state.is_fresh());
}
