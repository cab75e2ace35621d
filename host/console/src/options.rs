//! Where a console is served and for whom, as an operator says it: an address, names and files.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;

/// The largest file of a token, a key or certificates.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// How often files are looked at again, unless it is said otherwise.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Where a console is served and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The names, beside this machine's own and the address, by which the console may be asked for, without port.
    pub allow_hosts: Vec<String>,
    /// The file whose first line is the token. It is read again when it changes.
    pub token_file: Option<PathBuf>,
    /// Absent: HTTP.
    pub tls: Option<TlsFiles>,
    /// How often it is looked whether files have changed.
    pub look_again: Duration,
}

/// The files by which a console speaks TLS, in PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the console, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates: who has one of theirs may look. Where there is a token, too, one of
    /// the two is enough.
    pub client_authorities: Option<PathBuf>,
}

impl ServeOptions {
    /// On this address, for this machine alone, without TLS.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, allow_hosts: Vec::new(), token_file: None, tls: None, look_again: LOOK_AGAIN }
    }

    /// With TLS by these files, of which those for clients need the others. No file is TLS's absence.
    ///
    /// # Errors
    /// One is missing.
    pub fn with_tls(
        mut self,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        client_authorities: Option<PathBuf>,
    ) -> Result<Self, Error> {
        self.tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key, client_authorities }),
            (None, None) if client_authorities.is_none() => None,
            _ => return Err(Error::HalfTls),
        };
        Ok(self)
    }

    /// Whether clients' certificates are looked at.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some())
    }

    /// Checks the access rules, as far as possible without opening a file.
    ///
    /// # Errors
    /// [`Error::Unguarded`], [`Error::Hosts`].
    pub fn check(&self) -> Result<(), Error> {
        let wrong: Vec<_> =
            self.allow_hosts.iter().filter(|host| !is_host_name(host)).map(|it| format!("{it:?}")).collect();
        if !wrong.is_empty() {
            return Err(Error::Hosts { hosts: wrong.join(", ") });
        }
        let guarded = self.token_file.is_some() || self.asks_for_certificates();
        match guarded || self.listen.ip().is_loopback() {
            true => Ok(()),
            false => Err(Error::Unguarded { address: self.listen }),
        }
    }

    /// The token, where there is one to be.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = read(path, "the token")?;
        let text = String::from_utf8(text).unwrap_or_default();
        Ok(Some(text.lines().next().unwrap_or_default().trim().to_owned()))
    }
}

/// Whether a request can ask for the console by this name: any other would never be found again in its `Host`.
fn is_host_name(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_of_name),
    }
}

/// A file that the operator names.
///
/// # Errors
/// It cannot be read, or is larger than such files are.
pub(crate) fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { what, path: path.to_owned(), source };
    windlass_process::read_bounded(path, MAX_FILE_BYTES).map_err(failed)
}
