//! Knows every policy of this repository as bytes, guests that are hostile on purpose, where a host keeps what it has
//! compiled, and which cases of an enumeration a test runs; must not know how a host runs policies.
//!
//! For the tests of other crates: `windlass_test_guests::RETRY.bytes`.

mod cases;
mod compiled;
#[path = "../faulty/faults.rs"]
mod faults;

pub use cases::share;
pub use compiled::{cache_dir, has_compiled, lend_compiled, return_compiled};
pub use faults::{FAULTS, Fault};

/// A guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// Its name: that of the file `<name>.wasm`.
    pub name: &'static str,
    /// The component (or what pretends to be one).
    pub bytes: &'static [u8],
}

impl Guest {
    /// Writes it to `<folder>/<name>.wasm`, for tests that load policies from files.
    ///
    /// # Errors
    /// As `std::fs::write`.
    pub fn write_to(&self, folder: impl AsRef<std::path::Path>) -> std::io::Result<std::path::PathBuf> {
        let path = folder.as_ref().join(format!("{}.wasm", self.name));
        std::fs::write(&path, self.bytes)?;
        Ok(path)
    }
}

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
