//! A file system that forgets what was not synced: a SQLite VFS over the operating system's own.
//!
//! Files in a folder that a [`Disk`] stands for are written through, and what each held at its last sync is remembered
//! beside. When the power is lost, every later write fails; [`Disk::restart`] gives each file what was synced, and of
//! what was written since a part that the seed chooses, sector by sector: a disk may have written any of it, in any
//! order. All other files are not touched.
//!
//! What is simplified: that a file exists, or was deleted, is durable at once.

#![expect(unsafe_code, reason = "a SQLite VFS is a table of C functions")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rusqlite::ffi;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// A change of a file since its last sync.
#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Debug, Default)]
struct Content {
    synced: Vec<u8>,
    since: Vec<Change>,
}

impl Content {
    fn sync(&mut self) {
        for change in self.since.drain(..) {
            apply(&mut self.synced, &change);
        }
    }

    /// What a disk may hold after a loss of power.
    fn survivor(mut self, random: &mut ChaCha8Rng) -> Vec<u8> {
        for change in std::mem::take(&mut self.since) {
            match change {
                Change::Truncate { .. } => {
                    if random.random_bool(0.5) {
                        apply(&mut self.synced, &change);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                        if random.random_bool(0.5) {
                            let piece = Change::Write { offset: offset + index * SECTOR, bytes: sector.to_vec() };
                            apply(&mut self.synced, &piece);
                        }
                    }
                }
            }
        }
        self.synced
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate { length } => content.resize(*length, 0),
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Content>,
    syncs: u64,
    /// The power is lost at this sync, before or after it took effect.
    lost_at: Option<(u64, bool)>,
    lost: bool,
}

impl State {
    fn change(&mut self, file: &Path, change: Change) -> Result<(), Lost> {
        if self.lost {
            return Err(Lost);
        }
        self.files.entry(file.to_owned()).or_default().since.push(change);
        Ok(())
    }

    fn sync(&mut self, file: &Path) -> Result<(), Lost> {
        if self.lost {
            return Err(Lost);
        }
        self.syncs += 1;
        let lost_now = self.lost_at.filter(|(at, _)| self.syncs >= *at);
        self.lost = lost_now.is_some();
        if lost_now.is_none_or(|(_, took_effect)| took_effect)
            && let Some(content) = self.files.get_mut(file)
        {
            content.sync();
        }
        if self.lost { Err(Lost) } else { Ok(()) }
    }
}

/// The power is lost.
#[derive(Clone, Copy, Debug)]
struct Lost;

fn disks() -> &'static Mutex<BTreeMap<PathBuf, Arc<Mutex<State>>>> {
    static DISKS: OnceLock<Mutex<BTreeMap<PathBuf, Arc<Mutex<State>>>>> = OnceLock::new();
    DISKS.get_or_init(Mutex::default)
}

/// The disk under one folder. The files in it are tracked as long as this value lives.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Disk {
    /// Puts a disk under a folder that exists.
    ///
    /// # Errors
    /// When the folder cannot be resolved, or SQLite does not take the VFS.
    pub fn under(folder: &Path) -> io::Result<Self> {
        install()?;
        let folder = std::fs::canonicalize(folder)?;
        let state = Arc::new(Mutex::new(State::default()));
        disks().lock().insert(folder.clone(), Arc::clone(&state));
        Ok(Self { folder, state })
    }

    /// How often a file was synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// The power is lost at the `nth` sync from now, counted from 1: before it takes effect, or just after.
    pub fn lose_power_at(&self, nth: u64, took_effect: bool) {
        let mut state = self.state.lock();
        state.lost_at = Some((state.syncs + nth, took_effect));
    }

    /// The power is not lost after all, unless it is already.
    pub fn keep_power(&self) {
        self.state.lock().lost_at = None;
    }

    /// Whether its power is lost, or is to be lost at one of the next syncs.
    #[must_use]
    pub fn may_lose_power(&self) -> bool {
        let state = self.state.lock();
        state.lost || state.lost_at.is_some()
    }

    /// The power is lost now.
    pub fn lose_power(&self) {
        self.state.lock().lost = true;
    }

    /// Somebody has put other files in the place of those that there were, and the power is there. Nobody may have one
    /// of them open.
    pub fn replaced(&self) {
        *self.state.lock() = State::default();
    }

    /// Whether the power is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.lock().lost
    }

    /// Power again: the files hold what survived. Nobody may have one of them open.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn restart(&self, seed: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for (path, content) in std::mem::take(&mut state.files) {
            let survivor = content.survivor(&mut random);
            if path.exists() || !survivor.is_empty() {
                std::fs::write(&path, survivor)?;
            }
            // The index of the write-ahead log lives in memory; it does not survive.
            let mut index = path.into_os_string();
            index.push("-shm");
            match std::fs::remove_file(&index) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        *state = State::default();
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        disks().lock().remove(&self.folder);
    }
}

/// An open file that is tracked.
#[derive(Clone)]
struct Open {
    disk: Arc<Mutex<State>>,
    path: PathBuf,
    /// The operating system's functions for it.
    base: &'static ffi::sqlite3_io_methods,
}

/// By the address of SQLite's own structure, which does not move while the file is open.
fn open_files() -> &'static Mutex<BTreeMap<usize, Open>> {
    static OPEN: OnceLock<Mutex<BTreeMap<usize, Open>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default)
}

fn open_file(file: *mut ffi::sqlite3_file) -> Option<Open> {
    open_files().lock().get(&(file as usize)).cloned()
}

/// The operating system's VFS, which does the work.
struct Base(*mut ffi::sqlite3_vfs);
// SAFETY: SQLite's VFS structures are constant once registered, and their functions may be called from any thread.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

static BASE: OnceLock<Base> = OnceLock::new();

/// Makes ours the default VFS of this process, once.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), c_int>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: SQLite initialises itself in this call; the default VFS is never null in a build for Unix, and is
        // checked.
        let base = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        if base.is_null() {
            return Err(ffi::SQLITE_ERROR);
        }
        BASE.get_or_init(|| Base(base));
        // SAFETY: `base` is a valid structure. The copy keeps all of its functions, which read nothing but `szOsFile`,
        // `mxPathname` and `pAppData` of the structure that they are given: these are the same.
        let mut ours = unsafe { *base };
        ours.zName = c"forgetful".as_ptr();
        ours.pNext = std::ptr::null_mut();
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        // SAFETY: the structure lives as long as the process, as SQLite demands.
        match unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 1) } {
            ffi::SQLITE_OK => Ok(()),
            code => Err(code),
        }
    });
    installed.map_err(|code| io::Error::other(format!("SQLite refused the VFS: {code}")))
}

fn base() -> *mut ffi::sqlite3_vfs {
    BASE.get().expect("the functions below are reached through the VFS that `install` registered after it set this").0
}

/// The disk that a path is on. SQLite gives full paths; null is a temporary file.
fn disk_of(name: *const c_char) -> Option<(Arc<Mutex<State>>, PathBuf)> {
    use std::os::unix::ffi::OsStrExt;
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite passes a string that ends with 0.
    let name = unsafe { CStr::from_ptr(name) };
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_owned();
    let disk = disks().lock().get(path.parent()?).cloned()?;
    Some((disk, path))
}

/// The table of a file's functions with ours in it, made once for each table of the operating system's.
fn wrapped(base: &'static ffi::sqlite3_io_methods) -> &'static ffi::sqlite3_io_methods {
    static TABLES: OnceLock<Mutex<BTreeMap<usize, &'static ffi::sqlite3_io_methods>>> = OnceLock::new();
    let mut tables = TABLES.get_or_init(Mutex::default).lock();
    tables.entry(std::ptr::from_ref(base) as usize).or_insert_with(|| {
        let mut table = *base;
        table.xClose = Some(close);
        table.xWrite = Some(write);
        table.xTruncate = Some(truncate);
        table.xSync = Some(sync);
        Box::leak(Box::new(table))
    })
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let tracked = disk_of(name);
    if tracked.as_ref().is_some_and(|(disk, _)| disk.lock().lost) {
        // SAFETY: SQLite gives a structure to fill; without functions it is not closed.
        unsafe { (*file).pMethods = std::ptr::null() };
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the arguments are passed on as they came, with the structure that the function belongs to.
    let code = unsafe {
        let Some(open) = (*base()).xOpen else { return ffi::SQLITE_CANTOPEN };
        open(base(), name, file, flags, out)
    };
    let Some((disk, path)) = tracked else { return code };
    if code != ffi::SQLITE_OK {
        return code;
    }
    // SAFETY: after a successful open the functions are set, and those of the operating system's VFS are constants.
    let methods: &'static ffi::sqlite3_io_methods = unsafe { &*(*file).pMethods };
    let found = std::fs::read(&path).unwrap_or_default();
    disk.lock().files.entry(path.clone()).or_insert_with(|| Content { synced: found, since: Vec::new() });
    open_files().lock().insert(file as usize, Open { disk, path, base: methods });
    // SAFETY: as above; only the table changes, the structure behind stays the operating system's.
    unsafe { (*file).pMethods = wrapped(methods) };
    code
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, directory: c_int) -> c_int {
    if let Some((disk, path)) = disk_of(name) {
        let mut disk = disk.lock();
        if disk.lost {
            return ffi::SQLITE_IOERR_DELETE;
        }
        disk.files.remove(&path);
    }
    // SAFETY: passed on as it came.
    unsafe { (*base()).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |delete| delete(base(), name, directory)) }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Some(open) = open_files().lock().remove(&(file as usize)) else { return ffi::SQLITE_IOERR_CLOSE };
    // SAFETY: the operating system's own function for this file.
    unsafe { open.base.xClose.map_or(ffi::SQLITE_IOERR_CLOSE, |close| close(file)) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (Some(open), Ok(length), Ok(at)) = (open_file(file), usize::try_from(amount), usize::try_from(offset)) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    // SAFETY: SQLite gives `amount` bytes at `data`.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }.to_vec();
    if open.disk.lock().change(&open.path, Change::Write { offset: at, bytes }).is_err() {
        return ffi::SQLITE_IOERR_WRITE;
    }
    // SAFETY: the operating system's own function for this file, with the arguments as they came.
    unsafe { open.base.xWrite.map_or(ffi::SQLITE_IOERR_WRITE, |write| write(file, data, amount, offset)) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    let (Some(open), Ok(length)) = (open_file(file), usize::try_from(size)) else {
        return ffi::SQLITE_IOERR_TRUNCATE;
    };
    if open.disk.lock().change(&open.path, Change::Truncate { length }).is_err() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    // SAFETY: the operating system's own function for this file.
    unsafe { open.base.xTruncate.map_or(ffi::SQLITE_IOERR_TRUNCATE, |truncate| truncate(file, size)) }
}

/// The operating system is not asked: its disk outlives the test, and a sync takes long.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    let Some(open) = open_file(file) else { return ffi::SQLITE_IOERR_FSYNC };
    match open.disk.lock().sync(&open.path) {
        Ok(()) => ffi::SQLITE_OK,
        Err(Lost) => ffi::SQLITE_IOERR_FSYNC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(folder: &Path, synchronous: &str) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(folder.join("test.sqlite")).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", synchronous).unwrap();
        connection.execute_batch("create table if not exists rows (number integer) strict").unwrap();
        connection
    }

    fn rows(connection: &rusqlite::Connection) -> i64 {
        connection.query_row("select count(*) from rows", [], |row| row.get(0)).unwrap()
    }

    /// Inserts until the power is lost. Returns how many commits were answered.
    fn insert(connection: &rusqlite::Connection, most: i64) -> i64 {
        (0..most).take_while(|number| connection.execute("insert into rows values (?1)", [number]).is_ok()).count()
            as i64
    }

    #[test]
    fn what_was_committed_in_full_survives_a_loss_of_power_at_any_sync() {
        for nth in 1..20 {
            for took_effect in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let disk = Disk::under(folder.path()).unwrap();
                let connection = connect(folder.path(), "full");
                disk.lose_power_at(nth, took_effect);
                let committed = insert(&connection, 100);
                assert!(disk.is_lost());
                drop(connection);
                disk.restart(nth).unwrap();
                let found = rows(&connect(folder.path(), "full"));
                // The one that was under way may have arrived.
                assert!(found == committed || found == committed + 1, "{nth} {took_effect}: {found} of {committed}");
                assert!(!took_effect || found == committed + 1, "{nth}: a commit whose sync took effect is lost");
            }
        }
    }

    #[test]
    fn what_was_never_synced_is_lost() {
        let mut lost = 0;
        for seed in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let disk = Disk::under(folder.path()).unwrap();
            let connection = connect(folder.path(), "full");
            connection.pragma_update(None, "synchronous", "off").unwrap();
            let committed = insert(&connection, 10);
            assert_eq!(committed, 10);
            disk.lose_power();
            drop(connection);
            disk.restart(seed).unwrap();
            lost += committed - rows(&connect(folder.path(), "full"));
        }
        assert!(lost > 100, "{lost}");
    }

    #[test]
    fn files_of_other_folders_are_left_alone() {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = Disk::under(ours.path()).unwrap();
        disk.lose_power();
        assert_eq!(insert(&connect(other.path(), "full"), 3), 3);
    }
}
