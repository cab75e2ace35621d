//! With whose key an object's machines are made: the controller's own, or that of a Secret in the object's namespace,
//! which the object names (`spec.credentialsRef`) or which the operator lets be every namespace's default
//! (`--namespace-credentials`).
//!
//! An object stays with the project in which it was begun: that stands in its status, and other credentials are
//! refused.

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};

use crate::Error;
use crate::accounts::{Account, Unusable};
use crate::context::Context;
use crate::kinds::{
    AppleSiliconMachine, CredentialsReference, InstanceMachine, MachineStatus, ServerCluster, ServerClusterStatus,
};
use crate::limits::Limits;

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

/// The context that is given, and one for each account that is in use.
pub(crate) async fn contexts(context: &Arc<Context>) -> Vec<Arc<Context>> {
    let accounts = context.accounts.in_use().await;
    let accounts = accounts.into_iter().map(|account| Arc::new(with_account(context, account)));
    std::iter::once(Arc::clone(context)).chain(accounts).collect()
}

/// The context in which an object is reconciled: the one that is given, or one with the client, the lifecycle and the
/// owner of the object's own credentials.
pub(crate) async fn context_of<K: OfAccount>(
    context: &Arc<Context>,
    object: &K,
) -> Result<Result<Arc<Context>, Unusable>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let own = context.settings.project.as_deref();
    let account = match object.credentials() {
        Some(reference) => context.accounts.of(&namespace, &reference.name).await?,
        None => match &context.settings.namespace_credentials {
            // What was begun with the controller's key is ended with it, whatever the namespace has got since.
            Some(name) if !(object.is_begun() && object.project().is_none_or(|project| Some(project) == own)) => {
                match context.accounts.of(&namespace, name).await? {
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
    // What these credentials may cost, and where, is for whoever gave them.
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
                "it was begun in the project {begun}, and the credentials are those of {}: give it credentials of that \
                 project, with which what it has is found and released",
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
