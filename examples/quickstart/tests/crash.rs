//! Kills the program repeatedly during writes. After each crash the database file must open,
//! acknowledged writes must be stored, and no write may be partial.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use example_support::ports::free_port;

const SECRET: &str = "a-secret-of-the-crash-test-32-bytes";
const ROUNDS: u64 = 20;
const WRITERS: u64 = 8;

/// A running program, without a shutdown at the end.
struct App {
    child: Child,
    port: u16,
}

impl App {
    fn start(folder: &Path) -> Self {
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_quickstart"))
            .current_dir(folder)
            .env("LINCHPIN_PORT", port.to_string())
            .env("LINCHPIN_SIGNING_SECRET", SECRET)
            .env("LINCHPIN_DATABASE_URL", "sqlite:crash.db")
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let app = Self { child, port };
        let deadline = Instant::now() + Duration::from_mins(1);
        while Instant::now() < deadline {
            if let Some(Ok((200, _))) =
                Client::connect(app.port).map(|mut c| c.send("GET", "/health/ready", "", ""))
            {
                return app;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the program does not get ready");
    }

    fn kill(mut self) {
        // SIGKILL: no signal handler runs, and no buffer is flushed.
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

/// One keep-alive connection.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
        Some(Self {
            stream: BufReader::new(stream),
        })
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
    ) -> std::io::Result<(u16, String)> {
        let kind = if body.is_empty() {
            ""
        } else {
            "content-type: application/json\r\n"
        };
        let authorization = if token.is_empty() {
            String::new()
        } else {
            format!("authorization: Bearer {token}\r\n")
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}{authorization}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let broken = || std::io::Error::other("the connection broke");
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .ok_or_else(broken)?;
        let mut length = 0;
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(broken());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| broken())?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// A token of an account. Its session must survive every crash.
fn token(folder: &Path) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_quickstart"))
        .args(["token", "crash@example.com", "--role", "admin"])
        .current_dir(folder)
        .env("LINCHPIN_SIGNING_SECRET", SECRET)
        .env("LINCHPIN_DATABASE_URL", "sqlite:crash.db")
        .output()
        .expect("a token");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// The text of a member of a JSON object.
fn member_text(json: &str, name: &str) -> String {
    let value: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{e} in {json}"));
    value[name]
        .as_str()
        .map_or_else(|| value[name].to_string(), str::to_owned)
}

/// Creates and publishes posts until the connection breaks; records the acknowledged ones.
fn write(port: u16, token: &str, name: &str, acknowledged: &Mutex<BTreeMap<String, &'static str>>) {
    let Some(mut client) = Client::connect(port) else {
        return;
    };
    for n in 0.. {
        let body = format!(r#"{{"slug":"{name}-{n}","title":"Post {n} of {name}"}}"#);
        let Ok((status, answer)) = client.send("POST", "/posts", token, &body) else {
            return;
        };
        assert_eq!(status, 201, "{answer}");
        let id = member_text(&answer, "id");
        acknowledged
            .lock()
            .expect("a lock")
            .insert(id.clone(), "draft");
        let Ok((status, answer)) = client.send("POST", &format!("/posts/{id}/publish"), token, "")
        else {
            // The program was killed before the response, so both states are valid.
            acknowledged.lock().expect("a lock").insert(id, "either");
            return;
        };
        assert_eq!(status, 200, "{answer}");
        acknowledged.lock().expect("a lock").insert(id, "published");
    }
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = token(folder.path());
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let mut checked = 0;
    for round in 0..ROUNDS {
        let app = App::start(folder.path());
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let (port, token, acknowledged) =
                    (app.port, token.clone(), Arc::clone(&acknowledged));
                std::thread::spawn(move || {
                    write(port, &token, &format!("r{round}-w{w}"), &acknowledged)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(60 + 17 * round));
        app.kill();
        for writer in writers {
            writer.join().expect("a writer");
        }

        let connection =
            rusqlite::Connection::open(folder.path().join("crash.db")).expect("the file opens");
        let integrity: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("an answer");
        assert_eq!(integrity, "ok");
        let partial_transitions: i64 = connection
            .query_row("SELECT count(*) FROM blog_posts WHERE (status = 'published') <> (published_at IS NOT NULL)", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(partial_transitions, 0, "a transition was written in part");
        drop(connection);

        let app = App::start(folder.path());
        let mut client = Client::connect(app.port).expect("a connection");
        for (id, status) in acknowledged.lock().expect("a lock").iter() {
            let (code, answer) = client
                .send("GET", &format!("/posts/{id}"), &token, "")
                .expect("an answer");
            assert_eq!(
                code, 200,
                "acknowledged {id} is lost in round {round}: {answer}"
            );
            assert!(
                *status == "either" || member_text(&answer, "status") == *status,
                "{answer}"
            );
            checked += 1;
        }
        app.kill();
    }
    assert!(
        checked > 100,
        "only {checked} writes were acknowledged: the test tests nothing"
    );
}
