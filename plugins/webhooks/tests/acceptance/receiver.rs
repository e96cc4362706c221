//! A receiver of webhooks. The test determines its responses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use linchpin::axum::body::Bytes;
use linchpin::axum::extract::State;
use linchpin::axum::http::{HeaderMap, HeaderName, StatusCode};
use linchpin::axum::response::{IntoResponse, Response};
use linchpin::axum::{Router, routing};
use parking_lot::Mutex;
use serde_json::Value as Json;

/// The response of the receiver to a request.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Answers with this status and these headers.
    Answer(u16, Vec<(&'static str, String)>),
    /// Waits, then answers with this status.
    Late(Duration, u16),
}

impl Plan {
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new())
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Arrived {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Script {
    arrived: Vec<Arrived>,
    /// The next responses. After them, the receiver responds with 200.
    plans: VecDeque<Plan>,
    /// The response after them instead of 200.
    always: Option<Plan>,
    /// The number of requests without a response.
    running: usize,
    /// The maximum of `running` so far.
    max_running: usize,
}

#[derive(Clone, Default)]
pub struct Receiver {
    script: Arc<Mutex<Script>>,
    port: u16,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            port: listener.local_addr().unwrap().port(),
            ..Self::default()
        };
        let router = Router::new()
            .fallback(routing::any(receive))
            .with_state(Arc::clone(&receiver.script));
        tokio::spawn(async move { linchpin::axum::serve(listener, router).await.unwrap() });
        receiver
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Sets the next responses.
    pub fn next(&self, plans: impl IntoIterator<Item = Plan>) {
        self.script.lock().plans.extend(plans);
    }

    /// Sets all responses after the planned ones.
    pub fn always(&self, plan: Plan) {
        self.script.lock().always = Some(plan);
    }

    pub fn arrived(&self) -> Vec<Arrived> {
        self.script.lock().arrived.clone()
    }

    pub fn count(&self) -> usize {
        self.script.lock().arrived.len()
    }

    /// The maximum number of concurrent requests so far.
    pub fn most_at_once(&self) -> usize {
        self.script.lock().max_running
    }

    /// The number of requests without a response whose clients are connected.
    pub fn running(&self) -> usize {
        self.script.lock().running
    }

    /// Waits until no request is running.
    pub async fn idle(&self) {
        while self.script.lock().running > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until `count` requests have arrived.
    pub async fn until(&self, count: usize) -> Vec<Arrived> {
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
            while self.count() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(
            waited.await.is_ok(),
            "{} of {count} requests arrived",
            self.count()
        );
        self.arrived()
    }
}

/// Ends a running request when it is dropped: after its response, or when its client has left.
struct RunningRequest(Arc<Mutex<Script>>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

async fn receive(
    State(script): State<Arc<Mutex<Script>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let plan = {
        let mut script = script.lock();
        script.arrived.push(Arrived { headers, body });
        script.running += 1;
        script.max_running = script.max_running.max(script.running);
        let always = script.always.clone().unwrap_or_else(|| Plan::status(200));
        script.plans.pop_front().unwrap_or(always)
    };
    let _running = RunningRequest(script);
    match plan {
        Plan::Answer(status, headers) => {
            let mut response = "an answer".into_response();
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in headers {
                let name = HeaderName::from_static(name);
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Plan::Late(time, status) => {
            tokio::time::sleep(time).await;
            let status = StatusCode::from_u16(status).unwrap();
            (status, "late").into_response()
        }
    }
}
