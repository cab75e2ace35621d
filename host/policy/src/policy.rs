//! A policy that is loaded and ready to decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::{ComponentExportIndex, ComponentType, InstancePre, Lift};
use windlass_concurrency::Health;
use windlass_distribution::KeyId;

use crate::class::Class;
use crate::configuration::Link;
use crate::decision::PolicyIdentity;
use crate::engine::Ticker;
use crate::guest::Guest;
use crate::limits::Limits;
use crate::load::RuleExports;
use crate::policy_log::LineRoom;
use crate::shares::{SLOW, STAYS_SLOW_MS};
use crate::slot_name::OnFailure;
use crate::source::Source;

/// What a policy says about itself: `describe` of `windlass:policy/policy`.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case")]
pub struct Description {
    /// Lower-case letters, digits and dashes, at most 64 characters.
    pub name: String,
    /// The policy's own version.
    pub version: String,
    /// One sentence: what it decides differently.
    pub summary: String,
    /// A JSON Schema of its settings.
    #[component(name = "settings-schema")]
    pub settings_schema: String,
}

/// A policy of one slot: compiled, configured, checked and tried.
///
/// Holders share it, so that what an operation began with stays what it was when the configuration changes.
pub struct LoadedPolicy {
    pub(crate) identity: Arc<PolicyIdentity>,
    pub(crate) description: Description,
    pub(crate) link: Link,
    /// The trusted key that had signed it. Absent: nobody asked for one.
    pub(crate) signed_by: Option<KeyId>,
    pub(crate) limits: Limits,
    pub(crate) class: Class,
    pub(crate) instance_pre: InstancePre<Guest>,
    pub(crate) decide_export: ComponentExportIndex,
    /// Where it is made of rules.
    pub(crate) rules: Option<RuleExports>,
    /// Rules that can never answer, in words.
    pub(crate) remarks: Vec<String>,
    /// Why a rule could not be evaluated with the slot's example question.
    pub(crate) failed_example: Option<String>,
    /// Whether it can reach a capability, so that a decision may have to wait.
    pub(crate) may_wait: bool,
    pub(crate) health: Health,
    /// How often it decided something.
    pub(crate) decisions: AtomicU64,
    pub(crate) loaded: Instant,
    /// Until when it is slow, in milliseconds since it was loaded. 0: it never was.
    pub(crate) slow_until_ms: AtomicU64,
    /// For its lines in the host's log.
    pub(crate) line_room: LineRoom,
    /// What ends it when its time is over.
    pub(crate) _ticker: Arc<Ticker>,
}

impl LoadedPolicy {
    /// What identifies it.
    pub fn identity(&self) -> &PolicyIdentity {
        &self.identity
    }

    /// How often it decided something, since it was loaded.
    pub fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    /// Its failures in a row.
    pub fn failures_in_a_row(&self) -> u32 {
        self.health.failures_in_a_row()
    }

    /// Its last failure, which successes may have followed.
    pub fn last_failure(&self) -> Option<String> {
        self.health.last_failure()
    }

    /// Whether it is no longer asked, since it failed too often in a row.
    pub fn is_suspended(&self) -> bool {
        self.health.is_suspended()
    }

    /// What it says about itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.link.source
    }

    /// The settings that it was configured with.
    pub fn settings(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.link.settings
    }

    /// Which engine runs it.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How long it computed when it was asked.
    pub(crate) fn computed(&self, time: Duration) {
        if time >= SLOW {
            self.slow_until_ms.store(self.age_ms().saturating_add(STAYS_SLOW_MS), Ordering::Relaxed);
        }
    }

    /// Whether it computed long, lately.
    pub(crate) fn is_slow(&self) -> bool {
        match self.slow_until_ms.load(Ordering::Relaxed) {
            0 => false,
            until => self.age_ms() < until,
        }
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.loaded.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Rules that can never answer, each with line, name and remedy.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Why a rule could not be evaluated with the slot's example question. It may never be asked such a question.
    pub fn failed_example(&self) -> Option<&str> {
        self.failed_example.as_deref()
    }

    pub(crate) fn rules(&self) -> Option<&RuleExports> {
        self.rules.as_ref()
    }

    pub(crate) fn instance_pre(&self) -> &InstancePre<Guest> {
        &self.instance_pre
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.instance_pre.engine()
    }

    pub(crate) fn decide_export(&self) -> &ComponentExportIndex {
        &self.decide_export
    }

    pub(crate) fn configured_on_failure(&self) -> Option<OnFailure> {
        self.link.on_failure
    }
}

impl std::fmt::Debug for LoadedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPolicy").field("identity", &self.identity).field("source", &self.link.source).finish()
    }
}
