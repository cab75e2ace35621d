//! Messages on a stream: a length of 32 bits, the most significant byte first, and so many bytes.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::peers::{NoRoom, Peer, Phase, SMALL_BYTES};

/// The bytes before each message.
const LENGTH_BYTES: usize = 4;
/// What is read at once.
const STEP_BYTES: usize = 16 << 10;
/// Why no further message comes.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The peer has closed the connection between two messages, has said nothing for long, or is gone.
    Quietly,
    /// The peer announced a message of so many bytes.
    TooLarge(usize),
    /// The peer began a message and did not end it in time.
    TooSlow,
    /// There was no room for a large message.
    NoRoom,
}

/// What is read from one peer.
pub(crate) struct Frames {
    buffer: BytesMut,
    largest: usize,
    time: Duration,
}

impl Frames {
    /// Reads messages of at most `largest` bytes, each of which must arrive within `time`.
    pub(crate) fn new(largest: usize, time: Duration) -> Frames {
        Frames { buffer: BytesMut::new(), largest, time }
    }

    /// The next message, which has to begin after at most `idle`. What was announced takes memory only as it comes.
    pub(crate) async fn next(&mut self, stream: &UnixStream, peer: &Peer, idle: Duration) -> Result<Bytes, Ended> {
        if self.buffer.is_empty() {
            match timeout(idle, self.fill(stream)).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) | Err(_) => return Err(Ended::Quietly),
            }
        }
        peer.enters(Phase::Receiving);
        let until = Instant::now() + self.time;
        self.until(stream, LENGTH_BYTES, until).await?;
        // A length that doesn't fit is too large anyway.
        let length = usize::try_from(self.buffer.get_u32()).unwrap_or(usize::MAX);
        if length > self.largest {
            return Err(Ended::TooLarge(length));
        }
        peer.holds(length).map_err(|NoRoom| Ended::NoRoom)?;
        self.until(stream, length, until).await?;
        let bytes = self.buffer.split_to(length).freeze();
        if length > SMALL_BYTES {
            // What is left would hold on to the memory of the whole.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(bytes)
    }

    /// Reads until the buffer has so many bytes.
    async fn until(&mut self, stream: &UnixStream, bytes: usize, until: Instant) -> Result<(), Ended> {
        while self.buffer.len() < bytes {
            match timeout_at(until, self.fill(stream)).await {
                Err(_) => return Err(Ended::TooSlow),
                Ok(Ok(0) | Err(_)) => return Err(Ended::Quietly),
                Ok(Ok(_)) => {}
            }
        }
        Ok(())
    }

    async fn fill(&mut self, stream: &UnixStream) -> io::Result<usize> {
        self.buffer.reserve(STEP_BYTES);
        loop {
            stream.readable().await?;
            match stream.try_read_buf(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Sends all of this.
pub(crate) async fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A message with its length before it.
pub(crate) fn framed(message: &impl Message) -> BytesMut {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(LENGTH_BYTES + length);
    bytes.put_u32(u32::try_from(length).expect("a response is bounded far below that"));
    message.encode(&mut bytes).expect("there is room for the message");
    bytes
}
