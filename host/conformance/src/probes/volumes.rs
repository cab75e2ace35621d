//! What can be done to a volume that a server uses.

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

use crate::api::{Kind, Presence, Stop};
use crate::bench::Bench;
use crate::fixture::Fixture;
use crate::probe::{Asked, Verdict};

pub(super) fn root_volume_taggable(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::Server).await?;
        let volumes = bench.api.read(Kind::Server, &server).await?.volumes();
        let root = volumes.into_iter().find(|(position, ..)| position == "0");
        let Some((_, kind, id)) = root else {
            return Err(Stop::unknown("the server shows no root volume"));
        };
        let changed = bench.api.update(kind, &id, &json!({ "tags": bench.tags() })).await?;
        if !changed.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", changed.words())));
        }
        let carried = bench.api.read(kind, &id).await?.carries(&bench.owner_tag());
        Ok(if carried {
            Verdict::Holds
        } else {
            Verdict::broken(format!("answered {}, and the volume does not carry the tags", changed.words()))
        })
    }
    .boxed()
}

pub(super) fn attached_volume_refused(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let (server, volume) = (bench.fixture(Fixture::Server).await?, bench.fixture(Fixture::BlockVolume).await?);
        bench.attach(&server, &volume).await?;
        let deleted = bench.api.delete(Kind::BlockVolume, &volume).await?;
        let attached = bench.is_attached(&server, &volume).await?;
        Ok(match (deleted.is_refusal(), attached) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::broken(format!("refused with {}, and detached all the same", deleted.words())),
            (false, _) => Verdict::broken(format!("answered {}", deleted.words())),
        })
    }
    .boxed()
}

pub(super) fn detached_from_stopped(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    detached(bench, Fixture::Server).boxed()
}

pub(super) fn detached_from_running(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    detached(bench, Fixture::RunningServer).boxed()
}

async fn detached(bench: &mut Bench, from: Fixture) -> Asked {
    let (server, volume) = (bench.fixture(from).await?, bench.fixture(Fixture::BlockVolume).await?);
    bench.attach(&server, &volume).await?;
    let (answer, left) = bench.detach(&server, &volume).await?;
    if !answer.is_success() {
        return Ok(Verdict::broken(format!("refused: {}", answer.words())));
    }
    if !left {
        return Ok(Verdict::broken(format!("answered {}, and it is still attached", answer.words())));
    }
    Ok(match bench.api.presence(Kind::BlockVolume, &volume).await? {
        Presence::Here(item) if item.carries(&bench.owner_tag()) => Verdict::Holds,
        Presence::Here(_) => Verdict::broken("it has lost its tags"),
        Presence::Gone => Verdict::broken("it is gone"),
    })
}
