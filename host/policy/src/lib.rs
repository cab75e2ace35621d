//! Loads, checks, limits, calls, records and replaces policies. Knows wasm and the contract in `wit/policy`; must not
//! know Scaleway, a network, or what an answer is used for.
//!
//! A [`Host`] holds the policies of every slot. An operation takes a pin when it begins ([`Host::pin`]), asks it
//! ([`PinnedPolicies::decide`]) and stores what identifies it ([`PinnedPolicies::identities`]), so that it ends under
//! the same policies, also after a restart ([`Host::pinned`]). [`slots`] has what can be asked.
//!
//! ```no_run
//! use windlass_policy::slots::{Retry, retry};
//! use windlass_policy::{Error, Host, HostOptions, Policies};
//!
//! # async fn example(
//! #     state_dir: cap_std::fs::Dir, policies: Policies, question: retry::Question,
//! # ) -> Result<(), Error> {
//! let host = Host::new(HostOptions::new(state_dir))?;
//! host.configure(&policies)?; // read from TOML or JSON with serde
//! let _watch = host.watch()?; // changed files are swapped in from now on
//!
//! let pin = host.pin();
//! let decision = pin.decide::<Retry>(question).await;
//! match decision.answer.verdict {
//!     retry::Verdict::Wait(wait) => println!("again in {wait} ms, decided by {}", decision.decided_by),
//!     retry::Verdict::GiveUp | retry::Verdict::Defer => println!("given up: {:?}", decision.reason),
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod bindings {
    //! What is made of the contract in `wit/`.

    pub(crate) mod placement;
    pub(crate) mod provisioning;
    pub(crate) mod release;
    pub(crate) mod retry;
    pub(crate) mod rollback;
    pub(crate) mod state_mapping;
    pub(crate) mod types;
}
mod asker;
mod brake;
mod built_in;
mod cache;
mod call;
mod capability;
mod chain;
mod changes;
mod checked;
mod class;
mod compiler;
mod configuration;
mod decision;
mod decision_log;
mod digest;
mod direct;
mod duration;
mod engine;
mod error;
mod examine;
mod failure_kind;
mod gauges;
mod guest;
mod guest_time;
mod host;
mod host_calls;
mod host_status;
mod json_text;
mod kept;
mod limits;
mod load;
pub mod metric_names;
mod mistakes;
mod plain;
mod policy;
mod policy_log;
mod replay;
mod rules;
mod scoped;
mod settings_schema;
mod shadow;
mod shares;
mod slot_name;
pub mod slots;
mod source;
mod state_key;
mod status;
mod text;
mod trial;
mod values;

// What a floor above offers to policies.
pub use asker::Asker;
pub use capability::{CallContext, Capability, CapabilityError, GrantedCapability, wit_result};
// Which policies decide.
pub use built_in::component as built_in_component;
pub use configuration::{Link, Mode, Policies};
pub use rules::{RulesFile, plain_cel};
pub use scoped::{ScopedPolicies, ScopedPolicy};
pub use source::Source;
// Compiling them elsewhere.
pub use changes::{PolicyChange, PolicyEventKind, policy_changes};
pub use compiler::{CompileError, Compiler, compile_for_host};
pub use error::{Error, Refusal};
pub use examine::Examination;
pub use host::{Host, HostOptions, Reload, Watch};
pub use host_status::{HostStatus, LinkStatus};
pub use limits::{ClassLimits, LARGE_QUESTION_BYTES, Limits};
pub use policy::{Description, LoadedPolicy};
pub use policy_log::LineRoom;
pub use status::{RunningHost, running_hosts};
// Deciding.
pub use brake::Brake;
pub use chain::PinnedPolicies;
pub use class::Class;
pub use decision::{DecidedBy, Decision, DecisionId, Fallback, PolicyIdentity, PolicyOrigin};
pub use digest::Digest;
pub use engine::{DECISION_STACK_BYTES, address_space_limit};
pub use failure_kind::FailureKind;
// What was decided.
pub use decision_log::{
    Activity, Agreement, AppliedRule, DecisionFilter, DecisionList, DecisionLogOptions, DecisionPage, DecisionReader,
    DecisionRecord, DecisionSummary, LinkRecord, Outcome, PolicyActivity, Redaction, ShadowAgreement, ShadowDifference,
    ShadowFailure, ShadowFilter, ShadowRecord, ShadowReport, Spread, UnreadRecord, UnreadRecords,
};
pub use guest::{LogLevel, LogLine};
pub use host_calls::HostCall;
pub use json_text::JsonText;
pub use replay::{Replay, ReplayAgainst};
pub use shadow::ShadowOptions;
// A policy by itself.
pub use direct::Asked;
pub use trial::Trial;
// Words in an error, for all floors above.
pub use duration::parse_duration;
pub use mistakes::{Mistake, Place, Step, mistakes_of, read_document, read_toml};
pub use plain::{plain_serde, plain_toml, plain_toml_at, plain_yaml};
pub use text::{counted, cut, is_unprintable, kind_word};
pub use windlass_contract::nearest;
