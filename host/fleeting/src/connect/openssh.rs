//! Private keys in OpenSSH's own form, as `ssh-keygen` writes them (OpenSSH's PROTOCOL.key).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const ED25519: &[u8] = b"ssh-ed25519";
/// Characters of a line of base64, as OpenSSH breaks it.
const LINE: usize = 70;

/// A new Ed25519 key without a passphrase.
///
/// # Errors
/// This machine gives no random bytes.
pub(super) fn new_private_key() -> Result<String, Unspecified> {
    let random = SystemRandom::new();
    let (mut seed, mut check) = ([0; 32], [0; 4]);
    random.fill(&mut seed)?;
    random.fill(&mut check)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| Unspecified)?;
    let public = pair.public_key().as_ref();

    let mut private = [check, check].concat();
    for field in [ED25519, public, &[&seed, public].concat(), b""] {
        put(&mut private, field);
    }
    // No cipher works on blocks of less than eight bytes; the padding counts up from 1.
    private.extend((1..8).take(private.len().next_multiple_of(8) - private.len()));

    let mut public_key = Vec::new();
    put(&mut public_key, ED25519);
    put(&mut public_key, public);

    let mut bytes = MAGIC.to_vec();
    // Cipher, key derivation and its options.
    for field in [&b"none"[..], b"none", b""] {
        put(&mut bytes, field);
    }
    bytes.extend(1_u32.to_be_bytes());
    put(&mut bytes, &public_key);
    put(&mut bytes, &private);

    let text = STANDARD.encode(bytes);
    let mut pem = format!("{BEGIN}\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    Ok(pem + END + "\n")
}

/// The public part of a private key, as a line of `authorized_keys` without a comment. None: it has another form. The
/// public part of a key with a passphrase is not encrypted.
pub(super) fn public_key(pem: &str) -> Option<String> {
    let text: String = pem.trim().strip_prefix(BEGIN)?.strip_suffix(END)?.split_whitespace().collect();
    let bytes = STANDARD.decode(text).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    for _cipher_derivation_and_options in 0..3 {
        take(&mut rest)?;
    }
    // OpenSSH writes, and reads, one key in a file.
    rest = rest.strip_prefix(&1_u32.to_be_bytes())?;
    let public = take(&mut rest)?;
    take(&mut rest)?;
    let algorithm = std::str::from_utf8(take(&mut &public[..])?).ok()?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-@.".contains(&byte);
    let valid = rest.is_empty() && !algorithm.is_empty() && algorithm.bytes().all(is_word);
    valid.then(|| format!("{algorithm} {}", STANDARD.encode(public)))
}

/// A length in four bytes, then as many.
fn put(bytes: &mut Vec<u8>, field: &[u8]) {
    let length = u32::try_from(field.len()).expect("a field of a key is some hundred bytes long");
    bytes.extend(length.to_be_bytes());
    bytes.extend(field);
}

fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (field, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *rest = after;
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by OpenSSH 9.2's `ssh-keygen -t ed25519 -N pass` and `-t ecdsa -N ''` for this test, and used nowhere.
    const WITH_PASSPHRASE: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABB5Q4gHqI
4+YFa3a3rmTk+3AAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIJQvE+SFraofhEMH
i8/10X3tm2fTCkqvP4M28/+Ceb2sAAAAkEPW78ZFFa2N67PhhumdwMzj1IfK8o11uqkGV+
0C89TKwrUFrk1XrUpFeiCh6i4CdJold7uvPvl0c+hlapIytAIFF/b+GBwpPD5bPIW78oSW
P9COmrVkwU1JxcKusBMrX4l/GTqaANqIA1TFbhVxjZQ6xjocy4jYvpedJnhBGOxLPc+29U
pqfN48/4eeOoK9ZA==
-----END OPENSSH PRIVATE KEY-----
";
    const WITH_PASSPHRASE_PUBLIC: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJQvE+SFraofhEMHi8/10X3tm2fTCkqvP4M28/+Ceb2s";
    const ECDSA: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAaAAAABNlY2RzYS
1zaGEyLW5pc3RwMjU2AAAACG5pc3RwMjU2AAAAQQR6Z2i67nw9ecx9fr4yBG6u89h7V0KU
fmGWnvSMM+KMUvCblQEbcRgK1JQ++4eNlhN4fEl3mUhksKBWecDM3iK6AAAAoGBuaONgbm
jjAAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHpnaLrufD15zH1+
vjIEbq7z2HtXQpR+YZae9Iwz4oxS8JuVARtxGArUlD77h42WE3h8SXeZSGSwoFZ5wMzeIr
oAAAAhANArywkFpNVoe8gZDSJhbqGZ21wEge+9352LNoPma/XpAAAAA3ggeQECAwQ=
-----END OPENSSH PRIVATE KEY-----
";
    const ECDSA_PUBLIC: &str = "\
ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHpnaLrufD15zH1+vjIEbq7z2HtXQpR+YZae9Iwz4oxS8JuVARtxGArUlD77h42WE3h8SXeZSGSwoFZ5wMzeIro=";

    #[test]
    fn the_public_part_is_what_ssh_keygen_says() {
        assert_eq!(public_key(WITH_PASSPHRASE).unwrap(), WITH_PASSPHRASE_PUBLIC);
        assert_eq!(public_key(&ECDSA.replace('\n', "\r\n")).unwrap(), ECDSA_PUBLIC);
    }

    #[test]
    fn a_key_that_is_cut_anywhere_has_no_public_part() {
        let body = ECDSA.trim().strip_prefix(BEGIN).unwrap().strip_suffix(END).unwrap().replace('\n', "");
        let bytes = STANDARD.decode(body).unwrap();
        for length in 0..bytes.len() {
            let cut = format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(&bytes[..length]));
            assert_eq!(public_key(&cut), None, "{length} bytes");
        }
    }

    #[test]
    fn a_new_key_is_read_by_openssh() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let pem = new_private_key().unwrap();
        std::fs::write(&file, &pem).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let Ok(said) = std::process::Command::new("ssh-keygen").arg("-y").arg("-f").arg(&file).output() else {
            return eprintln!("SKIPPED: there is no ssh-keygen");
        };
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.trim(), public_key(&pem).unwrap());
    }
}
