//! The contract's names of failure classes and resource kinds, for settings and for reasons.

use crate::macros::named;
use crate::types::{FailureClass, ResourceKind};

named!(FailureClass {
    InvalidArguments = "invalid-arguments",
    AuthenticationDenied = "authentication-denied",
    PermissionDenied = "permission-denied",
    QuotaExceeded = "quota-exceeded",
    NotFound = "not-found",
    Expired = "expired",
    Conflict = "conflict",
    PreconditionFailed = "precondition-failed",
    TransientState = "transient-state",
    Locked = "locked",
    RateLimited = "rate-limited",
    OutOfStock = "out-of-stock",
    ServerError = "server-error",
    Gateway = "gateway",
    Timeout = "timeout",
    Connection = "connection",
    MalformedAnswer = "malformed-answer",
    DeadlineExceeded = "deadline-exceeded",
    Cancelled = "cancelled",
    Interrupted = "interrupted",
    HookFailed = "hook-failed",
    HookTimedOut = "hook-timed-out",
    Other = "other",
});

named!(ResourceKind {
    Server = "server",
    Ip = "ip",
    BlockVolume = "block-volume",
    LocalVolume = "local-volume",
    PrivateNic = "private-nic",
    AppleSiliconServer = "apple-silicon-server",
    Other = "other",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_contracts() {
        let contract = include_str!("../../../wit/policy/types.wit");
        let names =
            FailureClass::ALL.iter().map(|case| case.name()).chain(ResourceKind::ALL.iter().map(|case| case.name()));
        for name in names {
            assert!(contract.contains(&format!("        {name},\n")), "{name} is not in types.wit");
        }
        for (name, named) in [("failure-class", FailureClass::ALL.len()), ("resource-kind", ResourceKind::ALL.len())] {
            let body = contract.split_once(&format!("enum {name} {{")).and_then(|(_, rest)| rest.split_once("\n    }"));
            let lines = body.map(|(body, _)| body.lines()).into_iter().flatten();
            let cases = lines.filter(|line| line.starts_with("        ") && line.ends_with(',')).count();
            assert_eq!(named, cases, "{name} has cases that are not named here");
        }
    }

    #[test]
    fn a_name_reads_back_as_its_case() {
        for case in FailureClass::ALL {
            assert_eq!(FailureClass::from_name(case.name()), Some(*case));
        }
    }
}
