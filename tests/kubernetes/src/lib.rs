//! Knows how to run a real Kubernetes with Cluster API beside a simulated Scaleway, and the controller between them, on
//! one machine without images; must not know how the controller does its work: it is a program with flags here.
//!
//! # Guide
//! - [`Programs::found`]: the binaries that `go/build.sh` makes; where they are missing, tests say so and pass.
//! - [`ControlPlane`]: etcd, API server and the controllers of Kubernetes that tidy up; Cluster API as its own
//!   manifests install it, webhooks and rights included; our manifests. [`ControlPlane::shared`] is one for all tests
//!   of a run, [`ControlPlane::lend`] lends one to a test at a time.
//! - [`Scene`]: one test's namespace, Scaleway and controllers. [`Scaleway`] can hold a request at any point, which is
//!   where [`Controller::kill`] belongs.
//! - [`Pod`]: runs the container of an installed Deployment as it stands in the API server. [`ControlPlane::bare`] has
//!   nothing installed; [`ControlPlane::initialise`] installs with Cluster API's own tool.
//! - [`Nodes`]: stands in for whoever boots the machines and lets their kubelets join.
//! - [`Kubelet`]: stands in for the nodes on which pods run; here they are processes.
//! - [`Sshd`]: a real sshd in the place of a Mac's.
//! - [`eventually`]: waits for what must come, and says what was there instead.
//!
//! Every process dies with the test process, even when that is killed: a guard watches over each ([`Process`]).

mod certificates;
mod changes;
mod cluster_api;
mod clusterctl;
mod compiled;
mod control_plane;
mod controller;
mod installed;
mod kubelet;
mod nodes;
mod objects;
mod pod;
mod process;
mod programs;
mod scaleway;
mod scene;
mod sshd;
mod wait;

pub use control_plane::{ControlPlane, User};
pub use controller::{Controller, ControllerOptions};
pub use kubelet::Kubelet;
pub use nodes::Nodes;
pub use objects::{Kind, MachineOptions};
pub use pod::Pod;
pub use process::Process;
pub use programs::Programs;
pub use scaleway::{Host, Moment, Scaleway};
pub use scene::{Scene, check_past};
pub use sshd::Sshd;
pub use wait::{eventually, eventually_within};
