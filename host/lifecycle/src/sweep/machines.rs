//! The list of our servers, with what the journal knows of them.

use serde::Serialize;
use windlass_policy::slots::state_mapping;
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::journal::{Facts, Journal, OperationKind, OperationState, Removals};
use crate::lifecycle::Lifecycle;
use crate::release::instant;
use crate::server_state::server_state;
use crate::{Error, read_or_absent, tags};

/// A server of ours, with what the journal knows of it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The server, as Scaleway shows it now. Its tags may hold public keys.
    #[serde(skip)]
    pub server: Server,
    /// Scaleway's id.
    pub id: String,
    pub name: String,
    /// Its group, by its tag.
    pub group: Option<String>,
    pub zone: String,
    /// Scaleway's type of it.
    pub server_type: String,
    /// Scaleway's state.
    pub state: String,
    /// Scaleway's detail of the state.
    pub state_detail: String,
    /// Its public addresses.
    pub addresses: Vec<String>,
    /// The operation that created it, by its tag. None for what carries the tag of an operation that made another one,
    /// as the journal tells: a copy of the tags, or a double.
    pub operation: Option<OperationId>,
    /// The operation whose tags it carries although that made another server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<OperationId>,
    /// Where that operation stands; absent when this journal does not know it.
    pub operation_state: Option<OperationState>,
    /// What is being done to it now.
    pub in_flight: Option<OperationKind>,
    /// The host on which it was made, by its tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Kept on purpose, by its mark or by the journal.
    pub kept: bool,
    /// Left alone since somebody abandoned the operation that made it or was to remove it.
    pub abandoned: bool,
    /// When Scaleway created it, RFC 3339.
    pub created_at: String,
}

impl Machine {
    fn of(zone: &Zone, server: Server, removals: &Removals, mut facts: Option<&mut Facts<'_>>) -> Result<Self, Error> {
        let (mut operation, mut copy_of) = (tags::operation_of(&server.tags), None);
        let mut standing = None;
        if let (Some(facts), Some(id)) = (facts.as_deref_mut(), &operation) {
            let creation = facts.creation(id)?;
            if creation.made.is_empty() || creation.made.contains(&server.id) {
                standing = creation.standing;
            } else {
                copy_of = operation.take();
            }
        }
        let is_kept = match facts {
            Some(facts) => facts.is_kept(&server.id)?,
            None => false,
        };
        let in_flight = if removals.removes(&server.id, operation.as_ref()) {
            Some(OperationKind::CleanupServer)
        } else if standing.is_some_and(|standing| standing.state == OperationState::Open) {
            Some(OperationKind::CreateServer)
        } else {
            None
        };
        Ok(Self {
            id: server.id.clone(),
            name: server.name.clone(),
            group: tags::group_of(&server.tags).map(str::to_owned),
            zone: zone.to_string(),
            server_type: server.commercial_type.clone(),
            state: server.state.as_str().to_owned(),
            state_detail: server.state_detail.clone(),
            addresses: server.public_ips.iter().map(|ip| ip.address.clone()).collect(),
            abandoned: standing.is_some_and(|standing| standing.is_left_alone) || removals.has_abandoned(&server.id),
            operation_state: standing.map(|standing| standing.state),
            operation,
            copy_of,
            in_flight,
            host: tags::host_of(&server.tags).map(str::to_owned),
            kept: tags::is_kept(&server.tags) || is_kept,
            created_at: server.creation_date.clone(),
            server,
        })
    }

    /// What the slot `state-mapping` is asked about it, as far as Scaleway and the journal say; in a question, the listing
    /// says its type and tags. It counts as being in its state since Scaleway last changed it.
    #[must_use]
    pub fn for_policy(&self, now: u64) -> state_mapping::Server {
        let (state, detail) = server_state(&self.server);
        let since = |at| now.saturating_sub(instant(at).unwrap_or(now));
        state_mapping::Server {
            state,
            detail,
            age: since(self.server.created_at()),
            state_age: since(self.server.modified_at()),
            has_run: self.operation_state == Some(OperationState::Done),
            unused_for: None,
            in_flight: match self.in_flight {
                Some(OperationKind::CreateServer) => state_mapping::Operation::Create,
                Some(_) => state_mapping::Operation::Cleanup,
                None => state_mapping::Operation::None,
            },
            suspended: false,
            server_type: 0,
            watched_tags: 0,
        }
    }
}

/// Lists and reads the servers of an owner, with what a journal knows of them. Nothing is written.
#[derive(Clone, Copy, Debug)]
pub struct MachineReader<'r> {
    /// Asks Scaleway.
    pub client: &'r Client,
    /// Whose servers they are.
    pub owner: &'r OwnerName,
    /// Absent: no operation is known.
    pub journal: Option<&'r Journal>,
}

impl MachineReader<'_> {
    /// The owner's servers in these zones.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when a zone cannot be listed, and the journal's errors.
    pub async fn list(&self, zones: &[Zone], group: Option<&GroupName>) -> Result<Vec<Machine>, Error> {
        let mut wanted = vec![tags::owner_tag(self.owner)];
        wanted.extend(group.map(tags::group_tag));
        let removals = self.journal.map(Journal::removals).transpose()?.unwrap_or_default();
        let mut machines = Vec::new();
        for zone in zones {
            let request = ListServers { tags: wanted.clone(), ..ListServers::default() };
            let servers = self.client.instance(zone).list_servers(&request).await;
            let servers = servers.map_err(|error| Error::scaleway("listing our servers", error))?;
            let mut facts = self.journal.map(Journal::facts).transpose()?;
            for server in servers {
                if server.has_all_tags(&wanted) && tags::carries_owner(&server.tags, self.owner) {
                    machines.push(Machine::of(zone, server, &removals, facts.as_mut())?);
                }
            }
        }
        Ok(machines)
    }

    /// A server of the owner's, read by its id: a list may leave it out. `None`: it is gone, or does not carry the
    /// owner's tag.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when it cannot be read, and the journal's errors.
    pub async fn read(&self, zone: &Zone, id: &str) -> Result<Option<Machine>, Error> {
        let instance = self.client.instance(zone);
        let server = read_or_absent(|| instance.get_server(id)).await;
        match server.map_err(|error| Error::scaleway("reading a server", error))? {
            Some(server) if tags::carries_owner(&server.tags, self.owner) => {
                let mut facts = self.journal.map(Journal::facts).transpose()?;
                let removals = self.journal.map(Journal::removals).transpose()?.unwrap_or_default();
                Machine::of(zone, server, &removals, facts.as_mut()).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl Lifecycle {
    /// Lists and reads our servers, with what the journal knows of them.
    #[must_use]
    pub fn machine_reader(&self) -> MachineReader<'_> {
        let shared = &self.shared;
        MachineReader { client: &shared.client, owner: &shared.owner, journal: Some(&shared.journal) }
    }

    /// Our servers in these zones, with what the journal knows of them.
    ///
    /// # Errors
    /// As [`MachineReader::list`].
    pub async fn machines(&self, zones: &[Zone], group: Option<&GroupName>) -> Result<Vec<Machine>, Error> {
        self.machine_reader().list(zones, group).await
    }
}

/// A server that says by its tags which group it belongs to, whoever made it.
#[derive(Clone, Debug)]
pub struct GroupMember {
    /// Scaleway's id.
    pub id: String,
    pub zone: Zone,
    /// Whose it is.
    pub owner: OwnerName,
    /// The operation that created it.
    pub operation: OperationId,
    /// The host on which it was made, where it says so.
    pub host: Option<String>,
}

/// The servers of a group of this name, of every owner: for who does not know yet whether it is alone with that name.
/// Only those of the client's default project, where it has one, and none that was kept on purpose.
///
/// # Errors
/// [`Error::Scaleway`] when the zone cannot be listed.
pub async fn members_of_group(client: &Client, zone: &Zone, group: &GroupName) -> Result<Vec<GroupMember>, Error> {
    let project = client.settings().project_id();
    let request = ListServers {
        project: project.map(str::to_owned),
        tags: vec![tags::group_tag(group)],
        ..ListServers::default()
    };
    let servers = client
        .instance(zone)
        .list_servers(&request)
        .await
        .map_err(|error| Error::scaleway("listing the servers of the group", error))?;
    let ours = |server: &Server| {
        tags::group_of(&server.tags) == Some(group.as_str())
            && !tags::is_kept(&server.tags)
            && project.is_none_or(|project| server.project == project)
    };
    let member = |server: Server| {
        Some(GroupMember {
            owner: tags::owner_of(&server.tags)?,
            operation: tags::operation_of(&server.tags)?,
            host: tags::host_of(&server.tags).map(str::to_owned),
            id: server.id,
            zone: zone.clone(),
        })
    };
    Ok(servers.into_iter().filter(ours).filter_map(member).collect())
}
