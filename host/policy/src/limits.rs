//! Every limit on a policy, and its default, in one place.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::configuration::unknown_key;

/// The most linear memory that any policy can be allowed, in bytes: the size of a slot in the engine's pool.
pub(crate) const MAX_MEMORY_BYTES: u64 = 64 << 20;
/// The most table elements that any policy can be allowed: the size of a table in the engine's pool.
pub(crate) const MAX_TABLE_ELEMENTS: u64 = 20_000;
/// The largest component that can be allowed, in bytes.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// The longest that a decision may be allowed to compute, in milliseconds.
pub(crate) const MAX_TIME_MS: u64 = 60_000;

/// What one policy may use. Each decision starts with all of it; nothing carries over.
///
/// Two limits hold for the whole engine and can't be set per policy: the stack of a guest is 512 KiB, and at most 256
/// instances exist at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The size of the component's file. Default 4 MiB.
    pub component_bytes: u64,
    /// Linear memory, in bytes; this also bounds the question, which is copied into it. Default 16 MiB.
    pub memory_bytes: u64,
    /// Elements of all tables together. Default 10,000.
    pub table_elements: u64,
    /// Time spent inside the guest, in milliseconds of its thread's processor time, to the next tick of 10 ms: a
    /// machine that is too busy to run the guest does not count against it, until twenty times as long has passed.
    /// Far above what a decision takes (microseconds). Default 500.
    pub time_ms: u64,
    /// Instructions, roughly: deterministic, unlike time. Absent: not counted. Policies with it run about 10 % slower
    /// and in an engine of their own. Default absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The size of an answer after it left the guest, and of the arguments of one host call, in bytes. Default 4 MiB.
    pub answer_bytes: u64,
    /// Live component resource handles. Default 64.
    pub handles: u64,
    /// Calls of granted capabilities. Default 16.
    pub host_calls: u64,
    /// Arguments and answers of all host calls together, as JSON, in bytes. Default 256 KiB.
    pub host_call_bytes: u64,
    /// Time spent in all host calls together, in milliseconds. Default 5,000.
    pub host_call_time_ms: u64,
    /// Lines for the log. More are counted and dropped. Default 32.
    pub log_lines: u64,
    /// Bytes of all log lines together. A line beyond is cut. Default 4 KiB.
    pub log_bytes: u64,
    /// Time for `configure`, in milliseconds. Default 2,000.
    pub configure_time_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            component_bytes: 4 << 20,
            memory_bytes: 16 << 20,
            table_elements: 10_000,
            time_ms: 500,
            fuel: None,
            answer_bytes: 4 << 20,
            handles: 64,
            host_calls: 16,
            host_call_bytes: 256 << 10,
            host_call_time_ms: 5_000,
            log_lines: 32,
            log_bytes: 4 << 10,
            configure_time_ms: 2_000,
        }
    }
}

impl Limits {
    const KEYS: [&str; 13] = [
        "component_bytes",
        "memory_bytes",
        "table_elements",
        "time_ms",
        "fuel",
        "answer_bytes",
        "handles",
        "host_calls",
        "host_call_bytes",
        "host_call_time_ms",
        "log_lines",
        "log_bytes",
        "configure_time_ms",
    ];

    /// These limits with the given keys replaced. `place` names the table in errors.
    pub(crate) fn with(&self, overrides: &Map<String, Value>, place: &str) -> Result<Limits, String> {
        let mut limits = self.clone();
        for (key, value) in overrides {
            if !Self::KEYS.contains(&key.as_str()) {
                return Err(unknown_key(place, key, &Self::KEYS));
            }
            let number = value
                .as_u64()
                .filter(|number| *number > 0 || matches!(key.as_str(), "handles" | "host_calls" | "log_lines"));
            let Some(number) = number else {
                return Err(format!("{place}.{key}: expected a whole number above 0, found {value}"));
            };
            let most = match key.as_str() {
                "component_bytes" => MAX_COMPONENT_BYTES,
                "memory_bytes" => MAX_MEMORY_BYTES,
                "table_elements" => MAX_TABLE_ELEMENTS,
                "time_ms" | "host_call_time_ms" | "configure_time_ms" => MAX_TIME_MS,
                "fuel" => u64::MAX,
                _ => u64::from(u32::MAX),
            };
            if number > most {
                return Err(format!("{place}.{key}: {number} is more than this host can allow, which is {most}"));
            }
            match key.as_str() {
                "component_bytes" => limits.component_bytes = number,
                "memory_bytes" => limits.memory_bytes = number,
                "table_elements" => limits.table_elements = number,
                "time_ms" => limits.time_ms = number,
                "fuel" => limits.fuel = Some(number),
                "answer_bytes" => limits.answer_bytes = number,
                "handles" => limits.handles = number,
                "host_calls" => limits.host_calls = number,
                "host_call_bytes" => limits.host_call_bytes = number,
                "host_call_time_ms" => limits.host_call_time_ms = number,
                "log_lines" => limits.log_lines = number,
                "log_bytes" => limits.log_bytes = number,
                _ => limits.configure_time_ms = number,
            }
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_limit_can_be_overridden_by_its_name() {
        for key in Limits::KEYS {
            let limits = Limits::default().with(&overrides(&format!(r#"{{"{key}": 7}}"#)), "limits").unwrap();
            assert_eq!(serde_json::to_value(&limits).unwrap()[key], 7, "{key}");
        }
        // and KEYS names every field there is
        let all = Limits { fuel: Some(1), ..Limits::default() };
        assert_eq!(serde_json::to_value(&all).unwrap().as_object().unwrap().len(), Limits::KEYS.len());
    }

    #[test]
    fn a_misspelt_limit_is_refused_with_the_nearest_one() {
        let error = Limits::default().with(&overrides(r#"{"memory_byte": 7}"#), "policies.retry.limits").unwrap_err();
        assert_eq!(error, "policies.retry.limits: unknown key `memory_byte`; did you mean `memory_bytes`?");
    }

    #[test]
    fn a_limit_beyond_what_the_host_has_is_refused() {
        for json in [r#"{"memory_bytes": 1000000000}"#, r#"{"time_ms": 0}"#, r#"{"fuel": -1}"#, r#"{"time_ms": "1s"}"#]
        {
            let error = Limits::default().with(&overrides(json), "limits").unwrap_err();
            assert!(error.starts_with("limits."), "{error}");
        }
    }
}
