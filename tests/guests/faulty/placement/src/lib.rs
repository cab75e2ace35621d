//! The default policy of the slot `placement`, with the fault of `../faults.rs` that its setting `fault` names.

#![allow(clippy::collapsible_if, reason = "a fault is put into a line as it stands")]

include!("../../chosen.rs");
include!(concat!(env!("OUT_DIR"), "/lib.rs"));
