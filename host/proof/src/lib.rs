//! Knows how to put questions to a policy and what its answers say of it; must not know a terminal or Scaleway.
