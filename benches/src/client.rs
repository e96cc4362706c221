//! The load: one thread that keeps connections busy. It does as little else as possible, because it
//! shares the machine with the server.

use std::io::{Error, ErrorKind, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::line::Answer;

/// Connections that are kept busy.
pub const CONNECTIONS: usize = 32;

/// The result of a load.
#[derive(Debug, Default)]
pub struct Load {
    /// The time of each response with a 2xx status, in microseconds, sorted.
    pub micros: Vec<u32>,
    /// The number of responses with another status.
    pub failed: usize,
    /// The last such status, or 0.
    pub failed_status: u16,
    /// The time from the first request to the last response.
    pub took: Duration,
}

impl Load {
    /// Responses with a 2xx status per second.
    pub fn per_second(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // millions
        let answers = self.micros.len() as f64;
        answers / self.took.as_secs_f64()
    }

    /// The quantile of the response times, in microseconds.
    pub fn quantile(&self, share: f64) -> u32 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )] // an index into a list
        let at = (self.micros.len() as f64 * share) as usize;
        self.micros
            .get(at)
            .or(self.micros.last())
            .copied()
            .unwrap_or(0)
    }
}

/// Writes a request into the buffer; `false` after the last request.
pub trait Requests: FnMut(&mut Vec<u8>) -> bool {}
impl<F: FnMut(&mut Vec<u8>) -> bool> Requests for F {}

/// Keeps this number of connections busy, each with one request at a time, until there are no more
/// requests.
///
/// # Errors
/// If a connection breaks, if a response is invalid, or if no connection receives data for 30 s.
pub fn drive(address: SocketAddr, connections: usize, mut requests: impl Requests) -> Result<Load> {
    let mut poll = Poll::new()?;
    let mut lines = Vec::with_capacity(connections);
    for n in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, Token(n), Interest::READABLE)?;
        lines.push(Busy {
            stream,
            answer: Answer::default(),
            since: Instant::now(),
        });
    }
    let mut load = Load {
        micros: Vec::with_capacity(1 << 20),
        ..Load::default()
    };
    let (begun, mut request, mut busy) = (Instant::now(), Vec::with_capacity(4 << 10), 0);
    for line in &mut lines {
        if line.ask(&mut requests, &mut request)? {
            busy += 1;
        }
    }
    let mut events = Events::with_capacity(connections);
    while busy > 0 {
        match poll.poll(&mut events, Some(Duration::from_secs(30))) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        if events.is_empty() {
            return Err(Error::new(ErrorKind::TimedOut, "no answer within 30 s"));
        }
        for event in &events {
            let line = &mut lines[event.token().0];
            // An incomplete response: the rest causes another event.
            let Some(status) = line.answer.read(&mut line.stream)? else {
                continue;
            };
            if (200..300).contains(&status) {
                load.micros
                    .push(u32::try_from(line.since.elapsed().as_micros()).unwrap_or(u32::MAX));
            } else {
                load.failed += 1;
                load.failed_status = status;
            }
            if !line.ask(&mut requests, &mut request)? {
                busy -= 1;
            }
        }
    }
    load.took = begun.elapsed();
    load.micros.sort_unstable();
    Ok(load)
}

/// A connection with a request under way.
struct Busy {
    stream: mio::net::TcpStream,
    answer: Answer,
    since: Instant,
}

impl Busy {
    fn ask(&mut self, requests: &mut impl Requests, request: &mut Vec<u8>) -> Result<bool> {
        request.clear();
        if !requests(request) {
            return Ok(false);
        }
        self.since = Instant::now();
        // A request is far smaller than the socket buffer, and the buffer is empty.
        if self.stream.write(request)? == request.len() {
            Ok(true)
        } else {
            Err(Error::other("only a part of a request was written"))
        }
    }
}
