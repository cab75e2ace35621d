//! What a process works with, put together in one place: its policies, with what they may ask for and where they are
//! fetched from.

use std::path::PathBuf;
use std::sync::Arc;

use cap_std::fs::Dir;
use windlass_distribution::{LockFile, Registries, RegistryOptions};
use windlass_policy::{Asker, Brake, Compiler, DecisionLogOptions, Host, HostOptions, Policies, Watch};
use windlass_scaleway::Client;

use crate::state_directory::StateDirectory;
use crate::{Error, Options, scaleway_capabilities, tag_lock};

/// What a runtime is made from.
#[non_exhaustive]
pub struct RuntimeOptions {
    /// Speaks to Scaleway, for policies as well.
    pub client: Client,
    pub state: StateDirectory,
    /// Who asks the policies.
    pub asker: Asker,
    pub policies: Policies,
    /// Where their relative paths begin.
    pub policy_folder: PathBuf,
    pub brake: Brake,
    /// What compiles components. Absent: this process compiles its own, and refuses others.
    pub compiler: Option<Compiler>,
    /// The bounds of the decision log.
    pub decision_log: DecisionLogOptions,
    /// Another state folder, of which what was compiled there is used.
    pub lending_dir: Option<Dir>,
    /// Whether the policies are only tried: see [`HostOptions::is_trial`]. Default false.
    pub is_trial: bool,
}

impl RuntimeOptions {
    /// With the built-in policies.
    #[must_use]
    pub fn new(client: Client, state: StateDirectory, asker: Asker) -> Self {
        Self {
            client,
            state,
            asker,
            policies: Policies::built_in(),
            policy_folder: PathBuf::from("."),
            brake: Brake::default(),
            compiler: None,
            decision_log: DecisionLogOptions::default(),
            lending_dir: None,
            is_trial: false,
        }
    }
}

/// What a process works with.
#[derive(Clone)]
pub struct Runtime {
    pub client: Client,
    pub state: StateDirectory,
    /// With every policy in place.
    pub policies: Arc<Host>,
}

impl Runtime {
    /// Puts the policies in place. It blocks while they are fetched and compiled.
    ///
    /// # Errors
    /// [`Error::Policy`] when a policy is refused, [`Error::Registries`] when registries cannot be used, and
    /// [`Error::StateDirectory`].
    pub fn build(options: RuntimeOptions) -> Result<Self, Error> {
        let RuntimeOptions {
            client,
            state,
            asker,
            policies,
            policy_folder,
            brake,
            compiler,
            decision_log,
            lending_dir,
            is_trial,
        } = options;
        let failed = |source| Error::StateDirectory { path: state.path().to_owned(), source };
        let (registries, trust) = (policies.registries().clone(), policies.trust().cloned());
        let mut registries =
            RegistryOptions::of_service(registries, trust, state.handle(), state.path()).map_err(failed)?;
        registries.folder.clone_from(&policy_folder);
        registries.lock = Some(tag_lock(state.shared_log().cloned(), LockFile::of_service(state.path())));
        let mut host = HostOptions::new(state.handle().try_clone().map_err(failed)?);
        (host.policy_folder, host.asker, host.brake, host.compiler) = (policy_folder, Some(asker), brake, compiler);
        (host.decision_log, host.lending_dir, host.is_trial) = (decision_log, lending_dir, is_trial);
        host.capabilities = scaleway_capabilities(&client);
        host.registries = Some(Arc::new(Registries::new(registries)?));
        let host = Host::new(host).map_err(Box::new)?;
        host.configure(&policies).map_err(Box::new)?;
        Ok(Self { client, state, policies: Arc::new(host) })
    }

    /// Replaces policies when their files change, as long as the result lives. `None`, and a warning, where files
    /// cannot be watched.
    #[must_use]
    pub fn watch(&self) -> Option<Watch> {
        let warn = |error: &windlass_policy::Error| {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "policies are not reloaded when their files change");
        };
        self.policies.watch().inspect_err(warn).ok()
    }

    /// What a lifecycle on it is opened with.
    #[must_use]
    pub fn lifecycle(&self) -> Options {
        Options::new(self.client.clone(), Arc::clone(&self.policies), self.state.clone())
    }
}
