//! Where something listens, as an option says it.

use std::net::SocketAddr;

/// Somewhere to listen, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub Option<SocketAddr>);

pub(crate) fn address(text: &str) -> Result<Address, String> {
    if text == "0" {
        return Ok(Address(None));
    }
    // `:8080`, as Go programs write it.
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| Address(Some(address)))
        .map_err(|_| "expected an address and port such as 0.0.0.0:8080 or :8080, or 0 for nowhere".to_owned())
}
