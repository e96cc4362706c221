//! Seeds a database, or loads one server and prints what it saw as one line of JSON.
//!
//! `bench-driver seed <url>`; `bench-driver count <port> <load> <requests>`; `bench-driver load <port> <load> <seconds> <salt>`.
#![allow(missing_docs)] // a program

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 32;

/// What all connections share.
struct Shared {
    ids: Vec<usize>,
    deep: String,
    next: usize,
    latencies: Vec<u32>,
    failed: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["seed", url] => linchpin_benches::seed(url),
        ["load", port, what, seconds, salt] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, load(port.parse()?, what, seconds.parse()?, salt.parse()?))
        }
        // As many requests and no more.
        ["count", port, what, requests] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, count(port.parse()?, what, requests.parse()?))
        }
        _ => Err("usage: bench-driver seed URL | count PORT LOAD REQUESTS | load PORT LOAD SECONDS SALT".into()),
    }
}

async fn load(port: u16, what: &str, seconds: f64, salt: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (ids, deep, token) = prepare(port, what, salt).await?;
    let shared = Rc::new(RefCell::new(Shared { ids, deep, next: 0, latencies: Vec::with_capacity(1 << 20), failed: 0 }));
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let started = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let (shared, what, token) = (Rc::clone(&shared), what.to_owned(), token.clone());
        tasks.push(tokio::task::spawn_local(
            async move { worker(port, &what, &token, salt, until, &shared).await.map_err(|e| e.to_string()) },
        ));
    }
    for task in tasks {
        task.await??;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let mut shared = shared.borrow_mut();
    shared.latencies.sort_unstable();
    let at = |p: f64| shared.latencies.get((shared.latencies.len() as f64 * p) as usize).copied().unwrap_or(0);
    println!(
        "{}",
        serde_json::json!({"requests": shared.latencies.len(), "failed": shared.failed, "perSecond": shared.latencies.len() as f64 / elapsed, "p50": at(0.5), "p99": at(0.99)})
    );
    Ok(())
}

/// The ids to work on in a fixed shuffle, a cursor deep in the list, a token.
async fn prepare(port: u16, what: &str, salt: usize) -> Result<(Vec<usize>, String, String), Box<dyn std::error::Error>> {
    let mut ids: Vec<usize> = (0..linchpin_benches::ROWS).collect();
    // A fixed shuffle: neighbours in the table are not neighbours in time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ salt as u64;
    for i in (1..ids.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ids.swap(i, usize::try_from(state >> 33)? % (i + 1));
    }
    let token = linchpin_benches::token();
    let mut deep = String::new();
    if what == "deep" {
        let mut connection = Connection::open(port).await?;
        let mut path = "/posts?limit=100".to_owned();
        for _ in 0..100 {
            let (_, body) = connection.send(&request("GET", &path, &token, "")).await?;
            let page: serde_json::Value = serde_json::from_slice(&body)?;
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            cursor.clone_into(&mut deep);
            path = format!("/posts?limit=100&cursor={cursor}");
        }
    }
    Ok((ids, deep, token))
}

/// Ids, cursor, token, and how many requests have been taken.
type Taken = (Vec<usize>, String, String, Cell<usize>);

async fn count(port: u16, what: &str, requests: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (ids, deep, token) = prepare(port, what, 0).await?;
    let (shared, what) = (Rc::new((ids, deep, token, Cell::new(0))), what.to_owned());
    let one = |shared: Rc<Taken>, what: String| async move {
        let (ids, deep, token, taken) = &*shared;
        let mut connection = Connection::open(port).await?;
        while taken.get() < requests {
            let n = taken.replace(taken.get() + 1);
            let Some(request) = next(&what, n, 0, ids, deep, token)? else { break };
            let (status, _) = connection.send(&request).await?;
            if !(200..300).contains(&status) {
                return Err(format!("request {n} of {what} was answered {status}").into());
            }
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::task::spawn_local(one(Rc::clone(&shared), what.clone()))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let kind =
        if body.is_empty() { String::new() } else { format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()) };
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{kind}\r\n{body}").into_bytes()
}

async fn worker(
    port: u16,
    what: &str,
    token: &str,
    salt: usize,
    until: Instant,
    shared: &RefCell<Shared>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = Connection::open(port).await?;
    while Instant::now() < until {
        let request = {
            let mut shared = shared.borrow_mut();
            shared.next += 1;
            let n = shared.next;
            match next(what, n, salt, &shared.ids, &shared.deep, token)? {
                Some(request) => request,
                None => return Ok(()),
            }
        };
        let sent = Instant::now();
        let (status, _) = connection.send(&request).await?;
        let mut shared = shared.borrow_mut();
        if (200..300).contains(&status) {
            shared.latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
        } else {
            shared.failed += 1;
        }
    }
    Ok(())
}

/// The request of this number; `None` when there is nothing left to ask for.
fn next(what: &str, n: usize, salt: usize, ids: &[usize], deep: &str, token: &str) -> Result<Option<Vec<u8>>, Box<dyn std::error::Error>> {
    let one = ids[n % ids.len().max(1)];
    let (id, owner) = (linchpin_benches::id(one), one % 1000);
    let ask = |method: &str, path: String, body: String| Ok(Some(request(method, &path, token, &body)));
    let none = String::new;
    match what {
        "get" => ask("GET", format!("/posts/{id}"), none()),
        "list" => ask("GET", "/posts".to_owned(), none()),
        "deep" => ask("GET", format!("/posts?cursor={deep}"), none()),
        "create" => ask(
            "POST",
            "/posts".to_owned(),
            format!(
                r#"{{"title":"A title {n}","slug":"new-{salt}-{n}","body":"A body of some eighty characters, as short posts and comments have, and no more.","authorId":"author"}}"#
            ),
        ),
        "patch" => ask("PATCH", format!("/posts/{id}"), format!(r#"{{"title":"Title {n}"}}"#)),
        // What is done once to a record ends with the records.
        "publish" | "redeem" if n >= ids.len() => Ok(None),
        "publish" => ask("POST", format!("/posts/{id}/publish"), none()),
        "lookup" => ask("GET", format!("/items/by-code?code=code-{one}"), none()),
        "lookup20" => ask("GET", format!("/items/of-owner?owner=owner-{owner}"), none()),
        "exists" => ask("GET", format!("/items/code-taken?code=code-{one}"), none()),
        "increment" => ask("POST", format!("/items/{id}/sold"), none()),
        "fieldUpdate" => ask("PATCH", format!("/items/{id}/reschedule"), r#"{"dueAt":"2030-01-02T03:04:05.000Z"}"#.to_owned()),
        "arrayPush" => ask("POST", format!("/items/{id}/tag"), r#"{"tag":"d"}"#.to_owned()),
        "arrayPull" => ask("DELETE", format!("/items/{id}/untag?tag=b"), none()),
        "arraySet" => ask("PUT", format!("/items/{id}/retag"), r#"{"tags":["x","y"]}"#.to_owned()),
        "upsert" => {
            let body = format!(r#"{{"code":"code-{one}","owner":"owner-{owner}","title":"Title {n}","quantity":7}}"#);
            ask("POST", "/items/import".to_owned(), body)
        }
        "search" => ask("GET", format!("/items/find?q=item%20{}", one % 100), none()),
        "collection" => ask("PATCH", format!("/items/{id}/lines-update/two"), format!(r#"{{"quantity":{}}}"#, n + 1)),
        "redeem" => ask("POST", "/items/redeem".to_owned(), format!(r#"{{"code":"code-{one}"}}"#)),
        "derive" => ask("GET", format!("/items/related?owner=owner-{owner}&code=code-{}", (one + 1) % ids.len()), none()),
        "aggregate" => ask("GET", format!("/items/by-state?owner=owner-{owner}"), none()),
        "batch" => ask("POST", "/items/restock".to_owned(), format!(r#"{{"owner":"owner-{owner}"}}"#)),
        "custom" => ask("GET", format!("/items/top/owner-{owner}"), none()),
        "computed" => ask("POST", "/owners/recount".to_owned(), format!(r#"{{"id":"owner-{owner}"}}"#)),
        other => Err(format!("unknown load {other}").into()),
    }
}

/// A keep-alive connection with one request under way.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    async fn send(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>), Box<dyn std::error::Error>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if let Some(end) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.buffer[..end])?;
                let status = head.get(9..12).and_then(|s| s.parse().ok()).ok_or("no status")?;
                let length = head
                    .split("\r\n")
                    .filter_map(|line| line.split_once(':'))
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                    .and_then(|(_, value)| value.trim().parse().ok())
                    .unwrap_or(0);
                while self.buffer.len() < end + 4 + length {
                    if self.stream.read_buf(&mut self.buffer).await? == 0 {
                        return Err("the connection broke".into());
                    }
                }
                return Ok((status, self.buffer[end + 4..end + 4 + length].to_vec()));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the connection broke".into());
            }
        }
    }
}
