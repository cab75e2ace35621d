//! What ends, if at all, by the host's limits. Each is opaque to the optimiser: it has to happen as written.

use std::hint::black_box;

pub(crate) fn spin() {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Touches what it gets, so that it is really there.
pub(crate) fn allocate() {
    loop {
        let block = vec![1_u8; 1 << 20];
        std::mem::forget(black_box(block));
    }
}

pub(crate) fn recurse() {
    #[allow(unconditional_recursion, reason = "that is what it is for")]
    fn deeper(depth: u64) -> u64 {
        // Not the last thing done, so that it cannot become a loop.
        black_box(depth) ^ black_box(deeper(depth + 1))
    }
    black_box(deeper(0));
}

pub(crate) fn trap() {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    panic!("a trap");
}
