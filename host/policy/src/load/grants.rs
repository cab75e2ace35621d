//! Grant lines, and what a component imports held against them.

use std::sync::Arc;

use crate::capability::{Capability, Granted};
use crate::error::Refusal;
use crate::examine::{Examination, is_compatible, split_version};
use crate::slots::{CONTRACT_VERSION, SlotName};
use crate::text::short;

/// What every policy may import: lines for the log, and the contract's types, which have no functions.
const ALWAYS_GRANTED: [&str; 2] = ["windlass:policy/log", "windlass:policy/types"];

/// Whether an interface, named without its version, needs no grant.
pub(super) fn is_always_granted(name: &str) -> bool {
    ALWAYS_GRANTED.contains(&name)
}

/// Understands grant lines: the name of an import, then arguments for its capability. A capability that this host
/// offers in several versions is granted in all of them.
pub(crate) fn accept(capabilities: &[Arc<dyn Capability>], grants: &[String]) -> Result<Granted, Refusal> {
    let mut arguments: Vec<(usize, Vec<String>)> = Vec::new();
    for grant in grants {
        let (import, rest) = grant.trim().split_once(char::is_whitespace).unwrap_or((grant.trim(), ""));
        let name = split_version(import).0;
        if is_always_granted(name) {
            continue;
        }
        let meant = capabilities.iter().enumerate().filter(|(_, capability)| capability.interface() == name);
        let meant: Vec<usize> = meant.map(|(index, _)| index).collect();
        if meant.is_empty() {
            let problem = format!("this host offers no such import. It offers {}", offered(capabilities));
            return Err(Refusal::Grant { grant: grant.clone(), problem });
        }
        for index in meant {
            match arguments.iter_mut().find(|(known, _)| *known == index) {
                Some((_, all)) => all.push(rest.trim().to_owned()),
                None => arguments.push((index, vec![rest.trim().to_owned()])),
            }
        }
    }
    let accept = |(index, arguments): (usize, Vec<String>)| {
        let capability = &capabilities[index];
        let granted = capability.accept_grants(&arguments).map_err(|problem| {
            let grant = format!("{} {}", capability.interface(), arguments.join(" | "));
            Refusal::Grant { grant: grant.trim().to_owned(), problem }
        })?;
        Ok((capability.clone(), granted))
    };
    arguments.into_iter().map(accept).collect()
}

/// Whether everything that is imported is offered and was granted.
pub(super) fn check_imports(
    capabilities: &[Arc<dyn Capability>],
    granted: &Granted,
    examination: &Examination,
    slot: SlotName,
) -> Result<(), Refusal> {
    for import in &examination.imports {
        let (name, version) = split_version(import);
        let offers = |ours: &str| version.is_some_and(|version| is_compatible(version, ours));
        if is_always_granted(name) && offers(CONTRACT_VERSION) {
            continue;
        }
        let is_meant =
            |capability: &&Arc<dyn Capability>| capability.interface() == name && offers(capability.version());
        match capabilities.iter().find(is_meant) {
            Some(capability) => {
                if !granted.iter().any(|(granted, _)| granted.interface() == name) {
                    let grant = capability.example_grant();
                    return Err(Refusal::Ungranted { import: short(import).into(), slot, grant });
                }
            }
            None => {
                let offered = offered(capabilities);
                return Err(Refusal::UnknownImport { import: short(import).into(), offered });
            }
        }
    }
    Ok(())
}

/// What can be imported at all.
fn offered(capabilities: &[Arc<dyn Capability>]) -> String {
    let log = format!("`windlass:policy/log@{CONTRACT_VERSION}`");
    let capabilities = capabilities.iter().map(|it| format!("`{}@{}`", it.interface(), it.version()));
    std::iter::once(log).chain(capabilities).collect::<Vec<_>>().join(", ")
}
