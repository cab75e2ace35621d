use std::time::Duration;

use serde_json::{Value, json};

use super::{Event, World};
use crate::apple_silicon::AppleSiliconPool;
use crate::catalogue::apple_silicon as catalogue;
use crate::clock::{Instant, Micros, instant, micros, zulu_instant};
use crate::offer::{Boot, Offer};
use crate::options::Span;

/// How much is remembered of a host's life, and how many hosts that are gone.
const REMEMBERED: usize = 1_000;
const REMEMBERED_GONE: usize = 10_000;

/// An Apple silicon server: a physical host.
#[derive(Debug, Clone)]
pub(crate) struct AppleServer {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) server_type: String,
    pub(crate) os: String,
    pub(crate) project: String,
    pub(crate) organization: String,
    pub(crate) ip: String,
    pub(crate) password: String,
    pub(crate) status: AppleStatus,
    pub(crate) delivered: bool,
    pub(crate) enable_vpc: bool,
    pub(crate) enable_kext: bool,
    pub(crate) commitment: Commitment,
    pub(crate) public_bandwidth_bps: u64,
    pub(crate) created: Instant,
    pub(crate) updated: Instant,
    pub(crate) deletable: Instant,
    pub(crate) deletion_scheduled: bool,
    /// Counts the changes of status, as a server's turn does.
    pub(crate) turn: u64,
    /// Counts the times that a deletion was scheduled or called off.
    pub(crate) deletion_turn: u64,
    pub(crate) history: AppleHistory,
}

/// What was done to a host, and under which name it was done: no API tells, and tests have to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppleHistory {
    pub(crate) reboots: u64,
    reinstalls: u64,
    wipes: Vec<(Micros, String)>,
    names: Vec<(Micros, String)>,
}

impl AppleHistory {
    pub(crate) fn named(&mut self, at: Micros, name: &str) {
        if self.names.last().is_none_or(|(_, last)| last != name) {
            remember(&mut self.names, REMEMBERED, (at, name.to_owned()));
        }
    }

    pub(crate) fn wiped(&mut self, at: Micros, name: &str) {
        self.reinstalls += 1;
        remember(&mut self.wipes, REMEMBERED, (at, name.to_owned()));
    }

    fn show(&self) -> Value {
        let list = |entries: &[(Micros, String)]| -> Vec<Value> {
            entries.iter().map(|(at, name)| json!({"at_ms": at / 1_000, "name": name})).collect()
        };
        json!({
            "reboots": self.reboots,
            "reinstalls": self.reinstalls,
            "reinstalled_at": self.wipes.last().map(|(at, _)| zulu_instant(instant(*at))),
            "wiped": list(&self.wipes),
            "names": list(&self.names),
        })
    }
}

fn remember<T>(list: &mut Vec<T>, most: usize, entry: T) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(entry);
}

/// How a host went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionCause {
    Deleted,
    Scheduled,
    BehindOurBack,
}

impl DeletionCause {
    fn as_str(self) -> &'static str {
        match self {
            DeletionCause::Deleted => "delete",
            DeletionCause::Scheduled => "schedule",
            DeletionCause::BehindOurBack => "control",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum AppleStatus {
    Starting,
    Ready,
    Error,
    Rebooting,
    Updating,
    Locked,
    Reinstalling,
    Busy,
}

impl AppleStatus {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Commitment {
    None,
    #[strum(serialize = "duration_24h")]
    Duration24h,
    RenewedMonthly,
}

impl Commitment {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a new host is to be.
#[derive(Debug)]
pub(crate) struct NewAppleServer {
    pub(crate) zone: String,
    /// `None` or empty: `as-...`, as the SDK would call it.
    pub(crate) name: Option<String>,
    pub(crate) server_type: String,
    pub(crate) os: String,
    pub(crate) project: Option<String>,
    pub(crate) enable_vpc: bool,
    pub(crate) enable_kext: bool,
    pub(crate) commitment: Commitment,
    pub(crate) public_bandwidth_bps: u64,
    /// How long ago it was made.
    pub(crate) age: Duration,
}

impl World {
    /// Makes a host, `starting`.
    pub(crate) fn add_apple_server(&mut self, new: NewAppleServer) -> String {
        let id = self.random.id();
        let ip = self.random.ipv4().to_string();
        let password = self.random.id()[..8].to_owned();
        let project = new.project.unwrap_or_else(|| self.options.default_project.clone());
        let stamp = self.stamp();
        let created = instant(stamp).saturating_sub(instant(micros(new.age)));
        // Assumption: a customer's host can be deleted 24 hours after its creation; the recorded organization was
        // exempt and its commitment came back as `none` although 24 hours were asked for.
        let floor = self.apple_floor(&new.server_type, &project);
        let exempt = floor.is_zero() && new.commitment == Commitment::Duration24h;
        let name = new.name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("as-{}", &id[..8]));
        let mut history = AppleHistory::default();
        history.named(stamp, &name);
        let server = AppleServer {
            id: id.clone(),
            zone: new.zone,
            name,
            server_type: new.server_type,
            os: new.os,
            organization: self.organization_of(&project),
            project,
            ip,
            password,
            status: AppleStatus::Starting,
            delivered: false,
            enable_vpc: new.enable_vpc,
            enable_kext: new.enable_kext,
            commitment: if exempt { Commitment::None } else { new.commitment },
            public_bandwidth_bps: new.public_bandwidth_bps,
            created,
            updated: created,
            deletable: created.saturating_add(instant(micros(floor))),
            deletion_scheduled: false,
            turn: 0,
            deletion_turn: 0,
            history,
        };
        self.apple_servers.insert(id.clone(), server);
        id
    }

    /// How long a new host must be kept.
    fn apple_floor(&self, server_type: &str, project: &str) -> Duration {
        let rules = &self.options.apple_silicon;
        let exempt = rules.exempt_types.contains(server_type) || rules.exempt_projects.contains(project);
        if exempt { Duration::ZERO } else { self.options.apple_silicon_commitment }
    }

    /// Hosts that were there before anybody asked: delivered and ready.
    pub(crate) fn add_apple_pool(&mut self, pool: &AppleSiliconPool) -> Vec<String> {
        let named = pool.operating_system.as_deref().map(|name| catalogue::os_named(self.options.seed, name));
        let os = named.unwrap_or_else(|| catalogue::default_os(self.options.seed, &pool.server_type));
        (0..pool.count)
            .map(|place| {
                let name = format!("{}{}", pool.prefix, self.random.id());
                let id = self.add_apple_server(NewAppleServer {
                    zone: pool.zone.clone(),
                    name: Some(name),
                    server_type: pool.server_type.clone(),
                    os: os.clone(),
                    project: pool.project.clone(),
                    enable_vpc: false,
                    enable_kext: false,
                    commitment: Commitment::Duration24h,
                    public_bandwidth_bps: catalogue::default_bandwidth(&pool.server_type).unwrap_or_default(),
                    age: pool.age(place),
                });
                if let Some(server) = self.apple_servers.get_mut(&id) {
                    server.status = AppleStatus::Ready;
                    server.delivered = true;
                }
                id
            })
            .collect()
    }

    /// A host goes, and its address is free.
    pub(crate) fn remove_apple_server(&mut self, id: &str, how: DeletionCause) {
        let Some(server) = self.apple_servers.remove(id) else { return };
        if let Ok(address) = server.ip.parse() {
            self.random.free_ipv4(address);
        }
        let mut shown = self.show_apple_server(&server);
        shown["deleted_at"] = zulu_instant(instant(self.now())).into();
        shown["deleted_by"] = how.as_str().into();
        remember(&mut self.gone_apple_servers, REMEMBERED_GONE, shown);
    }

    /// A host as its API shows it, sealed, and what the simulator knows besides.
    pub(crate) fn show_apple_server(&self, host: &AppleServer) -> Value {
        let mut shown = self.show_apple_host(host, true);
        shown["simulator"] = host.history.show();
        shown
    }

    /// Somebody writes another name; the last one counts.
    pub(crate) fn rename_apple_server(&mut self, id: &str, name: String) {
        let now = self.now();
        let stamp = self.stamp();
        if let Some(server) = self.apple_servers.get_mut(id) {
            server.history.named(now, &name);
            server.name = name;
            server.updated = instant(stamp);
        }
    }

    /// A host is wiped and set up anew, under the name that it has now.
    pub(crate) fn reinstall_apple_server(&mut self, id: &str, os: String, enable_kext: bool) {
        let password = self.random.id()[..8].to_owned();
        let now = self.now();
        if let Some(server) = self.apple_servers.get_mut(id) {
            server.os = os;
            server.enable_kext = enable_kext;
            server.password = password;
            server.history.wiped(now, &server.name);
        }
        let span = self.options.durations.apple_silicon_reinstall;
        self.begin_apple(id, AppleStatus::Reinstalling, span, |offer| offer.reinstall);
    }

    /// A host does something that ends in `ready`, after a duration out of this span, unless an offer has another one.
    pub(crate) fn begin_apple(
        &mut self,
        id: &str,
        status: AppleStatus,
        span: Span,
        offered: fn(&Offer) -> Option<Span>,
    ) {
        let Some(server) = self.apple_servers.get(id) else { return };
        let (zone, server_type) = (server.zone.clone(), server.server_type.clone());
        let Boot { duration, slowdown, fails } = self.draw_boot(&zone, &server_type, offered);
        let duration = duration.unwrap_or_else(|| self.drawn(span)).mul_f64(slowdown);
        let stamp = self.stamp();
        let Some(server) = self.apple_servers.get_mut(id) else { return };
        server.turn += 1;
        server.status = status;
        server.updated = instant(stamp);
        let turn = server.turn;
        self.after(duration, Event::AppleReady { id: id.to_owned(), turn, fails });
    }

    /// A duration out of a span, evenly spread.
    fn drawn(&mut self, span: Span) -> Duration {
        let spread = span.longest.saturating_sub(span.shortest);
        let spread = u64::try_from(spread.as_millis()).unwrap_or(u64::MAX);
        span.shortest.saturating_add(Duration::from_millis(self.random.jitter_ms(spread)))
    }

    pub(super) fn apple_ready(&mut self, id: &str, turn: u64, fails: bool) {
        let stamp = self.stamp();
        if let Some(server) = self.apple_servers.get_mut(id)
            && server.turn == turn
        {
            server.status = if fails { AppleStatus::Error } else { AppleStatus::Ready };
            server.delivered |= !fails;
            server.updated = instant(stamp);
        }
    }

    /// Decides when a scheduled deletion happens. Assumption: the SDK says "automatic deletion depending on
    /// deletable_at date"; nothing was recorded.
    pub(crate) fn schedule_apple_deletion(&mut self, id: &str) {
        let now = self.now();
        let Some(server) = self.apple_servers.get_mut(id) else { return };
        server.deletion_turn += 1;
        let turn = server.deletion_turn;
        let at = Micros::try_from(server.deletable).unwrap_or_default().max(now);
        if server.deletion_scheduled {
            self.at(at, Event::AppleDeletion { id: id.to_owned(), turn });
        }
    }

    pub(super) fn apple_deletion_due(&mut self, id: &str, turn: u64) {
        if self.apple_servers.get(id).is_some_and(|server| server.deletion_turn == turn) {
            self.remove_apple_server(id, DeletionCause::Scheduled);
        }
    }
}
