//! A run on the host: what goes there, what comes back.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;
use windlass_cluster::{Captured, Tail};
use windlass_ssh::{Destination, Error, HostKey, Input, Login, Session, ShownHostKey, Stream};

/// One run on one host.
pub(super) struct Run<'r> {
    pub(super) destination: Destination,
    pub(super) login: &'r Login,
    /// Host keys of which the host must show one; none: whichever.
    pub(super) host_keys: Vec<HostKey>,
    pub(super) archive: &'r [u8],
    pub(super) time_limit: Duration,
    /// Bytes of output that are kept.
    pub(super) kept: usize,
}

/// What came back.
pub(super) struct Ran {
    pub(super) ended: Result<(), Problem>,
    pub(super) host_key: Option<HostKey>,
    /// Both streams, as they came.
    pub(super) output: Captured,
}

/// How a run fails. The words continue a sentence that begins with the script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Ssh(#[from] Error),
    #[error("did not end within its time limit of {} s and was ended", .0.as_secs())]
    TimedOut(Duration),
}

impl Run<'_> {
    /// Runs the script once. What an earlier run has left on the host is ended first. Dropped, this run is ended, too.
    pub(super) async fn perform(self) -> Ran {
        let (shown, mut output) = (ShownHostKey::default(), Tail::new(self.kept));
        let limit = self.time_limit;
        let ended = match timeout(limit, self.visit(&shown, &mut output)).await {
            Ok(ended) => ended.map_err(Problem::Ssh),
            Err(_) => Err(Problem::TimedOut(limit)),
        };
        Ran { ended, host_key: shown.accepted(), output: output.finish() }
    }

    async fn visit(self, shown: &ShownHostKey, output: &mut Tail) -> Result<(), Error> {
        let session = Session::open(&self.destination, self.login, self.host_keys, shown).await?;
        // Of its own, so that a run that ends late removes nothing of its successor's.
        let folder = format!("$HOME/.windlass-setup/{}", uuid::Uuid::new_v4().simple());
        let mut keep = |_: Stream, bytes: &[u8]| output.push(bytes);
        let ended = match session.run(&prepare(&folder), Input::Bytes(self.archive), &mut keep).await {
            Ok(()) => session.run(&format!("/bin/bash \"{folder}/run\""), Input::HeldOpen, &mut keep).await,
            Err(error) => Err(error),
        };
        session.close().await;
        ended
    }
}

/// Ends and removes what earlier runs have left, and unpacks the archive that it reads.
fn prepare(folder: &str) -> String {
    format!(
        "/bin/bash -c 'umask 077; for old in \"$HOME/.windlass-setup\"/*/; do [ -d \"$old\" ] || continue; \
         if [ -f \"$old/stop\" ]; then /bin/bash \"$old/stop\" || exit; fi; rm -rf \"$old\"; done; \
         mkdir -p \"{folder}/files\" \"{folder}/secrets\" && cd \"{folder}\" && tar -xf -'"
    )
}

/// Where the host is reached.
pub(super) fn destination(address: &str, port: u16, user: &str) -> Option<Destination> {
    let address: IpAddr = address.parse().ok()?;
    Some(Destination { address, port, user: user.to_owned() })
}
