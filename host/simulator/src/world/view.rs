//! How the APIs show what exists: the recorded keys, with `null` where `null` was recorded.

use serde_json::{Map, Value, json};

use super::*;
use crate::catalogue::apple_silicon::os_of_server;
use crate::clock::{offset_date, zulu_date, zulu_instant};

/// What stands where a secret would in every answer but that of GET (recorded).
const SEALED: &str = "<sealed>";

impl World {
    /// A host; `sealed` hides its password.
    pub(crate) fn show_apple_host(&self, server: &AppleServer, sealed: bool) -> Value {
        let (password, vnc_url) = if sealed {
            (SEALED.to_owned(), SEALED.to_owned())
        } else {
            (server.password.clone(), format!("vnc://m1:{}@{}:59010", server.password, server.ip))
        };
        json!({
            "id": server.id,
            "type": server.server_type,
            "name": server.name,
            "project_id": server.project,
            "organization_id": server.organization,
            "ip": server.ip,
            "vnc_url": vnc_url,
            "ssh_username": "m1",
            "sudo_password": password,
            "vnc_port": 59010,
            "os": os_of_server(self.options.seed, &server.os),
            "status": server.status.as_str(),
            "created_at": zulu_instant(server.created),
            "updated_at": zulu_instant(server.updated),
            "deletable_at": zulu_instant(server.deletable),
            "deletion_scheduled": server.deletion_scheduled,
            "zone": server.zone,
            "delivered": server.delivered,
            "vpc_status": if server.enable_vpc { "vpc_enabled" } else { "vpc_disabled" },
            "commitment": {"type": server.commitment.as_str(), "cancelled": false},
            "public_bandwidth_bps": server.public_bandwidth_bps,
            "runner_configuration": null,
            "tags": [],
            "applied_runner_configuration_ids": [],
        })
    }

    pub(crate) fn show_server(&self, server: &Server) -> Value {
        let public_ips = self.public_ips(server);
        let location = server.location.as_ref().map(|location| {
            json!({
                "zone_id": server.zone,
                "platform_id": location.platform.to_string(),
                "cluster_id": location.cluster.to_string(),
                "hypervisor_id": location.hypervisor.to_string(),
                "node_id": location.node.to_string(),
            })
        });
        let image =
            server.image.as_ref().and_then(|id| self.image(&server.zone, id)).map(|image| self.show_image(&image));
        let volumes: Map<String, Value> = server
            .volumes
            .iter()
            .filter_map(|(number, volume)| Some((number.to_string(), self.show_attached(server, volume)?)))
            .collect();
        let security_group =
            self.security_groups.get(&server.security_group).map(|group| json!({"id": group.id, "name": group.name}));
        let placement_group =
            server.placement_group.as_ref().and_then(|id| self.placement_groups.get(id)).map(|group| {
                // Recorded 26 of 26 times, whatever the group itself says.
                let mut shown = self.show_placement_group(group);
                shown["policy_respected"] = false.into();
                shown
            });
        let filesystems: Vec<Value> = server
            .filesystems
            .iter()
            .map(|(id, state)| json!({"filesystem_id": id, "state": state.as_str()}))
            .collect();
        let nics: Vec<Value> = self.nics_of(&server.id).into_iter().map(|nic| self.show_private_nic(nic)).collect();
        json!({
            "id": server.id,
            "name": server.name,
            "arch": server.arch,
            "commercial_type": server.commercial_type,
            "boot_type": server.boot_type,
            "organization": server.organization,
            "project": server.project,
            "hostname": server.name,
            "image": image,
            "volumes": volumes,
            "tags": server.tags,
            "state": server.state.as_str(),
            "protected": server.protected,
            "state_detail": server.detail,
            "public_ip": public_ips.first(),
            "public_ips": public_ips,
            "mac_address": server.mac,
            "routed_ip_enabled": true,
            "ipv6": null,
            "extra_networks": [],
            "dynamic_ip_required": server.dynamic_ip_required,
            "enable_ipv6": false,
            "private_ip": null,
            "creation_date": offset_date(server.created),
            "modification_date": offset_date(server.modified),
            "bootscript": null,
            "security_group": security_group,
            "location": location,
            "maintenances": [],
            "allowed_actions": server.allowed_actions(),
            "placement_group": placement_group,
            "private_nics": nics,
            "zone": server.zone,
            "filesystems": filesystems,
            "end_of_service": false,
            "dns": format!("{}.pub.instances.scw.cloud", server.id),
            // The recorded backends came in two versions, of which one leaves this key out.
            "admin_password_encryption_ssh_key_id": server.admin_password_encryption_ssh_key_id,
        })
    }

    /// A server's private NICs, oldest first.
    pub(crate) fn nics_of(&self, server: &str) -> Vec<&PrivateNic> {
        sorted(self.private_nics.values().filter(|nic| nic.server == server), false, |nic| nic.created)
    }

    fn public_ips(&self, server: &Server) -> Vec<Value> {
        let mut shown = Vec::new();
        let mut has_v4 = false;
        for ip in server.public_ips.iter().filter_map(|id| self.ips.get(id)) {
            let (address, gateway, netmask, family, mode) = match ip.kind {
                IpKind::V4 { address } => {
                    // Recorded: the first IPv4 address comes by DHCP, any further one is configured by hand.
                    let mode = if has_v4 { "manual" } else { "dhcp" };
                    has_v4 = true;
                    (address.to_string(), "62.210.0.1".to_owned(), "32", "inet", mode)
                }
                IpKind::V6 { host, .. } => (host.to_string(), link_local(&server.mac), "64", "inet6", "slaac"),
            };
            shown.push(json!({
                "id": ip.id, "address": address, "dynamic": false, "gateway": gateway, "netmask": netmask,
                "family": family, "provisioning_mode": mode, "tags": ip.tags, "state": "attached", "ipam_id": ip.id,
            }));
        }
        if let Some(ip) = &server.dynamic_ip {
            let state = if ip.attached { "attached" } else { "pending" };
            shown.push(json!({
                "id": ip.id, "address": ip.address, "dynamic": true, "gateway": "62.210.0.1", "netmask": "32",
                "family": "inet", "provisioning_mode": "dhcp", "tags": [], "state": state, "ipam_id": ip.id,
            }));
        }
        shown
    }

    fn show_attached(&self, server: &Server, attached: &AttachedVolume) -> Option<Value> {
        match attached.kind {
            VolumeKind::Block => Some(json!({
                "boot": attached.boot, "volume_type": "sbs_volume", "id": attached.id, "state": "available",
                "zone": server.zone,
            })),
            VolumeKind::Local => {
                let mut view = self.show_volume(self.volumes.get(&attached.id)?);
                if server.is_terminating() {
                    view["state"] = "deleting".into();
                }
                view["boot"] = attached.boot.into();
                Some(view)
            }
        }
    }

    pub(crate) fn show_image(&self, image: &Image) -> Value {
        let root = match &image.root {
            RootVolume::Block { snapshot, .. } => {
                json!({"volume_type": "sbs_snapshot", "id": snapshot, "size": 0, "name": ""})
            }
            RootVolume::Local { snapshot, name, size } => {
                json!({"id": snapshot, "name": name, "volume_type": "l_ssd", "size": size})
            }
        };
        json!({
            "id": image.id,
            "name": image.name,
            "organization": image.organization,
            "project": image.project,
            "root_volume": root,
            "extra_volumes": {},
            "public": image.public,
            "arch": image.arch,
            "creation_date": offset_date(image.created),
            "modification_date": offset_date(image.modified),
            "default_bootscript": null,
            "from_server": image.from_server,
            "state": image.state,
            "tags": image.tags,
            "zone": image.zone,
        })
    }

    fn server_summary(&self, id: Option<&String>) -> Value {
        id.and_then(|id| self.servers.get(id)).map(|server| json!({"id": server.id, "name": server.name})).into()
    }

    pub(crate) fn show_ip(&self, ip: &Ip) -> Value {
        let (address, prefix) = match ip.kind {
            IpKind::V4 { address } => (Some(address.to_string()), None),
            IpKind::V6 { prefix, .. } => (None, Some(format!("{prefix}/64"))),
        };
        let state = if ip.server.is_some() { "attached" } else { "detached" };
        json!({
            "id": ip.id, "address": address, "prefix": prefix, "reverse": ip.reverse,
            "server": self.server_summary(ip.server.as_ref()), "organization": ip.organization, "project": ip.project,
            "zone": ip.zone, "type": ip.kind.as_str(), "state": state, "tags": ip.tags, "ipam_id": ip.id,
        })
    }

    pub(crate) fn show_volume(&self, volume: &Volume) -> Value {
        json!({
            "id": volume.id,
            "name": volume.name,
            "volume_type": volume.volume_type,
            "export_uri": null,
            "organization": volume.organization,
            "project": volume.project,
            "server": self.server_summary(volume.server.as_ref()),
            "size": volume.size,
            "state": "available",
            "creation_date": offset_date(volume.created),
            "modification_date": offset_date(volume.modified),
            "tags": volume.tags,
            "zone": volume.zone,
        })
    }

    pub(crate) fn show_snapshot(&self, snapshot: &Snapshot) -> Value {
        json!({
            "id": snapshot.id,
            "name": snapshot.name,
            "organization": snapshot.organization,
            "project": snapshot.project,
            "tags": snapshot.tags,
            "volume_type": snapshot.volume_type,
            "size": snapshot.size,
            "state": if snapshot.ready { "available" } else { "snapshotting" },
            "base_volume": snapshot.base_volume.as_ref().map(|(id, name)| json!({"id": id, "name": name})),
            "creation_date": offset_date(snapshot.created),
            "modification_date": offset_date(snapshot.created),
            "zone": snapshot.zone,
            "error_reason": null,
        })
    }

    pub(crate) fn show_block_volume(&self, volume: &BlockVolume) -> Value {
        let references: Vec<Value> = volume
            .references
            .iter()
            .map(|reference| {
                json!({
                    "id": reference.id,
                    "product_resource_type": "instance_server",
                    "product_resource_id": reference.server,
                    "created_at": zulu_date(reference.created),
                    "type": "exclusive",
                    "status": reference.status.as_str(),
                })
            })
            .collect();
        json!({
            "id": volume.id,
            "name": volume.name,
            "type": if volume.iops == 15_000 { "sbs_15k" } else { "sbs_5k" },
            "size": volume.size,
            "project_id": volume.project,
            "created_at": zulu_date(volume.created),
            "updated_at": zulu_date(volume.updated),
            "references": references,
            "parent_snapshot_id": volume.parent_snapshot,
            "status": volume.status(),
            "tags": volume.tags,
            "specs": {"perf_iops": volume.iops, "class": "sbs"},
            "last_detached_at": optional_date(volume.last_detached),
            "kms_key_id": null,
            "zone": volume.zone,
        })
    }

    pub(crate) fn show_block_snapshot(&self, snapshot: &BlockSnapshot) -> Value {
        let parent = snapshot.parent_volume.as_ref().and_then(|id| self.block_volumes.get(id)).map(|volume| {
            json!({
                "id": volume.id, "name": volume.name, "type": if volume.iops == 15_000 { "sbs_15k" } else { "sbs_5k" },
                "status": volume.status(),
            })
        });
        json!({
            "id": snapshot.id,
            "name": snapshot.name,
            "parent_volume": parent,
            "size": snapshot.size,
            "project_id": snapshot.project,
            "created_at": zulu_date(snapshot.created),
            "updated_at": zulu_date(snapshot.created),
            "references": [],
            "status": if snapshot.ready { "available" } else { "creating" },
            "tags": snapshot.tags,
            "class": "sbs",
            "zone": snapshot.zone,
        })
    }

    pub(crate) fn show_private_nic(&self, nic: &PrivateNic) -> Value {
        json!({
            "id": nic.id,
            "private_network_id": nic.private_network,
            "server_id": nic.server,
            "mac_address": nic.mac,
            "state": "available",
            "creation_date": offset_date(nic.created),
            "modification_date": offset_date(nic.modified),
            "zone": nic.zone,
            "tags": nic.tags,
            "ipam_ip_ids": nic.ips,
        })
    }

    /// The same NIC as API v2alpha1 shows it.
    pub(crate) fn show_interface(&self, nic: &PrivateNic) -> Value {
        json!({
            "id": nic.id,
            "private_network_id": nic.private_network,
            "project_id": nic.project,
            "server_id": nic.server,
            "security_group_id": "",
            "mac_address": nic.mac,
            "status": if nic.attaching { "attaching" } else { "available" },
            "ip_ids": nic.ips,
            "tags": nic.tags,
            "created_at": zulu_date(nic.created),
            "updated_at": zulu_date(nic.modified),
        })
    }

    pub(crate) fn show_security_group(&self, group: &SecurityGroup) -> Value {
        let servers: Vec<Value> = self
            .servers
            .values()
            .filter(|server| server.security_group == group.id)
            .map(|server| json!({"id": server.id, "name": server.name}))
            .collect();
        json!({
            "id": group.id,
            "creation_date": offset_date(group.created),
            "modification_date": offset_date(group.modified),
            "name": group.name,
            "description": group.description,
            "organization": group.organization,
            "project": group.project,
            "servers": servers,
            "stateful": group.stateful,
            "inbound_default_policy": group.inbound_default_policy,
            "outbound_default_policy": group.outbound_default_policy,
            "organization_default": group.project_default,
            "project_default": group.project_default,
            "enable_default_security": group.enable_default_security,
            "state": "available",
            "tags": group.tags,
            "zone": group.zone,
        })
    }

    pub(crate) fn show_placement_group(&self, group: &PlacementGroup) -> Value {
        json!({
            "id": group.id,
            "name": group.name,
            "organization": group.organization,
            "project": group.project,
            "policy_mode": group.policy_mode,
            "policy_type": group.policy_type,
            "policy_respected": true,
            "tags": group.tags,
            "zone": group.zone,
        })
    }

    /// The same group as API v2alpha1 shows it.
    pub(crate) fn show_placement_group_v2(&self, group: &PlacementGroup) -> Value {
        json!({
            "project_id": group.project,
            "name": group.name,
            "id": group.id,
            "policy_type": group.policy_type,
            "tags": group.tags,
            "created_at": zulu_date(group.created),
            "updated_at": zulu_date(group.updated),
            "zone": group.zone,
        })
    }

    pub(crate) fn show_ssh_key(&self, key: &SshKey) -> Value {
        json!({
            "id": key.id,
            "name": key.name,
            "public_key": key.public_key,
            "fingerprint": key.fingerprint,
            "created_at": zulu_date(key.created),
            "updated_at": zulu_date(key.updated),
            "organization_id": key.organization,
            "project_id": key.project,
            "disabled": key.disabled,
        })
    }
}

/// The gateway of an IPv6 address: a link-local address made from the server's MAC (recorded).
fn link_local(mac: &str) -> String {
    let part = |index: usize| mac.get(index * 3..index * 3 + 2).unwrap_or("00");
    format!("fe80::dc{}:{}ff:fe{}:{}{}", part(1), part(2), part(3), part(4), part(5))
}
