//! A collector for tests: HTTP on loopback, OTLP decoded. Not for anything else.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// How a collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It takes everything.
    Takes,
    /// It answers with this status, and an empty body.
    Answers(u16),
    /// It reads the request and never answers.
    Hangs,
    /// It takes everything, and answers with megabytes of nonsense.
    Babbles,
    /// So many requests are answered 503 and `Retry-After: 0`, all others are taken.
    IsBusyFor(usize),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// Its headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Inbox {
    requests: Mutex<Vec<Received>>,
    came: Condvar,
}

/// A collector on a free port of this machine's loopback, for as long as the process lives.
pub struct Collector {
    address: SocketAddr,
    inbox: Arc<Inbox>,
}

impl Collector {
    /// Listens.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(behaviour: Behaviour) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (address, inbox) = (listener.local_addr()?, Arc::new(Inbox::default()));
        let shared = Arc::clone(&inbox);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let inbox = Arc::clone(&shared);
                std::thread::spawn(move || while serve(&stream, behaviour, &inbox).is_some() {});
            }
        });
        Ok(Self { address, inbox })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests until now.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.inbox.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until there are so many requests.
    pub fn wait_for(&self, count: usize) {
        let requests = self.inbox.requests.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.inbox.came.wait_while(requests, |requests| requests.len() < count));
    }

    /// All spans until now, in the order in which they ended.
    ///
    /// # Panics
    /// When what came is no OTLP.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.of_path("/v1/traces")
            .flat_map(|body| ExportTraceServiceRequest::decode(&body[..]).expect("it is OTLP").resource_spans)
            .flat_map(|of_resource| of_resource.scope_spans)
            .flat_map(|of_scope| of_scope.spans)
            .collect()
    }

    /// All log records until now, in the order in which they were made.
    ///
    /// # Panics
    /// When what came is no OTLP.
    #[must_use]
    pub fn logs(&self) -> Vec<LogRecord> {
        self.of_path("/v1/logs")
            .flat_map(|body| ExportLogsServiceRequest::decode(&body[..]).expect("it is OTLP").resource_logs)
            .flat_map(|of_resource| of_resource.scope_logs)
            .flat_map(|of_scope| of_scope.log_records)
            .collect()
    }

    /// The traces until now whose first span has ended, each with that span in front. The others of a trace stand below
    /// it or below each other.
    ///
    /// # Panics
    /// When what came is no OTLP, or a span hangs in the air.
    #[must_use]
    pub fn traces(&self) -> Vec<Vec<Span>> {
        let spans = self.spans();
        let roots = spans.iter().filter(|span| span.parent_span_id.is_empty());
        roots
            .map(|root| {
                let of_trace: Vec<&Span> = spans.iter().filter(|span| span.trace_id == root.trace_id).collect();
                let below: Vec<&Span> = of_trace.iter().copied().filter(|span| span.span_id != root.span_id).collect();
                for span in &below {
                    let known = of_trace.iter().any(|other| other.span_id == span.parent_span_id);
                    assert!(known, "what {span:?} stands below is not in its trace");
                }
                std::iter::once(root).chain(below).cloned().collect()
            })
            .collect()
    }

    /// The metrics as they came last.
    ///
    /// # Panics
    /// When what came is no OTLP.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let Some(body) = self.of_path("/v1/metrics").last() else { return Vec::new() };
        let request = ExportMetricsServiceRequest::decode(&body[..]).expect("it is OTLP");
        let of_scopes = request.resource_metrics.into_iter().flat_map(|of_resource| of_resource.scope_metrics);
        of_scopes.flat_map(|of_scope| of_scope.metrics).collect()
    }

    /// The attributes of the resource of the traces that came first.
    ///
    /// # Panics
    /// When what came is no OTLP.
    #[must_use]
    pub fn resource(&self) -> BTreeMap<String, String> {
        let Some(body) = self.of_path("/v1/traces").next() else { return BTreeMap::new() };
        let request = ExportTraceServiceRequest::decode(&body[..]).expect("it is OTLP");
        let resource = request.resource_spans.into_iter().find_map(|of_resource| of_resource.resource);
        resource.map(|resource| texts(&resource.attributes)).unwrap_or_default()
    }

    fn of_path(&self, path: &'static str) -> impl Iterator<Item = Vec<u8>> {
        self.requests().into_iter().filter(move |request| request.path == path).map(|request| request.body)
    }
}

/// Does something in the span of a hook while spans are exported. What came of it, and the value of `TRACEPARENT` that
/// whoever runs the hook is to tell it, as the collector knows the span. On the calling thread only.
///
/// # Panics
/// When nothing can be exported.
pub async fn in_a_hook<T>(work: impl Future<Output = T>) -> (T, String) {
    use tracing::Instrument as _;
    use tracing_subscriber::layer::SubscriberExt as _;
    let collector = Collector::start(Behaviour::Takes).expect("a port of the loopback");
    let settings = crate::Settings::read("test", "0", |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(collector.endpoint()),
        "OTEL_METRICS_EXPORTER" => Some("none".to_owned()),
        _ => None,
    });
    let settings = settings.expect("the variables are right").expect("there is an endpoint");
    let telemetry = crate::Telemetry::with(settings).expect("a thread");
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
    let span = tracing::trace_span!(target: "windlass_test", "hook", stage = "configure");
    let done = work.instrument(span).await;
    drop(subscriber);
    telemetry.shutdown(std::time::Duration::from_secs(120));
    let spans = collector.spans();
    let hook = spans.iter().find(|span| span.name == "hook configure").expect("the span of the hook");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (done, format!("00-{}-{}-01", hex(&hook.trace_id), hex(&hook.span_id)))
}

/// Attributes as texts.
#[must_use]
pub fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &any_value::Value| match value {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(flag) => flag.to_string(),
        other => format!("{other:?}"),
    };
    let value = |attribute: &KeyValue| attribute.value.as_ref()?.value.as_ref().map(text);
    attributes.iter().map(|attribute| (attribute.key.clone(), value(attribute).unwrap_or_default())).collect()
}

/// One request of a connection. `None` ends it.
fn serve(stream: &TcpStream, behaviour: Behaviour, inbox: &Inbox) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let earlier = {
        let mut requests = inbox.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(Received { path, headers, body });
        requests.len() - 1
    };
    inbox.came.notify_all();
    let mut stream = stream;
    match behaviour {
        Behaviour::IsBusyFor(count) if earlier < count => {
            let answer = "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).ok()
        }
        Behaviour::Takes | Behaviour::IsBusyFor(_) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()
        }
        Behaviour::Answers(status) => {
            let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).ok()
        }
        Behaviour::Babbles => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 67108864\r\n\r\n").ok()?;
            (0..1024).try_for_each(|_| stream.write_all(&[0xff; 65536]).ok())
        }
        // Until the peer is gone.
        Behaviour::Hangs => reader.read_exact(&mut [0]).ok(),
    }
}
