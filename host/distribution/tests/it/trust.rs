//! Which signatures are taken.

use std::io::Cursor;

use minisign::KeyPair;
use serde_json::json;
use windlass_distribution::{Signature, Trust};

const CONTENTS: &[u8] = b"a policy";

fn sign(pair: &KeyPair, contents: &[u8], comment: &str) -> Signature {
    Signature::Minisign(text(pair, contents, comment))
}

fn text(pair: &KeyPair, contents: &[u8], comment: &str) -> String {
    minisign::sign(Some(&pair.pk), &pair.sk, Cursor::new(contents), Some(comment), None).unwrap().to_string()
}

fn pair() -> KeyPair {
    KeyPair::generate_unencrypted_keypair().unwrap()
}

fn id(pair: &KeyPair) -> String {
    format!("{:016X}", u64::from_le_bytes(pair.pk.keynum().try_into().unwrap()))
}

fn trust(value: serde_json::Value) -> Trust {
    Trust::from_value(value).unwrap()
}

fn refused(trust: &Trust, contents: &[u8], signatures: &[Signature]) -> String {
    trust.verify(contents, signatures).unwrap_err().to_string()
}

#[test]
fn a_signature_of_a_named_key_is_taken_and_the_key_is_told() {
    let (old, new) = (pair(), pair());
    let trust = trust(json!({"keys": {"old": old.pk.to_base64(), "new": new.pk.to_box().unwrap().to_string()}}));
    for (pair, name) in [(&old, "old"), (&new, "new")] {
        let signed_by = trust.verify(CONTENTS, &[sign(pair, CONTENTS, "any")]).unwrap();
        assert_eq!((signed_by.key.to_string(), &*signed_by.name), (id(pair), name));
    }
    // One that is taken is enough.
    assert!(trust.verify(CONTENTS, &[sign(&pair(), CONTENTS, "any"), sign(&new, CONTENTS, "any")]).is_ok());
}

#[test]
fn what_nobody_trusted_has_signed_is_refused_with_digest_key_and_rule() {
    let (release, stranger) = (pair(), pair());
    let trust = trust(json!({"keys": {"release": release.pk.to_base64()}}));
    let words = refused(&trust, CONTENTS, &[]);
    assert!(words.contains("is not signed") && words.contains(&id(&release)), "{words}");
    let words = refused(&trust, CONTENTS, &[sign(&stranger, CONTENTS, "any")]);
    assert!(
        words.contains(&format!("is signed by the key {}", id(&stranger))) && words.contains("(release)"),
        "{words}"
    );
    for nonsense in ["", "\n\n\n", "untrusted comment: x\nAAAA\ntrusted comment: y\nAAAA\n", &"x\n".repeat(10_000)] {
        assert!(
            refused(&trust, CONTENTS, &[Signature::Minisign(nonsense.to_owned())]).contains("cannot be read"),
            "{nonsense}"
        );
    }
}

#[test]
fn a_signature_of_another_file_is_refused() {
    let release = pair();
    let trust = trust(json!({"keys": {"release": release.pk.to_base64()}}));
    let words = refused(&trust, CONTENTS, &[sign(&release, b"another policy", "any")]);
    assert!(
        words.contains(&format!("the signature by the key {} (release) is not of sha256:", id(&release))),
        "{words}"
    );
}

#[test]
fn a_changed_comment_a_changed_signature_and_a_borrowed_name_are_refused() {
    let (release, stranger) = (pair(), pair());
    let trust = trust(json!({"keys": {"release": release.pk.to_base64()}}));
    let good = text(&release, CONTENTS, "version 1");
    let minisign = |text: String| [Signature::Minisign(text)];
    assert!(trust.verify(CONTENTS, &minisign(good.clone())).is_ok());
    assert!(refused(&trust, CONTENTS, &minisign(good.replace("version 1", "version 2"))).contains("is not of"));
    let lines: Vec<&str> = good.lines().collect();
    let theirs = text(&stranger, CONTENTS, "version 1");
    let their_lines: Vec<&str> = theirs.lines().collect();
    // The stranger's signature under the trusted key's identifier: the first 10 of 74 bytes, and so not whole digits.
    let mut decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, their_lines[1]).unwrap();
    let ours = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, lines[1]).unwrap();
    decoded[..10].copy_from_slice(&ours[..10]);
    let borrowed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, decoded);
    let borrowed = [their_lines[0], &borrowed, their_lines[2], their_lines[3]].join("\n");
    assert!(refused(&trust, CONTENTS, &minisign(borrowed)).contains("is not of"));
    // Halves of two signatures of the same key.
    let other = text(&release, CONTENTS, "version 2");
    let mixed = [lines[0], lines[1], lines[2], other.lines().nth(3).unwrap()].join("\n");
    assert!(refused(&trust, CONTENTS, &minisign(mixed)).contains("is not of"));
}

#[test]
fn a_revoked_key_signs_no_more_whether_it_is_still_named_or_not() {
    let (old, new) = (pair(), pair());
    let signed = [sign(&old, CONTENTS, "any")];
    let named = trust(json!({"keys": {"old": old.pk.to_base64(), "new": new.pk.to_base64()}, "revoked": [id(&old)]}));
    let words = refused(&named, CONTENTS, &signed);
    assert!(words.contains(&format!("is signed by the key {} (old), which `revoked`", id(&old))), "{words}");
    let gone = trust(json!({"keys": {"new": new.pk.to_base64()}, "revoked": [id(&old)]}));
    assert!(refused(&gone, CONTENTS, &signed).contains("which `revoked`"));
    assert!(named.verify(CONTENTS, &[sign(&new, CONTENTS, "any")]).is_ok());
}

#[test]
fn a_version_older_than_the_minimum_is_refused() {
    let trust = trust(json!({"keys": {"release": pair().pk.to_base64()}, "minimum_versions": {"retry": "1.10.0"}}));
    for (name, version, taken) in [
        ("retry", "1.10.0", true),
        ("retry", "2.0.0", true),
        ("retry", "1.9.9", false),
        ("retry", "1.10.0-beta.1", false),
        ("retry", "newest", false),
        ("rollback", "0.0.1", true),
    ] {
        assert_eq!(trust.check_version(name, version).is_ok(), taken, "{name} {version}");
    }
    let words = trust.check_version("retry", "1.9.9").unwrap_err().to_string();
    assert!(words.contains("retry 1.9.9 is older than 1.10.0, which `minimum_versions`"), "{words}");
}

#[test]
fn trust_in_nobody_and_keys_that_are_none_are_refused() {
    let key = pair().pk.to_base64();
    for (value, words) in [
        (json!({}), "missing field `keys`"),
        (json!({"keys": {}}), "is empty"),
        (json!({"keys": {"a": "RWQ"}}), "keys.a: expected the second line of minisign.pub"),
        (json!({"keys": {"a": key, "b": key}}), "keys.b: it has the identifier"),
        (json!({"keys": {"a": key}, "revoked": ["a"]}), "is no key's identifier"),
        (json!({"keys": {"a": key}, "minimum_versions": {"x": "1"}}), "unexpected end"),
        (json!({"keys": {"a": key}, "key": {}}), "unknown field `key`"),
    ] {
        let error = Trust::from_value(value).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
