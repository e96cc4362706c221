//! NATS servers that tests start.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

/// A server, which ends with its test.
pub struct Nats {
    pub port: u16,
    pub folder: TempDir,
    settings: &'static str,
    server: Mutex<Option<Child>>,
}

/// The settings of a server with `JetStream`. A frame of the suite is longer than 1 MiB.
const JETSTREAM: &str = "max_payload: 4MB\njetstream { store_dir: 'store', max_file: 4GB }";

pub fn single() -> Nats {
    with_settings(JETSTREAM)
}

pub fn with_settings(settings: &'static str) -> Nats {
    loop {
        let nats = Nats {
            port: free_port(),
            folder: tempfile::tempdir().expect("a folder"),
            settings,
            server: Mutex::default(),
        };
        if nats.try_up() {
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
        *self.server.lock() = Some(server);
        true
    }

    fn name(&self) -> String {
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
            let asked = Command::new("kill").arg(server.id().to_string()).status();
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
