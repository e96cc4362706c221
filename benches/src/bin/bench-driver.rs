//! Seeds a database, or sends load to one server and prints the result as one line of JSON.
//!
//! `bench-driver seed <url>`; `bench-driver count <port> <load> <requests>`;
//! `bench-driver load <port> <load> <seconds> <salt>`.
#![allow(missing_docs)] // a program

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use linchpin_benches::client::{CONNECTIONS, drive};
use linchpin_benches::line::Line;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["seed", url] => linchpin_benches::seed(url),
        ["load", port, what, seconds, salt] => load(port, what, seconds.parse()?, salt.parse()?),
        ["count", port, what, requests] => count(port, what, requests.parse()?),
        _ => Err(
            "usage: bench-driver seed URL | count PORT LOAD REQUESTS | load PORT LOAD SECONDS SALT"
                .into(),
        ),
    }
}

fn load(port: &str, what: &str, seconds: f64, salt: usize) -> Outcome<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let writer = RequestWriter::prepare(address, what, salt)?;
    let (until, mut n) = (Instant::now() + Duration::from_secs_f64(seconds), 0);
    let load = drive(address, CONNECTIONS, |request| {
        n += 1;
        Instant::now() < until && writer.write(n, request)
    })?;
    let (requests, failed) = (load.micros.len(), load.failed);
    let (p50, p99) = (load.quantile(0.5), load.quantile(0.99));
    println!(
        "{}",
        serde_json::json!({"requests": requests, "failed": failed, "perSecond": load.per_second(), "p50": p50, "p99": p99})
    );
    Ok(())
}

/// Sends exactly this number of requests.
fn count(port: &str, what: &str, requests: usize) -> Outcome<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let writer = RequestWriter::prepare(address, what, 0)?;
    let mut n = 0;
    let load = drive(address, CONNECTIONS, |request| {
        n += 1;
        n <= requests && writer.write(n - 1, request)
    })?;
    if load.failed > 0 {
        let (failed, status) = (load.failed, load.failed_status);
        Err(format!("{failed} requests of {what} were refused, the last with {status}").into())
    } else {
        Ok(())
    }
}

/// The input of requests: shuffled ids, a cursor deep in the list, a token.
struct RequestWriter<'a> {
    what: &'a str,
    salt: usize,
    ids: Vec<usize>,
    deep: String,
    token: String,
}

impl<'a> RequestWriter<'a> {
    fn prepare(address: SocketAddr, what: &'a str, salt: usize) -> Outcome<Self> {
        let mut ids: Vec<usize> = (0..linchpin_benches::ROWS).collect();
        // A shuffle, so that consecutive requests do not use neighbouring rows. The salt determines
        // the order.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ salt as u64;
        for i in (1..ids.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ids.swap(i, usize::try_from(state >> 33)? % (i + 1));
        }
        let mut writer = Self {
            what,
            salt,
            ids,
            deep: String::new(),
            token: linchpin_benches::token(),
        };
        if what == "deep" {
            writer.deep = writer.cursor(address)?;
        }
        if writer.request(0).is_some() {
            Ok(writer)
        } else {
            Err(format!("unknown load {what}").into())
        }
    }

    /// The cursor after the first 10,000 records of the list.
    fn cursor(&self, address: SocketAddr) -> Outcome<String> {
        let (mut line, mut request, mut path) = (
            Line::to(address)?,
            Vec::new(),
            "/posts?limit=100".to_owned(),
        );
        let mut cursor = String::new();
        for _ in 0..100 {
            self.write_text("GET", &path, "", &mut request);
            let (_, body, _) = line.ask(&request)?;
            let page: serde_json::Value = serde_json::from_slice(body)?;
            let Some(next) = page["nextCursor"].as_str() else {
                break;
            };
            next.clone_into(&mut cursor);
            path = format!("/posts?limit=100&cursor={cursor}");
            request.clear();
        }
        Ok(cursor)
    }

    /// Writes the request with this number; `false` after the last request.
    fn write(&self, n: usize, into: &mut Vec<u8>) -> bool {
        let Some((method, path, body)) = self.request(n) else {
            return false;
        };
        self.write_text(method, &path, &body, into);
        true
    }

    /// Writes the head and the body of a request.
    fn write_text(&self, method: &str, path: &str, body: &str, into: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(
            into,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n",
            self.token
        );
        if !body.is_empty() {
            let _ = write!(
                into,
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            );
        }
        let _ = write!(into, "\r\n{body}");
    }

    /// The method, path and body of the request of this number.
    fn request(&self, n: usize) -> Option<(&'static str, String, String)> {
        let Self {
            what,
            salt,
            ids,
            deep,
            ..
        } = self;
        let key = ids[n % ids.len()];
        let (id, owner) = (linchpin_benches::id(key), key % 1000);
        let request = |method: &'static str, path: String, body: String| Some((method, path, body));
        let none = String::new;
        match *what {
            "get" => request("GET", format!("/posts/{id}"), none()),
            "list" => request("GET", "/posts".to_owned(), none()),
            "deep" => request("GET", format!("/posts?cursor={deep}"), none()),
            "create" => request(
                "POST",
                "/posts".to_owned(),
                format!(
                    r#"{{"title":"A title {n}","slug":"new-{salt}-{n}","body":"A body of some eighty characters, as short posts and comments have, and no more.","authorId":"author"}}"#
                ),
            ),
            "patch" => request(
                "PATCH",
                format!("/posts/{id}"),
                format!(r#"{{"title":"Title {n}"}}"#),
            ),
            // These loads use each record once, so they end after the last record.
            "publish" | "redeem" if n >= ids.len() => None,
            "publish" => request("POST", format!("/posts/{id}/publish"), none()),
            "lookup" => request("GET", format!("/items/by-code?code=code-{key}"), none()),
            "lookup20" => request(
                "GET",
                format!("/items/of-owner?owner=owner-{owner}"),
                none(),
            ),
            "exists" => request("GET", format!("/items/code-taken?code=code-{key}"), none()),
            "increment" => request("POST", format!("/items/{id}/sold"), none()),
            "fieldUpdate" => request(
                "PATCH",
                format!("/items/{id}/reschedule"),
                r#"{"dueAt":"2030-01-02T03:04:05.000Z"}"#.to_owned(),
            ),
            "arrayPush" => request(
                "POST",
                format!("/items/{id}/tag"),
                r#"{"tag":"d"}"#.to_owned(),
            ),
            "arrayPull" => request("DELETE", format!("/items/{id}/untag?tag=b"), none()),
            "arraySet" => request(
                "PUT",
                format!("/items/{id}/retag"),
                r#"{"tags":["x","y"]}"#.to_owned(),
            ),
            "upsert" => {
                let body = format!(
                    r#"{{"code":"code-{key}","owner":"owner-{owner}","title":"Title {n}","quantity":7}}"#
                );
                request("POST", "/items/import".to_owned(), body)
            }
            "search" => request("GET", format!("/items/find?q=item%20{}", key % 100), none()),
            "collection" => request(
                "PATCH",
                format!("/items/{id}/lines-update/two"),
                format!(r#"{{"quantity":{}}}"#, n + 1),
            ),
            "redeem" => request(
                "POST",
                "/items/redeem".to_owned(),
                format!(r#"{{"code":"code-{key}"}}"#),
            ),
            "derive" => request(
                "GET",
                format!(
                    "/items/related?owner=owner-{owner}&code=code-{}",
                    (key + 1) % ids.len()
                ),
                none(),
            ),
            "aggregate" => request(
                "GET",
                format!("/items/by-state?owner=owner-{owner}"),
                none(),
            ),
            "batch" => request(
                "POST",
                "/items/restock".to_owned(),
                format!(r#"{{"owner":"owner-{owner}"}}"#),
            ),
            "custom" => request("GET", format!("/items/top/owner-{owner}"), none()),
            "computed" => request(
                "POST",
                "/owners/recount".to_owned(),
                format!(r#"{{"id":"owner-{owner}"}}"#),
            ),
            _ => None,
        }
    }
}
