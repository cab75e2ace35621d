//! The objects of Scaleway's APIs, one folder or file per API.
//!
//! Answers (`Server`, `BlockVolume`, ...) read tolerantly: unknown fields are ignored, absent and `null` are the
//! default, unknown words of an enumeration are kept. Requests (`CreateServer`, `UpdateIp`, ...) are written exactly as
//! Scaleway's SDK writes them, and can be read back, because the simulator reads them. Sizes are bytes. Dates stay
//! text; the accessors beside them give instants.

pub mod apple_silicon;
pub mod block;
pub mod iam;
pub mod instance;
pub mod ipam;
pub mod marketplace;

mod instant;
mod patch;
mod secret;
mod tags;
mod tolerant;
mod word;

pub use patch::Patch;
pub use secret::Secret;
pub use tags::has_all_tags;

/// Resources with an id: lists drop duplicates by it, and an answer without one is refused.
pub(crate) trait Identified {
    fn id(&self) -> &str;
}

macro_rules! identified {
    ($($type:ty => $field:ident),+ $(,)?) => { $(
        impl Identified for $type {
            fn id(&self) -> &str {
                &self.$field
            }
        }
    )+ };
}

identified! {
    instance::Server => id,
    instance::Ip => id,
    instance::Volume => id,
    instance::PrivateNic => id,
    instance::Image => id,
    instance::SecurityGroup => id,
    instance::PlacementGroup => id,
    apple_silicon::Server => id,
    apple_silicon::OperatingSystem => id,
    apple_silicon::ServerType => name,
    block::BlockVolume => id,
    marketplace::LocalImage => id,
    marketplace::MarketplaceImage => id,
    ipam::IpamIp => id,
    iam::Quotum => name,
}

/// Entries of Scaleway's maps (server types by name) are identified by their key.
impl<T> Identified for (String, T) {
    fn id(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests;
