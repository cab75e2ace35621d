//! What a grant of the generic request permits: methods and path patterns.
//!
//! A policy judges and the host acts: only what is ours is ever changed or deleted, and only after the host has read it
//! again. A request that changes something would go around that, so no grant can permit one: `GET` and `HEAD` can be
//! granted, and `POST` for the few paths of Scaleway that only answer a question ([`READ_ONLY_POSTS`]).

use std::fmt;
use std::str::FromStr;

/// The longest path with its query that a policy may ask for, in bytes.
pub(super) const MAX_PATH_BYTES: usize = 2_048;

const METHODS: [&str; 3] = ["GET", "HEAD", "POST"];

/// Questions that Scaleway takes by POST (SDK: planning a block migration and checking quotas for it change nothing).
const READ_ONLY_POSTS: [&str; 2] = [
    "POST /instance/v1/zones/*/block-migration/plan",
    "POST /instance/v1/zones/*/block-migration/check-organization-quotas",
];

/// `METHOD[,METHOD] /path/pattern`, where `*` stands for one segment and `**` for any number of segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestGrant {
    methods: Vec<&'static str>,
    pattern: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    One,
    Any,
}

/// Why a grant or a path is not acceptable, in words that say what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum GrantError {
    #[error(
        "a grant of windlass:scaleway/request needs methods and a path pattern, as in \"windlass:scaleway/request GET \
         /instance/v1/zones/*/products/**\"; found {0:?}"
    )]
    Incomplete(String),
    #[error(
        "the method {0:?} cannot be granted, since only the host changes anything: use GET, HEAD or POST, in capitals"
    )]
    Method(String),
    #[error("{0:?} is not a path pattern: it must begin with \"/\" and have neither query nor empty segments")]
    Pattern(String),
    #[error("{0:?} is not a path that may be requested: {1}")]
    Path(String, &'static str),
}

impl FromStr for RequestGrant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let mut words = text.split_whitespace();
        let (Some(methods), Some(pattern), None) = (words.next(), words.next(), words.next()) else {
            return Err(GrantError::Incomplete(text.to_owned()));
        };
        let methods = methods
            .split(',')
            .map(|method| known_method(method).ok_or_else(|| GrantError::Method(method.to_owned())))
            .collect::<Result<Vec<_>, _>>()?;
        let bad_pattern = || GrantError::Pattern(pattern.to_owned());
        let segments = pattern.strip_prefix('/').ok_or_else(bad_pattern)?;
        let pattern = segments
            .split('/')
            .map(|segment| match segment {
                "" => Err(bad_pattern()),
                "*" => Ok(Segment::One),
                "**" => Ok(Segment::Any),
                text if text.contains(['*', '?', '#', '%', '\\']) || matches!(text, "." | "..") => Err(bad_pattern()),
                text => Ok(Segment::Exactly(text.to_owned())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { methods, pattern })
    }
}

impl fmt::Display for RequestGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.methods.join(","))?;
        formatter.write_str(" ")?;
        for segment in &self.pattern {
            match segment {
                Segment::Exactly(text) => write!(formatter, "/{text}")?,
                Segment::One => formatter.write_str("/*")?,
                Segment::Any => formatter.write_str("/**")?,
            }
        }
        Ok(())
    }
}

impl RequestGrant {
    /// Whether this grant covers the request. Whether any grant could is [`changes_nothing`].
    pub(super) fn permits(&self, method: &str, path: &RequestPath<'_>) -> bool {
        self.methods.contains(&method) && matches(&self.pattern, &path.segments)
    }
}

/// A path that has been checked: absolute, without tricks that a server behind might read differently than we do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestPath<'a> {
    segments: Vec<&'a str>,
}

impl<'a> RequestPath<'a> {
    /// Checks `path_and_query`. Refused are other hosts (`//host`), dot segments, escapes of `/`, `\` and `.`,
    /// anything outside printable ASCII, fragments, empty segments, and paths over [`MAX_PATH_BYTES`].
    pub(super) fn parse(path_and_query: &'a str) -> Result<Self, GrantError> {
        let refuse = |why| {
            let shown: String = path_and_query.chars().take(200).collect();
            Err(GrantError::Path(shown, why))
        };
        if path_and_query.len() > MAX_PATH_BYTES {
            return refuse("it is longer than 2048 bytes");
        }
        if !path_and_query.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("it has characters outside printable ASCII");
        }
        if path_and_query.contains(['#', '\\']) {
            return refuse("it has a fragment or a backslash");
        }
        let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _query)| path);
        let Some(segments) = path.strip_prefix('/') else {
            return refuse("it does not begin with \"/\"");
        };
        if path.contains('%') {
            return refuse("it has escaped characters before the query");
        }
        let segments: Vec<&str> = segments.split('/').collect();
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return refuse("it has empty or dot segments");
        }
        Ok(Self { segments })
    }

    /// Whether any segment is exactly `word`.
    pub(super) fn has_segment(&self, word: &str) -> bool {
        self.segments.contains(&word)
    }
}

/// Whether the request only asks. A POST does so on [`READ_ONLY_POSTS`] alone.
pub(super) fn changes_nothing(method: &str, path: &RequestPath<'_>) -> bool {
    method != "POST"
        || READ_ONLY_POSTS.iter().any(|grant| {
            let grant: RequestGrant = grant.parse().expect("a test parses each of READ_ONLY_POSTS");
            grant.permits(method, path)
        })
}

/// The method as it is known here, when it is one that can be granted.
pub(super) fn known_method(method: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method)
}

/// Matches without backtracking over more than the last `**`, so that no pattern is slow.
fn matches(pattern: &[Segment], path: &[&str]) -> bool {
    let (mut at_pattern, mut at_path) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while at_path < path.len() {
        match pattern.get(at_pattern) {
            Some(Segment::Any) => {
                last_any = Some((at_pattern, at_path));
                at_pattern += 1;
                continue;
            }
            Some(Segment::One) => {
                at_pattern += 1;
                at_path += 1;
                continue;
            }
            Some(Segment::Exactly(text)) if text == path[at_path] => {
                at_pattern += 1;
                at_path += 1;
                continue;
            }
            _ => {}
        }
        match last_any.as_mut() {
            Some((any, taken)) => {
                *taken += 1;
                at_pattern = *any + 1;
                at_path = *taken;
            }
            None => return false,
        }
    }
    pattern[at_pattern..].iter().all(|segment| *segment == Segment::Any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn permits(grant: &str, method: &str, path: &str) -> bool {
        let grant: RequestGrant = grant.parse().expect("the test's grant is well-formed");
        RequestPath::parse(path).is_ok_and(|path| grant.permits(method, &path))
    }

    #[test]
    fn a_star_is_one_segment_and_two_stars_are_any_number() {
        let products = "GET /instance/v1/zones/*/products/**";
        assert!(permits(products, "GET", "/instance/v1/zones/fr-par-1/products/servers"));
        assert!(permits(products, "GET", "/instance/v1/zones/fr-par-1/products/servers/availability?page=2"));
        assert!(permits(products, "GET", "/instance/v1/zones/fr-par-1/products"));
        assert!(!permits(products, "GET", "/instance/v1/zones/a/b/products/servers"));
        assert!(!permits(products, "POST", "/instance/v1/zones/fr-par-1/products/servers"));
        assert!(permits("GET,HEAD /a/**/z", "HEAD", "/a/b/z/c/z"));
        assert!(!permits("GET,HEAD /a/**/z", "HEAD", "/a/b/z/c"));
    }

    #[test]
    fn only_a_post_that_is_known_to_ask_changes_nothing() {
        for grant in READ_ONLY_POSTS {
            grant.parse::<RequestGrant>().expect(grant);
        }
        let path = |text| RequestPath::parse(text).expect("a plain path");
        assert!(changes_nothing("POST", &path("/instance/v1/zones/fr-par-1/block-migration/plan")));
        assert!(!changes_nothing("POST", &path("/instance/v1/zones/fr-par-1/servers")));
        assert!(!changes_nothing("POST", &path("/instance/v1/zones/fr-par-1/block-migration/apply")));
        assert!(changes_nothing("GET", &path("/instance/v1/zones/fr-par-1/servers")));
    }

    #[test]
    fn paths_that_another_server_might_read_differently_are_refused() {
        for path in [
            "//evil.example/instance",
            "/instance/../iam/v1alpha1/api-keys",
            "/instance/./v1",
            "/instance/%2e%2e/iam",
            "/instance%2fv1",
            "/instance//v1",
            "/instance\\v1",
            "/instance#x",
            "/instance v1",
            "/instance\r\nX-Auth-Token: a",
            "instance",
            "https://evil.example/",
            "",
        ] {
            assert!(RequestPath::parse(path).is_err(), "{path:?} was accepted");
        }
    }

    #[test]
    fn a_malformed_grant_is_refused_with_words_that_teach() {
        for (grant, word) in [
            ("", "needs methods and a path pattern"),
            ("GET", "needs methods and a path pattern"),
            ("FETCH /a", "cannot be granted"),
            ("get /a", "cannot be granted"),
            ("DELETE /instance/v1/**", "only the host changes anything"),
            ("GET a", "must begin with"),
            ("GET /a//b", "must begin with"),
            ("GET /a?b", "must begin with"),
            ("GET /a/b*", "must begin with"),
            ("GET /a /b", "needs methods and a path pattern"),
        ] {
            let error = grant.parse::<RequestGrant>().expect_err(grant).to_string();
            assert!(error.contains(word), "{grant:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_grant_survives_being_written_and_read(text in "(GET|GET,HEAD|POST)( \
            )(/([a-z0-9-]{1,8}|\\*|\\*\\*)){1,6}") {
            let grant: RequestGrant = text.parse().unwrap();
            prop_assert_eq!(grant.to_string(), text);
        }

        #[test]
        fn no_path_that_was_accepted_leaves_its_segments(path in "[ -~]{0,60}") {
            if let Ok(parsed) = RequestPath::parse(&path) {
                let harmless =
                    |segment: &str| !segment.is_empty() && segment != ".." && !segment.contains(['/', '?', '%']);
                prop_assert!(parsed.segments.iter().all(|segment| harmless(segment)));
            }
        }
    }
}
