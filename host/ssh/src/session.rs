//! A login on a machine, and the commands that run in it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use russh::client;
use russh::{ChannelMsg, Disconnect, Sig};

use crate::host_key::HostCheck;
use crate::{Error, HostKey, Login, ShownHostKey};

/// How long a connection, its key exchange and the login may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection on which nothing is heard is asked for a sign of life this often, and lost after three that didn't
/// come: a machine that went away would hold its caller until the time limit.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// RFC 4254, section 6.10 lets the exit status come before the last output.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Where to log in, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub address: IpAddr,
    /// The port of its sshd.
    pub port: u16,
    pub user: String,
}

/// What a command reads.
#[derive(Clone, Copy, Debug)]
pub enum Input<'i> {
    /// These bytes, and the end.
    Bytes(&'i [u8]),
    /// Nothing, and no end before the command's own: a command that reads on learns that its caller has gone.
    HeldOpen,
}

/// Which of a command's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A user who is logged in. Dropped, the connection is closed.
pub struct Session(client::Handle<HostCheck>);

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Logs in, within 20 seconds. The machine must show one of the `expected` host keys; where there is none,
    /// whichever it shows is accepted. `shown` has it afterwards, also when this future was dropped.
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::HostKey`], [`Error::LoginRefused`].
    pub async fn open(
        destination: &Destination,
        login: &Login,
        expected: Vec<HostKey>,
        shown: &ShownHostKey,
    ) -> Result<Self, Error> {
        let opened = Self::log_in(destination, login, expected, shown);
        tokio::time::timeout(CONNECT_TIMEOUT, opened).await.unwrap_or_else(|_| {
            let address = destination.address;
            Err(Error::Connection(format!("{address} did not answer within {CONNECT_TIMEOUT:?}")))
        })
    }

    async fn log_in(
        destination: &Destination,
        login: &Login,
        expected: Vec<HostKey>,
        shown: &ShownHostKey,
    ) -> Result<Self, Error> {
        let Destination { address, port, user } = destination;
        let lost = |error: russh::Error| {
            shown.refusal().unwrap_or_else(|| Error::Connection(format!("{address} port {port}: {error}")))
        };
        let check = HostCheck { expected, shown: shown.clone() };
        let config = client::Config {
            keepalive_interval: Some(KEEPALIVE),
            keepalive_max: 3,
            nodelay: true,
            ..client::Config::default()
        };
        let mut session = client::connect(Arc::new(config), (*address, *port), check).await.map_err(lost)?;
        let login = match login {
            Login::Key(identity) => session.authenticate_publickey(user, identity.key()).await,
            Login::Password(password) => session.authenticate_password(user, password.reveal()).await,
        };
        if login.map_err(lost)?.success() { Ok(Self(session)) } else { Err(Error::LoginRefused { user: user.clone() }) }
    }

    /// Runs a command to its end; `output` is given what it writes, as it comes. Dropped, the command is sent SIGTERM
    /// (OpenSSH heeds that since 7.9, except for root) and its input ends; what ignores both goes on there.
    ///
    /// # Errors
    /// [`Error::ExitCode`] and [`Error::Signal`] for a command that failed; [`Error::CommandRefused`];
    /// [`Error::Connection`] where the connection was lost, so that nobody knows how it ended.
    pub async fn run(
        &self,
        command: &str,
        input: Input<'_>,
        mut output: impl FnMut(Stream, &[u8]),
    ) -> Result<(), Error> {
        let lost = |error: russh::Error| Error::Connection(error.to_string());
        let channel = self.0.channel_open_session().await.map_err(lost)?;
        let (mut reader, writer) = channel.split();
        writer.exec(true, command.as_bytes()).await.map_err(lost)?;
        let mut ask = AskToEnd(Some(writer));
        let ended = {
            let write = async {
                if let (Some(writer), Input::Bytes(bytes)) = (&ask.0, input) {
                    // A command that doesn't read its input is free to.
                    if writer.data(bytes).await.is_ok() {
                        let _ = writer.eof().await;
                    }
                }
                std::future::pending::<()>().await
            };
            tokio::pin!(write);
            loop {
                let message = tokio::select! {
                    message = reader.wait() => message,
                    () = &mut write => continue,
                };
                match message {
                    Some(ChannelMsg::Data { data }) => output(Stream::Stdout, &data),
                    Some(ChannelMsg::ExtendedData { data, .. }) => output(Stream::Stderr, &data),
                    Some(ChannelMsg::Failure) => break Err(Error::CommandRefused),
                    Some(ChannelMsg::ExitStatus { exit_status: 0 }) => break Ok(()),
                    Some(ChannelMsg::ExitStatus { exit_status }) => {
                        break Err(Error::ExitCode(i32::try_from(exit_status).unwrap_or(i32::MAX)));
                    }
                    Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                        break Err(Error::Signal(format!("{signal_name:?}")));
                    }
                    Some(_) => {}
                    None => break Err(Error::Connection("it was lost before the command ended".to_owned())),
                }
            }
        };
        ask.0 = None;
        let rest = async {
            while let Some(message) = reader.wait().await {
                match message {
                    ChannelMsg::Data { data } => output(Stream::Stdout, &data),
                    ChannelMsg::ExtendedData { data, .. } => output(Stream::Stderr, &data),
                    ChannelMsg::Close => break,
                    _ => {}
                }
            }
        };
        let _ = tokio::time::timeout(LAST_OUTPUT, rest).await;
        ended
    }

    /// Says goodbye. A farewell that doesn't arrive changes nothing.
    pub async fn close(self) {
        let _ = self.0.disconnect(Disconnect::ByApplication, "", "en").await;
    }
}

/// Sends SIGTERM to the command when its run is given up.
struct AskToEnd(Option<russh::ChannelWriteHalf<client::Msg>>);

impl Drop for AskToEnd {
    fn drop(&mut self) {
        if let (Some(writer), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let _ = writer.signal(Sig::TERM).await;
                let _ = writer.eof().await;
            });
        }
    }
}
