//! What the APIs have in common: lists, and whose a new thing is.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::call::Call;
use crate::client::Client;
use crate::error::{Error, MalformedAnswer};
use crate::paging::{PAGE_SIZE, Page, all_pages};
use crate::types::Identified;

/// How an API pages its lists, and where it tells how many items there are (assumption: filtered-totals).
#[derive(Debug, Clone, Copy)]
pub(super) enum Paging {
    /// Instance: `per_page`, the total in the header `X-Total-Count`.
    Header,
    /// The newer APIs: `page_size`, the total in the body's `total_count`.
    Body,
}

/// How the items of one page are read.
type ReadItems<T> = fn(&Answer, &str) -> Result<Vec<T>, Error>;

/// Reads every page of a list whose items are an array under `key`. What a list guarantees: [`all_pages`].
pub(super) async fn list<T>(client: &Client, paging: Paging, call: Call, key: &str) -> Result<Vec<T>, Error>
where
    T: Identified + DeserializeOwned + Send,
{
    pages(client, paging, call, key, Answer::list).await
}

/// Reads every page of a list whose items are a map from name to object under `key`.
pub(super) async fn map<T>(client: &Client, paging: Paging, call: Call, key: &str) -> Result<BTreeMap<String, T>, Error>
where
    T: DeserializeOwned + Send,
{
    Ok(pages(client, paging, call, key, Answer::map).await?.into_iter().collect())
}

async fn pages<T>(
    client: &Client,
    paging: Paging,
    call: Call,
    key: &str,
    read_items: ReadItems<T>,
) -> Result<Vec<T>, Error>
where
    T: Identified + Send,
{
    let template = call.template;
    let size_parameter = match paging {
        Paging::Header => "per_page",
        Paging::Body => "page_size",
    };
    let filtered = call.is_filtered();
    let call = call.query(size_parameter, PAGE_SIZE.to_string());
    let call = &call;
    let fetch = |page: u64| async move {
        let call = call.clone().query("page", page.to_string());
        client
            .call_and(call, |answer| {
                let total = match paging {
                    Paging::Header => answer.total_count,
                    Paging::Body => answer.field_if_there("total_count")?,
                };
                Ok(Page { items: read_items(&answer, key)?, total })
            })
            .await
    };
    all_pages(template, filtered, fetch, |reason| {
        Error::Malformed(Box::new(MalformedAnswer {
            method: call.method.to_string(),
            path: template.to_owned(),
            status: 200,
            request_id: None,
            problem: reason.to_string(),
            body: String::new(),
        }))
    })
    .await
}

/// Body of a call that creates something which a project must own: where the caller names no owner, the configured
/// default project does (as in the SDK).
pub(super) fn owned_by_default(project: &mut Option<String>, organization: Option<&String>, client: &Client) {
    if project.is_none() && organization.is_none() {
        *project = client.settings().project_id().map(str::to_owned);
    }
}
