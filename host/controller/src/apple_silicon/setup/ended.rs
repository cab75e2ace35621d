//! How a run of a script on a Mac ended, as data.

use std::time::Duration;

use crate::job_kind::JobKind;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) kind: JobKind,
    pub(crate) host: String,
    pub(crate) ended: Ended,
    /// The host key that was shown and accepted.
    pub(crate) host_key: Option<String>,
    pub(crate) exit_code: Option<i32>,
    /// The end of its output, which may be shown.
    pub(crate) output: Option<String>,
}

/// What comes of a run.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is done.
    Done,
    /// It failed, and the retry policy wants another one.
    Again { message: String, after: Duration },
    /// It failed, and the retry policy has given it up.
    GivenUp { message: String },
    /// It could not begin, which is no failure of the host's.
    NotBegun { reason: &'static str, message: String, after: Duration },
}
