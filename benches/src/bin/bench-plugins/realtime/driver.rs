//! The driver: many sockets on one thread. It counts frames, and does as little else as possible.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linchpin_benches::line::Line;
use linchpin_benches::{Claims, SECRET, now_millis};
use mio::{Events, Interest, Poll, Token};

use crate::Outcome;

/// The maximum wait for frames. Only a failing run reaches it.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A server on the first core; killed when dropped.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    file: PathBuf,
}

impl Server {
    pub(super) fn start(name: &str) -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = std::env::temp_dir();
        let file = folder.join(format!("bench-plugins-{}-{port}.db", std::process::id()));
        let child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(std::env::current_exe()?)
            .args([
                name,
                &port.to_string(),
                &format!("sqlite:{}", file.display()),
            ])
            .stderr(Stdio::null())
            .spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Self {
            child,
            address,
            file,
        };
        let end = Instant::now() + WAIT_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > end {
                return Err(format!("{name} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Waits two seconds, so that the server has sent everything, and returns its resident memory
    /// in KiB.
    pub(super) fn rss_after_rest(&self) -> Outcome<u64> {
        std::thread::sleep(Duration::from_secs(2));
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.ok_or("no memory")?.trim().trim_end_matches(" kB");
        Ok(kib.parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for end in ["", "-wal", "-shm", "-relay", ".migrate-lock"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.file.display()));
        }
    }
}

/// The token of the user with this number.
fn token(user: usize) -> Outcome<String> {
    let claims = Claims {
        sub: format!("user-{user}"),
        exp: now_millis() / 1000 + 86_400,
    };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    Ok(jsonwebtoken::encode(
        &jsonwebtoken::Header::default(),
        &claims,
        &key,
    )?)
}

fn request(method: &str, path: &str, body: &str) -> Outcome<Vec<u8>> {
    Ok(format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        token(0)?,
        body.len()
    )
    .into_bytes())
}

/// The sockets of a room.
pub(super) struct Sockets {
    address: SocketAddr,
    post: String,
    poll: Poll,
    events: Events,
    open: Vec<Socket>,
    /// Sockets that are never read.
    unread: Vec<TcpStream>,
    /// Frames of changes so far.
    frames: usize,
    /// The time at which each change was sent. If it is set, the delay of each frame is in `times`.
    pub(super) sent: Vec<Instant>,
    times: Vec<Duration>,
    buffer: Box<[u8]>,
}

struct Socket {
    stream: mio::net::TcpStream,
    /// The number of payload bytes of the current frame that are not read yet.
    rest: usize,
    /// The bytes of an incomplete frame header.
    head: Vec<u8>,
    frames: usize,
}

impl Sockets {
    /// Creates the post whose room the sockets join.
    pub(super) fn new(server: &Server) -> Outcome<Self> {
        let mut line = Line::to(server.address)?;
        let post = r#"{"title":"The title","slug":"slug","body":"A body","authorId":"author"}"#;
        let (status, body, _) = line.ask(&request("POST", "/posts", post)?)?;
        let made: serde_json::Value = serde_json::from_slice(body)?;
        let post = made["id"]
            .as_str()
            .ok_or(format!("a create answered {status}"))?;
        Ok(Self {
            address: server.address,
            post: post.to_owned(),
            poll: Poll::new()?,
            events: Events::with_capacity(1_024),
            open: Vec::new(),
            unread: Vec::new(),
            frames: 0,
            sent: Vec::new(),
            times: Vec::new(),
            buffer: vec![0; 256 << 10].into(),
        })
    }

    /// Opens sockets that are read.
    pub(super) fn open(&mut self, count: usize) -> Outcome<()> {
        for _ in 0..count {
            let stream = self.join(self.open.len() + 1)?;
            stream.set_nonblocking(true)?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            let token = Token(self.open.len());
            self.poll
                .registry()
                .register(&mut stream, token, Interest::READABLE)?;
            self.open.push(Socket {
                stream,
                rest: 0,
                head: Vec::new(),
                frames: 0,
            });
        }
        Ok(())
    }

    /// Opens sockets that are never read.
    pub(super) fn open_unread(&mut self, count: usize) -> Outcome<()> {
        for n in 0..count {
            let stream = self.join(1_000_000 + n)?;
            self.unread.push(stream);
        }
        Ok(())
    }

    /// Opens a socket and joins the room. Only the Linchpin server requires and confirms the join.
    fn join(&self, user: usize) -> Outcome<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
        let head = format!(
            "GET /__ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {}\r\n\r\n",
            self.address,
            token(user)?
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        if !answer.starts_with(b"HTTP/1.1 101") {
            return Err(String::from_utf8_lossy(&answer).into_owned().into());
        }
        if self.post == "a" {
            return Ok(stream);
        }
        let text = format!(
            r#"{{"action":"subscribe","room":"posts:{}:live"}}"#,
            self.post
        );
        // The masking key is zero, so the payload is unchanged.
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len())?, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        stream.write_all(&frame)?;
        // The frames from the server: `connected`, then the confirmation.
        loop {
            let mut head = [0; 2];
            stream.read_exact(&mut head)?;
            let length = if head[1] == 126 {
                let mut length = [0; 2];
                stream.read_exact(&mut length)?;
                usize::from(u16::from_be_bytes(length))
            } else {
                usize::from(head[1])
            };
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload)?;
            let text = String::from_utf8_lossy(&payload);
            if text.contains("\"subscribed\"") {
                return Ok(stream);
            }
            if !text.contains("connected") {
                return Err(text.into_owned().into());
            }
        }
    }

    /// Clients that change the post at the same time, with a body of this length.
    pub(super) fn changes(&self, length: usize, clients: usize) -> Outcome<Changes> {
        let clients = 0..clients;
        Ok(Changes {
            lines: clients
                .map(|_| Line::to(self.address))
                .collect::<Result<_, _>>()?,
            path: format!("/posts/{}", self.post),
            body: "x".repeat(length),
        })
    }

    /// Reads the frames that have arrived; waits for at most `wait` for the first one.
    pub(super) fn read(&mut self, wait: Duration) -> Outcome<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        for at in ready {
            loop {
                let read = match self.open[at].stream.read(&mut self.buffer) {
                    Ok(0) => return Err("the server closed a socket".into()),
                    Ok(read) => read,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                };
                let before = self.open[at].frames;
                let seen = self.open[at].count(&self.buffer[..read]);
                self.frames += seen;
                let now = Instant::now();
                let sent = self.sent.iter().skip(before).take(seen);
                self.times.extend(sent.map(|sent| now - *sent));
            }
        }
        Ok(())
    }

    /// Waits until this number of frames has arrived.
    pub(super) fn until(&mut self, frames: usize) -> Outcome<()> {
        let end = Instant::now() + WAIT_TIMEOUT;
        while self.frames < frames {
            self.read(Duration::from_millis(100))?;
            if Instant::now() > end {
                return Err(format!("{} of {frames} frames arrived", self.frames).into());
            }
        }
        Ok(())
    }

    pub(super) fn sorted_millis(&self) -> Vec<f64> {
        let millis = self.times.iter().map(|time| time.as_secs_f64() * 1e3);
        let mut millis: Vec<f64> = millis.collect();
        millis.sort_by(f64::total_cmp);
        millis
    }
}

impl Socket {
    /// Counts the text frames whose header ends in these bytes.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut begun = 0;
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            (self.rest, bytes) = (self.rest - skipped, &bytes[skipped..]);
            while let Some((first, others)) = bytes.split_first() {
                self.head.push(*first);
                bytes = others;
                let length = match self.head[..] {
                    [_, 126, high, low] => u16::from_be_bytes([high, low]).into(),
                    [_, short] if short < 126 => short.into(),
                    _ => continue,
                };
                begun += usize::from(self.head[0] == 0x81);
                self.head.clear();
                self.rest = length;
                break;
            }
        }
        self.frames += begun;
        begun
    }
}

/// Clients that change the post.
pub(super) struct Changes {
    lines: Vec<Line>,
    path: String,
    body: String,
}

impl Changes {
    /// Makes one change with each client, and waits for all responses.
    pub(super) fn send(&mut self, first: usize) -> Outcome<()> {
        for (n, line) in self.lines.iter_mut().enumerate() {
            let n = first + n;
            let body = format!(r#"{{"title":"Title {n}","body":"{}"}}"#, self.body);
            line.send(&request("PATCH", &self.path, &body)?)?;
        }
        for line in &mut self.lines {
            let (status, answer) = line.answer()?;
            if status != 200 {
                return Err(format!("{status} {}", String::from_utf8_lossy(answer)).into());
            }
        }
        Ok(())
    }
}
