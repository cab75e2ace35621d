//! Which program asks which slots: a policy for any other would never decide.

use std::fmt;

use crate::slot_name::SlotName;
use crate::slots::types::Program;

/// A program that asks policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// `windlass`, with servers and clusters.
    CommandLine,
    /// The runner plugin with a group of Instances.
    Instances,
    /// The runner plugin with a group of Macs.
    Macs,
    /// The Kubernetes controller.
    Controller,
    /// The policy server, for whatever its clients ask.
    Server,
}

impl Asker {
    /// All of them.
    pub const ALL: [Asker; 5] = [Self::CommandLine, Self::Instances, Self::Macs, Self::Controller, Self::Server];

    /// The slots that it asks. `docs/decisions.md` says when.
    #[must_use]
    pub fn slots(self) -> &'static [SlotName] {
        use SlotName::{Placement, Provisioning, Release, Retry, Rollback, StateMapping};
        match self {
            Self::CommandLine | Self::Controller => &[Retry, Rollback, Release, Provisioning, Placement],
            Self::Instances => &[StateMapping, Retry, Rollback, Release, Placement],
            Self::Macs => &[StateMapping, Retry, Release],
            Self::Server => &SlotName::ALL,
        }
    }

    /// What a question calls it.
    pub(crate) fn program(self) -> Program {
        match self {
            Self::CommandLine => Program::CommandLine,
            Self::Instances | Self::Macs => Program::RunnerPlugin,
            Self::Controller => Program::Controller,
            // Its clients' questions say which program asks.
            Self::Server => Program::Other,
        }
    }

    pub(crate) fn never_asks(self, slot: SlotName) -> String {
        let asked: Vec<&str> = self.slots().iter().map(|slot| slot.as_str()).collect();
        format!("{self} does not use the slot {slot}; it uses {}: remove policies.{slot}", asked.join(", "))
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CommandLine => "the command line",
            Self::Instances => "the runner plugin with Instances",
            Self::Macs => "the runner plugin with Macs",
            Self::Controller => "the controller",
            Self::Server => "the policy server",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_of_each_program_and_slot_whether_it_is_asked() {
        let page = include_str!("../../../docs/decisions.md");
        let table = page.split("<!-- table: askers -->").nth(1).unwrap().split("<!-- end -->").next().unwrap();
        let mut rows = table
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
        let slots: Vec<SlotName> =
            rows.next().unwrap()[1..].iter().map(|slot| slot.trim_matches('`').parse().unwrap()).collect();
        assert_eq!(slots, SlotName::ALL);
        let rows: Vec<_> = rows.skip(1).collect();
        assert_eq!(rows.len(), Asker::ALL.len());
        for (row, asker) in rows.iter().zip(Asker::ALL) {
            assert_eq!(row[0], asker.to_string());
            for (cell, slot) in row[1..].iter().zip(slots.iter()) {
                assert_eq!(*cell != "never", asker.slots().contains(slot), "{asker}: {slot}: {cell}");
            }
        }
    }
}
