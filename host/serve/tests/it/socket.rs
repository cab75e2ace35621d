//! The socket's file.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use windlass_serve::{Error, Socket};

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("serve").tempdir_in("/tmp").unwrap()
}

#[tokio::test]
async fn only_the_own_user_may_connect_and_the_file_goes_with_the_server() {
    let folder = folder();
    let path = folder.path().join("policy.sock");
    let socket = Socket::listen(&path, 0o600).await.unwrap();
    assert_eq!(socket.path(), path);
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    drop(socket);
    assert!(!path.exists());
    drop(Socket::listen(&path, 0o666).await.unwrap());
}

#[tokio::test]
async fn the_socket_of_a_dead_server_is_replaced() {
    let folder = folder();
    let path = folder.path().join("policy.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as after kill -9");
    Socket::listen(&path, 0o600).await.unwrap();
}

#[tokio::test]
async fn a_socket_on_which_somebody_listens_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("policy.sock");
    let other = UnixListener::bind(&path).unwrap();
    assert!(matches!(Socket::listen(&path, 0o600).await, Err(Error::InUse { .. })));
    other.set_nonblocking(true).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok(), "it is still served");
}

#[tokio::test]
async fn of_two_servers_the_second_is_refused_also_where_the_first_is_busy() {
    let folder = folder();
    let path = folder.path().join("policy.sock");
    let first = Socket::listen(&path, 0o600).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Socket::listen(&path, 0o600).await, Err(Error::InUse { .. })), "the lock says so");
    // What has taken its place is not the first one's to remove.
    std::fs::write(&path, "somebody's").unwrap();
    drop(first);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
    assert!(matches!(Socket::listen(&path, 0o600).await, Err(Error::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_refused_in_words() {
    let folder = folder();
    let long = folder.path().join("x".repeat(107));
    assert!(matches!(Socket::listen(&long, 0o600).await, Err(Error::LongPath { most: 107, .. })));
    assert!(matches!(Socket::listen("/".as_ref(), 0o600).await, Err(Error::NoName { .. })));
    let missing = folder.path().join("missing/policy.sock");
    assert!(matches!(Socket::listen(&missing, 0o600).await, Err(Error::Listen { .. })));
}
