//! Processes of serving apps, which run until a start is refused or until the test stops them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::AppFolder;

/// The settings of production.
pub const PRODUCTION: [(&str, &str); 2] = [
    ("LINCHPIN_ENVIRONMENT", "production"),
    (
        "LINCHPIN_SIGNING_SECRET",
        "o7Qw1kX9vT2mB4cR8zN5yH3jL6pS0dFg",
    ),
];

/// A server that is running.
pub struct Served {
    child: Child,
    address: String,
    /// The log until the server listens.
    pub log: String,
}

/// The response to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Json,
}

impl AppFolder {
    /// Sets the generation of the next process. Processes that start concurrently read the same
    /// file.
    pub fn choose(&self, generation: &str) {
        let file = self.folder.path().join("app");
        if std::fs::read_to_string(&file).is_ok_and(|chosen| chosen == generation) {
            return;
        }
        std::fs::write(file, generation).unwrap();
    }

    /// Starts the app of a generation on a database.
    ///
    /// # Errors
    /// The exit status and standard error of a start that is refused.
    pub fn serve(
        &self,
        generation: &str,
        url: &str,
        variables: &[(&str, &str)],
    ) -> Result<Served, (i32, String)> {
        self.serves(generation, url, variables)
            .map_err(|(child, log)| {
                let mut child = child;
                (child.wait().unwrap().code().unwrap(), log)
            })
    }

    #[allow(clippy::zombie_processes)] // the caller waits until the process serves
    fn serves(
        &self,
        generation: &str,
        url: &str,
        variables: &[(&str, &str)],
    ) -> Result<Served, (Child, String)> {
        self.choose(generation);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "app", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .current_dir(self.folder.path())
            .env_clear()
            .env("LINCHPIN_DATABASE_URL", url)
            .env("LINCHPIN_PORT", "0")
            .env("LINCHPIN_HOST", "127.0.0.1")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        loop {
            let begin = log.len();
            if lines.read_line(&mut log).unwrap() == 0 {
                child.wait().unwrap();
                return Err((child, log));
            }
            if let Some((_, address)) = log[begin..].split_once("listening on http://") {
                let address = address.trim().to_owned();
                // The process must not wait for a reader of its log.
                std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return Ok(Served {
                    child,
                    address,
                    log,
                });
            }
        }
    }
}

impl Served {
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "")
    }

    pub fn post(&self, path: &str, body: &Json) -> Answer {
        self.request("POST", path, &body.to_string())
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head[9..12].parse().unwrap(),
            body: serde_json::from_str(body).unwrap_or_default(),
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// Stops the process with the signal of a supervisor, and waits for its end.
    pub fn stop(mut self) {
        self.signal("-TERM");
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After `stop`, the process has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
