//! `windlass-controller`: the process around the library.

fn main() {}
