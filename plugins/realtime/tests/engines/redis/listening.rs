//! Tests that the engine delivers published messages while it waits for the server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linchpin_realtime::engine::Delivery;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

/// A number that no connection of a proxy has.
const NO_CONNECTION: usize = usize::MAX;

/// A proxy that can hold back the data that clients send on one of its connections.
struct Proxy {
    port: u16,
    /// The number of the connection that is held back.
    held: Arc<AtomicUsize>,
    /// Whether data was held back.
    has_held: watch::Receiver<bool>,
}

impl Proxy {
    async fn start(redis: &Redis) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (held, server) = (Arc::new(AtomicUsize::new(NO_CONNECTION)), redis.port);
        let (has_held_sender, has_held) = watch::channel(false);
        let shared_held = Arc::clone(&held);
        tokio::spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (mut from, mut to) = client.into_split();
                let (mut answers, mut requests) = server.into_split();
                let (held, has_held_sender, own) =
                    (Arc::clone(&shared_held), has_held_sender.clone(), number);
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to).await });
                tokio::spawn(async move {
                    let mut part = [0; 4096];
                    while let Ok(length @ 1..) = from.read(&mut part).await {
                        if held.load(Ordering::SeqCst) == own {
                            has_held_sender.send_replace(true);
                            std::future::pending::<()>().await;
                        }
                        if requests.write_all(&part[..length]).await.is_err() {
                            return;
                        }
                    }
                });
                number += 1;
            }
        });
        Self {
            port,
            held,
            has_held,
        }
    }

    /// Starts a node that connects through the proxy. Its first connection checks the server, the
    /// second listens, and the third is for commands.
    async fn node(&self, check: Duration) -> RedisEngine {
        let options = RedisEngineOptions {
            check,
            ..RedisEngineOptions::new(format!("redis://127.0.0.1:{}", self.port))
        };
        let engine = RedisEngine::new(&options, TestClock::default().clock()).unwrap();
        engine.start().await.unwrap();
        engine
    }

    /// Holds back data that is sent on a connection from now on, and waits until some was held
    /// back.
    async fn hold(&self, connection: usize, cause: impl Future<Output = ()>) {
        self.held.store(connection, Ordering::SeqCst);
        let mut has_held = self.has_held.clone();
        tokio::select! {
            held = has_held.wait_for(|has_held| *has_held) => drop(held.unwrap()),
            () = cause => panic!("the cause ended, and no data was held back"),
        }
    }
}

const LISTENING: usize = 1;
const COMMANDS: usize = 2;

fn append(stream: &Stream, event: &str) -> Append {
    Append {
        stream: stream.clone(),
        event: EventId::new(event).unwrap(),
        frame: "{}".into(),
        fence: None,
    }
}

/// An engine waits at most 5 seconds for the server. A frame must arrive before this time is over.
#[tokio::test]
async fn a_frame_is_passed_on_while_the_engine_subscribes_or_compares() {
    let redis = single();
    let other = redis.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    for (connection, check) in [
        (LISTENING, Duration::from_hours(1)),
        (COMMANDS, Duration::from_millis(10)),
    ] {
        let proxy = Proxy::start(&redis).await;
        let engine = proxy.node(check).await;
        let mut live = engine.subscribe(&stream).await.unwrap();
        let further = Stream::new("tasks:2:live", History::default());
        let mut waits = Box::pin(async {
            match connection {
                LISTENING => drop(engine.subscribe(&further).await),
                // The check runs at its interval.
                _ => std::future::pending().await,
            }
        });
        proxy.hold(connection, &mut waits).await;
        let event = format!("of-{connection}");
        other.append(&[append(&stream, &event)]).await.unwrap();
        let delivered = async {
            tokio::select! {
                delivery = live.next() => delivery,
                () = &mut waits => None,
            }
        };
        let delivered = tokio::time::timeout(Duration::from_secs(3), delivered).await;
        assert!(
            matches!(&delivered, Ok(Some(Delivery::Frame(frame))) if frame.event.as_str() == event),
            "{delivered:?}"
        );
    }
}

/// For a stream without changes, a check sends one `HMGET` in a pipeline with those of other
/// streams, and calls no function.
#[tokio::test]
async fn a_check_reads_whole_positions_of_changed_streams_only() {
    let redis = single();
    let options = RedisEngineOptions {
        check: Duration::from_millis(10),
        ..RedisEngineOptions::new(format!("redis://127.0.0.1:{}", redis.port))
    };
    let clock = TestClock::default();
    let engine = RedisEngine::new(&options, clock.clock()).unwrap();
    engine.start().await.unwrap();
    let mut all = Vec::new();
    for n in 0..20 {
        let stream = Stream::new(format!("tasks:{n}:live"), History::default());
        let mut live = engine.subscribe(&stream).await.unwrap();
        engine.append(&[append(&stream, "1")]).await.unwrap();
        assert!(matches!(live.next().await, Some(Delivery::Frame(_))));
        all.push((stream, live));
    }
    let calls = |command: &str| -> u64 {
        let stats = redis.cli(&["INFO", "commandstats"]);
        let prefix = format!("cmdstat_{command}:calls=");
        let found = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        found.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    };
    // Waits for this number of further checks.
    let checks = async |count: u64| {
        let until = calls("ping") + count;
        while calls("ping") < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    checks(2).await;
    let before = (calls("evalsha"), calls("hmget"));
    checks(3).await;
    assert_eq!(calls("evalsha"), before.0);
    assert!(calls("hmget") >= before.1 + 20);
    // Lost data of a stream is still detected.
    let (stream, live) = &mut all[7];
    redis.cli(&["DEL", &key(stream.name(), "p")]);
    assert!(matches!(live.next().await, Some(Delivery::Reset { .. })));
    // A position is renewed before it expires.
    let (stream, _) = &all[8];
    let expires = || -> i64 {
        let text = redis.cli(&["HGET", &key(stream.name(), "p"), "expires"]);
        text.trim().parse().unwrap()
    };
    let before = expires();
    clock.advance(Duration::from_hours(2));
    while expires() == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
