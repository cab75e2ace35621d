//! How a resource stands to the journal. Pure: what has to be read for a judgement is asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use super::listing::{Listed, Presence, Servers};
use crate::identifier::OperationId;
use crate::journal::{Operation, OperationState, ResourceKind};
use crate::ownership::Claims;
use crate::tags;

/// How a resource stands to the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Explained,
    /// Too early to judge it: the next sweep does.
    Young,
    Kept,
    Abandoned,
    /// `spared`: why it is not removed all the same.
    Unexplained {
        why: String,
        spared: Option<String>,
    },
    /// It depends on whether this server is there, which no listing denies.
    Ask {
        server: String,
    },
}

/// What the journal knows of one operation.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) operation: Operation,
    pub(super) claims: Claims,
    /// What it kept, and what the operation kept that ended it.
    pub(super) kept: BTreeSet<String>,
    /// Whether a start has left it alone, since somebody else had started its server.
    pub(super) started_elsewhere: bool,
}

/// What a judgement is made from, beside the resource.
pub(super) struct Case<'a> {
    pub(super) servers: &'a Servers,
    /// Servers that this sweep removes.
    pub(super) going: &'a BTreeSet<String>,
    /// Servers by the operation that their tag names.
    pub(super) tagged: &'a [(OperationId, String)],
    /// When the listing began. What an operation changed since then the listing may show in part only.
    pub(super) listed_from: u64,
    pub(super) now: u64,
    pub(super) grace: Duration,
    pub(super) running_too: bool,
}

const MAYBE_IN_USE: &str = "the journal that made it may only be lost, and it may be in use";

fn unexplained(why: impl Into<String>) -> Judgement {
    Judgement::Unexplained { why: why.into(), spared: None }
}

fn spared(why: impl Into<String>, spared: impl Into<String>) -> Judgement {
    Judgement::Unexplained { why: why.into(), spared: Some(spared.into()) }
}

impl Case<'_> {
    /// Judges a resource that carries our owner tag; `known`: what the journal knows of the operation that its tag
    /// names.
    pub(super) fn judge(&self, resource: &Listed, known: Option<&Known>) -> Judgement {
        if tags::is_kept(&resource.tags) || known.is_some_and(|known| known.kept.contains(&resource.name.id)) {
            return Judgement::Kept;
        }
        let Some(id) = tags::operation_of(&resource.tags) else {
            return spared(
                "it carries our owner tag and names no operation",
                "no operation of ours makes such a resource; remove it by hand",
            );
        };
        let Some(known) = known else {
            return self.unknown(resource, &id);
        };
        let operation = &known.operation;
        // One that ended while the lists were read, each at its own moment: its address may have been listed, and its
        // server not yet. The next sweep judges it. A time to come was written by a clock that was ahead.
        let ended_meanwhile = operation.updated_at > self.listed_from && operation.updated_at <= self.now;
        if operation.state == OperationState::Open {
            return Judgement::Explained;
        }
        if ended_meanwhile {
            return Judgement::Young;
        }
        if operation.is_left_alone() {
            return Judgement::Abandoned;
        }
        if known.started_elsewhere && operation.state == OperationState::Left && operation.ended_by.is_none() {
            let why = format!("operation {id} was interrupted, and somebody else started its server");
            return spared(why, "it may be in use; to remove it, delete the server");
        }
        let alive = operation.state == OperationState::Done && operation.ended_by.is_none();
        if alive {
            match self.server_of(resource, known) {
                Ok(Some(explained)) => return explained,
                Ok(None) => {}
                Err(ask) => return ask,
            }
        }
        let is_made = known.claims.knows(&resource.name.id) || self.came_of_a_lost_answer(resource, known);
        let why = match operation.state {
            OperationState::Done if alive && resource.name.kind == ResourceKind::Server => {
                format!("operation {id} made another one in its place")
            }
            _ if !is_made => format!("it carries the tag of operation {id}"),
            OperationState::Done if alive => format!("the server of operation {id} is gone"),
            OperationState::Done => format!("operation {id} made it, and its server was cleaned up"),
            OperationState::Kept => format!("operation {id} ended and did not keep it"),
            _ => format!("operation {id} failed and should have removed it"),
        };
        if !is_made {
            return spared(why, format!("operation {id} did not make it: its tags may be copied"));
        }
        self.unless_in_use(resource, why)
    }

    /// Whether a living server explains the resource. `None`: its operation has none any more.
    fn server_of(&self, resource: &Listed, known: &Known) -> Result<Option<Judgement>, Judgement> {
        if resource.name.kind == ResourceKind::Server {
            return Ok(known.claims.knows_as_made(&resource.name.id).then_some(Judgement::Explained));
        }
        let id = &known.operation.id;
        // A double that a look found is named, too, and explains nothing.
        let made = known.claims.known_as_made().filter(|name| name.kind == ResourceKind::Server);
        for server in made.map(|name| name.id.as_str()) {
            match self.servers.get(server) {
                None => return Err(Judgement::Ask { server: server.to_owned() }),
                Some(Presence::Gone) => {}
                Some(Presence::Unseen(problem)) => {
                    return Ok(Some(spared(
                        format!("the server of operation {id} was not listed"),
                        format!("cannot check whether it is gone: {problem}"),
                    )));
                }
                Some(Presence::Here) => {
                    let belongs = known.claims.knows_as_made(&resource.name.id)
                        || resource.attached_to.iter().any(|attached| attached == server);
                    if belongs {
                        return Ok(Some(Judgement::Explained));
                    }
                    let why = format!("operation {id} made another one in its place");
                    let standing = if self.came_of_a_lost_answer(resource, known) {
                        self.unless_in_use(resource, why)
                    } else {
                        spared(why, format!("operation {id} did not make it: its tags may be copied"))
                    };
                    return Ok(Some(standing));
                }
            }
        }
        Ok(None)
    }

    /// Whether it can be what a creation made whose answer was lost: then nobody uses it.
    fn came_of_a_lost_answer(&self, resource: &Listed, known: &Known) -> bool {
        known.claims.may_have_lost(resource.name.kind)
            && (resource.name.kind != ResourceKind::Server
                || resource.never_started && known.claims.calls_its_server(&resource.label))
    }

    /// Unexplained, unless it is attached to something that is there and stays.
    fn unless_in_use(&self, resource: &Listed, why: String) -> Judgement {
        for server in resource.attached_to.iter().filter(|server| !self.going.contains(*server)) {
            match self.servers.get(server) {
                None => return Judgement::Ask { server: server.clone() },
                Some(Presence::Gone) => {}
                Some(Presence::Here) => {
                    return spared(why, format!("it is attached to server {server}, which is there"));
                }
                Some(Presence::Unseen(problem)) => {
                    return spared(why, format!("cannot check whether its server {server} still exists: {problem}"));
                }
            }
        }
        unexplained(why)
    }

    /// Judges a resource of an operation that this journal does not know.
    fn unknown(&self, resource: &Listed, id: &OperationId) -> Judgement {
        let grace = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        // Made in a time to come, it was made by a clock that was ahead: how old it is nobody knows, and it is not young.
        let ahead = id.made_at().saturating_sub(self.now);
        if ahead <= grace && self.now.saturating_sub(id.made_at()) < grace {
            return Judgement::Young;
        }
        let mut why = format!("this journal does not know operation {id}");
        if ahead > 0 {
            why.push_str(&format!(", which was made by a clock that was {} s ahead", ahead.div_ceil(1_000)));
        }
        if resource.name.kind == ResourceKind::Server {
            return if self.running_too { unexplained(why) } else { spared(why, MAYBE_IN_USE) };
        }
        match self.unless_in_use(resource, why) {
            Judgement::Unexplained { why, spared: None } => {
                // A server of the same operation that stays may only be without it for a moment.
                let stays = self.tagged.iter().any(|(of, server)| of == id && !self.going.contains(server));
                Judgement::Unexplained { why, spared: stays.then(|| MAYBE_IN_USE.to_owned()) }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identifier::OwnerName;
    use crate::journal::{Entry, OperationKind, Phase, ResourceName};
    use crate::specification::{ImageChoice, ServerSpecification};

    const OPERATION: &str = "ci-0nqrsxtrgyns";

    fn id() -> OperationId {
        OperationId::parse(OPERATION).unwrap()
    }

    fn name(kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.into(), zone: "fr-par-1".into(), server: None }
    }

    fn listed(kind: ResourceKind, id: &str, attached_to: &[&str]) -> Listed {
        Listed {
            name: name(kind, id),
            label: String::new(),
            state: String::new(),
            tags: vec!["windlass-owner=team".into(), format!("windlass-operation={OPERATION}")],
            attached_to: attached_to.iter().map(|&id| id.to_owned()).collect(),
            never_started: false,
            protected: false,
            volumes: Default::default(),
        }
    }

    /// A creation that made server `server` and address `ip`.
    fn known(state: OperationState, ended: bool, more: &[Entry]) -> Known {
        let entry = |step: &str, resource, data| Entry {
            sequence: 1,
            step: step.into(),
            phase: Phase::Outcome,
            resource: Some(resource),
            data,
            at: 0,
        };
        let mut entries = vec![
            entry("create-ip", name(ResourceKind::Ip, "ip"), json!({ "kind": "ipv4" })),
            entry("create-server", name(ResourceKind::Server, "server"), json!({ "type": "DEV1-S" })),
        ];
        entries.extend_from_slice(more);
        let specification = ServerSpecification::new(
            "ci".parse().unwrap(),
            "fr-par-1".parse().unwrap(),
            "DEV1-S",
            ImageChoice::parse("ubuntu_noble"),
        );
        let owner: OwnerName = "team".parse().unwrap();
        Known {
            operation: Operation {
                id: id(),
                kind: OperationKind::CreateServer,
                group: "ci".into(),
                zone: "fr-par-1".into(),
                owner: "team".into(),
                specification: json!({}),
                policies: json!([]),
                runner: "one".into(),
                host: None,
                state,
                cause: None,
                reasons: vec![],
                report: None,
                look_at: None,
                ended_by: ended.then(id),
                ended_at: None,
                created_at: 0,
                updated_at: 0,
            },
            claims: Claims::of_creation(&owner, &id(), &specification, &entries).unwrap(),
            kept: BTreeSet::from(["kept".to_owned()]),
            started_elsewhere: false,
        }
    }

    fn lost(step: &str) -> Entry {
        Entry { sequence: 9, step: step.into(), phase: Phase::Note, resource: None, data: json!({}), at: 0 }
    }

    fn judge(resource: &Listed, known: Option<&Known>, servers: &[(&str, Presence)], going: &[&str]) -> Judgement {
        let mut seen = Servers::default();
        servers.iter().for_each(|(id, presence)| seen.set(id, presence.clone()));
        Case {
            servers: &seen,
            going: &going.iter().map(|&id| id.to_owned()).collect(),
            tagged: &[],
            listed_from: 10,
            now: u64::MAX,
            grace: Duration::ZERO,
            running_too: false,
        }
        .judge(resource, known)
    }

    fn goes(standing: &Judgement) -> bool {
        matches!(standing, Judgement::Unexplained { spared: None, .. })
    }

    fn stays(standing: &Judgement) -> bool {
        matches!(standing, Judgement::Unexplained { spared: Some(_), .. })
    }

    #[test]
    fn a_server_that_is_not_listed_is_asked_for_before_anything_follows_from_it() {
        let known = known(OperationState::Done, false, &[]);
        let ip = listed(ResourceKind::Ip, "ip", &[]);
        assert_eq!(judge(&ip, Some(&known), &[], &[]), Judgement::Ask { server: "server".into() });
        assert_eq!(judge(&ip, Some(&known), &[("server", Presence::Here)], &[]), Judgement::Explained);
        assert!(goes(&judge(&ip, Some(&known), &[("server", Presence::Gone)], &[])));
        assert!(stays(&judge(&ip, Some(&known), &[("server", Presence::Unseen("403".into()))], &[])));
    }

    #[test]
    fn an_unknown_operation_of_a_clock_that_was_ahead_is_not_young() {
        let made_at = id().made_at();
        let ip = listed(ResourceKind::Ip, "ip", &[]);
        for (now, young) in [
            (made_at - 3_600_001, false),
            (made_at - 3_600_000, true),
            (made_at + 3_599_999, true),
            (made_at + 3_600_000, false),
        ] {
            let case = Case {
                servers: &Servers::default(),
                going: &BTreeSet::new(),
                tagged: &[],
                listed_from: 10,
                now,
                grace: Duration::from_secs(3_600),
                running_too: false,
            };
            let judged = case.judge(&ip, None);
            assert_eq!(judged == Judgement::Young, young, "{judged:?}");
            assert_eq!(goes(&judged), !young, "{judged:?}");
        }
    }

    #[test]
    fn what_a_clock_that_was_ahead_wrote_is_not_taken_for_what_ended_during_the_listing() {
        let mut known = known(OperationState::Undone, false, &[]);
        let ip = listed(ResourceKind::Ip, "ip", &[]);
        for (updated_at, young) in [(10, false), (11, true), (20, true), (21, false), (u64::MAX, false)] {
            known.operation.updated_at = updated_at;
            let case = Case {
                servers: &Servers::default(),
                going: &BTreeSet::new(),
                tagged: &[],
                listed_from: 10,
                now: 20,
                grace: Duration::ZERO,
                running_too: false,
            };
            assert_eq!(case.judge(&ip, Some(&known)) == Judgement::Young, young, "{updated_at}");
        }
    }

    #[test]
    fn what_is_attached_to_something_that_is_there_stays_whatever_became_of_its_operation() {
        for (state, ended) in
            [(OperationState::Undone, false), (OperationState::Left, false), (OperationState::Done, true)]
        {
            let known = known(state, ended, &[]);
            let ip = listed(ResourceKind::Ip, "ip", &["other"]);
            assert_eq!(judge(&ip, Some(&known), &[], &[]), Judgement::Ask { server: "other".into() });
            assert!(stays(&judge(&ip, Some(&known), &[("other", Presence::Here)], &[])));
            assert!(goes(&judge(&ip, Some(&known), &[("other", Presence::Gone)], &[])));
            assert!(goes(&judge(&ip, Some(&known), &[("other", Presence::Here)], &["other"])), "it goes with it");
        }
    }

    #[test]
    fn copied_tags_are_reported_and_spared_and_a_double_of_a_lost_answer_goes() {
        let here = [("server", Presence::Here)];
        let answered = known(OperationState::Done, false, &[]);
        let unsure = known(OperationState::Done, false, &[lost("create-ip"), lost("create-server")]);
        let (ip, clone) = (listed(ResourceKind::Ip, "another", &[]), listed(ResourceKind::Server, "clone", &[]));
        let copy = Listed { never_started: true, label: "copy".into(), ..clone.clone() };
        let double = Listed { never_started: true, label: OPERATION.into(), ..clone.clone() };
        for (resource, with_lost) in [(&ip, true), (&clone, false), (&copy, false), (&double, true)] {
            assert!(stays(&judge(resource, Some(&answered), &here, &[])), "{resource:?}");
            assert_eq!(goes(&judge(resource, Some(&unsure), &here, &[])), with_lost, "{resource:?}");
        }
    }

    #[test]
    fn what_was_kept_is_kept_whatever_its_tags_say() {
        for (state, ended) in
            [(OperationState::Kept, false), (OperationState::Left, false), (OperationState::Done, true)]
        {
            let known = known(state, ended, &[]);
            assert_eq!(judge(&listed(ResourceKind::BlockVolume, "kept", &[]), Some(&known), &[], &[]), Judgement::Kept);
        }
    }

    #[test]
    fn what_an_operation_changed_while_the_lists_were_read_is_left_to_the_next_sweep() {
        let mut known = known(OperationState::Undone, false, &[]);
        let ip = listed(ResourceKind::Ip, "ip", &[]);
        assert!(goes(&judge(&ip, Some(&known), &[], &[])));
        known.operation.updated_at = 11;
        assert_eq!(judge(&ip, Some(&known), &[], &[]), Judgement::Young);
    }

    #[test]
    fn servers_of_unknown_operations_and_what_is_attached_to_them_stay() {
        let here = [("server", Presence::Here)];
        assert!(stays(&judge(&listed(ResourceKind::Server, "server", &[]), None, &here, &[])));
        assert!(stays(&judge(&listed(ResourceKind::Ip, "ip", &["server"]), None, &here, &[])));
        assert!(goes(&judge(&listed(ResourceKind::Ip, "ip", &[]), None, &here, &[])), "nobody uses it");
        assert!(goes(&judge(&listed(ResourceKind::Ip, "ip", &["server"]), None, &here, &["server"])));
    }

    #[test]
    fn what_is_unexplained_says_why_by_what_became_of_its_operation() {
        let why =
            |resource: &Listed, known: &Known| match judge(resource, Some(known), &[("server", Presence::Gone)], &[]) {
                Judgement::Unexplained { why, .. } => why,
                other => panic!("{other:?}"),
            };
        let (ip, server) = (listed(ResourceKind::Ip, "ip", &[]), listed(ResourceKind::Server, "another", &[]));
        for (resource, state, ended, words) in [
            (&ip, OperationState::Done, false, "the server of operation ci-0nqrsxtrgyns is gone"),
            (&server, OperationState::Done, false, "operation ci-0nqrsxtrgyns made another one in its place"),
            (&ip, OperationState::Done, true, "operation ci-0nqrsxtrgyns made it, and its server was cleaned up"),
            // The operation did not make this server.
            (&server, OperationState::Done, true, "it carries the tag of operation ci-0nqrsxtrgyns"),
            (&ip, OperationState::Kept, false, "operation ci-0nqrsxtrgyns ended and did not keep it"),
            (&ip, OperationState::Undone, false, "operation ci-0nqrsxtrgyns failed and should have removed it"),
        ] {
            assert_eq!(why(resource, &known(state, ended, &[])), words);
        }
    }

    #[test]
    fn what_an_operation_changed_before_the_lists_were_read_is_judged() {
        let mut known = known(OperationState::Undone, false, &[]);
        let ip = listed(ResourceKind::Ip, "ip", &[]);
        known.operation.updated_at = 10;
        assert!(goes(&judge(&ip, Some(&known), &[], &[])));
        known.operation.state = OperationState::Open;
        known.operation.updated_at = 0;
        assert_eq!(judge(&ip, Some(&known), &[], &[]), Judgement::Explained);
    }

    #[test]
    fn what_operations_that_ended_did_not_make_stays() {
        for (state, ended) in [(OperationState::Undone, false), (OperationState::Done, true)] {
            let known = known(state, ended, &[lost("create-server")]);
            assert!(stays(&judge(&listed(ResourceKind::Ip, "another", &[]), Some(&known), &[], &[])));
            assert!(goes(&judge(&listed(ResourceKind::Ip, "ip", &[]), Some(&known), &[], &[])));
        }
    }

    #[test]
    fn what_is_attached_to_the_living_server_of_its_operation_is_explained_by_it() {
        let known = known(OperationState::Done, false, &[]);
        let here = [("server", Presence::Here)];
        let volume = |attached: &[&str]| listed(ResourceKind::BlockVolume, "later", attached);
        assert_eq!(judge(&volume(&["server"]), Some(&known), &here, &[]), Judgement::Explained);
        assert!(stays(&judge(&volume(&[]), Some(&known), &here, &[])));
        assert!(stays(&judge(&volume(&["other"]), Some(&known), &here, &[])));
        assert_eq!(judge(&listed(ResourceKind::Server, "server", &[]), Some(&known), &[], &[]), Judgement::Explained);
    }

    #[test]
    fn what_an_unknown_operation_made_is_left_alone_for_the_time_of_grace() {
        let judged =
            |later: u64, running_too: bool, kind: ResourceKind, tagged: &[(OperationId, String)], going: &[&str]| {
                Case {
                    servers: &Servers::default(),
                    going: &going.iter().map(|&id| id.to_owned()).collect(),
                    tagged,
                    listed_from: 10,
                    now: id().made_at() + later,
                    grace: Duration::from_millis(100),
                    running_too,
                }
                .judge(&listed(kind, "a", &[]), None)
            };
        for later in [0, 99] {
            assert_eq!(judged(later, true, ResourceKind::Server, &[], &[]), Judgement::Young);
        }
        for later in [100, 101] {
            assert!(goes(&judged(later, true, ResourceKind::Server, &[], &[])));
            assert!(stays(&judged(later, false, ResourceKind::Server, &[], &[])));
            assert!(goes(&judged(later, false, ResourceKind::Ip, &[], &[])));
        }
        // A server of the same operation that stays may only be without it for a moment.
        let other = OperationId::parse("ci-0nqrsxtrgynt").unwrap();
        assert!(stays(&judged(100, false, ResourceKind::Ip, &[(id(), "b".to_owned())], &[])));
        assert!(goes(&judged(100, false, ResourceKind::Ip, &[(id(), "b".to_owned())], &["b"])));
        assert!(goes(&judged(100, false, ResourceKind::Ip, &[(other, "b".to_owned())], &[])));
    }
}
