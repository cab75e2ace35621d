//! The tables, how one version becomes the next, and how it goes back.

use windlass_lifecycle::log::{Downgrade, SharingHost};

use crate::client::{Client, Failure};
use crate::holder;

/// The version of the newest tables, and of the words in the documents.
pub(crate) const VERSION: i32 = 1;

/// A step from one version to the next.
#[derive(Clone, Copy, Debug)]
struct Migration {
    /// The statements by which version `n - 1` becomes version `n`.
    up: &'static str,
    /// The statements by which version `n` becomes version `n - 1`.
    down: &'static str,
    /// What they remove that version `n - 1` has no place for, for people. `None`: nothing.
    loses: Option<&'static str>,
}

/// From version 1 on.
const MIGRATIONS: [Migration; VERSION as usize] = [Migration {
    up: "
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
",
    down: "
drop function serves_since();
drop table leases, holders, entries, streams, fences;
",
    loses: Some("the journal with all operations and clusters, the name of their owner, and locked tags of policies"),
}];

/// What there is in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Tables of this version.
    Version(i32),
}

impl Found {
    /// The version; 0 where there is none.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Nothing => 0,
            Self::Version(number) => number,
        }
    }
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
    upgrade(client, schema, &MIGRATIONS)
}

fn upgrade(client: &mut Client, schema: &str, migrations: &[Migration]) -> Result<i32, Failure> {
    let newest = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    if let Found::Version(found) = found(client)?
        && found >= newest
    {
        return Ok(found);
    }
    // Two processes may start together: who comes second finds the tables made. A role that may not create a schema
    // can use one that was made for it.
    let mut transaction = client.transaction()?;
    keep_others_away(&mut transaction, schema)?;
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
    for migration in migrations.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.batch_execute(migration.up)?;
    }
    if found < newest {
        transaction.execute("update version set number = $1", &[&newest])?;
    }
    transaction.commit()?;
    Ok(found.max(newest))
}

/// Nobody else changes the tables of this schema until the transaction ends.
fn keep_others_away(transaction: &mut Client, schema: &str) -> Result<(), Failure> {
    let lock = "select pg_advisory_xact_lock(hashtext('windlass'), hashtext($1))";
    transaction.execute(lock, &[&schema]).map(drop)
}

/// How the tables go from the version `found` back to an older one. `None`: they are older, or newer than is known.
pub(crate) fn way_back(found: i32, to: u32) -> Option<Downgrade> {
    plan(found, to, &MIGRATIONS)
}

fn plan(found: i32, to: u32, migrations: &[Migration]) -> Option<Downgrade> {
    let from = u32::try_from(found).ok().filter(|from| to <= *from && *from as usize <= migrations.len())?;
    let loses = steps(from, to, migrations).filter_map(|step| step.loses.map(str::to_owned)).collect();
    Some(Downgrade { from, to, loses })
}

/// Those that are taken back between these versions, in this order.
fn steps(from: u32, to: u32, migrations: &[Migration]) -> impl Iterator<Item = &Migration> {
    migrations.iter().take(from as usize).skip(to as usize).rev()
}

/// Takes the tables back, whole or not at all; does nothing where they are there already. Gives the reason in words
/// where they have another version than was planned, and where a process lives that writes.
pub(crate) fn take_back(client: &mut Client, schema: &str, planned: &Downgrade) -> Result<Result<(), String>, Failure> {
    downgrade(client, schema, planned, &MIGRATIONS)
}

fn downgrade(
    client: &mut Client,
    schema: &str,
    planned: &Downgrade,
    migrations: &[Migration],
) -> Result<Result<(), String>, Failure> {
    let mut transaction = client.transaction()?;
    keep_others_away(&mut transaction, schema)?;
    let found = found(&mut transaction)?.number();
    if u32::try_from(found) == Ok(planned.to) {
        return Ok(Ok(()));
    }
    if plan(found, planned.to, migrations).as_ref() != Some(planned) {
        return Ok(Err(format!("its tables have version {found} by now")));
    }
    // From here on no process can enter, and none can write. A write takes the two in this order.
    transaction.batch_execute("lock table fences, holders in access exclusive mode")?;
    let living = holder::living(&mut transaction)?;
    if !living.is_empty() {
        return Ok(Err(in_use(&living)));
    }
    // A process whose row has expired may go on, unless it finds that it was taken for dead.
    transaction.execute("delete from holders", &[])?;
    for step in steps(planned.from, planned.to, migrations) {
        transaction.batch_execute(step.down)?;
    }
    match i32::try_from(planned.to).unwrap_or_default() {
        0 => transaction.batch_execute("drop table version")?,
        to => transaction.execute("update version set number = $1", &[&to]).map(drop)?,
    }
    transaction.commit()?;
    Ok(Ok(()))
}

fn in_use(living: &[SharingHost]) -> String {
    /// More are counted.
    const NAMED: usize = 8;
    let named = living.iter().take(NAMED).map(|host| format!("{} (process {})", host.host, host.process));
    let more = living.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    let hosts: Vec<String> = named.chain(more).collect();
    format!(
        "it is in use by {}; stop them first (a process that was killed counts for {} s)",
        hosts.join(", "),
        windlass_lifecycle::log::LEASE.as_secs()
    )
}

#[cfg(test)]
mod tests;
