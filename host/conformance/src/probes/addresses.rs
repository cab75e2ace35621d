//! How addresses go.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

use crate::api::{Answer, Kind, Presence, Stop};
use crate::bench::Bench;
use crate::fixture::Fixture;
use crate::probe::{Asked, Verdict};

/// A deletion is answered when it is done, as recorded; this is what a straggler gets.
const GOES: Duration = Duration::from_secs(10);

pub(super) fn gone_address_answers(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let id = bench.fixture(Fixture::SpareAddress).await?;
        let deleted = bench.api.delete(Kind::Ip, &id).await?;
        if !deleted.is_success() {
            return Err(Stop::unknown(format!("the address could not be deleted: {}", deleted.words())));
        }
        let (api, id) = (&bench.api, id.as_str());
        let refused = || async move { Ok(Some(api.get(Kind::Ip, id).await?).filter(|answer| !answer.is_success())) };
        Ok(match api.until(GOES, refused).await? {
            Some(answer) if answer.proves_absence() => Verdict::Holds,
            Some(answer) => Verdict::broken(format!("it is answered {}", answer.words())),
            None => Verdict::broken(format!("it is still answered 200 after {} s", GOES.as_secs())),
        })
    }
    .boxed()
}

pub(super) fn attached_address_deletable(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let server = bench.fixture(Fixture::Server).await?;
        let id = bench.fixture(Fixture::SpareAddress).await?;
        attach(bench, &id, &server).await?;
        let deleted: Answer = bench.api.delete(Kind::Ip, &id).await?;
        if !deleted.is_success() {
            return Ok(Verdict::broken(format!("refused: {}", deleted.words())));
        }
        let (api, id) = (&bench.api, id.as_str());
        let gone = || async move { Ok(matches!(api.presence(Kind::Ip, id).await?, Presence::Gone).then_some(())) };
        Ok(match api.until(GOES, gone).await? {
            Some(()) => Verdict::Holds,
            None => {
                Verdict::broken(format!("answered {}, and it is there {} s later", deleted.words(), GOES.as_secs()))
            }
        })
    }
    .boxed()
}

/// Gives the address to the server.
pub(super) async fn attach(bench: &Bench, id: &str, server: &str) -> Result<(), Stop> {
    let attached = bench.api.update(Kind::Ip, id, &json!({ "server": server })).await?;
    if attached.is_success() {
        Ok(())
    } else {
        Err(Stop::unknown(format!("the address could not be attached: {}", attached.words())))
    }
}
