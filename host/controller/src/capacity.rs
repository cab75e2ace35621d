//! What a machine of a template has, by Scaleway's catalogue: Cluster API's contract for scaling from zero, where
//! cluster-autoscaler has no Node to look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_scaleway::Zone;

use crate::Error;
use crate::action::Action;
use crate::catalogue::{FRESH, Product, Type, known};
use crate::context::Context;
use crate::kinds::{
    AppleSiliconMachineTemplate, InstanceMachineTemplate, TemplateNodeInfo, TemplateStatus, conditions,
};
use crate::server_fields::GIGABYTE;
use crate::status::set_condition;
use crate::writes::write_status;

/// What of a template says what its machines have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    product: Product,
    zone: Option<&'a str>,
    types: &'a [String],
    /// The size of the root volume, in bytes, where the template says it.
    disk: Option<u64>,
}

/// A kind of template.
pub(crate) trait Template:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status = TemplateStatus>
    + Clone
    + DeserializeOwned
    + Serialize
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    fn wanted(&self) -> Wanted<'_>;
}

impl Template for InstanceMachineTemplate {
    fn wanted(&self) -> Wanted<'_> {
        let spec = &self.spec.template.spec;
        let disk = spec.root_volume.as_ref().and_then(|volume| volume.size_gb).map(|size| u64::from(size) * GIGABYTE);
        Wanted { product: Product::Instance, zone: spec.zone.as_deref(), types: &spec.types, disk }
    }
}

impl Template for AppleSiliconMachineTemplate {
    fn wanted(&self) -> Wanted<'_> {
        let spec = &self.spec.template.spec;
        let types = std::slice::from_ref(&spec.machine_type);
        Wanted { product: Product::AppleSilicon, zone: spec.zone.as_deref(), types, disk: None }
    }
}

/// What is known of a template's machines, or why nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    capacity: BTreeMap<String, String>,
    node_info: Option<TemplateNodeInfo>,
    node_labels: BTreeMap<String, String>,
}

fn describe(wanted: Wanted<'_>, zone: &Zone, catalogue: &BTreeMap<String, Type>) -> Result<Found, String> {
    let mut types = Vec::new();
    for name in wanted.types {
        match catalogue.get(name) {
            Some(kind) => types.push(kind),
            None => return Err(format!("the type {name} is not in Scaleway's catalogue of {zone}")),
        }
    }
    // Which of several types a machine gets depends on stock: it has at least the least.
    let least = |of: fn(&Type) -> Option<u64>| -> Option<u64> {
        types.iter().map(|kind| of(kind)).collect::<Option<Vec<u64>>>()?.into_iter().min()
    };
    let mut found = Found::default();
    let mut add = |resource: &str, amount: Option<String>| {
        found.capacity.extend(amount.map(|amount| (resource.to_owned(), amount)));
    };
    add("cpu", least(|kind| kind.cpus).map(|cpus| cpus.to_string()));
    add("memory", least(|kind| kind.memory).map(quantity));
    add("ephemeral-storage", wanted.disk.or_else(|| least(|kind| kind.disk)).map(quantity));
    add("nvidia.com/gpu", types.iter().map(|kind| kind.gpus).min().and_then(known).map(|gpus| gpus.to_string()));
    let first = types.first().and_then(|kind| kind.architecture);
    found.node_info = Some(TemplateNodeInfo {
        architecture: first.filter(|_| types.iter().all(|kind| kind.architecture == first)).map(str::to_owned),
        // What an instance runs is told by its image, which says nothing of that.
        operating_system: (wanted.product == Product::AppleSilicon).then(|| "darwin".to_owned()),
    });
    if wanted.zone.is_some() {
        found.node_labels.insert("topology.kubernetes.io/zone".to_owned(), zone.to_string());
        found.node_labels.insert("topology.kubernetes.io/region".to_owned(), zone.region().to_string());
    }
    if let [only] = wanted.types {
        found.node_labels.insert("node.kubernetes.io/instance-type".to_owned(), only.clone());
    }
    Ok(found)
}

/// Bytes as Kubernetes writes them.
fn quantity(bytes: u64) -> String {
    let units = [("Gi", 1_u64 << 30), ("Mi", 1 << 20), ("G", GIGABYTE), ("Ki", 1 << 10)];
    let whole = units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(word, unit)| format!("{}{word}", bytes / unit))
}

/// Reconciles a template: says what its machines have.
pub(crate) async fn reconcile<K: Template>(object: Arc<K>, context: Arc<Context>) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let wanted = object.wanted();
    let mut after = FRESH;
    let zone: Result<Zone, String> = match (wanted.zone, &context.settings.zone) {
        (Some(zone), _) => zone.parse().map_err(|error| format!("the zone {zone:?}: {error}")),
        (None, Some(zone)) => Ok(zone.clone()),
        (None, None) => Err("no zone: set spec.template.spec.zone, or the controller's --zone".to_owned()),
    };
    let found = match zone {
        Ok(zone) => match context.catalogue.types(&context.scaleway, wanted.product, &zone).await {
            Ok(types) => describe(wanted, &zone, &types).map_err(|problem| ("TypeUnknown", problem)),
            Err(error) => {
                after = context.settings.retry_interval;
                Err(("CatalogueUnreadable", format!("Scaleway's catalogue of {zone} cannot be read: {error}")))
            }
        },
        Err(problem) => Err(("InvalidConfiguration", problem)),
    };
    let (generation, now) = (object.meta().generation, Timestamp::now());
    let old = object.status().cloned().unwrap_or_default();
    let mut new = TemplateStatus { observed_generation: generation, ..old.clone() };
    let mut say = |holds: bool, reason: &str, message: &str| {
        let kind = conditions::CAPACITY_KNOWN;
        set_condition(&mut new.conditions, kind, holds.into(), reason, message, generation, now);
    };
    match &found {
        Ok(_) => say(true, "Known", ""),
        Err((reason, message)) => say(false, reason, message),
    }
    // What was known stays while the catalogue cannot be read.
    if !matches!(found, Err(("CatalogueUnreadable", _))) {
        let Found { capacity, node_info, node_labels } = found.unwrap_or_default();
        (new.capacity, new.node_info, new.node_labels) = (capacity, node_info, node_labels);
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    write_status(&api, object.as_ref(), &old, &new).await?;
    Ok(Action::requeue(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cpus: u64, gibibytes: u64, architecture: &'static str) -> Type {
        Type {
            cpus: Some(cpus),
            memory: Some(gibibytes << 30),
            disk: None,
            gpus: 0,
            architecture: Some(architecture),
            price: None,
        }
    }

    #[test]
    fn of_several_types_a_machine_has_what_each_has_at_least_and_what_differs_is_left_out() {
        let catalogue = BTreeMap::from([
            ("BIG".to_owned(), kind(8, 16, "amd64")),
            ("GPU".to_owned(), Type { gpus: 2, ..kind(8, 16, "amd64") }),
            ("LEAN".to_owned(), kind(16, 8, "amd64")),
            ("ARM".to_owned(), kind(4, 4, "arm64")),
            ("ODD".to_owned(), Type { cpus: None, ..kind(1, 1, "amd64") }),
        ]);
        let zone: Zone = "fr-par-2".parse().unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let describe = |types: &[&str], in_zone| {
            let types = names(types);
            let wanted = Wanted { product: Product::Instance, zone: in_zone, types: &types, disk: None };
            describe(wanted, &zone, &catalogue)
        };
        let text = |map: &BTreeMap<String, String>| format!("{map:?}");
        let one = describe(&["BIG"], Some("fr-par-2")).unwrap();
        assert_eq!(text(&one.capacity), r#"{"cpu": "8", "memory": "16Gi"}"#);
        assert_eq!(one.node_info.unwrap().architecture.as_deref(), Some("amd64"));
        assert_eq!(
            text(&one.node_labels),
            r#"{"node.kubernetes.io/instance-type": "BIG", "topology.kubernetes.io/region": "fr-par", "topology.kubernetes.io/zone": "fr-par-2"}"#
        );
        let two = describe(&["BIG", "LEAN"], None).unwrap();
        assert_eq!(text(&two.capacity), r#"{"cpu": "8", "memory": "8Gi"}"#);
        assert!(two.node_labels.is_empty());
        assert_eq!(describe(&["GPU"], None).unwrap().capacity["nvidia.com/gpu"], "2");
        assert!(!describe(&["GPU", "BIG"], None).unwrap().capacity.contains_key("nvidia.com/gpu"));
        assert_eq!(describe(&["BIG", "ARM"], None).unwrap().node_info.unwrap().architecture, None);
        assert_eq!(text(&describe(&["BIG", "ODD"], None).unwrap().capacity), r#"{"memory": "1Gi"}"#);
        assert!(describe(&["BIG", "NONE"], None).unwrap_err().contains("NONE"));
    }

    #[test]
    fn bytes_are_written_in_the_largest_unit_that_divides_them() {
        for (bytes, text) in [
            (2_u64 << 30, "2Gi"),
            (1536 << 20, "1536Mi"),
            (20 * GIGABYTE, "20G"),
            (256 * GIGABYTE, "256G"),
            (1_001, "1001"),
        ] {
            assert_eq!(quantity(bytes), text);
        }
    }
}
