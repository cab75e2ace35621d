//! What differs between groups of instances and groups of Macs. Everything else of a group is written once, in
//! [`Fleet`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_lifecycle::log::Lease;
use windlass_lifecycle::{Error, Lifecycle, Options, RequestedBy, StateDirectory, SupervisorOptions};
use windlass_policy::Asker;
use windlass_policy::slots::state_mapping::{ServerState, StateDetail};
use windlass_scaleway::{Client, Zone};

use super::book::Book;
use super::entry::Entry;
use super::error::StartError;
use super::fleet::Fleet;
use super::ids::Ids;
use super::places::Place;
use crate::configuration::{Common, ConfigurationErrors};
use crate::protocol::{Capability, ConnectInfo, ConnectorConfig, Failure, Partial};

/// A machine as Scaleway shows it, for the question to the state-mapping policy.
pub(crate) trait Machine: Send + Sync {
    /// Scaleway's id.
    fn id(&self) -> &str;
    /// Scaleway's name of its type.
    fn server_type(&self) -> &str;
    /// Its state in the contract's words.
    fn state(&self) -> (ServerState, StateDetail);
    /// When it was created, as Scaleway writes it.
    fn creation_date(&self) -> &str;
    /// Whether it ever ran, for the member whose machine it is.
    fn has_run(&self, entry: &Entry) -> bool;
    fn tags(&self) -> &[String] {
        &[]
    }
}

/// What is known of a group's members when it starts.
pub(crate) struct Opened {
    pub(crate) lifecycle: Lifecycle,
    /// Members that are ours, whatever becomes of the journal.
    pub(crate) known: Ids,
    /// Members that this start took over.
    pub(crate) taken_over: Vec<String>,
    /// The lock on the group in the database.
    pub(crate) lease: Option<Lease>,
}

/// What a kind begins with.
pub(crate) struct Begun<K: MachineKind> {
    pub(crate) kind: K,
    /// What the journal knows of.
    pub(crate) book: Book,
    /// What [`MachineKind::work`] looks after first.
    pub(crate) left: K::Leftovers,
    /// The zones of both.
    pub(crate) known_zones: BTreeSet<Zone>,
    /// Where machines are made or claimed, with what an hour of each costs in euros.
    pub(crate) places: Vec<(Place, Option<f64>)>,
}

/// See the module. The functions take the group itself, since they work on its members.
pub(crate) trait MachineKind: Sized + Send + Sync + 'static {
    type Configuration: AsRef<Common> + Clone + Send + Sync + 'static;
    /// A machine as a listing holds it.
    type Listed: Send;
    type Machine: Machine;
    /// What Init learned from Scaleway.
    type Learned: Send + Sync;
    /// A removal that was accepted and has not begun.
    type Removal: Send;
    /// What an earlier process left.
    type Leftovers: Send + 'static;

    const ASKER: Asker;

    /// Whether the credentials are good and what is configured exists.
    fn check(
        client: &Client,
        configuration: &Self::Configuration,
        connector: &ConnectorConfig,
    ) -> impl Future<Output = Result<Self::Learned, ConfigurationErrors>> + Send;

    /// Opens the lifecycle with these options, and finds out whose the machines are that carry the group's name.
    fn open(
        configuration: &Self::Configuration,
        options: Options,
        learned: Option<&Self::Learned>,
    ) -> impl Future<Output = Result<Opened, StartError>> + Send;

    /// Reads what the journal knows of.
    fn begin(
        configuration: &Self::Configuration,
        connector: &ConnectorConfig,
        state: &StateDirectory,
        lifecycle: &Lifecycle,
        learned: Self::Learned,
    ) -> Result<Begun<Self>, StartError>;

    /// What the group's supervisor does.
    fn supervision(zones: &[Zone]) -> SupervisorOptions;

    /// Takes up what an earlier process left, and works beside the calls for as long as the group lives.
    fn work(fleet: Arc<Fleet<Self>>, left: Self::Leftovers) -> impl Future<Output = ()> + Send;

    fn capabilities(_: &Self::Configuration) -> Vec<Capability> {
        Vec::new()
    }

    fn watched_tags(_: &Self::Configuration) -> &[String] {
        &[]
    }

    /// Before the group's machines are listed.
    fn catch_up(_: &Arc<Fleet<Self>>) {}

    fn list(fleet: &Fleet<Self>, zone: &Zone) -> impl Future<Output = Result<Vec<Self::Listed>, Error>> + Send;

    /// Takes a listed machine up where it is a member, also one that this process has not seen before. Answers its id.
    fn take_up(fleet: &Arc<Fleet<Self>>, zone: &Zone, listed: Self::Listed) -> Option<(String, Self::Machine)>;

    /// A member's machine, which was not listed, by Scaleway's id; or why it is proven gone, or not ours any more.
    fn read(
        fleet: &Fleet<Self>,
        id: &str,
        zone: &Zone,
        machine: &str,
    ) -> impl Future<Output = Result<Result<Self::Machine, String>, windlass_scaleway::Error>> + Send;

    /// A member's machine is gone.
    fn lost(fleet: &Arc<Fleet<Self>>, id: &str, why: &str) -> impl Future<Output = ()> + Send;

    /// These are all machines that were found.
    fn looked(_: &Fleet<Self>, _: &Machines<Self>) {}

    /// Accepts so many creations, for which there is room, and starts them.
    fn create(fleet: &Arc<Fleet<Self>>, count: u32) -> impl Future<Output = Result<u32, Failure>> + Send;

    /// Has a member removed that is being created. False where nothing changes.
    fn end_creation(
        fleet: &Arc<Fleet<Self>>,
        id: &str,
        requested_by: &RequestedBy,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Accepts a removal. Nothing where there is none to be carried out: the member is unknown or goes already.
    fn accept_removal(
        fleet: &Fleet<Self>,
        id: &str,
        requested_by: &RequestedBy,
    ) -> impl Future<Output = Result<Option<Self::Removal>, Error>> + Send;

    /// Starts a removal that was accepted.
    fn start_removal(fleet: &Arc<Fleet<Self>>, id: &str, removal: Self::Removal, why: &str);

    /// How to reach a member now.
    fn connect_info(fleet: &Fleet<Self>, id: &str) -> impl Future<Output = Result<ConnectInfo, Failure>> + Send;

    /// Accepts suspensions or resumptions.
    fn turn(_: &Arc<Fleet<Self>>, _: Vec<String>, _: Direction) -> Partial {
        let failure = Failure("capability not supported: suspend_resume".to_owned());
        Partial { succeeded: Vec::new(), failure: Some(failure) }
    }
}

/// The machines that a look found, by the ids of their members. Boxed, since the map moves its values as it grows.
pub(crate) type Machines<K> = BTreeMap<String, Box<<K as MachineKind>::Machine>>;

/// To and from suspension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Suspend,
    Resume,
}
