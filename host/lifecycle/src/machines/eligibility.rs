//! Which hosts can be claimed, in which order, and why the others cannot. Pure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::{Server, ServerStatus};

use super::names::{PoolPrefix, is_between};

/// A host that a crash left between the phases of its claim is taken up again by anybody after this. One's own is taken
/// up at once: the journal knows it.
pub(crate) const ORPHANED_AFTER: Duration = Duration::from_secs(15 * 60);

/// A pool, and what one wants of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    pub zone: Zone,
    /// What the names of its hosts begin with.
    pub prefix: PoolPrefix,
    /// Scaleway's type: `M4-S`. Must be equal.
    pub machine_type: String,
    /// The operating system: its name (`macos-sequoia-15.6`) or its family (`Sequoia`), upper and lower case alike.
    /// Absent: any. A family outlives the images that Scaleway retires; a name that is retired is never found again.
    pub operating_system: Option<String>,
}

/// Why no host could be claimed: how many there were and what stood against them. Each host is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ineligible {
    /// Hosts with the pool's prefix, or between the phases of a claim.
    pub in_pool: usize,
    /// Not delivered yet, or not `ready`: being reinstalled, mostly.
    pub busy: usize,
    /// Hosts of another type.
    pub other_type: usize,
    /// Hosts with another operating system.
    pub other_operating_system: usize,
    /// Scaleway will delete them.
    pub deletion_scheduled: usize,
    /// Being claimed by somebody else, or on its way back into a pool.
    pub being_claimed: usize,
    /// Eligible, and gone to somebody else before our claim was in place.
    pub lost: usize,
}

impl fmt::Display for Ineligible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in the pool", self.in_pool)?;
        for (count, what) in [
            (self.busy, "not ready"),
            (self.other_type, "of another type"),
            (self.other_operating_system, "with another operating system"),
            (self.deletion_scheduled, "about to be deleted"),
            (self.being_claimed, "being claimed"),
            (self.lost, "taken by others meanwhile"),
        ] {
            if count > 0 {
                write!(formatter, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Whether a host can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Eligible,
    /// Not of this pool at all.
    Elsewhere,
    BeingClaimed,
    DeletionScheduled,
    OtherType,
    OtherOperatingSystem,
    Busy,
}

impl Pool {
    /// How a host stands to this pool. `orphan` says of a host between pool and claim whether anybody may take it.
    pub(crate) fn fit(&self, host: &Server, orphan: impl FnOnce(&Server) -> bool) -> Fit {
        let pending = is_between(&host.name);
        if !pending && !self.prefix.holds(&host.name) {
            Fit::Elsewhere
        } else if host.server_type != self.machine_type {
            // Its name tells no pool: of another type, it is no business of this one.
            if pending { Fit::Elsewhere } else { Fit::OtherType }
        } else if host.deletion_scheduled {
            Fit::DeletionScheduled
        } else if !self.wants_system_of(host) {
            Fit::OtherOperatingSystem
        } else if !host.delivered || host.status != ServerStatus::Ready {
            Fit::Busy
        } else if pending && !orphan(host) {
            Fit::BeingClaimed
        } else {
            Fit::Eligible
        }
    }

    fn wants_system_of(&self, host: &Server) -> bool {
        let Some(wanted) = &self.operating_system else { return true };
        host.os.as_ref().is_some_and(|os| {
            let is = |text: &str| !text.is_empty() && text.eq_ignore_ascii_case(wanted);
            is(&os.name) || is(&os.family)
        })
    }

    /// The eligible ones in their order (left-overs of dead claims first: nobody else looks for them), and the count of
    /// the others.
    pub(crate) fn choose<'h>(
        &self,
        hosts: &'h [Server],
        orphan: impl Fn(&Server) -> bool,
    ) -> (Vec<&'h Server>, Ineligible) {
        let mut counts = Ineligible::default();
        let mut eligible = Vec::new();
        for host in hosts {
            let fit = self.fit(host, &orphan);
            counts.in_pool += usize::from(fit != Fit::Elsewhere);
            match fit {
                Fit::Eligible => eligible.push(host),
                Fit::Elsewhere => {}
                Fit::BeingClaimed => counts.being_claimed += 1,
                Fit::DeletionScheduled => counts.deletion_scheduled += 1,
                Fit::OtherType => counts.other_type += 1,
                Fit::OtherOperatingSystem => counts.other_operating_system += 1,
                Fit::Busy => counts.busy += 1,
            }
        }
        eligible.sort_by_key(|host| !is_between(&host.name));
        (eligible, counts)
    }
}

/// Whether the host has not been changed for so long that whoever was claiming it is gone. One whose date cannot be
/// read is not taken.
pub(crate) fn is_stale(host: &Server, now: u64) -> bool {
    host.updated_at
        .parse::<jiff::Timestamp>()
        .ok()
        .and_then(|at| u64::try_from(at.as_millisecond()).ok())
        .is_some_and(|at| now.saturating_sub(at) >= u64::try_from(ORPHANED_AFTER.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use windlass_scaleway::types::apple_silicon::OperatingSystem;

    use super::*;

    fn pool(system: Option<&str>) -> Pool {
        Pool {
            zone: "fr-par-1".parse().unwrap(),
            prefix: "pool-".parse().unwrap(),
            machine_type: "M4-S".into(),
            operating_system: system.map(str::to_owned),
        }
    }

    fn host(name: &str) -> Server {
        Server {
            id: format!("id-of-{name}"),
            name: name.into(),
            server_type: "M4-S".into(),
            status: ServerStatus::Ready,
            delivered: true,
            os: Some(OperatingSystem {
                name: "macos-sequoia-15.6".into(),
                family: "Sequoia".into(),
                ..OperatingSystem::default()
            }),
            ..Server::default()
        }
    }

    #[test]
    fn only_a_delivered_ready_host_of_the_pool_with_its_type_and_system_is_eligible() {
        let hosts = [
            host("claimed-by-somebody"),
            Server { delivered: false, ..host("pool-1") },
            Server { status: ServerStatus::Reinstalling, ..host("pool-2") },
            Server { server_type: "M2-M".into(), ..host("pool-3") },
            Server { os: None, ..host("pool-4") },
            Server { deletion_scheduled: true, ..host("pool-5") },
            host("windlass-claim-pending-x"),
            host("pool-6"),
            Server { server_type: "M2-M".into(), ..host("windlass-claim-pending-y") },
        ];
        let (eligible, counts) = pool(Some("sequoia")).choose(&hosts, |_| false);
        assert_eq!(eligible.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["pool-6"]);
        let expected = Ineligible {
            in_pool: 7,
            busy: 2,
            other_type: 1,
            other_operating_system: 1,
            deletion_scheduled: 1,
            being_claimed: 1,
            lost: 0,
        };
        assert_eq!(counts, expected);
        assert_eq!(
            counts.to_string(),
            "7 in the pool, 2 not ready, 1 of another type, 1 with another operating system, 1 about to be deleted, \
             1 being claimed"
        );
    }

    #[test]
    fn an_orphaned_claim_comes_first() {
        let hosts = [host("pool-1"), host("windlass-claim-pending-x")];
        let (eligible, _) = pool(None).choose(&hosts, |_| true);
        assert_eq!(eligible[0].name, "windlass-claim-pending-x");
        assert_eq!(eligible.len(), 2);
    }

    #[test]
    fn a_system_is_named_by_its_name_or_its_family() {
        for (wanted, fits) in [
            (None, true),
            (Some("macos-sequoia-15.6"), true),
            (Some("Sequoia"), true),
            (Some("SEQUOIA"), true),
            (Some("macos-sequoia-15"), false),
            (Some("Tahoe"), false),
            (Some(""), false),
        ] {
            let fit = pool(wanted).fit(&host("pool-1"), |_| false);
            assert_eq!(fit == Fit::Eligible, fits, "{wanted:?}");
        }
    }

    #[test]
    fn a_claim_is_stale_after_a_quarter_of_an_hour_and_never_without_a_date() {
        let at = |text: &str| Server { updated_at: text.into(), ..host("windlass-claim-pending-x") };
        let noon = 1_785_585_600_000; // 2026-08-01T12:00:00Z
        assert!(!is_stale(&at("2026-08-01T11:45:00.001Z"), noon));
        assert!(is_stale(&at("2026-08-01T11:45:00Z"), noon));
        assert!(!is_stale(&at("2026-08-01T12:10:00Z"), noon), "their clock runs ahead of ours");
        assert!(!is_stale(&at(""), noon));
    }
}
