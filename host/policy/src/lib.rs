//! Loads, checks, limits, calls, records and replaces policies. Knows wasm and the contract in `wit/policy`; must not
//! know Scaleway, a network, or what an answer is used for.

pub mod slots;
