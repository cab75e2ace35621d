//! Against a server of the same library, for what a real sshd on this machine cannot be asked: passwords.

use std::sync::Arc;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::server::{self, Auth};

use super::*;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

struct Handler;

impl server::Handler for Handler {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Self::Error> {
        Ok(if (user, password) == ("m1", "open sesame") { Auth::Accept } else { Auth::reject() })
    }
}

/// The port of a server whose host key is made of this seed.
async fn serve(seed: u8) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(server::Config {
        keys: vec![key(seed)],
        auth_rejection_time: std::time::Duration::ZERO,
        auth_rejection_time_initial: Some(std::time::Duration::ZERO),
        ..server::Config::default()
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let config = config.clone();
            tokio::spawn(async move {
                if let Ok(session) = server::run_stream(config, stream, Handler).await {
                    let _ = session.await;
                }
            });
        }
    });
    port
}

fn destination(port: u16) -> Destination {
    Destination { address: [127, 0, 0, 1].into(), port, user: "m1".to_owned() }
}

fn password(text: &str) -> Login {
    Login::Password(Password::new(text))
}

#[tokio::test]
async fn the_right_password_lets_in_and_a_wrong_one_is_told_without_quoting_it() {
    let port = serve(1).await;
    let shown = ShownHostKey::default();
    Session::open(&destination(port), &password("open sesame"), vec![], &shown).await.unwrap().close().await;
    let host_key = shown.accepted().unwrap();
    assert_eq!(host_key.to_string().parse::<HostKey>().unwrap(), host_key);

    let login = password("not this one");
    let refused = Session::open(&destination(port), &login, vec![host_key], &shown).await.unwrap_err();
    assert_eq!(refused, Error::LoginRefused { user: "m1".into() });
    assert!(!format!("{login:?} {refused} {refused:?}").contains("not this one"));
}

#[tokio::test]
async fn a_password_is_told_to_nobody_whose_host_key_is_another() {
    let port = serve(2).await;
    let expected: HostKey = key(1).public_key().to_openssh().unwrap().parse().unwrap();
    let shown = ShownHostKey::default();
    let refused =
        Session::open(&destination(port), &password("open sesame"), vec![expected.clone()], &shown).await.unwrap_err();
    assert!(
        matches!(&refused, Error::HostKey { expected: reported, .. } if *reported == expected.fingerprint()),
        "{refused}"
    );
    assert_eq!(shown.accepted(), None);
}

#[test]
fn a_comment_makes_no_other_host_key_and_a_private_key_shows_its_fingerprint_alone() {
    let line = key(3).public_key().to_openssh().unwrap();
    let commented: HostKey = format!("{line} root@mac").parse().unwrap();
    assert_eq!(commented, line.parse().unwrap());
    assert!("rubbish".parse::<HostKey>().is_err());

    let pem = key(3).to_openssh(LineEnding::LF).unwrap();
    let identity = Identity::from_openssh(&pem).unwrap();
    assert_eq!(format!("{identity:?}"), format!("Identity({})", commented.fingerprint()));
    assert_eq!(Identity::from_openssh("hush-hush").unwrap_err(), KeyError::Unusable);
}
