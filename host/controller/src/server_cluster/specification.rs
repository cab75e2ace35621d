//! From the object to a cluster's specification, and where its cloud-init comes from.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use windlass_cluster::{
    ClusterSpecification, Hook, HookAction, HookSet, NodeGroup, NodeGroupName, ReadCloudInit, VolumeSpecification,
};

use crate::kinds::{CloudInitSource, ServerCluster, ServerClusterGroup, ServerClusterHook, ServerClusterSpec, Volume};
use crate::server_fields::{CLOUD_INIT_KEY, addresses, volume_kind, volume_size};

fn volume(volume: &Volume) -> VolumeSpecification {
    VolumeSpecification { kind: volume_kind(volume), size: volume_size(volume), operations_per_second: volume.iops }
}

fn group(group: &ServerClusterGroup) -> NodeGroup {
    let dynamic_address = group.dynamic_ip_required.unwrap_or(false);
    NodeGroup {
        types: group.types.clone(),
        root_volume: group.root_volume.as_ref().map(volume).unwrap_or_default(),
        volumes: group.additional_volumes.iter().flatten().map(volume).collect(),
        addresses: addresses(group.public_ips.as_deref(), dynamic_address),
        dynamic_address,
        private_networks: group.private_networks.clone().unwrap_or_default(),
        security_group: group.security_group.clone(),
        placement_group: group.placement_group.clone(),
        tags: group.tags.clone().unwrap_or_default(),
        ..NodeGroup::new(group.count, "", &group.image)
    }
}

/// A hook in words, without what could be a secret.
pub(super) fn description(hook: &ServerClusterHook) -> String {
    match (&hook.job, &hook.webhook) {
        (Some(job), _) => format!("job with the image {}", job.image),
        (None, Some(webhook)) => {
            format!("webhook {}", webhook.url.split(['?', '#']).next().unwrap_or_default())
        }
        (None, None) => "hook without a job and a webhook".to_owned(),
    }
}

/// How long one run of a hook may take.
pub(super) fn time_limit(hook: &ServerClusterHook) -> Duration {
    hook.time_limit_seconds
        .map_or(windlass_cluster::DEFAULT_TIME_LIMIT, |seconds| Duration::from_secs(u64::from(seconds)))
}

/// What the object asks for; the error names the field.
pub(super) fn specification(name: &str, spec: &ServerClusterSpec) -> Result<ClusterSpecification, String> {
    let name = name.parse().map_err(|error: windlass_cluster::InvalidName| error.to_string())?;
    let zone = spec.zone.parse().map_err(|error| format!("spec.zone: {error}"))?;
    let mut wanted = ClusterSpecification::new(name, zone);
    wanted.project.clone_from(&spec.project);
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    if let Some(deadline) = spec.server_deadline_seconds {
        wanted.server_deadline = seconds(deadline);
    }
    if let Some(deadline) = spec.wait_deadline_seconds {
        wanted.wait_deadline = seconds(deadline);
    }
    for data in &spec.groups {
        let name: NodeGroupName =
            data.name.parse().map_err(|error: windlass_cluster::InvalidName| format!("spec.groups: {error}"))?;
        wanted.groups.insert(name, group(data));
    }
    let hook = |hook: &ServerClusterHook| Hook {
        action: HookAction::Foreign(description(hook)),
        time_limit: time_limit(hook),
    };
    if let Some(hooks) = &spec.hooks {
        wanted.hooks = HookSet {
            decommission: hooks.decommission.as_ref().map(hook),
            configure: hooks.configure.as_ref().map(hook),
            start: hooks.start.as_ref().map(hook),
        };
    }
    wanted.normalize();
    Ok(wanted)
}

/// Reads cloud-init from the objects of one namespace and from their Secrets.
pub(super) struct CloudInits {
    pub(super) client: Client,
    pub(super) namespace: String,
}

impl std::fmt::Debug for CloudInits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CloudInits").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

#[async_trait]
impl ReadCloudInit for CloudInits {
    async fn read(
        &self,
        specification: &ClusterSpecification,
        group: &NodeGroupName,
    ) -> Result<Option<Vec<u8>>, String> {
        let api: Api<ServerCluster> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = api
            .get(specification.name.as_str())
            .await
            .map_err(|error| format!("cloudInit: the object cannot be read: {error}"))?;
        let source = object.spec.groups.iter().find(|data| data.name == group.as_str());
        match source.and_then(|data| data.cloud_init.as_ref()) {
            None => Ok(None),
            Some(CloudInitSource { inline: Some(text), .. }) => Ok(Some(text.clone().into_bytes())),
            Some(CloudInitSource { secret_name: Some(secret), .. }) => {
                secret_key(&self.client, &self.namespace, secret, CLOUD_INIT_KEY)
                    .await
                    .map(Some)
                    .map_err(|problem| format!("cloudInit: {problem}"))
            }
            Some(_) => Err("cloudInit: it is neither inline nor in a Secret".to_owned()),
        }
    }
}

/// One key of a Secret.
pub(super) async fn secret_key(client: &Client, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match api.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Err(format!("there is no Secret {name}")),
        Err(error) => return Err(format!("the Secret {name} cannot be read: {error}")),
    };
    match secret.data.and_then(|mut data| data.remove(key)) {
        Some(value) if !value.0.is_empty() => Ok(value.0),
        _ => Err(format!("the Secret {name} has no key `{key}`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_lifecycle::{AddressKind, VolumeKind};

    use super::*;
    use crate::server_fields::GIGABYTE;

    fn wanted(spec: serde_json::Value) -> Result<ClusterSpecification, String> {
        let spec: ServerClusterSpec = serde_json::from_value(spec).unwrap();
        let wanted = specification("farm", &spec)?;
        wanted.check().map_err(|error| error.to_string())?;
        Ok(wanted)
    }

    #[test]
    fn every_field_reaches_the_cluster() {
        let network = "11111111-2222-4333-8444-555555555555";
        let wanted = wanted(json!({
            "zone": "fr-par-1", "project": "q", "serverDeadlineSeconds": 300, "waitDeadlineSeconds": 60,
            "groups": [{
                "name": "web", "count": 3, "types": ["PRO2-XS", "DEV1-S"], "image": "ubuntu_noble",
                "rootVolume": {"type": "sbs_volume", "sizeGB": 20, "iops": 15000},
                "additionalVolumes": [{"type": "l_ssd", "sizeGB": 10}],
                "publicIPs": ["routed_ipv4", "routed_ipv6"], "privateNetworks": [network], "securityGroup": "aaaaaaaa-1111-4111-8111-111111111111",
                "placementGroup": "bbbbbbbb-1111-4111-8111-111111111111", "tags": ["team"],
            }],
            "hooks": {
                "configure": {"job": {"image": "example.org/join:1"}, "timeLimitSeconds": 60},
                "start": {"webhook": {"url": "https://example.org/start?token=t", "secretName": "s"}},
            },
        }))
        .unwrap();
        assert_eq!((wanted.project.as_deref(), wanted.server_deadline.as_secs()), (Some("q"), 300));
        assert_eq!(wanted.wait_deadline.as_secs(), 60);
        let web = &wanted.groups[&"web".parse().unwrap()];
        assert_eq!((web.count, web.types.join(" "), web.image.as_str()), (3, "PRO2-XS DEV1-S".into(), "ubuntu_noble"));
        assert_eq!((web.root_volume.size, web.root_volume.operations_per_second), (Some(20 * GIGABYTE), Some(15000)));
        assert_eq!((web.volumes[0].kind, web.volumes[0].size), (VolumeKind::Local, Some(10 * GIGABYTE)));
        assert_eq!(web.addresses, [AddressKind::Ipv4, AddressKind::Ipv6]);
        assert_eq!(web.private_networks, [network]);
        assert_eq!(
            (web.security_group.as_deref(), web.placement_group.as_deref()),
            (Some("aaaaaaaa-1111-4111-8111-111111111111"), Some("bbbbbbbb-1111-4111-8111-111111111111"))
        );
        assert_eq!(web.tags, ["team"]);
        let configure = wanted.hooks.configure.unwrap();
        assert_eq!(configure.to_string(), "job with the image example.org/join:1");
        assert_eq!(configure.time_limit.as_secs(), 60);
        let start = wanted.hooks.start.unwrap();
        assert_eq!(start.to_string(), "webhook https://example.org/start", "the query may hold a token");
        assert_eq!(start.time_limit, windlass_cluster::DEFAULT_TIME_LIMIT);
        assert!(wanted.hooks.decommission.is_none());
    }

    #[test]
    fn a_node_has_one_address_unless_the_specification_says_otherwise() {
        let addresses = |extra: serde_json::Value| {
            let mut group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
            group.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let wanted = wanted(json!({"zone": "fr-par-1", "groups": [group]})).unwrap();
            let web = &wanted.groups[&"web".parse().unwrap()];
            (web.addresses.clone(), web.dynamic_address)
        };
        assert_eq!(addresses(json!({})), (vec![AddressKind::Ipv4], false));
        assert_eq!(addresses(json!({"publicIPs": []})), (vec![], false));
        assert_eq!(addresses(json!({"dynamicIPRequired": true})), (vec![], true));
    }

    #[test]
    fn what_cannot_be_is_named_by_its_field() {
        let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "i", "tags": ["a,b"]});
        let error = wanted(json!({"zone": "fr-par-1", "groups": [group]})).unwrap_err();
        assert!(error.contains("groups.web.tags"), "{error}");
        let error = wanted(json!({"zone": "Paris", "groups": []})).unwrap_err();
        assert!(error.contains("spec.zone"), "{error}");
    }
}
