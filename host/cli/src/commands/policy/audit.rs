//! `windlass policy audit`: what a policy would decide about the machines that exist now.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use windlass_inspect::audit::{Comparison, Decided};
use windlass_inspect::failure::Failure;
use windlass_inspect::text::{before_now, bold, printable};
use windlass_inspect::words::{counted, kind_word};
use windlass_lifecycle::{GroupName, ListedMachine, MachineReader};
use windlass_policy::slots::release::MachineKind;
use windlass_policy::slots::state_mapping::{self, Action, Report};
use windlass_policy::slots::{Release, SlotName, StateMapping};
use windlass_policy::{Host, Link, PinnedPolicies, Policies, PolicyIdentity};
use windlass_scaleway::Zone;

use crate::arguments::AuditPolicy;
use crate::commands::lifecycle::lifecycle_failure;
use crate::context::Context;
use crate::policy_file::{chain_with, link, read_policy, slots_of, trial_host};

/// The slots whose questions are about what exists, and not about what happens.
const SLOTS: [SlotName; 2] = [SlotName::Release, SlotName::StateMapping];

/// Document of `policy audit`.
#[derive(Debug, Serialize)]
struct Audit {
    slot: SlotName,
    zone: Zone,
    /// The group that was asked for.
    group: Option<GroupName>,
    policy: PolicyIdentity,
    /// How many servers there are.
    servers: usize,
    /// How many claimed Macs there are.
    macs: usize,
    /// How many of them have no known price.
    without_price: usize,
    #[serde(flatten)]
    comparison: Comparison<Named>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Named {
    id: String,
    name: String,
    group: Option<String>,
}

impl From<&ListedMachine> for Named {
    fn from(machine: &ListedMachine) -> Self {
        let group = machine.group().map(str::to_owned);
        Self { id: machine.id().to_owned(), name: machine.name().to_owned(), group }
    }
}

pub(super) async fn run(context: &Context, arguments: &AuditPolicy) -> Result<(), Failure> {
    let file = &arguments.load.file;
    let slot = slot_of(file, arguments.slot)?;
    let candidate = link(context, slot, &arguments.load)?;
    let look = context.look()?;
    // What was never loaded is compiled for as long as thousands of machines are listed.
    let loading = {
        let (context, file) = (context.again(), file.clone());
        tokio::task::spawn_blocking(move || {
            let host = trial_host(&context)?;
            let (today, then, policy) = load(&host, &context.configuration.policies, slot, &file, &candidate)?;
            // The context holds the host's folder.
            Ok::<_, Failure>((context, host, today, then, policy))
        })
    };
    let loaded = async {
        let defect = |error: tokio::task::JoinError| {
            Failure::undone("the audit ended because of a bug").because(error.to_string())
        };
        loading.await.map_err(defect)?
    };
    let machines = async {
        let listed = match look.machines() {
            Some(reader) => reader.existing(&look.zone, arguments.group.as_ref()).await,
            None => Ok(Vec::new()),
        };
        listed.map_err(|error| lifecycle_failure("the machines cannot be listed", &error))
    };
    let ((_context, host, today, then, policy), machines) = tokio::try_join!(loaded, machines)?;
    let (without_price, before, after) = match look.machines() {
        Some(reader) => {
            let asked =
                Asked { reader, host: &host, machines: &machines, policy: &policy, now: before_now(Duration::ZERO) };
            asked.decide(slot, &today, &then).await
        }
        None => (0, Vec::new(), Vec::new()),
    };
    let decided = machines.iter().zip(&before).zip(&after);
    let comparison =
        Comparison::of(decided.map(|((machine, before), after)| (before, after, move || Named::from(machine))));
    let (zone, group) = (look.zone.clone(), arguments.group.clone());
    let macs = machines.iter().filter(|machine| matches!(machine, ListedMachine::Mac(_))).count();
    let servers = machines.len() - macs;
    let audit = Audit { slot, zone, group, policy, servers, macs, without_price, comparison };
    context.output.result(&audit, || rendered(&audit, file));
    if without_price > 0 {
        context.output.say(&format!(
            "note: Scaleway gave no prices of {}, so rules about prices were not tried",
            counted(without_price, "server")
        ));
    }
    if macs > 0 && slot == SlotName::Release {
        context.output.say(
            "note: the command does not know `release_requested` of a runner group: the policy was asked as if it were \
             not set, and ordered Macs as if they belonged to no pool",
        );
    }
    let problems = audit.problems();
    if arguments.fail_on_destructive && !problems.is_empty() {
        return Err(Failure::undone(problems.join("; ")).remedy(
            "`windlass policy run` shows its answer to one question, `windlass policy prove` a law about all",
        ));
    }
    Ok(())
}

/// Loads the policies that decide today, and those that would decide with the candidate, whose identity comes last.
fn load(
    host: &Host,
    policies: &Policies,
    slot: SlotName,
    file: &Path,
    candidate: &Link,
) -> Result<(PinnedPolicies, PinnedPolicies, PolicyIdentity), Failure> {
    let refused = |error: windlass_policy::Error| {
        Failure::usage("the policies cannot be used").at(file.display().to_string()).because(error.to_string())
    };
    let pinned = |candidate: Option<&Link>| {
        host.configure(&chain_with(policies, slot, candidate.map(|link| (file, link)))).map_err(refused)?;
        Ok::<_, Failure>(host.pin())
    };
    let (today, then) = (pinned(None)?, pinned(Some(candidate))?);
    let identity = host.load(slot, candidate).map_err(refused)?.identity().clone();
    Ok((today, then, identity))
}

/// The slot that is asked about: the one that the policy decides, where that is about what exists.
fn slot_of(file: &Path, wanted: Option<SlotName>) -> Result<SlotName, Failure> {
    let decided = slots_of(file, &read_policy(file)?)?;
    let names = |slots: &[SlotName]| slots.iter().map(|slot| slot.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = wanted.filter(|wanted| !decided.contains(wanted)) {
        return Err(Failure::usage(format!("the policy does not decide the slot {wanted}"))
            .at(file.display().to_string())
            .because(format!("it decides {}", names(&decided))));
    }
    let audited: Vec<SlotName> =
        decided.iter().copied().filter(|slot| SLOTS.contains(slot) && wanted.is_none_or(|it| it == *slot)).collect();
    match audited.as_slice() {
        [slot] => Ok(*slot),
        [] => Err(Failure::usage(format!(
            "a policy of {} cannot be audited: it decides about events, not about machines",
            names(&decided)
        ))
        .at(file.display().to_string())
        .because(format!("an audit asks the slots {}", names(&SLOTS)))
        .remedy("compare it on recorded and generated questions: windlass policy diff default FILE --slot SLOT")),
        several => Err(Failure::usage("the policy decides several slots that can be audited")
            .at(file.display().to_string())
            .remedy(format!("name one with --slot: {}", names(several)))),
    }
}

/// What is asked, about what.
struct Asked<'a> {
    reader: MachineReader<'a>,
    host: &'a Host,
    machines: &'a [ListedMachine],
    policy: &'a PolicyIdentity,
    now: u64,
}

impl Asked<'_> {
    /// Returns how many servers have no known price, what is decided about each machine today, and what would be.
    async fn decide(
        &self,
        slot: SlotName,
        today: &PinnedPolicies,
        then: &PinnedPolicies,
    ) -> (usize, Vec<Decided>, Vec<Decided>) {
        match slot {
            SlotName::StateMapping => (0, self.listings(today).await, self.listings(then).await),
            _ => {
                let questions = self.reader.release_questions(self.host, self.machines, self.now).await;
                let without_price = questions.iter().filter(|it| is_without_price(&it.machine)).count();
                let (mut before, mut after) = (Vec::new(), Vec::new());
                for question in questions {
                    before.push(self.release(today, question.clone()).await);
                    after.push(self.release(then, question).await);
                }
                (without_price, before, after)
            }
        }
    }

    async fn release(&self, policies: &PinnedPolicies, question: windlass_policy::slots::release::Question) -> Decided {
        Decided::of_release(&policies.try_decide::<Release>(question).await, self.policy)
    }

    async fn listings(&self, policies: &PinnedPolicies) -> Vec<Decided> {
        let mut decided: Vec<Option<Decided>> = vec![None; self.machines.len()];
        for (positions, question) in self.reader.listing_questions(self.host, self.machines, self.now) {
            let decision = policies.try_decide::<StateMapping>(question).await;
            let failed = self.failure(&decision.fallbacks);
            for (position, answer) in positions.into_iter().zip(decision.answer) {
                let (words, destroys) = match &answer.verdict {
                    state_mapping::Verdict::Defer => ("no policy decided".to_owned(), false),
                    state_mapping::Verdict::Mapped(mapping) => mapped(mapping),
                };
                decided[position] = Some(Decided { words, destroys, reason: answer.reason, failed: failed.clone() });
            }
        }
        decided.into_iter().flatten().collect()
    }

    fn failure(&self, fallbacks: &[windlass_policy::Fallback]) -> Option<String> {
        let own = fallbacks.iter().find(|fallback| *fallback.policy == *self.policy);
        own.map(|fallback| fallback.reason.clone())
    }
}

/// The catalogue of Instances tells no price of a Mac.
fn is_without_price(machine: &windlass_policy::slots::release::Machine) -> bool {
    machine.kind == MachineKind::Instance && machine.price_per_hour.is_none()
}

/// A server that exists is forgotten where it is reported as gone, and runs on unseen.
fn mapped(mapping: &state_mapping::Mapping) -> (String, bool) {
    let reaps = mapping.action == Action::Reap;
    let report = kind_word(&mapping.report);
    let words = if reaps { format!("{report}, reaped") } else { report };
    (words, reaps || matches!(mapping.report, Report::Deleted | Report::Timeout))
}

impl Audit {
    fn machines(&self) -> usize {
        self.servers + self.macs
    }

    /// What there is, for people.
    fn counted(&self) -> String {
        let counts = [(self.servers, "server"), (self.macs, "Mac")].into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = counts.map(|(count, what)| counted(count, what)).collect();
        if words.is_empty() { "no machines".to_owned() } else { words.join(" and ") }
    }

    /// Why the policy should not be used yet.
    fn problems(&self) -> Vec<String> {
        let counts = [
            ("the policy would destroy", self.comparison.destroyed(), "machine", " that stay today"),
            ("the policy fails about", self.comparison.failures(), "machine", ""),
            ("the prices are not known of", self.without_price, "server", ""),
        ];
        let counts = counts.into_iter().filter(|(_, count, ..)| *count > 0);
        let mut problems: Vec<String> =
            counts.map(|(what, count, noun, which)| format!("{what} {}{which}", counted(count, noun))).collect();
        if self.machines() == 0 {
            problems.push("there is no machine, so the policy was asked nothing".to_owned());
        }
        problems
    }
}

fn rendered(audit: &Audit, file: &Path) -> String {
    let machines = audit.counted();
    let machines =
        audit.group.as_ref().map_or_else(|| machines.clone(), |group| format!("{machines} of group {group}"));
    let mut text = format!("{} for the slot {}, {machines} in {}", file.display(), audit.slot, audit.zone);
    text.push_str(&match audit.comparison.same {
        _ if audit.machines() == 0 => ": nothing was asked\n".to_owned(),
        same if same == audit.machines() => ": nothing changes\n".to_owned(),
        0 => "\n".to_owned(),
        same => format!(": nothing changes for {same}\n"),
    });
    for group in &audit.comparison.groups {
        let mark = if group.destructive { "DESTRUCTIVE " } else { "" };
        let change = format!("{} -> {}", group.before, group.after);
        text.push_str(&format!("\n{mark}{}: {}\n", bold(&change), group.count));
        text.push_str(&listed(&group.machines, group.count));
        if let Some(reason) = &group.reason {
            text.push_str(&format!("  why: {}\n", printable(reason)));
        }
    }
    for failed in &audit.comparison.failed {
        text.push_str(&format!("\nFAILED about {}: {}\n", failed.count, printable(&failed.reason)));
        text.push_str(&listed(&failed.machines, failed.count));
    }
    text
}

fn listed(machines: &[Named], count: usize) -> String {
    let line = |machine: &Named| {
        let group = machine.group.as_ref().map(|group| format!(" of group {group}")).unwrap_or_default();
        format!("  {} {}{}\n", machine.id, printable(&machine.name), printable(&group))
    };
    let mut text: String = machines.iter().map(line).collect();
    if count > machines.len() {
        text.push_str(&format!("  ... and {} more\n", count - machines.len()));
    }
    text
}
