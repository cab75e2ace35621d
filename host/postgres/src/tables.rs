//! The tables, and how one version becomes the next.

use crate::client::{Client, Failure};

/// The version of the newest tables, and of the words in the documents.
pub(crate) const VERSION: i32 = 1;

/// The statements by which version `n - 1` becomes version `n`, from version 1 on.
const MIGRATIONS: [&str; VERSION as usize] = ["
create table fences (last bigint not null);
insert into fences values (0);
create table streams (
    number   bigint generated always as identity primary key,
    family   text collate \"C\" not null,
    id       text collate \"C\" not null,
    fence    bigint not null,
    document jsonb not null,
    unique (family, id)
);
create index streams_by_state on streams
    (family, nullif(document #> '{state}', 'null'::jsonb), nullif(document #> '{created_at}', 'null'::jsonb));
create index streams_by_age on streams (family, nullif(document #> '{created_at}', 'null'::jsonb));
create index streams_by_group on streams
    (family, nullif(document #> '{group}', 'null'::jsonb), nullif(document #> '{created_at}', 'null'::jsonb));
create table entries (
    number   bigint generated always as identity primary key,
    family   text collate \"C\" not null,
    id       text collate \"C\" not null,
    document jsonb not null
);
create index entries_of_stream on entries (family, id, number);
create index entries_by_resource on entries (nullif(document #> '{resource,id}', 'null'::jsonb))
    where document #> '{resource,id}' is not null;
create table holders (
    id         text collate \"C\" primary key,
    host       text not null,
    process    integer not null,
    expires_at timestamptz not null,
    last_write bigint not null default 0
);
create table leases (
    name   text collate \"C\" primary key,
    holder text collate \"C\" not null references holders on delete cascade
);
create index leases_of_holder on leases (holder);
create function serves_since() returns timestamptz language sql stable as 'select pg_postmaster_start_time()';
"];

/// What there is in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Tables of this version.
    Version(i32),
}

/// The version of the tables.
pub(crate) fn found(client: &mut Client) -> Result<Found, Failure> {
    let is_there: bool = client.query_one("select to_regclass('version') is not null", &[])?.get(0);
    if !is_there {
        return Ok(Found::Nothing);
    }
    Ok(Found::Version(client.query_one("select number from version", &[])?.get(0)))
}

/// Makes what is missing: the schema, the tables, and what is new in this version. Gives the version, which is a newer
/// one where a newer program wrote it: then nothing is changed.
pub(crate) fn prepare(client: &mut Client, schema: &str) -> Result<i32, Failure> {
    if let Found::Version(found @ VERSION..) = found(client)? {
        return Ok(found);
    }
    // Two processes may start together: who comes second finds the tables made. A role that may not create a schema
    // can use one that was made for it.
    let mut transaction = client.transaction()?;
    transaction.execute("select pg_advisory_xact_lock(hashtext('windlass'), hashtext($1))", &[&schema])?;
    let has_schema: bool = transaction.query_one("select to_regnamespace($1) is not null", &[&schema])?.get(0);
    if !has_schema {
        transaction.batch_execute(&format!("create schema {schema}"))?;
    }
    let found = match found(&mut transaction)? {
        Found::Version(found) => found,
        Found::Nothing => {
            transaction
                .batch_execute("create table version (number integer not null); insert into version values (0)")?;
            0
        }
    };
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.batch_execute(migration)?;
    }
    if found < VERSION {
        transaction.execute("update version set number = $1", &[&VERSION])?;
    }
    transaction.commit()?;
    Ok(found.max(VERSION))
}
