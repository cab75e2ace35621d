//! Slot `release`: what becomes of a machine that its owner no longer wants (`windlass:policy/release`).

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::{Object, Program, Requester, Subject};
pub use crate::bindings::release::*;
use crate::slot_name::{OnFailure, SlotName};
use crate::text::kind_word;

/// Nothing is known.
impl Default for Activity {
    fn default() -> Activity {
        Activity { last_used: None, connections: None, node_ready: None, node_ready_since: None }
    }
}

/// The slot `release`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Release;

impl Verdict {
    /// Its name in the contract, without what it carries.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Defer => "defer",
            Verdict::ReturnToPool(_) => "return-to-pool",
            Verdict::Terminate => "terminate",
            Verdict::ScheduleDeletion => "schedule-deletion",
            Verdict::Keep => "keep",
            Verdict::RetryAfter(_) => "retry-after",
            Verdict::Reboot => "reboot",
        }
    }
}

/// How often a tenant's policy may put off the return of a host to its pool.
const MAX_TENANT_ATTEMPTS: u32 = 10;
/// When the native last resort has the question put again, in milliseconds.
const KEEP_ASK_AGAIN_MS: u64 = 60_000;

impl Slot for Release {
    const NAME: SlotName = SlotName::Release;
    type Question = Question;
    type Answer = Answer;

    fn topic(question: &Question) -> Topic<'_> {
        let machine = &question.machine;
        Topic {
            zone: Some(&machine.zone),
            machine: Some(&machine.id),
            trigger: Some(question.trigger),
            ..Topic::new(
                format!("{} {} in {}", kind_word(&machine.kind), machine.name, machine.zone),
                &question.subject,
            )
        }
    }

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// A host without a pool prefix cannot return to a pool. What cannot be done to a server is no failure: the next
    /// policy would destroy what this one wants to stay. Whoever asks has it stay, and asks again.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        let machine = &question.machine;
        match &answer.verdict {
            Verdict::ReturnToPool(_) if machine.pool_prefix.is_none() && machine.kind != MachineKind::Instance => {
                Err(format!("machine {} has no pool prefix, so it cannot return to a pool", machine.id))
            }
            _ => Ok(()),
        }
    }

    fn is_shared(question: &Question) -> bool {
        question.machine.pool_prefix.is_some() && question.machine.adopted
    }

    /// A host that came out of a pool is the pool's: it goes back, now or later. Whether it leaves the pool for good is
    /// the operator's to say.
    fn check_tenant_answer(question: &Question, answer: &Answer) -> Result<(), String> {
        if !Self::is_shared(question) {
            return Ok(());
        }
        match &answer.verdict {
            Verdict::RetryAfter(_) | Verdict::Reboot if question.attempt > MAX_TENANT_ATTEMPTS => {
                Err("a tenant's policy may not put off the return of a host to its pool for ever".into())
            }
            Verdict::Terminate | Verdict::ScheduleDeletion | Verdict::Keep => {
                Err("a tenant's policy may not take a host out of its pool".into())
            }
            Verdict::Defer | Verdict::ReturnToPool(_) | Verdict::RetryAfter(_) | Verdict::Reboot => Ok(()),
        }
    }

    /// The machine stays as it is, and the question is put again in a minute.
    fn keep(_question: &Question) -> Answer {
        Answer { verdict: Verdict::RetryAfter(KEEP_ASK_AGAIN_MS), reason: None }
    }

    /// A failing judgement never destroys a physical host: it is kept, and asked about again.
    fn on_failure(question: &Question) -> OnFailure {
        match question.machine.kind {
            MachineKind::AppleSiliconServer | MachineKind::Other => OnFailure::Keep,
            MachineKind::Instance => OnFailure::Default,
        }
    }

    fn example() -> Question {
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            trigger: Trigger::Released,
            subject: Subject {
                object: Some(Object {
                    kind: "AppleSiliconMachine".into(),
                    namespace: "team-a".into(),
                    name: "builder-1".into(),
                }),
                requester: Some(Requester::Object),
                why: Some("the object is being deleted".into()),
                ..Subject::of_owner(Program::Controller, "example")
            },
            machine: Machine {
                kind: MachineKind::AppleSiliconServer,
                id: "11111111-2222-4333-8444-555555555555".into(),
                name: "pool-11111111".into(),
                zone: "fr-par-3".into(),
                machine_type: "M4-S".into(),
                status: "ready".into(),
                operating_system: Some("macos-sequoia-15.6".into()),
                pool_prefix: Some("pool-".into()),
                adopted: true,
                created_at: EXAMPLE_NOW_MS - 3_600_000,
                deletable_at: Some(EXAMPLE_NOW_MS + 82_800_000),
                deletion_scheduled: false,
                bootstrap_failures: 0,
                rebooted: false,
                price_per_hour: None,
                activity: Activity::default(),
            },
            requested: None,
            refusal: None,
            attempt: 1,
        }
    }
}
