//! How policies are doing in the hosts that run.

use serde::Serialize;
use windlass_policy::{HostStatus, LinkStatus, RunningHost, running_hosts};

use crate::Inspector;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::text::{age, bold, instant, printable};
use crate::words::{asked_words, state_words};

/// The document of all hosts.
#[derive(Serialize)]
struct Statuses {
    /// The oldest first.
    hosts: Vec<OneStatus>,
}

#[derive(Serialize)]
struct OneStatus {
    process: u32,
    program: String,
    started_at: u64,
    lost_records: u64,
    dropped_records: u64,
    policies: Vec<LinkStatus>,
}

impl From<RunningHost> for OneStatus {
    fn from(host: RunningHost) -> Self {
        let HostStatus { links, lost_records, dropped_records } = host.status;
        OneStatus {
            process: host.process,
            program: host.program,
            started_at: host.started_at_ms,
            lost_records,
            dropped_records,
            policies: links,
        }
    }
}

/// What running hosts say of themselves. Starts none.
impl Inspector<'_> {
    /// Shows how policies are doing in the hosts that run on this state directory.
    ///
    /// # Errors
    /// What they keep there cannot be read.
    pub fn policies(&self) -> Result<(), Failure> {
        let hosts = running_hosts(self.state.handle())
            .map_err(|error| Failure::usage("the status of running hosts cannot be read").because(error.to_string()))?;
        let statuses = Statuses { hosts: hosts.into_iter().map(OneStatus::from).collect() };
        let wide = self.output.is_wide();
        let hosts = Listing::new(&statuses.hosts, "no host runs on this state directory", |host: &OneStatus| {
            host.process.to_string()
        });
        self.output.listing_in(&statuses, &hosts, |nothing| match statuses.hosts.as_slice() {
            [] => nothing,
            hosts => hosts.iter().map(|host| status_words(host, wide)).collect::<Vec<_>>().join("\n"),
        });
        Ok(())
    }
}

fn status_words(host: &OneStatus, wide: bool) -> String {
    let program = printable(&host.program);
    let mut text = format!("{} (process {}, since {})\n", bold(&program), host.process, instant(host.started_at));
    if host.lost_records > 0 {
        text.push_str(&format!("{} records of decisions were never written\n", host.lost_records));
    }
    let policies = Listing::new(&host.policies, "no policies", |link: &LinkStatus| link.policy.name.to_string())
        .column("slot", |link| link.slot.to_string())
        .column("asked", asked_words)
        .column("policy", |link| link.policy.name.to_string())
        .column("version", |link| link.policy.version.to_string())
        .spare(2)
        .shortened("digest", |link| link.policy.digest().short(), |link| link.policy.digest().to_string())
        .spare(3)
        .wide("settings", |link| link.policy.settings.to_string())
        .wide("source", |link| link.source.clone())
        .column("in place", |link| age(link.loaded_at_ms))
        .spare(1)
        .column("is", |link| state_words(link).0)
        .column("why", |link| state_words(link).1);
    text.push_str(&policies.table(wide));
    text
}
