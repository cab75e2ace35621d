//! Removes what a run made: by the ids that Scaleway's answers named, and by the run's own tag, which nothing else
//! carries. Everything is read again by its id before it is touched, and once more at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use windlass_scaleway::Zone;

use crate::api::{Api, Kind, Presence, Stop};
use crate::bench::Made;

/// How long a single one may take. The longest recorded termination took 118 s.
const GOES: Duration = Duration::from_secs(240);
/// How long a volume may stay attached before its deletion is tried all the same.
const LEAVES: Duration = Duration::from_secs(60);
/// How far two looks at one that goes lie apart.
const APART: Duration = Duration::from_secs(1);
/// When to look again for what a lost answer may still bring.
const LATE: Duration = Duration::from_secs(30);

/// What could not be proven gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    pub kind: Kind,
    /// Its id; `unknown` when it could not even be looked for.
    pub id: String,
    pub zone: String,
    /// Why it is there, or may be.
    pub why: String,
}

/// What a removal came to.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) gone: BTreeSet<(Kind, String)>,
    pub(crate) left: Vec<Leftover>,
}

/// What is to go, and what stands in its way so far.
type Pending = BTreeMap<(Kind, String), String>;

/// Removes everything. `settle` is how long an effect whose answer was lost is waited for.
pub(crate) async fn remove_all(api: &Api, zone: &Zone, made: &[Made], owner_tag: &str, settle: Duration) -> Removed {
    let waiting = || "it was not reached".to_owned();
    let mut pending: Pending = made.iter().map(|made| ((made.kind, made.id.clone()), waiting())).collect();
    let mut removed = Removed::default();
    // A lost answer may have made something; a listing may show it late.
    let looks = if api.lost_an_answer() { vec![settle, LATE, Duration::ZERO] } else { vec![Duration::ZERO; 2] };
    let mut unseen = Vec::new();
    for (number, wait) in looks.into_iter().enumerate() {
        // An interruption shows in the look itself.
        let _ = api.pause(wait).await;
        unseen = look(api, zone, owner_tag, &mut pending).await;
        if number > 0 && pending.is_empty() && unseen.is_empty() {
            break;
        }
        round(api, &mut pending, &mut removed.gone).await;
    }
    let zone = zone.to_string();
    removed.left =
        pending.into_iter().map(|((kind, id), why)| Leftover { kind, id, zone: zone.clone(), why }).collect();
    removed.left.extend(unseen);
    removed
}

/// Adds what carries the run's tag, and the volume that such a server was made with. Filters are on trial, so each
/// listing is read without one as well, and filtered here in any case. The answer is what could not be looked for.
async fn look(api: &Api, zone: &Zone, owner_tag: &str, pending: &mut Pending) -> Vec<Leftover> {
    let mut unseen = Vec::new();
    for kind in Kind::ALL {
        let (all, filtered) = (api.list(kind, &[], None).await, api.list(kind, &[owner_tag], None).await);
        let items = match all.and_then(|all| Ok(all.items.into_iter().chain(filtered?.items))) {
            Ok(items) => items,
            Err(stop) => {
                let why = format!("whether {} of this run are left is not known: {}", kind.plural(), stop.words());
                unseen.push(Leftover { kind, id: "unknown".to_owned(), zone: zone.to_string(), why });
                continue;
            }
        };
        for item in items.filter(|item| item.carries(owner_tag)) {
            let root = item.volumes().into_iter().find(|(position, ..)| position == "0");
            if let Some((_, kind, id)) = root {
                pending.entry((kind, id)).or_insert_with(|| "it came with a server of this run".to_owned());
            }
            pending.entry((kind, item.id)).or_insert_with(|| "it carries the tag of this run".to_owned());
        }
    }
    unseen
}

/// Removes all that is pending, servers first, and takes what is proven gone off the list.
async fn round(api: &Api, pending: &mut Pending, gone: &mut BTreeSet<(Kind, String)>) {
    for kind in Kind::ALL {
        let ids: Vec<String> = pending.keys().filter(|(of, _)| *of == kind).map(|(_, id)| id.clone()).collect();
        let results = join_all(ids.iter().map(|id| remove(api, kind, id))).await;
        for (id, result) in ids.into_iter().zip(results) {
            match result {
                Ok(()) => {
                    pending.remove(&(kind, id.clone()));
                    gone.insert((kind, id));
                }
                Err(why) => {
                    pending.insert((kind, id), why);
                }
            }
        }
    }
}

/// How far a removal is.
enum Step {
    Gone,
    /// It is going, or could not be asked to yet.
    Waiting(String),
    /// It will not be removed by this key.
    Hopeless(String),
}

/// Removes one. A failure is no reason to give up before the time for it is over.
async fn remove(api: &Api, kind: Kind, id: &str) -> Result<(), String> {
    let began = Instant::now();
    let mut latest = String::new();
    loop {
        match step(api, kind, id, began).await {
            Ok(Step::Gone) => return Ok(()),
            Ok(Step::Hopeless(why)) => return Err(why),
            Ok(Step::Waiting(why)) | Err(Stop::Unknown(why)) => latest = why,
            Err(stop) => return Err(ended(&latest, &stop)),
        }
        if began.elapsed() >= GOES {
            return Err(latest);
        }
        if let Err(stop) = api.pause(APART).await {
            return Err(ended(&latest, &stop));
        }
    }
}

fn ended(latest: &str, stop: &Stop) -> String {
    if latest.is_empty() { stop.words() } else { format!("{latest}; {}", stop.words()) }
}

/// Reads it, and tells it to go as its state allows.
async fn step(api: &Api, kind: Kind, id: &str, began: Instant) -> Result<Step, Stop> {
    let Presence::Here(item) = api.presence(kind, id).await? else {
        return Ok(Step::Gone);
    };
    if item.is_protected() {
        // By this run's own probe, which was interrupted.
        api.update(kind, id, &json!({ "protected": false })).await?;
    }
    let attached = kind != Kind::Ip && !item.servers().is_empty();
    let answer = match (kind, item.state()) {
        (Kind::Server, "running" | "stopped in place") => {
            api.on_server(id, "action", &json!({ "action": "terminate" })).await?
        }
        (Kind::Server, "stopped") => api.delete(kind, id).await?,
        (Kind::Server, state) => return Ok(Step::Waiting(format!("it is {state}"))),
        _ if attached && began.elapsed() < LEAVES => {
            return Ok(Step::Waiting(format!("it is attached to {}", item.servers().join(", "))));
        }
        _ => api.delete(kind, id).await?,
    };
    let why = format!("its removal was answered {}", answer.words());
    // A key that may not do it will not be let to in a moment.
    Ok(if matches!(answer.status, 401 | 403) { Step::Hopeless(why) } else { Step::Waiting(why) })
}
