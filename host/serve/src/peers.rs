//! What the peers share: connections and memory. Each user has a share of both that no other can take, and within a
//! share whoever keeps the server waiting longest makes room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// What a message may have without counting: each connection may hold so much.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// What a connection is in. Those further up make room before those further down.
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
    /// Its question waits for its turn. It makes no room.
    Queued,
    /// Its request is answered. It makes no room.
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
    phase: Phase,
    since: Instant,
    /// None where it holds little.
    bytes: usize,
    displaced: CancellationToken,
}

impl Peers {
    pub(crate) fn new(share: Share) -> Arc<Peers> {
        Arc::new(Peers { share, next: AtomicU64::new(0), open: Mutex::default() })
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// Lets a connection of this user in; also returns whether another one made room for it.
    ///
    /// # Errors
    /// The user's share is taken by so many connections whose requests are being answered.
    pub(crate) fn admit(self: &Arc<Peers>, user: u32) -> Result<(Peer, bool), usize> {
        let mut open = self.open.lock();
        let taken = open.values().filter(|entry| entry.user == user).count();
        let is_full = taken >= self.share.connections;
        if is_full {
            let oldest = open.iter().filter(|(_, entry)| entry.user == user && entry.phase.is_peers_turn());
            let oldest = oldest.min_by_key(|(_, entry)| (entry.phase, entry.since)).map(|(id, _)| *id);
            displace(&mut open, oldest.ok_or(taken)?);
        }
        let (id, displaced) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        let entry = Entry { user, phase: Phase::Fresh, since: Instant::now(), bytes: 0, displaced: displaced.clone() };
        open.insert(id, entry);
        Ok((Peer { peers: Arc::clone(self), id, user, displaced }, is_full))
    }
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
            (entry.phase, entry.since) = (Phase::Queued, Instant::now());
        }
        Ok(())
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
        peers.admit(user).map(|(peer, _)| peer).unwrap()
    }

    fn is_open(peer: &Peer) -> bool {
        !peer.displaced.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_full_share_the_longest_idle_makes_room_and_first_who_never_asked() {
        let peers = peers(3, 0);
        let mut mine = Vec::new();
        for phase in [Phase::Idle, Phase::Fresh, Phase::Idle] {
            mine.push(admitted(&peers, OTHER));
            mine.last().unwrap().enters(phase);
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
        }
        for (index, expected) in [[true, false, true], [false, false, true]].into_iter().enumerate() {
            mine.push(admitted(&peers, OTHER));
            mine.last().unwrap().enters(Phase::Answering);
            assert_eq!([0, 1, 2].map(|place: usize| is_open(&mine[place])), expected, "{index}");
        }
        assert_eq!(peers.open(), 3);
    }

    #[test]
    fn who_is_being_answered_makes_no_room_and_nobody_takes_another_user_s_share() {
        let peers = peers(2, 0);
        let others: Vec<Peer> = (0..2).map(|_| admitted(&peers, OTHER)).collect();
        others[0].enters(Phase::Answering);
        others[1].queues().unwrap();
        assert_eq!(peers.admit(OTHER).err(), Some(2));
        let owners: Vec<Peer> = (0..10).map(|_| admitted(&peers, OWNER)).collect();
        assert!(others.iter().all(is_open));
        assert_eq!(owners.iter().filter(|peer| is_open(peer)).count(), 2);
        drop(others);
        assert!(peers.admit(OTHER).is_ok());
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
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
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
