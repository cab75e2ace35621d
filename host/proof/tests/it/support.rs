//! A host with policies, and the laws of the defaults.

use std::num::NonZeroUsize;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::slots::SlotName;
use windlass_policy::{Compiler, Host, HostOptions, Link, LoadedPolicy};
use windlass_proof::{Finding, Law, Laws, Proof, ProofOptions};
use windlass_test_guests::cache_dir;

/// A host in a folder of its own, which goes with it.
pub(crate) struct Scene {
    pub(crate) host: Host,
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let mut options = HostOptions::new(state);
        options.compiler = Some(Compiler::this_process());
        options.cache_dir = Some(Dir::open_ambient_dir(cache_dir().unwrap(), ambient_authority()).unwrap());
        Scene { host: Host::new(options).unwrap(), _folder: folder }
    }

    pub(crate) fn load(&self, slot: SlotName, link: &Link) -> Arc<LoadedPolicy> {
        self.host.load(slot, link).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn default_of(&self, slot: SlotName) -> Arc<LoadedPolicy> {
        self.load(slot, &Link::default())
    }
}

/// What the default policy of a slot promises, and every policy.
pub(crate) fn laws_of(slot: SlotName) -> Vec<Law> {
    let text = match slot {
        SlotName::StateMapping => include_str!("../../../../guest/state-mapping/laws.toml"),
        SlotName::Retry => include_str!("../../../../guest/retry/laws.toml"),
        SlotName::Rollback => include_str!("../../../../guest/rollback/laws.toml"),
        SlotName::Release => include_str!("../../../../guest/release/laws.toml"),
        SlotName::Provisioning => include_str!("../../../../guest/provisioning/laws.toml"),
        SlotName::Placement => include_str!("../../../../guest/placement/laws.toml"),
    };
    let laws = Laws::parse(text).unwrap_or_else(|error| panic!("{slot}: {error}"));
    assert_eq!(laws.slot, slot);
    Law::of_every_policy().into_iter().chain(laws.laws).collect()
}

/// So many questions drawn from the space, in one order.
pub(crate) fn a_part(enumerated: u64, random: u64) -> ProofOptions {
    ProofOptions { enumerated, random, threads: NonZeroUsize::MIN, ..ProofOptions::default() }
}

/// What was found of a law.
pub(crate) fn finding<'p>(proof: &'p Proof, law: &str) -> &'p Finding {
    proof.laws.iter().find(|finding| finding.law == law).unwrap_or_else(|| panic!("no law {law}"))
}
