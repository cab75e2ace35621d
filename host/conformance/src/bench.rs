//! What the probes work on: resources that are made when they are first needed, all of them tagged and written down.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use windlass_lifecycle::OwnerName;
use windlass_scaleway::types::block::{CreateBlockVolume, FromEmpty};
use windlass_scaleway::types::instance::{CreateIp, CreateServer, CreateVolume, VolumeType};

use crate::api::{Answer, Api, Item, Kind, Presence, Stop};
use crate::catalogue::ServerChoice;
use crate::fixture::Fixture;

/// How long a new resource is looked for in the listings of its kind.
const LISTED_AT_LAST: Duration = Duration::from_secs(60);
/// Looks at those listings in the first two seconds, and how far the later ones lie apart.
const LOOKS: Duration = Duration::from_millis(500);
const LATER_LOOKS: Duration = Duration::from_secs(2);
/// The longest recorded boot took 35 s.
const BOOTS: Duration = Duration::from_secs(240);
/// A volume leaves its server within 6 s, as recorded.
const ATTACHES: Duration = Duration::from_secs(60);
/// Server types that are tried when one is out of stock.
const TYPES_TRIED: usize = 3;
/// Scaleway's smallest: any smaller one might be refused for that.
const BLOCK_VOLUME_BYTES: u64 = 10_000_000_000;
const LOCAL_VOLUME_BYTES: u64 = 1_000_000_000;

/// Something that an answer of Scaleway says we made.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) kind: Kind,
    pub(crate) id: String,
    /// When listings showed it; absent for what came with something else.
    pub(crate) listed: Option<Listed>,
}

/// When the listings of its kind showed something new, counted from the answer that named it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The latest look that lacked it began then.
    pub(crate) lacking: Option<Duration>,
    /// The first look that had it began then; absent when none had it.
    pub(crate) seen: Option<Duration>,
}

/// What a power-on brought about.
#[derive(Debug, Clone)]
pub(crate) struct PowerOn {
    pub(crate) answer: Answer,
    /// When the server was first seen in another state than `stopped`, counted from the answer.
    pub(crate) left_stopped: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) api: Api,
    pub(crate) owner: OwnerName,
    servers: Vec<ServerChoice>,
    made: Vec<Made>,
    /// The shared ones; a failure is remembered, so that it is paid for once.
    shared: BTreeMap<Fixture, Result<String, String>>,
    power_on: Option<PowerOn>,
}

impl Bench {
    pub(crate) fn new(api: Api, owner: OwnerName, servers: Vec<ServerChoice>) -> Self {
        Self { api, owner, servers, made: Vec::new(), shared: BTreeMap::new(), power_on: None }
    }

    pub(crate) fn made(&self) -> &[Made] {
        &self.made
    }

    pub(crate) fn power_on(&self) -> Option<&PowerOn> {
        self.power_on.as_ref()
    }

    /// The tag that proves that something is this run's: of the form that Windlass's own has, with `=`.
    pub(crate) fn owner_tag(&self) -> String {
        self.owner.tag()
    }

    /// A tag without `=`, as unique as the other.
    pub(crate) fn plain_tag(&self) -> String {
        self.owner.to_string()
    }

    /// A tag that nothing carries.
    pub(crate) fn nobodys_tag(&self) -> String {
        format!("{}-nobody", self.owner_tag())
    }

    pub(crate) fn tags(&self) -> Vec<String> {
        vec![self.owner_tag(), "windlass-group=conformance".to_owned(), self.plain_tag()]
    }

    /// The id of what a probe needs: a spare one is made each time, a shared one when it is first asked for.
    pub(crate) async fn fixture(&mut self, fixture: Fixture) -> Result<String, Stop> {
        if let Some(known) = self.shared.get(&fixture) {
            return known.clone().map_err(Stop::Unknown);
        }
        let made = match fixture {
            Fixture::SpareAddress => return self.address().await,
            Fixture::SpareServer => return self.server(&[]).await.map(|server| server.id),
            Fixture::Address => self.address().await,
            Fixture::LocalVolume => self.local_volume().await,
            Fixture::BlockVolume => self.block_volume().await,
            Fixture::Server => self.server(&[]).await.map(|server| server.id),
            Fixture::RunningServer => self.start().await,
        };
        let kept = match &made {
            Ok(id) => Ok(id.clone()),
            Err(Stop::Unknown(why)) => Err(why.clone()),
            Err(ended) => return Err(ended.clone()),
        };
        self.shared.insert(fixture, kept);
        made
    }

    /// The server has gone, as a probe wanted it: nobody gets it any more.
    pub(crate) fn spend_server(&mut self) {
        for fixture in [Fixture::Server, Fixture::RunningServer] {
            self.shared.insert(fixture, Err("an earlier probe has used up the server".to_owned()));
        }
    }

    pub(crate) async fn address(&mut self) -> Result<String, Stop> {
        let request = CreateIp { project: self.api.project(), tags: self.tags(), ..CreateIp::default() };
        Ok(self.make(Kind::Ip, &request).await?.id)
    }

    async fn local_volume(&mut self) -> Result<String, Stop> {
        let request = CreateVolume {
            name: self.owner.to_string(),
            project: self.api.project(),
            volume_type: Some(VolumeType::LocalSsd),
            size: Some(LOCAL_VOLUME_BYTES),
            tags: self.tags(),
            ..CreateVolume::default()
        };
        Ok(self.make(Kind::LocalVolume, &request).await?.id)
    }

    async fn block_volume(&mut self) -> Result<String, Stop> {
        let request = CreateBlockVolume {
            name: self.owner.to_string(),
            perf_iops: Some(5_000),
            project_id: self.api.project(),
            from_empty: Some(FromEmpty { size: BLOCK_VOLUME_BYTES }),
            tags: self.tags(),
            ..CreateBlockVolume::default()
        };
        let id = self.make(Kind::BlockVolume, &request).await?.id;
        let (api, volume) = (&self.api, id.as_str());
        let available = || async move {
            let item = api.read(Kind::BlockVolume, volume).await?;
            Ok((item.value["status"] == "available").then_some(()))
        };
        match api.until(ATTACHES, available).await? {
            Some(()) => Ok(id),
            None => Err(Stop::unknown(format!("the block volume was not available within {} s", ATTACHES.as_secs()))),
        }
    }

    /// A server that is not started: of the cheapest type that is in stock.
    pub(crate) async fn server(&mut self, addresses: &[&str]) -> Result<Item, Stop> {
        let mut refused = Stop::unknown("the zone has no server type with a price, in stock, that the image fits");
        for choice in self.servers.clone().iter().take(TYPES_TRIED) {
            let request = CreateServer {
                name: self.owner.to_string(),
                commercial_type: choice.server_type.clone(),
                image: Some(choice.image.clone()),
                dynamic_ip_required: Some(false),
                public_ips: addresses.iter().map(|&id| id.to_owned()).collect(),
                project: self.api.project(),
                tags: self.tags(),
                ..CreateServer::default()
            };
            match self.make_or_refused(Kind::Server, &request).await? {
                Ok(server) => return Ok(server),
                Err(answer) => {
                    refused = not_made(Kind::Server, &answer);
                    if answer.error_type().as_deref() != Some("out_of_stock") {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    async fn make(&mut self, kind: Kind, request: &impl Serialize) -> Result<Item, Stop> {
        self.make_or_refused(kind, request).await?.map_err(|answer| not_made(kind, &answer))
    }

    /// Makes one, writes it down before anything else, and watches until it is listed: whatever else is asked about it
    /// is not about that.
    async fn make_or_refused(&mut self, kind: Kind, request: &impl Serialize) -> Result<Result<Item, Answer>, Stop> {
        let item = match self.api.create(kind, request).await? {
            Ok(item) => item,
            Err(answer) => return Ok(Err(answer)),
        };
        let answered = Instant::now();
        self.made.push(Made { kind, id: item.id.clone(), listed: None });
        let place = self.made.len() - 1;
        for (_, kind, id) in item.volumes() {
            self.made.push(Made { kind, id, listed: None });
        }
        let listed = self.watch(kind, &item.id, answered).await?;
        self.made[place].listed = Some(listed);
        Ok(Ok(item))
    }

    async fn watch(&self, kind: Kind, id: &str, answered: Instant) -> Result<Listed, Stop> {
        let mut listed = Listed::default();
        loop {
            let began = answered.elapsed();
            if self.api.list(kind, &[], None).await?.holds(id) {
                listed.seen = Some(began);
                return Ok(listed);
            }
            listed.lacking = Some(began);
            if began >= LISTED_AT_LAST {
                return Ok(listed);
            }
            let apart = if began < LATER_LOOKS { LOOKS } else { LATER_LOOKS };
            self.api.pause((began + apart).saturating_sub(answered.elapsed())).await?;
        }
    }

    /// When the one with this id was listed, where that was watched.
    pub(crate) fn listed(&self, id: &str) -> Option<Listed> {
        self.made.iter().find(|made| made.id == id).and_then(|made| made.listed)
    }

    /// Starts the server and waits until it runs.
    fn start(&mut self) -> BoxFuture<'_, Result<String, Stop>> {
        async move {
            let id = self.fixture(Fixture::Server).await?;
            let answer = self.api.on_server(&id, "action", &json!({ "action": "poweron" })).await?;
            let answered = Instant::now();
            if answer.is_refusal() {
                return Err(Stop::unknown(format!("the server could not be started: {}", answer.words())));
            }
            self.power_on = Some(PowerOn { answer, left_stopped: None });
            while answered.elapsed() < BOOTS {
                let began = answered.elapsed();
                let server = self.api.read(Kind::Server, &id).await?;
                if let Some(power_on) = self.power_on.as_mut().filter(|_| server.state() != "stopped") {
                    power_on.left_stopped.get_or_insert(began);
                }
                if server.state() == "running" {
                    return Ok(id);
                }
                self.api.pause(LOOKS).await?;
            }
            Err(Stop::unknown(format!("the server did not run within {} s", BOOTS.as_secs())))
        }
        .boxed()
    }

    /// Attaches the block volume to the server, where it is not.
    pub(crate) async fn attach(&self, server: &str, volume: &str) -> Result<(), Stop> {
        if self.is_attached(server, volume).await? {
            return Ok(());
        }
        let body = json!({ "volume_id": volume, "volume_type": "sbs_volume", "boot": false });
        let answer = self.api.on_server(server, "attach-volume", &body).await?;
        if !answer.is_success() {
            return Err(Stop::unknown(format!("the volume could not be attached: {}", answer.words())));
        }
        match self.api.until(ATTACHES, || self.if_attached(server, volume, true)).await? {
            Some(()) => Ok(()),
            None => Err(Stop::unknown(format!("the volume was not attached within {} s", ATTACHES.as_secs()))),
        }
    }

    /// Detaches it. Says what Scaleway answered, and whether the volume has left the server.
    pub(crate) async fn detach(&self, server: &str, volume: &str) -> Result<(Answer, bool), Stop> {
        let answer = self.api.on_server(server, "detach-volume", &json!({ "volume_id": volume })).await?;
        if !answer.is_success() {
            return Ok((answer, false));
        }
        let left = self.api.until(ATTACHES, || self.if_attached(server, volume, false)).await?;
        Ok((answer, left.is_some()))
    }

    pub(crate) async fn is_attached(&self, server: &str, volume: &str) -> Result<bool, Stop> {
        Ok(match self.api.presence(Kind::BlockVolume, volume).await? {
            Presence::Here(item) => item.servers().contains(&server),
            Presence::Gone => false,
        })
    }

    async fn if_attached(&self, server: &str, volume: &str, wanted: bool) -> Result<Option<()>, Stop> {
        Ok((self.is_attached(server, volume).await? == wanted).then_some(()))
    }

    /// Whether the server has gone within this time.
    pub(crate) async fn server_goes(&self, id: &str, limit: Duration) -> Result<bool, Stop> {
        let gone =
            || async move { Ok(matches!(self.api.presence(Kind::Server, id).await?, Presence::Gone).then_some(())) };
        Ok(self.api.until(limit, gone).await?.is_some())
    }
}

fn not_made(kind: Kind, answer: &Answer) -> Stop {
    Stop::unknown(format!("no {kind} could be made: {}", answer.words()))
}
