//! Redis servers that tests start: single ones, and one that is a cluster.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
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
    let until = Instant::now() + Duration::from_secs(30);
    while !redis.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        assert!(Instant::now() < until, "the cluster is not ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    redis
}

/// The program: Redis, or Valkey if `LINCHPIN_TEST_REDIS` names it.
fn program() -> String {
    std::env::var("LINCHPIN_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

impl Redis {
    fn start(cluster: bool) -> Self {
        // The bus of a cluster listens on the port plus 10 000.
        let port = loop {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
            let port = free.expect("a free port").port();
            if port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
                break port;
            }
        };
        let redis = Self {
            port,
            folder: tempfile::tempdir().expect("a folder"),
            cluster,
            server: Mutex::default(),
        };
        redis.up();
        redis
    }

    pub fn up(&self) {
        let mut command = Command::new(program());
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args([
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ])
            .args(["--cluster-enabled", if self.cluster { "yes" } else { "no" }])
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = command.spawn().expect(
            "Redis is not installed: `apt-get install redis-server`, or name a server program in LINCHPIN_TEST_REDIS",
        );
        *self.server.lock() = Some(server);
        let until = Instant::now() + Duration::from_secs(30);
        while self
            .try_cli(&["PING"])
            .is_none_or(|pong| pong.trim() != "PONG")
        {
            assert!(Instant::now() < until, "Redis does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
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
