//! The contract's names of failure classes and resource kinds, for settings and for reasons.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::{FailureClass, ResourceKind};

macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal,)+ }) => {
        impl $type {
            /// Every case, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in the contract.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The case of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = Cow::<'de, str>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| D::Error::unknown_variant(&name, &[$($name),+]))
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "enum": [$($name),+] })
            }
        }
    };
}

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
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_contracts() {
        let contract = include_str!("../../../wit/policy/types.wit");
        for name in
            FailureClass::ALL.iter().map(|case| case.name()).chain(ResourceKind::ALL.iter().map(|case| case.name()))
        {
            assert!(contract.contains(&format!("        {name},\n")), "{name} is not in types.wit");
        }
        let cases = contract
            .lines()
            .filter(|line| line.starts_with("        ") && line.ends_with(',') && !line.contains(':'))
            .count();
        assert_eq!(
            FailureClass::ALL.len() + ResourceKind::ALL.len(),
            cases,
            "the contract has cases that are not named here"
        );
    }

    #[test]
    fn a_name_reads_back_as_its_case() {
        for case in FailureClass::ALL {
            assert_eq!(FailureClass::from_name(case.name()), Some(*case));
        }
    }
}
