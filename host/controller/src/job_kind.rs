//! The kinds of jobs, by which a decision starts one and an operation's status names it.

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum JobKind {
    Adopt,
    Inspect,
    Release,
    Recover,
    SetUp,
    TearDown,
    Create,
    CleanUp,
    Scale,
    Resume,
    Terminate,
}

impl JobKind {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}
