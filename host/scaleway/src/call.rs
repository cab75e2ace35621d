use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use url::Url;

use crate::error::Error;

/// Longest id or key that becomes part of a path, in bytes.
const ARGUMENT_BYTES: usize = 256;

/// One call before it is sent: the template of its path, what fills it, query and body.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) template: &'static str,
    arguments: Vec<(&'static str, String)>,
    query: Vec<(&'static str, String)>,
    body: Bytes,
    content_type: Option<&'static str>,
}

impl Call {
    fn new(method: Method, template: &'static str) -> Self {
        Self { method, template, arguments: Vec::new(), query: Vec::new(), body: Bytes::new(), content_type: None }
    }

    pub(crate) fn get(template: &'static str) -> Self {
        Self::new(Method::GET, template)
    }

    pub(crate) fn post(template: &'static str) -> Self {
        Self::new(Method::POST, template)
    }

    pub(crate) fn patch(template: &'static str) -> Self {
        Self::new(Method::PATCH, template)
    }

    pub(crate) fn delete(template: &'static str) -> Self {
        Self::new(Method::DELETE, template)
    }

    /// Fills `{name}` of the template.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.arguments.push((name, value.into()));
        self
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// The parameter, when there is a value.
    pub(crate) fn query_if<V: AsRef<str>>(self, name: &'static str, value: Option<V>) -> Self {
        match value {
            Some(value) => self.query(name, value.as_ref()),
            None => self,
        }
    }

    /// The Instance API's way with several values: one parameter, joined by commas.
    pub(crate) fn query_joined(self, name: &'static str, values: &[String]) -> Self {
        if values.is_empty() { self } else { self.query(name, values.join(",")) }
    }

    /// The newer APIs' way with several values: the parameter is repeated.
    pub(crate) fn query_repeated(mut self, name: &'static str, values: &[String]) -> Self {
        for value in values {
            self = self.query(name, value);
        }
        self
    }

    /// Whether it asks for less than everything.
    pub(crate) fn is_filtered(&self) -> bool {
        self.query.iter().any(|(name, _)| !matches!(*name, "order" | "order_by"))
    }

    pub(crate) fn json<T: serde::Serialize>(mut self, body: &T) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::InvalidArgument {
            method: self.method.to_string(),
            path_template: self.template,
            argument: "body",
            problem: format!("cannot be written as JSON: {error}"),
        })?;
        self.body = bytes.into();
        self.content_type = Some("application/json");
        Ok(self)
    }

    pub(crate) fn text(mut self, body: Bytes) -> Self {
        self.body = body;
        self.content_type = Some("text/plain");
        self
    }

    /// The URL: the base, its own path kept, and the filled template.
    ///
    /// An argument that is empty, or `.` or `..`, would make another call out of this one – a `DELETE` of one server
    /// into one of the collection – and is refused. Every other one is percent-encoded.
    pub(crate) fn url(&self, base: &Url) -> Result<Url, Error> {
        let mut url = base.clone();
        {
            let mut segments = url
                .path_segments_mut()
                .expect("the settings take only http and https addresses, which have path segments");
            segments.pop_if_empty();
            for segment in self.template.split('/').skip(1) {
                match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                    Some(name) => {
                        segments.push(self.argument(name)?);
                    }
                    None => {
                        segments.push(segment);
                    }
                }
            }
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }

    fn argument(&self, name: &str) -> Result<&str, Error> {
        let (name, value) = self
            .arguments
            .iter()
            .find(|(given, _)| *given == name)
            .expect("each API method fills its own template; its test calls it");
        let problem = if value.is_empty() {
            "is empty"
        } else if value == "." || value == ".." {
            "is a step in a path, not an id"
        } else if value.len() > ARGUMENT_BYTES {
            "is longer than any id"
        } else if value.chars().any(char::is_control) {
            "contains control characters"
        } else {
            return Ok(value);
        };
        Err(Error::InvalidArgument {
            method: self.method.to_string(),
            path_template: self.template,
            argument: name,
            problem: problem.to_owned(),
        })
    }

    pub(crate) fn into_body(self) -> (Bytes, Option<(http::HeaderName, HeaderValue)>) {
        (self.body, self.content_type.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "/instance/v1/zones/{zone}/servers/{server_id}";

    fn url_of(call: Call) -> Result<String, Error> {
        call.url(&Url::parse("https://api.example.com/prefix/").unwrap()).map(String::from)
    }

    #[test]
    fn the_path_prefix_of_the_base_is_kept() {
        let url = url_of(Call::get(SERVER).with("zone", "fr-par-1").with("server_id", "one")).unwrap();
        assert_eq!(url, "https://api.example.com/prefix/instance/v1/zones/fr-par-1/servers/one");
    }

    #[test]
    fn an_id_never_leaves_its_segment() {
        for id in ["a/b", "a?b=c", "a#b", "%2e%2e", "a%2Fb", "..%2f", "ü"] {
            let url = url_of(Call::delete(SERVER).with("zone", "fr-par-1").with("server_id", id)).unwrap();
            let url = Url::parse(&url).unwrap();
            assert_eq!(url.path_segments().unwrap().count(), 7, "{id} made {url}");
            assert!(url.query().is_none() && url.fragment().is_none(), "{id} made {url}");
        }
    }

    #[test]
    fn an_id_that_would_make_another_call_is_refused() {
        let long = "x".repeat(ARGUMENT_BYTES + 1);
        for id in ["", ".", "..", "a\nb", long.as_str()] {
            let error = url_of(Call::delete(SERVER).with("zone", "fr-par-1").with("server_id", id)).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { argument: "server_id", .. }), "{id:?}: {error}");
            assert!(!error.is_ambiguous(), "nothing was sent");
        }
    }

    #[test]
    fn both_ways_of_giving_several_tags() {
        let tags = ["one".to_owned(), "two=2&3".to_owned()];
        let joined = url_of(Call::get("/a").query_joined("tags", &tags)).unwrap();
        assert_eq!(joined, "https://api.example.com/prefix/a?tags=one%2Ctwo%3D2%263");
        let repeated = url_of(Call::get("/a").query_repeated("tags", &tags)).unwrap();
        assert_eq!(repeated, "https://api.example.com/prefix/a?tags=one&tags=two%3D2%263");
        let none = url_of(Call::get("/a").query_joined("tags", &[]).query_if::<String>("name", None)).unwrap();
        assert_eq!(none, "https://api.example.com/prefix/a");
    }
}
