//! The servers under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ports::free_port;
use crate::steps::target;

/// Builds the benchmark programs in release mode; all of them, or the named ones.
pub(super) fn build(only: &[&str], feature: Option<&str>) -> Result<PathBuf, String> {
    let mut command = crate::cargo(&["build", "--release", "--package", "linchpin-benches"]);
    for name in only {
        command.args(["--bin", name]);
    }
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    crate::step("release build", command)?;
    Ok(target().join("release"))
}

/// Builds programs with the settings of tests; returns their directory. The build of the tests has
/// already compiled all that the programs depend on. Cargo enables the features that tests need
/// only if a test or an example is selected, and any example has this effect.
pub(super) fn build_as_tests(programs: &[&str]) -> Result<PathBuf, String> {
    let mut command = crate::cargo(&["build", "--workspace", "--exclude", crate::test::SEARCH]);
    for name in programs {
        command.args(["--bin", name]);
    }
    command
        .args(["--profile", "test", "--example", crate::EXAMPLE])
        .args(crate::FEATURES);
    crate::test::lints::with_lints(&mut command)?;
    crate::step("programs of the instruction gate", command)?;
    Ok(target().join("debug"))
}

/// Runs a function with a temporary directory.
pub(super) fn in_folder<T>(work: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
    let folder = std::env::temp_dir().join(format!("linchpin-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let done = work(&folder);
    // The copies of the seeded file are removed, even after an error.
    let _ = fs::remove_dir_all(&folder);
    done
}

pub(super) fn run_to_end(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}

/// A number in a flat JSON object.
pub(super) fn number(json: &str, name: &str) -> Option<f64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

/// A server under test; killed when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts a server, or a tool that runs one, with a port and the URL of its database as the
    /// last arguments.
    pub(super) fn start(mut command: Command, url: &str) -> Result<Self, String> {
        let port = free_port();
        // The log of the server, on stderr, has the causes of refused requests.
        let child = command
            .arg(port.to_string())
            .arg(url)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| format!("{command:?}: {e}"))?;
        let mut server = Self { child, port };
        let until = Instant::now() + Duration::from_mins(1);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            server.check_running()?;
            if Instant::now() > until {
                return Err(format!("{command:?} does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Sends the stop signal and waits for the end.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.check_running()?;
        let pid = self.child.id().to_string();
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .map_err(|e| e.to_string())?;
        self.child.wait().map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Fails if the server has ended.
    fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait().map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(ended) => Err(format!("the server ended by itself: {ended}")),
        }
    }

    fn proc(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    /// The resident memory in MB.
    pub(super) fn rss_mb(&self) -> f64 {
        let status = self.proc("status");
        let line = status
            .lines()
            .find(|l| l.starts_with("VmRSS:"))
            .unwrap_or_default();
        line.split_whitespace()
            .nth(1)
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0)
            / 1024.0
    }

    /// The CPU time so far.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        let ticks = |i: usize| {
            fields
                .get(i)
                .and_then(|n| n.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        // `utime` and `stime`, in hundredths of a second on every Linux.
        (ticks(11) + ticks(12)) / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
