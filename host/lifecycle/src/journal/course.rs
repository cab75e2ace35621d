//! How operations went over time, counted instead of listed: a journal of any length tells about its last day at once.

use serde_json::Value;

use super::{Journal, OperationKind, OperationState, operations_where};
use crate::Error;
use crate::log::{Condition, Key, Query, Tally};

/// How operations went since an instant. Times are counted in spans: milliseconds since 1970, divided by the length of
/// a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Those that are open.
    pub open: Vec<OperationCount>,
    /// Those that ended since then.
    pub ended: Vec<OperationCount>,
    /// Those whose machines exist, as far as the journal knows.
    pub standing: Vec<OperationCount>,
    /// Those whose machines another operation removed since then.
    pub removed: Vec<OperationCount>,
}

/// Operations that are alike, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCount {
    pub kind: OperationKind,
    pub state: OperationState,
    pub zone: String,
    /// The server types that were requested.
    pub types: Vec<String>,
    /// The span in which they began.
    pub began: u64,
    /// The span in which they ended; of those in [`Course::removed`], in which their machines were removed.
    pub ended: Option<u64>,
    pub count: u64,
}

impl OperationCount {
    /// Whether they made or claimed a machine. An order that was cancelled too late keeps its Mac.
    #[must_use]
    pub fn made_a_machine(&self) -> bool {
        match self.kind {
            OperationKind::OrderMachine => matches!(self.state, OperationState::Done | OperationState::Kept),
            kind => kind.acquires() && self.state == OperationState::Done,
        }
    }
}

impl Journal {
    /// How operations went since an instant, in spans of so many milliseconds.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn course(&self, since: u64, span: u64) -> Result<Course, Error> {
        let makers: Vec<_> = OperationKind::ALL.iter().filter(|kind| kind.acquires()).collect();
        let makers = || Condition::one_of("kind", &makers);
        let open = vec![Condition::is("state", OperationState::Open.as_str())];
        let made = Condition::one_of("state", &[OperationState::Done, OperationState::Kept]);
        let standing = vec![makers(), made, Condition::Known("ended_by").not()];
        let removed = vec![Condition::From("updated_at", since), Condition::Known("ended_by"), makers()];
        let counted = |all, ended| self.counted(&operations_where(all), span, ended);
        let (mut standing, mut removed) = (counted(standing, None)?, counted(removed, Some("updated_at"))?);
        standing.retain(OperationCount::made_a_machine);
        removed.retain(OperationCount::made_a_machine);
        Ok(Course {
            open: counted(open, None)?,
            ended: counted(vec![Condition::From("ended_at", since)], Some("ended_at"))?,
            standing,
            removed,
        })
    }

    fn counted(&self, query: &Query, span: u64, ended: Option<&'static str>) -> Result<Vec<OperationCount>, Error> {
        // The order of the fields in the indexes `streams_by_end` and `streams_removed`, which need no document then.
        let mut keys = vec![
            Key::Field("kind"),
            Key::Field("state"),
            Key::Field("zone"),
            Key::Field("specification.types"),
            Key::Span("created_at", span),
        ];
        keys.extend(ended.map(|field| Key::Span(field, span)));
        self.log.tally(query, &keys)?.into_iter().map(read).collect()
    }
}

fn read(tally: Tally) -> Result<OperationCount, Error> {
    let Tally { values, count } = tally;
    let fault = |problem: String| Error::journal_row("operations", "a count of operations", "document", problem);
    let [kind, state, zone, types, began, ended @ ..] = values.as_slice() else {
        return Err(fault(format!("{} values", values.len())));
    };
    let types: Option<Vec<String>> = types.as_str().and_then(|types| serde_json::from_str(types).ok());
    Ok(OperationCount {
        kind: serde_json::from_value(kind.clone()).map_err(|error| fault(error.to_string()))?,
        state: serde_json::from_value(state.clone()).map_err(|error| fault(error.to_string()))?,
        zone: zone.as_str().unwrap_or_default().to_owned(),
        types: types.unwrap_or_default(),
        began: began.as_u64().unwrap_or_default(),
        ended: ended.first().and_then(Value::as_u64),
        count,
    })
}
