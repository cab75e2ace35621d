//! The GitLab Runner plugin. Knows fleeting's wire protocol and what a runner expects; must not know how a server is
//! created or undone (that is `windlass-lifecycle`) nor judge anything itself (that is a policy).
//!
//! [`protocol`] is the wire alone, behind a trait; [`ScalewayGroup`] is the group that the binary serves over it, made
//! from a [`Configuration`] when the runner calls Init.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod bootstrap;
mod configuration;
mod connect;
mod group;
mod observe;
pub mod protocol;
pub mod version;

pub use bootstrap::{BootstrapError, bootstrap};
pub use configuration::{
    AppleSiliconConfiguration, Common, Configuration, ConfigurationErrors, GroupConfiguration, MetricsAddress,
    OperatingSystem, ProcessEnvironment, ZonalIds,
};
pub use connect::KeyError;
pub use group::{
    AdoptError, Arm, CheckedGroup, ClusterConduct, Counted, Course, Demand, Dependencies, Event, HookConduct, Hour,
    Incident, IncidentKind, Leftover, Limits, Offer, Outcome, Pattern, Pool, PricedPlace, Provisioner, RehearsalError,
    Rehearser, RunnerFileError, Scale, ScalewayGroup, Scenario, ScenarioError, SettingError, SettingKey,
    SimulateCommand, SimulateOptions, Simulated, StartError, Stock, Time, Totals, WaitTimes, adopt, check, simulate,
};
pub use observe::{MetricsError, names, start_logging};
