use crate::behaviour::Behaviours;

/// A call that asks for something the simulator does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No Instance and no Apple silicon server has this id.
    #[error("no server {0}")]
    UnknownServer(String),
    /// No more behaviours are kept at once.
    #[error("there are {} behaviours already; remove them first", Behaviours::MAX)]
    TooManyBehaviours,
    /// The rule can never meet a request.
    #[error("invalid fault rule: {0}")]
    InvalidRule(String),
    /// The state is not one of this kind of server.
    #[error("`{state}` is not a state of an {product} server; valid states are {valid}")]
    InvalidState {
        /// What was asked for.
        state: String,
        /// Which API the server belongs to.
        product: &'static str,
        /// The states it can have.
        valid: &'static str,
    },
}
