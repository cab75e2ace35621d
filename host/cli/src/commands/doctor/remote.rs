//! What is at Scaleway's end: credentials, the way there, the clock, what the key may read, and whose servers there
//! are. All of it by GET; of each list one item at most, but all servers.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::timeout;
use windlass_lifecycle::OtherOwners;
use windlass_scaleway::{Client, Error, RawAnswer, Settings, Zone};

use super::check::Check;
use super::local::TAKE_OVER;
use crate::context::{Context, client};

const CREDENTIALS: &str = "credentials";
const ZONE: &str = "zone";
const REACHABILITY: &str = "reachability";
const CLOCK: &str = "clock";
const TO_CHANGE: &str = "rights-to-change";
const OWNERS: &str = "owners";
const HISTORY: &str = "history";

/// The checks of this file, in their order.
pub(super) const CHECKS: [&str; 13] = [
    CREDENTIALS,
    ZONE,
    REACHABILITY,
    CLOCK,
    PRODUCTS[0].check,
    PRODUCTS[1].check,
    PRODUCTS[2].check,
    PRODUCTS[3].check,
    PRODUCTS[4].check,
    PRODUCTS[5].check,
    TO_CHANGE,
    OWNERS,
    HISTORY,
];

/// A call that takes longer is given up, and a name that resolves slower does not resolve.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer that takes longer is worth a warning: an operation makes a dozen calls.
const SLOW: Duration = Duration::from_secs(2);
/// Clocks this close are as good as equal: the header counts whole seconds, and an answer takes its time.
const CLOSE: Duration = Duration::from_secs(30);
/// From here on receivers refuse the signatures of webhooks, and ages (of a sweep's finds, of claims) mislead.
const TOO_FAR: Duration = Duration::from_secs(300);

/// What Windlass reads of one of Scaleway's products.
struct Product {
    check: &'static str,
    reads: &'static str,
    /// What does not work without; nothing at all where it is `None`.
    only_for: Option<&'static str>,
    /// Paths of the calls, as the client makes them, with `{zone}`, `{region}` and `{organization}`.
    paths: &'static [&'static str],
}

const PRODUCTS: [Product; 6] = [
    Product {
        check: "rights-instance",
        reads: "servers, addresses and local volumes",
        only_for: None,
        paths: &[SERVERS, "/instance/v1/zones/{zone}/ips?per_page=1", "/instance/v1/zones/{zone}/volumes?per_page=1"],
    },
    Product {
        check: "rights-block",
        reads: "Block Storage volumes",
        only_for: None,
        paths: &["/block/v1/zones/{zone}/volumes?page_size=1"],
    },
    Product {
        check: "rights-marketplace",
        reads: "images by their label",
        only_for: None,
        paths: &["/marketplace/v2/local-images?image_label=ubuntu_noble&zone={zone}&page_size=1"],
    },
    Product {
        check: "rights-ipam",
        reads: "addresses in private networks",
        only_for: Some("private networks"),
        paths: &["/ipam/v1/regions/{region}/ips?page_size=1"],
    },
    Product {
        check: "rights-apple-silicon",
        reads: "Macs",
        only_for: Some("Macs"),
        paths: &["/apple-silicon/v1alpha1/zones/{zone}/servers?page_size=1"],
    },
    Product {
        check: "rights-iam",
        reads: "quotas of the organization",
        only_for: Some("the check of quotas before a creation"),
        paths: &["/iam/v1alpha1/quota?organization_id={organization}&page_size=1"],
    },
];

/// The first call of all, which tells whether there is a way and whether the key is accepted.
const SERVERS: &str = "/instance/v1/zones/{zone}/servers?per_page=1";

pub(super) async fn examine(context: &Context) -> Vec<Check> {
    // Only the zone can be invalid in options and in our configuration.
    if let Err(failure) = context.explicit_settings(None) {
        let untried = Check::skipped(CREDENTIALS, "not tried: the zone is invalid");
        return stopped(vec![untried, Check::of_failure(ZONE, &failure)], "there is no zone to ask about");
    }
    let settings = match context.quiet_settings(None) {
        Ok(settings) => settings,
        Err(failure) => {
            return stopped(vec![Check::of_failure(CREDENTIALS, &failure)], "there are no credentials to ask with");
        }
    };
    let Some(zone) = settings.zone().cloned() else {
        let present = Check::skipped(CREDENTIALS, format!("{}; not tried, for want of a zone", source(&settings)));
        let missing =
            Check::failed(ZONE, "no zone is configured").remedy("--zone fr-par-1, or SCW_DEFAULT_ZONE=fr-par-1");
        return stopped(vec![present, missing], "there is no zone to ask about");
    };
    let mut in_zone = Check::ok(ZONE, format!("{zone}, region {}", zone.region()));
    let mut limits = *settings.limits();
    limits.call_deadline = PATIENCE;
    limits.queue_deadline = PATIENCE;
    let settings = settings.with_limits(limits);
    let asked = match client(settings.clone()) {
        Ok(client) => client,
        Err(failure) => {
            return stopped(vec![Check::of_failure(CREDENTIALS, &failure), in_zone], "there is no client to ask with");
        }
    };
    let first = ask_timed(&asked, &path(SERVERS, &zone, &settings)).await;
    let reach = match &first.heard {
        Err(error) => unreached(&settings, error).await,
        Ok(answer) => reached(&settings, answer, first.took),
    };
    let understood = first.heard.as_ref().ok().filter(|answer| is_scaleways(answer));
    let credentials = credentials(&settings, understood.map(|answer| answer.status));
    let Some(answer) = understood else {
        return stopped(vec![credentials, in_zone, reach], "the API was not reached");
    };
    if answer.status == 404 {
        in_zone = Check::failed(ZONE, windlass_lifecycle::no_servers_in(&zone))
            .remedy("name another: --zone fr-par-1, or SCW_DEFAULT_ZONE=fr-par-1");
    }
    let clock = match answer.date.as_deref().and_then(instant_of) {
        None => Check::skipped(CLOCK, "the answer does not say what time it is there"),
        Some(there) => judged_clock(skew(there, first.sent, first.received), is_here(&settings)),
    };
    let mut checks = vec![credentials, in_zone, reach, clock];
    for product in &PRODUCTS {
        checks.push(examine_product(product, &asked, &zone, &settings).await);
    }
    checks.push(Check::skipped(
        TO_CHANGE,
        "write permissions cannot be checked without making a change; the first creation reports a missing permission \
         and is rolled back",
    ));
    checks.push(owners(context, &asked, &zone).await);
    checks.push(history(context, &asked, &zone).await);
    checks
}

/// Whose servers there are in the zone, and whether this state directory can know any.
async fn owners(context: &Context, client: &Client, zone: &Zone) -> Check {
    let configured = context.configuration.owner.as_ref();
    let found = context.state_path().map_err(|failure| failure.message.clone()).and_then(|path| {
        if !path.is_dir() {
            return Ok(OtherOwners::without_state(path, configured));
        }
        let state = context.open_state(&path).map_err(|failure| failure.message.clone())?;
        OtherOwners::of(&state, configured).map_err(|error| error.to_string())
    });
    let mut found = match found {
        Ok(found) => found,
        Err(why) => return Check::skipped(OWNERS, why),
    };
    match found.look(client, zone).await {
        Ok(()) => judged_owners(&found, zone),
        Err(error) => Check::skipped(OWNERS, error.to_string()),
    }
}

/// That others have servers is worth a warning where this state directory may be the wrong one.
fn judged_owners(found: &OtherOwners, zone: &Zone) -> Check {
    let others = found.servers.as_ref().is_some_and(|(_, servers)| !servers.is_empty());
    let words = found.words().join("; ");
    if !found.machines.is_empty() || found.is_new && others {
        Check::warning(OWNERS, words)
    } else if words.is_empty() {
        Check::ok(OWNERS, format!("no other owner has servers in {zone}"))
    } else {
        Check::ok(OWNERS, words)
    }
}

/// Whether the state directory was set back to an earlier state, by what is in the zone.
async fn history(context: &Context, client: &Client, zone: &Zone) -> Check {
    let look = async {
        let path = context.state_path().map_err(|failure| failure.message.clone())?;
        if !path.is_dir() {
            return Ok(None);
        }
        let said = |error: windlass_lifecycle::Error| error.to_string();
        let state = context.open_state(&path).map_err(|failure| failure.message.clone())?;
        let owner = match &context.configuration.owner {
            Some(owner) => Some(owner.clone()),
            None => state.stored_owner().map_err(said)?,
        };
        match owner {
            Some(owner) => state.set_back_in(&owner, client, zone).await.map_err(said),
            None => Ok(None),
        }
    };
    match look.await {
        Ok(None) => Check::ok(HISTORY, format!("no server in {zone} was made with a later state of this directory")),
        Ok(Some(evidence)) => Check::failed(HISTORY, evidence).remedy(TAKE_OVER),
        Err(why) => Check::skipped(HISTORY, why),
    }
}

/// What was found so far, and that the rest was not looked at.
fn stopped(mut checks: Vec<Check>, why: &str) -> Vec<Check> {
    let rest = CHECKS.iter().skip(checks.len()).map(|check| Check::skipped(check, why));
    checks.extend(rest.collect::<Vec<_>>());
    checks
}

fn source(settings: &Settings) -> String {
    format!("a secret key stands in {}", settings.secret_key_place())
}

fn path(template: &str, zone: &Zone, settings: &Settings) -> String {
    template
        .replace("{zone}", zone.as_str())
        .replace("{region}", zone.region().as_str())
        .replace("{organization}", settings.organization_id().unwrap_or_default())
}

async fn ask(client: &Client, path: &str) -> Result<RawAnswer, Error> {
    client.send_raw("GET", path, None).await
}

/// An answer with its moments.
struct Timed {
    heard: Result<RawAnswer, Error>,
    took: Duration,
    sent: Timestamp,
    received: Timestamp,
}

async fn ask_timed(client: &Client, path: &str) -> Timed {
    let (sent, began) = (now(), Instant::now());
    let heard = ask(client, path).await;
    Timed { heard, took: began.elapsed(), sent, received: now() }
}

fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// Whether the answer is one of Scaleway's API: JSON, and a list of servers or a refusal of a type that it has. A
/// portal or a wrong address answers with something else.
fn is_scaleways(answer: &RawAnswer) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
        // Its rate limit and its gateways answer without a body of the API's.
        return matches!(answer.status, 429 | 500..);
    };
    match answer.status {
        200..300 => body.get("servers").is_some_and(Value::is_array),
        _ => body.get("type").is_some_and(Value::is_string),
    }
}

fn reached(settings: &Settings, answer: &RawAnswer, took: Duration) -> Check {
    let url = settings.api_url();
    let status = answer.status;
    if !is_scaleways(answer) {
        let kind = answer.content_type.as_deref().unwrap_or("no type");
        return Check::failed(REACHABILITY, format!("what answers at {url} is not Scaleway's API: {status}, {kind}"))
            .remedy("correct --api-url, SCW_API_URL or api_url, or leave it out for Scaleway's own; look for a proxy");
    }
    let finding = format!("{url} answered within {} ms", took.as_millis());
    match status {
        429 | 500.. => Check::warning(REACHABILITY, format!("{finding}, with {status}")).remedy("ask again later"),
        _ if took > SLOW => Check::warning(REACHABILITY, format!("{finding}, which is slow")),
        _ => Check::ok(REACHABILITY, finding),
    }
}

/// Why no answer came: the name, the way, or what stands at its end.
async fn unreached(settings: &Settings, error: &Error) -> Check {
    let url = settings.api_url();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or_default();
    let unresolved = match timeout(PATIENCE, tokio::net::lookup_host((host.as_str(), port))).await {
        Ok(Ok(mut addresses)) => addresses.next().is_none().then(|| "it has no address".to_owned()),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("nobody answered".to_owned()),
    };
    match unresolved {
        Some(why) => Check::failed(REACHABILITY, format!("{host} does not resolve: {why}; {error}"))
            .remedy("look at this machine's name servers, its proxy, and --api-url"),
        None => Check::failed(REACHABILITY, format!("{host} resolves, and no answer comes: {error}"))
            .remedy("look at the firewall, the proxy, this machine's certificates, and --api-url"),
    }
}

fn credentials(settings: &Settings, status: Option<u16>) -> Check {
    let present = source(settings);
    match status {
        Some(401) => Check::failed(CREDENTIALS, format!("{present}, and it is not accepted (401)")).remedy(
            "it is unknown, expired or of another API: make a new one in Scaleway's console, under IAM, API keys",
        ),
        Some(200..300 | 403) if settings.notices().is_empty() => {
            Check::ok(CREDENTIALS, format!("{present}, and it is accepted"))
        }
        Some(200..300 | 403) => {
            Check::warning(CREDENTIALS, format!("{present}, and it is accepted; {}", settings.notices().join("; ")))
        }
        _ => Check::skipped(CREDENTIALS, format!("{present}; whether it is accepted is not known")),
    }
}

/// The instant of a `Date` header (RFC 9110: the form of RFC 2822, always in GMT).
fn instant_of(date: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(date).ok().map(|instant| instant.timestamp())
}

/// How far this machine's clock is certainly ahead (or, negative, behind), in milliseconds: the header counts whole
/// seconds, and was written somewhere between sending and receiving.
fn skew(there: Timestamp, sent: Timestamp, received: Timestamp) -> i64 {
    let (there, sent, received) = (there.as_millisecond(), sent.as_millisecond(), received.as_millisecond());
    let (ahead, behind) = (sent - (there + 1_000), there - received);
    if ahead > 0 {
        ahead
    } else if behind > 0 {
        -behind
    } else {
        0
    }
}

/// Whether the API is on this machine: a simulator, or a proxy.
fn is_here(settings: &Settings) -> bool {
    let host = settings.api_url().host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `here`: the API is on this machine. A simulator keeps its own time, so that the clocks differ there proves nothing.
fn judged_clock(skew_ms: i64, here: bool) -> Check {
    let off = Duration::from_millis(skew_ms.unsigned_abs());
    let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
    let finding = format!("this machine's clock is {} s {direction} the API's", off.as_secs());
    match off {
        off if off <= CLOSE => Check::ok(CLOCK, format!("within {} s of the API's", CLOSE.as_secs())),
        _ if here => {
            Check::warning(CLOCK, format!("{finding}, which is on this machine: a simulator keeps its own time"))
        }
        off if off <= TOO_FAR => Check::warning(CLOCK, finding).remedy("set it by NTP"),
        _ => Check::failed(CLOCK, finding).remedy("set it by NTP"),
    }
}

async fn examine_product(product: &Product, client: &Client, zone: &Zone, settings: &Settings) -> Check {
    if product.paths.iter().any(|path| path.contains("{organization}")) && settings.organization_id().is_none() {
        let why = "not asked: no organization is configured (SCW_DEFAULT_ORGANIZATION_ID)";
        return Check::skipped(product.check, why);
    }
    let paths = product.paths.iter().map(|template| path(template, zone, settings));
    let answers = futures::future::join_all(paths.map(|path| async move {
        let heard = ask(client, &path).await;
        (path, heard.map(|answer| answer.status).map_err(|error| error.to_string()))
    }));
    judged_rights(product, &answers.await)
}

/// What the answers of a product's calls say about the key. The gravest decides.
fn judged_rights(product: &Product, answers: &[(String, Result<u16, String>)]) -> Check {
    let bare = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    let of = |wanted: fn(u16) -> bool| {
        answers.iter().find_map(|(path, heard)| match heard {
            Ok(status) if wanted(*status) => Some((bare(path), *status)),
            _ => None,
        })
    };
    let consequence = match product.only_for {
        None => "Windlass needs it".to_owned(),
        Some(what) => format!("needed only for {what}"),
    };
    let missing = |finding: String| match product.only_for {
        None => Check::failed(product.check, finding),
        Some(_) => Check::warning(product.check, finding),
    };
    if let Some((path, status)) = of(|status| matches!(status, 401 | 403)) {
        return missing(format!(
            "the key may not read {}: GET {path} is refused ({status}); {consequence}",
            product.reads
        ))
        .remedy("give the key's application this right in Scaleway's console, under IAM, policies");
    }
    if let Some((path, status)) = of(|status| (300..500).contains(&status) && status != 429) {
        return missing(format!("GET {path} is answered {status}: the zone may not have it; {consequence}"));
    }
    let unknown =
        of(|status| matches!(status, 429 | 500..)).map(|(path, status)| format!("GET {path} is answered {status}"));
    let lost = answers.iter().find_map(|(_, heard)| heard.as_ref().err().cloned());
    match unknown.or(lost) {
        Some(why) => Check::warning(product.check, format!("not known now: {why}")).remedy("ask again later"),
        None => Check::ok(product.check, format!("the key may read {}", product.reads)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Outcome;
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn judged(product: usize, statuses: &[Result<u16, &str>]) -> Check {
        let answer = |heard: &Result<u16, &str>| ("/x?y=1".to_owned(), (*heard).map_err(str::to_owned));
        judged_rights(&PRODUCTS[product], &statuses.iter().map(answer).collect::<Vec<_>>())
    }

    #[test]
    fn the_clock_is_compared_with_what_the_header_can_mean() {
        let there = instant_of("Sun, 22 Nov 2026 07:03:49 GMT").expect("a date");
        assert_eq!(there, at("2026-11-22T07:03:49Z"));
        // Written at any moment of that second, and in transit for a while: no skew can be computed.
        assert_eq!(skew(there, at("2026-11-22T07:03:48Z"), at("2026-11-22T07:03:49.5Z")), 0);
        assert_eq!(skew(there, at("2026-11-22T07:03:49.9Z"), at("2026-11-22T07:03:55Z")), 0);
        assert_eq!(skew(there, at("2026-11-22T07:04:50Z"), at("2026-11-22T07:04:51Z")), 60_000);
        assert_eq!(skew(there, at("2026-11-22T07:02:48Z"), at("2026-11-22T07:02:49Z")), -60_000);
        assert_eq!(instant_of("yesterday"), None);
    }

    #[test]
    fn a_clock_is_reported_as_near_off_or_too_far_off_in_either_direction() {
        for (seconds, outcome) in [
            (0, Outcome::Ok),
            (30, Outcome::Ok),
            (31, Outcome::Warning),
            (-300, Outcome::Warning),
            (-301, Outcome::Failed),
            (86_400, Outcome::Failed),
        ] {
            assert_eq!(judged_clock(seconds * 1_000, false).outcome, outcome, "{seconds} s");
        }
        assert!(judged_clock(-301_000, false).finding.contains("301 s behind"));
        assert!(judged_clock(301_000, false).finding.contains("301 s ahead of"));
        assert_eq!(judged_clock(301_000, true).outcome, Outcome::Warning);
    }

    #[test]
    fn a_refusal_fails_what_is_always_needed_and_warns_of_the_rest() {
        let (instance, apple_silicon) = (0, 4);
        assert_eq!(judged(instance, &[Ok(200), Ok(200), Ok(200)]).outcome, Outcome::Ok);
        assert_eq!(judged(instance, &[Ok(200), Ok(403), Ok(503)]).outcome, Outcome::Failed);
        assert_eq!(judged(apple_silicon, &[Ok(403)]).outcome, Outcome::Warning);
        assert!(judged(apple_silicon, &[Ok(403)]).finding.contains("needed only for Macs"));
        assert!(judged(instance, &[Ok(403)]).remedy.is_some_and(|remedy| remedy.contains("IAM")));
    }

    #[test]
    fn what_cannot_be_told_now_is_neither_good_nor_bad() {
        for heard in [Ok(429), Ok(500), Ok(503), Err("the connection was lost")] {
            let check = judged(0, &[Ok(200), heard, Ok(200)]);
            assert_eq!(check.outcome, Outcome::Warning, "{heard:?}");
            assert!(check.finding.starts_with("not known now"), "{}", check.finding);
        }
        assert_eq!(judged(4, &[Ok(404)]).outcome, Outcome::Warning);
    }

    #[test]
    fn every_check_of_this_file_has_its_place_in_the_list() {
        let products: Vec<&str> = PRODUCTS.iter().map(|product| product.check).collect();
        assert_eq!(CHECKS[4..10], products);
        assert_eq!(stopped(Vec::new(), "x").len(), CHECKS.len());
    }
}
