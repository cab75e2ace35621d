//! The controller against a real Kubernetes, Cluster API's own core and a simulated Scaleway.
//!
//! Every test is skipped, with a visible line, where the programs are missing; `just test-kubernetes` builds them and
//! makes that an error.

mod asking;
mod attacks;
mod classes;
mod clusterctl;
mod console;
mod crashes;
mod disturbances;
mod floor;
mod harness;
mod helm;
mod instances;
mod kubeadm;
mod leaders;
mod letting_go;
mod manifests;
mod migration;
mod mixed;
mod money;
mod moves;
mod nodes;
mod object_policies;
mod orders;
mod orphans;
mod policies;
mod remediation;
mod samples;
mod scale;
mod server_clusters;
mod setup;
mod shards;
mod switches;
mod tenants;
mod traces;
mod truth;
mod versions;
mod waiting;
mod weeks;
