//! Tests of the NATS engine, with servers that the tests start.

#[path = "nats/clusters.rs"]
mod clusters;
#[path = "nats/damage.rs"]
mod damage;
#[path = "nats/encryption.rs"]
mod encryption;
#[path = "nats/limits.rs"]
mod limits;
#[path = "nats/histories.rs"]
mod long_histories;
#[path = "nats/starts.rs"]
mod starts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use linchpin::BoxFuture;
use linchpin_realtime::engine::conformance::{Harness, TestClock};
use linchpin_realtime::engine::{
    Append, Clock, Delivery, Engine, EventId, Fence, History, NatsEngine, NatsEngineOptions,
    Stream, Subscription,
};
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

    /// Sends a request to `JetStream`, as an operator would.
    async fn ask(&self, request: &str, body: Value) -> Value {
        self.try_ask(request, body).await.expect("an answer")
    }

    /// As [`Nats::ask`]. `None` if the server does not answer.
    async fn try_ask(&self, request: &str, body: Value) -> Option<Value> {
        let client = self.client().await;
        let answer = client
            .request(format!("$JS.API.STREAM.{request}"), body.to_string().into())
            .await
            .ok()?;
        Some(serde_json::from_slice(&answer.payload).expect("JSON"))
    }

    /// Returns the numbers and texts of the messages of a subject.
    async fn messages(&self, subject: &str) -> Vec<(u64, Vec<u8>)> {
        let (mut all, mut next) = (Vec::new(), 1);
        loop {
            let query = json!({ "seq": next, "next_by_subj": subject });
            let found = self.ask("MSG.GET.linchpin_frames", query).await;
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

/// Returns the JSON that precedes the frame in a message.
fn head(text: &[u8]) -> Value {
    let end = text.iter().position(|byte| *byte == b'\n').expect("a line");
    serde_json::from_slice(&text[1..end]).expect("JSON")
}

impl Harness for Nats {
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>> {
        Box::pin(async {
            let options = NatsEngineOptions::new(format!("nats://127.0.0.1:{}", self.proxy));
            let engine = NatsEngine::new(&options, clock).expect("options");
            engine.start().await.expect("started");
            Arc::new(engine) as Arc<dyn Engine>
        })
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.delete_streams() })
    }

    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let query = json!({ "filter": subject(stream) });
            self.ask("PURGE.linchpin_frames", query).await;
        })
    }

    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let query = json!({ "filter": subject(stream), "keep": 1 });
            self.ask("PURGE.linchpin_frames", query).await;
        })
    }

    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (seq, text) in self.messages(&subject(stream)).await {
                if head(&text)["offset"].as_u64() > Some(offset) {
                    let deleted = self.ask("MSG.DELETE.linchpin_frames", json!({ "seq": seq }));
                    assert_eq!(deleted.await["success"], true);
                }
            }
        })
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { Self::cut(self) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.down() })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.up() })
    }
}

linchpin_realtime::engine_conformance!(single());

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

/// Appends an event. It retries until the server is available again.
async fn until_back(engine: &dyn Engine, stream: &Stream, event: &str) {
    let until = Instant::now() + Duration::from_mins(1);
    while let Err(error) = engine.append(&[append(stream, event, None)]).await {
        assert!(error.is_unavailable(), "{error:?}");
        assert!(Instant::now() < until, "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next(live: &mut Subscription) -> Delivery {
    let next = tokio::time::timeout(Duration::from_mins(1), live.next());
    next.await.expect("in time").expect("the engine is open")
}

impl Nats {
    /// Starts a node that checks the streams every 10 ms.
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
