//! The lock file and the cache, as somebody else left them.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_distribution::{ContentDigest, LockFile, LockedTag, TagLock as _};

use crate::support::{Home, LAYER, Server, honest, manifest, respond};

/// A registry whose tag can be moved, and which can be taken down.
fn registry() -> (Server, Arc<AtomicBool>, Arc<AtomicBool>) {
    let (moved, down) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (is_moved, is_down) = (Arc::clone(&moved), Arc::clone(&down));
    let server = Server::start(move |request, stream| {
        if is_down.load(Ordering::SeqCst) {
            respond(stream, "503 Service Unavailable", "text/plain", b"");
            return;
        }
        let asks_for_the_tag = is_moved.load(Ordering::SeqCst) && request.line.contains("/manifests/main");
        if asks_for_the_tag || request.line.contains(&ContentDigest::of(b"moved").to_string()) {
            honest(request, stream, b"moved");
        } else {
            honest(request, stream, LAYER);
        }
    });
    (server, moved, down)
}

#[test]
fn a_tag_that_is_moved_after_it_was_locked_changes_nothing() {
    let ((server, moved, _), home) = (registry(), Home::new());
    home.fetch(&server.by_tag()).unwrap();
    moved.store(true, Ordering::SeqCst);
    assert_eq!(&*home.fetch(&server.by_tag()).unwrap().contents, LAYER);
    // Also where the cache is gone.
    std::fs::remove_dir_all(home.folder.path().join("artifacts")).unwrap();
    assert_eq!(&*home.fetch(&server.by_tag()).unwrap().contents, LAYER);
    std::fs::remove_file(home.lock()).unwrap();
    assert_eq!(&*home.fetch(&server.by_tag()).unwrap().contents, b"moved");
}

#[test]
fn what_was_fetched_once_needs_no_registry() {
    let ((server, _, down), home) = (registry(), Home::new());
    home.fetch(&server.by_tag()).unwrap();
    let asked = server.requests().len();
    down.store(true, Ordering::SeqCst);
    assert_eq!(&*home.fetch(&server.by_tag()).unwrap().contents, LAYER);
    assert_eq!(&*home.fetch(&server.by_digest(manifest(LAYER).1)).unwrap().contents, LAYER);
    assert_eq!(server.requests().len(), asked, "it was asked all the same");
}

#[test]
fn a_cached_file_that_was_changed_is_fetched_again_or_refused() {
    let ((server, _, down), home) = (registry(), Home::new());
    let reference = server.by_digest(manifest(LAYER).1);
    for digest in [ContentDigest::of(LAYER), manifest(LAYER).1] {
        down.store(false, Ordering::SeqCst);
        home.fetch(&reference).unwrap();
        let file = home.folder.path().join("artifacts").join(digest.hex());
        std::fs::write(&file, b"changed").unwrap();
        assert_eq!(&*home.fetch(&reference).unwrap().contents, LAYER);
        std::fs::write(&file, b"changed").unwrap();
        down.store(true, Ordering::SeqCst);
        let words = home.fetch(&reference).unwrap_err().to_string();
        assert!(words.contains("503"), "{words}");
        assert!(!file.exists(), "it would be found again and again");
    }
}

#[test]
fn a_link_in_the_cache_leads_nowhere() {
    let ((server, _, _), home, outside) = (registry(), Home::new(), tempfile::tempdir().unwrap());
    let reference = server.by_digest(manifest(LAYER).1);
    home.fetch(&reference).unwrap();
    let target = outside.path().join("target");
    // Even with the right bytes, since whoever owns them can change them.
    std::fs::write(&target, LAYER).unwrap();
    let file = home.folder.path().join("artifacts").join(ContentDigest::of(LAYER).hex());
    std::fs::remove_file(&file).unwrap();
    symlink(&target, &file).unwrap();
    let asked = server.requests().len();
    assert_eq!(&*home.fetch(&reference).unwrap().contents, LAYER);
    assert!(server.requests().len() > asked, "the link was followed");
    assert!(!file.is_symlink() && target.exists(), "the link was replaced, and its target left alone");
}

#[test]
fn a_lock_file_that_is_none_is_refused_and_left_as_it_is() {
    let ((server, _, _), home) = (registry(), Home::new());
    let tag = server.by_tag();
    let digest = manifest(LAYER).1;
    let entry =
        |reference: &str, digest: &str| format!("[[artifact]]\nreference = \"{reference}\"\ndigest = \"{digest}\"\n");
    let twice = entry(&tag.to_string(), &digest.to_string()).repeat(2);
    for (text, words) in [
        ("no TOML".to_owned(), "policies.lock: "),
        ("version = 2\n".to_owned(), "it is of version 2"),
        (format!("version = 1\n{twice}"), "stands there twice"),
        (format!("version = 1\n{}", entry("oci://x/../y:1", "sha256:00")), "is not a valid reference"),
        (format!("version = 1\n{}", entry(&tag.to_string(), "sha256:../../x")), "expected sha256:"),
        (format!("version = 1\n{}", entry(&tag.at(digest).to_string(), &digest.to_string())), "without a digest"),
        ("version = 1\nowner = 1\n".to_owned(), "unknown field"),
        (" ".repeat((1 << 20) + 1), "at most 1048576 are allowed"),
    ] {
        std::fs::write(home.lock(), &text).unwrap();
        let error = home.fetch(&tag).unwrap_err().to_string();
        assert!(error.contains(words) && error.len() < 600, "{error}");
        assert_eq!(std::fs::read_to_string(home.lock()).unwrap(), text);
    }
    assert!(server.requests().is_empty(), "nothing is asked before the lock file is read");
}

#[test]
fn a_lock_file_that_was_changed_names_other_bytes_and_no_others_are_used() {
    let ((server, _, _), home) = (registry(), Home::new());
    let tag = server.by_tag();
    let other = ContentDigest::of(b"what the registry does not have");
    std::fs::write(home.lock(), format!("version = 1\n[[artifact]]\nreference = \"{tag}\"\ndigest = \"{other}\"\n"))
        .unwrap();
    let error = home.fetch(&tag).unwrap_err().to_string();
    assert!(error.contains(&format!("404 Not Found for the manifest {other}")), "{error}");
}

#[test]
fn a_link_in_place_of_the_lock_file_leads_nowhere() {
    let ((server, _, _), home, outside) = (registry(), Home::new(), tempfile::tempdir().unwrap());
    let target = outside.path().join("target");
    std::fs::write(&target, "version = 1\n").unwrap();
    symlink(&target, home.lock()).unwrap();
    assert!(home.fetch(&server.by_tag()).unwrap_err().to_string().contains("policies.lock"));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "version = 1\n");
}

#[test]
fn tags_that_are_locked_at_the_same_time_are_all_kept() {
    let home = Home::new();
    let tag = |number: usize| LockedTag {
        reference: format!("oci://registry.example/team/policy:{number}").parse().unwrap(),
        digest: ContentDigest::of(number.to_string().as_bytes()),
    };
    std::thread::scope(|scope| {
        for number in 0..32 {
            let lock = LockFile::at(home.lock());
            scope.spawn(move || lock.lock(&[tag(number)]).unwrap());
        }
    });
    for number in 0..32 {
        let kept = LockFile::at(home.lock()).get(&tag(number).reference).unwrap();
        assert_eq!(kept, Some(tag(number).digest), "{number}");
    }
}

#[test]
fn who_first_locks_a_tag_that_is_being_moved_decides_for_all() {
    // Each asks while nothing is locked yet: the one is answered before the tag is moved, the other after.
    let meeting = Arc::new(std::sync::Barrier::new(2));
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |request, stream| {
        if !request.line.contains("/manifests/main") {
            let moved = [ContentDigest::of(b"moved"), manifest(b"moved").1];
            let moved = moved.iter().any(|digest| request.line.contains(&digest.to_string()));
            return honest(request, stream, if moved { b"moved" } else { LAYER });
        }
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        meeting.wait();
        honest(request, stream, if first { LAYER } else { b"moved" });
    });
    let home = Home::new();
    let fetch = || home.fetch(&server.by_tag()).unwrap().digest;
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(fetch);
        (fetch(), other.join().unwrap())
    });
    assert_eq!(one, other);
    assert_eq!(LockFile::at(home.lock()).get(&server.by_tag()).unwrap(), Some(one));
}
