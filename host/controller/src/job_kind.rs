//! The kinds of jobs, by which a decision starts one and an operation's status names it.

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Adopt => "adopt",
            Self::Inspect => "inspect",
            Self::Release => "release",
            Self::Recover => "recover",
            Self::SetUp => "set-up",
            Self::TearDown => "tear-down",
            Self::Create => "create",
            Self::CleanUp => "clean-up",
            Self::Scale => "scale",
            Self::Resume => "resume",
            Self::Terminate => "terminate",
        }
    }
}
