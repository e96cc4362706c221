//! The versions of the app as commands: each has a folder with its recorded migrations.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::Outcome;

/// The first version.
pub(crate) const START: &str = "start";
/// A field has another type.
pub(crate) const TEXT: &str = "text";
/// A field has another type; in addition, there is one change of each other kind.
pub(crate) const WIDE: &str = "wide";

/// How long a server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Versions {
    folder: PathBuf,
}

impl Versions {
    /// Records the migrations of each version.
    pub(crate) fn record(folder: &Path) -> Outcome<Self> {
        let versions = Self {
            folder: folder.to_owned(),
        };
        for version in [START, TEXT, WIDE] {
            let migrations = folder.join(version).join("migrations");
            fs::create_dir_all(&migrations)?;
            if version != START {
                for file in fs::read_dir(folder.join(START).join("migrations"))? {
                    let file = file?;
                    fs::copy(file.path(), migrations.join(file.file_name()))?;
                }
            }
            versions.run(version, "", &format!("record {version}"))?;
        }
        Ok(versions)
    }

    /// This program as a version of the app.
    fn program(&self, version: &str, url: &str) -> Outcome<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .current_dir(self.folder.join(version))
            .env("BENCH_VERSION", version)
            .env("BENCH_URL", url)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    /// A command `migrate ..`.
    pub(crate) fn migrate(&self, version: &str, url: &str, words: &str) -> Outcome<Command> {
        let mut command = self.program(version, url)?;
        command
            .arg("migrate")
            .args(words.split_whitespace())
            .args(["--quiet", "--json"])
            .stdout(Stdio::piped());
        Ok(command)
    }

    /// Runs a command that must succeed, and returns its result.
    pub(crate) fn run(&self, version: &str, url: &str, words: &str) -> Outcome<Json> {
        let output = self.migrate(version, url, words)?.output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(format!("{version}: migrate {words}: {text}").into());
        }
        let mut json: Json = serde_json::from_slice(&output.stdout)?;
        Ok(json["result"].take())
    }

    /// The arguments that start the backfill of the current plan without a backup of the file.
    pub(crate) fn backfill(&self, version: &str, url: &str) -> Outcome<String> {
        let plan = self.run(version, url, "plan")?;
        let digest = plan["approvalDigest"].as_str().ok_or("no approval")?;
        Ok(format!(
            "apply --phase backfill --no-backup --approve {digest}"
        ))
    }

    /// Starts a server.
    pub(crate) fn serve(&self, version: &str, url: &str) -> Outcome<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut program = self.program(version, url)?;
        let child = program
            .arg("serve")
            .env("BENCH_PORT", port.to_string())
            .stdout(Stdio::null())
            .spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Server {
            child: Running(child),
            address,
        };
        let end = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > end {
                return Err(format!("version {version} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// A process; killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
pub(crate) struct Server {
    child: Running,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Sends the stop signal and waits until the server has ended, so that its lease has ended too.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        let pid = self.child.0.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        self.child.0.wait()?;
        Ok(())
    }
}
