//! Every call that changes or deletes something at Scaleway which is there already, but for hosts
//! (`machines/host.rs`).
//!
//! A change is made in one go: the resource is read by its id, proven to be ours, put to the caller's judgement, and
//! changed. The judgement is a plain function, so nothing can be waited for between the read and the change. The proof
//! ([`Proven`]) is made by that read alone, never leaves this module, and is used up by the change: neither a listing
//! nor an earlier read can stand for it. Clippy refuses the client's changing calls elsewhere in this crate.

use bytes::Bytes;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::block::{BlockVolume, UpdateBlockVolume};
use windlass_scaleway::types::instance::{
    Ip, PrivateNic, Server, ServerAction, ServerVolume, UpdateIp, UpdateServer, UpdateVolume, Volume, VolumeType,
};
use windlass_scaleway::{Client, Error, Zone};

use crate::failure;
use crate::ownership::{Candidate, Claims};

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<R> {
    /// There is no such resource.
    Gone,
    /// It is there and not ours, or no longer.
    NotOurs,
    /// It was not sent: somebody protected this server.
    Protected(String),
    /// It was not sent: this local volume would have gone with the server, and is not ours, or no longer.
    WouldTake(String),
    /// It was judged so, and the change that the judgement asked for, if any, was sent. Scaleway took it, or the
    /// resource had gone by then.
    Judged(R),
    /// The same, and Scaleway accepted its deletion.
    Deleted(R),
}

/// A resource that was read by its id a moment ago, in this very step, and is ours.
struct Proven<T>(Candidate<T>);

impl<T: Changeable> Proven<T> {
    /// Reads and proves. The inner outcome says why there is no proof.
    async fn read<R>(
        client: &Client,
        zone: &Zone,
        claims: &Claims,
        id: &str,
    ) -> Result<Result<Self, Outcome<R>>, Error> {
        let resource = match T::read(client, zone, id).await {
            Ok(resource) => resource,
            Err(error) if error.is_not_found() => return Ok(Err(Outcome::Gone)),
            Err(error) => return Err(error),
        };
        // An answer about another one, of a cache in between, is no proof either.
        let proven = T::prove(claims, resource).filter(|proven| proven.get().id() == id);
        Ok(proven.map(Self).ok_or(Outcome::NotOurs))
    }
}

/// A kind of resource that can be changed.
pub(crate) trait Changeable: Sized + Send + Sync {
    /// What can be done to it.
    type Change: Send;

    fn id(&self) -> &str;

    fn read(client: &Client, zone: &Zone, id: &str) -> impl Future<Output = Result<Self, Error>> + Send;

    fn prove(claims: &Claims, resource: Self) -> Option<Candidate<Self>>;

    /// The servers that it serves. What serves one that is not ours any more is not ours to change.
    fn servers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether this change removes it.
    fn removes(change: &Self::Change) -> bool;

    /// Whether it removes it at once, so that an answer that accepts it says that it is gone.
    fn deletes(change: &Self::Change) -> bool {
        Self::removes(change)
    }

    /// The local volumes that this change destroys with the resource.
    fn takes(&self, _change: &Self::Change) -> Vec<String> {
        Vec::new()
    }

    /// Whether somebody forbade this change.
    fn forbids(&self, _change: &Self::Change) -> bool {
        false
    }

    fn send(
        client: &Client,
        zone: &Zone,
        id: &str,
        change: Self::Change,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// What can be done to a server.
#[derive(Clone, Debug)]
pub(crate) enum ServerChange {
    Delete,
    Act(ServerAction),
    Update(Box<UpdateServer>),
    /// The volume of this id.
    DetachVolume(String),
    SetUserData(&'static str, Bytes),
    RemoveUserData(&'static str),
}

/// What can be done to an address.
#[derive(Clone, Debug)]
pub(crate) enum IpChange {
    Delete,
    Update(UpdateIp),
}

/// What can be done to a volume of Block Storage.
#[derive(Clone, Debug)]
pub(crate) enum BlockVolumeChange {
    Delete,
    Update(UpdateBlockVolume),
}

/// What can be done to a local volume.
#[derive(Clone, Debug)]
pub(crate) enum VolumeChange {
    Delete,
    Update(UpdateVolume),
}

impl Changeable for Server {
    type Change = ServerChange;

    fn id(&self) -> &str {
        &self.id
    }

    fn removes(change: &Self::Change) -> bool {
        matches!(change, ServerChange::Delete | ServerChange::Act(ServerAction::Terminate))
    }

    fn deletes(change: &Self::Change) -> bool {
        matches!(change, ServerChange::Delete)
    }

    async fn read(client: &Client, zone: &Zone, id: &str) -> Result<Self, Error> {
        client.instance(zone).get_server(id).await
    }

    fn prove(claims: &Claims, resource: Self) -> Option<Candidate<Self>> {
        claims.server(resource)
    }

    fn takes(&self, change: &ServerChange) -> Vec<String> {
        let goes = |volume: &&ServerVolume| volume.volume_type != VolumeType::BlockStorage;
        match change {
            ServerChange::Act(ServerAction::Terminate) => {
                self.volumes.values().filter(goes).map(|volume| volume.id.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Protection is somebody's word that the server is to stay as it is: it is neither deleted nor stopped nor
    /// restarted, nor is anything taken off it. Scaleway itself refuses the actions, and deletes a protected server
    /// that stands still. (assumption: protected-delete-accepted)
    fn forbids(&self, change: &ServerChange) -> bool {
        self.protected
            && match change {
                ServerChange::Act(action) => *action != ServerAction::PowerOn,
                ServerChange::Delete | ServerChange::DetachVolume(_) => true,
                ServerChange::Update(_) | ServerChange::SetUserData(..) | ServerChange::RemoveUserData(_) => false,
            }
    }

    #[expect(clippy::disallowed_methods, reason = "sent to what was just read and proven")]
    async fn send(client: &Client, zone: &Zone, id: &str, change: ServerChange) -> Result<(), Error> {
        let api = client.instance(zone);
        match change {
            ServerChange::Delete => api.delete_server(id).await,
            ServerChange::Act(action) => api.server_action(id, action).await.map(drop),
            ServerChange::Update(update) => api.update_server(id, &update).await.map(drop),
            ServerChange::DetachVolume(volume) => match api.detach_server_volume(id, &volume).await {
                // Already apart (recorded: "Volume <id> is not attached to this server").
                Err(error) if error.body().is_some_and(|body| body.contains("not attached")) => Ok(()),
                answer => answer.map(drop),
            },
            ServerChange::SetUserData(key, value) => api.set_server_user_data(id, key, value).await,
            ServerChange::RemoveUserData(key) => api.delete_server_user_data(id, key).await,
        }
    }
}

impl Changeable for Ip {
    type Change = IpChange;

    fn id(&self) -> &str {
        &self.id
    }

    fn removes(change: &Self::Change) -> bool {
        matches!(change, IpChange::Delete)
    }

    async fn read(client: &Client, zone: &Zone, id: &str) -> Result<Self, Error> {
        client.instance(zone).get_ip(id).await
    }

    fn prove(claims: &Claims, resource: Self) -> Option<Candidate<Self>> {
        claims.ip(resource)
    }

    fn servers(&self) -> Vec<String> {
        self.server.iter().map(|server| server.id.clone()).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "sent to what was just read and proven")]
    async fn send(client: &Client, zone: &Zone, id: &str, change: IpChange) -> Result<(), Error> {
        let api = client.instance(zone);
        match change {
            IpChange::Delete => api.delete_ip(id).await,
            IpChange::Update(update) => api.update_ip(id, &update).await.map(drop),
        }
    }
}

impl Changeable for BlockVolume {
    type Change = BlockVolumeChange;

    fn id(&self) -> &str {
        &self.id
    }

    fn removes(change: &Self::Change) -> bool {
        matches!(change, BlockVolumeChange::Delete)
    }

    async fn read(client: &Client, zone: &Zone, id: &str) -> Result<Self, Error> {
        client.block(zone).get_volume(id).await
    }

    fn prove(claims: &Claims, resource: Self) -> Option<Candidate<Self>> {
        claims.block_volume(resource)
    }

    fn servers(&self) -> Vec<String> {
        self.references.iter().map(|reference| reference.product_resource_id.clone()).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "sent to what was just read and proven")]
    async fn send(client: &Client, zone: &Zone, id: &str, change: BlockVolumeChange) -> Result<(), Error> {
        let api = client.block(zone);
        match change {
            BlockVolumeChange::Delete => api.delete_volume(id).await,
            BlockVolumeChange::Update(update) => api.update_volume(id, &update).await.map(drop),
        }
    }
}

impl Changeable for Volume {
    type Change = VolumeChange;

    fn id(&self) -> &str {
        &self.id
    }

    fn removes(change: &Self::Change) -> bool {
        matches!(change, VolumeChange::Delete)
    }

    async fn read(client: &Client, zone: &Zone, id: &str) -> Result<Self, Error> {
        client.instance(zone).get_volume(id).await
    }

    fn prove(claims: &Claims, resource: Self) -> Option<Candidate<Self>> {
        claims.local_volume(resource)
    }

    fn servers(&self) -> Vec<String> {
        self.server.iter().map(|server| server.id.clone()).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "sent to what was just read and proven")]
    async fn send(client: &Client, zone: &Zone, id: &str, change: VolumeChange) -> Result<(), Error> {
        let api = client.instance(zone);
        match change {
            VolumeChange::Delete => api.delete_volume(id).await,
            VolumeChange::Update(update) => api.update_volume(id, &update).await.map(drop),
        }
    }
}

/// Reads a resource by its id, and, where it is ours, does to it what `judge` makes of what was read. A removal that
/// is answered with "not found" counts as done; the caller proves that the resource is gone.
pub(crate) async fn change<T: Changeable, R>(
    client: &Client,
    zone: &Zone,
    claims: &Claims,
    id: &str,
    judge: impl FnOnce(&T) -> (Option<T::Change>, R),
) -> Result<Outcome<R>, Error> {
    let Proven(resource) = match Proven::<T>::read(client, zone, claims, id).await? {
        Ok(proven) => proven,
        Err(outcome) => return Ok(outcome),
    };
    let resource = resource.into_inner();
    let (change, judged) = judge(&resource);
    let Some(change) = change else { return Ok(Outcome::Judged(judged)) };
    if resource.forbids(&change) {
        return Ok(Outcome::Protected(id.to_owned()));
    }
    for server in resource.servers() {
        match Proven::<Server>::read(client, zone, claims, &server).await? {
            Ok(Proven(holder)) if holder.get().protected => return Ok(Outcome::Protected(server)),
            Ok(_) | Err(Outcome::Gone) => {}
            Err(outcome) => return Ok(outcome),
        }
    }
    for volume in resource.takes(&change) {
        if Proven::<Volume>::read::<()>(client, zone, claims, &volume).await?.is_err() {
            return Ok(Outcome::WouldTake(volume));
        }
    }
    let (removes, deletes) = (T::removes(&change), T::deletes(&change));
    match T::send(client, zone, id, change).await {
        Ok(()) if deletes => Ok(Outcome::Deleted(judged)),
        Ok(()) => Ok(Outcome::Judged(judged)),
        Err(error) if error.is_not_found() && removes => Ok(Outcome::Judged(judged)),
        Err(error) if error.is_not_found() => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

/// A creation's own first call on what it has just made: the answer that made it is no older than a read would be, and
/// nobody else knows of it yet.
pub(crate) async fn first_change<T: Changeable>(
    client: &Client,
    zone: &Zone,
    id: &str,
    change: T::Change,
) -> Result<(), Error> {
    T::send(client, zone, id, change).await
}

/// Deletes a private NIC of a server that is ours, which is also how one is detached: it has no life of its own. Both
/// are read.
#[expect(clippy::disallowed_methods, reason = "it was just read, and its server was proven")]
pub(crate) async fn delete_private_nic(
    client: &Client,
    zone: &Zone,
    claims: &Claims,
    server: &str,
    id: &str,
) -> Result<Outcome<()>, Error> {
    let Proven(owner) = match Proven::<Server>::read(client, zone, claims, server).await? {
        Ok(proven) => proven,
        // It went with its server.
        Err(outcome) => return Ok(outcome),
    };
    if owner.get().protected {
        return Ok(Outcome::Protected(server.to_owned()));
    }
    let api = client.instance(zone);
    let nic: PrivateNic = match api.get_private_nic(server, id).await {
        Ok(nic) => nic,
        Err(error) if error.is_not_found() => return Ok(Outcome::Gone),
        Err(error) => return Err(error),
    };
    if nic.server_id != server && !nic.server_id.is_empty() {
        return Ok(Outcome::NotOurs);
    }
    match api.delete_private_nic(server, id).await {
        Ok(()) => Ok(Outcome::Judged(())),
        Err(error) if error.is_not_found() => Ok(Outcome::Judged(())),
        Err(error) => Err(error),
    }
}

/// Why a change to this server was not sent, and how to go on.
pub(crate) fn protected(server: &str, zone: &str) -> Failure {
    failure::of_class(FailureClass::PreconditionFailed, protected_words(server, zone))
}

/// The same in words.
pub(crate) fn protected_words(server: &str, zone: &str) -> String {
    format!(
        "server {server} is protected; to delete it, remove the protection first (scw instance server update {server} \
         zone={zone} protected=false)"
    )
}
