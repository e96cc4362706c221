//! Redis servers that tests start: single ones, and one that is a cluster.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

/// A server, which ends with its test.
pub struct Redis {
    pub port: u16,
    folder: TempDir,
    pub cluster: bool,
    server: Mutex<Option<Child>>,
}

pub fn single() -> Redis {
    Redis::start(false)
}

#[allow(dead_code)] // not every test needs a cluster
pub fn cluster() -> Redis {
    let redis = Redis::start(true);
    redis.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    redis.wait_for("cluster_state:ok");
    redis
}

/// A cluster of two masters. Each owns two ranges of slots.
#[allow(dead_code)] // not every test needs a cluster
pub fn masters() -> [Redis; 2] {
    let all = [Redis::start(true), Redis::start(true)];
    let [first, second] = &all;
    first.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "4095", "8192", "12287"]);
    second.cli(&["CLUSTER", "ADDSLOTSRANGE", "4096", "8191", "12288", "16383"]);
    first.cli(&["CLUSTER", "MEET", "127.0.0.1", &second.port.to_string()]);
    for one in &all {
        one.wait_for("cluster_slots_assigned:16384");
        one.wait_for("cluster_state:ok");
    }
    all
}

/// The program: Redis, or Valkey if `LINCHPIN_TEST_REDIS` names it.
fn program() -> String {
    std::env::var("LINCHPIN_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

/// A port for a server. Ports that the system gives to clients are not used: a connection could take
/// the port between this call and the start of the server. The bus of a cluster listens on the port
/// plus 10 000.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        // Processes that run at the same time begin at different ports.
        let next = std::process::id()
            .wrapping_mul(131)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 11_000 + u16::try_from(next % 9_000).expect("less than 9 000");
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

impl Redis {
    fn start(cluster: bool) -> Self {
        loop {
            let redis = Self {
                port: free_port(),
                folder: tempfile::tempdir().expect("a folder"),
                cluster,
                server: Mutex::default(),
            };
            if redis.try_up() {
                return redis;
            }
        }
    }

    /// Waits until the cluster says this of itself.
    fn wait_for(&self, state: &str) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.cli(&["CLUSTER", "INFO"]).contains(state) {
            assert!(Instant::now() < until, "the cluster is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the server again on its port.
    pub fn up(&self) {
        assert!(self.try_up(), "another program has taken the port");
    }

    /// Starts the server; returns whether it runs. It ends at once if another program has its port.
    fn try_up(&self) -> bool {
        let mut command = Command::new(program());
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            // The data of a killed process stays in the files without a write to the disk.
            .args(["--appendonly", "yes", "--appendfsync", "no", "--save", ""])
            .args(["--cluster-enabled", if self.cluster { "yes" } else { "no" }])
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect(
            "Redis is not installed: `apt-get install redis-server`, or name a server program in LINCHPIN_TEST_REDIS",
        );
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            // Another server may answer on this port after ours has ended.
            let answers = self
                .try_cli(&["PING"])
                .is_some_and(|pong| pong.trim() == "PONG");
            if server.try_wait().expect("a child process").is_some() {
                return false;
            }
            if answers {
                break;
            }
            assert!(Instant::now() < until, "Redis does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        *self.server.lock() = Some(server);
        true
    }

    pub fn down(&self) {
        if let Some(mut server) = self.server.lock().take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err());
    }

    pub fn try_cli(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new("redis-cli");
        let out = command
            .args(["-p", &self.port.to_string()])
            .args(words)
            .output();
        let out = out.expect("redis-cli");
        out.status
            .success()
            .then(|| String::from_utf8(out.stdout).expect("text"))
    }

    pub fn cli(&self, words: &[&str]) -> String {
        let said = self.try_cli(words).expect("an answer");
        assert!(!said.contains("ERR"), "{words:?}: {said}");
        said
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.down();
    }
}
