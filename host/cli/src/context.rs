//! What most commands need: the configuration, the state directory, the client. Each is opened when it is first needed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures::future::BoxFuture;
use rustix::fs::{Access, AtFlags};
use tempfile::TempDir;
use windlass_cluster::{
    ClusterLimits, ClusterOperation, ClusterOptions, ClusterReader, ClusterStatus, ClusterStore, Clusters,
    LogClusterStore,
};
use windlass_distribution::{LockFile, Registries, RegistryOptions, Trust};
use windlass_inspect::failure::Failure;
use windlass_inspect::output::Output;
use windlass_inspect::{Commands, Inspector};
use windlass_lifecycle::log::SharedLog;
use windlass_lifecycle::{
    Error as LifecycleError, Journal, Lifecycle, MachineReader, Options, OtherOwners, OwnerName, StateDirectory,
    scaleway_capabilities, tag_lock,
};
use windlass_policy::slots::SlotName;
use windlass_policy::{Asker, Capability, Compiler, Error as PolicyError, Host, HostOptions, Source, Watch};
use windlass_scaleway::{
    Client, ConfigurationError, ExplicitSettings, Limits, SecretKey, Settings, Transport, TransportError, Zone,
    check_api_url, check_identifier,
};

use crate::COMPILE;
use crate::arguments::Global;
use crate::configuration::{self, Configuration, Environment, StateUrl, environment_of_process};
use crate::detached;

/// How long a look at Scaleway may take whose answer is not what a command was asked for.
const ASIDE: Duration = Duration::from_secs(10);

/// What the locked tags have to say: those in the lock file beside the configuration, or in the database that has the
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// The digests of tags, where there is a configuration.
    Used,
    /// The same, and there has to be one.
    Required,
    /// Nothing: a tag is looked up.
    Ignored,
}

/// One invocation.
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) configuration: Configuration,
    pub(crate) global: Global,
    pub(crate) environment: Environment,
    /// A folder that is removed at the end, once it is needed.
    scratch: OnceLock<TempDir>,
}

impl Context {
    /// Reads the configuration; touches nothing else.
    pub(crate) fn load(global: Global) -> Result<Self, Failure> {
        let environment = environment_of_process();
        let configuration = configuration::load(global.config.as_deref(), &environment)?;
        let context = Context::new(global, configuration, environment);
        context.note_misspelt_variables();
        Ok(context)
    }

    /// Says which variables are like those that are read, and are not read.
    fn note_misspelt_variables(&self) {
        let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        for prefix in ["WINDLASS_", "SCW_"] {
            let known = || VARIABLES.iter().filter_map(|name| name.strip_prefix(prefix));
            for rest in names.iter().filter_map(|name| name.strip_prefix(prefix)) {
                if let Some(meant) = windlass_policy::nearest(rest, known()).filter(|meant| *meant != rest) {
                    let words = format!("note: the variable {prefix}{rest} is not used; did you mean {prefix}{meant}?");
                    self.output.say(&words);
                }
            }
        }
    }

    /// An invocation under a configuration that stands in no file yet.
    pub(crate) fn new(global: Global, configuration: Configuration, environment: Environment) -> Self {
        Context { output: global.output(), configuration, global, environment, scratch: OnceLock::new() }
    }

    /// A copy that another thread can own.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.global.clone(), self.configuration.clone(), self.environment.clone())
    }

    /// Whether more was asked for than the result alone.
    pub(crate) fn verbose(&self) -> bool {
        self.global.verbose > 0
    }

    /// Credentials and defaults; what the user should know about them is said.
    pub(crate) fn settings(&self, project: Option<&str>) -> Result<Settings, Failure> {
        let settings = self.quiet_settings(project)?;
        for notice in settings.notices() {
            self.output.say(&format!("note: {notice}"));
        }
        Ok(settings)
    }

    /// As [`Context::settings`], without saying anything.
    pub(crate) fn quiet_settings(&self, project: Option<&str>) -> Result<Settings, Failure> {
        let explicit = self.explicit_settings(project)?;
        let of_project =
            project.and_then(|id| check_identifier(id).err().map(|problem| format!("--project {id:?} {problem}")));
        let of_url = self.global.api_url.as_deref().and_then(|url| check_api_url(url).err());
        // Told by the names of the options, and both at once.
        let wrong: Vec<String> =
            of_project.into_iter().chain(of_url.map(|problem| format!("--api-url {problem}"))).collect();
        if !wrong.is_empty() {
            return Err(Failure::usage(wrong.join("; ")));
        }
        self.load_settings(&explicit).map_err(|error| {
            let failure = Failure::usage(error.to_string());
            match error {
                ConfigurationError::Missing { .. } => failure.remedy(
                    "`windlass demo` needs no account; docs/operating.md says where Windlass looks for credentials",
                ),
                _ => failure,
            }
        })
    }

    /// What Scaleway's variables and file say where `explicit` says nothing.
    pub(crate) fn load_settings(&self, explicit: &ExplicitSettings) -> Result<Settings, ConfigurationError> {
        let environment = self.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Settings::load(explicit, &environment)
    }

    /// What options and our configuration say of credentials and defaults.
    ///
    /// An option beats a variable and a variable beats a file, ours before Scaleway's. So what our file says counts
    /// only where the variable says nothing.
    pub(crate) fn explicit_settings(&self, project: Option<&str>) -> Result<ExplicitSettings, Failure> {
        let unless_variable = |option: Option<&str>, variable: &str, configured: Option<&String>| {
            option.map(str::to_owned).or_else(|| {
                let variable_speaks = self.environment.get(variable).is_some_and(|value| !value.is_empty());
                if variable_speaks { None } else { configured.cloned() }
            })
        };
        let zone = unless_variable(self.global.zone.as_deref(), "SCW_DEFAULT_ZONE", self.configuration.zone.as_ref())
            .map(|zone| zone.parse::<Zone>())
            .transpose()
            .map_err(|error| {
                let place = if self.global.zone.is_some() { "--zone" } else { "`zone` in the configuration" };
                Failure::usage(format!("{place}: {error}"))
            })?;
        let mut limits = Limits::default();
        let wanted = &self.configuration.limits;
        if let Some(calls) = wanted.requests_per_second.and_then(std::num::NonZeroU32::new) {
            limits.calls_per_second = calls;
            limits.burst = calls;
        }
        if let Some(calls) = wanted.concurrent_requests.and_then(std::num::NonZeroU32::new) {
            limits.concurrent_calls = calls;
        }
        let mut explicit = ExplicitSettings::default();
        explicit.profile =
            unless_variable(self.global.profile.as_deref(), "SCW_PROFILE", self.configuration.profile.as_ref());
        explicit.project_id = unless_variable(project, "SCW_DEFAULT_PROJECT_ID", self.configuration.project.as_ref());
        explicit.zone = zone;
        explicit.api_url =
            unless_variable(self.global.api_url.as_deref(), "SCW_API_URL", self.configuration.api_url.as_ref());
        explicit.limits = Some(limits);
        Ok(explicit)
    }

    /// Where the state directory is: option or variable, configuration, usual place.
    pub(crate) fn state_path(&self) -> Result<PathBuf, Failure> {
        self.configuration.state_path(self.global.state_dir.as_deref(), &self.environment)
    }

    /// The state directory, made where it is missing.
    pub(crate) fn state_directory(&self) -> Result<StateDirectory, Failure> {
        let path = self.state_path()?;
        if let Some(meant) = misspelt(&path) {
            let (path, meant) = (path.display(), meant.display());
            return Err(Failure::usage(format!("there is no state directory {path}; did you mean {meant}?"))
                .because("with another state directory, what you created before would not be found")
                .remedy(format!("correct --state-dir, WINDLASS_STATE_DIR or state_dir; for a new one: mkdir {path}")));
        }
        if is_of_another(&path) {
            let path = path.display();
            return Err(Failure::usage(format!("{path} has files of something else, and no state of Windlass"))
                .remedy("name another folder with --state-dir, WINDLASS_STATE_DIR or state_dir in the configuration"));
        }
        self.open_state(&path)
    }

    /// The state directory at this path, made where it is missing.
    pub(crate) fn open_state(&self, path: &Path) -> Result<StateDirectory, Failure> {
        let state = StateDirectory::open(path).map_err(|error| {
            let failure = Failure::usage("the state directory cannot be used").because(error.to_string());
            failure.remedy(match error {
                LifecycleError::StateDirectoryIsUrl { .. } => {
                    "name a folder; a database is named with WINDLASS_STATE or state in the configuration"
                }
                _ => "name another with --state-dir, WINDLASS_STATE_DIR or state_dir in the configuration",
            })
        })?;
        Ok(match self.shared_state()? {
            Some(shared) => state.with_shared_log(shared),
            None => state,
        })
    }

    /// The database that has journal and clusters: variable or configuration. `None`: the state directory has them.
    pub(crate) fn shared_state(&self) -> Result<Option<Arc<dyn SharedLog>>, Failure> {
        let variable = self.environment.get(STATE).filter(|value| !value.is_empty());
        let (url, place) = match (variable, &self.configuration.state) {
            (Some(url), _) => (url.as_str(), STATE),
            (None, Some(StateUrl(url))) => (url.as_str(), "`state` in the configuration"),
            (None, None) => return Ok(None),
        };
        self.database(url, place).map(Some)
    }

    /// The database that a URL names. `place` says where the URL was read, for messages.
    #[cfg(feature = "postgres")]
    pub(crate) fn database(&self, url: &str, place: &str) -> Result<Arc<dyn SharedLog>, Failure> {
        let host = windlass_process::host_name_or_unknown();
        match windlass_postgres::PostgresState::parse(url, &self.environment, host) {
            Ok(database) => Ok(Arc::new(database)),
            Err(error) => Err(Failure::usage("the database for the state cannot be used")
                .at(place)
                .because(error.to_string())
                .remedy("write it like postgres://user@host/database")),
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn database(&self, _url: &str, place: &str) -> Result<Arc<dyn SharedLog>, Failure> {
        Err(Failure::usage("this windlass was built without PostgreSQL").at(place))
    }
}

/// The state directory beside this place that was probably meant, where there is nothing at it. Names that differ in
/// their numbers alone are meant to differ.
fn misspelt(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    if name.len() < SHORTEST_NAME {
        return None;
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let is_used = |entry: &std::fs::DirEntry| entry.path().join(JOURNAL).is_file();
    let beside = std::fs::read_dir(folder).ok()?.flatten().take(MAX_NEIGHBOURS).filter(is_used);
    let without_numbers = |name: &str| name.replace(|letter: char| letter.is_ascii_digit(), "");
    let names = beside.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.filter(|other| without_numbers(other) != without_numbers(name)).collect();
    windlass_policy::nearest(name, names.iter().map(String::as_str)).map(|near| folder.join(near))
}

/// Whether a folder was filled by another program: our files would be mixed with its own.
fn is_of_another(path: &Path) -> bool {
    let is_ours = OURS.iter().any(|name| path.join(name).exists());
    let is_visible = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        !name.to_string_lossy().starts_with('.') && name != "lost+found"
    };
    !is_ours && std::fs::read_dir(path).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_visible)))
}

/// The variables that this program reads.
const VARIABLES: [&str; 17] = [
    "SCW_ACCESS_KEY",
    "SCW_API_URL",
    "SCW_CONFIG_PATH",
    "SCW_DEFAULT_ORGANIZATION_ID",
    "SCW_DEFAULT_PROJECT_ID",
    "SCW_DEFAULT_REGION",
    "SCW_DEFAULT_ZONE",
    "SCW_INSECURE",
    "SCW_PROFILE",
    "SCW_SECRET_KEY",
    "SCW_SECRET_KEY_FILE",
    "WINDLASS_CONFIG",
    "WINDLASS_LOG",
    "WINDLASS_PAGER",
    STATE,
    "WINDLASS_STATE_DIR",
    "WINDLASS_TLS_CERT",
];
/// One of these is in every state directory that was used.
const OURS: [&str; 6] = [JOURNAL, "owner", "history", "cache.key", "decisions", "rehearsals"];
/// The variable that names the database.
pub(crate) const STATE: &str = "WINDLASS_STATE";
/// Shorter names are like each other without any mistake.
const SHORTEST_NAME: usize = 4;
/// The file by which a state directory that was used is known.
const JOURNAL: &str = "journal.sqlite";
/// Entries of a folder that are looked at for a misspelt name.
const MAX_NEIGHBOURS: usize = 1_000;

/// Servers that are worked on at the same time where nothing is said: as many as may be said.
pub(crate) const DEFAULT_PARALLEL: usize = 100;

impl Context {
    /// How many servers are worked on at the same time, where that is said.
    pub(crate) fn parallel(&self, option: Option<u32>) -> Option<usize> {
        option.or(self.configuration.limits.parallel).map(|parallel| parallel as usize)
    }

    /// Shows what is in the state directory.
    pub(crate) fn inspector<'a>(&self, state: &'a StateDirectory) -> Inspector<'a> {
        let commands = Commands { operations: "windlass operation list", decisions: "windlass decision list" };
        Inspector { state, output: self.output, commands }
    }

    /// What is said beside "nothing": whether the state directory can know anything, and whose servers there are beside
    /// ours in the zone, as far as Scaleway can be asked. Beside a state directory that was used, Scaleway is asked
    /// only `even_if_used`: a script may list open operations often.
    pub(crate) async fn other_owners(&self, state: &StateDirectory, even_if_used: bool) -> Vec<String> {
        let mut found = match OtherOwners::of(state, self.configuration.owner.as_ref()) {
            Ok(found) => found,
            Err(error) => return vec![format!("whether the state directory has anything cannot be read: {error}")],
        };
        if found.is_new {
            // A cluster can exist before its first server.
            found.is_new = self.cluster_list().await.is_ok_and(|clusters| clusters.is_empty());
        }
        if (found.is_new || even_if_used)
            && let Ok((client, zone)) = self.hasty_client()
            && let Err(error) = found.look(&client, &zone).await
        {
            let mut words = found.words();
            words.push(format!("whether other owners have servers in {zone} cannot be seen: {error}"));
            return words;
        }
        found.words()
    }

    pub(crate) fn say_notes(&self, notes: &[String]) {
        notes.iter().for_each(|note| self.output.say(&format!("note: {note}")));
    }

    /// A client for a look beside the command's own work, which does not wait for long.
    fn hasty_client(&self) -> Result<(Client, Zone), Failure> {
        let settings = self.quiet_settings(None)?;
        let zone = settings.require_zone().map_err(|error| Failure::usage(error.to_string()))?.clone();
        let mut limits = *settings.limits();
        (limits.call_deadline, limits.queue_deadline) = (ASIDE, ASIDE);
        Ok((client(settings.with_limits(limits))?, zone))
    }

    /// What looking at servers needs: credentials, and what can be read of the state directory, be it on a full disk.
    pub(crate) fn look(&self) -> Result<Look, Failure> {
        let settings = self.settings(None)?;
        let zone = required_zone(&settings)?;
        let state = self.state_directory()?;
        let (owner, journal) = (self.stored_owner(&state)?, journal_to_read(&state)?);
        Ok(Look { client: client(settings)?, zone, state, owner, journal })
    }

    /// The owner's name; none where no owner was made yet.
    fn stored_owner(&self, state: &StateDirectory) -> Result<Option<OwnerName>, Failure> {
        match &self.configuration.owner {
            Some(owner) => Ok(Some(owner.clone())),
            None => state.stored_owner().map_err(unreadable),
        }
    }

    /// Everything that work on servers needs: credentials, policies in place, the journal.
    pub(crate) fn work(&self, project: Option<&str>, parallel: Option<u32>) -> Result<Work, Failure> {
        let settings = self.settings(project)?;
        let zone = required_zone(&settings)?;
        let state = self.state_directory()?;
        let (lifecycle, _, host, watch) = self.lifecycle(client(settings)?, &state, parallel)?;
        Ok(Work { lifecycle, zone, state, host, _watch: watch })
    }

    /// Everything that work on clusters needs. The zone stands in a cluster's specification.
    pub(crate) fn clusters(&self, parallel: Option<u32>) -> Result<ClusterWork, Failure> {
        self.clusters_with(client(self.settings(None)?)?, parallel)
    }

    /// For looking at clusters only: without credentials as well, since what is looked at is here, and on a disk that
    /// is full or read-only.
    pub(crate) fn cluster_reader(&self) -> Result<(ClusterReader, Option<String>), Failure> {
        let (client, unreachable) = self.client_or_offline()?;
        let state = self.state_directory()?;
        let store = journal_to_read(&state)?.map(|journal| LogClusterStore::of(&journal));
        let store = store.map(|store| Arc::new(store) as Arc<dyn ClusterStore>);
        Ok((ClusterReader::new(store, client, self.stored_owner(&state)?), unreachable))
    }

    async fn cluster_list(&self) -> Result<Vec<ClusterStatus>, Failure> {
        let (reader, _) = self.cluster_reader()?;
        let listed = reader.list().await;
        listed.map_err(|error| Failure::usage("the clusters cannot be read").because(error.to_string()))
    }

    /// The open operations on clusters, which are not in the list of operations.
    pub(crate) async fn open_cluster_operations(&self) -> Result<Vec<OpenClusterOperation>, Failure> {
        let clusters = self.cluster_list().await?;
        let open = clusters.iter().filter_map(|status| status.operation.as_ref().map(|operation| (status, operation)));
        let words = |(status, operation): (&ClusterStatus, &ClusterOperation)| {
            let ClusterOperation { number, kind, .. } = operation;
            let (name, lives) = (&status.cluster.name, status.operation_lives);
            let stands = match lives {
                true => format!("is in progress: windlass cluster watch {name}"),
                false => "is open: windlass cluster resume".to_owned(),
            };
            OpenClusterOperation { words: format!("operation {number} ({kind}) of cluster {name} {stands}"), lives }
        };
        Ok(open.map(words).collect())
    }

    /// A client; without credentials one that reaches nothing, and why.
    fn client_or_offline(&self) -> Result<(Client, Option<String>), Failure> {
        Ok(match self.settings(None) {
            Ok(settings) => (client(settings)?, None),
            Err(failure) => (offline_client(failure.message.clone())?, Some(failure.message.clone())),
        })
    }

    /// For small changes of what is stored of clusters: without credentials as well, and without the configured
    /// policies, since nothing is judged.
    pub(crate) fn clusters_to_look_at(&self) -> Result<ClusterWork, Failure> {
        let (client, unreachable) = self.client_or_offline()?;
        let state = self.state_directory()?;
        let host = start(HostOptions::new(self.folder_of(&state)?))?;
        let lifecycle = self.lifecycle_under(&client, &host, &state, None)?;
        let store = LogClusterStore::of(lifecycle.journal());
        let clusters = Clusters::new(ClusterOptions::new(lifecycle, client, Arc::new(host.clone()), Arc::new(store)));
        Ok(ClusterWork { clusters, host, unreachable, _watch: None })
    }

    fn clusters_with(&self, client: Client, parallel: Option<u32>) -> Result<ClusterWork, Failure> {
        let state = self.state_directory()?;
        let (lifecycle, client, host, watch) = self.lifecycle(client, &state, parallel)?;
        let store = LogClusterStore::of(lifecycle.journal());
        let mut limits = ClusterLimits::default();
        if let Some(parallel) = self.parallel(parallel) {
            limits.parallel_nodes = parallel;
        }
        let mut options = ClusterOptions::new(lifecycle, client, Arc::new(host.clone()), Arc::new(store));
        options.limits = limits;
        let clusters = Clusters::new(options);
        Ok(ClusterWork { clusters, host, unreachable: None, _watch: Some(watch) })
    }

    fn lifecycle(
        &self,
        client: Client,
        state: &StateDirectory,
        parallel: Option<u32>,
    ) -> Result<(Lifecycle, Client, Host, Watch), Failure> {
        let folder = self.folder_of(state)?;
        let mut options = HostOptions::new(folder);
        options.asker = Some(Asker::CommandLine);
        options.capabilities = scaleway_capabilities(&client);
        options.registries = Some(Arc::new(self.registries(Locking::Used)?));
        let host = start(options)?;
        self.configure(&host)?;
        // Creating many servers can take minutes: a policy that is replaced meanwhile counts for those that follow.
        let watch = host
            .watch()
            .map_err(|error| Failure::undone("the program cannot watch its policies").because(error.to_string()))?;
        let lifecycle = self.lifecycle_under(&client, &host, state, parallel)?;
        Ok((lifecycle, client, host, watch))
    }

    fn lifecycle_under(
        &self,
        client: &Client,
        host: &Host,
        state: &StateDirectory,
        parallel: Option<u32>,
    ) -> Result<Lifecycle, Failure> {
        let mut options = Options::new(client.clone(), Arc::new(host.clone()), state.clone());
        options.owner = self.configuration.owner.clone();
        options.limits.parallel_operations = self.parallel(parallel).unwrap_or(DEFAULT_PARALLEL);
        let lifecycle = Lifecycle::open(options)
            .map_err(|error| Failure::usage("the journal cannot be opened").because(error.to_string()))?;
        detached::works_as(state, lifecycle.runner());
        Ok(lifecycle)
    }

    /// The state directory's handle, for the policy host.
    pub(crate) fn folder_of(&self, state: &StateDirectory) -> Result<Dir, Failure> {
        state.handle().try_clone().map_err(|error| {
            Failure::usage("the state directory cannot be used")
                .at(state.path().display().to_string())
                .because(error.to_string())
        })
    }

    /// A folder for what nobody needs afterwards.
    pub(crate) fn scratch(&self) -> std::io::Result<Dir> {
        let made = match self.scratch.get() {
            Some(made) => made,
            None => {
                let made = tempfile::Builder::new().prefix("windlass-").tempdir()?;
                self.scratch.get_or_init(|| made)
            }
        };
        Dir::open_ambient_dir(made.path(), ambient_authority())
    }

    /// The registries as the configuration says, with the cache of the state directory.
    pub(crate) fn registries(&self, locking: Locking) -> Result<Registries, Failure> {
        self.registries_trusting(locking, self.configuration.policies.trust().cloned())
    }

    /// The same with other keys: bundles that lie beside a manifest are looked up for those.
    pub(crate) fn registries_trusting(
        &self,
        locking: Locking,
        trust: Option<Arc<Trust>>,
    ) -> Result<Registries, Failure> {
        let lock = match (locking, &self.configuration.file) {
            (Locking::Ignored, _) | (Locking::Used, None) => None,
            (_, Some(file)) => Some(tag_lock(self.shared_state()?, LockFile::at(file.with_extension("lock")))),
            (Locking::Required, None) => {
                return Err(Failure::usage("there is no configuration file, so there are no tags to lock")
                    .remedy("name one with --config or WINDLASS_CONFIG"));
            }
        };
        let folder = self.configuration.file.as_ref().and_then(|file| std::path::absolute(file).ok());
        let folder = folder.as_ref().and_then(|file| file.parent()).unwrap_or(Path::new("."));
        let made = |state: Option<Dir>| {
            let mut options = RegistryOptions::new(self.configuration.policies.registries().clone());
            options.folder = folder.to_owned();
            options.environment = self.environment.clone();
            options.trust = trust.clone();
            options.state = state;
            options.lock = lock.clone();
            Registries::new(options)
        };
        let state = self.state_directory().and_then(|state| self.folder_of(&state));
        // It has the cache. Where it cannot be written, everything is fetched.
        let registries = made(state.ok()).or_else(|_| made(None));
        registries.map_err(|error| Failure::usage("registries cannot be used").because(error.to_string()))
    }

    /// What policies can be granted. Without credentials everything can still be loaded and checked; only a call to
    /// Scaleway then says what is missing.
    pub(crate) fn capabilities(&self) -> Result<Vec<Arc<dyn Capability>>, Failure> {
        match self.settings(None) {
            Ok(settings) => Ok(scaleway_capabilities(&client(settings)?)),
            Err(failure) => offline_capabilities(failure.message.clone()),
        }
    }

    /// A policy host in this folder, with the built-in defaults.
    pub(crate) fn policy_host(&self, folder: Dir) -> Result<Host, Failure> {
        start(self.policy_host_options(folder)?)
    }

    /// The same to replay decisions with, beside the hosts that made them.
    pub(crate) fn replaying_policy_host(&self, folder: Dir) -> Result<Host, Failure> {
        let mut options = self.policy_host_options(folder)?;
        options.is_trial = true;
        start(options)
    }

    /// The same with the configured policies, as commands that decide have them.
    pub(crate) fn configured_host(&self, folder: Dir) -> Result<Host, Failure> {
        let mut options = self.policy_host_options(folder)?;
        options.asker = Some(Asker::CommandLine);
        let host = start(options)?;
        self.configure(&host)?;
        Ok(host)
    }

    /// The same to try policies with: one that fails is asked again, however often it has failed.
    pub(crate) fn trial_policy_host(&self, folder: Dir) -> Result<Host, Failure> {
        let mut options = self.policy_host_options(folder)?;
        (options.suspend_after, options.is_trial) = (0, true);
        options.cache_dir = self.cache_dir();
        start(options)
    }

    fn policy_host_options(&self, folder: Dir) -> Result<HostOptions, Failure> {
        let mut options = HostOptions::new(folder);
        options.capabilities = self.capabilities()?;
        options.registries = Some(Arc::new(self.registries(Locking::Used)?));
        Ok(options)
    }

    /// A policy host in this folder that asks nobody, whatever credentials there are. It writes what it compiles into
    /// another folder, if there is one, and uses what is compiled in the state directory.
    pub(crate) fn offline_policy_host(&self, folder: Dir, cache_dir: Option<Dir>) -> Result<Host, Failure> {
        let mut options = HostOptions::new(folder);
        // What can be written is read as well.
        options.lending_dir = if cache_dir.is_none() { self.lending_dir() } else { None };
        (options.cache_dir, options.is_trial) = (cache_dir, true);
        options.asker = Some(Asker::CommandLine);
        options.capabilities = offline_capabilities("nobody is asked here".to_owned())?;
        start(options)
    }

    /// Where a host that tries policies keeps what it compiles: the state directory, if it exists and can be written.
    pub(crate) fn cache_dir(&self) -> Option<Dir> {
        self.lending_dir().filter(is_writable)
    }

    /// Where what was compiled can be used: the state directory, if it exists.
    pub(crate) fn lending_dir(&self) -> Option<Dir> {
        Dir::open_ambient_dir(self.state_path().ok()?, ambient_authority()).ok()
    }

    /// Puts the configured policies in place. Errors name the line of the policy.
    pub(crate) fn configure(&self, host: &Host) -> Result<(), Failure> {
        host.configure(&self.configuration.policies).map_err(|error| {
            let all = match error {
                PolicyError::Several(all) => all,
                one => vec![one],
            };
            let mut failure = Failure::usage("a configured policy cannot be used; nothing was done");
            if let Some(file) = &self.configuration.file {
                let line = |error: &PolicyError| match error {
                    PolicyError::Refused { slot, policy, .. } => self.line_of(*slot, policy),
                    _ => None,
                };
                let lines: Vec<String> = all.iter().filter_map(line).map(|line| line.to_string()).collect();
                let lines = match lines.as_slice() {
                    [] => String::new(),
                    [one] => format!(", line {one}"),
                    several => format!(", lines {}", several.join(", ")),
                };
                failure = failure.at(format!("{}{lines}", file.display()));
            }
            all.iter().fold(failure, |failure, error| failure.because(error.to_string()))
        })
    }

    fn line_of(&self, slot: SlotName, source: &Source) -> Option<usize> {
        let position = self.configuration.policies.chain(slot).iter().position(|link| link.source == *source)?;
        self.configuration.policy_lines.get(&slot)?.get(position).copied()
    }
}

/// Whether this process may make files in a folder.
pub(crate) fn is_writable(folder: &Dir) -> bool {
    rustix::fs::accessat(folder, ".", Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Looks at servers; nothing is written, and no policy is loaded.
pub(crate) struct Look {
    client: Client,
    pub(crate) zone: Zone,
    pub(crate) state: StateDirectory,
    /// Absent where nothing was ever created.
    pub(crate) owner: Option<OwnerName>,
    pub(crate) journal: Option<Journal>,
}

impl Look {
    /// Lists and reads our servers. `None`: there is no owner yet, so there are none.
    pub(crate) fn machines(&self) -> Option<MachineReader<'_>> {
        let Self { client, owner, journal, .. } = self;
        Some(MachineReader { client, owner: owner.as_ref()?, journal: journal.as_ref() })
    }
}

/// A lifecycle and what it stands on.
pub(crate) struct Work {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) zone: Zone,
    pub(crate) state: StateDirectory,
    host: Host,
    _watch: Watch,
}

/// Clusters and what they stand on.
pub(crate) struct ClusterWork {
    pub(crate) clusters: Clusters,
    /// Why Scaleway cannot be asked, where it cannot.
    pub(crate) unreachable: Option<String>,
    host: Host,
    _watch: Option<Watch>,
}

impl ClusterWork {
    /// To be called when the work has ended: the last decisions reach the disk.
    pub(crate) fn end(&self) {
        self.host.flush_decisions();
    }
}

impl Work {
    /// To be called when the work has ended: the last decisions reach the disk.
    pub(crate) fn end(&self) {
        self.host.flush_decisions();
    }
}

/// An operation on a cluster that has not ended.
pub(crate) struct OpenClusterOperation {
    /// For people: which, and what to do.
    pub(crate) words: String,
    /// Whether the process that runs it lives.
    pub(crate) lives: bool,
}

fn unreadable(error: LifecycleError) -> Failure {
    Failure::usage("the state directory cannot be read").because(error.to_string())
}

/// The journal, be it on a full disk; none where nothing was ever done.
fn journal_to_read(state: &StateDirectory) -> Result<Option<Journal>, Failure> {
    match Journal::read_only(state) {
        Ok(journal) => Ok(Some(journal)),
        Err(LifecycleError::JournalAbsent { .. }) => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

fn start(mut options: HostOptions) -> Result<Host, Failure> {
    // A policy may be anybody's: what it costs to compile it is bounded in a process of its own.
    options.compiler = Compiler::this_program([COMPILE]).ok();
    Host::new(options).map_err(|error| {
        let failure = Failure::usage("the policy host cannot start").because(error.to_string());
        let PolicyError::StateFolder { source, .. } = &error else { return failure };
        failure.remedy(match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "make room on the disk of the state directory; `windlass config show` names it"
            }
            _ => "name a state directory that can be written: --state-dir, WINDLASS_STATE_DIR or state_dir",
        })
    })
}

/// The zone in force.
pub(crate) fn required_zone(settings: &Settings) -> Result<Zone, Failure> {
    let zone = settings.require_zone();
    Ok(zone
        .map_err(|error| {
            Failure::usage(error.to_string()).remedy("name it with --zone fr-par-1; `windlass zone list` lists them")
        })?
        .clone())
}

/// A client with these settings.
pub(crate) fn client(settings: Settings) -> Result<Client, Failure> {
    Client::new(settings).map_err(|error| Failure::usage("the client cannot be made").because(error.to_string()))
}

/// The capabilities over a transport that reaches nothing and says why.
fn offline_capabilities(why: String) -> Result<Vec<Arc<dyn Capability>>, Failure> {
    Ok(scaleway_capabilities(&offline_client(why)?))
}

/// Stands where a secret key must be given and none is used.
pub(crate) fn no_key() -> Result<SecretKey, Failure> {
    const NO_KEY: &str = "00000000-0000-0000-0000-000000000000";
    NO_KEY.parse::<SecretKey>().map_err(|error| Failure::usage(error.to_string()))
}

/// A client that reaches nothing and says why.
fn offline_client(why: String) -> Result<Client, Failure> {
    Client::with_transport(Settings::new(no_key()?), Arc::new(Unreachable(why)))
        .map_err(|error| Failure::usage("the client cannot be made").because(error.to_string()))
}

struct Unreachable(String);

impl Transport for Unreachable {
    fn send(&self, _: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let why = self.0.clone();
        Box::pin(async move { Err(TransportError::NotConnected(why.into())) })
    }
}
