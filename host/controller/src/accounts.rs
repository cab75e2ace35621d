//! With whose key machines are made: the controller's own, or that of a Secret in the object's namespace, which the
//! object names (`spec.credentialsRef`) or which the operator lets be every namespace's default
//! (`--namespace-credentials`).
//!
//! Each Secret is an account: a client, a lifecycle with a journal of its own, and an owner of its own, made from its place
//! and its project, so that neither sweeps nor claims of one account ever mean what is another's. An object stays with the
//! project in which it was begun: that stands in its status, and other credentials are refused.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{
    Control, Lifecycle, Limits, Options, OwnerName, StateDirectory, Supervisor, SupervisorOptions,
};
use windlass_scaleway::{Environment, ExplicitSettings};

use crate::Error;
use crate::context::Context;
use crate::kinds::{
    AppleSiliconMachine, CredentialsReference, InstanceMachine, MachineStatus, ServerCluster, ServerClusterStatus,
};
use crate::names::{cut, mark};
use crate::server_cluster::{Liveness, ServerClusters};

/// The keys of a Secret, named as Scaleway's tools name them.
const ACCESS_KEY: &str = "SCW_ACCESS_KEY";
const SECRET_KEY: &str = "SCW_SECRET_KEY";
const PROJECT: &str = "SCW_DEFAULT_PROJECT_ID";
/// Accounts of one namespace, and of all: each costs a journal and connections, and whoever may edit a namespace makes
/// Secrets.
const MOST_OF_NAMESPACE: usize = 8;
const MOST: usize = 256;
/// The folder in the state directory with a folder for each namespace, in which each Secret has one.
const FOLDER: &str = "accounts";
/// An owner's name is cut to this, before the project's mark.
const LONGEST_OWNER: usize = 38;

/// Why there are no credentials for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    /// A word for programs.
    pub(crate) reason: &'static str,
    /// Words for people.
    pub(crate) message: String,
}

/// What of an object says with whose key it is made.
pub(crate) trait OfAccount: Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// The Secret that it names.
    fn credentials(&self) -> Option<&CredentialsReference>;
    /// The project in which it was begun.
    fn project(&self) -> Option<&str>;
    /// Whether anything was begun for it.
    fn is_begun(&self) -> bool;
}

fn is_begun(status: Option<&MachineStatus>) -> bool {
    status.is_some_and(|status| {
        status.server_id.is_some()
            || status.creation.is_some()
            || status.project_id.is_some()
            || status.operation.is_some()
    })
}

fn project(status: Option<&MachineStatus>) -> Option<&str> {
    status.and_then(|status| status.project_id.as_deref())
}

macro_rules! machine_of_account {
    ($kind:ty) => {
        impl OfAccount for $kind {
            fn credentials(&self) -> Option<&CredentialsReference> {
                self.spec.credentials_ref.as_ref()
            }

            fn project(&self) -> Option<&str> {
                project(self.status.as_ref())
            }

            fn is_begun(&self) -> bool {
                is_begun(self.status.as_ref())
            }
        }
    };
}

machine_of_account!(AppleSiliconMachine);
machine_of_account!(InstanceMachine);

impl OfAccount for ServerCluster {
    fn credentials(&self) -> Option<&CredentialsReference> {
        self.spec.credentials_ref.as_ref()
    }

    fn project(&self) -> Option<&str> {
        self.status.as_ref().and_then(|status| status.project_id.as_deref())
    }

    fn is_begun(&self) -> bool {
        let begun = |status: &ServerClusterStatus| status.operation.is_some() || status.attempt.is_some();
        self.status.as_ref().is_some_and(begun) || self.project().is_some()
    }
}

/// What is made of one Secret.
#[derive(Clone)]
struct Account {
    scaleway: windlass_scaleway::Client,
    lifecycle: Lifecycle,
    server_clusters: Arc<ServerClusters>,
    owner: OwnerName,
}

/// A Secret as it was read last.
struct Known {
    read_at: Instant,
    /// Access key, secret key and project.
    keys: Keys,
    account: Account,
}

#[derive(Clone, PartialEq, Eq)]
struct Keys {
    access_key: Option<String>,
    secret_key: String,
    project: String,
}

/// The accounts of Secrets, as long as the process leads.
pub(crate) struct Accounts {
    state: StateDirectory,
    liveness: Liveness,
    leaving: CancellationToken,
    limits: Limits,
    supervision: SupervisorOptions,
    known: Mutex<HashMap<(String, String), Known>>,
}

impl Accounts {
    /// `limits` bound the work of each account, and `supervision` is what its supervisor does.
    pub(crate) fn new(
        state: StateDirectory,
        liveness: Liveness,
        leaving: CancellationToken,
        limits: Limits,
        supervision: SupervisorOptions,
    ) -> Self {
        Self { state, liveness, leaving, limits, supervision, known: Mutex::default() }
    }

    /// The account of a Secret. One that was read before stays usable when the Secret is gone, as long as the process
    /// lives: in a namespace that is deleted, Secrets go before the machines that need them.
    async fn of(&self, context: &Context, namespace: &str, name: &str) -> Result<Result<Account, Unusable>, Error> {
        let place = (namespace.to_owned(), name.to_owned());
        let mut known = self.known.lock().await;
        // A Secret counts as it was read for as long as a listing does.
        let fresh = |known: &&Known| known.read_at.elapsed() < context.settings.listing_interval;
        if let Some(known) = known.get(&place).filter(fresh) {
            return Ok(Ok(known.account.clone()));
        }
        let Some(secret) = read(&context.client, namespace, name).await? else {
            return Ok(known.get(&place).map(|known| known.account.clone()).ok_or_else(|| Unusable {
                reason: "CredentialsMissing",
                message: format!("there is no Secret {name} with the credentials"),
            }));
        };
        let keys = match keys(&secret) {
            Ok(keys) => keys,
            Err(message) => return Ok(Err(Unusable { reason: "CredentialsInvalid", message })),
        };
        if let Some(known) = known.get_mut(&place).filter(|known| known.keys == keys) {
            known.read_at = Instant::now();
            return Ok(Ok(known.account.clone()));
        }
        let of_namespace = known.keys().filter(|(of, _)| of == namespace).count();
        if !known.contains_key(&place) && (of_namespace >= MOST_OF_NAMESPACE || known.len() >= MOST) {
            return Ok(Err(Unusable {
                reason: "TooManyCredentials",
                message: format!(
                    "the Secret {name} is one too many: {MOST_OF_NAMESPACE} of a namespace and {MOST} of all namespaces are used at most"
                ),
            }));
        }
        let account = match self.open(context, namespace, name, &keys) {
            Ok(account) => account,
            Err(error @ (Error::Scaleway(_) | Error::Client(_))) => {
                let message = format!("the Secret {name}: {error}");
                return Ok(Err(Unusable { reason: "CredentialsInvalid", message }));
            }
            Err(error) => return Err(error),
        };
        known.insert(place, Known { read_at: Instant::now(), keys, account: account.clone() });
        Ok(Ok(account))
    }

    /// The context that is given, and one for each account that is in use.
    pub(crate) async fn contexts(&self, context: &Arc<Context>) -> Vec<Arc<Context>> {
        let known = self.known.lock().await;
        let accounts = known.values().map(|known| Arc::new(with_account(context, known.account.clone())));
        std::iter::once(Arc::clone(context)).chain(accounts).collect()
    }

    /// Opens an account, and lets its supervisor work.
    fn open(&self, context: &Context, namespace: &str, name: &str, keys: &Keys) -> Result<Account, Error> {
        let ours = context.scaleway.settings();
        let mut explicit = ExplicitSettings::default();
        explicit.access_key.clone_from(&keys.access_key);
        explicit.secret_key = Some(keys.secret_key.parse()?);
        explicit.project_id = Some(keys.project.clone());
        // Where Scaleway is, is the operator's to say: a key is sent nowhere else.
        explicit.api_url = Some(ours.api_url().to_string());
        explicit.insecure = Some(ours.insecure());
        explicit.zone.clone_from(&context.settings.zone);
        explicit.user_agent = Some(crate::kubernetes::user_agent());
        explicit.limits = Some(*ours.limits());
        let settings = windlass_scaleway::Settings::load(&explicit, &Environment::empty())?;
        let scaleway = windlass_scaleway::Client::new(settings).map_err(|error| Error::Client(Box::new(error)))?;
        let owner = owner(&context.settings.owner, namespace, name, &keys.project);
        let state = StateDirectory::open(&self.state.path().join(FOLDER).join(namespace).join(name))?;
        let mut options = Options::new(scaleway.clone(), Arc::clone(&context.policies), state);
        options.owner = Some(owner.clone());
        options.project = Some(keys.project.clone());
        options.limits = self.limits;
        let lifecycle = Lifecycle::open(options)?;
        let supervisor = Supervisor::new(lifecycle.clone(), self.supervision.clone());
        let control = Control::new();
        // It ends with the jobs, which wait for it.
        drop(context.jobs.aside(control.clone(), async move { supervisor.run(&control, |_| {}).await }));
        tracing::info!(namespace, secret = name, project = keys.project, %owner, "machines are made with these credentials, too");
        let server_clusters = Arc::new(ServerClusters::new(self.liveness.clone(), self.leaving.clone()));
        Ok(Account { scaleway, lifecycle, server_clusters, owner })
    }
}

/// The context in which an object is reconciled: the one that is given, or one with the client, the lifecycle and the owner
/// of the object's own credentials.
pub(crate) async fn context_of<K: OfAccount>(
    context: &Arc<Context>,
    object: &K,
) -> Result<Result<Arc<Context>, Unusable>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let own = context.settings.project.as_deref();
    let account = match object.credentials() {
        Some(reference) => context.accounts.of(context, &namespace, &reference.name).await?,
        None => match &context.settings.namespace_credentials {
            // What was begun with the controller's key is ended with it, whatever the namespace has got since.
            Some(name) if !(object.is_begun() && object.project().is_none_or(|project| Some(project) == own)) => {
                match context.accounts.of(context, &namespace, name).await? {
                    Err(Unusable { reason: "CredentialsMissing", .. })
                        if !object.is_begun() && context.settings.own_credentials =>
                    {
                        return Ok(Ok(Arc::clone(context)));
                    }
                    account => account,
                }
            }
            _ => return Ok(same_project(object.project(), own).map(|()| Arc::clone(context))),
        },
    };
    let account = match account {
        Ok(account) => account,
        Err(unusable) => return Ok(Err(unusable)),
    };
    let project = account.scaleway.settings().project_id().map(str::to_owned);
    Ok(same_project(object.project(), project.as_deref()).map(|()| Arc::new(with_account(context, account))))
}

fn with_account(context: &Context, account: Account) -> Context {
    let mut of_account = Context::clone(context);
    of_account.settings.owner = account.owner;
    of_account.settings.project = account.scaleway.settings().project_id().map(str::to_owned);
    of_account.scaleway = account.scaleway;
    of_account.lifecycle = account.lifecycle;
    of_account.server_clusters = account.server_clusters;
    of_account
}

/// Refuses credentials of another project than that in which the object was begun.
fn same_project(begun: Option<&str>, now: Option<&str>) -> Result<(), Unusable> {
    match begun {
        Some(begun) if Some(begun) != now => Err(Unusable {
            reason: "OtherProject",
            message: format!(
                "it was begun in the project {begun}, and the credentials are those of {}: give it credentials of that \
                 project, with which what it has is found and released",
                now.unwrap_or("no project")
            ),
        }),
        _ => Ok(()),
    }
}

/// The owner of what is made with a Secret's credentials: another for each Secret, since each has a journal of its own, and
/// a sweep takes for lost what its journal does not know. It does not begin with the controller's own, so that no claim of
/// the one looks like one of the other.
fn owner(own: &OwnerName, namespace: &str, secret: &str, project: &str) -> OwnerName {
    let account = mark(&format!("{namespace}/{secret}/{project}"));
    let name = format!("p{account}-{}", cut(own.as_str(), LONGEST_OWNER));
    name.parse().unwrap_or_else(|_| own.clone())
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(Error::kubernetes("reading the Secret with Scaleway's credentials"))
}

fn keys(secret: &Secret) -> Result<Keys, String> {
    let text = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key))?;
        let text = std::str::from_utf8(&value.0).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let needed = |key: &str| text(key).ok_or_else(|| format!("the Secret {} has no {key}", secret.name_any()));
    Ok(Keys { access_key: text(ACCESS_KEY), secret_key: needed(SECRET_KEY)?, project: needed(PROJECT)? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let mut secret = Secret { data: Some(data.collect::<BTreeMap<_, _>>()), ..Secret::default() };
        secret.metadata.name = Some("team".to_owned());
        secret
    }

    #[test]
    fn a_secret_needs_a_key_and_a_project() {
        let all = [(ACCESS_KEY, "SCWXXXXXXXXXXXXXXXXX"), (SECRET_KEY, "key\n"), (PROJECT, "p")];
        let found = keys(&secret(&all)).map(|keys| (keys.secret_key, keys.project));
        assert_eq!(found, Ok(("key".to_owned(), "p".to_owned())));
        assert!(keys(&secret(&all[1..])).is_ok(), "the access key says nothing to the APIs");
        for missing in [SECRET_KEY, PROJECT] {
            let rest: Vec<_> = all.iter().copied().filter(|(key, _)| *key != missing).collect();
            let problem = keys(&secret(&rest)).err().unwrap_or_default();
            assert!(problem.contains(missing) && problem.contains("team"), "{problem}");
        }
    }

    #[test]
    fn what_was_begun_in_one_project_is_not_gone_on_with_in_another() {
        assert!(same_project(None, Some("a")).is_ok() && same_project(Some("a"), Some("a")).is_ok());
        for now in [Some("b"), None] {
            let refused = same_project(Some("a"), now).unwrap_err();
            assert!(refused.reason == "OtherProject" && refused.message.contains("project a"), "{refused:?}");
        }
    }

    #[test]
    fn claims_of_an_account_never_look_like_the_controllers_own() {
        let own: OwnerName = "team".parse().unwrap();
        let account = owner(&own, "ci", "scaleway", "p");
        let (ours, theirs) = (crate::names::claim_prefix(&own), crate::names::claim_prefix(&account));
        assert!(!ours.starts_with(&theirs) && !theirs.starts_with(&ours), "{ours} {theirs}");
        for (namespace, secret, project) in [("other", "scaleway", "p"), ("ci", "other", "p"), ("ci", "scaleway", "q")]
        {
            assert_ne!(account, owner(&own, namespace, secret, project), "another journal");
        }
        let longest: OwnerName = "o".repeat(48).parse().unwrap();
        assert_ne!(owner(&longest, "ci", "scaleway", "p"), longest);
    }
}
