//! A socket as the library for the protocol sees it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::Connection;

/// The bytes that one call of the system reads at most.
const READ: usize = 4 << 10;

/// Reads the socket of a connection, and passes control frames to its output.
///
/// It counts bytes. The counts tell whether the client is alive, and whether it sends fragments
/// without an end.
pub(super) struct Wire {
    connection: Arc<Connection>,
    /// What was read and not asked for yet.
    ahead: Bytes,
    /// The bytes that were read.
    pub(super) received: u64,
    /// The bytes that were asked for.
    pub(super) taken: u64,
}

impl Wire {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            ahead: Bytes::new(),
            received: 0,
            taken: 0,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = if self.ahead.is_empty() {
            // On the stack, so that an idle socket has no buffer.
            let mut buffer = [0; READ];
            let read = self.connection.read(&mut buffer)?;
            self.received += read as u64;
            let n = read.min(into.len());
            into[..n].copy_from_slice(&buffer[..n]);
            self.ahead = Bytes::copy_from_slice(&buffer[n..read]);
            n
        } else {
            let n = self.ahead.len().min(into.len());
            into[..n].copy_from_slice(&self.ahead.split_to(n));
            if self.ahead.is_empty() {
                // An empty slice would keep its memory.
                self.ahead = Bytes::new();
            }
            n
        };
        self.taken += n as u64;
        Ok(n)
    }
}

impl Write for Wire {
    /// Takes one control frame: a pong, or a close frame.
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        self.connection.control(Bytes::copy_from_slice(frame));
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
