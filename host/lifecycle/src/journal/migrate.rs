//! Carries the entries of older versions over.
//!
//! Until version 2 recovery depended on strings: that a `plan` was noted meant that an undo had begun, a step called
//! `keep-...` that something was kept, and a look counted as proof of whatever volume hung on a server. From version
//! 3 on these are facts of their own. Version 4 has the words of the contract.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Transaction, params};
use serde_json::Value;
use windlass_policy::slots::types::FailureClass;

use super::note::{Cause, KEPT, Note};
use super::record::{ResourceKind, ResourceName};
use crate::failure;

/// From version 3 to version 4. What cannot be read stays as it is, and is refused by whoever reads it.
pub(super) fn to_words_of_the_contract(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    let mut statement =
        transaction.prepare("select id, specification from operations where kind = 'release-machine'")?;
    let releases: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut rewrite = transaction.prepare("update operations set specification = ?2 where id = ?1")?;
    for (id, specification) in releases {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&specification) else { continue };
        for (old, new, old_word, new_word) in
            [("wish", "requested", "pool", "return-to-pool"), ("occasion", "trigger", "let-go", "released")]
        {
            if let Some(word) = fields.remove(old) {
                let word = if word == old_word { Value::from(new_word) } else { word };
                fields.insert(new.to_owned(), word);
            }
        }
        rewrite.execute(params![id, Value::Object(fields).to_string()])?;
    }
    // Within a text of JSON the quotes would be escaped, so this is found only where a failure has no call.
    for (table, column) in [("operations", "cause"), ("entries", "data")] {
        let update = format!(
            r#"update {table}
               set {column} = replace(replace({column}, '"method":""', '"method":null'), '"path":""', '"path":null')
               where {column} like '%"method":""%'"#
        );
        transaction.execute(&update, [])?;
    }
    Ok(())
}

/// From versions 1 and 2 to version 3.
pub(super) fn to_typed_entries(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    keep_what_was_kept(transaction)?;
    begin_what_was_begun(transaction)?;
    trust_looks_no_more(transaction)
}

fn append(
    transaction: &Transaction<'_>,
    operation: &str,
    step: &str,
    data: &Value,
    at: i64,
) -> Result<(), rusqlite::Error> {
    transaction
        .prepare_cached(
            "insert into entries (operation, sequence, step, phase, data, at)
             values (?1, (select coalesce(max(sequence), 0) + 1 from entries where operation = ?1), ?2,
                 'note', ?3, ?4)",
        )?
        .execute(params![operation, step, data.to_string(), at])
        .map(drop)
}

/// The intent to keep something becomes the fact that it was kept.
fn keep_what_was_kept(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    transaction
        .execute(
            "insert into entries
                 (operation, sequence, step, phase, resource_kind, resource_id, resource_zone, resource_server, data,
                     at)
             select operation,
                    (select max(sequence) from entries other where other.operation = entries.operation)
                        + row_number() over (partition by operation order by sequence),
                    ?1, 'note', resource_kind, resource_id, resource_zone, resource_server, '{}', at
             from entries where step like 'keep-%' and phase = 'intent' and resource_id is not null",
            [KEPT],
        )
        .map(drop)
}

/// A create that stands open or left, and that had given a step up or planned its undo, is being undone.
fn begin_what_was_begun(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    let mut statement = transaction.prepare(
        "select id, cause, updated_at,
                exists (select 1 from entries where operation = id and step = 'plan' and phase = 'note')
         from operations where kind = 'create-server' and state in ('open', 'left')",
    )?;
    let open: Vec<(String, Option<String>, i64, bool)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let mut failures = transaction.prepare(
        "select step, data from entries
         where operation = ?1 and phase = 'failure' and step not like 'delete-%' and step not like 'detach-%'
           and step not like 'power-off-%' and step not like 'keep-%'
         order by sequence desc",
    )?;
    for (operation, cause, at, planned) in open {
        let stored: Option<Cause> = cause.and_then(|cause| serde_json::from_str(&cause).ok());
        let given_up = failures
            .query_map([&operation], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .find_map(|(step, data)| {
                let data: Value = serde_json::from_str(&data).ok()?;
                let failure = data.get("failure").filter(|_| data.get("wait").is_some_and(Value::is_null))?;
                Some(Cause { step, failure: serde_json::from_value(failure.clone()).ok()? })
            });
        let unknown = || Cause {
            step: "undo".to_owned(),
            failure: failure::of_class(FailureClass::Interrupted, "an older version began to undo it"),
        };
        let Some(because) = stored.or(given_up).or_else(|| planned.then(unknown)) else { continue };
        let (word, data) = Note::UndoBegun { because }.parts();
        append(transaction, &operation, &word, &data, at)?;
    }
    Ok(())
}

/// A look of an older version took every untagged volume on a server for ours. Only those that an outcome names are;
/// the others must show our tag.
fn trust_looks_no_more(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    let mut made = BTreeSet::new();
    let mut statement = transaction
        .prepare("select resource_id, step, data from entries where phase = 'outcome' and step like 'create-%'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        made.extend(row.get::<_, Option<String>>(0)?);
        let data: Value = serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default();
        made.extend(names(&data, "volumes").into_iter().map(|name| name.id));
    }
    let mut looks: BTreeMap<(String, i64), Value> = BTreeMap::new();
    let mut statement =
        transaction.prepare("select operation, sequence, data from entries where phase = 'note' and step = 'look'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let data = serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default();
        looks.insert((row.get(0)?, row.get(1)?), data);
    }
    let mut rewrite = transaction.prepare("update entries set data = ?3 where operation = ?1 and sequence = ?2")?;
    for ((operation, sequence), data) in looks {
        let is_volume =
            |name: &ResourceName| matches!(name.kind, ResourceKind::BlockVolume | ResourceKind::LocalVolume);
        let (proven, tagged): (Vec<_>, Vec<_>) =
            names(&data, "resources").into_iter().partition(|name| is_volume(name) && made.contains(&name.id));
        let note = Note::Looked { made: proven, tagged, attached: names(&data, "foreign") };
        rewrite.execute(params![operation, sequence, note.parts().1.to_string()])?;
    }
    Ok(())
}

fn names(data: &Value, key: &str) -> Vec<ResourceName> {
    data.get(key).cloned().map(serde_json::from_value).transpose().ok().flatten().unwrap_or_default()
}
