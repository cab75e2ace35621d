//! A server with TLS.

use std::collections::BTreeMap;

use windlass_lifecycle::log::SharedLog as _;
use windlass_postgres::PostgresState;
use windlass_test_pages::Authority;
use windlass_test_postgres::Server;

#[test]
fn a_server_must_prove_its_name_with_a_trusted_certificate() {
    let (trusted, other) = (Authority::new("trusted"), Authority::new("other"));
    let identity = trusted.server();
    let Some(server) = Server::start_with_tls(&identity.certificate, &identity.key) else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = |host: &str, authority: &Authority| {
        let file = folder.path().join("authority.pem");
        std::fs::write(&file, &authority.certificate).unwrap();
        let url = format!("{}&sslrootcert={}", server.url_at(host, "s"), file.display());
        PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap()
    };
    let log = state("localhost", &trusted).open().unwrap();
    assert_eq!(server.execute("select bool_or(ssl) from pg_stat_ssl"), "t");
    drop(log);
    for (host, authority, problem) in [
        ("localhost", &other, "invalid peer certificate: UnknownIssuer"),
        ("127.0.0.2", &trusted, "certificate not valid for name \"127.0.0.2\""),
    ] {
        let error = state(host, authority).open().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains(host), "{error}");
    }
}
