//! How policies are doing in the hosts that run.

use serde::Serialize;
use windlass_lifecycle::PolicyHost;
use windlass_policy::{HostStatus, LinkStatus, running_hosts};

use crate::Inspector;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::text::{age, ago, bold, instant, printable};
use crate::words::{asked_words, state_words};

/// The document of all hosts.
#[derive(Serialize)]
struct Statuses {
    /// The oldest of a machine first.
    hosts: Vec<OneStatus>,
}

#[derive(Serialize)]
struct OneStatus {
    /// The name of its machine, where those of several are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// When it said so, where it said it to other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    said_at: Option<u64>,
    process: u32,
    program: String,
    started_at: u64,
    lost_records: u64,
    dropped_records: u64,
    policies: Vec<LinkStatus>,
}

impl From<PolicyHost> for OneStatus {
    fn from(PolicyHost { machine, said_at, running }: PolicyHost) -> Self {
        let HostStatus { links, lost_records, dropped_records } = running.status;
        OneStatus {
            host: machine,
            said_at,
            process: running.process,
            program: running.program,
            started_at: running.started_at_ms,
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
        let hosts = running_hosts(self.state.handle()).map_err(|error| unreadable(&error))?;
        self.show_hosts(hosts.into_iter().map(PolicyHost::from), "no host runs on this state directory");
        Ok(())
    }

    /// The same for the hosts of all machines that share the state, by machine. Where the state is not shared, they are
    /// those of this directory, which is said.
    ///
    /// # Errors
    /// As [`Inspector::policies`], and where the database cannot be read.
    pub fn policies_of_all(&self) -> Result<(), Failure> {
        let nothing = match self.state.shared_log() {
            Some(_) => "no host that shares the state runs",
            None => {
                self.output.say("note: the state is not shared: these are the hosts of this state directory");
                "no host runs on this state directory"
            }
        };
        self.show_hosts(self.state.policy_hosts().map_err(|error| unreadable(&error))?, nothing);
        Ok(())
    }

    fn show_hosts(&self, hosts: impl IntoIterator<Item = PolicyHost>, nothing: &str) {
        let statuses = Statuses { hosts: hosts.into_iter().map(OneStatus::from).collect() };
        let wide = self.output.is_wide();
        let hosts = Listing::new(&statuses.hosts, nothing, |host: &OneStatus| host.process.to_string());
        self.output.listing_in(&statuses, &hosts, |nothing| match statuses.hosts.as_slice() {
            [] => nothing,
            hosts => hosts.iter().map(|host| status_words(host, wide)).collect::<Vec<_>>().join("\n"),
        });
    }
}

fn unreadable(error: &dyn std::error::Error) -> Failure {
    Failure::usage("the status of running hosts cannot be read").because(error.to_string())
}

fn status_words(host: &OneStatus, wide: bool) -> String {
    let program = printable(&host.program);
    let program = match &host.host {
        Some(machine) => format!("{}: {program}", printable(machine)),
        None => program,
    };
    let said = host.said_at.map(|at| format!("; said {}", ago(at))).unwrap_or_default();
    let (process, since) = (host.process, instant(host.started_at));
    let mut text = format!("{} (process {process}, since {since}{said})\n", bold(&program));
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
