//! The two ways in which Scaleway's APIs page their lists.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::call::{Call, Distortion};
use crate::refusal::{Reason, Refusal};

const INSTANCE_PAGE: usize = 50;
const MAX_PAGE: usize = 100;
// Assumption: the default page of the newer APIs was not recorded; 20 is what their documentation of other products
// says.
const NEWER_PAGE: usize = 20;
/// The catalogue of products is the one list that tools read in large pages.
const MAX_CATALOGUE_PAGE: usize = 10_000;

/// A list of the Instance API: `page` and `per_page`; the total in `X-Total-Count`, neighbours in `Link`, nothing in
/// the body but the list.
pub(crate) fn instance_list(call: &Call, key: &str, items: Vec<Value>) -> Result<Answer, Refusal> {
    instance_list_of(call, key, items, |item| item)
}

/// As [`instance_list`], for long lists: only what is on the page is shown.
pub(crate) fn instance_list_of<T>(
    call: &Call,
    key: &str,
    items: Vec<T>,
    view: impl Fn(T) -> Value,
) -> Result<Answer, Refusal> {
    let (page, size) = page_and_size(call, "per_page", INSTANCE_PAGE)?;
    let (items, total) = one_page(call.distortion, items, page, size);
    let shown: Vec<Value> = items.into_iter().map(view).collect();
    Ok(with_headers(Answer::ok(&json!({ key: shown })), call, page, size, total))
}

/// As [`instance_list_of`], where what is shown is JSON already.
pub(crate) fn instance_texts<T>(
    call: &Call,
    key: &str,
    items: Vec<T>,
    view: impl Fn(T) -> Arc<str>,
) -> Result<Answer, Refusal> {
    let (page, size) = page_and_size(call, "per_page", INSTANCE_PAGE)?;
    let (items, total) = one_page(call.distortion, items, page, size);
    let shown: Vec<Arc<str>> = items.into_iter().map(view).collect();
    // A page of servers is 200 KB, so it is copied only once.
    let length = shown.iter().map(|text| text.len() + 1).sum::<usize>() + key.len() + 6;
    let mut body = String::with_capacity(length);
    body.push_str(&format!("{{\"{key}\":["));
    for (place, text) in shown.iter().enumerate() {
        body.push_str(if place == 0 { "" } else { "," });
        body.push_str(text);
    }
    body.push_str("]}");
    Ok(with_headers(Answer::ok_text(body), call, page, size, total))
}

/// As [`instance_list`], for the one list that is a map: server types by name.
pub(crate) fn instance_map(call: &Call, key: &str, items: Vec<(String, Value)>) -> Result<Answer, Refusal> {
    let (page, size) = page_and_size(call, "per_page", INSTANCE_PAGE)?;
    let (items, total) = one_page(call.distortion, items, page, size);
    let entries: Map<String, Value> = items.into_iter().collect();
    Ok(with_headers(Answer::ok(&json!({ key: entries })), call, page, size, total))
}

/// A list of the newer APIs: `page` and `page_size`; the total in the body.
pub(crate) fn newer_list(call: &Call, key: &str, items: Vec<Value>) -> Result<Answer, Refusal> {
    newer_list_of(call, key, items, |item| item)
}

/// As [`newer_list`], for long lists: only what is on the page is shown.
pub(crate) fn newer_list_of<T>(
    call: &Call,
    key: &str,
    items: Vec<T>,
    view: impl Fn(T) -> Value,
) -> Result<Answer, Refusal> {
    newer_page_of(call, key, MAX_PAGE, items, view)
}

/// As [`newer_list_of`], with pages of up to 10,000.
pub(crate) fn catalogue_list_of<T>(
    call: &Call,
    key: &str,
    items: Vec<T>,
    view: impl Fn(T) -> Value,
) -> Result<Answer, Refusal> {
    newer_page_of(call, key, MAX_CATALOGUE_PAGE, items, view)
}

fn newer_page_of<T>(
    call: &Call,
    key: &str,
    largest: usize,
    items: Vec<T>,
    view: impl Fn(T) -> Value,
) -> Result<Answer, Refusal> {
    let (page, size) = page_and_size_up_to(call, "page_size", NEWER_PAGE, largest)?;
    let (items, total) = one_page(call.distortion, items, page, size);
    let shown: Vec<Value> = items.into_iter().map(view).collect();
    Ok(Answer::ok(&json!({ key: shown, "total_count": total })))
}

fn with_headers(answer: Answer, call: &Call, page: usize, size: usize, total: usize) -> Answer {
    answer.header("x-total-count", &total.to_string()).header("link", &link(call, page, size, total))
}

/// What stands on a page, and the total.
fn one_page<T>(distortion: Distortion, mut items: Vec<T>, page: usize, size: usize) -> (Vec<T>, usize) {
    let all = items.len();
    if let Some(place) = distortion.omitted.filter(|place| *place < all) {
        items.remove(place);
    }
    let counted = if distortion.counts_omitted { all } else { items.len() };
    let total = distortion.total.unwrap_or(counted) + distortion.surplus;
    (items.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect(), total)
}

/// The total that a list says of itself; `None`: it is no list.
pub(crate) fn total_of(answer: &Answer) -> Option<usize> {
    let header = answer.headers.iter().find(|(name, _)| name == "x-total-count");
    match header {
        Some((_, value)) => value.to_str().ok()?.parse().ok(),
        None => {
            let body: Value = serde_json::from_slice(&answer.body).ok()?;
            usize::try_from(body.get("total_count")?.as_u64()?).ok()
        }
    }
}

fn page_and_size(call: &Call, size_name: &str, default: usize) -> Result<(usize, usize), Refusal> {
    page_and_size_up_to(call, size_name, default, MAX_PAGE)
}

fn page_and_size_up_to(
    call: &Call,
    size_name: &str,
    default: usize,
    largest: usize,
) -> Result<(usize, usize), Refusal> {
    let number = |name: &str, default: usize, most: usize| match call.parameter(name) {
        None => Ok(default),
        // Assumption: what Scaleway answers to a page of 0 or of more than 100 was not recorded.
        Some(text) => match text.parse::<usize>() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(Refusal::invalid_argument(name, Reason::Constraint, "not a valid value")),
        },
    };
    Ok((number("page", 1, usize::MAX)?, number(size_name, default, largest)?))
}

/// The recorded form: relative to the zone, page and size first, then the rest of the query, which leaves a `&` at the
/// end when there is none. The last page of an empty list is 0.
fn link(call: &Call, page: usize, size: usize, total: usize) -> String {
    let path = relative(&call.path);
    let rest = call
        .raw_query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("page=") && !pair.starts_with("per_page="))
        .collect::<Vec<_>>()
        .join("&");
    let last = total.div_ceil(size);
    let mut links = Vec::new();
    let mut add = |number: usize, relation: &str| {
        links.push(format!("<{path}?page={number}&per_page={size}&{rest}>; rel=\"{relation}\""));
    };
    if page > 1 {
        add(1, "first");
        add(page - 1, "previous");
    }
    if page < last {
        add(page + 1, "next");
    }
    add(last, "last");
    links.join(",")
}

/// `/servers` of `/instance/v1/zones/fr-par-1/servers`.
fn relative(path: &str) -> String {
    let mut rest = path.splitn(6, '/').skip(5);
    format!("/{}", rest.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(uri: &str) -> Call {
        let uri: http::Uri = uri.parse().expect("written in this test");
        Call::new(http::Method::GET, &uri, bytes::Bytes::new())
    }

    fn link_of(uri: &str, total: usize) -> String {
        let call = call(uri);
        let (page, size) = page_and_size(&call, "per_page", INSTANCE_PAGE).expect("valid paging");
        link(&call, page, size, total)
    }

    #[test]
    fn the_first_of_three_pages_links_to_next_and_last() {
        assert_eq!(
            link_of("/instance/v1/zones/fr-par-1/products/servers?page=1", 135),
            "</products/servers?page=2&per_page=50&>; rel=\"next\",</products/servers?page=3&per_page=50&>; \
             rel=\"last\""
        );
    }

    #[test]
    fn a_later_page_links_to_first_and_previous_too() {
        assert_eq!(
            link_of("/instance/v1/zones/fr-par-1/products/servers?page=3", 135),
            "</products/servers?page=1&per_page=50&>; rel=\"first\",</products/servers?page=2&per_page=50&>; \
             rel=\"previous\",</products/servers?page=3&per_page=50&>; rel=\"last\""
        );
    }

    #[test]
    fn an_empty_list_ends_at_page_zero_and_keeps_the_query() {
        assert_eq!(
            link_of("/instance/v1/zones/fr-par-2/servers?name=web&order=creation_date_desc", 0),
            "</servers?page=0&per_page=50&name=web&order=creation_date_desc>; rel=\"last\""
        );
    }

    #[test]
    fn what_is_left_out_is_missing_on_its_page_and_the_pages_after_it_move_up() {
        let items = || (1..=7).collect::<Vec<u32>>();
        let left_out = Distortion { omitted: Some(2), ..Distortion::default() };
        assert_eq!(one_page(left_out, items(), 1, 3), (vec![1, 2, 4], 6));
        assert_eq!(one_page(left_out, items(), 2, 3), (vec![5, 6, 7], 6));
        let still_counted = Distortion { counts_omitted: true, ..left_out };
        assert_eq!(one_page(still_counted, items(), 2, 3), (vec![5, 6, 7], 7));
        assert_eq!(one_page(still_counted, items(), 3, 3), (vec![], 7));
        let beyond = Distortion { omitted: Some(7), ..Distortion::default() };
        assert_eq!(one_page(beyond, items(), 1, 100), (items(), 7));
    }

    #[test]
    fn pages_beyond_the_limits_are_refused_not_guessed() {
        for query in ["page=0", "per_page=0", "per_page=101", "page=x", "page=-1"] {
            let call = call(&format!("/instance/v1/zones/fr-par-1/servers?{query}"));
            assert!(page_and_size(&call, "per_page", INSTANCE_PAGE).is_err(), "{query} was accepted");
        }
    }
}
