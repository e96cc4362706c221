//! Tests of the Redis engine, with servers that the tests start: single servers and a cluster.

#[path = "redis/damage.rs"]
mod damage;
#[path = "redis/listening.rs"]
mod listening;

use std::sync::Arc;

use linchpin::BoxFuture;
use linchpin_realtime::engine::conformance::{Harness, TestClock};
use linchpin_realtime::engine::{
    Append, Clock, Engine, EventId, History, RedisEngine, RedisEngineOptions, Stream,
};

use super::redis_server::{Redis, cluster, masters, single};

/// Returns the key of a part of a stream.
fn key(stream: &str, part: &str) -> String {
    let name = stream
        .replace('%', "%25")
        .replace('{', "%7B")
        .replace('}', "%7D");
    format!("linchpin:{{{name}}}:{part}")
}

impl Harness for Redis {
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>> {
        Box::pin(async {
            let options = RedisEngineOptions {
                cluster: self.cluster,
                ..RedisEngineOptions::new(format!("redis://127.0.0.1:{}", self.port))
            };
            let engine = RedisEngine::new(&options, clock).expect("options");
            engine.start().await.expect("started");
            Arc::new(engine) as Arc<dyn Engine>
        })
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.cli(&["FLUSHALL"])) })
    }

    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.cli(&["DEL", &key(stream, "p")]);
        })
    }

    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.cli(&["DEL", &key(stream, "s"), &key(stream, "i")]);
        })
    }

    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let [p, s, i] = ["p", "s", "i"].map(|part| key(stream, part));
            for lost in offset + 1..offset + 100 {
                self.cli(&["XDEL", &s, &format!("{lost}-0")]);
            }
            self.cli(&["XSETID", &s, &format!("{offset}-0")]);
            self.cli(&["ZREMRANGEBYSCORE", &i, &format!("({offset}"), "+inf"]);
            let last = self.cli(&["ZRANGE", &i, "-1", "-1"]);
            self.cli(&[
                "HSET",
                &p,
                "offset",
                &offset.to_string(),
                "last",
                last.trim(),
            ]);
        })
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.down() })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.up() })
    }
}

linchpin_realtime::engine_conformance!(single());

mod on_a_cluster {
    use super::*;

    linchpin_realtime::engine_conformance!(cluster());
}

#[tokio::test]
async fn a_restarted_server_without_the_functions_gets_them_again() {
    let redis = single();
    let engine = redis.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let top = engine.top(&stream).await.unwrap();
    redis.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(engine.top(&stream).await.unwrap(), top);
}

/// Two nodes append batches to a stream while the functions are repeatedly removed from the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_keeps_its_order_while_nodes_load_the_functions() {
    for redis in [single(), cluster()] {
        let clock = TestClock::default();
        let (a, b) = (
            redis.node(clock.clock()).await,
            redis.node(clock.clock()).await,
        );
        let stream = Stream::new("tasks:1:live", History::default());
        for round in 0..100 {
            redis.cli(&["SCRIPT", "FLUSH"]);
            let batch = |node: &str| {
                [0, 1].map(|n| Append {
                    stream: stream.clone(),
                    event: EventId::new(&format!("{node}{round}.{n}")).unwrap(),
                    frame: "{}".into(),
                    fence: None,
                })
            };
            let (batch_a, batch_b) = (batch("a"), batch("b"));
            let (first, second) = tokio::join!(a.append(&batch_a), b.append(&batch_b));
            for positions in [first.unwrap(), second.unwrap()] {
                let offsets = [positions[0].offset, positions[1].offset];
                assert!(offsets[0] < offsets[1], "{round}: {offsets:?}");
            }
        }
    }
}

#[tokio::test]
async fn unreachable_servers_and_refused_passwords_have_different_errors() {
    let redis = single();
    redis.cli(&["CONFIG", "SET", "requirepass", "right"]);
    let engine = |url: String| {
        RedisEngine::new(&RedisEngineOptions::new(url), TestClock::default().clock()).unwrap()
    };
    let wrong = engine(format!("redis://:secret@127.0.0.1:{}", redis.port));
    let refused = wrong.start().await.unwrap_err();
    assert!(!refused.is_unavailable(), "{refused:?}");
    let nowhere = engine("redis://:secret@127.0.0.1:1".to_owned());
    let down = nowhere.start().await.unwrap_err();
    assert!(down.is_unavailable(), "{down:?}");
    assert!(!format!("{refused:?}{down:?}{nowhere:?}").contains("secret"));
}

/// The cluster has two masters. Each owns two ranges of slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_covers_all_masters_of_a_cluster() {
    let redis = masters();
    let engine = redis[0].node(TestClock::default().clock()).await;
    let name = |n: usize| Stream::new(format!("tasks:{n}:live"), History::default());
    let streams: Vec<Stream> = (0..60).map(name).collect();
    let mut before = Vec::new();
    for stream in &streams {
        before.push(engine.top(stream).await.unwrap().epoch);
    }
    for one in &redis {
        assert_ne!(one.cli(&["DBSIZE"]).trim(), "0");
    }
    engine.renew().await.unwrap();
    for (stream, before) in streams.iter().zip(before) {
        assert_ne!(engine.top(stream).await.unwrap().epoch, before);
    }
}

#[tokio::test]
async fn a_position_that_cannot_be_read_is_replaced() {
    let redis = single();
    let engine = redis.node(TestClock::default().clock()).await;
    for (n, (field, value)) in [
        ("expires", "soon"),
        ("offset", "-1"),
        ("offset", "x"),
        ("epoch", "foreign"),
        ("epoch", "not of base64..!"),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = Stream::new(format!("tasks:{n}:live"), History::default());
        let before = engine.top(&stream).await.unwrap();
        let keys = redis.cli(&["KEYS", &format!("*tasks:{n}:live*")]);
        let position = keys.lines().next().unwrap();
        redis.cli(&["HSET", position, field, value]);
        let append = Append {
            stream: stream.clone(),
            event: EventId::new("e1").unwrap(),
            frame: "{}".into(),
            fence: None,
        };
        let appended = engine.append(&[append]).await.unwrap()[0];
        assert_eq!(appended.offset, 1, "{field} {value}");
        assert_ne!(appended.epoch, before.epoch, "{field} {value}");
        assert_eq!(engine.top(&stream).await.unwrap(), appended);
    }
}
