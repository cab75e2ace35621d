use std::collections::HashMap;
use std::future::Future;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::error::Error;
use crate::metric_names;
use crate::types::Identified;

/// Items asked for on each page: the most that Scaleway gives (SDK).
pub(crate) const PAGE_SIZE: &str = "100";
/// Pages of one list that are read at the same time; the client's own limits count on top.
const PAGES_AT_ONCE: usize = 8;
/// Most pages of one list: 100,000 items.
const PAGES: u64 = 1000;
/// How often a list that does not add up is read.
const READINGS: usize = 3;

/// One page of a list.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// How many items the whole list has, as this page tells; `None` when it doesn't.
    pub(crate) total: Option<u64>,
}

/// Why a list could not be read to its end, for the caller to put into an error with the last answer.
pub(crate) enum Unreadable {
    /// The list says that it has more pages than anybody reads.
    TooLong { total: u64 },
    /// It kept changing, or its total is not true.
    DoesNotAddUp { total: u64, found: usize },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::TooLong { total } => {
                write!(formatter, "the list says it has {total} items; at most {PAGES} pages are read")
            }
            Unreadable::DoesNotAddUp { total, found } => write!(
                formatter,
                "the list says it has {total} items, but {READINGS} readings found {found}; it changes faster than it \
                 can be read, or its total is wrong"
            ),
        }
    }
}

/// Reads every page of a list.
///
/// `fetch` reads one page, counted from 1; `unreadable` makes the error of a list that cannot be read to its end.
///
/// The first page tells the total; the others are read in parallel. Lists change while they are read: a deletion moves
/// items from a page not yet read onto one already read, where they would be missed. So a reading counts only when it
/// found at least as many different items as the largest total any of its pages told; otherwise the list is read again,
/// three times at most, and the answer is everything that any reading found, in its latest form: when in doubt an item
/// too many (its reader looks again before acting) rather than one too few. A list that even then is shorter than it
/// says is an error: in every recorded list that fits one page the total is the number of its items, so a shorter one
/// has lost something. (One that lost and gained an item between two pages can still miss one; nothing in the API tells.)
///
/// The number of calls is bounded in every case.
pub(crate) async fn all_pages<T, F, Fut>(
    path: &'static str,
    fetch: F,
    unreadable: impl Fn(Unreadable) -> Error,
) -> Result<Vec<T>, Error>
where
    T: Identified,
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<Page<T>, Error>>,
{
    let mut found = Found::default();
    for reading in 0..READINGS {
        if reading > 0 {
            metrics::counter!(metric_names::LISTS_READ_AGAIN, "path" => path).increment(1);
        }
        let this = read(&fetch, &unreadable).await?;
        let (complete, last_total) = (this.items.len() as u64 >= this.largest_total, this.last_total);
        if complete {
            return Ok(this.items.into_items());
        }
        found.take_over(this.items);
        if reading + 1 == READINGS && (found.len() as u64) < last_total {
            return Err(unreadable(Unreadable::DoesNotAddUp { total: last_total, found: found.len() }));
        }
    }
    Ok(found.into_items())
}

/// What one reading of a whole list found.
struct Reading<T> {
    items: Found<T>,
    largest_total: u64,
    last_total: u64,
}

async fn read<T, F, Fut>(fetch: &F, unreadable: &impl Fn(Unreadable) -> Error) -> Result<Reading<T>, Error>
where
    T: Identified,
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<Page<T>, Error>>,
{
    let first = fetch(1).await?;
    let page_length = first.items.len() as u64;
    let mut reading = Reading { items: Found::default(), largest_total: 0, last_total: 0 };
    let Some(total) = first.total else {
        return without_total(fetch, first.items, unreadable).await;
    };
    reading.take(first.items, total);
    // The length of the first page, not the one asked for, tells how many pages there are (SDK).
    let mut next = 2;
    loop {
        let pages = if page_length == 0 { 1 } else { reading.last_total.div_ceil(page_length) };
        if pages > PAGES {
            return Err(unreadable(Unreadable::TooLong { total: reading.last_total }));
        }
        if next > pages {
            break;
        }
        let others: Vec<Page<T>> = stream::iter(next..=pages).map(fetch).buffered(PAGES_AT_ONCE).try_collect().await?;
        // An empty page is the end, whatever the total says.
        let ended = others.iter().any(|page| page.items.is_empty());
        for page in others {
            let total = page.total.unwrap_or(reading.last_total);
            reading.take(page.items, total);
        }
        if ended {
            break;
        }
        // The list may have grown meanwhile.
        next = pages + 1;
    }
    Ok(reading)
}

/// A list whose answers don't tell the total: page after page, until one brings nothing new.
async fn without_total<T, F, Fut>(
    fetch: &F,
    first: Vec<T>,
    unreadable: &impl Fn(Unreadable) -> Error,
) -> Result<Reading<T>, Error>
where
    T: Identified,
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<Page<T>, Error>>,
{
    let mut items = Found::default();
    let page_length = first.len();
    let mut grew = items.add(first);
    let mut page = 2;
    let mut length = page_length;
    while grew && length >= page_length {
        if page > PAGES {
            return Err(unreadable(Unreadable::TooLong { total: items.len() as u64 }));
        }
        let next = fetch(page).await?.items;
        length = next.len();
        grew = items.add(next);
        page += 1;
    }
    Ok(Reading { items, largest_total: 0, last_total: 0 })
}

impl<T: Identified> Reading<T> {
    fn take(&mut self, items: Vec<T>, total: u64) {
        self.items.add(items);
        self.largest_total = self.largest_total.max(total);
        self.last_total = total;
    }
}

/// Different items, in the order in which they were first seen; the latest form of each counts.
struct Found<T> {
    items: Vec<T>,
    position: HashMap<String, usize>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { items: Vec::new(), position: HashMap::new() }
    }
}

impl<T: Identified> Found<T> {
    /// Whether any of them was new.
    fn add(&mut self, items: Vec<T>) -> bool {
        let before = self.items.len();
        for item in items {
            match self.position.get(item.id()) {
                Some(&position) => self.items[position] = item,
                None => {
                    self.position.insert(item.id().to_owned(), self.items.len());
                    self.items.push(item);
                }
            }
        }
        self.items.len() > before
    }

    fn take_over(&mut self, other: Found<T>) {
        self.add(other.items);
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn into_items(self) -> Vec<T> {
        self.items
    }
}

#[cfg(test)]
mod tests;
