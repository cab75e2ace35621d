use std::path::PathBuf;

/// Why a policy could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A variable that cargo gives to build scripts is missing.
    #[error("{0} is not set: Build::from_build_script works in a build script only; elsewhere use Build::new")]
    NotABuildScript(&'static str),

    /// Rust's WebAssembly target is not there.
    #[error(
        "policies need Rust's WebAssembly target, which is not installed for this toolchain: run `rustup target add \
         {target}`"
    )]
    TargetMissing {
        /// The target that is missing.
        target: &'static str,
    },

    /// A tool could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// What was to be run.
        program: String,
        /// Why it could not be.
        source: std::io::Error,
    },

    /// The nested cargo ended with an error; it has said why on standard error.
    #[error("cargo could not build {packages} for {target}; its own words are above")]
    Cargo {
        /// The packages that were to be built.
        packages: String,
        /// The target.
        target: &'static str,
    },

    /// Cargo ended well but made no module of that package.
    #[error("package {package} builds no WebAssembly module: give it `[lib] crate-type = [\"cdylib\", \"rlib\"]`")]
    NoModule {
        /// The package.
        package: String,
    },

    /// The module is not a policy.
    #[error("{package} cannot be made into a component: {reason}")]
    Encode {
        /// The package.
        package: String,
        /// wit-component's words, outermost first.
        reason: String,
    },

    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
