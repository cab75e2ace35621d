//! Knows what others may do to a host of policies, by seed, and which laws the host keeps meanwhile. Must not know how
//! the host keeps them.

pub mod peers;
