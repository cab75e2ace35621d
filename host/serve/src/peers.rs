//! What the peers share: connections and memory. Each user has a share of both that no other can take. Within a full
//! share of connections, the process with the most makes room, and of its connections the one that keeps the server
//! waiting longest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// How long a connection that has asked nothing yet may take for it, before it counts as one that keeps the server
/// waiting: on a busy machine a client that has just connected may not run for so long. It counts at once where half of
/// the connections have asked nothing: silent ones do not displace those that ask.
const MOMENT: Duration = Duration::from_secs(1);
/// What a message may have without counting: each connection may hold so much.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has asked nothing yet.
    Fresh,
    /// It has asked before, and asks nothing.
    Idle,
    /// Its request has begun to come.
    Receiving,
    /// It is to take its response.
    Sending,
    /// Its question waits for its turn.
    Queued,
    /// Its request is answered.
    Answering,
}

impl Phase {
    /// Whether the server waits for the peer.
    fn is_peers_turn(self) -> bool {
        self <= Phase::Sending
    }
}

/// The share of each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Connections.
    pub(crate) connections: usize,
    /// What the connections hold together, in bytes, of those that hold more than [`SMALL_BYTES`].
    pub(crate) bytes: usize,
}

/// The open connections.
pub(crate) struct Peers {
    share: Share,
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Entry>>,
}

struct Entry {
    user: u32,
    process: Option<i32>,
    phase: Phase,
    /// Since when it is idle, or is served with the request that it has.
    since: Instant,
    /// None where it holds little.
    bytes: usize,
    displaced: CancellationToken,
    /// Whether something has come from it that nobody has read yet.
    is_unread: Box<dyn Fn() -> bool + Send>,
}

impl Entry {
    /// The order in which connections make room. Those that are busy are alike; one that came less than a `moment` ago
    /// counts as idle since then.
    fn phase(&self, now: Instant, moment: Duration) -> Phase {
        match self.phase {
            Phase::Fresh if now.duration_since(self.since) < moment => Phase::Idle,
            phase => phase.min(Phase::Queued),
        }
    }
}

impl Peers {
    pub(crate) fn new(share: Share) -> Arc<Peers> {
        Arc::new(Peers { share, next: AtomicU64::new(0), open: Mutex::default() })
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// Admits a connection of this user and process; also returns whether another one made room for it. All processes
    /// whose id the kernel does not tell count as one. `is_unread` tells whether something has come from it that nobody
    /// has read yet: then it isn't idle, however long ago it was heard.
    pub(crate) fn admit(
        self: &Arc<Peers>,
        user: u32,
        process: Option<i32>,
        is_unread: impl Fn() -> bool + Send + 'static,
    ) -> (Peer, bool) {
        let mut open = self.open.lock();
        let mine: Vec<(u64, &Entry)> =
            open.iter().filter(|(_, entry)| entry.user == user).map(|(id, entry)| (*id, entry)).collect();
        let is_full = mine.len() >= self.share.connections;
        if is_full {
            let first = first_to_close(&mut of_the_largest_process(mine, process));
            first.into_iter().for_each(|id| displace(&mut open, id));
        }
        let (id, displaced) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        let entry = Entry {
            user,
            process,
            phase: Phase::Fresh,
            since: Instant::now(),
            bytes: 0,
            displaced: displaced.clone(),
            is_unread: Box::new(is_unread),
        };
        open.insert(id, entry);
        (Peer { peers: Arc::clone(self), id, user, displaced }, is_full)
    }
}

/// The connections of the process with the most, counting the one that `newcomer` has just made. If several processes
/// have as many, those of all of them. So a process that opens hundreds closes none of another's.
fn of_the_largest_process(mut connections: Vec<(u64, &Entry)>, newcomer: Option<i32>) -> Vec<(u64, &Entry)> {
    let mut counts = BTreeMap::from([(newcomer, 1_usize)]);
    connections.iter().for_each(|(_, entry)| *counts.entry(entry.process).or_default() += 1);
    let most = counts.values().copied().max();
    connections.retain(|(_, entry)| counts.get(&entry.process).copied() == most);
    connections
}

/// The connection that is closed before the others: one that keeps the server waiting, else the one that has been busy
/// longest, else the oldest that has sent something that nobody has read yet. Whether it has is a system call, made for
/// as few as possible.
fn first_to_close(connections: &mut [(u64, &Entry)]) -> Option<u64> {
    let now = Instant::now();
    let fresh = connections.iter().filter(|(_, entry)| entry.phase == Phase::Fresh).count();
    let moment = if fresh * 2 < connections.len() { MOMENT } else { Duration::ZERO };
    connections.sort_unstable_by_key(|(_, entry)| (entry.phase(now, moment), entry.since));
    let is_unread = |entry: &Entry| matches!(entry.phase, Phase::Fresh | Phase::Idle) && (entry.is_unread)();
    let first = connections.iter().find(|(_, entry)| !is_unread(entry));
    first.or_else(|| connections.iter().min_by_key(|(_, entry)| entry.since)).map(|(id, _)| *id)
}

fn displace(open: &mut BTreeMap<u64, Entry>, id: u64) {
    if let Some(entry) = open.remove(&id) {
        entry.displaced.cancel();
    }
}

/// There is no room for what a connection would hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// An open connection.
pub(crate) struct Peer {
    peers: Arc<Peers>,
    id: u64,
    user: u32,
    displaced: CancellationToken,
}

impl Peer {
    /// As whom it runs.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// It is in this phase from now on.
    pub(crate) fn enters(&self, phase: Phase) {
        if let Some(entry) = self.peers.open.lock().get_mut(&self.id) {
            (entry.phase, entry.since) = (phase, Instant::now());
        }
    }

    /// Its question waits for its turn, where fewer than half of its user's share of connections do.
    pub(crate) fn queues(&self) -> Result<(), NoRoom> {
        let mut open = self.peers.open.lock();
        let queued = open.values().filter(|entry| entry.user == self.user && entry.phase == Phase::Queued).count();
        if queued >= self.peers.share.connections.div_ceil(2) {
            return Err(NoRoom);
        }
        if let Some(entry) = open.get_mut(&self.id) {
            entry.phase = Phase::Queued;
        }
        Ok(())
    }

    /// Its question's turn has come.
    pub(crate) fn is_next(&self) {
        if let Some(entry) = self.peers.open.lock().get_mut(&self.id) {
            entry.phase = Phase::Answering;
        }
    }

    /// It holds so many bytes from now on. Where its user's share is taken, connections make room that keep the server
    /// waiting while they hold some.
    pub(crate) fn holds(&self, bytes: usize) -> Result<(), NoRoom> {
        let counted = if bytes > SMALL_BYTES { bytes } else { 0 };
        let mut open = self.peers.open.lock();
        let Some(entry) = open.get_mut(&self.id) else { return Err(NoRoom) };
        if counted <= entry.bytes {
            entry.bytes = counted;
            return Ok(());
        }
        let others = || open.iter().filter(|(id, entry)| **id != self.id && entry.user == self.user && entry.bytes > 0);
        let mut free = self.peers.share.bytes.saturating_sub(others().map(|(_, entry)| entry.bytes).sum());
        let mut waiting: Vec<_> = others()
            .filter(|(_, entry)| entry.phase.is_peers_turn())
            .map(|(id, entry)| (entry.phase, entry.since, *id, entry.bytes))
            .collect();
        if free + waiting.iter().map(|(.., bytes)| bytes).sum::<usize>() < counted {
            return Err(NoRoom);
        }
        waiting.sort_unstable();
        for (.., id, bytes) in waiting {
            if free >= counted {
                break;
            }
            displace(&mut open, id);
            free += bytes;
        }
        open.get_mut(&self.id).ok_or(NoRoom)?.bytes = counted;
        Ok(())
    }

    /// Whether it has made room for another one.
    pub(crate) fn is_displaced(&self) -> bool {
        self.displaced.is_cancelled()
    }

    /// Ends when it has made room for another one.
    pub(crate) fn displaced(&self) -> WaitForCancellationFuture<'_> {
        self.displaced.cancelled()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.peers.open.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 1;
    const OTHER: u32 = 2;

    fn peers(connections: usize, bytes: usize) -> Arc<Peers> {
        Peers::new(Share { connections, bytes })
    }

    fn admitted(peers: &Arc<Peers>, user: u32) -> Peer {
        peers.admit(user, Some(1), || false).0
    }

    fn is_open(peer: &Peer) -> bool {
        !peer.is_displaced()
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_full_share_the_longest_idle_makes_room_and_first_who_never_asked() {
        let peers = peers(3, 0);
        let mut mine = Vec::new();
        for phase in [Phase::Idle, Phase::Fresh, Phase::Idle] {
            mine.push(admitted(&peers, OTHER));
            mine.last().unwrap().enters(phase);
            tokio::time::advance(MOMENT).await;
        }
        for (index, expected) in [[true, false, true], [false, false, true]].into_iter().enumerate() {
            mine.push(admitted(&peers, OTHER));
            mine.last().unwrap().enters(Phase::Answering);
            assert_eq!([0, 1, 2].map(|place: usize| is_open(&mine[place])), expected, "{index}");
        }
        assert_eq!(peers.open(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_just_connected_is_not_closed_before_the_idle() {
        let peers = peers(3, 0);
        let mut idle = Vec::new();
        for _ in 0..2 {
            idle.push(admitted(&peers, OTHER));
            idle.last().unwrap().enters(Phase::Idle);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let fresh = admitted(&peers, OTHER);
        tokio::time::advance(Duration::from_millis(1)).await;
        let next = admitted(&peers, OTHER);
        assert!(!is_open(&idle[0]) && is_open(&idle[1]) && is_open(&fresh) && is_open(&next));
        let _newest = admitted(&peers, OTHER);
        assert!(is_open(&idle[1]) && !is_open(&fresh), "silent ones do not displace who has asked");
        next.enters(Phase::Idle);
        tokio::time::advance(MOMENT).await;
        let _last = admitted(&peers, OTHER);
        assert!(is_open(&idle[1]) && is_open(&next), "the newest had its moment");
    }

    #[test]
    fn nobody_takes_another_user_s_share() {
        let peers = peers(2, 0);
        let others: Vec<Peer> = (0..2).map(|_| admitted(&peers, OTHER)).collect();
        let owners: Vec<Peer> = (0..10).map(|_| admitted(&peers, OWNER)).collect();
        assert!(others.iter().all(is_open));
        assert_eq!(owners.iter().filter(|peer| is_open(peer)).count(), 2);
        drop(owners);
        assert_eq!(peers.open(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_with_many_connections_closes_none_of_another_process() {
        let peers = peers(4, 0);
        let of = |process| peers.admit(OTHER, process, || false).0;
        let [silent, busy] = [of(Some(1)), of(Some(2))];
        busy.enters(Phase::Answering);
        tokio::time::advance(2 * MOMENT).await;
        let mut many: Vec<Peer> = (0..10).map(|_| of(Some(3))).collect();
        many.iter().for_each(|peer| peer.enters(Phase::Answering));
        assert!(is_open(&silent) && is_open(&busy), "the flood displaces itself");
        assert_eq!(many.iter().filter(|peer| is_open(peer)).count(), 2);
        many.retain(is_open);
        let more: Vec<Peer> = (0..5).map(|_| of(None)).collect();
        assert!(is_open(&silent) && is_open(&busy) && is_open(&many[1]) && !is_open(&many[0]), "down to one each");
        assert_eq!(more.iter().filter(|peer| is_open(peer)).count(), 1, "without a number they count as one process");
        let _newest = of(Some(4));
        assert!(!is_open(&silent) && is_open(&busy), "where each has one, who keeps the server waiting makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_the_server_busy_longest_makes_room_where_nobody_is_idle() {
        let peers = peers(3, 0);
        let [slow, queued, unread] = [0, 1, 2].map(|_| peers.admit(OTHER, Some(1), || true).0);
        slow.enters(Phase::Answering);
        tokio::time::advance(Duration::from_millis(1)).await;
        queued.enters(Phase::Answering);
        queued.queues().unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        slow.is_next();
        let newest = admitted(&peers, OTHER);
        assert!(!is_open(&slow) && is_open(&queued) && is_open(&unread));
        newest.enters(Phase::Answering);
        admitted(&peers, OTHER).enters(Phase::Answering);
        assert!(!is_open(&queued) && is_open(&newest) && is_open(&unread));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_something_that_nobody_has_read_is_not_idle() {
        let peers = peers(2, 0);
        let unread = peers.admit(OTHER, Some(1), || true).0;
        let silent = admitted(&peers, OTHER);
        tokio::time::advance(MOMENT).await;
        let _newest = admitted(&peers, OTHER);
        assert!(is_open(&unread) && !is_open(&silent));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_connections_are_asked_than_until_the_first_silent_one() {
        let peers = peers(20, 0);
        let asked = Arc::new(AtomicU64::new(0));
        let admit = |is_unread| {
            let asked = Arc::clone(&asked);
            let ask = move || {
                asked.fetch_add(1, Ordering::Relaxed);
                is_unread
            };
            peers.admit(OTHER, Some(1), ask).0
        };
        let unread = [(); 2].map(|()| admit(true));
        let silent: Vec<Peer> = (0..18).map(|_| admit(false)).collect();
        tokio::time::advance(MOMENT).await;
        let _newest = admit(false);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert!(unread.iter().all(is_open) && silent.iter().filter(|peer| is_open(peer)).count() == 17);
    }

    #[test]
    fn at_most_half_of_a_share_queues() {
        let peers = peers(4, 0);
        let mine: Vec<Peer> = (0..3).map(|_| admitted(&peers, OTHER)).collect();
        assert_eq!([0, 1, 2].map(|place: usize| mine[place].queues().is_ok()), [true, true, false]);
        mine[0].enters(Phase::Answering);
        assert!(mine[2].queues().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_for_a_peer_that_keeps_the_server_waiting_makes_room() {
        let large = 2 * SMALL_BYTES;
        let peers = peers(10, 3 * large);
        let [stalled, takes_nothing, answered, newest] = [(); 4].map(|()| admitted(&peers, OTHER));
        for (peer, phase) in
            [(&takes_nothing, Phase::Sending), (&stalled, Phase::Receiving), (&answered, Phase::Answering)]
        {
            peer.enters(phase);
            peer.holds(large).unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let small = admitted(&peers, OTHER);
        small.holds(SMALL_BYTES).unwrap();
        let owner = admitted(&peers, OWNER);
        owner.holds(3 * large).unwrap();
        assert!(is_open(&stalled) && is_open(&takes_nothing), "small messages and other users need none of this room");
        newest.enters(Phase::Answering);
        newest.holds(large).unwrap();
        assert!(!is_open(&stalled) && is_open(&takes_nothing));
        assert_eq!(newest.holds(3 * large), Err(NoRoom));
        assert!(is_open(&takes_nothing), "nobody makes room in vain");
        newest.holds(2 * large).unwrap();
        assert!(!is_open(&takes_nothing) && is_open(&answered) && is_open(&small) && is_open(&owner));
        assert_eq!(stalled.holds(large), Err(NoRoom), "who has made room holds nothing more");
    }
}
