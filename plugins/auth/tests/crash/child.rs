//! A server in a child process, and the commands that the test sends to it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use linchpin::axum::body::Bytes;
use linchpin::axum::http::Request;
use linchpin::prelude::*;
use linchpin::store::Store;
use linchpin::{BoxFuture, Running};
use linchpin_auth::{
    Argon2Cost, Auth, AuthService, Clock, Env, FakeClock, Limit, Mail, Mailer, NewUser, SecretText,
};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::stopping::{Stop, Then, stopping};

/// The variable with the URL of a child's store.
pub const URL: &str = "LINCHPIN_CRASH_URL";
/// The variables with the grace period of deletions, and with the time that has passed when the
/// child starts. Both are seconds.
const GRACE: &str = "LINCHPIN_CRASH_GRACE";
const PASSED: &str = "LINCHPIN_CRASH_PASSED";
/// The prefix of the command that advances the clock by seconds.
const PASS: &str = "pass ";

/// The administrator, who reads the audit log.
pub const ROOT: &str = "root@x.test";

pub const GOOD: &str = "violet-otter-91-lamp";
pub const NEW: &str = "amber-walrus-17-dune";

/// A mailer that drops all mail.
struct DroppingMailer;

impl Mailer for DroppingMailer {
    fn send(&self, _: Mail) -> BoxFuture<'_, linchpin::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// Starts the app on a store. Returns its clock, which does not advance until the test moves it.
pub async fn app(store: Arc<dyn Store>, grace: u64) -> (Running, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::at(
        Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap(),
    ));
    let running = app_at(store, grace, Arc::clone(&clock)).await;
    (running, clock)
}

async fn app_at(store: Arc<dyn Store>, grace: u64, clock: Arc<FakeClock>) -> Running {
    let env = Env {
        clock: Arc::clone(&clock) as _,
        ..Env::system()
    };
    let auth = Auth::new()
        .refresh_tokens()
        .roles(["admin", "member"])
        .default_role("member")
        .env(env)
        .configure(|config| {
            let auth = &mut config.auth;
            auth.password.argon2 = Argon2Cost::OF_TESTS;
            auth.password.history_count = 2;
            auth.refresh.grace_seconds = 60;
            auth.account_deletion.grace_seconds = grace;
            auth.admin_role = Some("admin".to_owned());
            auth.mailer = Some(Arc::new(DroppingMailer));
            // The usual limits, except for these buckets, because the cases repeat their requests.
            for bucket in [
                "register",
                "login",
                "loginIp",
                "refreshIp",
                "proof",
                "loginIdentifier",
                "loginSpread",
            ] {
                auth.rate_limit.buckets.insert(
                    bucket.to_owned(),
                    Limit {
                        max: 100_000,
                        window_seconds: 3600,
                    },
                );
            }
        });
    let config = Config::new()
        .signing_secret("a-secret-of-tests-of-32-bytes-or-more")
        .port(0);
    let running = App::new(config)
        .plugin(auth)
        .clock(move || clock.now())
        .store(store)
        .start()
        .await
        .unwrap();
    let mut root = NewUser::new(ROOT);
    root.password = Some(SecretText::new(GOOD));
    root.roles = Some(vec!["admin".to_owned()]);
    match running
        .adapters()
        .provided::<AuthService>()
        .unwrap()
        .create_user(root)
        .await
    {
        Err(error) if error.code() != linchpin::Code::Conflict => panic!("{error}"),
        _ => running,
    }
}

/// The child process: it serves until it is killed, and stops at the given write.
pub async fn serve() {
    let Ok(url) = std::env::var(URL) else { return };
    let variable = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let stop = Stop::new(|| {
        println!("STOPPED");
        Then::Wait
    });
    let clock = Arc::new(FakeClock::at(
        Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap(),
    ));
    clock.advance(Duration::from_secs(variable(PASSED)));
    let running = app_at(open(&url, &stop), variable(GRACE), Arc::clone(&clock)).await;
    println!("PORT {}", running.address().port());
    let commands = std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.strip_prefix(PASS) {
                Some(seconds) => clock.advance(Duration::from_secs(seconds.parse().unwrap())),
                None => stop.after(line.parse().unwrap()),
            }
            println!("ARMED");
        }
    });
    // Runs until the parent closes its input.
    while !commands.is_finished() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn open(url: &str, stop: &Arc<Stop>) -> Arc<dyn Store> {
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        use linchpin::store::postgres::{PostgresOptions, PostgresStore};
        return stopping(
            PostgresStore::open(PostgresOptions::new(url)).unwrap(),
            stop,
        );
    }
    use linchpin::store::sqlite::{SqliteOptions, SqliteStore};
    let path = url.strip_prefix("sqlite:").unwrap();
    stopping(SqliteStore::open(SqliteOptions::new(path)).unwrap(), stop)
}

/// A client of the server at a port.
#[derive(Clone)]
pub struct Peer {
    port: u16,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Json,
}

impl Answer {
    pub fn text(&self, member: &str) -> String {
        self.body[member].as_str().unwrap_or_default().to_owned()
    }
}

impl Peer {
    pub fn at(port: u16) -> Self {
        Self {
            port,
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
        }
    }

    /// Sends a request; returns `None` if the server no longer responds.
    pub async fn ask(&self, method: &str, path: &str, token: &str, body: Json) -> Option<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}/auth/{path}", self.port));
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_null() {
            request = request.header("content-type", "application/json");
        }
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self
            .client
            .request(request.body(Full::new(Bytes::from(text))).unwrap())
            .await
            .ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some(Answer {
            status,
            body: serde_json::from_slice(&body).unwrap(),
        })
    }

    pub async fn post(&self, path: &str, body: Json) -> Answer {
        self.ask("POST", path, "", body).await.unwrap()
    }

    pub async fn register(&self, email: &str) -> Answer {
        self.post("register", json!({ "email": email, "password": GOOD }))
            .await
    }

    pub async fn login(&self, email: &str, password: &str) -> Answer {
        self.post("login", json!({ "email": email, "password": password }))
            .await
    }

    pub async fn me(&self, token: &str) -> u16 {
        self.ask("GET", "me", token, Json::Null)
            .await
            .unwrap()
            .status
    }
}

/// A child process that is killed by SIGKILL when it is dropped.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    /// The number of printed `ARMED` and `STOPPED` lines.
    printed: watch::Receiver<(usize, usize)>,
    pub peer: Peer,
}

impl Process {
    /// Starts the app on the store at a URL, with a grace period of deletions and a clock that is
    /// `passed` seconds later.
    pub fn start(url: &str, grace: u64, passed: u64) -> Self {
        Self::with(
            "serve",
            &[
                (URL, url),
                (GRACE, &grace.to_string()),
                (PASSED, &passed.to_string()),
            ],
        )
    }

    /// Starts a child that runs another ignored test.
    #[cfg(feature = "postgres")]
    pub fn of(test: &str, url: &str) -> Self {
        Self::with(test, &[(URL, url)])
    }

    fn with(test: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--ignored",
                "--exact",
                test,
                "--nocapture",
                "--test-threads=1",
            ])
            .envs(variables.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let port = lines.by_ref().find_map(|line| {
            line.rsplit_once("PORT ")
                .and_then(|(_, port)| port.parse().ok())
        });
        let (sender, printed) = watch::channel((0, 0));
        std::thread::spawn(move || {
            for line in lines {
                sender.send_modify(|(armed, stopped)| {
                    *armed += usize::from(line.ends_with("ARMED"));
                    *stopped += usize::from(line.ends_with("STOPPED"));
                });
            }
        });
        Self {
            child,
            stdin,
            printed,
            peer: Peer::at(port.expect("the server did not start")),
        }
    }

    /// Makes the child stop after it has passed this number of points.
    pub async fn stop_after(&mut self, points: i64) {
        self.send_command(points).await;
    }

    /// Moves the clock forward.
    pub async fn pass(&mut self, seconds: u64) {
        self.send_command(format!("{PASS}{seconds}")).await;
    }

    /// Sends a command, and waits until the server has executed it.
    pub async fn send_command(&mut self, what: impl std::fmt::Display) {
        let before = self.printed.borrow().0;
        writeln!(self.stdin, "{what}").unwrap();
        self.printed
            .wait_for(|(armed, _)| *armed > before)
            .await
            .unwrap();
    }

    /// Waits until the child has stopped at a write.
    pub async fn wait_until_stopped(&mut self) {
        self.printed
            .wait_for(|(_, stopped)| *stopped > 0)
            .await
            .unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `kill` sends SIGKILL: the child cannot clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
