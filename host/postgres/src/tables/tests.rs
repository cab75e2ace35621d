use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use windlass_lifecycle::Error;
use windlass_lifecycle::log::{Change, Log as _, Target};
use windlass_test_postgres::Server;

use super::*;
use crate::holder::Holder;
use crate::log::{PostgresLog, Session};
use crate::settings::Settings;

/// The real versions, and two as they may come: one that only reads faster, and one that keeps something else.
fn later() -> Vec<Migration> {
    let index = Migration {
        up: "create index streams_by_kind on streams (family, (document #> '{kind}'))",
        down: "drop index streams_by_kind",
        loses: None,
    };
    let table = Migration {
        up: "create table labels (stream bigint primary key references streams on delete cascade, label text not null);
             alter table holders add column labelled boolean not null default false;",
        down: "alter table holders drop column labelled; drop table labels;",
        loses: Some("labels"),
    };
    [&MIGRATIONS[..], &[index, table]].concat()
}

fn settings(server: &Server, schema: &str) -> Settings {
    Settings::parse(&server.url(schema), &BTreeMap::new(), None).unwrap()
}

/// Takes the tables to an older version of `migrations`.
fn take_to(to: usize, client: &mut Client, schema: &str, migrations: &[Migration]) -> Result<(), String> {
    let found = found(client).unwrap().number();
    let planned = plan(found, u32::try_from(to).unwrap(), migrations).unwrap();
    downgrade(client, schema, &planned, migrations).unwrap()
}

/// Every table, column, index, constraint, sequence, trigger and function of the schema, one a line.
fn catalogue(client: &mut Client) -> Vec<String> {
    let all = "
        with mine as (select oid, relname, relkind from pg_class where relnamespace = current_schema()::regnamespace)
        select replace(line, current_schema() || '.', '') from (
            select format('%s %s', relkind, relname) as line from mine
            union all
            select format('%s.%s %s %s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull,
                attidentity, attcollation::regcollation, pg_get_expr(adbin, adrelid))
            from mine join pg_attribute on attrelid = mine.oid
            left join pg_attrdef on adrelid = attrelid and adnum = attnum
            where attnum > 0 and not attisdropped
            union all
            select pg_get_indexdef(oid) from mine where relkind = 'i'
            union all
            select format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
            from pg_constraint where connamespace = current_schema()::regnamespace
            union all
            select pg_get_triggerdef(oid) from pg_trigger
            where tgrelid in (select oid from mine) and not tgisinternal
            union all
            select pg_get_functiondef(oid) from pg_proc where pronamespace = current_schema()::regnamespace
        ) as lines order by line";
    client.query(all, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// What is in the tables of the first version.
fn rows(client: &mut Client) -> Vec<String> {
    let all = "
        select concat_ws(' ', 'stream', number, family, id, fence, document) from streams
        union all
        select concat_ws(' ', 'entry', number, family, id, document) from entries
        union all
        select concat_ws(' ', 'fence', last) from fences
        order by 1";
    client.query(all, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// Writes as a program does that knows only the real versions.
fn write(settings: &Settings, number: u64) {
    let session = Session::open(settings, "here").unwrap();
    let log = PostgresLog::new(settings.part.clone(), Arc::new(session));
    let entries = vec![json!({"number": number})];
    let change = Change { entries, takes: true, ..Change::of("thing", format!("thing-{number}"), Target::New) };
    let written = log.append_at_once(&[change.set([("number", json!(number))])]).unwrap();
    assert!(written.is_some());
}

#[test]
fn each_version_goes_down_to_what_it_was_made_of_and_up_again() {
    let Some(server) = Server::start() else { return };
    let migrations = later();
    let fresh: Vec<_> = (0..=migrations.len())
        .map(|version| {
            let schema = format!("fresh_{version}");
            server.execute(&format!("create schema {schema}"));
            let mut client = settings(&server, &schema).connect().unwrap();
            if version > 0 {
                upgrade(&mut client, &schema, &migrations[..version]).unwrap();
            }
            catalogue(&mut client)
        })
        .collect();
    assert!(fresh.windows(2).all(|pair| pair[0] != pair[1]), "each version differs from the one before");
    let mut client = settings(&server, "walked").connect().unwrap();
    upgrade(&mut client, "walked", &migrations).unwrap();
    for to in (0..migrations.len()).rev() {
        take_to(to, &mut client, "walked", &migrations).unwrap();
        assert_eq!(catalogue(&mut client), fresh[to], "down to {to}");
        upgrade(&mut client, "walked", &migrations[..=to]).unwrap();
        assert_eq!(catalogue(&mut client), fresh[to + 1], "up to {} again", to + 1);
        take_to(to, &mut client, "walked", &migrations).unwrap();
    }
    upgrade(&mut client, "walked", &migrations).unwrap();
    take_to(0, &mut client, "walked", &migrations).unwrap();
    assert_eq!(catalogue(&mut client), fresh[0], "from the newest at once");
}

#[test]
fn the_older_program_goes_on_with_all_that_was_written() {
    let Some(server) = Server::start() else { return };
    let (settings, migrations) = (settings(&server, "s"), later());
    let mut client = settings.connect().unwrap();
    write(&settings, 0);
    for number in 1..3 {
        let before = rows(&mut client);
        upgrade(&mut client, "s", &migrations).unwrap();
        let refused = Session::open(&settings, "here").unwrap_err();
        let words = refused.to_string();
        assert!(matches!(refused, Error::JournalNewer { .. }), "{words}");
        assert!(words.contains(&format!("`windlass state downgrade --to {VERSION}`")), "{words}");
        // As the newer program does.
        client.execute("insert into labels select number, 'new' from streams", &[]).unwrap();
        let written = "insert into entries (family, id, document) values ('thing', 'thing-0', '{\"by\": \"newer\"}')";
        client.execute(written, &[]).unwrap();
        let after = rows(&mut client);
        assert_eq!(after.len(), before.len() + 1);
        let found = i32::try_from(migrations.len()).unwrap();
        let planned = plan(found, VERSION.cast_unsigned(), &migrations).unwrap();
        assert_eq!(planned.loses, ["labels"]);
        downgrade(&mut client, "s", &planned, &migrations).unwrap().unwrap();
        assert_eq!(rows(&mut client), after);
        write(&settings, number);
        assert_eq!(rows(&mut client).len(), after.len() + 2);
    }
}

#[test]
fn a_downgrade_waits_for_who_lives_and_ends_who_is_expired() {
    let Some(server) = Server::start() else { return };
    let migrations = later();
    let settings = settings(&server, "s");
    let mut client = settings.connect().unwrap();
    upgrade(&mut client, "s", &MIGRATIONS).unwrap();
    // It has no thread that renews its row.
    let holder = Holder::enter(&mut client, "laptop-a").unwrap().unwrap();
    upgrade(&mut client, "s", &migrations).unwrap();
    assert!(Holder::enter(&mut client, "laptop-b").unwrap().is_none(), "these are not its tables");
    let mut refused = |why: &str| {
        let refused = take_to(MIGRATIONS.len(), &mut client, "s", &migrations).unwrap_err();
        assert!(refused.contains("laptop-a (process "), "{why}: {refused}");
        assert_eq!(found(&mut client).unwrap().number() as usize, migrations.len());
    };
    server.execute("update s.holders set expires_at = now() + interval '1 hour'");
    refused("it renewed its row");
    server.execute("update s.holders set expires_at = now() - interval '1 minute'");
    server.execute(
        "create or replace function s.serves_since() returns timestamptz language sql stable as 'select now()'",
    );
    refused("nobody could renew before the server started");
    server.expire("s");
    take_to(MIGRATIONS.len(), &mut client, "s", &migrations).unwrap();
    let mut transaction = client.transaction().unwrap();
    assert_eq!(holder.begin(&mut transaction).unwrap(), None);
}

#[test]
fn a_plan_that_the_tables_do_not_fit_changes_nothing() {
    let Some(server) = Server::start() else { return };
    let migrations = later();
    let mut client = settings(&server, "s").connect().unwrap();
    let newest = i32::try_from(migrations.len()).unwrap();
    upgrade(&mut client, "s", &migrations).unwrap();
    let before = catalogue(&mut client);
    let fits = plan(newest, 1, &migrations).unwrap();
    for planned in [
        plan(newest - 1, 1, &migrations).unwrap(),
        Downgrade { from: fits.from + 1, ..fits.clone() },
        Downgrade { to: fits.from + 1, ..fits.clone() },
        Downgrade { loses: Vec::new(), ..fits.clone() },
    ] {
        let refused = downgrade(&mut client, "s", &planned, &migrations).unwrap().unwrap_err();
        assert!(refused.contains(&format!("version {newest}")), "{planned:?}: {refused}");
    }
    assert_eq!(plan(newest, fits.from + 1, &migrations), None);
    assert_eq!(plan(newest + 1, 1, &migrations), None);
    assert_eq!(catalogue(&mut client), before);
    assert_eq!(plan(newest, fits.from, &migrations).unwrap().loses, [""; 0], "where it is already");
}
