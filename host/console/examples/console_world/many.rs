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
        let ended = "select id, document ->> '$.created_at' from streams
                     where family = 'operation' and document ->> '$.state' <> 'open'";
        let mut found = transaction.prepare(ended).unwrap();
        let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let count = "select count(*) from streams where family = 'operation'";
    let there: i64 = transaction.query_row(count, [], |row| row.get(0)).unwrap();
    let there = usize::try_from(there).unwrap();
    let mut draw = Draw(20_261_125);
    for number in there..operations {
        let (template, made) = &templates[draw.next(templates.len())];
        let id = format!("{}-{number:012}", GROUPS[number % GROUPS.len()]);
        // Before everything that is real, some minutes apart; what they have made is gone.
        // A server is removed up to some hours after it was made.
        let lived = draw.next((4 * 3_600_000).min((operations - number) * 300_000));
        let lived = i64::try_from(lived).unwrap();
        let earlier = made - i64::try_from((operations - number) * 300_000 + draw.next(300_000)).unwrap();
        transaction
            .execute(
                "insert into streams (family, id, fence, document)
                 select family, ?1, fence, json_set(document, '$.group', ?2, '$.zone', ?3,
                     '$.state', case when document ->> '$.state' in ('left', 'unverified') then 'undone'
                                     else document ->> '$.state' end,
                     '$.ended_by', coalesce(document ->> '$.ended_by', id), '$.look_at', null,
                     '$.created_at', ?4,
                     '$.updated_at', ?4 + (document ->> '$.updated_at') - ?6 + case document ->> '$.state'
                                     when 'done' then ?7 else 0 end,
                     '$.ended_at', ?4 + (document ->> '$.ended_at') - ?6)
                 from streams where family = 'operation' and id = ?5",
                params![
                    id,
                    GROUPS[draw.next(GROUPS.len())],
                    ZONES[draw.next(ZONES.len())],
                    earlier,
                    template,
                    made,
                    lived
                ],
            )
            .unwrap();
        transaction
            .execute(
                "insert into entries (family, id, document)
                 select family, ?1, json_set(document, '$.at', (document ->> '$.at') - ?3)
                 from entries where family = 'operation' and id = ?2",
                params![id, template, made - earlier],
            )
            .unwrap();
    }
    // What is under way stays so, whatever its process does: a creation, and the removal of a server.
    let copied = transaction
        .execute(
            "insert into streams (family, id, fence, document)
             select family, 'ci-0nderway0001', fence, document
             from streams where family = 'operation' and document ->> '$.state' = 'open' limit 1",
            [],
        )
        .unwrap();
    assert_eq!(copied, 1);
    transaction
        .execute(
            "insert into streams (family, id, fence, document)
             select family, 'web-0nderway0002', fence, json_set(document, '$.kind', 'cleanup-server',
                 '$.specification', json_object('creation', id, 'server', null), '$.state', 'open', '$.ended_at', null,
                 '$.report', null, '$.reasons', json_array('the runner no longer wants it'))
             from streams where family = 'operation' and document ->> '$.group' = 'web'
                 and document ->> '$.ended_by' is null and document ->> '$.state' = 'done' limit 1",
            [],
        )
        .unwrap();
    transaction.commit().unwrap();
}
