//! Which processes live, as the database says.
//!
//! Each process that writes has a row, which it renews. A process is dead from the moment at which another one finds
//! its row expired and removes it, with everything that it held. Each of its writes needs the row, so a process that
//! was taken for dead writes no more, whatever it still does. A row that expired while the database could not be
//! reached, and that nobody removed, goes on.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use windlass_lifecycle::log::{LEASE, SharingHost};

use crate::client::{Client, Failure, Transaction};
use crate::connection::Connection;
use crate::tables::{self, Found};

/// How often a process renews its row.
pub(crate) const RENEWAL: Duration = Duration::from_secs(5);
/// Counted from the start of the server as well: while it was down, nobody could renew.
const IS_EXPIRED: &str = "expires_at < now() and serves_since() < now() - make_interval(secs => $1)";

/// This process.
pub(crate) struct Holder {
    id: String,
    /// The number of its last write.
    writes: AtomicI64,
    is_lost: AtomicBool,
}

impl Holder {
    /// Enters a process that is under way. `None` where the tables do not have this program's version.
    pub(crate) fn enter(client: &mut Client, host: &str) -> Result<Option<Self>, Failure> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let process = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        // The version is read once no other process can change it: whoever takes the tables back has locked them.
        let entry = "insert into holders (id, host, process, expires_at) \
                     select $1::text, $2::text, $3::integer, now() + make_interval(secs => $4) \
                     where (select number from version) = $5";
        let entered = client.execute(entry, &[&id, &host, &process, &LEASE.as_secs_f64(), &tables::VERSION])?;
        Ok((entered == 1).then(|| Self { id, writes: AtomicI64::new(0), is_lost: AtomicBool::new(false) }))
    }

    /// Says that it lives.
    pub(crate) fn renew(&self, connection: &mut Connection) {
        if self.is_lost() {
            return;
        }
        let renewed = connection.ask(|client| {
            let renewal = "update holders set expires_at = now() + make_interval(secs => $2) where id = $1";
            client.execute(renewal, &[&self.id, &LEASE.as_secs_f64()])
        });
        match renewed {
            Ok(0) => self.lose(),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                %error,
                "the shared state cannot be reached; another host may take over what this process does"
            ),
        }
    }

    /// Whether another process is known to have taken this one for dead.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn lose(&self) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "another host considered this process dead and took over its work, so it cannot write any more: restart it"
            );
        }
    }

    /// Begins a write: waits for those of other processes. Gives its number, and `None` where this process was taken for
    /// dead.
    pub(crate) fn begin(&self, transaction: &mut Transaction<'_>) -> Result<Option<i64>, Failure> {
        // One write at a time: conditions hold until the commit, and entries get their numbers in the order of commits.
        transaction.query("select last from fences for update", &[])?;
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let written = transaction.execute("update holders set last_write = $2 where id = $1", &[&self.id, &write])?;
        if written == 0 {
            self.lose();
        }
        Ok((written == 1).then_some(write))
    }

    /// Whether a write was committed whose commit had no answer.
    pub(crate) fn has_written(&self, write: i64, client: &mut Client) -> Result<bool, Failure> {
        // The server may still be at it: it holds the lock until then.
        let mut transaction = client.transaction()?;
        transaction.query("select last from fences for update", &[])?;
        let found = transaction.query_opt("select last_write from holders where id = $1", &[&self.id])?;
        Ok(found.is_some_and(|row| row.get::<_, i64>(0) == write))
    }

    /// Takes a name that one process at a time holds. False where another one does, which lives.
    pub(crate) fn take(&self, name: &str, client: &mut Client) -> Result<bool, Failure> {
        remove_expired(name, client)?;
        let taken = "insert into leases (name, holder) values ($1, $2) on conflict (name) do nothing";
        Ok(client.execute(taken, &[&name, &self.id])? == 1)
    }

    pub(crate) fn give(&self, name: &str, client: &mut Client) -> Result<(), Failure> {
        client.execute("delete from leases where name = $1 and holder = $2", &[&name, &self.id]).map(drop)
    }

    pub(crate) fn leave(&self, client: &mut Client) -> Result<(), Failure> {
        client.execute("delete from holders where id = $1", &[&self.id]).map(drop)
    }
}

/// Whether a process holds this name. If its row has expired, it is taken for dead.
pub(crate) fn is_held(name: &str, client: &mut Client) -> Result<bool, Failure> {
    remove_expired(name, client)?;
    client.query_one("select exists (select 1 from leases where name = $1)", &[&name]).map(|row| row.get(0))
}

/// The same for who may not write: an expired process is said to be dead, and nothing follows from it.
pub(crate) fn seems_held(name: &str, client: &mut Client) -> Result<bool, Failure> {
    let held = format!(
        "select exists (select 1 from leases join holders on holder = holders.id where name = $2 and not ({IS_EXPIRED}))"
    );
    client.query_one(&held, &[&LEASE.as_secs_f64(), &name]).map(|row| row.get(0))
}

fn remove_expired(name: &str, client: &mut Client) -> Result<(), Failure> {
    let removed =
        format!("delete from holders where id in (select holder from leases where name = $2) and {IS_EXPIRED}");
    client.execute(&removed, &[&LEASE.as_secs_f64(), &name]).map(drop)
}

/// The processes that have the log open for writing: the one that renewed last comes first.
pub(crate) fn hosts(client: &mut Client) -> Result<Vec<SharingHost>, Failure> {
    if tables::found(client)? == Found::Nothing {
        return Ok(Vec::new());
    }
    let all = format!("{HOST} from holders order by expires_at desc, id limit 10000");
    Ok(client.query(&all, &[])?.iter().map(host).collect())
}

/// The processes that must not be taken for dead.
pub(crate) fn living(client: &mut Client) -> Result<Vec<SharingHost>, Failure> {
    let living = format!("{HOST} from holders where not ({IS_EXPIRED}) order by host, process limit 10000");
    Ok(client.query(&living, &[&LEASE.as_secs_f64()])?.iter().map(host).collect())
}

/// The process that holds a name.
pub(crate) fn holder(name: &str, client: &mut Client) -> Result<Option<SharingHost>, Failure> {
    let of_name = format!("{HOST} from leases join holders on holder = holders.id where name = $1");
    Ok(client.query_opt(&of_name, &[&name])?.as_ref().map(host))
}

const HOST: &str = "select host, process, (extract(epoch from expires_at) * 1000)::bigint, expires_at >= now()";

fn host(row: &tokio_postgres::Row) -> SharingHost {
    SharingHost {
        host: row.get(0),
        process: row.get::<_, i32>(1).cast_unsigned(),
        renewed_at: row.get::<_, i64>(2).cast_unsigned().saturating_sub(LEASE.as_millis() as u64),
        lives: row.get(3),
    }
}
