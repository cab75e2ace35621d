//! `InstanceMachine`: an Instance server, created and removed whole.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{CredentialsReference, MachineStatus, TemplateMetadata, TemplateStatus};
use super::rules::{ZONE, dns_label, unchanged};

/// An Instance on Scaleway, with its volumes and addresses.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "InstanceMachine",
    plural = "instancemachines",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "cluster-api",
    category = "windlass",
    shortname = "im",
    doc = "An Instance server on Scaleway with everything that belongs to it.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Types", type_ = "string", json_path = ".spec.types"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".status.failureDomain"),
    printcolumn(name = "Server", type_ = "string", json_path = ".status.serverID", priority = 1),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = dns_label(
        63,
        "the name must be a DNS label: lower-case letters, digits and dashes, at most 63, since the server carries it",
    ),
    validation = unchanged(
        "spec.", &[], &["credentialsRef"],
        "credentialsRef cannot be changed: to use another key of the same project, change the Secret; for another \
         project, make a new machine",
    ),
    validation = Rule::new("!has(oldSelf.spec.providerID) || (has(self.spec.providerID) && self.spec.providerID == \
                        oldSelf.spec.providerID)")
        .message("providerID cannot be changed once it is set"),
    validation = unchanged(
        "spec.", &["types", "image"], &["zone", "project"],
        "types, image, zone and project cannot be changed: make a new machine",
    ),
    validation = unchanged(
        "spec.", &[], &["rootVolume", "additionalVolumes"],
        "volumes cannot be changed: make a new machine",
    ),
    validation = unchanged(
        "spec.", &[], &["publicIPs", "dynamicIPRequired", "privateNetworks", "securityGroup", "placementGroup", "tags"],
        "networks, groups and tags cannot be changed: make a new machine",
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.dynamicIPRequired) && self.dynamicIPRequired && has(self.publicIPs) && \
                        self.publicIPs.size() > 0)")
        .message("dynamicIPRequired and publicIPs exclude each other: Scaleway gives a dynamic address only to a \
                  server without a flexible one")
)]
pub struct InstanceMachineSpec {
    /// `scaleway://instance/<zone>/<id>`, as Scaleway's cloud controller manager writes it into the Node. Set by the
    /// controller.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "providerID")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = r"^scaleway://instance/(fr-par|it-mil|nl-ams|pl-waw)-[1-9]/[a-zA-Z0-9-]+$")
    )]
    pub provider_id: Option<String>,
    /// The Secret in the object's namespace with Scaleway's credentials: the keys `SCW_SECRET_KEY`,
    /// `SCW_DEFAULT_PROJECT_ID` and `SCW_ACCESS_KEY`. Absent: the namespace's own, where the operator lets there be
    /// one, else the controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsReference>,
    /// The zone. Absent: the Machine's failure domain, else the controller's default zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = ZONE))]
    pub zone: Option<String>,
    /// Commercial types in order of preference. If one is out of stock, the next is tried.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$")))]
    pub types: Vec<String>,
    /// A label of the marketplace (`ubuntu_noble`) or the id of an image in the zone.
    #[schemars(length(min = 1, max = 128))]
    pub image: String,
    /// The root volume. Absent: as large as the image, on Block Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<Volume>,
    /// Additional volumes. They are deleted with the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub additional_volumes: Option<Vec<Volume>>,
    /// Flexible IP addresses to create and attach. Absent: one IPv4 address. Empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "publicIPs")]
    #[schemars(length(max = 4))]
    pub public_ips: Option<Vec<PublicIp>>,
    /// Whether Scaleway assigns a dynamic IP address at power-on.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "dynamicIPRequired")]
    pub dynamic_ip_required: Option<bool>,
    /// The IDs of the private networks to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 64)))]
    pub private_networks: Option<Vec<String>>,
    /// The ID of a security group. Absent: the project's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub security_group: Option<String>,
    /// The ID of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub placement_group: Option<String>,
    /// The ID of the project. Absent: the credentials' default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub project: Option<String>,
    /// Additional tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), inner(length(min = 1, max = 512)))]
    #[x_kube(
        validation = Rule::new("self.all(tag, !tag.contains(',') && !tag.startsWith('windlass-'))")
            .message("a tag must not hold a comma or begin with `windlass-`, which is reserved")
    )]
    pub tags: Option<Vec<String>>,
    /// The cloud-init for an object that no Cluster API Machine owns. If a Machine owns the object, its bootstrap data
    /// is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// The time limit of the creation, in seconds. Absent: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 86400))]
    pub create_deadline_seconds: Option<u32>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.iops) || !has(self.type) || self.type == 'sbs_volume'")
        .message("iops can only be chosen for sbs_volume")
)]
pub struct Volume {
    /// The type of the volume. Absent: Block Storage.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub kind: Option<VolumeType>,
    /// Gigabytes (10^9 bytes). Absent for a root volume: as large as the image.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "sizeGB")]
    #[schemars(range(min = 1, max = 10000))]
    pub size_gb: Option<u32>,
    /// Operations per second: 5000 or 15000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == 5000 || self == 15000").message("iops is 5000 or 15000"))]
    pub iops: Option<u32>,
}

/// Scaleway's types of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeType {
    /// Block Storage. Windlass deletes it with the server.
    #[default]
    #[serde(rename = "sbs_volume")]
    BlockStorage,
    /// Local storage of the hypervisor.
    #[serde(rename = "l_ssd")]
    LocalSsd,
    /// Scratch storage of GPU types. Not available for a root volume.
    #[serde(rename = "scratch")]
    Scratch,
}

/// The kind of a flexible IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PublicIp {
    /// One IPv4 address.
    #[serde(rename = "routed_ipv4")]
    Ipv4,
    /// One IPv6 prefix.
    #[serde(rename = "routed_ipv6")]
    Ipv6,
}

/// The source of the cloud-init.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret in the same namespace; its key `value` holds the cloud-init, as Cluster API's bootstrap providers
    /// write it.
    #[schemars(length(min = 1, max = 253))]
    pub data_secret_name: String,
}

/// A machine of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct InstanceMachineResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The machine.
    pub spec: InstanceMachineSpec,
}

/// The template from which Cluster API creates `InstanceMachine` objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "InstanceMachineTemplate",
    plural = "instancemachinetemplates",
    namespaced,
    status = "TemplateStatus",
    derive = "PartialEq",
    category = "cluster-api",
    category = "windlass",
    shortname = "imt",
    doc = "The template from which Cluster API creates InstanceMachines.",
    printcolumn(name = "Types", type_ = "string", json_path = ".spec.template.spec.types"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.spec.image"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.capacity.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.capacity.memory"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.template.spec.providerID)")
        .message("a template cannot name one server: leave providerID out")
)]
pub struct InstanceMachineTemplateSpec {
    /// The template.
    pub template: InstanceMachineResource,
}
