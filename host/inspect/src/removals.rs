//! Why a server is gone or going: who asked for its removal, when, and why.

use serde::Serialize;
use serde_json::Value;
use windlass_lifecycle::{KnownServer, LeftResource, Operation, OperationId, OperationState, Report, RequestedBy};

use crate::Inspector;
use crate::output::fields;
use crate::text::{ago, instant};
use crate::words::cause_words;

/// Document of servers that are gone.
#[derive(Serialize)]
struct Gone<'a> {
    /// The newest first.
    gone: Vec<GoneServer<'a>>,
}

#[derive(Serialize)]
struct GoneServer<'a> {
    id: Option<&'a str>,
    name: Option<&'a str>,
    group: &'a str,
    zone: &'a str,
    created_by: Option<&'a OperationId>,
    removed_by: &'a OperationId,
    /// Milliseconds since 1970.
    removed_at: u64,
    /// What the removal has left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<LeftResource>,
    requested_by: Option<RequestedBy>,
    cause: Option<&'a Value>,
}

impl Inspector<'_> {
    /// Shows servers that are gone or going, with who removes them and why; first those whose removal has not ended.
    /// Those without a removal are left out.
    pub fn gone_servers(&self, servers: &[KnownServer]) {
        let mut sorted: Vec<&KnownServer> = servers.iter().collect();
        sorted.sort_by_key(|server| server.removing.is_none());
        let gone = sorted.iter().filter_map(|server| Some((*server, server.removal()?)));
        let document = Gone { gone: gone.clone().map(|(server, removal)| of_document(server, removal)).collect() };
        self.output.result(&document, || {
            let texts: Vec<String> = gone.map(|(server, removal)| fields(&lines(server, removal))).collect();
            texts.join("\n")
        });
    }
}

fn of_document<'a>(server: &'a KnownServer, removal: &'a Operation) -> GoneServer<'a> {
    let origin = server.created_by.as_ref().unwrap_or(removal);
    GoneServer {
        id: server.id.as_deref(),
        name: server.name(),
        group: &origin.group,
        zone: &origin.zone,
        created_by: server.created_by.as_ref().map(|creation| &creation.id),
        removed_by: &removal.id,
        removed_at: removal.updated_at,
        left: left(removal),
        requested_by: removal.requested_by(),
        cause: removal.cause.as_ref(),
    }
}

fn left(removal: &Operation) -> Vec<LeftResource> {
    let report = Report::of(removal);
    report.map(|report| report.left).unwrap_or_default()
}

fn lines(server: &KnownServer, removal: &Operation) -> Vec<(&'static str, String)> {
    let origin = server.created_by.as_ref().unwrap_or(removal);
    let mut lines = vec![
        ("server", server.id.clone().unwrap_or_else(|| "no id known".to_owned())),
        ("name", server.name().unwrap_or("unknown").to_owned()),
        ("group", origin.group.clone()),
        ("zone", origin.zone.clone()),
        ("state", if server.removed_by.is_some() { "gone" } else { "being removed" }.to_owned()),
    ];
    if let Some(creation) = &server.created_by {
        lines.push(("created", format!("{} by {}", instant(creation.created_at), creation.id)));
    }
    let (at, ago) = (instant(removal.updated_at), ago(removal.updated_at));
    let (label, ended) = match removal.state {
        OperationState::Open => ("removal", ", which has not ended"),
        OperationState::Unverified => ("removal", ", which looks once more later"),
        OperationState::Left => ("removal", ", which has left something"),
        _ => ("removed", ""),
    };
    lines.push((label, format!("{at} ({ago}) by {} {}{ended}", removal.kind, removal.id)));
    for (position, left) in left(removal).into_iter().enumerate() {
        lines.push((if position == 0 { "LEFT" } else { "" }, format!("{}: {}", left.resource, left.why)));
    }
    lines.extend(requested_lines(removal));
    if let Some(cause) = &removal.cause {
        lines.push(("cause", cause_words(cause)));
    }
    lines.push(("more", format!("windlass operation show {}", removal.id)));
    let decisions = removal.requested_by().map(|requested| requested.decisions).unwrap_or_default();
    lines.extend(decisions.iter().map(|id| ("", format!("windlass decision show {id}"))));
    lines
}

/// Who asked for an operation, why, and the decisions that led to it.
pub(crate) fn requested_lines(operation: &Operation) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(requested) = operation.requested_by() {
        lines.push(("requested by", requested.who()));
        if !requested.why.is_empty() {
            lines.push(("why", requested.why));
        }
        lines.extend(requested.decisions.iter().map(|id| ("decision", id.to_string())));
    }
    // A sweep has a reason for each resource.
    let whys = operation.specification.get("why").and_then(Value::as_object);
    let whys = whys.into_iter().flatten().filter_map(|(id, why)| Some(format!("{id}: {}", why.as_str()?)));
    lines.extend(whys.map(|why| ("unexplained", why)));
    lines
}
