use std::path::PathBuf;

/// Why a policy's folder could not be made or built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name can't be that of a policy.
    #[error("`{name}` cannot be the name of a policy: {problem}")]
    Name {
        /// As it was written.
        name: String,
        /// Why not, and what a name looks like.
        problem: String,
    },

    /// There is something in the folder.
    #[error("{0} is not empty: a new policy gets a folder of its own")]
    NotEmpty(PathBuf),

    /// A folder or a file can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        source: std::io::Error,
    },

    /// The folder holds no package that could be built.
    #[error("{folder} holds no policy that is built: {problem}")]
    NoPackage {
        folder: PathBuf,
        /// What was looked for.
        problem: String,
    },

    /// The build failed.
    #[error(transparent)]
    Build(#[from] windlass_guest_build::Error),

    /// What scripts are built with can't be installed or run.
    #[error("what the policy is built with cannot be used: {problem}; {remedy}")]
    Toolchain {
        /// What failed, in the tool's words.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },

    /// The script can't be made into a component.
    #[error("the script in {folder} does not become a policy: {problem}")]
    Script {
        folder: PathBuf,
        /// In the words of the tool, with places.
        problem: String,
    },

    /// The embedded contract can't be read: a defect of this program.
    #[error("the contract in this program cannot be read: {0}")]
    Contract(String),
}

impl Error {
    /// Whether the policy's own source is to blame: it doesn't compile, or compiles into something else.
    #[must_use]
    pub fn is_of_the_source(&self) -> bool {
        use windlass_guest_build::Error as Build;
        matches!(
            self,
            Error::Script { .. } | Error::Build(Build::Cargo { .. } | Build::NoModule { .. } | Build::Encode { .. })
        )
    }
}
