use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use crate::error::Error;
use crate::metric_names;
use crate::types::Identified;

/// Items asked for on each page: the most that Scaleway gives (SDK).
pub(crate) const PAGE_SIZE: usize = 100;
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
    /// The list has more pages than anybody reads.
    TooLong { total: u64 },
    /// Something is hidden, or its total is not true.
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
                "the list says it has {total} items, but two readings that agree found {found}; some are hidden, or \
                 its total is wrong"
            ),
        }
    }
}

/// Reads every page of a list.
///
/// `fetch` reads one page, counted from 1; `filtered` says that not everything was asked for; `unreadable` makes the
/// error of a list that cannot be read to its end.
///
/// # What a list guarantees
/// **Presence, never absence.** What is in it was there while it was read. That something is missing proves nothing: it
/// may be hidden from this key, or left out by Scaleway. Read it by its id before you conclude.
///
/// # How it is read
/// Lists change while they are read: a deletion moves items from a page not yet read onto one already read, where they
/// would be missed, and a creation meanwhile makes up for it in the total. So a list of several pages is read from its
/// end to its beginning, one page after the other: where new items come last, as in lists ordered by their creation,
/// nothing that is there all the time is missed, whatever comes and goes. That costs one call more than there are
/// pages. The first page tells where the end should be; it is read again at last. A page that is not full is the end; a
/// total may be wrong.
///
/// A list that is shorter than each of its pages said is read again, three times at most; if no two readings agree, the
/// answer is everything that any of them found. Two that agree and are shorter than they say are an error, since
/// something is hidden then; except with a filter, which a total may not heed. (assumption: filtered-totals) In every
/// recorded list that fits one page the total is the number of its items.
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
    for reading in 0..READINGS {
        if reading > 0 {
            metrics::counter!(metric_names::LISTS_READ_AGAIN, "path" => path).increment(1);
        }
        let this = read(&fetch, &unreadable).await?;
        let total = this.smallest_total.unwrap_or(0);
        if this.items.len() as u64 >= total {
            return Ok(this.items.into_items());
        }
        let ids = this.items.ids();
        if before.as_ref() == Some(&ids) {
            if !filtered {
                return Err(unreadable(Unreadable::DoesNotAddUp { total, found: ids.len() }));
            }
            tracing::warn!(path, total, found = ids.len(), "this list has another number of items than its total says");
            return Ok(this.items.into_items());
        }
        found.take_over(this.items);
        before = Some(ids);
    }
    Ok(found.into_items())
}

/// What one reading of a whole list found.
struct Reading<T> {
    items: Found<T>,
    /// The smallest total that any page reported.
    smallest_total: Option<u64>,
    last_total: Option<u64>,
}

async fn read<T, F, Fut>(fetch: &F, unreadable: &impl Fn(Unreadable) -> Error) -> Result<Reading<T>, Error>
where
    T: Identified,
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<Page<T>, Error>>,
{
    let mut reading = Reading { items: Found::default(), smallest_total: None, last_total: None };
    let first = fetch(1).await?;
    // The length of the first page, not the one asked for, tells how many pages there are (SDK).
    let page_length = first.items.len();
    reading.take(1, first);
    let is_full = page_length >= PAGE_SIZE;
    if page_length == 0 || (!is_full && reading.last_total == Some(page_length as u64)) {
        return Ok(reading);
    }
    let too_long = |items: usize, total: Option<u64>| {
        unreadable(Unreadable::TooLong { total: total.unwrap_or(0).max(items as u64) })
    };
    let mut end = 1;
    // Where a full page makes a large total likely, the end is looked for there; else page after page.
    let reported = if is_full { reading.last_total.unwrap_or(0).div_ceil(page_length as u64) } else { 1 };
    if reported > PAGES {
        return Err(too_long(page_length, reading.last_total));
    }
    let mut is_over = false;
    if reported > 1 {
        let page = fetch(reported).await?;
        if !page.items.is_empty() {
            end = reported;
            is_over = page.items.len() < page_length;
        }
        reading.take(reported, page);
    }
    let leapt = end > 1;
    while !is_over {
        end += 1;
        if end > PAGES {
            return Err(too_long(reading.items.len(), reading.last_total));
        }
        let page = fetch(end).await?;
        let (is_empty, is_short) = (page.items.is_empty(), page.items.len() < page_length);
        let grew = reading.take(end, page);
        // A short page is the end, unless there should be more; an empty one is, whatever the total says. A list that
        // shows the same on every page has no other.
        let has_all = leapt || reading.items.len() as u64 >= reading.last_total.unwrap_or(0);
        is_over = is_empty || !grew || (is_short && has_all);
    }
    for page in (1..end).rev() {
        let again = fetch(page).await?;
        reading.take(page, again);
    }
    Ok(reading)
}

impl<T: Identified> Reading<T> {
    /// Whether any of the items was new.
    fn take(&mut self, number: u64, page: Page<T>) -> bool {
        if page.total.is_some() {
            self.last_total = page.total;
            self.smallest_total = self.smallest_total.min(page.total).or(page.total);
        }
        self.items.add(number, page.items)
    }
}

/// Different items by id, each where it was seen last and as it was then.
struct Found<T> {
    seen: BTreeMap<String, Seen>,
    /// Kept outside of the map, which moves its values as it grows. Each stays at its place.
    items: Vec<Option<T>>,
}

/// Where an item was seen last, and its place among the items.
struct Seen {
    page: u64,
    index: usize,
    place: usize,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { seen: BTreeMap::new(), items: Vec::new() }
    }
}

impl<T: Identified> Found<T> {
    /// Whether any of them was new.
    fn add(&mut self, page: u64, items: Vec<T>) -> bool {
        let before = self.len();
        for (index, item) in items.into_iter().enumerate() {
            self.put(page, index, item);
        }
        self.len() > before
    }

    fn put(&mut self, page: u64, index: usize, item: T) {
        match self.seen.get_mut(item.id()) {
            Some(seen) => {
                (seen.page, seen.index) = (page, index);
                self.items[seen.place] = Some(item);
            }
            None => {
                self.seen.insert(item.id().to_owned(), Seen { page, index, place: self.items.len() });
                self.items.push(Some(item));
            }
        }
    }

    fn take_over(&mut self, other: Found<T>) {
        let Found { seen, mut items } = other;
        for Seen { page, index, place } in seen.into_values() {
            if let Some(item) = items[place].take() {
                self.put(page, index, item);
            }
        }
    }

    fn len(&self) -> usize {
        self.seen.len()
    }

    fn ids(&self) -> BTreeSet<String> {
        self.seen.keys().cloned().collect()
    }

    /// In the order of the list.
    fn into_items(self) -> Vec<T> {
        let Found { seen, mut items } = self;
        let mut seen: Vec<Seen> = seen.into_values().collect();
        seen.sort_by_key(|seen| (seen.page, seen.index));
        let mut ordered = Vec::with_capacity(seen.len());
        ordered.extend(seen.into_iter().filter_map(|seen| items[seen.place].take()));
        ordered
    }
}

#[cfg(test)]
mod tests;
