//! What outcomes are measured by.

use serde::{Deserialize, Deserializer, Serialize};
use windlass_fleeting::Counted;

use crate::outcome::{ArmKind, ClusterOutcome, Outcome};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Hours,
    Euros,
    /// From 0 to 1.
    Share,
    Count,
}

/// A figure of every outcome.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in laws and documents.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    pub unit: Unit,
    /// Whether the table for people has it.
    pub is_shown: bool,
    /// Which arms have it. None: all.
    pub only: Option<ArmKind>,
    of: fn(&Outcome) -> f64,
}

const fn figure(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    is_shown: bool,
    of: fn(&Outcome) -> f64,
    about: &'static str,
) -> Figure {
    Figure { name, title, about, unit, is_shown, only: None, of }
}

/// Of groups, which have jobs.
const fn of_groups(figure: Figure) -> Figure {
    Figure { only: Some(ArmKind::Group), ..figure }
}

/// Of clusters, which have operators.
const fn of_clusters(figure: Figure) -> Figure {
    Figure { only: Some(ArmKind::Cluster), ..figure }
}

/// All figures.
pub const FIGURES: [Figure; 30] = [
    of_groups(figure(
        "wait_p50",
        "waiting p50",
        Unit::Seconds,
        true,
        |it| seconds(it.totals.waited.p50_ms),
        "Half of the jobs waited no longer.",
    )),
    of_groups(figure(
        "wait_p95",
        "waiting p95",
        Unit::Seconds,
        true,
        |it| seconds(it.totals.waited.p95_ms),
        "95 % of the jobs waited no longer.",
    )),
    of_groups(figure(
        "wait_worst",
        "waiting worst",
        Unit::Seconds,
        true,
        |it| seconds(it.totals.waited.worst_ms),
        "No job waited longer.",
    )),
    of_groups(figure("jobs", "jobs", Unit::Count, true, |it| it.totals.jobs as f64, "Jobs that came.")),
    of_groups(figure(
        "finished",
        "finished",
        Unit::Count,
        false,
        |it| it.totals.finished as f64,
        "Jobs that finished.",
    )),
    of_groups(figure(
        "timed_out",
        "timed out",
        Unit::Count,
        true,
        |it| it.totals.timed_out as f64,
        "Jobs that found no instance within `instance_acquire_timeout`.",
    )),
    of_groups(figure("lost", "lost", Unit::Count, true, |it| it.totals.lost as f64, "Jobs whose instance went away.")),
    of_groups(figure(
        "unfinished",
        "unfinished",
        Unit::Count,
        false,
        |it| it.totals.unfinished as f64,
        "Jobs that had not finished a day after the scenario.",
    )),
    of_clusters(figure(
        "ready_create",
        "creation ready",
        Unit::Seconds,
        true,
        |it| of(it, |cluster| cluster.changes.first().map_or(0.0, |creation| seconds(creation.waited_ms))),
        "How long the creation took until every node served. If they never did: until the end.",
    )),
    of_clusters(figure(
        "ready_p50",
        "ready p50",
        Unit::Seconds,
        true,
        |it| of(it, |cluster| seconds(cluster.ready.p50_ms)),
        "Half of the creation and the scalings took no longer until every wanted node served.",
    )),
    of_clusters(figure(
        "ready_p95",
        "ready p95",
        Unit::Seconds,
        true,
        |it| of(it, |cluster| seconds(cluster.ready.p95_ms)),
        "95 % of the creation and the scalings took no longer.",
    )),
    of_clusters(figure(
        "ready_worst",
        "ready worst",
        Unit::Seconds,
        true,
        |it| of(it, |cluster| seconds(cluster.ready.worst_ms)),
        "Neither the creation nor a scaling took longer.",
    )),
    of_clusters(figure(
        "not_ready",
        "never ready",
        Unit::Count,
        true,
        |it| of(it, |cluster| cluster.changes.iter().filter(|change| !change.is_ready).count() as f64),
        "The creation and scalings after which the wanted nodes never served.",
    )),
    of_clusters(figure(
        "operations",
        "operations",
        Unit::Count,
        false,
        |it| of(it, |cluster| cluster.operations as f64),
        "Operations on the cluster, with repairs and its termination.",
    )),
    of_clusters(figure(
        "failed_operations",
        "failed operations",
        Unit::Count,
        true,
        |it| of(it, |cluster| sum(&cluster.failed_operations)),
        "Operations on the cluster that failed.",
    )),
    of_clusters(figure(
        "repairs",
        "repairs",
        Unit::Count,
        true,
        |it| of(it, |cluster| cluster.repairs as f64),
        "Operations that the operator began because nodes did not serve.",
    )),
    of_clusters(figure(
        "replaced",
        "replaced",
        Unit::Count,
        true,
        |it| of(it, |cluster| cluster.replaced as f64),
        "Servers that were created in the place of others.",
    )),
    figure("cost", "cost", Unit::Euros, true, |it| it.totals.cost, "Euros, for servers alone."),
    figure(
        "server_hours",
        "server hours",
        Unit::Hours,
        true,
        |it| it.totals.server_hours,
        "Server hours, from the creation on. Hosts of a pool count while jobs come.",
    ),
    of_groups(figure(
        "idle_share",
        "idle",
        Unit::Share,
        true,
        |it| it.totals.idle_share,
        "The share of server hours without a running job.",
    )),
    figure(
        "most_servers",
        "most servers",
        Unit::Count,
        false,
        most_servers,
        "The most servers that there were at the same time.",
    ),
    figure(
        "creations",
        "created",
        Unit::Count,
        true,
        |it| it.totals.creations as f64,
        "Servers created. For runners, failed creations count, too. For Macs: claims.",
    ),
    figure(
        "failures",
        "failed creations",
        Unit::Count,
        true,
        |it| sum(&it.failures),
        "Creations that failed, or that were called off.",
    ),
    figure(
        "out_of_stock",
        "out of stock",
        Unit::Count,
        false,
        |it| counted(&it.failures, "out-of-stock"),
        "Creations that failed because nothing was left.",
    ),
    figure(
        "removals",
        "removed",
        Unit::Count,
        false,
        |it| sum(&it.removals),
        "Servers that were removed. Of Macs: releases.",
    ),
    of_groups(figure(
        "reaps",
        "reaped",
        Unit::Count,
        true,
        |it| counted(&it.removals, "policy"),
        "Servers that a state-mapping policy removed.",
    )),
    figure(
        "policy_failures",
        "policy failures",
        Unit::Count,
        true,
        |it| it.totals.policy_failures as f64,
        "How often a policy failed, so that the next one decided.",
    ),
    figure(
        "brakes",
        "brakes",
        Unit::Count,
        true,
        |it| it.totals.brakes as f64,
        "How often the brake refused what a policy answered.",
    ),
    figure("api_calls", "API calls", Unit::Count, true, |it| it.totals.api_calls as f64, "Calls of Scaleway's API."),
    figure(
        "left",
        "left",
        Unit::Count,
        true,
        |it| it.left.len() as f64,
        "Resources that still existed at the end. Of Macs: hosts that were not back in their pool.",
    ),
];

impl Figure {
    /// The figures that such arms have.
    pub fn all_of(kind: ArmKind) -> impl Iterator<Item = &'static Figure> + Clone {
        FIGURES.iter().filter(move |figure| figure.is_of(kind))
    }

    /// Whether such arms have it.
    #[must_use]
    pub fn is_of(&self, kind: ArmKind) -> bool {
        self.only.is_none_or(|only| only == kind)
    }

    /// The figure with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Figure> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Its value in an outcome.
    #[must_use]
    pub fn of(&self, outcome: &Outcome) -> f64 {
        (self.of)(outcome)
    }

    /// A value of it, for people.
    #[must_use]
    pub fn words(&self, value: f64) -> String {
        match self.unit {
            // A tenth of a second is within what a rehearsal can tell.
            Unit::Seconds => format!("{value:.1} s"),
            Unit::Hours => format!("{value:.1} h"),
            Unit::Euros => format!("EUR {value:.2}"),
            Unit::Share => format!("{:.0} %", value * 100.0),
            Unit::Count if value.fract().abs() < f64::EPSILON => format!("{value:.0}"),
            Unit::Count => format!("{value:.1}"),
        }
    }
}

/// Of a cluster's operations.
fn of(outcome: &Outcome, figure: fn(&ClusterOutcome) -> f64) -> f64 {
    outcome.cluster.as_ref().map_or(0.0, figure)
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

fn most_servers(outcome: &Outcome) -> f64 {
    outcome.hours.iter().chain([&outcome.after]).map(|hour| hour.instances).max().unwrap_or_default() as f64
}

fn sum(counts: &[Counted]) -> f64 {
    counts.iter().map(|counted| counted.count).sum::<usize>() as f64
}

fn counted(counts: &[Counted], name: &str) -> f64 {
    counts.iter().find(|counted| counted.name == name).map_or(0, |counted| counted.count) as f64
}

/// Not borrowed from what is read, as serde would take it to be without this name.
pub(crate) type Word = &'static str;

/// The name of a figure in a document that was saved.
pub(crate) fn figure_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let read = String::deserialize(deserializer)?;
    let known = Figure::named(&read);
    known.map(|figure| figure.name).ok_or_else(|| serde::de::Error::custom(format!("there is no figure {read:?}")))
}

/// A figure over all seeds of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Which.
    #[serde(deserialize_with = "figure_name")]
    pub figure: Word,
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    pub(crate) fn of(figure: &Figure, outcomes: &[Outcome]) -> Self {
        let values: Vec<f64> = outcomes.iter().map(|outcome| figure.of(outcome)).collect();
        Self {
            figure: figure.name,
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            least: values.iter().copied().reduce(f64::min).unwrap_or_default(),
            most: values.iter().copied().reduce(f64::max).unwrap_or_default(),
        }
    }
}
