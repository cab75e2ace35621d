//! Builds every policy of the repository and the hostile guests into `OUT_DIR`, and lists them in `OUT_DIR/guests.rs`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use windlass_guest_build::Build;

#[path = "build/raw.rs"]
mod raw;

/// What evaluates rules.
const RULES: &str = "RULES";

/// Name of the constant, package, name of the file, what it is.
const PACKAGES: &[(&str, &str, &str, &str)] = &[
    (
        "STATE_MAPPING",
        "windlass-guest-state-mapping",
        "state-mapping",
        "The default policy of the slot `state-mapping`.",
    ),
    ("RETRY", "windlass-guest-retry", "retry", "The default policy of the slot `retry`."),
    ("ROLLBACK", "windlass-guest-rollback", "rollback", "The default policy of the slot `rollback`."),
    ("RELEASE", "windlass-guest-release", "release", "The default policy of the slot `release`."),
    ("PROVISIONING", "windlass-guest-provisioning", "provisioning", "The default policy of the slot `provisioning`."),
    ("PLACEMENT", "windlass-guest-placement", "placement", "The default policy of the slot `placement`."),
    (RULES, "windlass-guest-rules", "rules", "What evaluates files of rules, for every slot."),
    ("GRACE_FOR_STOPPED", "grace-for-stopped", "grace-for-stopped", "The example for `state-mapping`."),
    (
        "STOCK_AWARE_RETRY",
        "stock-aware-retry",
        "stock-aware-retry",
        "The example for `retry`; needs `windlass:scaleway/look-ups`.",
    ),
    (
        "KEEP_VOLUMES_FOR_INSPECTION",
        "keep-volumes-for-inspection",
        "keep-volumes-for-inspection",
        "The example for `rollback`.",
    ),
    (
        "KEEP_NEW_NODES_FOR_INSPECTION",
        "keep-new-nodes-for-inspection",
        "keep-new-nodes-for-inspection",
        "The example for `provisioning`.",
    ),
    ("KEEP_UNTIL", "keep-until", "keep-until", "Keeps a marked machine until the date of its mark."),
    ("MAXIMUM_AGE", "maximum-age", "maximum-age", "Replaces runners that are old and unused."),
    ("NAMESPACE_BUDGET", "namespace-budget", "namespace-budget", "Bounds what a namespace's servers cost."),
    (
        "HOSTILE",
        "windlass-hostile-guest",
        "hostile",
        "Exports every slot and misbehaves as its settings say: `{\"behaviour\": \"loop\", \"during\": \"decide\"}`; \
         see its source for all behaviours.",
    ),
    (
        "SPENDER",
        "windlass-spender-guest",
        "spender",
        "A retry policy that makes `look-ups` look-ups and `requests` requests in each decision and answers how many \
         succeeded, with the last answer as its reason.",
    ),
    (
        "FAULTY_STATE_MAPPING",
        "windlass-faulty-state-mapping",
        "faulty-state-mapping",
        "The default policy of the slot `state-mapping` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
    (
        "FAULTY_RETRY",
        "windlass-faulty-retry",
        "faulty-retry",
        "The default policy of the slot `retry` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
    (
        "FAULTY_ROLLBACK",
        "windlass-faulty-rollback",
        "faulty-rollback",
        "The default policy of the slot `rollback` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
    (
        "FAULTY_RELEASE",
        "windlass-faulty-release",
        "faulty-release",
        "The default policy of the slot `release` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
    (
        "FAULTY_PROVISIONING",
        "windlass-faulty-provisioning",
        "faulty-provisioning",
        "The default policy of the slot `provisioning` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
    (
        "FAULTY_PLACEMENT",
        "windlass-faulty-placement",
        "faulty-placement",
        "The default policy of the slot `placement` with the fault that its setting `fault` names: see [`FAULTS`].",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut build = Build::from_build_script()?;
    for (_, package, name, _) in PACKAGES.iter().filter(|(constant, ..)| *constant != RULES) {
        build = build.package(*package, *name);
    }
    build.run()?;
    // By itself, as the host builds it: its dependencies would give those of the others more features.
    for (_, package, name, _) in PACKAGES.iter().filter(|(constant, ..)| *constant == RULES) {
        Build::from_build_script()?.package(*package, *name).run()?;
    }
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=faulty");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut list = String::new();
    let mut all = String::new();
    let mut add = |constant: &str, name: &str, text: &str| -> std::fmt::Result {
        writeln!(list, "/// {text}")?;
        writeln!(
            list,
            "pub const {constant}: Guest = Guest {{ name: \"{name}\", bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), \
             \"/{name}.wasm\")) }};"
        )?;
        writeln!(all, "    {constant},")
    };
    for (constant, _, name, text) in PACKAGES {
        add(constant, name, text)?;
    }
    for guest in raw::GUESTS {
        let bytes = raw::build(&root.join("wit/policy"), guest).map_err(|error| format!("{}: {error}", guest.name))?;
        std::fs::write(out.join(format!("{}.wasm", guest.name)), bytes)?;
        add(&guest.name.to_uppercase().replace('-', "_"), guest.name, guest.text)?;
    }
    writeln!(list, "/// All of them.\npub const ALL: &[Guest] = &[\n{all}];")?;
    std::fs::write(out.join("guests.rs"), list)?;
    Ok(())
}
