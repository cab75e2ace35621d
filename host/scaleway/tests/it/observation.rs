//! What is told to logs and metrics, and what never is.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing_subscriber::fmt::format::FmtSpan;
use windlass_scaleway::metric_names;

use crate::support::*;

/// Counters by their name and labels, in the order of the labels.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, u64>>>);

struct Count {
    name: String,
    counters: Counters,
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        *self.counters.0.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(Arc::new(Count { name, counters: self.clone() }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs calls on one thread and returns their counters and their log.
fn observed(run: impl AsyncFnOnce()) -> (BTreeMap<String, u64>, String) {
    // While tracing knows of one subscriber only, a span that another test's thread meets first is judged by that
    // thread, which listens to nothing, and is switched off for all. A second one, for every thread, ends that.
    static EVERYWHERE: Once = Once::new();
    EVERYWHERE.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
    let (counters, log) = (Counters::default(), Log::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        metrics::with_local_recorder(&counters, || runtime.block_on(run()));
    });
    let counted = counters.0.lock().unwrap().clone();
    (counted, String::from_utf8(log.0.lock().unwrap().clone()).unwrap())
}

#[test]
fn every_call_is_one_span_and_is_counted_under_its_template_and_class() {
    let (counters, log) = observed(async || {
        let (client, _) = client_answered(200, fixture("server_running"));
        client.instance(&zone()).get_server(SERVER).await.unwrap();
        client.instance(&zone()).get_server("another").await.unwrap();
        let (client, _) = client_answered(503, r#"{"type":"out_of_stock"}"#);
        client.instance(&zone()).create_server(&Default::default()).await.unwrap_err();
        let (client, _) = client_answered(200, "{");
        client.instance(&zone()).get_server(SERVER).await.unwrap_err();
        let (client, _) = client_with(settings(), |_| std::future::pending());
        client.instance(&zone()).delete_server(SERVER).await.unwrap_err();
        let _ = client.send_raw("GET", "/anything/at/all", None).await;
    });
    let server = "path=/instance/v1/zones/{zone}/servers/{server_id}";
    let expected = [
        (format!("method=GET {server} status=200 class=ok"), 2),
        (format!("method=GET {server} status=200 class=malformed-answer"), 1),
        (format!("method=DELETE {server} status=none class=timeout"), 1),
        ("method=POST path=/instance/v1/zones/{zone}/servers status=503 class=out-of-stock".to_owned(), 1),
        ("method=GET path=(raw) status=none class=timeout".to_owned(), 1),
    ];
    let expected: BTreeMap<String, u64> =
        expected.into_iter().map(|(labels, count)| (format!("{} {labels}", metric_names::CALLS), count)).collect();
    assert_eq!(counters, expected);
    assert_eq!(log.matches(": close ").count(), 6, "{log}");
    assert!(
        log.contains("request_id=\"request-1\"") && log.contains("status=503") && log.contains("duration_ms=30000"),
        "{log}"
    );
}

#[test]
fn every_metric_is_described() {
    #[derive(Default)]
    struct Described(Mutex<Vec<String>>);

    impl Recorder for Described {
        fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
            assert!(unit.is_some());
            self.0.lock().unwrap().push(name.as_str().to_owned());
        }
        fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, words: SharedString) {
            self.describe_counter(name, unit, words);
        }
        fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, words: SharedString) {
            self.describe_counter(name, unit, words);
        }
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    let described = Described::default();
    metrics::with_local_recorder(&described, metric_names::describe);
    let mut names = described.0.into_inner().unwrap();
    names.sort();
    let mut expected = [
        metric_names::CALLS,
        metric_names::CALLS_IN_FLIGHT,
        metric_names::CALL_SECONDS,
        metric_names::LISTS_READ_AGAIN,
        metric_names::QUEUE_SECONDS,
    ];
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_list_that_does_not_add_up_is_counted_each_time_it_is_read_again() {
    let (counters, _) = observed(async || {
        let (client, _) = client_with(settings(), |_| async {
            let mut answer = response(200, r#"{"servers": []}"#);
            answer.headers_mut().insert("x-total-count", 2.into());
            Ok(answer)
        });
        client.instance(&zone()).list_servers(&Default::default()).await.unwrap_err();
        let (client, _) = client_answered(200, r#"{"servers": []}"#);
        client.instance(&zone()).list_servers(&Default::default()).await.unwrap();
    });
    let read_again = format!("{} path=/instance/v1/zones/{{zone}}/servers", metric_names::LISTS_READ_AGAIN);
    assert_eq!(counters.get(&read_again), Some(&1), "{counters:?}");
}

#[test]
fn the_key_is_in_no_log_and_no_error_even_when_an_answer_repeats_it() {
    let shouted = KEY.to_uppercase();
    let (_, log) = observed(async || {
        for (status, body) in [
            (500, format!("<pre>X-Auth-Token: {KEY}</pre>")),
            (403, format!(r#"{{"type":"permissions_denied","message":"{KEY} may not","help_message":"{shouted}"}}"#)),
            (200, format!(r#"{{"servers": "{KEY}"}}"#)),
            (200, format!("{{\"server\": {{\"id\": \"{KEY}{KEY}\", \"tags\": 1}}}}")),
        ] {
            let (client, _) = client_answered(status, body);
            let error = client.instance(&zone()).get_server(SERVER).await.unwrap_err();
            for text in [error.to_string(), format!("{error:?}"), error.body().unwrap_or_default().to_owned()] {
                assert!(!text.to_lowercase().contains(KEY), "{text}");
            }
            let raw = client.send_raw("GET", "/x", None).await.unwrap();
            assert!(!String::from_utf8_lossy(&raw.body).to_lowercase().contains(KEY), "policies may read this");
        }
        let (client, _) = client_with(settings(), |_| std::future::pending());
        let _ = client.instance(&zone()).delete_server(SERVER).await;
    });
    assert!(!log.is_empty() && !log.to_lowercase().contains(KEY), "{log}");
}
