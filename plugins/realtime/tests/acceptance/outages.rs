//! An engine that is down, and a process that is killed.

use std::process::Stdio;
use std::time::Duration;

use linchpin_realtime::engine::RedisEngineOptions;
use linchpin_realtime::{EngineChoice, Realtime};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::bed::{Bed, room};
use crate::postgres_server as postgres;
use crate::redis_server::single;

/// The variables of a node in a process of its own: the database, and the port of Redis.
const DATABASE: &str = "LINCHPIN_TEST_NODE_DATABASE";
const REDIS: &str = "LINCHPIN_TEST_NODE_REDIS";

async fn node(database: &str, redis: u16) -> Bed {
    let url = format!("redis://127.0.0.1:{redis}");
    let engine = EngineChoice::Redis(RedisEngineOptions::new(url));
    let plugin = |plugin: Realtime| {
        plugin.engine(engine).configure(|config| {
            config.cluster = true;
            config.drain = Duration::ZERO;
        })
    };
    Bed::on(database, plugin, |auth| auth).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_while_the_engine_is_down_and_all_frames_come_afterwards() {
    let (database, redis) = (postgres::fresh_database(), single());
    let bed = node(&database, redis.port).await;
    let ada = bed.user("ada").await;
    let container = bed.container(&ada, "public").await;
    let mut member = bed.member(&ada, &room(&container)).await;
    bed.draft(&ada, &container).await;
    assert_eq!(member.until("threads.created").await["offset"], 1);
    redis.down();
    let mut threads = Vec::new();
    for _ in 0..5 {
        // It asserts the status 201.
        threads.push(bed.draft(&ada, &container).await);
    }
    let mut late = bed.connect(&ada).await;
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

/// A node in a process of its own.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    async fn start(database: &str, redis: u16) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "outages::a_node_in_a_process",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(DATABASE, database)
            .env(REDIS, redis.to_string())
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

/// Not a test: the program of [`Process`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests start it"]
async fn a_node_in_a_process() {
    let (Ok(database), Ok(redis)) = (std::env::var(DATABASE), std::env::var(REDIS)) else {
        return;
    };
    let bed = node(&database, redis.parse().unwrap()).await;
    println!("listening on {}", bed.app.address());
    std::future::pending::<()>().await;
}

/// Creates a draft by HTTP; returns its id.
async fn draft(address: &str, token: &str, container: &str, owner: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let body = json!({
        "containerId": container, "ownerId": owner, "title": "first", "status": "draft",
    })
    .to_string();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /threads HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 201"), "{answer}");
    let record: serde_json::Value = serde_json::from_str(body).unwrap();
    record["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_node_committed_arrives_once_through_another() {
    let (database, redis) = (postgres::fresh_database(), single());
    // It is the first, so it leads the consumer of events.
    let mut process = Process::start(&database, redis.port).await;
    let bed = node(&database, redis.port).await;
    let ada = bed.user("ada").await;
    let container = bed.container(&ada, "public").await;
    let mut member = bed.member(&ada, &room(&container)).await;
    draft(&process.address, &ada.token, &container, &ada.id).await;
    member.until("threads.created").await;
    // Nothing that is committed now can be relayed before the process ends.
    redis.down();
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(draft(&process.address, &ada.token, &container, &ada.id).await);
    }
    process.child.kill().await.unwrap();
    redis.up();
    threads.push(bed.draft(&ada, &container).await);
    for (number, thread) in threads.iter().enumerate() {
        let frame = member.until("threads.created").await;
        assert_eq!(
            (&frame["payload"]["id"], &frame["offset"]),
            (&json!(thread), &json!(number + 2))
        );
    }
}
