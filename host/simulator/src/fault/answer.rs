//! What the caller of a failed request gets: real bodies, with the names of what it asked for.

use http::{Method, StatusCode};

use super::FaultKind;
use crate::answer::{Answer, JSON};
use crate::call::Call;
use crate::refusal::Refusal;
use crate::world::World;

/// The answer of a fault; `None` for those that are no answer.
pub(crate) fn answer(world: &World, call: &Call, kind: FaultKind) -> Option<Answer> {
    let (resource, id) = resource(&call.path);
    let instance = call.path.starts_with("/instance/");
    let refusal = match kind {
        FaultKind::InternalServerError => Refusal::internal(),
        // Recorded with 503; DESIGN names the status 504, which other gateways send with these words.
        FaultKind::GatewayTimeout => Refusal::gateway(StatusCode::GATEWAY_TIMEOUT, "upstream request timeout"),
        FaultKind::GatewayUnavailable => Refusal::gateway(
            StatusCode::SERVICE_UNAVAILABLE,
            "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
        ),
        FaultKind::RateLimited => Refusal::rate_limited(),
        FaultKind::OutOfStock => Refusal::out_of_stock(resource),
        FaultKind::QuotaExceeded => Refusal::quota(resource, 10, 10),
        FaultKind::TransientState => Refusal::transient_state(resource, &id, &state(world, &id)),
        FaultKind::Locked => Refusal::locked(resource, &id),
        FaultKind::PreconditionFailed if instance => Refusal::instance_precondition(
            world.options.refusal_status,
            "resource_not_usable",
            "server should be stopped",
        ),
        FaultKind::PreconditionFailedBare => Refusal::precondition_by_status(),
        FaultKind::PreconditionFailed => match world.apple_servers.get(&id) {
            Some(server) if call.method == Method::DELETE => {
                Refusal::too_early(world.options.apple_silicon.floor_refusal, server.deletable)
            }
            _ => Refusal::precondition(
                StatusCode::PRECONDITION_FAILED,
                "resource_still_in_use",
                "resource is still in use",
            ),
        },
        FaultKind::PermissionDenied => {
            Refusal::permissions_denied(if call.method == Method::GET { "read" } else { "write" }, resource)
        }
        FaultKind::NotFound => Refusal::not_found(resource, &id),
        FaultKind::DroppedConnection
        | FaultKind::Delay(_)
        | FaultKind::MalformedBody
        | FaultKind::Late(_)
        | FaultKind::Omit(_)
        | FaultKind::OmitKeepTotal(_) => return None,
    };
    Some(refusal.into())
}

/// A successful answer with its JSON cut in the middle. What was no JSON, or no success, becomes a cut object under
/// 200.
pub(crate) fn malformed(real: Option<Answer>) -> Answer {
    let (status, body) = match real {
        Some(real) if real.status.is_success() && real.body.len() > 2 => {
            let half = real.body.len() / 2;
            (real.status, real.body.slice(..half))
        }
        _ => (StatusCode::OK, bytes::Bytes::from_static(b"{\"id\": \"")),
    };
    Answer { status, content_type: Some(JSON), headers: Vec::new(), body }
}

/// The name that the API gives to what a path is about, and its id where the path has one.
pub(crate) fn resource(path: &str) -> (&'static str, String) {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let instance = segments.first() == Some(&"instance");
    let mut found = ("resource", String::new());
    for (index, segment) in segments.iter().enumerate() {
        let name = match (*segment, instance) {
            ("servers", true) => "instance_server",
            ("servers", false) => "server",
            ("ips", true) => "instance_ip",
            ("ips", false) => "ip",
            ("volumes", true) => "instance_volume",
            ("volumes", false) => "volume",
            ("snapshots", true) => "instance_snapshot",
            ("snapshots", false) => "snapshot",
            ("images", _) => "instance_image",
            ("private_nics" | "private-network-interfaces", _) => "instance_private_nic",
            ("security_groups", _) => "instance_security_group",
            ("placement_groups" | "placement-groups", _) => "instance_placement_group",
            ("private-networks", _) => "private_network",
            ("vpcs", _) => "vpc",
            ("ssh-keys", _) => "ssh_key",
            _ => continue,
        };
        // `/products/servers` is about no server.
        if index > 0 && segments[index - 1] == "products" {
            continue;
        }
        let id = segments.get(index + 1).copied().unwrap_or_default();
        found = (name, id.to_owned());
    }
    found
}

/// The state to name in a `transient_state`: the server's own where there is one.
fn state(world: &World, id: &str) -> String {
    let instance = world.servers.get(id).map(|server| server.state.as_str());
    let apple = world.apple_servers.get(id).map(|server| server.status.as_str());
    instance.or(apple).unwrap_or("updating").to_owned()
}

#[cfg(test)]
mod tests {
    use super::resource;

    #[test]
    fn a_fault_names_the_innermost_resource_of_its_path() {
        let expect = |path: &str, name: &str, id: &str| assert_eq!(resource(path), (name, id.to_owned()), "{path}");
        expect("/instance/v1/zones/fr-par-1/servers/7/action", "instance_server", "7");
        expect("/instance/v1/zones/fr-par-1/servers/7/private_nics/8", "instance_private_nic", "8");
        expect("/instance/v1/zones/fr-par-1/servers", "instance_server", "");
        expect("/instance/v1/zones/fr-par-1/products/servers", "resource", "");
        expect("/block/v1/zones/fr-par-1/volumes/9", "volume", "9");
        expect("/apple-silicon/v1alpha1/zones/fr-par-1/servers", "server", "");
    }
}
