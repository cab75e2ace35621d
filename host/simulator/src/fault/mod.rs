//! Failures on demand: what is asked for, which request it meets, and what the caller gets.

mod answer;
mod pattern;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use answer::{answer, malformed, resource};
use pattern::matches;

/// A rule: the requests it meets, and what happens to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// `GET`, `POST`, ...; absent or `*`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path without query. `*` stands for anything within a segment, `**` for any number of segments.
    pub path: String,
    /// Which matching request is met, counted from 1 since the rule was added. Absent: each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// What happens.
    pub kind: FaultKind,
    /// Whether Scaleway did what was asked all the same.
    #[serde(default)]
    pub effect: Effect,
}

/// Whether a fault hits before or after the effect of the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing was done.
    #[default]
    Before,
    /// It was done, and the answer was lost or is wrong.
    After,
}

/// What a fault does to a request. Written as text: `out-of-stock`, `delay:1500`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum FaultKind {
    /// 500 `internal_server_error` (recorded).
    InternalServerError,
    /// 504 with the gateway's words; they were recorded under 503, the status is assumed.
    GatewayTimeout,
    /// 503 with the gateway's words (recorded); no `type`.
    GatewayUnavailable,
    /// 429, empty, with `X-Envoy-Ratelimited` and no `Retry-After` (recorded).
    RateLimited,
    /// 503 `out_of_stock` (recorded for Apple silicon).
    OutOfStock,
    /// 403 `quotas_exceeded` (recorded for IAM).
    QuotaExceeded,
    /// 409 `transient_state` (recorded on other products).
    TransientState,
    /// 423 `locked` (the type is the SDK's, the status assumed).
    Locked,
    /// 400 or 412 `precondition_failed` (both recorded).
    PreconditionFailed,
    /// 412 that only its status tells: no type, no details (Scaleway's SDK makes a `ResponseError` of it).
    PreconditionFailedBare,
    /// 403 `permissions_denied` (recorded).
    PermissionDenied,
    /// 404 `not_found` (recorded).
    NotFound,
    /// The connection closes without an answer.
    DroppedConnection,
    /// The answer comes this much later, in tokio's time, unscaled. `before` waits and then acts, so a caller that gave
    /// up meanwhile and closed its connection is never served; `after` acts and then waits.
    Delay(Duration),
    /// A 2xx answer whose body is cut in the middle of its JSON.
    MalformedBody,
    /// The request takes effect this much later, in tokio's time, unscaled, whether or not its caller is still there.
    /// The caller gets no answer: `before` closes its connection at once, before the effect; `after` lets it wait until
    /// the effect is there and closes it then.
    Late(Duration),
    /// A list leaves out what stands at this place, counted from 1 over all pages, and its total is one lower. Any
    /// other request passes.
    Omit(u32),
    /// As `Omit`, and the total is what it was: the list says of itself that something is missing.
    OmitKeepTotal(u32),
}

/// The longest that an effect can be late: a day.
const LATEST: Duration = Duration::from_secs(24 * 60 * 60);

impl FaultKind {
    /// Every kind that an answer, or the lack of one, tells of, and whose effect is there when the call has ended; of
    /// the delays, one. A caller that looks when it is not answered can be held against each of these; see
    /// [`FaultKind::UNTOLD`] for the others.
    pub const ALL: [FaultKind; 15] = [
        FaultKind::InternalServerError,
        FaultKind::GatewayTimeout,
        FaultKind::GatewayUnavailable,
        FaultKind::RateLimited,
        FaultKind::OutOfStock,
        FaultKind::QuotaExceeded,
        FaultKind::TransientState,
        FaultKind::Locked,
        FaultKind::PreconditionFailed,
        FaultKind::PreconditionFailedBare,
        FaultKind::PermissionDenied,
        FaultKind::NotFound,
        FaultKind::DroppedConnection,
        FaultKind::Delay(Duration::from_secs(1)),
        FaultKind::MalformedBody,
    ];

    /// The kinds whose effect no caller learns of: an effect that comes when everybody has looked already,
    /// and lists that are well formed and wrong.
    pub const UNTOLD: [FaultKind; 3] =
        [FaultKind::Late(Duration::from_secs(60)), FaultKind::Omit(1), FaultKind::OmitKeepTotal(1)];

    /// Whether it says, in Scaleway's own words or by the rate limit, that nothing was done. A caller believes that
    /// (assumption: refusals-have-no-effect), so whoever has such an answer given after its effect asks for more than
    /// was promised.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            FaultKind::RateLimited
                | FaultKind::QuotaExceeded
                | FaultKind::TransientState
                | FaultKind::Locked
                | FaultKind::PreconditionFailed
                | FaultKind::PermissionDenied
                | FaultKind::NotFound
        )
    }

    fn word(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Delay(by) | FaultKind::Late(by) => write!(formatter, "{}:{}", self.word(), by.as_millis()),
            FaultKind::Omit(place) | FaultKind::OmitKeepTotal(place) => write!(formatter, "{}:{place}", self.word()),
            kind => formatter.write_str(kind.word()),
        }
    }
}

/// A text that names no kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a fault kind; valid kinds are {}", kinds())]
pub struct UnknownFaultKind {
    text: String,
}

fn kinds() -> String {
    let words: Vec<String> = FaultKind::ALL
        .into_iter()
        .chain(FaultKind::UNTOLD)
        .map(|kind| match kind {
            FaultKind::Delay(_) | FaultKind::Late(_) => format!("{}:<ms>", kind.word()),
            FaultKind::Omit(_) | FaultKind::OmitKeepTotal(_) => format!("{}:<place>", kind.word()),
            kind => kind.to_string(),
        })
        .collect();
    words.join(", ")
}

impl FromStr for FaultKind {
    type Err = UnknownFaultKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownFaultKind { text: text.to_owned() };
        let time = |ms: &str| ms.parse().map(Duration::from_millis).map_err(|_| unknown());
        let place = |place: &str| place.parse().map_err(|_| unknown());
        match text.split_once(':') {
            Some(("delay", ms)) => time(ms).map(FaultKind::Delay),
            Some(("late", ms)) => time(ms).map(FaultKind::Late),
            Some(("omit", at)) => place(at).map(FaultKind::Omit),
            Some(("omit-keep-total", at)) => place(at).map(FaultKind::OmitKeepTotal),
            Some(_) => Err(unknown()),
            // A kind with a number is never written without it.
            None => FaultKind::ALL.into_iter().find(|kind| kind.to_string() == text).ok_or_else(unknown),
        }
    }
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FaultRule {
    /// A rule for every matching request, before the effect.
    pub fn new(method: impl Into<String>, path: impl Into<String>, kind: FaultKind) -> Self {
        Self { method: Some(method.into()), path: path.into(), nth: None, kind, effect: Effect::Before }
    }

    /// Meets only the `nth` matching request, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Hits after the effect: Scaleway did it and the answer was lost or is wrong.
    #[must_use]
    pub fn after_effect(mut self) -> Self {
        self.effect = Effect::After;
        self
    }

    /// What is wrong with a rule, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        if !self.path.starts_with('/') && !self.path.starts_with('*') {
            return Some(format!("path `{}` must begin with `/` or `*`", self.path));
        }
        if self.nth == Some(0) {
            return Some("nth counts from 1".to_owned());
        }
        match self.kind {
            FaultKind::Late(by) if by > LATEST => {
                return Some(format!("an effect is late by at most {} ms", LATEST.as_millis()));
            }
            FaultKind::Omit(0) | FaultKind::OmitKeepTotal(0) => return Some("places count from 1".to_owned()),
            _ => {}
        }
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "*"];
        match &self.method {
            Some(method) if !known.contains(&method.to_uppercase().as_str()) => {
                Some(format!("method `{method}` is none of {}", known.join(", ")))
            }
            _ => None,
        }
    }
}

/// A rule and how often it met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    #[serde(flatten)]
    pub rule: FaultRule,
    /// Requests that matched method and path.
    pub matched: u64,
    /// Requests that the rule was applied to.
    pub applied: u64,
}

/// The rules in force, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    /// What happens to this request. Every rule that matches counts it; the first that is due is applied.
    pub(crate) fn meet(&mut self, method: &str, path: &str) -> Option<(FaultKind, Effect)> {
        let mut chosen = None;
        for fault in &mut self.0 {
            let method_fits =
                fault.rule.method.as_deref().is_none_or(|rule| rule == "*" || rule.eq_ignore_ascii_case(method));
            if !method_fits || !matches(&fault.rule.path, path) {
                continue;
            }
            fault.matched += 1;
            if chosen.is_none() && fault.rule.nth.is_none_or(|nth| nth == fault.matched) {
                fault.applied += 1;
                chosen = Some((fault.rule.kind, fault.rule.effect));
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_as_it_was_written() {
        for kind in FaultKind::ALL.into_iter().chain(FaultKind::UNTOLD) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("omit-keep-total:12".parse(), Ok(FaultKind::OmitKeepTotal(12)));
        assert_eq!("delay:250".parse(), Ok(FaultKind::Delay(Duration::from_millis(250))));
    }

    #[test]
    fn an_unknown_kind_names_all_valid_ones() {
        for text in ["", "delay", "delay:", "delay:x", "late", "late:-1", "omit", "omit:", "out_of_stock", "locked:1"] {
            let message = FaultKind::from_str(text).expect_err("no kind").to_string();
            for hint in ["out-of-stock", "delay:<ms>", "late:<ms>", "omit:<place>", "omit-keep-total:<place>"] {
                assert!(message.contains(hint), "{message}");
            }
        }
    }

    #[test]
    fn a_rule_meets_only_its_nth_request_and_all_rules_count() {
        let mut faults = Faults::default();
        for rule in [
            FaultRule::new("POST", "/a/*", FaultKind::Locked).nth(2),
            FaultRule::new("*", "/**", FaultKind::NotFound).nth(3),
        ] {
            faults.0.push(Fault { rule, matched: 0, applied: 0 });
        }
        let kinds: Vec<_> = ["/a/1", "/a/2", "/a/3", "/a/4"].iter().map(|path| faults.meet("POST", path)).collect();
        assert_eq!(
            kinds,
            [None, Some((FaultKind::Locked, Effect::Before)), Some((FaultKind::NotFound, Effect::Before)), None]
        );
        assert_eq!(faults.meet("GET", "/a/5"), None);
        assert_eq!((faults.0[0].matched, faults.0[1].matched), (4, 5));
    }

    #[test]
    fn rules_that_can_never_meet_are_refused() {
        let rule = |path: &str| FaultRule::new("GET", path, FaultKind::Locked);
        assert!(rule("servers").problem().is_some());
        assert!(rule("/servers").nth(0).problem().is_some());
        assert!(FaultRule::new("FETCH", "/", FaultKind::Locked).problem().is_some());
        assert!(FaultRule::new("GET", "/", FaultKind::Omit(0)).problem().is_some());
        assert!(FaultRule::new("GET", "/", FaultKind::Late(LATEST + Duration::from_millis(1))).problem().is_some());
        assert_eq!(FaultRule::new("GET", "/", FaultKind::Late(LATEST)).problem(), None);
        assert_eq!(rule("**/servers").problem(), None);
    }
}
