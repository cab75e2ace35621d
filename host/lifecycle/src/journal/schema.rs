//! The journal's tables and their version.

use crate::database::Schema;
use crate::state_directory::JOURNAL_FILE;

pub(super) const SCHEMA: Schema = Schema { file: JOURNAL_FILE, version: 1, tables: TABLES };

const TABLES: &str = "
create table operations (
    id            text primary key not null,
    kind          text not null,
    grouping      text not null,
    zone          text not null,
    owner         text not null,
    specification text not null,
    policies      text not null,
    runner        text not null,
    state         text not null,
    cause         text,
    reasons       text not null default '[]',
    report        text,
    ended_by      text,
    created_at    integer not null,
    updated_at    integer not null,
    look_at       integer
) strict;
create index operations_by_state on operations (state, created_at);
create index operations_by_age on operations (created_at);
create table entries (
    operation     text not null references operations (id),
    sequence      integer not null,
    step          text not null,
    phase         text not null,
    resource_kind text,
    resource_id   text,
    resource_zone text,
    resource_server text,
    data          text not null,
    at            integer not null,
    primary key (operation, sequence)
) strict, without rowid;
create index entries_by_resource on entries (resource_id) where resource_id is not null;
create table history (
    id              text not null,
    set_back        text,
    forgotten_until integer not null default 0
) strict;
";
