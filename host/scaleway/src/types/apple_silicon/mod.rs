//! Apple silicon API v1alpha1: Macs, each a physical host with a minimum lease.
//!
//! Nothing is wrapped in its answers. Hosts have no tags that could be set: the name is all that can tell whose a host
//! is.

mod operating_system;
mod server;
mod server_type;

pub use operating_system::{ListOperatingSystems, OperatingSystem, SupportedServerType};
pub use server::{
    ChangeCommitment, Commitment, CommitmentType, CreateServer, ListServers, ListServersOrder, ReinstallServer, Server,
    ServerStatus, UpdateServer, VpcStatus,
};
pub use server_type::{ServerType, ServerTypeCpu, ServerTypeGpu, ServerTypeMemory, ServerTypeNetwork, Stock};
