//! Tests of the service worker in a browser, with a fake push manager.

use std::sync::Arc;
use std::time::Duration;

use linchpin::axum::body::to_bytes;
use linchpin::axum::extract::{Request, State};
use linchpin::axum::http::header::CONTENT_TYPE;
use linchpin::axum::{Json as Body, Router, routing};
use linchpin::testing::Client;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::chromium::Browser;
use crate::test_app::TestApp;

/// The method, path, content type and body of each request.
type Requests = Arc<Mutex<Vec<Json>>>;

/// Starts a server of pages, and returns its origin and the requests that the service worker sends.
async fn pages(worker: String) -> (String, Requests) {
    let requests = Requests::default();
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
        .fallback(record_request)
        .with_state(Arc::clone(&requests));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { linchpin::axum::serve(listener, router).await.unwrap() });
    (origin, requests)
}

async fn record_request(State(requests): State<Requests>, request: Request) -> Body<Json> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 65_536).await.unwrap();
    let body: Json = serde_json::from_slice(&body).unwrap_or_default();
    let content_type = parts
        .headers
        .get(CONTENT_TYPE)
        .map(|content_type| content_type.to_str().unwrap());
    requests.lock().push(json!([
        parts.method.as_str(),
        parts.uri.path(),
        content_type,
        body
    ]));
    Body(json!({ "ok": true }))
}

/// Waits up to a minute for this number of requests, then removes and returns all that have arrived.
async fn until(requests: &Requests, count: usize) -> Vec<Json> {
    for _ in 0..6_000 {
        if requests.lock().len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    std::mem::take(&mut requests.lock())
}

/// Waits for a notification with a title, and returns its content.
async fn wait_for_notification(browser: &mut Browser, title: &str) -> Json {
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

/// Passes a message to the service worker, and waits until it is handled.
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

/// Clicks on the notification with a title. Returns the URLs that were opened or focused, and the
/// number of notifications with this title that are left.
async fn click_notification(browser: &mut Browser, title: &str) -> Json {
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
    let test_app = TestApp::start().await;
    let worker = Client::new(&test_app.app).get("/sw.js").await.unwrap();
    let (origin, requests) = pages(worker.text().unwrap().to_owned()).await;
    let mut browser = Browser::start_complete().await;
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
    let order = wait_for_notification(&mut browser, "Order").await;
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
    assert_eq!(until(&requests, 1).await, [ack]);
    // A message that arrives twice is shown once.
    push(&mut browser, &message("Order", "/orders/1")).await;
    assert_eq!(until(&requests, 1).await.len(), 1);
    assert_eq!(
        wait_for_notification(&mut browser, "Order").await["count"],
        1
    );

    let opened = click_notification(&mut browser, "Order").await;
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
        wait_for_notification(&mut browser, "Foreign").await;
        let opened = click_notification(&mut browser, "Foreign").await;
        assert_eq!(
            opened["opened"],
            json!([format!("focus {origin}/")]),
            "{foreign}"
        );
    }

    // Removes the acknowledgements of these three messages.
    until(&requests, 3).await;
    push(&mut browser, "no JSON").await;
    assert_eq!(
        wait_for_notification(&mut browser, "New notification").await["body"],
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
    assert_eq!(
        renewed,
        json!([1, 2, 3]),
        "the worker did not subscribe with the key of the server"
    );
    let body = json!({
        "endpoint": "https://push.example/new", "keys": { "auth": "x" }, "vapidPublicKey": "AQID",
    });
    assert_eq!(
        until(&requests, 2).await,
        [
            json!(["POST", "/__push/subscribe", "application/json", body]),
            json!(["DELETE", "/__push/subscribe", "application/json",
                { "endpoint": "https://push.example/old" }]),
        ]
    );
    browser.stop().await;
}
