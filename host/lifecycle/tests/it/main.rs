//! The proof, against the simulator in process under paused time, and over a socket where a process is killed.

#![allow(clippy::unwrap_used)]
// The tests play users as well, who change things as they like.
#![allow(clippy::disallowed_methods)]

mod abandoning;
mod address_pool;
mod calls;
mod capabilities;
mod chaos;
mod history;
mod hostile;
mod kill;
mod late;
mod log;
mod machines;
mod named;
mod own_images;
mod ownership;
mod releases;
mod removals;
mod subjects;
mod supervising;
mod support;
mod swap;
mod sweeping;
mod taking_over;
mod unseen;
mod waiting;
