//! `PostgreSQL`: installed for the tests of its store, and started for the benchmarks.

#[path = "../../runtime/tests/support/programs.rs"]
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ports::free_port;

/// Installs PostgreSQL and its connection pooler if they are missing. The error names the program
/// that cannot be installed; xtask prints it before the tests of the store fail.
pub(crate) fn install() -> Result<(), String> {
    let server =
        || std::env::var_os("LINCHPIN_TEST_POSTGRES").is_some() || programs::folder().is_some();
    let pooler = || programs::pooler().is_some();
    let mut missing = Vec::new();
    if !server() {
        missing.push("postgresql");
    }
    if !pooler() {
        missing.push("pgbouncer");
    }
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!(
        "xtask: installing missing Debian packages: {}",
        missing.join(", ")
    );
    crate::peers::apt(&missing);
    if !server() {
        return Err("PostgreSQL is not installed, and its store cannot be tested: run `apt-get install postgresql`, or set LINCHPIN_TEST_POSTGRES to the URL of a server".to_owned());
    }
    if !pooler() {
        return Err("PgBouncer is not installed, and the test of migrations behind a pooler fails: `apt-get install pgbouncer`".to_owned());
    }
    Ok(())
}

/// A server on a free port with its default settings; stopped and removed on drop.
pub(crate) struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Cluster {
    /// Creates a server below a directory, and starts it.
    pub(crate) fn start(below: &Path) -> Result<Self, String> {
        install()?;
        let bin = programs::folder()
            .ok_or("PostgreSQL is not installed: `apt-get install postgresql`")?;
        let port = free_port();
        let folder = below.join("postgres");
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let mut cluster = Self {
            bin,
            folder,
            port,
            server: None,
        };
        if programs::is_root() {
            run_to_end(
                Command::new("chown")
                    .arg(programs::NOBODY)
                    .arg(&cluster.folder),
            )?;
        }
        let data = cluster.folder.join("data");
        run_to_end(cluster.program("initdb").arg("-D").arg(&data).args([
            "-U",
            "bench",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]))?;
        let (listen, sockets) = ("listen_addresses=127.0.0.1", "unix_socket_directories=");
        let mut server = cluster.program("postgres");
        server
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", listen, "-c", sockets]);
        cluster.server = Some(
            server
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|e| format!("postgres: {e}"))?,
        );
        let until = Instant::now() + Duration::from_mins(1);
        while cluster.sql("SELECT 1").is_err() {
            if Instant::now() > until {
                return Err("PostgreSQL does not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cluster)
    }

    /// The URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://bench@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs a statement on the default database.
    pub(crate) fn sql(&self, text: &str) -> Result<(), String> {
        let mut psql = Command::new(self.bin.join("psql"));
        run_to_end(psql.args([
            "-qX",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            text,
            &self.url("postgres"),
        ]))
    }

    /// A command for a program of PostgreSQL. If xtask runs as root, the command runs as `nobody`,
    /// because the server refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let program = self.bin.join(name);
        let [first, rest @ ..] = programs::prefix() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // An immediate shutdown; SIGKILL would leave its child processes running.
            let _ = Command::new("kill")
                .args(["-QUIT", &server.id().to_string()])
                .status();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a command to its end; on failure the error contains its output.
fn run_to_end(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        ))
    }
}
