//! Knows clusters of servers: how they are created, scaled and terminated as one thing, and what a failure undoes. Must not know
//! command lines or Kubernetes.
