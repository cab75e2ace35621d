//! Who may look: requests that a browser was tricked into are refused, and so is everybody without the token.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};

use crate::Error;

/// The fewest characters of a token.
pub const MIN_TOKEN_CHARACTERS: usize = 16;
/// The names by which a machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Who may look.
#[derive(Clone, Debug)]
pub struct Access {
    /// The names by which the console may be asked for, without port.
    hosts: BTreeSet<String>,
    /// The digest of the token, where there is one. All who were made of one `Access` have the same.
    token: Option<Arc<RwLock<[u8; 32]>>>,
    /// Whether a client's certificate lets its bearer look.
    certificates: bool,
}

impl Access {
    /// For a console on this address. `hosts` are the names, beside this machine's own and the address, by which it may
    /// be asked for: a page of a stranger's whose name suddenly leads here is refused by its name.
    ///
    /// # Errors
    /// The address is no loopback address and there is no token, or the token can be guessed.
    pub fn new(
        address: SocketAddr,
        hosts: impl IntoIterator<Item = String>,
        token: Option<&str>,
    ) -> Result<Self, Error> {
        Self::guarded(address, hosts, token, false)
    }

    /// As [`Access::new`], where `certificates` says that clients' certificates are looked at, which are as good as a
    /// token then.
    pub(crate) fn guarded(
        address: SocketAddr,
        hosts: impl IntoIterator<Item = String>,
        token: Option<&str>,
        certificates: bool,
    ) -> Result<Self, Error> {
        if token.is_none() && !certificates && !address.ip().is_loopback() {
            return Err(Error::Unguarded { address });
        }
        let token = token.map(digest_of_good).transpose()?.map(|digest| Arc::new(RwLock::new(digest)));
        let mut names: BTreeSet<String> = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        names.extend(LOOPBACK.map(str::to_owned));
        if !address.ip().is_unspecified() {
            let ip = address.ip();
            names.insert(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        Ok(Self { hosts: names, token, certificates })
    }

    /// Takes this token from now on, and no other. Says whether it is another than before.
    ///
    /// # Errors
    /// It can be guessed; that of before is taken on.
    pub(crate) fn replace_token(&self, token: &str) -> Result<bool, Error> {
        let Some(current) = &self.token else { return Ok(false) };
        let digest = digest_of_good(token)?;
        Ok(std::mem::replace(&mut *current.write(), digest) != digest)
    }

    /// Why a request is refused, if it is. `certified`: its connection has brought a certificate that was verified.
    pub(crate) fn refusal(
        &self,
        method: &Method,
        headers: &HeaderMap,
        certified: bool,
    ) -> Option<(StatusCode, &'static str)> {
        if method != Method::GET && method != Method::HEAD {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "the console is for reading only"));
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(name_of);
        if !host.is_some_and(|host| self.hosts.contains(&host)) {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "this host name is not allowed: add it to the allowed hosts of the console",
            ));
        }
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().ok().and_then(|origin| origin.split_once("://")));
        if origin.is_some_and(|origin| !origin.is_some_and(|(_, host)| self.hosts.contains(&name_of(host)))) {
            return Some((StatusCode::FORBIDDEN, "the console is not for other sites"));
        }
        if certified && self.certificates {
            return None;
        }
        match &self.token {
            Some(token) if given(headers).is_none_or(|given| digest(&given) != *token.read()) => {
                Some((StatusCode::UNAUTHORIZED, "a token is required, as the password or as a bearer token"))
            }
            None if self.certificates => Some((StatusCode::UNAUTHORIZED, "a client certificate is required")),
            _ => None,
        }
    }
}

fn digest_of_good(token: &str) -> Result<[u8; 32], Error> {
    match token.chars().count() < MIN_TOKEN_CHARACTERS {
        true => Err(Error::ShortToken { least: MIN_TOKEN_CHARACTERS }),
        false => Ok(digest(token)),
    }
}

/// Digests are compared, so that the time of a comparison tells nothing of the token.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The name of a host, without its port.
fn name_of(host: &str) -> String {
    let end = if host.starts_with('[') { host.find(']').map(|end| end + 1) } else { host.find(':') };
    host.get(..end.unwrap_or(host.len())).unwrap_or(host).to_ascii_lowercase()
}

/// The token that a request brings: a browser asks for a user's name as well, which does not matter.
fn given(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()).ok()).flatten()?;
    let decoded = String::from_utf8(decoded).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    fn headers(of: &[(HeaderName, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn status(access: &Access, of: &[(HeaderName, &str)]) -> Option<u16> {
        access.refusal(&Method::GET, &headers(of), false).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_this_machine_may_look_without_a_token() {
        for open in ["0.0.0.0:7474", "192.168.1.7:7474", "[::]:7474"] {
            assert!(matches!(Access::new(open.parse().unwrap(), [], None), Err(Error::Unguarded { .. })), "{open}");
            assert!(Access::new(open.parse().unwrap(), [], Some(TOKEN)).is_ok(), "{open}");
        }
        assert!(Access::new("127.0.0.1:7474".parse().unwrap(), [], None).is_ok());
        let short = Access::new("127.0.0.1:7474".parse().unwrap(), [], Some("short"));
        assert!(matches!(short, Err(Error::ShortToken { .. })));
    }

    #[test]
    fn a_stranger_s_name_that_leads_here_is_refused_and_so_is_a_stranger_s_page() {
        let access = Access::new("127.0.0.1:7474".parse().unwrap(), ["ops.example".to_owned()], None).unwrap();
        for host in ["localhost:7474", "127.0.0.1:7474", "LOCALHOST", "[::1]:7474", "ops.example"] {
            assert_eq!(status(&access, &[(HOST, host)]), None, "{host}");
        }
        for host in ["evil.example:7474", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"] {
            assert_eq!(status(&access, &[(HOST, host)]), Some(421), "{host}");
        }
        assert_eq!(status(&access, &[]), Some(421));
        for (origin, refused) in
            [("http://localhost:7474", None), ("http://evil.example", Some(403)), ("null", Some(403))]
        {
            assert_eq!(status(&access, &[(HOST, "localhost:7474"), (ORIGIN, origin)]), refused, "{origin}");
        }
    }

    #[test]
    fn a_token_is_taken_as_a_password_and_as_a_bearer_token_and_nothing_else() {
        let access = Access::new("0.0.0.0:7474".parse().unwrap(), [], Some(TOKEN)).unwrap();
        let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("anybody:{password}")));
        for (authorization, refused) in [
            (format!("Bearer {TOKEN}"), None),
            (basic(TOKEN), None),
            (basic("correct-horse-batterx"), Some(401)),
            (format!("Bearer {TOKEN}x"), Some(401)),
            ("Basic !!!".to_owned(), Some(401)),
            (String::new(), Some(401)),
        ] {
            assert_eq!(status(&access, &[(HOST, "localhost"), (AUTHORIZATION, &authorization)]), refused);
        }
        assert_eq!(status(&access, &[(HOST, "localhost")]), Some(401));
    }

    #[test]
    fn a_certificate_is_as_good_as_the_token_where_certificates_are_looked_at() {
        let address = "0.0.0.0:7474".parse().unwrap();
        let certified = |access: &Access, of: &[(HeaderName, &str)]| {
            access.refusal(&Method::GET, &headers(of), true).map(|(status, _)| status.as_u16())
        };
        let host = (HOST, "localhost");
        let alone = Access::guarded(address, [], None, true).unwrap();
        assert_eq!(
            (certified(&alone, std::slice::from_ref(&host)), status(&alone, std::slice::from_ref(&host))),
            (None, Some(401))
        );
        let both = Access::guarded(address, [], Some(TOKEN), true).unwrap();
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(certified(&both, std::slice::from_ref(&host)), None);
        assert_eq!(status(&both, &[host.clone(), (AUTHORIZATION, &bearer)]), None);
        assert_eq!(status(&both, std::slice::from_ref(&host)), Some(401));
        // It opens no other site's door.
        assert_eq!(certified(&both, &[(HOST, "evil.example")]), Some(421));
        assert_eq!(certified(&both, &[host.clone(), (ORIGIN, "https://evil.example")]), Some(403));
        let token = Access::new(address, [], Some(TOKEN)).unwrap();
        assert_eq!(certified(&token, &[host]), Some(401));
    }

    #[test]
    fn a_token_is_replaced_and_a_bad_one_is_not_taken() {
        let access = Access::new("0.0.0.0:7474".parse().unwrap(), [], Some(TOKEN)).unwrap();
        let with = |token: &str| {
            let bearer = format!("Bearer {token}");
            status(&access, &[(HOST, "localhost"), (AUTHORIZATION, &bearer)])
        };
        assert!(matches!(access.replace_token("short"), Err(Error::ShortToken { .. })));
        assert!(!access.clone().replace_token(TOKEN).unwrap());
        assert_eq!(with(TOKEN), None);
        assert!(access.clone().replace_token("another-battery-staple").unwrap());
        assert_eq!((with(TOKEN), with("another-battery-staple")), (Some(401), None));
    }

    #[test]
    fn nothing_but_reading_is_answered() {
        let access = Access::new("127.0.0.1:7474".parse().unwrap(), [], None).unwrap();
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let refused = access.refusal(&method, &headers(&[(HOST, "localhost")]), true);
            assert_eq!(refused.map(|(status, _)| status.as_u16()), Some(405), "{method}");
        }
    }
}
