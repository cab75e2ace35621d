//! Policies replaced while they are used, and operations that outlive their process.

use std::fs;
use std::time::Duration;

use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{DecidedBy, FailureKind, Host, Link, Policies};

use crate::guests::Guest;
use crate::support::{State, eventually, run};

fn waits(pin: &windlass_policy::PinnedPolicies) -> u64 {
    match run(pin.decide::<Retry>(Retry::example())).answer.verdict {
        retry::Verdict::Wait(ms) => ms,
        other => panic!("{other:?}"),
    }
}

/// A host whose retry policy is a file.
struct Watched {
    state: State,
    files: tempfile::TempDir,
    host: Host,
}

impl Watched {
    fn new() -> Watched {
        let state = State::new();
        let files = tempfile::tempdir().unwrap();
        let mut options = state.options();
        options.policy_folder = files.path().into();
        options.watch_interval = Duration::from_millis(10);
        let host = Host::new(options).unwrap();
        let watched = Watched { state, files, host };
        watched.write(&Guest::waiting(1).component());
        watched.host.configure(&Policies::built_in().with(SlotName::Retry, Link::file("retry.wasm"))).unwrap();
        watched
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.files.path().join("retry.wasm"), bytes).unwrap();
    }
}

#[test]
fn a_changed_file_is_swapped_in_and_pins_keep_what_they_had() {
    let watched = Watched::new();
    let before = watched.host.pin();
    assert_eq!(waits(&before), 1);
    watched.write(&Guest::waiting(2).component());
    let reload = watched.host.reload();
    assert!(reload.errors.is_empty() && reload.swapped.len() == 1, "{reload:?}");
    assert_eq!(waits(&watched.host.pin()), 2);
    assert_eq!(waits(&before), 1, "an operation ends under the policy it began with");
    // Nothing changed: nothing happens.
    assert!(watched.host.reload().swapped.is_empty());
}

#[test]
fn a_bad_file_changes_nothing_and_the_status_says_why() {
    let watched = Watched::new();
    let before = watched.host.pin().identities();
    let good = Guest::waiting(2).component();
    let broken = [&b"nonsense"[..], &good[..good.len() / 2], b""];
    for bytes in broken {
        watched.write(bytes);
        let reload = watched.host.reload();
        assert_eq!(reload.errors.len(), 1);
        assert_eq!(watched.host.pin().identities(), before);
        let status = watched.host.status();
        let link = status.links.iter().find(|link| link.slot == SlotName::Retry).unwrap();
        assert!(link.error.as_deref().unwrap().contains("policies.retry"), "{link:?}");
    }
    fs::remove_file(watched.files.path().join("retry.wasm")).unwrap();
    assert_eq!(watched.host.reload().errors.len(), 1);
    assert_eq!(waits(&watched.host.pin()), 1);
    watched.write(&good);
    watched.host.reload();
    assert_eq!(waits(&watched.host.pin()), 2);
    assert!(watched.host.status().links.iter().all(|link| link.error.is_none()), "the error goes with its cause");
}

#[test]
fn a_watched_file_is_swapped_in_by_itself() {
    let watched = Watched::new();
    let _watch = watched.host.watch().unwrap();
    watched.write(&Guest::waiting(3).component());
    eventually("the new file decides", || waits(&watched.host.pin()) == 3);
    watched.write(b"nonsense");
    eventually("the bad file is refused", || watched.host.status().links.iter().any(|link| link.error.is_some()));
    assert_eq!(waits(&watched.host.pin()), 3);
}

#[test]
fn a_config_map_that_swaps_its_link_is_noticed() {
    let watched = Watched::new();
    let at = |name: &str| watched.files.path().join(name);
    for (folder, wait) in [("..1", 11), ("..2", 12)] {
        fs::create_dir(at(folder)).unwrap();
        fs::write(at(folder).join("linked.wasm"), Guest::waiting(wait).component()).unwrap();
    }
    std::os::unix::fs::symlink("..1", at("..data")).unwrap();
    std::os::unix::fs::symlink("..data/linked.wasm", at("linked.wasm")).unwrap();
    watched.host.configure(&Policies::built_in().with(SlotName::Retry, Link::file("linked.wasm"))).unwrap();
    assert_eq!(waits(&watched.host.pin()), 11);
    // What a kubelet does: a new link beside, renamed over the old one.
    std::os::unix::fs::symlink("..2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    watched.host.reload();
    assert_eq!(waits(&watched.host.pin()), 12);
}

#[test]
fn a_link_out_of_the_policys_folder_is_refused() {
    let watched = Watched::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("x.wasm"), Guest::waiting(9).component()).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("x.wasm"), watched.files.path().join("out.wasm")).unwrap();
    let error =
        watched.host.configure(&Policies::built_in().with(SlotName::Retry, Link::file("out.wasm"))).unwrap_err();
    assert!(error.to_string().contains("cannot read it"), "{error}");
}

#[test]
fn an_operation_keeps_its_policies_across_a_restart_when_the_file_is_gone() {
    let Watched { state, files, host } = Watched::new();
    let identities = host.pin().identities();
    drop((host, files));
    let host = state.host();
    assert_ne!(host.pin().identities(), identities);
    let restored = host.pinned(&identities);
    assert_eq!(restored.identities(), identities);
    assert_eq!(waits(&restored), 1);
    // It was asked for again: the same one.
    assert_eq!(waits(&host.pinned(&identities)), 1);
}

#[test]
fn a_policy_that_is_lost_or_changed_falls_back_and_says_so() {
    let Watched { state, host, files: _files } = Watched::new();
    let identities = host.pin().identities();
    drop(host);
    let identity = identities.iter().find(|identity| identity.slot == SlotName::Retry).unwrap();
    let kept = state.folder.path().join("policies").join(format!("{}.wasm", identity.component));
    fs::write(&kept, Guest::waiting(666).component()).unwrap();
    let host = state.host();
    let decision = run(host.pinned(&identities).decide::<Retry>(Retry::example()));
    assert_eq!(decision.fallbacks[0].kind, FailureKind::Unavailable);
    assert!(decision.fallbacks[0].reason.contains("has been changed"), "{}", decision.fallbacks[0]);
    assert_ne!(decision.answer.verdict, retry::Verdict::Wait(666), "what was changed is never run");
    assert!(matches!(decision.decided_by, DecidedBy::Policy(_)));
    fs::remove_file(kept).unwrap();
    let decision = run(host.pinned(&identities).decide::<Retry>(Retry::example()));
    assert!(decision.fallbacks[0].reason.contains("not in the state folder"), "{}", decision.fallbacks[0]);
}

#[test]
fn kept_policies_go_when_no_operation_needs_them() {
    let watched = Watched::new();
    let first = watched.host.pin().identities();
    watched.write(&Guest::waiting(2).component());
    watched.host.reload();
    let grace = Duration::ZERO;
    assert_eq!(watched.host.retain_policies(&first, Duration::from_secs(3600)).unwrap(), 0);
    assert_eq!(watched.host.retain_policies(&first, grace).unwrap(), 0, "an operation needs it");
    assert_eq!(waits(&watched.host.pinned(&first)), 1);
    assert_eq!(watched.host.retain_policies(&[], grace).unwrap(), 1);
    let decision = run(watched.host.pinned(&first).decide::<Retry>(Retry::example()));
    assert_eq!(decision.fallbacks[0].kind, FailureKind::Unavailable);
    assert_eq!(waits(&watched.host.pin()), 2, "what is in use stays");
}
