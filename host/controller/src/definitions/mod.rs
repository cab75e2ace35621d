//! The definitions of the kinds, as Kubernetes wants them.

#[cfg(test)]
mod reference;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource, ResourceExt};
use serde_json::Value;

use crate::kinds::{
    AppleSiliconMachine, AppleSiliconMachineTemplate, ClusterPolicy, ExternalCluster, ExternalClusterTemplate,
    InstanceMachine, InstanceMachineTemplate, MachineRemediation, MachineRemediationTemplate, Policy, ServerCluster,
    VERSION,
};

/// The contracts of Cluster API that the kinds fulfil: their fields and both labels are there.
const CONTRACTS: [&str; 2] = ["cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"];
/// How Cluster API's tools find what belongs to a provider.
const PROVIDER: (&str, &str) = ("cluster.x-k8s.io/provider", "infrastructure-windlass");
/// How `clusterctl move` finds the kinds whose objects it takes along. It sets it on what it installed itself; without
/// it, machines installed otherwise would stay behind without their owners, be collected, and released.
const MOVED: &str = "clusterctl.cluster.x-k8s.io";

/// The definitions of all kinds, with Cluster API's labels.
///
/// Fields that may be left out are not nullable: an explicit `null` counts as left out, so that no rule has to think of
/// it.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    [
        AppleSiliconMachine::crd(),
        AppleSiliconMachineTemplate::crd(),
        InstanceMachine::crd(),
        InstanceMachineTemplate::crd(),
        ExternalCluster::crd(),
        ExternalClusterTemplate::crd(),
        MachineRemediation::crd(),
        MachineRemediationTemplate::crd(),
        ServerCluster::crd(),
        Policy::crd(),
        ClusterPolicy::crd(),
    ]
    .map(|mut definition| {
        if is_of_cluster_api(&definition.spec.names.kind) {
            for contract in CONTRACTS {
                definition.labels_mut().insert(contract.to_owned(), VERSION.to_owned());
            }
        }
        definition.labels_mut().insert(PROVIDER.0.to_owned(), PROVIDER.1.to_owned());
        // Policies belong to an installation, and not to the clusters that are moved.
        if !is_policy(&definition.spec.names.kind) {
            definition.labels_mut().insert(MOVED.to_owned(), String::new());
        }
        let mut value = serde_json::to_value(&definition).expect("a definition is plain data");
        tidy(&mut value);
        serde_json::from_value(value).expect("only keys that may be absent were removed")
    })
    .into()
}

fn is_policy(kind: &str) -> bool {
    kind == Policy::kind(&()) || kind == ClusterPolicy::kind(&())
}

/// Whether a kind is part of Cluster API's contracts.
fn is_of_cluster_api(kind: &str) -> bool {
    kind != ServerCluster::kind(&()) && !is_policy(kind)
}

/// The same as one YAML stream.
#[must_use]
pub fn definitions_yaml() -> String {
    definitions().iter().map(|definition| format!("---\n{}", definition_yaml(definition))).collect()
}

/// One definition as YAML.
pub(crate) fn definition_yaml(definition: &CustomResourceDefinition) -> String {
    serde_norway::to_string(definition).expect("a definition is plain data")
}

/// Takes `nullable` and Rust's number formats out, which say nothing to the API server.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("nullable");
            if map.get("format").is_some_and(|format| matches!(format.as_str(), Some("uint32" | "uint64"))) {
                map.insert("format".to_owned(), Value::from("int64"));
            }
            // Descriptions keep their first paragraph's line breaks out of `kubectl explain`.
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_committed_definitions_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds");
        let renew = std::env::var_os("WINDLASS_WRITE_DEFINITIONS").is_some();
        for definition in definitions() {
            let path = folder.join(format!("{}.yaml", definition.name_any()));
            let wanted = definition_yaml(&definition);
            if renew {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &wanted).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == wanted,
                "{} is not current: run `WINDLASS_WRITE_DEFINITIONS=1 cargo test -p windlass-controller definitions`",
                path.display()
            );
        }
    }

    #[test]
    fn the_reference_is_that_of_the_definitions() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes-reference.md");
        let wanted = reference::reference(&definitions());
        if std::env::var_os("WINDLASS_WRITE_DEFINITIONS").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == wanted,
            "{} is not current: run `WINDLASS_WRITE_DEFINITIONS=1 cargo test -p windlass-controller definitions`",
            path.display()
        );
        for kind in ["AppleSiliconMachine", "InstanceMachineTemplate", "ServerCluster"] {
            assert!(wanted.contains(&format!("\n## {kind}\n")));
        }
        for field in [
            "| **`spec.types`** | list (1 to 16) of string",
            "`status.conditions[].reason`",
            "**`spec.groups[].count`**",
        ] {
            assert!(wanted.contains(field), "{field}");
        }
    }

    #[test]
    fn every_definition_has_what_cluster_api_looks_for() {
        for definition in definitions().into_iter().filter(|one| is_of_cluster_api(&one.spec.names.kind)) {
            let name = definition.name_any();
            assert_eq!(definition.labels()["cluster.x-k8s.io/v1beta1"], "v1alpha1", "{name}");
            assert_eq!(definition.labels()["cluster.x-k8s.io/v1beta2"], "v1alpha1", "{name}");
            assert_eq!(definition.labels()["clusterctl.cluster.x-k8s.io"], "", "{name}");
            let names = &definition.spec.names;
            // The contract's rule: `<lower-case plural of the kind>.<group>`.
            assert_eq!(name, format!("{}s.{}", names.kind.to_lowercase(), definition.spec.group));
            assert_eq!(definition.spec.scope, "Namespaced");
            assert!(names.categories.as_ref().is_some_and(|all| all.contains(&"cluster-api".to_owned())));
            assert_eq!(names.short_names.as_ref().map(Vec::len), Some(1), "{name}");
            assert_eq!(
                names.list_kind.as_deref().unwrap_or(&format!("{}List", names.kind)),
                format!("{}List", names.kind)
            );
        }
    }

    #[test]
    fn machines_have_the_fields_of_both_contracts() {
        for kind in ["AppleSiliconMachine", "InstanceMachine"] {
            let definition = definitions().into_iter().find(|definition| definition.spec.names.kind == kind).unwrap();
            let version = serde_json::to_value(&definition.spec.versions[0]).unwrap();
            let schema = &version["schema"]["openAPIV3Schema"]["properties"];
            assert!(schema["spec"]["properties"]["providerID"].is_object(), "{kind}");
            for field in [
                "ready",
                "initialization",
                "addresses",
                "failureDomain",
                "failureReason",
                "failureMessage",
                "conditions",
            ] {
                assert!(schema["status"]["properties"][field].is_object(), "{kind}.status.{field}");
            }
            assert_eq!(schema["status"]["properties"]["conditions"]["x-kubernetes-list-type"], "map");
            assert!(version["subresources"]["status"].is_object());
        }
    }

    #[test]
    fn no_transition_rule_stands_in_a_template() {
        // A template under a ClusterClass is applied in a dry run over the one that is there: a rule against change
        // would refuse that.
        for definition in definitions() {
            if definition.spec.names.kind.ends_with("Template") {
                let text = serde_json::to_string(&definition).unwrap();
                assert!(!text.contains("oldSelf"), "{}", definition.name_any());
            }
        }
    }
}
