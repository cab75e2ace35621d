//! What the operator configured, and reconciles and accounts go by.

use std::time::Duration;

use windlass_lifecycle::OwnerName;
use windlass_scaleway::Zone;

use crate::pools::Pools;

/// What the operator configured.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) owner: OwnerName,
    /// The namespace that is watched; absent: all.
    pub(crate) watched: Option<String>,
    /// The controller's own namespace.
    pub(crate) namespace: String,
    pub(crate) zone: Option<Zone>,
    /// The project of the credentials.
    pub(crate) project: Option<String>,
    /// The name of the Secret that is a namespace's default, where the operator lets there be one.
    pub(crate) namespace_credentials: Option<String>,
    /// Whether something new is made with the controller's own key where a namespace has none.
    pub(crate) own_credentials: bool,
    pub(crate) pools: Pools,
    pub(crate) allow_orders: bool,
    pub(crate) listing_interval: Duration,
    pub(crate) retry_interval: Duration,
}
