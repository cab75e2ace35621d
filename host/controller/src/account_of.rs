//! With whose key an object's machines are made: the controller's own, or that of a Secret in the object's namespace,
//! which the object names (`spec.credentialsRef`) or which the operator lets be every namespace's default
//! (`--namespace-credentials`).
//!
//! An object stays with the project in which it was begun: that stands in its status, and other credentials are
//! refused.

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::Error;
use crate::accounts::{Account, Place, Unusable, is_used};
use crate::context::Context;
use crate::kinds::{
    AppleSiliconMachine, CredentialsReference, FINALIZER, InstanceMachine, MachineStatus, ServerCluster,
    ServerClusterStatus,
};
use crate::limits::Limits;
use crate::writes::remove_finalizer;

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

/// The context that is given, where the controller's own account is in its shard, and one for each account that is in
/// use.
pub(crate) async fn contexts(context: &Arc<Context>) -> Vec<Arc<Context>> {
    let accounts = context.accounts.in_use().await;
    let accounts = accounts.into_iter().map(|(place, account)| Arc::new(with_account(context, place, account)));
    let own = context.settings.shard.has_own().then(|| Arc::clone(context));
    own.into_iter().chain(accounts).collect()
}

/// The context in which an object is reconciled: the one that is given, or one with the client, the lifecycle and the
/// owner of the object's own credentials.
pub(crate) async fn context_of<K>(context: &Arc<Context>, object: &K) -> Result<Result<Arc<Context>, Unusable>, Error>
where
    K: OfAccount + Clone + DeserializeOwned + std::fmt::Debug,
{
    let namespace = object.namespace().unwrap_or_default();
    let own = context.settings.project.as_deref();
    let (account, name) = match object.credentials() {
        Some(reference) => (context.accounts.of(&namespace, &reference.name).await?, &reference.name),
        None => match &context.settings.namespace_credentials {
            // What was begun with the controller's key is ended with it, whatever the namespace has got since.
            Some(name) if !(object.is_begun() && object.project().is_none_or(|project| Some(project) == own)) => {
                match context.accounts.of(&namespace, name).await? {
                    Err(Unusable { reason: "CredentialsMissing", .. })
                        if !object.is_begun() && context.settings.own_credentials =>
                    {
                        return Ok(Ok(Arc::clone(context)));
                    }
                    account => (account, name),
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
    if let Err(unusable) = same_project(object.project(), project.as_deref()) {
        return Ok(Err(unusable));
    }
    let place = (namespace, name.clone());
    // From its finalizer on the object may have something at Scaleway.
    if is_marked(object) && !context.accounts.holds(&place).await {
        let _turn = context.accounts.turn(&place).await;
        // The watch may show one that is gone by now, and whose Secret is free.
        let api: Api<K> = Api::namespaced(context.client.clone(), &place.0);
        let reading = "reading the object whose credentials are kept";
        let now = api.get_opt(&object.name_any()).await.map_err(Error::kubernetes(reading))?;
        if now.is_some_and(|now| now.uid() == object.uid() && is_marked(&now)) {
            context.accounts.hold(&place).await?;
        }
    }
    Ok(Ok(Arc::new(with_account(context, place, account))))
}

/// The objects whose machines may be of the account of a context: those of its Secret's namespace, or all.
pub(crate) fn objects<K>(context: &Context) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match &context.secret {
        Some((namespace, _)) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    }
}

fn is_marked<K: Resource>(object: &K) -> bool {
    object.finalizers().iter().any(|held| held == FINALIZER)
}

/// Takes the finalizer of an object away, and with the last one of those that use a Secret the Secret's. `false` when
/// another write came first.
pub(crate) async fn let_go<K>(context: &Context, api: &Api<K>, object: &K) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let Some(place) = &context.secret else { return remove_finalizer(api, object).await };
    let _turn = context.accounts.turn(place).await;
    // As it is now: the Secret goes first, and then nothing else may come between.
    let reading = "reading the object that is let go";
    let Some(now) = api.get_opt(&object.name_any()).await.map_err(Error::kubernetes(reading))? else { return Ok(true) };
    if now.uid() != object.uid() {
        return Ok(true);
    }
    if !is_used(&context.client, &context.settings, place, now.uid().as_deref()).await? {
        context.accounts.release(place).await?;
    }
    remove_finalizer(api, &now).await
}

fn with_account(context: &Context, place: Place, account: Account) -> Context {
    let mut of_account = Context::clone(context);
    of_account.secret = Some(place);
    of_account.settings.owner = account.owner;
    of_account.settings.project = account.scaleway.settings().project_id().map(str::to_owned);
    // The operator's limits are about the operator's own credentials.
    of_account.settings.limits = Limits::default();
    of_account.settings.projects = None;
    of_account.settings.allow_terminate = true;
    of_account.scaleway = account.scaleway;
    of_account.policies = account.policies;
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
                "it was created in the project {begun}, but its credentials are for {}: give it credentials of the \
                 project it was created in, so that Windlass can find and release what it has",
                now.unwrap_or("no project")
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_in_one_project_is_not_gone_on_with_in_another() {
        assert!(same_project(None, Some("a")).is_ok() && same_project(Some("a"), Some("a")).is_ok());
        for now in [Some("b"), None] {
            let refused = same_project(Some("a"), now).unwrap_err();
            assert!(refused.reason == "OtherProject" && refused.message.contains("project a"), "{refused:?}");
        }
    }
}
