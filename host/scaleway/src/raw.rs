use http::Method;
use url::Url;

use crate::error::Error;

/// How raw requests are labelled in metrics: their paths are anybody's.
pub(crate) const TEMPLATE: &str = "(raw)";

/// Longest path with query, in bytes.
const PATH_BYTES: usize = 4096;

/// Checks a raw request and makes its URL; see [`Client::send_raw`](crate::Client::send_raw).
pub(crate) fn checked(method: &str, path_and_query: &str, base: &Url) -> Result<(Method, Url), Error> {
    let refuse = |argument: &'static str, problem: &str| Error::InvalidArgument {
        method: "raw request".to_owned(),
        path_template: TEMPLATE,
        argument,
        problem: problem.to_owned(),
    };
    let method = match method {
        "GET" => Method::GET,
        "HEAD" => Method::HEAD,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        "DELETE" => Method::DELETE,
        _ => return Err(refuse("method", "is none of GET, HEAD, POST, PUT, PATCH, DELETE (in capitals)")),
    };
    if path_and_query.len() > PATH_BYTES {
        return Err(refuse("path", "is longer than 4096 bytes"));
    }
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    };
    if !path.starts_with('/') || path.contains("//") {
        return Err(refuse("path", "must begin with one slash and hold no empty segment"));
    }
    let lower = path.to_ascii_lowercase();
    if lower.contains("%2f") || lower.contains("%5c") || lower.contains("%2e") || lower.contains("%00") {
        return Err(refuse(
            "path",
            "holds an escaped slash, backslash, dot or zero byte, which some servers read as one",
        ));
    }
    if path_and_query.contains('#') {
        return Err(refuse("path", "holds a fragment"));
    }
    let mut url = base.clone();
    let prefix = base.path().trim_end_matches('/').to_owned();
    let wanted = format!("{prefix}{path}");
    url.set_path(&wanted);
    url.set_query(query);
    // Whatever the parser rewrote was not what the grant was matched against.
    if url.path() != wanted || url.query() != query {
        return Err(refuse("path", "is not in the form in which it would be sent; escape it as a URL"));
    }
    Ok((method, url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("https://api.example.com").unwrap()
    }

    #[test]
    fn an_ordinary_path_is_sent_as_it_is() {
        let path = "/instance/v1/zones/fr-par-1/products/servers/availability?per_page=100&x=a%20b";
        let (method, url) = checked("GET", path, &base()).unwrap();
        assert_eq!((method, url.as_str()), (Method::GET, format!("https://api.example.com{path}").as_str()));
    }

    #[test]
    fn a_path_that_would_be_rewritten_is_refused() {
        for path in [
            "",
            "x",
            "//evil.example.com/",
            "/a//b",
            "/a/../b",
            "/a/./b",
            "/a/%2e%2e/b",
            "/a/%2E./b",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/a#b",
            "/a b",
            "/ä",
            "/a?b c",
            "/a\n",
            "https://evil.example.com/",
            "/a/..",
            "/a%00",
        ] {
            let error = checked("GET", path, &base()).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { argument: "path", .. }), "{path:?}: {error}");
        }
        assert!(checked("GET", &format!("/{}", "x".repeat(PATH_BYTES)), &base()).is_err());
    }

    #[test]
    fn an_unknown_method_is_refused() {
        for method in ["", "get", "TRACE", "CONNECT", "GET /"] {
            assert!(checked(method, "/a", &base()).is_err(), "{method:?}");
        }
    }

    #[test]
    fn the_host_stays_the_configured_one() {
        let (_, url) = checked("DELETE", "/@evil.example.com", &base()).unwrap();
        assert_eq!(url.host_str(), Some("api.example.com"));
    }
}
