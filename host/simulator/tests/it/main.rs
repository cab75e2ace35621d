//! What the simulator promises, asked from outside.

#![allow(clippy::unwrap_used)]

mod apple_silicon;
mod arbitrary_calls;
mod behaviours;
mod block_storage;
mod caller;
mod controls;
mod conversations;
mod determinism;
mod faults;
mod instance_ips;
mod instance_lists;
mod instance_servers;
mod instance_volumes;
mod offers;
mod other_apis;
mod recorded_answers;
mod sockets;
mod typed_client;
