//! Knows the Kubernetes kinds and how they are reconciled. Must not know GitLab or command lines of people.
