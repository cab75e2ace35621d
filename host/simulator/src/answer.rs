use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde_json::Value;

/// What an endpoint answers, before the headers that every answer carries are added.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

pub(crate) const JSON: &str = "application/json";

impl Answer {
    pub(crate) fn json(status: StatusCode, body: &Value) -> Self {
        Self { status, content_type: Some(JSON), headers: Vec::new(), body: body.to_string().into() }
    }

    pub(crate) fn ok(body: &Value) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 200 with JSON that was written before.
    pub(crate) fn ok_text(body: String) -> Self {
        Self { status: StatusCode::OK, content_type: Some(JSON), headers: Vec::new(), body: body.into() }
    }

    /// 201 with `Location`, as the Instance API answers a creation. The address is absolute (recorded).
    pub(crate) fn created(path: &str, id: &str, body: &Value) -> Self {
        Self::json(StatusCode::CREATED, body).header("location", &format!("https://api.scaleway.com{path}/{id}"))
    }

    /// 204. It has a content type all the same (recorded).
    pub(crate) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, content_type: Some(JSON), headers: Vec::new(), body: Bytes::new() }
    }

    /// User data is plain text in every answer, also in 204 and 404 (recorded).
    pub(crate) fn text(status: StatusCode, body: Bytes) -> Self {
        Self { status, content_type: Some("text/plain"), headers: Vec::new(), body }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        // A value that is no header value can only come out of a query that was no valid URI; it is left out then.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }
}
