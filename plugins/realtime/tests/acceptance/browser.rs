//! Tests with pages in Chromium: the cookie of a session opens sockets and streams only for pages
//! of the app.

use linchpin::axum::response::Html;
use linchpin::axum::{Router, routing};
use linchpin_auth::NewUser;
use serde_json::{Value as Json, json};

use crate::chromium::Browser;
use crate::test_app::{TestApp, created, room};

const PASSWORD: &str = "seven purple anchors 41";

/// Functions for pages: `connect` opens a WebSocket, `listen` opens a stream of events, and `until`
/// waits for a frame or an event by its name. The end of a socket or a stream has the name
/// `closed`.
const SCRIPT: &str = "
    window.seen = [];
    window.connect = (url) => {
        window.socket = new WebSocket(url, 'linchpin.v1');
        socket.onmessage = ({ data }) => seen.push(JSON.parse(data));
        socket.onclose = ({ code, reason }) => seen.push({ event: 'closed', code, reason });
    };
    window.listen = (url, ...events) => {
        window.source = new EventSource(url, { withCredentials: true });
        source.onopen = () => seen.push({ event: 'open' });
        source.onerror = () =>
            source.readyState === EventSource.CLOSED && seen.push({ event: 'closed' });
        for (const event of events) {
            source.addEventListener(event, ({ data }) =>
                seen.push({ event, data: JSON.parse(data) }));
        }
    };
    window.until = async (event) => {
        for (let i = 0; i < 4000; i++) {
            const at = seen.findIndex((one) => one.event === event);
            if (at >= 0) return seen.splice(at, 1)[0];
            await new Promise((done) => setTimeout(done, 5));
        }
        throw new Error(`${event} does not come: ${JSON.stringify(seen)}`);
    };
    window.post = (path, body, headers) => fetch(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
    }).then((answer) => answer.status);
    window.csrf = () => ({
        'x-csrf-token': decodeURIComponent(document.cookie.match(/csrf_token=([^;]*)/)?.[1] ?? ''),
    });
    0";

/// Opens a page with the functions of [`SCRIPT`].
async fn load(browser: &mut Browser, url: &str) {
    browser.open(url).await;
    browser.run(SCRIPT).await;
}

async fn until(browser: &mut Browser, event: &str) -> Json {
    browser.run(&format!("until({event:?})")).await
}

/// Starts a server of an empty page. Returns its port.
async fn pages() -> u16 {
    let router = Router::new().fallback(routing::get(async || Html("<p>a page")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { linchpin::axum::serve(listener, router).await.unwrap() });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cookie_opens_connections_only_for_pages_of_the_app() {
    let test_app = TestApp::start().await;
    let new = NewUser::new("ada@x.test").password(PASSWORD);
    let account = new.roles(["member"]).verified();
    let account = test_app.auth.create_user(account).await.unwrap();
    let ada = test_app.session(&account.id).await;
    let container = test_app.container(&ada, "public").await;
    let own = format!("http://localhost:{}", test_app.app.address().port());
    let page = format!("{own}/health/live");
    let socket = format!("ws://localhost:{}/__ws", test_app.app.address().port());
    let mut browser = Browser::start().await;
    load(&mut browser, &page).await;
    let login = json!({ "email": "ada@x.test", "password": PASSWORD });
    let status = browser.run(&format!("post('/auth/login', {login})")).await;
    assert_eq!(status, 200);
    let visible = browser.run("document.cookie").await;
    assert!(!visible.as_str().unwrap().contains("__Host-"), "{visible}");

    browser.run(&format!("connect({socket:?})")).await;
    let connected = until(&mut browser, "connected").await;
    assert_eq!(
        (&connected["userId"], &connected["pending"]),
        (&json!(ada.id), &json!(false))
    );
    let join = json!({ "action": "subscribe", "room": room(&container) }).to_string();
    browser.run(&format!("socket.send({join:?})")).await;
    until(&mut browser, "subscribed").await;
    let thread = test_app.draft(&ada, &container).await;
    let frame = until(&mut browser, "threads.created").await;
    assert_eq!(frame["payload"]["id"], thread);
    browser.run("listen('/__sse/tasks', 'tasks.created')").await;
    until(&mut browser, "open").await;
    let task = ada.http.post("/tasks", json!({ "title": "one" })).await;
    let task = created(task.unwrap());
    let event = until(&mut browser, "tasks.created").await;
    assert_eq!(event["data"]["id"], task);
    // The page cannot read its token, so it extends the connection with its cookie.
    let id = json!({ "connectionId": connected["id"] });
    let refresh = format!("post('/__ws/refresh', {id}, csrf())");
    assert_eq!(browser.run(&refresh).await, 204);
    assert_eq!(
        until(&mut browser, "auth:authenticated").await["refreshed"],
        true
    );

    // A sandboxed frame within a page of the app has no origin.
    let sandboxed = format!(
        "new Promise((done) => {{
            onmessage = ({{ data }}) => done(data);
            const frame = document.createElement('iframe');
            frame.sandbox = 'allow-scripts';
            frame.srcdoc = `<script>
                const socket = new WebSocket({socket:?});
                socket.onmessage = () => parent.postMessage('open', '*');
                socket.onclose = () => parent.postMessage('closed', '*');
            </script>`;
            document.body.append(frame);
        }})"
    );
    assert_eq!(browser.run(&sandboxed).await, "closed");

    // The browser keeps a page, and its connections, for some time after it has left the page.
    browser
        .run("source.close(); socket.close(1000, 'done')")
        .await;
    let closed = json!({ "event": "closed", "code": 1000, "reason": "done" });
    assert_eq!(until(&mut browser, "closed").await, closed);
    test_app.wait_for_connections(0).await;

    // Another port is another origin of the same site, so the browser sends the cookie. Another
    // host is another site.
    let port = pages().await;
    for foreign in ["localhost", "127.0.0.1"] {
        load(&mut browser, &format!("http://{foreign}:{port}/")).await;
        browser.run(&format!("connect({socket:?})")).await;
        assert_eq!(until(&mut browser, "closed").await["code"], 1006);
        browser.run(&format!("listen('{own}/__sse/tasks')")).await;
        until(&mut browser, "closed").await;
        let read = format!(
            "fetch('{own}/tasks', {{ credentials: 'include' }}).then(() => 'read', () => 'no')"
        );
        assert_eq!(browser.run(&read).await, "no", "{foreign}");
        // Requests that a browser sends without a CORS preflight.
        for (path, body) in [
            ("/tasks", json!({ "title": "forged" })),
            ("/__ws/refresh", id.clone()),
        ] {
            for kind in ["text/plain", "application/x-www-form-urlencoded"] {
                let body = body.to_string();
                let forged = format!(
                    "fetch('{own}{path}', {{ method: 'POST', mode: 'no-cors',
                        credentials: 'include', headers: {{ 'content-type': {kind:?} }},
                        body: {body:?} }}).then((answer) => answer.type)"
                );
                assert_eq!(browser.run(&forged).await, "opaque");
            }
        }
        let tasks = ada.http.get("/tasks").await.unwrap().json().unwrap();
        assert_eq!(tasks["items"].as_array().unwrap().len(), 1, "{tasks}");
        assert_eq!(test_app.connections(), 0);
    }

    load(&mut browser, &page).await;
    browser.run(&format!("connect({socket:?})")).await;
    until(&mut browser, "connected").await;
    test_app.auth.revoke_sessions(&ada.id).await.unwrap();
    let closed = json!({ "event": "closed", "code": 4401, "reason": "session_ended" });
    assert_eq!(until(&mut browser, "closed").await, closed);
    browser.run(&format!("connect({socket:?})")).await;
    assert_eq!(until(&mut browser, "closed").await["code"], 1006);
    browser.run("listen('/__sse/tasks')").await;
    until(&mut browser, "closed").await;
    browser.stop().await;
}
