//! Creating one server with everything that belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;
use windlass_concurrency::ActiveKey;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::Zone;
use windlass_scaleway::types::block::{
    BlockVolume, BlockVolumeStatus, CreateBlockVolume, FromEmpty, ListBlockVolumes, UpdateBlockVolume,
};
use windlass_scaleway::types::instance::{
    CreateIp, CreatePrivateNic, Ip, IpState, IpType, ListIps, ListPrivateNics, ListServers, PrivateNic, Server,
    ServerAction, ServerState, ServerVolume, UpdateServer, UpdateVolume, Volume,
};

use crate::change::{self, BlockVolumeChange, Changeable, Outcome, ServerChange, VolumeChange, first_change};
use crate::failure::{self, AttemptFailure};
use crate::images::Wanted;
use crate::journal::step::Create;
use crate::journal::{Phase, ResourceKind, ResourceName};
use crate::ownership::{Claims, is_as_created, volumes_made};
use crate::run::{Run, attempts};
use crate::specification::{AddressKind, AddressPool, ServerSpecification};
use crate::stop::Stop;
use crate::tags;

/// How long a new volume may take to be there: a few seconds are recorded.
const VOLUME_COMES: Duration = Duration::from_secs(120);
const POWER_ON: &str = "power-on";

/// A create under way.
pub(crate) struct Creation<'a> {
    pub(crate) run: &'a Run,
    pub(crate) specification: &'a ServerSpecification,
    /// The address of the pool that its server gets. No other creation of this process takes it meanwhile.
    pub(crate) pooled_ip: Option<ActiveKey<String>>,
}

/// What was made by a create and is changed by it is there, and nobody else's.
#[expect(clippy::result_large_err, reason = "the retry slot takes the failure whole, once per failed attempt")]
fn still_ours(id: &str, zone: &Zone, outcome: Outcome<()>) -> Result<(), AttemptFailure> {
    let words = match outcome {
        Outcome::Judged(()) | Outcome::Deleted(()) => return Ok(()),
        Outcome::Gone => format!("{id} is gone: somebody deleted it"),
        Outcome::NotOurs | Outcome::WouldTake(_) => {
            format!("{id} does not carry this operation's tags any more: somebody took it over")
        }
        Outcome::Protected(server) => return Err(change::protected(&server, zone.as_str()).into()),
    };
    Err(failure::of_class(FailureClass::NotFound, words).into())
}

/// Whether an address serves nobody.
fn is_free(ip: &Ip) -> bool {
    ip.server.is_none() && ip.state == IpState::Detached
}

/// Whether a server may have been refused because its address serves another one, or is gone. Which answer that gets
/// was not recorded, so the address itself is looked at then (assumption: pooled-address-conflict).
fn may_be_about_an_address(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::PreconditionFailed
            | FailureClass::Conflict
            | FailureClass::InvalidArguments
            | FailureClass::NotFound
    )
}

impl Creation<'_> {
    fn name(&self, kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.to_owned(), zone: self.run.zone.to_string(), server: None }
    }

    /// What the journal proves of this create. A create's first call on what it has just made follows the answer that
    /// made it; before any later one, and before one of a successor, the resource is read again and proven by this.
    fn claims(&self) -> Result<Claims, Stop> {
        let (shared, id) = (&self.run.shared, &self.run.id);
        let entries = shared.journal.entries(id)?;
        Ok(Claims::of_creation(&shared.owner, id, self.specification, &entries)?)
    }

    async fn change_made<T: Changeable>(&self, step: &str, id: &str, change: T::Change) -> Result<(), Stop>
    where
        T::Change: Clone + Sync,
    {
        let (client, zone, claims, change) = (&self.run.shared.client, &self.run.zone, &self.claims()?, &change);
        self.run
            .attempt(step, |attempt| async move {
                if attempt == 1 {
                    return Ok(first_change::<T>(client, zone, id, change.clone()).await?);
                }
                still_ours(id, zone, self.change_again::<T>(claims, id, |_| Some(change.clone())).await?)
            })
            .await
    }

    /// Changes what was read again and is still ours. That it is gone counts when it was answered twice.
    async fn change_again<T: Changeable>(
        &self,
        claims: &Claims,
        id: &str,
        judge: impl Fn(&T) -> Option<T::Change>,
    ) -> Result<Outcome<()>, AttemptFailure> {
        let (run, client) = (self.run, &self.run.shared.client);
        loop {
            let outcome = change::change(client, &run.zone, claims, id, |resource| (judge(resource), ())).await?;
            let is_gone = outcome == Outcome::Gone;
            if run.absences.prove(id, is_gone) || !is_gone {
                return Ok(outcome);
            }
            run.pause(run.shared.limits.poll_interval).await?;
        }
    }

    fn tags(&self) -> Vec<String> {
        tags::all(&self.run.shared.owner, &self.run.group, &self.run.id)
    }

    /// The tags by which a lost creation is found: exact on our side, whatever Scaleway's filter means.
    fn search_tags(&self) -> Vec<String> {
        vec![tags::owner_tag(&self.run.shared.owner), tags::operation_tag(&self.run.id)]
    }

    /// Image → address of the pool → addresses → volumes → server → tags on its volumes → private NICs → cloud-init →
    /// power on → running.
    pub(crate) async fn perform(&mut self) -> Result<Server, Stop> {
        let first_type = self.specification.types[0].as_str();
        let first_image = self.image(first_type).await?;
        self.take_address(&BTreeSet::new()).await?;
        let mut addresses = Vec::new();
        for kind in self.specification.addresses.clone() {
            addresses.push(self.create_ip(kind).await?.id);
        }
        let mut volumes = BTreeMap::new();
        let wanted: Vec<_> = self.specification.new_block_volumes().collect();
        for (position, size, operations) in wanted {
            let volume = self.create_volume(position, size, operations).await?;
            volumes.insert(position, volume.id);
        }
        for id in volumes.values() {
            self.wait_for_volume(id).await?;
        }
        let server = self.create_server(first_image, &addresses, &volumes).await?;
        self.tag_volumes(&server).await?;
        for network in self.specification.private_networks.clone() {
            self.create_private_nic(&server, &network).await?;
        }
        self.set_cloud_init(&server).await?;
        self.start(&server.id).await
    }

    /// The last part, which a successor can do as well: power on and wait.
    pub(crate) async fn start(&self, server_id: &str) -> Result<Server, Stop> {
        self.power_on(server_id).await?;
        self.wait_until_running(server_id).await
    }

    fn wanted_image(&self, server_type: &str) -> Wanted {
        Wanted::of(self.specification, server_type, &self.run.shared.client)
    }

    async fn image(&self, server_type: &str) -> Result<String, Stop> {
        let wanted = &self.wanted_image(server_type);
        let (run, shared) = (self.run, &self.run.shared);
        run.attempt("resolve-image", |_| async move { run.read(shared.images.resolve(&shared.client, wanted)).await })
            .await
    }

    /// Takes an address of the pool that is free and was not `refused`. Nothing of it changes before the server is
    /// created with it. Where none is free the retry slot is asked: a quota is used up.
    async fn take_address(&mut self, refused: &BTreeSet<String>) -> Result<(), Stop> {
        let Some(pool) = &self.specification.address_pool else { return Ok(()) };
        let step = "take-address";
        let taken = self.run.trace.in_step(step, async {
            let mut attempts = attempts();
            loop {
                self.run.check(step)?;
                match self.free_address(pool, refused).await {
                    Ok(held) => return Ok(held),
                    Err(failed) => self.run.after_failure(step, &mut attempts, failed, None).await?,
                }
            }
        });
        let held = taken.await?;
        self.pooled_ip = Some(held);
        Ok(())
    }

    async fn free_address(
        &self,
        pool: &AddressPool,
        refused: &BTreeSet<String>,
    ) -> Result<ActiveKey<String>, AttemptFailure> {
        let shared = &self.run.shared;
        let instance = shared.client.instance(&self.run.zone);
        let mut request = ListIps { ip_type: Some(IpType::RoutedIpv4), ..ListIps::default() };
        if let AddressPool::Tag(tag) = pool {
            request.tags.push(tag.clone());
        }
        let mut pooled = self.run.read(instance.list_ips(&request)).await?;
        pooled.retain(|ip| pool.holds(ip));
        let mut free: Vec<&Ip> = pooled.iter().filter(|ip| is_free(ip) && !refused.contains(&ip.id)).collect();
        // From anywhere, so that hosts that share a pool seldom take the same one.
        let first = usize::try_from(shared.randomness.word()).unwrap_or_default().checked_rem(free.len()).unwrap_or(0);
        free.rotate_left(first);
        for ip in free {
            let Some(held) = shared.pooled_ips.hold(&ip.id) else { continue };
            // Since the listing, a creation of this process may have attached it and let it go.
            match self.run.read(instance.get_ip(&ip.id)).await {
                Ok(ip) if is_free(&ip) && pool.holds(&ip) => return Ok(held),
                Ok(_) => {}
                Err(failed) if failed.failure.class == FailureClass::NotFound => {}
                Err(failed) => return Err(failed),
            }
        }
        let words = match pooled.len() {
            0 => "the pool holds no address".to_owned(),
            count => {
                format!("no address of the pool is free: all {count} are attached to servers, or are being attached")
            }
        };
        Err(failure::of_class(FailureClass::QuotaExceeded, words).into())
    }

    /// Whether the address that was taken serves a server all the same, or is gone: another process has taken it.
    async fn lost_its_address(&self) -> Result<bool, Stop> {
        let Some(held) = &self.pooled_ip else { return Ok(false) };
        let instance = self.run.shared.client.instance(&self.run.zone);
        let ip = self.run.look_one("get-ip", held.key(), || instance.get_ip(held.key())).await?;
        Ok(!ip.is_some_and(|ip| is_free(&ip)))
    }

    async fn create_ip(&mut self, kind: AddressKind) -> Result<Ip, Stop> {
        let request = CreateIp {
            project: self.specification.project.clone(),
            tags: self.tags(),
            ip_type: Some(kind.ip_type()),
            ..CreateIp::default()
        };
        let wanted = self.search_tags();
        let list = ListIps { tags: wanted.clone(), ..ListIps::default() };
        let instance = self.run.shared.client.instance(&self.run.zone);
        let known = self.run.effects();
        let is_wanted = |ip: &Ip| {
            let is_known = known.there().iter().any(|name| name.id == ip.id);
            ip.has_all_tags(&wanted) && ip.ip_type == kind.ip_type() && !is_known
        };
        let ip = self
            .run
            .create(
                Create::Ip { kind, address: None },
                None,
                None,
                |_| false,
                || instance.create_ip(&request),
                || async { Ok(instance.list_ips(&list).await?.into_iter().find(is_wanted)) },
            )
            .await?;
        let address = ip.address.clone();
        self.run.done(Create::Ip { kind, address }, Some(self.name(ResourceKind::Ip, &ip.id))).await?;
        Ok(ip)
    }

    async fn create_volume(
        &mut self,
        position: usize,
        size: u64,
        operations: Option<u32>,
    ) -> Result<BlockVolume, Stop> {
        let request = CreateBlockVolume {
            name: format!("{}-{position}", self.server_name()),
            perf_iops: Some(operations.unwrap_or(5_000)),
            project_id: self.specification.project.clone(),
            from_empty: Some(FromEmpty { size }),
            tags: self.tags(),
            ..CreateBlockVolume::default()
        };
        let wanted = self.search_tags();
        let list = ListBlockVolumes { tags: wanted[1..].to_vec(), ..ListBlockVolumes::default() };
        let block = self.run.shared.client.block(&self.run.zone);
        let volume = self
            .run
            .create(
                Create::Volume { position, size: Some(size) },
                None,
                None,
                |_| false,
                || block.create_volume(&request),
                || async {
                    let volumes = block.list_volumes(&list).await?;
                    Ok(volumes.into_iter().find(|volume| volume.has_all_tags(&wanted) && volume.name == request.name))
                },
            )
            .await?;
        let name = self.name(ResourceKind::BlockVolume, &volume.id);
        self.run.done(Create::Volume { position, size: None }, Some(name)).await?;
        Ok(volume)
    }

    async fn wait_for_volume(&self, id: &str) -> Result<(), Stop> {
        let run = self.run;
        let deadline = Instant::now() + VOLUME_COMES;
        run.attempt("wait-for-volume", |_| async move {
            let block = run.shared.client.block(&run.zone);
            loop {
                let volume = run.read(block.get_volume(id)).await?;
                let failed = match volume.status {
                    BlockVolumeStatus::Available | BlockVolumeStatus::InUse => return Ok(()),
                    BlockVolumeStatus::Error => {
                        failure::of_class(FailureClass::Other, format!("volume {id} came out broken"))
                    }
                    // Being created, or a word that says nothing about whether it is there.
                    _ if Instant::now() < deadline => {
                        run.pause(run.shared.limits.poll_interval).await?;
                        continue;
                    }
                    status => failure::of_class(
                        FailureClass::DeadlineExceeded,
                        format!("volume {id} is still {:?} instead of available", status.as_str()),
                    ),
                };
                return Err(AttemptFailure::from(failed));
            }
        })
        .await
    }

    fn server_name(&self) -> &str {
        self.specification.server_name(&self.run.id)
    }

    /// Tries the types in order. Only when all are out of stock is the retry slot asked, about the last of them. An
    /// address of the pool that another process has taken meanwhile gives way to the next free one.
    async fn create_server(
        &mut self,
        first_image: String,
        addresses: &[String],
        volumes: &BTreeMap<usize, String>,
    ) -> Result<Server, Stop> {
        let step = "create-server";
        let mut rounds = attempts();
        let mut refused = BTreeSet::new();
        loop {
            let mut out_of_stock: Option<(Failure, &str)> = None;
            let mut types = self.specification.types.iter().enumerate().peekable();
            while let Some((index, server_type)) = types.peek().copied() {
                let image = if index == 0 { first_image.clone() } else { self.image(server_type).await? };
                match self.create_server_of(step, server_type, &image, addresses, volumes).await {
                    Ok(server) => return Ok(server),
                    Err(Stop::Failed(failed)) if failed.failure.class == FailureClass::OutOfStock => {
                        tracing::info!(operation = %self.run.id, server_type, "out of stock");
                        out_of_stock = Some((failed.failure, server_type));
                        types.next();
                    }
                    Err(Stop::Failed(failed))
                        if self.pooled_ip.is_some() && may_be_about_an_address(failed.failure.class) =>
                    {
                        if self.lost_its_address().await? {
                            let lost = self.pooled_ip.take();
                            refused.extend(lost.map(|lost| lost.key().clone()));
                            tracing::info!(operation = %self.run.id, "the address of the pool was taken meanwhile");
                            self.take_address(&refused).await?;
                        } else {
                            self.run.after_failure(step, &mut rounds, failed.failure, Some(server_type)).await?;
                        }
                    }
                    Err(other) => return Err(other),
                }
            }
            let Some((failed, server_type)) = out_of_stock else {
                return Err(Stop::failed(
                    step,
                    failure::of_class(FailureClass::InvalidArguments, "no server type was given"),
                ));
            };
            self.run.after_failure(step, &mut rounds, failed, Some(server_type)).await?;
        }
    }

    async fn create_server_of(
        &self,
        step: &str,
        server_type: &str,
        image: &str,
        addresses: &[String],
        volumes: &BTreeMap<usize, String>,
    ) -> Result<Server, Stop> {
        let mut tags = self.tags();
        tags.extend(self.run.shared.host.as_deref().map(tags::host_tag));
        tags.push(tags::history_tag(&self.run.shared.history.id));
        tags.extend(self.specification.tags.iter().cloned());
        let pooled_ip = self.pooled_ip.as_ref().map(|held| held.key().clone());
        let addresses: Vec<String> = pooled_ip.iter().chain(addresses).cloned().collect();
        let request =
            self.specification.create_request(self.server_name(), server_type, image, &addresses, volumes, tags);
        let wanted = self.search_tags();
        let list = ListServers { tags: wanted.clone(), ..ListServers::default() };
        let begun = Create::Server {
            server_type: server_type.to_owned(),
            image: Some(image.to_owned()),
            pooled_ip: pooled_ip.clone(),
            volumes: Vec::new(),
        };
        let instance = self.run.shared.client.instance(&self.run.zone);
        let stops = |failed: &Failure| {
            failed.class == FailureClass::OutOfStock || pooled_ip.is_some() && may_be_about_an_address(failed.class)
        };
        let created = self
            .run
            .create(
                begun,
                None,
                Some(server_type),
                stops,
                || instance.create_server(&request),
                || async {
                    let servers = instance.list_servers(&list).await?;
                    let made = |server: &Server| server.has_all_tags(&wanted) && is_as_created(server, &request.name);
                    Ok(servers.into_iter().find(made))
                },
            )
            .await;
        if let Err(Stop::Failed(failed)) = &created
            && failed.failure.class == FailureClass::NotFound
        {
            self.run.shared.images.forget(&self.wanted_image(server_type));
        }
        let server = created?;
        let volumes = volumes_made(&server, self.run.zone.as_str(), &self.run.shared.owner, self.specification);
        let done = Create::Server { server_type: server_type.to_owned(), image: None, pooled_ip: None, volumes };
        self.run.done(done, Some(self.name(ResourceKind::Server, &server.id))).await?;
        match pooled_ip {
            Some(id) if !server.public_ips.iter().any(|ip| ip.id == id) => {
                let words = format!("server {} came without the address {id} of the pool", server.id);
                Err(Stop::failed(step, failure::of_class(FailureClass::Other, words)))
            }
            _ => Ok(server),
        }
    }

    /// The kind of a volume that came with a server. Which API holds one of an unknown type is found by asking both.
    async fn kind_of(&self, step: &str, volume: &ServerVolume) -> Result<ResourceKind, Stop> {
        let kind = ResourceKind::of_volume(&volume.volume_type);
        if kind != ResourceKind::Volume {
            return Ok(kind);
        }
        let (run, id) = (self.run, volume.id.as_str());
        let block = run.shared.client.block(&run.zone);
        if run.look_one("get-block-volume", id, || block.get_volume(id)).await?.is_some() {
            return Ok(ResourceKind::BlockVolume);
        }
        let instance = run.shared.client.instance(&run.zone);
        if run.look_one("get-local-volume", id, || instance.get_volume(id)).await?.is_some() {
            return Ok(ResourceKind::LocalVolume);
        }
        let words = format!(
            "the server came with volume {id} of type {:?}, which this version of Windlass does not know, and neither \
             the Block Storage API nor the Instance API shows it",
            volume.volume_type.as_str()
        );
        Err(Stop::failed(step, failure::of_class(FailureClass::Other, words)))
    }

    /// Volumes that came into being with the server get the tags that they could not be given then.
    async fn tag_volumes(&mut self, server: &Server) -> Result<(), Stop> {
        let made = volumes_made(server, self.run.zone.as_str(), &self.run.shared.owner, self.specification);
        for (position, volume) in &server.volumes {
            if !made.iter().any(|made| made.id == volume.id) {
                continue;
            }
            let step = "tag-volume";
            let kind = self.kind_of(step, volume).await?;
            let name = self.name(kind, &volume.id);
            let operations = if position == "0" { self.specification.root_volume.operations_per_second } else { None };
            self.run.begin(Create::TagVolume, Some(name.clone())).await?;
            let (tags, id) = (Some(self.tags()), volume.id.as_str());
            if kind == ResourceKind::BlockVolume {
                let update = UpdateBlockVolume { tags, perf_iops: operations, ..UpdateBlockVolume::default() };
                self.change_made::<BlockVolume>(step, id, BlockVolumeChange::Update(update)).await?;
            } else {
                let update = UpdateVolume { tags, ..UpdateVolume::default() };
                self.change_made::<Volume>(step, id, VolumeChange::Update(update)).await?;
            }
            self.run.done(Create::TagVolume, Some(name)).await?;
        }
        Ok(())
    }

    async fn create_private_nic(&mut self, server: &Server, network: &str) -> Result<PrivateNic, Stop> {
        let request = CreatePrivateNic {
            private_network_id: network.to_owned(),
            tags: self.tags(),
            ..CreatePrivateNic::default()
        };
        let name = self.name(ResourceKind::Server, &server.id);
        let joining = Create::PrivateNic { private_network: network.to_owned() };
        let instance = self.run.shared.client.instance(&self.run.zone);
        let list = ListPrivateNics::default();
        let nic = self
            .run
            .create(
                joining.clone(),
                Some(name),
                None,
                |_| false,
                || instance.create_private_nic(&server.id, &request),
                || async {
                    let nics = instance.list_private_nics(&server.id, &list).await?;
                    // A server joins a private network once, so the network names the NIC.
                    Ok(nics.into_iter().find(|nic| nic.private_network_id == network))
                },
            )
            .await?;
        let mut name = self.name(ResourceKind::PrivateNic, &nic.id);
        name.server = Some(server.id.clone());
        self.run.done(joining, Some(name)).await?;
        Ok(nic)
    }

    async fn set_cloud_init(&self, server: &Server) -> Result<(), Stop> {
        let Some(cloud_init) = &self.specification.cloud_init else {
            return Ok(());
        };
        let step = "set-cloud-init";
        let name = self.name(ResourceKind::Server, &server.id);
        self.run.begin(Create::SetCloudInit, Some(name.clone())).await?;
        let content = Bytes::copy_from_slice(cloud_init.content());
        self.change_made::<Server>(step, &server.id, ServerChange::SetUserData("cloud-init", content)).await?;
        self.run.done(Create::SetCloudInit, Some(name)).await
    }

    /// Powers on. A type whose stock ends between creation and start gives way to the next one, as it does at
    /// creation; the retry slot is asked when there is none left. (Assumption: where Scaleway says `out_of_stock` for
    /// Instances, at creation or at power-on, was never recorded.) Whether a call had its effect is read from the
    /// server.
    async fn power_on(&self, id: &str) -> Result<(), Stop> {
        let name = self.name(ResourceKind::Server, id);
        // An earlier process may have sent it.
        let is_first = self.run.progress()?.powering_on.is_none();
        self.run.begin(Create::PowerOn, Some(name.clone())).await?;
        self.run.trace.in_step(POWER_ON, self.tell_until_it_starts(id, is_first)).await?;
        self.run.done(Create::PowerOn, Some(name)).await
    }

    async fn tell_until_it_starts(&self, id: &str, is_first: bool) -> Result<(), Stop> {
        let mut attempts = attempts();
        loop {
            self.run.check(POWER_ON)?;
            let Err(failed) = self.tell_to_start(id, is_first && attempts.number() == 1).await else {
                return Ok(());
            };
            if failed.failure.class == FailureClass::OutOfStock && self.change_to_next_type(id, &failed.failure).await?
            {
                continue;
            }
            self.run.after_failure(POWER_ON, &mut attempts, failed, None).await?;
        }
    }

    /// One power-on. Whatever it answers, a server that starts has been powered on; only a rate limit says for certain
    /// that nothing was done.
    async fn tell_to_start(&self, id: &str, is_first: bool) -> Result<(), AttemptFailure> {
        let (run, client, zone) = (self.run, &self.run.shared.client, &self.run.zone);
        let start = || ServerChange::Act(ServerAction::PowerOn);
        let error: AttemptFailure = if is_first {
            match first_change::<Server>(client, zone, id, start()).await {
                Ok(()) => return Ok(()),
                Err(error) => error.into(),
            }
        } else {
            let claims =
                self.claims().map_err(|_| failure::of_class(FailureClass::Other, "the journal cannot be read"))?;
            let unless_it_starts =
                |server: &Server| (!matches!(server.state, ServerState::Starting | ServerState::Running)).then(start);
            match self.change_again(&claims, id, unless_it_starts).await {
                Ok(outcome) => return still_ours(id, &self.run.zone, outcome),
                Err(error) => error,
            }
        };
        if error.failure.class == FailureClass::RateLimited {
            return Err(error);
        }
        match run.read(client.instance(zone).get_server(id)).await {
            Ok(server) if matches!(server.state, ServerState::Starting | ServerState::Running) => Ok(()),
            _ => Err(error),
        }
    }

    /// Gives the stopped server the type that stands after its own in the specification. False when there is none, or
    /// when Scaleway does not let this server have it (SDK: another architecture, too little local storage, a placement
    /// group): the failure that led here then stands.
    async fn change_to_next_type(&self, id: &str, out_of_stock: &Failure) -> Result<bool, Stop> {
        let step = "change-server-type";
        let zone = &self.run.zone;
        let instance = &self.run.shared.client.instance(zone);
        let server = self.run.look(step, || instance.get_server(id)).await?;
        let types = &self.specification.types;
        let known = types.iter().rposition(|known| known.eq_ignore_ascii_case(&server.commercial_type));
        let Some(next) = known.and_then(|position| types.get(position + 1)) else {
            return Ok(false);
        };
        let name = self.name(ResourceKind::Server, id);
        let why = json!({ "failure": out_of_stock });
        self.run.write(POWER_ON, Phase::Failure, Some(name.clone()), why).await?;
        let change = Create::ChangeServerType { server_type: next.clone() };
        self.run.begin(change.clone(), Some(name.clone())).await?;
        let update = &UpdateServer { commercial_type: Some(next.clone()), ..UpdateServer::default() };
        let claims = &self.claims()?;
        let change_type = |_: &Server| Some(ServerChange::Update(Box::new(update.clone())));
        let changed = self
            .run
            .attempt(step, |_| async move { still_ours(id, zone, self.change_again(claims, id, change_type).await?) })
            .await;
        match changed {
            Ok(()) => {
                tracing::info!(operation = %self.run.id, server_type = next, "out of stock at power-on: next type");
                self.run.done(change, Some(name)).await?;
                Ok(true)
            }
            Err(Stop::Failed(failed)) if failed.failure.class != FailureClass::Cancelled => {
                tracing::warn!(operation = %self.run.id, failure = %failed.failure.words(),
                    "the server could not take the next type");
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }

    async fn wait_until_running(&self, id: &str) -> Result<Server, Stop> {
        let step = "wait-until-running";
        self.run.begin(Create::WaitUntilRunning, Some(self.name(ResourceKind::Server, id))).await?;
        let deadline = self.run.deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(600));
        let reported = Instant::now();
        let settle = self.run.shared.limits.settle;
        let mut began_to_start = false;
        let mut looks_without_start = 0;
        let server = self
            .run
            .shared
            .poller
            .wait(self.run, step, id, deadline, |server| {
                let Some(server) = server else {
                    let words = || format!("server {id} vanished while it started: somebody deleted it");
                    let vanished = || failure::of_class(FailureClass::NotFound, words());
                    return self.run.absences.proves(id).then(vanished).map(Err);
                };
                match server.state {
                    ServerState::Running => Some(Ok(server)),
                    ServerState::Locked => Some(Err(failure::of_class(
                        FailureClass::Locked,
                        format!("Scaleway locked server {id} while it started"),
                    ))),
                    ServerState::Starting => {
                        began_to_start = true;
                        None
                    }
                    // It has no error state: a start that fails at Scaleway ends where it began.
                    ServerState::Stopped if began_to_start => Some(Err(failure::of_class(
                        FailureClass::ServerError,
                        format!("server {id} fell back to stopped while it started"),
                    ))),
                    // It may have started and failed between two looks (assumption: action-takes-effect).
                    ServerState::Stopped if reported.elapsed() >= settle => {
                        looks_without_start += 1;
                        if looks_without_start > 1 {
                            let words =
                                format!("server {id} is still stopped after it was powered on: it failed to start");
                            Some(Err(failure::of_class(FailureClass::ServerError, words)))
                        } else {
                            None
                        }
                    }
                    _ => None,
                }
            })
            .await?;
        self.run.done(Create::WaitUntilRunning, Some(self.name(ResourceKind::Server, id))).await?;
        Ok(server)
    }
}
