//! The input of a hook.

use std::net::IpAddr;

use serde::Serialize;
use windlass_policy::slots::provisioning::{NodeRole, Operation, Stage};

use super::hook::{SshAddress, SshHook};

/// The version of [`HookInput`]'s JSON. Keys may be added within a version; a hook ignores those it doesn't know.
pub const HOOK_INPUT_VERSION: u32 = 1;

/// The input of a hook, as JSON: keys in snake case, words of the contract (`decommission`, `made`) in kebab case.
/// `docs/clusters.md` has it for users. No secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookInput {
    /// [`HOOK_INPUT_VERSION`].
    pub version: u32,
    /// The cluster's name.
    pub cluster: String,
    /// Scaleway's zone.
    pub zone: String,
    /// What is being done with the cluster.
    pub operation: Operation,
    /// The operation's id: the same over retries and restarts, so that a hook can recognise its own earlier work.
    pub operation_id: String,
    /// The cluster's nth operation, from 1; what the id ends with.
    pub operation_number: u64,
    /// `decommission`, `configure` or `start`.
    pub stage: Stage,
    /// From 1.
    pub attempt: u32,
    /// The nodes that this run is about.
    pub nodes: Vec<HookNode>,
    /// All other nodes of the cluster, for a hook that has to introduce them to each other.
    pub others: Vec<HookNode>,
}

/// A node as a hook sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookNode {
    /// Its name, which is the server's name.
    pub name: String,
    /// Its node group.
    pub group: String,
    /// Its number in the group, from 1; never given twice.
    pub index: u32,
    /// What it is to the operation.
    pub role: NodeRole,
    /// Whether the configure hook has ended well for it. One that is to be decommissioned may be half configured.
    pub configured: bool,
    /// Scaleway's id of the server.
    pub server_id: String,
    /// Scaleway's type of the server.
    pub server_type: String,
    /// Flexible and dynamic addresses.
    pub public_addresses: Vec<IpAddr>,
    /// Addresses in private networks.
    pub private_addresses: Vec<IpAddr>,
    /// The host key that an ssh hook saw first, as in an OpenSSH `.pub` file. The caller keeps it per node
    /// ([`NodeOutput::host_key`]).
    ///
    /// [`NodeOutput::host_key`]: super::NodeOutput::host_key
    pub ssh_host_key: Option<String>,
}

impl HookInput {
    /// The input of the next attempt: nodes for which the hook has ended well already are no longer what it is about.
    #[must_use]
    pub fn next_attempt(mut self, succeeded: &[String]) -> Self {
        let (done, rest): (Vec<_>, Vec<_>) = self.nodes.into_iter().partition(|node| succeeded.contains(&node.name));
        self.nodes = rest;
        self.others.extend(done);
        self.attempt = self.attempt.saturating_add(1);
        self
    }

    /// The JSON that programs and webhooks get: one line with its end.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(self).expect("a struct of texts and numbers has no way to fail");
        // Line-wise readers (`read`, `while read`) see a whole line.
        json.push(b'\n');
        json
    }

    /// The JSON that a command on a node gets: the node itself, and everything else.
    pub(super) fn json_for(&self, node: &HookNode) -> Vec<u8> {
        #[derive(Serialize)]
        struct ForNode<'i> {
            node: &'i HookNode,
            #[serde(flatten)]
            input: &'i HookInput,
            // Most servers take no environment over ssh.
            #[serde(skip_serializing_if = "Option::is_none")]
            traceparent: Option<String>,
        }
        let for_node = ForNode { node, input: self, traceparent: trace_context() };
        let mut json = serde_json::to_vec(&for_node).expect("a struct of texts and numbers has no way to fail");
        json.push(b'\n');
        json
    }
}

impl HookNode {
    /// Where ssh finds it.
    pub(super) fn ssh_address(&self, ssh: &SshHook) -> Option<IpAddr> {
        let public = self.public_addresses.first();
        let private = self.private_addresses.first();
        match ssh.address {
            SshAddress::Any => public.or(private),
            SshAddress::Public => public,
            SshAddress::Private => private,
        }
        .copied()
    }
}

/// The W3C trace context of the hook that runs here; `None` where no traces are exported.
pub(super) fn trace_context() -> Option<String> {
    windlass_telemetry::traceparent(&tracing::Span::current())
}
