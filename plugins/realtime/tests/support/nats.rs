//! NATS servers that tests start, with a proxy before each that can end its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

/// A server, which ends with its test.
pub struct Nats {
    /// The port of the proxy, for nodes.
    pub port: u16,
    /// The port of the server.
    pub direct: u16,
    pub folder: TempDir,
    settings: &'static str,
    server: Mutex<Option<Child>>,
    proxied: Arc<Mutex<Vec<TcpStream>>>,
    last_cut: Mutex<Option<Instant>>,
}

/// The settings of a server with `JetStream`. A frame of the suite is longer than 1 MiB.
const JETSTREAM: &str = "max_payload: 4MB\njetstream { store_dir: 'store', max_file: 4GB }";

pub fn single() -> Nats {
    with_settings(JETSTREAM)
}

pub fn with_settings(settings: &'static str) -> Nats {
    loop {
        let direct = free_port();
        let mut nats = Nats {
            port: 0,
            direct,
            folder: tempfile::tempdir().expect("a folder"),
            settings,
            server: Mutex::default(),
            proxied: Arc::default(),
            last_cut: Mutex::default(),
        };
        if nats.try_up() {
            nats.port = nats.proxy();
            return nats;
        }
    }
}

/// The program: `nats-server`, or the one that `LINCHPIN_TEST_NATS` names. Debian installs it in a
/// folder that is not in every user's search path.
fn program() -> String {
    let debian = "/usr/sbin/nats-server";
    std::env::var("LINCHPIN_TEST_NATS").unwrap_or_else(|_| {
        let installed = Path::new(debian).exists();
        if installed { debian } else { "nats-server" }.to_owned()
    })
}

/// A port for a server: not one that the system gives to clients, as a connection could take it
/// before the server starts.
fn free_port() -> u16 {
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
    /// Passes connections on to the server.
    fn proxy(&self) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (direct, proxied) = (self.direct, Arc::clone(&self.proxied));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                // The server may be down: then the client is refused, too.
                let Ok(server) = TcpStream::connect(("127.0.0.1", direct)) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let mut ends = (clone(from), clone(to));
                    from.set_nodelay(true).expect("a socket");
                    std::thread::spawn(move || {
                        let mut part = vec![0; 64 * 1024];
                        while let Ok(length @ 1..) = ends.0.read(&mut part) {
                            if ends.1.write_all(&part[..length]).is_err() {
                                break;
                            }
                        }
                        let _ = ends.1.shutdown(Shutdown::Both);
                    });
                }
                proxied.lock().push(client);
            }
        });
        port
    }

    /// Ends all connections of nodes. A node needs some milliseconds to connect again, so cuts that
    /// follow each other faster are one.
    pub fn cut(&self) {
        let mut last = self.last_cut.lock();
        if last.is_some_and(|last| last.elapsed() < Duration::from_millis(50)) {
            return;
        }
        *last = Some(Instant::now());
        for client in self.proxied.lock().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Starts the server again on its port.
    pub fn up(&self) {
        assert!(self.try_up(), "another program has taken the port");
    }

    /// Starts the server; returns whether it runs. It ends at once if another program has its port.
    fn try_up(&self) -> bool {
        let config = self.folder.path().join("server.conf");
        let settings = format!("listen: 127.0.0.1:{}\n{}\n", self.direct, self.settings);
        std::fs::write(&config, settings).expect("a file");
        let mut command = Command::new(program());
        command
            .arg("--config")
            .arg(&config)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect(
            "NATS is not installed: `apt-get install nats-server`, or name a server program in \
             LINCHPIN_TEST_NATS",
        );
        let until = Instant::now() + Duration::from_secs(30);
        while !self.answers() {
            if server.try_wait().expect("a child process").is_some() {
                return false;
            }
            assert!(Instant::now() < until, "NATS does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Another server may have answered on this port after ours has ended.
        if server.try_wait().expect("a child process").is_some() {
            return false;
        }
        *self.server.lock() = Some(server);
        true
    }

    fn answers(&self) -> bool {
        let mut greeting = [0; 4];
        TcpStream::connect(("127.0.0.1", self.direct))
            .and_then(|mut server| server.read_exact(&mut greeting))
            .is_ok()
    }

    /// Ends the server, which writes its data first.
    pub fn down(&self) {
        if let Some(mut server) = self.server.lock().take() {
            let asked = Command::new("kill").arg(server.id().to_string()).status();
            if !asked.is_ok_and(|status| status.success()) {
                let _ = server.kill();
            }
            let _ = server.wait();
        }
        assert!(TcpStream::connect(("127.0.0.1", self.direct)).is_err());
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket")
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.down();
    }
}
