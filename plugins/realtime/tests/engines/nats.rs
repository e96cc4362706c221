//! The NATS engine, on servers that the tests start.

#[path = "nats/damage.rs"]
mod damage;
#[path = "nats/histories.rs"]
mod long_histories;
#[path = "nats/starts.rs"]
mod starts;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use linchpin::BoxFuture;
use linchpin_realtime::engine::conformance::{Harness, TestClock};
use linchpin_realtime::engine::{
    Append, Clock, Delivery, Engine, EventId, Fence, History, NatsEngine, NatsEngineOptions,
    Stream, Subscription,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::nats_server::{Nats, single};

const STREAMS: [&str; 2] = ["linchpin_frames", "linchpin_users"];

/// The subject of the frames of a stream.
fn subject(stream: &str) -> String {
    let token = stream.bytes().map(|byte| match byte {
        b'-' | b'_' | b'~' | b':' | b'%' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    });
    format!("linchpin.frames.{}", token.collect::<String>())
}

impl Nats {
    async fn client(&self) -> async_nats::Client {
        let url = format!("nats://127.0.0.1:{}", self.port);
        async_nats::connect(url).await.expect("a connection")
    }

    /// A request to `JetStream`, as an operator sends it.
    async fn ask(&self, request: &str, body: Value) -> Value {
        let client = self.client().await;
        let answer = client
            .request(format!("$JS.API.STREAM.{request}"), body.to_string().into())
            .await
            .expect("an answer");
        serde_json::from_slice(&answer.payload).expect("JSON")
    }

    /// The numbers and texts of the messages of a subject.
    async fn messages(&self, subject: &str) -> Vec<(u64, Vec<u8>)> {
        let (mut all, mut next) = (Vec::new(), 1);
        loop {
            let which = json!({ "seq": next, "next_by_subj": subject });
            let found = self.ask("MSG.GET.linchpin_frames", which).await;
            let Some(seq) = found["message"]["seq"].as_u64() else {
                return all;
            };
            let text = found["message"]["data"].as_str().expect("data");
            all.push((seq, base64(text)));
            next = seq + 1;
        }
    }
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("base64")
}

/// The text before a frame.
fn head(text: &[u8]) -> Value {
    let end = text.iter().position(|byte| *byte == b'\n').expect("a line");
    serde_json::from_slice(&text[1..end]).expect("JSON")
}

/// A server, and the nodes on it.
struct Bed {
    nats: Nats,
    nodes: Mutex<Vec<Arc<NatsEngine>>>,
    last_cut: Mutex<Option<Instant>>,
    cuts: AtomicU32,
}

fn bed() -> Bed {
    Bed {
        nats: single(),
        nodes: Mutex::default(),
        last_cut: Mutex::default(),
        cuts: AtomicU32::new(0),
    }
}

impl Deref for Bed {
    type Target = Nats;

    fn deref(&self) -> &Nats {
        &self.nats
    }
}

impl Harness for Bed {
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>> {
        Box::pin(async {
            let options = NatsEngineOptions::new(format!("nats://127.0.0.1:{}", self.nats.port));
            let engine = Arc::new(NatsEngine::new(&options, clock).expect("options"));
            engine.start().await.expect("started");
            self.nodes.lock().push(Arc::clone(&engine));
            engine as Arc<dyn Engine>
        })
    }

    // A stream that is deleted and created again at once loses its files in NATS 2.9.10.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for stream in STREAMS {
                self.nats.ask(&format!("PURGE.{stream}"), json!({})).await;
            }
        })
    }

    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let which = json!({ "filter": subject(stream) });
            self.nats.ask("PURGE.linchpin_frames", which).await;
        })
    }

    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let which = json!({ "filter": subject(stream), "keep": 1 });
            self.nats.ask("PURGE.linchpin_frames", which).await;
        })
    }

    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (seq, text) in self.nats.messages(&subject(stream)).await {
                if head(&text)["offset"].as_u64() > Some(offset) {
                    let deleted = self
                        .nats
                        .ask("MSG.DELETE.linchpin_frames", json!({ "seq": seq }));
                    assert_eq!(deleted.await["success"], true);
                }
            }
            // Before its next start, a server of this version finds no last message of the subject.
            self.nats.down();
            self.nats.up();
        })
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // A node needs some milliseconds to connect again: cuts that follow faster are one.
            // On a busy machine even those may leave no time to read, so there are at most 10.
            let now = Instant::now();
            let last = self.last_cut.lock().replace(now);
            if last.is_some_and(|last| now < last + Duration::from_millis(50)) {
                *self.last_cut.lock() = last;
                return;
            }
            if self.cuts.fetch_add(1, Ordering::Relaxed) >= 10 {
                return;
            }
            let nodes = self.nodes.lock().clone();
            for node in nodes {
                node.disconnect().await;
            }
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.nats.down() })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.nats.up() })
    }
}

linchpin_realtime::engine_conformance!(bed());

fn append(stream: &Stream, event: &str, fence: Option<u64>) -> Append {
    Append {
        stream: stream.clone(),
        event: EventId::new(event).unwrap(),
        frame: "{}".into(),
        fence: fence.map(|number| Fence {
            consumer: "relay".into(),
            number,
        }),
    }
}

async fn next(live: &mut Subscription) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(20), live.next());
    next.await.expect("in time").expect("the engine is open")
}

impl Nats {
    /// A node that checks streams at an interval.
    async fn checking(&self, clock: &TestClock) -> NatsEngine {
        let options = NatsEngineOptions {
            check: Duration::from_millis(10),
            ..NatsEngineOptions::new(format!("nats://127.0.0.1:{}", self.port))
        };
        let engine = NatsEngine::new(&options, clock.clock()).unwrap();
        engine.start().await.unwrap();
        engine
    }
}
