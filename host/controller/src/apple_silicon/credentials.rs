//! The Secret that hands a Mac over to whoever sets it up.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use windlass_scaleway::types::apple_silicon::Server as Host;

use crate::Error;
use crate::context::Context;
use crate::kinds::{AppleSiliconMachine, labels};
use crate::writes::FIELD_MANAGER;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Why the Secret of an object cannot be written, where another has that name: one that this controller did not write
/// for an object of this name. A machine `db` does not take the Secret `db-credentials` of somebody's database.
pub(super) async fn taken(context: &Context, namespace: &str, name: &str) -> Result<Option<String>, Error> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let name_of_secret = secret_name(name);
    let found = api
        .get_opt(&name_of_secret)
        .await
        .map_err(Error::kubernetes("reading the Secret with the host's credentials"))?;
    Ok(found.filter(|secret| !is_ours(secret, name)).map(|_| {
        format!(
            "the Secret {name_of_secret} exists and does not belong to this machine, so it is not changed: \
                 delete the Secret or this machine"
        )
    }))
}

/// Whether the Secret of an object is there.
pub(super) async fn exists(context: &Context, object: &AppleSiliconMachine) -> Result<bool, Error> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    // Its metadata alone: what it holds is of no interest here.
    let found = api.get_metadata_opt(&secret_name(&object.name_any())).await;
    Ok(found.map_err(Error::kubernetes("looking for the Secret with the host's credentials"))?.is_some())
}

/// Takes everything out of the Secret of an object whose host was given up: nobody is to log in at it any more.
pub(super) async fn clear(context: &Context, object: &AppleSiliconMachine) -> Result<(), Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    if !exists(context, object).await? || taken(context, &namespace, &name).await?.is_some() {
        return Ok(());
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let secret = empty_secret(object);
    api.patch(&secret.name_any(), &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&secret))
        .await
        .map_err(Error::kubernetes("clearing the Secret with the host's credentials"))?;
    Ok(())
}

fn secret_name(object: &str) -> String {
    format!("{object}-credentials")
}

/// Whether it was written for an object of this name: also in an earlier life of the object, before it was moved.
fn is_ours(secret: &Secret, object: &str) -> bool {
    let kind = AppleSiliconMachine::kind(&());
    let owners = secret.owner_references();
    secret.labels().get(MANAGED_BY).is_some_and(|by| by == FIELD_MANAGER)
        && owners.iter().all(|owner| owner.kind == kind && owner.name == object)
}

/// Writes `<object>-credentials` and answers its name; nothing where Scaleway did not tell the passwords this time,
/// where the name is [`taken`], or where the object is being deleted.
///
/// It belongs to the object and goes with it, also when the object moves to another cluster.
pub(super) async fn write(
    context: &Context,
    object: &AppleSiliconMachine,
    host: &Host,
) -> Result<Option<String>, Error> {
    // Its namespace may be going, too, and nothing can be created there any more.
    if object.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    let Some(secret) = secret(object, host) else { return Ok(None) };
    if taken(context, &object.namespace().unwrap_or_default(), &object.name_any()).await?.is_some() {
        return Ok(None);
    }
    let name = secret.name_any();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&secret))
        .await
        .map_err(Error::kubernetes("writing the Secret with the host's credentials"))?;
    Ok(Some(name))
}

fn secret(object: &AppleSiliconMachine, host: &Host) -> Option<Secret> {
    let password = host.sudo_password.reveal()?;
    let mut data = BTreeMap::from([
        ("ssh-username", host.ssh_username.as_str()),
        ("sudo-password", password),
        ("address", host.ip.as_str()),
        ("server-id", host.id.as_str()),
        ("server-type", host.server_type.as_str()),
        ("zone", host.zone.as_str()),
    ]);
    if let Some(vnc) = host.vnc_url.reveal() {
        data.insert("vnc-url", vnc);
    }
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec()))).collect();
    Some(Secret { data: Some(data), ..empty_secret(object) })
}

fn empty_secret(object: &AppleSiliconMachine) -> Secret {
    let mut labels = BTreeMap::from([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())]);
    if let Some(cluster) = object.labels().get(labels::CLUSTER_NAME) {
        labels.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
    }
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(&object.name_any())),
            namespace: object.namespace(),
            labels: Some(labels),
            owner_references: object.owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> AppleSiliconMachine {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "AppleSiliconMachine",
            "metadata": {"name": "mini", "namespace": "macs", "uid": "u",
            "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
            "spec": {"type": "M4-S"},
        }))
        .unwrap()
    }

    #[test]
    fn the_secret_belongs_to_the_object_and_holds_what_a_bootstrapper_needs() {
        let host: Host = serde_json::from_value(json!({
            "id": "h", "ip": "192.0.2.7", "ssh_username": "m1", "sudo_password": "hidden",
            "vnc_url": "vnc://m1:hidden@192.0.2.7",
            "zone": "fr-par-1", "type": "M4-S",
        }))
        .unwrap();
        let secret = secret(&object(), &host).unwrap();
        assert_eq!(secret.name_any(), "mini-credentials");
        let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("AppleSiliconMachine", "u"));
        let data = secret.data.as_ref().unwrap();
        assert_eq!(data["sudo-password"].0, b"hidden");
        assert_eq!(data["ssh-username"].0, b"m1");
        assert_eq!(data["address"].0, b"192.0.2.7");
        assert!(data.contains_key("vnc-url"));
    }

    #[test]
    fn a_secret_that_was_not_written_for_the_object_is_somebody_elses() {
        let host: Host = serde_json::from_value(json!({"id": "h", "sudo_password": "hidden"})).unwrap();
        let ours = secret(&object(), &host).unwrap();
        assert!(is_ours(&ours, "mini") && !is_ours(&ours, "min"));
        let mut moved = ours.clone();
        moved.metadata.owner_references.as_mut().unwrap()[0].uid = "of an earlier life".to_owned();
        assert!(is_ours(&moved, "mini"));
        let mut of_a_user = ours.clone();
        of_a_user.metadata.labels = None;
        let mut of_another_kind = ours;
        of_another_kind.metadata.owner_references.as_mut().unwrap()[0].kind = "Database".to_owned();
        assert!(!is_ours(&of_a_user, "mini") && !is_ours(&of_another_kind, "mini"));
    }

    #[test]
    fn a_sealed_password_makes_no_secret() {
        for password in ["<sealed>", ""] {
            let host: Host = serde_json::from_value(json!({"id": "h", "sudo_password": password})).unwrap();
            assert!(secret(&object(), &host).is_none(), "{password:?}");
        }
    }
}
