//! How servers are set up, started and removed, and what they leave.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

use super::addresses;
use super::listings::settle;
use crate::api::{Kind, Presence, Stop};
use crate::bench::Bench;
use crate::fixture::Fixture;
use crate::probe::{Asked, Verdict};

const CLOUD_INIT: &str = "#cloud-config\n# Windlass asks whether this arrives as it was sent.\n";
/// As much as a specification takes.
const MAX_CLOUD_INIT_LEN: usize = 128 * 1024;
/// A terminated server is gone after 118 s at most, as recorded; a deleted one at once.
const SERVER_GOES: Duration = Duration::from_secs(240);
/// A volume leaves a deleted server within 6 s, as recorded.
const PARTS_LEAVE: Duration = Duration::from_secs(60);

pub(super) fn user_data_answers(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::Server).await?;
        let set = bench.api.set_cloud_init(&server, Bytes::from_static(CLOUD_INIT.as_bytes())).await?;
        let read = bench.api.cloud_init(&server).await?;
        let mut seen = Vec::new();
        if set.status != 204 || !set.body.is_empty() {
            seen.push(format!("it is answered {} with a body of {} bytes", set.words(), set.body.len()));
        }
        if !read.is_success() || read.body != CLOUD_INIT.as_bytes() {
            seen.push(format!("read back: {} with {} other bytes", read.words(), read.body.len()));
        }
        Ok(if seen.is_empty() { Verdict::Holds } else { Verdict::broken(seen.join("; ")) })
    }
    .boxed()
}

pub(super) fn user_data_size(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::Server).await?;
        let mut content = String::from(CLOUD_INIT);
        content.push_str(&"#".repeat(MAX_CLOUD_INIT_LEN - CLOUD_INIT.len()));
        let set = bench.api.set_cloud_init(&server, content.into()).await?;
        if !set.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", set.words())));
        }
        let read = bench.api.cloud_init(&server).await?;
        Ok(if read.is_success() && read.body.len() == MAX_CLOUD_INIT_LEN {
            Verdict::Holds
        } else {
            Verdict::broken(format!("read back: {} with {} bytes", read.words(), read.body.len()))
        })
    }
    .boxed()
}

pub(super) fn delete_leaves_parts(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let address = bench.fixture(Fixture::SpareAddress).await?;
        let server = bench.server(&[&address]).await?;
        let mut parts = parts_of(&server.volumes());
        parts.push((Kind::Ip, address));
        let deleted = bench.api.delete(Kind::Server, &server.id).await?;
        if !deleted.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", deleted.words())));
        }
        if !bench.server_goes(&server.id, SERVER_GOES).await? {
            return Ok(Verdict::broken(format!("answered {}, and the server stays", deleted.words())));
        }
        remain(bench, &parts).await
    }
    .boxed()
}

pub(super) fn protected_delete_accepted(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.server(&[]).await?;
        let set = bench.api.update(Kind::Server, &server.id, &json!({ "protected": true })).await?;
        if !set.is_success() {
            return Err(Stop::unknown(format!("the server could not be protected: {}", set.words())));
        }
        if !bench.api.read(Kind::Server, &server.id).await?.is_protected() {
            return Ok(Verdict::broken(format!("answered {}, and the server does not show it", set.words())));
        }
        let deleted = bench.api.delete(Kind::Server, &server.id).await?;
        if !deleted.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", deleted.words())));
        }
        Ok(if bench.server_goes(&server.id, SERVER_GOES).await? {
            Verdict::Holds
        } else {
            Verdict::broken(format!("answered {}, and the server stays", deleted.words()))
        })
    }
    .boxed()
}

pub(super) fn action_takes_effect(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let started = bench.fixture(Fixture::RunningServer).await;
        let Some(power_on) = bench.power_on() else {
            return Err(started.err().unwrap_or_else(|| Stop::unknown("the server was not started")));
        };
        let mut seen = Vec::new();
        if power_on.answer.status != 202 {
            seen.push(format!("it is answered {}", power_on.answer.words()));
        }
        match power_on.left_stopped {
            Some(after) if after <= settle() => {}
            Some(after) => seen.push(format!("it was first seen to start after {:.1} s", after.as_secs_f64())),
            None => seen.push("it was never seen to start".to_owned()),
        }
        Ok(if seen.is_empty() { Verdict::Holds } else { Verdict::broken(seen.join("; ")) })
    }
    .boxed()
}

pub(super) fn running_delete_refused(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::RunningServer).await?;
        let deleted = bench.api.delete(Kind::Server, &server).await?;
        let present = matches!(bench.api.presence(Kind::Server, &server).await?, Presence::Here(_));
        if deleted.is_refusal() && present {
            return Ok(Verdict::Holds);
        }
        bench.spend_server();
        Ok(Verdict::broken(format!("answered {}", deleted.words())))
    }
    .boxed()
}

pub(super) fn terminate_leaves_parts(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::RunningServer).await?;
        let address = bench.fixture(Fixture::Address).await?;
        addresses::attach(bench, &address, &server).await?;
        let mut parts = parts_of(&bench.api.read(Kind::Server, &server).await?.volumes());
        parts.push((Kind::Ip, address));
        let reported = bench.api.on_server(&server, "action", &json!({ "action": "terminate" })).await?;
        if !reported.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", reported.words())));
        }
        bench.spend_server();
        if !bench.server_goes(&server, SERVER_GOES).await? {
            return Ok(Verdict::broken(format!("the server is there {} s later", SERVER_GOES.as_secs())));
        }
        remain(bench, &parts).await
    }
    .boxed()
}

/// The volumes that must survive their server: those of Block Storage.
fn parts_of(volumes: &[(String, Kind, String)]) -> Vec<(Kind, String)> {
    let block = volumes.iter().filter(|(_, kind, _)| *kind == Kind::BlockVolume);
    block.map(|(_, kind, id)| (*kind, id.clone())).collect()
}

/// Whether all of these are there, and come free.
async fn remain(bench: &Bench, parts: &[(Kind, String)]) -> Asked {
    let mut seen = Vec::new();
    for (kind, id) in parts {
        let free = || async move {
            Ok(match bench.api.presence(*kind, id).await? {
                Presence::Gone => Some("has gone with it"),
                Presence::Here(item) if item.servers().is_empty() => Some(""),
                Presence::Here(_) => None,
            })
        };
        match bench.api.until(PARTS_LEAVE, free).await? {
            Some("") => {}
            Some(gone) => seen.push(format!("the {kind} {gone}")),
            None => seen.push(format!("the {kind} is attached to it {} s later", PARTS_LEAVE.as_secs())),
        }
    }
    Ok(if seen.is_empty() { Verdict::Holds } else { Verdict::broken(seen.join("; ")) })
}
