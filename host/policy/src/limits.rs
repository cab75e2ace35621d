//! Every limit on a policy, and its default, in one place.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::class::Class;
use crate::text::brief;
use crate::text::unknown_key;

/// The most linear memory that any policy can be allowed, in bytes: the size of a slot in the engine's pool.
pub(crate) const MAX_MEMORY_BYTES: u64 = 64 << 20;
/// The most table elements that any policy can be allowed: the size of a table in the pool of scripts.
pub(crate) const MAX_TABLE_ELEMENTS: u64 = 50_000;
/// The largest component that can be allowed, in bytes.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// The longest that a decision may be allowed to compute, in milliseconds.
pub(crate) const MAX_TIME_MS: u64 = 60_000;
/// A question is large that holds more than this, in bytes: its texts, 8 bytes for each number, case or truth value, 24
/// more for each text and list. Some 1,000 servers of the slot `state-mapping`. A limit that a policy reaches over a
/// large question does not count towards its suspension, since the caller decides how large a question is.
pub const LARGE_QUESTION_BYTES: usize = 128 << 10;
/// The most of what has no bound of its own in the engine.
const MAX_COUNT: u64 = u32::MAX as u64;

/// Each limit once: what it is, its type, its default, and the least and the most that it can be set to.
macro_rules! limits {
    (
        $( #[$about:meta] )*
        pub struct $limits:ident {
            $( $( #[$what:meta] )* $name:ident: $type:ty = $default:expr, from $least:literal to $most:expr; )+
        }
    ) => {
        $( #[$about] )*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $limits {
            $( $( #[$what] )* pub $name: $type, )+
        }

        impl Default for $limits {
            fn default() -> $limits {
                $limits { $( $name: $default, )+ }
            }
        }

        impl $limits {
            const KEYS: &'static [&'static str] = &[$( stringify!($name), )+];

            /// Sets the limit of this name. `place` names the table in errors.
            fn set(&mut self, key: &str, value: &Value, place: &str) -> Result<(), String> {
                match key {
                    $( stringify!($name) => self.$name = number(key, value, place, $least, $most)?.into(), )+
                    _ => return Err(format!("{place}: {}", unknown_key(key, Self::KEYS))),
                }
                Ok(())
            }
        }
    };
}

limits! {
    /// What one policy may use. Each decision starts with all of it; nothing carries over.
    ///
    /// Two limits hold for the whole engine and can't be set per policy: the stack of a guest is 512 KiB, and at most
    /// 256 instances of small policies and 224 of scripts exist at once. The defaults here are those of a small policy;
    /// a script may have more ([`Limits::of_script`]).
    pub struct Limits {
        /// The size of the component's file. Default 4 MiB.
        component_bytes: u64 = 4 << 20, from 1 to MAX_COMPONENT_BYTES;
        /// Linear memory, in bytes; this also bounds the question, which is copied into it. Default 16 MiB.
        memory_bytes: u64 = 16 << 20, from 1 to MAX_MEMORY_BYTES;
        /// Elements of all tables together. Default 10,000.
        table_elements: u64 = 10_000, from 1 to MAX_TABLE_ELEMENTS;
        /// Time spent inside the guest, in milliseconds of its thread's processor time, to the next tick of 10 ms: a
        /// machine that is too busy to run the guest does not count against it, until twenty times as long has passed.
        /// Far above what a decision takes (microseconds). Default 500.
        time_ms: u64 = 500, from 1 to MAX_TIME_MS;
        /// Instructions, roughly: deterministic, unlike time. Absent: not counted. Policies with it run about 10 %
        /// slower and in an engine of their own. `configure` is bounded by its time alone. Default absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        fuel: Option<u64> = None, from 1 to u64::MAX;
        /// The size of an answer after it left the guest, and of the arguments of one host call while it is made, in
        /// bytes. Default 4 MiB.
        answer_bytes: u64 = 4 << 20, from 1 to MAX_COUNT;
        /// Live component resource handles. Default 64.
        handles: u64 = 64, from 0 to MAX_COUNT;
        /// Calls of granted capabilities. Default 16.
        host_calls: u64 = 16, from 0 to MAX_COUNT;
        /// Arguments and answers of all host calls together, as JSON, in bytes: what a record keeps of them. Of a call
        /// that is refused it keeps an excerpt of a kilobyte at most. Default 256 KiB.
        host_call_bytes: u64 = 256 << 10, from 1 to MAX_COUNT;
        /// Time spent in all host calls together, in milliseconds; and how long a decision waits for room where too
        /// many wait for their calls already. Default 5,000.
        host_call_time_ms: u64 = 5_000, from 1 to MAX_TIME_MS;
        /// Lines for the log. More are counted and dropped. Default 32.
        log_lines: u64 = 32, from 0 to MAX_COUNT;
        /// Bytes of all log lines together. A line beyond is cut. Default 4 KiB.
        log_bytes: u64 = 4 << 10, from 1 to MAX_COUNT;
        /// Time for `configure`, in milliseconds. Default 2,000.
        configure_time_ms: u64 = 2_000, from 1 to MAX_TIME_MS;
    }
}

/// A limit as somebody wrote it.
fn number(key: &str, value: &Value, place: &str, least: u64, most: u64) -> Result<u64, String> {
    match value.as_u64() {
        Some(number) if number > most => {
            Err(format!("{place}.{key}: {number} is more than this host can allow, which is {most}"))
        }
        Some(number) if number >= least => Ok(number),
        _ => Err(format!("{place}.{key}: expected a whole number from {least}, found {}", brief(value))),
    }
}

impl Limits {
    /// The defaults for a [script](Class::Script), which brings an interpreter along: 32 MiB of file, 64 MiB of memory,
    /// 50,000 table elements; the rest is as for every policy.
    #[must_use]
    pub fn of_script() -> Limits {
        Limits {
            component_bytes: 32 << 20,
            memory_bytes: MAX_MEMORY_BYTES,
            table_elements: MAX_TABLE_ELEMENTS,
            ..Limits::default()
        }
    }

    /// These limits with the given keys replaced. `place` names the table in errors.
    pub(crate) fn with(&self, overrides: &Map<String, Value>, place: &str) -> Result<Limits, Vec<String>> {
        let mut limits = self.clone();
        let wrong: Vec<String> =
            overrides.iter().filter_map(|(key, value)| limits.set(key, value, place).err()).collect();
        if wrong.is_empty() { Ok(limits) } else { Err(wrong) }
    }
}

/// The limits of policies whose link has none of its own, by their class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLimits {
    /// For [`Class::Small`].
    pub small: Limits,
    /// For [`Class::Script`].
    pub script: Limits,
}

impl Default for ClassLimits {
    fn default() -> ClassLimits {
        ClassLimits { small: Limits::default(), script: Limits::of_script() }
    }
}

impl ClassLimits {
    /// Those of a class.
    #[must_use]
    pub fn of(&self, class: Class) -> &Limits {
        match class {
            Class::Small => &self.small,
            Class::Script => &self.script,
        }
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
        let error = Limits::default()
            .with(&overrides(r#"{"memory_byte": 7}"#), "policies.retry.limits")
            .unwrap_err()
            .join("; ");
        assert_eq!(error, "policies.retry.limits: unknown key `memory_byte`; did you mean `memory_bytes`?");
    }

    #[test]
    fn a_limit_beyond_what_the_host_has_is_refused() {
        for json in [r#"{"memory_bytes": 1000000000}"#, r#"{"time_ms": 0}"#, r#"{"fuel": -1}"#, r#"{"time_ms": "1s"}"#]
        {
            let error = Limits::default().with(&overrides(json), "limits").unwrap_err().join("; ");
            assert!(error.starts_with("limits."), "{error}");
        }
    }
}
