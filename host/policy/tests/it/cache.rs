//! The compiled cache: used when it is ours, never trusted when it isn't.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{Host, Link, Policies};

use crate::guests::Guest;
use crate::support::{State, run};

/// Loads one guest and returns the path of its cache entry.
fn with_entry(state: &State, wait: u64) -> PathBuf {
    let before = entries(state);
    use_guest(state, wait);
    let mut new: Vec<PathBuf> = entries(state).into_iter().filter(|entry| !before.contains(entry)).collect();
    assert_eq!(new.len(), 1, "one policy is one entry");
    new.remove(0)
}

fn entries(state: &State) -> Vec<PathBuf> {
    let folder = state.folder.path().join("cache");
    let Ok(folder) = fs::read_dir(folder) else { return Vec::new() };
    folder.map(|entry| entry.unwrap().path()).collect()
}

/// A new host on this state loads the guest and decides with it.
fn use_guest(state: &State, wait: u64) {
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(wait).component()))).unwrap();
    let decision = run(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(wait));
    assert!(decision.fallbacks.is_empty());
}

#[test]
fn a_second_start_uses_the_entry_and_does_not_write_it_again() {
    let state = State::new();
    let entry = with_entry(&state, 1);
    let before = fs::metadata(&entry).unwrap();
    use_guest(&state, 1);
    // Entries are replaced by renaming, so a new one would have another inode.
    assert_eq!(fs::metadata(&entry).unwrap().ino(), before.ino());
}

#[test]
fn a_host_with_the_cache_of_another_folder_compiles_nothing_anew_and_keeps_none_of_its_own() {
    let (state, trial) = (State::new(), State::cold());
    use_guest(&state, 1);
    let before = entries(&state);
    let mut options = trial.options();
    options.cache_dir = Some(state.dir());
    Host::new(options).unwrap();
    assert_eq!(entries(&state), before);
    assert!(!trial.folder.path().join("cache").exists());
}

#[test]
fn a_host_borrows_what_another_folder_has_compiled_and_writes_nothing_there() {
    let (state, trial) = (State::new(), State::cold());
    use_guest(&state, 1);
    let before = entries(&state);
    let mut options = trial.options();
    options.lending_dir = Some(state.dir());
    let host = Host::new(options).unwrap();
    let guest = |wait| Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(wait).component()));
    host.configure(&guest(1)).unwrap();
    assert_eq!(entries(&trial), [] as [PathBuf; 0]);
    host.configure(&guest(2)).unwrap();
    assert_eq!((entries(&trial).len(), entries(&state)), (1, before));
}

#[test]
fn a_folder_whose_key_others_could_read_lends_nothing() {
    let (state, trial) = (State::new(), State::cold());
    use_guest(&state, 1);
    let key = state.folder.path().join("cache.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let mut options = trial.options();
    options.lending_dir = Some(state.dir());
    Host::new(options).unwrap();
    assert!(!entries(&trial).is_empty());
    assert!(key.exists());
}

#[test]
fn a_tampered_entry_is_compiled_anew_wherever_it_was_changed() {
    let state = State::new();
    let entry = with_entry(&state, 2);
    let good = fs::read(&entry).unwrap();
    for position in [0, 20, 60, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[position] ^= 1;
        fs::write(&entry, &bad).unwrap();
        use_guest(&state, 2);
        assert_ne!(fs::read(&entry).unwrap(), bad, "byte {position}");
    }
    for length in [0, 10, 47, good.len() / 2] {
        fs::write(&entry, &good[..length]).unwrap();
        use_guest(&state, 2);
        assert!(fs::read(&entry).unwrap().len() > length, "cut to {length}");
    }
}

#[test]
fn an_entry_can_not_stand_for_another() {
    let state = State::new();
    let one = with_entry(&state, 3);
    let other = with_entry(&state, 4);
    fs::copy(&one, &other).unwrap();
    // Were the name not under the MAC, this would wait 3.
    use_guest(&state, 4);
}

#[test]
fn entries_of_another_host_are_compiled_anew() {
    let state = State::new();
    let entry = with_entry(&state, 5);
    let foreign = fs::read(&entry).unwrap();
    let key = state.folder.path().join("cache.key");
    fs::remove_file(&key).unwrap();
    use_guest(&state, 5);
    assert_ne!(fs::read(&entry).unwrap(), foreign, "it is signed with the new key");
    // A torn key is replaced too.
    fs::write(&key, b"short").unwrap();
    use_guest(&state, 5);
    assert_eq!(fs::read(&key).unwrap().len(), 32);
}

#[test]
fn a_key_that_others_could_read_or_that_is_no_file_is_replaced_and_what_it_signed_compiled_anew() {
    let state = State::new();
    let key = state.folder.path().join("cache.key");
    let elsewhere = state.folder.path().join("elsewhere");
    let corrupt: [&dyn Fn(); 3] = [
        &|| fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap(),
        &|| {
            fs::rename(&key, &elsewhere).unwrap();
            std::os::unix::fs::symlink("elsewhere", &key).unwrap();
        },
        &|| {
            fs::remove_file(&key).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, &key, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        },
    ];
    for (wait, corrupt) in (10..).zip(corrupt) {
        let entry = with_entry(&state, wait);
        let signed = fs::read(&entry).unwrap();
        corrupt();
        use_guest(&state, wait);
        let metadata = fs::symlink_metadata(&key).unwrap();
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600, "{metadata:?}");
        assert_ne!(fs::read(&entry).unwrap(), signed, "it is signed with the new key");
    }
}

#[test]
fn the_key_and_the_state_are_for_their_owner_only() {
    let state = State::cold();
    drop(state.host());
    let mode = |name: &str| fs::metadata(state.folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("cache.key"), 0o600);
    assert_eq!(mode("cache"), 0o700);
    assert_eq!(mode("policies"), 0o700);
    assert_eq!(mode("decisions"), 0o700);
    assert_eq!(mode("hosts"), 0o700);
    let leftovers: Vec<_> = entries(&state)
        .into_iter()
        .filter(|entry| entry.extension().is_some_and(|extension| extension == "tmp"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}
