//! The key `console`: an address, or a table of where the pages are served and for whom.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_console::{Error, ServeOptions};

use super::reader::{Reader, kind};

const KEY: &str = "console";
/// The keys of the table.
pub(super) const KEYS: &[&str] =
    &["allow_hosts", "certificate_file", "client_ca_file", "key_file", "listen", "token_file"];

/// Where the console is served, and for whom. Nothing is opened yet.
pub(super) fn console(reader: &mut Reader<'_>) -> Option<ServeOptions> {
    let options = match reader.take(KEY)? {
        Value::String(text) => ServeOptions::new(address(reader, KEY, &text)?),
        Value::Object(table) => reader.table(KEY, table, KEYS, read)?,
        other => {
            reader
                .wrong(KEY, format!("expected an address like \"127.0.0.1:7474\" or a table, found {}", kind(&other)));
            return None;
        }
    };
    match options.check() {
        Ok(()) => Some(options),
        Err(error @ Error::Hosts { .. }) => {
            reader.wrong(KEY, error.to_string());
            None
        }
        Err(error) => {
            let remedy =
                "listen on 127.0.0.1, or name a token_file, or a client_ca_file with certificate_file and key_file";
            reader.wrong(KEY, format!("{error}: {remedy}"));
            None
        }
    }
}

fn read(table: &mut Reader<'_>) -> Option<ServeOptions> {
    let listen = match table.text("listen") {
        Some(text) => address(table, "listen", &text),
        None => {
            table.wrong("listen", "say where, for example \"127.0.0.1:7474\"");
            None
        }
    };
    let token_file = file(table, "token_file");
    let (certificate, key) = (file(table, "certificate_file"), file(table, "key_file"));
    let client_ca = file(table, "client_ca_file");
    let allow_hosts = table.texts("allow_hosts");
    let options = ServeOptions { allow_hosts, token_file, ..ServeOptions::new(listen?) };
    match options.with_tls(certificate, key, client_ca) {
        Ok(options) => Some(options),
        Err(Error::HalfTls) => {
            table.wrong("certificate_file", "TLS needs certificate_file and key_file, and client_ca_file needs both");
            None
        }
        Err(error) => {
            table.wrong("certificate_file", error.to_string());
            None
        }
    }
}

fn file(table: &mut Reader<'_>, key: &str) -> Option<PathBuf> {
    let path = table.text(key)?;
    // The runner decides what the working directory is, so a relative path means a different place each time.
    if !Path::new(&path).is_absolute() {
        table.wrong(key, format!("{path:?} is not absolute; write the whole path"));
        return None;
    }
    Some(PathBuf::from(path))
}

fn address(reader: &mut Reader<'_>, key: &str, text: &str) -> Option<SocketAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        reader.wrong(key, format!("{text:?} is not an address; write \"127.0.0.1:7474\""));
    }
    address
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::configuration::{GroupConfiguration, ProcessEnvironment};

    fn read(kind: &str, console: &Value) -> Result<Option<ServeOptions>, String> {
        let home = tempfile::tempdir().unwrap();
        let variables = [("HOME", home.path().to_str().unwrap()), ("SCW_DEFAULT_ZONE", "fr-par-1")];
        let mut configuration = json!({
            "name": "ci", "kind": kind, "secret_key": "11111111-2222-4333-8444-555555555555", "state_dir": "/state",
            "project": "22222222-2222-4333-8444-555555555555", "console": console,
        });
        let more = match kind {
            "instance" => json!({"server_type": "DEV1-S", "image": "ubuntu_noble"}),
            _ => json!({"server_type": "M4-S", "pool_prefix": "pool-"}),
        };
        configuration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let environment: ProcessEnvironment = variables.into_iter().collect();
        match GroupConfiguration::read(configuration.to_string().as_bytes(), &environment) {
            Ok(read) => Ok(read.as_ref().console.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn an_address_or_a_table_is_read_for_both_kinds_of_groups() {
        for kind in ["instance", "apple-silicon"] {
            assert_eq!(read(kind, &Value::Null).unwrap(), None);
            let loopback = ServeOptions::new("127.0.0.1:7474".parse().unwrap());
            assert_eq!(read(kind, &json!("127.0.0.1:7474")).unwrap(), Some(loopback.clone()));
            assert_eq!(read(kind, &json!({"listen": "127.0.0.1:7474"})).unwrap(), Some(loopback));
        }
    }

    #[test]
    fn the_table_that_the_documents_show_is_read_whole() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/console.md");
        let page = std::fs::read_to_string(page).unwrap();
        let begin = "[runners.autoscaler.plugin_config.console]";
        let (_, table) = page.split_once(begin).unwrap();
        let table: toml::Value = toml::from_str(table.split("```").next().unwrap()).unwrap();
        let read = read("instance", &serde_json::to_value(table).unwrap()).unwrap().unwrap();
        let tls = read.tls.unwrap();
        assert_eq!(tls.client_authorities, Some(PathBuf::from("/etc/windlass/clients.crt")));
        assert_eq!(
            (tls.certificate.as_path(), tls.key.as_path()),
            (Path::new("/etc/windlass/tls.crt"), Path::new("/etc/windlass/tls.key"))
        );
        assert_eq!(read.token_file, Some(PathBuf::from("/etc/windlass/console-token")));
        assert_eq!(read.allow_hosts, ["runners.example.com"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_what_would_be_right() {
        let path = "/etc/windlass/x";
        for (console, words) in [
            (json!("7474"), "console: \"7474\" is not an address; write \"127.0.0.1:7474\""),
            (json!(7474), "console: expected an address like \"127.0.0.1:7474\" or a table, found a number"),
            (json!("0.0.0.0:7474"), "listen on 127.0.0.1, or name a token_file, or a client_ca_file"),
            (json!({"listen": "0.0.0.0:1", "certificate_file": path, "key_file": path}), "name a token_file"),
            (json!({"token_file": path}), "console.listen: say where"),
            (json!({"listen": "0.0.0.0:1", "token_file": "token"}), "console.token_file: \"token\" is not absolute"),
            (json!({"listen": "127.0.0.1:1", "client_ca_file": path}), "console.certificate_file: TLS needs"),
            (json!({"listen": "127.0.0.1:1", "key_file": path}), "console.certificate_file: TLS needs"),
            (
                json!({"listen": "127.0.0.1:1", "tokenfile": path}),
                "console.tokenfile: there is no such key; did you mean `token_file`?",
            ),
        ] {
            let problems = read("instance", &console).unwrap_err();
            assert!(problems.contains(words), "{words}: {problems}");
        }
    }
}
