use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::error::MalformedAnswer;

type Item = (String, u32);

fn items(ids: impl IntoIterator<Item = u32>) -> Vec<Item> {
    ids.into_iter().map(|id| (format!("id-{id}"), id)).collect()
}

fn ids(items: &[Item]) -> Vec<u32> {
    items.iter().map(|item| item.1).collect()
}

fn error(reason: Unreadable) -> Error {
    Error::Malformed(Box::new(MalformedAnswer {
        method: "GET".to_owned(),
        path: "/list".to_owned(),
        status: 200,
        request_id: None,
        problem: reason.to_string(),
        body: String::new(),
    }))
}

/// A list on the other side, changed by `change(number of the request)` before each answer.
struct List<C: Fn(usize, &mut Vec<u32>)> {
    ids: Mutex<Vec<u32>>,
    page_length: usize,
    tells_total: bool,
    change: C,
    requests: AtomicUsize,
}

impl<C: Fn(usize, &mut Vec<u32>)> List<C> {
    fn new(ids: impl IntoIterator<Item = u32>, page_length: usize, change: C) -> Self {
        Self {
            ids: Mutex::new(ids.into_iter().collect()),
            page_length,
            tells_total: true,
            change,
            requests: AtomicUsize::new(0),
        }
    }

    async fn page(&self, page: u64) -> Result<Page<Item>, Error> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut ids = self.ids.lock().unwrap();
        (self.change)(number, &mut ids);
        let skipped = (page as usize - 1) * self.page_length;
        Ok(Page {
            items: items(ids.iter().copied().skip(skipped).take(self.page_length)),
            total: self.tells_total.then_some(ids.len() as u64),
        })
    }

    async fn read(&self) -> Result<Vec<Item>, Error> {
        all_pages("/list", false, |page| self.page(page), error).await
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_quiet_list_comes_in_order_and_costs_one_call_more_than_it_has_pages() {
    // A full page may not be the last one.
    for (count, requests) in [(0, 1), (1, 1), (99, 1), (100, 3), (101, 3), (250, 4), (300, 6), (1_234, 14)] {
        let list = List::new(0..count, PAGE_SIZE, |_, _| {});
        assert_eq!(ids(&list.read().await.unwrap()), (0..count).collect::<Vec<_>>());
        assert_eq!(list.requests(), requests, "{count} items");
    }
}

#[tokio::test]
async fn a_server_that_gives_shorter_pages_than_asked_for_is_read_to_its_end() {
    let list = List::new(0..50, 7, |_, _| {});
    assert_eq!(list.read().await.unwrap().len(), 50);
    // Eight pages to its end, and seven back: it has all that its total says, so no page after the short one is read.
    assert_eq!(list.requests(), 8 + 7);
}

#[tokio::test]
async fn a_short_page_in_the_middle_is_not_the_end_while_the_total_says_more() {
    let requests = AtomicUsize::new(0);
    let fetch = |page: u64| {
        requests.fetch_add(1, Ordering::Relaxed);
        let on_it = [0..0, 0..7, 7..12, 12..19].get(page as usize).cloned().unwrap_or(0..0);
        async move { Ok(Page { items: items(on_it), total: Some(19) }) }
    };
    assert_eq!(ids(&all_pages("/list", false, fetch, error).await.unwrap()), (0..19).collect::<Vec<_>>());
    assert_eq!(requests.load(Ordering::Relaxed), 4 + 3, "and the page after the last");
}

#[tokio::test]
async fn a_list_that_grows_beyond_the_end_that_its_first_page_told_ends_with_its_short_page() {
    let list = List::new(0..300, PAGE_SIZE, |number, ids| {
        if number == 1 {
            ids.extend(300..350);
        }
    });
    assert_eq!(ids(&list.read().await.unwrap()), (0..350).collect::<Vec<_>>());
    assert_eq!(list.requests(), 3 + 3, "pages 1, 3 and 4, and back");
}

#[tokio::test]
async fn a_thousand_pages_are_read_and_not_one_more() {
    let most = u32::try_from(PAGES as usize * PAGE_SIZE).unwrap();
    for (count, tells_total, is_read) in
        [(most - 50, true, true), (most - 50, false, true), (most, true, false), (most, false, false)]
    {
        let mut list = List::new(0..count, PAGE_SIZE, |_, _| {});
        list.tells_total = tells_total;
        let answer = list.read().await;
        assert_eq!(answer.is_ok(), is_read, "{count} {tells_total}");
        assert!(answer.is_err() || answer.unwrap().len() == count as usize);
    }
}

#[tokio::test]
async fn a_list_without_a_total_is_read_until_it_ends() {
    for count in [0, 5, 10, 25, 30] {
        let mut list = List::new(0..count, 10, |_, _| {});
        list.tells_total = false;
        assert_eq!(ids(&list.read().await.unwrap()), (0..count).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_server_that_ignores_the_page_number_does_not_loop_for_ever() {
    let requests = AtomicUsize::new(0);
    let fetch = |_page| {
        requests.fetch_add(1, Ordering::Relaxed);
        async { Ok(Page { items: items(0..10), total: None }) }
    };
    assert_eq!(all_pages("/list", false, fetch, error).await.unwrap().len(), 10);
    assert_eq!(requests.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn items_that_appear_while_the_list_is_read_hide_none_that_was_there() {
    // Each answer comes after four more items were made: the total of the first page is never true again.
    let list = List::new(0..25, 10, |_, ids| {
        let next = ids.len() as u32;
        ids.extend(next..next + 4);
    });
    let found = ids(&list.read().await.unwrap());
    assert!((0..29).all(|id| found.contains(&id)), "{found:?}");
    assert!(list.requests() < 40);
}

#[tokio::test]
async fn an_item_that_slips_onto_a_page_already_read_is_found() {
    // After the first page, one of its items goes: item 10 moves from page two to page one.
    let list = List::new(0..30, 10, |number, ids| {
        if number == 1 {
            ids.remove(0);
        }
    });
    let found = ids(&list.read().await.unwrap());
    assert!((1..30).all(|id| found.contains(&id)), "{found:?}");
}

#[tokio::test]
async fn an_item_that_slips_between_two_pages_is_found_also_when_the_total_stays_the_same() {
    // After the first page one of its items goes and another one is made: 30 before and after, and item 10 was on no
    // page.
    let list = List::new(0..30, 10, |number, ids| {
        if number == 1 {
            ids.remove(0);
            ids.push(30);
        }
    });
    let found = ids(&list.read().await.unwrap());
    assert!((1..31).all(|id| found.contains(&id)), "{found:?}");
}

#[tokio::test]
async fn a_total_that_is_too_small_does_not_end_a_list_whose_page_is_full() {
    let many = u32::try_from(PAGE_SIZE).unwrap();
    for (count, total) in [(many + 5, u64::from(many)), (3 * many, 1), (2 * many + 1, 0), (2 * many + 1, 150)] {
        let fetch = |page: u64| async move {
            let first = (u32::try_from(page).unwrap() - 1) * many;
            Ok(Page { items: items(first..(first + many).min(count).max(first)), total: Some(total) })
        };
        let found = all_pages("/list", false, fetch, error).await.unwrap();
        assert_eq!(ids(&found), (0..count).collect::<Vec<_>>(), "{total}");
    }
}

#[tokio::test]
async fn a_list_that_shrinks_all_the_time_ends_with_all_that_was_found() {
    let list = List::new(0..200, 10, |_, ids| {
        ids.remove(0);
    });
    let found = ids(&list.read().await.unwrap());
    let left = list.ids.lock().unwrap().clone();
    assert!(left.iter().all(|id| found.contains(id)), "nothing that is still there may be missing");
    assert!(list.requests() <= READINGS * 20 + READINGS, "{}", list.requests());
}

#[tokio::test]
async fn a_total_that_is_not_true_is_an_error_after_a_bounded_number_of_requests() {
    let requests = AtomicUsize::new(0);
    let fetch = |page: u64| {
        requests.fetch_add(1, Ordering::Relaxed);
        async move { Ok(Page { items: if page == 1 { items(0..10) } else { Vec::new() }, total: Some(15) }) }
    };
    let error = all_pages("/list", false, fetch, error).await.unwrap_err();
    assert!(error.to_string().contains("says it has 15 items, but two readings that agree found 10"), "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 2 * 3);
}

#[tokio::test]
async fn a_total_that_does_not_heed_the_filter_is_not_believed_over_two_readings_that_agree() {
    for tells in [11, 15, 20, 5_000, u64::MAX] {
        let requests = AtomicUsize::new(0);
        let fetch = |page: u64| {
            requests.fetch_add(1, Ordering::Relaxed);
            async move { Ok(Page { items: if page == 1 { items(0..10) } else { Vec::new() }, total: Some(tells) }) }
        };
        assert_eq!(ids(&all_pages("/list", true, fetch, error).await.unwrap()), (0..10).collect::<Vec<_>>());
        assert_eq!(requests.load(Ordering::Relaxed), 2 * 3, "{tells}");
    }
}

#[tokio::test]
async fn a_list_of_absurd_length_is_refused_after_one_page() {
    let requests = AtomicUsize::new(0);
    let fetch = |_| {
        requests.fetch_add(1, Ordering::Relaxed);
        async { Ok(Page { items: items(0..100), total: Some(u64::MAX) }) }
    };
    let error = all_pages("/list", false, fetch, error).await.unwrap_err();
    assert!(error.to_string().contains("at most 1000 pages"), "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_latest_form_of_an_item_counts() {
    let requests = AtomicUsize::new(0);
    let fetch = |page: u64| {
        let form = requests.fetch_add(1, Ordering::Relaxed) as u32;
        async move {
            let items = vec![("same".to_owned(), form), (format!("other-{page}"), 0)];
            Ok(Page { items: if page < 3 { items } else { Vec::new() }, total: Some(3) })
        }
    };
    let found = all_pages("/list", false, fetch, error).await.unwrap();
    let last = requests.load(Ordering::Relaxed) as u32 - 1;
    assert_eq!(found.iter().find(|item| item.0 == "same").unwrap().1, last);
}

#[tokio::test]
async fn an_error_on_any_page_is_the_answer() {
    let fetch = |page: u64| async move {
        if page == 3 {
            return Err(error(Unreadable::TooLong { total: 1 }));
        }
        Ok(Page { items: items((page as u32 * 10)..(page as u32 * 10 + 10)), total: Some(50) })
    };
    assert!(all_pages("/list", false, fetch, error).await.is_err());
}

/// At which request something happens, and what: an item goes (by its place), or one is made.
fn change() -> impl Strategy<Value = (usize, Option<usize>)> {
    (0..24_usize, prop::option::of(any::<usize>()))
}

proptest! {
    #[test]
    fn whatever_comes_and_goes_nothing_that_was_there_all_the_time_is_missed(
        count in 0..450_u32,
        page_length in prop::sample::select(vec![30, PAGE_SIZE]),
        changes in prop::collection::vec(change(), 0..60),
        tells_total in any::<bool>(),
    ) {
        let mut list = List::new(0..count, page_length, move |number, ids| {
            for (_, what) in changes.iter().filter(|(at, _)| *at == number) {
                match what {
                    Some(place) if !ids.is_empty() => {
                        ids.remove(place % ids.len());
                    }
                    Some(_) => {}
                    None => {
                        let next = ids.iter().max().map_or(0, |last| last + 1);
                        ids.push(next.max(1_000));
                    }
                }
            }
        });
        list.tells_total = tells_total;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = ids(&runtime.block_on(list.read()).unwrap());
        let there = list.ids.lock().unwrap().clone();
        let missed: Vec<u32> = there.into_iter().filter(|id| *id < 1_000 && !found.contains(id)).collect();
        prop_assert!(missed.is_empty(), "{missed:?}");
        prop_assert!(list.requests() <= READINGS * 2 * 20);
    }
}
