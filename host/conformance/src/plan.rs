//! What a run would do, before it does anything.

use std::time::Duration;

use serde::Serialize;
use windlass_lifecycle::{Control, OwnerName};
use windlass_scaleway::{Client, Zone};

use crate::api::Api;
use crate::catalogue::{Error, ServerChoice, catalogue};
use crate::fixture::Fixture;
use crate::probe::Probe;

/// How long the catalogue is read at most.
const READING: Duration = Duration::from_secs(120);

/// What bounds a run.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The questions together.
    pub asking: Duration,
    /// The removal of everything.
    pub removing: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { asking: Duration::from_secs(20 * 60), removing: Duration::from_secs(10 * 60) }
    }
}

/// What a run makes, and what that costs at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Servers; one of them is started, for some minutes.
    pub servers: usize,
    /// Flexible IPv4 addresses, for some minutes.
    pub addresses: usize,
    /// Local volumes of 1 GB, for some minutes.
    pub local_volumes: usize,
    /// Block volumes of 10 GB each, root volumes included, for some minutes.
    pub block_volumes: usize,
    /// The price of all servers for one hour, in euro, by Scaleway's catalogue. What addresses and volumes cost does
    /// not stand there.
    pub servers_for_an_hour: f64,
}

/// A run that can begin.
#[derive(Debug)]
pub struct Plan {
    pub(crate) client: Client,
    pub(crate) bounds: Bounds,
    pub(crate) servers: Vec<ServerChoice>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) owner: OwnerName,
    pub(crate) zone: Zone,
}

impl Plan {
    /// Plans a run of these probes: reads the zone's catalogue, changes nothing.
    ///
    /// # Errors
    /// When the catalogue cannot be read, or the run is called off.
    pub async fn make(
        client: Client,
        zone: Zone,
        probes: Vec<Probe>,
        bounds: Bounds,
        control: &Control,
    ) -> Result<Self, Error> {
        let api = Api::asking(client.clone(), zone.clone(), control.clone(), READING);
        let with_server = [Fixture::Server, Fixture::RunningServer, Fixture::SpareServer];
        let wants_server = probes.iter().any(|probe| probe.needs.iter().any(|need| with_server.contains(need)));
        let servers = if wants_server { catalogue(&api, &zone).await? } else { Vec::new() };
        Ok(Self { client, bounds, servers, probes, owner: run_owner(), zone })
    }

    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Who owns what the run makes: its own owner, whose tag everything carries.
    #[must_use]
    pub fn owner(&self) -> &OwnerName {
        &self.owner
    }

    /// The probes that will be asked, in order.
    #[must_use]
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The cheapest server type that there is, when one is needed and there is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerChoice> {
        self.servers.first()
    }

    /// What it makes and costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        cost(&self.probes, self.servers.first().map_or(0.0, |choice| choice.hourly_price))
    }
}

/// A new owner: nobody else's resources carry its tag.
fn run_owner() -> OwnerName {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("conformance-{}", &unique[..20]).parse().expect("lower-case letters, digits and a dash, 32 bytes")
}

fn cost(probes: &[Probe], hourly_price: f64) -> Cost {
    let needs = || probes.iter().flat_map(|probe| probe.needs);
    let shared = |fixtures: &[Fixture]| usize::from(needs().any(|need| fixtures.contains(need)));
    let spare = |fixture: Fixture| needs().filter(|need| **need == fixture).count();
    let servers = shared(&[Fixture::Server, Fixture::RunningServer]) + spare(Fixture::SpareServer);
    Cost {
        servers,
        addresses: shared(&[Fixture::Address]) + spare(Fixture::SpareAddress),
        local_volumes: shared(&[Fixture::LocalVolume]),
        block_volumes: shared(&[Fixture::BlockVolume]) + servers,
        servers_for_an_hour: hourly_price * servers as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_probes_share_is_counted_once_and_a_spare_for_each() {
        let all = cost(Probe::all(), 0.01);
        assert_eq!((all.servers, all.addresses, all.local_volumes, all.block_volumes), (3, 4, 1, 4));
        assert!((all.servers_for_an_hour - 0.03).abs() < 1e-9);
        let none = cost(&[], 0.01);
        assert_eq!((none.servers, none.addresses, none.block_volumes), (0, 0, 0));
    }

    #[test]
    fn each_run_has_an_owner_of_its_own() {
        assert_ne!(run_owner(), run_owner());
    }
}
