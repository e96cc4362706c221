//! Sequential requests over one connection, with the time of each. The tests of authentication
//! include this file, so it uses only the standard library.

use std::io::{Error, ErrorKind, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection for sequential requests.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    answer: Answer,
}

impl Line {
    /// Opens a connection.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn to(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            answer: Answer::default(),
        })
    }

    /// Sends a request; returns the status and the body of the response, and its duration.
    ///
    /// # Errors
    /// If the connection breaks, or if the response is invalid.
    pub fn ask(&mut self, request: &[u8]) -> Result<(u16, &[u8], Duration)> {
        let begun = Instant::now();
        self.send(request)?;
        let (status, body) = self.answer()?;
        Ok((status, body, begun.elapsed()))
    }

    /// Sends a request; [`answer`](Self::answer) reads the response.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request)
    }

    /// Reads the status and the body of the response to the request that was sent.
    ///
    /// # Errors
    /// If the connection breaks, or if the response is invalid.
    pub fn answer(&mut self) -> Result<(u16, &[u8])> {
        loop {
            if let Some(status) = self.answer.read(&mut self.stream)? {
                return Ok((status, self.answer.body()));
            }
        }
    }
}

/// A response that is being read.
#[derive(Debug)]
pub(super) struct Answer {
    buffer: Box<[u8]>,
    filled: usize,
    /// The range of its body, once its head is complete.
    body: Option<(usize, usize)>,
    complete: bool,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            buffer: vec![0; 256 << 10].into(),
            filled: 0,
            body: None,
            complete: false,
        }
    }
}

impl Answer {
    /// Reads once; returns the status when the response is complete.
    pub(super) fn read(&mut self, from: &mut impl std::io::Read) -> Result<Option<u16>> {
        if std::mem::take(&mut self.complete) {
            (self.filled, self.body) = (0, None);
        }
        match from.read(&mut self.buffer[self.filled..]) {
            Ok(0) => {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "the server hung up, or its answer is too long",
                ));
            }
            Ok(n) => self.filled += n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
        if self.body.is_none() {
            self.body = bounds(&self.buffer[..self.filled])?;
        }
        let Some((_, end)) = self.body.filter(|(_, end)| *end <= self.filled) else {
            return Ok(None);
        };
        if end < self.filled {
            return Err(Error::other("more than an answer"));
        }
        self.complete = true;
        let status = self
            .buffer
            .get(9..12)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse().ok());
        status.map(Some).ok_or_else(|| Error::other("no status"))
    }

    fn body(&self) -> &[u8] {
        self.body.map_or(&[], |(from, to)| &self.buffer[from..to])
    }
}

/// The range of the body, once the head is complete.
fn bounds(buffer: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Ok(None);
    };
    let mut length = 0;
    for line in buffer[..head].split(|b| *b == b'\n') {
        let Some(at) = line.iter().position(|b| *b == b':') else {
            continue;
        };
        if line[..at].eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(line[at + 1..].trim_ascii()).ok();
            length = digits
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| Error::other("no length"))?;
        }
    }
    Ok(Some((head + 4, head + 4 + length)))
}
