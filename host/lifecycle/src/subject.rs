//! Whose machine a question to a policy is about, and who asks: as the journal and the tags at Scaleway say.

use serde::Deserialize;
use windlass_policy::slots::types::{Label, Object, Requester as Asks, Subject};
use windlass_policy::{Host, PinnedPolicies};

use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::journal::{Operation, OperationKind};
use crate::lifecycle::Lifecycle;
use crate::requested_by::{RequestedBy, Requester};
use crate::run::Run;
use crate::shared::Shared;

/// What is known of a machine, from which a subject is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubjectOf<'a> {
    /// The group of servers that it belongs to. Absent: that of who asks.
    pub group: Option<&'a GroupName>,
    /// The id of its project. Absent: the one whose machines are seen.
    pub project: Option<&'a str>,
    /// Who asks. Absent: nobody is known to.
    pub requested_by: Option<&'a RequestedBy>,
    /// The operation that created it: where it is not a Kubernetes object or a cluster that asks, it was made for the
    /// one that asked then.
    pub creation: Option<&'a Operation>,
    /// Its tags at Scaleway. Absent: not known; those of its creation count.
    pub tags: Option<&'a [String]>,
}

/// What the row of an operation says of its subject; each kind of operation has a part of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    requested_by: RequestedBy,
    project: Option<String>,
    tags: Vec<String>,
    creation: Option<OperationId>,
}

impl Row {
    /// What another version wrote counts as nothing.
    fn of(operation: &Operation) -> Self {
        Self::deserialize(&operation.specification).unwrap_or_default()
    }
}

impl Lifecycle {
    /// Whose machine a question of the caller's own is about.
    #[must_use]
    pub fn subject(&self, of: SubjectOf<'_>) -> Subject {
        self.shared.subject(of)
    }
}

impl Shared {
    /// The policies of this moment that decide for who asks; for a machine that was made for an object, those of its
    /// tenant.
    pub(crate) fn pin(&self, requested_by: &RequestedBy, creation: Option<&Operation>) -> PinnedPolicies {
        let made_for = || creation.map(|creation| Row::of(creation).requested_by);
        let object = requested_by.object().or_else(|| made_for()?.object());
        self.policies.pin_of(object.as_ref().map(|object| object.namespace.as_str()))
    }

    pub(crate) fn subject(&self, of: SubjectOf<'_>) -> Subject {
        let mut subject = subject(&self.policies, &self.owner, of);
        let project = || self.project.as_deref().or_else(|| self.client.settings().project_id());
        subject.project = subject.project.or_else(|| project().map(str::to_owned));
        subject
    }
}

/// The subject of a question about something of this owner's.
pub(crate) fn subject(policies: &Host, owner: &OwnerName, of: SubjectOf<'_>) -> Subject {
    let SubjectOf { group, project, requested_by, creation, tags } = of;
    let creation = creation.filter(|creation| creation.kind == OperationKind::CreateServer).map(Row::of);
    let creation = creation.unwrap_or_default();
    let unknown = RequestedBy::default();
    let requested_by = requested_by.unwrap_or(&unknown);
    let asks_for_itself = matches!(requested_by.requester, Requester::Object { .. } | Requester::Cluster { .. });
    let made_for = if asks_for_itself { requested_by } else { &creation.requested_by };
    // What was taken away since the creation must not come back: its labels count where the object itself does not ask,
    // and its tags where those at Scaleway are not known.
    let of_creation: &[Label] = if asks_for_itself { &[] } else { &creation.requested_by.labels };
    let labels = requested_by.labels.iter().chain(of_creation);
    let labels = labels.map(|label| (label.name.as_str(), label.value.as_str()));
    let tags = tags.unwrap_or(&creation.tags).iter().map(|tag| tag.split_once('=').unwrap_or((tag, "")));
    Subject {
        project: project.map(str::to_owned).or(creation.project),
        group: group.or(requested_by.group.as_ref()).map(ToString::to_string),
        object: made_for.object(),
        cluster: made_for.cluster(),
        requester: requested_by.requester.for_policy(),
        why: Some(requested_by.why.clone()).filter(|why| !why.is_empty()),
        ..policies.subject(owner.as_str(), labels.chain(tags))
    }
}

impl Run {
    /// Whose machine the operation is about, as its row in the journal says, and its tags at Scaleway where they are
    /// known. What cannot be read is absent: a question is put in any case.
    pub(crate) fn subject(&self, tags: Option<&[String]>) -> Subject {
        let group = self.is_of_group().then_some(&self.group);
        let journal = &self.shared.journal;
        let Ok(operation) = journal.operation(&self.id) else {
            return self.shared.subject(SubjectOf { group, tags, ..SubjectOf::default() });
        };
        let row = Row::of(&operation);
        let creation = row.creation.as_ref().and_then(|id| journal.operation(id).ok());
        self.shared.subject(SubjectOf {
            group,
            project: row.project.as_deref(),
            requested_by: Some(&row.requested_by),
            creation: creation.as_ref(),
            tags: tags.or_else(|| Some(row.tags.as_slice()).filter(|tags| !tags.is_empty())),
        })
    }
}

impl RequestedBy {
    /// The Kubernetes object that asks, or whose operation does.
    #[must_use]
    pub fn object(&self) -> Option<Object> {
        match &self.requester {
            Requester::Object { kind, namespace, name, .. } => {
                Some(Object { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() })
            }
            _ => self.object.clone(),
        }
    }

    fn cluster(&self) -> Option<String> {
        match &self.requester {
            Requester::Cluster { cluster, .. } => Some(cluster.clone()),
            _ => None,
        }
    }
}

impl Requester {
    fn for_policy(&self) -> Option<Asks> {
        Some(match self {
            Self::User { .. } => Asks::User,
            Self::Runner => Asks::Runner,
            Self::Plugin => Asks::Plugin,
            Self::Policy => Asks::Policy,
            Self::Shutdown => Asks::Shutdown,
            Self::Sweep => Asks::Sweep,
            Self::Reclaim => Asks::Reclaim,
            Self::Object { .. } => Asks::Object,
            Self::Cluster { .. } => Asks::Cluster,
            Self::Unknown => return None,
        })
    }
}
