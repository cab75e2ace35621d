use crate::types::tolerant::answers;
use crate::types::word::words;

use super::Reference;

words! {
    /// What a security group does with traffic that no rule names.
    pub enum SecurityGroupPolicy {
        /// Lets it through.
        Accept = "accept",
        Drop = "drop",
    }
}

words! {
    /// Whether a security group's rules are in force.
    pub enum SecurityGroupState {
        /// Yes.
        Available = "available",
        /// Not yet.
        Syncing = "syncing",
        /// Scaleway failed to set them.
        SyncingError = "syncing_error",
    }
}

words! {
    /// How strict a placement group is.
    pub enum PlacementGroupPolicyMode {
        /// As well as possible.
        Optional = "optional",
        /// A server that cannot be placed so does not start.
        Enforced = "enforced",
    }
}

words! {
    pub enum PlacementGroupPolicyType {
        /// Servers far from each other.
        MaxAvailability = "max_availability",
        /// Servers close to each other.
        LowLatency = "low_latency",
    }
}

answers! {
    pub struct SecurityGroup {
        /// UUID.
        pub id: String,
        pub name: String,
        /// Words for people.
        pub description: Option<String>,
        pub organization: String,
        pub project: String,
        /// Servers in it; Scaleway lists only some.
        pub servers: Vec<Reference>,
        /// Whether answers to allowed traffic are allowed.
        pub stateful: bool,
        /// For traffic to the servers.
        pub inbound_default_policy: SecurityGroupPolicy,
        /// For traffic from the servers.
        pub outbound_default_policy: SecurityGroupPolicy,
        /// Whether it is the project's default.
        pub project_default: bool,
        /// Whether Scaleway's own rules (no mail from servers) apply.
        pub enable_default_security: bool,
        /// Whether its rules are in force.
        pub state: SecurityGroupState,
        pub tags: Vec<String>,
        pub zone: String,
    }

    pub struct PlacementGroup {
        /// UUID.
        pub id: String,
        pub name: String,
        pub organization: String,
        pub project: String,
        pub tags: Vec<String>,
        /// How strict it is.
        pub policy_mode: PlacementGroupPolicyMode,
        /// What it is for.
        pub policy_type: PlacementGroupPolicyType,
        /// Whether its servers are placed so.
        pub policy_respected: bool,
        pub zone: String,
    }
}
