//! The allocator of policies: a pointer that moves on.
//!
//! Each decision runs in an instance of its own, which is thrown away with all its memory. So giving memory back is
//! work for nothing, and dlmalloc's bookkeeping (7 KiB of code, some nanoseconds for each allocation) can go.
//! The most recent block is given back or grown in place nevertheless: that covers the vector or string that is just
//! being filled, and keeps what `configure` leaves in the snapshot small.
//!
//! Consequence: a policy that allocates without end within **one** decision reaches the host's memory limit (16 MiB by
//! default) sooner than with another allocator. Such a policy switches the feature `bump-allocator` off.
#![allow(unsafe_code)] // an allocator is unsafe by nature; wasm32 without threads has one user of it at a time

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;

const PAGE_BYTES: usize = 65_536;

struct Bump {
    /// Where the next block may begin; 0 before the first one.
    next: Cell<usize>,
    /// Where the memory ends that the module has now.
    end: Cell<usize>,
}

// SAFETY: wasm32-unknown-unknown has no threads (the module below is compiled for it alone, without atomics).
unsafe impl Sync for Bump {}

#[global_allocator]
static ALLOCATOR: Bump = Bump { next: Cell::new(0), end: Cell::new(0) };

unsafe extern "C" {
    /// The linker's word for where the module's own data ends.
    static __heap_base: u8;
}

impl Bump {
    /// Makes `end` at least `wanted`.
    fn reserve(&self, wanted: usize) -> bool {
        if wanted <= self.end.get() {
            return true;
        }
        let pages = (wanted - self.end.get()).div_ceil(PAGE_BYTES);
        if core::arch::wasm32::memory_grow(0, pages) == usize::MAX {
            return false;
        }
        self.end.set(core::arch::wasm32::memory_size(0) * PAGE_BYTES);
        true
    }
}

// SAFETY: blocks come from memory that the module owns (above `__heap_base`, below the memory's end), are aligned as
// asked, and never overlap: `next` only moves back over the very block that ends at it.
unsafe impl GlobalAlloc for Bump {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.next.get() == 0 {
            self.next.set(ptr::addr_of!(__heap_base) as usize);
            self.end.set(core::arch::wasm32::memory_size(0) * PAGE_BYTES);
        }
        let Some(unaligned) = self.next.get().checked_add(layout.align() - 1) else { return ptr::null_mut() };
        let start = unaligned & !(layout.align() - 1);
        let Some(end) = start.checked_add(layout.size()) else { return ptr::null_mut() };
        if !self.reserve(end) {
            return ptr::null_mut();
        }
        self.next.set(end);
        start as *mut u8
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if block as usize + layout.size() == self.next.get() {
            self.next.set(block as usize);
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if block as usize + layout.size() == self.next.get() {
            let Some(end) = (block as usize).checked_add(new_size) else { return ptr::null_mut() };
            if !self.reserve(end) {
                return ptr::null_mut();
            }
            self.next.set(end);
            return block;
        }
        if new_size <= layout.size() {
            return block;
        }
        // SAFETY: `new_size` was checked by the caller as GlobalAlloc demands; both blocks hold at least the old size.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size());
            }
            moved
        }
    }
}
