//! What authentication costs and what its times give away: whether answers about accounts take the same time with and without one, what
//! a checked session adds to a request, and what other routes feel of many sign-ins at once.
//!
//! `cargo xtask bench --auth` builds and runs it; alone, on a quiet machine. It ends with 1 when a bound does not hold.
#![allow(missing_docs)] // a program

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linchpin::BoxFuture;
use linchpin::prelude::*;
use linchpin_auth::{Auth, Limit, Mail, Mailer};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A record that everybody may read, and the same behind a session.
#[entity(namespace = "bench", path = "open", routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Open {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

/// The same behind a session.
#[entity(namespace = "bench", path = "closed", routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Closed {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

static ENTRY: Package = package!(name = "bench", entities = [entity(Open), entity(Closed)]);

const PASSWORD: &str = "violet-otter-91-lamp";
const WRONG: &str = "wrong-otter-91-lamp";

/// Tries of each class, turn by turn (contract 8.5).
const TRIES: usize = 200;
/// How far the medians of two classes may lie apart: the larger of both.
const APART: Duration = Duration::from_millis(2);
const SHARE: f64 = 0.05;

/// Requests over one connection, for the cost of a session.
const READS: usize = 20_000;
/// Sign-ins at a time.
const LOGINS: usize = 64;
/// How long other routes are read beside them.
const BESIDE: Duration = Duration::from_secs(10);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("linchpin-bench-auth-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let outcome = measure(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    if outcome? { Ok(()) } else { std::process::exit(1) }
}

/// Mail arrives nowhere.
struct Nowhere;

impl Mailer for Nowhere {
    fn send(&self, _: Mail) -> BoxFuture<'_, linchpin::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

async fn start(folder: &std::path::Path, name: &str, concealed: bool) -> Outcome<linchpin::Running> {
    let auth = Auth::new().configure(|config| {
        let auth = &mut config.auth;
        auth.mailer = Some(Arc::new(Nowhere));
        auth.email_verification.enabled = true;
        auth.conceal_registration = concealed;
        auth.magic_link.enabled = true;
        for page in [&mut auth.email_verification.link_base_url, &mut auth.magic_link.link_base_url, &mut auth.password_reset.link_base_url]
        {
            *page = Some("https://app.test/page".into());
        }
        // Counted as ever, but for as many as are measured.
        for bucket in [
            "register",
            "login",
            "loginIp",
            "loginSpread",
            "loginIdentifier",
            "passwordLockout",
            "forgot",
            "forgotIdentifier",
            "resend",
            "resendIdentifier",
            "magicRequest",
            "magicRequestIdentifier",
        ] {
            auth.rate_limit.buckets.insert(bucket.to_owned(), Limit { max: 1_000_000, window_seconds: 3600 });
        }
    });
    let database = format!("sqlite:{}", folder.join(name).display());
    let config = Config::new().signing_secret("a-secret-of-benches-of-32-bytes-or-more").port(0).database(database);
    Ok(App::new(config).plugin(auth).package(&ENTRY).start().await?)
}

/// One connection that stays.
struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    async fn to(running: &linchpin::Running) -> Outcome<Self> {
        let stream = TcpStream::connect(running.address()).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and reads the whole answer: its status, its body, and how long that took.
    async fn ask(&mut self, request: &[u8]) -> Outcome<(u16, Vec<u8>, Duration)> {
        let begun = Instant::now();
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
        let status = text.split(' ').nth(1).ok_or("no status")?.parse()?;
        let length: usize =
            text.lines().find_map(|line| line.strip_prefix("content-length:")).ok_or("no content-length")?.trim().parse()?;
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        Ok((status, self.buffer[head..].to_vec(), begun.elapsed()))
    }

    async fn more(&mut self) -> Outcome<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err("the server hung up".into());
        }
        Ok(())
    }
}

fn post(path: &str, body: &Json) -> Vec<u8> {
    let body = body.to_string();
    format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn get(path: &str, token: &str) -> Vec<u8> {
    let credential = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{credential}\r\n").into_bytes()
}

/// The time below which a share of all lies.
fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a place in a short list
    let at = ((times.len() as f64) * share) as usize;
    times[at.min(times.len() - 1)]
}

fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

async fn measure(folder: &std::path::Path) -> Outcome<bool> {
    let running = start(folder, "open.db", false).await?;
    let mut line = Line::to(&running).await?;
    let (status, body, _) = line.ask(&post("/auth/register", &json!({ "email": "known@x.test", "password": PASSWORD }))).await?;
    assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
    let token = serde_json::from_slice::<Json>(&body)?["token"].as_str().unwrap_or_default().to_owned();
    let service = running.adapters().provided::<linchpin_auth::AuthService>()?;
    service.create_user(linchpin_auth::NewUser::new("without@x.test")).await?;

    println!("## Answers that must not tell whether there is an account\n");
    println!("| asked | of a known one, ms | of an unknown one, ms | apart | bound |\n|---|---|---|---|---|");
    let login = |email: &str| post("/auth/login", &json!({ "email": email, "password": WRONG }));
    let mut holds = true;
    let nobody = |n: usize| format!("nobody{n}@x.test");
    holds &= pair(&mut line, "sign-in, wrong password", 401, |_| login("known@x.test"), |n| login(&nobody(n))).await?;
    holds &= pair(&mut line, "sign-in, account without a password", 401, |_| login("without@x.test"), |n| login(&nobody(n))).await?;
    for (name, path, member) in [
        ("forgotten password", "/auth/forgot-password", "email"),
        ("verification, again", "/auth/resend-verification", "email"),
        ("link to sign in", "/auth/magic-link/request", "identifier"),
    ] {
        let ask = |email: &str| post(path, &json!({ member: email }));
        holds &= pair(&mut line, name, 200, |_| ask("known@x.test"), |n| ask(&nobody(n))).await?;
    }
    let hidden = start(folder, "concealed.db", true).await?;
    let mut to_hidden = Line::to(&hidden).await?;
    let register = |email: &str| post("/auth/register", &json!({ "email": email, "password": PASSWORD }));
    to_hidden.ask(&register("known@x.test")).await?;
    holds &= pair(&mut to_hidden, "concealed sign-up", 202, |_| register("known@x.test"), |n| register(&nobody(n))).await?;
    drop(to_hidden);
    hidden.stop().await?;

    println!("\n## What a checked session costs\n\n| route | requests/s | p50 ms | p99 ms |\n|---|---|---|---|");
    let cx = Cx::system("bench");
    running.adapter::<Open>()?.create(&cx, OpenCreate { id: "a".into(), text: "text".into() }).await?;
    running.adapter::<Closed>()?.create(&cx, ClosedCreate { id: "a".into(), text: "text".into() }).await?;
    let routes = [
        ("auth = none", get("/open/a", "")),
        ("auth = none, with a token", get("/open/a", &token)),
        ("auth = \"userAuth\"", get("/closed/a", &token)),
        ("GET /auth/me", get("/auth/me", &token)),
    ];
    for (name, request) in &routes {
        println!("| {name} | {} |", reads(&mut line, request).await?);
    }

    println!(
        "\n## What other routes feel of {LOGINS} sign-ins at a time\n\n| route | alone, p99 ms | beside them, p99 ms |\n|---|---|---|"
    );
    for (name, request) in &routes[..3] {
        println!("| {name} | {} |", beside(&running, request).await?);
    }
    println!("\nSign-ins answered 503 because too many wait are part of it: the queue is bounded.");
    drop(line);
    running.stop().await?;
    println!("\n{}", if holds { "All bounds hold." } else { "A bound does not hold." });
    Ok(holds)
}

/// Asks about a known and an unknown account turn by turn; whether the medians lie close enough.
async fn pair(
    line: &mut Line,
    name: &str,
    expected: u16,
    known: impl Fn(usize) -> Vec<u8>,
    unknown: impl Fn(usize) -> Vec<u8>,
) -> Outcome<bool> {
    let (mut first, mut second) = (Vec::with_capacity(TRIES), Vec::with_capacity(TRIES));
    for n in 0..TRIES + 10 {
        // Who comes first changes, so that neither always finds what the other has warmed.
        for turn in 0..2 {
            let of_known = (n + turn) % 2 == 0;
            let request = if of_known { known(n) } else { unknown(n) };
            let (status, body, took) = line.ask(&request).await?;
            if status != expected {
                return Err(format!("{name}: {status} {}", String::from_utf8_lossy(&body)).into());
            }
            if n >= 10 {
                if of_known { first.push(took) } else { second.push(took) }
            }
        }
    }
    let (first, second) = (quantile(&mut first, 0.5), quantile(&mut second, 0.5));
    let apart = first.abs_diff(second);
    let bound = first.max(second).mul_f64(SHARE).max(APART);
    println!("| {name} | {} | {} | {} ms | {} ms |", millis(first), millis(second), millis(apart), millis(bound));
    Ok(apart < bound)
}

async fn reads(line: &mut Line, request: &[u8]) -> Outcome<String> {
    let mut times = Vec::with_capacity(READS);
    let begun = Instant::now();
    for _ in 0..READS {
        let (status, _, took) = line.ask(request).await?;
        assert_eq!(status, 200);
        times.push(took);
    }
    #[allow(clippy::cast_precision_loss)] // thousands
    let rate = READS as f64 / begun.elapsed().as_secs_f64();
    let mut out = String::new();
    write!(out, "{rate:.0} | {} | {}", millis(quantile(&mut times, 0.5)), millis(quantile(&mut times, 0.99)))?;
    Ok(out)
}

/// The 99th percentile of a route, alone and beside sign-ins.
async fn beside(running: &linchpin::Running, request: &[u8]) -> Outcome<String> {
    let read = async |until: Duration| -> Outcome<Duration> {
        let mut line = Line::to(running).await?;
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < until {
            times.push(line.ask(request).await?.2);
        }
        Ok(quantile(&mut times, 0.99))
    };
    let alone = read(BESIDE / 2).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut logins = Vec::new();
    for _ in 0..LOGINS {
        let (mut line, stop) = (Line::to(running).await?, Arc::clone(&stop));
        let request = post("/auth/login", &json!({ "email": "known@x.test", "password": PASSWORD }));
        logins.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                if line.ask(&request).await.is_err() {
                    break;
                }
            }
        }));
    }
    let busy = read(BESIDE).await?;
    stop.store(true, Ordering::Relaxed);
    for login in logins {
        login.await?;
    }
    Ok(format!("{} | {}", millis(alone), millis(busy)))
}
