//! A policy that misbehaves as its settings say. Exports every slot, so that one component tests them all.

use windlass_guest_sdk::prelude::*;

mod bombs;
mod plans;

choices! {
    /// What it does.
    pub enum Behaviour {
        /// Nothing bad: every answer is `defer`.
        Defer = "defer",
        /// An endless loop.
        Loop = "loop",
        /// Allocates until it is refused, then traps.
        MemoryBomb = "memory-bomb",
        /// Recurses until its stack ends.
        DeepRecursion = "deep-recursion",
        /// Executes `unreachable`.
        Trap = "trap",
        /// Panics.
        Panic = "panic",
        /// `configure` answers with an error; in a decision: like `trap`.
        Error = "error",
        /// Writes `count` lines of `bytes` bytes to the log, then defers.
        LogFlood = "log-flood",
        /// An answer whose reason has `bytes` bytes.
        HugeAnswer = "huge-answer",
        /// An answer that the contract's types allow and the slot does not: state-mapping one answer too few (none for
        /// an empty listing becomes one), retry a wait of 2^64 - 1 ms, rollback a step for a resource that does not
        /// exist, release a return to the pool for a machine without one, provisioning a node that does not exist,
        /// placement a place that does not exist.
        InvalidAnswer = "invalid-answer",
        /// state-mapping: one answer too many. rollback: a step that waits for a step that does not exist. placement:
        /// more than is wanted. Otherwise like `invalid-answer`.
        InvalidAnswerToo = "invalid-answer-too",
        /// rollback: deletes every resource, also what is not ours. state-mapping: reaps every server. release:
        /// terminates. Otherwise defers.
        DeleteForeign = "delete-foreign",
        /// rollback: a plan whose steps wait for each other. Otherwise defers.
        Cycle = "cycle",
        /// rollback: a plan with a step that waits for itself. Otherwise defers.
        SelfCycle = "self-cycle",
        /// rollback: a plan that leaves the last resource out. Otherwise defers.
        Forget = "forget",
        /// rollback: an empty plan. Otherwise defers.
        ForgetAll = "forget-all",
        /// rollback: each resource is deleted and kept at the same time. Otherwise defers.
        Contradict = "contradict",
        /// rollback: a plan that is accepted, and whose steps wait for the first one `count` times. Otherwise defers.
        WaitAgainAndAgain = "wait-again-and-again",
        /// state-mapping: reports `deleting` for every server and does nothing: the lie that started it all. Otherwise
        /// defers.
        LieDeleting = "lie-deleting",
        /// state-mapping: reports `deleted` for every server. Otherwise defers.
        LieDeleted = "lie-deleted",
    }
}

choices! {
    /// When it does that.
    pub enum During {
        /// In each decision.
        Decide = "decide",
        /// In `configure`.
        Configure = "configure",
        /// In each decision of which the random word (state-mapping: the instant) is odd.
        OddDecisions = "odd-decisions",
    }
}

settings! {
    /// How to misbehave.
    pub struct Hostile {
        /// What to do.
        pub behaviour: Behaviour = Behaviour::Defer,
        /// When.
        pub during: During = During::Decide,
        /// How many, where it counts.
        pub count: u64 = 1_000_000,
        /// How large, where it has a size.
        pub bytes: u64 = 8 << 20,
    }
    check(self) {
        match (self.during, self.behaviour) {
            (During::Configure, Behaviour::Error) => Err("this policy refuses every setting: \
                \u{1b}[31mhostile\u{1b}[0m".into()),
            (During::Configure, _) => {
                self.misbehave();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Hostile {
    /// What now: the behaviour, or [`Behaviour::Defer`] when it isn't time.
    fn now(&self, random: u64) -> Behaviour {
        match self.during {
            During::Decide => self.behaviour,
            During::OddDecisions if random & 1 == 1 => self.behaviour,
            During::OddDecisions | During::Configure => Behaviour::Defer,
        }
    }

    /// The behaviours that need no answer. Returns from the log flood and from those that are about answers.
    fn misbehave(&self) {
        match self.behaviour {
            Behaviour::Loop => bombs::spin(),
            Behaviour::MemoryBomb => bombs::allocate(),
            Behaviour::DeepRecursion => bombs::recurse(),
            Behaviour::Trap | Behaviour::Error => bombs::trap(),
            Behaviour::Panic => panic!("hostile"),
            Behaviour::LogFlood => {
                let line = "x".repeat(self.bytes as usize);
                for _ in 0..self.count {
                    log::info(&line);
                }
            }
            _ => {}
        }
    }

    fn reason(&self) -> Option<String> {
        (self.behaviour == Behaviour::HugeAnswer).then(|| "x".repeat(self.bytes as usize))
    }
}

impl StateMapping for Hostile {
    fn decide(&self, _server: &state_mapping::Server, _listing: &state_mapping::Question) -> state_mapping::Answer {
        state_mapping::Answer::defer()
    }

    fn decide_all(&self, question: &state_mapping::Question) -> Vec<state_mapping::Answer> {
        use state_mapping::{Answer, Report};
        let behaviour = self.now(question.now);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        let answer = match behaviour {
            Behaviour::LieDeleting => Answer::report(Report::Deleting),
            Behaviour::LieDeleted => Answer::report(Report::Deleted),
            Behaviour::DeleteForeign => Answer::reap(),
            _ => Answer::defer(),
        };
        let mut answers = vec![answer.clone(); question.servers.len()];
        match behaviour {
            Behaviour::HugeAnswer => answers.iter_mut().take(1).for_each(|first| first.reason = self.reason()),
            Behaviour::InvalidAnswer if answers.is_empty() => answers.push(answer),
            Behaviour::InvalidAnswer => drop(answers.pop()),
            Behaviour::InvalidAnswerToo => answers.push(answer),
            _ => {}
        }
        answers
    }
}

impl Retry for Hostile {
    fn decide(&self, question: retry::Question) -> retry::Answer {
        use retry::Answer;
        let behaviour = self.now(question.random);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        match behaviour {
            Behaviour::HugeAnswer => Answer { reason: self.reason(), ..Answer::give_up() },
            Behaviour::InvalidAnswer | Behaviour::InvalidAnswerToo => Answer::wait(u64::MAX),
            _ => Answer::defer(),
        }
    }
}

impl Rollback for Hostile {
    fn decide(&self, question: rollback::Question) -> rollback::Answer {
        let behaviour = self.now(question.random);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        let plan = match plans::plan(behaviour, &question.resources, self.count) {
            Some(plan) => rollback::Answer::plan(plan),
            None => rollback::Answer::defer(),
        };
        rollback::Answer { reason: self.reason().filter(|_| behaviour == Behaviour::HugeAnswer), ..plan }
    }
}

impl Release for Hostile {
    fn decide(&self, question: release::Question) -> release::Answer {
        use release::Answer;
        let behaviour = self.now(question.random);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        match behaviour {
            Behaviour::HugeAnswer => Answer { reason: self.reason(), ..Answer::keep() },
            Behaviour::InvalidAnswer | Behaviour::InvalidAnswerToo => Answer::return_to_pool(Some("\0".into())),
            Behaviour::DeleteForeign => Answer::terminate(),
            _ => Answer::defer(),
        }
    }
}

impl Provisioning for Hostile {
    fn decide(&self, question: provisioning::Question) -> provisioning::Answer {
        use provisioning::{Answer, ClusterState};
        let behaviour = self.now(question.random);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        match behaviour {
            Behaviour::HugeAnswer => {
                Answer { reason: self.reason(), ..Answer::recover(ClusterState::Error, Vec::new()) }
            }
            Behaviour::InvalidAnswer | Behaviour::InvalidAnswerToo => {
                Answer::recover(ClusterState::Error, vec![question.nodes.len() as u32])
            }
            Behaviour::DeleteForeign => {
                Answer::recover(ClusterState::Error, (0..question.nodes.len() as u32).collect())
            }
            _ => Answer::defer(),
        }
    }
}

impl Placement for Hostile {
    fn decide(&self, question: placement::Question) -> placement::Answer {
        use placement::{Answer, Assignment};
        let behaviour = self.now(question.random);
        if behaviour != Behaviour::Defer {
            self.misbehave();
        }
        let placed = |count, place| Answer::place(vec![Assignment { count, places: vec![place] }]);
        match behaviour {
            Behaviour::HugeAnswer => Answer { reason: self.reason(), ..Answer::place(Vec::new()) },
            Behaviour::InvalidAnswer => placed(1, question.places.len() as u32),
            Behaviour::InvalidAnswerToo => placed(question.wanted.saturating_add(1), 0),
            _ => Answer::defer(),
        }
    }
}

export_policy!(Hostile: state_mapping, retry, rollback, release, provisioning, placement);
