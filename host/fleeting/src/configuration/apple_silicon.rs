use windlass_lifecycle::PoolPrefix;
use windlass_policy::slots::release::Requested;

use super::common::Common;
use crate::group::Place;

/// Everything a group of Macs needs to know, checked.
#[derive(Clone, Debug)]
pub struct AppleSiliconConfiguration {
    /// What groups of instances have as well.
    pub common: Common,
    /// Scaleway's type: `M4-S`.
    pub server_type: String,
    /// What hosts are to have.
    pub operating_system: OperatingSystem,
    /// The pool that hosts are taken from and return to. Absent: there is none.
    pub pool: Option<PoolPrefix>,
    /// Whether hosts are ordered (where there is a pool: when it is empty). Each costs a day at least.
    pub order: bool,
    /// What is requested of the release policy when a host is released.
    pub release_requested: Option<Requested>,
}

impl AppleSiliconConfiguration {
    /// Where its hosts are.
    pub(crate) fn place(&self) -> Place {
        Place { zone: self.common.first_zone().clone(), server_type: self.server_type.clone() }
    }
}

impl AsRef<Common> for AppleSiliconConfiguration {
    fn as_ref(&self) -> &Common {
        &self.common
    }
}

/// The operating system that hosts are to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Any system of a host of the pool; the type's default for an ordered host.
    Any,
    /// By its name (`macos-sequoia-15.6`) or its family (`Sequoia`).
    Named(String),
    /// By Scaleway's id; its name is looked up.
    Id(String),
}
