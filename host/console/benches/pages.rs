//! How long each page takes on a state directory as large as one gets: 100,000 operations and 5 million decisions; and
//! what a console beside a host costs that host's decisions. `just bench-console`; `WINDLASS_DECISIONS=100000 just
//! bench-console` is quicker. Prints; asserts nothing about time.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::io::{BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use windlass_console::{Access, Candidates, Console, Endpoint, ServeOptions};
use windlass_lifecycle::{Clock, Durability, Journal, StateDirectory};
use windlass_policy::slots::{Retry, Slot as _, SlotName};
use windlass_policy::{Host, HostOptions, built_in_component};

const OPERATIONS: u64 = 100_000;
const DECISIONS: u64 = 5_000_000;
/// Lines of a segment, which has some 4 MiB then, as in a host.
const LINES: u64 = 9_000;
const ROUNDS: usize = 20;
/// Every so many decisions have their question; the others would only make the log larger.
const WITH_QUESTION: u64 = 1_000;

fn main() {
    let decisions = std::env::var("WINDLASS_DECISIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(DECISIONS);
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let now = Clock::System.now();
    // One a second, so that most are of the last day; and decisions, one a millisecond.
    write_operations(&state, now - OPERATIONS * 1_000);
    let began = now - decisions;
    let bytes = write_decisions(folder.path(), decisions, began);
    println!("{OPERATIONS} operations, {decisions} decisions ({} MB)", bytes / 1_000_000);
    let middle = decisions / 2 / WITH_QUESTION * WITH_QUESTION;
    let middle = id_of(began + middle, middle / LINES, middle);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(pages(state.clone(), &middle));
    beside(state, &middle);
}

/// Each page, a number of times, as a host shows them; then what a console alone offers, which runs policies itself.
async fn pages(state: StateDirectory, middle: &str) {
    let before = resident_bytes();
    let access = Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
    let console = Console::new(state.clone(), access.clone()).router();
    println!("{:<44} {:>9} {:>9} {:>9}", "page", "best", "median", "worst");
    for path in [
        "/".to_owned(),
        "/operations".to_owned(),
        format!("/operations?before={}", operation_id(OPERATIONS / 2)),
        "/operations?state=left".to_owned(),
        "/operations?group=ci".to_owned(),
        "/operations?group=rare".to_owned(),
        format!("/operations/{}", operation_id(OPERATIONS / 3)),
        "/decisions".to_owned(),
        format!("/decisions?before={middle}"),
        "/decisions?slot=release".to_owned(),
        "/decisions?failed=true".to_owned(),
        format!("/decisions/{middle}"),
        "/policies".to_owned(),
        "/clusters".to_owned(),
    ] {
        measure(&console, &path, middle).await;
    }
    // What a console keeps of them: the bound is 20 MB, and what the allocator holds back counts as well.
    println!(
        "resident memory that the console added: {:.1} MB",
        (resident_bytes().saturating_sub(before)) as f64 / 1e6
    );
    let folders = tempfile::tempdir().unwrap();
    let policies = folders.path().join("policies");
    let host = host(&folders.path().join("scratch"));
    std::fs::create_dir(&policies).unwrap();
    std::fs::write(policies.join("other.wasm"), built_in_component(SlotName::Retry).unwrap()).unwrap();
    let policies = Dir::open_ambient_dir(policies, ambient_authority()).unwrap();
    let console = Console::new(state, access).with_candidates(Candidates::new(policies, host)).router();
    measure(&console, &format!("/decisions/{middle}?policy=other.wasm"), middle).await;
}

async fn measure(console: &Router, path: &str, middle: &str) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        get(console, path).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_unstable_by(f64::total_cmp);
    let shown: String = path.replace(middle, "MIDDLE").chars().take(44).collect();
    println!("{shown:<44} {:>6.1} ms {:>6.1} ms {:>6.1} ms", times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
}

/// A host that decides as fast as it can, alone and while somebody walks through the console beside it.
fn beside(state: StateDirectory, middle: &str) {
    let folder = tempfile::tempdir().unwrap();
    let pin = host(folder.path()).pin();
    let line = |what: &str| {
        let mut times = decided(&pin);
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 1000] as f64 / 1e3;
        println!("{what:<44} p50 {:>6.1} µs  p99 {:>6.1} µs  p99.9 {:>6.1} µs", at(500), at(990), at(999));
    };
    line("decisions, no console");
    let endpoint = Endpoint::bind(ServeOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let console = endpoint.console(state);
    let console = endpoint.serve_beside(console).unwrap();
    let address = console.url().trim_start_matches("http://").to_owned();
    line("decisions, a console that nobody looks at");
    let (stop, pages) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for path in ["/", "/operations", "/decisions", &format!("/decisions/{middle}"), "/policies"].iter().cycle()
            {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let mut stream = TcpStream::connect(&address).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
                pages.fetch_add(1, Ordering::Relaxed);
                // As somebody does who looks at it.
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        line("decisions, a page twenty times a second");
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} pages meanwhile", pages.load(Ordering::Relaxed));
    drop(console);
    line("decisions, no console again");
}

fn host(folder: &std::path::Path) -> Host {
    std::fs::create_dir_all(folder).unwrap();
    Host::new(HostOptions::new(Dir::open_ambient_dir(folder, ambient_authority()).unwrap())).unwrap()
}

/// How long each of many decisions took, in nanoseconds.
fn decided(pin: &windlass_policy::PinnedPolicies) -> Vec<u128> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let decide = || {
        let began = Instant::now();
        drop(black_box(runtime.block_on(pin.decide::<Retry>(Retry::example()))));
        // As many as a busy host has at most, so that its log keeps up.
        let took = began.elapsed();
        std::thread::sleep(Duration::from_micros(100));
        took.as_nanos()
    };
    for _ in 0..1_000 {
        decide();
    }
    (0..30_000).map(|_| decide()).collect()
}

async fn get(console: &Router, path: &str) {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let answer = console.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{path}");
    answer.into_body().collect().await.unwrap();
}

fn operation_id(number: u64) -> String {
    format!("ci-{number:012}")
}

/// The journal's own tables, filled by hand: operations one after the other would take an hour.
fn write_operations(state: &StateDirectory, began: u64) {
    drop(Journal::open(state, Durability::Process).unwrap());
    let mut connection = rusqlite::Connection::open(state.path().join("journal.sqlite")).unwrap();
    let transaction = connection.transaction().unwrap();
    {
        let mut operation = transaction
            .prepare(
                "insert into streams (family, id, fence, document)
                 values ('operation', ?1, 1, json_object('kind', 'create-server', 'group', 'ci', 'zone', 'fr-par-1',
                     'owner', 'team', 'specification', json('{\"types\":[\"DEV1-S\"]}'), 'policies', json('[]'),
                     'runner', 'runner', 'reasons', json('[]'), 'state', ?2, 'ended_by', ?3, 'created_at', ?4,
                     'updated_at', ?4, 'ended_at', ?4))",
            )
            .unwrap();
        let mut entry = transaction
            .prepare(
                "insert into entries (family, id, document)
                 values ('operation', ?1, json_object('step', ?2, 'phase', ?3, 'data', json('{}'), 'at', ?4))",
            )
            .unwrap();
        for number in 0..OPERATIONS {
            let state = match number % 1_000 {
                1 => "left",
                2 => "open",
                of if of % 10 == 3 => "undone",
                _ => "done",
            };
            // Of a thousand, five are there still.
            let ended_by = (number % 200 != 0).then(|| operation_id(number));
            let at = i64::try_from(began + number * 1_000).unwrap();
            operation.execute((operation_id(number), state, ended_by, at)).unwrap();
            for (step, phase) in [
                ("create-ip", "intent"),
                ("create-ip", "outcome"),
                ("create-server", "intent"),
                ("create-server", "outcome"),
            ] {
                entry.execute((operation_id(number), step, phase, at)).unwrap();
            }
        }
    }
    transaction.commit().unwrap();
}

fn id_of(at: u64, segment: u64, sequence: u64) -> String {
    // Two processes that take turns.
    format!("{at:012x}-{:08x}-{sequence:08x}", segment % 2)
}

/// Segments as hosts write them, one decision a millisecond. How many bytes they have.
fn write_decisions(folder: &std::path::Path, count: u64, began: u64) -> u64 {
    let folder = folder.join("decisions");
    std::fs::create_dir(&folder).unwrap();
    let digest = "ab".repeat(32);
    let example = serde_json::to_string(&Retry::example()).unwrap();
    let mut bytes = 0;
    for segment in 0..count.div_ceil(LINES) {
        let first = segment * LINES;
        let file = |slot: &str| {
            let name = format!("{:012x}-{:08x}-{segment:08x}.{slot}.jsonl", began + first, segment % 2);
            BufWriter::new(std::fs::File::create(folder.join(name)).unwrap())
        };
        let (mut retry, mut release) = (file("retry"), None);
        for number in first..(first + LINES).min(count) {
            let slot = if number % 100_000 == 7 { "release" } else { "retry" };
            let at = began + number;
            let policy = format!(
                r#"{{"slot":"{slot}","name":"windlass-guest-{slot}","version":"0.1.0","component":"{digest}","settings":"{digest}"}}"#
            );
            let question = if number % WITH_QUESTION == 0 { &*example } else { "null" };
            let line = format!(
                r#"{{"id":"{}","at-ms":{at},"slot":"{slot}","question":{question},"answer":null,"reason":"attempt 3 of 8","decided-by":{{"policy":{policy}}},"asked":[{{"policy":{policy},"outcome":"decided","duration-ns":4700}}],"duration-ns":4700}}"#,
                id_of(at, segment, number)
            );
            match slot {
                "release" => writeln!(release.get_or_insert_with(|| file("release")), "{line}").unwrap(),
                _ => writeln!(retry, "{line}").unwrap(),
            }
            bytes += line.len() as u64 + 1;
        }
        retry.flush().unwrap();
        release.iter_mut().for_each(|release| release.flush().unwrap());
    }
    bytes
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
