//! What the component that evaluates files of rules tells beside its answers. The host asks it no other policy.

pub use crate::bindings::rules::exports::windlass::policy::rules::Applied;

/// A policy made of rules.
pub trait Policy {
    /// The rules that answered in the decision that was just made, in the order of the file.
    fn applied(&self) -> Vec<Applied>;

    /// What is wrong with the rules although they can be used.
    fn remarks(&self) -> Vec<String>;
}
