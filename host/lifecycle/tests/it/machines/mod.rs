//! Hosts: claimed once, released once, wiped only on their way into a pool.

mod adopting;
mod believing;
mod cancelling;
mod chaos;
mod kill;
mod ordering;
mod racing;
mod releasing;
mod support;
