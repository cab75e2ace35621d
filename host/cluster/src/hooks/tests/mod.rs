//! Hooks with real parts: programs, an HTTP server, an ssh server.

#[cfg(feature = "ssh-hooks")]
mod fuzz;
mod program;
mod specification;
#[cfg(feature = "ssh-hooks")]
mod ssh;
mod webhook;

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_policy::slots::provisioning::{NodeRole, Operation, Stage};

use super::*;

/// What the program reads.
pub(super) fn input(nodes: u32) -> HookInput {
    HookInput {
        version: HOOK_INPUT_VERSION,
        cluster: "farm".into(),
        zone: "fr-par-1".into(),
        operation: Operation::Scale,
        operation_id: "0a1b2c".into(),
        operation_number: 3,
        stage: Stage::Configure,
        attempt: 1,
        nodes: (1..=nodes).map(node).collect(),
        others: Vec::new(),
    }
}

/// Node 1 is at 127.0.0.1, node 2 at 127.0.0.2, and so on: Linux has all of 127/8 on its loopback.
pub(super) fn node(index: u32) -> HookNode {
    HookNode {
        name: format!("farm-workers-{index}"),
        group: "workers".into(),
        index,
        role: NodeRole::Made,
        configured: false,
        server_id: format!("11111111-2222-4333-8444-{index:012}"),
        server_type: "DEV1-S".into(),
        public_addresses: vec![std::net::Ipv4Addr::new(127, 0, 0, u8::try_from(index).unwrap()).into()],
        private_addresses: vec!["10.0.0.7".parse().unwrap()],
        ssh_host_key: None,
    }
}

/// Far more than anything here takes, also on a busy machine, and far less than the children of the tests sleep.
const LIMIT: Duration = Duration::from_secs(300);

/// A hook that is not to reach its time limit.
pub(super) fn hook(action: HookAction) -> Hook {
    Hook { action, time_limit: LIMIT }
}

/// A hook that is to reach its time limit, but not before it has begun.
pub(super) fn soon(action: HookAction) -> Hook {
    Hook { action, time_limit: SOON }
}

pub(super) const SOON: Duration = Duration::from_secs(5);

/// A file that only its owner may read, and run. A child writes it: a child of another thread would inherit a handle of
/// this process, and while it has that, the file cannot be run (`ETXTBSY`).
pub(super) fn private_file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let path = folder.join(name);
    let content = std::ffi::OsStr::from_bytes(content.as_ref());
    let mut write = std::process::Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\""]).arg(&path).arg(content);
    assert!(write.status().unwrap().success());
    path
}

/// Waits until something is so.
pub(super) async fn until(mut so: impl FnMut() -> bool) {
    let pause = Duration::from_millis(5);
    for _ in 0..LIMIT.as_millis() / pause.as_millis() {
        if so() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
    panic!("it is never so");
}

#[test]
fn the_input_is_as_the_documentation_has_it() {
    let mut input = input(1);
    input.others = vec![HookNode { role: NodeRole::Staying, ssh_host_key: Some("ssh-ed25519 AAAA".into()), ..node(2) }];
    let documented = serde_json::json!({
        "version": 1,
        "cluster": "farm",
        "zone": "fr-par-1",
        "operation": "scale",
        "operation_id": "0a1b2c",
        "operation_number": 3,
        "stage": "configure",
        "attempt": 1,
        "nodes": [{
            "name": "farm-workers-1",
            "group": "workers",
            "index": 1,
            "role": "made",
            "configured": false,
            "server_id": "11111111-2222-4333-8444-000000000001",
            "server_type": "DEV1-S",
            "public_addresses": ["127.0.0.1"],
            "private_addresses": ["10.0.0.7"],
            "ssh_host_key": null
        }],
        "others": [{
            "name": "farm-workers-2",
            "group": "workers",
            "index": 2,
            "role": "staying",
            "configured": false,
            "server_id": "11111111-2222-4333-8444-000000000002",
            "server_type": "DEV1-S",
            "public_addresses": ["127.0.0.2"],
            "private_addresses": ["10.0.0.7"],
            "ssh_host_key": "ssh-ed25519 AAAA"
        }]
    });
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&input.json()).unwrap(), documented);
    let of_node: serde_json::Value = serde_json::from_slice(&input.json_for(&input.nodes[0])).unwrap();
    assert_eq!(of_node["node"], documented["nodes"][0]);
    assert_eq!(of_node["nodes"], documented["nodes"]);
}

#[test]
fn the_next_attempt_is_about_the_nodes_that_are_not_done() {
    let next = input(3).next_attempt(&["farm-workers-2".into()]);
    let names = |nodes: &[HookNode]| nodes.iter().map(|node| node.index).collect::<Vec<_>>();
    assert_eq!((names(&next.nodes), names(&next.others), next.attempt), (vec![1, 3], vec![2], 2));
    assert_eq!(next.operation_id, input(3).operation_id);
}
