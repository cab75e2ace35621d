//! A policy for `rollback`: when the cause is worth looking into, volumes are kept.

use windlass_guest_sdk::prelude::*;

use rollback::{Action, Answer, Evidence, Plan, Question};

settings! {
    /// What is worth looking into.
    pub struct KeepVolumesForInspection {
        /// Failures of these classes.
        pub classes: Vec<FailureClass> = vec![FailureClass::DeadlineExceeded],
        /// Failures whose message contains one of these texts, in any case of letters.
        pub messages: Vec<String> = Vec::new(),
    }
    check(self) {
        match self.messages.iter().any(String::is_empty) {
            true => Err("`messages` has an empty text, which every message contains".into()),
            false => Ok(()),
        }
    }
}

impl KeepVolumesForInspection {
    fn is_worth_it(&self, cause: &Failure) -> bool {
        let message = cause.message.to_lowercase();
        self.classes.contains(&cause.class) || self.messages.iter().any(|text| message.contains(&text.to_lowercase()))
    }
}

fn is_volume(kind: ResourceKind) -> bool {
    matches!(kind, ResourceKind::BlockVolume | ResourceKind::LocalVolume)
}

impl Rollback for KeepVolumesForInspection {
    fn decide(&self, question: Question) -> Answer {
        let Some(cause) = question.cause.filter(|cause| self.is_worth_it(cause)) else { return Answer::defer() };
        if !question.resources.iter().any(|resource| resource.owned && is_volume(resource.kind)) {
            return Answer::defer();
        }
        // What the contract has no word for is judged by who knows it.
        if question.resources.iter().any(|resource| resource.evidence == Evidence::Other) {
            return Answer::defer();
        }
        let mut plan = Plan::new();
        // Servers first; the host doesn't terminate one whose local volumes stay, it powers it off and deletes it.
        let mut servers_gone = Vec::new();
        for (position, resource) in question.resources.iter().enumerate() {
            if resource.kind == ResourceKind::Server && resource.owned {
                servers_gone.push(plan.delete(position, &[]));
            }
        }
        for (position, resource) in question.resources.iter().enumerate() {
            match resource.kind {
                ResourceKind::Server if resource.owned => {}
                ResourceKind::Ip | ResourceKind::PrivateNic if resource.owned => {
                    plan.step(position, Action::Delete, &servers_gone);
                }
                _ => {
                    plan.keep(position);
                }
            }
        }
        Answer::plan(plan).because(format!("volumes are kept for inspection: {}", cause.message))
    }
}

export_policy!(KeepVolumesForInspection: rollback);

#[cfg(test)]
mod tests {
    use rollback::{Resource, Verdict};
    use windlass_guest_sdk::testing::{configure, failure, resource, rollback_question};

    use super::*;

    fn policy(settings: &str) -> KeepVolumesForInspection {
        configure(settings).unwrap_or_else(|error| panic!("{error}"))
    }

    fn question(cause: Option<Failure>) -> Question {
        let on_server = |kind, id| Resource { attached_to: Some(0), ..resource(kind, id) };
        Question {
            cause,
            ..rollback_question([
                resource(ResourceKind::Server, "server"),
                on_server(ResourceKind::Ip, "ip"),
                on_server(ResourceKind::BlockVolume, "block"),
                on_server(ResourceKind::LocalVolume, "local"),
            ])
        }
    }

    fn kept(answer: Answer) -> Vec<u32> {
        let Verdict::Plan(plan) = answer.verdict else { return Vec::new() };
        plan.iter().filter(|step| step.action == Action::Keep).map(|step| step.resource).collect()
    }

    #[test]
    fn volumes_stay_when_the_class_is_worth_it_and_the_rest_goes() {
        let answer = policy("{}").decide(question(Some(failure(FailureClass::DeadlineExceeded))));
        let Verdict::Plan(plan) = &answer.verdict else { panic!("{answer:?}") };
        assert_eq!(plan.len(), 4);
        assert_eq!(plan[1].after, [0], "the address waits for its server");
        assert_eq!(kept(answer), [2, 3]);
    }

    #[test]
    fn volumes_stay_when_the_message_is_worth_it_whatever_its_letters() {
        let cause = Failure { message: "Kernel PANIC on boot".into(), ..failure(FailureClass::ServerError) };
        assert_eq!(kept(policy(r#"{"messages": ["kernel panic"]}"#).decide(question(Some(cause)))), [2, 3]);
    }

    #[test]
    fn another_cause_and_an_ordinary_deletion_are_left_to_the_next_policy() {
        for cause in [None, Some(failure(FailureClass::OutOfStock))] {
            assert_eq!(policy("{}").decide(question(cause)), Answer::defer());
        }
    }

    #[test]
    fn without_a_volume_of_ours_there_is_nothing_to_say() {
        let cause = Some(failure(FailureClass::DeadlineExceeded));
        let bare = Question { cause: cause.clone(), ..rollback_question([resource(ResourceKind::Server, "server")]) };
        assert_eq!(policy("{}").decide(bare), Answer::defer());
        let foreign = Resource { owned: false, ..resource(ResourceKind::BlockVolume, "theirs") };
        assert_eq!(policy("{}").decide(Question { cause, ..rollback_question([foreign]) }), Answer::defer());
    }

    #[test]
    fn what_was_found_in_an_unknown_way_is_left_to_the_next_policy() {
        let mut question = question(Some(failure(FailureClass::DeadlineExceeded)));
        question.resources[0].evidence = Evidence::Other;
        assert_eq!(policy("{}").decide(question), Answer::defer());
    }

    #[test]
    fn an_empty_text_is_refused_because_it_is_in_every_message() {
        assert!(configure::<KeepVolumesForInspection>(r#"{"messages": [""]}"#).is_err());
    }
}
