//! Knows how a policy's folder looks and how it becomes a component; must not know what a policy decides.
