//! Instance API v1: servers, addresses, local volumes, private network interfaces, images, groups.

mod architecture;
mod group;
mod image;
mod ip;
mod private_nic;
mod product;
mod reference;
mod server;
mod volume;

pub use architecture::Architecture;
pub use group::{
    PlacementGroup, PlacementGroupPolicyMode, PlacementGroupPolicyType, SecurityGroup, SecurityGroupPolicy,
    SecurityGroupState,
};
pub use image::{Image, ImageState, ListImages};
pub use ip::{CreateIp, Ip, IpState, IpType, ListIps, UpdateIp};
pub use private_nic::{CreatePrivateNic, ListPrivateNics, PrivateNic, PrivateNicState};
pub use product::{ServerType, ServerTypeGpuInfo, ServerTypeNetwork, SizeConstraint, Stock};
pub use reference::Reference;
pub use server::{
    AttachVolume, BootType, CreateServer, ListServers, ListServersOrder, Server, ServerAction, ServerActionRequest,
    ServerIp, ServerIpState, ServerState, Task, TaskStatus, UpdateServer, VolumeTemplate,
};
pub use volume::{CreateVolume, ListVolumes, ServerVolume, UpdateVolume, Volume, VolumeState, VolumeType};
