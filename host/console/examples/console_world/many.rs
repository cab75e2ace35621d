//! Many operations: those of the world again and again, each with an id, a time, a group and a zone of its own, drawn
//! from one seed. One after the other on the simulator they would take minutes.

use std::path::Path;

use rusqlite::{Connection, params};

const GROUPS: [&str; 6] = ["ci", "web", "gpu", "night-builds", "release", "sandbox"];
const ZONES: [&str; 4] = ["fr-par-1", "fr-par-2", "nl-ams-1", "pl-waw-3"];

/// Draws without a crate for it: xorshift.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }
}

/// Until there are so many operations.
pub(crate) fn multiply(state: &Path, operations: usize) {
    let mut connection = Connection::open(state.join("journal.sqlite")).unwrap();
    let transaction = connection.transaction().unwrap();
    let templates: Vec<(String, i64)> = {
        let mut found = transaction.prepare("select id, created_at from operations where state <> 'open'").unwrap();
        let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let there: i64 = transaction.query_row("select count(*) from operations", [], |row| row.get(0)).unwrap();
    let there = usize::try_from(there).unwrap();
    let mut draw = Draw(20_261_125);
    for number in there..operations {
        let (template, made) = &templates[draw.next(templates.len())];
        let id = format!("{}-{number:012}", GROUPS[number % GROUPS.len()]);
        // Before everything that is real, some minutes apart; what they have made is gone.
        let earlier = made - i64::try_from((operations - number) * 300_000 + draw.next(300_000)).unwrap();
        transaction
            .execute(
                "insert into operations (id, kind, grouping, zone, owner, specification, policies, runner, state, cause,
                     reasons, report, ended_by, created_at, updated_at, look_at)
                 select ?1, kind, ?2, ?3, owner, specification, policies, runner,
                     case state when 'left' then 'undone' when 'unverified' then 'undone' else state end, cause,
                     reasons, report, coalesce(ended_by, id), ?4, ?4 + updated_at - created_at, null
                 from operations where id = ?5",
                params![
                    id,
                    GROUPS[draw.next(GROUPS.len())],
                    ZONES[draw.next(ZONES.len())],
                    earlier,
                    template
                ],
            )
            .unwrap();
        transaction
            .execute(
                "insert into entries (operation, sequence, step, phase, resource_kind, resource_id, resource_zone,
                     resource_server, data, at)
                 select ?1, sequence, step, phase, resource_kind, resource_id, resource_zone, resource_server, data,
                     at - ?3 from entries where operation = ?2",
                params![id, template, made - earlier],
            )
            .unwrap();
    }
    // What is under way stays so, whatever its process does: a creation, and the removal of a server.
    let copied = transaction
        .execute(
            "insert into operations (id, kind, grouping, zone, owner, specification, policies, runner, state, created_at,
                 updated_at)
             select 'ci-0nderway0001', kind, grouping, zone, owner, specification, policies, runner, 'open', created_at,
                 updated_at from operations where state = 'open' limit 1",
            [],
        )
        .unwrap();
    assert_eq!(copied, 1);
    transaction
        .execute(
            "insert into operations (id, kind, grouping, zone, owner, specification, policies, runner, state, reasons,
                 created_at, updated_at)
             select 'web-0nderway0002', 'cleanup-server', grouping, zone, owner,
                 json_object('creation', id, 'server', null), policies, runner, 'open', '[\"the runner no longer wants it\"]',
                 created_at, updated_at
             from operations where grouping = 'web' and ended_by is null and state = 'done' limit 1",
            [],
        )
        .unwrap();
    transaction.commit().unwrap();
}
