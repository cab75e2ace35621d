use proptest::prelude::*;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, resource, rollback_question};

use rollback::{Action, Evidence, Resource, Step, Verdict};

use crate::DefaultRollback;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

fn plan(resources: &[Resource]) -> Vec<Step> {
    match (DefaultRollback {}).decide(rollback_question(resources)).verdict {
        Verdict::Plan(plan) => plan,
        Verdict::Defer => panic!("the default never defers"),
    }
}

fn attached(kind: ResourceKind, id: &str, server: u32) -> Resource {
    Resource { attached_to: Some(server), ..resource(kind, id) }
}

fn foreign(resource: Resource) -> Resource {
    Resource { owned: false, ..resource }
}

/// The plan in words: `delete server`, `delete ip after delete server`.
fn words(resources: &[Resource]) -> Vec<String> {
    let plan = plan(resources);
    let name = |step: &Step| {
        let action = match step.action {
            Action::Delete => "delete",
            Action::Detach => "detach",
            Action::PowerOff => "power off",
            Action::Keep => "keep",
        };
        format!("{action} {}", resources[step.resource as usize].id)
    };
    plan.iter()
        .map(|step| match step.after.as_slice() {
            [] => name(step),
            after => {
                let after: Vec<String> = after.iter().map(|position| name(&plan[*position as usize])).collect();
                format!("{} after {}", name(step), after.join(" and "))
            }
        })
        .collect()
}

#[test]
fn everything_of_a_whole_server_goes_after_the_server() {
    let resources = [
        attached(ResourceKind::Ip, "ip", 1),
        resource(ResourceKind::Server, "server"),
        attached(ResourceKind::BlockVolume, "block volume", 1),
        attached(ResourceKind::LocalVolume, "local volume", 1),
        attached(ResourceKind::PrivateNic, "nic", 1),
    ];
    assert_eq!(
        words(&resources),
        [
            "delete server",
            "delete ip after delete server",
            "delete block volume after delete server",
            "delete local volume after delete server",
            "delete nic after delete server",
        ]
    );
}

#[test]
fn an_address_whose_server_was_never_made_goes_at_once() {
    assert_eq!(words(&[resource(ResourceKind::Ip, "ip")]), ["delete ip"]);
}

#[test]
fn an_address_that_only_its_tag_led_to_waits_for_every_server() {
    let loose = Resource { evidence: Evidence::TagSearch, ..resource(ResourceKind::Ip, "ip") };
    let resources = [resource(ResourceKind::Server, "one"), loose, resource(ResourceKind::Server, "two")];
    assert_eq!(words(&resources), ["delete one", "delete two", "delete ip after delete one and delete two"]);
}

#[test]
fn what_is_not_ours_is_kept_even_when_it_hangs_on_a_server_of_ours() {
    let resources =
        [resource(ResourceKind::Server, "server"), foreign(attached(ResourceKind::LocalVolume, "their volume", 0))];
    assert_eq!(words(&resources), ["delete server", "keep their volume"]);
}

#[test]
fn what_is_ours_is_taken_off_a_server_that_is_not() {
    let resources =
        [foreign(resource(ResourceKind::Server, "their server")), attached(ResourceKind::BlockVolume, "our volume", 0)];
    assert_eq!(
        words(&resources),
        ["keep their server", "detach our volume", "delete our volume after detach our volume"]
    );
}

#[test]
fn a_physical_host_is_never_destroyed_by_a_rollback() {
    let question = rollback_question([resource(ResourceKind::AppleSiliconServer, "mac")]);
    let answer = (DefaultRollback {}).decide(question);
    assert!(matches!(&answer.verdict, Verdict::Plan(plan) if plan[0].action == Action::Keep));
    assert!(answer.reason.is_some());
}

#[test]
fn what_has_no_word_in_this_contract_is_kept_with_what_is_attached_to_it() {
    let unknown_server = Resource { evidence: Evidence::Other, ..resource(ResourceKind::Server, "server") };
    let resources = [
        unknown_server,
        attached(ResourceKind::BlockVolume, "its volume", 0),
        resource(ResourceKind::Other, "thing"),
        resource(ResourceKind::Ip, "ip"),
    ];
    assert_eq!(words(&resources), ["keep server", "keep its volume", "keep thing", "delete ip"]);
    let answer = (DefaultRollback {}).decide(rollback_question(resources));
    assert!(answer.reason.is_some());
}

#[test]
fn a_reason_says_what_is_kept_and_there_is_none_where_all_goes() {
    let reason = |resources: &[Resource]| (DefaultRollback {}).decide(rollback_question(resources)).reason;
    let server = resource(ResourceKind::Server, "server");
    let host = resource(ResourceKind::AppleSiliconServer, "host");
    let unknown = resource(ResourceKind::Other, "unknown");
    assert_eq!(reason(std::slice::from_ref(&server)), None);
    assert_eq!(reason(&[server.clone(), foreign(host.clone())]), None, "it was never ours to release");
    let of_unknown = reason(&[server.clone(), unknown.clone()]);
    assert_eq!(of_unknown.as_deref(), Some("what this policy does not know is kept, with what is attached to it"));
    let of_host = reason(&[server, host, unknown]);
    assert_eq!(of_host.as_deref(), Some("physical hosts are released by the release slot, never by a rollback"));
}

#[test]
fn nothing_left_is_an_empty_plan() {
    assert_eq!(plan(&[]), []);
}

#[test]
fn a_position_outside_the_list_counts_as_unattached() {
    assert_eq!(words(&[attached(ResourceKind::Ip, "ip", 7)]), ["delete ip"]);
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    let server = resource(ResourceKind::Server, "server");
    let mut rows = Vec::new();
    for kind in ResourceKind::ALL.iter().copied() {
        let cell = |resources: &[Resource]| {
            words(resources)
                .into_iter()
                .filter(|step| step.contains("it"))
                .collect::<Vec<_>>()
                .join(", then ")
                .replace(" it", "")
        };
        let alone = cell(&[resource(kind, "it")]);
        let on_ours = cell(&[server.clone(), attached(kind, "it", 0)]);
        let on_theirs = cell(&[foreign(server.clone()), attached(kind, "it", 0)]);
        let not_ours = cell(&[server.clone(), foreign(attached(kind, "it", 0))]);
        rows.push(vec![format!("`{kind}`"), alone, on_ours, on_theirs, not_ours]);
    }
    let header = ["resource", "alone", "on a server of ours", "on a server that is not ours", "not ours itself"];
    testing::readme::assert_table(README, "decisions", &header, &rows);
}

fn any_resource(count: usize) -> impl Strategy<Value = Resource> {
    let evidence = vec![Evidence::Journal, Evidence::TagSearch, Evidence::Attachment, Evidence::Other];
    (
        proptest::sample::select(ResourceKind::ALL),
        proptest::option::of(0..=count as u32),
        any::<bool>(),
        proptest::sample::select(evidence),
    )
        .prop_map(|(kind, attached_to, owned, evidence)| Resource {
            attached_to,
            owned,
            evidence,
            ..resource(kind, "x")
        })
}

/// Ours, and of a kind or found in a way that this version of the contract has no word for.
fn is_unknown(resource: &Resource) -> bool {
    resource.owned && (resource.kind == ResourceKind::Other || resource.evidence == Evidence::Other)
}

fn any_resources() -> impl Strategy<Value = Vec<Resource>> {
    (0usize..24).prop_flat_map(|count| proptest::collection::vec(any_resource(count), count))
}

proptest! {
    #[test]
    fn any_plan_covers_all_is_acyclic_and_spares_what_is_not_ours(resources in any_resources()) {
        let plan = plan(&resources);
        let mut covered = vec![false; resources.len()];
        for (position, step) in plan.iter().enumerate() {
            let resource = &resources[step.resource as usize];
            covered[step.resource as usize] = true;
            // Each step waits only for earlier ones: no cycle is possible.
            prop_assert!(step.after.iter().all(|after| (*after as usize) < position));
            if !resource.owned {
                prop_assert_eq!(step.action, Action::Keep);
            }
            if resource.kind == ResourceKind::AppleSiliconServer || is_unknown(resource) {
                prop_assert_eq!(step.action, Action::Keep);
            }
        }
        prop_assert!(covered.iter().all(|covered| *covered));
        for (position, resource) in resources.iter().enumerate() {
            let last = plan.iter().rfind(|step| step.resource as usize == position);
            let ends = last.is_some_and(|step| step.action == Action::Delete);
            let holder = resource.attached_to.and_then(|holder| resources.get(holder as usize));
            let held = resource.kind != ResourceKind::Server && holder.is_some_and(is_unknown);
            let stays = resource.kind == ResourceKind::AppleSiliconServer || is_unknown(resource) || held;
            prop_assert_eq!(ends, resource.owned && !stays);
        }
    }

    #[test]
    fn nothing_is_deleted_before_the_server_that_holds_it(resources in any_resources()) {
        let plan = plan(&resources);
        let deletes_server = |step: &Step| {
            step.action == Action::Delete && resources[step.resource as usize].kind == ResourceKind::Server
        };
        for step in &plan {
            let resource = &resources[step.resource as usize];
            if step.action != Action::Delete || resource.kind == ResourceKind::Server {
                continue;
            }
            let holder = resource.attached_to.filter(|server| (*server as usize) < resources.len());
            for (position, server) in plan.iter().enumerate().filter(|(_, other)| deletes_server(other)) {
                if holder.is_none_or(|holder| holder == server.resource) {
                    prop_assert!(step.after.contains(&(position as u32)));
                }
            }
        }
    }
}
