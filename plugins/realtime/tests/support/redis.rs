//! Redis servers that tests start: single servers, and a cluster.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::ports::free_port;

/// A running server. Dropping the value ends it.
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

/// Starts a cluster of two masters. Each owns two ranges of slots.
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

/// Returns the server program: Redis, or Valkey if `LINCHPIN_TEST_REDIS` names it.
fn program() -> String {
    std::env::var("LINCHPIN_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Returns a free port for a server. The bus of a cluster listens on the port plus 10,000.
fn free_port_with_bus() -> u16 {
    loop {
        let port = free_port();
        if TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Redis {
    fn start(cluster: bool) -> Self {
        loop {
            let redis = Self {
                port: free_port_with_bus(),
                folder: tempfile::tempdir().expect("a folder"),
                cluster,
                server: Mutex::default(),
            };
            if redis.try_up() {
                return redis;
            }
        }
    }

    /// Waits until the state of the cluster contains this text.
    fn wait_for(&self, state: &str) {
        let until = Instant::now() + Duration::from_mins(1);
        while !self.cli(&["CLUSTER", "INFO"]).contains(state) {
            assert!(Instant::now() < until, "the cluster is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the server again on its port.
    pub fn up(&self) {
        assert!(self.try_up(), "another program has taken the port");
    }

    /// Starts the server. Returns whether it runs. It ends at once if another program uses its
    /// port.
    fn try_up(&self) -> bool {
        let mut command = Command::new(program());
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            // A sync is not necessary: the system keeps what a killed process has written to its
            // files.
            .args(["--appendonly", "yes", "--appendfsync", "no", "--save", ""])
            .args(["--cluster-enabled", if self.cluster { "yes" } else { "no" }])
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect(
            "Redis is not installed: `apt-get install redis-server`, or name a server program in LINCHPIN_TEST_REDIS",
        );
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            // After our server has ended, another one may answer on this port.
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

    pub fn try_cli(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("redis-cli");
        let out = command
            .args(["-p", &self.port.to_string()])
            .args(arguments)
            .output();
        let out = out.expect("redis-cli");
        out.status
            .success()
            .then(|| String::from_utf8(out.stdout).expect("text"))
    }

    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = self.try_cli(arguments).expect("an answer");
        assert!(!output.contains("ERR"), "{arguments:?}: {output}");
        output
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.down();
    }
}
