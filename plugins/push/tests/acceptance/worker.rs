//! The service worker in a browser, with a fake push manager.

use std::sync::Arc;
use std::time::Duration;

use linchpin::axum::body::to_bytes;
use linchpin::axum::extract::{Request, State};
use linchpin::axum::http::header::CONTENT_TYPE;
use linchpin::axum::{Json as Body, Router, routing};
use linchpin::testing::Client;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::bed::Bed;
use crate::chromium::Browser;

/// Requests as method, path and body.
type Kept = Arc<Mutex<Vec<Json>>>;

/// A server of pages that keeps the requests of the service worker.
async fn pages(worker: String) -> (String, Kept) {
    let kept = Kept::default();
    let script = move || {
        let worker = worker.clone();
        async move { ([(CONTENT_TYPE, "text/javascript")], worker) }
    };
    let router = Router::new()
        .route("/", routing::get(async || "a page"))
        .route("/favicon.ico", routing::get(async || ""))
        .route("/sw.js", routing::get(script))
        .route(
            "/__push/vapid-public-key",
            routing::get(async || Body(json!({ "publicKey": "AQID" }))),
        )
        .fallback(keep)
        .with_state(Arc::clone(&kept));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { linchpin::axum::serve(listener, router).await.unwrap() });
    (origin, kept)
}

async fn keep(State(kept): State<Kept>, request: Request) -> Body<Json> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 65_536).await.unwrap();
    let body: Json = serde_json::from_slice(&body).unwrap_or_default();
    let kind = parts
        .headers
        .get(CONTENT_TYPE)
        .map(|kind| kind.to_str().unwrap());
    kept.lock()
        .push(json!([parts.method.as_str(), parts.uri.path(), kind, body]));
    Body(json!({ "ok": true }))
}

async fn until(kept: &Kept, count: usize) -> Vec<Json> {
    for _ in 0..1_000 {
        if kept.lock().len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    std::mem::take(&mut kept.lock())
}

/// Waits for a notification with a title, and returns what it shows.
async fn shown(browser: &mut Browser, title: &str) -> Json {
    browser
        .run(&format!(
            "(async () => {{
                const worker = await navigator.serviceWorker.ready;
                for (let i = 0; i < 1000; i++) {{
                    const all = await worker.getNotifications();
                    const one = all.find((one) => one.title === {title:?});
                    if (one) {{
                        const {{ body, tag, data }} = one;
                        return {{ body, tag, data, count: all.length }};
                    }}
                    await new Promise((done) => setTimeout(done, 10));
                }}
            }})()"
        ))
        .await
}

/// Gives a message to the service worker, and waits until it is done.
async fn push(browser: &mut Browser, data: &str) {
    browser
        .run_in_worker(&format!(
            "(async () => {{
                const event = new PushEvent('push', {{ data: {data:?} }});
                let done;
                event.waitUntil = (promise) => (done = promise);
                dispatchEvent(event);
                await done;
            }})()"
        ))
        .await;
}

/// Clicks on the notification with a title, and returns what was opened.
async fn clicked(browser: &mut Browser, title: &str) -> Json {
    browser
        .run_in_worker(&format!(
            "(async () => {{
                const opened = [];
                clients.openWindow = async (url) => opened.push(url);
                WindowClient.prototype.focus = async function () {{
                    opened.push('focus ' + this.url);
                }};
                const all = await registration.getNotifications();
                const notification = all.find((one) => one.title === {title:?});
                const event = new NotificationEvent('notificationclick', {{ notification }});
                let done;
                event.waitUntil = (promise) => (done = promise);
                dispatchEvent(event);
                await done;
                const left = await registration.getNotifications();
                return {{ opened, left: left.filter((one) => one.title === {title:?}).length }};
            }})()"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_worker_shows_messages_and_opens_their_pages() {
    let bed = Bed::start().await;
    let worker = Client::new(&bed.app).get("/sw.js").await.unwrap();
    let (origin, kept) = pages(worker.text().unwrap().to_owned()).await;
    let mut browser = Browser::start().await;
    let permission = json!({ "origin": origin, "permissions": ["notifications"] });
    browser.call("Browser.grantPermissions", permission).await;
    browser.open(&origin).await;
    browser
        .run(
            "(async () => {
                await navigator.serviceWorker.register('/sw.js');
                const { active } = await navigator.serviceWorker.ready;
                while (active.state !== 'activated') {
                    await new Promise((done) => setTimeout(done, 10));
                }
            })()",
        )
        .await;
    let message = |title: &str, url: &str| {
        json!({
            "title": title, "body": "Text", "tag": title,
            "data": { "url": url, "deliveryId": format!("id of {title}") },
        })
        .to_string()
    };

    push(&mut browser, &message("Order", "/orders/1")).await;
    let order = shown(&mut browser, "Order").await;
    assert_eq!(
        (&order["body"], &order["tag"]),
        (&json!("Text"), &json!("Order"))
    );
    assert_eq!(order["data"]["url"], "/orders/1");
    let ack = json!([
        "POST",
        "/__push/ack/id%20of%20Order",
        "application/json",
        null
    ]);
    assert_eq!(until(&kept, 1).await, [ack]);
    // The same message again is shown once.
    push(&mut browser, &message("Order", "/orders/1")).await;
    assert_eq!(until(&kept, 1).await.len(), 1);
    assert_eq!(shown(&mut browser, "Order").await["count"], 1);

    let opened = clicked(&mut browser, "Order").await;
    assert_eq!(
        opened,
        json!({ "opened": [format!("{origin}/orders/1")], "left": 0 })
    );
    for foreign in [
        "https://evil.example/x",
        "//evil.example",
        "javascript:alert(1)",
    ] {
        push(&mut browser, &message("Foreign", foreign)).await;
        shown(&mut browser, "Foreign").await;
        let opened = clicked(&mut browser, "Foreign").await;
        assert_eq!(
            opened["opened"],
            json!([format!("focus {origin}/")]),
            "{foreign}"
        );
    }

    until(&kept, 3).await;
    push(&mut browser, "no JSON").await;
    assert_eq!(
        shown(&mut browser, "New notification").await["body"],
        "no JSON"
    );

    let renewed = browser
        .run_in_worker(
            "(async () => {
                let asked;
                registration.pushManager.subscribe = async (options) => {
                    asked = [...options.applicationServerKey];
                    const endpoint = 'https://push.example/new';
                    return { endpoint, toJSON: () => ({ endpoint, keys: { auth: 'x' } }) };
                };
                const event = new ExtendableEvent('pushsubscriptionchange');
                event.oldSubscription = { endpoint: 'https://push.example/old' };
                let done;
                event.waitUntil = (promise) => (done = promise);
                dispatchEvent(event);
                await done;
                return asked;
            })()",
        )
        .await;
    assert_eq!(renewed, json!([1, 2, 3]), "the key of the server");
    let body = json!({
        "endpoint": "https://push.example/new", "keys": { "auth": "x" }, "vapidPublicKey": "AQID",
    });
    assert_eq!(
        until(&kept, 2).await,
        [
            json!(["POST", "/__push/subscribe", "application/json", body]),
            json!(["DELETE", "/__push/subscribe", "application/json",
                { "endpoint": "https://push.example/old" }]),
        ]
    );
    browser.stop().await;
}
