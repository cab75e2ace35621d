use strum::{Display, IntoStaticStr};

/// What kind of failure a call ended with. Mirrors the classes of the policies' contract (`failure-class` in
/// `wit/policy/types.wit`) as far as an API call can bring them about; the spelling of [`as_str`](ErrorClass::as_str)
/// is the contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum ErrorClass {
    /// The request is wrong and will stay wrong (`invalid_arguments`, `invalid_request_error`). As any refusal it had
    /// no effect (assumption: refusals-have-no-effect).
    InvalidArguments,
    /// The credentials are unknown, expired or malformed (`denied_authentication`).
    AuthenticationDenied,
    /// The credentials are good but not for this (`permissions_denied`, `authorization_required`).
    PermissionDenied,
    /// The organization may not have more of these (`quotas_exceeded`, `Quota exceeded for this resource.`).
    QuotaExceeded,
    /// There is no such resource (`not_found`, `unknown_resource`).
    NotFound,
    /// There was one, and it is gone (`expired`, `resource_expired`).
    Expired,
    /// Something with this name or in this role exists (`already_exists`, `conflict`). Of a removal: something else is
    /// being done to the resource (assumption: removal-conflict-passes).
    Conflict,
    /// The resource is in a state that forbids this (`precondition_failed`).
    PreconditionFailed,
    /// The resource is on its way from one state to another (`transient_state`).
    TransientState,
    /// The resource is locked (`locked`).
    Locked,
    /// Too many requests: HTTP 429 with an empty body, and never yet with a `Retry-After`
    /// (assumption: retry-after-header).
    RateLimited,
    /// The type is not available in this zone now (`out_of_stock`), of an Instance at creation or at power-on
    /// (assumption: instance-out-of-stock).
    OutOfStock,
    /// Scaleway failed inside (5xx without a more telling type).
    ServerError,
    /// A gateway before Scaleway failed or gave up waiting (502, 503, 504).
    Gateway,
    /// No answer within the deadline of the call.
    Timeout,
    /// The connection could not be made or was lost.
    Connection,
    /// An answer came that cannot be understood.
    MalformedAnswer,
    /// None of the above.
    Other,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [ErrorClass; 18] = [
        ErrorClass::InvalidArguments,
        ErrorClass::AuthenticationDenied,
        ErrorClass::PermissionDenied,
        ErrorClass::QuotaExceeded,
        ErrorClass::NotFound,
        ErrorClass::Expired,
        ErrorClass::Conflict,
        ErrorClass::PreconditionFailed,
        ErrorClass::TransientState,
        ErrorClass::Locked,
        ErrorClass::RateLimited,
        ErrorClass::OutOfStock,
        ErrorClass::ServerError,
        ErrorClass::Gateway,
        ErrorClass::Timeout,
        ErrorClass::Connection,
        ErrorClass::MalformedAnswer,
        ErrorClass::Other,
    ];

    /// The class as the policies' contract spells it: `invalid-arguments`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
