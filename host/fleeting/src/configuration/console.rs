//! The key `console`: an address, or a table of where the pages are served and for whom.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_console::{Error, ServeOptions};

use super::reader::{Reader, kind};

const KEY: &str = "console";
/// The keys of the table.
const KEYS: &[&str] = &["allow_hosts", "certificate_file", "client_ca_file", "key_file", "listen", "token_file"];

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
        reader.wrong(key, format!("{text:?} is no address; write \"127.0.0.1:7474\""));
    }
    address
}
