//! From the object to what the lifecycle creates.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use windlass_lifecycle::{CloudInit, ExtraVolume, GroupName, ImageChoice, RootVolume, ServerSpecification};
use windlass_scaleway::Zone;

use crate::kinds::InstanceMachineSpec;
use crate::outcome::Outcome;
use crate::server_fields::{CLOUD_INIT_KEY, addresses, volume_kind, volume_size};

/// The key under which Cluster API's bootstrap providers tell the data's form.
const FORMAT: &str = "format";

/// What the lifecycle is asked for; the error names the field.
pub(super) fn specification(
    spec: &InstanceMachineSpec,
    name: &str,
    group: GroupName,
    zone: Zone,
) -> Result<ServerSpecification, String> {
    let first = spec.types.first().ok_or("spec.types: at least one server type is needed")?;
    let mut wanted = ServerSpecification::new(group, zone, first, ImageChoice::parse(&spec.image));
    wanted.name = Some(name.to_owned());
    wanted.types.clone_from(&spec.types);
    if let Some(root) = &spec.root_volume {
        wanted.root_volume =
            RootVolume { kind: volume_kind(root), size: volume_size(root), operations_per_second: root.iops };
    }
    for volume in spec.additional_volumes.iter().flatten() {
        let size = volume_size(volume).ok_or("spec.additionalVolumes: sizeGB is needed")?;
        wanted.volumes.push(ExtraVolume::New { kind: volume_kind(volume), size, operations_per_second: volume.iops });
    }
    wanted.dynamic_address = spec.dynamic_ip_required.unwrap_or(false);
    wanted.addresses = addresses(spec.public_ips.as_deref(), wanted.dynamic_address);
    wanted.private_networks = spec.private_networks.clone().unwrap_or_default();
    wanted.security_group.clone_from(&spec.security_group);
    wanted.placement_group.clone_from(&spec.placement_group);
    wanted.project.clone_from(&spec.project);
    wanted.tags = spec.tags.clone().unwrap_or_default();
    if let Some(seconds) = spec.create_deadline_seconds {
        wanted.deadline_milliseconds = u64::from(seconds) * 1000;
    }
    wanted.normalize();
    let problems: Vec<String> = wanted.problems(1).iter().map(ToString::to_string).collect();
    if problems.is_empty() { Ok(wanted) } else { Err(format!("spec: {}", problems.join("; "))) }
}

/// Reads the bootstrap data.
pub(super) async fn cloud_init(
    client: &Client,
    namespace: &str,
    name: &str,
    retry: std::time::Duration,
) -> Result<CloudInit, Outcome> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match api.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return Err(Outcome::Waiting {
                reason: "WaitingForBootstrapData",
                message: format!("there is no Secret {name} with the bootstrap data yet"),
                after: retry,
            });
        }
        Err(error) => {
            return Err(Outcome::Failed {
                reason: "BootstrapDataUnreadable",
                message: format!("the Secret {name} with the bootstrap data cannot be read: {error}"),
            });
        }
    };
    content(&secret, name)
}

fn content(secret: &Secret, name: &str) -> Result<CloudInit, Outcome> {
    let wrong = |message: String| Err(Outcome::Failed { reason: "InvalidBootstrapData", message });
    let data = secret.data.as_ref();
    if let Some(format) = data.and_then(|data| data.get(FORMAT))
        && format.0 != b"cloud-config"
    {
        let format: String = String::from_utf8_lossy(&format.0).chars().take(32).collect();
        return wrong(format!(
            "the Secret {name} holds bootstrap data of the format {format:?}; only cloud-config is understood"
        ));
    }
    match data.and_then(|data| data.get(CLOUD_INIT_KEY)) {
        Some(value) if !value.0.is_empty() => Ok(CloudInit::new(value.0.clone())),
        _ => wrong(format!("the Secret {name} has no key `{CLOUD_INIT_KEY}` with the bootstrap data")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_lifecycle::{AddressKind, VolumeKind};

    use super::*;
    use crate::server_fields::GIGABYTE;

    fn wanted(spec: serde_json::Value) -> Result<ServerSpecification, String> {
        let spec: InstanceMachineSpec = serde_json::from_value(spec).unwrap();
        specification(&spec, "worker-1", "default-prod".parse().unwrap(), "fr-par-1".parse().unwrap())
    }

    #[test]
    fn every_field_reaches_the_lifecycle() {
        let wanted = wanted(json!({
            "types": ["PRO2-XS", "DEV1-S"], "image": "ubuntu_noble",
            "rootVolume": {"type": "sbs_volume", "sizeGB": 20, "iops": 15000},
            "additionalVolumes": [{"type": "l_ssd", "sizeGB": 10}],
            "publicIPs": ["routed_ipv4", "routed_ipv6"], "privateNetworks": ["fr-par/11111111-2222-4333-8444-555555555555"], "securityGroup": "aaaaaaaa-1111-4111-8111-111111111111",
            "placementGroup": "bbbbbbbb-1111-4111-8111-111111111111",
            "project": "q", "tags": ["team"], "createDeadlineSeconds": 300,
        }))
        .unwrap();
        assert_eq!(wanted.types, ["PRO2-XS", "DEV1-S"]);
        assert_eq!(wanted.name.as_deref(), Some("worker-1"));
        assert_eq!(wanted.root_volume.size, Some(20 * GIGABYTE));
        assert_eq!(wanted.root_volume.operations_per_second, Some(15000));
        assert_eq!(
            wanted.volumes,
            [ExtraVolume::New { kind: VolumeKind::Local, size: 10 * GIGABYTE, operations_per_second: None }]
        );
        assert_eq!(wanted.addresses, [AddressKind::Ipv4, AddressKind::Ipv6]);
        assert_eq!(
            (wanted.security_group.as_deref(), wanted.placement_group.as_deref()),
            (Some("aaaaaaaa-1111-4111-8111-111111111111"), Some("bbbbbbbb-1111-4111-8111-111111111111"))
        );
        assert_eq!((wanted.project.as_deref(), wanted.deadline_milliseconds), (Some("q"), 300_000));
        assert_eq!((wanted.private_networks.len(), wanted.tags.len()), (1, 1));
    }

    #[test]
    fn a_server_has_one_address_unless_the_specification_says_otherwise() {
        let minimal = json!({"types": ["DEV1-S"], "image": "ubuntu_noble"});
        assert_eq!(wanted(minimal).unwrap().addresses, [AddressKind::Ipv4]);
        let none = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "publicIPs": []});
        assert!(wanted(none).unwrap().addresses.is_empty());
        let dynamic = wanted(json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "dynamicIPRequired": true})).unwrap();
        assert!(dynamic.addresses.is_empty() && dynamic.dynamic_address);
    }

    #[test]
    fn what_cannot_be_is_named_by_its_field() {
        let error = wanted(json!({"types": ["DEV1-S"], "image": "i", "tags": ["a,b"]})).unwrap_err();
        assert!(error.contains("tags"), "{error}");
        let error = wanted(json!({"types": ["DEV1-S"], "image": "i", "additionalVolumes": [{}]})).unwrap_err();
        assert!(error.contains("additionalVolumes: sizeGB"), "{error}");
    }

    #[test]
    fn bootstrap_data_is_cloud_config_under_value() {
        let secret = |data| serde_json::from_value::<Secret>(json!({"metadata": {"name": "s"}, "data": data})).unwrap();
        // base64 of "#cloud-config", "cloud-config" and "ignition"
        assert!(content(&secret(json!({"value": "I2Nsb3VkLWNvbmZpZw=="})), "s").is_ok());
        assert!(content(&secret(json!({"value": "I2Nsb3VkLWNvbmZpZw==", "format": "Y2xvdWQtY29uZmln"})), "s").is_ok());
        for (data, part) in [
            (json!({"value": "eA==", "format": "aWduaXRpb24="}), "ignition"),
            (json!({"data": "eA=="}), "no key `value`"),
            (json!({"value": ""}), "no key `value`"),
        ] {
            match content(&secret(data), "s") {
                Err(Outcome::Failed { message, .. }) => assert!(message.contains(part), "{message}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
