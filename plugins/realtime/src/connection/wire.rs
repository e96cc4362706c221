//! The adapter between the socket and the WebSocket library.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::Connection;

/// The maximum number of bytes that one system call reads.
const READ_BYTES: usize = 4 << 10;

/// Reads the socket of a connection, and passes control frames to its output.
///
/// It counts bytes. From the counts the task knows whether the client is alive, and whether it
/// sends an endless series of fragments.
pub(super) struct Wire {
    connection: Arc<Connection>,
    /// Bytes that were read from the socket and not yet passed to the library.
    ahead: Bytes,
    /// The number of bytes read from the socket.
    pub(super) received: u64,
    /// The number of bytes passed to the library.
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
            // The buffer is on the stack, so that an idle socket needs none.
            let mut buffer = [0; READ_BYTES];
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
                // An empty slice would keep the memory of the bytes.
                self.ahead = Bytes::new();
            }
            n
        };
        self.taken += n as u64;
        Ok(n)
    }
}

impl Write for Wire {
    /// Accepts one control frame: a pong or a close frame.
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        self.connection.control(Bytes::copy_from_slice(frame));
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
