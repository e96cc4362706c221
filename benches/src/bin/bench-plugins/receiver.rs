//! A receiver of deliveries in a separate process. `/slow` responds after 15 s, every other path at
//! once. `/stats` returns the number of fast and of slow requests, and the time from the first fast
//! request to the last one in microseconds. `/reset` sets all of them to zero.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use linchpin_benches::line::Line;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Outcome;

const SLOW: Duration = Duration::from_secs(15);

/// The requests so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    fast: u64,
    slow: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Prints its port, and answers until it is killed.
pub(crate) fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seen = Rc::new(RefCell::new(Seen::default()));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            let seen = Rc::clone(&seen);
            // A client may disconnect at any time; that is not an error of the receiver.
            tokio::task::spawn_local(async move {
                let _ = answer(stream, &seen).await;
            });
        }
    })
}

async fn answer(mut stream: TcpStream, seen: &RefCell<Seen>) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(4 << 10);
    let request_length = loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break head + 4 + body_length(&request[..head]);
        }
    };
    while request.len() < request_length {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let path = request.split(|byte| *byte == b' ').nth(1);
    let body = match path {
        Some(b"/stats") => {
            let Seen {
                fast,
                slow,
                first,
                last,
            } = *seen.borrow();
            let span = last
                .zip(first)
                .map_or(Duration::ZERO, |(last, first)| last - first);
            format!("{fast} {slow} {}", span.as_micros())
        }
        Some(b"/reset") => {
            *seen.borrow_mut() = Seen::default();
            String::new()
        }
        Some(b"/slow") => {
            seen.borrow_mut().slow += 1;
            tokio::time::sleep(SLOW).await;
            "ok".to_owned()
        }
        _ => {
            let mut seen = seen.borrow_mut();
            seen.fast += 1;
            seen.last = Some(Instant::now());
            seen.first = seen.first.or(seen.last);
            "ok".to_owned()
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

fn body_length(head: &[u8]) -> usize {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = text.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    length.unwrap_or(0)
}

/// A running receiver; killed when dropped.
pub(crate) struct Receiver {
    child: Child,
    port: u16,
}

/// The counts of a receiver.
pub(crate) struct Stats {
    pub(crate) fast: u64,
    pub(crate) slow: u64,
    /// The time from the first fast request to the last one.
    pub(crate) span: Duration,
}

impl Receiver {
    pub(crate) fn start() -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("receiver")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("the receiver has no output")?;
        BufReader::new(out).read_line(&mut line)?;
        let port = line.trim().parse()?;
        Ok(Self { child, port })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn get(&self, path: &str) -> Outcome<String> {
        let mut line = Line::to(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
        let (_, body, _) = line.ask(request.as_bytes())?;
        Ok(String::from_utf8_lossy(body).into_owned())
    }

    pub(crate) fn reset(&self) -> Outcome<()> {
        self.get("/reset").map(drop)
    }

    pub(crate) fn stats(&self) -> Outcome<Stats> {
        let text = self.get("/stats")?;
        let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [fast, slow, micros] = numbers[..] else {
            return Err("`/stats` of the receiver did not return three numbers".into());
        };
        Ok(Stats {
            fast,
            slow,
            span: Duration::from_micros(micros),
        })
    }

    /// Waits for this number of fast requests.
    pub(crate) async fn until(&self, fast: u64, timeout: Duration) -> Outcome<Stats> {
        let end = Instant::now() + timeout;
        loop {
            let stats = self.stats()?;
            if stats.fast >= fast {
                return Ok(stats);
            }
            if Instant::now() > end {
                return Err(format!("{} of {fast} deliveries arrived", stats.fast).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
