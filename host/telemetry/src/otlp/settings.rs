//! The standard variables of OpenTelemetry, read once.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::signal::Signal;

/// A wrong variable. The values of headers and endpoints, which may hold secrets, are never quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct SettingsError {
    /// The variable's name.
    pub variable: String,
    /// What is wrong, and what is wanted.
    pub problem: String,
}

/// What is exported, and where.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(crate) traces: Option<Batched>,
    pub(crate) logs: Option<Batched>,
    pub(crate) metrics: Option<Endpoint>,
    /// `service.name` first. From `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) sampler: Sampler,
    pub(crate) metric_interval: Duration,
}

/// Where a signal goes that is sent in batches, and how.
#[derive(Debug, Clone)]
pub(crate) struct Batched {
    pub(crate) endpoint: Endpoint,
    pub(crate) queue: usize,
    pub(crate) batch: usize,
    pub(crate) delay: Duration,
    /// The longest that one batch is tried.
    pub(crate) timeout: Duration,
}

/// Where one signal goes.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Time limit of one request.
    pub(crate) timeout: Duration,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may hold a password or a token, a header mostly does.
        formatter.debug_struct("Endpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// Which traces are exported: those whose id is below the bound, so that every process decides alike about one trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    ratio: f64,
}

impl Sampler {
    pub(crate) fn samples(self, trace_id: [u8; 16]) -> bool {
        if self.ratio >= 1.0 {
            return true;
        }
        let low = u64::from_be_bytes(trace_id[8..].try_into().expect("eight of sixteen bytes"));
        // As other implementations do: the upper 63 bits of the id's lower half.
        ((low >> 1) as f64) < self.ratio * (1_u64 << 63) as f64
    }
}

/// Reads variables. One that is set and empty counts as unset, as the specification has it.
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The variable of the signal, or that of all signals; with the name that it had.
    fn of_signal(&self, signal: Signal, name: &str) -> Option<(String, String)> {
        let special = format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.variable());
        let general = format!("OTEL_EXPORTER_OTLP_{name}");
        [special, general].into_iter().find_map(|variable| self.get(&variable).map(|value| (variable, value)))
    }

    fn number(&self, variable: &str, default: u64, least: u64, most: u64) -> Result<u64, SettingsError> {
        self.get(variable).map_or(Ok(default), |value| number(variable, &value, least, most))
    }

    fn milliseconds(&self, variable: &str, default: u64) -> Result<Duration, SettingsError> {
        self.number(variable, default, 1, MAX_MS).map(Duration::from_millis)
    }
}

/// An hour, in milliseconds: longer times are mistakes.
const MAX_MS: u64 = 3_600_000;
/// More items than this are not kept in memory, whatever the environment says.
const MAX_QUEUE: u64 = 1_000_000;
/// Not supported, and not to be ignored silently: who sets them relies on them.
const REFUSED: [&str; 3] = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];

fn wrong(variable: impl Into<String>, problem: impl Into<String>) -> SettingsError {
    SettingsError { variable: variable.into(), problem: problem.into() }
}

/// What was given, in a bounded length.
fn quoted(value: &str) -> String {
    format!("{:?}", value.chars().take(64).collect::<String>())
}

fn number(variable: &str, value: &str, least: u64, most: u64) -> Result<u64, SettingsError> {
    value
        .parse::<u64>()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| wrong(variable, format!("{} is no whole number from {least} to {most}", quoted(value))))
}

impl Settings {
    /// As the environment of this process says; `None` where nothing is to be exported: no endpoint is set,
    /// `OTEL_SDK_DISABLED=true`, or every exporter is `none`.
    ///
    /// # Errors
    /// [`SettingsError`] names the variable.
    pub fn from_environment(service: &str, version: &str) -> Result<Option<Self>, SettingsError> {
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with("OTEL_")) else { continue };
            if value.to_str().is_none() {
                return Err(wrong(name, "it is not UTF-8"));
            }
        }
        Self::read(service, version, |name| std::env::var(name).ok())
    }

    /// The same from variables that the caller looks up.
    ///
    /// # Errors
    /// [`SettingsError`] names the variable.
    pub fn read(
        service: &str,
        version: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        let variables = Variables(variable);
        // The specification: every other value than "true", in any case, is false.
        if variables.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = endpoint(&variables, Signal::Traces)?;
        let logs = endpoint(&variables, Signal::Logs)?;
        let metrics = endpoint(&variables, Signal::Metrics)?;
        if traces.is_none() && logs.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let mut of_signals = Signal::ALL.into_iter().flat_map(|signal| REFUSED.map(|name| (signal, name)));
        if let Some((refused, _)) = of_signals.find_map(|(signal, name)| variables.of_signal(signal, name)) {
            return Err(wrong(refused, "own certificates are not supported: the system's are trusted; unset it"));
        }
        if let Some(value) = variables.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
            && !value.eq_ignore_ascii_case("cumulative")
        {
            let problem = format!("{} is not supported: only cumulative is", quoted(&value));
            return Err(wrong("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", problem));
        }
        Ok(Some(Self {
            traces: batched(&variables, traces, "OTEL_BSP", 5_000)?,
            logs: batched(&variables, logs, "OTEL_BLRP", 1_000)?,
            metrics,
            resource: resource(&variables, service, version)?,
            sampler: sampler(&variables)?,
            metric_interval: variables.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
        }))
    }
}

/// Where a signal goes; `None` where it does not go anywhere.
fn endpoint(
    variables: &Variables<impl Fn(&str) -> Option<String>>,
    signal: Signal,
) -> Result<Option<Endpoint>, SettingsError> {
    let exporter = format!("OTEL_{}_EXPORTER", signal.variable());
    match variables.get(&exporter).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(other) => {
            return Err(wrong(exporter, format!("{} is not supported: otlp and none are", quoted(other))));
        }
    }
    let Some((variable, text)) = variables.of_signal(signal, "ENDPOINT") else { return Ok(None) };
    let usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    let Some(mut url) = Url::parse(&text).ok().filter(usable) else {
        return Err(wrong(variable, "it is no http or https URL with a host: write for example http://localhost:4318"));
    };
    if variable == "OTEL_EXPORTER_OTLP_ENDPOINT" {
        let path = format!("{}/v1/{}", url.path().trim_end_matches('/'), signal.as_str());
        url.set_path(&path);
    }
    if let Some((variable, protocol)) = variables.of_signal(signal, "PROTOCOL")
        && protocol != "http/protobuf"
    {
        return Err(wrong(variable, format!("{} is not supported: only http/protobuf is", quoted(&protocol))));
    }
    if let Some((variable, compression)) = variables.of_signal(signal, "COMPRESSION")
        && compression != "none"
    {
        return Err(wrong(variable, format!("{} is not supported: only none is", quoted(&compression))));
    }
    let timeout = match variables.of_signal(signal, "TIMEOUT") {
        Some((variable, value)) => number(&variable, &value, 1, MAX_MS)?,
        None => 10_000,
    };
    let headers = match variables.of_signal(signal, "HEADERS") {
        Some((variable, value)) => headers(&variable, &value)?,
        None => HeaderMap::new(),
    };
    Ok(Some(Endpoint { url, headers, timeout: Duration::from_millis(timeout) }))
}

/// How a signal goes to its endpoint. The variables are read also where it does not go anywhere.
fn batched(
    variables: &Variables<impl Fn(&str) -> Option<String>>,
    endpoint: Option<Endpoint>,
    prefix: &str,
    delay_ms: u64,
) -> Result<Option<Batched>, SettingsError> {
    let name = |name: &str| format!("{prefix}_{name}");
    let (of_queue, of_batch) = (name("MAX_QUEUE_SIZE"), name("MAX_EXPORT_BATCH_SIZE"));
    let queue = variables.number(&of_queue, 2_048, 1, MAX_QUEUE)?;
    let batch = variables.number(&of_batch, queue.min(512), 1, MAX_QUEUE)?;
    if batch > queue {
        return Err(wrong(of_batch, format!("{batch} is more than {of_queue}, which is {queue}")));
    }
    let delay = variables.milliseconds(&name("SCHEDULE_DELAY"), delay_ms)?;
    let timeout = variables.milliseconds(&name("EXPORT_TIMEOUT"), 30_000)?;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(endpoint.map(|endpoint| Batched { endpoint, queue: size(queue), batch: size(batch), delay, timeout }))
}

/// `key=value` pairs between commas, percent-encoded. The position tells which one is wrong: its text may be secret.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let mut pairs = Vec::new();
    for (position, pair) in text.split(',').enumerate().filter(|(_, pair)| !pair.trim().is_empty()) {
        let problem = |what: &str| wrong(variable, format!("its part {} {what}", position + 1));
        let (key, value) = pair.split_once('=').ok_or_else(|| problem("is not of the form key=value"))?;
        let decoded = |text: &str| {
            let text = percent_decode_str(text.trim()).decode_utf8();
            text.map(std::borrow::Cow::into_owned).map_err(|_| problem("is not UTF-8 when it is percent-decoded"))
        };
        let (key, value) = (decoded(key)?, decoded(value)?);
        if key.is_empty() {
            return Err(problem("has an empty key"));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn headers(variable: &str, text: &str) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    for (position, (name, value)) in pairs(variable, text)?.into_iter().enumerate() {
        let problem = |what| wrong(variable, format!("the {what} of its header {} is not one of HTTP", position + 1));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| problem("name"))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| problem("value"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn resource(
    variables: &Variables<impl Fn(&str) -> Option<String>>,
    service: &str,
    version: &str,
) -> Result<Vec<(String, String)>, SettingsError> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let given = match variables.get(ATTRIBUTES) {
        Some(text) => pairs(ATTRIBUTES, &text)?,
        None => Vec::new(),
    };
    let name = variables.get("OTEL_SERVICE_NAME");
    let mut resource = vec![
        ("service.name".to_owned(), name.clone().unwrap_or_else(|| service.to_owned())),
        ("service.version".to_owned(), version.to_owned()),
        ("process.pid".to_owned(), std::process::id().to_string()),
    ];
    for (key, value) in given {
        match resource.iter_mut().find(|(known, _)| *known == key) {
            // The variable of its own wins.
            Some((known, _)) if known == "service.name" && name.is_some() => {}
            Some((_, known)) => *known = value,
            None => resource.push((key, value)),
        }
    }
    Ok(resource)
}

fn sampler(variables: &Variables<impl Fn(&str) -> Option<String>>) -> Result<Sampler, SettingsError> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let ratio = match variables.get(SAMPLER).as_deref() {
        // Operations are the roots of their traces, so the parent's part of these never decides.
        None | Some("always_on" | "parentbased_always_on") => 1.0,
        Some("always_off" | "parentbased_always_off") => 0.0,
        Some("traceidratio" | "parentbased_traceidratio") => match variables.get(ARGUMENT) {
            None => 1.0,
            Some(text) => text
                .parse::<f64>()
                .ok()
                .filter(|ratio| (0.0..=1.0).contains(ratio))
                .ok_or_else(|| wrong(ARGUMENT, format!("{} is not a number from 0 to 1", quoted(&text))))?,
        },
        Some(other) => {
            let problem = format!(
                "{} is not supported: always_on, always_off and traceidratio are, also with parentbased_ before them",
                quoted(other)
            );
            return Err(wrong(SAMPLER, problem));
        }
    };
    Ok(Sampler { ratio })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/base/");

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
        Settings::read("windlass", "1.2.3", |name| {
            variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn on(variables: &[(&str, &str)]) -> Settings {
        let all: Vec<_> = [ENDPOINT].into_iter().chain(variables.iter().copied()).collect();
        read(&all).unwrap().unwrap()
    }

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap().is_none());
        assert!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")]).unwrap().is_none());
        let none = ["TRACES", "LOGS", "METRICS"].map(|signal| format!("OTEL_{signal}_EXPORTER"));
        let none = [(&*none[0], "none"), (&*none[1], "none"), (&*none[2], "none")];
        assert!(read(&[ENDPOINT, none[0], none[1], none[2]]).unwrap().is_none());
        let settings = read(&[ENDPOINT, none[0]]).unwrap().unwrap();
        assert!(settings.traces.is_none() && settings.logs.is_some() && settings.metrics.is_some());
        let settings = read(&[ENDPOINT, none[1]]).unwrap().unwrap();
        assert!(settings.traces.is_some() && settings.logs.is_none() && settings.metrics.is_some());
    }

    #[test]
    fn each_signal_has_its_path_below_the_common_endpoint_and_its_own_endpoint_whole() {
        let settings = on(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://other:4318/here?k=v")]);
        assert_eq!(settings.traces.unwrap().endpoint.url.as_str(), "https://collector.example/base/v1/traces");
        assert_eq!(settings.logs.unwrap().endpoint.url.as_str(), "https://collector.example/base/v1/logs");
        assert_eq!(settings.metrics.unwrap().url.as_str(), "http://other:4318/here?k=v");
    }

    #[test]
    fn a_signals_own_variable_wins() {
        let settings = on(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20general,x-team = ci"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20traces"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "7000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "8000"),
            ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "9000"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "7"),
        ]);
        let (traces, logs) = (settings.traces.unwrap(), settings.logs.unwrap());
        let (traces, metrics) = (&traces.endpoint, settings.metrics.unwrap());
        assert_eq!(traces.headers["authorization"], "Bearer traces");
        assert_eq!(metrics.headers["authorization"], "Bearer general");
        assert_eq!(metrics.headers["x-team"], "ci");
        assert_eq!((traces.timeout.as_secs(), metrics.timeout.as_secs()), (7, 8));
        assert_eq!((logs.endpoint.timeout.as_secs(), logs.queue, logs.batch), (9, 7, 7));
        assert_eq!(logs.endpoint.headers["authorization"], "Bearer general");
    }

    #[test]
    fn batches_of_spans_and_of_logs_have_the_defaults_of_the_specification() {
        let settings = on(&[]);
        let defaults =
            |batched: Batched| (batched.queue, batched.batch, batched.delay.as_millis(), batched.timeout.as_millis());
        assert_eq!(defaults(settings.traces.unwrap()), (2_048, 512, 5_000, 30_000));
        assert_eq!(defaults(settings.logs.unwrap()), (2_048, 512, 1_000, 30_000));
    }

    #[test]
    fn the_resource_is_named_by_the_program_and_then_by_the_environment() {
        let name = |variables: &[(&str, &str)]| on(variables).resource[0].1.clone();
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=runners,deployment.environment=a%2Cb");
        assert_eq!(name(&[]), "windlass");
        assert_eq!(name(&[attributes]), "runners");
        assert_eq!(name(&[attributes, ("OTEL_SERVICE_NAME", "ci")]), "ci");
        let resource = on(&[attributes]).resource;
        assert!(resource.contains(&("deployment.environment".to_owned(), "a,b".to_owned())), "{resource:?}");
        assert!(resource.contains(&("service.version".to_owned(), "1.2.3".to_owned())), "{resource:?}");
    }

    #[test]
    fn a_wrong_variable_is_refused_by_its_name() {
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "not a url"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "file:///tmp/x"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%ff"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
            ("OTEL_LOGS_EXPORTER", "console"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "/etc/key.pem"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "-1"),
            ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "4096"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "soon"),
            ("OTEL_BLRP_EXPORT_TIMEOUT", "0"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "1h"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ] {
            let error = read(&[ENDPOINT, (variable, value)]).expect_err(variable);
            assert_eq!(error.variable, variable, "{error}");
            assert!(error.to_string().starts_with(variable), "{error}");
        }
        let ratio = [ENDPOINT, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        assert_eq!(read(&ratio).unwrap_err().variable, "OTEL_TRACES_SAMPLER_ARG");
    }

    #[test]
    fn no_error_and_no_debug_text_shows_a_header_or_a_password() {
        let secret = "s3cret-value";
        for value in [secret.to_owned(), format!("a={secret}%0a"), format!("a={secret},{secret}")] {
            let error = read(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", &value)]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(secret), "{error}");
        }
        let url = format!("https://me:{secret}@host/?t={secret}");
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &url),
            ("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization={secret}")),
        ]);
        assert!(!format!("{settings:?}").contains(secret), "{settings:?}");
    }

    #[test]
    fn the_sampler_keeps_its_share_and_decides_alike_about_one_trace() {
        let share = |argument: &str| {
            let sampler = on(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", argument)]).sampler;
            let id = |n: u64| [[0; 8], n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
            (0..1_000).filter(|n| sampler.samples(id(*n).try_into().unwrap())).count()
        };
        assert_eq!((share("0"), share("1")), (0, 1_000));
        assert!((200..300).contains(&share("0.25")), "{}", share("0.25"));
        let off = on(&[("OTEL_TRACES_SAMPLER", "always_off")]).sampler;
        assert!(!off.samples([0; 16]));
    }
}
