//! Which sigstore bundles are taken, and attacks by those that are not.

use serde_json::{Value, json};
use windlass_distribution::{ContentDigest, Signature, Trust};

use crate::cosign::{BUNDLE, Cosign, IN_TOTO, SIGN, STATEMENT, pem, statement};
use crate::support::manifest;

const CONTENTS: &[u8] = b"a policy";

fn trust(value: Value) -> Trust {
    Trust::from_value(value).unwrap()
}

fn only(key: &Cosign) -> Trust {
    trust(json!({"keys": {"release": key.pem()}}))
}

fn of_file(bundle: &Value) -> [Signature; 1] {
    [Signature::Sigstore(bundle.to_string())]
}

/// The words of a refusal, which has to name what was refused.
fn refused(trust: &Trust, bundle: &str) -> String {
    let words = trust.verify(CONTENTS, &[Signature::Sigstore(bundle.to_owned())]).unwrap_err().to_string();
    assert!(words.contains(&ContentDigest::of(CONTENTS).to_string()), "{words}");
    assert!(words.len() < 900 && !words.contains('\n'), "{words}");
    words
}

/// What is changed in a bundle, and the words with which it is refused then.
type Change<'a> = (&'a dyn Fn(&mut Value), &'a str);

/// Refuses each change of a bundle that would be taken, with these words.
fn changed(trust: &Trust, bundle: &Value, changes: &[Change<'_>]) {
    assert!(trust.verify(CONTENTS, &of_file(bundle)).is_ok(), "{bundle}");
    for (change, expected) in changes {
        let mut bundle = bundle.clone();
        change(&mut bundle);
        let words = refused(trust, &bundle.to_string());
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_bundle_of_a_named_key_is_taken_and_the_key_is_told() {
    let (old, new) = (Cosign::new(), Cosign::new());
    let trust = trust(json!({"keys": {"old": old.pem(), "new": new.pem()}}));
    for (key, name) in [(&old, "old"), (&new, "new")] {
        let older = key.stating(
            &statement(&json!([{"name": "f", "digest": {"sha256": ContentDigest::of(CONTENTS).hex()}}]), SIGN)
                .replace("Statement/v1", "Statement/v0.1"),
        );
        let mut without_hint = key.blob(CONTENTS);
        without_hint["verificationMaterial"]["publicKey"] = json!({});
        for bundle in [key.blob(CONTENTS), key.statement(CONTENTS), older, without_hint] {
            let signed_by = trust.verify(CONTENTS, &of_file(&bundle)).unwrap();
            assert_eq!((signed_by.key.to_string(), &*signed_by.name), (key.id(), name), "{bundle}");
        }
    }
}

#[test]
fn what_a_log_says_is_neither_needed_nor_believed() {
    let key = Cosign::new();
    let mut bundle = key.blob(CONTENTS);
    bundle["verificationMaterial"]["tlogEntries"] = json!([{"logIndex": "1", "nonsense": {"deep": [1, 2, {}]}}]);
    bundle["verificationMaterial"]["timestampVerificationData"] = json!({"rfc3161Timestamps": []});
    assert!(only(&key).verify(CONTENTS, &of_file(&bundle)).is_ok());
    bundle["messageSignature"]["signature"] = Cosign::new().signature(CONTENTS).into();
    assert!(refused(&only(&key), &bundle.to_string()).contains("is not right"));
}

#[test]
fn a_bundle_of_another_file_is_refused() {
    let key = Cosign::new();
    let other = ContentDigest::of(b"another policy");
    for bundle in [key.blob(b"another policy"), key.statement(b"another policy")] {
        let words = refused(&only(&key), &bundle.to_string());
        assert!(words.contains(&format!("the signature by the key {} (release) is not of", key.id())), "{words}");
        assert!(words.contains(&format!("it is of {other}")), "{words}");
    }
    // It says that it is of this one.
    let mut lying = key.blob(b"another policy");
    lying["messageSignature"]["messageDigest"] = key.blob(CONTENTS)["messageSignature"]["messageDigest"].clone();
    assert!(refused(&only(&key), &lying.to_string()).contains("the signature is not right"));
    // It is of this one, and says that it is of another: nothing that contradicts itself is taken.
    let mut odd = key.blob(CONTENTS);
    odd["messageSignature"]["messageDigest"] = key.blob(b"another policy")["messageSignature"]["messageDigest"].clone();
    assert!(refused(&only(&key), &odd.to_string()).contains(&format!("it is of {other}")));
}

#[test]
fn another_key_is_refused_under_its_own_name_and_under_a_borrowed_one() {
    let (release, stranger) = (Cosign::new(), Cosign::new());
    let trust = only(&release);
    for bundle in [stranger.blob(CONTENTS), stranger.statement(CONTENTS)] {
        let words = refused(&trust, &bundle.to_string());
        assert!(words.contains(&format!("is signed by the key {}", stranger.id())), "{words}");
        assert!(words.contains(&format!("takes only what is signed by {} (release)", release.id())), "{words}");
        let mut borrowed = bundle.clone();
        borrowed["verificationMaterial"]["publicKey"]["hint"] = release.hint().into();
        assert!(refused(&trust, &borrowed.to_string()).contains("the signature is not right"));
        let mut nameless = bundle;
        nameless["verificationMaterial"]["publicKey"] = json!({});
        assert!(refused(&trust, &nameless.to_string()).contains("is by none of"));
    }
}

#[test]
fn a_revoked_key_signs_no_more_whatever_its_bundle_says_about_it() {
    let (old, new) = (Cosign::new(), Cosign::new());
    let bundle = old.blob(CONTENTS);
    let named = trust(json!({"keys": {"old": old.pem(), "new": new.pem()}, "revoked": [old.id()]}));
    let words = refused(&named, &bundle.to_string());
    assert!(words.contains(&format!("is signed by the key {} (old), which `revoked`", old.id())), "{words}");
    let gone = trust(json!({"keys": {"new": new.pem()}, "revoked": [old.id()]}));
    assert!(refused(&gone, &bundle.to_string()).contains("which `revoked`"));
    for hint in [json!({}), json!({"hint": new.hint()})] {
        let mut hidden = bundle.clone();
        hidden["verificationMaterial"]["publicKey"] = hint;
        assert!(named.verify(CONTENTS, &of_file(&hidden)).is_err());
    }
    assert!(named.verify(CONTENTS, &of_file(&new.blob(CONTENTS))).is_ok());
}

#[test]
fn a_bundle_that_was_cut_off_or_of_which_a_byte_was_changed_is_refused() {
    let key = Cosign::new();
    let trust = only(&key);
    for bundle in [key.blob(CONTENTS).to_string(), key.statement(CONTENTS).to_string()] {
        for length in 0..bundle.len() {
            assert!(trust.verify(CONTENTS, &[Signature::Sigstore(bundle[..length].to_owned())]).is_err(), "{length}");
        }
        for place in 0..bundle.len() {
            let mut bytes = bundle.clone().into_bytes();
            bytes[place] ^= 1;
            let text = String::from_utf8(bytes).unwrap();
            assert!(trust.verify(CONTENTS, &[Signature::Sigstore(text.clone())]).is_err(), "{place}: {text}");
        }
    }
}

#[test]
fn a_digest_by_another_algorithm_is_refused() {
    let key = Cosign::new();
    let sha1 = "2jmj7l5rSw0yVb/vlWAYkK/YBwk=";
    changed(
        &only(&key),
        &key.blob(CONTENTS),
        &[
            (&|bundle| bundle["messageSignature"]["messageDigest"]["algorithm"] = "SHA2_512".into(), "by SHA2_512"),
            (&|bundle| bundle["messageSignature"]["messageDigest"]["algorithm"] = "SHA3_256".into(), "by SHA3_256"),
            (&|bundle| bundle["messageSignature"]["messageDigest"]["algorithm"] = 1.into(), "no sigstore bundle"),
            (&|bundle| bundle["messageSignature"]["messageDigest"]["digest"] = sha1.into(), "another length"),
        ],
    );
    for digest in [json!({"sha512": "00"}), json!({"sha1": "00", "SHA256": ContentDigest::of(CONTENTS).hex()})] {
        let bundle = key.stating(&statement(&json!([{"digest": digest}]), SIGN));
        let words = refused(&only(&key), &bundle.to_string());
        assert!(words.contains("names nothing by its SHA-256 digest"), "{words}");
    }
}

#[test]
fn a_statement_that_is_no_consent_is_refused_though_a_trusted_key_signed_it() {
    let key = Cosign::new();
    let of = |digest: &str| json!([{"digest": {"sha256": digest}}]);
    let this = ContentDigest::of(CONTENTS).hex();
    let provenance = "https://slsa.dev/provenance/v1";
    for (statement, expected) in [
        (
            statement(&of(&this), provenance),
            ") signed a statement of type https://slsa.dev/provenance/v1 about sha256:",
        ),
        (
            statement(&of(&this), SIGN).replace(STATEMENT, "https://example.com/x"),
            "is of the type https://example.com/x",
        ),
        (statement(&json!([]), SIGN), "names nothing by its SHA-256"),
        (statement(&of(&this.to_uppercase()), SIGN), "it is of sha256:"),
        (statement(&of("../../etc/passwd\n"), SIGN), "it is of sha256:../../etc/passwd "),
        ("{}".to_owned(), "what it states cannot be read"),
        ("[".repeat(50_000), "what it states cannot be read"),
    ] {
        let words = refused(&only(&key), &key.stating(&statement).to_string());
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_payload_of_another_type_is_refused() {
    let key = Cosign::new();
    let payload = statement(&json!([{"digest": {"sha256": ContentDigest::of(CONTENTS).hex()}}]), SIGN);
    let other = "application/vnd.example+json";
    let words = refused(&only(&key), &key.envelope(payload.as_bytes(), other).to_string());
    assert!(words.contains("its payload is of the type application/vnd.example+json"), "{words}");
    // The type is signed, too: it cannot be changed to the right one.
    let mut renamed = key.envelope(payload.as_bytes(), other);
    renamed["dsseEnvelope"]["payloadType"] = IN_TOTO.into();
    assert!(refused(&only(&key), &renamed.to_string()).contains("the signature is not right"));
    // What was signed as a message is no envelope, and an envelope's signature none of a message.
    let mut message = key.blob(payload.as_bytes());
    let envelope = json!({"payload": base64(&payload), "payloadType": IN_TOTO,
        "signatures": [{"sig": message["messageSignature"]["signature"]}]});
    message.as_object_mut().unwrap().remove("messageSignature");
    message["dsseEnvelope"] = envelope;
    assert!(refused(&only(&key), &message.to_string()).contains("the signature is not right"));
}

fn base64(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

#[test]
fn an_envelope_has_one_signature() {
    let key = Cosign::new();
    changed(
        &only(&key),
        &key.statement(CONTENTS),
        &[
            (&|bundle| bundle["dsseEnvelope"]["signatures"] = json!([]), "it has 0 signatures"),
            (
                &|bundle| {
                    let one = bundle["dsseEnvelope"]["signatures"][0].clone();
                    bundle["dsseEnvelope"]["signatures"].as_array_mut().unwrap().push(one);
                },
                "it has 2 signatures",
            ),
            (&|bundle| bundle["dsseEnvelope"]["signatures"][0]["sig"] = "AA".into(), "its signature is not in base64"),
            (&|bundle| bundle["dsseEnvelope"]["payload"] = "*".into(), "its payload is not in base64"),
        ],
    );
}

#[test]
fn a_name_that_stands_there_twice_is_refused_as_is_one_that_is_not_known() {
    let key = Cosign::new();
    let (trust, good) = (only(&key), key.blob(CONTENTS).to_string());
    let other = key.blob(b"another")["messageSignature"].to_string();
    let own = key.blob(CONTENTS)["messageSignature"].to_string();
    for twice in [
        good.replacen('{', &format!("{{\"messageSignature\":{other},"), 1),
        good.replacen('{', &format!("{{\"messageSignature\":{own},"), 1),
        good.replacen("\"signature\":", "\"signature\":\"AA==\",\"signature\":", 1),
        good.replacen("\"hint\":", "\"hint\":\"\",\"hint\":", 1),
        good.replacen("\"publicKey\":", "\"publicKey\":{},\"publicKey\":", 1),
        good.replacen('{', &format!("{{\"mediaType\":\"{BUNDLE}\","), 1),
    ] {
        assert!(refused(&trust, &twice).contains("duplicate field"), "{twice}");
    }
    assert!(refused(&trust, &good.replacen('{', "{\"content\":{},", 1)).contains("unknown field"));
    // In what is signed, too: the first reader of it might take the other one.
    let this = ContentDigest::of(CONTENTS).hex();
    let digests = format!("{{\"sha256\":\"{}\",\"sha256\":\"{this}\"}}", ContentDigest::of(b"another").hex());
    let text = statement(&json!([{"digest": "DIGESTS"}]), SIGN).replace("\"DIGESTS\"", &digests);
    assert!(refused(&trust, &key.stating(&text).to_string()).contains("duplicate field"));
}

#[test]
fn certificates_and_other_forms_are_refused_with_what_to_do() {
    let key = Cosign::new();
    let certificate = json!({"rawBytes": "AAAA"});
    let chain = json!({"certificates": [certificate]});
    changed(
        &only(&key),
        &key.blob(CONTENTS),
        &[
            (
                &|bundle| bundle["verificationMaterial"] = json!({"certificate": certificate}),
                "sign with `cosign --key`",
            ),
            (&|bundle| bundle["verificationMaterial"]["certificate"] = certificate.clone(), "sign with `cosign --key`"),
            (
                &|bundle| bundle["verificationMaterial"] = json!({"x509CertificateChain": chain}),
                "sign with `cosign --key`",
            ),
            (&|bundle| bundle["verificationMaterial"] = json!({}), "it names no key"),
            (
                &|bundle| bundle["verificationMaterial"]["publicKey"]["hint"] = "release".into(),
                "the hint `release` names no",
            ),
            (&|bundle| bundle["mediaType"] = BUNDLE.replace("0.3", "0.4").into(), "a bundle of the type"),
            (
                &|bundle| bundle["dsseEnvelope"] = key.statement(CONTENTS)["dsseEnvelope"].clone(),
                "and one of a statement",
            ),
            (
                &|bundle| {
                    bundle.as_object_mut().unwrap().remove("messageSignature");
                },
                "it holds no signature",
            ),
        ],
    );
    let older = json!({"base64Signature": key.signature(CONTENTS), "cert": "", "rekorBundle": {}});
    assert!(refused(&only(&key), &older.to_string()).contains("--new-bundle-format"));
}

#[test]
fn a_bundle_without_end_is_not_read() {
    let key = Cosign::new();
    let mut bundle = key.blob(CONTENTS);
    bundle["verificationMaterial"]["tlogEntries"] = json!([]);
    let long = bundle.to_string().replace("[]", &format!("[{}]", " ".repeat(128 << 10)));
    assert!(refused(&only(&key), &long).contains("at most 131072 are allowed"));
    for nonsense in ["", "null", "[]", "{}", &"[".repeat(100_000), &"{\"a\":".repeat(20_000), "\u{0}"] {
        assert!(refused(&only(&key), nonsense).contains("no sigstore bundle"), "{nonsense}");
    }
    let deep = bundle.to_string().replace("[]", &"[".repeat(100_000));
    assert!(refused(&only(&key), &deep).contains("no sigstore bundle"));
}

#[test]
fn a_bundle_for_a_manifest_counts_for_the_contents_that_it_names_and_no_others() {
    let key = Cosign::new();
    let trust = only(&key);
    let (text, _) = manifest(CONTENTS);
    let beside = |bundle: &Value, manifest: &str| {
        [Signature::SigstoreOfManifest { bundle: bundle.to_string(), manifest: manifest.as_bytes().into() }]
    };
    let words = |signature: &[Signature]| trust.verify(CONTENTS, signature).unwrap_err().to_string();
    let good = key.statement(text.as_bytes());
    assert_eq!(trust.verify(CONTENTS, &beside(&good, &text)).unwrap().key.to_string(), key.id());
    // Of the contents themselves, where it should be of the manifest, and the other way round.
    assert!(words(&beside(&key.statement(CONTENTS), &text)).contains("it is of sha256:"));
    assert!(words(&of_file(&good)).contains("it is of sha256:"));
    let (other, _) = manifest(b"another policy");
    assert!(words(&beside(&key.statement(other.as_bytes()), &other)).contains("of a manifest that names"));
    assert!(words(&beside(&good, &other)).contains("of a manifest that names"));
    assert!(words(&beside(&good, &text.replace("\"layers\"", " \"layers\""))).contains("it is of sha256:"));
    assert!(words(&beside(&good, "{}")).contains("its manifest is not valid"));
}

#[test]
fn of_several_signatures_one_is_enough_and_the_refusal_tells_of_the_closest() {
    let (release, stranger) = (Cosign::new(), Cosign::new());
    let bundle = |bundle: &Value| Signature::Sigstore(bundle.to_string());
    let junk = Signature::Sigstore("junk".into());
    let trust = only(&release);
    let good = bundle(&release.blob(CONTENTS));
    let theirs = bundle(&stranger.blob(CONTENTS));
    assert!(trust.verify(CONTENTS, &[junk.clone(), theirs.clone(), good, junk.clone()]).is_ok());
    let words = trust.verify(CONTENTS, &[junk.clone(), theirs, junk]).unwrap_err().to_string();
    assert!(words.contains(&stranger.id()), "{words}");
}

#[test]
fn keys_that_cosign_does_not_make_are_refused_as_what_they_are() {
    let key = Cosign::new();
    let der = key.der();
    let p384 = hex::decode("3076301006072a8648ce3d020106052b81040022036200").unwrap();
    let p521 = hex::decode("30819b301006072a8648ce3d020106052b8104002303818600").unwrap();
    let rsa = hex::decode("30820122300d06092a864886f70d01010105000382010f00").unwrap();
    let ed25519 = [hex::decode("302a300506032b6570032100").unwrap(), vec![7; 32]].concat();
    let compressed =
        [&hex::decode("3039301306072a8648ce3d020106082a8648ce3d030107032200").unwrap(), &der[26..59]].concat();
    let mut off_the_curve = der.clone();
    *off_the_curve.last_mut().unwrap() ^= 1;
    let good = key.pem();
    for (text, expected) in [
        (pem("PUBLIC KEY", &p384), "an ECDSA key on the curve P-384"),
        (pem("PUBLIC KEY", &p521), "an ECDSA key on the curve P-521"),
        (pem("PUBLIC KEY", &rsa), "an RSA key"),
        (pem("PUBLIC KEY", &ed25519), "an Ed25519 key"),
        (pem("PUBLIC KEY", &compressed), "in a form that cosign does not write"),
        (pem("PUBLIC KEY", &[&der[..], &[0]].concat()), "in a form that cosign does not write"),
        (pem("PUBLIC KEY", b"nonsense"), "a key of another kind"),
        (pem("PUBLIC KEY", &off_the_curve), "not on the curve P-256"),
        (pem("ENCRYPTED SIGSTORE PRIVATE KEY", b"secret"), "that is a private key"),
        (pem("CERTIFICATE", b"certificate"), "that is a certificate"),
        (pem("RSA PUBLIC KEY", &der), "expected the whole of cosign.pub"),
        (good.replace("-----END PUBLIC KEY-----\n", ""), "expected the whole of cosign.pub"),
        (good.repeat(2), "expected the whole of cosign.pub"),
        (good.replace('M', "*"), "expected the whole of cosign.pub"),
        (pem("PUBLIC KEY", &[0; 8_000]), "expected the whole of cosign.pub"),
    ] {
        let error = Trust::from_value(json!({"keys": {"release": text}})).unwrap_err();
        assert!(error.starts_with("keys.release: ") && error.contains(expected), "{expected}: {error}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
    for (value, expected) in [
        (json!({"keys": {"a": key.pem(), "b": key.pem()}}), "keys.b: it has the identifier sha256:"),
        (json!({"keys": {"a": key.pem()}, "revoked": ["sha256:00"]}), "is no key's identifier"),
    ] {
        assert!(Trust::from_value(value).unwrap_err().contains(expected));
    }
}

#[test]
fn keys_of_both_kinds_stand_beside_each_other_and_none_signs_for_the_other() {
    let key = Cosign::new();
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let trust = trust(json!({"keys": {"cosign": key.pem(), "minisign": pair.pk.to_base64()}}));
    let text =
        minisign::sign(Some(&pair.pk), &pair.sk, std::io::Cursor::new(CONTENTS), None, None).unwrap().to_string();
    let bundle = key.blob(CONTENTS).to_string();
    assert_eq!(trust.verify(CONTENTS, &[Signature::Minisign(text.clone())]).unwrap().name, "minisign");
    assert_eq!(trust.verify(CONTENTS, &[Signature::Sigstore(bundle.clone())]).unwrap().name, "cosign");
    assert!(trust.verify(CONTENTS, &[Signature::Minisign(bundle), Signature::Sigstore(text)]).is_err());
}
