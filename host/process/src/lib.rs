//! Knows how a program uses this machine: its memory, whose work comes first, and the files that a user names; and how it
//! tells an error. Must not know what the program does.

mod errors;
mod files;

pub use errors::with_causes;
pub use files::{read_bounded, read_text, read_to_limit, text_of};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// This host's name as a tag can hold it, where it has one: the kernel's, so that what is in a container says so.
#[must_use]
pub fn host_name() -> Option<String> {
    let kernel = Dir::open_ambient_dir("/proc/sys/kernel", ambient_authority()).ok()?;
    let name = kernel.read_to_string("hostname").ok()?;
    let fits = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-');
    let name: String = name.trim().chars().filter(fits).take(64).collect();
    (!name.is_empty()).then_some(name)
}

/// The same, to name this host to others: `unknown` where it has no name.
#[must_use]
pub fn host_name_or_unknown() -> String {
    host_name().unwrap_or_else(|| "unknown".to_owned())
}

/// Keeps glibc from holding on to what was needed for a moment (a listing, a burst of work): one arena for the few
/// threads that allocate at all, and every large buffer in a mapping of its own that goes back at once. 7 of 17 MB in a
/// runner with 500 instances, 15 of 63 MB in a controller of 500 Macs.
///
/// To be called first in `main`, before there are other threads. Other allocators than glibc's are left alone.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn spare_memory() {
    const LARGE_BYTES: libc::c_int = 64 << 10;
    // SAFETY: mallopt takes two numbers and has no precondition but that no other thread allocates meanwhile; the
    // caller has none yet. Refused values are ignored, and then memory is only used as by default.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
    }
}

/// Nothing: the allocator here is another than glibc's.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn spare_memory() {}

/// Lets this thread wait for the others of the machine, where they have work: for what may take its time beside what
/// must not. Only on Linux, where a thread has a priority of its own.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn yield_to_other_threads() {
    const NICE: libc::c_int = 10;
    // SAFETY: setpriority takes three numbers and has no precondition; 0 is the calling thread. Where it is refused,
    // the thread works on as it did.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

/// Nothing: a thread has no priority of its own here.
#[cfg(not(target_os = "linux"))]
pub fn yield_to_other_threads() {}
