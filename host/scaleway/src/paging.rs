use std::collections::{BTreeSet, HashMap};
use std::future::Future;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::error::Error;
use crate::metric_names;
use crate::types::Identified;

/// Items asked for on each page: the most that Scaleway gives (SDK).
pub(crate) const PAGE_SIZE: usize = 100;
/// Pages of one list that are read at the same time; the client's own limits count on top.
const PAGES_AT_ONCE: usize = 8;
/// Most pages of one list: 100,000 items.
const PAGES: u64 = 1000;
/// How often a list that does not hold still is read.
const READINGS: usize = 3;

/// One page of a list.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// How many items the whole list has, as this page tells; `None` when it doesn't.
    pub(crate) total: Option<u64>,
}

/// Why a list could not be read to its end, for the caller to put into an error with the last answer.
pub(crate) enum Unreadable {
    /// The list has more pages than anybody reads.
    TooLong { total: u64 },
    /// It kept changing, or its total is not true.
    DoesNotAddUp { total: u64, found: usize },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::TooLong { total } => {
                write!(formatter, "the list has {total} items or more; at most {PAGES} pages are read")
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
/// `fetch` reads one page, counted from 1; `filtered` says that not everything was asked for; `unreadable` makes the error of
/// a list that cannot be read to its end.
///
/// # What a list guarantees
/// **Presence, never absence.** What is in it was there when it was read. That something is missing proves nothing: it may be
/// hidden from this key, left out by Scaleway, or have slipped between two pages. Read it by its id before you conclude.
///
/// # How it is read
/// The first page tells the total; the others are read in parallel, and on until a page is not full, since a total may be
/// too small. Lists change while they are read: a deletion moves items from a page not yet read onto one already read,
/// where they would be missed, and a creation at the same time makes up for it in the total. So a list of several pages
/// is read until two readings agree, three times at most; if none do, the answer is everything that any of them found, in
/// its latest form: when in doubt an item too many (its reader looks again before acting) rather than one too few.
///
/// A total that is larger than what two agreeing readings found is an error, since something is hidden then; except with a
/// filter, which it may not heed. (assumption: filtered-totals) In every recorded list that fits one page the total is
/// the number of its items.
///
/// The number of calls is bounded in every case.
pub(crate) async fn all_pages<T, F, Fut>(
    path: &'static str,
    filtered: bool,
    fetch: F,
    unreadable: impl Fn(Unreadable) -> Error,
) -> Result<Vec<T>, Error>
where
    T: Identified,
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<Page<T>, Error>>,
{
    let mut found = Found::default();
    let mut before: Option<BTreeSet<String>> = None;
    let mut last_total = 0;
    for _ in 0..READINGS {
        let this = read(&fetch, &unreadable).await?;
        let adds_up = this.items.len() as u64 >= this.largest_total;
        // One page shows one moment.
        if adds_up && this.fits_one_page() {
            return Ok(this.items.into_items());
        }
        let ids = this.items.ids();
        if before.as_ref() == Some(&ids) && (adds_up || filtered) {
            if !adds_up {
                tracing::warn!(path, total = this.last_total, found = ids.len(), "the total of this list is not true");
            }
            return Ok(this.items.into_items());
        }
        if before.is_some_and(|before| before != ids) {
            metrics::counter!(metric_names::LISTS_READ_AGAIN, "path" => path).increment(1);
        }
        last_total = this.last_total;
        found.take_over(this.items);
        before = Some(ids);
    }
    if !filtered && (found.len() as u64) < last_total {
        return Err(unreadable(Unreadable::DoesNotAddUp { total: last_total, found: found.len() }));
    }
    Ok(found.into_items())
}

/// What one reading of a whole list found.
struct Reading<T> {
    items: Found<T>,
    /// How many items its first page has.
    page_length: usize,
    tells_total: bool,
    /// Zero where no page tells it.
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
    // The length of the first page, not the one asked for, tells how many pages there are (SDK).
    let page_length = first.items.len();
    let is_all = match first.total {
        Some(total) => page_length < PAGE_SIZE && total <= page_length as u64,
        None => false,
    };
    let tells_total = first.total.is_some();
    let mut reading = Reading { items: Found::default(), page_length, tells_total, largest_total: 0, last_total: 0 };
    reading.take(first);
    if page_length == 0 || is_all {
        return Ok(reading);
    }
    let mut next = 2;
    loop {
        let told = reading.last_total.div_ceil(page_length as u64).max(next);
        // A page that is not full makes a large total unlikely: the next ones tell.
        if next > PAGES || (told > PAGES && page_length >= PAGE_SIZE) {
            let total = reading.last_total.max(reading.items.len() as u64);
            return Err(unreadable(Unreadable::TooLong { total }));
        }
        // Not all at once: a total that is far too large is found out by the first empty page.
        let pages = told.min(next + PAGES_AT_ONCE as u64 - 1);
        let others: Vec<Page<T>> = stream::iter(next..=pages).map(fetch).buffered(PAGES_AT_ONCE).try_collect().await?;
        let mut is_short = false;
        let mut is_empty = false;
        let mut grew = false;
        for page in others {
            is_short |= page.items.len() < page_length;
            is_empty |= page.items.is_empty();
            grew |= reading.take(page);
        }
        // A short page is the end, unless there should be more; an empty one is, whatever the total says. A list that shows
        // the same on every page has no other.
        let has_all = reading.items.len() as u64 >= reading.last_total;
        if is_empty || !grew || (is_short && has_all) {
            return Ok(reading);
        }
        next = pages + 1;
    }
}

impl<T: Identified> Reading<T> {
    /// Whether any of the items was new.
    fn take(&mut self, page: Page<T>) -> bool {
        if let Some(total) = page.total {
            self.largest_total = self.largest_total.max(total);
            self.last_total = total;
        }
        self.items.add(page.items)
    }

    /// Whether one page has shown all, as far as it tells.
    fn fits_one_page(&self) -> bool {
        self.items.len() == self.page_length && (self.tells_total || self.page_length == 0)
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

    fn ids(&self) -> BTreeSet<String> {
        self.position.keys().cloned().collect()
    }

    fn into_items(self) -> Vec<T> {
        self.items
    }
}

#[cfg(test)]
mod tests;
