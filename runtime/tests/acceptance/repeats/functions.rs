//! Functions of the app under an idempotency key, and clients that disconnect during a call.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use linchpin::prelude::*;
use linchpin::{Adapters, Cx};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::{Order, OrderCreate, check_equal, count, key, replayed, send};
use crate::server::{Reply, Server};

/// The number of calls of each function, by a name in the request.
static CALLS: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);
/// The signals that release waiting calls, by a name in the request.
static HELD: LazyLock<Mutex<HashMap<String, Arc<Notify>>>> = LazyLock::new(Mutex::default);

fn count_call(name: &str) -> usize {
    *CALLS
        .lock()
        .unwrap()
        .entry(name.to_owned())
        .and_modify(|n| *n += 1)
        .or_insert(1)
}

fn calls(name: &str) -> usize {
    CALLS.lock().unwrap().get(name).copied().unwrap_or_default()
}

fn wait_for_release(name: &str) -> Arc<Notify> {
    Arc::clone(HELD.lock().unwrap().entry(name.to_owned()).or_default())
}

#[derive(serde::Deserialize)]
struct Instruction {
    name: String,
    /// The behaviour of the function.
    how: String,
}

/// A function of the app whose parameter selects its behaviour.
#[route(entity = Order, method = "POST", path = "act")]
pub(super) async fn act(
    axum::Extension(cx): axum::Extension<Cx>,
    axum::Extension(adapters): axum::Extension<Adapters>,
    axum::Json(instruction): axum::Json<Instruction>,
) -> linchpin::Result<Response> {
    let times = count_call(&instruction.name);
    match instruction.how.as_str() {
        "panic" if times == 1 => panic!("as told"),
        "fail" if times == 1 => return Err(linchpin::Error::unavailable("as told")),
        "refuse" => return Err(linchpin::Error::not_found()),
        "hold" => {
            adapters
                .get::<Order>()?
                .create(&cx, order(&instruction.name))
                .await?;
            wait_for_release(&instruction.name).notified().await;
        }
        "stream" => {
            let pieces = futures_util::stream::iter(
                (0..3).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"piece "))),
            );
            return Ok(Body::from_stream(pieces).into_response());
        }
        "cookie" => {
            return Ok((
                StatusCode::ACCEPTED,
                [("set-cookie", "a=b"), ("etag", "\"x\"")],
                "text",
            )
                .into_response());
        }
        "large" => return Ok(vec![b'x'; (2 << 20) + 1].into_response()),
        _ => {}
    }
    Ok(axum::Json(json!({"times": times})).into_response())
}

fn order(number: &str) -> OrderCreate {
    OrderCreate {
        number: number.to_owned(),
        amount: None,
        card: None,
    }
}

pub(super) async fn responses_of_functions_are_replayed(s: &Server) {
    let act_as = async |how: &str, key: &str, name: &str| {
        send(
            s,
            "POST",
            "/orders/act",
            key,
            &json!({"name": name, "how": how}),
        )
        .await
    };
    let (idempotency_key, name) = (key("cookie"), key("cookie"));
    let first = act_as("cookie", &idempotency_key, &name).await;
    assert_eq!(
        (first.status, &*first.header("set-cookie"), &*first.body),
        (202, "a=b", &b"text"[..])
    );
    let again = act_as("cookie", &idempotency_key, &name).await;
    check_equal(&first, &again);
    // Other headers are not stored: they may be secret.
    assert!(!again.headers.contains_key("set-cookie"));
    assert_eq!(calls(&name), 1);
    let (idempotency_key, name) = (key("refuse"), key("refuse"));
    let refused = act_as("refuse", &idempotency_key, &name).await;
    assert_eq!(refused.code(), (404, "not_found"));
    assert_eq!(refused.json()["requestId"], refused.header("x-request-id"));
    check_equal(&refused, &act_as("refuse", &idempotency_key, &name).await);
    assert_eq!(calls(&name), 1);
    // A response that cannot be stored is sent only once. A repeated call is a conflict, and the
    // function does not run again.
    for how in ["stream", "large"] {
        let (idempotency_key, name) = (key(how), key(how));
        let first = act_as(how, &idempotency_key, &name).await;
        assert_eq!(
            (first.status, first.body.len()),
            (200, if how == "large" { (2 << 20) + 1 } else { 18 })
        );
        assert_eq!(
            act_as(how, &idempotency_key, &name).await.code(),
            (409, "idempotency_conflict")
        );
        assert_eq!(calls(&name), 1);
    }
}

/// Sends a call, and does not read the response.
async fn begin_call(s: &Server, path: &str, key: &str, body: &Json) -> TcpStream {
    let (text, mut socket) = (
        body.to_string(),
        TcpStream::connect(s.running().address()).await.unwrap(),
    );
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

/// The response to a call after the previous one is done.
async fn wait_for_response(s: &Server, path: &str, key: &str, body: &Json) -> Reply {
    loop {
        let reply = send(s, "POST", path, key, body).await;
        if reply.status != 409 {
            return reply;
        }
        assert_eq!(reply.code().1, "idempotency_in_progress");
    }
}

pub(super) async fn a_call_continues_after_its_client_disconnects(s: &Server) {
    let (idempotency_key, name) = (key("hold"), key("hold"));
    let body = json!({"name": name, "how": "hold"});
    let socket = begin_call(s, "/orders/act", &idempotency_key, &body).await;
    while s.walk("/orders").await.is_empty() {
        tokio::task::yield_now().await;
    }
    // The client writes the request and disconnects before the response.
    drop(socket);
    let busy = send(s, "POST", "/orders/act", &idempotency_key, &body).await;
    assert_eq!(busy.code(), (409, "idempotency_in_progress"));
    wait_for_release(&name).notify_one();
    let answer = wait_for_response(s, "/orders/act", &idempotency_key, &body).await;
    assert_eq!(
        (answer.status, replayed(&answer), answer.json()),
        (200, true, json!({"times": 1}))
    );
    assert_eq!((calls(&name), count(s).await), (1, 1));
    // The same check for a generated route: even if the client disconnects at any time, there is
    // exactly one order and one response.
    for round in 0..20 {
        let (idempotency_key, body) = (key("leave"), json!({"number": format!("left-{round}")}));
        let mut socket = begin_call(s, "/orders", &idempotency_key, &body).await;
        if round % 2 == 0 {
            let mut byte = [0; 1];
            // The response has begun.
            let _ = socket.read(&mut byte).await;
        }
        drop(socket);
        assert_eq!(
            wait_for_response(s, "/orders", &idempotency_key, &body)
                .await
                .status,
            201
        );
        assert_eq!(count(s).await, round + 2);
    }
}
