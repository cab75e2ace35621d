//! What the runner hears while the journal cannot be written.

use super::*;

/// Makes every write of a journal fail once it holds so many entries, until it is dropped.
pub(in crate::group) struct FullDisk(PathBuf);

impl FullDisk {
    const TRIGGERS: [&str; 2] = ["before insert on entries", "before update on streams"];

    pub(in crate::group) fn after(folder: &Path, entries: usize) -> Self {
        let full = Self(folder.join("journal.sqlite"));
        for (number, event) in Self::TRIGGERS.iter().enumerate() {
            full.execute(&format!(
                "create trigger full_{number} {event} when (select count(*) from entries) >= {entries}
                 begin select raise(abort, 'database or disk is full'); end"
            ));
        }
        full
    }

    fn execute(&self, sql: &str) {
        rusqlite::Connection::open(&self.0).unwrap().execute_batch(sql).unwrap();
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        for number in 0..Self::TRIGGERS.len() {
            self.execute(&format!("drop trigger full_{number}"));
        }
    }
}

/// The states that are reported in so many rounds, one each time that so many seconds have passed.
async fn reported_for(group: &ScalewayGroup, rounds: usize, seconds: u64) -> Vec<Vec<State>> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        all.push(reported(group).await);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_breaks_off_on_a_full_disk_is_told_as_creating_until_it_ends() {
    let (mut finished, mut undone) = (0, 0);
    for entries in 0..24 {
        let case = format!("full after {entries} entries");
        let simulator = Simulator::new(Options::default());
        let folder = tempfile::tempdir().unwrap();
        let group = start(&simulator, folder.path()).await;
        let full = FullDisk::after(&fleet(&group).common().folder(), entries);
        assert_eq!(group.increase(1).await, Ok(1), "{case}");
        let while_full = reported_for(&group, 30, 2).await;
        let broke_off =
            fleet(&group).book.lock().iter().all(|(_, entry)| matches!(entry.phase(), Phase::Creating { .. }));
        assert!(
            !broke_off || while_full.iter().all(|reported| reported == &[State::Creating]),
            "{case}: {while_full:?}"
        );
        drop(full);
        let later = reported_for(&group, 80, 15).await;
        assert!(broke_off || later.concat().iter().all(|reported| *reported == State::Running), "{case}: {later:?}");
        match simulator.resources().servers.len() {
            0 => {
                assert_eq!(later.last().unwrap(), &[], "{case}");
                undone += 1;
            }
            _ => {
                assert_eq!(later.last().unwrap(), &[State::Running], "{case}");
                let is_gone = |reported: &State| matches!(reported, State::Deleting | State::Deleted);
                assert!(!later.concat().iter().any(is_gone), "{case}: {later:?}");
                finished += 1;
            }
        }
        group.stop().await;
    }
    assert!(finished > 1 && undone > 4, "{finished} {undone}");
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_breaks_off_on_a_full_disk_is_told_as_deleting_until_it_ends() {
    for entries in 0..8 {
        let case = format!("full after {entries} entries more");
        let simulator = Simulator::new(Options::default());
        let folder = tempfile::tempdir().unwrap();
        let (group, id) = running_one(&simulator, folder.path()).await;
        let fleet = fleet(&group);
        let operations = fleet.lifecycle.journal().operations(&OperationFilter::default()).unwrap();
        let before: usize =
            operations.iter().map(|one| fleet.lifecycle.journal().entries(&one.id).unwrap().len()).sum();
        let full = FullDisk::after(&fleet.common().folder(), before + entries);
        assert_eq!(group.decrease(vec![id.clone()]).await.unwrap(), [id], "{case}");
        let while_full = reported_for(&group, 30, 2).await;
        assert!(while_full.iter().all(|told| told == &[State::Deleting]), "{case}: {while_full:?}");
        drop(full);
        assert_eq!(reported_for(&group, 80, 15).await.last().unwrap(), &[], "{case}");
        assert_eq!(simulator.resources().servers.len(), 0, "{case}");
        group.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_removes_everything_tries_what_an_earlier_one_left_and_names_the_rest() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let everything = |configuration: &mut Configuration| configuration.common.delete_on_shutdown = true;
    let (group, id) = running_one(&simulator, folder.path()).await;
    group.stop().await;
    drop(group);
    let forbidden = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
    simulator.add_fault(forbidden).unwrap();
    for can_be_removed in [false, false, true] {
        if can_be_removed {
            simulator.clear_faults();
        }
        let group = try_start(policies(), &simulator, folder.path(), everything).await.unwrap();
        reported(&group).await;
        group.shutdown().await.unwrap();
        let remaining = fleet(&group).book.lock().remaining(true);
        assert_eq!(remaining, if can_be_removed { Vec::new() } else { vec![id.clone()] });
        group.stop().await;
    }
    assert_eq!(simulator.resources().servers.len(), 0);
}
