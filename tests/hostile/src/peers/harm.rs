//! What a peer that means harm does, drawn by seed.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message as _;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use windlass_serve::proto::{self, request};

use crate::messages::{decide, empty_servers, failed, framed, gateway_failed, receive, request, servers};

/// How long it waits for the server before it goes on to the next harm.
const WAIT: Duration = Duration::from_millis(500);
/// The connections that it keeps open, the oldest of which make room: all peers together have more than the server
/// takes.
const KEPT: usize = 80;
/// The largest request that is taken, in bytes.
const REQUEST_BYTES: usize = 1 << 20;

type Harm = (&'static str, fn(&mut Peer));

/// All of it.
const HARMS: [Harm; 16] = [
    ("garbage", Peer::garbage),
    ("a giant length", Peer::giant_length),
    ("half a message", Peer::half),
    ("byte by byte", Peer::byte_by_byte),
    ("silent connections", Peer::silent),
    ("connections that come and go", Peer::come_and_go),
    ("huge batches", Peer::huge_batch),
    ("as many servers as allowed", Peer::allowed_servers),
    ("too many servers", Peer::too_many_servers),
    ("long texts", Peer::long_texts),
    ("answers that nobody takes", Peer::never_read),
    ("answers that are taken slowly", Peer::read_slowly),
    ("pins that do not exist", Peer::no_pin),
    ("many pins and statuses", Peer::pins_and_statuses),
    ("gone before the answer", Peer::gone),
    ("many questions at once", Peer::at_once),
];

/// One that means harm.
pub(crate) struct Peer {
    socket: PathBuf,
    random: ChaCha8Rng,
    kept: VecDeque<UnixStream>,
    done: BTreeMap<&'static str, u64>,
}

impl Peer {
    pub(crate) fn new(socket: &Path, seed: u64, number: u64) -> Peer {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        Peer { socket: socket.into(), random, kept: VecDeque::new(), done: BTreeMap::new() }
    }

    /// Does one harm.
    pub(crate) fn harm(&mut self) {
        if let Some((name, harm)) = HARMS.choose(&mut self.random) {
            harm(self);
            *self.done.entry(name).or_default() += 1;
        }
    }

    /// What it has done, and how often.
    pub(crate) fn done(&self) -> &BTreeMap<&'static str, u64> {
        &self.done
    }

    fn connect(&self) -> Option<UnixStream> {
        let stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(WAIT)).ok()?;
        stream.set_write_timeout(Some(WAIT)).ok()?;
        Some(stream)
    }

    fn keep(&mut self, stream: UnixStream) {
        self.kept.push_back(stream);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// Sends this, takes what comes, and keeps the connection now and then.
    fn send(&mut self, message: &[u8]) {
        let Some(mut stream) = self.connect() else { return };
        if stream.write_all(message).is_ok() {
            let _ = receive(&mut stream);
        }
        if self.random.random_ratio(1, 4) {
            self.keep(stream);
        }
    }

    fn garbage(&mut self) {
        let mut bytes = vec![0; self.random.random_range(0..200_000)];
        self.random.fill_bytes(&mut bytes);
        if self.random.random() {
            bytes = framed(&bytes);
        }
        self.send(&bytes);
    }

    fn giant_length(&mut self) {
        let length = self.random.random_range(1 << 20..=u32::MAX);
        self.send(&length.to_be_bytes());
    }

    fn half(&mut self) {
        let message = match self.random.random_range(0..3) {
            0 => decide(b"", vec![gateway_failed()]),
            1 => decide(b"", vec![servers(9_000)]),
            _ => framed(&vec![0; REQUEST_BYTES]),
        };
        let Some(mut stream) = self.connect() else { return };
        let sent = self.random.random_range(1..message.len());
        let _ = stream.write_all(&message[..sent]);
        self.keep(stream);
    }

    fn byte_by_byte(&mut self) {
        let Some(mut stream) = self.connect() else { return };
        for byte in &decide(b"", vec![gateway_failed()])[..40] {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.keep(stream);
    }

    fn silent(&mut self) {
        for _ in 0..self.random.random_range(1..KEPT) {
            let Some(stream) = self.connect() else { return };
            self.keep(stream);
        }
    }

    fn come_and_go(&mut self) {
        for _ in 0..self.random.random_range(1..300) {
            self.connect();
        }
    }

    fn huge_batch(&mut self) {
        let questions = *[255, 256, 257, 2_000].choose(&mut self.random).unwrap_or(&1);
        self.send(&decide(b"", vec![gateway_failed(); questions]));
    }

    fn allowed_servers(&mut self) {
        let (count, questions) =
            *[(1_000, 10), (9_900, 1), (10_000, 1), (10_000, 8)].choose(&mut self.random).unwrap_or(&(1, 1));
        self.send(&decide(b"", vec![servers(count); questions]));
    }

    fn too_many_servers(&mut self) {
        let question = match self.random.random_range(0..3) {
            0 => servers(100_000),
            1 => empty_servers(500_000),
            _ => empty_servers(10_000),
        };
        self.send(&decide(b"", vec![question]));
    }

    fn long_texts(&mut self) {
        let text = "\u{1b}[31m\u{202e}x\n".repeat(self.random.random_range(1..REQUEST_BYTES / 12));
        self.send(&decide(b"", vec![failed(proto::FailureClass::Gateway, text)]));
    }

    fn never_read(&mut self) {
        let Some(mut stream) = self.connect() else { return };
        let message = match self.random.random_range(0..3) {
            0 => request(request::Call::Status(())),
            1 => decide(b"", vec![gateway_failed(); 256]),
            _ => decide(b"", vec![servers(10_000); 8]),
        };
        for _ in 0..self.random.random_range(1..2_000) {
            if stream.write_all(&message).is_err() {
                break;
            }
        }
        self.keep(stream);
    }

    fn read_slowly(&mut self) {
        let Some(mut stream) = self.connect() else { return };
        if stream.write_all(&decide(b"", vec![servers(10_000); 4])).is_err() {
            return;
        }
        for _ in 0..50 {
            if !stream.read(&mut [0; 100]).is_ok_and(|bytes| bytes > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.keep(stream);
    }

    fn no_pin(&mut self) {
        let Some(pin) = self.pin() else { return };
        let token = match self.random.random_range(0..6) {
            0 => b"no pin".to_vec(),
            1 => vec![0; 40_000],
            2 => proto::PinToken { policies: vec![pin.policies[0].clone(); 64] }.encode_to_vec(),
            3 => changed(pin, |policy| policy.settings = "0".repeat(64)),
            4 => changed(pin, |policy| policy.name = "\u{1b}[31mred\n".into()),
            _ => {
                let mut policies = pin.policies;
                policies.rotate_left(self.random.random_range(0..6));
                proto::PinToken { policies }.encode_to_vec()
            }
        };
        self.send(&decide(&token, vec![gateway_failed(); 3]));
    }

    fn pin(&self) -> Option<proto::Pin> {
        let mut stream = self.connect()?;
        stream.write_all(&request(request::Call::Pin(()))).ok()?;
        match proto::Response::decode(&receive(&mut stream).ok()?[..]).ok()?.result? {
            proto::response::Result::Pin(pin) => Some(pin),
            _ => None,
        }
    }

    fn pins_and_statuses(&mut self) {
        for call in [request::Call::Pin(()), request::Call::Status(())] {
            let Some(mut stream) = self.connect() else { return };
            let message = request(call).repeat(20);
            if stream.write_all(&message).is_ok() {
                (0..20).map_while(|_| receive(&mut stream).ok()).for_each(drop);
            }
        }
    }

    fn gone(&mut self) {
        let message = decide(b"", vec![servers(10_000); self.random.random_range(1..8)]);
        for _ in 0..self.random.random_range(1..20) {
            let Some(mut stream) = self.connect() else { return };
            let _ = stream.write_all(&message);
            if self.random.random() {
                let _ = stream.read(&mut [0; 7]);
            }
        }
    }

    fn at_once(&mut self) {
        let message = match self.random.random() {
            true => decide(b"", vec![gateway_failed(); 64]),
            false => decide(b"", vec![servers(10_000)]),
        };
        let mut streams: Vec<UnixStream> = (0..40).filter_map(|_| self.connect()).collect();
        streams.retain_mut(|stream| stream.write_all(&message).is_ok());
        streams.iter_mut().map_while(|stream| receive(stream).ok()).for_each(drop);
    }
}
fn changed(pin: proto::Pin, change: fn(&mut proto::Policy)) -> Vec<u8> {
    let mut policies = pin.policies;
    policies.iter_mut().for_each(change);
    proto::PinToken { policies }.encode_to_vec()
}

/// Eight requests of nearly 1 MiB at once, each about as many servers as fit in.
pub(crate) fn eight_large_requests(socket: &Path) {
    let message = decide(b"", vec![servers(100_000)]);
    debug_assert!(message.len() <= REQUEST_BYTES);
    let mut streams: Vec<UnixStream> = (0..8).filter_map(|_| UnixStream::connect(socket).ok()).collect();
    for stream in &mut streams {
        let _ = stream.write_all(&message);
    }
    for stream in &mut streams {
        let _ = receive(stream);
    }
}
