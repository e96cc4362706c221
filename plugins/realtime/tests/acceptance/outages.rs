//! Tests of an unavailable engine, and of a killed process.

use std::process::Stdio;
use std::time::Duration;

use linchpin_realtime::engine::{PostgresEngineOptions, RedisEngineOptions};
use linchpin_realtime::{EngineChoice, Realtime};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::postgres_server as postgres;
use crate::redis_server::single;
use crate::test_app::{TestApp, User, room};

/// The environment variables of a node in a separate process: the database, and the port of Redis.
/// Without a port, the engine is `postgres`.
const DATABASE: &str = "LINCHPIN_TEST_NODE_DATABASE";
const REDIS: &str = "LINCHPIN_TEST_NODE_REDIS";

/// Starts a node. Without a port of Redis, its engine is `postgres`.
pub async fn node(database: &str, redis: Option<u16>) -> TestApp {
    let engine = match redis {
        Some(port) => {
            let url = format!("redis://127.0.0.1:{port}");
            EngineChoice::Redis(RedisEngineOptions::new(url))
        }
        None => EngineChoice::Postgres(PostgresEngineOptions::new(database)),
    };
    let plugin = |plugin: Realtime| {
        plugin.engine(engine).configure(|config| {
            config.cluster = true;
            config.drain = Duration::ZERO;
        })
    };
    TestApp::on(database, plugin, |auth| auth).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_continue_while_the_engine_is_down_and_frames_are_delivered_later() {
    let (database, redis) = (postgres::fresh_database(), single());
    let test_app = node(&database, Some(redis.port)).await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let mut member = test_app.member(&ada, &room(&container)).await;
    test_app.draft(&ada, &container).await;
    assert_eq!(member.until("threads.created").await["offset"], 1);
    redis.down();
    let mut threads = Vec::new();
    for _ in 0..5 {
        // `draft` asserts the status 201.
        threads.push(test_app.draft(&ada, &container).await);
    }
    let mut late = test_app.connect(&ada).await;
    late.send(json!({ "action": "subscribe", "room": room(&container) }))
        .await;
    assert_eq!(late.until("subscribe_denied").await["code"], "unavailable");
    redis.up();
    for (number, thread) in threads.iter().enumerate() {
        let frame = member.until("threads.created").await;
        assert_eq!(
            (&frame["payload"]["id"], &frame["offset"]),
            (&json!(thread), &json!(number + 2))
        );
    }
    late.join(&room(&container)).await;
}

/// A node in a separate process.
pub struct Process {
    pub child: Child,
    pub address: String,
}

impl Process {
    pub async fn start(database: &str, redis: Option<u16>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(port) = redis {
            command.env(REDIS, port.to_string());
        }
        let mut child = command
            .args([
                "outages::a_node_in_a_process",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(DATABASE, database)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("the node has ended");
            if let Some((_, address)) = line.split_once("listening on ") {
                let address = address.to_owned();
                return Self { child, address };
            }
        }
    }
}

/// This is not a test. It is the program that [`Process`] runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests start it"]
async fn a_node_in_a_process() {
    let Ok(database) = std::env::var(DATABASE) else {
        return;
    };
    let redis = std::env::var(REDIS).ok().map(|port| port.parse().unwrap());
    let test_app = node(&database, redis).await;
    println!("listening on {}", test_app.app.address());
    std::future::pending::<()>().await;
}

/// Creates a draft over HTTP. Returns its id, or `None` if the process has ended before its answer.
pub async fn draft(address: &str, owner: &User, container: &str) -> Option<String> {
    let body = json!({
        "containerId": container, "ownerId": owner.id, "title": "first", "status": "draft",
    });
    let (status, body) = post(address, owner, "/threads", &body.to_string()).await?;
    assert_eq!(status, "201", "{body}");
    let record: serde_json::Value = serde_json::from_str(&body).unwrap();
    Some(record["id"].as_str().unwrap().to_owned())
}

/// Posts JSON. Returns the status and the body, or `None` if the process has ended.
pub async fn post(address: &str, user: &User, path: &str, body: &str) -> Option<(String, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut socket = tokio::net::TcpStream::connect(address).await.ok()?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        user.token,
        body.len()
    );
    socket.write_all((head + body).as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).unwrap();
    Some((status.to_owned(), body.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_killed_node_are_delivered_once_by_another() {
    let (database, redis) = (postgres::fresh_database(), single());
    // The first node leads the consumer of events.
    let mut process = Process::start(&database, Some(redis.port)).await;
    let test_app = node(&database, Some(redis.port)).await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let mut member = test_app.member(&ada, &room(&container)).await;
    draft(&process.address, &ada, &container).await.unwrap();
    member.until("threads.created").await;
    // Redis is down until the process has ended, so the process cannot relay the next events.
    redis.down();
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(draft(&process.address, &ada, &container).await.unwrap());
    }
    process.child.kill().await.unwrap();
    redis.up();
    threads.push(test_app.draft(&ada, &container).await);
    for (number, thread) in threads.iter().enumerate() {
        let frame = member.until("threads.created").await;
        assert_eq!(
            (&frame["payload"]["id"], &frame["offset"]),
            (&json!(thread), &json!(number + 2))
        );
    }
}
