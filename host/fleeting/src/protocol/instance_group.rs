//! What a provider is to the host: nine methods.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

/// A group of instances that a GitLab Runner scales up and down.
///
/// *Guarantees of the caller*: `init` comes first and once. `update`, `increase`, `decrease`, `suspend` and `resume`
/// come one after the other from a single loop; `connect_info` and `heartbeat` come at any time, many at once.
///
/// *Assumptions*: that loop waits for each answer, so **a slow method stops all scaling**. Methods start work, they do
/// not wait for machines.
#[async_trait]
pub trait InstanceGroup: Send + Sync + 'static {
    /// Takes the configuration (`plugin_config` as JSON) and how the operator wants instances to be connected to.
    ///
    /// # Errors
    /// Anything that makes the group unusable. The host shows the text to the operator and stops the runner entry.
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure>;

    /// The state of every instance of the group.
    ///
    /// # Errors
    /// Only when nothing can be said about the group at all: the host then skips this whole round of scaling. One
    /// strange instance is no error.
    async fn update(&self) -> Result<Update, Failure>;

    /// Asks for `count` more instances and answers how many of them were accepted.
    ///
    /// Each accepted one must appear in a later [`update`](Self::update), in any state but deleted or timeout: the host
    /// counts it as pending until then, without a limit.
    async fn increase(&self, count: u32) -> Result<u32, Failure>;

    /// Asks for instances to be removed and answers which requests were accepted. The host asks again for an instance
    /// that is still there after its deletion retry interval.
    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure>;

    /// How to connect to one instance, now.
    async fn connect_info(&self, instance: String) -> Result<ConnectInfo, Failure>;

    /// Ends well when the instance is fit for work. Any error reads as "unhealthy".
    async fn heartbeat(&self, instance: String) -> Result<(), Failure>;

    /// Asks for instances to be suspended. Only called where [`Capability::SuspendResume`] was announced.
    async fn suspend(&self, instances: Vec<String>) -> Partial;

    /// Asks for suspended instances to be resumed. Only called where [`Capability::SuspendResume`] was announced.
    async fn resume(&self, instances: Vec<String>) -> Partial;

    /// The runner is shutting down; more calls may follow, the process's end is asked for separately.
    async fn shutdown(&self) -> Result<(), Failure>;
}

/// Why a call failed, in words. Nothing but the text crosses the wire: fleeting's own server drops kinds and codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    /// A failure in the words of an error and its sources, outermost first.
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        Self(windlass_process::with_causes(error))
    }
}

/// A call that may have succeeded for some instances only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// The instances for which the request was accepted.
    pub succeeded: Vec<String>,
    /// What went wrong with the others.
    pub failure: Option<Failure>,
}

/// What the host learns about an instance. The wire knows no other states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// On its way up.
    Creating,
    /// Ready to be connected to.
    Running,
    /// On its way out: the host neither uses nor deletes it, and counts it against the maximum until it is left out.
    Deleting,
    /// Gone: the host forgets it at once.
    Deleted,
    /// Given up: the host forgets it at once.
    Timeout,
    /// On its way to suspension.
    Suspending,
    Suspended,
    /// On its way back from suspension.
    Resuming,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
            Self::Timeout => "timeout",
            Self::Suspending => "suspending",
            Self::Suspended => "suspended",
            Self::Resuming => "resuming",
        })
    }
}

/// One instance's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The instance's identifier: opaque to the host, shown in its log.
    pub instance: String,
    pub state: State,
}

/// The answer to an update.
pub struct Update {
    /// One entry for each instance. An instance that is left out is taken for deleted when it was deleting or asked to
    /// be removed, and otherwise missed; the sixth miss in a row makes the host forget it.
    pub reports: Vec<Report>,
    /// Called once when the whole answer has been handed to the transport, and never when it was cut short.
    pub delivered: Option<Box<dyn FnOnce() + Send>>,
}

impl Update {
    /// These reports, and what is to be called when they have been handed over.
    pub fn of(reports: impl IntoIterator<Item = (String, State)>, delivered: impl FnOnce() + Send + 'static) -> Self {
        let reports = reports.into_iter().map(|(instance, state)| Report { instance, state }).collect();
        Self { reports, delivered: Some(Box::new(delivered)) }
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Update").field("reports", &self.reports).finish_non_exhaustive()
    }
}

/// What a provider can do beyond the nine methods' plain meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Instances can be suspended and resumed.
    SuspendResume,
}

impl Capability {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::SuspendResume => "suspend_resume",
        }
    }
}

/// A provider introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Names the group in the host's log.
    pub id: String,
    /// The most instances the group can hold. The host refuses a group that holds fewer than its own maximum.
    pub max_size: u32,
    /// The plugin's version.
    pub version: String,
    /// One line about the build.
    pub build_info: String,
    /// What it can do.
    pub capabilities: Vec<Capability>,
}

/// How to connect to instances: as the operator configured it, or as the provider answers for one instance.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectorConfig {
    /// `linux`, `windows`, ... Empty: not said.
    pub operating_system: String,
    /// `amd64`, `arm64`. Empty: not said.
    pub architecture: String,
    /// `ssh`, `winrm` or `winrm+https`. Empty: not said.
    pub protocol: String,
    /// 0: the protocol's own.
    pub protocol_port: i64,
    /// Empty: not said.
    pub username: String,
    /// Empty: none.
    pub password: String,
    /// A private key in PEM form. Empty: none.
    pub key: Bytes,
    /// Whether the operator's credentials are to be used as they are.
    pub use_static_credentials: bool,
    /// Nanoseconds between signs of life on a connection.
    pub keepalive_ns: i64,
    /// Nanoseconds that connecting may take.
    pub timeout_ns: i64,
}

/// Without the password and the key.
impl fmt::Debug for ConnectorConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = |given: bool| if given { "[redacted]" } else { "" };
        formatter
            .debug_struct("ConnectorConfig")
            .field("operating_system", &self.operating_system)
            .field("architecture", &self.architecture)
            .field("protocol", &self.protocol)
            .field("protocol_port", &self.protocol_port)
            .field("username", &self.username)
            .field("password", &secret(!self.password.is_empty()))
            .field("key", &secret(!self.key.is_empty()))
            .field("use_static_credentials", &self.use_static_credentials)
            .field("keepalive_ns", &self.keepalive_ns)
            .field("timeout_ns", &self.timeout_ns)
            .finish()
    }
}

/// How to connect to one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectInfo {
    /// Protocol and credentials.
    pub connector: ConnectorConfig,
    /// The address on the internet. Empty: none.
    pub external_address: String,
    /// The address in a private network. Empty: none.
    pub internal_address: String,
    /// Unix seconds until which this answer holds. `None`: for as long as the instance lives.
    pub expires: Option<i64>,
}
